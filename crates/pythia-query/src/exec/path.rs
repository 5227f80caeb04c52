//! Property paths: joining solutions with the pairs of nodes that a path connects, which
//! [`walk`] finds for many start nodes at once; for fewer where memory is short.

mod walk;

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{Component, GraphFilter, Order, QuadPattern};
use rustc_hash::{FxHashMap, FxHashSet};

use self::walk::{Pair, push, search};
use super::batch::{Batch, OUTPUT_ROWS};
use super::context::QueryContext;
use super::pipeline::RowSource;
use super::step::{PathGraph, PathStep, Position};
use crate::error::QueryError;
use crate::governor::Held;
use crate::plan::automaton::{Automaton, Edges};

/// How many start nodes are searched from together, if memory lasts.
const STARTS: usize = 1024;

/// Joins solutions with the pairs of nodes a path connects.
pub(crate) struct PathSearch {
    input: Box<dyn RowSource>,
    path: PathStep,
    live: Vec<usize>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    /// With both ends free: every node a path can start at, how far they are used up, and the
    /// memory they take.
    starts: Option<(Vec<TermId>, usize, Held)>,
    /// How many start nodes are searched from together.
    together: usize,
    /// Solutions found and not yet given.
    found: Option<Found>,
}

/// Solutions found: rows of the current batch, and what the path binds in them.
struct Found {
    rows: Vec<u32>,
    bound: Vec<(usize, Vec<u64>)>,
    given: usize,
    _held: Held,
}

impl Found {
    fn new(
        rows: Vec<u32>,
        bound: Vec<(usize, Vec<u64>)>,
        context: &QueryContext,
    ) -> Result<Self, QueryError> {
        let mut held = Held::new(context.governor());
        let ids = bound.iter().map(|(_, ids)| ids.capacity() * 8);
        held.set(rows.capacity() * 4 + ids.sum::<usize>())?;
        Ok(Self {
            rows,
            bound,
            given: 0,
            _held: held,
        })
    }

    /// The next of the solutions; `None` if all were given.
    fn next(&mut self, current: &Batch, live: &[usize]) -> Option<Batch> {
        let part = self.given..(self.given + OUTPUT_ROWS).min(self.rows.len());
        if part.is_empty() {
            return None;
        }
        self.given = part.end;
        let mut out = current.gather(&self.rows[part.clone()], live);
        for (slot, ids) in &self.bound {
            out.columns[*slot] = ids[part.clone()].to_vec();
        }
        Some(out)
    }
}

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
            together: STARTS,
            found: None,
        }
    }

    /// Searches for rows `from..to` of the current batch, of which at least one end is known.
    fn search_rows(&self, from: usize, to: usize) -> Result<Found, QueryError> {
        let mut rows = Vec::new();
        let mut found = Vec::new();
        for (graphs, members) in self.rows_by_graph(from, to) {
            self.search_members(&graphs, &members, &mut rows, &mut found)?;
        }
        let bound = match (self.path.subject, self.path.object) {
            (Position::New(slot), _) | (_, Position::New(slot)) => vec![(slot, found)],
            _ => Vec::new(),
        };
        Found::new(rows, bound, &self.context)
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
                .collect::<FxHashSet<Pair>>()
        });
        let reached = search(&self.context, automaton, graphs, &starts, wanted)?;
        for &(index, node) in reached.pairs() {
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

    /// The next pairs of a path with both ends free, for the solution at `position`; `None` if
    /// there are no more for it.
    fn search_all(&mut self) -> Result<Option<Found>, QueryError> {
        let graphs = self.graphs(self.position);
        if self.starts.is_none() {
            let mut held = Held::new(self.context.governor());
            let nodes = start_nodes(&self.context, &self.path.forward, &graphs, &mut held)?;
            self.starts = Some((nodes, 0, held));
        }
        let (starts, used, _) = self.starts.as_mut().expect("set above");
        if *used >= starts.len() {
            self.starts = None;
            self.position += 1;
            return Ok(None);
        }
        let chunk = &starts[*used..(*used + self.together).min(starts.len())];
        let reached = search(&self.context, &self.path.forward, &graphs, chunk, None)?;
        *used += chunk.len();
        let rows = vec![self.position as u32; reached.pairs().len()];
        let mut bound = Vec::new();
        if let Position::New(slot) = self.path.subject {
            let starts = reached.pairs().iter().map(|(i, _)| chunk[*i as usize].0);
            bound.push((slot, starts.collect()));
        }
        if let Position::New(slot) = self.path.object {
            let nodes = reached.pairs().iter().map(|(_, node)| node.0);
            bound.push((slot, nodes.collect()));
        }
        Ok(Some(Found::new(rows, bound, &self.context)?))
    }

    /// Searches from the next start nodes: from half as many after each time that memory did not
    /// suffice, down to a single one.
    fn search(&mut self) -> Result<Option<Found>, QueryError> {
        let both_free = matches!(
            (self.path.subject, self.path.object),
            (Position::New(_), Position::New(_))
        );
        loop {
            self.context.check()?;
            let searched = if both_free {
                self.search_all()
            } else {
                let (from, to) = (self.position, self.position + self.together);
                let to = to.min(self.current.rows);
                let found = self.search_rows(from, to).map(Some);
                if found.is_ok() {
                    self.position = to;
                }
                found
            };
            match searched {
                Err(QueryError::Memory(_)) if self.together > 1 => self.together /= 2,
                searched => return searched,
            }
        }
    }
}

impl RowSource for PathSearch {
    fn feed(&mut self, batch: Batch) {
        self.input.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(found) = &mut self.found {
                if let Some(batch) = found.next(&self.current, &self.live) {
                    return Ok(Some(batch));
                }
                self.found = None;
            }
            if self.position < self.current.rows {
                self.found = self.search()?;
                continue;
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
    held: &mut Held,
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
                        push(&mut nodes, TermId(node), held)?;
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
    nodes.shrink_to_fit();
    held.set(nodes.capacity() * size_of::<TermId>())?;
    Ok(nodes)
}
