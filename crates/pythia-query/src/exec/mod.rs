//! Running plans: batches of ids in, batches of ids out.

pub(crate) mod batch;
pub(crate) mod context;
mod distinct;
pub(crate) mod each_graph;
pub(crate) mod exists;
mod expand;
mod filter;
pub(crate) mod group;
mod hash;
mod intersect;
pub(crate) mod join;
mod merge;
mod merged;
mod nested;
pub(crate) mod operator;
mod path;
pub(crate) mod pattern;
mod pipeline;
pub(crate) mod probe;
pub(crate) mod profile;
pub(crate) mod relational;
pub(crate) mod scan;
pub(crate) mod service;
pub(crate) mod sort;
pub(crate) mod step;
mod triple_term;
mod values;
