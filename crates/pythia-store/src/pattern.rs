//! What is asked of a store: quad patterns, the orders of the quads, and the shapes of answers.
//!
//! Everything here speaks of [`TermId`]s, as their raw 64 bits where many travel together.

use crate::scan::Run;
use pythia_rdf::TermId;

/// Which graphs a pattern looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
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
    /// Whether a quad of `graph` passes.
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

/// The orders a segment keeps its quads in; ties are broken by graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Subject, predicate, object: tuple pages.
    Spo,
    /// Object, predicate, subject: tuple pages.
    Ops,
    /// Predicate, subject, object: column pages.
    Pso,
    /// Predicate, object, subject: column pages.
    Pos,
}

impl Order {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Spo, Self::Ops, Self::Pso, Self::Pos];

    /// The name in file names, counters and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spo => "spo",
            Self::Ops => "ops",
            Self::Pso => "pso",
            Self::Pos => "pos",
        }
    }

    /// The components in the order that rows are sorted by, the graph last.
    pub const fn components(self) -> [Component; 4] {
        use Component::{Graph, Object, Predicate, Subject};
        match self {
            Self::Spo => [Subject, Predicate, Object, Graph],
            Self::Ops => [Object, Predicate, Subject, Graph],
            Self::Pso => [Predicate, Subject, Object, Graph],
            Self::Pos => [Predicate, Object, Subject, Graph],
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
    /// One column of raw [`TermId`] bits for each component asked for, in the order asked; each
    /// holds `rows` ids.
    pub columns: Vec<Vec<u64>>,
    /// How many rows there are (known even when no column was asked for).
    pub rows: usize,
}

impl IdBatch {
    /// An empty batch of `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self {
            columns: vec![Vec::new(); columns],
            rows: 0,
        }
    }

    /// Drops the rows and keeps the room.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.rows = 0;
    }
}

/// From which end edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The nodes are subjects, objects are found: SPO.
    Subject,
    /// The nodes are objects, subjects are found: OPS.
    Object,
}

impl End {
    /// The tuple order keyed by this end.
    pub const fn order(self) -> Order {
        match self {
            Self::Subject => Order::Spo,
            Self::Object => Order::Ops,
        }
    }
}

/// The edges found from a list of nodes, one row per edge, in order of node, predicate, other end
/// and graph.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Expansion {
    /// Per row, the index of its node in the list that was expanded.
    pub source: Vec<u32>,
    /// Per row, the predicate; empty unless [`Self::with_predicate`].
    pub predicate: Vec<u64>,
    /// Per row, the id at the other end.
    pub other: Vec<u64>,
    /// Per row, the graph; empty unless [`Self::with_graph`].
    pub graph: Vec<u64>,
    /// Lists that the tuple pages hold only the length of: their rows are not among the rows above,
    /// and lie in the columns.
    pub external: Vec<ExternalList>,
    /// Whether predicates are wanted.
    pub with_predicate: bool,
    /// Whether graphs are wanted.
    pub with_graph: bool,
    /// The pages read so far, if nodes came in order: kept from one expansion to the next.
    pub(crate) run: Run,
}

impl Expansion {
    /// An empty expansion that collects predicates and graphs as told.
    pub fn new(with_predicate: bool, with_graph: bool) -> Self {
        Self {
            with_predicate,
            with_graph,
            ..Self::default()
        }
    }

    /// Rows found so far.
    pub fn len(&self) -> usize {
        self.other.len()
    }

    /// Whether no row and no external list was found.
    pub fn is_empty(&self) -> bool {
        self.other.is_empty() && self.external.is_empty()
    }

    /// Drops the rows and the room, and keeps the wishes.
    pub fn free(&mut self) {
        let run = std::mem::take(&mut self.run);
        *self = Self {
            run,
            ..Self::new(self.with_predicate, self.with_graph)
        };
    }

    /// Drops the rows and keeps the room and the wishes.
    pub fn clear(&mut self) {
        self.source.clear();
        self.predicate.clear();
        self.other.clear();
        self.graph.clear();
        self.external.clear();
    }
}

/// A list that is only counted in the tuple pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalList {
    /// The index of its node in the list that was expanded.
    pub source: u32,
    /// Its predicate.
    pub predicate: TermId,
    /// Its rows in all graphs, whatever the graph filter.
    pub count: u64,
}
