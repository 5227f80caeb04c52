//! Reading ahead: helper threads that read pages somebody is going to ask for.
//!
//! A hint is only that: it is dropped when the helpers are busy, and a read that fails here fails
//! again, and is reported, where the page is asked for. Helpers hold nothing between hints, and end
//! with the pool.

use std::ops::Range;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::paged_file::FileInner;

/// Helper threads per pool: enough to overlap reading with work, as each reads a batch at a time.
const HELPERS_MAX: usize = 2;
/// Hints that may wait for a helper.
const WAITING_MAX: usize = 32;

/// The helpers of a pool and the way to them.
pub(super) struct ReadAhead {
    sender: Sender<Hint>,
    receiver: Receiver<Hint>,
    helpers: Mutex<usize>,
}

struct Hint {
    /// Weak, so that a file nobody uses any more is not kept open for its sake.
    file: Weak<FileInner>,
    pages: Pages,
}

/// Pages that somebody is going to ask for.
pub(super) enum Pages {
    Range(Range<u64>),
    List(Box<[u64]>),
}

impl ReadAhead {
    pub(super) fn new() -> Self {
        let (sender, receiver) = bounded(WAITING_MAX);
        Self {
            sender,
            receiver,
            helpers: Mutex::new(0),
        }
    }

    /// Has these pages read soon, if a helper can be found for it.
    pub(super) fn hint(&self, file: &Arc<FileInner>, pages: Pages) {
        let hint = Hint {
            file: Arc::downgrade(file),
            pages,
        };
        if self.sender.try_send(hint).is_ok() && !self.receiver.is_empty() {
            self.start_helper();
        }
    }

    fn start_helper(&self) {
        let mut helpers = self.helpers.lock();
        if *helpers == HELPERS_MAX {
            return;
        }
        let hints = self.receiver.clone();
        let started = std::thread::Builder::new()
            .name("pythia-read-ahead".into())
            .stack_size(256 << 10)
            .spawn(move || {
                for hint in hints {
                    if let Some(file) = hint.file.upgrade() {
                        match hint.pages {
                            Pages::Range(pages) => file.read_ahead(pages),
                            Pages::List(pages) => file.read_ahead(pages),
                        }
                    }
                }
            });
        if started.is_ok() {
            *helpers += 1;
        }
    }
}
