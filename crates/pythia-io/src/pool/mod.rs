//! The buffer pool: pages of many files within a hard memory budget.
//!
//! A page is found in a sharded table ([`shard`]), or read into a frame of the arena ([`arena`]) and verified. It
//! is returned as a [`Page`], which pins it as long as it lives. All frames, including pinned ones and those being
//! read, and the pool's own tables stay within the budget. If every page is pinned, a reader waits a moment and
//! then fails with [`IoError::CacheFull`]; it never takes more memory.
//!
//! Locks: the locks of a shard and of the arena are never held together, nor during a device read.

mod ahead;
mod arena;
mod counters;
mod load;
mod paged_file;
mod shard;
mod tally;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::IoError;
use crate::probe::DeviceProfile;
use crate::storage::{ALIGNMENT, Storage};
use ahead::ReadAhead;
use arena::{Arena, FrameBuffer, SLAB_BYTES};
use counters::{DeviceCounters, GROUPS_MAX};
use shard::{Claim, Lookup, Shard};

pub use counters::{Counters, GroupCounters};
pub use paged_file::PagedFile;
pub use tally::{PageCounts, PageTally};
pub use writer::PageWriter;

/// The smallest budget of a pool: 1 MiB, enough for a few windows of pages of each size.
pub const BUDGET_BYTES_MIN: usize = 1 << 20;
/// The largest page size.
pub const PAGE_BYTES_MAX: usize = SLAB_BYTES;

/// Limit on the number of shards.
const SHARDS_MAX: usize = 256;
/// Share of the pool that one call may pin at a time, as a divisor.
const WINDOW_PART: usize = 8;
/// Share of the pool that one read-ahead window may take, as a divisor.
const AHEAD_PART: usize = 32;
/// Every `STEAL_EVERY`-th page that comes back soon after it was evicted takes memory from another page size.
const STEAL_EVERY: usize = 8;
/// Number of slabs that are compared when one is stolen.
const STEAL_CANDIDATES: usize = 8;

/// A file and a page number in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PageKey {
    file: u32,
    page: u64,
}

impl PageKey {
    #[inline]
    fn hash(&self) -> u64 {
        let mixed = self.page.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ u64::from(self.file).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 29)
    }
}

/// A page in memory.
struct Frame {
    key: PageKey,
    /// Number of recent uses, up to a small maximum.
    uses: AtomicU8,
    buffer: FrameBuffer,
}

/// Special number of uses: the page was read ahead and not requested yet.
const READ_AHEAD: u8 = u8::MAX;

impl Frame {
    /// Records a use. Returns false if the page was read ahead for this use, which counts neither as a hit nor as
    /// a second use.
    #[inline]
    fn touch(&self, most: u8) -> bool {
        // Not atomic as a whole: a lost count does no harm, and hot pages are then only read.
        let uses = self.uses.load(Ordering::Relaxed);
        if uses == READ_AHEAD {
            self.set_uses(0);
            return false;
        }
        if uses < most {
            self.set_uses(uses + 1);
        }
        true
    }

    fn uses(&self) -> u8 {
        match self.uses.load(Ordering::Relaxed) {
            READ_AHEAD => 0,
            uses => uses,
        }
    }

    fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    /// Takes one use off. Returns false if there was none.
    fn spend_use(&self) -> bool {
        let uses = self.uses();
        if uses > 0 {
            self.set_uses(uses - 1);
        }
        uses > 0
    }
}

/// A page in the pool, pinned as long as this handle or a clone of it lives.
///
/// Dereferences to the whole page, seal included; its checksum has been verified.
#[derive(Clone)]
pub struct Page(Arc<Frame>);

impl Page {
    /// Returns the page's number in its file.
    pub fn number(&self) -> u64 {
        self.0.key.page
    }
}

impl Deref for Page {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0.buffer
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({}, {} bytes)", self.number(), self.len())
    }
}

/// Keeps each shard on its own cache lines.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// Pages of many files within one memory budget. See the module's documentation.
pub struct BufferPool {
    storage: Arc<dyn Storage>,
    device: DeviceProfile,
    budget_bytes: usize,
    arena: Arc<Arena>,
    shards: Box<[Padded]>,
    /// The shard where the next eviction begins.
    next_shard: AtomicUsize,
    next_file: AtomicU32,
    ghost_hits: AtomicUsize,
    groups: Mutex<Vec<(&'static str, Arc<DeviceCounters>)>>,
    ahead: ReadAhead,
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BufferPool({} bytes of {:?})",
            self.budget_bytes, self.storage
        )
    }
}

