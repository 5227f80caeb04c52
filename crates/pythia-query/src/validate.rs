//! What is left to do with a query or a WHERE once the grammar has accepted it.

use spargebra::algebra::{AggregateExpression, GraphPattern};

use crate::plan::paths;
use crate::plan::scope::{variables_of, visit_mut};

/// Rewrites the paths of a query's pattern; tells why it is none, if so.
pub(crate) fn finish(pattern: &mut GraphPattern) -> Result<(), &'static str> {
    let mut nests = false;
    visit_mut(pattern, &mut |inner| nests |= nests_aggregates(inner));
    if nests {
        return Err("an aggregate cannot stand inside another aggregate");
    }
    paths::expand(pattern);
    Ok(())
}

/// The pattern whose solutions a query is about.
pub(crate) fn pattern_of(query: &mut spargebra::Query) -> &mut GraphPattern {
    let (spargebra::Query::Select { pattern, .. }
    | spargebra::Query::Construct { pattern, .. }
    | spargebra::Query::Describe { pattern, .. }
    | spargebra::Query::Ask { pattern, .. }) = query;
    pattern
}

/// Whether an aggregate's argument is made of another aggregate (SPARQL 1.2 §19.8, note 13).
fn nests_aggregates(pattern: &GraphPattern) -> bool {
    let GraphPattern::Group { aggregates, .. } = pattern else {
        return false;
    };
    let arguments = aggregates
        .iter()
        .filter_map(|(_, aggregate)| match aggregate {
            AggregateExpression::FunctionCall { expr, .. } => Some(expr),
            AggregateExpression::CountSolutions { .. } => None,
        });
    let mut used = arguments.flat_map(variables_of);
    used.any(|variable| aggregates.iter().any(|(result, _)| *result == variable))
}
