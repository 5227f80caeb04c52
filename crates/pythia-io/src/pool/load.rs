//! Reads pages that are not in the pool.
//!
//! A thread claims the pages it misses, reads them as one batch and publishes them. Other threads that need a
//! claimed page wait for it. No thread waits while it has claims of its own, so there are no deadlocks. A claim is
//! released if its read fails or its thread unwinds.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::arena::FrameBuffer;
use super::paged_file::{FileInner, Window};
use super::{Claim, Frame, Lookup, Page, PageKey, READ_AHEAD, tally};
use crate::storage::{ReadRequest, merge_reads};
use crate::{IoError, verify_page};

/// Maximum time to wait for a page to be released.
const PATIENCE: Duration = Duration::from_secs(1);

const ONE_PAGE: Window = Window { slots: 1, reads: 1 };

/// The event for which threads wait that need a page another thread is reading.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    done: Mutex<bool>,
    changed: Condvar,
}

impl Ticket {
    fn wait(&self) {
        let mut done = self.done.lock();
        while !*done {
            self.changed.wait(&mut done);
        }
    }

    fn finish(&self) {
        *self.done.lock() = true;
        self.changed.notify_all();
    }
}

/// Pages claimed by this thread, and the frames for them.
struct Claims<'f> {
    file: &'f FileInner,
    ticket: Arc<Ticket>,
    pending: Vec<(PageKey, FrameBuffer)>,
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for (key, _) in &self.pending {
            self.file.release(*key);
        }
        self.ticket.finish();
    }
}

/// One page of a window.
enum Slot {
    Ready(Page),
    /// This thread is reading it.
    Claimed,
    /// Another thread is reading it.
    Elsewhere(Arc<Ticket>),
}

/// Result of taking one more page into a window.
enum Step {
    Slot(Slot),
    /// There is no memory for it now: the window ends here.
    Full,
}

impl FileInner {
    /// Reads one page that was not found.
    #[cold]
    pub(super) fn load(&self, number: u64) -> Result<Page, IoError> {
        let mut page = None;
        self.load_window(ONE_PAGE, 0..1, &|_| number, &mut |_, loaded| {
            page = Some(loaded)
        })?;
        Ok(page.expect("a window serves at least one page"))
    }

    /// Serves a window of pages. `number` gives the page numbers for the indexes in `range`. Finds the cached
    /// pages, reads all others as one batch, and then passes each to `serve`, in order. Returns the index after
    /// the last page served, which is past the range's start.
    pub(super) fn load_window(
        &self,
        window: Window,
        range: Range<usize>,
        number: &dyn Fn(usize) -> u64,
        serve: &mut dyn FnMut(usize, Page),
    ) -> Result<usize, IoError> {
        let started = Instant::now();
        let Range { start: first, end } = range;
        loop {
            let mut slots = Vec::with_capacity(window.slots.min(end - first));
            let mut claims = Claims {
                file: self,
                ticket: Arc::default(),
                pending: Vec::new(),
            };
            while slots.len() < window.slots
                && claims.pending.len() < window.reads
                && first + slots.len() < end
            {
                match self.claim(number(first + slots.len()), &mut claims)? {
                    Step::Slot(slot) => slots.push(slot),
                    Step::Full => break,
                }
            }
            if slots.is_empty() {
                drop(claims);
                self.wait_for_memory(started, number(first))?;
                continue;
            }
            let loaded = self.read(claims, 0)?;
            let served = self.serve(slots, loaded, first, number, serve);
            if served > 0 {
                return Ok(first + served);
            }
        }
    }

    /// Takes one more page into the window.
    fn claim(&self, number: u64, claims: &mut Claims<'_>) -> Result<Step, IoError> {
        self.check_number(number)?;
        let key = self.key(number);
        let hash = key.hash();
        let claim = self
            .pool
            .shard(hash)
            .get_or_claim(hash, key, self.group, &claims.ticket);
        let ghost = match claim {
            Claim::Hit(page) => return Ok(Step::Slot(Slot::Ready(page))),
            Claim::Loading(ticket) if Arc::ptr_eq(&ticket, &claims.ticket) => {
                // The same number twice: the second one is served by another window.
                return Ok(Step::Full);
            }
            Claim::Loading(ticket) => return Ok(Step::Slot(Slot::Elsewhere(ticket))),
            Claim::Claimed { ghost } => ghost,
        };
        match self.pool.try_frame(self.page_bytes, key, ghost) {
            Some(frame) => {
                claims.pending.push((key, frame));
                Ok(Step::Slot(Slot::Claimed))
            }
            None => {
                self.release(key);
                Ok(Step::Full)
            }
        }
    }

