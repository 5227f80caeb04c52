//! Replay of the log into runs in memory.

use std::sync::Arc;

use pythia_log::{ChangeSet, Commit, LogError, LogTerm, NO_GRAPH};
use pythia_rdf::{TermId, TermKey};

use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::{Delta, KindCounts, Quad, Run, TermStore, TermView};
use crate::snapshot::Snapshot;
use crate::version::{ChangedGraphs, Version};

/// Changes per run.
const RUN_CHANGES: usize = 1 << 16;

/// Returns the payload of the next new term of each kind.
pub(super) fn first_new(base_terms: &KindCounts, runs: &[Arc<DeviceRun>]) -> KindCounts {
    let mut first = *base_terms;
    for run in runs {
        run.entry().raise(&mut first);
    }
    first
}

/// A snapshot to which commits are applied one after the other.
pub(crate) struct Replay {
    snapshot: Snapshot,
    terms: Arc<TermStore>,
    last: u64,
    /// Changes that are not yet in the snapshot.
    changes: Vec<(Quad, i32)>,
}

impl Replay {
    /// Begins with a base and runs on the device that have all commits up to `last`.
    pub(crate) fn new(snapshot: &Snapshot, runs: Vec<Arc<DeviceRun>>, last: u64) -> Self {
        let base_terms = snapshot.base_terms();
        let terms = Arc::new(TermStore::new(&first_new(&base_terms, &runs)));
        let delta = Delta::new(base_terms, runs, TermView::new(Arc::clone(&terms)));
        Self {
            snapshot: snapshot.with_delta(delta),
            terms,
            last,
            changes: Vec::new(),
        }
    }

    /// Applies commits.
    pub(crate) fn commits(
        &mut self,
        commits: impl Iterator<Item = Result<Commit, LogError>>,
    ) -> Result<(), StoreError> {
        for commit in commits {
            self.commit(&commit?)?;
        }
        self.settle();
        Ok(())
    }

    /// Applies a commit; [`Self::settle`] completes its effect on the snapshot.
    pub(crate) fn commit(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let mut changed = ChangedGraphs::default();
        for changes in commit.changes() {
            let changes = changes?;
            changed.add(&changes);
            self.apply(&changes)?;
        }
        self.last = commit.position.0;
        let version = Version {
            position: self.last,
            time: commit.time,
        };
        let version = self.snapshot.versioned().committed(&changed, version);
        self.snapshot = self.snapshot.with_version(version);
        Ok(())
    }

    fn apply(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        let ids = self.ids(changes)?;
        let id = |index: u32| match index {
            NO_GRAPH => 0,
            index => ids[index as usize].0,
        };
        let changes = changes.changes().iter();
        self.changes
            .extend(changes.map(|change| (change.quad.map(id), if change.added { 1 } else { -1 })));
        if self.changes.len() >= RUN_CHANGES {
            self.settle();
        }
        Ok(())
    }

    /// Returns the ids of the terms of a change set, adding new terms.
    fn ids(&self, changes: &ChangeSet) -> Result<Vec<TermId>, StoreError> {
        let mut ids = Vec::with_capacity(changes.terms().len());
        let (mut keys, mut places): (Vec<TermKey<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
        for (index, term) in changes.terms().enumerate() {
            match term {
                LogTerm::Inline(id) => ids.push(id),
                LogTerm::Key(key) => {
                    ids.push(TermId::UNBOUND);
                    keys.push(key);
                    places.push(index);
                }
            }
        }
        let stored = self.snapshot.resolve_stored(&keys)?;
        let missing = keys.iter().zip(&stored).filter(|(_, id)| id.is_none());
        let mut new = self.terms.add(missing.map(|(key, _)| *key)).into_iter();
        for (place, id) in places.into_iter().zip(stored) {
            ids[place] = id.or_else(|| new.next()).expect("one for each missing");
        }
        Ok(ids)
    }

    /// Turns the pending changes into a run.
    pub(crate) fn settle(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let run = Arc::new(Run::new(&self.changes));
        self.changes.clear();
        let terms = vec![TermView::new(Arc::clone(&self.terms))];
        let delta = self.delta().with_run(run, terms);
        self.snapshot = self.snapshot.with_delta(delta);
    }

    /// Returns the snapshot so far.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// Returns the last commit that was applied.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the approximate memory of applied changes that are not on the device.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.delta().memory_bytes() + self.changes.len() * size_of::<(Quad, i32)>()
    }

    /// Returns the runs on the device, the oldest first.
    pub(crate) fn device(&self) -> &[Arc<DeviceRun>] {
        self.delta().device()
    }

    /// Replaces the runs on the device after a merge.
    pub(crate) fn merged(&mut self, device: Vec<Arc<DeviceRun>>) {
        let merged = self.delta().with_device(device);
        self.snapshot = self.snapshot.with_delta(merged);
    }

    /// Replaces the changes so far by a run on the device.
    pub(crate) fn flushed(&mut self, delta: &Delta, run: Arc<DeviceRun>) {
        let flushed = self.delta().flushed(delta, run);
        self.terms = Arc::clone(flushed.terms()[0].store());
        self.snapshot = self.snapshot.with_delta(flushed);
    }

    fn delta(&self) -> &Delta {
        self.snapshot.delta().expect("it was made with one")
    }

    /// Returns the snapshot and its last commit.
    pub(crate) fn finish(self) -> (Snapshot, u64) {
        (self.snapshot, self.last)
    }
}
