//! A transaction: a private view of the store, and its changes.
//!
//! The changes are in memory until they are committed: runs of quads and new terms. Quads that take too much of it are
//! written to the device ([`super::spilled`]). An [`Allowance`] may limit that memory; the transaction reserves from it
//! before it allocates, including memory that is needed only while runs are merged, written or committed.

use std::sync::{Arc, Weak};

use oxrdf::GraphNameRef;
use pythia_log::Position;
use pythia_rdf::{TermId, TermKey};

use super::Begun;
use super::Writer;
use super::commit::Proposal;
use super::large::{LargeProposal, RENUMBERED_BYTES};
use super::logged::{LOGGED_BYTES, LOGGED_QUAD_BYTES, Logged};
use super::spilled::{SpilledRuns, WRITING_BYTES};
use super::validation::Validation;
use crate::allowance::Allowance;
use crate::delta::device::DeviceRun;
use crate::delta::{Delta, Quad, Run, TermStore, TermView, is_merged};
use crate::pattern::{GraphFilter, Order, QuadPattern};
use crate::snapshot::{Reads, Snapshot};
use crate::version::Watched;
use crate::{Isolation, StoreError};

/// Bytes per change while it is made, in addition to the rows of runs: copies, lookups, sorting.
const CHANGE_BYTES: usize = 256;
/// Bounds of the number of quads that are changed together.
const CHANGED_ROWS: (usize, usize) = (128, 8192);
/// Quads that are changed together take one part in this many of the remaining memory, within these bounds.
const CHANGED_PART: usize = 16;
/// Changes are written to the device when they take one part in this many of the memory that the transaction may take,
/// and at least this many bytes.
const SPILLED_PART: usize = 8;
const SPILLED_BYTES_MIN: usize = 8 << 20;
/// Bytes per changed quad during a commit, in addition to the rows of runs: its ids and signs while they are sorted.
const COMMIT_BYTES: usize = 48;
/// Bytes per new term during a commit: its private id and its shared id.
const NUMBER_BYTES: usize = 16;

/// A transaction. It sees the store as of its beginning, with its own changes; others see its changes all at once
/// when it is committed. Dropping it discards its changes.
///
/// A commit fails with [`StoreError::Conflict`] if a commit after the transaction began has changed one of the same
/// quads, so the first to commit wins. With [`Isolation::Serializable`] it also fails, with [`StoreError::Outdated`], if
/// such a commit has changed what the transaction has read through its snapshots.
pub struct Transaction {
    writer: Arc<Writer>,
    begun: Begun,
    view: Snapshot,
    /// Terms that the store does not have.
    terms: Arc<TermStore>,
    /// Its changes on the device, which are older than those in memory.
    spilled: Option<SpilledRuns>,
    /// The runs in memory that it has made. Snapshots may hold some that its view has dropped.
    made: Vec<Weak<Run>>,
    watched: Vec<Watched>,
    allowance: Option<Box<dyn Allowance>>,
}

/// Options of a transaction.
#[derive(Default)]
pub struct TransactionOptions {
    /// Its protection from others.
    pub isolation: Isolation,
    /// Limit of the memory for changes.
    pub changes: Option<Box<dyn Allowance>>,
    /// Limit of the memory for what a serializable transaction has read, at most 8 MiB. If there is less, the reads are
    /// recorded more coarsely, and conflicts become more likely.
    pub reads: Option<Box<dyn Allowance>>,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number in the log; `None` if there was nothing to change.
    pub position: Option<Position>,
    /// Quads that were added.
    pub added: u64,
    /// Quads that were removed.
    pub removed: u64,
}

impl Transaction {
    pub(crate) fn new(writer: Arc<Writer>, options: TransactionOptions) -> Self {
        let begun = writer.begin_reading();
        let delta = begun.delta();
        let terms = Arc::new(TermStore::new(delta.terms()[0].ends()));
        let mut view = begun
            .snapshot
            .with_delta(delta.private(TermView::new(Arc::clone(&terms))));
        if options.isolation == Isolation::Serializable {
            view = view.recorded(Arc::new(Reads::new(options.reads)));
        }
        Self {
            writer,
            begun,
            view,
            terms,
            spilled: None,
            made: Vec::new(),
            watched: Vec::new(),
            allowance: options.changes,
        }
    }

