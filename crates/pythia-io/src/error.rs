//! Errors below the store. Every message names the file and the place, and says what to do.

use std::io;
use std::sync::Arc;

use crate::descriptors::descriptors_max;

/// An error of a storage or of the buffer pool.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The file or folder does not exist.
    #[error("{name}: no such file or folder")]
    NotFound {
        /// The file's name within its storage.
        name: String,
    },
    /// A file that was closed because too many were open, and that no longer exists.
    #[error(
        "{name}: it was closed because this process may not have more files open, and another process has removed it since: \
         open the store again, or raise the limit of open files (ulimit -n)"
    )]
    Gone {
        /// The file's name within its storage.
        name: String,
    },
    /// The process has as many files open as it may.
    #[error(
        "{name}: cannot {action}: all {most} files that this process may have open are in use; raise the limit (ulimit -n, \
         or LimitNOFILE of a service), or use fewer connections"
    )]
    NoDescriptors {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The file's name within its storage.
        name: String,
        /// The limit.
        most: usize,
    },
    /// A name that leaves the storage's root or is not a plain relative path.
    #[error("{name:?} is not a file name within a store: {reason}")]
    BadName {
        /// The given name.
        name: String,
        /// The problem.
        reason: &'static str,
    },
    /// A page whose checksum does not match: it is damaged, or was written for another place.
    #[error(
        "{file}: page {page} (byte {offset}) is damaged: its checksum is {found:08x}, its bytes give {expected:08x}; \
         run `pythia verify`, check the device, and load the data again"
    )]
    Corrupt {
        /// The file's name within its storage.
        file: String,
        /// The page's number.
        page: u64,
        /// Offset of the page, in bytes.
        offset: u64,
        /// The checksum computed from the bytes read at this place.
        expected: u32,
        /// The checksum stored in the page.
        found: u32,
    },
    /// A page number past the end of its file.
    #[error(
        "{file}: page {page} does not exist, the file has {page_count} pages; it may have been cut short, run `pythia verify`"
    )]
    PageOutOfRange {
        /// The file's name within its storage.
        file: String,
        /// The requested page.
        page: u64,
        /// Number of pages in the file.
        page_count: u64,
    },
    /// A paged file whose length is not a whole number of pages.
    #[error(
        "{file}: its length of {length} bytes is not a multiple of the page size {page_bytes}: the file was cut short or has another format"
    )]
    NotPaged {
        /// The file's name within its storage.
        file: String,
        /// Length found, in bytes.
        length: u64,
        /// Page size expected, in bytes.
        page_bytes: usize,
    },
    /// The file ended before the requested bytes.
    #[error(
        "{name}: {wanted} bytes wanted at byte {offset}, but the file ends at byte {length}; it may have been cut short"
    )]
    UnexpectedEnd {
        /// The file's name within its storage.
        name: String,
        /// Offset of the read.
        offset: u64,
        /// Number of requested bytes.
        wanted: u64,
        /// Length of the file.
        length: u64,
    },
    /// A read or write that is not aligned as direct I/O requires: a mistake of the caller.
    #[error("{name}: a transfer of {length} bytes at byte {offset} is not aligned to 4096 bytes")]
    Misaligned {
        /// The file's name within its storage.
        name: String,
        /// Offset of the transfer.
        offset: u64,
        /// Its length.
        length: usize,
    },
    /// A file was given to a storage that did not open it: a mistake of the caller.
    #[error("{name}: opened by another storage")]
    ForeignFile {
        /// The file's name within its storage.
        name: String,
    },
    /// The device has no space left.
    #[error(
        "{name}: no space left on the device while trying to {action} at byte {offset}; free some space or choose another folder"
    )]
    DiskFull {
        /// The failed action.
        action: &'static str,
        /// The file's name within its storage.
        name: String,
        /// Offset in the file.
        offset: u64,
    },
    /// The operating system refused or failed.
    #[error("{name}: cannot {action}{}: {source}", At(*offset))]
    Os {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The file's name within its storage.
        name: String,
        /// Offset in the file, if it matters.
        offset: Option<u64>,
        /// The error from the operating system.
        source: Arc<io::Error>,
    },
    /// The way of reading set by `PYTHIA_IO` is not available.
    #[error("PYTHIA_IO={mode}: {reason}; leave PYTHIA_IO unset to use what this machine allows")]
    ModeUnavailable {
        /// The requested mode.
        mode: String,
        /// The reason.
        reason: String,
    },
    /// All pages of the buffer pool are pinned by running queries.
    #[error(
        "the page cache of {budget_bytes} bytes is full of pages in use, and none was released for {waited_ms} ms while page {page} of {file} was needed: raise --cache or run fewer queries at once"
    )]
    CacheFull {
        /// The pool's budget.
        budget_bytes: usize,
        /// Time that the pool waited.
        waited_ms: u64,
        /// The file of the needed page.
        file: String,
        /// The needed page.
        page: u64,
    },
    /// The budget is too small to work with.
    #[error(
        "a page cache of {budget_bytes} bytes is too small: raise --cache to at least {minimum_bytes} bytes"
    )]
    CacheTooSmall {
        /// The given budget.
        budget_bytes: usize,
        /// The smallest budget that works.
        minimum_bytes: usize,
    },
    /// A page size that the pool cannot hold.
    #[error(
        "{file}: a page size of {page_bytes} bytes is not a multiple of 4096 up to {maximum_bytes}"
    )]
    BadPageSize {
        /// The file's name within its storage.
        file: String,
        /// The given page size.
        page_bytes: usize,
        /// The largest page size.
        maximum_bytes: usize,
    },
}

