//! A transaction: a private view of the store, and what it changes.
//!
//! What it changes is in memory until it is committed: runs of quads and new terms. Whoever begins it may
//! limit that ([`Allowance`]), and is asked before memory is taken, also for what lasts only while runs are
//! merged or committed.

use std::sync::{Arc, Weak};

use pythia_log::Position;
use pythia_rdf::{TermId, TermKey};

use super::Begun;
use super::Writer;
use super::commit::Proposal;
use super::logged::{LOGGED_BYTES, LOGGED_QUAD_BYTES, Logged};
use crate::StoreError;
use crate::delta::{Delta, Quad, Run, TermStore, TermView, is_merged};
use crate::snapshot::Snapshot;

/// What a change takes besides the rows of runs while it is made: copies, lookups, sorting.
const CHANGE_BYTES: usize = 256;
/// Quads that are changed together, at least and at most; where memory is little, they take this part of it.
const CHANGED_ROWS: (usize, usize) = (128, 8192);
const CHANGED_PART: usize = 16;
/// What a changed quad takes besides the rows of runs while it is committed: its ids and signs while they are
/// sorted.
const COMMIT_BYTES: usize = 48;
/// What a new term takes while it is committed: its number, and the one it has for all.
const NUMBER_BYTES: usize = 16;

/// Memory that a transaction may take.
pub trait Allowance: Send + Sync {
    /// Takes so much in all from now on, more or less than before.
    ///
    /// # Errors
    /// If it cannot be had, and why. What was taken before stays.
    fn set(&mut self, bytes: usize) -> Result<(), String>;

    /// How much more could be had now.
    fn left(&self) -> usize;
}

/// A transaction. It sees the store as it was when it began, with its own changes; others see
/// those when it is committed, and all at once. Dropped, it leaves nothing.
///
/// Isolation is snapshot isolation: a commit fails with [`StoreError::Conflict`] if a quad that it
/// changes was changed by a commit after the transaction began, so the first to commit wins.
pub struct Transaction {
    writer: Arc<Writer>,
    begun: Begun,
    view: Snapshot,
    /// Terms that the store does not have.
    terms: Arc<TermStore>,
    /// The runs it has made. Snapshots may have some that its view has no more.
    made: Vec<Weak<Run>>,
    allowance: Option<Box<dyn Allowance>>,
}

