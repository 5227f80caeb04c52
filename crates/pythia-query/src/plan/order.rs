//! Join order of the elements of a group.
//!
//! The search begins with a greedy order: the next element is the one with the lowest cost from the current
//! solutions, including the cost that its result causes for later ones. If that order is expensive enough,
//! dynamic programming over the connected subsets of up to [`ELEMENTS_MAX`] elements follows: for every
//! subset, and every slot by which its solutions can be sorted, it finds the cheapest way to produce it. Only
//! left-deep orders are considered, as pipelines are left-deep, and only the best few subsets of each size if
//! time is short. Groups of more than [`NUMBERED_MAX`] elements get the order of [`super::long`]. See
//! `docs/decisions/0008-join-order.md`.
//!
//! The search checks the query's deadline.

use pythia_rdf::TermId;
use pythia_store::{End, ReadCosts, Snapshot, Statistics};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};

use super::bgp::{Element, Place, Triple};
use super::builder::Knowledge;
use super::cached::{self, CachedPair};
use super::counts::Counts;
use super::long;
use super::push_down::FilterHint;
use super::ways::{Joined, Way};
use crate::error::QueryError;
use crate::governor::Governor;

/// Groups with more elements are ordered greedily.
const ELEMENTS_MAX: usize = 12;
/// Number of elements that have a bit in the masks of joined elements.
pub(super) const NUMBERED_MAX: usize = 64;
/// Weight of each row of a result: the cost that it causes in later joins.
pub(super) const LEFT_BEHIND: f64 = 0.4;
/// Share of the greedy order's cost that may be spent on searching for a better one.
const SEARCH_SHARE: f64 = 0.1;
/// Approximate cost of examining one way, in microseconds.
const LOOK: f64 = 0.1;
/// Maximum number of ways examined.
const LOOKS_MAX: f64 = 50_000.0;
/// Bonus per element that mentions the sort slot, to break ties between two orders of a scan.
const MENTIONED: f64 = 1e-3;
/// The search checks the deadline after this many examined elements.
const LOOKS_UNCHECKED: usize = 64;

/// The state in which the search begins.
pub(super) struct Start<'a> {
    pub(super) known: &'a Knowledge,
    pub(super) unit: bool,
    /// Number of slots so far.
    pub(super) slots: usize,
}

/// The input of a search.
pub(super) struct Search<'a> {
    pub(super) elements: &'a [Element],
    filters: &'a [FilterHint],
    /// Statistics of the store, or `None` if the query may not use them.
    statistics: Option<&'a Statistics>,
    reads: ReadCosts,
    /// For each triple pattern with a variable subject and a constant predicate: the patterns of its star,
    /// that is, the first 64 elements with the same subject and a constant predicate.
    stars: Vec<u64>,
    /// Cache of the number of links per subject, by the patterns that the subject already matches.
    links: RefCell<FxHashMap<(u64, TermId), Option<f64>>>,
    mentions: Vec<f64>,
    /// Pairs of patterns that a cached attribute joins.
    cached: Vec<CachedPair>,
    governor: &'a Governor,
    /// Number of examined elements.
    looked: Cell<usize>,
}

/// A set of joined elements.
#[derive(Clone)]
pub(super) struct State {
    pub(super) joined: Joined,
    pub(super) placed: Vec<bool>,
    mask: u64,
    pub(super) cost: f64,
    /// The previous state, the joined element and the way.
    step: Option<(usize, usize, Way)>,
}

/// The set of joined elements, and the slot by which the solutions are sorted.
type Reached = (u64, Option<usize>);
/// The cheapest way to reach a set: its cost, the previous state, the element and the way.
type Arrival = (f64, usize, usize, Way);

impl<'a> Search<'a> {
    /// Creates a search over elements; `slots` is the number of slots.
    pub(super) fn new(
        elements: &'a [Element],
        filters: &'a [FilterHint],
        slots: usize,
        snapshot: &Snapshot,
        counts: Counts<'a>,
        governor: &'a Governor,
    ) -> Self {
        let mut mentions = vec![0.0; slots];
        let mut subjects: FxHashMap<usize, u64> = FxHashMap::default();
        for (index, element) in elements.iter().enumerate() {
            match element {
                Element::Triple(triple) => {
                    triple.slots().for_each(|(slot, _)| mentions[slot] += 1.0);
                }
                Element::Path(path) => {
                    let ends = [path.subject, path.object].into_iter();
                    ends.filter_map(|end| end.slot())
                        .for_each(|slot| mentions[slot] += 1.0);
                }
            }
            if let (Some((slot, _)), true) = (star_key(element), index < NUMBERED_MAX) {
                *subjects.entry(slot).or_default() |= 1 << index;
            }
        }
        // Elements beyond the 64th have no bit.
        let star = |element| {
            star_key(element).map_or(0, |(slot, _)| subjects.get(&slot).copied().unwrap_or(0))
        };
        Self {
            elements,
            filters,
            statistics: counts.of_store(),
            reads: snapshot.read_costs(),
            stars: elements.iter().map(star).collect(),
            links: RefCell::default(),
            mentions,
            cached: cached::pairs(elements, snapshot),
            governor,
            looked: Cell::new(0),
        }
    }

