//! The profile of a device's speed, which determines queue depths, read-ahead, page sizes and the planner's costs.
//!
//! All figures are whole numbers, so that a profile is exactly the same after it is written and read.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DeviceIdentity;

/// Share of the best rate at which a depth counts as good enough.
const GOOD_ENOUGH: f64 = 0.95;
/// A larger page counts as equally cheap if it is slower by no more than this factor.
const AS_CHEAP: f64 = 1.05;
/// Limits on the bytes that a scan reads at a time.
const SCAN_WINDOW_MIN: u64 = 1 << 20;
const SCAN_WINDOW_MAX: u64 = 8 << 20;

/// The origin of a profile, from the least to the most trustworthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Nothing was measured: the figures of an ordinary cloud disk.
    #[default]
    Assumed,
    /// A device with a modelled speed.
    Modelled,
    /// A few tenths of a second of reads of the store's own files.
    Brief,
    /// `pythia probe`.
    Full,
}

/// The speed of a device as seen by the storage layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The origin of the figures.
    pub origin: Origin,
    /// The measured device; `None` for devices that do not exist.
    pub identity: Option<DeviceIdentity>,
    /// Random reads by size, smallest first; never empty.
    pub random: Vec<RandomReads>,
    /// Bytes per second of large sequential reads.
    pub sequential_read_bytes: u64,
    /// Bytes per second of large sequential writes, if measured.
    pub sequential_write_bytes: Option<u64>,
    /// Nanoseconds until a small write is durable, if measured.
    pub sync_ns: Option<u64>,
}

/// Random reads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomReads {
    /// Size of a read, in bytes.
    pub bytes: u64,
    /// Nanoseconds of one read with no other in flight.
    pub latency_ns: u64,
    /// The sweet spot: the smallest number of reads in flight that gives about the best rate.
    pub depth: u32,
    /// Reads per second at that depth.
    pub per_second: u64,
}

impl RandomReads {
    /// Makes the figures from a latency and the rates measured at some depths, in order of depth.
    ///
    /// # Panics
    /// If there are no rates.
    pub fn new(bytes: u64, latency_ns: u64, rates: &[(u32, f64)]) -> Self {
        let (depth, per_second) = sweet_spot(rates);
        Self {
            bytes,
            latency_ns,
            depth,
            per_second: per_second as u64,
        }
    }
}

/// Returns the smallest depth that gives at least 95 % of the best rate, and its rate.
///
/// # Panics
/// If there are no rates.
pub fn sweet_spot(rates: &[(u32, f64)]) -> (u32, f64) {
    let best = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let good = rates.iter().find(|(_, rate)| *rate >= GOOD_ENOUGH * best);
    *good.expect("the best rate is one of them")
}

impl Default for DeviceProfile {
    fn default() -> Self {
        Self {
            origin: Origin::Assumed,
            identity: None,
            random: vec![RandomReads {
                bytes: 4096,
                latency_ns: 100_000,
                depth: 64,
                per_second: 50_000,
            }],
            sequential_read_bytes: 600_000_000,
            sequential_write_bytes: None,
            sync_ns: None,
        }
    }
}

impl DeviceProfile {
    /// Returns whether the figures may be used. A profile read from a file may contain anything.
    pub fn is_plausible(&self) -> bool {
        let reads = |r: &RandomReads| {
            (512..=1 << 30).contains(&r.bytes)
                && (1..=4096).contains(&r.depth)
                && r.latency_ns > 0
                && r.per_second > 0
        };
        !self.random.is_empty()
            && self.random.iter().all(reads)
            && self.random.is_sorted_by_key(|r| r.bytes)
            && self.sequential_read_bytes > 0
    }

    /// Returns the figures of random reads of this size, or of the nearest smaller measured size.
    pub fn random_reads(&self, page_bytes: usize) -> &RandomReads {
        let larger = self
            .random
            .partition_point(|r| r.bytes <= page_bytes as u64);
        &self.random[larger.saturating_sub(1)]
    }

    /// Returns how many random reads of pages of this size should be in flight.
    pub fn depth(&self, page_bytes: usize) -> usize {
        self.random_reads(page_bytes).depth as usize
    }

    /// Returns the microseconds of one dependent 4 KiB read.
    pub fn latency_us(&self) -> f64 {
        self.random_reads(4096).latency_ns as f64 / 1e3
    }

    /// Returns the microseconds per page in a large batch. This is no less than the sequential time of its bytes.
    pub fn random_us(&self, page_bytes: usize) -> f64 {
        let known = self.random_reads(page_bytes);
        let more = (page_bytes as u64).saturating_sub(known.bytes);
        1e6 / known.per_second as f64 + self.sequential_us(more as f64)
    }

    /// Returns the microseconds of a sequential read of these bytes.
    pub fn sequential_us(&self, bytes: f64) -> f64 {
        bytes * 1e6 / self.sequential_read_bytes as f64
    }

