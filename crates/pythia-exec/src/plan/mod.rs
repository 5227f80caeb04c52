//! The plan of a query, as data: a [`Plan`] is a tree of [`Operator`]s. The planner makes it, and
//! [`crate::exec`] runs it.
//!
//! A plan says nothing of how it is run. It names terms by their ids in a snapshot, and has expressions and
//! nested patterns in SPARQL's algebra.

pub mod automaton;
pub mod choices;
pub mod counts;
pub mod dataset;
pub(crate) mod describe;
pub mod duplicates;
pub mod expression;
pub mod form;
pub mod operators;
pub mod path_search;
mod shared;
pub mod slots;
pub mod step;
mod tree;
pub mod visible;
pub mod written;

pub use operators::Operator;
pub use tree::Plan;
