//! `EXISTS` in expressions. The planner and the operators deal with patterns; expressions only call a test
//! for their rows.

use std::any::Any;
use std::sync::Arc;

use spargebra::algebra::GraphPattern;

use super::context::EvaluationContext;
use crate::error::QueryError;

/// Evaluates an `EXISTS` for rows of the expression's columns.
pub trait ExistsTest: Any + Send + Sync {
    /// Returns for each of the `rows`, given as positions in the columns, whether the pattern has a
    /// solution once the row's terms replace their variables.
    fn test(
        &self,
        columns: &[&[u64]],
        rows: &[u32],
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError>;
}

/// Makes the test of a pattern, over the columns that the expression is compiled for.
pub type ExistsCompiler<'a> = &'a dyn Fn(&GraphPattern) -> Result<Arc<dyn ExistsTest>, QueryError>;

/// Rejects `EXISTS` where there are no patterns to match.
pub(crate) fn no_exists(_: &GraphPattern) -> Result<Arc<dyn ExistsTest>, QueryError> {
    Err(QueryError::unsupported("EXISTS outside a query"))
}