    /// Returns how many bytes a scan should read at a time, so that the device is never idle between reads: four
    /// times the bytes transferred during one latency, between 1 and 8 MiB.
    pub fn scan_window_bytes(&self) -> usize {
        let passing = self.sequential_read_bytes as f64 * self.latency_us() / 1e6;
        let window = (4.0 * passing) as u64;
        window
            .next_power_of_two()
            .clamp(SCAN_WINDOW_MIN, SCAN_WINDOW_MAX) as usize
    }

    /// Returns the largest page size whose reads cost as little as those of 4 KiB, alone and in batches: 4096 on
    /// most devices.
    pub fn page_bytes_best(&self) -> usize {
        let least = self.random_reads(4096);
        let as_cheap = self.random.iter().rev().find(|r| {
            r.bytes.is_power_of_two()
                && (4096..=32_768).contains(&r.bytes)
                && r.latency_ns as f64 <= AS_CHEAP * least.latency_ns as f64
                && r.per_second as f64 * AS_CHEAP >= least.per_second as f64
        });
        as_cheap.map_or(4096, |r| r.bytes as usize)
    }
}

impl fmt::Display for DeviceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match self.origin {
            Origin::Assumed => "assumed, not measured",
            Origin::Modelled => "modelled",
            Origin::Brief => "measured briefly; `pythia probe` measures more",
            Origin::Full => "measured by `pythia probe`",
        };
        let identity = self.identity.as_ref().map(DeviceIdentity::describe);
        let identity = identity.unwrap_or_else(|| "unknown device".to_owned());
        writeln!(f, "{identity}: {origin}")?;
        for reads in &self.random {
            writeln!(
                f,
                "  random reads of {:>2} KiB: {:.0} µs alone, {} a second with {} in flight",
                reads.bytes >> 10,
                reads.latency_ns as f64 / 1e3,
                reads.per_second,
                reads.depth,
            )?;
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "  in a row: read {:.0} MB/s",
            megabytes(self.sequential_read_bytes)
        )?;
        if let Some(bytes) = self.sequential_write_bytes {
            write!(f, ", write {:.0} MB/s", megabytes(bytes))?;
        }
        if let Some(nanoseconds) = self.sync_ns {
            let milliseconds = nanoseconds as f64 / 1e6;
            write!(f, "; a small write is durable after {milliseconds:.2} ms")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(bytes: u64, latency_ns: u64, per_second: u64) -> RandomReads {
        RandomReads {
            bytes,
            latency_ns,
            depth: 32,
            per_second,
        }
    }

    #[test]
    fn the_sweet_spot_is_the_smallest_depth_that_is_good_enough() {
        let rates = [(1, 10.0), (8, 70.0), (32, 97.0), (64, 100.0), (128, 99.0)];
        assert_eq!(sweet_spot(&rates), (32, 97.0));
        assert_eq!(sweet_spot(&[(4, 0.0)]), (4, 0.0));
    }

    #[test]
    fn larger_pages_only_where_they_cost_nothing() {
        let mut profile = DeviceProfile::default();
        assert_eq!(profile.page_bytes_best(), 4096);
        profile.random = vec![
            reads(4096, 100_000, 50_000),
            reads(8192, 104_000, 49_000),
            reads(16_384, 140_000, 49_000),
        ];
        assert_eq!(profile.page_bytes_best(), 8192);
        profile.random[1].per_second = 30_000;
        assert_eq!(profile.page_bytes_best(), 4096);
    }

    #[test]
    fn sizes_between_those_measured_take_the_smaller() {
        let mut profile = DeviceProfile {
            random: vec![reads(4096, 1, 100_000), reads(16_384, 1, 25_000)],
            ..DeviceProfile::default()
        };
        profile.random[1].depth = 8;
        assert_eq!(profile.depth(512), 32);
        assert_eq!(profile.depth(8192), 32);
        assert_eq!(profile.depth(65_536), 8);
        assert!(profile.random_us(65_536) > profile.random_us(16_384));
    }

    #[test]
    fn scans_read_a_mebibyte_unless_the_device_is_far_and_wide() {
        let mut profile = DeviceProfile::default();
        assert_eq!(profile.scan_window_bytes(), 1 << 20);
        profile.random[0].latency_ns = 1_000_000;
        profile.sequential_read_bytes = 1_000_000_000;
        assert_eq!(profile.scan_window_bytes(), 4 << 20);
    }

    #[test]
    fn nonsense_is_not_plausible() {
        assert!(DeviceProfile::default().is_plausible());
        for spoil in [
            |p: &mut DeviceProfile| p.random.clear(),
            |p: &mut DeviceProfile| p.random[0].depth = 0,
            |p: &mut DeviceProfile| p.random[0].per_second = 0,
            |p: &mut DeviceProfile| p.random[0].bytes = 1,
            |p: &mut DeviceProfile| p.sequential_read_bytes = 0,
            |p: &mut DeviceProfile| p.random.insert(0, reads(8192, 1, 1)),
        ] {
            let mut profile = DeviceProfile::default();
            spoil(&mut profile);
            assert!(!profile.is_plausible(), "{profile:?}");
        }
    }
}
