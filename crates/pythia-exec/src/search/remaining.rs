//! Remaining cost of paths to one end: the estimate of A*.

use super::cost::Cost;
use super::frontier::{Course, Frontier, Limit, Priority, Space};
use crate::error::QueryError;
use pythia_sparql::path_search::Restrictor;

/// The cost of the cheapest walk from a node to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    Exactly(Cost),
    AtLeast(Cost),
    /// There is no walk.
    Never,
}

/// Remaining cost of paths to one end node: a search backward from there that advances only on demand.
pub(crate) struct Remaining {
    search: Frontier,
    /// All nodes within this cost have been reached.
    radius: Cost,
    finished: bool,
}

impl Remaining {
    /// Creates the search for paths to a node. `length_max` is the maximum number of edges, if each costs
    /// one.
    pub(crate) fn new(target: u32, length_max: Option<u32>, space: &Space) -> Self {
        let course = Course {
            backward: true,
            priority: Priority::Cheapest,
            limit: Limit::First(1),
            restrictor: Restrictor::Walk,
            length_max,
            cost_max: None,
            lengths_told_apart: 0,
        };
        let mut search = Frontier::new(course, space);
        for state in space.product.ends() {
            search.start(target, state);
        }
        Self {
            search,
            radius: Cost::ZERO,
            finished: false,
        }
    }

    /// Returns the estimate for a node in any of the automaton's states.
    pub(crate) fn cost(&self, node: u32, states: &[u32]) -> Estimate {
        let reached = states
            .iter()
            .filter_map(|&state| self.search.reached(node, state));
        match reached.min() {
            Some(cost) => Estimate::Exactly(cost),
            None if self.finished => Estimate::Never,
            None => Estimate::AtLeast(self.radius),
        }
    }

    /// Returns the number of partial paths created: a measure of the work done.
    pub(crate) fn steps(&self) -> usize {
        self.search.steps()
    }

    /// Runs the search to its end.
    pub(crate) fn finish(&mut self, space: &mut Space) -> Result<(), QueryError> {
        while !self.finished {
            self.advance(space)?;
        }
        Ok(())
    }

    /// Advances the search by one partial path.
    pub(crate) fn advance(&mut self, space: &mut Space) -> Result<(), QueryError> {
        match self.search.next(space, None)? {
            Some(step) => self.radius = self.search.step(step).cost,
            None => self.finished = true,
        }
        Ok(())
    }
}
