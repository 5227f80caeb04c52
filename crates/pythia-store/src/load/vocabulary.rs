//! The distinct terms of a batch, sorted, as a front-coded run.
//!
//! Ranks are positions in the order of keys (see [`super::arena`]), which is the order of ids. In the run each key is
//! `shared: LEB128, rest: LEB128, rest bytes`, where `shared` is the length of the prefix shared with the previous
//! key.

use super::LoadError;
use super::arena::{Arena, RecordRef};
use super::runs::{RunReader, RunWriter, WrittenRun};

/// Below this many keys, comparing whole keys is fastest.
const COMPARE_BELOW: usize = 24;
/// Keys found in memory before the first of them is written.
const KEYS_AHEAD: usize = 32;
/// Key bytes held in a cache word.
const CACHED_BYTES: usize = 7;

/// A key being sorted.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Seven key bytes and, in the last byte, their number (8: the key continues).
    cache: u64,
    record: RecordRef,
    ordinal: u32,
}

/// Sorter of keys, batch after batch in the same memory.
#[derive(Debug, Default)]
pub(super) struct KeySorter {
    items: Vec<Item>,
    ranks: Vec<u32>,
}

/// Bytes of memory that sorting takes per key.
pub(super) const SORT_BYTES_PER_KEY: usize = size_of::<Item>() + size_of::<u32>();

impl KeySorter {
    /// Sorts the `key_count` keys of an arena.
    pub(super) fn sort(&mut self, arena: &Arena, key_count: usize) {
        self.items.clear();
        self.items.reserve_exact(key_count);
        self.items
            .extend(arena.records().enumerate().map(|(ordinal, record)| Item {
                cache: 0,
                record,
                ordinal: ordinal as u32,
            }));
        sort_items(arena, &mut self.items);
        self.ranks.clear();
        self.ranks.resize(self.items.len(), 0);
        for (rank, item) in self.items.iter().enumerate() {
            self.ranks[item.ordinal as usize] = rank as u32;
        }
    }

    /// Returns the keys sorted last, in order.
    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = RecordRef> + '_ {
        self.items.iter().map(|item| item.record)
    }

    /// Returns their ranks by ordinal.
    pub(super) fn ranks(&self) -> &[u32] {
        &self.ranks
    }
}

/// Sorts by multikey sort: groups of equal prefixes are split by their next seven bytes, which are cached beside the
/// record so that most comparisons read no key.
fn sort_items(arena: &Arena, items: &mut [Item]) {
    let mut groups = vec![(0, items.len(), 0)];
    while let Some((start, end, mut depth)) = groups.pop() {
        let group = &mut items[start..end];
        if group.len() <= COMPARE_BELOW {
            load_caches(arena, group, depth);
            group.sort_unstable_by(|a, b| {
                let rest = |item: &Item| &arena.key(item.record)[depth..];
                a.cache.cmp(&b.cache).then_with(|| rest(a).cmp(rest(b)))
            });
            continue;
        }
        if load_caches(arena, group, depth) {
            depth += common_prefix(arena, group, depth);
            load_caches(arena, group, depth);
        }
        group.sort_unstable_by_key(|item| item.cache);
        let mut from = 0;
        for run in group.chunk_by(|a, b| a.cache == b.cache) {
            if run.len() > 1 {
                groups.push((start + from, start + from + run.len(), depth + CACHED_BYTES));
            }
            from += run.len();
        }
    }
}

/// Fills the caches from the keys at `depth`. Returns whether all are equal.
fn load_caches(arena: &Arena, group: &mut [Item], depth: usize) -> bool {
    let mut difference = 0;
    let mut first = None;
    for item in group {
        item.cache = cache(&arena.key(item.record)[depth..]);
        difference |= item.cache ^ *first.get_or_insert(item.cache);
    }
    difference == 0
}

fn cache(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes) & !0xff | 8;
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[7] = rest.len() as u8;
    u64::from_be_bytes(bytes)
}

/// Returns the number of bytes from `depth` that all keys of a group share.
fn common_prefix(arena: &Arena, group: &[Item], depth: usize) -> usize {
    let first = &arena.key(group[0].record)[depth..];
    group.iter().fold(first.len(), |shared, item| {
        shared_bytes(&first[..shared], &arena.key(item.record)[depth..])
    })
}

