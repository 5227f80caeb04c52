//! All edges of some predicates, read into memory by all free cores.
//!
//! ```text
//! ends of the edges of each step, sorted → nodes, numbered in the order of their ids → edges from ranges of nodes → graph
//! ```

use std::ops::{ControlFlow, Range};

use pythia_rdf::TermId;
use pythia_store::graph::Graph;
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern};

use super::walk::push;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::several_graphs;
use crate::limits::fork::fork;
use crate::limits::governor::Held;
use crate::plan::automaton::{Edges, Transition};

/// Number of nodes whose edges are read by one thread.
const TOGETHER: usize = 16_384;

/// The context and graphs that edges are read from.
pub(super) struct Source<'a> {
    pub(super) context: &'a QueryContext,
    pub(super) graphs: &'a [GraphFilter],
}

/// The nodes of a graph, numbered in the order of their ids.
pub(super) struct Nodes {
    ids: Vec<u64>,
    /// The start of each bucket. Ids are spread over buckets by their leading bits.
    buckets: Vec<u32>,
    shift: u32,
    _held: Held,
}

impl Source<'_> {
    /// Reads all ends of the edges, and adds the sorted nodes `more`.
    pub(super) fn nodes(&self, steps: &[Transition], more: &[TermId]) -> Result<Nodes, QueryError> {
        let ends = [Component::Subject, Component::Object];
        let found = fork(self.context.governor().cores(), steps.len() * 2, |part| {
            self.ends(&steps[part / 2], ends[part % 2])
        })?;
        let count = more.len() + found.iter().map(|(ids, _)| ids.len()).sum::<usize>();
        let mut held = Held::new(self.context.governor());
        // Sorting takes half as much again.
        held.set(count * 12)?;
        let mut ids = Vec::with_capacity(count);
        ids.extend(more.iter().map(|node| node.0));
        found.iter().for_each(|(found, _)| ids.extend(found));
        drop(found);
        // The ids are a few sorted runs, which a stable sort merges.
        ids.sort();
        ids.dedup();
        Nodes::new(ids, held)
    }

    /// Returns the subjects or the objects of a step's edges, sorted within each graph filter.
    fn ends(&self, step: &Transition, end: Component) -> Result<(Vec<u64>, Held), QueryError> {
        let mut held = Held::new(self.context.governor());
        let mut ids = Vec::new();
        self.scan(step, end, None, &[end], |batch, row| {
            let id = batch.columns[0][row];
            match ids.last() == Some(&id) {
                true => Ok(()),
                false => push(&mut ids, id, &mut held),
            }
        })?;
        Ok((ids, held))
    }

    /// Reads all edges into a graph of node numbers.
    pub(super) fn edges(
        &self,
        steps: &[Transition],
        nodes: &Nodes,
    ) -> Result<(Graph, Held), QueryError> {
        let count = nodes.ids.len();
        let together = match self.has_ranges(steps) {
            true => TOGETHER,
            false => count.max(1),
        };
        let cores = self.context.governor().cores();
        let parts = fork(cores, count.div_ceil(together), |part| {
            let first = part * together;
            self.edges_from(steps, nodes, first..(first + together).min(count))
        })?;
        let (parts, parts_held): (Vec<Graph>, Vec<Held>) = parts.into_iter().unzip();
        drop(parts_held);
        let mut held = Held::new(self.context.governor());
        let edges = parts.iter().map(|part| part.edges() as usize).sum();
        held.set(Graph::bytes(count, edges))?;
        Ok((Graph::joined(parts), held))
    }

    /// Returns whether edges can be read by ranges of nodes: neither those of all predicates nor those of named graphs, which have a
    /// file of their own.
    fn has_ranges(&self, steps: &[Transition]) -> bool {
        let is_named = |graph: &GraphFilter| graph.one_named().is_some();
        steps.iter().all(Transition::has_predicate) && !self.graphs.iter().any(is_named)
    }

    /// Reads the edges from a range of nodes.
    fn edges_from(
        &self,
        steps: &[Transition],
        nodes: &Nodes,
        range: Range<usize>,
    ) -> Result<(Graph, Held), QueryError> {
        let mut held = Held::new(self.context.governor());
        held.set(Graph::bytes(range.len(), 0) * 2)?;
        let mut starts = vec![0_u64; range.len() + 1];
        for step in steps {
            let counted = |source: usize, _| starts[source - range.start + 1] += 1;
            self.links(step, nodes, &range, None, counted)?;
        }
        for node in 0..range.len() {
            starts[node + 1] += starts[node];
        }
        let edges = starts[range.len()] as usize;
        held.add(edges * size_of::<u32>())?;
        let (mut next, mut targets) = (starts.clone(), vec![0; edges]);
        for step in steps {
            let target = match step.inverse {
                true => Component::Subject,
                false => Component::Object,
            };
            self.links(step, nodes, &range, Some(target), |source, target| {
                let place = &mut next[source - range.start];
                targets[*place as usize] = nodes.known(target);
                *place += 1;
            })?;
        }
        Ok((Graph::from_targets(starts, targets), held))
    }

    /// Calls `each` with the number of each edge's source, which is in a range, and, if wanted, the id of its target.
    fn links(
        &self,
        step: &Transition,
        nodes: &Nodes,
        range: &Range<usize>,
        target: Option<Component>,
        mut each: impl FnMut(usize, u64),
    ) -> Result<(), QueryError> {
        let source = match step.inverse {
            true => Component::Object,
            false => Component::Subject,
        };
        let ids = nodes.ids[range.start]..nodes.ids[range.end - 1] + 1;
        let ids = (range.len() < nodes.count()).then_some(ids);
        let wanted: Vec<Component> = std::iter::once(source).chain(target).collect();
        let (mut last, mut number) = (None, 0);
        self.scan(step, source, ids, &wanted, |batch, row| {
            let id = batch.columns[0][row];
            if last != Some(id) {
                last = Some(id);
                number = nodes.known(id) as usize;
            }
            each(number, target.map_or(0, |_| batch.columns[1][row]));
            Ok(())
        })
    }

    /// Calls `each` with every quad that a step follows: a batch with the wanted components, and a row in
    /// it. Quads are sorted by `end` within each graph filter; if there are `ids`, only those that have one of them there.
    fn scan(
        &self,
        step: &Transition,
        end: Component,
        ids: Option<Range<u64>>,
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
        let _ = several_graphs::scan(context, graphs, &pattern, order, ids, &wanted, |batch| {
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
}

impl Nodes {
    /// Numbers sorted, distinct ids.
    fn new(ids: Vec<u64>, mut held: Held) -> Result<Self, QueryError> {
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

    /// Returns the number of nodes.
    pub(super) fn count(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, number: u32) -> u64 {
        self.ids[number as usize]
    }

    pub(super) fn number(&self, id: u64) -> Option<u32> {
        let bucket = (id.checked_sub(*self.ids.first()?)? >> self.shift) as usize;
        let start = *self.buckets.get(bucket)? as usize;
        let end = *self.buckets.get(bucket + 1)? as usize;
        let found = self.ids[start..end].binary_search(&id).ok()?;
        Some((start + found) as u32)
    }

    fn known(&self, id: u64) -> u32 {
        self.number(id).expect("both ends were read")
    }
}
