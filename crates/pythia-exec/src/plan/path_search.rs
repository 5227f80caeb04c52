//! A path search, as data: its rules, its edges and its outputs.

use pythia_rdf::TermId;
use pythia_sparql::path_search::{Mode, Restrictor};
use pythia_store::GraphFilter;
use serde::{Deserialize, Serialize};

use super::automaton::Automaton;
use super::expression::SlotExpression;

/// Searches for paths from, or between, terms of the input solutions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PathSearch {
    /// The rules of the search.
    pub rules: Rules,
    /// The automaton of the path expression, in the direction of the search.
    pub automaton: Automaton,
    /// The start of the search.
    pub start: Origin,
    /// The end of the search.
    pub end: Destination,
    /// True if the search goes from the ends of paths to their starts.
    pub flipped: bool,
    /// The source of edges.
    pub edges: EdgeSource,
    /// Columns of a row that follow those of its input solution.
    pub outputs: Vec<Output>,
    /// Description for EXPLAIN.
    pub text: String,
}

/// The source of edges.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum EdgeSource {
    /// Quads of the store.
    Store(StoreEdges),
    /// Solutions of the second input, with these columns.
    Pattern {
        /// The column of the first node.
        from: usize,
        /// The column of the second node.
        to: usize,
        /// The column of the predicate.
        predicate: Option<usize>,
        /// The column of the weight.
        weight: Option<usize>,
        /// True if solutions without a weight are skipped.
        optional: bool,
    },
}

/// The start of a search.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Origin {
    /// A term.
    Constant(TermId),
    /// The term in a column of the input.
    Column(usize),
}

/// The end of a search.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Destination {
    /// Any node, returned in an output column.
    Any,
    /// A term.
    Constant(TermId),
    /// The term in a column of the input.
    Column(usize),
    /// The node at which the path starts.
    Start,
}

/// The contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Output {
    /// The node at the end of the search.
    End,
    /// The path.
    Path,
    /// The number of edges.
    Length,
    /// The sum of the weights.
    Cost,
    /// Number of the path, from 1.
    Number,
    /// The position of an edge in its path, from 1.
    Index,
    /// The first node of an edge.
    From,
    /// The predicate of an edge.
    Predicate,
    /// The second node of an edge.
    To,
    /// True if the edge is followed backward.
    Inverse,
}

impl Output {
    /// Returns whether the column is about one edge of a path.
    pub fn is_of_edge(self) -> bool {
        matches!(
            self,
            Self::Index | Self::From | Self::Predicate | Self::To | Self::Inverse
        )
    }
}

/// Stored edges that searches may follow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StoreEdges {
    /// Predicates followed forward and backward.
    pub wanted: [Wanted; 2],
    /// The graphs that are searched.
    pub graphs: Vec<GraphFilter>,
    /// Filter over the columns of an edge's start, predicate and end.
    pub filter: Option<SlotExpression>,
    /// The weights; without them, each edge costs 1.
    pub weight: Option<Weight>,
    /// The predicate whose values are the nodes' priorities; `None` if they have none.
    pub priority: Option<TermId>,
}

/// The source of weights.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Weight {
    /// The terms that weights come from.
    pub kind: WeightKind,
    /// True if edges without a weight are skipped instead of being an error.
    pub optional: bool,
}

/// The terms that weights come from.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum WeightKind {
    /// The least value of this predicate at the target node of an edge; `None` if the store does not have the
    /// predicate.
    Value(Option<TermId>),
    /// An expression over the columns of an edge's start, predicate and end.
    Expression(SlotExpression),
}

/// Edges of one direction that a path may follow.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Wanted {
    /// No edges.
    None,
    /// Edges with one of these predicates, sorted.
    Some(Vec<u64>),
    /// All edges.
    All,
}

/// The rules of a path search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Rules {
    /// The paths to return.
    #[serde(with = "super::form")]
    pub mode: Mode,
    /// The paths that are allowed.
    #[serde(with = "super::form")]
    pub restrictor: Restrictor,
    /// Minimum number of edges.
    pub length_min: u32,
    /// Maximum number of edges.
    pub length_max: Option<u32>,
    /// True if the cost of an edge is its weight, false if it is one.
    pub weighted: bool,
    /// True if all paths are searched for by the priority of their last node, not depth first.
    pub prioritized: bool,
    /// Nodes read in one batch.
    pub batch_nodes: usize,
}
