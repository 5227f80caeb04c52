//! Lookup of the ids of a load's distinct terms, which come sorted.

use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

use super::RunTarget;
use crate::StoreError;
use crate::delta::device::RunTermsWriter;
use crate::delta::{KindCounts, kind_index};
use crate::dictionary::{Dictionary, Keys};
use crate::load::LoadError;
use crate::load::numbering::TermSink;
use crate::snapshot::Snapshot;

/// Terms looked up at a time.
const KEYS: usize = 1 << 14;
/// Limit of their bytes, unless a single term has more.
const KEYS_BYTES: usize = 4 << 20;
/// Cost of looking a term up, in terms of a dictionary read in order.
const FIND_COST: u64 = 16;

/// The sink of terms that gives each its existing id, or the next new one.
pub(super) struct Resolver<'t> {
    snapshot: &'t Snapshot,
    /// `Some` if the base's terms are read in order, as many are looked up.
    base: Option<BaseTerms<'t>>,
    first: KindCounts,
    next: KindCounts,
    new_terms: RunTermsWriter,
    ids: Vec<u64>,
    /// Terms to be looked up: kinds, and the end of each key in `bytes`.
    waiting: Vec<(TermKind, usize)>,
    bytes: Vec<u8>,
}

impl<'t> Resolver<'t> {
    pub(super) fn new(target: &RunTarget<'t>, new_terms: RunTermsWriter, terms_max: u64) -> Self {
        let dictionary = &target.snapshot.base().dictionary;
        let counts = TermKind::DICTIONARY.map(|kind| dictionary.count(kind));
        let base_terms: u64 = counts.iter().sum();
        let in_order = terms_max.saturating_mul(FIND_COST) > base_terms;
        Self {
            snapshot: target.snapshot,
            base: in_order.then(|| BaseTerms::new(dictionary)),
            first: target.first_terms,
            next: target.first_terms,
            new_terms,
            ids: Vec::new(),
            waiting: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Returns the new terms, and whether there are any.
    pub(super) fn finish(self) -> (RunTermsWriter, bool) {
        (self.new_terms, self.next != self.first)
    }

    fn resolve(&mut self) -> Result<(), StoreError> {
        let mut start = 0;
        let key = |&(kind, end): &(TermKind, usize)| {
            let bytes = &self.bytes[start..end];
            start = end;
            TermKey { kind, bytes }
        };
        let keys: Vec<TermKey<'_>> = self.waiting.iter().map(key).collect();
        let found = match &mut self.base {
            None => self.snapshot.resolve_keys(&keys)?,
            Some(base) => {
                let found = keys.iter().map(|&key| base.find(key));
                let mut found = found.collect::<Result<Vec<_>, _>>()?;
                if let Some(delta) = self.snapshot.delta() {
                    delta.find_missing(&keys, &mut found)?;
                }
                found
            }
        };
        for (found, &key) in found.into_iter().zip(&keys) {
            let id = match found {
                Some(id) => id,
                None => {
                    let index = kind_index(key.kind).expect("keys are of dictionary kinds");
                    let id = TermId::new(key.kind, self.next[index]);
                    self.next[index] += 1;
                    self.new_terms.push(key, id)?;
                    id
                }
            };
            self.ids.push(id.0);
        }
        self.waiting.clear();
        self.bytes.clear();
        Ok(())
    }
}

impl TermSink for &mut Resolver<'_> {
    #[inline]
    fn term(&mut self, kind: TermKind, key: &[u8]) -> Result<(), LoadError> {
        self.bytes.extend_from_slice(key);
        self.waiting.push((kind, self.bytes.len()));
        if self.waiting.len() >= KEYS || self.bytes.len() >= KEYS_BYTES {
            self.resolve()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Vec<u64>>, LoadError> {
        self.resolve()?;
        Ok(Some(std::mem::take(&mut self.ids)))
    }
}

/// The terms of a base in order, to be compared with other sorted terms.
struct BaseTerms<'d> {
    dictionary: &'d Dictionary,
    keys: Option<Keys<'d>>,
    /// The current term.
    id: Option<TermId>,
    key: OwnedKey,
}

impl<'d> BaseTerms<'d> {
    fn new(dictionary: &'d Dictionary) -> Self {
        Self {
            dictionary,
            keys: None,
            id: None,
            key: OwnedKey {
                kind: TermKind::Nothing,
                bytes: Vec::new(),
            },
        }
    }

    /// Returns the id of a key that is not less than the previous ones.
    fn find(&mut self, key: TermKey<'_>) -> Result<Option<TermId>, StoreError> {
        if self.key.kind != key.kind {
            self.key.kind = key.kind;
            self.keys = Some(self.dictionary.iter(key.kind));
            self.advance()?;
        }
        while self.id.is_some() && *self.key.bytes < *key.bytes {
            self.advance()?;
        }
        Ok(self.id.filter(|_| *self.key.bytes == *key.bytes))
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        self.id = None;
        if let Some(keys) = &mut self.keys
            && let Some((id, key)) = keys.next()?
        {
            self.id = Some(id);
            self.key.bytes.clear();
            self.key.bytes.extend_from_slice(key.bytes);
        }
        Ok(())
    }
}
