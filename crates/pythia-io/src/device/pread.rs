//! Reads through a pool of threads that block in `preadv`. This way works everywhere.
//!
//! Invariant: a batch leaves this module only when no worker holds any of its transfers.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::{Condvar, Mutex};

use super::transfer::{Failure, Transfer};

/// Limit on threads that read at the same time, besides the callers.
const WORKERS_MAX: usize = 32;

/// Worker threads, started when first needed and ended with the pool.
pub(super) struct PreadPool {
    sender: Sender<Arc<Shared>>,
    receiver: Receiver<Arc<Shared>>,
    workers: Mutex<usize>,
}

/// A batch, shared by its caller and the workers that help.
struct Shared {
    pending: Mutex<Vec<Transfer>>,
    state: Mutex<Progress>,
    done: Condvar,
}

struct Progress {
    left: usize,
    failure: Option<Failure>,
}

impl PreadPool {
    pub(super) fn new() -> Self {
        let (sender, receiver) = unbounded();
        Self {
            sender,
            receiver,
            workers: Mutex::new(0),
        }
    }

    /// Reads a batch, as many reads at a time as there are workers. The caller's thread reads too.
    pub(super) fn read(&self, transfers: Vec<Transfer>) -> Result<(), Failure> {
        let count = transfers.len();
        if count == 0 {
            return Ok(());
        }
        let shared = Arc::new(Shared {
            pending: Mutex::new(transfers),
            state: Mutex::new(Progress {
                left: count,
                failure: None,
            }),
            done: Condvar::new(),
        });
        let helpers = self.ensure_workers(count - 1);
        for _ in 0..helpers {
            // The pool holds a receiver, so sending cannot fail.
            let _ = self.sender.send(Arc::clone(&shared));
        }
        shared.work();
        let mut state = shared.state.lock();
        while state.left > 0 {
            shared.done.wait(&mut state);
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Starts workers as needed. Returns how many of the wanted ones exist.
    fn ensure_workers(&self, wanted: usize) -> usize {
        let mut workers = self.workers.lock();
        while *workers < wanted.min(WORKERS_MAX) {
            let receiver = self.receiver.clone();
            let started = std::thread::Builder::new()
                .name("pythia-pread".into())
                .stack_size(128 << 10)
                .spawn(move || {
                    for shared in receiver {
                        shared.work();
                    }
                });
            if started.is_err() {
                break; // Fewer threads are slower, not wrong.
            }
            *workers += 1;
        }
        wanted.min(*workers)
    }
}

impl Shared {
    /// Reads until nothing is pending. A helper that arrives late finds nothing to do.
    fn work(&self) {
        loop {
            let Some(mut transfer) = self.pending.lock().pop() else {
                return;
            };
            let result = transfer.run();
            let mut state = self.state.lock();
            if let Err(error) = result {
                state.failure.get_or_insert(transfer.failure(error));
            }
            state.left -= 1;
            if state.left == 0 {
                self.done.notify_all();
            }
        }
    }
}
