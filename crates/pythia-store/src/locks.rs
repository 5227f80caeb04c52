//! The folder of a store in the file system, and the locks on it.

use std::path::Path;

use pythia_io::{DirectStorage, FolderLock, LockKind};

use crate::StoreError;
use crate::manifest::MANIFEST_NAME;

/// Lock file of every process that uses the store. It stays when the store is closed.
pub const LOCK_NAME: &str = "LOCK";
/// Lock file of the store's one writer.
pub(crate) const WRITER_NAME: &str = "WRITER";

/// Fails if a folder holds no store.
pub fn check_folder(path: &Path) -> Result<(), StoreError> {
    let not_a_store = |message: &str| StoreError::NotAStore {
        path: path.display().to_string(),
        message: message.to_owned(),
    };
    if !path.exists() {
        return Err(not_a_store("there is no such folder"));
    }
    if !path.is_dir() {
        return Err(not_a_store("it is not a folder"));
    }
    if !path.join(MANIFEST_NAME).exists() {
        return Err(not_a_store("it has no MANIFEST"));
    }
    Ok(())
}

/// Opens the folder of a store.
///
/// # Errors
/// [`StoreError::NotAStore`] if it holds no store.
pub fn open_folder(path: &Path) -> Result<DirectStorage, StoreError> {
    check_folder(path)?;
    Ok(DirectStorage::open(path, false)?)
}

/// The lock of a store in a folder of the file system. It ends with the value, or with the process.
///
/// Readers share `LOCK`. A writer beside them locks the folder itself, which cannot be removed while it is open, and
/// `WRITER`, for file systems that do not lock folders. Exclusive access locks the folder and `LOCK`.
#[derive(Debug)]
pub struct StoreLock {
    _locks: Vec<FolderLock>,
}

impl StoreLock {
    /// Takes a reader's lock. Returns `None` if the folder is read-only for this process: then its user cannot load
    /// into the store either.
    pub fn shared(storage: &DirectStorage) -> Result<Option<Self>, StoreError> {
        match storage.try_lock(LOCK_NAME, LockKind::Shared) {
            Err(error) if error.is_read_only() => Ok(None),
            lock => Self::of([lock?]).map(Some).ok_or_else(|| locked(storage)),
        }
    }

    /// Takes the lock for exclusive access.
    pub fn exclusive(storage: &DirectStorage) -> Result<Self, StoreError> {
        let locks = [
            storage.try_lock(LOCK_NAME, LockKind::Exclusive)?,
            storage.try_lock_folder(LockKind::Exclusive)?,
        ];
        Self::of(locks).ok_or_else(|| locked(storage))
    }

    /// Takes the lock of the one writer of a store that others may read.
    pub fn writer(storage: &DirectStorage) -> Result<Self, StoreError> {
        let locks = [
            storage.try_lock_folder(LockKind::Exclusive)?,
            storage.try_lock(WRITER_NAME, LockKind::Exclusive)?,
        ];
        Self::of(locks).ok_or_else(|| StoreError::Writing {
            path: storage.root().display().to_string(),
        })
    }

    /// Takes the lock of the one writer to a log folder outside the store.
    pub fn log_folder(folder: &DirectStorage) -> Result<Self, StoreError> {
        let lock = folder.try_lock_folder(LockKind::Exclusive)?;
        Self::of([lock]).ok_or_else(|| StoreError::LogInUse {
            path: folder.root().display().to_string(),
        })
    }

    fn of<const N: usize>(locks: [Option<FolderLock>; N]) -> Option<Self> {
        let _locks = locks.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Self { _locks })
    }
}

fn locked(storage: &DirectStorage) -> StoreError {
    StoreError::Locked {
        path: storage.root().display().to_string(),
    }
}
