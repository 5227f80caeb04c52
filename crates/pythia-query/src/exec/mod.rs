//! Running plans: batches of ids in, batches of ids out.

pub(crate) mod batch;
pub(crate) mod context;
mod expand;
mod filter;
pub(crate) mod group;
mod hash;
pub(crate) mod join;
mod merge;
mod nested;
pub(crate) mod operator;
mod path;
pub(crate) mod pattern;
mod pipeline;
pub(crate) mod probe;
pub(crate) mod profile;
pub(crate) mod relational;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod step;
mod values;
