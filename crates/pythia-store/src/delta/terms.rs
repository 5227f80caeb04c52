//! Terms that the base does not have, numbered in the order in which they were added.
//!
//! The `n`th new term of a kind has the payload "terms of the base of that kind, plus `n`", so such ids do not sort
//! like their terms, and sort behind all ids of the base. They are valid until the next compaction.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::RwLock;
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
use rustc_hash::FxBuildHasher;

use crate::StoreError;

/// Lists of terms grow by this part.
const GROWTH: usize = 4;
/// Bytes of a term's entry in the hash table.
const PLACE_BYTES: usize = 5;

/// Numbers of terms of each dictionary kind, in the order of [`TermKind::DICTIONARY`].
pub(crate) type KindCounts = [u64; TermKind::DICTIONARY.len()];

/// Returns the index of a dictionary kind in [`TermKind::DICTIONARY`].
pub(crate) fn kind_index(kind: TermKind) -> Option<usize> {
    TermKind::DICTIONARY.iter().position(|&other| other == kind)
}

/// Keeps the first `limit` in order of their keys.
pub(crate) fn keep_first(found: &mut Vec<(OwnedKey, TermId)>, limit: usize) {
    found.sort_unstable();
    found.truncate(limit);
}

/// A set of terms that only grows; shared by all views of it.
#[derive(Debug)]
pub(crate) struct TermStore {
    kinds: RwLock<[KindTerms; TermKind::DICTIONARY.len()]>,
}

/// The terms of one kind.
#[derive(Debug, Default)]
struct KindTerms {
    /// The payload of the first.
    first: u64,
    /// The end of each key in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// Places in `ends`, by key.
    places: HashTable<u32>,
}

/// Returns the key of an existing term.
fn key_of(kinds: &[KindTerms; TermKind::DICTIONARY.len()], id: TermId) -> &[u8] {
    let index = kind_index(id.kind()).expect("terms are of dictionary kinds");
    let terms = &kinds[index];
    terms.key((id.payload() - terms.first) as usize)
}

/// Reserves room for more elements, plus a part: less than the doubling that a `Vec` does by itself.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        list.reserve_exact(more.max(list.len() / GROWTH));
    }
}

/// Returns the bytes of a list that grows in this way, while it is moved; 0 if it need not grow.
fn room_bytes<T>(list: &Vec<T>, more: usize) -> usize {
    match list.capacity() - list.len() < more {
        true => (list.len() + more.max(list.len() / GROWTH)) * size_of::<T>(),
        false => 0,
    }
}

impl KindTerms {
    fn key(&self, place: usize) -> &[u8] {
        let start = match place {
            0 => 0,
            _ => self.ends[place - 1],
        };
        &self.bytes[start..self.ends[place]]
    }

    fn find(&self, key: &[u8]) -> Option<u64> {
        let hash = FxBuildHasher.hash_one(key);
        let place = self
            .places
            .find(hash, |&place| self.key(place as usize) == key)?;
        Some(self.first + u64::from(*place))
    }

    fn add(&mut self, key: &[u8]) -> u64 {
        if let Some(payload) = self.find(key) {
            return payload;
        }
        let place = self.ends.len() as u32;
        make_room(&mut self.bytes, key.len());
        self.bytes.extend_from_slice(key);
        make_room(&mut self.ends, 1);
        self.ends.push(self.bytes.len());
        let Self {
            ends,
            bytes,
            places,
            ..
        } = self;
        let hash_of = |&place: &u32| {
            let end = ends[place as usize];
            let start = match place {
                0 => 0,
                _ => ends[place as usize - 1],
            };
            FxBuildHasher.hash_one(&bytes[start..end])
        };
        let hash = hash_of(&place);
        places.insert_unique(hash, place, hash_of);
        self.first + u64::from(place)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.places.capacity() * PLACE_BYTES
    }

    /// Returns the additional bytes while it grows by this many keys of this many bytes together.
    fn growth_bytes(&self, keys: usize, bytes: usize) -> usize {
        let places = match self.places.capacity() - self.places.len() < keys {
            true => 4 * (self.places.len() + keys) * PLACE_BYTES,
            false => 0,
        };
        room_bytes(&self.bytes, bytes) + room_bytes(&self.ends, keys) + places
    }
}

