//! The one search: a queue of partial paths, best first.
//!
//! The best partial path leaves the queue; if its node has not been read, it is read together with
//! those of the next best ones, as one batch (path paper §5.1). What is read ahead changes no
//! order. With costs so far as estimates this is Dijkstra's algorithm, or breadth-first search where
//! every edge costs the same; with what remains to the end added, A*; with the newest first,
//! depth-first search.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::Cost;
use super::edges::{Edge, Graph};
use super::product::Product;
use super::remaining::{Estimate, Remaining};
use super::{Restrictor, Rules};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::governor::Held;

/// Partial paths between two looks at the clock and at memory.
const CHECKED: u64 = 1024;
/// How many entries of the queue are looked at for each node to be read.
const LOOKED_AT: usize = 4;
/// No partial path: what the first ones extend.
const NONE: u32 = u32::MAX;

/// What all searches of one question share.
pub(crate) struct Space {
    pub(crate) graph: Graph,
    pub(crate) product: Product,
    pub(crate) context: Arc<QueryContext>,
    pub(crate) batch_nodes: usize,
}

/// A partial path: another one and an edge more.
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

/// Which of the partial paths that meet at a node, in one state, are followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    All,
    /// So many, the cheapest.
    First(u32),
    /// Those that are as cheap as the cheapest.
    Cheapest,
}

/// Which partial path is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// The one with the least cost, or estimate of it; the newest of several.
    Cheapest,
    /// The newest: depth-first search, which forgets what it has left behind.
    Newest,
}

impl Priority {
    /// What the queue is ordered by.
    fn of(self, estimate: Cost) -> Cost {
        match self {
            Self::Cheapest => estimate,
            Self::Newest => Cost::ZERO,
        }
    }
}

/// How a search goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// Whether edges are followed backward, in the automaton's own states.
    pub(crate) backward: bool,
    pub(crate) priority: Priority,
    pub(crate) limit: Limit,
    pub(crate) restrictor: Restrictor,
    pub(crate) length_max: Option<u32>,
    /// What a path costs at most.
    pub(crate) cost_max: Option<Cost>,
    /// Partial paths that differ in length are told apart up to this length.
    pub(crate) lengths_told_apart: u32,
}

impl Course {
    /// For the rules' paths, followed forward.
    pub(crate) fn of(rules: &Rules, limit: Limit, restrictor: Restrictor) -> Self {
        // A costlier partial path may have to be followed because it is long, or short, enough.
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
    estimate: Cost,
    /// Whether the estimate is what the cheapest walk on from here costs, and not only a bound.
    exact: bool,
    serial: u64,
    step: u32,
}

impl Ord for Entry {
    /// The next one is the greatest.
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

/// What has come by a node, in one state.
#[derive(Clone, Copy, Debug)]
struct Visit {
    count: u32,
    cheapest: Cost,
}

/// Node, state, and length as far as it matters.
type Place = (u32, u32, u32);

/// A running search.
pub(crate) struct Frontier {
    course: Course,
    /// The node that all paths start at.
    origin: u32,
    steps: Vec<Step>,
    queue: BinaryHeap<Entry>,
    serial: u64,
    visits: FxHashMap<Place, Visit>,
    /// The partial path that left the queue last, not yet extended.
    pending: Option<u32>,
    chain: Chain,
    held: Held,
    taken: u64,
}

impl Frontier {
    pub(crate) fn new(course: Course, space: &Space) -> Self {
        Self {
            course,
            origin: NONE,
            steps: Vec::new(),
            queue: BinaryHeap::new(),
            serial: 0,
            visits: FxHashMap::default(),
            pending: None,
            chain: Chain::default(),
            held: Held::new(space.context.governor()),
            taken: 0,
        }
    }

    /// Adds an empty path at a node, the same one each time.
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

    /// Lets the search end where paths begin to cost more than this.
    pub(crate) fn end_beyond(&mut self, cost: Cost) {
        self.course.cost_max = Some(cost);
    }

    /// A partial path.
    pub(crate) fn step(&self, step: u32) -> &Step {
        &self.steps[step as usize]
    }

    /// The steps of a partial path, from its empty one.
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

    /// How many partial paths were made.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The cost at which a node was first reached in a state, if it has been.
    pub(crate) fn reached(&self, node: u32, state: u32) -> Option<Cost> {
        let visit = self.visits.get(&(node, state, 0));
        visit.map(|visit| visit.cheapest)
    }

