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

use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use rustc_hash::FxHashSet;

use super::front::Front;
use super::links::{Links, Part, Reading};
use super::visits::{Grouping, Visited, Visits};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Ordered, Work};
use crate::limits::governor::{Governor, Held};
use crate::plan::automaton::{Automaton, Edges, Transition};

/// Number of nodes whose links are read together: enough to keep the device busy, few enough to hold.
const NODES: usize = 1024;
/// Minimum number of nodes whose links are read together, and the expected number of links from which on they are fewer.
const NODES_MIN: usize = 16;
const LINKS: f64 = 131_072.0;
/// Minimum number of links of a step, as far as they are expected, that are worth dividing: some hundred microseconds of work.
const DIVIDED_LINKS_MIN: f64 = 16_384.0;
/// Bytes that one of several threads holds for each link that it reads: its node's place and the other end.
const LINK_BYTES: usize = size_of::<u32>() + size_of::<u64>();
/// Number of rows of a part of a column that is read by one thread, and the maximum number of its nodes.
const COLUMN_ROWS: u64 = 32_768;
const COLUMN_NODES: usize = 8192;
/// Number of visits that are added together, if there are many.
const ARRIVING: usize = 1 << 15;

/// Minimum number of nodes that a search is from, and of words that a step makes, to group visits by starts.
pub(super) const REGROUPED_STARTS_MIN: usize = 16;
const REGROUPED_MIN: u64 = 1 << 15;
/// Minimum number of times as many visits in a word of starts as in a word of nodes.
const SHARING_MIN: f64 = 2.0;
/// Maximum number of times as many words as before that all visits may take by starts, if they are shared as those of the front.
const MORE_WORDS_MAX: f64 = 8.0;

/// Number of rows of a column that can be read in the time of visiting a node's tuple.
const ROWS_PER_VISIT: u64 = 20;

/// The most nodes whose links are counted, not estimated, to choose the next search to continue.
const NODES_COUNTED_MAX: u64 = 8;

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

/// A breadth-first search from several nodes at once. Its front is the visits first made in its last step.
pub(super) struct Wave<'a> {
    context: &'a Arc<QueryContext>,
    /// Per state.
    transitions: &'a [Vec<Transition>],
    graphs: Arc<[GraphFilter]>,
    /// Number of nodes that the search is from.
    starts: usize,
    visited: Visited,
    /// True once the search has taken long enough for helpers.
    is_long: bool,
}

/// The number of words of visits that a step may make before it is better to group the visits by starts, and to begin the
/// step again.
struct Limit {
    words_max: u64,
    /// The average number of starts, of 64, that visit a node of the front.
    starts_per_node: f64,
    /// Words and visits that the step has made, known ones included.
    words: u64,
    visits: u64,
}

impl Limit {
    fn none() -> Self {
        Self {
            words_max: u64::MAX,
            starts_per_node: 0.0,
            words: 0,
            visits: 0,
        }
    }

    /// Returns whether the step has made too many words, these included: words of nodes have fewer visits than words of starts
    /// would have.
    fn is_reached_with(&mut self, visits: &[Visits]) -> bool {
        self.words += visits.len() as u64;
        self.visits += visits.iter().map(Visits::count).sum::<u64>();
        let per_word = self.visits as f64 / self.words.max(1) as f64;
        self.words > self.words_max && self.starts_per_node >= SHARING_MIN * per_word
    }
}

/// Called for new visits. Their order does not depend on the number of threads. The search ends with `Break`.
type Arrived<'f> = &'f mut dyn FnMut(&Visited, &[Visits]) -> Result<ControlFlow<()>, QueryError>;

impl<'a> Wave<'a> {
    pub(super) fn new(
        context: &'a Arc<QueryContext>,
        transitions: &'a [Vec<Transition>],
        graphs: &[GraphFilter],
        starts: usize,
    ) -> Self {
        Self {
            context,
            transitions,
            graphs: graphs.into(),
            starts,
            visited: Visited::new(Grouping::Nodes, context.governor()),
            is_long: false,
        }
    }

