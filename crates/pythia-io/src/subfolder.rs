//! A folder of a storage as a storage of its own.

use std::sync::Arc;

use crate::IoError;
use crate::probe::DeviceProfile;
use crate::storage::{FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile};

/// A folder of another storage. Files report their names within the other storage.
#[derive(Clone, Debug)]
pub struct Subfolder {
    inner: Arc<dyn Storage>,
    folder: String,
}

impl Subfolder {
    /// Makes a storage from a folder, which need not exist.
    pub fn new(inner: Arc<dyn Storage>, folder: &str) -> Self {
        Self {
            inner,
            folder: folder.to_owned(),
        }
    }

    fn path(&self, name: &str) -> String {
        match name {
            "" => self.folder.clone(),
            name => format!("{}/{name}", self.folder),
        }
    }
}

impl Storage for Subfolder {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.inner.open(&self.path(name))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        self.inner.create(&self.path(name))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        self.inner.create_log(&self.path(name), bytes)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        self.inner.open_log(&self.path(name))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        self.inner.read_batch(reads)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        self.inner.rename(&self.path(from), &self.path(to))
    }

    fn sync_names(&self) -> Result<(), IoError> {
        self.inner.sync_names()
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.inner.remove(&self.path(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        self.inner.list(&self.path(folder))
    }

    fn place(&self) -> Option<String> {
        Some(format!("{}/{}", self.inner.place()?, self.folder))
    }

    fn device(&self) -> DeviceProfile {
        self.inner.device()
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        self.inner.read_all(&self.path(name))
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        self.inner.version(&self.path(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStorage;

    #[test]
    fn names_are_of_the_folder() {
        let memory = Arc::new(MemoryStorage::new());
        let folder = Subfolder::new(memory.clone(), "a/b");
        assert!(folder.list("").is_err_and(|error| error.is_not_found()));
        folder.create("c/d").unwrap().sync().unwrap();
        drop(folder.create_log("e", 4096).unwrap());
        assert_eq!(folder.list("").unwrap(), ["c", "e"]);
        assert_eq!(memory.list("a/b/c").unwrap(), ["d"]);
        folder.rename("c/d", "f").unwrap();
        assert!(memory.exists("a/b/f").unwrap());
        folder.remove("f").unwrap();
        assert_eq!(folder.list("").unwrap(), ["e"]);
    }
}
