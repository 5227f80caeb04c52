//! The device's own reads, by size: what a small read costs, and from which size of a minipage on a scan of one attribute can
//! gain.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::ALIGNMENT;
use pythia_io::probe::stream::{self, Measurements, Transfer};
use pythia_io::probe::{SplitMix, TestFile, sweet_spot};
use serde::Serialize;

use super::relation::ATTRIBUTES;
use super::scan::MINIPAGE_BYTES;

/// Depths tried.
const DEPTHS: [u32; 3] = [32, 64, 128];
/// Size and depth of sequential reads: those of a scan's batches.
const SEQUENTIAL_BYTES: usize = 256 << 10;
const SEQUENTIAL_DEPTH: usize = 32;

/// The device's reads.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// The reason why the figures are those of the kernel's cache, if they are.
    pub not_direct: Option<String>,
    /// Bytes a second of sequential reads.
    pub sequential_bytes: f64,
    /// Random reads of each of [`MINIPAGE_BYTES`]; a size is missing if the device refuses it.
    pub reads: Vec<Reads>,
}

/// Random reads of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reads {
    /// Bytes of a read.
    pub bytes: usize,
    /// The smallest depth with about the best rate.
    pub depth: u32,
    /// Reads a second.
    pub per_second: f64,
    /// Computed: the time to read pages with this size of minipages in sequence, divided by that to read one minipage of
    /// each. Below 1, a scan of one attribute is slower than a scan of whole pages.
    pub gain_of_one: f64,
}

/// Measures the device of a folder by streams of reads of a file without a name, each of a duration of `time`.
pub(super) fn measure(folder: &Path, file_bytes: u64, time: Duration) -> Result<Device> {
    let file = TestFile::create(folder, file_bytes)?;
    let sequential_bytes = sequential(&file, time)?.bytes_per_second();
    let mut reads = Vec::new();
    for bytes in MINIPAGE_BYTES {
        let mut rates = Vec::new();
        for depth in DEPTHS {
            // A device may have no blocks that are so small.
            if let Ok(run) = random(&file, bytes, depth as usize, time) {
                rates.push((depth, run.per_second()));
            }
        }
        if rates.is_empty() {
            continue;
        }
        let (depth, per_second) = sweet_spot(&rates);
        let page_seconds = (ATTRIBUTES * bytes) as f64 / sequential_bytes;
        reads.push(Reads {
            bytes,
            depth,
            per_second,
            gain_of_one: page_seconds * per_second,
        });
    }
    Ok(Device {
        not_direct: file.not_direct().map(str::to_owned),
        sequential_bytes,
        reads,
    })
}

fn random(file: &TestFile, bytes: usize, depth: usize, time: Duration) -> Result<Measurements> {
    let places = file.bytes() / bytes as u64;
    let mut random = SplitMix(depth as u64);
    let begun = Instant::now();
    let mut next = || {
        let offset = random.below(places) * bytes as u64;
        (begun.elapsed() < time).then_some(read(offset, bytes))
    };
    Ok(stream::run(file.file(), depth, bytes, &mut next)?)
}

fn sequential(file: &TestFile, time: Duration) -> Result<Measurements> {
    let places = file.bytes() / SEQUENTIAL_BYTES as u64;
    let mut place = 0;
    let begun = Instant::now();
    let mut next = || {
        let offset = place % places * SEQUENTIAL_BYTES as u64;
        place += 1;
        (begun.elapsed() < 2 * time).then_some(read(offset, SEQUENTIAL_BYTES))
    };
    Ok(stream::run(
        file.file(),
        SEQUENTIAL_DEPTH,
        SEQUENTIAL_BYTES,
        &mut next,
    )?)
}

fn read(offset: u64, bytes: usize) -> Transfer {
    Transfer {
        offset,
        bytes,
        write: false,
    }
}

impl Device {
    /// Returns the bytes that sequential reads transfer in the time that a read of a block costs beyond its own bytes. It is
    /// quicker to read a smaller gap between two places than to read them one by one.
    pub(super) fn bridge_bytes(&self) -> u64 {
        let of_block = self.reads.iter().find(|reads| reads.bytes == ALIGNMENT);
        let rate = of_block.map_or(f64::INFINITY, |reads| reads.per_second);
        (self.sequential_bytes / rate - ALIGNMENT as f64).max(0.0) as u64
    }
}
