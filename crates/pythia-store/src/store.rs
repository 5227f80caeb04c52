//! An open store, and operations on the store in a folder.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use pythia_io::{BufferPool, DeviceProfile, DirectStorage, Storage, system};
use pythia_log::{Commit, Commits, Log, LogError, LogReader, Position, StoreId};
use pythia_rdf::Source;

use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::compact::unfinished::{interrupted, remove_remains};
use crate::delta::device::DeviceRun;
use crate::device;
use crate::folders::{WritableFolders, check_no_log, log_devices};
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::locks::{StoreLock, open_folder};
use crate::manifest::{LogEntry, Manifest, Unnamed};
use crate::segment::Segment;
use crate::snapshot::Snapshot;
use crate::state::StoreState;
use crate::version::{SnapshotVersion, Version};
use crate::write::{
    Compacted, CompactedState, LoadCheck, Maintainer, Replaced, Replay, Scrubbed, Transaction,
    TransactionOptions, WriteOptions, Writer,
};

mod load;
mod optimize;

pub use crate::optimize::{Added, Change};
pub use load::load_into;
pub use optimize::{optimize, optimize_in};

/// Options for opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Memory for pages, in bytes: a hard limit.
    pub cache_bytes: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
        }
    }
}

/// An open store.
pub struct Store {
    pool: Arc<BufferPool>,
    state: Arc<RwLock<StoreState>>,
    /// The id of its log, or a random one: nothing else identifies a store without a log.
    id: StoreId,
    /// Runs maintenance in the background.
    maintainer: Option<Maintainer>,
    /// `Some` if the store was opened for writing.
    writer: Option<Arc<Writer>>,
    /// The store's previous format, if opening it for writing raised the format.
    upgraded_from: Option<u32>,
    /// The lock of a reader.
    _lock: Option<StoreLock>,
}

/// Attempts to open a store whose files a writer is replacing at the same time.
const OPEN_ATTEMPTS: usize = 5;

impl Store {
    /// Opens the store in a folder. Reads the manifest, the directories of the files it names, and the commits that
    /// are only in the log.
    ///
    /// Any number of processes may have a store open, even while another writes to it; each sees the state at which
    /// it opened the store. No process can open the store during a load into an empty store.
    pub fn open(path: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        let storage = Arc::new(open_folder(path)?);
        let lock = StoreLock::shared(&storage)?;
        let mut attempt = 1;
        let mut store = loop {
            let manifest = manifest(&*storage)?;
            let device = device::of_store(&storage, &manifest);
            let opened = Self::read_state(Arc::clone(&storage) as _, manifest, device, options);
            match opened {
                Err(error) if attempt < OPEN_ATTEMPTS && was_replaced(&error) => attempt += 1,
                opened => break opened?,
            }
        };
        store._lock = lock;
        Ok(store)
    }

    /// Opens the store in any kind of storage. Takes no locks.
    pub fn open_storage(
        storage: Arc<dyn Storage>,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let manifest = manifest(&*storage)?;
        let device = device::read(&*storage).unwrap_or_else(|| storage.device());
        Self::read_state(storage, manifest, device, options)
    }

    fn read_state(
        storage: Arc<dyn Storage>,
        manifest: Manifest,
        device: DeviceProfile,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let store = Self::assemble(storage, manifest, device, options)?;
        store.open_auxiliaries()?;
        store.open_runs_and_log()?;
        Ok(store)
    }

    /// Opens the runs and replays the log.
    fn open_runs_and_log(&self) -> Result<(), StoreError> {
        let Some(log) = self.manifest().log.clone() else {
            return check_no_log(self.pool.storage());
        };
        let devices = log_devices(self.pool.storage(), &log)?;
        let commits = LogReader::open(devices, None, log.store).replay_from(log.position)?;
        self.replay(&log, commits)
    }

