//! The paper's trace (§4): records of 40 to 50 bytes inserted in random order, then retrieved in another random order.

use anyhow::{Result, ensure};
use pythia_io::probe::SplitMix;

use super::RecordStore;
use super::devices::Phase;

/// Bytes of a key.
const KEY_BYTES: u64 = 8;
/// Bytes of a record, the least and one more than the most.
const RECORD_BYTES: std::ops::Range<u64> = 40..51;

/// The keys of the records, twice.
#[derive(Debug)]
pub(super) struct Trace {
    inserted: Vec<u64>,
    retrieved: Vec<u64>,
}

impl Trace {
    /// Draws different keys.
    pub(super) fn new(records: usize, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        // Each state of the generator gives another number, so no key is drawn twice.
        let inserted: Vec<u64> = (0..records).map(|_| random.next_u64()).collect();
        let mut retrieved = inserted.clone();
        for end in (1..retrieved.len()).rev() {
            retrieved.swap(end, random.below(end as u64 + 1) as usize);
        }
        Self {
            inserted,
            retrieved,
        }
    }

    /// Inserts all records into a store, and retrieves them. Returns the operations of both parts. Fails if the store
    /// returns another value than the inserted one.
    pub(super) fn replay(&self, store: &mut dyn RecordStore) -> Result<[Phase; 2]> {
        let mut value = Vec::new();
        for key in &self.inserted {
            write_value(*key, &mut value);
            store.insert(*key, &value);
        }
        store.flush();
        let insert = store.take_phase();
        for key in &self.retrieved {
            write_value(*key, &mut value);
            let found = store.get(*key);
            ensure!(
                found.as_ref() == Some(&value),
                "the record of key {key:#x} is not the one inserted"
            );
        }
        Ok([insert, store.take_phase()])
    }
}

/// Writes the value of a key, which makes a record of 40 to 50 bytes with it.
fn write_value(key: u64, value: &mut Vec<u8>) {
    let mut random = SplitMix(key);
    let bytes = RECORD_BYTES.start + random.below(RECORD_BYTES.end - RECORD_BYTES.start);
    value.resize((bytes - KEY_BYTES) as usize, 0);
    random.fill(value);
}
