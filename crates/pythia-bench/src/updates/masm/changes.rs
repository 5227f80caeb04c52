//! A copy of a store with a percentage of its quads changed, and the changes in runs.
//!
//! A change is a swap: a quad loses its object and gets that of another quad of its predicate. The swapped quads are spread
//! evenly over the store, and are committed in random order, so that each run covers the whole store, as those of MaSM do.

use std::path::Path;

use anyhow::{Context, Result};
use pythia::{ChangesReport, Database, Options as DatabaseOptions};
use pythia_io::probe::SplitMix;
use pythia_store::write::{MaintenanceOptions, WriteOptions};
use pythia_store::{Snapshot, Store};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Approximate memory of a changed quad in a run: four orders of 36 bytes, their filters, and a margin.
const CHANGE_BYTES: usize = 256;
/// Swaps of a commit, at most. With little memory for changes, a commit takes at most a quarter of it.
const COMMIT_SWAPS_MAX: usize = 5_000;

/// The rule for the memory of changes that are not on the device. M is the square root of the pages that all changes take in
/// runs: MaSM can merge as many pages of runs in one pass with M pages of memory for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// M pages.
    Root,
    /// 2M pages.
    TwiceRoot,
    /// The product's default.
    Product,
}

impl Memory {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "M",
            Self::TwiceRoot => "2M",
            Self::Product => "default",
        }
    }

    fn bytes(self, root_pages: u64, page_bytes: usize) -> usize {
        match self {
            Self::Root => root_pages as usize * page_bytes,
            Self::TwiceRoot => 2 * root_pages as usize * page_bytes,
            Self::Product => MaintenanceOptions::default().memory_bytes,
        }
    }
}

/// A store with changes, before anything is measured on it.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedStore {
    /// Percentage of changed quads that was asked for.
    pub percent: f64,
    /// The rule for the memory.
    pub memory: Memory,
    /// Quads added or removed.
    pub changes: u64,
    /// Pages of one run with all changes; the square root of this number is M.
    pub cached_pages: u64,
    /// M, rounded up.
    pub root_pages: u64,
    /// Limit of the memory of changes. They are written to a run when they take more.
    pub memory_bytes_limit: usize,
    /// The most memory that changes took after a commit.
    pub memory_bytes_max: usize,
    /// Memory of the changes that are left there.
    pub memory_bytes: usize,
    /// Quads added or removed by these changes.
    pub memory_changes: u64,
    /// Their runs.
    pub memory_runs: usize,
    /// Runs on the device.
    pub device_runs: usize,
    /// Bytes of their files.
    pub run_bytes: u64,
    /// The same in pages of the store.
    pub run_pages: u64,
    /// Memory of the filters and directories of the runs on the device.
    pub run_memory_bytes: usize,
}

/// A quad and the one that takes its place.
type Swap = [[u64; 4]; 2];

/// Returns swaps of a percentage of the quads, which removes half of it and adds the other half, in random order.
pub(super) fn swaps(snapshot: &Snapshot, percent: f64, seed: u64) -> Result<Vec<Swap>> {
    // Types stay, as queries begin with them.
    let types = snapshot.resolve(oxrdf::vocab::rdf::TYPE.into())?;
    let share = percent / 100.0;
    let mut scan = snapshot.quads()?;
    let mut last: FxHashMap<u64, u64> = FxHashMap::default();
    let mut swaps: Vec<Swap> = Vec::new();
    let mut number = 0_u64;
    while let Some(batch) = scan.next()? {
        for row in 0..batch.rows {
            let [s, p, o, g] = [0, 1, 2, 3].map(|column| batch.columns[column][row]);
            number += 1;
            let is_due = 2.0 * swaps.len() as f64 + 1.0 < share * number as f64;
            if !is_due || types.is_some_and(|types| types.0 == p) {
                continue;
            }
            if let Some(other) = last.insert(p, o).filter(|other| *other != o) {
                swaps.push([[s, p, o, g], [s, p, other, g]]);
            }
        }
    }
    let mut random = SplitMix(seed);
    for end in (1..swaps.len()).rev() {
        swaps.swap(end, random.below(end as u64 + 1) as usize);
    }
    Ok(swaps)
}

