//! Loading into a store that has quads: a run is built concurrently with commits and published atomically.
//!
//! Commits wait twice, and only for the work that concurrent commits have caused: while the load's new terms become
//! part of the store, and while its run does. In between, quads are compared with the state that has these terms, the
//! *ground*. Later commits may add and remove quads that are also loaded; as the load is ordered after them, their
//! changes to such quads are undone right before it. Then the load's run may add exactly the quads that the ground
//! lacks, and all runs stay normalised. A load that replaces graphs undoes all later changes to their quads, and its run
//! also removes the quads of the ground that are not loaded.

use std::sync::Arc;

use oxrdf::GraphNameRef;
use pythia_log::Position;
use pythia_rdf::{Source, TermId};

use super::install::on_device;
use super::log_copy::LogCopy;
use super::maintenance::log_of;
use super::{Head, Writer};
use crate::StoreError;
use crate::delta::device::{DeviceRun, RunRows};
use crate::delta::{Delta, KindCounts, MergedRows, Quad, Run};
use crate::load::live::{self, Loaded, NewTerms, ParsedLoad, ResolvedLoad, RunTarget, ends};
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::manifest::Unnamed;
use crate::pattern::Order;
use crate::snapshot::{Snapshot, WholeGraphs};

/// Number of times that the new terms are rewritten concurrently with commits that have added some of them; after
/// that they are rewritten once more while commits wait.
const TRIES: usize = 3;

/// Decides about a load right before it becomes visible, given the state that its quads are added to. Commits wait for
/// it.
pub type LoadCheck<'c> =
    &'c dyn Fn(&Snapshot) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The quads that a load replaces: they are removed in the same commit, unless they are loaded again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replaced<'g> {
    /// Quads are only added.
    #[default]
    Nothing,
    /// All quads of a graph.
    Graph(GraphNameRef<'g>),
    /// All quads of all graphs.
    All,
}

impl Replaced<'_> {
    /// Returns the graphs by id; `None` if the snapshot has no quads of them.
    fn in_snapshot(self, snapshot: &Snapshot) -> Result<Option<WholeGraphs>, StoreError> {
        let graph = match self {
            Self::Nothing => return Ok(None),
            Self::All => return Ok(Some(WholeGraphs::All)),
            Self::Graph(GraphNameRef::DefaultGraph) => Some(TermId::DEFAULT_GRAPH),
            Self::Graph(GraphNameRef::NamedNode(graph)) => snapshot.resolve(graph.into())?,
            Self::Graph(GraphNameRef::BlankNode(graph)) => snapshot.resolve(graph.into())?,
        };
        Ok(graph.map(WholeGraphs::One))
    }
}

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LoadStep {
    /// Its terms were looked up, or those added by commits were left out.
    Resolved,
    /// Its new terms are part of the store.
    Placed,
    /// Its run is written.
    Written,
    /// The log's copy of the run is written.
    Copied,
    /// Commits are about to wait; runs are already not written or merged.
    AlmostDone,
}

/// The state that a load's quads are compared with: it has all terms of the load, and all its changes are on the
/// device.
struct Ground<'w> {
    snapshot: Snapshot,
    /// By kind, the payload of the first term that the load has added.
    first_terms: KindCounts,
    /// Keeps later commits in runs of their own.
    _apart: Apart<'w>,
}

/// A guard against merging runs across an index.
struct Apart<'w>(&'w Writer);

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        *self.0.apart.lock() = None;
    }
}

impl Writer {
    /// Adds the quads of the sources that the store lacks, in place of those that are replaced, as one commit, if
    /// `check` accepts the state before.
    pub(crate) fn load(
        &self,
        sources: Vec<Source>,
        replaced: Replaced<'_>,
        options: &LoadOptions,
        progress: &Arc<LoadProgress>,
        check: LoadCheck<'_>,
    ) -> Result<LoadReport, LoadError> {
        let parsed = live::parse(sources, options, progress)?;
        let _alone = self.loading.lock();
        // A new base would have to replay the load.
        let _not_compacting = self.compacting.read();
        self.check_files()?;
        let mut unnamed = self.unnamed([]);
        let mut resolved = self.resolve(parsed, &mut unnamed)?;
        self.reached(LoadStep::Resolved);
        let ground = self.place_terms(&mut resolved.new_terms, unnamed)?;
        self.reached(LoadStep::Placed);
        let id = self.next_run();
        let unnamed = self.unnamed([id.folder()]);
        let target = RunTarget {
            pool: &self.pool,
            id,
            snapshot: &ground.snapshot,
            first_terms: ground.first_terms,
            replaced: replaced.in_snapshot(&ground.snapshot)?,
        };
        let loaded = resolved.write_run(&target)?;
        self.reached(LoadStep::Written);
        let threads = options.threads();
        let report = self.publish_load(loaded, replaced, &ground, unnamed, threads, check)?;
        drop(ground);
        self.background.notify();
        self.background.wake();
        Ok(report)
    }

