//! Property paths: a breadth-first search over the product of graph and automaton, frontier by
//! frontier, each frontier's pages read as one batch.

use std::collections::HashSet;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{Component, End, Expansion, GraphFilter, Order, QuadPattern};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::batch::Batch;
use super::context::QueryContext;
use super::pipeline::RowSource;
use super::step::{PathGraph, PathStep, Position};
use crate::error::QueryError;
use crate::plan::automaton::{Automaton, Edges};

/// How many start nodes are searched from together.
const STARTS: usize = 1024;
/// Bytes one visited (start, node, state) costs, for the query's budget.
const BYTES_PER_VISIT: usize = 32;

/// Joins solutions with the pairs of nodes a path connects.
pub(crate) struct PathSearch {
    input: Box<dyn RowSource>,
    path: PathStep,
    live: Vec<usize>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    /// With both ends free: every node a path can start at, and how far they are used up.
    starts: Option<(Vec<TermId>, usize)>,
}

/// A pair found: the start's index and the node reached.
type Reached = (u32, TermId);

impl PathSearch {
    pub(crate) fn new(
        input: Box<dyn RowSource>,
        path: PathStep,
        live: Vec<usize>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            path,
            live,
            context,
            current: Batch::default(),
            position: 0,
            starts: None,
        }
    }

    /// Searches for rows `from..to` of the current batch, of which at least one end is known.
    fn search_rows(&self, from: usize, to: usize) -> Result<Batch, QueryError> {
        let mut rows = Vec::new();
        let mut found = Vec::new();
        for (graphs, members) in self.rows_by_graph(from, to) {
            self.search_members(&graphs, &members, &mut rows, &mut found)?;
        }
        let mut out = self.current.gather(&rows, &self.live);
        let free = match (self.path.subject, self.path.object) {
            (Position::New(slot), _) | (_, Position::New(slot)) => Some(slot),
            _ => None,
        };
        if let Some(slot) = free {
            out.columns[slot] = found;
        }
        Ok(out)
    }

    /// What the graph of a solution is read from: usually one graph, or all that are merged.
    fn graphs(&self, row: usize) -> Vec<GraphFilter> {
        match self.path.graph {
            PathGraph::Merged => self.context.dataset.default_filters(),
            PathGraph::One(graph) => vec![GraphFilter::One(graph)],
            PathGraph::Slot(slot) => {
                vec![GraphFilter::One(TermId(self.current.value(slot, row)))]
            }
        }
    }

    /// The rows to search for in each graph: all of them at once unless a slot names the graph.
    fn rows_by_graph(&self, from: usize, to: usize) -> Vec<(Vec<GraphFilter>, Vec<u32>)> {
        match self.path.graph {
            PathGraph::Merged | PathGraph::One(_) => {
                vec![(self.graphs(from), (from as u32..to as u32).collect())]
            }
            PathGraph::Slot(slot) => {
                let mut groups: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
                for row in from..to {
                    let graph = self.current.value(slot, row);
                    groups.entry(graph).or_default().push(row as u32);
                }
                let mut groups: Vec<_> = groups.into_iter().collect();
                groups.sort_unstable();
                groups
                    .into_iter()
                    .map(|(graph, rows)| (vec![GraphFilter::One(TermId(graph))], rows))
                    .collect()
            }
        }
    }

    fn value(&self, position: Position, row: u32) -> TermId {
        match position {
            Position::Constant(id) => id,
            Position::Bound(slot) | Position::New(slot) => {
                TermId(self.current.value(slot, row as usize))
            }
        }
    }

    fn search_members(
        &self,
        graphs: &[GraphFilter],
        members: &[u32],
        rows: &mut Vec<u32>,
        found: &mut Vec<u64>,
    ) -> Result<(), QueryError> {
        let (start, other, automaton) = match self.path.subject {
            Position::New(_) => (self.path.object, self.path.subject, &self.path.backward),
            _ => (self.path.subject, self.path.object, &self.path.forward),
        };
        // An empty path between two variables connects nodes of the graph, and nothing else; with a
        // constant at one end it connects that term, in the graph or not (SPARQL 1.1 §18.4).
        let variables_only =
            !matches!(start, Position::Constant(_)) && !matches!(other, Position::Constant(_));
        let only_nodes = automaton.accepts_empty() && variables_only;
        let mut by_start: FxHashMap<TermId, u32> = FxHashMap::default();
        let mut starts = Vec::new();
        let mut members_of: Vec<Vec<u32>> = Vec::new();
        for &row in members {
            let node = self.value(start, row);
            if !node.is_bound()
                || (only_nodes
                    && !by_start.contains_key(&node)
                    && !is_node(&self.context, node, graphs)?)
            {
                continue;
            }
            let index = *by_start.entry(node).or_insert_with(|| {
                starts.push(node);
                members_of.push(Vec::new());
                starts.len() as u32 - 1
            });
            members_of[index as usize].push(row);
        }
        let wanted = (!matches!(other, Position::New(_))).then(|| {
            members
                .iter()
                .filter_map(|&row| {
                    let index = by_start.get(&self.value(start, row))?;
                    Some((*index, self.value(other, row)))
                })
                .collect::<FxHashSet<Reached>>()
        });
        let reached = search(&self.context, automaton, graphs, &starts, wanted)?;
        for (index, node) in reached {
            for &row in &members_of[index as usize] {
                if matches!(other, Position::New(_)) {
                    rows.push(row);
                    found.push(node.0);
                } else if self.value(other, row) == node {
                    rows.push(row);
                }
            }
        }
        Ok(())
    }

    /// The next pairs of a path with both ends free, for the solution at `position`.
    fn search_all(&mut self) -> Result<Option<Batch>, QueryError> {
        let graphs = self.graphs(self.position);
        if self.starts.is_none() {
            let nodes = start_nodes(&self.context, &self.path.forward, &graphs)?;
            self.starts = Some((nodes, 0));
        }
        let (starts, used) = self.starts.as_mut().expect("set above");
        if *used >= starts.len() {
            self.starts = None;
            self.position += 1;
            return Ok(None);
        }
        let chunk = &starts[*used..(*used + STARTS).min(starts.len())];
        *used += chunk.len();
        let reached = search(&self.context, &self.path.forward, &graphs, chunk, None)?;
        let rows = vec![self.position as u32; reached.len()];
        let mut out = self.current.gather(&rows, &self.live);
        if let Position::New(slot) = self.path.subject {
            out.columns[slot] = reached.iter().map(|(i, _)| chunk[*i as usize].0).collect();
        }
        if let Position::New(slot) = self.path.object {
            out.columns[slot] = reached.iter().map(|(_, node)| node.0).collect();
        }
        Ok(Some(out))
    }
}

