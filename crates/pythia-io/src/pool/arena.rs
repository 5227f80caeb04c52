//! The memory of the buffer pool: slabs of 64 KiB, each divided into frames of one page size.
//!
//! Invariants:
//! - The number of slabs never exceeds the budget, whatever is cached or pinned.
//! - A [`FrameBuffer`] is the only access to a frame's bytes, and a frame has at most one.
//! - A slab without frames in use belongs to no page size, so memory moves between page sizes one slab at a time.
#![expect(
    unsafe_code,
    reason = "frames are parts of larger allocations, freed one by one"
)]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::PageKey;
use crate::AlignedBuffer;
use crate::storage::ALIGNMENT;

/// Size of a slab, and of the largest page, in bytes.
pub(super) const SLAB_BYTES: usize = 64 << 10;
/// Estimated memory of the pool's tables for each slab, counted against the budget: about 230 bytes for each of
/// its smallest frames (table entry, frame header, queue entries, ghost).
const SLAB_OVERHEAD_BYTES: usize = 4 << 10;
const FRAMES_MAX: usize = SLAB_BYTES / ALIGNMENT;
/// Slabs allocated at once.
const REGION_SLABS: usize = 16;

/// Returns the number of slabs that fit into a budget.
pub(super) const fn slabs_within(budget_bytes: usize) -> usize {
    budget_bytes / (SLAB_BYTES + SLAB_OVERHEAD_BYTES)
}

/// The allocator of all frames.
pub(super) struct Arena {
    slab_limit: usize,
    state: Mutex<Slabs>,
}

struct Slabs {
    /// The allocations that contain the slabs; kept until the arena is dropped.
    regions: Vec<AlignedBuffer>,
    slabs: Vec<Slab>,
    /// Slabs that belong to no page size.
    unused: Vec<u32>,
    classes: Vec<Class>,
    /// Slab at which the search for one to steal continues.
    hand: usize,
    bytes_in_use: usize,
    bytes_in_use_max: usize,
}

struct Slab {
    base: NonNull<u8>,
    /// Page size of its frames; 0 when unused.
    page_bytes: usize,
    /// One bit per free frame.
    free: u32,
    /// Index in the list of slabs with free frames of its class.
    open_index: usize,
    /// The page that each frame was given to.
    occupants: [PageKey; FRAMES_MAX],
}

/// The slabs of one page size that have free frames.
struct Class {
    page_bytes: usize,
    open: Vec<u32>,
}

// SAFETY: the base pointers are to regions the state owns; frames are handed out exclusively.
unsafe impl Send for Slabs {}

/// The bytes of one frame, exclusively owned. They go back to the arena when dropped.
pub(super) struct FrameBuffer {
    arena: Arc<Arena>,
    pointer: NonNull<u8>,
    length: u32,
    slab: u32,
}

// SAFETY: the frame's bytes are owned by this value alone, like a Box<[u8]>.
unsafe impl Send for FrameBuffer {}
// SAFETY: shared access only reads, like a Box<[u8]>.
unsafe impl Sync for FrameBuffer {}

