//! Temporary files: without names, so that a process that ends in any way leaves nothing behind.
//!
//! A [`TemporarySpace`] limits and counts the bytes of all files of one folder. Their owners cut what they write into
//! blocks and keep the offsets.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A failure of a temporary file.
#[derive(Debug, thiserror::Error)]
pub enum TemporaryError {
    /// An operation failed, most often because the disk is full.
    #[error("{action} temporary file in {}: {source}", folder.display())]
    Os {
        /// `"create"`, `"write"` or `"read"`.
        action: &'static str,
        /// The folder of temporary files.
        folder: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The files would exceed the limit of their space.
    #[error("temporary files in {} would need more than the {bytes_max} bytes allowed", folder.display())]
    Limit {
        /// The folder of temporary files.
        folder: PathBuf,
        /// The limit.
        bytes_max: u64,
        /// The bytes in files.
        used: u64,
    },
}

/// The folder of temporary files, and the limit and the number of the bytes in them.
#[derive(Debug)]
pub struct TemporarySpace {
    folder: PathBuf,
    bytes_max: u64,
    used: AtomicU64,
    peak: AtomicU64,
    written: AtomicU64,
}

impl TemporarySpace {
    /// Returns a space for up to `bytes_max` bytes in a folder.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self {
            folder,
            bytes_max,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the bytes in files now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the most bytes that were in files at a time.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Returns the bytes written to files so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> Result<(), TemporaryError> {
        let room = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.bytes_max);
        match self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
        {
            Ok(used) => {
                self.peak.fetch_max(used + bytes, Ordering::Relaxed);
                self.written.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => Err(TemporaryError::Limit {
                folder: self.folder.clone(),
                bytes_max: self.bytes_max,
                used,
            }),
        }
    }
}

/// A temporary file. Several threads may write and read at the same time; dropping it frees its space.
#[derive(Debug)]
pub struct TemporaryFile {
    space: Arc<TemporarySpace>,
    /// `None` until the first write.
    file: Mutex<Option<Arc<File>>>,
    length: AtomicU64,
}

impl TemporaryFile {
    /// Returns an empty file, which is created on disk when it is first written to, or by [`Self::create`].
    pub fn new(space: &Arc<TemporarySpace>) -> Self {
        Self {
            space: Arc::clone(space),
            file: Mutex::new(None),
            length: AtomicU64::new(0),
        }
    }

    /// Creates the file on disk, unless that was done.
    pub fn create(&self) -> Result<(), TemporaryError> {
        self.opened().map(drop)
    }

    /// Returns the bytes written so far.
    pub fn len(&self) -> u64 {
        self.length.load(Ordering::Relaxed)
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes and returns their offset.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, TemporaryError> {
        let length = bytes.len() as u64;
        self.space.take(length)?;
        let offset = self.length.fetch_add(length, Ordering::Relaxed);
        self.write_at(bytes, offset)?;
        Ok(offset)
    }

    /// Replaces bytes that were written.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), TemporaryError> {
        self.opened()?
            .write_all_at(bytes, offset)
            .map_err(|source| self.error("write", source))
    }

    /// Reads bytes that were written.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<(), TemporaryError> {
        self.opened()?
            .read_exact_at(into, offset)
            .map_err(|source| self.error("read", source))
    }

    /// Returns the error of an operation on this file.
    pub fn error(&self, action: &'static str, source: io::Error) -> TemporaryError {
        TemporaryError::Os {
            action,
            folder: self.space.folder.clone(),
            source,
        }
    }

    fn opened(&self) -> Result<Arc<File>, TemporaryError> {
        let mut file = self.file.lock();
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let opened = tempfile::tempfile_in(&self.space.folder);
        let opened = Arc::new(opened.map_err(|source| self.error("create", source))?);
        *file = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let length = self.len();
        self.space.used.fetch_sub(length, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_name_and_frees_its_space() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = Arc::new(TemporarySpace::new(folder.path().to_owned(), 100));
        let file = TemporaryFile::new(&space);
        assert_eq!(file.append(&[1; 60]).expect("there is room"), 0);
        assert_eq!(file.append(&[2; 40]).expect("there is room"), 60);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        let mut bytes = [0; 20];
        file.read_at(&mut bytes, 50).expect("written");
        assert_eq!(bytes, [[1; 10], [2; 10]].concat()[..]);
        let error = file.append(&[3]).expect_err("it is full");
        assert!(matches!(error, TemporaryError::Limit { used: 100, .. }));
        drop(file);
        assert_eq!((space.used(), space.peak(), space.written()), (0, 100, 100));
    }

    #[test]
    fn a_missing_folder_is_named() {
        let space = Arc::new(TemporarySpace::new("/nowhere/at/all".into(), u64::MAX));
        let error = TemporaryFile::new(&space).create().expect_err("no folder");
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