impl BufferPool {
    /// Makes a pool over `storage` that takes at most `budget_bytes` of memory.
    ///
    /// Memory is taken as pages are read. A budget below [`BUDGET_BYTES_MIN`] is raised to it;
    /// [`BufferPool::try_new`] refuses it instead.
    pub fn new(storage: Arc<dyn Storage>, budget_bytes: usize) -> Arc<Self> {
        let device = storage.device();
        Self::with_device(storage, budget_bytes, device)
    }

    fn with_device(
        storage: Arc<dyn Storage>,
        budget_bytes: usize,
        device: DeviceProfile,
    ) -> Arc<Self> {
        let budget_bytes = budget_bytes.max(BUDGET_BYTES_MIN);
        let arena = Arena::new(budget_bytes);
        let shard_count = (budget_bytes >> 20)
            .next_power_of_two()
            .clamp(1, SHARDS_MAX);
        let ghosts = arena.capacity_bytes() / ALIGNMENT / shard_count;
        Arc::new(Self {
            storage,
            device,
            budget_bytes,
            arena,
            shards: (0..shard_count)
                .map(|_| Padded(Mutex::new(Shard::new(ghosts))))
                .collect(),
            next_shard: AtomicUsize::new(0),
            next_file: AtomicU32::new(0),
            ghost_hits: AtomicUsize::new(0),
            groups: Mutex::new(Vec::new()),
            ahead: ReadAhead::new(),
        })
    }

    /// Like [`BufferPool::new`], for a device of this speed. A budget below [`BUDGET_BYTES_MIN`] is an error.
    pub fn try_new(
        storage: Arc<dyn Storage>,
        budget_bytes: usize,
        device: DeviceProfile,
    ) -> Result<Arc<Self>, IoError> {
        if budget_bytes < BUDGET_BYTES_MIN {
            return Err(IoError::CacheTooSmall {
                budget_bytes,
                minimum_bytes: BUDGET_BYTES_MIN,
            });
        }
        Ok(Self::with_device(storage, budget_bytes, device))
    }

    /// Opens a file of pages of `page_bytes` each, counted under `group`.
    ///
    /// Fails if the file's length is not a whole number of pages. Pages of the file leave the pool when the last
    /// clone of the returned file is dropped.
    pub fn open(
        self: &Arc<Self>,
        name: &str,
        page_bytes: usize,
        group: &'static str,
    ) -> Result<PagedFile, IoError> {
        if page_bytes == 0 || !page_bytes.is_multiple_of(ALIGNMENT) || page_bytes > PAGE_BYTES_MAX {
            return Err(IoError::BadPageSize {
                file: name.to_owned(),
                page_bytes,
                maximum_bytes: PAGE_BYTES_MAX,
            });
        }
        let file = self.storage.open(name)?;
        if !file.len().is_multiple_of(page_bytes as u64) {
            return Err(IoError::NotPaged {
                file: name.to_owned(),
                length: file.len(),
                page_bytes,
            });
        }
        let id = self.next_file.fetch_add(1, Ordering::Relaxed);
        let (group, counters) = self.group(group);
        Ok(PagedFile::new(
            Arc::clone(self),
            file,
            id,
            page_bytes,
            group,
            counters,
        ))
    }

    /// Returns the counters since the pool was made.
    pub fn counters(&self) -> Counters {
        let mut hits = [0; GROUPS_MAX];
        for shard in &self.shards {
            let shard = shard.0.lock();
            for (sum, count) in hits.iter_mut().zip(shard.hits) {
                *sum += count;
            }
        }
        let groups = self.groups.lock();
        let groups = groups.iter().zip(hits);
        Counters {
            groups: groups
                .map(|((name, counters), hits)| (*name, counters.snapshot(hits)))
                .collect(),
        }
    }

    /// Returns the storage of the pages.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns the speed of the device, which determines the sizes of batches and of read-ahead.
    pub fn device(&self) -> &DeviceProfile {
        &self.device
    }

    /// Returns the memory budget.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Returns the bytes of pages in memory, including pinned pages and pages being read.
    pub fn bytes_in_use(&self) -> usize {
        self.arena.bytes_in_use().0
    }

    /// Returns the maximum bytes of pages in memory so far.
    pub fn bytes_in_use_max(&self) -> usize {
        self.arena.bytes_in_use().1
    }

    /// Returns the number of pages in the pool, including those being read.
    pub fn page_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Drops all unpinned pages, which makes the cache cold.
    pub fn clear(&self) {
        self.drop_pages(None);
    }

