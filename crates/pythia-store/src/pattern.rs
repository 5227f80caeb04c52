//! Requests to a store: quad patterns, the orders of the quads, and the shapes of results.
//!
//! Terms are [`TermId`]s, as raw 64 bits where there are many.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::read_ahead::PageSequence;

/// The graphs that a pattern looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
pub enum GraphFilter {
    /// All quads, of the default graph and of named graphs.
    #[default]
    Any,
    /// Quads of any named graph.
    Named,
    /// Quads of one graph; [`TermId::DEFAULT_GRAPH`] is the default graph.
    One(TermId),
}

impl GraphFilter {
    /// Returns the one graph that passes, if it is named.
    pub const fn one_named(self) -> Option<TermId> {
        match self {
            Self::One(graph) if graph.0 != TermId::DEFAULT_GRAPH.0 => Some(graph),
            _ => None,
        }
    }

    /// Returns whether a quad of `graph` passes.
    #[inline]
    pub const fn accepts(self, graph: TermId) -> bool {
        match self {
            Self::Any => true,
            Self::Named => graph.0 != TermId::DEFAULT_GRAPH.0,
            Self::One(one) => graph.0 == one.0,
        }
    }
}

/// A quad with holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct QuadPattern {
    /// The subject, or any.
    pub subject: Option<TermId>,
    /// The predicate, or any.
    pub predicate: Option<TermId>,
    /// The object, or any.
    pub object: Option<TermId>,
    /// The graphs to look at.
    pub graph: GraphFilter,
}

impl QuadPattern {
    /// Returns whether it matches every quad of its graphs.
    pub const fn is_open(&self) -> bool {
        self.subject.is_none() && self.predicate.is_none() && self.object.is_none()
    }
}

/// The orders in which a segment keeps its quads; ties are broken by graph, except in the order that begins with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum Order {
    /// Subject, predicate, object: tuple pages.
    Spo,
    /// Object, predicate, subject: tuple pages.
    Ops,
    /// Predicate, subject, object: column pages.
    Pso,
    /// Predicate, object, subject: column pages.
    Pos,
    /// Graph, predicate, subject, object: column pages of the quads of named graphs. The others are not in it.
    Gpso,
}

impl Order {
    /// Returns whether the order has a quad of this graph.
    #[inline]
    pub const fn has_graph(self, graph: u64) -> bool {
        !matches!(self, Self::Gpso) || graph != TermId::DEFAULT_GRAPH.0
    }

    /// The orders of all quads.
    pub const OF_ALL_GRAPHS: [Self; 4] = [Self::Spo, Self::Ops, Self::Pso, Self::Pos];
    /// All five.
    pub const ALL: [Self; 5] = [Self::Spo, Self::Ops, Self::Pso, Self::Pos, Self::Gpso];

    /// Returns the name for file names, counters and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spo => "spo",
            Self::Ops => "ops",
            Self::Pso => "pso",
            Self::Pos => "pos",
            Self::Gpso => "gpso",
        }
    }

    /// Returns the components in the order that rows are sorted by.
    pub const fn components(self) -> [Component; 4] {
        use Component::{Graph, Object, Predicate, Subject};
        match self {
            Self::Spo => [Subject, Predicate, Object, Graph],
            Self::Ops => [Object, Predicate, Subject, Graph],
            Self::Pso => [Predicate, Subject, Object, Graph],
            Self::Pos => [Predicate, Object, Subject, Graph],
            Self::Gpso => [Graph, Predicate, Subject, Object],
        }
    }
}

/// A part of a quad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    /// The subject.
    Subject,
    /// The predicate.
    Predicate,
    /// The object.
    Object,
    /// The graph; id 0 is the default graph.
    Graph,
}

/// Rows of ids, column by column.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct IdBatch {
    /// One column of raw [`TermId`] bits for each requested component, in the requested order; each holds `rows` ids.
    pub columns: Vec<Vec<u64>>,
    /// Number of rows (known even when no column was requested).
    pub rows: usize,
}

impl IdBatch {
    /// Returns an empty batch of `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self {
            columns: vec![Vec::new(); columns],
            rows: 0,
        }
    }

    /// Removes the rows and keeps the capacity.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.rows = 0;
    }
}

/// The end from which edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum End {
    /// The nodes are subjects, objects are found: SPO.
    Subject,
    /// The nodes are objects, subjects are found: OPS.
    Object,
}

impl End {
    /// Returns the end at which nodes are found.
    pub const fn other(self) -> Self {
        match self {
            Self::Subject => Self::Object,
            Self::Object => Self::Subject,
        }
    }

    /// Returns the tuple order keyed by this end.
    pub const fn order(self) -> Order {
        match self {
            Self::Subject => Order::Spo,
            Self::Object => Order::Ops,
        }
    }

    /// Returns the pattern of the quads that have a node at this end.
    pub const fn pattern(
        self,
        node: TermId,
        predicate: Option<TermId>,
        graph: GraphFilter,
    ) -> QuadPattern {
        let (subject, object) = match self {
            Self::Subject => (Some(node), None),
            Self::Object => (None, Some(node)),
        };
        QuadPattern {
            subject,
            predicate,
            object,
            graph,
        }
    }
}

