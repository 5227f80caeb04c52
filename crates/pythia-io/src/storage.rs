//! The storage trait: a directory of immutable files, read in batches and written front to back, and of log files,
//! written in place.
//!
//! Invariants every implementation keeps:
//! - A file's bytes and length never change once its writer is closed; a log file's length never changes until it
//!   is trimmed.
//! - After [`WriteFile::sync`] the file, its name and the folders above it survive a crash.
//! - [`Storage::rename`] is one atomic, durable step. If it fails, the step was done or not.
//! - When [`Storage::read_batch`] returns, the batch has been served completely or has failed.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::IoError;
use crate::probe::DeviceProfile;

/// One read of a batch: `buffer.len()` bytes of `file` from `offset`.
///
/// Offset, length and the buffer's address are multiples of [`ALIGNMENT`], as direct I/O requires (see
/// [`crate::AlignedBuffer`]). A read may reach past the end of a file only within the file's last block of
/// [`ALIGNMENT`] bytes; the part past the end is filled with zeros.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The file to read.
    pub file: &'a dyn ReadFile,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The destination. It is an error if the file ends before its last block.
    pub buffer: &'a mut [u8],
}

/// Alignment in bytes of everything read directly from a device.
pub const ALIGNMENT: usize = 4096;

/// Reads of neighbouring pages in one batch become one device read of up to this many bytes.
pub const MERGED_READ_BYTES_MAX: usize = 256 << 10;

/// A file open for reading. Files never change once written.
pub trait ReadFile: Send + Sync + Debug {
    /// Returns the file's name within its storage, for messages.
    fn name(&self) -> &str;
    /// Returns the length in bytes.
    fn len(&self) -> u64;
    /// Returns whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the file's own type, for the storage that opened it.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A new file being written front to back.
pub trait WriteFile: Send + Debug {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError>;
    /// Returns the number of bytes appended so far.
    fn len(&self) -> u64;
    /// Returns whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Makes everything that was appended durable and closes the file.
    fn sync(self: Box<Self>) -> Result<(), IoError>;
    /// Closes the file without making it durable: for temporary files, which a crash may lose.
    fn close(self: Box<Self>) -> Result<(), IoError> {
        self.sync()
    }
}

/// The version of a file, which distinguishes the files that had one name over time. The same version means the
/// same bytes, because files never change once written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The file's inode number.
    pub number: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub written_ns: i64,
}

/// A file of fixed length that is allocated from the beginning and written in place. Making a write durable needs
/// only its bytes to reach the device; nothing about the file changes.
pub trait LogFile: Send + Sync + Debug {
    /// Returns the file's name within its storage, for messages.
    fn name(&self) -> &str;
    /// Returns the length in bytes, a multiple of [`ALIGNMENT`].
    fn len(&self) -> u64;
    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Writes bytes within the file's length. Offset, length and address are multiples of [`ALIGNMENT`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError>;
    /// Makes all writes so far durable.
    fn sync(&self) -> Result<(), IoError>;
    /// Cuts the file off after `bytes`, durably. It must not be written any more.
    fn trim(&self, bytes: u64) -> Result<(), IoError>;
}