    /// Returns the elements of `left` in the best order found, each with the way to join it.
    pub(super) fn best(
        &self,
        start: &Start<'_>,
        left: &[usize],
    ) -> Result<Vec<(usize, Way)>, QueryError> {
        let count = left.len();
        let start = self.start(start, left);
        if count > NUMBERED_MAX {
            return long::order(self, start);
        }
        let (greedy, cost) = self.greedy(start.clone(), count)?;
        let are_numbered = left.iter().all(|element| *element < NUMBERED_MAX);
        if !(2..=ELEMENTS_MAX).contains(&count) || !are_numbered {
            return Ok(greedy);
        }
        let looks = (cost * SEARCH_SHARE / LOOK).min(LOOKS_MAX);
        let width = (looks / (count * count) as f64) as usize;
        if width == 0 && count > 2 {
            return Ok(greedy);
        }
        let found = self.dynamic(start, count, width.max(2), cost)?;
        Ok(found.unwrap_or(greedy))
    }

    /// Counts an examined element. Returns an error once the query is cancelled or past its deadline.
    pub(super) fn look(&self) -> Result<(), QueryError> {
        self.looked.set(self.looked.get() + 1);
        if self.looked.get().is_multiple_of(LOOKS_UNCHECKED) {
            self.governor.check()?;
        }
        Ok(())
    }

    fn start(&self, start: &Start<'_>, left: &[usize]) -> State {
        let known = start.known;
        let mut distinct = vec![0.0; start.slots];
        for &slot in &known.certain {
            let here = known.distinct.get(&slot).copied().unwrap_or(known.rows);
            distinct[slot] = here.max(1.0);
        }
        let mut placed = vec![true; self.elements.len()];
        for &element in left {
            placed[element] = false;
        }
        State {
            joined: Joined {
                rows: known.rows,
                distinct,
                sorted: known.sorted,
                unit: start.unit,
                reads: self.reads,
            },
            placed,
            mask: 0,
            cost: 0.0,
            step: None,
        }
    }

    fn greedy(
        &self,
        mut state: State,
        count: usize,
    ) -> Result<(Vec<(usize, Way)>, f64), QueryError> {
        let mut order = Vec::with_capacity(count);
        let mut ways = Vec::new();
        while order_count(&order) < count {
            let mut best: Option<(f64, usize, Way)> = None;
            for element in self.candidates(&state) {
                self.look()?;
                self.ways(&state, element, &mut ways);
                for way in &ways {
                    let score = way.cost + way.rows * LEFT_BEHIND;
                    if best.as_ref().is_none_or(|(least, ..)| score < *least) {
                        best = Some((score, element, *way));
                    }
                }
            }
            let (_, element, way) = best.expect("there are elements left, each with a way");
            self.place(&mut state, element, &way);
            order.push((element, way));
        }
        Ok((order, state.cost))
    }

    /// Returns the cheapest order, keeping at most `width` subsets of each size, or `None` if it costs no
    /// less than `limit`.
    fn dynamic(
        &self,
        start: State,
        count: usize,
        width: usize,
        limit: f64,
    ) -> Result<Option<Vec<(usize, Way)>>, QueryError> {
        let mut states = vec![start];
        let mut frontier = vec![0];
        // Indexed by the number of joined elements.
        let mut reached: Vec<FxHashMap<Reached, Arrival>> = vec![FxHashMap::default(); count + 1];
        let mut ways = Vec::new();
        for size in 0..count {
            for &from in &frontier {
                let state = &states[from];
                for element in self.candidates(state) {
                    self.look()?;
                    self.ways(state, element, &mut ways);
                    for way in &ways {
                        let cost = state.cost + way.cost;
                        if cost >= limit {
                            continue;
                        }
                        let members = way.members | 1 << element;
                        let key = (state.mask | members, way.sorted);
                        let then = &mut reached[size + members.count_ones() as usize];
                        let found = then.entry(key).or_insert((f64::MAX, from, element, *way));
                        if cost < found.0 {
                            *found = (cost, from, element, *way);
                        }
                    }
                }
            }
            frontier.clear();
            let next = std::mem::take(&mut reached[size + 1]);
            for (from, element, way) in most_promising(next, width) {
                let mut state = states[from].clone();
                self.place(&mut state, element, &way);
                state.step = Some((from, element, way));
                frontier.push(states.len());
                states.push(state);
            }
        }
        let last = frontier
            .into_iter()
            .min_by(|&a, &b| states[a].cost.total_cmp(&states[b].cost));
        let mut order = Vec::with_capacity(self.elements.len());
        let Some(mut at) = last else {
            return Ok(None);
        };
        while let Some((from, element, way)) = states[at].step {
            order.push((element, way));
            at = from;
        }
        order.reverse();
        Ok(Some(order))
    }

