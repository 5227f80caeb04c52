//! Counters of the pool, per group of files.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Limit on groups; further groups are counted with the last one.
pub(super) const GROUPS_MAX: usize = 16;

/// A snapshot of a pool's counters since it was made, per group of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Each group's name and counts, in the order in which the groups were first opened.
    pub groups: Vec<(&'static str, GroupCounters)>,
}

/// The counters of one group of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Pages found in the pool.
    pub cache_hits: u64,
    /// Pages read from the device.
    pub device_pages: u64,
    /// Submissions to the device.
    pub device_batches: u64,
    /// Most reads in one submission; neighbouring pages are one read.
    pub depth_max: u64,
    /// Reads in all submissions; divided by `device_batches`, the mean depth.
    pub depth_sum: u64,
    /// Bytes read from the device.
    pub bytes: u64,
}

impl Counters {
    /// Returns the counts of one group; zero if it has no files.
    pub fn group(&self, name: &str) -> GroupCounters {
        let found = self.groups.iter().find(|(group, _)| *group == name);
        found.map_or_else(GroupCounters::default, |(_, counters)| *counters)
    }

    /// Returns the sum over all groups.
    pub fn total(&self) -> GroupCounters {
        let mut total = GroupCounters::default();
        for (_, counters) in &self.groups {
            total.cache_hits += counters.cache_hits;
            total.device_pages += counters.device_pages;
            total.device_batches += counters.device_batches;
            total.depth_max = total.depth_max.max(counters.depth_max);
            total.depth_sum += counters.depth_sum;
            total.bytes += counters.bytes;
        }
        total
    }

    /// Returns the counts since `earlier`. The maximum depth cannot be subtracted: it covers the pool's whole
    /// life, or is 0 for a group without reads since then.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let groups = self.groups.iter().map(|(name, now)| {
            let then = earlier.group(name);
            let device_batches = now.device_batches - then.device_batches;
            let counters = GroupCounters {
                cache_hits: now.cache_hits - then.cache_hits,
                device_pages: now.device_pages - then.device_pages,
                device_batches,
                depth_max: if device_batches == 0 {
                    0
                } else {
                    now.depth_max
                },
                depth_sum: now.depth_sum - then.depth_sum,
                bytes: now.bytes - then.bytes,
            };
            (*name, counters)
        });
        Self {
            groups: groups.collect(),
        }
    }
}

impl GroupCounters {
    /// Returns the mean number of reads per submission.
    pub fn depth_mean(&self) -> f64 {
        if self.device_batches == 0 {
            0.0
        } else {
            self.depth_sum as f64 / self.device_batches as f64
        }
    }

    /// Returns the number of requested pages, cached or not.
    pub fn pages(&self) -> u64 {
        self.cache_hits + self.device_pages
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12} {:>12} {:>12} {:>10} {:>10} {:>9} {:>14}",
            "pages of", "from cache", "from device", "batches", "depth", "deepest", "bytes"
        )?;
        for (name, c) in &self.groups {
            writeln!(
                f,
                "{name:<12} {:>12} {:>12} {:>10} {:>10.1} {:>9} {:>14}",
                c.cache_hits,
                c.device_pages,
                c.device_batches,
                c.depth_mean(),
                c.depth_max,
                c.bytes
            )?;
        }
        Ok(())
    }
}

/// Counters of one group's reads. Cache hits are counted by the shards under their own lock.
#[derive(Debug, Default)]
pub(super) struct DeviceCounters {
    device_pages: AtomicU64,
    device_batches: AtomicU64,
    depth_max: AtomicU64,
    depth_sum: AtomicU64,
    bytes: AtomicU64,
}

impl DeviceCounters {
    /// Counts one submission.
    pub(super) fn submitted(&self, depth: usize, pages: usize, bytes: usize) {
        self.device_pages.fetch_add(pages as u64, Relaxed);
        self.device_batches.fetch_add(1, Relaxed);
        self.depth_max.fetch_max(depth as u64, Relaxed);
        self.depth_sum.fetch_add(depth as u64, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn snapshot(&self, cache_hits: u64) -> GroupCounters {
        GroupCounters {
            cache_hits,
            device_pages: self.device_pages.load(Relaxed),
            device_batches: self.device_batches.load(Relaxed),
            depth_max: self.depth_max.load(Relaxed),
            depth_sum: self.depth_sum.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}
