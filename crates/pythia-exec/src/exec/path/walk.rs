//! A breadth-first search over the product of graph and automaton, frontier by frontier. Each frontier's
//! pages are read in batches. If the frontier is a large part of a predicate's nodes, the predicate's
//! column is read instead.
//!
//! ```text
//! frontier → visits over the links of parts of it, on any thread → those that are new, in parts by their hash, on any thread
//! ```
//!
//! The visits and their order do not depend on the number of threads.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::Mutex;
use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use rustc_hash::FxHashSet;

use super::links::{Front, Links, Part, Reading};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Ordered, Work};
use crate::limits::exchange::{Divided, PARTS, Parted, ROWS_MIN, part_of};
use crate::limits::fork::fork;
use crate::limits::governor::{Governor, Held};
use crate::limits::spill::table::hash_ids;
use crate::plan::automaton::{Automaton, Edges, Transition};

/// Number of nodes whose links are read together: enough to keep the device busy, few enough to hold.
const NODES: usize = 1024;
/// Minimum number of nodes whose links are read together, and the expected number of links from which on they are fewer.
const NODES_MIN: usize = 16;
const LINKS: f64 = 131_072.0;
/// Number of nodes of a part of a column that is read by one thread. Fronts of more nodes and visits are divided.
const COLUMN_NODES: usize = 8192;
/// Number of visits from which on they are in parts, and new ones are added many together.
const MANY_VISITS: u64 = 1 << 15;
/// Number of visits that are added together, if there are many.
const ARRIVING: usize = 1 << 15;

/// Number of rows of a column that can be read in the time of visiting a node's tuple.
const ROWS_PER_VISIT: u64 = 20;

/// The most nodes whose links are counted, not estimated, to choose the next search to continue.
const NODES_COUNTED_MAX: usize = 8;

/// A found pair: the start's index and the node reached.
pub(super) type Pair = (u32, TermId);

/// The pairs that a search is for.
pub(super) enum Wanted {
    All,
    /// Only the number of those of each start.
    Counts,
    /// These. The search stops once all are found.
    Some(FxHashSet<Pair>),
}

/// The found pairs and their memory.
pub(super) struct Reached {
    pairs: Vec<Pair>,
    /// The number of pairs of each start, if only that is wanted.
    counts: Vec<u64>,
    held: Held,
}

impl Reached {
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
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
    /// One as long as there are few visits.
    parts: Vec<Mutex<SomeVisits>>,
    /// The number of visits.
    visits: u64,
    governor: Arc<Governor>,
}

/// The visits of one part.
struct SomeVisits {
    groups: HashTable<NearbyVisits>,
    held: Held,
}

impl Visited {
    pub(super) fn new(governor: &Arc<Governor>) -> Self {
        Self {
            parts: vec![Mutex::new(SomeVisits::new(governor))],
            visits: 0,
            governor: Arc::clone(governor),
        }
    }

    /// Adds a visit; returns false if it exists.
    pub(super) fn insert(&mut self, visit: Visit) -> Result<bool, QueryError> {
        let group = NearbyVisits::of(visit);
        let hash = group.hash();
        let part = self.part(hash);
        let is_new = self.parts[part].get_mut().insert(hash, group)?;
        self.visits += u64::from(is_new);
        Ok(is_new)
    }

    pub(super) fn contains(&self, visit: Visit) -> bool {
        let group = NearbyVisits::of(visit);
        let hash = group.hash();
        let part = self.parts[self.part(hash)].lock();
        let found = part.groups.find(hash, |other| other.is(&group));
        found.is_some_and(|found| found.nodes & group.nodes != 0)
    }

    fn part(&self, hash: u64) -> usize {
        match self.parts.len() {
            1 => 0,
            _ => part_of(hash),
        }
    }

    /// Adds visits to all parts on all free cores, and returns which of them are new.
    fn insert_all(&mut self, visits: &[Visit]) -> Result<Vec<bool>, QueryError> {
        let cores = self.governor.cores();
        let divided = Divided::new(cores, visits.len(), |rows| {
            let visits = &visits[rows];
            Parted::by(visits.len(), |row| NearbyVisits::of(visits[row]).hash())
        })?;
        let new = fork(cores, PARTS, |part| {
            let mut groups = self.parts[part].lock();
            let mut new = Vec::new();
            for place in divided.rows(part) {
                let group = NearbyVisits::of(visits[place]);
                if groups.insert(group.hash(), group)? {
                    new.push(place);
                }
            }
            Ok(new)
        })?;
        let mut are_new = vec![false; visits.len()];
        for place in new.into_iter().flatten() {
            are_new[place] = true;
            self.visits += 1;
        }
        Ok(are_new)
    }