    /// Reads pages that were not requested yet, as far as there is memory. Ignores errors, which come again when
    /// the pages are requested.
    pub(super) fn read_ahead(&self, pages: impl IntoIterator<Item = u64>) {
        let mut claims = Claims {
            file: self,
            ticket: Arc::default(),
            pending: Vec::new(),
        };
        for number in pages {
            let key = self.key(number);
            let hash = key.hash();
            let claimed = self.pool.shard(hash).claim_ahead(hash, key, &claims.ticket);
            let Some(ghost) = claimed else { continue };
            let Some(frame) = self.pool.try_frame(self.page_bytes, key, ghost) else {
                self.release(key);
                break;
            };
            claims.pending.push((key, frame));
        }
        let _ = self.read(claims, READ_AHEAD);
    }

    /// Reads, verifies and publishes all claimed pages, with `uses` as their number of uses.
    fn read(&self, mut claims: Claims<'_>, uses: u8) -> Result<Vec<Page>, IoError> {
        if claims.pending.is_empty() {
            return Ok(Vec::new());
        }
        let page_bytes = self.page_bytes as u64;
        let mut reads: Vec<ReadRequest<'_>> = claims
            .pending
            .iter_mut()
            .map(|(key, frame)| ReadRequest {
                file: &*self.file,
                offset: key.page * page_bytes,
                buffer: frame,
            })
            .collect();
        let depth = merge_reads(&reads).count();
        self.pool.storage.read_batch(&mut reads)?;
        self.counters
            .submitted(depth, reads.len(), reads.len() * self.page_bytes);
        if uses != READ_AHEAD {
            tally::read(reads.len());
        }
        drop(reads);
        for (key, frame) in &claims.pending {
            self.verify(*key, frame)?;
        }
        let pages = claims.pending.drain(..).map(|(key, buffer)| {
            let frame = Arc::new(Frame {
                key,
                uses: uses.into(),
                buffer,
            });
            let hash = key.hash();
            let shared = Arc::clone(&frame);
            self.pool.shard(hash).publish(hash, shared, self.stays);
            Page(frame)
        });
        Ok(pages.collect())
    }

    fn verify(&self, key: PageKey, bytes: &[u8]) -> Result<(), IoError> {
        verify_page(bytes, key.page).map_err(|mismatch| IoError::Corrupt {
            file: self.file.name().to_owned(),
            page: key.page,
            offset: key.page * self.page_bytes as u64,
            expected: mismatch.expected,
            found: mismatch.found,
        })
    }

    /// Passes on the window's pages, waiting for those that other threads read. Ends early where another thread's
    /// read failed. Returns how many pages were served.
    fn serve(
        &self,
        slots: Vec<Slot>,
        loaded: Vec<Page>,
        first: usize,
        number: &dyn Fn(usize) -> u64,
        serve: &mut dyn FnMut(usize, Page),
    ) -> usize {
        let count = slots.len();
        let mut loaded = loaded.into_iter();
        for (index, slot) in slots.into_iter().enumerate() {
            let page = match slot {
                Slot::Ready(page) => page,
                Slot::Claimed => loaded.next().expect("one page per claim"),
                Slot::Elsewhere(ticket) => {
                    ticket.wait();
                    match self.pool.get(self.key(number(first + index)), self.group) {
                        Lookup::Hit(page) => page,
                        _ => return index,
                    }
                }
            };
            serve(first + index, page);
        }
        count
    }

    /// Sleeps briefly so that pages may be released. Fails once the patience is exhausted.
    fn wait_for_memory(&self, started: Instant, number: u64) -> Result<(), IoError> {
        let waited = started.elapsed();
        if waited >= PATIENCE {
            return Err(IoError::CacheFull {
                budget_bytes: self.pool.budget_bytes,
                waited_ms: waited.as_millis() as u64,
                file: self.file.name().to_owned(),
                page: number,
            });
        }
        std::thread::sleep(
            (waited / 8).clamp(Duration::from_micros(50), Duration::from_millis(20)),
        );
        Ok(())
    }

    fn release(&self, key: PageKey) {
        let hash = key.hash();
        self.pool.shard(hash).release(hash, key);
    }
}
