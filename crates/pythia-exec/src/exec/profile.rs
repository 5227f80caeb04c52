//! The cost of each part of a running plan: solutions, batches, time and pages. It is measured only if the
//! query requests it.
//!
//! Parts call one another synchronously (a step pulls from the step before it, a stream polls its input),
//! so measurements nest, and the cost of a part's inputs is subtracted from its own. A query's thread
//! measures, and counts the pages that this thread requested. Any other thread may read the profile at any
//! time; it sees running parts with their cost so far.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pythia_store::PageTally;
use rustc_hash::FxHashMap;

use crate::explain::{CostId, Measured};
use crate::plan::step::Step;

/// Measurements of one query's parts, made by one thread at a time.
#[derive(Default)]
pub(crate) struct Profile {
    measurements: Mutex<Measurements>,
    /// The steps of patterns that have changed, by the number of the first step's cost.
    changes: Mutex<FxHashMap<CostId, Arc<Changed>>>,
}

/// The steps of a pattern that were ordered again while it ran.
pub(super) struct Changed {
    pub(super) steps: Vec<Step>,
    /// For each time that the steps from one on were ordered again: its place, and the number of solutions that were expected
    /// and came before it.
    pub(super) places: Vec<(usize, f64, u64)>,
}

#[derive(Default)]
struct Measurements {
    parts: FxHashMap<CostId, Measured>,
    /// The running measurements, each nested in the one before.
    running: Vec<Running>,
    /// The page counts of the thread that runs them.
    pages: Arc<PageTally>,
}

/// A running measurement.
struct Running {
    part: CostId,
    started: Instant,
    before: Cost,
    /// The cost of nested measurements.
    inside: Cost,
}

/// The cost of running something.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    pages_from_cache: u64,
    pages_from_device: u64,
}

impl Cost {
    /// Returns the pages that a thread has requested so far.
    fn of_pages(tally: &PageTally) -> Self {
        let pages = tally.counts();
        Self {
            time: Duration::ZERO,
            pages_from_cache: pages.cache_hits,
            pages_from_device: pages.device_pages,
        }
    }

    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.pages_from_cache += other.pages_from_cache;
        self.pages_from_device += other.pages_from_device;
    }

    fn less(self, other: Self) -> Self {
        Self {
            time: self.time.saturating_sub(other.time),
            pages_from_cache: self.pages_from_cache.saturating_sub(other.pages_from_cache),
            pages_from_device: (self.pages_from_device).saturating_sub(other.pages_from_device),
        }
    }
}

impl Measured {
    fn charge(&mut self, cost: Cost) {
        self.time_us += cost.time.as_nanos() as f64 / 1e3;
        self.pages_from_cache += cost.pages_from_cache;
        self.pages_from_device += cost.pages_from_device;
    }
}

impl Running {
    /// Returns the cost so far, including nested measurements.
    fn taken(&self, now: Instant, pages: Cost) -> Cost {
        Cost {
            time: now.saturating_duration_since(self.started),
            ..pages.less(self.before)
        }
    }
}

impl Profile {
    /// Removes all measurements.
    pub(crate) fn clear(&self) {
        *self.measurements.lock() = Measurements::default();
        self.changes.lock().clear();
    }

    /// Returns the cost so far of the parts that ran.
    pub(crate) fn parts(&self) -> FxHashMap<CostId, Measured> {
        let state = self.measurements.lock();
        let mut parts = state.parts.clone();
        let (now, pages) = (Instant::now(), Cost::of_pages(&state.pages));
        let mut inner = Cost::default();
        for running in state.running.iter().rev() {
            let taken = running.taken(now, pages);
            let own = taken.less(running.inside).less(inner);
            parts.entry(running.part).or_default().charge(own);
            inner = taken;
        }
        parts
    }

    /// Adds nodes that a part has visited.
    pub(crate) fn note_visits(&self, part: CostId, visits: u64) {
        let mut state = self.measurements.lock();
        state.parts.entry(part).or_default().nodes_visited += visits;
    }

    /// Adds nodes that a join has looked up one by one.
    pub(crate) fn note_lookups(&self, part: CostId, nodes: u64) {
        let mut state = self.measurements.lock();
        state.parts.entry(part).or_default().nodes_looked_up += nodes;
    }

    /// Notes that a join looks up solutions in a table of this many matches.
    pub(crate) fn note_table(&self, part: CostId, matches: usize) {
        let mut state = self.measurements.lock();
        state.parts.entry(part).or_default().table_rows = matches as u64;
    }