    /// Returns the number of visits made so far.
    pub(super) fn visits(&self) -> u64 {
        self.visited.count()
    }

    pub(super) fn visited(&self) -> &Visited {
        &self.visited
    }

    /// Returns whether there is nothing left to continue from.
    pub(super) fn is_over(&self) -> bool {
        self.visited.new_count() == 0
    }

    /// Returns the expected number of links in the next step: counted on the pages of a few nodes,
    /// estimated for many.
    pub(super) fn links_expected(&mut self) -> Result<f64, QueryError> {
        let (counts, mut links) = (self.context.counts(), 0.0);
        let grouping = self.visited.grouping();
        let are_counted = self.visited.new_count() <= NODES_COUNTED_MAX;
        for visits in self.visited.new_visits() {
            for transition in &self.transitions[visits.state as usize] {
                if are_counted {
                    for (_, node) in grouping.pairs(visits) {
                        links += counts.expected(&transition.edges_of(node))?;
                    }
                } else {
                    let (edges, nodes) = transition.counts(counts)?;
                    links += visits.count() as f64 * edges / nodes.max(1.0);
                }
            }
        }
        Ok(links)
    }

    /// Adds a visit without calling back.
    pub(super) fn begin(&mut self, visit: Visits) -> Result<(), QueryError> {
        self.visited.insert(visit).map(|_| ())
    }

    /// Adds a visit if it is new.
    pub(super) fn visit(
        &mut self,
        visit: Visits,
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        let new = self.visited.insert(visit)?;
        match new.bits {
            0 => Ok(ControlFlow::Continue(())),
            _ => arrived(&self.visited, &[new]),
        }
    }

