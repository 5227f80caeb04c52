//! The closure of whole predicates: all their edges in memory, numbered and condensed. It is used when so
//! many searches are needed that each would read most of the graph.
//!
//! Edges come from the columns in one pass. If they exceed the query's memory, reading fails, and the
//! caller searches from a few nodes at a time instead.

use std::ops::ControlFlow;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::graph::Graph;
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern};

use super::components::Condensed;
use super::walk::push;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::several_graphs;
use crate::limits::governor::{Governor, Held};
use crate::plan::automaton::{EdgeClosure, Edges, Transition};

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
        let nodes = Nodes::read(&source, closure.steps, nodes)?;
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
            Some(node) => self.count(self.components.of_node(node)),
            None => Ok(u64::from(self.reflexive)),
        }
    }

    /// Returns the nodes that a path leads to from `start`, each once.
    pub(super) fn ends_from(&mut self, start: TermId, sorted: bool) -> Result<&[u64], QueryError> {
        match self.nodes.number(start.0) {
            Some(node) => {
                self.find_ends(self.components.of_node(node))?;
                if self.reflexive && !self.is_cyclic(node) {
                    self.add_end(start.0);
                }
            }
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
        self.nodes.ids.len()
    }

    /// Returns one of the nodes. Nodes that reach the same ones are adjacent.
    pub(super) fn node(&self, place: usize) -> TermId {
        let number = self.components.nodes()[place];
        TermId(self.nodes.ids[number as usize])
    }

    fn is_cyclic(&self, node: u32) -> bool {
        self.components.is_cyclic(self.components.of_node(node))
    }

    fn count(&mut self, component: u32) -> Result<u64, QueryError> {
        if matches!(self.counts, Counts::Unknown) {
            self.counts = match self.components.counts(&self.governor) {
                Ok(counts) => Counts::Known(counts),
                Err(QueryError::Memory(_)) => Counts::OneByOne,
                Err(error) => return Err(error),
            };
        }
        let count = match &self.counts {
            Counts::Known(counts) => counts[component as usize],
            Counts::Unknown | Counts::OneByOne => {
                self.find_ends(component)?;
                self.last_ends().len() as u64
            }
        };
        let own = self.reflexive && !self.components.is_cyclic(component);
        Ok(count + u64::from(own))
    }

    /// Finds the nodes that edges lead to from a component, unless they were found last.
    fn find_ends(&mut self, component: u32) -> Result<(), QueryError> {
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
        ends.extend(self.found.iter().map(|node| self.nodes.ids[*node as usize]));
        self.held
            .set(ends.capacity() * 8 + self.found.capacity() * 4)?;
        self.last = Some((component, ends));
        Ok(())
    }

    fn add_end(&mut self, id: u64) {
        if let Some((_, ends)) = &mut self.last {
            ends.push(id);
        }
    }

    fn last_ends(&self) -> &[u64] {
        self.last.as_ref().map_or(&[], |(_, ends)| ends)
    }
}

/// The nodes of a closure's graph, numbered in the order of their ids.
struct Nodes {
    ids: Vec<u64>,
    /// The start of each bucket. Ids are spread over buckets by their leading bits.
    buckets: Vec<u32>,
    shift: u32,
    _held: Held,
}

impl Nodes {
    /// Reads all ends of the edges, and adds `more`.
    fn read(
        source: &Source<'_>,
        steps: &[Transition],
        more: &[TermId],
    ) -> Result<Self, QueryError> {
        let mut held = Held::new(source.context.governor());
        held.set(more.len() * 8)?;
        let mut ids: Vec<u64> = more.iter().map(|node| node.0).collect();
        for step in steps {
            for end in [Component::Subject, Component::Object] {
                source.scan(step, end, &[end], |batch, row| {
                    let id = batch.columns[0][row];
                    match ids.last() == Some(&id) {
                        true => Ok(()),
                        false => push(&mut ids, id, &mut held),
                    }
                })?;
            }
        }
        // The ids are a few sorted runs, which a stable sort merges.
        held.add(ids.len() * 4)?;
        ids.sort();
        ids.dedup();
        if ids.len() > u32::MAX as usize / 2 {
            let message = format!("a closure has at most {} nodes", u32::MAX / 2);
            return Err(QueryError::Memory(message));
        }
        let range = match (ids.first(), ids.last()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        let shift = (range / (ids.len() as u64).max(1) + 1).ilog2();
        let mut buckets = Vec::with_capacity((range >> shift) as usize + 2);
        for (number, id) in ids.iter().enumerate() {
            let bucket = ((id - ids[0]) >> shift) as usize;
            buckets.resize(buckets.len().max(bucket + 1), number as u32);
        }
        buckets.push(ids.len() as u32);
        held.set(ids.capacity() * 8 + buckets.capacity() * 4)?;
        Ok(Self {
            ids,
            buckets,
            shift,
            _held: held,
        })
    }

    fn number(&self, id: u64) -> Option<u32> {
        let bucket = (id.checked_sub(*self.ids.first()?)? >> self.shift) as usize;
        let start = *self.buckets.get(bucket)? as usize;
        let end = *self.buckets.get(bucket + 1)? as usize;
        let found = self.ids[start..end].binary_search(&id).ok()?;
        Some((start + found) as u32)
    }
}

/// The context and graphs that edges are read from.
struct Source<'a> {
    context: &'a QueryContext,
    graphs: &'a [GraphFilter],
}

