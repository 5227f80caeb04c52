//! Latencies of many runs, and their summary.

use std::time::Duration;

use serde::Serialize;

/// All measured latencies: percentiles are exact.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    nanoseconds: Vec<u64>,
}

/// Percentiles by nearest rank, in microseconds; all zero without runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Number of runs.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Maximum.
    pub max_us: f64,
}

impl Latencies {
    /// Adds one run.
    pub fn record(&mut self, latency: Duration) {
        self.nanoseconds
            .push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all runs of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.nanoseconds.extend_from_slice(&other.nanoseconds);
    }

    /// Returns the number of runs.
    pub fn count(&self) -> u64 {
        self.nanoseconds.len() as u64
    }

    /// Returns all runs in the order they were recorded.
    pub fn microseconds(&self) -> impl Iterator<Item = f64> {
        self.nanoseconds.iter().map(|n| *n as f64 / 1e3)
    }

    /// Returns the sum of all runs in microseconds.
    pub fn total_us(&self) -> f64 {
        self.microseconds().sum()
    }

    /// Computes mean and percentiles.
    pub fn summary(&self) -> LatencySummary {
        let mut sorted = self.nanoseconds.clone();
        sorted.sort_unstable();
        let Some(max) = sorted.last() else {
            return LatencySummary::default();
        };
        let sum: f64 = sorted.iter().map(|n| *n as f64).sum();
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted[rank.clamp(1, sorted.len()) - 1] as f64 / 1e3
        };
        LatencySummary {
            count: sorted.len() as u64,
            mean_us: sum / sorted.len() as f64 / 1e3,
            p50_us: rank(0.50),
            p95_us: rank(0.95),
            p99_us: rank(0.99),
            max_us: *max as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut latencies = Latencies::default();
        for us in (1..=100).rev() {
            latencies.record(Duration::from_micros(us));
        }
        let summary = latencies.summary();
        assert_eq!(summary.count, 100);
        assert_eq!(summary.p50_us, 50.0);
        assert_eq!(summary.p95_us, 95.0);
        assert_eq!(summary.p99_us, 99.0);
        assert_eq!(summary.max_us, 100.0);
        assert!((summary.mean_us - 50.5).abs() < 1e-9);
    }

    #[test]
    fn one_run_is_every_percentile_and_none_is_zero() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.summary(), LatencySummary::default());
        latencies.record(Duration::from_micros(7));
        let summary = latencies.summary();
        assert_eq!((summary.p50_us, summary.p99_us), (7.0, 7.0));
        let mut both = latencies.clone();
        both.merge(&latencies);
        assert_eq!(both.count(), 2);
    }
}
