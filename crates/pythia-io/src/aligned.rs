//! Memory aligned for direct I/O. All aligned allocations are made here.
#![expect(unsafe_code, reason = "Vec<u8> cannot promise an alignment of 4096")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::storage::ALIGNMENT;

/// A buffer at an address that is a multiple of [`ALIGNMENT`], zeroed at first.
pub struct AlignedBuffer {
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: the buffer owns its memory alone, like a Box<[u8]>.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads, like a Box<[u8]>.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates a zeroed buffer of `length` bytes.
    pub fn zeroed(length: usize) -> Self {
        let layout = Self::layout(length);
        if length == 0 {
            let pointer = NonNull::without_provenance(
                std::num::NonZeroUsize::new(ALIGNMENT).expect("the alignment is not zero"),
            );
            return Self { pointer, length };
        }
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc_zeroed(layout) };
        match NonNull::new(pointer) {
            Some(pointer) => Self { pointer, length },
            None => handle_alloc_error(layout),
        }
    }

    /// Returns the address of the bytes. The pointer may be used to write as long as the buffer lives and no
    /// reference to the same bytes does.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, ALIGNMENT).expect("a buffer's size fits in memory")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: allocated in `zeroed` with the same layout, and freed once.
            unsafe { dealloc(self.pointer.as_ptr(), Self::layout(self.length)) }
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `length` initialised bytes owned by self; for length 0 any aligned pointer does.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow of self is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_aligned_and_writable() {
        for length in [0, 1, 4096, 12_288, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(length);
            assert_eq!(buffer.len(), length);
            assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT));
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn buffers_move_between_threads() {
        let mut buffer = AlignedBuffer::zeroed(4096);
        buffer[17] = 3;
        let back = std::thread::spawn(move || {
            assert_eq!(buffer[17], 3);
            buffer
        });
        assert_eq!(back.join().expect("the thread does not panic")[17], 3);
    }
}
