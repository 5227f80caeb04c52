//! `EXISTS` in expressions. Patterns are the planner's and the operators' business: expressions
//! know only that there is a test for each of their rows.

use std::sync::Arc;

use spargebra::algebra::GraphPattern;

use super::context::EvaluationContext;
use crate::error::QueryError;

/// Decides an `EXISTS` for rows of the expression's columns.
pub trait ExistsTest: Send + Sync {
    /// For each of the `rows`, as positions in the columns, whether the pattern has a solution
    /// once the row's terms stand for their variables.
    fn test(
        &self,
        columns: &[&[u64]],
        rows: &[u32],
        context: &EvaluationContext,
    ) -> Result<Vec<bool>, QueryError>;
}

/// Makes the test of a pattern, over the columns the expression is compiled for.
pub type ExistsCompiler<'a> = &'a dyn Fn(&GraphPattern) -> Result<Arc<dyn ExistsTest>, QueryError>;

/// Where there are no patterns to match: `EXISTS` is an error.
pub(crate) fn no_exists(_: &GraphPattern) -> Result<Arc<dyn ExistsTest>, QueryError> {
    Err(QueryError::unsupported("EXISTS outside a query"))
}
