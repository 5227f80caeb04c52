//! The search: a priority queue of partial paths, best first.
//!
//! The best partial path leaves the queue. If the edges of its node have not been read, they are read in one
//! batch with those of the next best nodes (Pythia paper §5.1). Reading ahead does not change the order. With
//! the cost so far as priority, this is Dijkstra's algorithm, or breadth-first search if every edge costs the
//! same; with an estimate of the remaining cost added, A*; with the newest first, depth-first search, which
//! [`super::depth_first`] divides.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::Cost;
use super::edges::{Edge, Graph};
use super::product::Product;
use super::remaining::{Estimate, Remaining};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::limits::governor::Held;
use crate::plan::path_search::Rules;
use pythia_sparql::path_search::Restrictor;

/// Partial paths between two checks of the deadline and of memory.
const CHECKED: u64 = 1024;
/// Number of queue entries examined per node to read.
const LOOKED_AT: usize = 4;
/// No partial path: the parent of the first ones.
const NONE: u32 = u32::MAX;

/// State shared by all searches of one operator.
pub(crate) struct Space {
    pub(crate) graph: Graph,
    pub(crate) product: Product,
    pub(crate) context: Arc<QueryContext>,
    pub(crate) batch_nodes: usize,
}

/// A partial path: its parent path extended by an edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    parent: u32,
    pub(crate) node: u32,
    pub(crate) state: u32,
    pub(crate) length: u32,
    pub(crate) inverse: bool,
    pub(crate) predicate: u64,
    pub(crate) cost: Cost,
}

/// The limit on partial paths followed from the same node and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    All,
    /// The cheapest partial paths, at most this many.
    First(u32),
    /// Only partial paths as cheap as the cheapest.
    Cheapest,
}

/// The order of partial paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Least cost, or estimated cost; the newest among equals.
    Cheapest,
    /// The newest: depth-first search, which drops finished branches.
    Newest,
    /// The greatest priority of the last node; the newest among equals.
    Greatest,
}

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// True if edges are followed backward, in the automaton's own states.
    pub(crate) backward: bool,
    pub(crate) priority: Priority,
    pub(crate) limit: Limit,
    pub(crate) restrictor: Restrictor,
    pub(crate) length_max: Option<u32>,
    /// Maximum cost of a path.
    pub(crate) cost_max: Option<Cost>,
    /// Partial paths of different length are distinguished up to this length.
    pub(crate) lengths_told_apart: u32,
}

impl Course {
    /// Creates the parameters for the rules' paths, followed forward.
    pub(crate) fn of(rules: &Rules, limit: Limit, restrictor: Restrictor) -> Self {
        // A more expensive partial path may have to be followed because its length fits.
        let told_apart = match rules.length_max {
            Some(most) if rules.weighted => most,
            _ => rules.length_min,
        };
        Self {
            backward: false,
            priority: Priority::Cheapest,
            limit,
            restrictor,
            length_max: rules.length_max,
            cost_max: rules
                .length_max
                .filter(|_| !rules.weighted)
                .map(Cost::edges),
            lengths_told_apart: told_apart,
        }
    }
}

#[derive(Debug)]
struct Entry {
    /// The estimated cost of a path that continues from here; or, by priority, the reversed priority of the node.
    estimate: Cost,
    /// True if the estimate is the exact cost of the cheapest walk that continues from here, false if it is a
    /// lower bound.
    exact: bool,
    serial: u64,
    step: u32,
}

