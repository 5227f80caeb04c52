//! The buffer pool: pages of many files within one hard memory budget.
//!
//! A page is found in a sharded table ([`shard`]) or read into a frame of the arena ([`arena`]),
//! verified, and handed out as a [`Page`], which pins it for as long as it lives. Frames of all page
//! sizes, the pinned ones and those being read included, and the pool's own tables stay within the
//! budget: when every page is pinned, a reader waits a moment for one and then fails with
//! [`IoError::CacheFull`], and never takes more memory.
//!
//! Locks: a shard's and the arena's are never held together, nor across a device read.

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

/// Shards of a large pool.
const SHARDS_MAX: usize = 256;
/// Part of the pool that one call may pin at a time, as a divisor.
const WINDOW_PART: usize = 8;
/// Part of the pool that one window read ahead may take, as a divisor.
const AHEAD_PART: usize = 32;
/// Of the pages that come back soon after leaving, one in so many takes memory from another size.
const STEAL_EVERY: usize = 8;
/// Slabs compared when one is to be taken.
const STEAL_CANDIDATES: usize = 8;

/// Which page of which file.
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
    /// How often it was used lately, up to a small number.
    uses: AtomicU8,
    buffer: FrameBuffer,
}

/// In place of a number of uses: the page was read ahead and nobody has asked for it yet.
const READ_AHEAD: u8 = u8::MAX;

impl Frame {
    /// Takes note of a use; false if it is what the page was read ahead for, which makes it neither
    /// a hit nor a second use.
    #[inline]
    fn touch(&self, most: u8) -> bool {
        // Not one atomic step: a lost count does no harm, and a hot page is only read.
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

    /// Takes one use off; false if there was none left.
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
    /// The page's number in its file.
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

/// Keeps each shard on cache lines of its own.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// Pages of many files within one memory budget. See the module's documentation.
pub struct BufferPool {
    storage: Arc<dyn Storage>,
    device: DeviceProfile,
    budget_bytes: usize,
    arena: Arc<Arena>,
    shards: Box<[Padded]>,
    /// Where the next eviction begins.
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
    /// A pool over `storage` that takes at most `budget_bytes` of memory.
    ///
    /// Memory is taken as pages are read. A budget below [`BUDGET_BYTES_MIN`] is raised to it; use
    /// [`BufferPool::try_new`] to refuse it instead.
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

    /// As [`BufferPool::new`] for a device of this speed, but a budget below [`BUDGET_BYTES_MIN`]
    /// is an error.
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
    /// Fails if the file's length is not a whole number of pages. Pages of the file leave the pool
    /// when the last clone of the answer goes.
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

    /// What the pool has done since it was made.
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

    /// The storage the pages come from.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// How fast the device is: what the sizes of batches and of read-ahead come from.
    pub fn device(&self) -> &DeviceProfile {
        &self.device
    }

    /// The memory budget.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Bytes of pages in memory, pinned ones and those being read included.
    pub fn bytes_in_use(&self) -> usize {
        self.arena.bytes_in_use().0
    }

    /// The most bytes of pages there have been in memory.
    pub fn bytes_in_use_max(&self) -> usize {
        self.arena.bytes_in_use().1
    }

    /// Number of pages in the pool, those being read included.
    pub fn page_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    /// Drops all pages that nobody holds: the cache is cold.
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
        // Bits the shard's own table makes least use of.
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

    /// Whether a page is in the pool, or being read; not a use of it.
    fn contains(&self, key: PageKey) -> bool {
        let hash = key.hash();
        self.shard(hash).contains(hash, key)
    }

    /// Pages of one size that a call may have read, or pinned, at once.
    fn window_pages(&self, page_bytes: usize) -> usize {
        (self.arena.capacity_bytes() / WINDOW_PART / page_bytes).max(1)
    }

    /// Pages of one size that a call may have read ahead at once, such that what several calls have
    /// read does not leave again before it is used.
    fn ahead_pages(&self, page_bytes: usize) -> usize {
        self.arena.capacity_bytes() / AHEAD_PART / page_bytes
    }

    /// A frame to read a page into, made free if need be; `None` if everything is pinned.
    fn try_frame(&self, page_bytes: usize, key: PageKey, ghost: bool) -> Option<FrameBuffer> {
        if let Some(frame) = self.arena.allocate(page_bytes, key) {
            return Some(frame);
        }
        // Pages of this size leave too early: let the sizes' parts of the memory shift.
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

    /// Frees a slab of another page size: the least used of a few. Unless `forced`, only one whose
    /// pages are hardly used, and those passed over age.
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

    /// The uses of all pages of a slab, each of which is thereby one use older; `None` if one of
    /// them cannot be evicted.
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
