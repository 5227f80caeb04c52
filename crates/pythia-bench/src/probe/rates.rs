//! Bandwidth, the queue depth at which random reads of each page size are fastest, and the cost of making a small write
//! durable.

use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::AlignedBuffer;
use pythia_io::probe::stream::{self, Measurements, Transfer};
use pythia_io::probe::{RandomReads, TestFile, sweet_spot};
use serde::Serialize;

use super::{random, summary};
use crate::latency::{Latencies, LatencySummary};

/// Page sizes whose sweet spot is measured.
pub const PAGE_BYTES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Depths tried.
pub const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const LARGE: usize = 1 << 20;
const LARGE_DEPTH: usize = 4;
/// Depth of the random transfers for bandwidth.
const RANDOM_DEPTH: usize = 32;
/// Tries of each depth; the best counts, as other users of the device only slow it down.
const ROUNDS: usize = 3;
/// Maximum number of small durable writes of each kind.
const SYNCS: usize = 2000;

/// Rates of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Bytes a second of sequential reads of 1 MiB, four in flight.
    pub sequential_read_bytes: f64,
    /// The same of writes, while the test file was filled.
    pub sequential_write_bytes: f64,
    /// Bytes a second of random reads of 32 KiB, 32 in flight.
    pub random_read_bytes: f64,
    /// The same of writes.
    pub random_write_bytes: f64,
    /// Random reads by page size.
    pub depths: Vec<DepthCurve>,
    /// Latency of a write of 4 KiB and `fdatasync`.
    pub fdatasync: LatencySummary,
    /// Latency of a write of 4 KiB and `fsync`.
    pub fsync: LatencySummary,
}

/// Random reads of one size by queue depth.
#[derive(Clone, Debug, Serialize)]
pub struct DepthCurve {
    /// Bytes of a read.
    pub page_bytes: usize,
    /// The best of three tries at each depth.
    pub steps: Vec<DepthStep>,
    /// The smallest depth with at least 95 % of the best rate.
    pub sweet_spot: u32,
}

/// Random reads of one size at one depth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DepthStep {
    /// Reads in flight.
    pub depth: u32,
    /// Reads a second.
    pub per_second: f64,
    /// Latency of each read.
    pub latency: LatencySummary,
}

pub(super) fn run(file: &TestFile, time: Duration) -> Result<Rates> {
    let depth_time = time.mul_f64(0.7) / (PAGE_BYTES.len() * DEPTHS.len() * ROUNDS) as u32;
    let depths = PAGE_BYTES.map(|page_bytes| curve(file, page_bytes, depth_time));
    let large = time.mul_f64(0.08);
    let spread = |write| -> Result<f64> {
        let mut source = random(file.bytes(), PAGE_BYTES[3], write, usize::MAX, large);
        let run = stream::run(file.file(), RANDOM_DEPTH, PAGE_BYTES[3], &mut source)?;
        Ok(run.bytes_per_second())
    };
    Ok(Rates {
        sequential_read_bytes: sequential_reads(file, large)?.bytes_per_second(),
        sequential_write_bytes: file.fill().bytes_per_second(),
        random_read_bytes: spread(false)?,
        random_write_bytes: spread(true)?,
        depths: depths.into_iter().collect::<Result<_>>()?,
        fdatasync: durable(file, time.mul_f64(0.03), std::fs::File::sync_data)?,
        fsync: durable(file, time.mul_f64(0.03), std::fs::File::sync_all)?,
    })
}

fn curve(file: &TestFile, page_bytes: usize, time: Duration) -> Result<DepthCurve> {
    let mut best: [Option<DepthStep>; DEPTHS.len()] = [None; DEPTHS.len()];
    for _ in 0..ROUNDS {
        for (depth, best) in DEPTHS.into_iter().zip(&mut best) {
            let mut source = random(file.bytes(), page_bytes, false, usize::MAX, time);
            let run = stream::run(file.file(), depth as usize, page_bytes, &mut source)?;
            let step = DepthStep {
                depth,
                per_second: run.per_second(),
                latency: summary(&run),
            };
            if best.is_none_or(|best| best.per_second < step.per_second) {
                *best = Some(step);
            }
        }
    }
    let steps: Vec<DepthStep> = best.into_iter().flatten().collect();
    let rates: Vec<(u32, f64)> = steps.iter().map(|s| (s.depth, s.per_second)).collect();
    Ok(DepthCurve {
        page_bytes,
        sweet_spot: sweet_spot(&rates).0,
        steps,
    })
}

fn sequential_reads(file: &TestFile, time: Duration) -> Result<Measurements> {
    let places = file.bytes() / LARGE as u64;
    let mut place = 0;
    let begun = Instant::now();
    let mut source = || {
        let offset = place % places * LARGE as u64;
        place += 1;
        (begun.elapsed() < time).then_some(Transfer {
            offset,
            bytes: LARGE,
            write: false,
        })
    };
    Ok(stream::run(file.file(), LARGE_DEPTH, LARGE, &mut source)?)
}

/// Measures sequential small writes, each made durable before the next.
fn durable(
    file: &TestFile,
    time: Duration,
    sync: impl Fn(&std::fs::File) -> std::io::Result<()>,
) -> Result<LatencySummary> {
    use std::os::unix::fs::FileExt;
    let page = AlignedBuffer::zeroed(4096);
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    for number in 0..SYNCS as u64 {
        let start = begun.elapsed();
        file.file()
            .write_all_at(&page, number % (file.bytes() / 4096) * 4096)?;
        sync(file.file())?;
        latencies.record(begun.elapsed() - start);
        if begun.elapsed() > time {
            break;
        }
    }
    Ok(latencies.summary())
}

impl Rates {
    /// Returns sweet spots as a store keeps them.
    pub(super) fn random_reads(&self) -> Vec<RandomReads> {
        let reads = |curve: &DepthCurve| {
            let rates: Vec<(u32, f64)> = curve
                .steps
                .iter()
                .map(|step| (step.depth, step.per_second.max(1.0)))
                .collect();
            let alone_ns = (curve.steps[0].latency.p50_us * 1e3) as u64;
            RandomReads::new(curve.page_bytes as u64, alone_ns.max(1), &rates)
        };
        self.depths.iter().map(reads).collect()
    }
}