/// A directory of files. Names are relative, with `/` between folders.
pub trait Storage: Send + Sync + Debug {
    /// Opens an existing file.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError>;
    /// Creates a file with its folders. An existing file is replaced; readers that have it open keep reading its
    /// old bytes.
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError>;
    /// Creates a log file of `bytes` (rounded up to whole blocks of [`ALIGNMENT`]) zeros, with its folders. It is
    /// durable on return. A full disk is reported here, not in later writes, and leaves no file behind.
    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError>;
    /// Opens an existing log file for writing.
    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError>;
    /// Reads a batch. All reads are submitted together, and all have been served on return.
    ///
    /// Reads of neighbouring bytes that follow each other in `reads` may become one device read (see
    /// [`merge_reads`]).
    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError>;
    /// Replaces `to` by `from` in one atomic step and makes the step durable.
    ///
    /// # Errors
    /// After an error the step was done or not. If it was, a crash may still take it back, so nothing that either
    /// file needs may be removed.
    fn rename(&self, from: &str, to: &str) -> Result<(), IoError>;
    /// Makes the names in the root as durable as they are visible. A rename may be in the kernel's cache only, if
    /// its process ended or its call failed in the middle.
    fn sync_names(&self) -> Result<(), IoError>;
    /// Removes a file, or a folder with everything in it. A missing file is not an error.
    fn remove(&self, name: &str) -> Result<(), IoError>;
    /// Returns the names of the files and folders in a folder (`""` is the root), sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>, IoError>;
    /// Returns the storage's path, for messages; `None` if it has none in the file system.
    fn place(&self) -> Option<String> {
        None
    }
    /// Returns the speed of the device, as far as the storage knows it without measuring.
    fn device(&self) -> DeviceProfile {
        DeviceProfile::default()
    }
    /// Reads a whole (small) file.
    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError>;
    /// Returns the version of a file; `None` if the storage has no versions.
    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        let _ = name;
        Ok(None)
    }
    /// Returns whether a file or folder with this name exists.
    fn exists(&self, name: &str) -> Result<bool, IoError> {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        match self.list(folder) {
            Ok(names) => Ok(names.iter().any(|n| n == file)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the device reads that serve a batch: ranges of requests that are neighbours in the same file, each of
/// at most [`MERGED_READ_BYTES_MAX`] bytes (a single larger request stays whole).
pub fn merge_reads<'r>(reads: &'r [ReadRequest<'_>]) -> impl Iterator<Item = Range<usize>> + 'r {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = reads.get(start)?;
        let begin = start;
        let mut bytes = first.buffer.len();
        start += 1;
        while let Some(next) = reads.get(start) {
            let adjacent = std::ptr::addr_eq(next.file, first.file)
                && next.offset == first.offset + bytes as u64
                && bytes + next.buffer.len() <= MERGED_READ_BYTES_MAX;
            if !adjacent {
                break;
            }
            bytes += next.buffer.len();
            start += 1;
        }
        Some(begin..start)
    })
}

/// Returns how many bytes of a read are within its file. Errors if the read is misaligned or reaches past the
/// file's last block.
pub(crate) fn bytes_in_file(read: &ReadRequest<'_>) -> Result<usize, IoError> {
    let wanted = read.buffer.len();
    let aligned = read.offset.is_multiple_of(ALIGNMENT as u64)
        && wanted.is_multiple_of(ALIGNMENT)
        && read.buffer.as_ptr().addr().is_multiple_of(ALIGNMENT);
    if !aligned {
        return Err(IoError::Misaligned {
            name: read.file.name().to_owned(),
            offset: read.offset,
            length: wanted,
        });
    }
    let length = read.file.len();
    let end = read.offset.saturating_add(wanted as u64);
    if end > length.next_multiple_of(ALIGNMENT as u64) {
        return Err(IoError::UnexpectedEnd {
            name: read.file.name().to_owned(),
            offset: read.offset,
            wanted: wanted as u64,
            length,
        });
    }
    Ok(wanted.min(length.saturating_sub(read.offset) as usize))
}

/// Checks a write to a log file of `length` bytes.
pub(crate) fn check_log_write(
    name: &str,
    length: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<(), IoError> {
    let aligned = offset.is_multiple_of(ALIGNMENT as u64)
        && bytes.len().is_multiple_of(ALIGNMENT)
        && bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
    if !aligned {
        return Err(IoError::Misaligned {
            name: name.to_owned(),
            offset,
            length: bytes.len(),
        });
    }
    let wanted = bytes.len() as u64;
    if offset.checked_add(wanted).is_none_or(|end| end > length) {
        return Err(IoError::UnexpectedEnd {
            name: name.to_owned(),
            offset,
            wanted,
            length,
        });
    }
    Ok(())
}

/// Refuses names that are not plain relative paths: nothing may leave the storage's root.
pub(crate) fn check_name(name: &str) -> Result<(), IoError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('/') {
        "it begins with '/'"
    } else if name.contains('\0') {
        "it contains a zero byte"
    } else if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "a part of it is empty, '.' or '..'"
    } else {
        return Ok(());
    };
    Err(IoError::BadName {
        name: name.to_owned(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AlignedBuffer, DeviceModel, DirectStorage, FaultPlan, FaultyStorage, IoMode, MemoryStorage,
        ModelClock, ModelledStorage,
    };

    #[test]
    fn neighbours_merge_up_to_the_limit() {
        let storage = MemoryStorage::new();
        let mut writer = storage.create("a").unwrap();
        writer.append(&vec![0; 1 << 20]).unwrap();
        writer.sync().unwrap();
        let (a, b) = (storage.open("a").unwrap(), storage.open("a").unwrap());
        let mut buffers: Vec<_> = (0..70).map(|_| AlignedBuffer::zeroed(4096)).collect();
        let mut reads: Vec<_> = buffers
            .iter_mut()
            .enumerate()
            .map(|(i, buffer)| ReadRequest {
                file: &*a,
                offset: i as u64 * 4096,
                buffer,
            })
            .collect();
        let ranges: Vec<_> = merge_reads(&reads).collect();
        assert_eq!(ranges, [0..64, 64..70]);
        reads[3].file = &*b;
        reads[9].offset += 4096;
        let ranges: Vec<_> = merge_reads(&reads).collect();
        assert_eq!(ranges, [0..3, 3..4, 4..9, 9..10, 10..70]);
        assert_eq!(merge_reads(&[]).count(), 0);
    }

    /// Checks what must hold for log files of every storage.
    fn check_log_files(storage: &dyn Storage) {
        let mut bytes = AlignedBuffer::zeroed(8192);
        bytes.fill(7);
        let log = storage.create_log("log/a", 3 * 4096 - 1).unwrap();
        assert_eq!((log.len(), log.name()), (3 * 4096, "log/a"));
        assert_eq!(storage.read_all("log/a").unwrap(), [0; 3 * 4096]);
        log.write_at(4096, &bytes).unwrap();
        log.sync().unwrap();
        assert!(matches!(
            log.write_at(8192, &bytes),
            Err(IoError::UnexpectedEnd { .. })
        ));
        assert!(matches!(
            log.write_at(1, &bytes),
            Err(IoError::Misaligned { .. })
        ));
        let short = log.write_at(0, &bytes[..100]);
        assert!(matches!(short, Err(IoError::Misaligned { .. })));
        drop(log);
        let log = storage.create_log("log/b", 8192).unwrap();
        log.write_at(0, &bytes).unwrap();
        log.sync().unwrap();
        log.trim(4096).unwrap();
        assert_eq!(storage.read_all("log/b").unwrap(), [7; 4096]);
        let log = storage.open_log("log/a").unwrap();
        bytes.fill(8);
        log.write_at(0, &bytes[..4096]).unwrap();
        log.sync().unwrap();
        let expected = [[8; 4096], [7; 4096], [7; 4096]].concat();
        assert_eq!(storage.read_all("log/a").unwrap(), expected);
        let file = storage.open("log/a").unwrap();
        assert_eq!(file.len(), 3 * 4096);
        let buffer = &mut bytes[..4096];
        let (file, offset) = (&*file, 4096);
        storage
            .read_batch(&mut [ReadRequest {
                file,
                offset,
                buffer,
            }])
            .unwrap();
        assert_eq!(bytes[0], 7);
        storage.remove("log/a").unwrap();
        assert!(
            storage
                .open_log("log/a")
                .is_err_and(|error| error.is_not_found())
        );
    }

    #[test]
    fn log_files_are_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [IoMode::Auto, IoMode::Buffered] {
            check_log_files(&DirectStorage::open_with(folder.path(), true, mode).unwrap());
        }
        let memory = Arc::new(MemoryStorage::new());
        check_log_files(&*memory);
        check_log_files(&FaultyStorage::new(memory.clone(), FaultPlan::none()));
        let (model, clock) = (DeviceModel::FLASH, ModelClock::Virtual);
        check_log_files(&ModelledStorage::new(memory, model, clock));
    }

    #[test]
    fn names_stay_inside_the_root() {
        for bad in ["", "/a", "a//b", "../a", "a/..", "./a", "a/", "a\0b"] {
            assert!(
                matches!(check_name(bad), Err(IoError::BadName { .. })),
                "{bad:?}"
            );
        }
        for good in ["a", "segment-000001/spo.pages", "a..b"] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
    }
}
