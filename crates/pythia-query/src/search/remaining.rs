//! What paths to one end still cost: the estimate that makes the search towards it A*.

use super::Restrictor;
use super::cost::Cost;
use super::frontier::{Course, Frontier, Limit, Priority, Space};
use crate::error::QueryError;

/// What the cheapest walk from a node to the end costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    Exactly(Cost),
    AtLeast(Cost),
    /// There is none.
    Never,
}

/// What paths to one end node still cost: a search from there, which goes only as far as it is
/// asked about.
pub(crate) struct Remaining {
    search: Frontier,
    /// All that is nearer has been reached.
    radius: Cost,
    finished: bool,
}

impl Remaining {
    /// For paths to a node, of at most so many edges if each costs one.
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

    /// What is known of a node, in any of the automaton's states.
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

    /// How much has been searched: partial paths made.
    pub(crate) fn steps(&self) -> usize {
        self.search.steps()
    }

    /// Goes as far as there is anything.
    pub(crate) fn finish(&mut self, space: &mut Space) -> Result<(), QueryError> {
        while !self.finished {
            self.advance(space)?;
        }
        Ok(())
    }

    /// Goes one step further.
    pub(crate) fn advance(&mut self, space: &mut Space) -> Result<(), QueryError> {
        match self.search.next(space, None)? {
            Some(step) => self.radius = self.search.step(step).cost,
            None => self.finished = true,
        }
        Ok(())
    }
}
