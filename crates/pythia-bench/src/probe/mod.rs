//! What a device can do: `pythia probe`.
//!
//! The path paper's Appendix B ([`single`]: ten thousand single reads, then writes), rates and sweet
//! spots ([`rates`]), the baselines and nine micro-benchmarks of uFLIP ([`uflip`]), and energy
//! ([`energy`]). All of it runs on one nameless file; everything is measured, nothing modelled.

pub mod energy;
pub mod rates;
mod report;
pub mod single;
#[cfg(test)]
mod tests;
pub mod uflip;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::probe::stream::{Run, Transfer};
use pythia_io::probe::{SplitMix, TestFile};
use pythia_io::{DeviceIdentity, DeviceProfile, Origin};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use energy::{CounterReading, PowerCounters};

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the test file; less where the disk has no room.
    pub file_bytes: u64,
    /// About how long it may take altogether, without filling the file.
    pub duration: Duration,
    /// Single reads, and single writes.
    pub singles: usize,
}

impl Options {
    /// A few minutes.
    pub const FULL: Self = Self {
        file_bytes: 1 << 30,
        duration: Duration::from_secs(120),
        singles: 10_000,
    };
    /// A few seconds.
    pub const QUICK: Self = Self {
        file_bytes: 256 << 20,
        duration: Duration::from_secs(6),
        singles: 1_000,
    };
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// The folder probed.
    pub folder: String,
    /// Its device, as far as the system tells.
    pub identity: Option<DeviceIdentity>,
    /// Bytes of the test file.
    pub file_bytes: u64,
    /// Why the figures are of the kernel's cache, if they are.
    pub not_direct: Option<String>,
    /// Single transfers.
    pub single: Vec<single::Singles>,
    /// Bandwidth, sweet spots and the cost of durability.
    pub rates: rates::Rates,
    /// uFLIP.
    pub uflip: Vec<uflip::Experiment>,
    /// What the kernel's power counters counted; empty if there are none.
    pub counters: Vec<CounterReading>,
    /// Seconds that all took, filling the file included.
    pub seconds: f64,
}

/// Measures the device under a folder; `progress` is told each part before it begins.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let machine = Machine::now();
    let started = Instant::now();
    progress("fill a file");
    let file = TestFile::create(folder, options.file_bytes)?;
    let power = PowerCounters::find(Path::new("/sys"));
    let share = |part: f64| options.duration.mul_f64(part);
    progress("single reads and writes");
    let single = single::run(&file, options.singles, share(0.2))?;
    progress("bandwidth, queue depths, durability");
    let rates = rates::run(&file, share(0.25))?;
    progress("uFLIP");
    let uflip = uflip::run(&file, share(0.55))?;
    Ok(Report {
        machine,
        folder: folder.display().to_string(),
        identity: DeviceIdentity::of(folder).ok(),
        file_bytes: file.bytes(),
        not_direct: file.not_direct().map(str::to_owned),
        single,
        rates,
        uflip,
        counters: power.read(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

impl Report {
    /// What a store keeps of it.
    pub fn profile(&self) -> DeviceProfile {
        let rates = &self.rates;
        DeviceProfile {
            origin: Origin::Full,
            identity: self.identity.clone(),
            random: rates.random_reads(),
            sequential_read_bytes: (rates.sequential_read_bytes as u64).max(1),
            sequential_write_bytes: Some((rates.sequential_write_bytes as u64).max(1)),
            sync_ns: Some((rates.fdatasync.p50_us * 1e3) as u64),
        }
    }
}

/// A stream's latencies, summarised.
fn summary(run: &Run) -> LatencySummary {
    latencies(run).summary()
}

fn latencies(run: &Run) -> Latencies {
    let mut latencies = Latencies::default();
    for sample in &run.samples {
        latencies.record(sample.latency);
    }
    latencies
}

/// Random transfers of one size until a number of them, or a time, is over.
fn random(
    file_bytes: u64,
    bytes: usize,
    write: bool,
    count: usize,
    time: Duration,
) -> impl FnMut() -> Option<Transfer> + Send {
    let mut random = SplitMix(bytes as u64 ^ count as u64);
    let places = file_bytes / bytes as u64;
    let mut left = count;
    let begun = Instant::now();
    move || {
        left = left.checked_sub(1)?;
        (begun.elapsed() < time).then(|| Transfer {
            offset: random.below(places) * bytes as u64,
            bytes,
            write,
        })
    }
}
