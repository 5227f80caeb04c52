//! An open store with an engine over it.

use std::path::Path;
use std::sync::Arc;

use pythia_io::{Counters, Storage};
use pythia_query::{Engine, PreparedQuery, Query, QueryError, QueryOptions, Results};
use pythia_store::{OpenOptions, Snapshot, Store, StoreError};

/// How much memory an open database may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of pages kept in memory: a hard limit. Default 256 MiB.
    pub cache_bytes: usize,
    /// Bytes that all running queries together may hold in joins, groups and sorts. Default 1 GiB.
    pub memory_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: OpenOptions::default().cache_bytes,
            memory_bytes: 1 << 30,
        }
    }
}

/// A store open for queries. Queries may run on any number of threads at once.
pub struct Database {
    store: Store,
    engine: Engine,
}

impl Database {
    /// Opens the store in a folder with default limits.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, QueryError> {
        Self::open_with(path, Options::default())
    }

    /// Opens the store in a folder.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, QueryError> {
        let open = OpenOptions {
            cache_bytes: options.cache_bytes,
        };
        Self::over(Store::open(path.as_ref(), open)?, options)
    }

    /// Opens the store in a storage of any kind.
    pub fn open_storage(storage: Arc<dyn Storage>, options: Options) -> Result<Self, QueryError> {
        let open = OpenOptions {
            cache_bytes: options.cache_bytes,
        };
        Self::over(Store::open_storage(storage, open)?, options)
    }

    fn over(store: Store, options: Options) -> Result<Self, QueryError> {
        Ok(Self {
            store,
            engine: Engine::new(options.memory_bytes)?,
        })
    }

    /// Runs a query. Its results are computed as they are read.
    pub fn query(&self, text: &str) -> Result<Results, QueryError> {
        self.prepare(text, &QueryOptions::default())?.execute()
    }

    /// Parses and plans a query, to look at its plan or to run it.
    pub fn prepare(&self, text: &str, options: &QueryOptions) -> Result<PreparedQuery, QueryError> {
        self.prepare_parsed(&Query::parse(text, None)?, options)
    }

    /// Plans a parsed query.
    pub fn prepare_parsed(
        &self,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        self.engine.prepare(&self.store.snapshot(), query, options)
    }

    /// The graph as it is now, for access below SPARQL.
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// The open store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Pages read so far from cache and device, per order.
    pub fn counters(&self) -> Counters {
        self.store.pool().counters()
    }

    /// Drops all cached pages, so that what follows runs cold.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        self.store.pool().clear();
        Ok(())
    }
}
