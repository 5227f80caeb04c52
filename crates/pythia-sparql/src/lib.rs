//! SPARQL: from the text of a query or update to algebra, with the positions of errors.
//!
//! ```text
//! text → limits → PATHS forms as standard SPARQL → parser library → algebra → validate → Query, Update
//! ```
//!
//! `limits` refuses texts that would overflow the stack. `paths` rewrites non-standard forms as standard
//! SPARQL. The parser library then reads the query, or each section of the update that `statements` finds;
//! long [`data`] is read in pieces. If it refuses, `grammar` finds the position and the reason. `validate`
//! finishes the algebra.
//!
//! [`ParameterizedQueries`] keeps the algebra of queries that come again with other constants.
//!
//! [`completion`] analyses unfinished texts. [`scope`] and [`path_search`] answer questions about algebra.
//!
//! This crate knows no store and executes nothing. The memory that a parsed text takes is charged through
//! [`Charge`].

mod aggregates;
mod charge;
pub mod completion;
pub mod data;
mod dataset;
mod error;
#[cfg(test)]
mod fuzz;
mod grammar;
mod limits;
mod parameterized;
mod parser;
pub mod path_expansion;
pub mod path_search;
mod paths;
mod position;
mod query;
mod repeatable;
pub mod scope;
mod service_check;
mod size;
mod statements;
mod substitute;
mod suggest;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod token;
pub mod update;
mod validate;

pub use aggregates::{Divisor, Percent, Statistic, called_iris};
pub use charge::Charge;
pub use error::SparqlError;
pub use parameterized::ParameterizedQueries;
pub use query::{Query, QueryForm};
pub use suggest::{function_names, nearest, well_known_prefixes};
pub use update::Update;
pub use validate::pattern_of;
