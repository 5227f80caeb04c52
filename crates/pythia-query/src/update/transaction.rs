//! A transaction of the store that takes its memory from the budget of all queries.

use oxrdf::GraphNameRef;
use pythia_rdf::{TermId, TermKey};
use pythia_store::write::{self, Allowance, Committed, GoesOn, TransactionOptions};
use pythia_store::{Isolation, Snapshot, Store, StoreError};

use super::Row;
use crate::engine::{Engine, QueryOptions};
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::Held;

/// A transaction. Its changes are in memory until it is committed. They, and the memory needed for changing
/// and committing, are charged in advance.
pub struct Transaction {
    inner: write::Transaction,
}

impl Engine {
    /// Begins a transaction on a store that was opened for writing.
    pub fn begin(&self, store: &Store, isolation: Isolation) -> Result<Transaction, QueryError> {
        let governor = self.governor(&QueryOptions::default());
        let held = || -> Option<Box<dyn Allowance>> { Some(Box::new(Held::new(&governor))) };
        let options = TransactionOptions {
            isolation,
            changes: held(),
            reads: held(),
        };
        Ok(Transaction {
            inner: store.begin_with(options)?,
        })
    }
}

impl Transaction {
    /// Returns the state that the transaction sees, including its own changes.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// Makes the commit conflict if another has changed this graph (`None`: any graph) since the transaction began.
    pub fn watch(&mut self, graph: Option<GraphNameRef<'_>>) {
        self.inner.watch(graph);
    }

    /// Commits: makes the changes durable and visible to all. A key is committed at most once.
    ///
    /// # Errors
    /// [`QueryError::Changes`] if there is not enough memory; nothing is changed then.
    pub fn commit(self, key: Option<&str>) -> Result<Committed, QueryError> {
        self.inner.commit_with_key(key).map_err(changed)
    }

    /// Returns the ids of terms. Terms that the store does not have get new ids.
    pub(super) fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, QueryError> {
        self.inner.ids(keys).map_err(changed)
    }

    /// Adds quads and returns how many did not exist.
    pub(super) fn insert(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        self.inner.insert(rows).map_err(changed)
    }

    /// Removes quads and returns how many existed.
    pub(super) fn remove(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        self.inner.remove(rows).map_err(changed)
    }

    /// As [`write::Transaction::is_large_graph`].
    pub(super) fn is_large_graph(&self, quads: u64) -> bool {
        self.inner.is_large_graph(quads)
    }

    /// As [`write::Transaction::remove_graph`].
    pub(super) fn remove_graph(
        &mut self,
        graph: TermId,
        goes_on: GoesOn<'_>,
    ) -> Result<Option<u64>, QueryError> {
        self.inner.remove_graph(graph, goes_on).map_err(changed)
    }

    /// As [`write::Transaction::copy_graph`].
    pub(super) fn copy_graph(
        &mut self,
        from: TermId,
        to: TermId,
        goes_on: GoesOn<'_>,
    ) -> Result<Option<u64>, QueryError> {
        self.inner.copy_graph(from, to, goes_on).map_err(changed)
    }
}

/// Converts an error of a change.
fn changed(error: StoreError) -> QueryError {
    match error {
        StoreError::Allowance { message } => QueryError::Changes(message),
        other => other.into(),
    }
}
