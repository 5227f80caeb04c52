//! Work on items by several threads, with results in the order of the items.
//!
//! ```text
//! items, one after the other → work on each, on any thread → results, in the order of the items
//! ```
//!
//! The query's own thread does everything until it has taken [`ALONE`]. Then helpers start, as far as there are free cores
//! ([`Cores`]). Each thread takes the next item and works on it. The query's thread returns the results of the first item
//! whose results are not all returned; as long as it has to wait for them, it works on a later item. Results depend
//! neither on the number of threads nor on their speed. Threads that are ahead of the reader wait: results are kept only
//! up to a number of bytes.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::QueryError;
use crate::limits::cores::Cores;
use crate::limits::governor::Governor;

/// Time that the query's own thread works alone: many times what a helper takes to begin.
const ALONE: Duration = Duration::from_millis(1);
/// Part of the memory that is left which results may take while they wait to be returned, and the limits of it in bytes.
const AHEAD_PART: usize = 32;
const AHEAD_BYTES: (usize, usize) = (64 << 10, 8 << 20);

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
    shared: Arc<Shared<I, W>>,
    work: W,
    /// The number of the item that this thread works on.
    own: Option<usize>,
    /// True if its work has failed, on an item whose turn has not come. It takes no other item.
    has_failed: bool,
    /// When the first result was asked for.
    started: Option<Instant>,
    /// Estimated number of items.
    expected: usize,
    helpers: Arc<Helpers>,
}

/// The number of helpers.
#[derive(Default)]
struct Helpers {
    number: Mutex<usize>,
    fewer: Condvar,
}

struct Shared<I: Items, W: Work> {
    /// Locked before the state.
    items: Mutex<I>,
    new_work: NewWork<W>,
    cores: Arc<Cores>,
    /// Limit on the bytes of results that wait to be returned.
    ahead_bytes: usize,
    state: Mutex<State<W::Output>>,
    /// Tells of results, of room for results, and of the end.
    changed: Condvar,
}

