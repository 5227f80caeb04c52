//! Counters and histograms for Prometheus.
//!
//! Recording a request adds to a few atomic numbers at fixed places in a table: no contended lock, no allocation.
//! Everything else is read from where it is kept when metrics are requested ([`render`]).

mod process;
mod render;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;

use super::record::Record;

use process::Process;
pub(crate) use render::{MEDIA_TYPE, render};

/// Labels of operations; any other operation counts as the last.
const OPERATIONS: [&str; 10] = [
    "query",
    "update",
    "graph-read",
    "graph-write",
    "complete",
    "find",
    "node",
    "void",
    "description",
    "other",
];

/// Statuses with a counter of their own; any other status counts as the first of its hundred.
const STATUSES: [u16; 30] = [
    100, 200, 201, 202, 204, 206, 300, 304, 400, 401, 403, 404, 405, 406, 408, 409, 412, 413, 414,
    415, 421, 422, 429, 431, 500, 501, 502, 503, 504, 507,
];

/// Upper bounds of the histogram buckets, in microseconds; one more bucket has no bound.
const BOUNDS_US: [u64; 16] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Reason why a request was refused before it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShedReason {
    /// All queues together were full.
    QueueFull,
    /// The client's queue was full.
    ClientQueueFull,
    /// Too many answers of the client were unread.
    Unread,
    /// The turn did not come within the queue time.
    QueueTime,
    /// The server was stopping.
    Stopping,
    /// The client exceeded its rate limit.
    Rate,
}

impl ShedReason {
    const ALL: [Self; 6] = [
        Self::QueueFull,
        Self::ClientQueueFull,
        Self::Unread,
        Self::QueueTime,
        Self::Stopping,
        Self::Rate,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::ClientQueueFull => "client_queue_full",
            Self::Unread => "unread",
            Self::QueueTime => "queue_time",
            Self::Stopping => "stopping",
            Self::Rate => "rate",
        }
    }
}

/// All counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By dataset, in the order of their first requests.
    datasets: RwLock<Vec<(Arc<str>, Arc<Counts>)>>,
    /// Requests without a dataset.
    server: Counts,
    shed: [AtomicU64; ShedReason::ALL.len()],
    /// Answers that were cut because their clients read them too slowly.
    slow_readers: AtomicU64,
    connections: AtomicU64,
    connections_open: AtomicU64,
    /// Log lines that were dropped because too many were waiting.
    lines_lost: AtomicU64,
}

/// Numbers of requests by success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Successful requests.
    pub(crate) good: u64,
    /// Requests that were refused or failed.
    pub(crate) bad: u64,
}

/// Counters of one dataset.
#[derive(Debug, Default)]
struct Counts {
    operations: [OperationCounts; OPERATIONS.len()],
}

#[derive(Debug, Default)]
struct OperationCounts {
    /// By status.
    requests: [AtomicU64; STATUSES.len()],
    /// From the first byte of the request to the last byte of the answer.
    total: Histogram,
    /// Waiting for the turn.
    queued: Histogram,
    /// Running on a thread.
    run: Histogram,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// Answers that were cut.
    aborted: AtomicU64,
}

/// A histogram of times.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    fn observe(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }
}

impl Metrics {
    /// Counts a request whose answer has been sent.
    pub(crate) fn record(&self, record: &Record) {
        match record.dataset.get() {
            None => self.server.record(record),
            Some(dataset) => match self.find(dataset) {
                Some(counts) => counts.record(record),
                None => self.add(dataset).record(record),
            },
        }
    }