    /// Divides the visits into parts, unless that was done before.
    fn divide(&mut self) -> Result<(), QueryError> {
        if self.parts.len() > 1 {
            return Ok(());
        }
        let all = self.parts.pop().expect("one part").into_inner();
        let mut parts: Vec<_> = (0..PARTS)
            .map(|_| SomeVisits::new(&self.governor))
            .collect();
        for group in all.groups {
            let hash = group.hash();
            parts[part_of(hash)].insert(hash, group)?;
        }
        self.parts = parts.into_iter().map(Mutex::new).collect();
        Ok(())
    }
}

impl SomeVisits {
    fn new(governor: &Arc<Governor>) -> Self {
        Self {
            groups: HashTable::new(),
            held: Held::new(governor),
        }
    }

    /// Adds visits of a group; returns false if they exist.
    fn insert(&mut self, hash: u64, group: NearbyVisits) -> Result<bool, QueryError> {
        if let Some(found) = self.groups.find_mut(hash, |other| other.is(&group)) {
            let is_new = found.nodes & group.nodes == 0;
            found.nodes |= group.nodes;
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
        Ok(true)
    }
}

/// The front of a breadth-first search from several nodes at once, and all visits before it.
pub(super) struct Wave<'a> {
    context: &'a Arc<QueryContext>,
    /// Per state.
    transitions: &'a [Vec<Transition>],
    graphs: Arc<[GraphFilter]>,
    visited: Visited,
    /// The visits first made in the last step.
    front: Vec<Visit>,
    front_held: Held,
}

/// Called for new visits, in order. The search ends with `Break`.
type Arrived<'f> = &'f mut dyn FnMut(&Visited, &[Visit]) -> Result<ControlFlow<()>, QueryError>;

