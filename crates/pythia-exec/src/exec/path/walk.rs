//! A breadth-first search over the product of graph and automaton, frontier by frontier. Each frontier's
//! pages are read in batches. If the frontier is a large part of a predicate's nodes, the predicate's
//! column is read instead.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashTable;
use pythia_rdf::TermId;
use pythia_store::{Component, End, Expansion, GraphFilter, Order, QuadPattern};
use rustc_hash::FxHashSet;

use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::several_graphs;
use crate::limits::governor::Held;
use crate::limits::spill::table::hash_ids;
use crate::plan::automaton::{Automaton, Edges, Transition};

/// Number of nodes whose links are read together: enough to keep the device busy, few enough to hold.
const NODES: usize = 1024;

/// Number of rows of a column that can be read in the time of visiting a node's tuple.
const ROWS_PER_VISIT: u64 = 20;

/// The most nodes whose links are counted, not estimated, to choose the next search to continue.
const NODES_COUNTED_MAX: usize = 8;

/// A found pair: the start's index and the node reached.
pub(super) type Pair = (u32, TermId);

/// The found pairs and their memory.
pub(super) struct Reached {
    pairs: Vec<Pair>,
    held: Held,
}

impl Reached {
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Sorts the pairs by start and node.
    pub(super) fn sort(&mut self) {
        self.pairs.sort_unstable();
    }

    fn push(&mut self, pair: Pair) -> Result<(), QueryError> {
        push(&mut self.pairs, pair, &mut self.held)
    }
}

/// Appends to a list whose memory is held, including the memory for growing it.
pub(super) fn push<T>(list: &mut Vec<T>, item: T, held: &mut Held) -> Result<(), QueryError> {
    if list.len() == list.capacity() {
        let capacity = (list.capacity() * 2).max(64);
        held.set((list.capacity() + capacity) * size_of::<T>())?;
        list.reserve_exact(capacity - list.len());
        held.set(list.capacity() * size_of::<T>())?;
    }
    list.push(item);
    Ok(())
}

/// One automaton state at one node, for one start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Visit {
    pub(super) state: u32,
    pub(super) start: u32,
    pub(super) node: TermId,
}

impl Visit {
    /// Makes a visit to start from.
    pub(super) fn start(start: usize, node: TermId, state: u32) -> Self {
        Self {
            state,
            start: start as u32,
            node,
        }
    }
}

/// Visits of up to 64 nodes with neighbouring ids. Ids are ranks, and nodes that are close in the graph
/// often have close ids, so a search through most of a graph takes bits instead of bytes per node.
struct NearbyVisits {
    group: u64,
    start: u32,
    state: u32,
    /// A bit for each visited node of the group.
    nodes: u64,
}

impl NearbyVisits {
    fn of(visit: Visit) -> Self {
        Self {
            group: visit.node.0 >> 6,
            start: visit.start,
            state: visit.state,
            nodes: 1 << (visit.node.0 & 63),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (self.group, self.start, self.state) == (other.group, other.start, other.state)
    }

    fn hash(&self) -> u64 {
        let ends = u64::from(self.start) << 32 | u64::from(self.state);
        hash_ids([self.group, ends], 0)
    }
}

/// All visits of a search.
pub(super) struct Visited {
    groups: HashTable<NearbyVisits>,
    /// The number of visits.
    visits: u64,
    held: Held,
}

impl Visited {
    /// Adds a visit; returns false if it exists.
    fn insert(&mut self, visit: Visit) -> Result<bool, QueryError> {
        let group = NearbyVisits::of(visit);
        let hash = group.hash();
        if let Some(found) = self.groups.find_mut(hash, |other| other.is(&group)) {
            let is_new = found.nodes & group.nodes == 0;
            found.nodes |= group.nodes;
            self.visits += u64::from(is_new);
            return Ok(is_new);
        }
        if self.groups.len() == self.groups.capacity() {
            // While the table grows, the old one and one of twice the size exist.
            let now = self.groups.allocation_size();
            self.held.set(now * 3 + 64 * size_of::<NearbyVisits>())?;
            self.groups
                .reserve(self.groups.len().max(16), NearbyVisits::hash);
            self.held.set(self.groups.allocation_size())?;
        }
        self.groups.insert_unique(hash, group, NearbyVisits::hash);
        self.visits += 1;
        Ok(true)
    }

    pub(super) fn contains(&self, visit: Visit) -> bool {
        let group = NearbyVisits::of(visit);
        let found = self.groups.find(group.hash(), |other| other.is(&group));
        found.is_some_and(|found| found.nodes & group.nodes != 0)
    }
}

/// The front of a breadth-first search from several nodes at once, and all visits before it.
pub(super) struct Wave<'a> {
    context: &'a QueryContext,
    /// Per state.
    transitions: &'a [Vec<Transition>],
    graphs: &'a [GraphFilter],
    visited: Visited,
    /// The visits first made in the last step.
    front: Vec<Visit>,
    front_held: Held,
}

