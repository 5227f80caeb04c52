//! Backups: consistent copies of a store, made while it is being written to, and their restoration.
//!
//! ```text
//! BACKUP               the contents: the store's manifest, files with checksums, commits
//! files-000003/…       the files copied by the third backup into this folder
//! commits-000001/log/  a log with the commits that were only in the store's log
//! ```
//!
//! A later backup into the same folder copies only new data: files that have not changed are kept, and
//! commits are appended. The old backup is intact until the new `BACKUP` replaces its file.

mod contents;
mod copy;
mod restore;
mod take;

use pythia_io::IoError;
use pythia_log::{LogError, Position};
use pythia_store::StoreError;

use crate::moment::format_time;

pub use restore::{RestoreOptions, RestoreReport, Until, restore, restore_storage};
pub(crate) use take::backup_into;
pub use take::{BackupReport, backup, backup_storage};

/// The error of a backup or restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store or a storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder contains other files.
    #[error("the folder already contains {found:?}; choose an empty folder")]
    NotEmpty {
        /// One of these files.
        found: String,
    },
    /// The folder contains no backup.
    #[error("the folder has no complete backup: the file BACKUP is missing")]
    NoBackup,
    /// The folder contains a backup of another store.
    #[error("the folder has a backup of another store; choose another folder")]
    OtherStore,
    /// The backup is damaged.
    #[error("{file}: the backup is damaged: {message}; use another backup")]
    Damaged {
        /// The file in the backup.
        file: String,
        /// The damage.
        message: String,
    },
    /// The backup was made by a newer version.
    #[error("the backup has format {found}, which this version cannot read; use a newer Pythia")]
    Version {
        /// The backup's format.
        found: u32,
    },
    /// The wanted state is before the beginning of the backup.
    #[error(
        "the backup begins with the state after commit {first}{}, and cannot be restored to an earlier one; use an \
         older backup", time.map(|time| format!(" of {}", format_time(time))).unwrap_or_default()
    )]
    TooEarly {
        /// The earliest position that it can be restored to.
        first: Position,
        /// The time of the commit, if known.
        time: Option<u64>,
    },
    /// The wanted time is before the first state with a known time.
    #[error("the backup's earliest state with a known time is the one {}",
        match first {
            Some(first) => format!(
                "after commit {first} of {}; restore the state before it with --to-position {}",
                format_time(*time), first.0 - 1
            ),
            None => format!("of {}, when the backup was made; restore it without a time", format_time(*time)),
        }
    )]
    BeforeFirst {
        /// The first commit; `None` if there is none.
        first: Option<Position>,
        /// The first commit's time, or the time of the backup.
        time: u64,
    },
    /// The wanted commit is after the end of the backup.
    #[error("the backup{archive} ends with commit {last}, before commit {wanted}", archive = if *with_archive { " with the archive" } else { "" })]
    TooLate {
        /// The wanted position.
        wanted: Position,
        /// The last position.
        last: Position,
        /// True if an archive was given.
        with_archive: bool,
    },
    /// A file of the archive, or of the store's own log, that may contain wanted commits is damaged or
    /// missing.
    #[error(
        "the archive's {problem}: it may hold commits from {next} on{known}. Nothing was restored; put the file back, or \
         restore without these commits: --to-position {last}, or --to-time with a time before them",
        known = end.map(|end| format!(", and commits up to {} are known to have been made", end.0 - 1)).unwrap_or_default(),
        last = next.0 - 1
    )]
    Archive {
        /// The file, and its damage.
        problem: String,
        /// The first commit that it may contain.
        next: Position,
        /// The position after the last commit known to exist, if any.
        end: Option<Position>,
    },
    /// The store's files were replaced repeatedly during the backup.
    #[error("the store's files were replaced repeatedly during the backup; try again")]
    Changing,
}

impl From<IoError> for BackupError {
    fn from(error: IoError) -> Self {
        Self::Store(error.into())
    }
}

impl From<LogError> for BackupError {
    fn from(error: LogError) -> Self {
        Self::Store(error.into())
    }
}
