//! Device reads in progress: the low-level side of a batch, shared by both engines.
//!
//! A [`Transfer`] is one device read: neighbouring requests of one file, scattered over their buffers. It holds
//! raw pointers into buffers that the batch borrows. An engine must have finished with every transfer before it
//! returns, whatever happens.
#![expect(unsafe_code, reason = "vectored reads at an offset need preadv")]

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::open_files::Handle;
use crate::IoError;
use crate::storage::{ALIGNMENT, ReadRequest, bytes_in_file, merge_reads};

/// Limit on system calls without progress before a read counts as failed.
const STALLS_MAX: u32 = 1_000;

/// One device read with its remaining part.
pub(super) struct Transfer {
    /// The file to read from.
    handle: Arc<Handle>,
    /// Index of the first request it serves, to name it in errors.
    request: usize,
    offset: u64,
    /// Bytes of the file still to read; zero when done.
    remaining: usize,
    vectors: Vec<libc::iovec>,
    stalls: u32,
}

// SAFETY: the pointers in `vectors` are to buffers that the batch borrows exclusively, and each
// transfer is owned by one thread at a time.
unsafe impl Send for Transfer {}

/// The failure of a batch.
#[derive(Debug)]
pub(super) struct Failure {
    /// Index of the request, or of the first of its neighbours.
    pub(super) request: usize,
    /// The file that was read.
    pub(super) handle: Arc<Handle>,
    pub(super) error: io::Error,
}

/// The state after a partial read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    Again,
}

impl Transfer {
    /// Splits a batch into its device reads. `handle` returns the descriptor for each request's file.
    ///
    /// Zeroes the parts of requests past the end of their file. Reads nothing yet.
    pub(super) fn split(
        reads: &mut [ReadRequest<'_>],
        mut handle: impl FnMut(&ReadRequest<'_>) -> Result<Arc<Handle>, IoError>,
    ) -> Result<Vec<Self>, IoError> {
        let ranges: Vec<_> = merge_reads(reads).collect();
        let mut transfers = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut transfer = Self {
                handle: handle(&reads[range.start])?,
                request: range.start,
                offset: reads[range.start].offset,
                remaining: 0,
                vectors: Vec::with_capacity(range.len()),
                stalls: 0,
            };
            for read in &mut reads[range] {
                let count = bytes_in_file(read)?;
                read.buffer[count..].fill(0);
                transfer.remaining += count;
                transfer.vectors.push(libc::iovec {
                    iov_base: read.buffer.as_mut_ptr().cast(),
                    iov_len: read.buffer.len(),
                });
            }
            if transfer.remaining > 0 {
                transfers.push(transfer);
            }
        }
        Ok(transfers)
    }

    /// Makes the failure of this read.
    pub(super) fn failure(&self, error: io::Error) -> Failure {
        Failure {
            request: self.request,
            handle: Arc::clone(&self.handle),
            error,
        }
    }

    /// Returns the descriptor to read from; it stays open as long as the transfer lives.
    pub(super) fn descriptor(&self) -> RawFd {
        self.handle.descriptor()
    }

    /// Returns the file offset of the remaining part.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the buffers of the remaining part.
    pub(super) fn vectors(&self) -> &[libc::iovec] {
        &self.vectors
    }

    /// Records the result of one system call.
    pub(super) fn advance(&mut self, result: io::Result<usize>) -> io::Result<Progress> {
        let count = match result {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => return self.stall(error),
                _ => return Err(error),
            },
        };
        if count >= self.remaining {
            self.remaining = 0;
            return Ok(Progress::Done);
        }
        // Direct I/O must go on from an aligned offset; bytes beyond it are read again.
        let kept = count - count % ALIGNMENT;
        if kept == 0 {
            return self.stall(io::ErrorKind::UnexpectedEof.into());
        }
        self.remaining -= kept;
        self.offset += kept as u64;
        self.skip(kept);
        Ok(Progress::Again)
    }

    fn stall(&mut self, error: io::Error) -> io::Result<Progress> {
        self.stalls += 1;
        if self.stalls > STALLS_MAX {
            return Err(error);
        }
        if self.stalls > 10 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        Ok(Progress::Again)
    }

    /// Drops the first `count` bytes of the buffers.
    fn skip(&mut self, mut count: usize) {
        let mut whole = 0;
        while whole < self.vectors.len() && count >= self.vectors[whole].iov_len {
            count -= self.vectors[whole].iov_len;
            whole += 1;
        }
        self.vectors.drain(..whole);
        if count > 0 {
            let first = &mut self.vectors[0];
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(count).cast();
            first.iov_len -= count;
        }
    }

    /// Reads to the end in this thread.
    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            // SAFETY: `vectors` describes buffers borrowed exclusively by the batch this transfer
            // belongs to; the kernel writes only within them.
            let count = unsafe {
                libc::preadv(
                    self.descriptor(),
                    self.vectors.as_ptr(),
                    self.vectors.len() as libc::c_int,
                    self.offset as libc::off_t,
                )
            };
            let result = usize::try_from(count).map_err(|_| io::Error::last_os_error());
            if self.advance(result)? == Progress::Done {
                return Ok(());
            }
        }
    }
}

/// Tells the kernel that reads through its cache are random, so that it does not read ahead. Ignores errors.
pub(super) fn advise_random(fd: RawFd) {
    // SAFETY: takes no pointers; a bad descriptor is an error we may ignore.
    unsafe {
        libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_RANDOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(lengths: &[usize]) -> Transfer {
        Transfer {
            handle: Handle::of_nothing(),
            request: 0,
            offset: 8192,
            remaining: lengths.iter().sum(),
            vectors: lengths
                .iter()
                .map(|&iov_len| libc::iovec {
                    iov_base: std::ptr::without_provenance_mut(4096),
                    iov_len,
                })
                .collect(),
            stalls: 0,
        }
    }

    #[test]
    fn partial_reads_go_on_from_an_aligned_place() {
        let mut transfer = transfer(&[4096, 8192, 4096]);
        assert_eq!(transfer.advance(Ok(9000)).unwrap(), Progress::Again);
        assert_eq!(transfer.offset(), 8192 + 8192);
        assert_eq!(transfer.vectors().len(), 2);
        assert_eq!(transfer.vectors()[0].iov_base.addr(), 8192);
        assert_eq!(transfer.vectors()[0].iov_len, 4096);
        assert_eq!(transfer.advance(Ok(8192)).unwrap(), Progress::Done);
    }

    #[test]
    fn interruptions_are_tried_again_but_not_for_ever() {
        let mut transfer = transfer(&[4096]);
        for _ in 0..STALLS_MAX {
            let result = transfer.advance(Err(io::ErrorKind::Interrupted.into()));
            assert_eq!(result.unwrap(), Progress::Again);
            transfer.stalls = transfer.stalls.max(STALLS_MAX - 3);
            if transfer.stalls == STALLS_MAX {
                break;
            }
        }
        assert!(
            transfer
                .advance(Err(io::ErrorKind::WouldBlock.into()))
                .is_err()
        );
    }

    #[test]
    fn the_end_of_the_file_and_real_errors_fail() {
        let end = transfer(&[4096]).advance(Ok(0)).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let bad = transfer(&[4096]).advance(Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(bad.unwrap_err().raw_os_error(), Some(libc::EIO));
    }
}
