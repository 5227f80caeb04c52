//! Power cuts of a faulty device in memory: `pythia bench power-cuts`.
//!
//! At a power cut, the device loses, tears and reorders unsynced writes. One client commits, loads, changes whole graphs,
//! compacts, builds indexes and makes backups until then. Some stores are of an earlier format, and are upgraded. The device is then restarted, and the power is cut again, perhaps while the store is being
//! opened. Rounds do not depend on time or threads, so they are reproducible.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Error, Result, ensure};
use pythia::{BackupError, RestoreOptions};
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage, Subfolder};
use pythia_log::LogOptions;
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use pythia_store::{Store, StoreError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{self, Ledger};
use super::origins::{FORMATS, Origin};
use super::session::Script;
use super::store::{TRANSACTION_BYTES, check_sound, create_in, load_options, open_options};
use super::{Campaign, Tally, graphs, in_round, indexes};

/// Maximum number of power cuts of a device.
const CUTS_MAX: u64 = 4;
/// Maximum numbers of operations of the device before a power cut: it is cut during opening, during one of the first
/// steps, or later.
const OPERATIONS_MAX: [u64; 3] = [200, 1200, 5000];
/// Maximum number of steps between two power cuts.
const STEPS_MAX: u64 = 80;

/// The campaign.
#[derive(Clone, Copy, Debug)]
pub struct PowerCuts;

impl Campaign for PowerCuts {
    fn run(
        &self,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
        tally: &Tally,
    ) -> Result<()> {
        let mut random = SmallRng::seed_from_u64(seed);
        let outcome = SimulatedStore::new(folder, &mut random).and_then(|mut device| {
            device.begin(&mut random)?;
            for _ in 0..random.random_range(1..=CUTS_MAX) {
                device.live(&mut random, tally)?;
            }
            device.check(tally)
        });
        in_round(*rounds.start(), outcome)
    }
}

struct SimulatedStore<'a> {
    folder: &'a Path,
    disk: Arc<MemoryStorage>,
    faulty: FaultyStorage,
    options: WriteOptions,
    ledger: Ledger,
    /// The history that the backup must have.
    backup: Option<Ledger>,
}

