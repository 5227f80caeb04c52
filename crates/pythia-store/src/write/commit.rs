//! Committing: a transaction is checked and applied to the *head*, the state that the next commit
//! builds on, and handed to the log, one after the other; then each waits for the log, which makes
//! all that wait durable with one write and one sync. What is durable is published for readers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pythia_log::{ChangeSet, Changes, Entry, Position, Ticket};
use pythia_rdf::{OwnedKey, TermId};
use rustc_hash::FxHashMap;

use super::transaction::Committed;
use super::{Head, Writer};
use crate::StoreError;
use crate::delta::{Quad, Run, TermView};
use crate::pattern::Order;
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// A transaction to be committed.
pub(super) struct Proposal {
    /// The last commit that it has seen.
    pub(super) begin: u64,
    /// The base that its ids are of.
    pub(super) base: Arc<Segment>,
    /// What it changes.
    pub(super) run: Arc<Run>,
    /// Its new terms with their private ids, in order.
    pub(super) new_terms: Vec<(TermId, OwnedKey)>,
    /// What it changes, as the log has it.
    pub(super) changes: ChangeSet,
    pub(super) key: Option<String>,
}

/// A commit that is in the log, if not on its device.
struct Submitted {
    ticket: Ticket,
    snapshot: Snapshot,
    last: u64,
    committed: Committed,
}

impl Writer {
    /// Commits a proposal; returns when it is durable and visible, or has failed.
    pub(super) fn commit(&self, proposal: &Proposal) -> Result<Committed, StoreError> {
        let submitted = {
            let mut head = self.head.lock();
            match self.submit(&mut head, proposal) {
                Err(StoreError::Conflict) => {
                    // Who tries again is to see what came first.
                    let came_first = self.committed_before(&head, Position(head.last))?;
                    drop(head);
                    self.log.wait(came_first.ticket)?;
                    self.publish(came_first.snapshot, came_first.last);
                    return Err(StoreError::Conflict);
                }
                submitted => submitted?,
            }
        };
        if let Err(error) = self.log.wait(submitted.ticket) {
            self.head.lock().failed = Some(error.to_string());
            return Err(error.into());
        }
        self.publish(submitted.snapshot, submitted.last);
        self.after_commit();
        Ok(submitted.committed)
    }

    /// Applies a proposal to the head and hands it to the log.
    fn submit(&self, head: &mut Head, proposal: &Proposal) -> Result<Submitted, StoreError> {
        self.check(head)?;
        if let Some(position) = proposal
            .key
            .as_deref()
            .and_then(|key| self.log.find_key(key))
        {
            return self.committed_before(head, position);
        }
        self.forget_seen(head);
        let (snapshot, changed) = apply(head, proposal)?;
        let entry = Entry {
            time: now(),
            key: proposal.key.as_deref(),
            changes: Changes::Inline(&proposal.changes),
        };
        let ticket = self.log.submit(&[entry])?;
        head.last += 1;
        head.snapshot = snapshot;
        let added = changed.iter().filter(|(_, sign)| *sign > 0).count() as u64;
        let committed = Committed {
            position: Some(Position(head.last)),
            added,
            removed: changed.len() as u64 - added,
        };
        let quads = changed.into_iter().map(|(quad, _)| quad).collect();
        head.recent.record(head.last, quads);
        Ok(Submitted {
            ticket,
            snapshot: head.snapshot.clone(),
            last: head.last,
            committed,
        })
    }

    /// A commit whose key the log has: it is to be durable, too, before anybody is told.
    fn committed_before(&self, head: &Head, position: Position) -> Result<Submitted, StoreError> {
        Ok(Submitted {
            ticket: self.log.submit(&[])?,
            snapshot: head.snapshot.clone(),
            last: head.last,
            committed: Committed {
                position: Some(position),
                added: 0,
                removed: 0,
            },
        })
    }
}

/// The head with a proposal on top, and what that changes.
fn apply(head: &Head, proposal: &Proposal) -> Result<(Snapshot, Vec<(Quad, i32)>), StoreError> {
    if !Arc::ptr_eq(&proposal.base, head.snapshot.base()) {
        return Err(StoreError::Conflict);
    }
    let ids = shared_ids(head, proposal)?;
    let changed = quads(&proposal.run, &ids);
    let mut quads = changed.iter().map(|(quad, _)| *quad);
    if head.recent.conflict(proposal.begin, &mut quads) {
        return Err(StoreError::Conflict);
    }
    // Ids are the same unless another commit has brought terms since.
    let run = match ids.is_empty() {
        true => Arc::clone(&proposal.run),
        false => Arc::new(Run::new(&changed)),
    };
    let terms = vec![TermView::new(Arc::clone(head.terms()))];
    let delta = head.delta().with_run(run, terms);
    Ok((head.snapshot.with_delta(delta), changed))
}

/// The ids that the proposal's private terms have for all, where they differ.
fn shared_ids(head: &Head, proposal: &Proposal) -> Result<FxHashMap<u64, u64>, StoreError> {
    let keys: Vec<_> = proposal
        .new_terms
        .iter()
        .map(|(_, key)| key.as_key())
        .collect();
    // Since the transaction began another may have brought them, and they may have moved on.
    let mut found = vec![None; keys.len()];
    head.delta().find_on_device(&keys, &mut found)?;
    let missing = keys.iter().zip(&found).filter(|(_, id)| id.is_none());
    let mut added = head.terms().add(missing.map(|(key, _)| *key)).into_iter();
    let id = |id: Option<TermId>| id.or_else(|| added.next()).expect("one for each missing");
    let ids: Vec<TermId> = found.iter().copied().map(id).collect();
    let pairs = proposal.new_terms.iter().zip(ids);
    let moved = pairs.filter(|((private, _), shared)| private != shared);
    Ok(moved
        .map(|((private, _), shared)| (private.0, shared.0))
        .collect())
}

/// The changed quads with shared ids.
fn quads(run: &Run, ids: &FxHashMap<u64, u64>) -> Vec<(Quad, i32)> {
    let shared = |id: u64| ids.get(&id).copied().unwrap_or(id);
    let rows = run.rows(Order::Spo).iter();
    rows.map(|(quad, added)| (quad.map(shared), if added { 1 } else { -1 }))
        .collect()
}

/// Microseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}
