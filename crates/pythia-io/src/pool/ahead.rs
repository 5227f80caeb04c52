//! Read-ahead: helper threads that read pages which will be requested soon.
//!
//! A hint may be dropped when the helpers are busy. A read that fails here fails again, and is reported, when the
//! page is requested. Helpers hold nothing between hints, and end with the pool.

use std::ops::Range;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::paged_file::FileInner;
use crate::low_priority;

/// Limit on helper threads per pool. Each reads a batch at a time, so two are enough to overlap reading with work.
const HELPERS_MAX: usize = 2;
/// Limit on hints that wait for a helper.
const WAITING_MAX: usize = 32;

/// The helpers of a pool, and the channel to them.
pub(super) struct ReadAhead {
    sender: Sender<Hint>,
    receiver: Receiver<Hint>,
    helpers: Mutex<usize>,
}

struct Hint {
    /// Weak, so that a hint does not keep an unused file open.
    file: Weak<FileInner>,
    pages: Pages,
}

/// Pages that will be requested soon.
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

    /// Asks a helper to read these pages, if one is free or can be started. Threads of low priority read by themselves.
    pub(super) fn hint(&self, file: &Arc<FileInner>, pages: Pages) {
        if low_priority::is_low() {
            return;
        }
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
