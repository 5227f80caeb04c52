//! Property paths: joins solutions with the pairs of nodes that a path connects.
//!
//! [`walk`] searches from many start nodes at once, or from fewer if memory is short. If both ends are
//! known, [`meet`] searches from both. If searching for a closure of whole predicates would read them over
//! and over, [`closure`] reads them once.

mod attribute;
mod closure;
mod components;
mod edges;
mod found;
mod front;
mod links;
mod meet;
mod starts;
mod visits;
mod walk;

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use rustc_hash::{FxHashMap, FxHashSet};

use self::attribute::EndValues;
use self::closure::Closure;
use self::found::{Found, Joined, number};
use self::meet::connected;
pub(super) use self::starts::is_node;
use self::starts::{first_edges, start_nodes};
use self::walk::{Reached, Wanted, search};
use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Held;
use crate::plan::automaton::Automaton;
use crate::plan::dataset::ABSENT;
use crate::plan::slots::Slots;
use crate::plan::step::{PathGraph, PathStep, Position};

/// Number of start nodes that are searched from together, if memory allows.
const STARTS: usize = 1024;

/// Number of start nodes whose ends are listed together from a closure.
const STARTS_OF_CLOSURE: usize = 64;

/// Approximate number of pairs of a closure that are made together.
const PAIRS: usize = 1 << 16;

/// Number of pairs of a closure that are made first, because a LIMIT may need no more.
const FIRST_PAIRS: usize = 1 << 10;

/// Number of edges that can be read and condensed in the time of one visit of a search.
const EDGES_PER_VISIT: u64 = 2;

/// Cost of a search from one of many nodes before its visits, in visits.
const VISITS_PER_START: u64 = 16;

/// With at least this many rows to test for a path from one constant, all nodes reached from it are found.
const ROWS_OF_CONSTANT: usize = 128;

/// Joins solutions with the pairs of nodes that a path connects.
pub(crate) struct PropertyPath {
    input: Fed,
    path: PathStep,
    part: CostId,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Batch,
    position: usize,
    /// With both ends free: the progress through the pairs for the solution at `position`.
    all: Option<All>,
    /// Number of start nodes that are searched from together.
    together: usize,
    whole: Whole,
    /// With both ends known, one of them a constant: all nodes reached from the constant, sorted, once it
    /// was worth finding them.
    from_constant: Option<Reached>,
    /// The values at all ends of the closure of whole predicates, once it is read, if the ends are joined with them.
    values_of_closure: Option<EndValues>,
    /// Solutions found and not yet returned.
    found: Option<Found>,
}

/// Pairs of a path with both ends free.
enum All {
    /// Every node that a path can start at, and how many of them are used up.
    Starts {
        nodes: Vec<TermId>,
        used: usize,
        _held: Held,
    },
    /// The closure, and how many of its nodes are used up.
    Closure(usize),
}

/// The closure of whole predicates.
enum Whole {
    /// Not read yet. Counts the visits of searches so far: once they cost as much as reading, it is read.
    Unread(u64),
    Read(Box<Closure>),
    /// The path is no such closure, or memory does not suffice.
    Unavailable,
}

/// The known end of a path, and the automaton to search with from there.
#[derive(Clone, Copy)]
struct Direction<'a> {
    start: Position,
    other: Position,
    automaton: &'a Automaton,
}

impl Direction<'_> {
    /// Returns whether only nodes of the graph can be starts. An empty path between two variables connects
    /// only nodes of the graph. With a constant at one end it connects that term, in the graph or not
    /// (SPARQL 1.1 §18.4).
    fn only_nodes(&self) -> bool {
        let is_constant = |end| matches!(end, Position::Constant(_));
        self.automaton.accepts_empty() && !is_constant(self.start) && !is_constant(self.other)
    }
}

impl PathStep {
    /// Returns an end that is a constant, the other end, and the automaton to search with from the first.
    fn constant_end(&self) -> Option<(TermId, Position, &Automaton)> {
        match (self.subject, self.object) {
            (subject, Position::Constant(object)) => Some((object, subject, &self.backward)),
            (Position::Constant(subject), object) => Some((subject, object, &self.forward)),
            _ => None,
        }
    }

