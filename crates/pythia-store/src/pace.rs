//! The pace of background work: its write rate and its cancellation.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pythia_io::{DeviceProfile, IoError, LogFile, ReadFile, ReadRequest, Storage, WriteFile};

use crate::StoreError;

/// The longest single delay of a write: waiting for the work to end takes no longer than this.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The pace of background work. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    cancelled: Arc<AtomicBool>,
    /// The earliest time at which the bytes written so far are within the rate.
    due: Arc<Mutex<Option<Instant>>>,
}

impl Pace {
    /// Returns a pace of at most this many bytes a second; `None`: no limit.
    pub fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second,
            ..Self::default()
        }
    }

    /// Ends the work soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails once the work has been cancelled.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(StoreError::Cancelled),
            false => Ok(()),
        }
    }

    /// Returns the storage with its writes limited to this pace.
    pub(crate) fn limit(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        match self.bytes_per_second {
            None => storage,
            Some(_) => Arc::new(PacedStorage {
                inner: storage,
                pace: self.clone(),
            }),
        }
    }

    /// Delays the caller after this many bytes were written or read.
    pub(crate) fn passed(&self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else {
            return;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let now = Instant::now();
        let until = {
            let mut due = self.due.lock().expect("nothing panics holding it");
            // An unused allowance from earlier is not carried over.
            let until = due.map_or(now, |due| due.max(now)) + takes;
            *due = Some(until);
            until
        };
        let mut left = until.saturating_duration_since(now);
        while !left.is_zero() && self.check().is_ok() {
            let step = left.min(WAIT_MAX);
            std::thread::sleep(step);
            left -= step;
        }
    }
}

/// A storage whose writes are limited to a pace.
#[derive(Debug)]
struct PacedStorage {
    inner: Arc<dyn Storage>,
    pace: Pace,
}

impl Storage for PacedStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.inner.open(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        Ok(Box::new(PacedFile {
            inner: self.inner.create(name)?,
            pace: self.pace.clone(),
        }))
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        self.inner.read_batch(reads)
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        self.inner.create_log(name, bytes)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        self.inner.open_log(name)
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

    fn device(&self) -> DeviceProfile {
        self.inner.device()
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        self.inner.read_all(name)
    }
}

struct PacedFile {
    inner: Box<dyn WriteFile>,
    pace: Pace,
}

impl fmt::Debug for PacedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl WriteFile for PacedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.inner.append(bytes)?;
        self.pace.passed(bytes.len());
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

#[cfg(test)]
mod tests {
    use pythia_io::MemoryStorage;

    use super::*;

    #[test]
    fn writes_are_held_back_and_a_cancelled_one_is_not() {
        let pace = Pace::new(Some(1 << 20));
        let storage = pace.limit(Arc::new(MemoryStorage::new()));
        let started = Instant::now();
        let mut file = storage.create("a").expect("memory");
        file.append(&[1; 1 << 16]).expect("memory");
        assert!(started.elapsed() >= Duration::from_millis(60));
        pace.cancel();
        assert!(matches!(pace.check(), Err(StoreError::Cancelled)));
        // Would take an hour.
        let pace = Pace::new(Some(18));
        pace.cancel();
        let storage = pace.limit(Arc::new(MemoryStorage::new()));
        let mut file = storage.create("a").expect("memory");
        file.append(&[1; 1 << 16]).expect("memory");
        file.sync().expect("memory");
        assert_eq!(storage.read_all("a").expect("written").len(), 1 << 16);
    }
}
