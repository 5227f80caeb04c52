//! A transaction of the store whose memory is taken from that of all queries.

use pythia_rdf::{TermId, TermKey};
use pythia_store::write::{self, Committed};
use pythia_store::{Snapshot, Store};

use super::Row;
use crate::engine::{Engine, QueryOptions};
use crate::error::QueryError;
use crate::governor::Held;

/// While it is committed, the changes are there this many times more: as one run, as the log has
/// them, and as the run that others see.
const COMMIT_COPIES: usize = 2;

/// A transaction. What it has changed is in memory until it is committed, and charged for.
pub struct Transaction {
    inner: write::Transaction,
    held: Held,
}

impl Engine {
    /// Begins a transaction on a store that was opened for writing.
    pub fn begin(&self, store: &Store) -> Result<Transaction, QueryError> {
        Ok(Transaction {
            inner: store.begin()?,
            held: Held::new(&self.governor(&QueryOptions::default())),
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
    pub fn commit(mut self, key: Option<&str>) -> Result<Committed, QueryError> {
        self.charge(1 + COMMIT_COPIES)?;
        Ok(self.inner.commit_with_key(key)?)
    }

    /// The ids of terms; those that the store does not have get new ones.
    pub(super) fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, QueryError> {
        let ids = self.inner.ids(keys)?;
        self.charge(1)?;
        Ok(ids)
    }

    /// Adds quads; how many were not there.
    pub(super) fn insert(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        let added = self.inner.insert(rows)?;
        self.charge(1)?;
        Ok(added)
    }

    /// Removes quads; how many were there.
    pub(super) fn remove(&mut self, rows: &[Row]) -> Result<u64, QueryError> {
        let removed = self.inner.remove(rows)?;
        self.charge(1)?;
        Ok(removed)
    }

    fn charge(&mut self, copies: usize) -> Result<(), QueryError> {
        let bytes = self.inner.memory_bytes().saturating_mul(copies);
        let charged = self.held.set(bytes);
        charged.map_err(|error| match error {
            QueryError::Memory(wanted) => QueryError::Changes(wanted),
            other => other,
        })
    }
}
