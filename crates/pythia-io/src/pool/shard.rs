//! One part of the pool's table: the pages it holds, and their order of eviction.
//!
//! Replacement follows S3-FIFO (Yang et al., SOSP 2023), per page size. New pages enter a small queue and leave it
//! unless they are used again. Those that are used move to the main queue, where each use buys another round. A
//! page that comes back soon after it was evicted (a ghost) enters the main queue at once. So a scan passes
//! through the small queue and leaves hot pages alone.
//!
//! Invariants:
//! - Each page in the table is in exactly one queue; each page being read is in none.
//! - A pinned page is not evicted. Copies of its handle are made under the shard's lock or from another copy, so a
//!   count of one, seen under the lock, stays one.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::counters::GROUPS_MAX;
use super::load::Ticket;
use super::{Frame, Page, PageKey, tally};

/// Limit on the uses remembered per page.
const USES_MAX: u8 = 3;
/// Uses in the small queue that earn a place in the main queue.
const USES_TO_STAY: u8 = 2;
/// Share of the small queue in all pages, as a divisor.
const SMALL_PART: usize = 10;

/// The state of one page.
enum Residence {
    Cached(Arc<Frame>),
    /// A thread is reading it.
    Loading(Arc<Ticket>),
}

struct Slot {
    key: PageKey,
    residence: Residence,
}

/// Result of a lookup.
pub(super) enum Lookup {
    Hit(Page),
    /// Another thread is reading the page.
    Loading(Arc<Ticket>),
    Absent,
}

/// Result of a lookup that claims an absent page.
pub(super) enum Claim {
    Hit(Page),
    Loading(Arc<Ticket>),
    /// The caller has to read the page; `ghost` if it was evicted recently.
    Claimed {
        ghost: bool,
    },
}

/// One part of the table, under one lock.
pub(super) struct Shard {
    table: HashTable<Slot>,
    queues: Vec<Queues>,
    /// Fingerprints of recently evicted pages, at an index given by their hash.
    ghosts: Box<[u32]>,
    /// Pages found cached, per group of files.
    pub(super) hits: [u64; GROUPS_MAX],
}

/// The pages of one size, oldest first.
struct Queues {
    page_bytes: usize,
    small: VecDeque<PageKey>,
    main: VecDeque<PageKey>,
}

impl Queues {
    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

impl Shard {
    /// Makes a shard that remembers `ghosts` evicted pages.
    pub(super) fn new(ghosts: usize) -> Self {
        Self {
            table: HashTable::new(),
            queues: Vec::new(),
            ghosts: vec![0; ghosts.next_power_of_two()].into_boxed_slice(),
            hits: [0; GROUPS_MAX],
        }
    }

    /// Looks a page up and counts the use.
    #[inline]
    pub(super) fn get(&mut self, hash: u64, key: PageKey, group: usize) -> Lookup {
        match self.table.find(hash, |slot| slot.key == key) {
            Some(Slot {
                residence: Residence::Cached(frame),
                ..
            }) => {
                if frame.touch(USES_MAX) {
                    self.hits[group] += 1;
                    tally::hit();
                } else {
                    tally::read(1);
                }
                Lookup::Hit(Page(Arc::clone(frame)))
            }
            Some(Slot {
                residence: Residence::Loading(ticket),
                ..
            }) => Lookup::Loading(Arc::clone(ticket)),
            None => Lookup::Absent,
        }
    }

    /// Looks a page up. If it is absent, marks it as being read under `ticket`.
    pub(super) fn get_or_claim(
        &mut self,
        hash: u64,
        key: PageKey,
        group: usize,
        ticket: &Arc<Ticket>,
    ) -> Claim {
        match self.get(hash, key, group) {
            Lookup::Hit(page) => Claim::Hit(page),
            Lookup::Loading(ticket) => Claim::Loading(ticket),
            Lookup::Absent => Claim::Claimed {
                ghost: self.claim(hash, key, ticket),
            },
        }
    }

    /// Publishes a page that this thread had claimed. One that `stays` begins with as many uses as a page can have.
    pub(super) fn publish(&mut self, hash: u64, frame: Arc<Frame>, stays: bool) {
        let key = frame.key;
        if stays {
            frame.set_uses(USES_MAX);
        }
        let page_bytes = frame.buffer.len();
        if let Some(slot) = self.table.find_mut(hash, |slot| slot.key == key) {
            slot.residence = Residence::Cached(frame);
        }
        let place = self.ghost_place(hash);
        let ghost = self.ghosts[place] == fingerprint(hash);
        if ghost {
            self.ghosts[place] = 0;
        }
        let queues = self.queues(page_bytes);
        // A page that came back soon after it was evicted has proved that it is used.
        match ghost || stays {
            true => queues.main.push_back(key),
            false => queues.small.push_back(key),
        }
    }

    /// Marks a page as being read under `ticket`, unless it is present or being read. Returns whether it was
    /// evicted recently.
    pub(super) fn claim_ahead(
        &mut self,
        hash: u64,
        key: PageKey,
        ticket: &Arc<Ticket>,
    ) -> Option<bool> {
        if self.contains(hash, key) {
            return None;
        }
        Some(self.claim(hash, key, ticket))
    }

    /// Returns whether a page is present or being read.
    pub(super) fn contains(&self, hash: u64, key: PageKey) -> bool {
        self.table.find(hash, |slot| slot.key == key).is_some()
    }

    fn claim(&mut self, hash: u64, key: PageKey, ticket: &Arc<Ticket>) -> bool {
        let residence = Residence::Loading(Arc::clone(ticket));
        let slot = Slot { key, residence };
        self.table.insert_unique(hash, slot, |slot| slot.key.hash());
        self.ghosts[self.ghost_place(hash)] == fingerprint(hash)
    }

