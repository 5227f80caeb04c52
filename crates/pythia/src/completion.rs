//! Completion: the words and terms that may follow at a position of an unfinished query.

pub use pythia_sparql::completion::{CompletionContext, Expected, SOUGHT};
pub use pythia_sparql::{called_iris, function_names};
