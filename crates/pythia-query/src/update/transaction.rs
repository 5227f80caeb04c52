//! A transaction of the store whose memory is taken from that of all queries.

use pythia_rdf::{TermId, TermKey};
use pythia_store::write::{self, Allowance, Committed};
use pythia_store::{Snapshot, Store, StoreError};

use super::Row;
use crate::engine::{Engine, QueryOptions};
use crate::error::QueryError;
use crate::governor::Held;

/// A transaction. What it has changed is in memory until it is committed, and charged for, as is what it takes
/// to change and to commit that: before it is taken.
pub struct Transaction {
    inner: write::Transaction,
}

impl Allowance for Held {
    fn set(&mut self, bytes: usize) -> Result<(), String> {
        Self::set(self, bytes).map_err(|error| match error {
            QueryError::Memory(wanted) => wanted,
            other => other.to_string(),
        })
    }

    fn left(&self) -> usize {
        Self::left(self)
    }
}

impl Engine {
    /// Begins a transaction on a store that was opened for writing.
    pub fn begin(&self, store: &Store) -> Result<Transaction, QueryError> {
        let held = Held::new(&self.governor(&QueryOptions::default()));
        Ok(Transaction {
            inner: store.begin_within(Box::new(held))?,
        })
    }
}

impl Transaction {
    /// What it sees, its own changes included.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// Makes the changes durable and visible to all; at most once for a key.
    ///
    /// # Errors
    /// [`QueryError::Changes`] if the memory for it is not there; nothing is changed then.
    pub fn commit(self, key: Option<&str>) -> Result<Committed, QueryError> {
        self.inner.commit_with_key(key).map_err(changed)
    }

    /// The ids of terms; those that the store does not have get new ones.
    pub(super) fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, QueryError> {
        self.inner.ids(keys).map_err(changed)
    }

    /// Adds quads; how many were not there.
    pub(super) fn insert(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        self.inner.insert(rows).map_err(changed)
    }

    /// Removes quads; how many were there.
    pub(super) fn remove(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        self.inner.remove(rows).map_err(changed)
    }
}

/// The error of a change.
fn changed(error: StoreError) -> QueryError {
    match error {
        StoreError::Allowance { message } => QueryError::Changes(message),
        other => other.into(),
    }
}