    /// Opens the store in a folder for writing. A store that was only loaded gets a log, which older programs cannot
    /// read; see [`Self::upgraded_from`].
    ///
    /// # Errors
    /// [`StoreError::Writing`] if another writer has it open.
    pub fn open_for_writing(
        path: &Path,
        options: OpenOptions,
        write: &WriteOptions,
    ) -> Result<Self, StoreError> {
        Self::open_folder_for_writing(Arc::new(open_folder(path)?), options, write)
    }

    /// As [`Self::open_for_writing`], for a folder that is already open.
    pub(crate) fn open_folder_for_writing(
        storage: Arc<DirectStorage>,
        options: OpenOptions,
        write: &WriteOptions,
    ) -> Result<Self, StoreError> {
        let shared = StoreLock::shared(&storage)?;
        let writer = StoreLock::writer(&storage)?;
        let device = device::of_store(&storage, &manifest(&*storage)?);
        let locks = shared.into_iter().chain([writer]).collect();
        Self::write_state(storage, device, options, write, locks)
    }

    /// Opens the store in any kind of storage for writing. Takes no locks: the caller must make sure that there is no
    /// other writer.
    pub fn open_storage_for_writing(
        storage: Arc<dyn Storage>,
        options: OpenOptions,
        write: &WriteOptions,
    ) -> Result<Self, StoreError> {
        let device = device::read(&*storage).unwrap_or_else(|| storage.device());
        Self::write_state(storage, device, options, write, Vec::new())
    }

    fn write_state(
        storage: Arc<dyn Storage>,
        device: DeviceProfile,
        options: OpenOptions,
        write: &WriteOptions,
        mut locks: Vec<StoreLock>,
    ) -> Result<Self, StoreError> {
        let mut manifest = manifest(&*storage)?;
        if manifest.log.is_none() {
            // Checked before removing anything that the MANIFEST belonging to this log may name.
            check_no_log(&storage)?;
        }
        let is_new = manifest.log.is_none();
        let known = match &manifest.log {
            Some(log) => log.clone(),
            None => new_log(&*storage)?,
        };
        let folders = WritableFolders::accept(&storage, &known, write, is_new)?;
        let interrupted = interrupted(&*storage, &manifest)?;
        let interrupted = interrupted.map(|(manifest, extent)| CompactedState { manifest, extent });
        let format = manifest.format;
        let entry = folders.entry.clone();
        manifest.log = Some(entry.clone());
        manifest.format = manifest.format_needed();
        let now = manifest.format;
        let mut store = Self::assemble(Arc::clone(&storage), manifest, device, options)?;
        store.open_auxiliaries()?;
        let (log, commits) = open_log(&folders, write, is_new)?;
        if is_new || entry != known {
            // No commit is written to a folder before the manifest names it.
            folders.give_identities()?;
            let manifest = store.manifest();
            manifest.switch(&*storage, Unnamed::new(&*storage))?;
        }
        locks.extend(folders.locks);
        store.replay(&entry, commits.into_iter().flatten())?;
        store.remove_leftovers(interrupted.as_ref().map(|from| &from.manifest))?;
        let options = write.maintenance.clone();
        let in_background = options.in_background;
        let pool = Arc::clone(&store.pool);
        let state = Arc::clone(&store.state);
        let writer = Writer::new(state, log, pool, options, interrupted, locks);
        let writer = Arc::new(writer);
        store.maintainer = in_background.then(|| Maintainer::start(&writer));
        store.writer = Some(writer);
        store.upgraded_from = (format != now).then_some(format);
        Ok(store)
    }

    /// Removes unneeded files, once every needed file was found: an older `MANIFEST` may have come back, and would
    /// make the files of the present state look like leftovers.
    fn remove_leftovers(&self, interrupted: Option<&Manifest>) -> Result<(), StoreError> {
        let (storage, manifest) = (&**self.pool.storage(), self.manifest());
        Manifest::remove_leftovers_but(Some(&manifest), interrupted, storage)?;
        remove_remains(storage, manifest.segment)
    }

    /// Fails unless every file that the store needs is present and readable, except for auxiliary files, which may be
    /// damaged. Called before leftovers are removed.
    pub(crate) fn check_whole(
        storage: Arc<dyn Storage>,
        options: OpenOptions,
    ) -> Result<(), StoreError> {
        Self::open_bare(storage, options)?.open_runs_and_log()
    }