    /// Returns the direction of the search: from the subject, unless only the object is known or the
    /// subjects are counted.
    fn direction(&self) -> Direction<'_> {
        let from_object = match (self.subject, self.object) {
            (Position::New(subject), Position::New(_)) => self.counted == Some(subject),
            (Position::New(_), _) => true,
            _ => false,
        };
        match from_object {
            true => Direction {
                start: self.object,
                other: self.subject,
                automaton: &self.backward,
            },
            false => Direction {
                start: self.subject,
                other: self.object,
                automaton: &self.forward,
            },
        }
    }
}

impl PropertyPath {
    pub(crate) fn new(
        input: Fed,
        path: PathStep,
        part: CostId,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let is_closure = path.direction().automaton.as_closure().is_some();
        Self {
            input,
            whole: match is_closure && !matches!(path.graph, PathGraph::Slot(_)) {
                true => Whole::Unread(0),
                false => Whole::Unavailable,
            },
            path,
            part,
            live,
            context,
            current: Batch::default(),
            position: 0,
            all: None,
            together: STARTS,
            from_constant: None,
            values_of_closure: None,
            found: None,
        }
    }

    /// Returns the graphs to search for a solution: usually one, or all that are merged.
    fn graphs(&self, row: usize) -> Vec<GraphFilter> {
        match self.path.graph {
            PathGraph::Merged => self.context.dataset.default_filters(),
            // Avoids starting a search by reading the whole store for a graph that does not exist.
            PathGraph::One(ABSENT) => Vec::new(),
            PathGraph::One(graph) => vec![GraphFilter::One(graph)],
            PathGraph::Slot(slot) => {
                vec![GraphFilter::One(TermId(self.current.value(slot, row)))]
            }
        }
    }

    /// Returns the rows to search for in each graph: all at once unless a slot names the graph.
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

    /// Searches for rows `from..to` of the current batch, of which at least one end is known.
    fn search_rows(&mut self, from: usize, to: usize) -> Result<Found, QueryError> {
        let mut found = Joined::new(&self.context);
        let direction = self.path.direction();
        let other = direction.other;
        let only_nodes = direction.only_nodes();
        for (graphs, members) in self.rows_by_graph(from, to) {
            if matches!(other, Position::New(_)) {
                let starts = self.distinct_starts(&members, only_nodes, &graphs)?;
                self.find_ends(&graphs, &starts, &mut found)?;
            } else {
                self.keep_connected(&graphs, &members, only_nodes, &mut found.starts)?;
            }
        }
        let mut bound = Vec::new();
        if let Position::New(slot) = other {
            bound.push((slot, found.ends));
        }
        if let Some(Position::New(slot)) = self.path.attribute.map(|attribute| attribute.value) {
            bound.push((slot, found.values));
        }
        drop(found.held);
        Found::new(found.starts, bound, &self.context)
    }

    /// Returns the distinct start nodes of some rows, each with its rows.
    fn distinct_starts(
        &self,
        members: &[u32],
        only_nodes: bool,
        graphs: &[GraphFilter],
    ) -> Result<Vec<(TermId, Vec<u32>)>, QueryError> {
        let start = self.path.direction().start;
        let mut number: FxHashMap<TermId, usize> = FxHashMap::default();
        let mut starts: Vec<(TermId, Vec<u32>)> = Vec::new();
        for &row in members {
            let node = self.value(start, row);
            if let Some(&number) = number.get(&node) {
                starts[number].1.push(row);
            } else if node.is_bound() && (!only_nodes || is_node(&self.context, node, graphs)?) {
                number.insert(node, starts.len());
                starts.push((node, vec![row]));
            }
        }
        Ok(starts)
    }

