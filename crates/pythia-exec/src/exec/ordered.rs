//! Work on items by several threads, with results in the order of the items.
//!
//! ```text
//! items, one after the other → work on each, on any thread → results, in the order of the items
//! ```
//!
//! The query's own thread does everything for some time ([`ALONE`], [`LONG`]). Then helpers start, as far as there are free cores
//! ([`Cores`]). Each thread takes the next item and works on it. The query's thread returns the results of the first item
//! whose results are not all returned; as long as it has to wait for them, it works on a later item. Results depend
//! neither on the number of threads nor on their speed.
//!
//! Results are kept only up to a number of bytes. A helper that is too far ahead of the reader leaves, and so does one whose
//! core another query needs: the item that it works on is put back with its work, for whoever comes first. Helpers come
//! again when the reader has taken half of the results.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::QueryError;
use crate::limits::cores::{Cores, Helpers};
use crate::limits::governor::Governor;

/// Time that the query's own thread works alone at least: many times what a helper takes to begin.
const ALONE: Duration = Duration::from_micros(300);
/// Expected time of the rest from which on helpers come so early.
const REST: Duration = Duration::from_millis(1);
/// Time after which helpers come in any case.
const LONG: Duration = Duration::from_millis(1);
/// Part of the memory that is left which results may take while they wait to be returned, and the limits of it in bytes.
const AHEAD_PART: usize = 32;
const AHEAD_BYTES: (usize, usize) = (64 << 10, 8 << 20);
/// The state of the helpers' work may take one of this many parts of the memory that is left.
const HELD_PART: usize = 8;

/// A sequence of items, made one after the other by any thread.
pub(crate) trait Items: Send + 'static {
    /// An item.
    type Item: Send;

    /// Returns the next item, or `None` after the last.
    fn next(&mut self) -> Result<Option<Self::Item>, QueryError>;
}

/// Work on items. Each thread has its own.
pub(crate) trait Work: Send + 'static {
    /// An item.
    type Item: Send;
    /// One of the results of an item.
    type Output: Send;

    /// Begins an item. The results of the one before have all been returned.
    fn begin(&mut self, item: Self::Item);

    /// Returns the next result of the item, or `None` after the last.
    fn next(&mut self) -> Result<Option<Self::Output>, QueryError>;

    /// Returns the bytes of memory that a result takes.
    fn bytes(output: &Self::Output) -> usize;
}

type NewWork<W> = Box<dyn Fn() -> W + Send + Sync>;

/// The results of work on items, in the order of the items.
pub(crate) struct Ordered<I: Items, W: Work<Item = I::Item>> {
    /// Dropped first.
    helpers: Helpers,
    shared: Arc<Shared<I, W>>,
    /// The item that this thread works on.
    own: Option<Begun<W>>,
    /// When the first result was asked for.
    started: Option<Instant>,
    /// True once helpers may come.
    is_long: bool,
    /// Estimated number of items.
    expected: usize,
    /// Limit on the helpers.
    helpers_max: usize,
}

/// Work on the item of a number.
struct Begun<W> {
    number: usize,
    work: W,
}

struct Shared<I: Items, W: Work> {
    /// Locked before the state.
    items: Mutex<I>,
    new_work: NewWork<W>,
    cores: Arc<Cores>,
    /// Limit on the bytes of results that wait to be returned.
    ahead_bytes: usize,
    state: Mutex<State<W>>,
    /// Tells of results of the first item, of an item that was put back, and of a panic.
    changed: Condvar,
}

struct State<W: Work> {
    /// The results of items, from the item `first` on.
    results: VecDeque<Results<W::Output>>,
    first: usize,
    /// Bytes of the results in all queues.
    ahead: usize,
    /// Items that helpers began and put back.
    left: Vec<Begun<W>>,
    /// Work without an item.
    idle: Vec<W>,
    /// True once there are no more items, or none of them is wanted: after an error.
    ended: bool,
    /// True once nobody reads results any more.
    stopped: bool,
    /// The panic of a helper.
    panic: Option<Box<dyn Any + Send>>,
}

struct Results<O> {
    /// With their bytes.
    queue: VecDeque<(Result<O, QueryError>, usize)>,
    /// True if no more will come.
    is_whole: bool,
}

