//! Lookup of terms by key prefix.

use pythia_rdf::{OwnedKey, TermId, TermKind};

use super::Snapshot;
use crate::StoreError;
use crate::delta::keep_first;

impl Snapshot {
    /// Returns the first `limit` terms of a dictionary kind whose keys start with `prefix`, in order of their keys. A
    /// term that a change added stays when the last quad with it is removed, so a result need not occur in any quad.
    /// Reads the pages of the terms, and at most two more for the base and for each run of changes on the device; new
    /// terms in memory are checked one by one.
    pub fn terms_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        self.record_all();
        let mut found = self.base.dictionary.keys_with_prefix(kind, prefix, limit)?;
        if let Some(delta) = &self.delta {
            found.extend(delta.terms_with_prefix(kind, prefix, limit)?);
            keep_first(&mut found, limit);
        }
        Ok(found)
    }

    /// As [`Self::terms_with_prefix`], for the terms added since the base was written: those in the second range of
    /// [`Self::ids_with_prefix`].
    pub fn new_terms_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        self.record_all();
        let mut found = match &self.delta {
            Some(delta) => delta.terms_with_prefix(kind, prefix, limit)?,
            None => Vec::new(),
        };
        keep_first(&mut found, limit);
        Ok(found)
    }
}