    /// Adds the visits that are new.
    fn visit_all(
        &mut self,
        visits: &[Visits],
        arrived: Arrived<'_>,
    ) -> Result<ControlFlow<()>, QueryError> {
        for new in self.visited.insert_all(visits)? {
            if arrived(&self.visited, &new)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Follows all transitions from the current front.
    pub(super) fn step(&mut self, arrived: Arrived<'_>) -> Result<ControlFlow<()>, QueryError> {
        let front = Arc::new(self.visited.take_new()?);
        let mut limit = self.limit(&front);
        if let Some(flow) = self.step_from(&front, &mut limit, arrived)? {
            return Ok(flow);
        }
        self.visited.regroup(Grouping::Starts)?;
        let regrouped = front.regrouped(Grouping::Starts, self.context.governor())?;
        drop(front);
        let flow = self.step_from(&Arc::new(regrouped), &mut Limit::none(), arrived)?;
        Ok(flow.expect("it may make any number of words"))
    }

    /// Returns the limit of a step from the front.
    fn limit(&mut self, front: &Front) -> Limit {
        if self.starts < REGROUPED_STARTS_MIN || self.visited.grouping() == Grouping::Starts {
            return Limit::none();
        }
        let starts_per_node = front.starts_per_node();
        let is_worth_it =
            starts_per_node >= SHARING_MIN.max(self.visited.per_word() / MORE_WORDS_MAX);
        Limit {
            starts_per_node,
            words_max: match is_worth_it {
                // It costs about as much as to make these.
                true => (self.visits() / 4).max(REGROUPED_MIN),
                false => u64::MAX,
            },
            ..Limit::none()
        }
    }

    /// Follows all transitions from a front. Returns `None` at the limit.
    fn step_from(
        &mut self,
        front: &Arc<Front>,
        limit: &mut Limit,
        arrived: Arrived<'_>,
    ) -> Result<Option<ControlFlow<()>>, QueryError> {
        for visits in front.by_state() {
            let transitions = self.transitions[front.state(&visits) as usize].as_slice();
            let nodes = front.count_nodes(&visits);
            let mut reading = Reading {
                front: Arc::clone(front),
                transitions: transitions.into(),
                together: NODES,
                graphs: Arc::clone(&self.graphs),
                context: Arc::clone(self.context),
            };
            let (parts, expected) = self.parts(&mut reading, visits, nodes)?;
            let count = parts.len();
            let (mut parts, reading) = (parts.into_iter(), Arc::new(reading));
            let flow = match count > 1 && expected >= DIVIDED_LINKS_MIN {
                true => {
                    let links = move || Links::new(&reading);
                    let governor = self.context.governor();
                    let mut found = Ordered::new(parts, count, links, governor)
                        .with_held(LINKS as usize * LINK_BYTES, governor);
                    if self.is_long {
                        found = found.at_once();
                    }
                    let flow = self.follow(|| found.next(), limit, arrived)?;
                    self.is_long |= found.is_long();
                    flow
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
                    self.follow(found, limit, arrived)?
                }
            };
            if flow != Some(ControlFlow::Continue(())) {
                return Ok(flow);
            }
        }
        Ok(Some(ControlFlow::Continue(())))
    }

    /// Divides the links of visits in one state into parts that are read one after the other, or by several threads. Returns
    /// the expected number of links, too, without those of few nodes.
    fn parts(
        &self,
        reading: &mut Reading,
        visits: Range<usize>,
        nodes: usize,
    ) -> Result<(Vec<Part>, f64), QueryError> {
        let (mut parts, mut expanded) = (Vec::new(), Vec::new());
        let (mut links, mut expected): (f64, f64) = (1.0, 0.0);
        for (place, transition) in reading.transitions.iter().enumerate() {
            if let Some(rows) = self.cheaper_column(transition, nodes)? {
                expected += rows as f64;
                let columns = self.column_nodes(rows, nodes);
                let columns = reading.front.divide(visits.clone(), columns);
                parts.extend(columns.map(|visits| Part::Column(place, visits)));
            } else {
                expanded.push(place);
                if nodes > NODES_MIN {
                    let (edges, starts) = transition.counts(self.context.counts())?;
                    let of_node = edges / starts.max(1.0);
                    links = links.max(of_node);
                    expected += of_node * nodes as f64;
                }
            }
        }
        if !expanded.is_empty() {
            // Each of several threads holds that many links.
            reading.together = ((LINKS / links) as usize).clamp(NODES_MIN, NODES);
            for visits in reading.front.divide(visits, reading.together) {
                let places = expanded.iter();
                parts.extend(places.map(|&place| Part::Nodes(place, visits.clone())));
            }
        }
        Ok((parts, expected))
    }

    /// Makes all visits over the links of a front, which `next` returns. Returns `None` at the limit.
    fn follow(
        &mut self,
        mut next: impl FnMut() -> Result<Option<Vec<Visits>>, QueryError>,
        limit: &mut Limit,
        arrived: Arrived<'_>,
    ) -> Result<Option<ControlFlow<()>>, QueryError> {
        let mut arriving = Vec::new();
        while let Some(visits) = next()? {
            self.context.check()?;
            arriving.extend_from_slice(&visits);
            // Whoever waits for one of few visits learns of it at once.
            if arriving.len() >= ARRIVING || !self.visited.are_many() {
                if self.visit_all(&arriving, arrived)?.is_break() {
                    return Ok(Some(ControlFlow::Break(())));
                }
                if limit.is_reached_with(&arriving) {
                    return Ok(None);
                }
                arriving.clear();
            }
        }
        self.visit_all(&arriving, arrived).map(Some)
    }

    /// Returns the number of rows of a predicate's column, if reading all of it costs less than visiting the tuples of this many
    /// nodes.
    fn cheaper_column(
        &self,
        transition: &Transition,
        nodes: usize,
    ) -> Result<Option<u64>, QueryError> {
        let Edges::Predicate(predicate) = transition.edges else {
            return Ok(None);
        };
        let counts = self.context.counts().predicate(predicate)?;
        let rows = counts.map(|counts| counts.quads);
        Ok(rows.filter(|rows| *rows <= nodes as u64 * ROWS_PER_VISIT))
    }

    /// Returns the number of nodes of a part of a column that has this many rows.
    fn column_nodes(&self, rows: u64, nodes: usize) -> usize {
        let parts = rows.div_ceil(COLUMN_ROWS).max(1);
        let of_part = nodes.div_ceil(parts as usize).min(COLUMN_NODES);
        // Each part reads all graphs.
        of_part.saturating_mul(self.graphs.len().max(1))
    }
}

/// The pairs of a search that are found among its visits.
struct Finding<'a> {
    automaton: &'a Automaton,
    wanted: Wanted,
    /// Accepted visits, all in one state, if a pair may arrive in several states.
    accepted: Option<Visited>,
    reached: Reached,
}

impl<'a> Finding<'a> {
    fn new(
        automaton: &'a Automaton,
        starts: usize,
        wanted: Wanted,
        governor: &Arc<Governor>,
    ) -> Self {
        let accepting = automaton.accepting.iter().filter(|accepts| **accepts);
        let accepted = (accepting.count() > 1).then(|| Visited::new(Grouping::Nodes, governor));
        let counts = match wanted {
            Wanted::Counts => vec![0; starts],
            Wanted::All | Wanted::Some(_) => Vec::new(),
        };
        Self {
            automaton,
            wanted,
            accepted,
            reached: Reached {
                pairs: Vec::new(),
                counts,
                held: Held::new(governor),
            },
        }
    }

