//! A storage that counts the bytes written through it, by the kind of file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pythia_io::{
    DeviceProfile, FileVersion, IoError, LogFile, ReadFile, ReadRequest, Storage, WriteFile,
};
use serde::Serialize;

/// Bytes written, by the kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrittenBytes {
    /// The log.
    pub log: u64,
    /// Runs: changes and their terms.
    pub runs: u64,
    /// Orders of the base.
    pub orders: u64,
    /// Dictionaries of the base.
    pub dictionary: u64,
    /// Optional indexes, `MANIFEST` and others.
    pub others: u64,
}

impl WrittenBytes {
    /// Returns the bytes written since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            log: self.log - before.log,
            runs: self.runs - before.runs,
            orders: self.orders - before.orders,
            dictionary: self.dictionary - before.dictionary,
            others: self.others - before.others,
        }
    }

    /// Returns the bytes of base and runs: what compaction and merging write.
    pub fn of_maintenance(&self) -> u64 {
        self.runs + self.orders + self.dictionary
    }
}

#[derive(Debug, Default)]
struct Counters {
    log: AtomicU64,
    runs: AtomicU64,
    orders: AtomicU64,
    dictionary: AtomicU64,
    others: AtomicU64,
}

impl Counters {
    fn add(&self, name: &str, bytes: usize) {
        let counter = match name {
            name if name.starts_with("run-") => &self.runs,
            name if name.starts_with("segment-") => &self.orders,
            name if name.starts_with("dictionary-") => &self.dictionary,
            name if name.starts_with("log/") => &self.log,
            _ => &self.others,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The storage.
#[derive(Debug)]
pub struct CountingStorage {
    inner: Arc<dyn Storage>,
    counters: Arc<Counters>,
}

impl CountingStorage {
    /// Returns a storage that writes to another one.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self {
            inner,
            counters: Arc::default(),
        }
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> WrittenBytes {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        WrittenBytes {
            log: get(&counters.log),
            runs: get(&counters.runs),
            orders: get(&counters.orders),
            dictionary: get(&counters.dictionary),
            others: get(&counters.others),
        }
    }
}

impl Storage for CountingStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        Ok(Box::new(CountedFile {
            inner: self.inner.create(name)?,
            name: name.to_owned(),
            counters: Arc::clone(&self.counters),
        }))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        let inner = self.inner.create_log(name, bytes)?;
        let counters = Arc::clone(&self.counters);
        Ok(Box::new(CountedLog { inner, counters }))
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        let inner = self.inner.open_log(name)?;
        let counters = Arc::clone(&self.counters);
        Ok(Box::new(CountedLog { inner, counters }))
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

#[derive(Debug)]
struct CountedFile {
    inner: Box<dyn WriteFile>,
    name: String,
    counters: Arc<Counters>,
}

impl WriteFile for CountedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.append(bytes)?;
        self.counters.add(&self.name, bytes.len());
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

#[derive(Debug)]
struct CountedLog {
    inner: Box<dyn LogFile>,
    counters: Arc<Counters>,
}

impl LogFile for CountedLog {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.write_at(offset, bytes)?;
        self.counters.add("log/", bytes.len());
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        self.inner.sync()
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        self.inner.trim(bytes)
    }
}