/// What a commit has done.
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
    pub(crate) fn new(writer: Arc<Writer>, allowance: Option<Box<dyn Allowance>>) -> Self {
        let begun = writer.begin_reading();
        let delta = begun.delta();
        let terms = Arc::new(TermStore::new(delta.terms()[0].ends()));
        let view = begun
            .snapshot
            .with_delta(delta.private(TermView::new(Arc::clone(&terms))));
        Self {
            writer,
            begun,
            view,
            terms,
            made: Vec::new(),
            allowance,
        }
    }

    /// What it sees, its own changes included.
    pub fn snapshot(&self) -> Snapshot {
        self.view.clone()
    }

    /// Memory that its changes and new terms take, about.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.made.iter().filter_map(Weak::upgrade);
        runs.map(|run| run.memory_bytes()).sum::<usize>() + self.terms.memory_bytes()
    }

    /// The ids of terms, in their order. Those that are new get ids that only this transaction's
    /// snapshots know. Reads all pages as one batch.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] before new terms are kept that do not fit.
    pub fn ids(&mut self, keys: &[TermKey<'_>]) -> Result<Vec<TermId>, StoreError> {
        let found = self.view.resolve_keys(keys)?;
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

    /// Adds quads (subject, predicate, object, graph as raw ids; graph 0 is the default graph); how
    /// many were not there.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] before changes are made that do not fit.
    pub fn insert(&mut self, quads: &[Quad]) -> Result<u64, StoreError> {
        self.change(quads, 1)
    }

    /// Removes quads; how many were there.
    ///
    /// # Errors
    /// [`StoreError::Allowance`] before changes are made that do not fit.
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
        self.charge(quads.len() * CHANGE_BYTES + self.merging_bytes(quads.len()))?;
        let mut quads = quads.to_vec();
        quads.sort_unstable();
        quads.dedup();
        let there = self.view.contains(&quads)?;
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

    fn delta(&self) -> &Arc<Delta> {
        self.view.delta().expect("a writer's snapshots have one")
    }

    /// The runs that it has made, the largest, and oldest, first.
    fn own_runs(&self) -> &[Arc<Run>] {
        &self.delta().runs()[self.begun.delta().runs().len()..]
    }

    /// Asks for what it has and so much more.
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

    /// The first of its runs that become one with another of so many rows.
    fn merged_from(&self, rows: usize) -> usize {
        let (mut rows, runs) = (rows, self.own_runs());
        let merged = runs.iter().rev().take_while(|run| {
            let is_merged = is_merged(run.len(), rows);
            rows += run.len();
            is_merged
        });
        runs.len() - merged.count()
    }

    /// Whether nobody else has its runs from one on.
    fn is_alone(&self, from: usize) -> bool {
        let runs = &self.own_runs()[from..];
        Arc::strong_count(self.delta()) == 1 && runs.iter().all(|run| Arc::strong_count(run) == 1)
    }

    /// What a new run of so many rows takes, and making it one with others, besides what those take.
    fn merging_bytes(&self, rows: usize) -> usize {
        let from = self.merged_from(rows);
        let merged: usize = self.own_runs()[from..].iter().map(|run| run.len()).sum();
        let all = match self.is_alone(from) {
            // Order by order: the rows of one are there twice.
            true => Run::bytes_of(merged + rows) / Run::ORDERS,
            false => Run::bytes_of(merged + rows),
        };
        Run::bytes_of(rows) + if merged == 0 { 0 } else { all }
    }

    /// Puts a run on top of its changes.
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

    /// Shows these runs on top of what there was.
    fn set_runs(&mut self, runs: Vec<Arc<Run>>) {
        let delta = self.delta().with_own_runs(self.begun.delta(), runs);
        self.view = self.view.with_delta(delta);
    }

    /// Makes the changes durable and visible, all at once.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another commit came first: the transaction can be done again.
    /// [`StoreError::Allowance`] if what a commit takes does not fit. Errors of the log: nothing is changed,
    /// unless the message says that it cannot be known.
    pub fn commit(self) -> Result<Committed, StoreError> {
        self.commit_with_key(None)
    }

    /// As [`Self::commit`], once for each key: if the log has a commit with this key, nothing is
    /// changed, and its position is given (Hyder §4.1).
    pub fn commit_with_key(mut self, key: Option<&str>) -> Result<Committed, StoreError> {
        let run = self.only_run()?;
        if run.len() == 0 && key.is_none() {
            return Ok(Committed {
                position: None,
                added: 0,
                removed: 0,
            });
        }
        // The new terms are there once more, for all; what is logged is there a piece at a time.
        let terms = self.terms.memory_bytes();
        let numbers = run.len() * COMMIT_BYTES + self.terms.len() * NUMBER_BYTES;
        let logged = LOGGED_BYTES.min(run.len() * LOGGED_QUAD_BYTES + terms) * 3;
        // Where a snapshot has the run too, it stays as it is if it gets other ids.
        let copied = match Arc::strong_count(&run) {
            1 => 0,
            _ => Run::bytes_of(run.len()),
        };
        self.charge(terms + numbers + logged + copied)?;
        let terms = TermView::new(Arc::clone(&self.terms));
        let logged = Logged::new(&self.writer.log, &self.view, &run, &terms)?;
        self.writer.commit(Proposal {
            begin: self.begun.position,
            base: Arc::clone(self.begun.snapshot.base()),
            run,
            terms,
            new_terms: logged.new_terms,
            changes: Arc::new(logged.changes),
            key: key.map(str::to_owned),
        })
    }

    /// All changes as one run, which the view has no more.
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