impl Arena {
    pub(super) fn new(budget_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            slab_limit: slabs_within(budget_bytes),
            state: Mutex::new(Slabs {
                regions: Vec::new(),
                slabs: Vec::new(),
                unused: Vec::new(),
                classes: Vec::new(),
                hand: 0,
                bytes_in_use: 0,
                bytes_in_use_max: 0,
            }),
        })
    }

    /// Returns the limit on the bytes of frames.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.slab_limit * SLAB_BYTES
    }

    /// Returns the bytes of frames in use: now, and the maximum so far.
    pub(super) fn bytes_in_use(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.bytes_in_use, state.bytes_in_use_max)
    }

    /// Returns a frame for a page, if memory is left. Its bytes have arbitrary contents.
    pub(super) fn allocate(
        self: &Arc<Self>,
        page_bytes: usize,
        key: PageKey,
    ) -> Option<FrameBuffer> {
        let mut state = self.state.lock();
        let class = state.class(page_bytes);
        let index = match state.classes[class].open.last() {
            Some(&index) => index,
            None => state.open_slab(class, self.slab_limit)?,
        };
        let slab = &mut state.slabs[index as usize];
        let frame = slab.free.trailing_zeros() as usize;
        slab.free &= slab.free - 1;
        slab.occupants[frame] = key;
        // SAFETY: frame * page_bytes + page_bytes <= SLAB_BYTES, so this stays within the region.
        let pointer = unsafe { slab.base.add(frame * page_bytes) };
        if slab.free == 0 {
            state.close_slab(class, index);
        }
        state.bytes_in_use += page_bytes;
        state.bytes_in_use_max = state.bytes_in_use_max.max(state.bytes_in_use);
        Some(FrameBuffer {
            arena: Arc::clone(self),
            pointer,
            length: page_bytes as u32,
            slab: index,
        })
    }

    /// Returns the next slab, in round-robin order, that belongs to another page size, with the pages in its
    /// frames. `None` after one round without success.
    pub(super) fn next_foreign_slab(&self, page_bytes: usize) -> Option<(u32, Vec<PageKey>)> {
        let mut state = self.state.lock();
        for _ in 0..state.slabs.len() {
            let index = state.hand % state.slabs.len();
            state.hand = index + 1;
            let slab = &state.slabs[index];
            if slab.page_bytes != 0 && slab.page_bytes != page_bytes {
                let keys = (0..SLAB_BYTES / slab.page_bytes)
                    .filter(|frame| slab.free & (1 << frame) == 0)
                    .map(|frame| slab.occupants[frame])
                    .collect();
                return Some((index as u32, keys));
            }
        }
        None
    }

    /// Returns whether some slab belongs to no page size.
    pub(super) fn has_unused(&self) -> bool {
        !self.state.lock().unused.is_empty()
    }

    /// Returns the number of slabs.
    pub(super) fn slab_count(&self) -> usize {
        self.state.lock().slabs.len()
    }

    fn free(&self, buffer: &FrameBuffer) {
        let mut state = self.state.lock();
        let page_bytes = buffer.length as usize;
        let class = state.class(page_bytes);
        let slab = &mut state.slabs[buffer.slab as usize];
        let frame = (buffer.pointer.addr().get() - slab.base.addr().get()) / page_bytes;
        debug_assert_eq!(slab.free & (1 << frame), 0, "a frame is freed once");
        let was_full = slab.free == 0;
        slab.free |= 1 << frame;
        let empty = slab.free == all_free(page_bytes);
        if was_full {
            let open = &mut state.classes[class].open;
            open.push(buffer.slab);
            let place = open.len() - 1;
            state.slabs[buffer.slab as usize].open_index = place;
        }
        if empty {
            state.close_slab(class, buffer.slab);
            state.slabs[buffer.slab as usize].page_bytes = 0;
            state.unused.push(buffer.slab);
        }
        state.bytes_in_use -= page_bytes;
    }
}

impl Slabs {
    fn class(&mut self, page_bytes: usize) -> usize {
        let found = self.classes.iter().position(|c| c.page_bytes == page_bytes);
        found.unwrap_or_else(|| {
            self.classes.push(Class {
                page_bytes,
                open: Vec::new(),
            });
            self.classes.len() - 1
        })
    }

    /// Gives an unused slab to a page size; allocates more slabs if the limit allows.
    fn open_slab(&mut self, class: usize, limit: usize) -> Option<u32> {
        if self.unused.is_empty() {
            self.grow(limit);
        }
        let index = self.unused.pop()?;
        let Class { page_bytes, open } = &mut self.classes[class];
        open.push(index);
        let slab = &mut self.slabs[index as usize];
        slab.page_bytes = *page_bytes;
        slab.free = all_free(*page_bytes);
        slab.open_index = open.len() - 1;
        Some(index)
    }