impl Ord for Entry {
    /// The next entry is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_cost = other.estimate.cmp(&self.estimate);
        by_cost.then(self.serial.cmp(&other.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// Partial paths that are to be followed.
enum Queue {
    /// The least key first, and the newest among equals.
    Heap(BinaryHeap<Entry>),
    /// The newest last.
    Stack(VecDeque<Entry>),
}

impl Queue {
    fn new(priority: Priority) -> Self {
        match priority {
            Priority::Cheapest | Priority::Greatest => Self::Heap(BinaryHeap::new()),
            Priority::Newest => Self::Stack(VecDeque::new()),
        }
    }

    fn push(&mut self, entry: Entry) {
        match self {
            Self::Heap(heap) => heap.push(entry),
            Self::Stack(stack) => stack.push_back(entry),
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        match self {
            Self::Heap(heap) => heap.pop(),
            Self::Stack(stack) => stack.pop_back(),
        }
    }

    /// Returns the estimate of the next entry.
    fn next_estimate(&self) -> Option<Cost> {
        let next = match self {
            Self::Heap(heap) => heap.peek(),
            Self::Stack(stack) => stack.back(),
        };
        next.map(|next| next.estimate)
    }

    fn bytes(&self) -> usize {
        let entries = match self {
            Self::Heap(heap) => heap.capacity(),
            Self::Stack(stack) => stack.capacity(),
        };
        entries * size_of::<Entry>()
    }
}

/// Partial paths that visited a node in one state.
#[derive(Clone, Copy, Debug)]
struct Visit {
    count: u32,
    cheapest: Cost,
}

/// Node, state, and length as far as it is distinguished.
type Visited = (u32, u32, u32);

/// A running search.
pub(crate) struct Frontier {
    course: Course,
    /// Node at which all paths start.
    origin: u32,
    steps: Vec<Step>,
    queue: Queue,
    serial: u64,
    visits: FxHashMap<Visited, Visit>,
    /// Last partial path taken from the queue, not yet extended.
    pending: Option<u32>,
    chain: Chain,
    held: Held,
    /// True if the product's memory is charged with this search.
    holds_product: bool,
    taken: u64,
}

impl Frontier {
    pub(crate) fn new(course: Course, space: &Space) -> Self {
        Self {
            course,
            origin: NONE,
            steps: Vec::new(),
            queue: Queue::new(course.priority),
            serial: 0,
            visits: FxHashMap::default(),
            pending: None,
            chain: Chain::default(),
            held: Held::new(space.context.governor()),
            holds_product: !course.backward,
            taken: 0,
        }
    }

    /// Moves the oldest partial path of a depth-first search, if it is not the only one, to a search of its own.
    pub(crate) fn split(&mut self, space: &Space) -> Result<Option<Self>, QueryError> {
        let oldest = match &mut self.queue {
            Queue::Stack(stack) if stack.len() > 1 => stack.pop_front(),
            Queue::Stack(_) | Queue::Heap(_) => None,
        };
        let Some(oldest) = oldest else {
            return Ok(None);
        };
        let mut steps = self.path(oldest.step);
        for (parent, step) in (0..).zip(&mut steps[1..]) {
            step.parent = parent;
        }
        let entry = Entry {
            step: steps.len() as u32 - 1,
            ..oldest
        };
        let mut split = Self {
            origin: self.origin,
            steps,
            queue: Queue::Stack(VecDeque::from([entry])),
            serial: self.serial,
            holds_product: false,
            ..Self::new(self.course, space)
        };
        split.charge(space)?;
        Ok(Some(split))
    }

    /// Charges what another search charged for all, which has ended.
    pub(crate) fn take_over(&mut self, ended: &Self) {
        self.holds_product |= ended.holds_product;
    }

    /// Returns whether edges are followed backward.
    pub(crate) fn is_backward(&self) -> bool {
        self.course.backward
    }

    /// Returns the node of the last partial path taken, if its edges are wanted and have not been read.
    pub(crate) fn unread(&self, space: &Space) -> Option<u32> {
        let number = self.pending?;
        let node = self.step(number).node;
        let is_wanted = self.is_extended(number) && !space.graph.has(self.course.backward, node);
        is_wanted.then_some(node)
    }

    /// Returns whether a partial path may be extended.
    fn is_extended(&self, number: u32) -> bool {
        self.course.length_max != Some(self.step(number).length) && !self.is_closed(number)
    }

    /// Adds an empty path at a node. All starts of a search are at the same node.
    pub(crate) fn start(&mut self, node: u32, state: u32) {
        self.origin = node;
        let step = Step {
            parent: NONE,
            node,
            state,
            length: 0,
            inverse: false,
            predicate: 0,
            cost: Cost::ZERO,
        };
        self.push(step, Cost::ZERO, false);
    }

    /// Ends the search where paths cost more than this.
    pub(crate) fn end_beyond(&mut self, cost: Cost) {
        self.course.cost_max = Some(cost);
    }

    /// Returns a partial path.
    pub(crate) fn step(&self, step: u32) -> &Step {
        &self.steps[step as usize]
    }

    /// Returns the steps of a partial path, beginning with the empty path.
    pub(crate) fn path(&self, step: u32) -> Vec<Step> {
        let mut path = Vec::with_capacity(self.step(step).length as usize + 1);
        let mut at = step;
        while at != NONE {
            path.push(*self.step(at));
            at = self.step(at).parent;
        }
        path.reverse();
        path
    }

    /// Returns the number of partial paths created.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the cost at which a node was first reached in a state, if it was.
    pub(crate) fn reached(&self, node: u32, state: u32) -> Option<Cost> {
        let visit = self.visits.get(&(node, state, 0));
        visit.map(|visit| visit.cheapest)
    }

    /// Extends the partial path taken last, and takes the best one from the queue. With `remaining`, returns
    /// only paths that can be completed.
    pub(crate) fn next(
        &mut self,
        space: &mut Space,
        mut remaining: Option<&mut Remaining>,
    ) -> Result<Option<u32>, QueryError> {
        if let Some(step) = self.pending.take() {
            self.extend(step, space, remaining.as_deref())?;
        }
        while let Some(entry) = self.queue.pop() {
            self.taken += 1;
            if self.taken.is_multiple_of(CHECKED) {
                space.context.check()?;
                self.charge(space)?;
            }
            let is_cost = self.course.priority != Priority::Greatest;
            let cost_max = self.course.cost_max.filter(|_| is_cost);
            if cost_max.is_some_and(|most| entry.estimate > most) {
                continue;
            }
            let entry = match remaining.as_deref_mut() {
                Some(remaining) if !entry.exact => match self.due(entry, space, remaining)? {
                    Some(entry) => entry,
                    None => continue,
                },
                _ => entry,
            };
            if self.course.priority == Priority::Newest {
                // All newer paths have been followed to their end.
                self.steps.truncate(entry.step as usize + 1);
                self.chain.keep_up_to(entry.step);
            }
            if self.visit(entry.step) {
                self.pending = Some(entry.step);
                return Ok(Some(entry.step));
            }
        }
        self.charge(space)?;
        Ok(None)
    }

    /// Decides about an entry whose estimate is a lower bound. Returns the entry if it should be followed
    /// now. Otherwise queues it again with a better estimate, or drops it if it cannot reach the end.
    ///
    /// Walks are followed by lower bounds while the search from the end has done more work than this one, so
    /// that the two meet halfway. The bounds are consistent, so a node's first visit is still its cheapest.
    /// Restricted paths are never followed by lower bounds: they are distinguished by all their nodes, and
    /// there may be as many that cannot be completed.
    fn due(
        &mut self,
        entry: Entry,
        space: &mut Space,
        remaining: &mut Remaining,
    ) -> Result<Option<Entry>, QueryError> {
        let Step {
            node, state, cost, ..
        } = *self.step(entry.step);
        let is_followed_by_bounds =
            self.course.restrictor == Restrictor::Walk && self.course.limit != Limit::All;
        // The search from the end advances while this entry is the best.
        let next = self.queue.next_estimate();
        loop {
            let known = remaining.cost(node, space.product.subset(state));
            let (estimate, exact) = match known {
                Estimate::Never => return Ok(None),
                Estimate::Exactly(rest) => (cost.plus(rest)?, true),
                Estimate::AtLeast(rest) => (cost.plus(rest)?, false),
            };
            if self.course.cost_max.is_some_and(|most| estimate > most) {
                return Ok(None);
            }
            if exact || next.is_some_and(|next| estimate > next) {
                self.queue.push(Entry {
                    estimate,
                    exact,
                    ..entry
                });
                return Ok(None);
            }
            if is_followed_by_bounds && self.steps.len() < remaining.steps() {
                return Ok(Some(entry));
            }
            remaining.advance(space)?;
        }
    }

    /// Counts a partial path at its node. Returns whether it is followed.
    fn visit(&mut self, step: u32) -> bool {
        if self.course.limit == Limit::All {
            return true;
        }
        let (place, cost) = (self.visited(step), self.step(step).cost);
        let visit = self.visits.entry(place).or_insert(Visit {
            count: 0,
            cheapest: cost,
        });
        visit.count = visit.count.saturating_add(1);
        match self.course.limit {
            Limit::All => true,
            Limit::First(most) => visit.count <= most,
            Limit::Cheapest => cost == visit.cheapest,
        }
    }

    fn visited(&self, step: u32) -> Visited {
        let step = self.step(step);
        self.visited_of(step)
    }

    fn visited_of(&self, step: &Step) -> Visited {
        let length = step.length.min(self.course.lengths_told_apart);
        (step.node, step.state, length)
    }

    /// Returns whether no more partial paths are followed at the step's node and state.
    fn is_full(&self, step: &Step) -> bool {
        let Some(visit) = self.visits.get(&self.visited_of(step)) else {
            return false;
        };
        match self.course.limit {
            Limit::All => false,
            Limit::First(most) => visit.count >= most,
            Limit::Cheapest => step.cost > visit.cheapest,
        }
    }

    fn extend(
        &mut self,
        number: u32,
        space: &mut Space,
        remaining: Option<&Remaining>,
    ) -> Result<(), QueryError> {
        let step = *self.step(number);
        let backward = self.course.backward;
        if !self.is_extended(number) {
            return Ok(());
        }
        if !space.graph.has(backward, step.node) {
            let mut nodes = FxHashSet::from_iter([step.node]);
            self.add_best_unread(&mut nodes, space);
            space.graph.read(backward, &nodes)?;
        }
        if self.course.restrictor != Restrictor::Walk {
            self.chain.go_to(number, &self.steps);
        }
        let mut states = Vec::new();
        for edge_number in space.graph.edges(backward, step.node) {
            let edge = space.graph.edge(backward, edge_number);
            states.clear();
            if backward {
                let product = &space.product;
                product.precede(step.state, edge.predicate, edge.inverse, &mut states);
            } else {
                let product = &mut space.product;
                states.extend(product.follow(step.state, edge.predicate, edge.inverse));
            }
            if states.is_empty() || !self.allows(&step, &edge) {
                continue;
            }
            if edge.weight == Cost::FAULT {
                return Err(space.graph.fault(backward, step.node, edge_number));
            }
            let cost = step.cost.plus(edge.weight)?;
            for &state in &states {
                let next = Step {
                    parent: number,
                    node: edge.other,
                    state,
                    length: step.length + 1,
                    inverse: edge.inverse,
                    predicate: edge.predicate,
                    cost,
                };
                self.check_free_cycle(&edge, &next)?;
                if !self.is_full(&next) {
                    self.push_estimated(next, space, remaining)?;
                }
            }
        }
        Ok(())
    }

    fn push_estimated(
        &mut self,
        step: Step,
        space: &Space,
        remaining: Option<&Remaining>,
    ) -> Result<(), QueryError> {
        let (rest, exact) = match remaining {
            None => (Cost::ZERO, true),
            Some(remaining) => match remaining.cost(step.node, space.product.subset(step.state)) {
                Estimate::Never => return Ok(()),
                Estimate::Exactly(rest) => (rest, true),
                Estimate::AtLeast(rest) => (rest, false),
            },
        };
        let estimate = step.cost.plus(rest)?;
        if self.course.cost_max.is_none_or(|most| estimate <= most) {
            let key = match self.course.priority {
                Priority::Greatest => space.graph.priority(step.node).reversed(),
                Priority::Cheapest | Priority::Newest => estimate,
            };
            self.push(step, key, exact);
        }
        Ok(())
    }

    fn push(&mut self, step: Step, estimate: Cost, exact: bool) {
        let number = self.steps.len() as u32;
        self.steps.push(step);
        self.serial += 1;
        self.queue.push(Entry {
            estimate,
            exact,
            serial: self.serial,
            step: number,
        });
    }

    /// Adds the next best nodes in the queue whose edges have not been read, up to the size of a batch.
    pub(crate) fn add_best_unread(&mut self, nodes: &mut FxHashSet<u32>, space: &Space) {
        let mut looked_at = Vec::new();
        while nodes.len() < space.batch_nodes && looked_at.len() < LOOKED_AT * space.batch_nodes {
            let Some(entry) = self.queue.pop() else {
                break;
            };
            let step = self.step(entry.step);
            let last = self.course.length_max == Some(step.length);
            if !last && !space.graph.has(self.course.backward, step.node) {
                nodes.insert(step.node);
            }
            looked_at.push(entry);
        }
        let looked_at = looked_at.into_iter().rev();
        looked_at.for_each(|entry| self.queue.push(entry));
    }

    /// Returns whether a simple path has returned to its start.
    fn is_closed(&self, number: u32) -> bool {
        let step = self.step(number);
        // A simple path can meet only its start again.
        let is_back = step.length > 0 && step.node == self.origin;
        self.course.restrictor == Restrictor::Simple && is_back
    }

    /// Returns whether the restrictor allows the path in `chain` to follow the edge.
    fn allows(&self, step: &Step, edge: &Edge) -> bool {
        match self.course.restrictor {
            Restrictor::Walk => true,
            Restrictor::Trail => {
                let taken = taken(step.node, edge.other, edge.predicate, edge.inverse);
                !self.chain.edges.contains(&taken)
            }
            Restrictor::Acyclic => !self.chain.nodes.contains(&edge.other),
            Restrictor::Simple => {
                !self.chain.nodes.contains(&edge.other) || self.origin == edge.other
            }
        }
    }

    /// Returns an error if all cheapest walks are wanted and a cycle costs nothing.
    fn check_free_cycle(&self, edge: &Edge, next: &Step) -> Result<(), QueryError> {
        let endless = self.course.limit == Limit::Cheapest
            && self.course.restrictor == Restrictor::Walk
            && self.course.length_max.is_none();
        if !endless || edge.weight != Cost::ZERO {
            return Ok(());
        }
        let mut at = next.parent;
        while at != NONE && self.step(at).cost == next.cost {
            if (self.step(at).node, self.step(at).state) == (next.node, next.state) {
                return Err(QueryError::Path(
                    "there are infinitely many cheapest walks, because a cycle costs nothing; use TRAIL, ACYCLIC or SIMPLE, or add MAX LENGTH".to_owned(),
                ));
            }
            at = self.step(at).parent;
        }
        Ok(())
    }

    fn charge(&mut self, space: &Space) -> Result<(), QueryError> {
        let states = match self.holds_product {
            true => space.product.bytes(),
            false => 0,
        };
        let steps = self.steps.capacity() * size_of::<Step>();
        let queue = self.queue.bytes();
        let visits = self.visits.capacity() * 48;
        self.held
            .set(states + steps + queue + visits + self.chain.bytes())
    }
}

/// An edge as a triple, independent of the direction in which it is followed.
type Taken = (u32, u64, u32);

fn taken(from: u32, to: u32, predicate: u64, inverse: bool) -> Taken {
    match inverse {
        false => (from, predicate, to),
        true => (to, predicate, from),
    }
}

impl Step {
    /// Returns the edge from the previous step to this one.
    pub(crate) fn taken(&self, before: &Self) -> Taken {
        taken(before.node, self.node, self.predicate, self.inverse)
    }
}

/// The nodes and edges of one partial path. Moving to another path changes only the part that differs; the
/// next path to extend is usually close.
#[derive(Debug, Default)]
struct Chain {
    /// The path's steps with their numbers.
    steps: Vec<(u32, Step)>,
    nodes: FxHashSet<u32>,
    edges: FxHashSet<Taken>,
}

impl Chain {
    fn go_to(&mut self, number: u32, steps: &[Step]) {
        let mut new = Vec::new();
        let mut at = number;
        while at != NONE {
            let length = steps[at as usize].length as usize;
            if self
                .steps
                .get(length)
                .is_some_and(|(known, _)| *known == at)
            {
                break;
            }
            new.push(at);
            at = steps[at as usize].parent;
        }
        let kept = steps[number as usize].length as usize + 1 - new.len();
        while self.steps.len() > kept {
            self.leave();
        }
        for &number in new.iter().rev() {
            let step = steps[number as usize];
            if let Some(edge) = self.last_edge(&step) {
                self.edges.insert(edge);
            }
            self.nodes.insert(step.node);
            self.steps.push((number, step));
        }
    }

    /// Returns the approximate number of bytes held.
    fn bytes(&self) -> usize {
        let taken = self.edges.capacity() * size_of::<Taken>();
        self.steps.capacity() * size_of::<(u32, Step)>() + self.nodes.capacity() * 5 + taken
    }

    /// Leaves the steps with higher numbers, which will be reused.
    fn keep_up_to(&mut self, number: u32) {
        while self.steps.last().is_some_and(|(last, _)| *last > number) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        if let Some((_, step)) = self.steps.pop() {
            if let Some(edge) = self.last_edge(&step) {
                self.edges.remove(&edge);
            }
            self.nodes.remove(&step.node);
        }
    }

    /// Returns the edge from the last step to this one.
    fn last_edge(&self, step: &Step) -> Option<Taken> {
        let (_, last) = self.steps.last()?;
        Some(step.taken(last))
    }
}
