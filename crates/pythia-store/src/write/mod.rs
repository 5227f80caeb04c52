//! Writing to a store: transactions, commits in groups, recovery.
//!
//! A [`Transaction`] collects changes over a private view. Committing compares them with those of other transactions
//! ([`conflicts`]), and what the transaction has read, if it is serializable ([`validation`]); it appends them to the log,
//! which makes them durable; then they are a run in memory that every new snapshot sees ([`commit`]). From memory they are written to
//! the device, and finally compacted into a new base ([`maintenance`]). When a store is opened, [`replay`] rebuilds
//! the runs in memory from the log.

mod commit;
mod compaction;
#[cfg(test)]
mod compaction_tests;
mod conflicts;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod full_disk_tests;
#[cfg(test)]
mod graphs_tests;
mod indexes;
#[cfg(test)]
mod indexes_tests;
mod install;
mod large;
#[cfg(test)]
mod large_tests;
mod load;
#[cfg(test)]
mod load_tests;
mod log_copy;
mod logged;
mod maintenance;
mod options;
#[cfg(test)]
mod replaced_tests;
#[cfg(test)]
mod replacing_load_tests;
mod replay;
mod scrub;
#[cfg(test)]
mod serializable_tests;
mod spilled;
#[cfg(test)]
mod tests;
mod transaction;
mod validation;
#[cfg(test)]
mod version_tests;
mod whole_graphs;
#[cfg(test)]
mod whole_graphs_tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};
use pythia_io::BufferPool;
use pythia_log::Log;

pub use compaction::Compacted;
pub use load::{LoadCheck, Replaced};
pub(crate) use maintenance::Maintainer;
pub use options::{MaintenanceOptions, RUNS_MAX, WriteOptions};
pub(crate) use replay::Replay;
pub use scrub::Scrubbed;
pub use transaction::{Committed, Transaction, TransactionOptions};

use crate::StoreError;
pub use crate::allowance::Allowance;
use crate::compact::Extent;
use crate::delta::{Delta, TermStore};
use crate::locks::StoreLock;
use crate::manifest::Manifest;
use crate::optimize::Numbers;
use crate::pace::Pace;
pub use crate::snapshot::GoesOn;
use crate::snapshot::Snapshot;
use crate::state::StoreState;
use conflicts::RecentChanges;
use maintenance::Background;

/// The one writer of an open store.
pub(crate) struct Writer {
    /// The state that readers see.
    state: Arc<RwLock<StoreState>>,
    head: Mutex<Head>,
    /// Running transactions, counted by the last commit that each has seen.
    active: Mutex<BTreeMap<u64, usize>>,
    log: Log,
    pool: Arc<BufferPool>,
    options: MaintenanceOptions,
    /// The write rate of background work.
    pace: Pace,
    scrub_pace: Pace,
    /// Held while runs are written or merged.
    maintenance: Mutex<()>,
    /// Held while the base is replaced, or read for an optional index. Taken before all other locks.
    base: Mutex<()>,
    /// Held while a new base is written; shared by commits of runs, which a new base with other ids would have to
    /// replay.
    compacting: RwLock<()>,
    /// Held while a load runs.
    loading: Mutex<()>,
    /// The state that a running or interrupted compaction makes into a new base. The store keeps this state's runs.
    /// If ids change, it also keeps the log from the state's position on, which the compaction replays at the end.
    compacting_from: Mutex<Option<CompactedState>>,
    /// While a load runs: index of the first run on the device that the load's quads are not compared with. Runs from
    /// this index on are not merged with earlier ones. Changes while `maintenance` is held, and when the load ends.
    apart: Mutex<Option<usize>>,
    /// Number of the last run that was written.
    runs_made: AtomicU64,
    /// Numbers of the optional indexes that were written.
    indexes_made: Numbers,
    /// Held as long as commits are possible.
    _locks: Vec<StoreLock>,
    background: Background,
    scrubbed: Mutex<Scrubbed>,
    /// Called by a running load; set by tests.
    #[cfg(test)]
    load_hook: Mutex<Option<load::LoadHook>>,
}

/// A state that is made into a new base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompactedState {
    pub(crate) manifest: Manifest,
    pub(crate) extent: Extent,
}

/// The state that the next commit builds on: the state that readers see, plus commits that are being written.
struct Head {
    snapshot: Snapshot,
    /// The last commit.
    last: u64,
    recent: RecentChanges,
    /// The reason why nothing can be committed any more.
    failed: Option<String>,
    /// A state that must be put in place before anything else.
    unsettled: Option<NewState>,
}

