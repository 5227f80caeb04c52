//! Join order of the elements of a group.
//!
//! The search begins with a greedy order: the next element is the one with the lowest cost from the current
//! solutions, including the cost that its result causes for later ones. If that order is expensive enough,
//! dynamic programming over the connected subsets of up to [`ELEMENTS_MAX`] elements follows: for every
//! subset, and every slot by which its solutions can be sorted, it finds the cheapest method to produce it. Only
//! left-deep orders are considered, as pipelines are left-deep, and only the best few subsets of each size if
//! time is short. Groups of more than [`NUMBERED_MAX`] elements get the order of [`super::long`]. See
//! `docs/decisions/0008-join-order.md`.
//!
//! The search checks the query's deadline.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pythia_store::{End, ReadCosts, Snapshot};
use rustc_hash::FxHashMap;

use super::builder::Knowledge;
use super::cached::{self, CachedPair};
use super::element::{Element, FilterHint, Inside, Operand, Triple};
use super::join_method::{JoinMethod, Joined};
use super::long;
use super::sampled_link::{SAMPLE_LINKS, Samples};
use super::set_estimate::{SetEstimate, SetEstimates, members};
use pythia_exec::error::QueryError;
use pythia_exec::explain::JoinOrder;
use pythia_exec::limits::governor::Governor;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::step::Access;

/// Groups with more elements are ordered greedily.
const ELEMENTS_MAX: usize = 12;
/// Number of elements that have a bit in the masks of joined elements.
pub(super) const NUMBERED_MAX: usize = 64;
/// Weight of each row of a result: the cost that it causes in later joins.
pub(super) const LEFT_BEHIND: f64 = 0.4;
/// Share of the greedy order's cost that may be spent on searching for a better one.
const SEARCH_SHARE: f64 = 0.1;
/// Links are sampled if the greedy order costs this much, in microseconds, or more.
const SAMPLED_COST: f64 = 3_000.0;
/// Approximate cost of a sample without its reads, in microseconds.
const SAMPLE: f64 = 60.0;
/// Maximum number of samples.
const SAMPLES_MAX: f64 = 16.0;
/// Approximate cost of examining one method, in microseconds.
const LOOK: f64 = 0.1;
/// Maximum number of lists that are intersected if there are more patterns.
const LISTS_MAX: usize = 4;
/// Maximum number of methods examined.
const LOOKS_MAX: f64 = 50_000.0;
/// Bonus per element that mentions the sort slot, to break ties between two orders of a scan.
const MENTIONED: f64 = 1e-3;
/// Cost of passing solutions through a branch of an operand.
const BRANCH: f64 = 1.0;
/// The search checks the deadline after this many examined elements.
const LOOKS_UNCHECKED: usize = 64;

/// The state in which the search begins.
pub(super) struct Start<'a> {
    pub(super) known: &'a Knowledge,
    pub(super) unit: bool,
    /// Number of slots so far.
    pub(super) slots: usize,
    pub(super) samples: &'a Samples,
}

/// The input of a search.
pub(super) struct OrderSearch<'a> {
    pub(super) elements: &'a [Element],
    pub(super) filters: &'a [FilterHint],
    pub(super) snapshot: &'a Snapshot,
    pub(super) reads: ReadCosts,
    sets: SetEstimates<'a>,
    mentions: Vec<f64>,
    /// Pairs of patterns that a cached attribute joins.
    cached: Vec<CachedPair>,
    /// For each operand: the searches of its branches.
    branches: Vec<Vec<OrderSearch<'a>>>,
    /// Number of solutions and cost of joining an operand to a set of joined elements.
    operands: RefCell<FxHashMap<(u64, usize), (f64, f64)>>,
    governor: &'a Governor,
    /// Number of examined elements.
    looked: Cell<usize>,
}

/// A set of joined elements.
#[derive(Clone)]
pub(super) struct PartialOrder {
    pub(super) joined: Joined,
    pub(super) placed: Vec<bool>,
    mask: u64,
    /// Share of solutions that passes the filters up to now.
    share: f64,
    pub(super) cost: f64,
    /// The previous state, the joined element and the method.
    step: Option<(usize, usize, JoinMethod)>,
}