impl TermStore {
    /// Returns an upper bound of the additional bytes for adding these terms.
    pub(crate) fn growth_bytes<'k>(&self, keys: impl Iterator<Item = TermKey<'k>>) -> usize {
        let mut more = [(0, 0); TermKind::DICTIONARY.len()];
        for key in keys {
            let index = kind_index(key.kind).expect("keys are of dictionary kinds");
            let (count, bytes) = more[index];
            more[index] = (count + 1, bytes + key.bytes.len());
        }
        let kinds = self.kinds.read();
        let grown = kinds.iter().zip(more);
        grown
            .map(|(terms, (keys, bytes))| terms.growth_bytes(keys, bytes))
            .sum()
    }

    /// Reserves room for the terms of another store at once.
    pub(crate) fn make_room(&self, terms: &TermView) {
        let theirs = terms.store.kinds.read();
        let more: [(usize, usize); TermKind::DICTIONARY.len()] =
            std::array::from_fn(|index| (theirs[index].ends.len(), theirs[index].bytes.len()));
        drop(theirs);
        let mut kinds = self.kinds.write();
        for (kind, (keys, bytes)) in kinds.iter_mut().zip(more) {
            make_room(&mut kind.bytes, bytes);
            make_room(&mut kind.ends, keys);
        }
    }

    /// Returns the number of terms.
    pub(crate) fn len(&self) -> usize {
        self.kinds.read().iter().map(|terms| terms.ends.len()).sum()
    }

    /// Returns an empty store; the first term of each kind will have these payloads.
    pub(crate) fn new(first: &KindCounts) -> Self {
        let kinds = first.map(|first| KindTerms {
            first,
            ..KindTerms::default()
        });
        Self {
            kinds: RwLock::new(kinds),
        }
    }

    /// Adds terms; existing ones keep their ids.
    pub(crate) fn add<'k>(&self, keys: impl Iterator<Item = TermKey<'k>>) -> Vec<TermId> {
        let mut kinds = self.kinds.write();
        let add = |key: TermKey<'_>| {
            let index = kind_index(key.kind).expect("keys are of dictionary kinds");
            TermId::new(key.kind, kinds[index].add(key.bytes))
        };
        keys.map(add).collect()
    }

    /// Returns one past the largest payload of each kind.
    pub(crate) fn ends(&self) -> KindCounts {
        let kinds = self.kinds.read();
        std::array::from_fn(|index| kinds[index].first + kinds[index].ends.len() as u64)
    }

    /// Returns the approximate memory of the store.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.kinds.read().iter().map(KindTerms::memory_bytes).sum()
    }
}

/// The terms of a store up to some payload of each kind; later terms are invisible.
#[derive(Clone, Debug)]
pub(crate) struct TermView {
    store: Arc<TermStore>,
    first: KindCounts,
    ends: KindCounts,
}

impl TermView {
    /// Returns a view of the present terms.
    pub(crate) fn new(store: Arc<TermStore>) -> Self {
        let ends = store.ends();
        let kinds = store.kinds.read();
        let first = std::array::from_fn(|index| kinds[index].first);
        drop(kinds);
        Self { store, first, ends }
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &Arc<TermStore> {
        &self.store
    }

    /// Returns the payload of the first term of each kind.
    pub(crate) fn first(&self) -> &KindCounts {
        &self.first
    }

    /// Returns one past the largest payload of each kind.
    pub(crate) fn ends(&self) -> &KindCounts {
        &self.ends
    }

    /// Returns whether there are no terms.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.ends
    }

    /// Returns the terms that `before` does not have, in a store of their own.
    pub(crate) fn after(&self, before: &Self) -> Self {
        let store = TermStore::new(&before.ends);
        let kinds = self.store.kinds.read();
        for (index, kind) in TermKind::DICTIONARY.into_iter().enumerate() {
            let terms = &kinds[index];
            let places = (before.ends[index] - terms.first) as usize..terms.ends.len();
            let keys = places.map(|place| TermKey {
                kind,
                bytes: terms.key(place),
            });
            store.add(keys);
        }
        drop(kinds);
        // Terms of failed or pending commits keep their numbers, and are invisible.
        Self {
            ends: self.ends,
            ..Self::new(Arc::new(store))
        }
    }

    /// Returns the number of terms.
    pub(crate) fn len(&self) -> u64 {
        let counts = self.ends.iter().zip(self.first);
        counts.map(|(end, first)| end - first).sum()
    }

