//! Processing of a query or WHERE clause after the grammar has accepted it.
//!
//! Covers the patterns of EXISTS and of path searches too, except that paths in them are rewritten by the
//! planner.

use spargebra::algebra::{AggregateExpression, Expression, GraphPattern, OrderExpression};

use crate::path_expansion;
use crate::path_search::is_search;
use crate::scope::{Variables, variables_of, visit_mut};

mod calls;
pub(crate) mod endpoints;
mod having;

/// Expands the property paths of a query's pattern. Errors if an aggregate is nested in another,
/// or if a call is neither of an aggregate nor of a function.
pub(crate) fn finish(pattern: &mut GraphPattern) -> Result<(), &'static str> {
    let mut nests = false;
    visit_all(pattern, &mut |inner| nests |= nests_aggregates(inner));
    if nests {
        return Err("aggregates cannot be nested");
    }
    if !calls::settle(pattern) {
        return Err("this is not an aggregate");
    }
    visit_all(pattern, &mut having::behind_names);
    path_expansion::expand(pattern);
    Ok(())
}

/// Calls `f` on the pattern and then on all patterns inside it, including those of EXISTS and of path
/// searches, but not those sent to remote endpoints.
pub(crate) fn visit_all(pattern: &mut GraphPattern, f: &mut dyn FnMut(&mut GraphPattern)) {
    visit_mut(pattern, &mut |pattern| {
        f(pattern);
        enter(pattern, f);
    });
}

/// Visits the patterns that [`visit_mut`] skips, for [`visit_all`]. A function of its own to keep the frame of
/// `visit_all` small, because that recurses as deep as patterns nest.
#[inline(never)]
fn enter(pattern: &mut GraphPattern, f: &mut dyn FnMut(&mut GraphPattern)) {
    if let GraphPattern::Service { name, inner, .. } = pattern {
        if is_search(name) {
            visit_all(inner, f);
        }
        return;
    }
    for expression in expressions_mut(pattern) {
        each_part(expression, &mut |part| {
            if let Expression::Exists(inner) = part {
                visit_all(inner, f);
            }
        });
    }
}

/// Returns the expressions of the pattern itself, without those of inner patterns.
pub(crate) fn expressions_mut(pattern: &mut GraphPattern) -> Vec<&mut Expression> {
    match pattern {
        GraphPattern::Filter { expr, .. } => vec![expr],
        GraphPattern::LeftJoin { expression, .. } => expression.iter_mut().collect(),
        GraphPattern::Extend { expression, .. } => vec![expression],
        GraphPattern::OrderBy { expression, .. } => expression
            .iter_mut()
            .map(|(OrderExpression::Asc(by) | OrderExpression::Desc(by))| by)
            .collect(),
        GraphPattern::Group { aggregates, .. } => aggregates
            .iter_mut()
            .filter_map(|(_, aggregate)| match aggregate {
                AggregateExpression::FunctionCall { expr, .. } => Some(expr),
                AggregateExpression::CountSolutions { .. } => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Calls `f` on every part of an expression, the whole first, but not on the contents of EXISTS.
pub(crate) fn each_part(expression: &mut Expression, f: &mut dyn FnMut(&mut Expression)) {
    use Expression as E;
    let mut open = vec![expression];
    while let Some(next) = open.pop() {
        f(next);
        match next {
            E::Variable(_) | E::Bound(_) | E::NamedNode(_) | E::Literal(_) | E::Exists(_) => {}
            E::Or(a, b)
            | E::And(a, b)
            | E::Equal(a, b)
            | E::SameTerm(a, b)
            | E::Greater(a, b)
            | E::GreaterOrEqual(a, b)
            | E::Less(a, b)
            | E::LessOrEqual(a, b)
            | E::Add(a, b)
            | E::Subtract(a, b)
            | E::Multiply(a, b)
            | E::Divide(a, b) => open.extend([&mut **a, &mut **b]),
            E::UnaryPlus(a) | E::UnaryMinus(a) | E::Not(a) => open.push(a),
            E::If(a, b, c) => open.extend([&mut **a, &mut **b, &mut **c]),
            E::In(a, list) => {
                open.push(a);
                open.extend(list);
            }
            E::Coalesce(list) | E::FunctionCall(_, list) => open.extend(list),
        }
    }
}

/// Returns the pattern that produces the solutions of a query.
pub fn pattern_of(query: &mut spargebra::Query) -> &mut GraphPattern {
    let (spargebra::Query::Select { pattern, .. }
    | spargebra::Query::Construct { pattern, .. }
    | spargebra::Query::Describe { pattern, .. }
    | spargebra::Query::Ask { pattern, .. }) = query;
    pattern
}

/// Returns whether the argument of an aggregate uses another aggregate (SPARQL 1.2 §19.8, note 13).
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
    let results: Variables = aggregates
        .iter()
        .map(|(result, _)| result.clone())
        .collect();
    let mut used = arguments.flat_map(variables_of);
    used.any(|variable| results.contains(&variable))
}
