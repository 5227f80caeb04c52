//! Comparison of the reads of a serializable transaction with the commits since its beginning, at its own commit
//! (backward validation: Kung and Robinson, *On Optimistic Methods for Concurrency Control*, 1981).

use std::sync::Arc;

use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};
use rustc_hash::FxHashSet;

use crate::StoreError;
use crate::delta::{Delta, Quad, TermView};
use crate::snapshot::{ReadSet, Snapshot};

/// Terms that are looked up together.
const KEYS_TOGETHER: usize = 1024;

/// The reads of a transaction, and how far they have been compared.
pub(super) struct Validation {
    reads: ReadSet,
    /// The state that the transaction began with.
    begun: Snapshot,
    /// The state that the reads have been compared with, and its last commit.
    compared: Snapshot,
    position: u64,
}

impl Validation {
    /// Returns the reads of a transaction that began with this state and has seen the commits up to `position`.
    pub(super) fn new(reads: ReadSet, begun: &Snapshot, position: u64) -> Self {
        Self {
            reads,
            begun: begun.clone(),
            compared: begun.clone(),
            position,
        }
    }

    /// Returns the last commit that the reads have been compared with.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Compares the reads with the commits since [`Self::position`], up to `last`: the quads that they changed, and the
    /// state after them.
    ///
    /// # Errors
    /// [`StoreError::Outdated`] if one of them changed what was read.
    pub(super) fn compare(
        &mut self,
        commits: &[Arc<[Quad]>],
        now: &Snapshot,
        last: u64,
    ) -> Result<(), StoreError> {
        if !Arc::ptr_eq(self.begun.base(), now.base()) {
            // The ids are of another base.
            return Err(StoreError::Conflict);
        }
        if last == self.position {
            return Ok(());
        }
        let quads = || commits.iter().flat_map(|quads| quads.iter());
        if quads().any(|quad| self.reads.includes(quad))
            || self.found_term(now)?
            || self.graphs_differ(quads(), now)?
        {
            return Err(StoreError::Outdated);
        }
        self.compared = now.clone();
        self.position = last;
        Ok(())
    }

    /// Returns whether one of these commits has added or removed a graph, if that matters.
    fn graphs_differ<'q>(
        &self,
        quads: impl Iterator<Item = &'q Quad>,
        now: &Snapshot,
    ) -> Result<bool, StoreError> {
        if !self.reads.asks_for_graphs() {
            return Ok(false);
        }
        let graphs = quads.map(|quad| quad[3]);
        let graphs: FxHashSet<u64> = graphs.filter(|&graph| self.reads.asks_for(graph)).collect();
        for graph in graphs.into_iter().map(TermId) {
            if self.begun.has_graph(graph)? != now.has_graph(graph)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a term that was absent has been added.
    fn found_term(&self, now: &Snapshot) -> Result<bool, StoreError> {
        let (before, after) = (terms(&self.compared), terms(now));
        if before.ends() == after.ends() {
            return Ok(false);
        }
        let Some(absent) = self.reads.absent_terms() else {
            return Ok(true);
        };
        if absent.is_empty() {
            return Ok(false);
        }
        if !Arc::ptr_eq(before.store(), after.store()) {
            // Some of the new terms are on the device by now.
            return has_any(delta(now), &absent);
        }
        let mut found = false;
        let mut ids = Vec::new();
        for (index, kind) in TermKind::DICTIONARY.into_iter().enumerate() {
            let payloads = before.ends()[index]..after.ends()[index];
            ids.extend(payloads.map(|payload| TermId::new(kind, payload)));
        }
        for ids in ids.chunks(KEYS_TOGETHER) {
            after.keys(ids, |_, key| found |= absent.find(key).is_some());
        }
        Ok(found)
    }
}

/// Returns whether changes have added one of these terms.
fn has_any(delta: &Delta, terms: &TermView) -> Result<bool, StoreError> {
    let mut keys: Vec<OwnedKey> = Vec::new();
    let look_up = |keys: &mut Vec<OwnedKey>| {
        let wanted: Vec<TermKey<'_>> = keys.iter().map(OwnedKey::as_key).collect();
        let mut ids = vec![None; wanted.len()];
        delta.find_missing(&wanted, &mut ids)?;
        keys.clear();
        Ok::<_, StoreError>(ids.iter().any(Option::is_some))
    };
    let mut found = false;
    terms.each_sorted(|key, _| {
        keys.push(key.to_owned_key());
        if keys.len() == KEYS_TOGETHER && !found {
            found = look_up(&mut keys)?;
        }
        Ok(())
    })?;
    Ok(found || look_up(&mut keys)?)
}

fn delta(snapshot: &Snapshot) -> &Delta {
    snapshot.delta().expect("a writer's snapshots have one")
}

/// Returns the terms that are new since the base, and not on the device.
fn terms(snapshot: &Snapshot) -> &TermView {
    &delta(snapshot).terms()[0]
}
