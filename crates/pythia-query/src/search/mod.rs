//! Paths as results: best-first search over the product of the graph with an automaton.
//!
//! [`operator`] takes solutions that name start nodes, and maybe end nodes, and gives one row a
//! path, or one an edge. For each start a [`run`] decides which searches answer the question; each
//! is a [`frontier::Frontier`], a priority queue of partial paths, of which breadth-first search,
//! depth-first search, Dijkstra's algorithm and A* are the orders. Edges come from [`edges`], for
//! the best nodes of the queue in one batch of reads, what may follow what from [`product`], and what
//! is left to a known end from [`remaining`].
//!
//! Invariants: partial paths leave the queue in the order that a queue read one node at a time would
//! give, whatever the size of the batches; each path (a sequence of edges) is found once; all that
//! grows is charged to the query.

pub(crate) mod cost;
pub(crate) mod edges;
pub(crate) mod frontier;
pub(crate) mod literal;
pub(crate) mod operator;
pub(crate) mod product;
pub(crate) mod remaining;
pub(crate) mod run;

/// The namespace of the search's own IRIs.
pub(crate) const NAMESPACE: &str = "urn:pythia:path#";

/// Which paths between two nodes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One of the cheapest.
    AnyShortest,
    /// All that are as cheap as the cheapest.
    AllShortest,
    /// So many, the cheapest first.
    Shortest(u32),
    /// All.
    All,
}

/// Which paths count (GQL's path modes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restrictor {
    /// All.
    Walk,
    /// Those that take no edge twice, in whichever direction.
    Trail,
    /// Those that visit no node twice.
    Acyclic,
    /// Those that visit no node twice, but may end where they start.
    Simple,
}

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) mode: Mode,
    pub(crate) restrictor: Restrictor,
    /// Edges a path has at least and at most.
    pub(crate) length_min: u32,
    pub(crate) length_max: Option<u32>,
    /// Whether edges cost their weights; else each costs one.
    pub(crate) weighted: bool,
    /// Nodes read with one batch.
    pub(crate) batch_nodes: usize,
}