    /// Returns the elements that may come next: the connected ones, if any, and those with a single match.
    fn candidates(&self, state: &State) -> Vec<usize> {
        let left = (0..self.elements.len()).filter(|&index| !state.placed[index]);
        let (mut connected, apart): (Vec<usize>, Vec<usize>) =
            left.partition(|&index| state.joined.is_connected(&self.elements[index]));
        if connected.is_empty() {
            return apart;
        }
        // An element with one match multiplies nothing, and may make a filter possible.
        let is_single = |index: &usize| match &self.elements[*index] {
            Element::Triple(triple) => triple.count <= 1.0,
            Element::Path(_) => false,
        };
        connected.extend(apart.into_iter().filter(is_single));
        connected
    }

    fn ways(&self, state: &State, element: usize, ways: &mut Vec<Way>) {
        match &self.elements[element] {
            Element::Path(_) => self.ways_alone(&state.joined, element, None, ways),
            Element::Triple(triple) => {
                let rows = self.star_rows(state, element);
                self.ways_alone(&state.joined, element, rows, ways);
                ways.extend(self.intersection(state, element));
                let rows = rows.unwrap_or_else(|| state.joined.rows_after(triple));
                ways.extend(self.cached_ways(state, element, triple, rows));
            }
        }
    }

    /// Lists the ways to join an element alone. `rows` is the number of solutions after it; by default it is
    /// estimated as if variables were independent.
    pub(super) fn ways_alone(
        &self,
        joined: &Joined,
        element: usize,
        rows: Option<f64>,
        ways: &mut Vec<Way>,
    ) {
        ways.clear();
        let triple = match &self.elements[element] {
            Element::Path(path) => return ways.push(joined.path_way(path)),
            Element::Triple(triple) => triple,
        };
        let rows = rows.unwrap_or_else(|| joined.rows_after(triple));
        joined.triple_ways(triple, rows, ways);
        if joined.unit {
            for way in ways {
                let mentions = way.sorted.map_or(0.0, |slot| self.mentions[slot]);
                way.cost -= mentions * MENTIONED;
            }
        }
    }

    /// Estimates the solutions after joining a pattern to others of its star, from the predicates that
    /// subjects have in common.
    fn star_rows(&self, state: &State, element: usize) -> Option<f64> {
        let statistics = self.statistics?;
        let having = self.stars[element] & state.mask;
        let (Element::Triple(triple), Some((_, predicate)), true) = (
            &self.elements[element],
            star_key(&self.elements[element]),
            having != 0,
        ) else {
            return None;
        };
        let mut memo = self.links.borrow_mut();
        let links = *memo.entry((having, predicate)).or_insert_with(|| {
            let members = (0..NUMBERED_MAX).filter(|index| having >> index & 1 == 1);
            let predicates = members.filter_map(|index| star_key(&self.elements[index]));
            let predicates: Vec<TermId> = predicates.map(|(_, predicate)| predicate).collect();
            let sets = &statistics.characteristic;
            sets.links_per_subject(&predicates, predicate)
        });
        let all = statistics.predicate(predicate)?.quads.max(1) as f64;
        // A constant object, the graph, and a bound object each keep only a share of the links.
        let rows = state.joined.rows * links? * triple.count / all;
        Some(rows / state.joined.objects_bound(triple))
    }

