//! Backups: a consistent copy of a store, taken while it is written to, and what becomes of one.
//!
//! ```text
//! BACKUP               what there is: the store's manifest, files with checksums, commits
//! files-000003/…       the files that the third backup into this folder has copied
//! commits-000001/log/  a log with the commits that only the store's log had
//! ```
//!
//! A later backup into the same folder copies what is new: files that are still the same stay, and
//! commits are appended. Until its `BACKUP` takes the old one's place, the old backup is whole.

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

/// Why a backup was not made, or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store or a storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder has other things in it.
    #[error("the folder has {found:?} in it already; choose an empty folder")]
    NotEmpty {
        /// One of them.
        found: String,
    },
    /// There is no backup.
    #[error("there is no finished backup in the folder: it has no file BACKUP")]
    NoBackup,
    /// A backup of another store.
    #[error("the folder has a backup of another store; choose another folder")]
    OtherStore,
    /// The backup is not what it was.
    #[error("{file}: the backup is damaged: {message}; use another backup")]
    Damaged {
        /// The file in the backup.
        file: String,
        /// What does not fit.
        message: String,
    },
    /// A backup of a newer program.
    #[error(
        "the backup is of format {found}, which this program does not read; use a newer Pythia"
    )]
    Version {
        /// Its format.
        found: u32,
    },
    /// The backup begins later than what is asked for.
    #[error(
        "the backup begins with the state after commit {first}{}, and cannot be restored to an earlier one; use an \
         older backup", time.map(|time| format!(" of {}", format_time(time))).unwrap_or_default()
    )]
    TooEarly {
        /// The earliest position it can be restored to.
        first: Position,
        /// That commit's time, if it is known.
        time: Option<u64>,
    },
    /// The time asked for is before the first state whose time is known.
    #[error("the backup's earliest state whose time is known is that {}",
        match first {
            Some(first) => format!(
                "after commit {first} of {}; what the store held before it is restored with --to-position {}",
                format_time(*time), first.0 - 1
            ),
            None => format!("of {}, when it was made; restore it without a time", format_time(*time)),
        }
    )]
    BeforeFirst {
        /// The first commit; `None` if there is none.
        first: Option<Position>,
        /// Its time, or when the backup was made.
        time: u64,
    },
    /// What is asked for comes after the end.
    #[error("the backup{archive} ends with commit {last}, before commit {wanted}", archive = if *with_archive { " with the archive" } else { "" })]
    TooLate {
        /// The position asked for.
        wanted: Position,
        /// The last there is.
        last: Position,
        /// Whether an archive was given.
        with_archive: bool,
    },
    /// A file of the archive, or of the store's own log, that may hold wanted commits is damaged or missing.
    #[error(
        "the archive's {problem}: it may hold commits from {next} on{known}. Nothing was restored; put the file back, or \
         go without these commits: --to-position {last}, or --to-time with a time before them",
        known = end.map(|end| format!(", and commits up to {} are known to have been made", end.0 - 1)).unwrap_or_default(),
        last = next.0 - 1
    )]
    Archive {
        /// The file, and what is wrong with it.
        problem: String,
        /// The first commit that it may hold.
        next: Position,
        /// The position after the last commit that is known to have been made, if one is.
        end: Option<Position>,
    },
    /// The store was changed under the backup, again and again.
    #[error("the store was rewritten again and again while it was backed up; try again")]
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