    /// Joins the rows of each start node with the nodes that a path leads to, or with their number if they
    /// are only counted. The nodes of a single start come sorted, as the planner expects.
    fn find_ends(
        &mut self,
        graphs: &[GraphFilter],
        starts: &[(TermId, Vec<u32>)],
        found: &mut Joined<u32>,
    ) -> Result<(), QueryError> {
        let nodes: Vec<TermId> = starts.iter().map(|(node, _)| *node).collect();
        let Some(mut reached) = self.search_from(graphs, &nodes)? else {
            if self.closure_has_values()? {
                return self.ends_of_closure(starts, found);
            }
            return self.find_ends(graphs, starts, found);
        };
        if self.path.counted.is_some() {
            for ((_, rows), &count) in starts.iter().zip(reached.counts()) {
                for &row in rows {
                    found.extend(row, number(count).as_slice())?;
                }
            }
            return Ok(());
        }
        if starts.len() == 1 {
            reached.sort();
        }
        let values = self.values_beside(|| {
            let reached = reached.pairs().iter().map(|(_, node)| *node);
            reached.chain(nodes).collect()
        })?;
        for &(start, node) in reached.pairs() {
            for &row in &starts[start as usize].1 {
                self.join(row, &[node.0], values.as_ref(), found)?;
            }
        }
        Ok(())
    }

    /// Reads the values of the ends' attribute beside the closure's edges from some nodes; `None` if no attribute is asked
    /// for.
    fn values_beside(
        &self,
        nodes: impl FnOnce() -> Vec<TermId>,
    ) -> Result<Option<EndValues>, QueryError> {
        let Some(attribute) = self.path.attribute else {
            return Ok(None);
        };
        let closure = self.path.direction().automaton.as_closure();
        let closure = closure.expect("only closures are joined with attributes");
        EndValues::read(&self.context, closure, attribute, nodes()).map(Some)
    }