    /// Returns the way to join an element together with all others that bind the same slot from known ends,
    /// by intersecting their lists. Returns it only for the first of these elements.
    fn intersection(&self, state: &State, element: usize) -> Option<Way> {
        let slot = state.joined.new_end(&self.elements[element])?;
        let is_member = |&other: &usize| {
            !state.placed[other] && state.joined.new_end(&self.elements[other]) == Some(slot)
        };
        let members: Vec<usize> = (0..self.elements.len().min(NUMBERED_MAX))
            .filter(is_member)
            .collect();
        if members.len() < 2 || members[0] != element {
            return None;
        }
        let mut joined = state.joined.clone();
        let mut read = 0.0;
        for &member in &members {
            let Element::Triple(triple) = &self.elements[member] else {
                continue;
            };
            read += state.joined.list_cost(triple)?;
            let rows = joined.rows_after(triple);
            let way = Way {
                rows,
                ..Way::default()
            };
            joined.join(&self.elements[member], &way);
        }
        Some(Way {
            members: members.iter().fold(0, |mask, member| mask | 1 << member),
            rows: joined.rows,
            cost: read + state.joined.output_cost(joined.rows),
            sorted: state.joined.sorted,
            access: None,
        })
    }

    /// Lists the ways to join an edge (`rows` solutions after it) together with an attribute that is cached
    /// beside the nodes at its other end.
    fn cached_ways(
        &self,
        state: &State,
        element: usize,
        edge: &Triple,
        rows: f64,
    ) -> impl Iterator<Item = Way> {
        let joined = &state.joined;
        let pairs = self.cached.iter().filter(move |pair| pair.edge == element);
        pairs.filter_map(move |pair| {
            let known = match pair.end {
                End::Subject => edge.subject,
                End::Object => edge.object,
            };
            let Element::Triple(attribute) = &self.elements[pair.attribute] else {
                return None;
            };
            let is_possible = joined.is_known(known)
                && !joined.is_bound(pair.neighbour)
                && !state.placed[pair.attribute];
            let edge_way = Way {
                rows,
                ..Way::default()
            };
            is_possible.then(|| {
                let mut after_edge = state.clone();
                self.place(&mut after_edge, element, &edge_way);
                let independent = after_edge.joined.rows_after(attribute);
                let found = self.star_rows(&after_edge, pair.attribute);
                joined.cached_way(pair, rows, found.unwrap_or(independent))
            })
        })
    }

    /// Marks an element as joined and applies the filters that become possible. Returns the slots that it
    /// binds.
    pub(super) fn place(&self, state: &mut State, element: usize, way: &Way) -> Vec<usize> {
        let mut bound = state.joined.join(&self.elements[element], way);
        for member in members_of(way, element) {
            bound.extend(state.joined.join(&self.elements[member], way));
            state.placed[member] = true;
        }
        state.mask |= way.members;
        let joined = &mut state.joined;
        for filter in self.filters {
            let waited = filter.slots.iter().any(|slot| bound.contains(slot));
            if waited && filter.slots.iter().all(|&slot| joined.is_bound(slot)) {
                joined.rows *= filter.share;
            }
        }
        state.placed[element] = true;
        if element < NUMBERED_MAX {
            state.mask |= 1 << element;
        }
        state.cost += way.cost;
        bound
    }
}

/// Returns the other elements that a way joins.
pub(super) fn members_of(way: &Way, element: usize) -> impl Iterator<Item = usize> {
    let others = way.members & !(1_u64.checked_shl(element as u32).unwrap_or(0));
    let most = if others == 0 { 0 } else { NUMBERED_MAX };
    (0..most).filter(move |index| others >> index & 1 == 1)
}

/// Returns the number of elements that an order joins.
fn order_count(order: &[(usize, Way)]) -> usize {
    let joined = |(_, way): &(usize, Way)| way.members.count_ones().max(1) as usize;
    order.iter().map(joined).sum()
}

/// Returns the best arrivals, at most `width` of them.
fn most_promising(
    arrivals: FxHashMap<Reached, Arrival>,
    width: usize,
) -> impl Iterator<Item = (usize, usize, Way)> {
    let mut found: Vec<_> = arrivals.into_iter().collect();
    let score = |(cost, _, _, way): &Arrival| cost + way.rows * LEFT_BEHIND;
    // The key breaks ties, so that the same query always gets the same plan.
    found.sort_unstable_by(|(a_key, a), (b_key, b)| {
        score(a).total_cmp(&score(b)).then(a_key.cmp(b_key))
    });
    found.truncate(width);
    let found = found.into_iter();
    found.map(|(_, (_, from, element, way))| (from, element, way))
}

/// Returns the subject's slot and the predicate if the element can be part of a star.
fn star_key(element: &Element) -> Option<(usize, TermId)> {
    match element {
        Element::Triple(triple) => match (triple.subject, triple.predicate) {
            (Place::Slot(slot), Place::Constant(predicate)) => Some((slot, predicate)),
            _ => None,
        },
        Element::Path(_) => None,
    }
}