/// A limit on memory that is asked before rows are read.
pub trait Room: fmt::Debug + Send + Sync {
    /// Returns an error, with the reason, if there is no memory for this many bytes.
    fn require(&self, bytes: usize) -> Result<(), String>;
}

/// The edges of a list of nodes, one row per edge, in order of node, predicate, other end and graph.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Per row, the index of its node in the list that was expanded.
    pub source: Vec<u32>,
    /// Per row, the predicate; empty unless [`Self::with_predicate`].
    pub predicate: Vec<u64>,
    /// Per row, the id at the other end.
    pub other: Vec<u64>,
    /// Per row, the graph; empty unless [`Self::with_graph`].
    pub graph: Vec<u64>,
    /// Lists of which the tuple pages hold only the length: their rows are in the columns, not among the rows above.
    pub external: Vec<ExternalList>,
    /// Whether predicates are collected.
    pub with_predicate: bool,
    /// Whether graphs are collected.
    pub with_graph: bool,
    /// The pages read so far, if the nodes came in order; kept from one expansion to the next.
    pub(crate) sequence: PageSequence,
    /// The memory for external lists, if limited.
    pub(crate) room: Option<Arc<dyn Room>>,
}

impl Expansion {
    /// Fewer nodes are always looked up on their tuple pages.
    pub const STRETCH_NODES: usize = 32;
    /// Number of rows of a column that are read instead of a visit to a tuple page.
    pub const ROWS_PER_VISIT: usize = 320;

    /// Returns an empty expansion that collects predicates and graphs as requested.
    pub fn new(with_predicate: bool, with_graph: bool) -> Self {
        Self {
            with_predicate,
            with_graph,
            ..Self::default()
        }
    }

    /// Limits the memory: external lists, which may have any number of rows, are read only if there is room for them.
    pub fn within(mut self, room: Arc<dyn Room>) -> Self {
        self.room = Some(room);
        self
    }

    /// Returns the bytes of memory that the rows take.
    pub fn bytes(&self) -> usize {
        let ids = self.other.capacity() + self.predicate.capacity() + self.graph.capacity();
        ids * size_of::<u64>() + self.source.capacity() * size_of::<u32>()
    }

    /// Returns an error if there is no memory for this many more rows, which are held twice while they are read.
    pub(crate) fn require_room(&self, rows: u64) -> Result<(), StoreError> {
        let Some(room) = &self.room else {
            return Ok(());
        };
        let columns = 1 + usize::from(self.with_predicate) + usize::from(self.with_graph);
        let row_bytes = size_of::<u32>() + 2 * columns * size_of::<u64>();
        let bytes = usize::try_from(rows)
            .unwrap_or(usize::MAX)
            .saturating_mul(row_bytes);
        room.require(bytes)
            .map_err(|message| StoreError::NoRoom { message })
    }

    /// Returns the number of rows found so far.
    pub fn len(&self) -> usize {
        self.other.len()
    }

    /// Returns whether no row and no external list was found.
    pub fn is_empty(&self) -> bool {
        self.other.is_empty() && self.external.is_empty()
    }

    /// Removes the rows and frees their capacity; keeps the settings.
    pub fn free(&mut self) {
        let sequence = std::mem::take(&mut self.sequence);
        let room = self.room.take();
        *self = Self {
            sequence,
            room,
            ..Self::new(self.with_predicate, self.with_graph)
        };
    }

    /// Appends rows of another expansion, with the columns that this one wants. Rows without predicates have a single
    /// predicate, which this one does not want.
    pub(crate) fn append(&mut self, rows: &Self, range: Range<usize>) {
        self.source.extend_from_slice(&rows.source[range.clone()]);
        self.other.extend_from_slice(&rows.other[range.clone()]);
        if self.with_predicate {
            let predicates = &rows.predicate[range.clone()];
            self.predicate.extend_from_slice(predicates);
        }
        if self.with_graph {
            self.graph.extend_from_slice(&rows.graph[range]);
        }
    }

    /// Makes room for this many more rows.
    pub fn reserve_exact(&mut self, rows: usize) {
        self.source.reserve_exact(rows);
        self.other.reserve_exact(rows);
        if self.with_predicate {
            self.predicate.reserve_exact(rows);
        }
        if self.with_graph {
            self.graph.reserve_exact(rows);
        }
    }

    /// Appends the edges of nodes that follow in the list, from the place `first` on. They must have the same columns.
    pub fn append_following(&mut self, edges: Self, first: u32) {
        debug_assert!(edges.external.is_empty(), "read with the others");
        let sources = edges.source.iter();
        self.source.extend(sources.map(|source| first + source));
        self.predicate.extend_from_slice(&edges.predicate);
        self.other.extend_from_slice(&edges.other);
        self.graph.extend_from_slice(&edges.graph);
        self.sequence = edges.sequence;
    }

    /// Removes the rows; keeps the capacity and the settings.
    pub fn clear(&mut self) {
        self.source.clear();
        self.predicate.clear();
        self.other.clear();
        self.graph.clear();
        self.external.clear();
    }
}

/// A list of which the tuple pages hold only the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalList {
    /// The index of its node in the list that was expanded.
    pub source: u32,
    /// Its predicate.
    pub predicate: TermId,
    /// Its rows in all graphs, regardless of the graph filter.
    pub count: u64,
}
