//! Optimistic transactions over a shared log, as in Hyder (Bulletin, "Implementing an Append-Only Interface for
//! Semiconductor Storage", §2).
//!
//! A [`Transaction`] runs on a [`State`] and ends as an [`Intention`], which its executor appends to a log that all
//! executors share. A [`Melder`] rolls the log forward: for each intention, in the order of the log, it decides whether
//! the transaction has committed, and makes the next state. The log is the only point where executors meet: states and
//! decisions follow from its bytes alone, so all melders of a log agree ([`Decision`]).
//!
//! - A state never changes. It is the root of a binary search tree that shares nodes with the states before it (`tree`).
//! - A transaction has committed if no transaction that committed after its snapshot has written what it writes and, if
//!   it is serializable, what it has read.
//! - Any append-only log of bytes will do. [`to_changes`] makes an intention a commit of [`Log`](crate::Log), which makes it
//!   durable like all others.

mod intention;
#[cfg(test)]
mod tests;
mod transaction;
mod tree;

use std::collections::VecDeque;
use std::sync::Arc;

use pythia_rdf::{TermKey, TermKind};

pub use self::intention::{Intention, Range, Reads, Write};
pub use self::transaction::Transaction;
use self::tree::Tree;
use crate::{ChangeSet, LogError, LogTerm, Position};

/// The key of an item.
pub type Key = Arc<[u8]>;
/// The value of an item.
pub type Value = Arc<[u8]>;

/// The items after all committed intentions before a position. A clone is cheap and never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    tree: Tree,
    next: Position,
}

/// The decision on an intention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The transaction has committed.
    Committed,
    /// The transaction has aborted.
    Aborted(Cause),
}

/// The cause of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A transaction that committed since its snapshot has written what it writes.
    Written,
    /// A transaction that committed since its snapshot has written what it has read.
    Read,
    /// Its snapshot is older than the melder remembers removed items.
    Old,
}

/// Rolls a log forward.
#[derive(Clone, Debug)]
pub struct Melder {
    state: State,
    window: u64,
    /// Items that are in the tree although they were removed, and when that was.
    removed: VecDeque<(Position, Key)>,
}

impl State {
    /// Returns the position of the first intention that is not in this state.
    pub fn next(&self) -> Position {
        self.next
    }

    /// Returns the value of an item.
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.tree.find(key)?.value.as_ref()
    }

    /// Returns the items of a range, in order.
    pub fn scan<'a>(&'a self, range: Range<'a>) -> impl Iterator<Item = (&'a Key, &'a Value)> {
        let items = self.tree.items(range);
        items.filter_map(|item| Some((&item.key, item.value.as_ref()?)))
    }
}

impl Melder {
    /// Makes a melder of a log from its first intention on. A transaction may have at most `window` intentions between
    /// its snapshot and its place in the log; removed items are remembered as long. All melders of a log must have the
    /// same window.
    pub fn new(window: u64) -> Self {
        Self {
            state: State {
                tree: Tree::default(),
                next: Position::FIRST,
            },
            window,
            removed: VecDeque::new(),
        }
    }

    /// Returns the state after the intentions so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Decides on the next intention of the log, and applies its writes if it has committed.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] or [`LogError::Version`] if the bytes are not an intention; then the melder is as it was.
    pub fn meld(&mut self, bytes: &[u8]) -> Result<Decision, LogError> {
        let position = self.state.next;
        let intention = Intention::decode(bytes, position)?;
        let oldest = Position(position.0.saturating_sub(self.window));
        let decision = match self.state.conflict(&intention, oldest) {
            Some(cause) => Decision::Aborted(cause),
            None => {
                self.apply(&intention, position);
                Decision::Committed
            }
        };
        self.forget_removed(oldest);
        self.state.next = position.next();
        Ok(decision)
    }

    fn apply(&mut self, intention: &Intention<'_>, position: Position) {
        self.state.tree = self.state.tree.with(&intention.writes, position);
        let writes = intention.writes.iter();
        let removals = writes.filter(|write| write.value.is_none());
        let removed = removals.map(|write| (position, Key::from(write.key)));
        self.removed.extend(removed);
    }

    /// Drops the items that were removed before all snapshots that a later intention may have.
    fn forget_removed(&mut self, oldest: Position) {
        while let Some((_, key)) = self.removed.pop_front_if(|(at, _)| *at < oldest) {
            self.state.tree = self.state.tree.without(&key, oldest);
        }
    }
}

impl State {
    fn conflict(&self, intention: &Intention<'_>, oldest: Position) -> Option<Cause> {
        let (tree, since) = (&self.tree, intention.snapshot);
        if since < oldest {
            return Some(Cause::Old);
        }
        if tree.is_changed(&intention.writes, |write| write.key, since) {
            return Some(Cause::Written);
        }
        let reads = intention.reads.as_ref()?;
        let is_read = tree.is_changed(&reads.keys, |key| *key, since)
            || reads
                .ranges
                .iter()
                .any(|range| tree.is_range_changed(*range, since));
        is_read.then_some(Cause::Read)
    }
}

/// Returns an intention as changes that [`Log`](crate::Log) takes: a change set without changes, whose only term has the
/// intention's bytes.
pub fn to_changes(intention: &[u8]) -> ChangeSet {
    let mut changes = ChangeSet::new();
    changes.add_term(LogTerm::Key(TermKey {
        kind: TermKind::String,
        bytes: intention,
    }));
    changes
}

/// Returns the bytes of the intention that [`to_changes`] was given.
///
/// # Errors
/// [`LogError::Corrupt`] if the commit at this position has other changes.
pub fn from_changes(changes: &ChangeSet, position: Position) -> Result<&[u8], LogError> {
    let mut terms = changes.terms();
    match (terms.next(), terms.next(), changes.is_empty()) {
        (Some(LogTerm::Key(key)), None, true) if key.kind == TermKind::String => Ok(key.bytes),
        _ => Err(LogError::Corrupt {
            file: format!("commit {position}"),
            offset: 0,
            message: "expected an intention, found changes of quads".to_owned(),
        }),
    }
}