impl Source<'_> {
    /// Calls `each` with every quad that a step follows: a batch with the wanted components, and a row in
    /// it. Quads are sorted by `end` within each graph filter.
    fn scan(
        &self,
        step: &Transition,
        end: Component,
        wanted: &[Component],
        mut each: impl FnMut(&IdBatch, usize) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let mut wanted = wanted.to_vec();
        let (predicate, except) = match &step.edges {
            Edges::Predicate(predicate) => (Some(*predicate), None),
            Edges::Except(except) => {
                wanted.push(Component::Predicate);
                (None, Some(except))
            }
        };
        let order = match (end, predicate) {
            (Component::Subject, Some(_)) => Order::Pso,
            (_, Some(_)) => Order::Pos,
            (Component::Subject, None) => Order::Spo,
            (_, None) => Order::Ops,
        };
        let pattern = QuadPattern {
            predicate,
            ..QuadPattern::default()
        };
        let (context, graphs) = (self.context, self.graphs);
        let _ = several_graphs::scan(context, graphs, &pattern, order, None, &wanted, |batch| {
            for row in 0..batch.rows {
                let is_excepted = except.is_some_and(|except| {
                    let predicate = TermId(batch.columns[wanted.len() - 1][row]);
                    except.binary_search(&predicate).is_ok()
                });
                if !is_excepted {
                    each(batch, row)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    /// Reads all edges, as pairs of node numbers.
    fn edges(&self, steps: &[Transition], nodes: &Nodes) -> Result<(Graph, Held), QueryError> {
        let count = nodes.ids.len();
        let mut held = Held::new(self.context.governor());
        held.set(Graph::bytes(count, 0) * 2)?;
        let mut starts = vec![0_u64; count + 1];
        for step in steps {
            let counted = |source: u32, _| starts[source as usize + 1] += 1;
            self.links(step, nodes, None, counted)?;
        }
        for node in 1..starts.len() {
            starts[node] += starts[node - 1];
        }
        let edges = starts[count] as usize;
        held.set(Graph::bytes(count, edges) + Graph::bytes(count, 0))?;
        let mut next = starts.clone();
        let mut targets = vec![0; edges];
        for step in steps {
            let target = match step.inverse {
                true => Component::Subject,
                false => Component::Object,
            };
            self.links(step, nodes, Some(target), |source, target| {
                let place = &mut next[source as usize];
                targets[*place as usize] = nodes.number(target).expect("both ends were read");
                *place += 1;
            })?;
        }
        held.set(Graph::bytes(count, edges))?;
        Ok((Graph::from_targets(starts, targets), held))
    }

    /// Calls `each` with the number of each edge's source and, if wanted, the id of its target.
    fn links(
        &self,
        step: &Transition,
        nodes: &Nodes,
        target: Option<Component>,
        mut each: impl FnMut(u32, u64),
    ) -> Result<(), QueryError> {
        let source = match step.inverse {
            true => Component::Object,
            false => Component::Subject,
        };
        let wanted: Vec<Component> = std::iter::once(source).chain(target).collect();
        let (mut last, mut number) = (None, 0);
        self.scan(step, source, &wanted, |batch, row| {
            let id = batch.columns[0][row];
            if last != Some(id) {
                last = Some(id);
                number = nodes.number(id).expect("both ends were read");
            }
            each(number, target.map_or(0, |_| batch.columns[1][row]));
            Ok(())
        })
    }
}
