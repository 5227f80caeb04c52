//! The Pythia paper's Appendix B: single 4 KiB reads, then writes, at random places, one after the other, bypassing all
//! caches (`O_DIRECT | O_SYNC`).

use std::time::Duration;

use anyhow::Result;
use pythia_io::probe::TestFile;
use pythia_io::probe::stream;
use serde::Serialize;

use super::{latencies, random};
use crate::latency::LatencySummary;

const BYTES: usize = 4096;
/// Multiple of the median from which a transfer is an outlier.
const OUTLIER: f64 = 10.0;

/// Single transfers of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Singles {
    /// True for writes.
    pub write: bool,
    /// Mean and percentiles.
    pub latency: LatencySummary,
    /// Standard deviation.
    pub deviation_us: f64,
    /// Transfers that took ten times the median or more.
    pub outliers: usize,
    /// Every latency in microseconds, in order.
    pub microseconds: Vec<f32>,
}

/// Runs reads, then writes, `count` of each or as many as half the time allows.
pub(super) fn run(file: &TestFile, count: usize, time: Duration) -> Result<Vec<Singles>> {
    [false, true]
        .into_iter()
        .map(|write| {
            let mut source = random(file.bytes(), BYTES, write, count, time / 2);
            let run = stream::run(file.synchronous(), 1, BYTES, &mut source)?;
            let all = latencies(&run);
            Ok(Singles::new(write, all.summary(), all.microseconds()))
        })
        .collect()
}

impl Singles {
    fn new(write: bool, latency: LatencySummary, all: impl Iterator<Item = f64>) -> Self {
        let all: Vec<f64> = all.collect();
        let squares: f64 = all.iter().map(|us| (us - latency.mean_us).powi(2)).sum();
        let outliers = all.iter().filter(|us| **us >= OUTLIER * latency.p50_us);
        Self {
            write,
            deviation_us: (squares / (all.len() as f64).max(1.0)).sqrt(),
            outliers: outliers.count(),
            latency,
            microseconds: all.iter().map(|us| *us as f32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Latencies;

    #[test]
    fn outliers_and_deviation_are_told() {
        let mut latencies = Latencies::default();
        for us in [50, 50, 50, 50, 550] {
            latencies.record(Duration::from_micros(us));
        }
        let singles = Singles::new(true, latencies.summary(), latencies.microseconds());
        assert_eq!((singles.outliers, singles.deviation_us), (1, 200.0));
        assert_eq!(singles.latency.mean_us, 150.0);
    }
}