/// Called for each new visit. The search ends with `Break`.
type Arrived<'f> = &'f mut dyn FnMut(&Visited, Visit) -> Result<ControlFlow<()>, QueryError>;

impl<'a> Wave<'a> {
    pub(super) fn new(
        context: &'a QueryContext,
        transitions: &'a [Vec<Transition>],
        graphs: &'a [GraphFilter],
    ) -> Self {
        let held = || Held::new(context.governor());
        Self {
            context,
            transitions,
            graphs,
            visited: Visited {
                groups: HashTable::new(),
                visits: 0,
                held: held(),
            },
            front: Vec::new(),
            front_held: held(),
        }
    }

    /// Returns the number of visits made so far.
    pub(super) fn visits(&self) -> u64 {
        self.visited.visits
    }

    pub(super) fn visited(&self) -> &Visited {
        &self.visited
    }

    /// Returns whether there is nothing left to continue from.
    pub(super) fn is_over(&self) -> bool {
        self.front.is_empty()
    }

    /// Returns the expected number of links in the next step: counted on the pages of a few nodes,
    /// estimated for many.
    pub(super) fn links_expected(&self) -> Result<f64, QueryError> {
        let (counts, mut links) = (self.context.counts(), 0.0);
        let are_counted = self.front.len() <= NODES_COUNTED_MAX;
        for visit in &self.front {
            for transition in &self.transitions[visit.state as usize] {
                links += if are_counted {
                    counts.expected(&transition.edges_of(visit.node))?
                } else {
                    let (edges, nodes) = transition.counts(counts)?;
                    edges / nodes.max(1.0)
                };
            }
        }
        Ok(links)
    }

    /// Adds a visit without calling back.
    pub(super) fn begin(&mut self, visit: Visit) -> Result<(), QueryError> {
        let arrived = &mut |_: &Visited, _| Ok(ControlFlow::Continue(()));
        self.visit(visit, arrived).map(|_| ())
    }

    /// Adds a visit if it is new.
    pub(super) fn visit(
        &mut self,
        visit: Visit,
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        if !self.visited.insert(visit)? {
            return Ok(ControlFlow::Continue(()));
        }
        push(&mut self.front, visit, &mut self.front_held)?;
        arrived(&self.visited, visit)
    }

