//! Commits of transactions whose changes are on the device ([`super::spilled`]). As with a load, the log's copy is
//! written before the commit's turn, and other commits wait only while the run is put on top of the others.

use std::num::NonZero;
use std::sync::Arc;

use pythia_log::Position;
use pythia_rdf::{TermId, TermKind};

use super::commit::SharedIds;
use super::log_copy::LogCopy;
use super::spilled::SpilledRuns;
use super::transaction::Committed;
use super::validation::Validation;
use super::{Head, Writer};
use crate::StoreError;
use crate::delta::device::{DeviceRun, RunRows};
use crate::delta::{Quad, Run, TermView};
use crate::manifest::Unnamed;
use crate::pattern::Order;
use crate::snapshot::Snapshot;
use crate::version::Watched;

/// Rows whose ids are changed together.
const RENUMBERED_ROWS: usize = 1 << 14;
/// Memory for that.
pub(super) const RENUMBERED_BYTES: usize = RENUMBERED_ROWS * (Run::bytes_of(1) + 64);

/// A transaction with changes on the device, to be committed.
pub(super) struct LargeProposal {
    /// The last commit that it has seen.
    pub(super) begin: u64,
    /// Its state without its changes, but with its new terms.
    pub(super) view: Snapshot,
    /// Its changes, with its private ids. Nothing else refers to the run.
    pub(super) run: Arc<DeviceRun>,
    /// Its new terms.
    pub(super) terms: TermView,
    /// Parts of the store that it must find as they were when it began.
    pub(super) watched: Vec<Watched>,
    pub(super) key: Option<String>,
    /// Its reads, if it is serializable.
    pub(super) reads: Option<Validation>,
}

impl Writer {
    /// Commits a large transaction; returns when it is durable and visible, or has failed.
    pub(super) fn commit_large(
        self: &Arc<Self>,
        proposal: LargeProposal,
    ) -> Result<Committed, StoreError> {
        let unnamed = self.unnamed([proposal.run.entry().id.folder()]);
        let committed = self.commit_run(proposal, unnamed);
        if committed.as_ref().is_err_and(StoreError::is_retryable) {
            self.wait_for_others()?;
        }
        let committed = committed?;
        self.background.notify();
        self.background.wake();
        Ok(committed)
    }

    fn commit_run(
        self: &Arc<Self>,
        proposal: LargeProposal,
        unnamed: Unnamed<'_>,
    ) -> Result<Committed, StoreError> {
        let LargeProposal {
            begin,
            view,
            run,
            terms,
            watched,
            key,
            mut reads,
        } = proposal;
        let key = key.as_deref();
        // A new base would have to replay the commit.
        let _not_compacting = self.compacting.read_recursive();
        self.check_files()?;
        let ids = self.number(&view, &terms)?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let copied = LogCopy::write(&self.log, &view, &run, Vec::new(), threads)?;
        let (run, unnamed) = match ids.are_private {
            true => (run, unnamed),
            false => {
                let run = self.renumbered(&run, &ids, &view, &terms)?;
                let unnamed = self.unnamed([run.entry().id.folder()]);
                (run, unnamed)
            }
        };
        self.compare_ahead(&mut reads, key)?;
        if key.is_none_or(|key| self.log.find_key(key).is_none()) {
            refuse_changed(&self.head.lock(), begin, &watched, &run)?;
        }
        let _moving = self.maintenance.lock();
        // The changes in memory may become two runs.
        self.make_room(3)?;
        // A compaction that continues from an earlier state would have to replay the commit, too.
        self.give_up_interrupted()?;
        self.flush_alone()?;
        let mut head = self.head.lock();
        self.settle(&mut head)?;
        if let Some(position) = key.and_then(|key| self.log.find_key(key)) {
            return Ok(Committed {
                position: Some(position),
                added: 0,
                removed: 0,
            });
        }
        refuse_changed(&head, begin, &watched, &run)?;
        if let Some(reads) = &mut reads {
            let commits = head.recent.since(reads.position());
            let commits = commits.ok_or(StoreError::Outdated)?;
            reads.compare(&commits, &head.snapshot, head.last)?;
        }
        let (added, removed) = (run.entry().added.quads, run.entry().removed.quads);
        let below = head.snapshot.clone();
        let submit = |snapshot: &Snapshot| copied.submit(snapshot, &[], key);
        self.put_on_top(&mut head, &below, run, submit, unnamed)?;
        let last = head.last;
        drop(head);
        // The commit is done. Log files that are kept needlessly go with the next checkpoint.
        let _ = self.checkpoint(Position(last + 1));
        Ok(Committed {
            position: Some(Position(last)),
            added,
            removed,
        })
    }

    /// Gives shared ids to the new terms of a large transaction: they are part of the head from now on.
    fn number(&self, view: &Snapshot, terms: &TermView) -> Result<SharedIds, StoreError> {
        let mut head = self.head.lock();
        self.check(&mut head)?;
        if !view.base().shares_ids_with(head.snapshot.base()) {
            return Err(StoreError::Conflict);
        }
        let ids = SharedIds::new(&head, terms, &all_ids(terms))?;
        let terms = vec![TermView::new(Arc::clone(head.terms()))];
        let delta = head.delta().with_run(Arc::default(), terms);
        head.snapshot = head.snapshot.with_delta(delta);
        Ok(ids)
    }

    /// Returns the same changes with shared ids, as a new run.
    fn renumbered(
        self: &Arc<Self>,
        run: &Arc<DeviceRun>,
        ids: &SharedIds,
        view: &Snapshot,
        terms: &TermView,
    ) -> Result<Arc<DeviceRun>, StoreError> {
        let mut renumbered = SpilledRuns::new(self, view.base().options(), terms.first());
        let mut rows = RunRows::new(std::slice::from_ref(run), Order::Spo)?;
        let mut changes: Vec<(Quad, i32)> = Vec::with_capacity(RENUMBERED_ROWS);
        loop {
            let next = rows.next_row()?;
            let is_last = next.is_none();
            changes.extend(
                next.map(|(quad, added)| (quad.map(|id| ids.of(id)), if added { 1 } else { -1 })),
            );
            if changes.len() == RENUMBERED_ROWS || is_last && !changes.is_empty() {
                renumbered.write(&[Arc::new(Run::new(&changes))])?;
                changes.clear();
            }
            if is_last {
                let run = renumbered.into_one()?;
                return Ok(run.expect("ids change, and no quads"));
            }
        }
    }
}

/// Fails if a commit after `begin` has changed one of the run's quads, or what is watched.
fn refuse_changed(
    head: &Head,
    begin: u64,
    watched: &[Watched],
    run: &DeviceRun,
) -> Result<(), StoreError> {
    let version = head.snapshot.versioned();
    if watched
        .iter()
        .any(|watched| watched.is_changed(version, begin))
    {
        return Err(StoreError::Conflict);
    }
    let commits = head.recent.since(begin).ok_or(StoreError::Conflict)?;
    for quad in commits.iter().flat_map(|quads| quads.iter()) {
        if run.has(quad, true)? || run.has(quad, false)? {
            return Err(StoreError::Conflict);
        }
    }
    Ok(())
}

/// Returns the ids of all terms of a view, by kind, in order.
fn all_ids(terms: &TermView) -> Vec<TermId> {
    let kinds = TermKind::DICTIONARY.into_iter();
    let spans = kinds.zip(terms.first().iter().zip(terms.ends()));
    spans
        .flat_map(|(kind, (&first, &end))| (first..end).map(move |n| TermId::new(kind, n)))
        .collect()
}
