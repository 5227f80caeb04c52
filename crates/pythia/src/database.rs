//! An open store with a query engine.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pythia_io::{Counters, Storage};
use pythia_query::{
    Cores, Engine, EngineOptions, PreparedQuery, QueryError, QueryOptions, Results, SpilledBytes,
    Usage,
};
use pythia_sparql::{Query, Update};
use pythia_store::write::WriteOptions;
use pythia_store::{OpenOptions, Snapshot, Store, StoreError};

use crate::backup::{BackupError, BackupReport, backup_into};

/// Limits and options of an open database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of the page cache: a hard limit. Default 256 MiB.
    pub cache_bytes: usize,
    /// Bytes that all running queries together may hold in rows, tables, sorts and computed terms, and
    /// transactions in changes: a hard limit. Larger intermediate results spill to temporary files. If the
    /// database is open for writing, an eighth is reserved for committed changes that are not on the device
    /// yet, or less if [`MaintenanceOptions::memory_bytes`](crate::MaintenanceOptions::memory_bytes) is
    /// smaller. Default 1 GiB.
    pub memory_bytes: usize,
    /// Folder for temporary files, which have no names and are removed with their query. Default `None`: the
    /// system's folder for temporary files.
    pub spill_folder: Option<PathBuf>,
    /// Bytes that temporary files may have together. Default: limited only by the disk.
    pub spill_bytes: u64,
    /// Threads that compute queries at once: one for each running query, and helpers for those that run long while cores
    /// are free. Default `None`: the number of the machine's cores.
    pub threads: Option<NonZero<usize>>,
    /// Opens the store for writing as well, which only one program at a time can do. Default `None`: only for
    /// queries.
    pub write: Option<WriteOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: OpenOptions::default().cache_bytes,
            memory_bytes: 1 << 30,
            spill_folder: None,
            spill_bytes: u64::MAX,
            threads: None,
            write: None,
        }
    }
}

/// The part of the memory for committed changes. They are written to the device when they take half of it.
const CHANGES_PART: usize = 8;
/// The minimum memory for committed changes, regardless of the total.
const CHANGES_BYTES_MIN: usize = 2 << 20;
/// The part of the memory for sorting a new base, and its minimum regardless of the total.
const COMPACTION_PART: usize = 8;
const COMPACTION_BYTES_MIN: usize = 32 << 20;

impl Options {
    /// Returns the write options adjusted to the memory; `None` if the store is opened only for queries.
    fn write_within(&self) -> Option<WriteOptions> {
        let mut write = self.write.clone()?;
        let maintenance = &mut write.maintenance;
        let changes = (self.memory_bytes / CHANGES_PART).max(CHANGES_BYTES_MIN);
        maintenance.memory_bytes = maintenance.memory_bytes.min(changes / 2);
        let bytes = (self.memory_bytes / COMPACTION_PART).max(COMPACTION_BYTES_MIN);
        maintenance.compaction.memory_bytes = maintenance.compaction.memory_bytes.min(bytes);
        Some(write)
    }

    /// Returns the memory left for queries and transactions.
    fn query_memory_bytes(&self, write: Option<&WriteOptions>) -> usize {
        let changes = write.map_or(0, |write| write.maintenance.memory_bytes.saturating_mul(2));
        self.memory_bytes - changes.min(self.memory_bytes / CHANGES_PART)
    }
}

/// A store that is open for queries, and for updates if it was opened for writing. Both may run on any number
/// of threads at once; queries do not wait for updates.
pub struct Database {
    store: Store,
    engine: Engine,
}

