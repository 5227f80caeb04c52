//! Path search: best-first search over the product of the graph with an automaton.
//!
//! [`operator`] takes solutions with start nodes and possibly end nodes, and returns one row per path, or one
//! per edge. For each start, a [`start`] decides which searches are needed. Each search is a
//! [`frontier::Frontier`], a priority queue of partial paths; breadth-first search, depth-first search,
//! Dijkstra's algorithm and A* differ only in its order. [`depth_first`] divides a search among several of them. [`edges`] reads the edges of the best nodes in the
//! queue in one batch, [`product`] gives the allowed continuations, and [`remaining`] the remaining cost to a
//! known end.
//!
//! Invariants: partial paths leave the queue in the same order whatever the batch size, that is, as if nodes
//! were read one at a time, except depth first, where no order is promised. Each path (a sequence of edges) is found once. All memory that grows is charged
//! to the query.

pub mod cost;
pub mod depth_first;
pub mod edges;
pub mod frontier;
pub mod literal;
pub mod operator;
pub mod product;
pub mod remaining;
pub mod start;