    fn drop_pages(&self, file: Option<u32>) {
        for shard in &self.shards {
            let frames = shard.0.lock().clear(file);
            drop(frames);
        }
    }

    fn group(&self, name: &'static str) -> (usize, Arc<DeviceCounters>) {
        let mut groups = self.groups.lock();
        let found = groups.iter().position(|(group, _)| *group == name);
        let index = found.unwrap_or_else(|| {
            if groups.len() < GROUPS_MAX {
                groups.push((name, Arc::default()));
            }
            groups.len() - 1
        });
        (index, Arc::clone(&groups[index].1))
    }

    #[inline]
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // Uses bits that the shard's own table uses least.
        self.shards[(hash >> 44) as usize & (self.shards.len() - 1)]
            .0
            .lock()
    }

    /// Looks a page up.
    #[inline]
    fn get(&self, key: PageKey, group: usize) -> Lookup {
        let hash = key.hash();
        self.shard(hash).get(hash, key, group)
    }

    /// Returns whether a page is in the pool or being read, without counting a use.
    fn contains(&self, key: PageKey) -> bool {
        let hash = key.hash();
        self.shard(hash).contains(hash, key)
    }

    /// Returns how many pages of one size a call may have in reads, or pinned, at once.
    fn window_pages(&self, page_bytes: usize) -> usize {
        (self.arena.capacity_bytes() / WINDOW_PART / page_bytes).max(1)
    }

    /// Returns how many pages of one size a call may read ahead at once. The limit keeps the pages of several
    /// calls in the pool until they are used.
    fn ahead_pages(&self, page_bytes: usize) -> usize {
        self.arena.capacity_bytes() / AHEAD_PART / page_bytes
    }

    /// Returns a frame to read a page into; evicts a page if needed. `None` if everything is pinned.
    fn try_frame(&self, page_bytes: usize, key: PageKey, ghost: bool) -> Option<FrameBuffer> {
        if let Some(frame) = self.arena.allocate(page_bytes, key) {
            return Some(frame);
        }
        // Pages of this size are evicted too early: lets their share of the memory grow.
        if ghost
            && self
                .ghost_hits
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(STEAL_EVERY)
        {
            self.steal_slab(page_bytes, false);
        }
        for _ in 0..self.shards.len() {
            let next = self.next_shard.fetch_add(1, Ordering::Relaxed);
            let shard = &self.shards[next & (self.shards.len() - 1)];
            let victim = shard.0.lock().evict(page_bytes);
            let evicted = victim.is_some();
            drop(victim);
            if (evicted || self.arena.has_unused())
                && let Some(frame) = self.arena.allocate(page_bytes, key)
            {
                return Some(frame);
            }
        }
        if self.steal_slab(page_bytes, true) {
            return self.arena.allocate(page_bytes, key);
        }
        None
    }

    /// Frees a slab of another page size, the least used of a few. Unless `forced`, frees it only if its pages are
    /// hardly used, and the compared ones age.
    fn steal_slab(&self, page_bytes: usize, forced: bool) -> bool {
        let mut left = self.arena.slab_count();
        while left > 0 {
            let mut best: Option<(usize, u32, Vec<PageKey>)> = None;
            for _ in 0..STEAL_CANDIDATES.min(left) {
                let Some((slab, keys)) = self.arena.next_foreign_slab(page_bytes) else {
                    return false;
                };
                let Some(uses) = self.slab_uses(slab, &keys) else {
                    continue; // Somebody holds a page of it.
                };
                if best.as_ref().is_none_or(|(least, ..)| uses < *least) {
                    best = Some((uses, slab, keys));
                }
            }
            left = left.saturating_sub(STEAL_CANDIDATES);
            if let Some((uses, slab, keys)) = best
                && (forced || uses <= keys.len())
                && self.evict_slab(slab, &keys)
            {
                return true;
            }
            if !forced {
                return false;
            }
        }
        false
    }

    /// Returns the sum of the uses of a slab's pages, and ages each page by one use. `None` if one of them cannot
    /// be evicted.
    fn slab_uses(&self, slab: u32, keys: &[PageKey]) -> Option<usize> {
        let mut uses = 0;
        for key in keys {
            let hash = key.hash();
            let shard = self.shard(hash);
            uses += usize::from(shard.evictable(hash, *key, slab)?);
            shard.age(hash, *key);
        }
        Some(uses)
    }

    fn evict_slab(&self, slab: u32, keys: &[PageKey]) -> bool {
        let mut all = true;
        for key in keys {
            let hash = key.hash();
            let frame = self.shard(hash).evict_page(hash, *key, slab);
            all &= frame.is_some();
        }
        all
    }
}
