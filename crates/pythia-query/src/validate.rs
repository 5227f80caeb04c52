//! What is left to do with a query or a WHERE once the grammar has accepted it.

use spargebra::algebra::{AggregateExpression, Expression, GraphPattern};

use crate::plan::paths;
use crate::plan::scope::{Variables, variables_of, visit_mut};

/// Rewrites the paths of a query's pattern; tells why it is none, if so.
pub(crate) fn finish(pattern: &mut GraphPattern) -> Result<(), &'static str> {
    let mut nests = false;
    visit_mut(pattern, &mut |inner| nests |= nests_aggregates(inner));
    if nests {
        return Err("an aggregate cannot stand inside another aggregate");
    }
    visit_mut(pattern, &mut move_having);
    paths::expand(pattern);
    Ok(())
}

/// Puts a HAVING that uses names which the SELECT gives to expressions, and which are bound only
/// after it, behind these. SPARQL leaves them unbound there; here, as in Jena, they have their value.
fn move_having(pattern: &mut GraphPattern) {
    let GraphPattern::Project { inner, .. } = pattern else {
        return;
    };
    let mut selected = &mut **inner;
    if let GraphPattern::OrderBy { inner, .. } = selected {
        selected = inner;
    }
    let mut names = Variables::new();
    let mut next = &*selected;
    while let GraphPattern::Extend {
        inner, variable, ..
    } = next
    {
        names.insert(variable.clone());
        next = inner;
    }
    if let Some(expr) = take_having(selected, &names) {
        let inner = Box::new(std::mem::take(selected));
        *selected = GraphPattern::Filter { expr, inner };
    }
}

/// Takes the HAVING out of a SELECT, if it uses one of these names.
fn take_having(pattern: &mut GraphPattern, names: &Variables) -> Option<Expression> {
    match pattern {
        GraphPattern::Extend { inner, .. } => take_having(inner, names),
        // With a VALUES behind it.
        GraphPattern::Join { left, .. } => take_having(left, names),
        GraphPattern::Filter { expr, inner } => {
            let is_having = matches!(**inner, GraphPattern::Group { .. });
            if !is_having || variables_of(expr).is_disjoint(names) {
                return None;
            }
            let (expr, inner) = (expr.clone(), std::mem::take(&mut **inner));
            *pattern = inner;
            Some(expr)
        }
        _ => None,
    }
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