    /// Takes the best partial path out of the queue. Before that the one taken last is extended.
    /// With `remaining`, only those are given that can be completed.
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
            if self
                .course
                .cost_max
                .is_some_and(|most| entry.estimate > most)
            {
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
                // Whatever is newer has been followed to its end.
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

    /// The entry, whose estimate is a bound, if it is to be followed as it is. If not, it goes back
    /// with a better estimate, or is dropped if the end cannot be reached.
    ///
    /// Walks are followed by bounds while the search from the end has done more than this one, so
    /// that the two meet halfway: bounds are consistent, so a node's first visit is its cheapest
    /// all the same. Restricted paths are not, for they are told apart by all their nodes, and
    /// those that cannot be completed would be as many.
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
        // As long as it is the best one, the search from the end goes on.
        let next = self.queue.peek().map(|next| next.estimate);
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
                let estimate = self.course.priority.of(estimate);
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

    /// Counts a partial path at its node; says whether it is followed.
    fn visit(&mut self, step: u32) -> bool {
        if self.course.limit == Limit::All {
            return true;
        }
        let (place, cost) = (self.place(step), self.step(step).cost);
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

    fn place(&self, step: u32) -> Place {
        let step = self.step(step);
        self.place_of(step)
    }

    fn place_of(&self, step: &Step) -> Place {
        let length = step.length.min(self.course.lengths_told_apart);
        (step.node, step.state, length)
    }

    /// Whether partial paths that come to the step's place are followed no more.
    fn is_full(&self, step: &Step) -> bool {
        let Some(visit) = self.visits.get(&self.place_of(step)) else {
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
        if self.course.length_max == Some(step.length) || self.is_closed(number) {
            return Ok(());
        }
        if !space.graph.has(backward, step.node) {
            let nodes = self.best_unread(step.node, space);
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
            self.push(step, self.course.priority.of(estimate), exact);
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

    /// The node and the next best ones of the queue that have not been read either.
    fn best_unread(&mut self, node: u32, space: &Space) -> Vec<u32> {
        let mut nodes = vec![node];
        let mut looked_at = Vec::new();
        while nodes.len() < space.batch_nodes && looked_at.len() < LOOKED_AT * space.batch_nodes {
            let Some(entry) = self.queue.pop() else {
                break;
            };
            let step = self.step(entry.step);
            let last = self.course.length_max == Some(step.length);
            if !last && !space.graph.has(self.course.backward, step.node) {
                nodes.push(step.node);
            }
            looked_at.push(entry);
        }
        self.queue.extend(looked_at);
        nodes
    }

    /// Whether a simple path has come back to its start.
    fn is_closed(&self, number: u32) -> bool {
        let step = self.step(number);
        // Only its start can be met again.
        let is_back = step.length > 0 && step.node == self.origin;
        self.course.restrictor == Restrictor::Simple && is_back
    }

    /// Whether the restrictor lets the path that the chain stands at take the edge.
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

    /// An error if all cheapest walks are wanted and one can go round for nothing.
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
                    "there are endlessly many cheapest walks, as a cycle costs nothing; ask for TRAIL, ACYCLIC or SIMPLE paths, or give a MAX LENGTH".to_owned(),
                ));
            }
            at = self.step(at).parent;
        }
        Ok(())
    }

    fn charge(&mut self, space: &Space) -> Result<(), QueryError> {
        let states = if self.course.backward {
            0
        } else {
            space.product.bytes()
        };
        let steps = self.steps.capacity() * size_of::<Step>();
        let queue = self.queue.capacity() * size_of::<Entry>();
        self.held
            .set(states + steps + queue + self.visits.capacity() * 48)
    }
}

/// An edge as a triple, whichever way it is taken.
type Taken = (u32, u64, u32);

fn taken(from: u32, to: u32, predicate: u64, inverse: bool) -> Taken {
    match inverse {
        false => (from, predicate, to),
        true => (to, predicate, from),
    }
}

impl Step {
    /// The edge that leads here from the step before.
    pub(crate) fn taken(&self, before: &Self) -> Taken {
        taken(before.node, self.node, self.predicate, self.inverse)
    }
}

/// The nodes and edges of one partial path, moved from path to path by what differs: the next one
/// to be extended usually is close.
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

    /// Leaves the steps with higher numbers, which are given to others.
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

    /// The edge that leads from the last step to this one.
    fn last_edge(&self, step: &Step) -> Option<Taken> {
        let (_, last) = self.steps.last()?;
        Some(step.taken(last))
    }
}