    /// Looks the terms up in the state that readers see now.
    fn resolve(
        &self,
        parsed: ParsedLoad,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<ResolvedLoad, LoadError> {
        let snapshot = self.state.read().snapshot.clone();
        let id = self.next_run();
        unnamed.push(id.folder());
        parsed.resolve(&RunTarget {
            pool: &self.pool,
            id,
            snapshot: &snapshot,
            first_terms: ends(&snapshot),
            replaced: None,
        })
    }

    /// Adds the new terms to the store, with ids that follow the existing ones.
    fn place_terms(
        &self,
        terms: &mut NewTerms,
        mut unnamed: Unnamed<'_>,
    ) -> Result<Ground<'_>, LoadError> {
        let mut tries = 0;
        loop {
            let moving = self.maintenance.lock();
            // The changes in memory may become two runs, the terms another.
            self.make_room(3)?;
            // A compaction that continues from an earlier state would have to replay the load, too.
            self.give_up_interrupted()?;
            let mut head = self.flushed_head()?;
            self.settle(&mut head)?;
            let found = terms.found_in(&head.snapshot)?;
            if found.is_empty() {
                return self.install_terms(&mut head, terms, unnamed);
            }
            let snapshot = head.snapshot.clone();
            if tries < TRIES {
                tries += 1;
                drop((head, moving));
                self.background.notify();
                self.leave_out(terms, found, &snapshot, &mut unnamed)?;
                self.reached(LoadStep::Resolved);
                continue;
            }
            self.leave_out(terms, found, &snapshot, &mut unnamed)?;
            return self.install_terms(&mut head, terms, unnamed);
        }
    }

    /// Leaves out terms that concurrent commits have added.
    fn leave_out(
        &self,
        terms: &mut NewTerms,
        found: Vec<(u64, u64)>,
        snapshot: &Snapshot,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let old = terms.run().map(|run| run.entry().id.folder());
        let id = self.next_run();
        unnamed.push(id.folder());
        terms.leave_out(found, snapshot, (&self.pool, id))?;
        if let Some(old) = old {
            // Best effort: the next writer removes what remains.
            let _ = self.pool.storage().remove(&old);
        }
        Ok(())
    }

    /// Puts the new terms on top of the head, whose changes are all on the device.
    fn install_terms(
        &self,
        head: &mut Head,
        terms: &mut NewTerms,
        unnamed: Unnamed<'_>,
    ) -> Result<Ground<'_>, LoadError> {
        let first_terms = ends(&head.snapshot);
        if let Some((entry, run)) = terms.place_behind(&head.snapshot) {
            let mut device = head.delta().device().to_vec();
            device.push(run);
            let snapshot = on_device(&head.snapshot, device);
            let mut manifest = self.manifest();
            manifest.runs.push(entry);
            log_of(&mut manifest).position = Position(head.last + 1);
            self.install(head, manifest, snapshot, unnamed)?;
        }
        *self.apart.lock() = Some(head.delta().device().len());
        self.background.notify();
        Ok(Ground {
            snapshot: head.snapshot.clone(),
            first_terms,
            _apart: Apart(self),
        })
    }

    /// Commits the load's run to the log, and puts it on top of the head.
    fn publish_load(
        &self,
        mut loaded: Loaded,
        replaced: Replaced<'_>,
        ground: &Ground<'_>,
        unnamed: Unnamed<'_>,
        threads: usize,
        check: LoadCheck<'_>,
    ) -> Result<LoadReport, LoadError> {
        let copy = |loaded: &Loaded, left_out| {
            let (log, snapshot) = (&self.log, &ground.snapshot);
            LogCopy::write(log, snapshot, &loaded.run, left_out, threads)
        };
        let corrections = self.corrections_so_far(&mut loaded, replaced)?;
        let mut copied = copy(&loaded, Corrections::new(&corrections, &loaded)?.left_out)?;
        self.reached(LoadStep::Copied);
        // Corrects for commits made meanwhile, and once more, while commits wait, for those made during that.
        let _moving = self.maintenance.lock();
        self.make_room(3)?;
        self.flush_alone()?;
        // A snapshot that is held would keep files that the load is about to remove.
        let visible = self.state.read().snapshot.clone();
        loaded.replace_new(replaced.in_snapshot(&visible)?);
        drop(visible);
        let mut corrections = correct_device(&mut loaded, &self.runs_since_ground())?;
        let left_out = Corrections::new(&corrections, &loaded)?.left_out;
        if left_out != copied.left_out {
            copied = copy(&loaded, left_out)?;
        }
        self.reached(LoadStep::AlmostDone);
        let mut head = self.head.lock();
        self.settle(&mut head)?;
        check(&head.snapshot).map_err(LoadError::Refused)?;
        loaded.replace_new(replaced.in_snapshot(&head.snapshot)?);
        correct_memory(&mut loaded, head.delta(), &mut corrections)?;
        let corrections = Corrections::new(&corrections, &loaded)?;
        if corrections.left_out != copied.left_out {
            copied = copy(&loaded, corrections.left_out.clone())?;
        }
        let report = corrections.report(&loaded);
        if report.quads + report.removed_quads > 0 {
            self.put_load_on_top(&mut head, loaded.run, corrections, copied, unnamed)?;
            let last = head.last;
            drop(head);
            // The load is done. Log files that are kept needlessly go with the next checkpoint.
            let _ = self.checkpoint(Position(last + 1));
        }
        Ok(report)
    }

    /// Returns the corrections that undo commits since the ground, as far as readers see them now.
    fn corrections_so_far(
        &self,
        loaded: &mut Loaded,
        replaced: Replaced<'_>,
    ) -> Result<Vec<(Quad, i32)>, LoadError> {
        let (runs, snapshot) = {
            let _moving = self.maintenance.lock();
            self.check(&mut self.head.lock())?;
            (self.runs_since_ground(), self.state.read().snapshot.clone())
        };
        loaded.replace_new(replaced.in_snapshot(&snapshot)?);
        let mut corrections = correct_device(loaded, &runs)?;
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        correct_memory(loaded, delta, &mut corrections)?;
        Ok(corrections)
    }

    /// Returns the runs on the device with commits since the ground. The caller holds `maintenance`, and no state
    /// waits to be put in place.
    fn runs_since_ground(&self) -> Vec<Arc<DeviceRun>> {
        let snapshot = self.state.read().snapshot.clone();
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        let first = self.apart.lock().expect("a load is under way");
        delta.device()[first..].to_vec()
    }

    /// Commits a load: puts the corrections, together with the changes in memory, on top of the head, and then the
    /// load's run.
    fn put_load_on_top(
        &self,
        head: &mut Head,
        run: Arc<DeviceRun>,
        corrections: Corrections,
        copied: LogCopy<'_>,
        unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let Corrections {
            run: undone, more, ..
        } = corrections;
        let delta = head.delta();
        let terms = delta.terms().to_vec();
        let mended = delta.with_run(Arc::new(undone), terms);
        let mended = head.snapshot.with_delta(mended);
        let submit = |snapshot: &Snapshot| copied.submit(snapshot, &more, None);
        self.put_on_top(head, &mended, run, submit, unnamed)
    }

    /// Reports a load's progress to a test.
    #[cfg(test)]
    fn reached(&self, step: LoadStep) {
        let hook = self.load_hook.lock().clone();
        if let Some(hook) = hook {
            hook(step);
        }
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "in tests it is used")]
    fn reached(&self, _: LoadStep) {}
}

