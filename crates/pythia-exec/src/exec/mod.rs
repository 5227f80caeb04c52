//! Execution of plans: batches of ids in, batches of ids out.
//!
//! [`node::lower`] makes a plan ready to run. A [`context::QueryContext`] is the state of one running query.

mod aggregation;
pub(crate) mod batch;
mod common;
mod compile;
pub mod context;
mod distinct;
mod each_graph;
mod early_count;
mod exists;
mod exists_tests;
mod expand;
pub mod explained;
mod filter;
mod hash;
mod inside;
mod intersect;
mod join;
mod lateral;
mod links_into;
mod measured;
mod merge;
mod merged;
mod nested;
pub mod node;
pub(crate) mod ordered;
mod path;
mod pattern;
mod pieces;
mod pipeline;
mod probe;
mod profile;
mod reachable;
mod relational;
mod row_source;
mod runs;
mod scan;
mod service;
pub(crate) mod several_graphs;
pub mod solutions;
mod sort;
pub mod subquery;
mod templates;
mod text_filter;
mod triple_term;
mod values;
