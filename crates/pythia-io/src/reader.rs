//! Reads a file front to back in large reads, for sorted runs and other streams.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use crate::storage::{ALIGNMENT, MERGED_READ_BYTES_MAX, ReadFile, ReadRequest, Storage};
use crate::{AlignedBuffer, IoError};

/// A file as a stream of bytes, read in blocks of a given size.
///
/// As [`Read`] and [`BufRead`], it wraps an [`IoError`] in an [`io::Error`].
pub struct SequentialReader {
    storage: Arc<dyn Storage>,
    file: Arc<dyn ReadFile>,
    buffer: AlignedBuffer,
    /// Offset of the buffer in the file.
    buffer_offset: u64,
    /// Bytes of the file in the buffer.
    filled: usize,
    /// Bytes of the buffer already consumed.
    consumed: usize,
}

impl SequentialReader {
    /// Makes a reader of `file`, which `storage` opened, with a buffer of `buffer_bytes` (rounded up to whole
    /// blocks of [`ALIGNMENT`]).
    pub fn new(storage: Arc<dyn Storage>, file: Arc<dyn ReadFile>, buffer_bytes: usize) -> Self {
        let buffer_bytes = buffer_bytes.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        Self {
            storage,
            file,
            buffer: AlignedBuffer::zeroed(buffer_bytes),
            buffer_offset: 0,
            filled: 0,
            consumed: 0,
        }
    }

    /// Returns the number of bytes not yet consumed.
    pub fn remaining(&self) -> u64 {
        self.file.len() - self.buffer_offset - self.consumed as u64
    }

    /// Returns the next bytes, read from the device if the buffer has none; empty at the end.
    pub fn fill(&mut self) -> Result<&[u8], IoError> {
        if self.consumed == self.filled {
            self.buffer_offset += self.filled as u64;
            (self.filled, self.consumed) = (0, 0);
            let left = self.file.len() - self.buffer_offset;
            if left > 0 {
                let count = (self.buffer.len() as u64).min(left) as usize;
                let blocks = count.next_multiple_of(ALIGNMENT);
                let mut offset = self.buffer_offset;
                let chunks = self.buffer[..blocks].chunks_mut(MERGED_READ_BYTES_MAX);
                let mut reads: Vec<ReadRequest<'_>> = chunks
                    .map(|buffer| {
                        let start = offset;
                        offset += buffer.len() as u64;
                        ReadRequest {
                            file: &*self.file,
                            offset: start,
                            buffer,
                        }
                    })
                    .collect();
                self.storage.read_batch(&mut reads)?;
                self.filled = count;
            }
        }
        Ok(&self.buffer[self.consumed..self.filled])
    }
}

impl Read for SequentialReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for SequentialReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.fill().map_err(io::Error::other)
    }

    fn consume(&mut self, count: usize) {
        self.consumed = (self.consumed + count).min(self.filled);
    }
}

impl fmt::Debug for SequentialReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SequentialReader({}, {} bytes left)",
            self.file.name(),
            self.remaining()
        )
    }
}
