//! Counts the pages that a thread requests from pools. A query runs on one thread at a time, so this separates the
//! costs of concurrent queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The pages that one thread has requested from pools so far. Other threads may read the counts.
#[derive(Debug, Default)]
pub struct PageTally {
    cache_hits: AtomicU64,
    device_pages: AtomicU64,
}

/// Numbers of requested pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Found in memory.
    pub cache_hits: u64,
    /// Read from the device, on request or ahead of it.
    pub device_pages: u64,
}

thread_local! {
    static TALLY: Arc<PageTally> = Arc::default();
}

impl PageTally {
    /// Returns the tally of the calling thread.
    pub fn of_this_thread() -> Arc<Self> {
        TALLY.with(Arc::clone)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> PageCounts {
        PageCounts {
            cache_hits: self.cache_hits.load(Relaxed),
            device_pages: self.device_pages.load(Relaxed),
        }
    }
}

/// Counts a page found in memory for this thread.
#[inline]
pub(super) fn hit() {
    TALLY.with(|tally| add(&tally.cache_hits, 1));
}

/// Counts pages read from the device for this thread.
pub(super) fn read(pages: usize) {
    TALLY.with(|tally| add(&tally.device_pages, pages as u64));
}

/// Adds to a counter. Only its own thread writes a tally, so a load and a store are enough.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}