    /// As [`Self::open_storage`], but without auxiliary files, which may be damaged.
    pub(crate) fn open_bare(
        storage: Arc<dyn Storage>,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let manifest = manifest(&*storage)?;
        let device = device::read(&*storage).unwrap_or_else(|| storage.device());
        Self::assemble(storage, manifest, device, options)
    }

    fn open_auxiliaries(&self) -> Result<(), StoreError> {
        let mut state = self.state.write();
        let auxiliaries = Auxiliaries::open(&self.pool, &state.manifest)?;
        state.snapshot = state.snapshot.with_auxiliaries(Arc::new(auxiliaries));
        Ok(())
    }

    /// Applies the commits that are only in the log.
    fn replay(
        &self,
        log: &LogEntry,
        commits: impl Iterator<Item = Result<Commit, LogError>>,
    ) -> Result<(), StoreError> {
        let mut state = self.state.write();
        let runs = state.manifest.runs.iter();
        let runs = runs.map(|entry| Ok(Arc::new(DeviceRun::open(&self.pool, entry)?)));
        let runs = runs.collect::<Result<Vec<_>, StoreError>>()?;
        let last = log.position.0.saturating_sub(1);
        let mut replay = Replay::new(&state.snapshot, runs, last);
        replay.commits(commits)?;
        let (snapshot, last) = replay.finish();
        state.snapshot = snapshot;
        state.last = last;
        Ok(())
    }

    fn assemble(
        storage: Arc<dyn Storage>,
        manifest: Manifest,
        device: DeviceProfile,
        options: OpenOptions,
    ) -> Result<Self, StoreError> {
        let pool = BufferPool::try_new(storage, options.cache_bytes, device)?;
        let base = Arc::new(Segment::open_base(&pool, &manifest)?);
        let log = manifest.log.as_ref();
        let found = Version {
            position: log.map_or(0, |log| log.position.0.saturating_sub(1)),
            time: u64::from(crc32c::crc32c(&manifest.to_bytes())),
        };
        let id = log.map_or_else(|| StoreId(system::random_bytes()), |log| log.store);
        let version = SnapshotVersion::new(found, system::random_u64());
        let state = StoreState {
            snapshot: Snapshot::new(base, Arc::default()).with_version(version),
            manifest: Arc::new(manifest),
            last: 0,
        };
        Ok(Self {
            pool,
            state: Arc::new(RwLock::new(state)),
            id,
            maintainer: None,
            writer: None,
            upgraded_from: None,
            _lock: None,
        })
    }

