//! LIMIT over OPTIONAL and BIND: what comes after the last solution needed is dropped before they are evaluated.
//!
//! An OPTIONAL keeps each solution of its left side, once or several times. So with an order that the left side decides, or
//! none, the first `n` solutions come from the first `n` of the left side.

use pythia_sparql::scope::{Variables, certain, draws, in_scope, variables_of};
use spargebra::algebra::{Expression, GraphPattern, OrderExpression};

/// The largest limit of sorted solutions that applies before. With a larger one, most solutions may be sorted twice.
const SORTED_MAX: usize = 10_000;

/// Returns a pattern with fewer solutions, the first of which in the order of the keys, as many as the limit, are those of the
/// given pattern; `None` if no solutions can be dropped before.
pub(super) fn limited(
    pattern: &GraphPattern,
    keys: &[OrderExpression],
    limit: usize,
) -> Option<GraphPattern> {
    if !keys.is_empty() && limit > SORTED_MAX {
        return None;
    }
    let mut variables = Variables::new();
    for key in keys {
        let (OrderExpression::Asc(key) | OrderExpression::Desc(key)) = key;
        if draws(key) {
            return None;
        }
        variables.extend(variables_of(key));
    }
    let first = |left: GraphPattern| {
        let inner = Box::new(left);
        let inner = match keys {
            [] => inner,
            keys => Box::new(GraphPattern::OrderBy {
                inner,
                expression: keys.to_vec(),
            }),
        };
        Box::new(GraphPattern::Slice {
            inner,
            start: 0,
            length: Some(limit),
        })
    };
    match pattern {
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } if are_of_left(&variables, left, right) => Some(GraphPattern::LeftJoin {
            left: first((**left).clone()),
            right: right.clone(),
            expression: expression.clone(),
        }),
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } if !keys.is_empty() && !variables.contains(variable) && !draws(expression) => {
            Some(GraphPattern::Extend {
                inner: first((**inner).clone()),
                variable: variable.clone(),
                expression: expression.clone(),
            })
        }
        GraphPattern::Filter { expr, inner } => limited(&filtered_left(expr, inner)?, keys, limit),
        _ => None,
    }
}

/// Returns whether the left side of an OPTIONAL decides about variables.
fn are_of_left(variables: &Variables, left: &GraphPattern, right: &GraphPattern) -> bool {
    let (of_right, bound) = (in_scope(right), certain(left));
    let mut variables = variables.iter();
    variables.all(|variable| bound.contains(variable) || !of_right.contains(variable))
}

/// Returns a filter over an OPTIONAL or BIND as one over its left side, where it means the same.
fn filtered_left(filter: &Expression, pattern: &GraphPattern) -> Option<GraphPattern> {
    let mut pattern = pattern.clone();
    let (GraphPattern::LeftJoin { left: inner, .. } | GraphPattern::Extend { inner, .. }) =
        &mut pattern
    else {
        return None;
    };
    if draws(filter) || !variables_of(filter).is_subset(&certain(inner)) {
        return None;
    }
    let left = std::mem::take(&mut **inner);
    **inner = GraphPattern::Filter {
        expr: filter.clone(),
        inner: Box::new(left),
    };
    Some(pattern)
}
