//! Path search: best-first search over the product of the graph with an automaton.
//!
//! [`operator`] takes solutions with start nodes and possibly end nodes, and returns one row per path, or one
//! per edge. For each start, a [`run`] decides which searches are needed. Each search is a
//! [`frontier::Frontier`], a priority queue of partial paths; breadth-first search, depth-first search,
//! Dijkstra's algorithm and A* differ only in its order. [`edges`] reads the edges of the best nodes in the
//! queue in one batch, [`product`] gives the allowed continuations, and [`remaining`] the remaining cost to a
//! known end.
//!
//! Invariants: partial paths leave the queue in the same order whatever the batch size, that is, as if nodes
//! were read one at a time. Each path (a sequence of edges) is found once. All memory that grows is charged
//! to the query.

pub(crate) mod cost;
pub(crate) mod edges;
pub(crate) mod frontier;
pub(crate) mod literal;
pub(crate) mod operator;
pub(crate) mod product;
pub(crate) mod remaining;
pub(crate) mod run;

/// Namespace of the IRIs of path searches.
pub(crate) const NAMESPACE: &str = "urn:pythia:path#";

/// The paths to return between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One of the cheapest.
    AnyShortest,
    /// All that are as cheap as the cheapest.
    AllShortest,
    /// The cheapest ones, this many, in order of cost.
    Shortest(u32),
    /// All.
    All,
}

/// The paths that are allowed (GQL's path modes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restrictor {
    /// All.
    Walk,
    /// Paths that use no edge twice, in either direction.
    Trail,
    /// Paths that visit no node twice.
    Acyclic,
    /// Paths that visit no node twice, except that they may end at their start.
    Simple,
}

/// The rules of a path search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) mode: Mode,
    pub(crate) restrictor: Restrictor,
    /// Minimum and maximum number of edges.
    pub(crate) length_min: u32,
    pub(crate) length_max: Option<u32>,
    /// True if the cost of an edge is its weight, false if it is one.
    pub(crate) weighted: bool,
    /// Nodes read in one batch.
    pub(crate) batch_nodes: usize,
}
