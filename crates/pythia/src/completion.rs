//! Completion: the words and terms that may follow at a place of an unfinished query.

pub use pythia_query::syntax::{Expected, Place, SOUGHT, function_names};
