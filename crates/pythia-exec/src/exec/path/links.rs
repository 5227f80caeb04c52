//! Reads the links of a search's front.

use std::ops::Range;
use std::sync::Arc;
use std::vec;

use pythia_rdf::TermId;
use pythia_store::{Component, End, Expansion, GraphFilter, Order, QuadPattern};

use super::walk::Visit;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Items, Work};
use crate::exec::several_graphs::{self, Scanning};
use crate::limits::governor::{Governor, Held};
use crate::plan::automaton::{Edges, Transition};

/// Number of visits that are made together, unless one node has more.
const VISITS: usize = 16_384;

/// Visits in one state, by node.
pub(super) struct Front {
    pub(super) state: u32,
    visits: Vec<Visit>,
    pub(super) nodes: Vec<TermId>,
    /// The place of the first visit of each node, and the number of visits.
    first: Vec<u32>,
    _held: Held,
}

impl Front {
    /// Makes the front of visits in one state, sorted by node.
    pub(super) fn new(visits: Vec<Visit>, governor: &Arc<Governor>) -> Result<Self, QueryError> {
        let count = visits.chunk_by(|a, b| a.node == b.node).count();
        let mut held = Held::new(governor);
        held.set((count + 1) * (size_of::<TermId>() + size_of::<u32>()))?;
        let (mut nodes, mut first) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
        for (place, visit) in visits.iter().enumerate() {
            if nodes.last() != Some(&visit.node) {
                nodes.push(visit.node);
                first.push(place as u32);
            }
        }
        first.push(visits.len() as u32);
        Ok(Self {
            state: visits.first().map_or(0, |visit| visit.state),
            visits,
            nodes,
            first,
            _held: held,
        })
    }

    /// Returns the visits of the node at a place.
    pub(super) fn visits_of(&self, place: usize) -> &[Visit] {
        &self.visits[self.first[place] as usize..self.first[place + 1] as usize]
    }
}

/// Links that are read one after the other: those of a transition from nodes in a range of places.
pub(super) enum Part {
    /// Node by node.
    Nodes(usize, Range<usize>),
    /// From the predicate's column.
    Column(usize, Range<usize>),
}

impl Items for vec::IntoIter<Part> {
    type Item = Part;

    fn next(&mut self) -> Result<Option<Part>, QueryError> {
        Ok(Iterator::next(self))
    }
}

/// Links of a transition.
struct Found {
    transition: usize,
    /// The place of each link's node in the front.
    sources: Vec<u32>,
    targets: Vec<u64>,
    /// Number of links that were followed.
    followed: usize,
    _held: Held,
}

/// The front and its context, which all readers share.
pub(super) struct Reading {
    pub(super) front: Arc<Front>,
    /// Those of the front's state.
    pub(super) transitions: Arc<[Transition]>,
    pub(super) graphs: Arc<[GraphFilter]>,
    pub(super) context: Arc<QueryContext>,
}

/// Reads links of a front, and makes visits over them.
pub(super) struct Links {
    reading: Arc<Reading>,
    part: Option<Part>,
    column: Option<Column>,
    /// Links that were read.
    found: Option<Found>,
}

/// A column that is being read.
struct Column {
    scan: Scanning,
    transition: usize,
    nodes: Range<usize>,
    /// The place of the next node, and the last id that was read.
    place: usize,
    last: u64,
}

impl Links {
    pub(super) fn new(reading: &Arc<Reading>) -> Self {
        Self {
            reading: Arc::clone(reading),
            part: None,
            column: None,
            found: None,
        }
    }

    /// Reads the links of some nodes.
    fn expand(&self, place: usize, nodes: Range<usize>) -> Result<Found, QueryError> {
        let transition = &self.reading.transitions[place];
        let end = match transition.inverse {
            true => End::Object,
            false => End::Subject,
        };
        let (predicate, except) = match &transition.edges {
            Edges::Predicate(predicate) => (Some(*predicate), None),
            Edges::Except(except) => (None, Some(except)),
        };
        let governor = self.reading.context.governor();
        let mut links =
            Expansion::new(predicate.is_none(), false).within(Arc::clone(governor) as _);
        let start = nodes.start as u32;
        let nodes = &self.reading.front.nodes[nodes];
        several_graphs::expand(
            &self.reading.context,
            &self.reading.graphs,
            end,
            nodes,
            predicate,
            &mut links,
        )?;
        let mut held = Held::new(governor);
        let ids = links.other.capacity() + links.predicate.capacity();
        held.set(ids * 8 + links.source.capacity() * 4)?;
        let (mut sources, mut targets) = (links.source, links.other);
        if let Some(except) = except {
            let is_followed = |row: usize| {
                let predicate = TermId(links.predicate[row]);
                except.binary_search(&predicate).is_err()
            };
            retain(&mut sources, is_followed);
            retain(&mut targets, is_followed);
        }
        sources.iter_mut().for_each(|source| *source += start);
        Ok(Found {
            transition: place,
            sources,
            targets,
            followed: 0,
            _held: held,
        })
    }