impl IoError {
    /// Wraps an operating system error. Missing files, full disks and exhausted descriptors get variants of their
    /// own.
    pub fn os(action: &'static str, name: &str, offset: Option<u64>, source: io::Error) -> Self {
        let name = name.to_owned();
        if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            let most = descriptors_max();
            return Self::NoDescriptors { action, name, most };
        }
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { name },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                action,
                name,
                offset: offset.unwrap_or(0),
            },
            _ => Self::Os {
                action,
                name,
                offset,
                source: Arc::new(source),
            },
        }
    }

    /// Returns whether a file or folder was missing.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns whether this process may not write there.
    pub fn is_read_only(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        let Self::Os { source, .. } = self else {
            return false;
        };
        matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
    }

    /// Returns whether data on the device is damaged or cut short.
    pub fn is_corruption(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::PageOutOfRange { .. }
                | Self::NotPaged { .. }
                | Self::UnexpectedEnd { .. }
        )
    }
}

/// Prints ` at byte n`, or nothing.
struct At(Option<u64>);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_file_place_and_remedy() {
        let error = IoError::Corrupt {
            file: "segment-000001/spo.pages".into(),
            page: 7,
            offset: 7 * 4096,
            expected: 1,
            found: 2,
        };
        let text = error.to_string();
        assert!(
            text.contains("segment-000001/spo.pages: page 7 (byte 28672)"),
            "{text}"
        );
        assert!(text.contains("pythia verify"), "{text}");

        let full = IoError::os(
            "write",
            "spo.pages",
            Some(4096),
            io::Error::from_raw_os_error(libc::ENOSPC),
        );
        assert!(
            matches!(full, IoError::DiskFull { offset: 4096, .. }),
            "{full}"
        );
        assert!(full.to_string().contains("free some space"), "{full}");

        let other = IoError::os(
            "read",
            "a",
            Some(1),
            io::Error::from_raw_os_error(libc::EIO),
        );
        assert!(
            other.to_string().starts_with("a: cannot read at byte 1: "),
            "{other}"
        );
        assert!(IoError::os("open", "a", None, io::ErrorKind::NotFound.into()).is_not_found());
    }
}