impl<I: Items, W: Work<Item = I::Item>> Ordered<I, W> {
    /// Returns the results of work on items, of which there are about `expected`. `new_work` makes the work of each thread.
    pub(crate) fn new(
        items: I,
        expected: usize,
        new_work: impl Fn() -> W + Send + Sync + 'static,
        governor: &Governor,
    ) -> Self {
        let left = governor.memory_left() / AHEAD_PART;
        let state = State {
            results: VecDeque::new(),
            first: 0,
            ahead: 0,
            left: Vec::new(),
            idle: Vec::new(),
            ended: false,
            stopped: false,
            panic: None,
        };
        Self {
            helpers: Helpers::default(),
            shared: Arc::new(Shared {
                items: Mutex::new(items),
                new_work: Box::new(new_work),
                cores: Arc::clone(governor.cores()),
                ahead_bytes: left.clamp(AHEAD_BYTES.0, AHEAD_BYTES.1),
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            own: None,
            started: None,
            is_long: false,
            expected,
            helpers_max: usize::MAX,
        }
    }

    /// Limits the number of helpers, the work of each of which holds about `bytes`, to what a part of the memory left is enough for.
    pub(crate) fn with_held(mut self, bytes: usize, governor: &Governor) -> Self {
        self.helpers_max = governor.memory_left() / HELD_PART / bytes.max(1);
        self
    }

    /// Lets no helpers come.
    pub(crate) fn alone(mut self) -> Self {
        self.helpers_max = 0;
        self
    }

    /// Lets helpers come from the first item on: the query has run long before.
    pub(crate) fn at_once(mut self) -> Self {
        self.is_long = true;
        self
    }

    /// Returns whether the work took long enough for helpers.
    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Goes on with more items, about `expected` of them. All results of those before were returned.
    pub(crate) fn go_on(&mut self, expected: usize, add: impl FnOnce(&mut I)) {
        let mut items = self.shared.items.lock();
        add(&mut items);
        let mut state = self.shared.state.lock();
        debug_assert!(state.results.is_empty() && state.left.is_empty());
        self.expected = state.first + expected;
        self.started = None;
        state.ended = false;
    }

    /// Returns the next result, or `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<W::Output>, QueryError> {
        // The reader wants more. For the first result alone, a helper would often come in vain.
        self.look_for_helper();
        let shared = Arc::clone(&self.shared);
        loop {
            let mut state = shared.state.lock();
            if let Some(panic) = state.panic.take() {
                drop(state);
                resume_unwind(panic);
            }
            if state.stopped {
                return Ok(None);
            }
            if let Some(result) = state.take_result() {
                // Nothing comes after an error.
                state.stopped = result.is_err();
                let is_low = state.ahead < shared.ahead_bytes / 2 && !state.ended;
                let taken = state.first + state.results.len();
                drop(state);
                if is_low && self.is_long && taken < self.expected {
                    self.take_helper();
                }
                return result.map(Some);
            }
            if state.results.is_empty() && state.ended {
                return Ok(None);
            }
            state.resume(&mut self.own, shared.ahead_bytes);
            let is_full = state.ahead >= shared.ahead_bytes;
            let first = state.first;
            match &mut self.own {
                Some(own) if own.number == first => {
                    drop(state);
                    if let Some(result) = shared.step(own) {
                        return Ok(Some(result));
                    }
                    self.end_own();
                }
                Some(own) if !is_full => {
                    drop(state);
                    if !shared.keep_result(own) {
                        self.end_own();
                    }
                }
                None if !state.ended && !is_full => {
                    drop(state);
                    self.take_item();
                }
                // A helper works on the first item.
                _ => shared.changed.wait(&mut state),
            }
        }
    }

    fn end_own(&mut self) {
        if let Some(own) = self.own.take() {
            self.shared.state.lock().keep_idle(own);
        }
    }

    /// Takes the next item, and a helper if the work takes long.
    fn take_item(&mut self) {
        // What it takes to make the first item does not count.
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        self.own = self.shared.take_item();
        self.note_time(now.duration_since(started));
        if self.is_long {
            self.take_helper_for_next();
        }
    }

    /// Takes a helper within an item, if the work takes long.
    fn look_for_helper(&mut self) {
        if let Some(started) = self.started
            && !self.is_long
        {
            self.note_time(started.elapsed());
            if self.is_long {
                self.take_helper_for_next();
            }
        }
    }

    /// Notes whether the work has taken long, and goes on.
    fn note_time(&mut self, time: Duration) {
        if let Some(own) = &self.own {
            self.is_long |= is_long(time, own.number, self.expected);
        }
    }

    /// Takes a helper. For the last item it would come too late.
    fn take_helper_for_next(&self) {
        if let Some(own) = &self.own
            && own.number + 1 < self.expected
        {
            self.take_helper();
        }
    }

    fn take_helper(&self) {
        let cores = &self.shared.cores;
        if !cores.are_free() || self.helpers.number() >= self.helpers_max {
            return;
        }
        let (shared, leaves) = (Arc::clone(&self.shared), self.helpers.one());
        cores.help(Box::new(move || {
            shared.help();
            // Whoever waits for the helpers is the last to hold what they share.
            drop(shared);
            drop(leaves);
        }));
    }
}

/// Returns whether helpers may come after this time, in which some of the expected items were done.
fn is_long(time: Duration, done: usize, expected: usize) -> bool {
    let left = expected.saturating_sub(done) as f64;
    let rest = time.as_secs_f64() * left / done.max(1) as f64;
    time >= LONG || (time >= ALONE && rest >= REST.as_secs_f64())
}

/// Ends the helpers. Nothing of the query is in use after they were waited for.
impl<I: Items, W: Work<Item = I::Item>> Drop for Ordered<I, W> {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
    }
}