/// An order that a search has found.
pub(super) struct Found {
    /// The elements, each with the method to join it.
    pub(super) order: Vec<(usize, JoinMethod)>,
    pub(super) origin: JoinOrder,
}

impl Found {
    fn new(search: &'static str, order: Vec<(usize, JoinMethod)>) -> Self {
        let cost: f64 = order.iter().map(|(_, method)| method.cost).sum();
        let origin = JoinOrder {
            search,
            estimated_us: Some(cost.max(0.0)),
            greedy_us: None,
            samples: 0,
        };
        Self { order, origin }
    }
}

/// The set of joined elements, and the slot by which the solutions are sorted.
type Reached = (u64, Option<usize>);
/// The cheapest method to reach a set: its cost, the previous state, the element and the method.
type Arrival = (f64, usize, usize, JoinMethod);

impl<'a> OrderSearch<'a> {
    /// Creates a search over elements; `slots` is the number of slots.
    pub(super) fn new(
        elements: &'a [Element],
        filters: &'a [FilterHint],
        slots: usize,
        snapshot: &'a Snapshot,
        counts: Counts<'a>,
        governor: &'a Governor,
    ) -> Self {
        let mut mentions = vec![0.0; slots];
        for element in elements {
            element.each_slot(|slot, _| mentions[slot] += 1.0);
        }
        let branches = elements.iter().map(|element| match element {
            Element::Operand(Operand {
                inside: Inside::Branches(branches),
                ..
            }) => branches
                .iter()
                .map(|b| Self::new(&b.elements, &b.filters, slots, snapshot, counts, governor))
                .collect(),
            _ => Vec::new(),
        });
        Self {
            branches: branches.collect(),
            operands: RefCell::default(),
            elements,
            filters,
            sets: SetEstimates::new(elements, filters, counts.of_store()),
            snapshot,
            reads: snapshot.estimates().read_costs(),
            mentions,
            cached: cached::pairs(elements, snapshot),
            governor,
            looked: Cell::new(0),
        }
    }

    /// Returns the elements of `left` in the best order found.
    pub(super) fn find(&self, start: &Start<'_>, left: &[usize]) -> Result<Found, QueryError> {
        let count = left.len();
        let samples = start.samples;
        let start = self.start(start, left);
        if is_long(left) {
            return Ok(Found::new("queue", long::order(self, start)?));
        }
        self.begin(&start.joined);
        let (mut greedy, mut end) = self.greedy(start.clone(), count)?;
        if count > 2 && end.cost >= SAMPLED_COST && self.sample(samples, end.cost)? {
            self.begin(&start.joined);
            (greedy, end) = self.greedy(start.clone(), count)?;
        }
        let cost = end.cost;
        let mut greedy = Found::new("greedy", greedy);
        greedy.origin.samples = self.sets.samples();
        if !(2..=ELEMENTS_MAX).contains(&count) {
            return Ok(greedy);
        }
        let looks = (cost * SEARCH_SHARE / LOOK).min(LOOKS_MAX);
        let width = (looks / (count * count) as f64) as usize;
        if width == 0 && count > 2 {
            return Ok(greedy);
        }
        let Some(cheaper) = self.dynamic(start, count, width.max(2), cost)? else {
            return Ok(greedy);
        };
        let mut found = Found::new("dynamic programming", cheaper);
        found.origin.greedy_us = greedy.origin.estimated_us;
        found.origin.samples = greedy.origin.samples;
        Ok(found)
    }

    /// Samples links if their reads are worth it beside a greedy order of this cost. Returns whether estimates are
    /// different from now on.
    fn sample(&self, samples: &Samples, cost: f64) -> Result<bool, QueryError> {
        let sample = SAMPLE + 2.0 * SAMPLE_LINKS as f64 * self.reads.page_us;
        let most = (cost * SEARCH_SHARE / sample).min(SAMPLES_MAX) as usize;
        Ok(most > 0 && self.sets.sample(self.snapshot.estimates(), samples, most)?)
    }