    /// Follows all transitions from the current front.
    pub(super) fn step(&mut self, arrived: Arrived<'_>) -> Result<ControlFlow<()>, QueryError> {
        let mut front = std::mem::take(&mut self.front);
        let held = Held::new(self.context.governor());
        let _front_held = std::mem::replace(&mut self.front_held, held);
        front.sort_unstable_by_key(|visit| (visit.state, visit.node, visit.start));
        let all = self.transitions;
        for group in front.chunk_by(|a, b| a.state == b.state) {
            let transitions = &all[group[0].state as usize];
            let nodes = group.chunk_by(|a, b| a.node == b.node).count();
            let (mut scanned, mut expanded) = (Vec::new(), Vec::new());
            for transition in transitions {
                match self.is_scan_cheaper(transition, nodes)? {
                    true => scanned.push(transition),
                    false => expanded.push(transition),
                }
            }
            for transition in scanned {
                if self.follow_column(transition, group, arrived)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            let mut rest = group;
            while !rest.is_empty() && !expanded.is_empty() {
                let (nodes, first) = distinct_nodes(rest);
                let (now, later) = rest.split_at(first[nodes.len()]);
                rest = later;
                for transition in &expanded {
                    self.context.check()?;
                    let followed = self.follow(transition, now, &nodes, &first, arrived)?;
                    if followed.is_break() {
                        return Ok(followed);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns whether reading all links of a predicate costs less than visiting the tuples of this many
    /// nodes.
    fn is_scan_cheaper(&self, transition: &Transition, nodes: usize) -> Result<bool, QueryError> {
        let Edges::Predicate(predicate) = transition.edges else {
            return Ok(false);
        };
        let counts = self.context.counts().predicate(predicate)?;
        Ok(counts.is_some_and(|counts| counts.quads <= nodes as u64 * ROWS_PER_VISIT))
    }

    /// Follows one transition from some visits, whose distinct nodes are `nodes`.
    fn follow(
        &mut self,
        transition: &Transition,
        visits: &[Visit],
        nodes: &[TermId],
        first: &[usize],
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let end = if transition.inverse {
            End::Object
        } else {
            End::Subject
        };
        let predicate = match &transition.edges {
            Edges::Predicate(predicate) => Some(*predicate),
            Edges::Except(_) => None,
        };
        let mut links = Expansion::new(predicate.is_none(), false)
            .within(Arc::clone(self.context.governor()) as _);
        several_graphs::expand(self.context, self.graphs, end, nodes, predicate, &mut links)?;
        let mut links_held = Held::new(self.context.governor());
        let ids = links.other.capacity() + links.predicate.capacity();
        links_held.set(ids * 8 + links.source.capacity() * 4)?;
        for (link, &source) in links.source.iter().enumerate() {
            if link.is_multiple_of(1 << 16) {
                self.context.check()?;
            }
            if let Edges::Except(except) = &transition.edges
                && except.binary_search(&TermId(links.predicate[link])).is_ok()
            {
                continue;
            }
            let source = source as usize;
            let visits = &visits[first[source]..first[source + 1]];
            let target = TermId(links.other[link]);
            if self.arrive(transition, visits, target, arrived)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Follows one transition from all visits in a state, sorted by node, by reading the predicate's column
    /// between their nodes.
    fn follow_column(
        &mut self,
        transition: &Transition,
        visits: &[Visit],
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let Edges::Predicate(predicate) = transition.edges else {
            unreachable!("only predicates have columns");
        };
        let (order, wanted) = match transition.inverse {
            false => (Order::Pso, [Component::Subject, Component::Object]),
            true => (Order::Pos, [Component::Object, Component::Subject]),
        };
        let ids = visits[0].node.0..visits[visits.len() - 1].node.0 + 1;
        let pattern = QuadPattern {
            predicate: Some(predicate),
            ..QuadPattern::default()
        };
        let (context, graphs) = (self.context, self.graphs);
        let (mut rest, mut last) = (visits, 0);
        several_graphs::scan(
            context,
            graphs,
            &pattern,
            order,
            Some(ids),
            &wanted,
            |batch| {
                for (&source, &target) in batch.columns[0].iter().zip(&batch.columns[1]) {
                    if source < last {
                        // The next graph.
                        rest = visits;
                    }
                    last = source;
                    while rest.first().is_some_and(|visit| visit.node.0 < source) {
                        rest = &rest[1..];
                    }
                    let here = rest.iter().take_while(|visit| visit.node.0 == source);
                    let here = &rest[..here.count()];
                    let flow = self.arrive(transition, here, TermId(target), arrived)?;
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
                Ok(ControlFlow::Continue(()))
            },
        )
    }

    /// Arrives at `target` over a link from some visits of a node.
    fn arrive(
        &mut self,
        transition: &Transition,
        visits: &[Visit],
        target: TermId,
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        for visit in visits {
            let visit = Visit {
                state: transition.target as u32,
                start: visit.start,
                node: target,
            };
            if self.visit(visit, arrived)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Returns the distinct (start, node) pairs connected by a path that the automaton accepts, and the number
/// of visits made.
///
/// With `wanted`, returns only those pairs and stops once all are found. Stops after `visits_max` visits;
/// some pairs may then be missing.
pub(super) fn search(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    starts: &[TermId],
    mut wanted: Option<FxHashSet<Pair>>,
    visits_max: u64,
) -> Result<(Reached, u64), QueryError> {
    let accepting: Vec<u32> = (0..automaton.accepting.len() as u32)
        .filter(|state| automaton.accepting[*state as usize])
        .collect();
    let mut reached = Reached {
        pairs: Vec::new(),
        held: Held::new(context.governor()),
    };
    let mut arrived = |visited: &Visited, visit: Visit| {
        if visited.visits > visits_max {
            return Ok(ControlFlow::Break(()));
        }
        if !automaton.accepting[visit.state as usize] {
            return Ok(ControlFlow::Continue(()));
        }
        let pair = (visit.start, visit.node);
        if let Some(wanted) = &mut wanted {
            if wanted.remove(&pair) {
                reached.push(pair)?;
            }
            return Ok(match wanted.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        }
        // A visit in another accepting state has already added the pair.
        let mut others = accepting.iter().filter(|state| **state != visit.state);
        if !others.any(|&state| visited.contains(Visit { state, ..visit })) {
            reached.push(pair)?;
        }
        Ok(ControlFlow::Continue(()))
    };
    let mut wave = Wave::new(context, &automaton.transitions, graphs);
    let mut flow = ControlFlow::Continue(());
    for (start, &node) in starts.iter().enumerate() {
        if flow.is_continue() {
            flow = wave.visit(Visit::start(start, node, 0), &mut arrived)?;
        }
    }
    while flow.is_continue() && !wave.is_over() {
        flow = wave.step(&mut arrived)?;
    }
    Ok((reached, wave.visits()))
}

/// Returns the first distinct nodes of visits sorted by node, the position where the visits of each start,
/// and the position where those of the last end.
fn distinct_nodes(visits: &[Visit]) -> (Vec<TermId>, Vec<usize>) {
    let (mut nodes, mut first) = (Vec::new(), Vec::new());
    for (place, visit) in visits.iter().enumerate() {
        if nodes.last() != Some(&visit.node) {
            first.push(place);
            if nodes.len() == NODES {
                return (nodes, first);
            }
            nodes.push(visit.node);
        }
    }
    first.push(visits.len());
    (nodes, first)
}
