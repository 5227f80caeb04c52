//! A storage whose writes are told to an observer.

use std::fmt;
use std::sync::Arc;

use crate::IoError;
use crate::probe::DeviceProfile;
use crate::storage::{FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile};

/// Receives the name of a file and the number of bytes, after each write.
pub type Observer = Arc<dyn Fn(&str, usize) + Send + Sync>;

/// A storage that passes everything on to another one, and tells an observer of each write.
#[derive(Clone)]
pub struct ObservedStorage {
    inner: Arc<dyn Storage>,
    observer: Observer,
}

impl ObservedStorage {
    /// Returns a storage that writes to another one. The observer may delay the writer.
    pub fn new(inner: Arc<dyn Storage>, observer: Observer) -> Self {
        Self { inner, observer }
    }

    fn log(&self, inner: Box<dyn LogFile>) -> Box<dyn LogFile> {
        let observer = Arc::clone(&self.observer);
        Box::new(ObservedLog { inner, observer })
    }
}

impl fmt::Debug for ObservedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Storage for ObservedStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        Ok(Box::new(ObservedFile {
            inner: self.inner.create(name)?,
            name: name.to_owned(),
            observer: Arc::clone(&self.observer),
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        Ok(self.log(self.inner.create_log(name, bytes)?))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        Ok(self.log(self.inner.open_log(name)?))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        self.inner.read_batch(reads)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        self.inner.rename(from, to)
    }

    fn sync_names(&self) -> Result<(), IoError> {
        self.inner.sync_names()
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.inner.remove(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        self.inner.list(folder)
    }

    fn place(&self) -> Option<String> {
        self.inner.place()
    }

    fn device(&self) -> DeviceProfile {
        self.inner.device()
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        self.inner.read_all(name)
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        self.inner.version(name)
    }
}

struct ObservedFile {
    inner: Box<dyn WriteFile>,
    name: String,
    observer: Observer,
}

impl fmt::Debug for ObservedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl WriteFile for ObservedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.append(bytes)?;
        (self.observer)(&self.name, bytes.len());
        Ok(())
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(self: Box<Self>) -> Result<(), IoError> {
        self.inner.sync()
    }

    fn close(self: Box<Self>) -> Result<(), IoError> {
        self.inner.close()
    }
}

struct ObservedLog {
    inner: Box<dyn LogFile>,
    observer: Observer,
}

impl fmt::Debug for ObservedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl LogFile for ObservedLog {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, bytes)?;
        (self.observer)(self.inner.name(), bytes.len());
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        self.inner.sync()
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        self.inner.trim(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{AlignedBuffer, MemoryStorage};

    #[test]
    fn every_write_is_told_with_its_file() {
        let told: Arc<Mutex<Vec<(String, usize)>>> = Arc::default();
        let to = Arc::clone(&told);
        let observer: Observer = Arc::new(move |name, bytes| {
            to.lock().unwrap().push((name.to_owned(), bytes));
        });
        let storage = ObservedStorage::new(Arc::new(MemoryStorage::new()), observer);
        let mut file = storage.create("a").unwrap();
        file.append(&[1; 10]).unwrap();
        file.append(&[2; 20]).unwrap();
        file.sync().unwrap();
        let block = AlignedBuffer::zeroed(4096);
        let log = storage.create_log("log/b", 4096).unwrap();
        log.write_at(0, &block).unwrap();
        let log = storage.open_log("log/b").unwrap();
        log.write_at(0, &block).unwrap();
        assert_eq!(storage.read_all("a").unwrap().len(), 30);
        let entry = |name: &str, bytes| (name.to_owned(), bytes);
        assert_eq!(
            *told.lock().unwrap(),
            [
                entry("a", 10),
                entry("a", 20),
                entry("log/b", 4096),
                entry("log/b", 4096)
            ]
        );
    }
}
