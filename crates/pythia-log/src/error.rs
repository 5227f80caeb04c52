//! What can go wrong with a log: every message names the place and says what to do.

use std::sync::Arc;

use pythia_io::IoError;

use crate::{Position, StoreId};

/// An error of the log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Bytes that pass their checksum, or have none, and make no sense.
    #[error(
        "{file}: damaged at byte {offset}: {message}; restore from a backup, or check the device"
    )]
    Corrupt {
        /// The file's name within its folder.
        file: String,
        /// Where, in bytes.
        offset: u64,
        /// What does not fit.
        message: String,
    },
    /// A group that had been acknowledged is missing or damaged.
    #[error(
        "{place}: commit {position} and those after it had been acknowledged as durable, and are damaged or missing \
         ({evidence}): the device has lost what it said was written. Nothing was changed; restore from a backup \
         and the log's archive with `pythia restore`, or put the log's missing files back; `pythia salvage` shows \
         which commits are lost, and can go on without them"
    )]
    Lost {
        /// The first commit that is not there.
        position: Position,
        /// File and byte where it should be, as far as that is known.
        place: String,
        /// What shows that it had been acknowledged.
        evidence: String,
    },
    /// A log file that was begun is damaged or missing.
    #[error(
        "{file}: {problem}: the device has lost what it said was written. Nothing was changed; put the file \
         back, or restore from a backup and the log's archive with `pythia restore`; `pythia salvage` shows which \
         commits are lost with it, and can set it aside to go on without them"
    )]
    Damaged {
        /// The file's name within its folder.
        file: String,
        /// What is wrong with it, and what shows that.
        problem: String,
    },
    /// Commits that have left the log.
    #[error(
        "commits from {position} on are not in the log any more{}; give the folder of the log's archive, \
         or begin later", first.map(|first| format!(", which begins with commit {first}")).unwrap_or_default()
    )]
    Missing {
        /// The commit asked for.
        position: Position,
        /// The first commit there is, if that is known.
        first: Option<Position>,
    },
    /// Commits that are not in the log yet.
    #[error("commit {position} is not in the log, whose next commit is {next}")]
    Ahead {
        /// The commit asked for.
        position: Position,
        /// The position that the next commit will get.
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
    /// A log file of a newer program.
    #[error(
        "{file}: is of log format {found}, this program reads up to {supported}; use a newer Pythia"
    )]
    Version {
        /// The file's name.
        file: String,
        /// Its format.
        found: u32,
        /// The newest format this program reads.
        supported: u32,
    },
    /// A log that was used, where no log is known.
    #[error(
        "{file}: {evidence}, but MANIFEST names no log: it is older than the log, or of another store. Nothing was \
         changed; put the MANIFEST that belongs to the log back, or restore a backup with `pythia restore`; to give \
         the log's commits up, move LOG and the folder log elsewhere"
    )]
    Exists {
        /// One of its files.
        file: String,
        /// What shows that the log was used.
        evidence: String,
    },
    /// More devices than a log can have.
    #[error("a log can be in at most {maximum} folders, not in {count}")]
    TooManyDevices {
        /// How many there are.
        count: usize,
        /// How many there can be.
        maximum: usize,
    },
    /// A log without a device.
    #[error("a log needs at least one folder to be in")]
    NoDevice,
    /// A write failed: what is on the device is not known until it is read again.
    #[error(
        "the log takes no more commits since a write failed ({cause}); what was acknowledged is safe: \
         see to the device, then close and open the store"
    )]
    Poisoned {
        /// The first error.
        cause: Arc<LogError>,
    },
    /// More commits at once than a file of the log holds.
    #[error(
        "commits that are submitted together take {bytes} bytes of the log, and its files hold {maximum}; submit \
         fewer at once"
    )]
    TooManyAtOnce {
        /// Their bytes in the log.
        bytes: usize,
        /// The most there can be.
        maximum: usize,
    },
    /// A key that is too long.
    #[error("the commit's key has {bytes} bytes, at most {maximum} are allowed")]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        maximum: usize,
    },
}

impl LogError {
    /// Whether data on the device is damaged or missing.
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

    /// Whether no space was left; nothing was written, and the log goes on once there is some.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io(IoError::DiskFull { .. }))
    }
}
