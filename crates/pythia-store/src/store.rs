//! A store: its folder, its locks and its current state.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use pythia_io::{BufferPool, DeviceProfile, DirectStorage, FolderLock, LockKind, Storage};

use pythia_log::{Commit, Commits, Log, LogError, LogOptions, LogReader, Position, StoreId};
use pythia_rdf::Source;

use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::delta::device::DeviceRun;
use crate::device;
use crate::folders::{WritableFolders, log_devices};
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::manifest::{LogEntry, MANIFEST_NAME, Manifest, Unnamed};
use crate::rewrite::unfinished::{interrupted, remove_remains};
use crate::segment::Segment;
use crate::snapshot::Snapshot;
use crate::write::{
    Allowance, Maintainer, MaintenanceOptions, Replay, Rewritten, Scrubbed, Transaction, Writer,
};

/// Lock file of every process that uses the store. It stays when the store is closed.
pub const LOCK_NAME: &str = "LOCK";
/// Lock file of the store's one writer.
pub(crate) const WRITER_NAME: &str = "WRITER";

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

/// Options for opening a store for writing.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Log folders on other devices, in addition to the store's own; groups of commits are spread over them. The
    /// store remembers its log folders, and folders that are new to it are added. Empty: the log folders that it has.
    pub log_folders: Vec<PathBuf>,
    /// The archive: a folder for log files that are no longer needed. The store remembers this folder, too. `None`:
    /// the archive that it has, if any. For an archive that is not a folder use [`LogOptions::archive`], which the
    /// store does not remember.
    pub log_archive: Option<PathBuf>,
    /// Options of the log.
    pub log: LogOptions,
    /// When and how runs are written, merged and compacted.
    pub maintenance: MaintenanceOptions,
}

/// A state of the store.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) snapshot: Snapshot,
    /// The last commit in the snapshot.
    pub(crate) last: u64,
}

/// An open store.
pub struct Store {
    pool: Arc<BufferPool>,
    state: Arc<RwLock<State>>,
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
        store.remove_leftovers(interrupted.as_ref())?;
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
        let state = State {
            snapshot: Snapshot::new(base, Arc::default()),
            manifest: Arc::new(manifest),
            last: 0,
        };
        Ok(Self {
            pool,
            state: Arc::new(RwLock::new(state)),
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
        Ok(Transaction::new(Arc::clone(self.writer()?), None))
    }

    /// Begins a transaction that reserves its memory from `allowance`.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] unless the store was opened for writing.
    pub fn begin_within(&self, allowance: Box<dyn Allowance>) -> Result<Transaction, StoreError> {
        Ok(Transaction::new(
            Arc::clone(self.writer()?),
            Some(allowance),
        ))
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
        self.writer()?.load(sources, options, progress)
    }

    /// Returns what scrubbing ([`MaintenanceOptions::scrub_bytes_per_second`]) has found so far.
    pub fn scrubbed(&self) -> Result<Scrubbed, StoreError> {
        Ok(self.writer()?.scrubbed())
    }

    /// Compacts the store, whether or not that is due.
    pub fn rewrite(&self) -> Result<Rewritten, StoreError> {
        self.writer()?.rewrite()
    }

    pub(crate) fn writer(&self) -> Result<&Arc<Writer>, StoreError> {
        self.writer.as_ref().ok_or(StoreError::ReadOnly)
    }

    /// Returns the last commit that readers see; 0 before the first.
    pub fn position(&self) -> Position {
        Position(self.state.read().last)
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

    /// Returns the state as it is on the device.
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.state.read().manifest)
    }
}

/// Returns the entry for a new log. If an earlier attempt to create the log was interrupted, the folders already hold
/// its store id, which is used again.
fn new_log(storage: &dyn Storage) -> Result<LogEntry, StoreError> {
    let left = pythia_log::left_store(storage)?;
    let store = left.unwrap_or_else(|| StoreId(rand::random()));
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
    let (devices, entry) = (folders.devices.clone(), &folders.entry);
    if is_new {
        let log = Log::create(devices, entry.store, options)?;
        return Ok((log, None));
    }
    let (log, commits) = Log::open(devices, entry.store, entry.position, options)?;
    Ok((log, Some(commits)))
}

