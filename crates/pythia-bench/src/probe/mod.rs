//! The performance of a device: `pythia probe`.
//!
//! The probe runs the Pythia paper's Appendix B ([`single`]: ten thousand single reads, then writes), rates and sweet
//! spots ([`rates`]), the baselines and nine micro-benchmarks of uFLIP ([`uflip`]), and energy ([`energy`]), on one
//! unnamed file. With a trace of the power meanwhile, [`patterns`] finds the energy of each pattern. Everything is measured, nothing modelled.

pub mod energy;
pub mod patterns;
pub mod rates;
mod report;
pub mod single;
#[cfg(test)]
mod tests;
pub mod uflip;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::probe::stream::{Measurements, Transfer};
use pythia_io::probe::{SplitMix, TestFile};
use pythia_io::{DeviceIdentity, DeviceProfile, Origin};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use energy::{CounterReading, PowerCounters};
use patterns::Pauses;

/// Parameters of the probe.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of the test file; fewer if the disk has no room.
    pub file_bytes: u64,
    /// Approximate total duration, without filling the file.
    pub duration: Duration,
    /// Number of single reads, and of single writes.
    pub singles: usize,
    /// Pauses after the runs of uFLIP.
    pub pauses: Pauses,
}

impl Options {
    /// Options for a probe of a few minutes.
    pub const FULL: Self = Self {
        file_bytes: 1 << 30,
        duration: Duration::from_secs(120),
        singles: 10_000,
        pauses: Pauses::NONE,
    };
    /// Options for a probe of a few seconds.
    pub const QUICK: Self = Self {
        file_bytes: 256 << 20,
        duration: Duration::from_secs(6),
        singles: 1_000,
        pauses: Pauses::NONE,
    };
}

/// Results of the probe.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The folder probed.
    pub folder: String,
    /// Its device, if the system identifies it.
    pub identity: Option<DeviceIdentity>,
    /// Bytes of the test file.
    pub file_bytes: u64,
    /// The reason if the figures are of the kernel's cache.
    pub not_direct: Option<String>,
    /// Single transfers.
    pub single: Vec<single::Singles>,
    /// Bandwidth, sweet spots and the cost of durability.
    pub rates: rates::Rates,
    /// Results of uFLIP.
    pub uflip: Vec<uflip::Experiment>,
    /// Readings of the kernel's power counters; empty if there are none.
    pub counters: Vec<CounterReading>,
    /// Total duration in seconds, including filling the file.
    pub seconds: f64,
}

/// Measures the device of a folder; `progress` gets the name of each part before it begins.
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
    let uflip = uflip::run(&file, share(0.55), &options.pauses, started)?;
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
    /// Returns the profile that a store keeps.
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

/// Summarises a stream's latencies.
fn summary(run: &Measurements) -> LatencySummary {
    latencies(run).summary()
}

fn latencies(run: &Measurements) -> Latencies {
    let mut latencies = Latencies::default();
    for sample in &run.samples {
        latencies.record(sample.latency);
    }
    latencies
}

/// Runs random transfers of one size up to a number or a time.
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
