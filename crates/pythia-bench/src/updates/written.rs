//! Counts of the bytes written to a storage, by the kind of file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pythia_io::{ObservedStorage, Storage};
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

/// Counters of the bytes written so far.
#[derive(Debug, Default)]
pub struct Counters {
    log: AtomicU64,
    runs: AtomicU64,
    orders: AtomicU64,
    dictionary: AtomicU64,
    others: AtomicU64,
}

impl Counters {
    /// Returns a storage that counts what is written through it to another one, and its counters.
    pub fn of(storage: Arc<dyn Storage>) -> (Arc<dyn Storage>, Arc<Self>) {
        let counters = Arc::new(Self::default());
        let counted = Arc::clone(&counters);
        let count = move |name: &str, bytes| counted.add(name, bytes);
        let storage = ObservedStorage::new(storage, Arc::new(count));
        (Arc::new(storage), counters)
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> WrittenBytes {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WrittenBytes {
            log: get(&self.log),
            runs: get(&self.runs),
            orders: get(&self.orders),
            dictionary: get(&self.dictionary),
            others: get(&self.others),
        }
    }

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