/// Fails if a store whose `MANIFEST` names no log has files of a log that was used: their commits would be ignored.
pub fn check_no_log(storage: &Arc<dyn Storage>) -> Result<(), StoreError> {
    let Err(error) = pythia_log::check_unnamed(std::slice::from_ref(storage)) else {
        return Ok(());
    };
    match Manifest::read(&**storage)? {
        // A writer created the log after this state was read.
        Some(manifest) if manifest.log.is_some() => Ok(()),
        _ => Err(error.into()),
    }
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

/// Fails if a folder holds no store.
pub fn check_folder(path: &Path) -> Result<(), StoreError> {
    let not_a_store = |message: &str| StoreError::NotAStore {
        path: path.display().to_string(),
        message: message.to_owned(),
    };
    if !path.exists() {
        return Err(not_a_store("there is no such folder"));
    }
    if !path.is_dir() {
        return Err(not_a_store("it is not a folder"));
    }
    if !path.join(MANIFEST_NAME).exists() {
        return Err(not_a_store("it has no MANIFEST"));
    }
    Ok(())
}

/// Opens the folder of a store.
///
/// # Errors
/// [`StoreError::NotAStore`] if it holds no store.
pub fn open_folder(path: &Path) -> Result<DirectStorage, StoreError> {
    check_folder(path)?;
    Ok(DirectStorage::open(path, false)?)
}

/// The lock of a store in a folder of the file system. It ends with the value, or with the process.
///
/// Readers share `LOCK`. A writer beside them locks the folder itself, which cannot be removed while it is open, and
/// `WRITER`, for file systems that do not lock folders. Exclusive access locks the folder and `LOCK`.
#[derive(Debug)]
pub struct StoreLock {
    _locks: Vec<FolderLock>,
}

impl StoreLock {
    /// Takes a reader's lock. `None` where the file system is read-only for this process: then this user cannot load
    /// into the store either.
    pub fn shared(storage: &DirectStorage) -> Result<Option<Self>, StoreError> {
        match storage.try_lock(LOCK_NAME, LockKind::Shared) {
            Err(error) if error.is_read_only() => Ok(None),
            lock => Self::of([lock?]).map(Some).ok_or_else(|| locked(storage)),
        }
    }

    /// Takes the lock for exclusive access.
    pub fn exclusive(storage: &DirectStorage) -> Result<Self, StoreError> {
        let locks = [
            storage.try_lock(LOCK_NAME, LockKind::Exclusive)?,
            storage.try_lock_folder(LockKind::Exclusive)?,
        ];
        Self::of(locks).ok_or_else(|| locked(storage))
    }

    /// Takes the lock of the one writer of a store that others may read.
    pub fn writer(storage: &DirectStorage) -> Result<Self, StoreError> {
        let locks = [
            storage.try_lock_folder(LockKind::Exclusive)?,
            storage.try_lock(WRITER_NAME, LockKind::Exclusive)?,
        ];
        Self::of(locks).ok_or_else(|| StoreError::Writing {
            path: storage.root().display().to_string(),
        })
    }

    /// Takes the lock of the one writer to a log folder outside the store.
    pub fn log_folder(folder: &DirectStorage) -> Result<Self, StoreError> {
        let lock = folder.try_lock_folder(LockKind::Exclusive)?;
        Self::of([lock]).ok_or_else(|| StoreError::LogInUse {
            path: folder.root().display().to_string(),
        })
    }

    fn of<const N: usize>(locks: [Option<FolderLock>; N]) -> Option<Self> {
        let _locks = locks.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Self { _locks })
    }
}

