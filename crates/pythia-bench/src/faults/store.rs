//! The stores of the campaigns: small, so that much happens in little time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pythia::RestoreOptions;
use pythia_io::{DirectStorage, Storage};
use pythia_log::LogOptions;
use pythia_store::compact::CompactionOptions;
use pythia_store::load::{LoadOptions, LoadProgress};
use pythia_store::verify::{VerifyOptions, verify};
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use pythia_store::{OpenOptions, Store, StoreError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{self, Ledger};
use super::origins::Origin;

/// Maximum wait for a lock that only a starting process holds.
pub(super) const LOCKED_MAX: Duration = Duration::from_secs(5);

/// Memory for the changes of a transaction in some of the stores: none, little enough for all graphs to be large, for
/// most of them, and the default.
pub(super) const TRANSACTION_BYTES: [u64; 4] = [0, 4 << 10, 16 << 10, 64 << 20];

/// Settings of a store, drawn from a seed.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) memory_bytes: usize,
    /// Memory for the changes of a transaction. If it is small, whole graphs are changed order by order; without any,
    /// each transaction has changes on the device.
    pub(super) transaction_bytes: usize,
    pub(super) compaction_quads_min: u64,
    pub(super) compaction_percent: u64,
    pub(super) retain_bytes: u64,
    pub(super) log_file_bytes: u64,
    /// True if the log is on two devices.
    pub(super) has_second_log: bool,
    /// True if the log has an archive.
    pub(super) has_archive: bool,
    /// True if that takes commits while the log's devices are slow.
    pub(super) has_spare: bool,
    /// Pause of a client after each commit. Without one, commits leave hardly any turn to loads, to changes of graphs
    /// and to compactions.
    pub(super) commit_pause: Duration,
}

impl Settings {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut of = |choices: &[u64]| choices[random.random_range(0..choices.len())];
        let mut drawn = Self {
            memory_bytes: of(&[16, 64, 256]) as usize * 1024,
            transaction_bytes: of(&TRANSACTION_BYTES) as usize,
            compaction_quads_min: of(&[256, 1024, 4096]),
            compaction_percent: of(&[10, 30, 100]),
            retain_bytes: of(&[0, 64 << 10, 4 << 20]),
            log_file_bytes: of(&[64 << 10, 256 << 10, 16 << 20]),
            has_second_log: of(&[0, 0, 1]) == 1,
            has_archive: of(&[0, 0, 1]) == 1,
            has_spare: false,
            commit_pause: Duration::from_millis(of(&[0, 2, 10])),
        };
        drawn.has_spare = drawn.has_archive && of(&[0, 1]) == 1;
        drawn
    }

    /// Returns the options for opening the store in a [`StoreFolder`] for writing.
    pub(super) fn write_options(&self, home: &StoreFolder, in_background: bool) -> WriteOptions {
        let folders = self.has_second_log.then(|| home.second_log());
        WriteOptions {
            log_folders: folders.into_iter().collect(),
            log_archive: self.has_archive.then(|| home.archive()),
            log_spare: self.has_spare,
            log: LogOptions {
                file_bytes: self.log_file_bytes,
                retain_bytes: self.retain_bytes,
                ..LogOptions::default()
            },
            maintenance: MaintenanceOptions {
                memory_bytes: self.memory_bytes,
                transaction_bytes: self.transaction_bytes,
                compaction_percent: self.compaction_percent,
                compaction_quads_min: self.compaction_quads_min,
                in_background,
                compaction: CompactionOptions {
                    memory_bytes: 16 << 20,
                    ..CompactionOptions::default()
                },
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        }
    }
}

pub(super) fn open_options() -> OpenOptions {
    OpenOptions {
        cache_bytes: 16 << 20,
    }
}

pub(super) fn load_options(tmp: &Path) -> LoadOptions {
    LoadOptions {
        memory_bytes: 64 << 20,
        tmp: tmp.to_owned(),
        ..LoadOptions::default()
    }
}

/// A folder with a store, its logs and its backup.
#[derive(Clone, Debug)]
pub(super) struct StoreFolder {
    folder: PathBuf,
}

impl StoreFolder {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Returns the second log folder.
    pub(super) fn second_log(&self) -> PathBuf {
        self.folder.join("second-log")
    }

    /// Returns the archive of the log.
    pub(super) fn archive(&self) -> PathBuf {
        self.folder.join("archive")
    }

    pub(super) fn backup(&self) -> PathBuf {
        self.folder.join("backup")
    }

    /// Creates an empty store, or one of an earlier format.
    pub(super) fn create(&self, origin: Option<u32>) -> Result<()> {
        std::fs::create_dir_all(self.store())?;
        match origin {
            Some(format) => Origin::of(format)?.write_in(&self.store()),
            None => create_in(Arc::new(DirectStorage::open(&self.store(), true)?)),
        }
    }

    pub(super) fn open(&self) -> Result<Store> {
        once_unlocked(|| Store::open(&self.store(), open_options()))
            .context("open the store for reading")
    }

    pub(super) fn open_for_writing(&self, options: &WriteOptions) -> Result<Store> {
        once_unlocked(|| Store::open_for_writing(&self.store(), open_options(), options))
            .context("open the store for writing")
    }

    pub(super) fn verify(&self) -> Result<()> {
        check_sound(Arc::new(DirectStorage::open(&self.store(), false)?))
    }

    pub(super) fn has_backup(&self) -> bool {
        self.backup().join("BACKUP").exists()
    }

    /// Restores the backup, whose history must be between two ledgers.
    pub(super) fn check_backup(&self, at_least: &Ledger, at_most: &Ledger) -> Result<()> {
        let restored = Self::new(&self.folder.join("restored"));
        pythia::restore(
            &self.backup(),
            &restored.store(),
            &RestoreOptions::default(),
        )
        .context("restore the backup")?;
        let at_least = at_least.clone().begun_in(at_most.origin);
        let found = restored
            .open()
            .and_then(|store| history::find_all(&store, &at_least));
        let found = found.context("what was restored of the backup")?;
        ensure!(
            at_most.covers(&found),
            "the backup has {found:?}, the store {at_most:?}"
        );
        restored
            .verify()
            .context("what was restored of the backup")?;
        Ok(std::fs::remove_dir_all(restored.folder)?)
    }
}

/// Opens a store that this process has just closed. Another round may be starting a process, which holds this
/// process's locks until it runs its own program.
fn once_unlocked(open: impl Fn() -> Result<Store, StoreError>) -> Result<Store, StoreError> {
    let until = Instant::now() + LOCKED_MAX;
    loop {
        match open() {
            Err(StoreError::Locked { .. } | StoreError::Writing { .. })
                if Instant::now() < until =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened,
        }
    }
}

/// Returns whether a command's message says that another process has the store's locks.
pub(super) fn is_locked(message: &str) -> bool {
    message.contains("is open for writing in another process")
        || message.contains("is in use by another process")
}

/// Creates an empty store.
pub(super) fn create_in(storage: Arc<dyn Storage>) -> Result<()> {
    let (options, progress) = (LoadOptions::default(), Arc::new(LoadProgress::default()));
    pythia_store::load::load(storage, Vec::new(), &options, &progress).context("make a store")?;
    Ok(())
}

/// Verifies a store completely.
pub(super) fn check_sound(storage: Arc<dyn Storage>) -> Result<()> {
    let options = VerifyOptions {
        cache_bytes: 16 << 20,
        ..VerifyOptions::default()
    };
    let report = verify(storage, options, &mut |_| {});
    match report.problems.first() {
        None => Ok(()),
        Some(problem) => bail!("verify found {}: {problem}", report.problems.len()),
    }
}