impl Database {
    /// Opens the store in a folder with default limits.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, QueryError> {
        Self::open_with(path, Options::default())
    }

    /// Opens the store in a folder with default limits, for queries and updates.
    pub fn open_for_writing(path: impl AsRef<Path>) -> Result<Self, QueryError> {
        let options = Options {
            write: Some(WriteOptions::default()),
            ..Options::default()
        };
        Self::open_with(path, options)
    }

    /// Opens the store in a folder.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self, QueryError> {
        let open = OpenOptions {
            cache_bytes: options.cache_bytes,
        };
        let path = path.as_ref();
        let write = options.write_within();
        let store = match &write {
            Some(write) => Store::open_for_writing(path, open, write)?,
            None => Store::open(path, open)?,
        };
        Self::over(store, &options, write.as_ref())
    }

    /// Opens the store in a storage of any kind.
    pub fn open_storage(storage: Arc<dyn Storage>, options: Options) -> Result<Self, QueryError> {
        let open = OpenOptions {
            cache_bytes: options.cache_bytes,
        };
        let write = options.write_within();
        let store = match &write {
            Some(write) => Store::open_storage_for_writing(storage, open, write)?,
            None => Store::open_storage(storage, open)?,
        };
        Self::over(store, &options, write.as_ref())
    }

    fn over(
        store: Store,
        options: &Options,
        write: Option<&WriteOptions>,
    ) -> Result<Self, QueryError> {
        let engine = Engine::new(&EngineOptions {
            memory_bytes: options.query_memory_bytes(write),
            spill_folder: options.spill_folder.clone(),
            spill_bytes: options.spill_bytes,
            threads: options.threads,
        })?;
        Ok(Self { store, engine })
    }

    /// Backs up this store into a folder, like [`backup`](crate::backup) does for a store in a folder.
    pub fn backup(&self, folder: &Path) -> Result<BackupReport, BackupError> {
        backup_into(self.store.pool().storage(), folder)
    }

    /// Runs a query. Its results are computed as they are read.
    pub fn query(&self, text: &str) -> Result<Results, QueryError> {
        self.prepare(text, &QueryOptions::default())?.execute()
    }

    /// Parses and plans a query, to show its plan or to run it. Its timeout starts now.
    pub fn prepare(&self, text: &str, options: &QueryOptions) -> Result<PreparedQuery, QueryError> {
        let started = Instant::now();
        let query = self.parse_query(text, None, options)?;
        let timeout = options
            .timeout
            .map(|timeout| timeout.saturating_sub(started.elapsed()));
        let options = QueryOptions {
            timeout,
            ..options.clone()
        };
        self.prepare_parsed(&query, &options)
    }

    /// Parses a query like [`Query::parse`], within the memory of all queries: the parsed query is charged
    /// for in advance, until it is dropped.
    ///
    /// # Errors
    /// [`QueryError::Memory`], and syntax errors.
    pub fn parse_query(
        &self,
        text: &str,
        base: Option<&str>,
        options: &QueryOptions,
    ) -> Result<Query, QueryError> {
        self.engine.parse_query(text, base, options)
    }

    /// Parses an update like [`Update::parse`], within the memory of all queries: the parsed update is
    /// charged for in advance, until it is dropped.
    ///
    /// # Errors
    /// [`QueryError::Memory`], and syntax errors.
    pub fn parse_update(
        &self,
        text: &str,
        base: Option<&str>,
        options: &QueryOptions,
    ) -> Result<Update, QueryError> {
        self.engine.parse_update(text, base, options)
    }

    /// Plans a parsed query. Its timeout starts now.
    pub fn prepare_parsed(
        &self,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        self.prepare_on(&self.store.snapshot(), query, options)
    }

    /// Plans a parsed query on a snapshot of this database. Its timeout starts now.
    pub fn prepare_on(
        &self,
        snapshot: &Snapshot,
        query: &Query,
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        self.engine.prepare(snapshot, query, options)
    }

    /// Prepares a query whose plan was written by [`PreparedQuery::write`]. The snapshot must be of the state that the query
    /// was planned for, such as [`PreparedQuery::snapshot`]: ids change with compactions. See [`Engine::prepare_written`].
    pub fn prepare_written(
        &self,
        snapshot: &Snapshot,
        plan: &[u8],
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        self.engine.prepare_written(snapshot, plan, options)
    }

    /// Returns the cores that its queries share.
    pub fn cores(&self) -> &Arc<Cores> {
        self.engine.cores()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the memory that queries hold now, and the bytes they have spilled.
    pub fn usage(&self) -> Usage {
        self.engine.usage()
    }

    /// Returns a temporary file for bytes that wait for a slow reader. They count towards
    /// [`Options::spill_bytes`].
    pub fn spilled_bytes(&self) -> Result<SpilledBytes, QueryError> {
        self.engine.spilled_bytes()
    }

    /// Returns a snapshot of the current state, for access below SPARQL.
    pub fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    /// Returns the open store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the pages read so far from cache and device, per order.
    pub fn counters(&self) -> Counters {
        self.store.pool().counters()
    }

    /// Drops all cached pages, so that the next reads are cold.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        self.store.pool().clear();
        Ok(())
    }
}