fn locked(storage: &DirectStorage) -> StoreError {
    StoreError::Locked {
        path: storage.root().display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Origin};
    use pythia_rdf::TermKind;

    use super::*;
    use crate::testing::{Quad, SMALL_PAGES, id, write_segment, write_segment_of, write_store};
    use crate::verify::{VerifyOptions, verify};

    fn quads(count: u64) -> BTreeSet<Quad> {
        let iri = |rank| id(TermKind::Iri, rank);
        (0..count)
            .map(|rank| [iri(rank), iri(50), iri(7), 0])
            .collect()
    }

    /// Makes a store in a folder of the file system.
    fn folder(count: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = DirectStorage::open(folder.path(), true).expect("a folder");
        write_segment(Arc::new(storage), &quads(count), SMALL_PAGES).expect("written");
        folder
    }

    fn refusal(path: &Path) -> StoreError {
        match Store::open(path, OpenOptions::default()) {
            Ok(_) => panic!("{} was opened", path.display()),
            Err(error) => error,
        }
    }

    #[test]
    fn a_store_opens_and_knows_its_quads() {
        let folder = folder(500);
        let store = Store::open(folder.path(), OpenOptions::default()).expect("sound");
        assert_eq!(store.snapshot().statistics().quads, 500);
        assert_eq!(store.manifest().quads, 500);
        let pages = store.pool().counters().total();
        assert_eq!((pages.device_pages, pages.cache_hits), (0, 0));
    }

    #[test]
    fn what_is_no_store_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        let missing = refusal(&path.join("missing"));
        assert!(matches!(missing, StoreError::NotAStore { .. }), "{missing}");
        assert!(missing.to_string().contains("missing"));
        let empty = refusal(path);
        assert!(matches!(empty, StoreError::NotAStore { .. }), "{empty}");
        fs::write(path.join("file"), "text").expect("written");
        let file = refusal(&path.join("file"));
        assert!(matches!(file, StoreError::NotAStore { .. }), "{file}");
        for foreign in [
            "",
            "LevelDB",
            "Pythia RDF store\n",
            "Pythia RDF store\n{}\n0\n",
        ] {
            fs::write(path.join(MANIFEST_NAME), foreign).expect("written");
            let error = refusal(path);
            assert!(
                matches!(error, StoreError::Corrupt { .. }),
                "{foreign:?}: {error}"
            );
            assert!(error.to_string().contains(MANIFEST_NAME));
        }
    }

    #[test]
    fn missing_and_cut_files_are_named() {
        let folder = folder(500);
        for name in crate::segment::sealed::file_names() {
            let path = folder.path().join("segment-000001").join(&name);
            let bytes = fs::read(&path).expect("there");
            fs::write(&path, &bytes[..bytes.len() - 1]).expect("written");
            let error = refusal(folder.path()).to_string();
            assert!(error.contains(&name), "{name}: {error}");
            fs::remove_file(&path).expect("there");
            let error = refusal(folder.path()).to_string();
            assert!(error.contains(&name), "{name}: {error}");
            fs::write(&path, &bytes).expect("written");
        }
        Store::open(folder.path(), OpenOptions::default()).expect("whole again");
    }

    #[test]
    fn readers_share_and_a_writer_excludes() {
        let folder = folder(1);
        let path = folder.path();
        let first = Store::open(path, OpenOptions::default()).expect("sound");
        let second = Store::open(path, OpenOptions::default()).expect("shared");
        let storage = open_folder(path).expect("a store");
        let refused = StoreLock::exclusive(&storage).expect_err("in use");
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        drop((first, second));
        let writer = StoreLock::exclusive(&storage).expect("free");
        assert!(matches!(refusal(path), StoreError::Locked { .. }));
        drop(writer);
        Store::open(path, OpenOptions::default()).expect("free again");
    }

    /// Two writers would overwrite each other's files.
    #[test]
    fn there_is_one_writer_whatever_files_are_removed() {
        let folder = folder(1);
        let path = folder.path();
        let write = WriteOptions::default();
        let open = || Store::open_for_writing(path, OpenOptions::default(), &write);
        let first = open().expect("free");
        for name in [WRITER_NAME, LOCK_NAME] {
            fs::remove_file(path.join(name)).expect("there");
            let refused = open().map(drop).expect_err("in use");
            assert!(matches!(refused, StoreError::Writing { .. }), "{refused}");
            let storage = open_folder(path).expect("a store");
            let refused = StoreLock::exclusive(&storage).expect_err("in use");
            assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        }
        drop(first);
        open().expect("free again");
    }

    /// Two stores would overwrite each other's log.
    #[test]
    fn a_folder_of_a_log_has_one_writer() {
        let (first, second) = (folder(1), folder(1));
        let log = tempfile::tempdir().expect("a temporary folder");
        let write = WriteOptions {
            log_folders: vec![log.path().to_owned()],
            ..WriteOptions::default()
        };
        let open = |folder: &tempfile::TempDir| {
            Store::open_for_writing(folder.path(), OpenOptions::default(), &write)
        };
        let store = open(&first).expect("free");
        let refused = open(&second).map(drop).expect_err("another store's");
        assert!(matches!(refused, StoreError::LogFolder { .. }), "{refused}");
        // Nor can a copy of the same store, which knows the folder.
        let copy = tempfile::tempdir().expect("a temporary folder");
        for name in ["MANIFEST", "LOG", "log", "segment-000001"] {
            let copied = std::process::Command::new("cp")
                .args([
                    "-r".as_ref(),
                    first.path().join(name).as_os_str(),
                    copy.path().as_os_str(),
                ])
                .status();
            assert!(copied.expect("cp").success());
        }
        let refused = open(&copy).map(drop).expect_err("in use");
        assert!(matches!(refused, StoreError::LogInUse { .. }), "{refused}");
        drop(store);
        open(&first).expect("free again");
    }

    /// An open store moves with its folder; a folder put in its place is a different store.
    #[test]
    fn a_store_that_is_moved_is_written_to_where_it_is() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        let [path, moved] = ["store", "moved"].map(|name| parent.path().join(name));
        let make = || {
            let storage = Arc::new(DirectStorage::open(&path, true).expect("a folder"));
            write_segment(storage, &quads(5), SMALL_PAGES).expect("written");
        };
        let open = |path: &Path| {
            Store::open_for_writing(path, OpenOptions::default(), &WriteOptions::default())
        };
        let add = |store: &Store, rank| {
            let iri = |rank| id(TermKind::Iri, rank);
            let mut transaction = store.begin().expect("open for writing");
            let quad = [iri(rank), iri(50), iri(8), 0];
            assert_eq!(transaction.insert(&[quad]).expect("sound"), 1);
            transaction.commit().expect("a device");
            store.flush().expect("a device");
        };
        make();
        let store = open(&path).expect("free");
        add(&store, 100);
        fs::rename(&path, &moved).expect("the same file system");
        make();
        let other = open(&path).expect("another store");
        add(&store, 101);
        add(&other, 102);
        store.rewrite().expect("a device");
        drop((store, other));
        for (path, expected) in [(&moved, 7), (&path, 6)] {
            let store = Store::open(path, OpenOptions::default()).expect("a store");
            assert_eq!(store.snapshot().statistics().quads, expected);
            let storage = Arc::new(open_folder(path).expect("a store"));
            let report = verify(storage, VerifyOptions::default(), &mut |_| {});
            assert_eq!(report.problems, []);
        }
    }

    /// The folder now holds files that this process did not write.
    #[test]
    fn a_writer_whose_files_were_replaced_writes_nothing() {
        let (mine, theirs) = (folder(5), folder(7));
        let open = |folder: &tempfile::TempDir| {
            let write = WriteOptions::default();
            Store::open_for_writing(folder.path(), OpenOptions::default(), &write)
        };
        drop(open(&theirs).expect("free"));
        let store = open(&mine).expect("free");
        let manifest = |folder: &tempfile::TempDir| folder.path().join(MANIFEST_NAME);
        fs::copy(manifest(&theirs), manifest(&mine)).expect("a device");
        let mut transaction = store.begin().expect("open for writing");
        let iri = |rank| id(TermKind::Iri, rank);
        transaction
            .insert(&[[iri(100), iri(50), iri(8), 0]])
            .expect("sound");
        transaction.commit().expect("the log is still its own");
        let refused = store.flush().expect_err("another store's manifest");
        assert!(matches!(refused, StoreError::Replaced), "{refused}");
        let refused = store.flush().expect_err("it has stopped");
        assert!(matches!(refused, StoreError::Stopped { .. }), "{refused}");
        let read = |folder| fs::read(manifest(folder)).expect("there");
        assert_eq!(read(&mine), read(&theirs), "nothing was written over it");
    }

    #[test]
    fn a_profile_of_another_device_or_a_damaged_one_is_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = Arc::new(DirectStorage::open(folder.path(), true).expect("a folder"));
        write_segment(storage.clone(), &quads(500), SMALL_PAGES).expect("written");
        let open = || Store::open(folder.path(), OpenOptions::default()).expect("sound");
        // The files are too small to be measured: the profile is assumed and not kept.
        assert_eq!(open().device().origin, Origin::Assumed);
        assert!(!folder.path().join(device::DEVICE_NAME).exists());
        let mut kept = DeviceProfile {
            origin: Origin::Full,
            identity: storage.identity(),
            ..DeviceProfile::default()
        };
        kept.random[0].depth = 17;
        device::write(&*storage, &kept).expect("written");
        assert_eq!(open().snapshot().device(), &kept);
        kept.identity.as_mut().expect("a device").file_system_id ^= 1;
        device::write(&*storage, &kept).expect("written");
        assert_eq!(open().device().origin, Origin::Assumed);
        // The profile is not part of the store's state: damage is not an error.
        fs::write(folder.path().join(device::DEVICE_NAME), "{").expect("written");
        assert_eq!(open().device(), &DeviceProfile::default());
    }

    #[test]
    fn a_large_store_measures_its_device_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = Arc::new(DirectStorage::open(folder.path(), true).expect("a folder"));
        write_segment(storage.clone(), &quads(500), SMALL_PAGES).expect("written");
        let mut manifest = Manifest::read(&*storage).expect("sound").expect("there");
        let name = "segment-000001/large";
        let mut file = storage.create(name).expect("created");
        file.append(&vec![1; 8 << 20]).expect("written");
        file.sync().expect("written");
        manifest.files.push(crate::manifest::ManifestFile {
            name: "large".to_owned(),
            bytes: 8 << 20,
        });
        let measured = device::of_store(&storage, &manifest);
        // Other tests may keep the machine too busy to measure.
        if measured.origin == Origin::Brief {
            assert_eq!(device::read(&*storage), Some(measured.clone()));
            assert_eq!(device::of_store(&storage, &manifest), measured);
        } else {
            assert_eq!(device::read(&*storage), None);
            assert_eq!(measured, DeviceProfile::default());
        }
    }

    #[test]
    fn an_empty_store_takes_a_load_and_a_full_one_does_not() {
        let storage = write_store(&BTreeSet::new(), SMALL_PAGES);
        let id = write_segment(storage.clone(), &quads(5), SMALL_PAGES).expect("it was empty");
        assert_eq!(id.0, 2);
        assert_eq!(
            storage.list("").expect("memory"),
            [MANIFEST_NAME, "segment-000002"]
        );
        let error = write_segment(storage.clone(), &quads(6), SMALL_PAGES).expect_err("full");
        assert!(
            matches!(error, StoreError::NotEmpty { quads: 5 }),
            "{error}"
        );
        let options = VerifyOptions::default();
        assert_eq!(verify(storage, options, &mut |_| {}).problems, []);
    }

    #[test]
    fn a_writer_that_is_given_up_leaves_nothing() {
        let storage = Arc::new(MemoryStorage::new());
        let writer = crate::BaseWriter::create(storage.clone(), SMALL_PAGES).expect("empty");
        let order = writer.segment().order(crate::Order::Pso).expect("memory");
        order.finish().expect("memory");
        drop(writer);
        assert_eq!(storage.list("").expect("memory"), [] as [String; 0]);
    }

    /// After a crash at any operation the store is in its old or its new state.
    #[test]
    fn a_crash_leaves_no_store_or_the_whole() {
        let quads = quads(800);
        let write = |storage: &FaultyStorage| {
            write_segment_of(Arc::new(storage.clone()), &quads, SMALL_PAGES, 800)
        };
        let calm = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
        write(&calm).expect("no faults");
        let operations = calm.operations();
        for crash in 1..=operations + 1 {
            for seed in 0..3 {
                let device = FaultyStorage::new(
                    Arc::new(MemoryStorage::new()),
                    FaultPlan::crash_at(crash, seed),
                );
                let acknowledged = write(&device).is_ok();
                device.restart(FaultPlan::none()).expect("it starts again");
                let manifest = Manifest::read(&device).expect("never half a manifest");
                assert!(
                    manifest.is_some() || !acknowledged,
                    "crash at {crash}, seed {seed}"
                );
                if manifest.is_none() {
                    write(&device).expect("leftovers are in nobody's way");
                }
                let report = verify(
                    Arc::new(device.clone()),
                    VerifyOptions::default(),
                    &mut |_| {},
                );
                assert_eq!(report.problems, [], "crash at {crash}, seed {seed}");
                assert_eq!(report.quads, quads.len() as u64);
            }
        }
    }

    #[test]
    fn a_full_disk_or_a_failing_device_is_an_error_and_changes_nothing() {
        let quads = quads(800);
        let calm = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
        write_segment_of(Arc::new(calm.clone()), &quads, SMALL_PAGES, 800).expect("no faults");
        let plans = (1..=calm.operations()).map(FaultPlan::fail_at);
        let sizes = (0..calm.bytes_appended())
            .step_by(20_000)
            .map(FaultPlan::disk_of);
        for plan in plans.chain(sizes) {
            let inner = Arc::new(MemoryStorage::new());
            let device = FaultyStorage::new(inner.clone(), plan.clone());
            let result = write_segment_of(Arc::new(device), &quads, SMALL_PAGES, 800);
            let manifest = Manifest::read(&*inner).expect("never half a manifest");
            assert_eq!(manifest.is_some(), result.is_ok(), "{plan:?}");
        }
    }
}
