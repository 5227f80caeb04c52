//! A transaction: a private view of the store, and what it changes.

use std::sync::Arc;

use pythia_log::{ChangeSet, Position};
use pythia_rdf::{OwnedKey, TermId, TermKey};

use super::change_set;
use super::commit::Proposal;
use super::{Begun, Writer};
use crate::StoreError;
use crate::delta::{Delta, Quad, Run, TermStore, TermView};
use crate::pattern::Order;
use crate::snapshot::Snapshot;

/// A transaction. It sees the store as it was when it began, with its own changes; others see
/// those when it is committed, and all at once. Dropped, it leaves nothing.
///
/// Isolation is snapshot isolation: a commit fails with [`StoreError::Conflict`] if a quad that it
/// changes was changed by a commit after the transaction began, so the first to commit wins.
pub struct Transaction {
    writer: Arc<Writer>,
    begun: Begun,
    view: Snapshot,
    /// Terms that the store does not have.
    terms: Arc<TermStore>,
}

/// What a commit has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number in the log; `None` if there was nothing to change.
    pub position: Option<Position>,
    /// Quads that were added.
    pub added: u64,
    /// Quads that were removed.
    pub removed: u64,
}

impl Transaction {
    pub(crate) fn new(writer: Arc<Writer>) -> Self {
        let begun = writer.begin_reading();
        let delta = begun.delta();
        let terms = Arc::new(TermStore::new(delta.terms()[0].ends()));
        let view = begun
            .snapshot
            .with_delta(delta.private(TermView::new(Arc::clone(&terms))));
        Self {
            writer,
            begun,
            view,
            terms,
        }
    }

    /// What it sees, its own changes included.
    pub fn snapshot(&self) -> Snapshot {
        self.view.clone()
    }

    /// Memory that its changes and new terms take, about.
    pub fn memory_bytes(&self) -> usize {
        let runs = &self.delta().runs()[self.begun.delta().runs().len()..];
        let runs = runs.iter().map(|run| run.memory_bytes());
        runs.sum::<usize>() + self.terms.memory_bytes()
    }

    /// The ids of terms, in their order. Those that are new get ids that only this transaction's
    /// snapshots know. Reads all pages as one batch.
    pub fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, StoreError> {
        let found = self.view.resolve_keys(keys)?;
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
        let missing = || found.iter().zip(keys).filter(|(id, _)| id.is_none());
        let mut new = self.terms.add(missing().map(|(_, key)| *key)).into_iter();
        let terms = TermView::new(Arc::clone(&self.terms));
        self.view = self.view.with_delta(self.delta().private(terms));
        let id = |id: Option<TermId>| id.or_else(|| new.next()).expect("one for each missing");
        Ok(found.into_iter().map(id).collect())
    }

    /// Adds quads (subject, predicate, object, graph as raw ids; graph 0 is the default graph); how
    /// many were not there.
    pub fn insert(&mut self, quads: &[Quad]) -> Result<u64, StoreError> {
        self.change(quads, 1)
    }

    /// Removes quads; how many were there.
    pub fn remove(&mut self, quads: &[Quad]) -> Result<u64, StoreError> {
        self.change(quads, -1)
    }

    fn change(&mut self, quads: &[Quad], sign: i32) -> Result<u64, StoreError> {
        let mut quads = quads.to_vec();
        quads.sort_unstable();
        quads.dedup();
        let there = self.view.contains(&quads)?;
        let changed = quads
            .iter()
            .zip(there)
            .filter(|&(_, there)| there == (sign < 0));
        let changes: Vec<(Quad, i32)> = changed.map(|(&quad, _)| (quad, sign)).collect();
        if !changes.is_empty() {
            let delta = self.delta();
            let delta = delta.with_run(Arc::new(Run::new(&changes)), delta.terms().to_vec());
            self.view = self.view.with_delta(delta);
        }
        Ok(changes.len() as u64)
    }

    fn delta(&self) -> &Delta {
        self.view.delta().expect("a writer's snapshots have one")
    }

    /// Makes the changes durable and visible, all at once.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another commit came first: the transaction can be done again.
    /// Errors of the log: nothing is changed, unless the message says that it cannot be known.
    pub fn commit(self) -> Result<Committed, StoreError> {
        self.commit_with_key(None)
    }

    /// As [`Self::commit`], once for each key: if the log has a commit with this key, nothing is
    /// changed, and its position is given (Hyder §4.1).
    pub fn commit_with_key(self, key: Option<&str>) -> Result<Committed, StoreError> {
        let run = self.delta().changes_since(self.begun.delta());
        if run.len() == 0 && key.is_none() {
            return Ok(Committed {
                position: None,
                added: 0,
                removed: 0,
            });
        }
        let (changes, new_terms) = self.logged(&run)?;
        self.writer.commit(&Proposal {
            begin: self.begun.position,
            base: Arc::clone(self.begun.snapshot.base()),
            run: Arc::new(run),
            new_terms,
            changes,
            key: key.map(str::to_owned),
        })
    }

    /// The changes as the log has them, and the new terms among them with their private ids.
    fn logged(&self, run: &Run) -> Result<(ChangeSet, Vec<(TermId, OwnedKey)>), StoreError> {
        let rows: Vec<_> = run.rows(Order::Spo).iter().collect();
        let mut new_terms = Vec::new();
        let private = TermView::new(Arc::clone(&self.terms));
        let changes = change_set(&self.view, &rows, |id, key| {
            if private.contains(id) {
                new_terms.push((id, key.to_owned_key()));
            }
        })?;
        // In the order in which they came, so that they keep their ids if nothing came between.
        new_terms.sort_unstable_by_key(|(id, _)| *id);
        Ok((changes, new_terms))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.writer.end_reading(self.position);
    }
}