impl RowSource for PathSearch {
    fn feed(&mut self, batch: Batch) {
        self.input.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        let both_free = matches!(
            (self.path.subject, self.path.object),
            (Position::New(_), Position::New(_))
        );
        loop {
            while self.position < self.current.rows {
                self.context.check()?;
                let batch = if both_free {
                    match self.search_all()? {
                        Some(batch) => batch,
                        None => continue,
                    }
                } else {
                    let from = self.position;
                    self.position = (from + STARTS).min(self.current.rows);
                    self.search_rows(from, self.position)?
                };
                if batch.rows > 0 {
                    return Ok(Some(batch));
                }
            }
            match self.input.next()? {
                Some(batch) => {
                    self.current = batch;
                    self.position = 0;
                }
                None => return Ok(None),
            }
        }
    }
}

/// Whether a quad of the graphs has the term as subject or object.
fn is_node(
    context: &QueryContext,
    term: TermId,
    graphs: &[GraphFilter],
) -> Result<bool, QueryError> {
    for &graph in graphs {
        let as_subject = QuadPattern {
            subject: Some(term),
            graph,
            ..QuadPattern::default()
        };
        let as_object = QuadPattern {
            object: Some(term),
            graph,
            ..QuadPattern::default()
        };
        if context.snapshot.count(&as_subject)? > 0 || context.snapshot.count(&as_object)? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every node a path of the automaton can start at, sorted: all nodes of the graph if the empty
/// path matches, else the ends of the first edges.
fn start_nodes(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
) -> Result<Vec<TermId>, QueryError> {
    let mut nodes = Vec::new();
    let mut scan = |predicate: Option<TermId>, component: Component| -> Result<(), QueryError> {
        let order = match component {
            Component::Subject => [Order::Spo, Order::Pso],
            _ => [Order::Ops, Order::Pos],
        }[usize::from(predicate.is_some())];
        for &graph in graphs {
            let pattern = QuadPattern {
                subject: None,
                predicate,
                object: None,
                graph,
            };
            let mut scan = context.snapshot.scan(&pattern, order, &[component])?;
            while let Some(found) = scan.next()? {
                context.check()?;
                for &node in &found.columns[0] {
                    if nodes.last() != Some(&TermId(node)) {
                        nodes.push(TermId(node));
                    }
                }
            }
        }
        Ok(())
    };
    if automaton.accepts_empty() {
        scan(None, Component::Subject)?;
        scan(None, Component::Object)?;
    } else {
        for transition in &automaton.transitions[0] {
            let component = if transition.inverse {
                Component::Object
            } else {
                Component::Subject
            };
            match &transition.edges {
                Edges::Predicate(predicate) => scan(Some(*predicate), component)?,
                Edges::Except(_) => scan(None, component)?,
            }
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes)
}

/// One automaton state at one node, for one start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Visit {
    state: u16,
    node: TermId,
    start: u32,
}

/// Memory that a search holds; given back at its end, whatever that is.
struct Held<'c> {
    context: &'c QueryContext,
    bytes: usize,
}

impl Held<'_> {
    fn grow(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.context.reserve(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.context.release(self.bytes);
    }
}

/// The distinct (start, node) pairs connected by a path the automaton accepts.
///
/// With `wanted`, only those pairs are given, and the search ends once all are found.
pub(crate) fn search(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    starts: &[TermId],
    mut wanted: Option<FxHashSet<Reached>>,
) -> Result<Vec<Reached>, QueryError> {
    let mut held = Held { context, bytes: 0 };
    let mut found: Vec<Reached> = Vec::new();
    let mut seen: FxHashSet<Reached> = FxHashSet::default();
    let mut accept = |visit: Visit, found: &mut Vec<Reached>| -> bool {
        let pair = (visit.start, visit.node);
        if !automaton.accepting[visit.state as usize] {
            return false;
        }
        if let Some(wanted) = &mut wanted {
            if wanted.remove(&pair) {
                found.push(pair);
            }
            return wanted.is_empty();
        }
        if seen.insert(pair) {
            found.push(pair);
        }
        false
    };
    let mut visited: HashSet<Visit, FxBuildHasher> = HashSet::default();
    let mut frontier: Vec<Visit> = Vec::with_capacity(starts.len());
    for (start, &node) in starts.iter().enumerate() {
        let visit = Visit {
            state: 0,
            node,
            start: start as u32,
        };
        visited.insert(visit);
        frontier.push(visit);
        if accept(visit, &mut found) {
            return Ok(found);
        }
    }
    while !frontier.is_empty() {
        context.check()?;
        let mut next = Vec::new();
        expand_frontier(context, automaton, graphs, &mut frontier, |visit| {
            if visited.insert(visit) {
                next.push(visit);
            }
        })?;
        held.grow(next.len() * BYTES_PER_VISIT)?;
        for &visit in &next {
            if accept(visit, &mut found) {
                return Ok(found);
            }
        }
        frontier = next;
    }
    Ok(found)
}

/// Follows all transitions from a frontier: the nodes of each state are read as one batch.
fn expand_frontier(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    frontier: &mut [Visit],
    mut reach: impl FnMut(Visit),
) -> Result<(), QueryError> {
    frontier.sort_unstable();
    for group in frontier.chunk_by(|a, b| a.state == b.state) {
        let mut nodes: Vec<TermId> = Vec::new();
        let mut first: Vec<u32> = Vec::new();
        for (place, visit) in group.iter().enumerate() {
            if nodes.last() != Some(&visit.node) {
                nodes.push(visit.node);
                first.push(place as u32);
            }
        }
        first.push(group.len() as u32);
        for transition in &automaton.transitions[group[0].state as usize] {
            let (end, predicate) = (
                if transition.inverse {
                    End::Object
                } else {
                    End::Subject
                },
                match &transition.edges {
                    Edges::Predicate(predicate) => Some(*predicate),
                    Edges::Except(_) => None,
                },
            );
            let mut links = Expansion::new(predicate.is_none(), false);
            for &graph in graphs {
                context
                    .snapshot
                    .expand(end, &nodes, predicate, graph, &mut links)?;
            }
            for (link, &source) in links.source.iter().enumerate() {
                if let Edges::Except(except) = &transition.edges
                    && except.binary_search(&TermId(links.predicate[link])).is_ok()
                {
                    continue;
                }
                let source = source as usize;
                for visit in &group[first[source] as usize..first[source + 1] as usize] {
                    reach(Visit {
                        state: transition.target as u16,
                        node: TermId(links.other[link]),
                        start: visit.start,
                    });
                }
            }
        }
    }
    Ok(())
}
