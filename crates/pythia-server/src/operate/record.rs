//! The record of a request, for metrics, logs and traces.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::Request;
use http::{HeaderValue, Method, Uri};

use crate::running::Activity;

/// Marks a time that was not set.
const UNSET: u64 = u64::MAX;

/// One per request. Its fields are set as they become known; the answer's body holds it until the answer ends.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) started: Instant,
    /// The same in wall-clock time.
    pub(crate) started_at: SystemTime,
    pub(crate) peer: IpAddr,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// The trace that the request is part of (W3C Trace Context), if the client sent one.
    pub(crate) traceparent: Option<HeaderValue>,
    /// The operation, such as `query` or `update`, once the route is known.
    pub(crate) operation: OnceLock<&'static str>,
    pub(crate) dataset: OnceLock<Arc<str>>,
    pub(crate) user: OnceLock<Arc<str>>,
    pub(crate) id: OnceLock<Arc<str>>,
    /// The query or update, with its text and plan.
    pub(crate) activity: OnceLock<Arc<Activity>>,
    queued_us: AtomicU64,
    /// From the start of the request to its turn.
    begun_us: AtomicU64,
    prepare_us: AtomicU64,
    run_us: AtomicU64,
    total_us: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
    status: AtomicU16,
    aborted: AtomicBool,
}

impl Record {
    /// Makes the record of a request that has just arrived from an address.
    pub(crate) fn new(peer: IpAddr, request: &Request) -> Self {
        Self {
            started: Instant::now(),
            started_at: SystemTime::now(),
            peer,
            method: request.method().clone(),
            uri: request.uri().clone(),
            traceparent: request.headers().get("traceparent").cloned(),
            operation: OnceLock::new(),
            dataset: OnceLock::new(),
            user: OnceLock::new(),
            id: OnceLock::new(),
            activity: OnceLock::new(),
            queued_us: AtomicU64::new(0),
            begun_us: AtomicU64::new(0),
            prepare_us: AtomicU64::new(0),
            run_us: AtomicU64::new(UNSET),
            total_us: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            status: AtomicU16::new(0),
            aborted: AtomicBool::new(false),
        }
    }

    /// Sets how long the request waited for its turn, which has come now.
    pub(crate) fn set_queued(&self, time: Duration) {
        self.queued_us.store(micros(time), Relaxed);
        self.begun_us.store(micros(self.started.elapsed()), Relaxed);
    }

    /// Sets how long parsing and planning took.
    pub(crate) fn set_prepared(&self, time: Duration) {
        self.prepare_us.store(micros(time), Relaxed);
    }

    /// Sets how long the request ran, with parsing and planning, and its number of results.
    pub(crate) fn set_run(&self, time: Duration, rows: u64) {
        self.run_us.store(micros(time), Relaxed);
        self.rows.store(rows, Relaxed);
    }

    /// Sets the status of the answer.
    pub(crate) fn set_status(&self, status: u16) {
        self.status.store(status, Relaxed);
    }

    /// Adds bytes of the body that were sent, as encoded for transfer.
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Records that the answer has ended, complete or not.
    pub(crate) fn end(&self, aborted: bool) {
        self.total_us.store(micros(self.started.elapsed()), Relaxed);
        self.aborted.store(aborted, Relaxed);
    }

    pub(crate) fn queued(&self) -> Duration {
        Duration::from_micros(self.queued_us.load(Relaxed))
    }

    /// Returns the time from the start of the request to its turn.
    pub(crate) fn begun(&self) -> Duration {
        Duration::from_micros(self.begun_us.load(Relaxed))
    }

    pub(crate) fn prepared(&self) -> Duration {
        Duration::from_micros(self.prepare_us.load(Relaxed))
    }

    /// Returns how long the request ran; `None` if its turn never came.
    pub(crate) fn run(&self) -> Option<Duration> {
        match self.run_us.load(Relaxed) {
            // The request failed.
            UNSET => {
                let has_begun = |activity: &&Arc<Activity>| activity.has_begun();
                let begun = self.activity.get().filter(has_begun).map(|_| self.begun());
                begun.map(|begun| self.total().saturating_sub(begun))
            }
            us => Some(Duration::from_micros(us)),
        }
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_micros(self.total_us.load(Relaxed))
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn status(&self) -> u16 {
        self.status.load(Relaxed)
    }

    /// Returns whether the answer was cut.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Relaxed)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(UNSET - 1)
}