    /// Begins to read a predicate's column between the first and the last of some nodes.
    fn open(&self, place: usize, nodes: Range<usize>) -> Result<Column, QueryError> {
        let transition = &self.reading.transitions[place];
        let Edges::Predicate(predicate) = transition.edges else {
            unreachable!("only predicates have columns");
        };
        let (order, wanted) = match transition.inverse {
            false => (Order::Pso, [Component::Subject, Component::Object]),
            true => (Order::Pos, [Component::Object, Component::Subject]),
        };
        let pattern = QuadPattern {
            predicate: Some(predicate),
            ..QuadPattern::default()
        };
        let within = &self.reading.front.nodes[nodes.clone()];
        let ids = within[0].0..within[within.len() - 1].0 + 1;
        let graphs = Arc::clone(&self.reading.graphs);
        Ok(Column {
            scan: Scanning::new(graphs, pattern, order, Some(ids), &wanted),
            transition: place,
            place: nodes.start,
            nodes,
            last: 0,
        })
    }

    /// Returns the next links of a column from the nodes.
    fn read(&self, column: &mut Column) -> Result<Option<Found>, QueryError> {
        let Some(batch) = column.scan.next(&self.reading.context)? else {
            return Ok(None);
        };
        let nodes = &self.reading.front.nodes[..column.nodes.end];
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for (&source, &target) in batch.columns[0].iter().zip(&batch.columns[1]) {
            if source < column.last {
                // The next graph.
                column.place = column.nodes.start;
            }
            column.last = source;
            while nodes.get(column.place).is_some_and(|node| node.0 < source) {
                column.place += 1;
            }
            if nodes.get(column.place).is_some_and(|node| node.0 == source) {
                sources.push(column.place as u32);
                targets.push(target);
            }
        }
        Ok(Some(Found {
            transition: column.transition,
            sources,
            targets,
            followed: 0,
            _held: Held::new(self.reading.context.governor()),
        }))
    }
}

impl Links {
    /// Returns the next links of the part.
    fn find(&mut self) -> Result<Option<Found>, QueryError> {
        match self.part.take() {
            Some(Part::Nodes(transition, nodes)) => {
                return self.expand(transition, nodes).map(Some);
            }
            Some(Part::Column(transition, nodes)) => {
                self.column = Some(self.open(transition, nodes)?);
            }
            None => {}
        }
        let Some(mut column) = self.column.take() else {
            return Ok(None);
        };
        let found = self.read(&mut column)?;
        if found.is_some() {
            self.column = Some(column);
        }
        Ok(found)
    }

    /// Makes the next visits over links.
    fn follow(&self, found: &mut Found) -> Vec<Visit> {
        let state = self.reading.transitions[found.transition].target as u32;
        let left = found.targets.len() - found.followed;
        let mut visits = Vec::with_capacity(left.min(VISITS));
        while visits.len() < VISITS && found.followed < found.targets.len() {
            let source = found.sources[found.followed] as usize;
            let node = TermId(found.targets[found.followed]);
            let before = self.reading.front.visits_of(source).iter();
            visits.extend(before.map(|visit| Visit {
                state,
                start: visit.start,
                node,
            }));
            found.followed += 1;
        }
        visits
    }
}

impl Work for Links {
    type Item = Part;
    type Output = Vec<Visit>;

    fn begin(&mut self, part: Part) {
        self.part = Some(part);
    }

    fn next(&mut self) -> Result<Option<Vec<Visit>>, QueryError> {
        self.reading.context.check()?;
        let mut found = match self.found.take() {
            Some(found) => found,
            None => match self.find()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let visits = self.follow(&mut found);
        if found.followed < found.targets.len() {
            self.found = Some(found);
        }
        Ok(Some(visits))
    }

    fn bytes(visits: &Vec<Visit>) -> usize {
        visits.len() * size_of::<Visit>()
    }
}

/// Keeps the items at some places.
fn retain<T>(items: &mut Vec<T>, is_kept: impl Fn(usize) -> bool) {
    let mut place = 0;
    items.retain(|_| {
        place += 1;
        is_kept(place - 1)
    });
}