    /// Joins a row with ends of its paths, and with their values if an attribute is asked for.
    fn join(
        &self,
        row: u32,
        ends: &[u64],
        values: Option<&EndValues>,
        found: &mut Joined<u32>,
    ) -> Result<(), QueryError> {
        let (Some(attribute), Some(values)) = (self.path.attribute, values) else {
            return found.extend(row, ends);
        };
        for &end in ends {
            let values = values.of(end);
            match attribute.value {
                Position::New(_) => found.extend_with_values(row, values)?,
                // Only this value was read.
                Position::Constant(_) if values.is_empty() => {}
                Position::Constant(_) => found.extend(row, &[end])?,
                Position::Bound(slot) => {
                    let value = self.current.value(slot, row as usize);
                    if values.binary_search(&(end, value)).is_ok() {
                        found.extend(row, &[end])?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the values at all ends of the closure of whole predicates, if an attribute is asked for. Returns false, and goes
    /// back to searches, if memory does not suffice for them.
    fn closure_has_values(&mut self) -> Result<bool, QueryError> {
        if let (None, Whole::Read(closure)) = (&self.values_of_closure, &self.whole) {
            let nodes = (0..closure.nodes()).map(|place| closure.node(place));
            match self.values_beside(|| nodes.collect()) {
                Ok(values) => self.values_of_closure = values,
                Err(QueryError::Memory(_)) => {
                    self.whole = Whole::Unavailable;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Does the same as [`Self::find_ends`] with the closure of whole predicates.
    fn ends_of_closure(
        &mut self,
        starts: &[(TermId, Vec<u32>)],
        found: &mut Joined<u32>,
    ) -> Result<(), QueryError> {
        let Whole::Read(mut closure) = std::mem::replace(&mut self.whole, Whole::Unavailable)
        else {
            unreachable!("searched for without it");
        };
        let joined = self.join_ends_of(&mut closure, starts, found);
        self.whole = Whole::Read(closure);
        joined
    }

    fn join_ends_of(
        &mut self,
        closure: &mut Closure,
        starts: &[(TermId, Vec<u32>)],
        found: &mut Joined<u32>,
    ) -> Result<(), QueryError> {
        let counted = self.path.counted.is_some();
        for (start, rows) in starts {
            let count;
            let ends = match counted {
                true => {
                    count = number(closure.count_from(*start)?);
                    count.as_slice()
                }
                false => closure.ends_from(*start, starts.len() == 1)?,
            };
            for &row in rows {
                self.join(row, ends, self.values_of_closure.as_ref(), found)?;
            }
        }
        Ok(())
    }

    /// Returns the nodes reached from `starts`. Returns `None` if the closure of whole predicates is to be
    /// used, because searching has cost as much by now as reading them.
    fn search_from(
        &mut self,
        graphs: &[GraphFilter],
        starts: &[TermId],
    ) -> Result<Option<Reached>, QueryError> {
        let automaton = self.path.direction().automaton;
        let enough = first_edges(&self.context, automaton)? / EDGES_PER_VISIT;
        let least = starts.len().saturating_sub(1) as u64 * VISITS_PER_START;
        let left = match &self.whole {
            Whole::Read(_) => return Ok(None),
            Whole::Unread(visits) => enough.saturating_sub(visits + least),
            Whole::Unavailable => u64::MAX,
        };
        let (reached, visits) = search(
            &self.context,
            automaton,
            graphs,
            starts,
            self.wanted(),
            left,
        )?;
        self.note_visits(visits);
        if visits <= left {
            if let Whole::Unread(before) = &mut self.whole {
                *before += visits + least;
            }
            return Ok(Some(reached));
        }
        drop(reached);
        self.read_closure(graphs, &[])?;
        self.search_from(graphs, starts)
    }

    fn wanted(&self) -> Wanted {
        match self.path.counted {
            Some(_) => Wanted::Counts,
            None => Wanted::All,
        }
    }

    /// Keeps the rows whose two ends are connected by a path.
    fn keep_connected(
        &mut self,
        graphs: &[GraphFilter],
        members: &[u32],
        only_nodes: bool,
        kept: &mut Vec<u32>,
    ) -> Result<(), QueryError> {
        if let Some((constant, other, automaton)) = self.path.constant_end()
            && !matches!(self.path.graph, PathGraph::Slot(_))
            && (members.len() >= ROWS_OF_CONSTANT || self.from_constant.is_some())
        {
            if self.from_constant.is_none() {
                let starts = &[constant];
                let (context, wanted) = (&self.context, Wanted::All);
                let found = search(context, automaton, graphs, starts, wanted, u64::MAX)?;
                let (mut reached, visits) = found;
                self.note_visits(visits);
                reached.sort();
                self.from_constant = Some(reached);
            }
            let reached = self.from_constant.as_ref().map_or(&[][..], Reached::pairs);
            let is_reached = |row: &&u32| {
                reached
                    .binary_search(&(0, self.value(other, **row)))
                    .is_ok()
            };
            kept.extend(members.iter().filter(is_reached));
            return Ok(());
        }
        let ends = |row: u32| {
            let (subject, object) = (self.path.subject, self.path.object);
            (self.value(subject, row), self.value(object, row))
        };
        let pairs: FxHashSet<(TermId, TermId)> = members
            .iter()
            .map(|row| ends(*row))
            .filter(|(subject, object)| subject.is_bound() && object.is_bound())
            .collect();
        let (mut found, visits) = connected(&self.context, &self.path, graphs, pairs)?;
        self.note_visits(visits);
        if only_nodes {
            let same = found.iter().filter(|(s, o)| s == o).map(|(s, _)| *s);
            for node in same.collect::<Vec<TermId>>() {
                if !is_node(&self.context, node, graphs)? {
                    found.remove(&(node, node));
                }
            }
        }
        kept.extend(members.iter().filter(|row| found.contains(&ends(**row))));
        Ok(())
    }

    fn read_closure(&mut self, graphs: &[GraphFilter], nodes: &[TermId]) -> Result<(), QueryError> {
        let automaton = self.path.direction().automaton;
        let edges = automaton.as_closure().expect("known to be one");
        self.whole = match Closure::read(&self.context, edges, graphs, nodes) {
            Ok(closure) => {
                if self.path.counted.is_none() {
                    // Searches share work across start nodes; lists of ends from a closure do not.
                    self.together = self.together.min(STARTS_OF_CLOSURE);
                }
                Whole::Read(Box::new(closure))
            }
            Err(QueryError::Memory(_)) => Whole::Unavailable,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Prepares to find all pairs of a path with both ends free.
    fn begin_all(&mut self) -> Result<All, QueryError> {
        if let Whole::Read(_) = self.whole {
            return Ok(All::Closure(0));
        }
        let graphs = self.graphs(self.position);
        let mut held = Held::new(self.context.governor());
        if let Whole::Unread(_) = self.whole {
            let automaton = self.path.direction().automaton;
            let nodes = match automaton.accepts_empty() {
                true => start_nodes(&self.context, automaton, &graphs, &mut held)?,
                false => Vec::new(),
            };
            self.read_closure(&graphs, &nodes)?;
            if let Whole::Read(_) = self.whole {
                return Ok(All::Closure(0));
            }
        }
        let automaton = self.path.direction().automaton;
        let nodes = start_nodes(&self.context, automaton, &graphs, &mut held)?;
        Ok(All::Starts {
            nodes,
            used: 0,
            _held: held,
        })
    }

    /// Returns the next pairs of a path with both ends free, for the solution at `position`; `None` if
    /// there are no more.
    fn search_all(&mut self) -> Result<Option<Found>, QueryError> {
        let mut all = match self.all.take() {
            Some(all) => all,
            None => self.begin_all()?,
        };
        let found = match &mut all {
            All::Closure(next) => self.pairs_of_closure(next),
            All::Starts { nodes, used, .. } => self.pairs_of_starts(nodes, used),
        };
        if matches!(found, Ok(None)) {
            self.position += 1;
        } else {
            self.all = Some(all);
        }
        found
    }

    fn pairs_of_starts(
        &self,
        starts: &[TermId],
        used: &mut usize,
    ) -> Result<Option<Found>, QueryError> {
        if *used >= starts.len() {
            return Ok(None);
        }
        let graphs = self.graphs(self.position);
        let chunk = &starts[*used..(*used + self.together).min(starts.len())];
        let automaton = self.path.direction().automaton;
        let (context, wanted) = (&self.context, self.wanted());
        let (reached, visits) = search(context, automaton, &graphs, chunk, wanted, u64::MAX)?;
        self.note_visits(visits);
        let mut pairs = Joined::new(&self.context);
        if self.path.counted.is_some() {
            for (start, &count) in chunk.iter().zip(reached.counts()) {
                pairs.extend(start.0, number(count).as_slice())?;
            }
        } else {
            for (start, node) in reached.pairs() {
                pairs.extend(chunk[*start as usize].0, &[node.0])?;
            }
        }
        let found = self.found_pairs(pairs)?;
        *used += chunk.len();
        Ok(Some(found))
    }

    fn pairs_of_closure(&mut self, next: &mut usize) -> Result<Option<Found>, QueryError> {
        let Whole::Read(closure) = &mut self.whole else {
            unreachable!("gone through once it is read");
        };
        if *next == closure.nodes() {
            return Ok(None);
        }
        let mut pairs = Joined::new(&self.context);
        let pairs_max = if *next == 0 { FIRST_PAIRS } else { PAIRS };
        let most = pairs_max / STARTS_OF_CLOSURE * self.together.min(STARTS_OF_CLOSURE);
        let mut place = *next;
        while place < closure.nodes() && pairs.starts.len() < most {
            let start = closure.node(place).0;
            if self.path.counted.is_some() {
                let count = closure.count_from_node(place)?;
                pairs.extend(start, number(count).as_slice())?;
            } else {
                pairs.extend(start, closure.ends_from_node(place)?)?;
            }
            place += 1;
        }
        let found = self.found_pairs(pairs)?;
        *next = place;
        Ok(Some(found))
    }

    fn found_pairs(&self, pairs: Joined<u64>) -> Result<Found, QueryError> {
        let rows = vec![self.position as u32; pairs.starts.len()];
        let mut bound = Vec::new();
        let direction = self.path.direction();
        if let Position::New(slot) = direction.start {
            bound.push((slot, pairs.starts));
        }
        if let Position::New(slot) = direction.other {
            bound.push((slot, pairs.ends));
        }
        drop(pairs.held);
        Found::new(rows, bound, &self.context)
    }

    /// Searches from the next start nodes. Halves their number each time that memory does not suffice, down
    /// to one.
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

    fn note_visits(&self, visits: u64) {
        if let Some(profile) = &self.context.profile {
            profile.note_visits(self.part, visits);
        }
    }
}

impl RowSource for PropertyPath {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if let Some(found) = &mut self.found {
                let most = self.context.governor().batch_rows(self.live.len());
                if let Some(batch) = found.next(&self.current, &self.live, most) {
                    return Ok(Some(batch));
                }
                self.found = None;
            }
            if self.position < self.current.rows {
                self.found = self.search()?;
                continue;
            }
            match self.input.take() {
                Some(batch) => {
                    self.current = batch;
                    self.position = 0;
                }
                None => return Ok(None),
            }
        }
    }
}