impl<'a> SimulatedStore<'a> {
    fn new(folder: &'a Path, random: &mut SmallRng) -> Result<Self> {
        let disk = Arc::new(MemoryStorage::new());
        let origin = FORMATS.get(random.random_range(0..3 * FORMATS.len()));
        match origin {
            Some(&format) => Origin::of(format)?.write_to(&*disk)?,
            None => create_in(disk.clone())?,
        }
        // A folder exists once it contains a file.
        disk.create("backup/LOCK")?.sync()?;
        let options = WriteOptions {
            log: LogOptions {
                file_bytes: 64 << 10 << random.random_range(0..4),
                retain_bytes: [0, 64 << 10, 1 << 20][random.random_range(0..3)],
                prepare_ahead: false,
                ..LogOptions::default()
            },
            maintenance: MaintenanceOptions {
                memory_bytes: 4096 << random.random_range(0..4),
                transaction_bytes: TRANSACTION_BYTES[random.random_range(0..4)] as usize,
                compaction_quads_min: 64 << random.random_range(0..4),
                compaction_percent: 30,
                in_background: false,
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        };
        Ok(Self {
            folder,
            faulty: FaultyStorage::new(disk.clone(), FaultPlan::none()),
            disk,
            options,
            ledger: Ledger::new(1).begun_in(origin.copied()),
            backup: None,
        })
    }

    /// Begins the history without a fault, unless the store is of an earlier format: the first writer upgrades that.
    fn begin(&mut self, random: &mut SmallRng) -> Result<()> {
        if self.ledger.origin.is_some() {
            return Ok(());
        }
        let store =
            Store::open_storage_for_writing(self.disk.clone(), open_options(), &self.options)?;
        self.ledger.graphs = graphs::begin(&store, &load_options(self.folder), random)?;
        Ok(())
    }

    /// Continues the history until the power is cut, and checks the remaining state.
    fn live(&mut self, random: &mut SmallRng, tally: &Tally) -> Result<()> {
        let most = OPERATIONS_MAX[random.random_range(0..OPERATIONS_MAX.len())];
        let cut = random.random_range(1..=most);
        self.faulty
            .restart(FaultPlan::crash_at(cut, random.random()))?;
        let before = self.ledger.total();
        if let Err(error) = self.write(random, tally) {
            ensure!(
                self.faulty.crashed(),
                error.context("before the power was cut")
            );
        }
        self.faulty.crash()?;
        tally.add("power cuts", 1);
        let acknowledged = self.ledger.total();
        tally.add("commits and loads acknowledged", acknowledged - before);
        if random.random_range(0..3) > 0 {
            // The next writer finds it as it was left.
            let store = Store::open_storage(self.disk.clone(), open_options())
                .context("open the store for reading")?;
            history::find(&store, &Ledger::new(1), &self.ledger)?;
        }
        Ok(())
    }

    fn write(&mut self, random: &mut SmallRng, tally: &Tally) -> Result<()> {
        let storage: Arc<dyn Storage> = Arc::new(self.faulty.clone());
        let backup = self.backup_folder(Arc::clone(&storage));
        let back_up = || -> Result<(), BackupError> {
            pythia::backup_storage(&storage, &backup, 0).map(|_| ())
        };
        let store =
            Store::open_storage_for_writing(Arc::clone(&storage), open_options(), &self.options)?;
        // Data found now must never be lost.
        self.ledger = history::find(&store, &Ledger::new(1), &self.ledger)?;
        if !store.has_newest_base() && random.random_range(0..2) == 0 {
            tally.add("upgrades begun", 1);
            store.compact()?;
            ensure!(store.has_newest_base(), "it is not upgraded");
            tally.add("upgrades done", 1);
        }
        let steps = random.random_range(1..=STEPS_MAX);
        let mut script = Script {
            random,
            ledger: &mut self.ledger,
            back_up: &back_up,
            backup: &mut self.backup,
            load_options: load_options(self.folder),
            tally,
        };
        for _ in 0..steps {
            script.step(&store)?;
        }
        Ok(())
    }

    /// Returns the folder of the backup, which is on the same device.
    fn backup_folder(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(Subfolder::new(storage, "backup"))
    }

    /// Opens the store without further faults, checks everything, verifies it, and restores its backup.
    fn check(&mut self, tally: &Tally) -> Result<()> {
        let disk: Arc<dyn Storage> = self.disk.clone();
        let open = || -> Result<Store, StoreError> {
            Store::open_storage_for_writing(Arc::clone(&disk), open_options(), &self.options)
        };
        let store = open().context("open the store for writing")?;
        let found = history::find_all(&store, &self.ledger)?;
        let compared = indexes::check(&store).context("the optional indexes")?;
        tally.add("answers of indexes compared", compared);
        tally.add(
            "found before they were acknowledged",
            found.total() - self.ledger.total(),
        );
        store.compact().context("write a new base")?;
        ensure!(store.has_newest_base(), "the new base has an old format");
        history::commit(&store, 0, found.commits[0] + 1).context("commit again")?;
        drop(store);
        check_sound(Arc::clone(&disk))?;
        let backup = self.backup_folder(disk);
        let nothing = Ledger::new(1).begun_in(found.origin);
        let at_least = self.backup.as_ref().unwrap_or(&nothing);
        let restored: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        match pythia::restore_storage(&backup, &restored, &RestoreOptions::default()) {
            Err(BackupError::NoBackup) if self.backup.is_none() => return Ok(()),
            outcome => outcome.context("restore the backup")?,
        };
        let store = Store::open_storage(restored, open_options())?;
        history::find_all(&store, at_least)
            .map_err(|error| Error::context(error, "what was restored of the backup"))?;
        tally.add("backups restored", 1);
        Ok(())
    }
}
