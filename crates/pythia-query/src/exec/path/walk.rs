//! A breadth-first search over the product of graph and automaton, frontier by frontier, each
//! frontier's pages read in batches.

use hashbrown::HashTable;
use pythia_rdf::TermId;
use pythia_store::{End, Expansion, GraphFilter};
use rustc_hash::FxHashSet;

use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::governor::Held;
use crate::plan::automaton::{Automaton, Edges, Transition};
use crate::spill::table::hash_ids;

/// How many nodes' links are read together: enough for the device, few enough to be held.
const NODES: usize = 1024;

/// A pair found: the start's index and the node reached.
pub(super) type Pair = (u32, TermId);

/// The pairs found, with the memory they take.
pub(super) struct Reached {
    pairs: Vec<Pair>,
    held: Held,
}

impl Reached {
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    fn push(&mut self, pair: Pair) -> Result<(), QueryError> {
        push(&mut self.pairs, pair, &mut self.held)
    }
}

/// Appends to a list whose memory is held, with what growing it takes.
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
struct Visit {
    state: u32,
    start: u32,
    node: TermId,
}

/// Visits of up to 64 nodes with neighbouring ids. Ids are ranks, so what is near in the graph is
/// often near here: a search through most of a graph takes bits, not bytes, for a node.
struct Group {
    group: u64,
    start: u32,
    state: u32,
    /// Which of the group's nodes were visited.
    nodes: u64,
}

impl Group {
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
struct Visited {
    groups: HashTable<Group>,
    held: Held,
}

impl Visited {
    /// Adds a visit; false if it was there.
    fn insert(&mut self, visit: Visit) -> Result<bool, QueryError> {
        let group = Group::of(visit);
        let hash = group.hash();
        if let Some(found) = self.groups.find_mut(hash, |other| other.is(&group)) {
            let is_new = found.nodes & group.nodes == 0;
            found.nodes |= group.nodes;
            return Ok(is_new);
        }
        if self.groups.len() == self.groups.capacity() {
            // While it grows there is an old table and one of twice the size.
            let now = self.groups.allocation_size();
            self.held.set(now * 3 + 64 * size_of::<Group>())?;
            self.groups.reserve(self.groups.len().max(16), Group::hash);
            self.held.set(self.groups.allocation_size())?;
        }
        self.groups.insert_unique(hash, group, Group::hash);
        Ok(true)
    }

    fn contains(&self, visit: Visit) -> bool {
        let group = Group::of(visit);
        let found = self.groups.find(group.hash(), |other| other.is(&group));
        found.is_some_and(|found| found.nodes & group.nodes != 0)
    }
}

/// A search from several nodes at once.
struct Walk<'a> {
    context: &'a QueryContext,
    automaton: &'a Automaton,
    graphs: &'a [GraphFilter],
    /// The accepting states.
    accepting: Vec<u32>,
    /// The pairs asked for, if not all.
    wanted: Option<FxHashSet<Pair>>,
    visited: Visited,
    /// What was reached first in the last step.
    next: Vec<Visit>,
    next_held: Held,
    reached: Reached,
}

/// The distinct (start, node) pairs connected by a path the automaton accepts.
///
/// With `wanted`, only those pairs are given, and the search ends once all are found.
pub(super) fn search(
    context: &QueryContext,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    starts: &[TermId],
    wanted: Option<FxHashSet<Pair>>,
) -> Result<Reached, QueryError> {
    let held = || Held::new(context.governor());
    let states = 0..automaton.accepting.len();
    let mut walk = Walk {
        context,
        automaton,
        graphs,
        accepting: states
            .filter(|&state| automaton.accepting[state])
            .map(|state| state as u32)
            .collect(),
        wanted,
        visited: Visited {
            groups: HashTable::new(),
            held: held(),
        },
        next: Vec::new(),
        next_held: held(),
        reached: Reached {
            pairs: Vec::new(),
            held: held(),
        },
    };
    for (start, &node) in starts.iter().enumerate() {
        walk.visit(Visit {
            state: 0,
            start: start as u32,
            node,
        })?;
    }
    while !walk.next.is_empty() && !walk.is_done() {
        walk.step()?;
    }
    Ok(walk.reached)
}

impl Walk<'_> {
    fn is_done(&self) -> bool {
        self.wanted.as_ref().is_some_and(FxHashSet::is_empty)
    }

    /// Notes a visit, if it is the first like it.
    fn visit(&mut self, visit: Visit) -> Result<(), QueryError> {
        if !self.visited.insert(visit)? {
            return Ok(());
        }
        push(&mut self.next, visit, &mut self.next_held)?;
        if !self.automaton.accepting[visit.state as usize] {
            return Ok(());
        }
        let pair = (visit.start, visit.node);
        if let Some(wanted) = &mut self.wanted {
            return match wanted.remove(&pair) {
                true => self.reached.push(pair),
                false => Ok(()),
            };
        }
        // In another accepting state it would have been found already.
        let others = self.accepting.iter().filter(|state| **state != visit.state);
        for &state in others {
            if self.visited.contains(Visit { state, ..visit }) {
                return Ok(());
            }
        }
        self.reached.push(pair)
    }

    /// Follows all transitions from what was reached last.
    fn step(&mut self) -> Result<(), QueryError> {
        let mut frontier = std::mem::take(&mut self.next);
        let held = Held::new(self.context.governor());
        let _frontier_held = std::mem::replace(&mut self.next_held, held);
        frontier.sort_unstable_by_key(|visit| (visit.state, visit.node, visit.start));
        for group in frontier.chunk_by(|a, b| a.state == b.state) {
            let mut rest = group;
            while !rest.is_empty() {
                let (nodes, first) = distinct_nodes(rest);
                let (now, later) = rest.split_at(first[nodes.len()]);
                rest = later;
                for transition in &self.automaton.transitions[now[0].state as usize] {
                    self.context.check()?;
                    self.follow(transition, now, &nodes, &first)?;
                    if self.is_done() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Follows one transition from some visits, whose distinct nodes are `nodes`.
    fn follow(
        &mut self,
        transition: &Transition,
        visits: &[Visit],
        nodes: &[TermId],
        first: &[usize],
    ) -> Result<(), QueryError> {
        let end = if transition.inverse {
            End::Object
        } else {
            End::Subject
        };
        let predicate = match &transition.edges {
            Edges::Predicate(predicate) => Some(*predicate),
            Edges::Except(_) => None,
        };
        let mut links = Expansion::new(predicate.is_none(), false);
        for &graph in self.graphs {
            let snapshot = &self.context.snapshot;
            snapshot.expand(end, nodes, predicate, graph, &mut links)?;
        }
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
            for visit in &visits[first[source]..first[source + 1]] {
                self.visit(Visit {
                    state: transition.target as u32,
                    start: visit.start,
                    node: TermId(links.other[link]),
                })?;
            }
        }
        Ok(())
    }
}

/// The first distinct nodes of visits sorted by node, where the visits of each start, and where
/// those of the last end.
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