    /// Adds the pairs of new visits. Returns `Break` if all that are wanted are found.
    fn add(
        &mut self,
        grouping: Grouping,
        visits: &[Visits],
    ) -> Result<ControlFlow<()>, QueryError> {
        if let Some(accepted) = &mut self.accepted {
            accepted.regroup(grouping)?;
        }
        for &visits in visits {
            if !self.automaton.accepting[visits.state as usize] {
                continue;
            }
            let new = match &mut self.accepted {
                Some(accepted) => accepted.insert(Visits { state: 0, ..visits })?,
                None => visits,
            };
            if self.add_pairs(grouping, &new)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if let Some(accepted) = &mut self.accepted {
            accepted.forget_new();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn add_pairs(
        &mut self,
        grouping: Grouping,
        new: &Visits,
    ) -> Result<ControlFlow<()>, QueryError> {
        let pairs = grouping.pairs(new);
        match (&mut self.wanted, grouping) {
            (Wanted::Counts, Grouping::Nodes) => {
                self.reached.counts[new.start as usize] += new.count();
            }
            (Wanted::Counts, Grouping::Starts) => {
                pairs.for_each(|(start, _)| self.reached.counts[start as usize] += 1);
            }
            (Wanted::All, _) => {
                for pair in pairs {
                    self.reached.push(pair)?;
                }
            }
            (Wanted::Some(wanted), _) => {
                for pair in pairs {
                    if wanted.remove(&pair) {
                        self.reached.push(pair)?;
                    }
                }
                if wanted.is_empty() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
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
    wanted: Wanted,
    visits_max: u64,
) -> Result<(Reached, u64), QueryError> {
    let mut finding = Finding::new(automaton, starts.len(), wanted, context.governor());
    let mut arrived = |visited: &Visited, visits: &[Visits]| match visited.count() > visits_max {
        true => Ok(ControlFlow::Break(())),
        false => finding.add(visited.grouping(), visits),
    };
    let mut wave = Wave::new(context, &automaton.transitions, graphs, starts.len());
    let mut flow = ControlFlow::Continue(());
    for (start, &node) in starts.iter().enumerate() {
        if flow.is_continue() {
            let visit = Grouping::Nodes.one(start as u32, 0, node);
            flow = wave.visit(visit, &mut arrived)?;
        }
    }
    while flow.is_continue() && !wave.is_over() {
        flow = wave.step(&mut arrived)?;
    }
    Ok((finding.reached, wave.visits()))
}
