//! Depth-first search with several reads in flight. A single depth-first search waits for each node before it knows the next.
//! So several walkers divide the search among them: each follows the newest of its own partial paths. The nodes that all of
//! them are to extend next are read in one batch. A walker gives its oldest partial path away while there are fewer walkers
//! than nodes in a batch.
//!
//! Each partial path belongs to one walker, so each path is found once. The order of paths depends on the number of walkers.

use rustc_hash::FxHashSet;

use super::frontier::{Frontier, Space};
use super::remaining::Remaining;
use crate::error::QueryError;

/// Maximum number of walkers: more than a device serves at once.
const WALKERS_MAX: usize = 256;

/// The walkers of a search, or the single frontier of a search in another order.
pub(crate) struct Walkers {
    walkers: Vec<Frontier>,
    /// Maximum number of walkers.
    most: usize,
    /// The walker that went last.
    last: usize,
}

impl Walkers {
    /// Searches with up to `most` walkers, of which the first has all partial paths so far.
    pub(crate) fn new(first: Frontier, most: usize) -> Self {
        Self {
            walkers: vec![first],
            most: most.min(WALKERS_MAX),
            last: 0,
        }
    }

    /// Returns the walker that took the last partial path.
    pub(crate) fn last(&mut self) -> &mut Frontier {
        &mut self.walkers[self.last]
    }

    /// Lets the next walker extend its last partial path and take another. It is one of [`Self::last`].
    pub(crate) fn next(
        &mut self,
        space: &mut Space,
        mut remaining: Option<&mut Remaining>,
    ) -> Result<Option<u32>, QueryError> {
        loop {
            self.last = (self.last + 1) % self.walkers.len();
            if self.walkers.len() > 1 {
                self.read(space)?;
            }
            let next = self.last().next(space, remaining.as_deref_mut())?;
            if next.is_some() {
                self.divide(space)?;
                return Ok(next);
            }
            if self.walkers.len() == 1 {
                return Ok(None);
            }
            let ended = self.walkers.remove(self.last);
            self.walkers[0].take_over(&ended);
            // The walker that follows has taken its place.
            self.last = (self.last + self.walkers.len() - 1) % self.walkers.len();
        }
    }

    /// Reads the nodes that the walkers are to extend, if the next walker's has not been read; and those that they would
    /// extend after these, while the batch has room.
    fn read(&mut self, space: &mut Space) -> Result<(), QueryError> {
        if self.last().unread(space).is_none() {
            return Ok(());
        }
        let walkers = self.walkers.iter();
        let mut nodes: FxHashSet<u32> = walkers.filter_map(|walker| walker.unread(space)).collect();
        for walker in &mut self.walkers {
            if nodes.len() >= space.batch_nodes {
                break;
            }
            walker.add_best_unread(&mut nodes, space);
        }
        space.graph.read(self.last().is_backward(), &nodes)
    }

    /// Gives the oldest partial path of the last walker to a new one, if there may be one more.
    fn divide(&mut self, space: &Space) -> Result<(), QueryError> {
        if self.walkers.len() < self.most
            && let Some(new) = self.last().split(space)?
        {
            // It goes right before the last walker, so that the others go first.
            self.walkers.insert(self.last, new);
            self.last += 1;
        }
        Ok(())
    }
}
