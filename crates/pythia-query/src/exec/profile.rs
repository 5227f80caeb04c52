//! What each part of a running plan costs: solutions, batches, time and pages, measured only
//! where a query asks for it.
//!
//! Parts call one another synchronously (a step pulls from the step before it, a stream polls its
//! input), so measurements nest on the thread's stack, and what a part's inputs cost is taken off
//! what it costs itself. Pages are counted by the store's pool for all queries together: measure
//! one query at a time.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion_common::Result;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use pythia_store::Snapshot;
use rustc_hash::FxHashMap;

use super::batch::Batch;
use super::operator::Solutions;
use super::pipeline::RowSource;
use crate::error::QueryError;
use crate::explain::Measured;

/// Names an operator or step for the process's life, so that copies of a plan's parts are
/// counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartId(u64);

impl PartId {
    /// An id that no other part has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What was measured of one query's parts.
#[derive(Default)]
pub(crate) struct Profile {
    parts: Mutex<FxHashMap<PartId, Measured>>,
}

/// What running something took.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    pages_from_cache: u64,
    pages_from_device: u64,
}

thread_local! {
    /// For each measurement under way on this thread, what those inside it took.
    static INSIDE: RefCell<Vec<Cost>> = const { RefCell::new(Vec::new()) };
}

impl Profile {
    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.parts.lock().clear();
    }

    /// What a part has cost; `None` if it did not run.
    pub(crate) fn part(&self, part: PartId) -> Option<Measured> {
        self.parts.lock().get(&part).copied()
    }

    /// Adds nodes that a part has visited.
    pub(crate) fn note_visits(&self, part: PartId, visits: u64) {
        self.parts.lock().entry(part).or_default().nodes_visited += visits;
    }

    /// Runs something for a part; `rows` tells how many solutions it gave, if any.
    fn measure<T>(
        &self,
        part: PartId,
        snapshot: &Snapshot,
        run: impl FnOnce() -> T,
        rows: impl FnOnce(&T) -> Option<usize>,
    ) -> T {
        let depth = INSIDE.with_borrow_mut(|inside| {
            inside.push(Cost::default());
            inside.len()
        });
        let pages_before = snapshot.counters().total();
        let started = Instant::now();
        let result = run();
        let time = started.elapsed();
        let pages = snapshot.counters().total();
        let all = Cost {
            time,
            pages_from_cache: pages.cache_hits - pages_before.cache_hits,
            pages_from_device: pages.device_pages - pages_before.device_pages,
        };
        let inside = INSIDE.with_borrow_mut(|inside| {
            inside.truncate(depth);
            let own = inside.pop().unwrap_or_default();
            if let Some(outer) = inside.last_mut() {
                outer.time += all.time;
                outer.pages_from_cache += all.pages_from_cache;
                outer.pages_from_device += all.pages_from_device;
            }
            own
        });
        let mut parts = self.parts.lock();
        let measured = parts.entry(part).or_default();
        if let Some(rows) = rows(&result) {
            measured.rows += rows as u64;
            measured.batches += 1;
        }
        let micros = all.time.saturating_sub(inside.time).as_nanos() as f64 / 1e3;
        measured.time_us += micros;
        measured.pages_from_cache += all.pages_from_cache.saturating_sub(inside.pages_from_cache);
        measured.pages_from_device +=
            (all.pages_from_device).saturating_sub(inside.pages_from_device);
        result
    }
}

/// A step that is measured.
pub(crate) struct MeasuredStep {
    pub(crate) step: Box<dyn RowSource>,
    pub(crate) part: PartId,
    pub(crate) profile: Arc<Profile>,
    pub(crate) snapshot: Snapshot,
}

impl RowSource for MeasuredStep {
    fn feed(&mut self, batch: Batch) {
        self.step.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        let Self {
            step,
            part,
            profile,
            snapshot,
        } = self;
        profile.measure(
            *part,
            snapshot,
            || step.next(),
            |result| match result {
                Ok(Some(batch)) => Some(batch.rows),
                _ => None,
            },
        )
    }
}

/// An operator's solutions, measured.
pub(crate) fn measured(
    solutions: Solutions,
    part: PartId,
    profile: Arc<Profile>,
    snapshot: Snapshot,
) -> Solutions {
    let schema = solutions.schema();
    let stream = MeasuredStream {
        solutions,
        part,
        profile,
        snapshot,
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

struct MeasuredStream {
    solutions: Solutions,
    part: PartId,
    profile: Arc<Profile>,
    snapshot: Snapshot,
}

impl Stream for MeasuredStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self {
            solutions,
            part,
            profile,
            snapshot,
        } = &mut *self;
        profile.measure(
            *part,
            snapshot,
            || solutions.poll_next_unpin(context),
            |result| match result {
                Poll::Ready(Some(Ok(batch))) => Some(batch.num_rows()),
                _ => None,
            },
        )
    }
}
