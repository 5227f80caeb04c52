//! The cores that queries share.
//!
//! Each running query has its own thread. Helpers are further threads for queries that run long. There are only as many as
//! there are cores that no query's own thread uses: a helper leaves when another query comes. Idle helpers wait for the
//! next query that runs long.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Weak};
use std::thread::{Builder, available_parallelism};

use parking_lot::{Condvar, Mutex};
use pythia_io::give_way;

thread_local! {
    /// True in threads that help.
    static HELPS: Cell<bool> = const { Cell::new(false) };
    /// True in threads that are counted.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that compute, with a limit.
#[derive(Debug)]
pub struct Cores {
    limit: usize,
    busy: AtomicUsize,
    /// The channels on which idle helpers wait for work.
    idle: Mutex<Vec<Sender<Job>>>,
    /// Number of jobs that helpers were given.
    jobs: AtomicU64,
}

/// Work for a helper. It does not panic.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A thread that computes.
#[derive(Debug)]
pub struct Busy<'c>(Option<&'c Cores>);

impl Cores {
    /// Creates a limit on the threads; `None` is the number of the machine's cores. Queries never wait for it: it limits
    /// helpers.
    pub fn new(limit: Option<NonZero<usize>>) -> Self {
        let machine = || available_parallelism().map_or(1, NonZero::get);
        Self {
            limit: limit.map_or_else(machine, NonZero::get),
            busy: AtomicUsize::new(0),
            idle: Mutex::default(),
            jobs: AtomicU64::new(0),
        }
    }

    /// Returns a single core, for work outside an engine.
    pub(crate) fn one() -> Arc<Self> {
        static ONE: LazyLock<Arc<Cores>> =
            LazyLock::new(|| Arc::new(Cores::new(Some(NonZero::<usize>::MIN))));
        Arc::clone(&ONE)
    }

    /// Returns the number of jobs that helpers were given.
    pub fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Returns the most threads that compute at once.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns whether there may be helpers at all.
    pub(crate) fn are_several(&self) -> bool {
        self.limit > 1
    }

    /// Counts the current thread while it computes, once. Helpers count from their start.
    pub fn compute(&self) -> Busy<'_> {
        if IS_COUNTED.replace(true) {
            return Busy(None);
        }
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Some(self))
    }

    /// Lets a helper do a job. Returns false if no core is free.
    pub(crate) fn help(self: &Arc<Self>, job: Job) -> bool {
        if !self.enter() {
            return false;
        }
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let idle = self.idle.lock().pop();
        if let Some(helper) = idle {
            helper.send(job).expect("idle helpers wait");
            return true;
        }
        let cores = Arc::downgrade(self);
        let helper = Builder::new().name("pythia helper".to_owned());
        let started = helper.spawn(move || serve(job, &cores)).is_ok();
        if !started {
            // Without another thread the query takes longer.
            self.leave();
        }
        started
    }

    /// Returns whether a helper may start; then it counts until [`Self::leave`].
    fn enter(&self) -> bool {
        let one_more = |busy: usize| (busy < self.limit).then_some(busy + 1);
        let entered = self
            .busy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        entered.is_ok()
    }

    /// Returns whether a helper could start now.
    pub(crate) fn are_free(&self) -> bool {
        self.busy.load(Ordering::Relaxed) < self.limit
    }

    /// Returns whether a helper may go on.
    pub(crate) fn may_stay(&self) -> bool {
        self.busy.load(Ordering::Relaxed) <= self.limit
    }

    /// Waits for other threads of the same query, which may use the core of this one meanwhile.
    pub(crate) fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        if !IS_COUNTED.get() {
            return wait();
        }
        self.leave();
        let waited = wait();
        self.busy.fetch_add(1, Ordering::Relaxed);
        waited
    }

    /// Returns the number of idle helpers.
    #[cfg(test)]
    pub(crate) fn helpers(&self) -> usize {
        self.idle.lock().len()
    }

    /// Waits until nobody computes.
    #[cfg(test)]
    pub(crate) fn wait_until_idle(&self) {
        while self.busy.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    /// Ends a helper's job.
    fn leave(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(cores) = self.0 {
            cores.busy.fetch_sub(1, Ordering::Relaxed);
            IS_COUNTED.set(false);
        }
    }
}

/// The helpers of some work. Drop waits for them.
#[derive(Default)]
pub(crate) struct Helpers(Arc<Count>);

/// A helper, or a job that a helper is to be asked for, until it is dropped.
pub(crate) struct Helper(Arc<Count>);

#[derive(Default)]
struct Count {
    number: Mutex<usize>,
    fewer: Condvar,
}

impl Helpers {
    /// Returns their number.
    pub(crate) fn number(&self) -> usize {
        *self.0.number.lock()
    }

    /// Counts one more.
    pub(crate) fn one(&self) -> Helper {
        *self.0.number.lock() += 1;
        Helper(Arc::clone(&self.0))
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut number = self.0.number.lock();
        while *number > 0 {
            self.0.fewer.wait(&mut number);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        *self.0.number.lock() -= 1;
        self.0.fewer.notify_all();
    }
}

/// Does jobs, as a helper, until nobody may give another one.
fn serve(mut job: Job, cores: &Weak<Cores>) {
    give_way();
    HELPS.set(true);
    IS_COUNTED.set(true);
    loop {
        job();
        let (next, jobs) = channel();
        let Some(cores) = cores.upgrade() else {
            return;
        };
        cores.idle.lock().push(next);
        cores.leave();
        drop(cores);
        match jobs.recv() {
            Ok(next) => job = next,
            Err(_) => return,
        }
    }
}

/// Returns whether the current thread is a helper.
pub(crate) fn is_helper() -> bool {
    HELPS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_take_only_the_cores_that_no_query_uses() {
        let cores = Cores::new(NonZero::new(2));
        let query = cores.compute();
        assert!(cores.enter() && !cores.enter());
        assert!(cores.may_stay());
        let again = cores.compute();
        assert!(cores.may_stay(), "a thread counts once");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _other = cores.compute();
                assert!(!cores.may_stay(), "another query needs the core");
                cores.leave();
                assert!(!cores.enter());
            });
        });
        cores.enter();
        let while_waiting = cores.wait(|| cores.enter());
        assert!(while_waiting && !cores.may_stay(), "its core was used");
        cores.leave();
        cores.leave();
        drop((again, query));
        assert!(cores.enter());
        assert_eq!(cores.busy.load(Ordering::Relaxed), 1);
    }
}
