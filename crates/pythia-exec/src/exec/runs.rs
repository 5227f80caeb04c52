//! The index of rows that are sorted by a key: the rows of each key.

use std::ops::Range;

use hashbrown::HashTable;

use crate::limits::spill::rows::RowStore;
use crate::limits::spill::table::{hash_ids, index_bytes};

/// Bytes of ranks that are never too many for their ids.
const RANKS_BYTES: u64 = 4 << 10;

/// The runs of equal keys in rows that are sorted by them.
pub(super) struct Runs {
    numbers: Numbers,
    /// The first row of each run, and the number of rows; empty if each run is one row.
    starts: Vec<u32>,
}

/// The numbers of the runs by their keys.
enum Numbers {
    Dense(Ranks),
    Hashed(HashTable<u32>, RowStore),
}

impl Runs {
    /// Returns the rows of a key; none for a key that they do not have.
    #[inline]
    pub(super) fn find(&self, id: u64) -> Range<usize> {
        let run = match &self.numbers {
            Numbers::Dense(ranks) => ranks.get(id),
            Numbers::Hashed(runs, keys) => {
                let has_key = |run: &u32| keys.row(*run as usize)[0] == id;
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

/// The runs of rows that are still being read, in the order of their keys.
pub(super) struct RunsBuilder {
    keys: Keys,
    last: Option<u64>,
    runs: usize,
    rows: usize,
    /// The first row of each run; empty as long as each run is one row.
    starts: Vec<u32>,
}

/// The keys of runs.
enum Keys {
    Near(Ranks),
    Far(RowStore),
}

impl RunsBuilder {
    pub(super) fn new() -> Self {
        Self {
            keys: Keys::Near(Ranks::default()),
            last: None,
            runs: 0,
            rows: 0,
            starts: Vec::new(),
        }
    }

    /// Adds rows by their keys, which are sorted and not before the last one.
    pub(super) fn push(&mut self, keys: &[u64]) {
        let are_near = match (&self.keys, keys) {
            // If there is room for the last one, there is for those before it.
            (Keys::Near(ranks), [first, .., last]) => ranks.has_room(*first, *last, self.runs),
            _ => false,
        };
        for &key in keys {
            if self.last == Some(key) {
                self.count_rows();
            } else {
                match &mut self.keys {
                    Keys::Near(ranks) if are_near => ranks.push(key),
                    _ => self.push_key(key),
                }
                if !self.starts.is_empty() {
                    self.starts.push(number(self.rows));
                }
                (self.last, self.runs) = (Some(key), self.runs + 1);
            }
            self.rows += 1;
        }
    }

    /// Adds rows that were read apart, whose keys are all after the last one, and do not share 64 ids in a row with it
    /// ([`first_of_word`]).
    pub(super) fn append(&mut self, more: Self) {
        if more.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = more;
            return;
        }
        if !more.starts.is_empty() {
            self.count_rows();
        }
        if !self.starts.is_empty() {
            let before = number(self.rows);
            match more.starts.is_empty() {
                true => (self.starts).extend(before..before + number(more.runs)),
                false => (self.starts).extend(more.starts.iter().map(|start| before + start)),
            }
        }
        (self.rows, self.last) = (self.rows + more.rows, more.last.or(self.last));
        match (&mut self.keys, more.keys) {
            (Keys::Near(ranks), Keys::Near(others))
                if ranks.has_room_for(&others, self.runs + more.runs) =>
            {
                ranks.append(&others);
                self.runs += more.runs;
            }
            (_, Keys::Near(others)) => others.ids().for_each(|key| self.push_run(key)),
            (_, Keys::Far(others)) => others.cells(0).for_each(|key| self.push_run(key)),
        }
    }

    /// Lets runs have several rows.
    fn count_rows(&mut self) {
        if self.starts.is_empty() {
            self.starts = (0..number(self.runs)).collect();
        }
    }

    fn push_run(&mut self, key: u64) {
        self.push_key(key);
        self.runs += 1;
    }

    fn push_key(&mut self, key: u64) {
        if let Keys::Near(ranks) = &mut self.keys {
            if ranks.has_room(key, key, self.runs) {
                return ranks.push(key);
            }
            let mut keys = RowStore::new(1);
            ranks.ids().for_each(|id| keys.push(&[id]));
            self.keys = Keys::Far(keys);
        }
        if let Keys::Far(keys) = &mut self.keys {
            keys.push(&[key]);
        }
    }

    /// Returns the bytes held, and those that finishing needs.
    pub(super) fn bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::Near(ranks) => ranks.words.capacity() * size_of::<Word>(),
            Keys::Far(keys) => keys.bytes_with(0) + index_bytes(self.runs),
        };
        keys + (self.starts.capacity() + 1) * size_of::<u32>()
    }

    /// Returns about how many bytes there will be after adding `more`, with those that finishing needs then.
    pub(super) fn bytes_with(&self, more: &Self) -> usize {
        if self.rows == 0 || more.rows == 0 {
            return self.bytes().max(more.bytes());
        }
        let runs = self.runs + more.runs;
        let far = |keys: usize| keys + index_bytes(runs);
        // Buffers grow to at most twice what they hold.
        let keys = match (&self.keys, &more.keys) {
            (Keys::Near(ranks), Keys::Near(others)) if ranks.has_room_for(others, runs) => {
                2 * Ranks::bytes(others.end().saturating_sub(ranks.first)) as usize
            }
            (Keys::Near(_), _) => far(RowStore::new(1).bytes_with(runs)),
            (Keys::Far(keys), _) => far(keys.bytes_with(more.runs)),
        };
        let are_counted = !self.starts.is_empty() || !more.starts.is_empty();
        let starts = usize::from(are_counted) * 2 * (runs + 1);
        self.bytes().max(keys + (starts + 1) * size_of::<u32>())
    }

    /// Returns the maximum bytes for this many rows with any keys.
    pub(super) fn bytes_max(rows: usize) -> usize {
        RANKS_BYTES as usize + 2 * far_bytes(rows) + 2 * (rows + 1) * size_of::<u32>()
    }

    /// Makes the index of all rows.
    pub(super) fn finish(mut self) -> Runs {
        if !self.starts.is_empty() {
            self.starts.push(number(self.rows));
            self.starts.shrink_to_fit();
        }
        let numbers = match self.keys {
            Keys::Near(ranks) => Numbers::Dense(ranks),
            Keys::Far(keys) => {
                let ends = self.last.map(|last| (keys.row(0)[0], last));
                let span =
                    |(first, last): (u64, u64)| (last - first_of_word(first)).saturating_add(1);
                let span = ends.map_or(0, span);
                if Ranks::bytes(span) <= index_bytes(self.runs) as u64 {
                    let mut ranks = Ranks::default();
                    keys.cells(0).for_each(|key| ranks.push(key));
                    Numbers::Dense(ranks)
                } else {
                    Numbers::Hashed(hashed(&keys), keys)
                }
            }
        };
        Runs {
            numbers,
            starts: self.starts,
        }
    }
}

/// Returns the bytes of this many keys and their index by hash.
fn far_bytes(runs: usize) -> usize {
    index_bytes(runs) + runs * size_of::<u64>()
}

fn hashed(keys: &RowStore) -> HashTable<u32> {
    let hash_of = |run: &u32| hash_ids([keys.row(*run as usize)[0]], 0);
    let mut runs = HashTable::with_capacity(keys.len());
    for run in 0..number(keys.len()) {
        runs.insert_unique(hash_of(&run), run, hash_of);
    }
    runs
}

/// A number of a row or run.
fn number(row: usize) -> u32 {
    u32::try_from(row).expect("a table outgrows memory before 2^32")
}

/// The ranks of ids among sorted ids that lie close to each other: a bit for each id from the first to the last.
#[derive(Default)]
struct Ranks {
    /// The id of the first bit.
    first: u64,
    words: Vec<Word>,
}

/// Returns the first of those 64 ids in a row whose bits are in one word with that of an id.
pub(super) fn first_of_word(id: u64) -> u64 {
    id & !63
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

    /// Returns whether ranks up to the id `last`, from `first` on if there are none yet, take no more memory than one key more
    /// than these by hash.
    fn has_room(&self, first: u64, last: u64, keys: usize) -> bool {
        let first = match self.words.is_empty() {
            true => first_of_word(first),
            false => self.first,
        };
        let allowed = far_bytes(keys + 1) as u64;
        Self::bytes((last - first).saturating_add(1)) <= allowed.max(RANKS_BYTES)
    }

    /// As [`Self::has_room`], for the ids that others end with.
    fn has_room_for(&self, others: &Self, keys: usize) -> bool {
        self.has_room(others.first, others.end(), keys)
    }

    /// Returns the id after those that have a bit.
    fn end(&self) -> u64 {
        self.first.saturating_add(64 * self.words.len() as u64)
    }

    /// Adds ids after all others, of other words, to those that there are.
    fn append(&mut self, others: &Self) {
        let start = ((others.first - self.first) / 64) as usize;
        debug_assert!(start >= self.words.len());
        let before = self.count();
        self.words.resize(start, Word { bits: 0, before });
        self.words.extend(others.words.iter().map(|word| Word {
            bits: word.bits,
            before: before + word.before,
        }));
    }

    /// Returns the number of ids.
    fn count(&self) -> u32 {
        let last = self.words.last();
        last.map_or(0, |last| last.before + last.bits.count_ones())
    }

    /// Adds an id after all others.
    fn push(&mut self, id: u64) {
        if self.words.is_empty() {
            self.first = first_of_word(id);
        }
        let place = id - self.first;
        let word = (place / 64) as usize;
        if word >= self.words.len() {
            let before = self.count();
            self.words.resize(word + 1, Word { bits: 0, before });
        }
        self.words[word].bits |= 1 << (place % 64);
    }

    /// Returns the ids in order.
    fn ids(&self) -> impl Iterator<Item = u64> {
        self.words
            .iter()
            .enumerate()
            .flat_map(move |(place, word)| {
                let bits = (0..64).filter(|bit| word.bits >> bit & 1 == 1);
                bits.map(move |bit| self.first + 64 * place as u64 + bit)
            })
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

    /// Reads rows with these keys in batches.
    fn runs_of(keys: &[u64]) -> Runs {
        let mut runs = RunsBuilder::new();
        for batch in keys.chunks(7) {
            runs.push(batch);
            assert!(runs.bytes() <= RunsBuilder::bytes_max(runs.rows));
        }
        runs.finish()
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
            let runs = runs_of(&keys);
            for key in keys.iter().chain(&others).chain(&[0, u64::MAX]) {
                let from = keys.partition_point(|other| other < key);
                let to = keys.partition_point(|other| other <= key);
                let found = runs.find(*key);
                prop_assert_eq!(found.len(), to - from);
                prop_assert!(found.is_empty() || found.start == from);
            }
        }
    }

    proptest! {
        #[test]
        fn rows_read_apart_are_the_same(keys in keys(), cuts in prop::collection::vec(0_u64..1500, 0..6)) {
            let mut cuts: Vec<u64> = cuts.into_iter().map(first_of_word).collect();
            cuts.sort_unstable();
            let (mut apart, mut from) = (RunsBuilder::new(), 0);
            for cut in cuts.into_iter().chain([u64::MAX]) {
                let to = match cut {
                    u64::MAX => keys.len(),
                    cut => keys.partition_point(|key| *key < cut),
                };
                let mut part = RunsBuilder::new();
                keys[from..to].chunks(7).for_each(|batch| part.push(batch));
                let most = apart.bytes_with(&part);
                apart.append(part);
                prop_assert!(apart.bytes() <= 2 * (most + RANKS_BYTES as usize));
                from = to;
            }
            let (apart, together) = (apart.finish(), runs_of(&keys));
            for key in keys.iter().copied().chain(900..1600) {
                prop_assert_eq!(apart.find(key), together.find(key));
            }
        }
    }

    #[test]
    fn ids_close_to_each_other_take_a_bit_each() {
        let near = runs_of(&[10, 12, 12, 80]);
        assert!(matches!(near.numbers, Numbers::Dense(_)));
        let far = runs_of(&[10, 12, 12, 1 << 40]);
        assert!(matches!(far.numbers, Numbers::Hashed(..)));
        assert_eq!(far.find(12), 1..3);
        assert_eq!(runs_of(&[0, u64::MAX]).find(u64::MAX), 1..2);
        // Few ids that lie apart come first, and many close to each other after them.
        let keys: Vec<u64> = [10, 9000].into_iter().chain(20_000..40_000).collect();
        let both = runs_of(&keys);
        assert!(matches!(both.numbers, Numbers::Dense(_)));
        assert_eq!(both.find(39_999), keys.len() - 1..keys.len());
    }
}
