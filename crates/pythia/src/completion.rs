//! What may stand at a place of a query that is still being written.

pub use pythia_query::syntax::{Expected, Place, SOUGHT, function_names};