    /// Takes a slab off its class's list of slabs with free frames.
    fn close_slab(&mut self, class: usize, index: u32) {
        let open = &mut self.classes[class].open;
        let place = self.slabs[index as usize].open_index;
        debug_assert_eq!(open[place], index, "slabs know their place");
        open.swap_remove(place);
        if let Some(&moved) = open.get(place) {
            self.slabs[moved as usize].open_index = place;
        }
    }

    fn grow(&mut self, limit: usize) {
        let count = REGION_SLABS.min(limit - self.slabs.len());
        if count == 0 {
            return;
        }
        let region = AlignedBuffer::zeroed(count * SLAB_BYTES);
        for i in 0..count {
            self.unused.push(self.slabs.len() as u32);
            self.slabs.push(Slab {
                // SAFETY: the region has `count` slabs.
                base: unsafe { region.pointer().add(i * SLAB_BYTES) },
                page_bytes: 0,
                free: 0,
                open_index: 0,
                occupants: [PageKey::default(); FRAMES_MAX],
            });
        }
        self.regions.push(region);
    }
}

const fn all_free(page_bytes: usize) -> u32 {
    (1 << (SLAB_BYTES / page_bytes)) - 1
}

impl FrameBuffer {
    /// Returns the slab that contains the frame.
    pub(super) fn slab(&self) -> u32 {
        self.slab
    }
}

impl Deref for FrameBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the frame's bytes are initialised (regions begin zeroed), live as long as the
        // arena this value holds, and belong to this value alone.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length as usize) }
    }
}

impl DerefMut for FrameBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow of self is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length as usize) }
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        self.arena.free(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(page: u64) -> PageKey {
        PageKey { file: 1, page }
    }

    #[test]
    fn the_limit_holds_and_memory_moves_between_page_sizes() {
        let arena = Arena::new(2 * (SLAB_BYTES + SLAB_OVERHEAD_BYTES));
        assert_eq!(arena.capacity_bytes(), 2 * SLAB_BYTES);
        let small: Vec<_> = (0..).map_while(|i| arena.allocate(4096, key(i))).collect();
        assert_eq!(small.len(), 32);
        assert!(arena.allocate(65_536, key(0)).is_none());
        let (slab, pages) = arena.next_foreign_slab(65_536).unwrap();
        assert_eq!(pages.len(), 16);
        let kept: Vec<_> = small.into_iter().filter(|f| f.slab() != slab).collect();
        let large = arena.allocate(65_536, key(0)).unwrap();
        assert!(arena.allocate(4096, key(0)).is_none());
        assert_eq!(arena.bytes_in_use().0, 2 * SLAB_BYTES);
        drop((kept, large));
        assert_eq!(arena.bytes_in_use(), (0, 2 * SLAB_BYTES));
    }

    proptest! {
        /// Frames never overlap: each keeps what was written to it.
        #[test]
        fn frames_keep_their_bytes(
            steps in proptest::collection::vec((0usize..4, any::<prop::sample::Index>(), any::<bool>()), 1..200),
        ) {
            let arena = Arena::new(1 << 20);
            let mut frames: Vec<(u8, FrameBuffer)> = Vec::new();
            for (i, (size, index, release)) in steps.into_iter().enumerate() {
                if release && !frames.is_empty() {
                    let (mark, frame) = frames.swap_remove(index.index(frames.len()));
                    prop_assert!(frame.iter().all(|&byte| byte == mark));
                } else if let Some(mut frame) = arena.allocate([4096, 8192, 12_288, 65_536][size], key(0)) {
                    prop_assert!(frame.as_ptr().addr().is_multiple_of(ALIGNMENT));
                    frame.fill(i as u8);
                    frames.push((i as u8, frame));
                }
                let bytes: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
                prop_assert_eq!(arena.bytes_in_use().0, bytes);
                prop_assert!(bytes <= arena.capacity_bytes());
            }
            for (mark, frame) in &frames {
                prop_assert!(frame.iter().all(|byte| byte == mark));
            }
        }
    }
}