    /// Returns a snapshot of its view, its own changes included.
    pub fn snapshot(&self) -> Snapshot {
        self.view.clone()
    }

    /// Returns the approximate memory of what it has read, if it is serializable.
    pub fn reads_bytes(&self) -> usize {
        self.view.reads().map_or(0, Reads::memory_bytes)
    }

    /// Returns the approximate memory of its changes and new terms.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.made.iter().filter_map(Weak::upgrade);
        let spilled = self.spilled.iter().map(SpilledRuns::memory_bytes);
        let runs = runs.map(|run| run.memory_bytes());
        runs.chain(spilled).sum::<usize>() + self.terms.memory_bytes()
    }

    /// Returns the ids of terms, in their order. New terms get ids that only this transaction's snapshots know. Reads
    /// all pages as one batch.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] if new terms do not fit; they are not added.
    pub fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, StoreError> {
        let found = self.view.resolve_unrecorded(keys)?;
        if found.iter().all(Option::is_some) {
            return Ok(found.into_iter().flatten().collect());
        }
        let missing = || found.iter().zip(keys).filter(|(id, _)| id.is_none());
        self.charge(self.terms.growth_bytes(missing().map(|(_, key)| *key)))?;
        let mut new = self.terms.add(missing().map(|(_, key)| *key)).into_iter();
        let terms = TermView::new(Arc::clone(&self.terms));
        self.view = self.view.with_delta(self.delta().private(terms));
        let id = |id: Option<TermId>| id.or_else(|| new.next()).expect("one for each missing");
        let ids = found.into_iter().map(id).collect();
        self.charge(0)?;
        Ok(ids)
    }

    /// Adds quads (subject, predicate, object, graph as raw ids; graph 0 is the default graph). Returns how many were
    /// not there before.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] if changes do not fit; those are not made.
    pub fn insert(&mut self, quads: &[Quad]) -> Result<u64, StoreError> {
        self.change(quads, 1)
    }

    /// Removes quads. Returns how many were there.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] if changes do not fit; those are not made.
    pub fn remove(&mut self, quads: &[Quad]) -> Result<u64, StoreError> {
        self.change(quads, -1)
    }

    fn change(&mut self, quads: &[Quad], sign: i32) -> Result<u64, StoreError> {
        let left = self.allowance.as_ref().map_or(usize::MAX, |a| a.left());
        let fitting = left / CHANGED_PART / (CHANGE_BYTES + Run::bytes_of(1));
        let (least, most) = CHANGED_ROWS;
        let mut changed = 0;
        for part in quads.chunks(fitting.clamp(least, most)) {
            changed += self.change_part(part, sign)?;
        }
        Ok(changed)
    }

    fn change_part(&mut self, quads: &[Quad], sign: i32) -> Result<u64, StoreError> {
        self.spill_if_large()?;
        self.charge(quads.len() * CHANGE_BYTES + self.merging_bytes(quads.len()))?;
        let mut quads = quads.to_vec();
        quads.sort_unstable();
        quads.dedup();
        let there = self.view.contains(&quads)?;
        self.record_unchanged(&quads, &there, sign)?;
        let changed = quads
            .iter()
            .zip(there)
            .filter(|&(_, there)| there == (sign < 0));
        let changes: Vec<(Quad, i32)> = changed.map(|(&quad, _)| (quad, sign)).collect();
        if !changes.is_empty() {
            self.add_run(Run::new(&changes));
        }
        self.charge(0)?;
        Ok(changes.len() as u64)
    }

    /// Makes the commit conflict if another has changed this graph (`None`: any graph) since the transaction began.
    /// Changes of nothing never conflict.
    pub fn watch(&mut self, graph: Option<GraphNameRef<'_>>) {
        self.watched.push(Watched::of(graph));
    }

    /// Records the quads that a change leaves as they were when the transaction began: their state was read. All others
    /// are compared with those of other commits as changes.
    fn record_unchanged(
        &self,
        quads: &[Quad],
        there: &[bool],
        sign: i32,
    ) -> Result<(), StoreError> {
        if self.view.reads().is_none() {
            return Ok(());
        }
        for (quad, &there) in quads.iter().zip(there) {
            let is_changed = there == (sign < 0);
            // A change of one of its own changes undoes that.
            if !is_changed || self.has_changed(quad)? {
                self.view.depend_on(&exactly(quad));
            }
        }
        Ok(())
    }

    /// Returns whether one of its own runs has a quad.
    fn has_changed(&self, quad: &Quad) -> Result<bool, StoreError> {
        let has = |run: &Arc<Run>| !run.rows(Order::Spo).range(quad).is_empty();
        if self.own_runs().iter().any(has) {
            return Ok(true);
        }
        for run in self.spilled.iter().flat_map(SpilledRuns::runs) {
            if run.has(quad, true)? || run.has(quad, false)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn delta(&self) -> &Arc<Delta> {
        self.view.delta().expect("a writer's snapshots have one")
    }

    /// Returns its runs in memory, the largest and oldest first.
    fn own_runs(&self) -> &[Arc<Run>] {
        &self.delta().runs()[self.begun.delta().runs().len()..]
    }

    /// Reserves its current memory plus `more` bytes.
    fn charge(&mut self, more: usize) -> Result<(), StoreError> {
        let bytes = self.memory_bytes().saturating_add(more);
        match &mut self.allowance {
            Some(allowance) => {
                let taken = allowance.set(bytes);
                taken.map_err(|message| StoreError::Allowance { message })
            }
            None => Ok(()),
        }
    }

    /// Returns the index of the first of its runs that are merged with a new one of this many rows.
    fn merged_from(&self, rows: usize) -> usize {
        let (mut rows, runs) = (rows, self.own_runs());
        let merged = runs.iter().rev().take_while(|run| {
            let is_merged = is_merged(run.len(), rows);
            rows += run.len();
            is_merged
        });
        runs.len() - merged.count()
    }

    /// Returns whether nothing else refers to its runs from this index on.
    fn is_alone(&self, from: usize) -> bool {
        let runs = &self.own_runs()[from..];
        Arc::strong_count(self.delta()) == 1 && runs.iter().all(|run| Arc::strong_count(run) == 1)
    }

    /// Returns the additional bytes for a new run of this many rows and for merging it with others.
    fn merging_bytes(&self, rows: usize) -> usize {
        let from = self.merged_from(rows);
        let merged: usize = self.own_runs()[from..].iter().map(|run| run.len()).sum();
        let all = match self.is_alone(from) {
            // Merged order by order: only the rows of one order exist twice.
            true => Run::bytes_of(merged + rows) / Run::ORDERS,
            false => Run::bytes_of(merged + rows),
        };
        Run::bytes_of(rows) + if merged == 0 { 0 } else { all }
    }

    /// Adds a run to its changes.
    fn add_run(&mut self, run: Run) {
        let mut runs = self.own_runs().to_vec();
        let merged = runs.split_off(self.merged_from(run.len()));
        self.set_runs(runs.clone());
        let run = Arc::new(Run::merged_owned(
            merged.into_iter().chain([Arc::new(run)]).collect(),
        ));
        self.made.retain(|made| made.strong_count() > 0);
        self.made.push(Arc::downgrade(&run));
        if run.len() > 0 {
            runs.push(run);
        }
        self.set_runs(runs);
    }

    /// Replaces its runs in memory by these.
    fn set_runs(&mut self, runs: Vec<Arc<Run>>) {
        let spilled = self.spilled.as_ref().map_or(&[][..], SpilledRuns::runs);
        let delta = self
            .delta()
            .with_own_runs(self.begun.delta(), spilled, runs);
        self.view = self.view.with_delta(delta);
    }

    /// Writes its changes in memory to the device if they take too much of it, and there is memory to do so.
    fn spill_if_large(&mut self) -> Result<(), StoreError> {
        let runs = self.own_runs().iter();
        let bytes: usize = runs.map(|run| run.memory_bytes()).sum();
        let left = self.allowance.as_ref().map_or(usize::MAX, |a| a.left());
        let share = (left.saturating_add(bytes) / SPILLED_PART).max(SPILLED_BYTES_MIN);
        let limit = self.writer.options.transaction_bytes.min(share);
        if bytes < limit || left < WRITING_BYTES {
            return Ok(());
        }
        self.spill()
    }

    /// Writes its changes in memory to the device.
    fn spill(&mut self) -> Result<(), StoreError> {
        let runs = self.own_runs().to_vec();
        if runs.is_empty() {
            return Ok(());
        }
        self.charge(WRITING_BYTES)?;
        self.spilled().write(&runs)?;
        drop(runs);
        self.set_runs(Vec::new());
        self.made.retain(|made| made.strong_count() > 0);
        self.charge(0)
    }

    /// Returns the state that it sees.
    pub(super) fn view(&self) -> &Snapshot {
        &self.view
    }

    /// Returns the bytes of changes in memory from which on they are written to the device.
    pub(super) fn spilled_from(&self) -> usize {
        self.writer.options.transaction_bytes
    }

    /// Returns whether its memory can grow by this many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        let left = self.allowance.as_ref().map_or(usize::MAX, |a| a.left());
        bytes <= left
    }

    /// Makes changes on the device, given the rows of each order, which `rows` finds in the state that it sees: `count`
    /// at most. Takes up to `bytes` meanwhile.
    pub(super) fn spill_rows<R: Iterator<Item = Result<([u64; 4], bool), StoreError>>>(
        &mut self,
        count: u64,
        bytes: usize,
        rows: impl Fn(&Snapshot, Order) -> Result<R, StoreError> + Sync,
    ) -> Result<(), StoreError> {
        // Later changes come after earlier ones.
        self.spill()?;
        self.charge(bytes)?;
        let view = self.view.clone();
        self.spilled()
            .write_rows(count, |order| rows(&view, order))?;
        drop(view);
        self.set_runs(Vec::new());
        self.charge(0)
    }

    /// Returns its runs on the device.
    fn spilled(&mut self) -> &mut SpilledRuns {
        let options = self.begun.snapshot.base().options();
        let new = || SpilledRuns::new(&self.writer, options, self.begun.delta().terms()[0].ends());
        self.spilled.get_or_insert_with(new)
    }

    /// Makes the changes durable and visible, all at once.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] or [`StoreError::Outdated`] if another commit came first: the transaction can be tried
    /// again.
    /// [`StoreError::Allowance`] if the commit's memory does not fit. Errors of the log: nothing is changed, unless
    /// the message says that the outcome is unknown.
    pub fn commit(self) -> Result<Committed, StoreError> {
        self.commit_with_key(None)
    }

    /// As [`Self::commit`], once for each key: if the log has a commit with this key, changes nothing and returns
    /// that commit's position (Hyder §4.1).
    pub fn commit_with_key(mut self, key: Option<&str>) -> Result<Committed, StoreError> {
        if let Some(run) = self.spilled_run()? {
            return self.commit_spilled(run, key);
        }
        let run = self.only_run()?;
        if run.len() == 0 && key.is_none() {
            return Ok(Committed {
                position: None,
                added: 0,
                removed: 0,
            });
        }
        // The commit copies the new terms to the shared store, and logs the changes one piece at a time.
        let terms = self.terms.memory_bytes();
        let numbers = run.len() * COMMIT_BYTES + self.terms.len() * NUMBER_BYTES;
        let logged = LOGGED_BYTES.min(run.len() * LOGGED_QUAD_BYTES + terms) * 3;
        // If a snapshot shares the run, giving it other ids needs a copy.
        let copied = match Arc::strong_count(&run) {
            1 => 0,
            _ => Run::bytes_of(run.len()),
        };
        self.charge(terms + numbers + logged + copied)?;
        let terms = TermView::new(Arc::clone(&self.terms));
        let logged = Logged::new(&self.writer.log, &self.view, &run, &terms)?;
        let reads = self.view.reads().and_then(Reads::take);
        self.writer.commit(Proposal {
            reads: reads
                .map(|reads| Validation::new(reads, &self.begun.snapshot, self.begun.position)),
            begin: self.begun.position,
            base: Arc::clone(self.begun.snapshot.base()),
            run,
            terms,
            new_terms: logged.new_terms,
            changes: Arc::new(logged.changes),
            changed: logged.changed,
            watched: self.watched.clone(),
            key: key.map(str::to_owned),
        })
    }

    /// Takes all changes out of the view, as one run on the device, if some of them are there and not all cancel. From now
    /// on the caller removes it.
    pub(super) fn spilled_run(&mut self) -> Result<Option<Arc<DeviceRun>>, StoreError> {
        if self.spilled.is_none() {
            return Ok(None);
        }
        self.spill()?;
        self.charge(WRITING_BYTES)?;
        let spilled = self.spilled.take();
        self.set_runs(Vec::new());
        let Some(run) = spilled.map_or(Ok(None), SpilledRuns::into_one)? else {
            return Ok(None);
        };
        // Snapshots may refer to a run that was not merged.
        Ok(Some(match Arc::try_unwrap(run) {
            Ok(run) => Arc::new(run),
            Err(shared) => {
                let unnamed = self.writer.unnamed([shared.entry().id.folder()]);
                let run = DeviceRun::open(&self.writer.pool, shared.entry())?;
                unnamed.keep();
                Arc::new(run)
            }
        }))
    }

    /// Commits changes on the device.
    pub(super) fn commit_spilled(
        mut self,
        run: Arc<DeviceRun>,
        key: Option<&str>,
    ) -> Result<Committed, StoreError> {
        let of_terms = match self.terms.len() {
            0 => 0,
            terms => self.terms.memory_bytes() + terms * 2 * NUMBER_BYTES + RENUMBERED_BYTES,
        };
        let charged = self.charge(run.memory_bytes() + of_terms + WRITING_BYTES);
        if let Err(error) = charged {
            drop(self.writer.unnamed([run.entry().id.folder()]));
            return Err(error);
        }
        let reads = self.view.reads().and_then(Reads::take);
        self.writer.commit_large(LargeProposal {
            begin: self.begun.position,
            view: self.view.clone(),
            run,
            terms: TermView::new(Arc::clone(&self.terms)),
            watched: self.watched.clone(),
            key: key.map(str::to_owned),
            reads: reads
                .map(|reads| Validation::new(reads, &self.begun.snapshot, self.begun.position)),
        })
    }

    /// Takes all changes out of the view, as one run.
    fn only_run(&mut self) -> Result<Arc<Run>, StoreError> {
        let rows: usize = self.own_runs().iter().map(|run| run.len()).sum();
        let is_one = self.own_runs().len() == 1;
        let more = match (is_one, self.is_alone(0)) {
            (true, _) => 0,
            (_, true) => Run::bytes_of(rows) / Run::ORDERS,
            (_, false) => Run::bytes_of(rows),
        };
        self.charge(more)?;
        let runs = self.own_runs().to_vec();
        self.set_runs(Vec::new());
        let run = match &runs[..] {
            [run] => Arc::clone(run),
            _ => Arc::new(Run::merged_owned(runs)),
        };
        self.made.retain(|made| made.strong_count() > 0);
        self.made.push(Arc::downgrade(&run));
        Ok(run)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.writer.end_reading(self.position);
    }
}

/// Returns the pattern that matches a single quad.
fn exactly(&[subject, predicate, object, graph]: &Quad) -> QuadPattern {
    QuadPattern {
        subject: Some(TermId(subject)),
        predicate: Some(TermId(predicate)),
        object: Some(TermId(object)),
        graph: GraphFilter::One(TermId(graph)),
    }
}