impl<I: Items, W: Work<Item = I::Item>> Shared<I, W> {
    /// Begins the next item. An error takes the place of an item.
    fn take_item(&self) -> Option<Begun<W>> {
        let mut items = self.items.lock();
        if self.state.lock().ended {
            return None;
        }
        let item = items.next();
        let mut state = self.state.lock();
        let number = state.first + state.results.len();
        let item = match item {
            Ok(Some(item)) => item,
            Ok(None) => {
                state.ended = true;
                return None;
            }
            Err(error) => {
                state.results.push_back(Results::new());
                self.add(&mut state, number, Some(Err(error)));
                return None;
            }
        };
        state.results.push_back(Results::new());
        let idle = state.idle.pop();
        drop((state, items));
        let mut work = idle.unwrap_or_else(|| (self.new_work)());
        work.begin(item);
        Some(Begun { number, work })
    }

    /// Works until there is nothing more to do, or another query needs the core.
    fn help(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work())) {
            self.state.lock().panic = Some(panic);
            self.changed.notify_all();
        }
    }

    fn work(&self) {
        while let Some(mut begun) = self.begin() {
            loop {
                let goes_on = self.keep_result(&mut begun);
                let mut state = self.state.lock();
                if !goes_on {
                    state.keep_idle(begun);
                    break;
                }
                if self.has_to_leave(&state) {
                    state.left.push(begun);
                    self.changed.notify_all();
                    return;
                }
            }
        }
    }

    /// Returns whether a helper has to leave.
    fn has_to_leave(&self, state: &State<W>) -> bool {
        state.stopped || state.ahead >= self.ahead_bytes || !self.cores.may_stay()
    }

    /// Begins an item, or goes on with one that was put back.
    fn begin(&self) -> Option<Begun<W>> {
        let mut state = self.state.lock();
        if self.has_to_leave(&state) {
            return None;
        }
        if let Some(left) = state.take_left() {
            return Some(left);
        }
        drop(state);
        self.take_item()
    }

    /// Makes the next result of the first item, and returns it. An error is kept, as results of other items are.
    fn step(&self, begun: &mut Begun<W>) -> Option<W::Output> {
        match begun.work.next().transpose() {
            Some(Ok(result)) => Some(result),
            end => {
                self.add(&mut self.state.lock(), begun.number, end);
                None
            }
        }
    }

    /// Makes and keeps the next result of an item. Returns false if it was the last.
    fn keep_result(&self, begun: &mut Begun<W>) -> bool {
        let result = begun.work.next().transpose();
        let goes_on = matches!(result, Some(Ok(_)));
        self.add(&mut self.state.lock(), begun.number, result);
        goes_on
    }

    /// Adds a result of an item, or its end.
    fn add(
        &self,
        state: &mut State<W>,
        item: usize,
        result: Option<Result<W::Output, QueryError>>,
    ) {
        let place = item - state.first;
        let results = &mut state.results[place];
        results.is_whole = !matches!(result, Some(Ok(_)));
        state.ended |= matches!(result, Some(Err(_)));
        if let Some(result) = result {
            let bytes = result.as_ref().map_or(0, W::bytes);
            results.queue.push_back((result, bytes));
            state.ahead += bytes;
        }
        if place == 0 {
            self.changed.notify_all();
        }
    }
}

impl<W: Work> State<W> {
    /// Takes the next result in order, if it is there.
    fn take_result(&mut self) -> Option<Result<W::Output, QueryError>> {
        loop {
            let results = self.results.front_mut()?;
            if let Some((result, bytes)) = results.queue.pop_front() {
                self.ahead -= bytes;
                return Some(result);
            }
            if !results.is_whole {
                return None;
            }
            self.results.pop_front();
            self.first += 1;
        }
    }

    /// Keeps work for other items, unless it has failed: then no more items are taken.
    fn keep_idle(&mut self, begun: Begun<W>) {
        if !self.ended {
            self.idle.push(begun.work);
        }
    }

    /// Takes the first of the items that were put back.
    fn take_left(&mut self) -> Option<Begun<W>> {
        let places = 0..self.left.len();
        let first = places.min_by_key(|&place| self.left[place].number)?;
        Some(self.left.swap_remove(first))
    }

    /// Lets the reader go on with an item that was put back: with the first of all in any case, otherwise if it has none
    /// and results may be kept.
    fn resume(&mut self, own: &mut Option<Begun<W>>, ahead_bytes: usize) {
        let Some(next) = self.left.iter().map(|begun| begun.number).min() else {
            return;
        };
        if next == self.first || (own.is_none() && self.ahead < ahead_bytes) {
            let left = self.take_left();
            self.left.extend(std::mem::replace(own, left));
        }
    }
}

impl<O> Results<O> {
    fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            is_whole: false,
        }
    }
}

#[cfg(test)]
mod tests;