    /// Counts an examined element. Returns an error once the query is cancelled or past its deadline.
    pub(super) fn look(&self) -> Result<(), QueryError> {
        self.looked.set(self.looked.get() + 1);
        if self.looked.get().is_multiple_of(LOOKS_UNCHECKED) {
            self.governor.check()?;
        }
        Ok(())
    }

    pub(super) fn start(&self, start: &Start<'_>, left: &[usize]) -> PartialOrder {
        let mut placed = vec![true; self.elements.len()];
        for &element in left {
            placed[element] = false;
        }
        PartialOrder {
            joined: Joined::of(start.known, start.slots, start.unit, self.reads),
            placed,
            mask: 0,
            share: 1.0,
            cost: 0.0,
            step: None,
        }
    }

    /// Forgets what is known of sets of elements: they are joined to other solutions now.
    pub(super) fn begin(&self, start: &Joined) {
        self.sets.begin(start);
        self.operands.borrow_mut().clear();
    }

    fn greedy(
        &self,
        mut state: PartialOrder,
        count: usize,
    ) -> Result<(Vec<(usize, JoinMethod)>, PartialOrder), QueryError> {
        let mut order = Vec::with_capacity(count);
        let mut methods = Vec::new();
        while order_count(&order) < count {
            let mut best: Option<(f64, usize, JoinMethod)> = None;
            for element in self.candidates(&state) {
                self.look()?;
                self.methods(&state, element, &mut methods)?;
                for method in &methods {
                    let joined = state.mask | 1 << element | method.members;
                    let score = method.cost + self.estimate_of(joined)?.rows() * LEFT_BEHIND;
                    if best.as_ref().is_none_or(|(least, ..)| score < *least) {
                        best = Some((score, element, *method));
                    }
                }
            }
            let (_, element, method) = best.expect("there are elements left, each with a method");
            self.place(&mut state, element, &method)?;
            order.push((element, method));
        }
        Ok((order, state))
    }

    /// Estimates the solutions after joining all elements to others, and the cost. Of a branch with many elements, only
    /// the first are considered.
    fn estimate(&self, joined: &Joined) -> Result<(f64, f64), QueryError> {
        let count = self.elements.len().min(NUMBERED_MAX);
        let start = PartialOrder {
            joined: Joined {
                sorted: None,
                unit: false,
                scanned: false,
                ..joined.clone()
            },
            placed: (0..self.elements.len()).map(|e| e >= count).collect(),
            mask: 0,
            share: 1.0,
            cost: 0.0,
            step: None,
        };
        self.begin(joined);
        let (_, end) = self.greedy(start, count)?;
        Ok((end.joined.rows, end.cost))
    }

    /// Returns the method to join an operand to solutions. `mask` is the set of joined elements, if all have a bit.
    fn operand_method(
        &self,
        joined: &Joined,
        mask: Option<u64>,
        element: usize,
        operand: &Operand,
    ) -> Result<JoinMethod, QueryError> {
        if let Inside::Rows(count) = operand.inside {
            return Ok(joined.values_method(&operand.slots, count));
        }
        let key = mask.map(|mask| (mask, element));
        let known = key.and_then(|key| self.operands.borrow().get(&key).copied());
        let (rows, cost) = match known {
            Some(known) => known,
            None => {
                let (mut rows, mut cost) = (0.0, 0.0);
                for branch in &self.branches[element] {
                    let (more, costs) = branch.estimate(joined)?;
                    rows += more;
                    cost += costs + BRANCH;
                }
                if let Some(key) = key {
                    self.operands.borrow_mut().insert(key, (rows, cost));
                }
                (rows, cost)
            }
        };
        Ok(JoinMethod {
            rows,
            cost,
            ..JoinMethod::default()
        })
    }