    /// Notes that a pattern has new steps from one on, before which far more solutions came than were expected.
    pub(super) fn note_change(&self, steps: &[Step], from: usize, expected: f64, came: u64) {
        let mut changes = self.changes.lock();
        let mut places = match changes.get(&steps[0].cost) {
            Some(before) => before.places.clone(),
            None => Vec::new(),
        };
        places.push((from, expected, came));
        let steps = steps.to_vec();
        changes.insert(steps[0].cost, Arc::new(Changed { steps, places }));
    }

    /// Returns how the steps of a pattern have changed.
    pub(super) fn change(&self, steps: &[Step]) -> Option<Arc<Changed>> {
        let first = steps.first()?;
        self.changes.lock().get(&first.cost).cloned()
    }

    /// Runs something for a part; `rows` extracts the number of solutions from its result, if any.
    pub(super) fn measure<T>(
        &self,
        part: CostId,
        run: impl FnOnce() -> T,
        rows: impl FnOnce(&T) -> Option<usize>,
    ) -> T {
        let depth = self.begin(part);
        let result = run();
        self.end(depth, rows(&result));
        result
    }

    /// Begins a nested measurement, and returns the number of measurements around it.
    fn begin(&self, part: CostId) -> usize {
        let mut state = self.measurements.lock();
        if state.running.is_empty() {
            state.pages = PageTally::of_this_thread();
        }
        let before = Cost::of_pages(&state.pages);
        state.running.push(Running {
            part,
            started: Instant::now(),
            before,
            inside: Cost::default(),
        });
        state.running.len() - 1
    }

    /// Ends the measurement at this depth.
    fn end(&self, depth: usize, rows: Option<usize>) {
        let mut state = self.measurements.lock();
        // Read after locking: another thread may have read the profile in between, and costs must never
        // decrease.
        let now = Instant::now();
        // Measurements above this depth were left by a panic.
        state.running.truncate(depth + 1);
        let Some(running) = state.running.pop() else {
            return;
        };
        let taken = running.taken(now, Cost::of_pages(&state.pages));
        if let Some(outer) = state.running.last_mut() {
            outer.inside.add(taken);
        }
        let measured = state.parts.entry(running.part).or_default();
        measured.charge(taken.less(running.inside));
        if let Some(rows) = rows {
            measured.rows += rows as u64;
            measured.batches += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_under_way_are_seen_with_what_they_took() {
        let profile = Profile::default();
        let [outer, inner] = [CostId::next(), CostId::next()];
        let time = |part| profile.parts().get(&part).map(|m| m.time_us);
        let pause = || std::thread::sleep(Duration::from_millis(2));
        profile.measure(
            outer,
            || {
                profile.measure(inner, pause, |()| Some(7));
                let (outer_time, inner_time) = (time(outer), time(inner));
                assert!(outer_time.is_some() && inner_time >= Some(2e3));
                assert_eq!(profile.parts()[&inner].rows, 7);
                pause();
                // The cost of ended parts stays the same; that of running parts grows.
                assert_eq!(time(inner), inner_time);
                assert!(
                    time(outer)
                        .zip(outer_time)
                        .is_some_and(|(now, then)| now >= then + 2e3)
                );
                profile.measure(
                    inner,
                    || {
                        let outer_time = time(outer);
                        pause();
                        // While a nested part runs, the time is charged to that part.
                        assert_eq!(time(outer), outer_time);
                        assert!(
                            time(inner)
                                .zip(inner_time)
                                .is_some_and(|(now, then)| now >= then + 2e3)
                        );
                    },
                    |()| None,
                );
            },
            |()| Some(1),
        );
        let parts = profile.parts();
        assert_eq!((parts[&inner].rows, parts[&inner].batches), (7, 1));
        assert_eq!((parts[&outer].rows, parts[&outer].batches), (1, 1));
    }

    #[test]
    fn a_measurement_that_panicked_is_forgotten() {
        let profile = Profile::default();
        let [outer, inner] = [CostId::next(), CostId::next()];
        let failing = || profile.measure(inner, || panic!("as told"), |()| None);
        profile.measure(
            outer,
            || {
                let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(failing));
                assert!(failed.is_err());
            },
            |()| Some(1),
        );
        assert_eq!(profile.parts()[&outer].rows, 1);
        assert!(profile.measurements.lock().running.is_empty());
    }
}
