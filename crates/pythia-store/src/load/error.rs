//! Errors of a load.

use std::io;
use std::path::PathBuf;

use pythia_io::IoError;
use pythia_rdf::ParseError;

use crate::StoreError;

/// The reason why a load failed. A failed load leaves nothing behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The input could not be read or is not RDF; names source, line and column.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The new segment could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An operation on the store's device failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A temporary file could not be written or read, most often because the disk is full.
    #[error("{action} temporary file ({what}) in {}: {source}", folder.display())]
    Temporary {
        /// `"create"`, `"write"` or `"read"`.
        action: &'static str,
        /// The file's contents.
        what: &'static str,
        /// The folder of temporary files.
        folder: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Temporary files would exceed [`super::LoadOptions::tmp_bytes_max`].
    #[error("temporary files in {} would need more than the {bytes_max} bytes allowed", folder.display())]
    TemporaryLimit {
        /// The folder of temporary files.
        folder: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The load has more distinct terms than row numbers can represent.
    #[error("more than {} distinct terms in one load", u32::MAX)]
    TooManyTerms,
    /// The caller refused to have the quads added to the state of the store ([`crate::Store::load_if`]).
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// A worker thread panicked: a bug in Pythia.
    #[error("worker panicked while {phase}: {message}")]
    Panic {
        /// The worker's task.
        phase: &'static str,
        /// The panic's message.
        message: String,
    },
}

impl LoadError {
    /// Returns whether a device has no space left, so that the same may succeed once there is some.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Store(error) => error.is_disk_full(),
            Self::Io(error) => matches!(error, IoError::DiskFull { .. }),
            Self::Temporary { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }
}

/// Returns a worker's result; its panic becomes an error.
pub(crate) fn joined<T>(
    result: std::thread::Result<Result<T, LoadError>>,
    phase: &'static str,
) -> Result<T, LoadError> {
    result.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(LoadError::Panic { phase, message })
    })
}
