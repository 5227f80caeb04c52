//! Committing: one after the other, transactions are checked, applied to the *head* (the state that the next commit
//! builds on) and handed to the log. Then each waits for the log, which makes all waiting commits durable with one
//! write and one sync. Durable commits are published for readers.

use std::sync::Arc;

use pythia_io::system;
use pythia_log::{Changes, Entry, Position, Ticket};
use pythia_rdf::{OwnedKey, TermId, TermKind};

use super::logged::LoggedChanges;
use super::transaction::Committed;
use super::validation::Validation;
use super::{Head, Writer};
use crate::StoreError;
use crate::delta::{Run, TermView, kind_index};
use crate::segment::Segment;
use crate::snapshot::Snapshot;
use crate::version::{ChangedGraphs, Version, Watched};

/// A transaction to be committed.
pub(super) struct Proposal {
    /// The last commit that it has seen.
    pub(super) begin: u64,
    /// The base that its ids belong to.
    pub(super) base: Arc<Segment>,
    /// Its changes.
    pub(super) run: Arc<Run>,
    /// Its new terms, and the private ids of those that it uses, in order.
    pub(super) terms: TermView,
    pub(super) new_terms: Vec<TermId>,
    /// Its changes in the form of the log.
    pub(super) changes: Arc<LoggedChanges>,
    /// Their graphs.
    pub(super) changed: ChangedGraphs,
    /// Parts of the store that it must find as they were when it began.
    pub(super) watched: Vec<Watched>,
    pub(super) key: Option<String>,
    /// Its reads, if it is serializable.
    pub(super) reads: Option<Validation>,
}

/// Number of new terms that get their ids together.
const NUMBERED_TERMS: usize = 4096;

/// A commit that was handed to the log, but may not be durable yet.
struct Submitted {
    ticket: Ticket,
    snapshot: Snapshot,
    last: u64,
    committed: Committed,
}

impl Writer {
    /// Commits a proposal; returns when it is durable and visible, or has failed.
    pub(super) fn commit(&self, proposal: Proposal) -> Result<Committed, StoreError> {
        let aside = match &*proposal.changes {
            LoggedChanges::Many(bulk) => Some(bulk.clone()),
            LoggedChanges::Few(_) => None,
        };
        let mut is_logged = false;
        let submitted = self.submit(proposal, &mut is_logged);
        if let Some(bulk) = aside.filter(|_| !is_logged) {
            self.log.discard(bulk.name());
        }
        let submitted = match submitted {
            Err(error) if error.is_retryable() => {
                self.wait_for_others()?;
                return Err(error);
            }
            submitted => submitted?,
        };
        if let Err(error) = self.log.wait(submitted.ticket) {
            self.head.lock().failed = Some(error.to_string());
            return Err(error.into());
        }
        self.publish(submitted.snapshot, submitted.last);
        self.after_commit();
        Ok(submitted.committed)
    }

    /// Waits for the commits so far, so that a transaction that conflicts with one of them sees it when it is retried.
    pub(super) fn wait_for_others(&self) -> Result<(), StoreError> {
        let others = {
            let head = self.head.lock();
            self.committed_before(&head, Position(head.last))?
        };
        self.log.wait(others.ticket)?;
        self.publish(others.snapshot, others.last);
        Ok(())
    }

    /// Applies a proposal to the head and hands it to the log.
    fn submit(
        &self,
        mut proposal: Proposal,
        is_logged: &mut bool,
    ) -> Result<Submitted, StoreError> {
        self.compare_ahead(&mut proposal.reads, proposal.key.as_deref())?;
        let mut head = self.head.lock();
        self.apply_and_log(&mut head, proposal, is_logged)
    }

    /// Compares what a proposal has read with the commits so far, while others may commit: in its turn, only the few
    /// commits since are left to be compared.
    pub(super) fn compare_ahead(
        &self,
        reads: &mut Option<Validation>,
        key: Option<&str>,
    ) -> Result<(), StoreError> {
        let Some(reads) = reads else {
            return Ok(());
        };
        if key.is_some_and(|key| self.log.find_key(key).is_some()) {
            return Ok(());
        }
        let (commits, snapshot, last) = {
            let head = self.head.lock();
            let commits = head.recent.since(reads.position());
            (commits, head.snapshot.clone(), head.last)
        };
        reads.compare(&commits.ok_or(StoreError::Outdated)?, &snapshot, last)
    }