    /// Returns the cheapest order, keeping at most `width` subsets of each size, or `None` if it costs no
    /// less than `limit`.
    fn dynamic(
        &self,
        start: PartialOrder,
        count: usize,
        width: usize,
        limit: f64,
    ) -> Result<Option<Vec<(usize, JoinMethod)>>, QueryError> {
        let mut states = vec![start];
        let mut frontier = vec![0];
        // Indexed by the number of joined elements.
        let mut reached: Vec<FxHashMap<Reached, Arrival>> = vec![FxHashMap::default(); count + 1];
        let mut methods = Vec::new();
        for size in 0..count {
            for &from in &frontier {
                let state = &states[from];
                for element in self.candidates(state) {
                    self.look()?;
                    self.methods(state, element, &mut methods)?;
                    for method in &methods {
                        let cost = state.cost + method.cost;
                        if cost >= limit {
                            continue;
                        }
                        let members = method.members | 1 << element;
                        let key = (state.mask | members, method.sorted);
                        let then = &mut reached[size + members.count_ones() as usize];
                        let found = then
                            .entry(key)
                            .or_insert((f64::MAX, from, element, *method));
                        if cost < found.0 {
                            *found = (cost, from, element, *method);
                        }
                    }
                }
            }
            frontier.clear();
            let next = std::mem::take(&mut reached[size + 1]);
            for (from, element, method) in most_promising(next, width) {
                let mut state = states[from].clone();
                self.place(&mut state, element, &method)?;
                state.step = Some((from, element, method));
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
        while let Some((from, element, method)) = states[at].step {
            order.push((element, method));
            at = from;
        }
        order.reverse();
        Ok(Some(order))
    }

    /// Returns the elements that may come next: the connected ones, if any, and those with a single match.
    pub(super) fn candidates(&self, state: &PartialOrder) -> Vec<usize> {
        let left = (0..self.elements.len()).filter(|&index| !state.placed[index]);
        let (mut connected, apart): (Vec<usize>, Vec<usize>) =
            left.partition(|&index| state.joined.is_connected(&self.elements[index]));
        if connected.is_empty() {
            return apart;
        }
        // An element with one match multiplies nothing, and may make a filter possible.
        let is_single = |index: &usize| self.elements[*index].is_single();
        connected.extend(apart.into_iter().filter(is_single));
        connected
    }

    /// Lists the methods to join an element, with the cost of the filters that can then be applied.
    pub(super) fn methods(
        &self,
        state: &PartialOrder,
        element: usize,
        methods: &mut Vec<JoinMethod>,
    ) -> Result<(), QueryError> {
        self.methods_unfiltered(state, element, methods)?;
        let before = self.estimate_of(state.mask)?.tests;
        for method in methods {
            let joined = self.estimate_of(state.mask | 1 << element | method.members)?;
            let read = method.rows * self.share_read(element, method);
            method.cost += read * (joined.tests - before);
        }
        Ok(())
    }

    /// Returns the share of an element's matches that a method reads: a scan reads those in ranges of ids.
    fn share_read(&self, element: usize, method: &JoinMethod) -> f64 {
        match (&self.elements[element], method.access) {
            (Element::Triple(triple), Some(Access::Scan(order))) => {
                let ranges = triple.ranges_in(order);
                ranges.map_or(1.0, |confined| confined.count / triple.count)
            }
            _ => 1.0,
        }
    }

    fn methods_unfiltered(
        &self,
        state: &PartialOrder,
        element: usize,
        methods: &mut Vec<JoinMethod>,
    ) -> Result<(), QueryError> {
        let rows = self.rows_with(state, 1 << element)?;
        match &self.elements[element] {
            Element::Path(_) => self.methods_alone(&state.joined, element, None, methods)?,
            Element::Operand(operand) => {
                methods.clear();
                methods.push(self.operand_method(
                    &state.joined,
                    Some(state.mask),
                    element,
                    operand,
                )?);
            }
            Element::Triple(_) => {
                self.methods_alone(&state.joined, element, Some(rows), methods)?;
                self.intersections(state, element, methods)?;
                return self.cached_ways(state, element, rows, methods);
            }
        }
        methods.iter_mut().for_each(|method| method.rows = rows);
        Ok(())
    }

    /// Estimates the solutions after joining more elements, before any more filters.
    fn rows_with(&self, state: &PartialOrder, more: u64) -> Result<f64, QueryError> {
        Ok(self.estimate_of(state.mask | more)?.unfiltered * state.share)
    }

    /// Estimates a set of elements.
    fn estimate_of(&self, set: u64) -> Result<Rc<SetEstimate>, QueryError> {
        if let Some(known) = self.sets.known(set) {
            return Ok(known);
        }
        let Some(other) = self.sets.last_other(set) else {
            return Ok(self.sets.of_triples(set));
        };
        let before = set & !(1 << other);
        let known = self.estimate_of(before)?;
        let joined = Joined {
            rows: known.rows(),
            distinct: known.distinct.clone(),
            sorted: None,
            unit: false,
            scanned: false,
            reads: self.reads,
        };
        let method = match &self.elements[other] {
            Element::Operand(operand) => {
                self.operand_method(&joined, Some(before), other, operand)?
            }
            Element::Path(path) => joined.path_method(path),
            Element::Triple(_) => unreachable!("triple patterns are estimated together"),
        };
        let factor = match (self.share_listed(before, other), joined.rows > 0.0) {
            (Some(share), _) => share,
            (None, true) => method.rows / joined.rows,
            (None, false) => 0.0,
        };
        Ok(self.sets.of_other(before, other, factor))
    }

    /// Returns the share of the solutions of a set that VALUES keep, if their terms' matches were counted: the matches of
    /// each pattern are those with the terms, and the terms are the distinct ones.
    fn share_listed(&self, set: u64, other: usize) -> Option<f64> {
        let Element::Operand(Operand {
            inside: Inside::Rows(terms),
            slots,
            ..
        }) = &self.elements[other]
        else {
            return None;
        };
        let [(slot, _)] = slots[..] else {
            return None;
        };
        let terms = terms.max(1.0);
        let (mut share, mut least, mut patterns) = (1.0, f64::MAX, 0);
        for index in members(set) {
            if let Element::Triple(triple) = &self.elements[index]
                && let Some((kept, distinct)) = triple.share_listed(slot)
            {
                share *= kept * distinct / terms;
                least = distinct.min(least);
                patterns += 1;
            }
        }
        (patterns > 0).then(|| share * terms / least)
    }

    /// Lists the methods to join an element alone. `rows` is the number of solutions after it; by default it is
    /// estimated as if variables were independent.
    pub(super) fn methods_alone(
        &self,
        joined: &Joined,
        element: usize,
        rows: Option<f64>,
        methods: &mut Vec<JoinMethod>,
    ) -> Result<(), QueryError> {
        methods.clear();
        let triple = match &self.elements[element] {
            Element::Path(path) => {
                methods.push(joined.path_method(path));
                return Ok(());
            }
            Element::Operand(operand) => {
                methods.push(self.operand_method(joined, None, element, operand)?);
                return Ok(());
            }
            Element::Triple(triple) => triple,
        };
        let rows = rows.unwrap_or_else(|| joined.rows_after(triple));
        joined.triple_methods(triple, rows, methods);
        if joined.unit {
            for method in methods {
                let mentions = method.sorted.map_or(0.0, |slot| self.mentions[slot]);
                method.cost -= mentions * MENTIONED;
            }
        }
        Ok(())
    }

    /// Adds the methods to join an element together with others that bind the same slot from known ends, by intersecting
    /// their lists: all of them, or those few of constants that cost the least to read, if the next list costs more than
    /// tests of the terms that they have in common. Each set is added for its first element only.
    fn intersections(
        &self,
        state: &PartialOrder,
        element: usize,
        methods: &mut Vec<JoinMethod>,
    ) -> Result<(), QueryError> {
        let joined = &state.joined;
        let Some(slot) = joined.new_end(&self.elements[element]) else {
            return Ok(());
        };
        let mut lists: Vec<(f64, usize, &Triple)> = Vec::new();
        for (index, other) in self.elements.iter().enumerate().take(NUMBERED_MAX) {
            if let Element::Triple(triple) = other
                && !state.placed[index]
                && joined.new_end(other) == Some(slot)
            {
                lists.push((joined.list_cost(triple).unwrap_or(f64::MAX), index, triple));
            }
        }
        // Lists of constants are read once; those of solutions, one for each.
        lists.sort_by(|(a_cost, _, a), (b_cost, _, b)| {
            let is_later = |triple: &Triple| !triple.has_constant_end();
            is_later(a).cmp(&is_later(b)).then(a_cost.total_cmp(b_cost))
        });
        let all = lists.len();
        let fixed = lists.iter().filter(|(.., t)| t.has_constant_end()).count();
        let few = (2..=LISTS_MAX.min(fixed)).filter(|count| *count < all);
        for count in few.chain((all > 1).then_some(all)) {
            let members = lists[..count].iter().map(|(_, index, _)| *index);
            if members.clone().min() != Some(element) {
                continue;
            }
            let triples: Vec<&Triple> = lists[..count].iter().map(|(.., triple)| *triple).collect();
            let Some(read) = joined.lists_cost(&triples, slot) else {
                return Ok(());
            };
            let members = members.fold(0, |mask, member| mask | 1 << member);
            let rows = self.rows_with(state, members)?;
            if let Some((next, _, triple)) = lists.get(count)
                && triple.has_constant_end()
                && *next <= joined.tests_cost(rows, lists[0].2.count)
            {
                continue;
            }
            // The terms come in order.
            let sorted = if joined.unit {
                Some(slot)
            } else {
                joined.sorted
            };
            methods.push(JoinMethod {
                members,
                rows,
                cost: read + joined.output_cost(rows),
                sorted,
                access: None,
            });
        }
        Ok(())
    }

    /// Adds the methods to join an edge (`edges` solutions after it) together with an attribute that is cached
    /// beside the nodes at its other end.
    fn cached_ways(
        &self,
        state: &PartialOrder,
        element: usize,
        edges: f64,
        methods: &mut Vec<JoinMethod>,
    ) -> Result<(), QueryError> {
        let joined = &state.joined;
        for pair in self.cached.iter().filter(|pair| pair.edge == element) {
            let Element::Triple(edge) = &self.elements[element] else {
                continue;
            };
            let known = match pair.end {
                End::Subject => edge.subject,
                End::Object => edge.object,
            };
            let is_possible = joined.is_known(known)
                && !joined.is_bound(pair.neighbour)
                && !state.placed[pair.attribute];
            if is_possible {
                let rows = self.rows_with(state, 1 << element | 1 << pair.attribute)?;
                methods.push(joined.cached_way(pair, edges, rows));
            }
        }
        Ok(())
    }

    /// Marks an element as joined by a method.
    pub(super) fn place(
        &self,
        state: &mut PartialOrder,
        element: usize,
        method: &JoinMethod,
    ) -> Result<(), QueryError> {
        for member in members_of(method, element).chain([element]) {
            state.placed[member] = true;
            state.mask |= 1 << member;
        }
        let estimate = self.estimate_of(state.mask)?;
        let joined = &mut state.joined;
        joined.rows = estimate.rows();
        joined.distinct.clone_from(&estimate.distinct);
        joined.pass(method);
        state.share = estimate.share;
        state.cost += method.cost;
        Ok(())
    }
}

/// Returns whether some of these elements have no bit in the masks of joined elements.
pub(super) fn is_long(left: &[usize]) -> bool {
    left.iter().any(|element| *element >= NUMBERED_MAX)
}

/// Returns the other elements that a method joins.
pub(super) fn members_of(method: &JoinMethod, element: usize) -> impl Iterator<Item = usize> {
    members(method.members & !(1_u64.checked_shl(element as u32).unwrap_or(0)))
}

/// Returns the number of elements that an order joins.
fn order_count(order: &[(usize, JoinMethod)]) -> usize {
    let joined = |(_, method): &(usize, JoinMethod)| method.members.count_ones().max(1) as usize;
    order.iter().map(joined).sum()
}

/// Returns the best arrivals, at most `width` of them.
fn most_promising(
    arrivals: FxHashMap<Reached, Arrival>,
    width: usize,
) -> impl Iterator<Item = (usize, usize, JoinMethod)> {
    let mut found: Vec<_> = arrivals.into_iter().collect();
    let score = |(cost, _, _, method): &Arrival| cost + method.rows * LEFT_BEHIND;
    // The key breaks ties, so that the same query always gets the same plan.
    found.sort_unstable_by(|(a_key, a), (b_key, b)| {
        score(a).total_cmp(&score(b)).then(a_key.cmp(b_key))
    });
    found.truncate(width);
    let found = found.into_iter();
    found.map(|(_, (_, from, element, method))| (from, element, method))
}
