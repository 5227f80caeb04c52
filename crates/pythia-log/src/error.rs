//! Errors of the log. Every message names the place and says what to do.

use std::sync::Arc;

use pythia_io::IoError;
use pythia_io::bytes::BytesError;

use crate::{Position, StoreId};

/// An error of the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Bytes that pass their checksum, or have none, but make no sense.
    #[error(
        "{file}: damaged at byte {offset}: {message}; restore from a backup, or check the device"
    )]
    Corrupt {
        /// The file's name within its folder.
        file: String,
        /// The offset in bytes.
        offset: u64,
        /// The problem.
        message: String,
    },
    /// A group that was acknowledged is missing or damaged.
    #[error(
        "{place}: commit {position} and those after it were acknowledged as durable, but are damaged or missing \
         ({evidence}): the device has lost data that it had reported as written. Nothing was changed; restore from a \
         backup and the log's archive with `pythia restore`, or put the log's missing files back; `pythia salvage` \
         shows which commits are lost, and can go on without them"
    )]
    Lost {
        /// The first commit that is missing.
        position: Position,
        /// The file and byte where it should be, as far as that is known.
        place: String,
        /// The evidence that it was acknowledged.
        evidence: String,
    },
    /// A log file that was begun is damaged or missing.
    #[error(
        "{file}: {problem}: the device has lost data that it had reported as written. Nothing was changed; put the file \
         back, or restore from a backup and the log's archive with `pythia restore`; `pythia salvage` shows which \
         commits are lost with it, and can set it aside to go on without them"
    )]
    Damaged {
        /// The file's name within its folder.
        file: String,
        /// The problem, and the evidence.
        problem: String,
    },
    /// Commits that are no longer in the log.
    #[error(
        "commits from {position} on are no longer in the log{}; give the folder of the log's archive, \
         or begin at a later commit", first.map(|first| format!(", which begins with commit {first}")).unwrap_or_default()
    )]
    Missing {
        /// The requested commit.
        position: Position,
        /// The first commit in the log, if that is known.
        first: Option<Position>,
    },
    /// Commits that are not in the log yet.
    #[error("commit {position} is not in the log, whose next commit is {next}")]
    Ahead {
        /// The requested commit.
        position: Position,
        /// The position of the next commit.
        next: Position,
    },
    /// A log file of another store.
    #[error(
        "{file}: belongs to the log of store {found}, not of store {expected}; it is in the wrong folder"
    )]
    ForeignFile {
        /// The file's name.
        file: String,
        /// The store that the log belongs to.
        expected: StoreId,
        /// The store that the file belongs to.
        found: StoreId,
    },
    /// A log file written by a newer program.
    #[error(
        "{file}: has log format {found}, but this program reads up to {supported}; use a newer Pythia"
    )]
    Version {
        /// The file's name.
        file: String,
        /// Its format.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },
    /// A log that was used, although the manifest names none.
    #[error(
        "{file}: {evidence}, but MANIFEST names no log: it is older than the log, or belongs to another store. Nothing \
         was changed; put back the MANIFEST that belongs to the log, or restore a backup with `pythia restore`; to give \
         the log's commits up, move LOG and the folder log elsewhere"
    )]
    Exists {
        /// One of the log's files.
        file: String,
        /// The evidence that the log was used.
        evidence: String,
    },
    /// More log folders than a log can have.
    #[error("a log can be in at most {maximum} folders, not in {count}")]
    TooManyDevices {
        /// The number of folders.
        count: usize,
        /// The largest number allowed.
        maximum: usize,
    },
    /// A log without a folder.
    #[error("a log needs at least one folder")]
    NoDevice,
    /// A write failed. The content of the device is unknown until it is read again.
    #[error(
        "the log takes no more commits because a write failed ({cause}); acknowledged commits are safe: \
         check the device, then close and open the store"
    )]
    Poisoned {
        /// The first error.
        cause: Arc<LogError>,
    },
    /// More commits at once than a log file holds.
    #[error(
        "commits that are submitted together take {bytes} bytes of the log, but a log file holds {maximum}; submit \
         fewer at once"
    )]
    TooManyAtOnce {
        /// Their size in the log, in bytes.
        bytes: usize,
        /// The largest size allowed.
        maximum: usize,
    },
    /// A commit's key that is too long.
    #[error("the commit's key has {bytes} bytes, at most {maximum} are allowed")]
    KeyTooLong {
        /// The key's length.
        bytes: usize,
        /// The longest allowed.
        maximum: usize,
    },
}

impl From<BytesError> for LogError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Corrupt {
                file,
                offset,
                position,
                message,
            } => Self::Corrupt {
                file,
                offset,
                message: format!("{message} (byte {position} of the payload)"),
            },
            BytesError::Version {
                file,
                found,
                supported,
            } => Self::Version {
                file,
                found,
                supported,
            },
        }
    }
}

impl LogError {
    /// Returns whether data on the device is damaged or missing.
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. }
            | Self::Lost { .. }
            | Self::Damaged { .. }
            | Self::Exists { .. } => true,
            Self::Io(error) => error.is_corruption(),
            _ => false,
        }
    }

    /// Returns whether the disk is full. In that case nothing was written, and the log goes on once there is
    /// space.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io(IoError::DiskFull { .. }))
    }
}