/// Returns the length of the longest common prefix.
#[inline]
pub(super) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..len].first_chunk::<8>(), b[at..len].first_chunk::<8>()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < len && a[at] == b[at] {
        at += 1;
    }
    at
}

/// The sorted keys of a batch.
#[derive(Debug)]
pub(super) struct Vocabulary {
    run: WrittenRun,
    count: u32,
}

impl Vocabulary {
    /// Writes sorted keys.
    pub(super) fn write(
        arena: &Arena,
        mut records: impl ExactSizeIterator<Item = RecordRef>,
        mut out: RunWriter,
    ) -> Result<Self, LoadError> {
        let count = records.len() as u32;
        let mut before: &[u8] = &[];
        // Sorted keys are anywhere in memory: finding some of them together lets the processor wait for all of them at once.
        let mut keys = Vec::with_capacity(KEYS_AHEAD);
        while records.len() > 0 {
            keys.extend(
                records
                    .by_ref()
                    .take(KEYS_AHEAD)
                    .map(|record| arena.key(record)),
            );
            for key in keys.drain(..) {
                let shared = shared_bytes(before, key);
                out.write_entry(shared as u64, (key.len() - shared) as u64, &key[shared..])?;
                before = key;
            }
        }
        Ok(Self {
            run: out.finish()?,
            count,
        })
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Returns a cursor over the keys in order, reading up to `buffer_bytes` at a time.
    pub(super) fn into_cursor(self, buffer_bytes: usize) -> KeyCursor {
        KeyCursor {
            reader: self.run.into_reader(buffer_bytes),
            left: self.count,
            key: Vec::new(),
        }
    }
}

/// A cursor over a vocabulary, in order.
#[derive(Debug)]
pub(super) struct KeyCursor {
    reader: RunReader,
    left: u32,
    key: Vec<u8>,
}

impl KeyCursor {
    /// Moves to the next key (at first: to the first one); returns false at the end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool, LoadError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let shared = self.reader.read_number()? as usize;
        let rest = self.reader.read_number()? as usize;
        self.key.truncate(shared);
        self.reader.read_into(rest, &mut self.key)?;
        Ok(true)
    }

    /// Returns the key at the cursor, kind first.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::load::runs::RunSpace;

    fn check(keys: &BTreeSet<Vec<u8>>, shuffled: &[Vec<u8>]) {
        let mut arena = Arena::default();
        for (ordinal, key) in shuffled.iter().enumerate() {
            arena
                .push(ordinal as u32, key[0], &key[1..])
                .expect("addressable");
        }
        let mut sorter = KeySorter::default();
        sorter.sort(&arena, shuffled.len());
        let expected: Vec<&Vec<u8>> = keys.iter().collect();
        assert_eq!(sorter.records().len(), expected.len());
        for (rank, record) in sorter.records().enumerate() {
            assert_eq!(arena.key(record), expected[rank].as_slice());
            assert_eq!(sorter.ranks()[arena.ordinal(record) as usize], rank as u32);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = RunSpace::new(folder.path(), 0, None).file("keys");
        let vocabulary =
            Vocabulary::write(&arena, sorter.records(), file.run(100)).expect("written");
        assert_eq!(vocabulary.len() as usize, keys.len());
        let mut cursor = vocabulary.into_cursor(100);
        for key in &expected {
            assert!(cursor.advance().expect("read"));
            assert_eq!(cursor.key(), key.as_slice());
        }
        assert!(!cursor.advance().expect("read"));
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        // Few distinct bytes, including zeros: long shared prefixes, and keys that are prefixes of others.
        let byte = prop_oneof![Just(0_u8), Just(b'a'), Just(b'b'), Just(255_u8)];
        prop_oneof![
            prop::collection::vec(byte.clone(), 1..40),
            prop::collection::vec(byte, 1..10).prop_map(|tail| {
                [b"\x10http://example.org/a/long/prefix/".as_slice(), &tail].concat()
            }),
        ]
    }

    proptest! {
        #[test]
        fn keys_come_out_sorted(keys in prop::collection::vec(key(), 0..400)) {
            let set: BTreeSet<Vec<u8>> = keys.iter().cloned().collect();
            let mut seen = BTreeSet::new();
            let distinct: Vec<Vec<u8>> = keys.into_iter().filter(|key| seen.insert(key.clone())).collect();
            check(&set, &distinct);
        }
    }
}
