//! Errors of a store.

use pythia_io::IoError;
use pythia_io::bytes::BytesError;
use pythia_log::LogError;

use crate::load::LoadError;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The storage failed; the message names the file and the place.
    #[error(transparent)]
    Io(#[from] IoError),

    /// A file passed its checksums but holds something impossible.
    #[error("{file}{}: {message}", page.map(|page| format!(", page {page}")).unwrap_or_default())]
    Corrupt {
        /// The file, relative to the store.
        file: String,
        /// Number of the page, for paged files.
        page: Option<u64>,
        /// The expected content, and its place.
        message: String,
    },

    /// The store's format is one that this program does not read.
    #[error(
        "the store was written in format {found}, and this program reads formats up to {supported}: \
         use a later version of Pythia, or dump the store with the version that wrote it and load it again"
    )]
    Format {
        /// The store's format version.
        found: u32,
        /// The newest format that this program reads.
        supported: u32,
    },

    /// There is no store at this path.
    #[error("{path} is not a Pythia store: {message}")]
    NotAStore {
        /// The path.
        path: String,
        /// Why it is not a store.
        message: String,
    },

    /// A store without a log.
    #[error("the store has no log: it was loaded, and never opened for writing")]
    NoLog,

    /// Something was abandoned while it was written.
    #[error("{what} was abandoned before it was complete")]
    Abandoned {
        /// The object that was being written.
        what: &'static str,
    },

    /// A load of a new store into a folder that already holds quads.
    #[error(
        "the store already has {quads} quads, and this load builds a new store: load into another folder, \
         or remove this one first"
    )]
    NotEmpty {
        /// Quads in the store.
        quads: u64,
    },

    /// The folder to load into has files that are not a store's.
    #[error(
        "the folder has {name}, but no MANIFEST: it is not a store, or has lost its manifest; \
         load into an empty or new folder"
    )]
    ForeignFiles {
        /// One of the files.
        name: String,
    },

    /// A step that works in memory was given less than it needs.
    #[error(
        "{what} needs {} MiB of memory, but was given {} MiB: raise --memory",
        needed_bytes.div_ceil(1 << 20), given_bytes >> 20
    )]
    MemoryTooSmall {
        /// The step.
        what: &'static str,
        /// Bytes that would suffice.
        needed_bytes: u64,
        /// Bytes that it was given.
        given_bytes: u64,
    },

    /// A transaction's changes exceed the memory that it may take.
    #[error(
        "the transaction's changes need more memory than there is ({message}); raise --memory, or commit in \
         smaller parts"
    )]
    Allowance {
        /// The request that was refused.
        message: String,
    },

    /// The edges of nodes exceed the memory that their reader has left.
    #[error("the edges of these nodes need more memory than there is ({message})")]
    NoRoom {
        /// The request that was refused.
        message: String,
    },

    /// A number exceeds what the format can count.
    #[error("there are {what}")]
    TooLarge {
        /// The counted objects, their number, and the possible number.
        what: String,
    },

    /// A request to `optimize` that makes no sense for this store.
    #[error("{message}")]
    NotOptimizable {
        /// The reason.
        message: String,
    },

    /// An external sort failed, most often because the disk is full.
    #[error(transparent)]
    Sort(Box<LoadError>),

    /// A commit before this one changed the same quads.
    #[error(
        "another commit has changed the same quads since this transaction began: try the \
         transaction again"
    )]
    Conflict,

    /// A commit before this one changed what a serializable transaction has read.
    #[error(
        "another commit has changed what this transaction read since it began: try the \
         transaction again"
    )]
    Outdated,

    /// The log failed; the message says what that means and what to do.
    #[error(transparent)]
    Log(#[from] LogError),

    /// An earlier failure has stopped all commits.
    #[error(
        "the store accepts no more commits after an error: {cause}; acknowledged commits are safe: check \
         the device, then close and open the store"
    )]
    Stopped {
        /// The failure.
        cause: String,
    },

    /// Switching to a new state failed; the store may be in the old or the new state.
    #[error(
        "switching the store to a new state failed: {cause}; the store is intact, in its old state or in \
         the new one: check the device, then check which state it is in before you try again"
    )]
    Switching {
        /// The failure.
        cause: IoError,
    },

    /// A new state that may already be in place must be confirmed before the next commit.
    #[error(
        "the store accepts no commits until its new state is in place: {cause}; acknowledged commits are \
         safe: check the device, and try again"
    )]
    Unsettled {
        /// Why it could not be.
        cause: Box<StoreError>,
    },

    /// Something else has replaced the store's files.
    #[error(
        "the store's MANIFEST is not the one that this process wrote: something else has replaced the store's \
         files, and nothing was overwritten; put them back, then close and open the store"
    )]
    Replaced,

    /// A change to a store that was opened for reading.
    #[error("the store was opened for reading only: open it for writing to change it")]
    ReadOnly,

    /// Another process has the store open for writing.
    #[error(
        "the store at {path} is open for writing in another process, and there can be only one: \
         wait until it ends, or send the update to it"
    )]
    Writing {
        /// The store's path.
        path: String,
    },

    /// Another process writes to a folder of the log.
    #[error(
        "another process writes to the folder {path} of the log, for this store or for another: wait until it \
         ends, and give each store folders of its own"
    )]
    LogInUse {
        /// The folder.
        path: String,
    },

    /// A log folder or the archive is missing, or is the wrong folder.
    #[error("{path} ({role}): {problem}. Nothing was changed; {remedy}")]
    LogFolder {
        /// Its expected path.
        path: String,
        /// Its role in the log.
        role: String,
        /// The problem.
        problem: String,
        /// The remedy.
        remedy: String,
    },

    /// Background work was cancelled and has left nothing behind.
    #[error("the work was cancelled, and changed nothing")]
    Cancelled,

    /// Another process has exclusive access to the store.
    #[error("the store at {path} is in use by another process")]
    Locked {
        /// The store's path.
        path: String,
    },
}

impl From<BytesError> for StoreError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Corrupt {
                file,
                position,
                message,
                ..
            } => Self::corrupt(file, None, format!("at byte {position}: {message}")),
            BytesError::Version {
                found, supported, ..
            } => Self::Format { found, supported },
        }
    }
}

impl From<LoadError> for StoreError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error,
            LoadError::Io(error) => Self::Io(error),
            error => Self::Sort(Box::new(error)),
        }
    }
}

impl StoreError {
    /// Returns whether the same transaction may succeed if it is tried again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::Outdated)
    }

    /// Returns whether a device has no space left, so that the same may succeed once there is some.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io(error) => matches!(error, IoError::DiskFull { .. }),
            Self::Log(error) => error.is_disk_full(),
            Self::Sort(error) => error.is_disk_full(),
            Self::Unsettled { cause } => cause.is_disk_full(),
            _ => false,
        }
    }

    /// Makes a [`StoreError::Corrupt`].
    pub fn corrupt(
        file: impl Into<String>,
        page: impl Into<Option<u64>>,
        message: impl Into<String>,
    ) -> Self {
        Self::Corrupt {
            file: file.into(),
            page: page.into(),
            message: message.into(),
        }
    }
}
