//! The index of rows that are sorted by a key: the rows of each key.

use std::ops::Range;

use hashbrown::HashTable;

use crate::limits::spill::rows::RowStore;
use crate::limits::spill::table::{hash_ids, index_bytes};

/// The runs of equal keys in sorted rows.
pub(super) struct Runs {
    numbers: Numbers,
    /// The first row of each run, and the number of rows; empty if each run is one row.
    starts: Vec<u32>,
}

/// The numbers of the runs by their keys.
enum Numbers {
    Dense(Ranks),
    Hashed(HashTable<u32>),
}

impl Runs {
    /// Finds the runs of rows that are sorted by the cell at `key`.
    pub(super) fn of(rows: &RowStore, key: usize) -> Self {
        let key_of = |row: usize| rows.row(row)[key];
        let mut starts = Vec::with_capacity(rows.len() + 1);
        let mut last = None;
        for (row, id) in rows.cells(key).enumerate() {
            if last != Some(id) {
                starts.push(number(row));
                last = Some(id);
            }
        }
        let count = starts.len();
        let ends = last.map(|last| (key_of(0), last));
        let span = ends.map_or(0, |(first, last)| (last - first).saturating_add(1));
        let numbers = if Ranks::bytes(span) <= index_bytes(count) as u64 {
            Numbers::Dense(Ranks::of(rows.cells(key), span))
        } else {
            let run_key = |run: u32| key_of(starts[run as usize] as usize);
            let mut runs = HashTable::with_capacity(count);
            for run in 0..number(count) {
                runs.insert_unique(hash_ids([run_key(run)], 0), run, |&run| {
                    hash_ids([run_key(run)], 0)
                });
            }
            Numbers::Hashed(runs)
        };
        if count == rows.len() {
            starts = Vec::new();
        } else {
            starts.push(number(rows.len()));
            starts.shrink_to_fit();
        }
        Self { numbers, starts }
    }

    /// Returns the memory for the index of this many rows, at most.
    pub(super) fn bytes(rows: usize) -> usize {
        index_bytes(rows) + (rows + 1) * size_of::<u32>()
    }

    /// Returns the rows of a key; none for a key that they do not have.
    #[inline]
    pub(super) fn find(&self, rows: &RowStore, key: usize, id: u64) -> Range<usize> {
        let run = match &self.numbers {
            Numbers::Dense(ranks) => ranks.get(id),
            Numbers::Hashed(runs) => {
                let has_key = |run: &u32| rows.row(self.rows_of(*run).start)[key] == id;
                runs.find(hash_ids([id], 0), has_key).copied()
            }
        };
        run.map_or(0..0, |run| self.rows_of(run))
    }

    #[inline]
    fn rows_of(&self, run: u32) -> Range<usize> {
        let run = run as usize;
        match self.starts.get(run..run + 2) {
            Some(ends) => ends[0] as usize..ends[1] as usize,
            None => run..run + 1,
        }
    }
}

/// A number of a row or run.
fn number(row: usize) -> u32 {
    u32::try_from(row).expect("a table outgrows memory before 2^32")
}

/// The ranks of ids among sorted ids that lie close to each other: a bit for each id from the first to the last.
struct Ranks {
    first: u64,
    words: Vec<Word>,
}

/// Bits of 64 consecutive ids, and the number of bits before them.
#[derive(Clone, Copy, Default)]
struct Word {
    bits: u64,
    before: u32,
}

impl Ranks {
    /// Returns the memory for ids in a range of this length.
    fn bytes(span: u64) -> u64 {
        (span / 64 + 1).saturating_mul(size_of::<Word>() as u64)
    }

    /// Ranks sorted ids in a range of length `span`.
    fn of(ids: impl Iterator<Item = u64>, span: u64) -> Self {
        let mut words = vec![Word::default(); span.div_ceil(64) as usize];
        let mut ids = ids.peekable();
        let first = ids.peek().copied().unwrap_or_default();
        for id in ids {
            words[((id - first) / 64) as usize].bits |= 1 << ((id - first) % 64);
        }
        let mut before = 0;
        for word in &mut words {
            word.before = before;
            before += word.bits.count_ones();
        }
        Self { first, words }
    }

    /// Returns the number of ids before this one, if it is among them.
    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        let place = id.wrapping_sub(self.first);
        let word = self.words.get(usize::try_from(place / 64).ok()?)?;
        let bit = 1 << (place % 64);
        (word.bits & bit != 0).then(|| word.before + (word.bits & (bit - 1)).count_ones())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(keys: &[u64]) -> RowStore {
        let mut rows = RowStore::new(2);
        for (number, key) in keys.iter().enumerate() {
            rows.push(&[number as u64, *key]);
        }
        rows
    }

    fn keys() -> impl Strategy<Value = Vec<u64>> {
        let near = prop::collection::vec(1000_u64..1300, 0..300);
        let far = prop::collection::vec(any::<u64>(), 0..50);
        (near, far, any::<bool>()).prop_map(|(mut keys, far, all)| {
            if all {
                keys.extend(far);
            }
            keys.sort_unstable();
            keys
        })
    }

    proptest! {
        #[test]
        fn each_key_has_its_rows(keys in keys(), others in prop::collection::vec(900_u64..1400, 20)) {
            let rows = sorted(&keys);
            let runs = Runs::of(&rows, 1);
            for key in keys.iter().chain(&others).chain(&[0, u64::MAX]) {
                let from = keys.partition_point(|other| other < key);
                let to = keys.partition_point(|other| other <= key);
                let found = runs.find(&rows, 1, *key);
                prop_assert_eq!(found.len(), to - from);
                prop_assert!(found.is_empty() || found.start == from);
            }
        }
    }

    #[test]
    fn ids_close_to_each_other_take_a_bit_each() {
        let near = Runs::of(&sorted(&[10, 12, 12, 80]), 1);
        assert!(matches!(near.numbers, Numbers::Dense(_)));
        let far = Runs::of(&sorted(&[10, 12, 12, 1 << 40]), 1);
        assert!(matches!(far.numbers, Numbers::Hashed(_)));
        let ends = Runs::of(&sorted(&[0, u64::MAX]), 1);
        assert_eq!(ends.find(&sorted(&[0, u64::MAX]), 1, u64::MAX), 1..2);
    }
}
