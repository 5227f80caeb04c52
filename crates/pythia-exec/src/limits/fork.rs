//! Work that is divided among all free cores, and whose results are waited for.
#![expect(
    unsafe_code,
    reason = "helpers borrow from a function that waits for them"
)]

use std::any::Any;
use std::mem::transmute;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::cores::{Cores, Helpers, Job};
use crate::error::QueryError;

/// Returns the results of `work` on each of the parts from 0 on, in order; or the error of the first part that fails.
/// Without a free core, the current thread does everything.
pub fn fork<T: Send>(
    cores: &Arc<Cores>,
    parts: usize,
    work: impl Fn(usize) -> Result<T, QueryError> + Sync,
) -> Result<Vec<T>, QueryError> {
    let fork = Fork {
        work: &work,
        parts,
        next: AtomicUsize::new(0),
        helpers: AtomicUsize::new(0),
        found: Mutex::new(Found {
            results: (0..parts).map(|_| None).collect(),
            error: None,
            panic: None,
        }),
    };
    let helpers = Helpers::default();
    let call_helper = || {
        let (leaves, borrowed) = (helpers.one(), (&fork, cores));
        let job: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            let (fork, cores) = borrowed;
            fork.help(cores);
            drop(leaves);
        });
        // SAFETY: only the lifetime changes. What the job borrows lives until the end of this function, and `helpers`
        // waits for the job before that, even in a panic: it is dropped before `fork` is. The job touches nothing borrowed
        // after it has dropped `leaves`, which also a job does that never runs.
        let job: Job = unsafe { transmute(job) };
        fork.helpers.fetch_add(1, Ordering::Relaxed);
        let is_called = cores.help(job);
        if !is_called {
            fork.helpers.fetch_sub(1, Ordering::Relaxed);
        }
        is_called
    };
    fork.work(|| {
        // A core may become free while this thread works.
        while cores.are_free() && fork.needs_helper() && call_helper() {}
        true
    });
    drop(helpers);
    fork.found.into_inner().outcome()
}

struct Fork<'w, T> {
    work: &'w (dyn Fn(usize) -> Result<T, QueryError> + Sync),
    parts: usize,
    /// The next part to be worked on.
    next: AtomicUsize,
    /// Number of helpers at work.
    helpers: AtomicUsize,
    found: Mutex<Found<T>>,
}

struct Found<T> {
    results: Vec<Option<T>>,
    /// The first part that has failed.
    error: Option<(usize, QueryError)>,
    /// The panic of a helper.
    panic: Option<Box<dyn Any + Send>>,
}

impl<T: Send> Fork<'_, T> {
    /// Returns whether there are parts left for one more helper.
    fn needs_helper(&self) -> bool {
        let taken = self.next.load(Ordering::Relaxed) + self.helpers.load(Ordering::Relaxed);
        taken + 1 < self.parts
    }

    /// Works on parts until another query needs the core.
    fn help(&self, cores: &Cores) {
        let work = AssertUnwindSafe(|| self.work(|| cores.may_stay()));
        if let Err(panic) = catch_unwind(work) {
            self.next.store(self.parts, Ordering::Relaxed);
            self.found.lock().panic = Some(panic);
        }
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Works on parts as long as there are any and the thread may stay.
    fn work(&self, may_stay: impl Fn() -> bool) {
        while may_stay() {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            let result = (self.work)(part);
            let mut found = self.found.lock();
            match result {
                Ok(result) => found.results[part] = Some(result),
                Err(error) => {
                    self.next.store(self.parts, Ordering::Relaxed);
                    if found.error.as_ref().is_none_or(|(first, _)| part < *first) {
                        found.error = Some((part, error));
                    }
                }
            }
        }
    }
}

impl<T> Found<T> {
    fn outcome(self) -> Result<Vec<T>, QueryError> {
        if let Some(panic) = self.panic {
            resume_unwind(panic);
        }
        if let Some((_, error)) = self.error {
            return Err(error);
        }
        let results = self.results.into_iter();
        Ok(results
            .map(|result| result.expect("each part has a result"))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    fn cores(limit: usize) -> Arc<Cores> {
        Arc::new(Cores::new(NonZero::new(limit)))
    }

    /// Returns a number for each part, after a time of its own.
    fn slow(part: usize) -> usize {
        sleep(Duration::from_micros((part * 31 % 17 * 20) as u64));
        part * 3
    }

    #[test]
    fn results_are_in_the_order_of_the_parts_with_any_number_of_threads() {
        for limit in [1, 2, 5] {
            let cores = cores(limit);
            let query = cores.compute();
            for parts in [0, 1, 2, 100] {
                let found = fork(&cores, parts, |part| Ok(slow(part))).unwrap();
                assert_eq!(found, (0..parts).map(|part| part * 3).collect::<Vec<_>>());
            }
            drop(query);
            cores.wait_until_idle();
            assert_eq!(cores.jobs() > 0, limit > 1);
        }
    }

    #[test]
    fn the_first_part_that_fails_gives_the_error() {
        let cores = cores(3);
        for fails in 0..50 {
            let error = fork(&cores, 50, |part| match part >= fails {
                true => Err(QueryError::Execution(slow(part).to_string())),
                false => Ok(slow(part)),
            });
            match error {
                Err(QueryError::Execution(part)) => assert_eq!(part, (fails * 3).to_string()),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn panics_come_when_no_helper_uses_what_they_borrow() {
        let cores = cores(3);
        for panics in 0..20 {
            let borrowed = vec![7_usize; 100];
            let forked = AssertUnwindSafe(|| {
                fork(&cores, 100, |part| {
                    assert_ne!(part, panics, "on purpose");
                    Ok(slow(borrowed[part]))
                })
            });
            assert!(catch_unwind(forked).is_err());
            drop(borrowed);
            cores.wait_until_idle();
        }
    }
}