    /// Counts a request that was refused before it ran.
    pub(crate) fn shed(&self, reason: ShedReason) {
        self.shed[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts an answer that was cut because its client read it too slowly.
    pub(crate) fn slow_reader(&self) {
        self.slow_readers.fetch_add(1, Relaxed);
    }

    /// Counts a connection as open until the returned guard is dropped.
    pub(crate) fn connected(self: &Arc<Self>) -> OpenConnection {
        self.connections.fetch_add(1, Relaxed);
        self.connections_open.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Returns the number of open connections.
    pub(crate) fn open_connections(&self) -> u64 {
        self.connections_open.load(Relaxed)
    }

    /// Counts a dropped log line.
    pub(crate) fn lost_line(&self) {
        self.lines_lost.fetch_add(1, Relaxed);
    }

    /// Returns the numbers of requests to a dataset, by operation. Operations without requests and those of
    /// operators are left out.
    pub(crate) fn tally(&self, dataset: &Arc<str>) -> Vec<(&'static str, Tally)> {
        let Some(counts) = self.find(dataset) else {
            return Vec::new();
        };
        let asked = OPERATIONS.iter().zip(&counts.operations);
        let asked = asked.take(OPERATIONS.len() - 1);
        let tallies = asked.map(|(name, counts)| {
            let mut tally = Tally::default();
            for (status, count) in STATUSES.iter().zip(&counts.requests) {
                match status {
                    ..400 => tally.good += count.load(Relaxed),
                    _ => tally.bad += count.load(Relaxed),
                }
            }
            (*name, tally)
        });
        tallies
            .filter(|(_, tally)| tally.good + tally.bad > 0)
            .collect()
    }

    fn find(&self, dataset: &Arc<str>) -> Option<Arc<Counts>> {
        let datasets = self.datasets.read();
        let found = datasets.iter().find(|(name, _)| name == dataset);
        found.map(|(_, counts)| Arc::clone(counts))
    }

    fn add(&self, dataset: &Arc<str>) -> Arc<Counts> {
        let mut datasets = self.datasets.write();
        if let Some((_, counts)) = datasets.iter().find(|(name, _)| name == dataset) {
            return Arc::clone(counts);
        }
        let counts = Arc::<Counts>::default();
        datasets.push((Arc::clone(dataset), Arc::clone(&counts)));
        counts
    }
}

impl Counts {
    fn record(&self, record: &Record) {
        let name = record.operation.get().copied().unwrap_or("other");
        let known = OPERATIONS.iter().position(|other| *other == name);
        let counts = &self.operations[known.unwrap_or(OPERATIONS.len() - 1)];
        counts.requests[place_of(record.status())].fetch_add(1, Relaxed);
        counts.total.observe(record.total());
        if let Some(run) = record.run() {
            counts.run.observe(run);
            counts.queued.observe(record.queued());
        }
        counts.rows.fetch_add(record.rows(), Relaxed);
        counts.bytes.fetch_add(record.bytes(), Relaxed);
        if record.is_aborted() {
            counts.aborted.fetch_add(1, Relaxed);
        }
    }
}

/// Returns the index of a status's counter.
fn place_of(status: u16) -> usize {
    STATUSES
        .binary_search(&status)
        .or_else(|_| STATUSES.binary_search(&(status / 100 * 100)))
        .unwrap_or(0)
}

/// Guard that counts a connection as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_the_bucket_that_bounds_them() {
        let histogram = Histogram::default();
        for us in [0, 500, 501, 60_000_000, 60_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        let counts = histogram
            .buckets
            .each_ref()
            .map(|bucket| bucket.load(Relaxed));
        assert_eq!(counts[..3], [2, 1, 0]);
        assert_eq!(counts[15..], [1, 1]);
        assert_eq!(histogram.sum_us.load(Relaxed), 120_001_002);
    }

    #[test]
    fn every_status_has_a_place() {
        assert!(STATUSES.is_sorted());
        assert_eq!(STATUSES[place_of(429)], 429);
        assert_eq!(STATUSES[place_of(418)], 400);
        assert_eq!(STATUSES[place_of(999)], 100);
    }

    #[test]
    fn shed_reasons_are_where_they_are_listed() {
        for (i, reason) in ShedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
    }
}
