//! What the grammar alone does not refuse.

use spargebra::algebra::GraphPattern;

use crate::plan::scope::{variables_of, visit};

/// Why a parsed query is none, if so.
pub(crate) fn fault(query: &spargebra::Query) -> Option<&'static str> {
    let pattern = match query {
        spargebra::Query::Select { pattern, .. }
        | spargebra::Query::Construct { pattern, .. }
        | spargebra::Query::Describe { pattern, .. }
        | spargebra::Query::Ask { pattern, .. } => pattern,
    };
    let mut fault = None;
    visit(pattern, &mut |inner| {
        if nests_aggregates(inner) {
            fault = Some("an aggregate cannot stand inside another aggregate");
        }
    });
    fault
}

/// Whether an aggregate's argument is made of another aggregate (SPARQL 1.2 §19.8, note 13).
fn nests_aggregates(pattern: &GraphPattern) -> bool {
    let GraphPattern::Group { aggregates, .. } = pattern else {
        return false;
    };
    let arguments = aggregates
        .iter()
        .filter_map(|(_, aggregate)| match aggregate {
            spargebra::algebra::AggregateExpression::FunctionCall { expr, .. } => Some(expr),
            spargebra::algebra::AggregateExpression::CountSolutions { .. } => None,
        });
    let mut used = arguments.flat_map(variables_of);
    used.any(|variable| aggregates.iter().any(|(result, _)| *result == variable))
}
