//! Writing to a store: transactions, commits in groups, recovery.
//!
//! A [`Transaction`] collects changes over a private view. Committing appends them to the log, which
//! is what makes them durable; then they are a run in memory that every new snapshot sees
//! ([`commit`]). From there they move to the device and into a new base ([`maintenance`]). When a store is opened, [`replay`] makes those runs again from the log.

mod change_set;
mod commit;
mod conflicts;
#[cfg(test)]
mod fault_tests;
mod install;
mod load;
#[cfg(test)]
mod load_tests;
mod logged;
mod maintenance;
#[cfg(test)]
mod replaced_tests;
mod replay;
mod rewriting;
#[cfg(test)]
mod rewriting_tests;
mod scrub;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, RwLock};
use pythia_io::BufferPool;
use pythia_log::Log;

pub(crate) use change_set::change_set;
pub(crate) use maintenance::Maintainer;
pub use maintenance::{MaintenanceOptions, RUNS_MAX};
pub(crate) use replay::Replay;
pub use rewriting::Rewritten;
pub use scrub::Scrubbed;
pub use transaction::{Allowance, Committed, Transaction};

use crate::StoreError;
use crate::delta::{Delta, TermStore};
use crate::manifest::Manifest;
use crate::pace::Pace;
use crate::snapshot::Snapshot;
use crate::store::{State, StoreLock};
use conflicts::RecentChanges;
use maintenance::Background;

/// The one writer of an open store.
pub(crate) struct Writer {
    /// What readers see.
    state: Arc<RwLock<State>>,
    head: Mutex<Head>,
    /// The last commits that running transactions have seen, with their number.
    active: Mutex<BTreeMap<u64, usize>>,
    log: Log,
    pool: Arc<BufferPool>,
    options: MaintenanceOptions,
    /// How fast the background may write.
    pace: Pace,
    scrub_pace: Pace,
    /// Held by whoever moves runs.
    maintenance: Mutex<()>,
    /// Held by whoever writes a new base.
    rewriting: Mutex<()>,
    /// The state that is becoming a new base, or was when that was interrupted: its runs are kept, and the
    /// log from its position on, to be replayed.
    rewriting_from: Mutex<Option<Manifest>>,
    /// Runs from this place on have what was committed since a load that is under way has compared quads: they
    /// are not merged with those before. Changes while `maintenance` is held, and when the load ends.
    apart: Mutex<Option<usize>>,
    /// The number of the last run that was written.
    runs_made: AtomicU64,
    /// Held as long as anybody may commit.
    _locks: Vec<StoreLock>,
    background: Background,
    scrubbed: Mutex<Scrubbed>,
    /// What a test does while a load is under way.
    #[cfg(test)]
    load_hook: Mutex<Option<load::LoadHook>>,
}

/// The state that the next commit builds on: ahead of what readers see by what is being written.
struct Head {
    snapshot: Snapshot,
    /// The last commit.
    last: u64,
    recent: RecentChanges,
    /// Why nothing can be committed any more.
    failed: Option<String>,
    /// The state that is to be put in place before anything else.
    unsettled: Option<NewState>,
}

/// A state that has all of the head's commits, to be put in place. All that it names is durable.
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

/// A snapshot that a transaction has begun with.
struct Begun {
    writer: Arc<Writer>,
    snapshot: Snapshot,
    position: u64,
}

impl Head {
    /// New terms since the base was written, those of commits that failed included.
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
    /// The writer of a store in this state, whose last commit is the state's. An interrupted rewrite was of
    /// the state `interrupted`.
    pub(crate) fn new(
        state: Arc<RwLock<State>>,
        log: Log,
        pool: Arc<BufferPool>,
        options: MaintenanceOptions,
        interrupted: Option<Manifest>,
        locks: Vec<StoreLock>,
    ) -> Self {
        let (snapshot, last, runs_made) = {
            let state = state.read();
            let runs = state.manifest.runs.iter().map(|run| run.id.0);
            (state.snapshot.clone(), state.last, runs.max().unwrap_or(0))
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
            rewriting: Mutex::default(),
            rewriting_from: Mutex::new(interrupted),
            apart: Mutex::default(),
            runs_made: AtomicU64::new(runs_made),
            _locks: locks,
            background: Background::default(),
            scrubbed: Mutex::default(),
            #[cfg(test)]
            load_hook: Mutex::default(),
        }
    }

    /// What readers see now, remembered as seen by a running transaction.
    fn begin_reading(self: &Arc<Self>) -> Begun {
        // Held while the state is read: what this transaction has not seen is not forgotten.
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

    /// Forgets the changes that every transaction has seen, now and later.
    fn forget_seen(&self, head: &mut Head) {
        let active = self.active.lock();
        let published = self.state.read().last;
        let oldest = active.keys().next().copied().unwrap_or(published);
        head.recent.forget_until(oldest.min(published));
    }

    /// Lets readers see commits up to `last`.
    fn publish(&self, snapshot: Snapshot, last: u64) {
        let mut state = self.state.write();
        // Commits are durable in order, but those who wait come here as they are woken.
        if last > state.last {
            state.snapshot = snapshot;
            state.last = last;
        }
    }
}