/// A state that includes all of the head's commits and has yet to be put in place. All files that it names are
/// durable.
struct NewState {
    manifest: Arc<Manifest>,
    snapshot: Snapshot,
}

impl NewState {
    fn new(mut manifest: Manifest, snapshot: Snapshot) -> Self {
        manifest.format = manifest.format_needed();
        Self {
            manifest: Arc::new(manifest),
            snapshot,
        }
    }
}

/// A snapshot at which a transaction began.
struct Begun {
    writer: Arc<Writer>,
    snapshot: Snapshot,
    position: u64,
}

impl Head {
    /// Returns the terms that are new since the base was written, including those of failed commits.
    fn terms(&self) -> &Arc<TermStore> {
        self.delta().terms()[0].store()
    }

    /// Fails once nothing can be committed any more.
    fn check(&self) -> Result<(), StoreError> {
        match &self.failed {
            None => Ok(()),
            Some(cause) => Err(StoreError::Stopped {
                cause: cause.clone(),
            }),
        }
    }

    fn delta(&self) -> &Delta {
        self.snapshot
            .delta()
            .expect("a writer's snapshots have one")
    }
}

impl Begun {
    fn delta(&self) -> &Delta {
        self.snapshot
            .delta()
            .expect("a writer's snapshots have one")
    }
}

impl Writer {
    /// Returns the writer of a store in this state, whose last commit is the state's. `interrupted` is the state
    /// whose compaction was interrupted.
    pub(crate) fn new(
        state: Arc<RwLock<StoreState>>,
        log: Log,
        pool: Arc<BufferPool>,
        options: MaintenanceOptions,
        interrupted: Option<CompactedState>,
        locks: Vec<StoreLock>,
    ) -> Self {
        let (snapshot, last, runs_made) = {
            let state = state.read();
            let runs = state.manifest.runs.iter().map(|run| run.id.0);
            (state.snapshot.clone(), state.last, runs.max().unwrap_or(0))
        };
        let indexes_made = {
            let manifest = &state.read().manifest;
            let compacted = interrupted.as_ref().map(|from| &from.manifest);
            Numbers::after(compacted.into_iter().chain([&**manifest]))
        };
        Self {
            state,
            head: Mutex::new(Head {
                snapshot,
                last,
                recent: RecentChanges::default(),
                failed: None,
                unsettled: None,
            }),
            active: Mutex::default(),
            log,
            pool,
            pace: Pace::new(options.bytes_per_second),
            scrub_pace: Pace::new(options.scrub_bytes_per_second),
            options,
            maintenance: Mutex::default(),
            base: Mutex::default(),
            compacting: RwLock::default(),
            loading: Mutex::default(),
            compacting_from: Mutex::new(interrupted),
            apart: Mutex::default(),
            runs_made: AtomicU64::new(runs_made),
            indexes_made,
            _locks: locks,
            background: Background::default(),
            scrubbed: Mutex::default(),
            #[cfg(test)]
            load_hook: Mutex::default(),
        }
    }

    /// Returns the state that readers see now, and registers it as seen by a running transaction.
    fn begin_reading(self: &Arc<Self>) -> Begun {
        // Held while the state is read, so that changes that this transaction has not seen are not forgotten.
        let mut active = self.active.lock();
        let (snapshot, position) = {
            let state = self.state.read();
            (state.snapshot.clone(), state.last)
        };
        *active.entry(position).or_default() += 1;
        Begun {
            writer: Arc::clone(self),
            snapshot,
            position,
        }
    }

    fn end_reading(&self, position: u64) {
        let mut active = self.active.lock();
        let count = active.get_mut(&position).expect("it has begun");
        *count -= 1;
        if *count == 0 {
            active.remove(&position);
        }
    }

    /// Forgets the changes that all running and future transactions have seen.
    fn forget_seen(&self, head: &mut Head) {
        let active = self.active.lock();
        let published = self.state.read().last;
        let oldest = active.keys().next().copied().unwrap_or(published);
        head.recent.forget_until(oldest.min(published));
    }

    /// Makes commits up to `last` visible to readers.
    fn publish(&self, snapshot: Snapshot, last: u64) {
        let mut state = self.state.write();
        // Commits become durable in order, but their threads may arrive here in any order.
        if last <= state.last {
            return;
        }
        state.last = last;
        let before = std::mem::replace(&mut state.snapshot, snapshot);
        // Its runs are freed while others read.
        drop(state);
        drop(before);
    }
}
