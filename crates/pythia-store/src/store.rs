//! A store: the directory it lives in, its lock and its current state.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

use pythia_io::{BufferPool, DirectStorage, IoError, Storage};

use crate::StoreError;
use crate::manifest::{MANIFEST_NAME, Manifest};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// The file that is locked while the store is in use. It stays when nobody uses the store.
pub const LOCK_NAME: &str = "LOCK";

/// How to open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Memory for pages, in bytes: a hard limit.
    pub cache_bytes: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
        }
    }
}

/// A store that is open for reading.
pub struct Store {
    pool: Arc<BufferPool>,
    manifest: Manifest,
    base: Arc<Segment>,
    _lock: Option<StoreLock>,
}

impl Store {
    /// Opens the store in a folder. Reads the manifest and the segment's directory, nothing else.
    ///
    /// Any number of processes may have a store open; while one loads into it, none may.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Self, StoreError> {
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
        let lock = StoreLock::shared(path)?;
        let storage = DirectStorage::open(path, false)?;
        let mut store = Self::open_storage(Arc::new(storage), options)?;
        store._lock = lock;
        Ok(store)
    }

    /// Opens the store in a storage of any kind. Nothing is locked.
    pub fn open_storage(
        storage: Arc<dyn Storage>,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let Some(manifest) = Manifest::read(&*storage)? else {
            return Err(StoreError::NotAStore {
                path: format!("{storage:?}"),
                message: "it has no MANIFEST".to_owned(),
            });
        };
        let pool = BufferPool::try_new(storage, options.cache_bytes)?;
        let base = Arc::new(Segment::open(&pool, &manifest)?);
        Ok(Self {
            pool,
            manifest,
            base,
            _lock: None,
        })
    }

    /// The store's current state. Cheap.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(Arc::clone(&self.base))
    }

    /// The pool that all pages go through.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// The state as it is on the device.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The base segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.base
    }
}

/// The lock of a store in a folder of the file system. It ends with the value, or with the process.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// A reader's lock. `None` where the file system does not let this process write: then no
    /// loader can be this user's either.
    pub fn shared(path: &Path) -> Result<Option<Self>, StoreError> {
        match Self::open(path) {
            Ok(file) => Self::locked(path, file.try_lock_shared(), file).map(Some),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem) => Ok(None),
            Err(error) => Err(failed("open", error)),
        }
    }

    /// The lock of whoever changes the store; the folder must exist.
    pub fn exclusive(path: &Path) -> Result<Self, StoreError> {
        let file = Self::open(path).map_err(|error| failed("open", error))?;
        Self::locked(path, file.try_lock(), file)
    }

    fn open(path: &Path) -> std::io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_NAME))
    }

    fn locked(
        path: &Path,
        result: Result<(), TryLockError>,
        file: File,
    ) -> Result<Self, StoreError> {
        match result {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                path: path.display().to_string(),
            }),
            Err(TryLockError::Error(error)) => Err(failed("lock", error)),
        }
    }
}

fn failed(action: &'static str, error: std::io::Error) -> StoreError {
    StoreError::Io(IoError::Os {
        action,
        name: LOCK_NAME.to_owned(),
        offset: None,
        source: Arc::new(error),
    })
}