    fn apply_and_log(
        &self,
        head: &mut Head,
        proposal: Proposal,
        is_logged: &mut bool,
    ) -> Result<Submitted, StoreError> {
        self.check(head)?;
        if let Some(position) = proposal
            .key
            .as_deref()
            .and_then(|key| self.log.find_key(key))
        {
            return self.committed_before(head, position);
        }
        self.forget_seen(head);
        let (version, begin) = (head.snapshot.versioned(), proposal.begin);
        let mut watched = proposal.watched.iter();
        if watched.any(|watched| watched.is_changed(version, begin)) {
            return Err(StoreError::Conflict);
        }
        let (key, changes) = (proposal.key.clone(), Arc::clone(&proposal.changes));
        let (snapshot, run, changed) = apply(head, proposal)?;
        let time = system::now_us();
        let entry = Entry {
            time,
            key: key.as_deref(),
            changes: match &*changes {
                LoggedChanges::Few(set) => Changes::Inline(set),
                LoggedChanges::Many(bulk) => Changes::Bulk(bulk.clone()),
            },
        };
        let ticket = self.log.submit(&[entry])?;
        *is_logged = true;
        head.last += 1;
        let position = head.last;
        let version = Version { position, time };
        let version = head.snapshot.versioned().committed(&changed, version);
        head.snapshot = snapshot.with_version(version);
        let added = run.added() as u64;
        let committed = Committed {
            position: Some(Position(head.last)),
            added,
            removed: run.len() as u64 - added,
        };
        head.recent.record(head.last, &run);
        Ok(Submitted {
            ticket,
            snapshot: head.snapshot.clone(),
            last: head.last,
            committed,
        })
    }

    /// Returns an earlier commit with this key, and a ticket: it must be durable before the caller learns of it.
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

/// Returns the head with a proposal applied, and the proposal's changes and their graphs.
fn apply(
    head: &Head,
    mut proposal: Proposal,
) -> Result<(Snapshot, Arc<Run>, ChangedGraphs), StoreError> {
    if !proposal.base.shares_ids_with(head.snapshot.base()) {
        return Err(StoreError::Conflict);
    }
    if let Some(reads) = &mut proposal.reads {
        let commits = head.recent.since(reads.position());
        reads.compare(
            &commits.ok_or(StoreError::Outdated)?,
            &head.snapshot,
            head.last,
        )?;
    }
    let ids = SharedIds::new(head, &proposal.terms, &proposal.new_terms)?;
    let run = match ids.are_private {
        // The ids stay the same unless another commit has added terms since.
        true => proposal.run,
        false => Arc::new(Run::with_ids(proposal.run, |id| ids.of(id))),
    };
    if head.recent.conflict(proposal.begin, &run) {
        return Err(StoreError::Conflict);
    }
    let terms = vec![TermView::new(Arc::clone(head.terms()))];
    let delta = head.delta().with_run(Arc::clone(&run), terms);
    Ok((head.snapshot.with_delta(delta), run, proposal.changed))
}

/// The shared ids of a proposal's private terms.
pub(super) struct SharedIds {
    /// By kind: the payload of the first private term, and the id of each from there on.
    kinds: [(u64, Vec<u64>); TermKind::DICTIONARY.len()],
    /// True if shared and private ids are the same.
    pub(super) are_private: bool,
}

impl SharedIds {
    /// Gives shared ids to `new_terms`, the private ids of terms in `terms`.
    pub(super) fn new(
        head: &Head,
        terms: &TermView,
        new_terms: &[TermId],
    ) -> Result<Self, StoreError> {
        let first = terms.first();
        let mut shared = Self {
            kinds: std::array::from_fn(|index| (first[index], Vec::new())),
            are_private: true,
        };
        if !new_terms.is_empty() {
            head.terms().make_room(terms);
        }
        for private in new_terms.chunks(NUMBERED_TERMS) {
            let mut keys: Vec<OwnedKey> = Vec::with_capacity(private.len());
            terms.keys(private, |_, key| keys.push(key.to_owned_key()));
            let keys: Vec<_> = keys.iter().map(OwnedKey::as_key).collect();
            // Since the transaction began, another may have added them, and they may have been written to the device.
            let mut found = vec![None; keys.len()];
            head.delta().find_on_device(&keys, &mut found)?;
            let missing = keys.iter().zip(&found).filter(|(_, id)| id.is_none());
            let mut added = head.terms().add(missing.map(|(key, _)| *key)).into_iter();
            for (private, id) in private.iter().zip(found) {
                let id = id.or_else(|| added.next()).expect("one for each missing");
                shared.set(*private, id);
            }
        }
        Ok(shared)
    }

    fn set(&mut self, private: TermId, id: TermId) {
        self.are_private &= private == id;
        let index = kind_index(private.kind()).expect("new terms are of dictionary kinds");
        let (first, ids) = &mut self.kinds[index];
        // The terms between are not used.
        ids.resize((private.payload() - *first) as usize, 0);
        ids.push(id.0);
    }

    pub(super) fn of(&self, id: u64) -> u64 {
        let place = kind_index(TermId(id).kind()).and_then(|index| {
            let (first, ids) = &self.kinds[index];
            let place = TermId(id).payload().checked_sub(*first)?;
            ids.get(usize::try_from(place).ok()?)
        });
        place.copied().filter(|&id| id > 0).unwrap_or(id)
    }
}
