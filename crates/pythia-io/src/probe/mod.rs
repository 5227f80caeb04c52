//! Measures the speed of a device: streams of transfers, a file for them, and the resulting profile.
//!
//! - [`stream::run`] keeps a number of reads and writes in flight and times each.
//! - [`TestFile`] is a file for that, which disappears with the process however that ends.
//! - [`DeviceProfile`] is the result that the store keeps. [`brief`] finds its most important figures in a few
//!   tenths of a second, by reading an existing file.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::device::open_direct;

mod brief;
mod identity;
mod profile;
pub mod stream;
mod test_file;

pub use brief::brief;
pub use identity::{DeviceIdentity, free_bytes};
pub use profile::{DeviceProfile, Origin, RandomReads, sweet_spot};
pub use test_file::{TEST_FILE_BYTES_MIN, TestFile};

/// Opens a file to measure reads of it, past the kernel's cache if the file system allows that.
pub fn open_to_measure(path: &Path) -> io::Result<File> {
    match open_direct(path) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => File::open(path),
        opened => opened,
    }
}

/// A small random number generator. Read offsets need no high-quality randomness.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}