    /// Returns a snapshot of the current state. Cheap.
    pub fn snapshot(&self) -> Snapshot {
        self.state.read().snapshot.clone()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] unless the store was opened for writing.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        self.begin_with(TransactionOptions::default())
    }

    /// As [`Self::begin`], with these options.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] unless the store was opened for writing.
    pub fn begin_with(&self, options: TransactionOptions) -> Result<Transaction, StoreError> {
        Ok(Transaction::new(Arc::clone(self.writer()?), options))
    }

    /// Writes the changes in memory to the device. Returns whether there were any.
    pub fn flush(&self) -> Result<bool, StoreError> {
        self.writer()?.flush()
    }

    /// Performs the maintenance that is due: writes changes to the device, merges runs, compacts.
    pub fn maintain(&self) -> Result<(), StoreError> {
        self.writer()?.maintain()
    }

    /// Adds the quads of the sources that the store lacks, atomically: on an error the quads are unchanged. Queries
    /// and commits continue meanwhile; the load is ordered after those commits.
    pub fn load(
        &self,
        sources: Vec<Source>,
        options: &LoadOptions,
        progress: &Arc<LoadProgress>,
    ) -> Result<LoadReport, LoadError> {
        self.load_if(sources, Replaced::Nothing, options, progress, &|_| Ok(()))
    }

    /// As [`Self::load`], in place of some quads, if `check` accepts the state before. It is called when everything else
    /// is done, while commits wait. Memory does not depend on the number of quads that are replaced, except for sorting
    /// up to a million of a named graph.
    ///
    /// # Errors
    /// [`LoadError::Refused`] with the error of `check`.
    pub fn load_if(
        &self,
        sources: Vec<Source>,
        replaced: Replaced<'_>,
        options: &LoadOptions,
        progress: &Arc<LoadProgress>,
        check: LoadCheck<'_>,
    ) -> Result<LoadReport, LoadError> {
        let writer = self.writer()?;
        writer.load(sources, replaced, options, progress, check)
    }

    /// Returns what scrubbing ([`crate::write::MaintenanceOptions::scrub_bytes_per_second`]) has found so far.
    pub fn scrubbed(&self) -> Result<Scrubbed, StoreError> {
        Ok(self.writer()?.scrubbed())
    }

    /// Returns the number of background tasks (moving runs, compaction) whose last attempt failed; the error is in the
    /// log of the program.
    pub fn failing_tasks(&self) -> Result<usize, StoreError> {
        Ok(self.writer()?.failing())
    }

    /// Compacts the store, whether or not that is due.
    pub fn compact(&self) -> Result<Compacted, StoreError> {
        self.writer()?.compact()
    }

    pub(crate) fn writer(&self) -> Result<&Arc<Writer>, StoreError> {
        self.writer.as_ref().ok_or(StoreError::ReadOnly)
    }

    /// Returns the last commit that readers see; 0 before the first.
    pub fn position(&self) -> Position {
        Position(self.state.read().last)
    }

    /// Returns the store's id. A store without a log has another one each time it is opened.
    pub fn id(&self) -> StoreId {
        self.id
    }

    /// Returns the store's previous format, if opening it for writing raised the format.
    pub fn upgraded_from(&self) -> Option<u32> {
        self.upgraded_from
    }

    /// Returns the pool that all pages go through.
    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    /// Returns the speed of the store's device.
    pub fn device(&self) -> &DeviceProfile {
        self.pool.device()
    }

    /// Returns whether the base has the form that this program writes, whatever the format of the store.
    pub fn has_newest_base(&self) -> bool {
        self.manifest().dictionary.is_some() && self.snapshot().base().is_of_newest_format()
    }

    /// Returns the state as it is on the device.
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.state.read().manifest)
    }
}

/// Returns the entry for a new log. If an earlier attempt to create the log was interrupted, the folders already hold
/// its store id, which is used again.
fn new_log(storage: &dyn Storage) -> Result<LogEntry, StoreError> {
    let left = pythia_log::left_store(storage)?;
    let store = left.unwrap_or_else(|| StoreId(system::random_bytes()));
    Ok(LogEntry::new(store, Position::FIRST))
}

/// Creates the log in its folders, or opens it with the commits that neither base nor runs have.
fn open_log(
    folders: &WritableFolders,
    write: &WriteOptions,
    is_new: bool,
) -> Result<(Log, Option<Commits>), StoreError> {
    let mut options = write.log.clone();
    if options.archive.is_none() {
        options.archive.clone_from(&folders.archive);
    }
    options.spare.extend(folders.spares());
    let (devices, entry) = (folders.devices.clone(), &folders.entry);
    if is_new {
        let log = Log::create(devices, entry.store, options)?;
        return Ok((log, None));
    }
    let (log, commits) = Log::open(devices, entry.store, entry.position, options)?;
    Ok((log, Some(commits)))
}

/// Returns whether a file may be missing because the writer has replaced it.
fn was_replaced(error: &StoreError) -> bool {
    match error {
        StoreError::Io(error) => error.is_not_found(),
        StoreError::Log(LogError::Lost { .. } | LogError::Damaged { .. }) => true,
        _ => false,
    }
}

fn manifest(storage: &dyn Storage) -> Result<Manifest, StoreError> {
    Manifest::read(storage)?.ok_or_else(|| StoreError::NotAStore {
        path: format!("{storage:?}"),
        message: "it has no MANIFEST".to_owned(),
    })
}

#[cfg(test)]
mod tests;
