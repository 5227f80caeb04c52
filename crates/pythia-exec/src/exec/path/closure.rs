//! The closure of whole predicates: all their edges in memory, numbered and condensed. It is used when so
//! many searches are needed that each would read most of the graph.
//!
//! Reading fails if the edges exceed the query's memory. The caller then searches from a few nodes at a time.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::GraphFilter;

use super::components::Condensed;
use super::edges::{Nodes, Source};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::governor::{Governor, Held};
use crate::plan::automaton::EdgeClosure;

/// Every pair of nodes that a closure connects, condensed.
pub(super) struct Closure {
    nodes: Nodes,
    components: Condensed,
    /// True if every node reaches itself, by the empty path.
    reflexive: bool,
    counts: Counts,
    /// The component whose ends were found last, and those ends.
    last: Option<(u32, Vec<u64>)>,
    found: Vec<u32>,
    governor: Arc<Governor>,
    held: Held,
}

/// Per component, the number of nodes that at least one edge leads to.
enum Counts {
    /// Not computed yet.
    Unknown,
    Known(Vec<u64>),
    /// Memory does not suffice to count all components together.
    OneByOne,
}

impl Closure {
    /// Reads the edges. The sorted `nodes` belong to the graph even if they have no edges.
    pub(super) fn read(
        context: &QueryContext,
        closure: EdgeClosure<'_>,
        graphs: &[GraphFilter],
        nodes: &[TermId],
    ) -> Result<Self, QueryError> {
        let governor = Arc::clone(context.governor());
        let source = Source { context, graphs };
        let nodes = source.nodes(closure.steps, nodes)?;
        let (edges, _edges_held) = source.edges(closure.steps, &nodes)?;
        Ok(Self {
            components: Condensed::of_graph(&edges, &governor)?,
            nodes,
            reflexive: closure.reflexive,
            counts: Counts::Unknown,
            last: None,
            found: Vec::new(),
            held: Held::new(&governor),
            governor,
        })
    }

    /// Counts the nodes that a path leads to from `start`.
    pub(super) fn count_from(&mut self, start: TermId) -> Result<u64, QueryError> {
        match self.nodes.number(start.0) {
            Some(node) => self.count(node),
            None => Ok(u64::from(self.reflexive)),
        }
    }

    /// Returns the nodes that a path leads to from `start`, each once.
    pub(super) fn ends_from(&mut self, start: TermId, sorted: bool) -> Result<&[u64], QueryError> {
        match self.nodes.number(start.0) {
            Some(node) => self.find_ends(node)?,
            None => {
                let own = self.reflexive.then_some(start.0);
                self.last = Some((u32::MAX, own.into_iter().collect()));
            }
        }
        if let (Some((_, ends)), true) = (&mut self.last, sorted) {
            ends.sort_unstable();
        }
        Ok(self.last_ends())
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.count()
    }

    /// Returns one of the nodes. Nodes that reach the same ones are adjacent.
    pub(super) fn node(&self, place: usize) -> TermId {
        TermId(self.nodes.id(self.number(place)))
    }

    /// Counts the nodes that a path leads to from one of the nodes.
    pub(super) fn count_from_node(&mut self, place: usize) -> Result<u64, QueryError> {
        self.count(self.number(place))
    }

    /// Returns the nodes that a path leads to from one of the nodes, each once.
    pub(super) fn ends_from_node(&mut self, place: usize) -> Result<&[u64], QueryError> {
        self.find_ends(self.number(place))?;
        Ok(self.last_ends())
    }

    fn number(&self, place: usize) -> u32 {
        self.components.nodes()[place]
    }

    fn count(&mut self, node: u32) -> Result<u64, QueryError> {
        if matches!(self.counts, Counts::Unknown) {
            self.counts = match self.components.counts(&self.governor) {
                Ok(counts) => Counts::Known(counts),
                Err(QueryError::Memory(_)) => Counts::OneByOne,
                Err(error) => return Err(error),
            };
        }
        let component = self.components.of_node(node);
        match &self.counts {
            Counts::Known(counts) => {
                let own = self.reflexive && !self.components.is_cyclic(component);
                Ok(counts[component as usize] + u64::from(own))
            }
            Counts::Unknown | Counts::OneByOne => {
                self.find_ends(node)?;
                Ok(self.last_ends().len() as u64)
            }
        }
    }

    /// Finds the nodes that a path leads to from a node.
    fn find_ends(&mut self, node: u32) -> Result<(), QueryError> {
        let component = self.components.of_node(node);
        self.find_ends_of(component)?;
        if let (Some((_, ends)), true, false) = (
            &mut self.last,
            self.reflexive,
            self.components.is_cyclic(component),
        ) {
            ends.push(self.nodes.id(node));
        }
        Ok(())
    }

    /// Finds the nodes that edges lead to from a component, unless they were found last.
    fn find_ends_of(&mut self, component: u32) -> Result<(), QueryError> {
        self.governor.check()?;
        let is_cyclic = self.components.is_cyclic(component);
        if is_cyclic
            && self
                .last
                .as_ref()
                .is_some_and(|(last, _)| *last == component)
        {
            return Ok(());
        }
        let (_, mut ends) = self.last.take().unwrap_or_default();
        self.found.clear();
        self.components.reached(component, &mut self.found);
        ends.clear();
        ends.extend(self.found.iter().map(|node| self.nodes.id(*node)));
        self.held
            .set(ends.capacity() * 8 + self.found.capacity() * 4)?;
        self.last = Some((component, ends));
        Ok(())
    }

    fn last_ends(&self) -> &[u64] {
        self.last.as_ref().map_or(&[], |(_, ends)| ends)
    }
}
