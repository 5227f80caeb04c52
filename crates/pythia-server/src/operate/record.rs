//! What is known of a request, for metrics, logs and traces.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// One per request. Its parts are set as they become known; the body of the answer holds it to its end.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) started: Instant,
    pub(crate) peer: IpAddr,
    /// What was asked for, as `query` or `update`, once the route is known.
    pub(crate) operation: OnceLock<&'static str>,
    pub(crate) dataset: OnceLock<Arc<str>>,
    pub(crate) user: OnceLock<Arc<str>>,
    pub(crate) id: OnceLock<Arc<str>>,
    queued_us: AtomicU64,
    run_us: AtomicU64,
    rows: AtomicU64,
}

impl Record {
    pub(crate) fn new(peer: IpAddr) -> Self {
        Self {
            started: Instant::now(),
            peer,
            operation: OnceLock::new(),
            dataset: OnceLock::new(),
            user: OnceLock::new(),
            id: OnceLock::new(),
            queued_us: AtomicU64::new(0),
            run_us: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }

    /// How long it waited for its turn.
    pub(crate) fn set_queued(&self, time: Duration) {
        self.queued_us.store(micros(time), Ordering::Relaxed);
    }

    /// How long it ran, and what it gave.
    pub(crate) fn set_run(&self, time: Duration, rows: u64) {
        self.run_us.store(micros(time), Ordering::Relaxed);
        self.rows.store(rows, Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