struct State<O> {
    /// The results of items, from the item `first` on.
    results: VecDeque<Results<O>>,
    first: usize,
    /// Bytes of the results in all queues.
    ahead: usize,
    /// True once there are no more items.
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
        cores: &Arc<Cores>,
    ) -> Self {
        let work = new_work();
        let left = governor.memory_left() / AHEAD_PART;
        let state = State {
            results: VecDeque::new(),
            first: 0,
            ahead: 0,
            ended: false,
            stopped: false,
            panic: None,
        };
        Self {
            shared: Arc::new(Shared {
                items: Mutex::new(items),
                new_work: Box::new(new_work),
                cores: Arc::clone(cores),
                ahead_bytes: left.clamp(AHEAD_BYTES.0, AHEAD_BYTES.1),
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            work,
            own: None,
            has_failed: false,
            started: None,
            expected,
            helpers: Arc::default(),
        }
    }

    /// Returns the next result, or `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<W::Output>, QueryError> {
        loop {
            let shared = Arc::clone(&self.shared);
            let mut state = shared.state.lock();
            if let Some(panic) = state.panic.take() {
                drop(state);
                resume_unwind(panic);
            }
            if let Some(result) = state.take_result(&shared.changed) {
                return result.map(Some);
            }
            if state.results.is_empty() && state.ended {
                return Ok(None);
            }
            let is_first = self.own == Some(state.first);
            let is_full = state.ahead >= shared.ahead_bytes;
            match self.own {
                Some(_) if is_first => {
                    drop(state);
                    if let Some(result) = self.work.next()? {
                        return Ok(Some(result));
                    }
                    self.end_own();
                }
                Some(own) if !is_full => {
                    drop(state);
                    let result = self.work.next().transpose();
                    let is_last = !matches!(result, Some(Ok(_)));
                    self.has_failed = matches!(result, Some(Err(_)));
                    shared.add(&mut shared.state.lock(), own, result);
                    if is_last {
                        self.own = None;
                    }
                }
                None if !state.ended && !is_full && !self.has_failed => {
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
            let shared = &self.shared;
            shared.add(&mut shared.state.lock(), own, None);
        }
    }

    /// Takes the next item, and a helper if the work takes long.
    fn take_item(&mut self) {
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        let Some((number, item)) = self.shared.take_item() else {
            return;
        };
        self.own = Some(number);
        self.work.begin(item);
        // For the last item a helper would come too late.
        if now.duration_since(started) >= ALONE && number + 1 < self.expected {
            self.take_helper();
        }
    }

    fn take_helper(&self) {
        let (shared, helpers) = (Arc::clone(&self.shared), Arc::clone(&self.helpers));
        *self.helpers.number.lock() += 1;
        let job = move || {
            shared.help();
            // Whoever waits for the helpers is the last to hold what they share.
            drop(shared);
            helpers.leave();
        };
        if !self.shared.cores.help(Box::new(job)) {
            self.helpers.leave();
        }
    }
}

impl Helpers {
    fn leave(&self) {
        *self.number.lock() -= 1;
        self.fewer.notify_all();
    }
}

/// Waits for the helpers, so that nothing of the query is in use after its end.
impl<I: Items, W: Work<Item = I::Item>> Drop for Ordered<I, W> {
    fn drop(&mut self) {
        self.shared.state.lock().stopped = true;
        self.shared.changed.notify_all();
        let mut number = self.helpers.number.lock();
        while *number > 0 {
            self.helpers.fewer.wait(&mut number);
        }
    }
}

impl<I: Items, W: Work<Item = I::Item>> Shared<I, W> {
    /// Takes the next item, and its number. An error takes the place of an item.
    fn take_item(&self) -> Option<(usize, I::Item)> {
        let mut items = self.items.lock();
        if self.state.lock().ended {
            return None;
        }
        let item = items.next();
        let mut state = self.state.lock();
        let number = state.first + state.results.len();
        let mut results = Results {
            queue: VecDeque::new(),
            is_whole: false,
        };
        let taken = match item {
            Ok(Some(item)) => Some((number, item)),
            Ok(None) => {
                state.ended = true;
                self.changed.notify_all();
                return None;
            }
            Err(error) => {
                results.queue.push_back((Err(error), 0));
                results.is_whole = true;
                state.ended = true;
                self.changed.notify_all();
                None
            }
        };
        state.results.push_back(results);
        taken
    }

    /// Works until there are no more items, or another query needs the core.
    fn help(&self) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work())) {
            self.state.lock().panic = Some(panic);
            self.changed.notify_all();
        }
    }

    fn work(&self) {
        let mut work = (self.new_work)();
        while self.cores.may_stay() && self.wait_for_room() {
            let Some((number, item)) = self.take_item() else {
                return;
            };
            work.begin(item);
            if !self.work_on(number, &mut work) {
                return;
            }
        }
    }

    /// Adds a result of an item, or its end.
    fn add(
        &self,
        state: &mut State<W::Output>,
        item: usize,
        result: Option<Result<W::Output, QueryError>>,
    ) {
        let results = &mut state.results[item - state.first];
        results.is_whole = !matches!(result, Some(Ok(_)));
        if let Some(result) = result {
            let bytes = result.as_ref().map_or(0, W::bytes);
            results.queue.push_back((result, bytes));
            state.ahead += bytes;
        }
        if item == state.first {
            self.changed.notify_all();
        }
    }

    /// Waits until results may be kept for another item. Returns false if there is nothing more to do.
    fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        while state.ahead >= self.ahead_bytes && !state.stopped {
            self.changed.wait(&mut state);
        }
        !state.stopped && !state.ended
    }

    /// Makes the results of an item. Returns whether the thread may go on.
    fn work_on(&self, number: usize, work: &mut W) -> bool {
        loop {
            let result = work.next().transpose();
            let is_last = !matches!(result, Some(Ok(_)));
            let has_failed = matches!(result, Some(Err(_)));
            let mut state = self.state.lock();
            self.add(&mut state, number, result);
            if is_last {
                return !has_failed;
            }
            if !self.wait_for_reader(number, state) {
                return false;
            }
        }
    }

    /// Waits while too many results are ahead of the reader, unless it waits for those of this item. Returns false once
    /// nobody reads any more.
    fn wait_for_reader(&self, number: usize, mut state: MutexGuard<'_, State<W::Output>>) -> bool {
        let is_wanted =
            |state: &State<W::Output>| number == state.first && state.results[0].queue.is_empty();
        while !state.stopped && state.ahead >= self.ahead_bytes && !is_wanted(&state) {
            self.changed.wait(&mut state);
        }
        !state.stopped
    }
}

impl<O> State<O> {
    /// Takes the next result in order, if it is there.
    fn take_result(&mut self, changed: &Condvar) -> Option<Result<O, QueryError>> {
        loop {
            let results = self.results.front_mut()?;
            if let Some((result, bytes)) = results.queue.pop_front() {
                self.ahead -= bytes;
                changed.notify_all();
                return Some(result);
            }
            if !results.is_whole {
                return None;
            }
            self.results.pop_front();
            self.first += 1;
            changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
