//! A report on a store's changes and the maintenance that is due: for `pythia compact --status`.

use pythia_io::Storage;
use pythia_log::FOLDER;

use crate::StoreError;
use crate::compact::unfinished::interrupted;
use crate::delta::device::merge::{Unmerged, due, level};
use crate::folders::log_devices;
use crate::manifest::RunEntry;
use crate::store::Store;
use crate::write::MaintenanceOptions;

/// The changes of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesReport {
    /// Quads of the base.
    pub base_quads: u64,
    /// Bytes of its files.
    pub base_bytes: u64,
    /// The runs on the device, the oldest first.
    pub runs: Vec<RunReport>,
    /// Runs in memory.
    pub memory_runs: usize,
    /// Quads that they add or remove.
    pub memory_changes: u64,
    /// Approximate memory of them and of new terms.
    pub memory_bytes: usize,
    /// Commits that are only in the log: they are replayed into memory when the store is opened.
    pub log_commits: u64,
    /// Bytes of all files of the log.
    pub log_bytes: u64,
    /// The maintenance that is due.
    pub next: NextStep,
}

/// A run on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReport {
    /// Its number.
    pub id: u64,
    /// Its size level, from 0.
    pub level: u32,
    /// Quads that it adds.
    pub added: u64,
    /// Quads that it removes.
    pub removed: u64,
    /// Its new terms.
    pub terms: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Approximate memory of its filters and directories while it is open.
    pub memory_bytes: usize,
}

/// The next step of maintenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing is due.
    Nothing,
    /// Runs in memory are written to the device.
    Flush,
    /// Runs with these numbers are merged.
    Merge(Vec<u64>),
    /// The store is compacted.
    Compact,
}

impl ChangesReport {
    /// Makes the report on a store that is maintained with these options.
    pub fn new(store: &Store, options: &MaintenanceOptions) -> Result<Self, StoreError> {
        let manifest = store.manifest();
        let snapshot = store.snapshot();
        let delta = snapshot.delta();
        let memory_runs = delta.map_or(&[][..], |delta| delta.runs());
        let memory_bytes = delta.map_or(0, |delta| delta.memory_bytes());
        let open = delta.map_or(&[][..], |delta| delta.device());
        let memory_of = |entry: &RunEntry| {
            let run = open.iter().find(|run| run.entry().id == entry.id);
            run.map_or(0, |run| run.memory_bytes())
        };
        let run = |entry: &RunEntry| RunReport {
            id: entry.id.0,
            level: level(entry.bytes()),
            added: entry.added.quads,
            removed: entry.removed.quads,
            terms: entry.term_count(),
            bytes: entry.bytes(),
            memory_bytes: memory_of(entry),
        };
        let next = if memory_bytes > options.memory_bytes {
            NextStep::Flush
        } else if let Some(range) = due(&manifest.runs, Unmerged::default()) {
            let ids = manifest.runs[range].iter().map(|entry| entry.id.0);
            NextStep::Merge(ids.collect())
        } else if interrupted(&**store.pool().storage(), &manifest)?.is_some()
            || options.is_compaction_due(&manifest)
        {
            NextStep::Compact
        } else {
            NextStep::Nothing
        };
        let (mut log_commits, mut log_bytes) = (0, 0);
        if let Some(log) = &manifest.log {
            log_commits = (store.position().0 + 1).saturating_sub(log.position.0);
            for device in log_devices(store.pool().storage(), log)? {
                log_bytes += folder_bytes(&*device, FOLDER)?;
            }
        }
        Ok(Self {
            base_quads: manifest.quads,
            base_bytes: manifest.base_bytes(),
            runs: manifest.runs.iter().map(run).collect(),
            memory_runs: memory_runs.len(),
            memory_changes: memory_runs.iter().map(|run| run.len() as u64).sum(),
            memory_bytes,
            log_commits,
            log_bytes,
            next,
        })
    }

    /// Returns whether the base holds all quads: no run, on the device or in memory, has changes.
    pub fn is_compact(&self) -> bool {
        self.runs.is_empty() && self.memory_changes == 0
    }
}

/// Returns the bytes of the files in a folder; 0 if there is no such folder.
fn folder_bytes(storage: &dyn Storage, folder: &str) -> Result<u64, StoreError> {
    let names = match storage.list(folder) {
        Ok(names) => names,
        Err(error) if error.is_not_found() => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = 0;
    for name in names {
        match storage.open(&format!("{folder}/{name}")) {
            Ok(file) => bytes += file.len(),
            // The writer may have moved it to the archive meanwhile.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