    /// Releases a claim.
    pub(super) fn release(&mut self, hash: u64, key: PageKey) {
        if let Entry::Occupied(entry) =
            self.table
                .entry(hash, |slot| slot.key == key, |slot| slot.key.hash())
            && matches!(entry.get().residence, Residence::Loading(_))
        {
            entry.remove();
        }
    }

    /// Takes out the page of this size that will be missed least. The caller drops it outside the lock.
    pub(super) fn evict(&mut self, page_bytes: usize) -> Option<Arc<Frame>> {
        let which = self
            .queues
            .iter()
            .position(|q| q.page_bytes == page_bytes)?;
        // Each page is looked at until its uses are spent; pinned pages are skipped.
        let pages = self.queues[which].len();
        // Pages being read will join the small queue: a large batch must not drain the main queue first.
        let queued: usize = self.queues.iter().map(Queues::len).sum();
        let loading = self.table.len().saturating_sub(queued);
        let mut pinned = 0;
        for _ in 0..pages * (USES_MAX as usize + 2) {
            let queues = &mut self.queues[which];
            // The small queue keeps its share, unless the whole main queue is pinned.
            let small_is_due = (queues.small.len() + loading) * SMALL_PART >= pages + loading
                || pinned > queues.main.len();
            let from_small = small_is_due && !queues.small.is_empty() || queues.main.is_empty();
            let queue = if from_small {
                &mut queues.small
            } else {
                &mut queues.main
            };
            let key = queue.pop_front()?;
            let hash = key.hash();
            let stays = match self.table.find(hash, |slot| slot.key == key) {
                Some(Slot {
                    residence: Residence::Cached(frame),
                    ..
                }) => {
                    if Arc::strong_count(frame) > 1 {
                        pinned += 1;
                        true
                    } else if from_small {
                        // Keeps the uses beyond the first as rounds in the main queue.
                        frame.spend_use() && frame.uses() >= USES_TO_STAY - 1
                    } else {
                        frame.spend_use()
                    }
                }
                _ => continue,
            };
            if stays {
                self.queues[which].main.push_back(key);
            } else {
                let place = self.ghost_place(hash);
                self.ghosts[place] = fingerprint(hash);
                return self.take(hash, key);
            }
        }
        None
    }

    /// Returns the uses of a page if it could be evicted.
    pub(super) fn evictable(&self, hash: u64, key: PageKey, slab: u32) -> Option<u8> {
        match self.table.find(hash, |slot| slot.key == key) {
            Some(Slot {
                residence: Residence::Cached(frame),
                ..
            }) if frame.buffer.slab() == slab && Arc::strong_count(frame) == 1 => {
                Some(frame.uses())
            }
            _ => None,
        }
    }

    /// Takes one use off a page.
    pub(super) fn age(&self, hash: u64, key: PageKey) {
        if let Some(Slot {
            residence: Residence::Cached(frame),
            ..
        }) = self.table.find(hash, |slot| slot.key == key)
        {
            frame.spend_use();
        }
    }

    /// Takes out a page from its queue, if it is not pinned.
    pub(super) fn evict_page(&mut self, hash: u64, key: PageKey, slab: u32) -> Option<Arc<Frame>> {
        self.evictable(hash, key, slab)?;
        let frame = self.take(hash, key)?;
        let queues = self.queues(frame.buffer.len());
        if let Some(place) = queues.small.iter().position(|k| *k == key) {
            queues.small.remove(place);
        } else if let Some(place) = queues.main.iter().position(|k| *k == key) {
            queues.main.remove(place);
        }
        Some(frame)
    }

    /// Takes out all unpinned pages, of one file or of all, and forgets the evicted ones.
    pub(super) fn clear(&mut self, file: Option<u32>) -> Vec<Arc<Frame>> {
        let mut frames = Vec::new();
        let taken = self.table.extract_if(|slot| {
            file.is_none_or(|file| slot.key.file == file)
                && matches!(&slot.residence, Residence::Cached(frame) if Arc::strong_count(frame) == 1)
        });
        for slot in taken {
            if let Residence::Cached(frame) = slot.residence {
                frames.push(frame);
            }
        }
        let Self { table, queues, .. } = self;
        let stays = |key: &PageKey| {
            matches!(
                table.find(key.hash(), |slot| slot.key == *key),
                Some(Slot {
                    residence: Residence::Cached(_),
                    ..
                })
            )
        };
        for queues in queues {
            queues.small.retain(stays);
            queues.main.retain(stays);
        }
        if file.is_none() {
            self.ghosts.fill(0);
        }
        frames
    }

    /// Returns the number of pages.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn take(&mut self, hash: u64, key: PageKey) -> Option<Arc<Frame>> {
        let entry = self.table.find_entry(hash, |slot| slot.key == key).ok()?;
        match entry.remove().0.residence {
            Residence::Cached(frame) => Some(frame),
            Residence::Loading(_) => None,
        }
    }

    fn queues(&mut self, page_bytes: usize) -> &mut Queues {
        let found = self.queues.iter().position(|q| q.page_bytes == page_bytes);
        let index = found.unwrap_or_else(|| {
            self.queues.push(Queues {
                page_bytes,
                small: VecDeque::new(),
                main: VecDeque::new(),
            });
            self.queues.len() - 1
        });
        &mut self.queues[index]
    }

    fn ghost_place(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.ghosts.len() - 1)
    }
}

/// Returns a number, never 0, that distinguishes ghosts with the same index.
fn fingerprint(hash: u64) -> u32 {
    (hash as u32) | 1
}
