//! The pace of background work: its write rate, its rests and its cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pythia_io::{ObservedStorage, Storage, at_low_priority};

use crate::StoreError;

/// The longest single delay of a write: waiting for the work to end takes no longer than this.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// The time of work between two rests: short beside the time slices of a scheduler, so that a query that needs the
/// processor gets it soon.
const WORK_MAX: Duration = Duration::from_micros(500);

/// The pace of background work. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    bytes_per_second: Option<u64>,
    /// The end of the last rest, if the work rests.
    rested: Option<Arc<Mutex<Instant>>>,
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

    /// Returns the same pace for work beside queries: at low priority, and with a rest after each half millisecond of
    /// work that is as long as the work.
    pub fn with_rests(self) -> Self {
        Self {
            rested: Some(Arc::new(Mutex::new(Instant::now()))),
            ..self
        }
    }

    /// Ends the work soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the work has been cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Fails once the work has been cancelled.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.is_cancelled() {
            true => Err(StoreError::Cancelled),
            false => Ok(()),
        }
    }

    /// Does work at this pace: on a thread of low priority, if it rests.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.rested {
            Some(_) => at_low_priority(work),
            None => work(),
        }
    }

    /// Called by work at every small step: rests if that is due. Fails once the work has been cancelled.
    pub(crate) fn step(&self) -> Result<(), StoreError> {
        self.check()?;
        let Some(rested) = &self.rested else {
            return Ok(());
        };
        let mut rested = rested.lock().expect("nothing panics holding it");
        let worked = rested.elapsed();
        if worked >= WORK_MAX {
            std::thread::sleep(worked.min(WAIT_MAX));
            *rested = Instant::now();
        }
        Ok(())
    }

    /// Returns the storage with its writes limited to this pace.
    pub(crate) fn limit(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        match self.bytes_per_second {
            None => storage,
            Some(_) => {
                let pace = self.clone();
                let delay = move |_: &str, bytes| pace.passed(bytes);
                Arc::new(ObservedStorage::new(storage, Arc::new(delay)))
            }
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

#[cfg(test)]
mod tests {
    use pythia_io::MemoryStorage;

    use super::*;

    #[test]
    fn work_rests_as_long_as_it_worked() {
        let pace = Pace::default().with_rests();
        let started = Instant::now();
        let mut steps = 0_u64;
        while started.elapsed() < Duration::from_millis(200) {
            pace.step().expect("not cancelled");
            steps += 1;
        }
        let unpaced = Pace::default();
        let (started, mut most) = (Instant::now(), 0_u64);
        while started.elapsed() < Duration::from_millis(200) {
            unpaced.step().expect("not cancelled");
            most += 1;
        }
        assert!(steps < most, "{steps} of {most} steps");
        assert!(pace.run(|| std::thread::current().name() == Some("low priority")));
        pace.cancel();
        assert!(matches!(pace.step(), Err(StoreError::Cancelled)));
    }

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