/// Called when a load reaches a step; set by tests.
#[cfg(test)]
pub(super) type LoadHook = Arc<dyn Fn(LoadStep) + Send + Sync>;

/// Returns the corrections that undo changes by runs on the device to loaded quads.
fn correct_device(
    loaded: &mut Loaded,
    runs: &[Arc<DeviceRun>],
) -> Result<Vec<(Quad, i32)>, LoadError> {
    let mut rows = RunRows::new(runs, Order::Spo)?;
    let mut corrections = Vec::new();
    let changes = std::iter::from_fn(|| rows.next_row().transpose());
    loaded.correct(changes, &mut corrections)?;
    Ok(corrections)
}

/// Appends the corrections that undo changes in memory to loaded quads.
fn correct_memory(
    loaded: &mut Loaded,
    delta: &Delta,
    corrections: &mut Vec<(Quad, i32)>,
) -> Result<(), LoadError> {
    let changes = MergedRows::new(delta.runs(), Order::Spo).map(Ok);
    loaded.correct(changes, corrections)
}

/// The changes that undo commits since the ground, as far as they affect quads of the load.
struct Corrections {
    run: Run,
    /// Changes of the load's run that commits have made already, sorted: the load does not make them.
    left_out: Vec<Quad>,
    /// The number of removed quads among them.
    removals_left_out: usize,
    /// Changes that the load makes in addition to its run: a commit had changed a quad that the load leaves as it was in
    /// the ground.
    more: Vec<(Quad, bool)>,
}

impl Corrections {
    fn new(changes: &[(Quad, i32)], loaded: &Loaded) -> Result<Self, StoreError> {
        let mut corrections = Self {
            run: Run::new(changes),
            left_out: Vec::new(),
            removals_left_out: 0,
            more: Vec::new(),
        };
        for (quad, is_added) in corrections.run.rows(Order::Spo).iter() {
            if loaded.run.has(&quad, !is_added)? {
                corrections.left_out.push(quad);
                corrections.removals_left_out += usize::from(is_added);
            } else {
                corrections.more.push((quad, is_added));
            }
        }
        Ok(corrections)
    }

    /// Returns the report on a load, adjusted for the commits before it.
    fn report(&self, loaded: &Loaded) -> LoadReport {
        let report = loaded.report.clone();
        let added = self.more.iter().filter(|(_, is_added)| *is_added).count();
        let removed = self.more.len() - added;
        let left_out = (self.left_out.len() - self.removals_left_out) as u64;
        LoadReport {
            quads: report.quads + added as u64 - left_out,
            known_quads: report.known_quads + left_out - added as u64,
            removed_quads: report.removed_quads + removed as u64 - self.removals_left_out as u64,
            ..report
        }
    }
}