/// Opens a store whose changes stay in runs, or are compacted as soon as [`Store::maintain`] is called. Nothing else
/// maintains it.
pub(super) fn open(
    path: &Path,
    cache_bytes: usize,
    memory_bytes: usize,
    compacts: bool,
) -> Result<Database> {
    let mut maintenance = MaintenanceOptions {
        memory_bytes,
        in_background: false,
        compaction_percent: 0,
        compaction_quads_min: if compacts { 1 } else { u64::MAX },
        ..MaintenanceOptions::default()
    };
    if let Some(beside) = path.parent() {
        maintenance.compaction.tmp = beside.to_owned();
    }
    let options = DatabaseOptions {
        cache_bytes,
        write: Some(WriteOptions {
            maintenance,
            ..WriteOptions::default()
        }),
        ..DatabaseOptions::default()
    };
    Database::open_with(path, options).with_context(|| format!("open {}", path.display()))
}

/// Returns the pages that the swaps take in one run, made on the store in `path`, which is of no use afterwards.
pub(super) fn cached_pages(
    path: &Path,
    cache_bytes: usize,
    swaps: &[Swap],
    page_bytes: usize,
) -> Result<u64> {
    let memory_bytes = Memory::Product.bytes(0, page_bytes);
    let database = open(path, cache_bytes, memory_bytes, false)?;
    commit(database.store(), swaps, memory_bytes)?;
    database.store().flush()?;
    let runs = &database.store().manifest().runs;
    let bytes: u64 = runs.iter().map(|run| run.bytes()).sum();
    Ok(bytes.div_ceil(page_bytes as u64).max(1))
}

/// Makes the changes on the store in `path` with the memory of a rule.
pub(super) fn make(
    path: &Path,
    cache_bytes: usize,
    (percent, swaps): (f64, &[Swap]),
    (memory, cached_pages): (Memory, u64),
    page_bytes: usize,
) -> Result<ChangedStore> {
    let root_pages = (cached_pages as f64).sqrt().ceil() as u64;
    let limit = memory.bytes(root_pages, page_bytes);
    let database = open(path, cache_bytes, limit, false)?;
    let store = database.store();
    let (changes, memory_bytes_max) = commit(store, swaps, limit)?;
    let report = ChangesReport::new(store, &MaintenanceOptions::default())?;
    let run_bytes = report.runs.iter().map(|run| run.bytes).sum();
    Ok(ChangedStore {
        percent,
        memory,
        changes,
        cached_pages,
        root_pages,
        memory_bytes_limit: limit,
        memory_bytes_max,
        memory_bytes: report.memory_bytes,
        memory_changes: report.memory_changes,
        memory_runs: report.memory_runs,
        device_runs: report.runs.len(),
        run_bytes,
        run_pages: run_bytes.div_ceil(page_bytes as u64),
        run_memory_bytes: report.runs.iter().map(|run| run.memory_bytes).sum(),
    })
}

/// Commits swaps; after each commit, runs are written and merged as they are due. Returns the number of changed quads and the
/// most memory that they took after a commit.
fn commit(store: &Store, swaps: &[Swap], memory_bytes: usize) -> Result<(u64, usize)> {
    let together = memory_bytes / 4 / (2 * CHANGE_BYTES);
    let (mut changes, mut memory_bytes_max) = (0, 0);
    for swaps in swaps.chunks(together.clamp(1, COMMIT_SWAPS_MAX)) {
        let [removed, added] = [0, 1].map(|which| {
            let quads = swaps.iter().map(|swap| swap[which]);
            quads.collect::<Vec<_>>()
        });
        let mut transaction = store.begin()?;
        changes += transaction.remove(&removed)? + transaction.insert(&added)?;
        transaction.commit()?;
        let report = ChangesReport::new(store, &MaintenanceOptions::default())?;
        memory_bytes_max = memory_bytes_max.max(report.memory_bytes);
        store.maintain()?;
    }
    Ok((changes, memory_bytes_max))
}
