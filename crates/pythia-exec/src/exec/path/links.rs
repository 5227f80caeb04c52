//! Reads the links of a search's front.

use std::ops::Range;
use std::sync::Arc;
use std::vec;

use pythia_rdf::TermId;
use pythia_store::{Component, End, Expansion, GraphFilter, Order, QuadPattern};

use super::front::{Front, Nodes};
use super::visits::Visits;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::ordered::{Items, Work};
use crate::exec::several_graphs::{self, Scanning};
use crate::limits::governor::Held;
use crate::plan::automaton::{Edges, Transition};

/// Number of visits that are made together, unless one node has more.
const VISITS: usize = 16_384;

/// Links that are read one after the other: those of a transition from the nodes of some visits of the front.
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
    /// The place of each link's node among those of the part.
    sources: Vec<u32>,
    targets: Vec<u64>,
    /// Number of links that were followed.
    followed: usize,
    _held: Held,
}

/// The front and its context, which all readers share.
pub(super) struct Reading {
    pub(super) front: Arc<Front>,
    /// Those of the state that is read.
    pub(super) transitions: Arc<[Transition]>,
    /// Number of nodes whose links are read together, node by node.
    pub(super) together: usize,
    pub(super) graphs: Arc<[GraphFilter]>,
    pub(super) context: Arc<QueryContext>,
}

/// Reads links of a front, and makes visits over them.
pub(super) struct Links {
    reading: Arc<Reading>,
    part: Option<Part>,
    /// The nodes of the part.
    nodes: Nodes,
    source: Option<Source>,
    /// Links that were read.
    found: Option<Found>,
}

/// Links that are being read.
enum Source {
    /// Those of a transition from the nodes from a place on.
    Nodes(usize, usize),
    Column(Box<Column>),
}

/// A column that is being read.
struct Column {
    scan: Scanning,
    transition: usize,
    /// The place of the next node, and the last id that was read.
    place: usize,
    last: u64,
}

impl Links {
    pub(super) fn new(reading: &Arc<Reading>) -> Self {
        Self {
            part: None,
            nodes: Nodes::new(reading.context.governor()),
            source: None,
            found: None,
            reading: Arc::clone(reading),
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
        let nodes = &self.nodes.ids[nodes];
        several_graphs::expand(
            &self.reading.context,
            &self.reading.graphs,
            end,
            nodes,
            predicate,
            &mut links,
        )?;
        let mut held = Held::new(governor);
        held.set(links.bytes())?;
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

    /// Reads the links of some nodes: of fewer, if there is no memory for the links of all. Returns where they end, too.
    fn expand_some(
        &self,
        transition: usize,
        nodes: Range<usize>,
    ) -> Result<(Found, usize), QueryError> {
        let mut count = nodes.len();
        loop {
            let end = nodes.start + count;
            match self.expand(transition, nodes.start..end) {
                Err(QueryError::Memory(_)) if count > 1 => count /= 2,
                found => return Ok((found?, end)),
            }
        }
    }

    /// Begins to read a predicate's column between the first and the last of the nodes.
    fn open(&self, place: usize) -> Column {
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
        let within = &self.nodes.ids;
        let ids = within[0].0..within[within.len() - 1].0 + 1;
        let graphs = Arc::clone(&self.reading.graphs);
        Column {
            scan: Scanning::new(graphs, pattern, order, Some(ids), &wanted),
            transition: place,
            place: 0,
            last: 0,
        }
    }

    /// Returns the next links of a column from the nodes.
    fn read(&self, column: &mut Column) -> Result<Option<Found>, QueryError> {
        let Some(batch) = column.scan.next(&self.reading.context)? else {
            return Ok(None);
        };
        let nodes = &self.nodes.ids;
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        for (&source, &target) in batch.columns[0].iter().zip(&batch.columns[1]) {
            if source < column.last {
                // The next graph.
                column.place = 0;
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
        if let Some(part) = self.part.take() {
            let (Part::Nodes(_, visits) | Part::Column(_, visits)) = &part;
            self.nodes.set(&self.reading.front, visits.clone())?;
            self.source = Some(match part {
                Part::Nodes(transition, _) => Source::Nodes(transition, 0),
                Part::Column(transition, _) => Source::Column(Box::new(self.open(transition))),
            });
        }
        match self.source.take() {
            Some(Source::Nodes(transition, start)) => {
                let count = self.nodes.ids.len();
                let together = self.reading.together;
                // Parts end with groups of nodes. A few more are no read of their own.
                let end = match count - start <= together + together / 16 {
                    true => count,
                    false => start + together,
                };
                let (found, end) = self.expand_some(transition, start..end)?;
                self.source = (end < count).then_some(Source::Nodes(transition, end));
                Ok(Some(found))
            }
            Some(Source::Column(mut column)) => {
                let found = self.read(&mut column)?;
                if found.is_some() {
                    self.source = Some(Source::Column(column));
                }
                Ok(found)
            }
            None => Ok(None),
        }
    }

    /// Makes the next visits over links.
    fn follow(&self, found: &mut Found) -> Vec<Visits> {
        let state = self.reading.transitions[found.transition].target as u32;
        let left = found.targets.len() - found.followed;
        let mut visits = Vec::with_capacity(left.min(VISITS));
        while visits.len() < VISITS && found.followed < found.targets.len() {
            let source = found.sources[found.followed] as usize;
            let target = TermId(found.targets[found.followed]);
            self.nodes.follow(source, state, target, &mut visits);
            found.followed += 1;
        }
        if visits.len() < visits.capacity() / 2 {
            visits.shrink_to_fit();
        }
        visits
    }
}

impl Work for Links {
    type Item = Part;
    type Output = Vec<Visits>;

    fn begin(&mut self, part: Part) {
        self.part = Some(part);
    }

    fn next(&mut self) -> Result<Option<Vec<Visits>>, QueryError> {
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

    fn bytes(visits: &Vec<Visits>) -> usize {
        visits.capacity() * size_of::<Visits>()
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
