//! Writes a file of pages, front to back.

use std::fmt;

use crate::storage::{ALIGNMENT, WriteFile};
use crate::{AlignedBuffer, IoError, SEAL_BYTES, seal_page};

/// Bytes collected before they are written to the device.
const BUFFER_BYTES: usize = 1 << 20;

/// Seals pages and appends them to a file in large aligned writes.
///
/// Uses one buffer of 1 MiB. Without [`PageWriter::finish`] the file must not be used.
pub struct PageWriter {
    file: Box<dyn WriteFile>,
    page_bytes: usize,
    buffer: AlignedBuffer,
    filled: usize,
    page_count: u64,
}

impl PageWriter {
    /// Makes a writer of pages of `page_bytes` each to an empty file.
    ///
    /// # Panics
    /// If the page size is not a multiple of [`ALIGNMENT`].
    pub fn new(file: Box<dyn WriteFile>, page_bytes: usize) -> Self {
        assert!(
            page_bytes > 0 && page_bytes.is_multiple_of(ALIGNMENT),
            "page sizes are multiples of {ALIGNMENT}"
        );
        let whole = (BUFFER_BYTES / page_bytes).max(1) * page_bytes;
        Self {
            file,
            page_bytes,
            buffer: AlignedBuffer::zeroed(whole),
            filled: 0,
            page_count: 0,
        }
    }

    /// Seals a page as the file's next page and appends it. Returns its number.
    ///
    /// Overwrites bytes 0..4 of `page` with the seal. A page shorter than the page size is padded with zeros in
    /// the file; the seal covers the padding too.
    ///
    /// # Panics
    /// If `page` is longer than the page size or shorter than the seal.
    pub fn push(&mut self, page: &mut [u8]) -> Result<u64, IoError> {
        assert!(
            (SEAL_BYTES..=self.page_bytes).contains(&page.len()),
            "a page of {} bytes does not fit {}",
            page.len(),
            self.page_bytes
        );
        let number = self.page_count;
        let place = &mut self.buffer[self.filled..self.filled + self.page_bytes];
        place[..page.len()].copy_from_slice(page);
        place[page.len()..].fill(0);
        seal_page(place, number);
        page[..SEAL_BYTES].copy_from_slice(&place[..SEAL_BYTES]);
        self.filled += self.page_bytes;
        self.page_count += 1;
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(number)
    }

    /// Returns the number of pages pushed, which is the number of the next page.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Writes what is left, makes the file durable and returns its number of pages.
    pub fn finish(mut self) -> Result<u64, IoError> {
        self.flush()?;
        self.file.sync()?;
        Ok(self.page_count)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        let filled = std::mem::take(&mut self.filled);
        self.file.append(&self.buffer[..filled])
    }
}

impl fmt::Debug for PageWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageWriter({:?}, {} pages)", self.file, self.page_count)
    }
}