impl<'a> Wave<'a> {
    pub(super) fn new(
        context: &'a Arc<QueryContext>,
        transitions: &'a [Vec<Transition>],
        graphs: &[GraphFilter],
    ) -> Self {
        Self {
            context,
            transitions,
            graphs: graphs.into(),
            visited: Visited::new(context.governor()),
            front: Vec::new(),
            front_held: Held::new(context.governor()),
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
        let arrived = &mut |_: &Visited, _: &[Visit]| Ok(ControlFlow::Continue(()));
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
        arrived(&self.visited, &[visit])
    }

    /// Adds the visits that are new, in order.
    fn visit_all(
        &mut self,
        visits: &[Visit],
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        if self.visited.visits >= MANY_VISITS {
            self.visited.divide()?;
        }
        if visits.len() < ROWS_MIN || self.visited.visits < MANY_VISITS {
            for &visit in visits {
                if self.visit(visit, arrived)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let are_new = self.visited.insert_all(visits)?;
        let before = self.front.len();
        for (&visit, is_new) in visits.iter().zip(are_new) {
            if is_new {
                push(&mut self.front, visit, &mut self.front_held)?;
            }
        }
        arrived(&self.visited, &self.front[before..])
    }

    /// Follows all transitions from the current front.
    pub(super) fn step(&mut self, arrived: Arrived<'_>) -> Result<ControlFlow<()>, QueryError> {
        let front = std::mem::take(&mut self.front);
        let held = Held::new(self.context.governor());
        let _front_held = std::mem::replace(&mut self.front_held, held);
        for group in by_state(sorted(front, self.context)?) {
            let front = Arc::new(Front::new(group, self.context.governor())?);
            let mut parts = self.parts(&front)?.into_iter();
            let reading = Arc::new(self.reading(&front));
            let flow = match front.nodes.len() > COLUMN_NODES {
                true => {
                    let (count, governor) = (parts.len(), self.context.governor());
                    let links = move || Links::new(&reading);
                    let mut found = Ordered::new(parts, count, links, governor);
                    self.follow(|| found.next(), arrived)?
                }
                false => {
                    let mut links = Links::new(&reading);
                    let found = || {
                        loop {
                            match links.next()? {
                                Some(found) => return Ok(Some(found)),
                                None => match parts.next() {
                                    Some(part) => links.begin(part),
                                    None => return Ok(None),
                                },
                            }
                        }
                    };
                    self.follow(found, arrived)?
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn reading(&self, front: &Arc<Front>) -> Reading {
        Reading {
            front: Arc::clone(front),
            transitions: self.transitions[front.state as usize].as_slice().into(),
            graphs: Arc::clone(&self.graphs),
            context: Arc::clone(self.context),
        }
    }

    /// Divides the links of a front into parts that are read one after the other, or by several threads.
    fn parts(&self, front: &Front) -> Result<Vec<Part>, QueryError> {
        let transitions = &self.transitions[front.state as usize];
        let nodes = front.nodes.len();
        let (mut parts, mut expanded) = (Vec::new(), Vec::new());
        // Each part reads all graphs.
        let column_nodes = COLUMN_NODES.saturating_mul(self.graphs.len().max(1));
        let mut links: f64 = 1.0;
        for (place, transition) in transitions.iter().enumerate() {
            if self.is_scan_cheaper(transition, nodes)? {
                parts.extend(ranges(nodes, column_nodes).map(|nodes| Part::Column(place, nodes)));
            } else {
                expanded.push(place);
                if nodes > COLUMN_NODES {
                    let (edges, starts) = transition.counts(self.context.counts())?;
                    links = links.max(edges / starts.max(1.0));
                }
            }
        }
        if !expanded.is_empty() {
            // Each of several threads holds the links of a part.
            let together = ((LINKS / links) as usize).clamp(NODES_MIN, NODES);
            for nodes in ranges(nodes, together) {
                parts.extend(
                    expanded
                        .iter()
                        .map(|&place| Part::Nodes(place, nodes.clone())),
                );
            }
        }
        Ok(parts)
    }

    /// Makes all visits over the links of a front, which `next` returns.
    fn follow(
        &mut self,
        mut next: impl FnMut() -> Result<Option<Vec<Visit>>, QueryError>,
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let mut arriving = Vec::new();
        while let Some(visits) = next()? {
            self.context.check()?;
            arriving.extend_from_slice(&visits);
            // Whoever waits for one of few visits learns of it at once.
            if arriving.len() >= ARRIVING || self.visits() < MANY_VISITS {
                if self.visit_all(&arriving, arrived)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                arriving.clear();
            }
        }
        self.visit_all(&arriving, arrived)
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
}

/// Returns ranges of this length, the last one of which may be shorter.
fn ranges(count: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let starts = (0..count).step_by(length);
    starts.map(move |start| start..(start + length).min(count))
}

/// Sorts visits by state, node and start, on all free cores.
fn sorted(mut visits: Vec<Visit>, context: &QueryContext) -> Result<Vec<Visit>, QueryError> {
    let key = |visit: &Visit| (visit.state, visit.node, visit.start);
    let threads = context.cores().limit().min(PARTS);
    if threads == 1 || visits.len() < 4 * ROWS_MIN {
        visits.sort_unstable_by_key(key);
        return Ok(visits);
    }
    let length = visits.len().div_ceil(threads);
    let chunks: Vec<_> = visits.chunks_mut(length).map(Mutex::new).collect();
    fork(context.cores(), chunks.len(), |chunk| {
        chunks[chunk].lock().sort_unstable_by_key(key);
        Ok(())
    })?;
    drop(chunks);
    // A stable sort merges sorted runs.
    visits.sort_by_key(key);
    Ok(visits)
}

/// Divides sorted visits by their state.
fn by_state(mut visits: Vec<Visit>) -> Vec<Vec<Visit>> {
    let mut groups = Vec::new();
    while let Some(last) = visits.last() {
        let state = last.state;
        let start = visits.partition_point(|visit| visit.state < state);
        groups.push(match start {
            0 => std::mem::take(&mut visits),
            start => visits.split_off(start),
        });
    }
    groups.reverse();
    groups
}

/// Returns the distinct (start, node) pairs connected by a path that the automaton accepts, and the number
/// of visits made.
///
/// Stops after `visits_max` visits; some pairs may then be missing.
pub(super) fn search(
    context: &Arc<QueryContext>,
    automaton: &Automaton,
    graphs: &[GraphFilter],
    starts: &[TermId],
    mut wanted: Wanted,
    visits_max: u64,
) -> Result<(Reached, u64), QueryError> {
    let accepting = automaton.accepting.iter().filter(|accepts| **accepts);
    // A pair may arrive in each accepting state.
    let mut accepted = (accepting.count() > 1).then(|| Visited::new(context.governor()));
    let mut reached = Reached {
        pairs: Vec::new(),
        counts: match wanted {
            Wanted::Counts => vec![0; starts.len()],
            Wanted::All | Wanted::Some(_) => Vec::new(),
        },
        held: Held::new(context.governor()),
    };
    let mut arrived = |visited: &Visited, visits: &[Visit]| {
        if visited.visits > visits_max {
            return Ok(ControlFlow::Break(()));
        }
        let accepts = |visit: &&Visit| automaton.accepting[visit.state as usize];
        for &visit in visits.iter().filter(accepts) {
            let pair = (visit.start, visit.node);
            if let Wanted::Some(wanted) = &mut wanted {
                if wanted.remove(&pair) {
                    reached.push(pair)?;
                }
                if wanted.is_empty() {
                    return Ok(ControlFlow::Break(()));
                }
                continue;
            }
            let is_new = match &mut accepted {
                Some(accepted) => accepted.insert(Visit { state: 0, ..visit })?,
                None => true,
            };
            match wanted {
                Wanted::Counts => reached.counts[visit.start as usize] += u64::from(is_new),
                _ if is_new => reached.push(pair)?,
                _ => {}
            }
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