    /// Passes on all terms with their ids, sorted. Copies their keys some at a time.
    pub(crate) fn each_sorted(
        &self,
        mut f: impl FnMut(TermKey<'_>, TermId) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        const COPIED_KEYS: usize = 1024;
        let kinds = TermKind::DICTIONARY.into_iter().enumerate();
        let of_kind = |(index, kind): (usize, TermKind)| {
            (self.first[index]..self.ends[index]).map(move |payload| TermId::new(kind, payload))
        };
        let mut ids: Vec<TermId> = Vec::with_capacity(self.len() as usize);
        ids.extend(kinds.flat_map(of_kind));
        {
            let kinds = self.store.kinds.read();
            ids.sort_unstable_by_key(|id| (id.kind(), key_of(&kinds, *id)));
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for ids in ids.chunks(COPIED_KEYS) {
            bytes.clear();
            ends.clear();
            let kinds = self.store.kinds.read();
            for id in ids {
                bytes.extend_from_slice(key_of(&kinds, *id));
                ends.push(bytes.len());
            }
            // The callback may take long.
            drop(kinds);
            let mut start = 0;
            for (id, &end) in ids.iter().zip(&ends) {
                let (kind, bytes) = (id.kind(), &bytes[start..end]);
                f(TermKey { kind, bytes }, *id)?;
                start = end;
            }
        }
        Ok(())
    }

    /// Returns the id of a term.
    pub(crate) fn find(&self, key: TermKey<'_>) -> Option<TermId> {
        let index = kind_index(key.kind)?;
        if self.ends[index] == self.first[index] {
            return None;
        }
        let payload = self.store.kinds.read()[index].find(key.bytes)?;
        (payload < self.ends[index]).then(|| TermId::new(key.kind, payload))
    }

    /// Returns the first `limit` terms whose keys start with `prefix`, in order of their keys. Checks all terms of
    /// the kind.
    pub(crate) fn with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Vec<(OwnedKey, TermId)> {
        let mut found = Vec::new();
        let Some(index) = kind_index(kind) else {
            return found;
        };
        let kinds = self.store.kinds.read();
        let terms = &kinds[index];
        for payload in self.first[index]..self.ends[index] {
            let bytes = terms.key((payload - terms.first) as usize);
            if bytes.starts_with(prefix) {
                let key = TermKey { kind, bytes };
                found.push((key.to_owned_key(), TermId::new(kind, payload)));
            }
            if found.len() / 2 > limit {
                keep_first(&mut found, limit);
            }
        }
        drop(kinds);
        keep_first(&mut found, limit);
        found
    }

    /// Returns whether the id is of one of these terms.
    pub(crate) fn contains(&self, id: TermId) -> bool {
        let range = |index: usize| self.first[index]..self.ends[index];
        kind_index(id.kind()).is_some_and(|index| range(index).contains(&id.payload()))
    }

    /// Calls `f` with the index in `ids` and the key of each of these terms.
    pub(crate) fn keys(&self, ids: &[TermId], mut f: impl FnMut(usize, TermKey<'_>)) {
        let kinds = self.store.kinds.read();
        for (position, &id) in ids.iter().enumerate() {
            if self.contains(id) {
                let index = kind_index(id.kind()).expect("it has terms of a dictionary kind");
                let terms = &kinds[index];
                let bytes = terms.key((id.payload() - terms.first) as usize);
                let kind = id.kind();
                f(position, TermKey { kind, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iri(bytes: &[u8]) -> TermKey<'_> {
        TermKey {
            kind: TermKind::Iri,
            bytes,
        }
    }

    #[test]
    fn a_view_does_not_see_what_came_later() {
        let store = Arc::new(TermStore::new(&[0, 7, 0, 0, 0, 0]));
        let ids = store.add([iri(b"b"), iri(b"a"), iri(b"b")].into_iter());
        let id = |payload| TermId::new(TermKind::Iri, payload);
        assert_eq!(ids, [id(7), id(8), id(7)]);
        let view = TermView::new(Arc::clone(&store));
        store.add([iri(b"c")].into_iter());
        assert_eq!(view.find(iri(b"a")), Some(id(8)));
        assert_eq!(view.find(iri(b"c")), None);
        assert!(view.contains(id(8)) && !view.contains(id(9)) && !view.contains(id(6)));
        let mut found = Vec::new();
        view.keys(&[id(9), id(7)], |index, key| {
            found.push((index, key.bytes.to_vec()));
        });
        assert_eq!(found, [(1, b"b".to_vec())]);
    }
}
