//! OPTIONAL that is a join, because a condition outside drops the solutions without a match, or that is NOT EXISTS, because
//! the condition drops those with one.
//!
//! `{ ?person :name ?n OPTIONAL { ?person :age ?a } FILTER(?a > 30) }` has no solution without an age. A join may begin with the
//! ages; an OPTIONAL begins with all people. With `FILTER(!BOUND(?a))` it has the people without an age.

use oxrdf::Variable;
use pythia_sparql::scope::{Variables, can_seed, certain, draws, in_scope};
use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, Function, GraphPattern,
};

use super::builder::Builder;

/// The namespace of the functions that cast.
const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// Returns a pattern without those OPTIONALs that bind a variable without which the condition is not true; `None` if it has
/// none. The condition has the terms of inserted variables from outside.
pub(super) fn joined_for(
    condition: &Expression,
    pattern: &GraphPattern,
    inserted: &Variables,
) -> Option<GraphPattern> {
    joined(pattern, &(&needed_for_true(condition) - inserted))
}

/// Does the same for variables without which no aggregate counts a solution. Without keys, the group exists anyway.
pub(super) fn joined_for_counts(
    aggregates: &[(Variable, AggregateExpression)],
    pattern: &GraphPattern,
) -> Option<GraphPattern> {
    let needed = aggregates.iter().map(|(_, aggregate)| match aggregate {
        AggregateExpression::FunctionCall {
            name: AggregateFunction::Count,
            expr,
            ..
        } => needed_for_value(expr),
        _ => Variables::new(),
    });
    joined(pattern, &needed.reduce(|one, other| &one & &other)?)
}

/// Returns the left side of an OPTIONAL and the `NOT EXISTS` of its right side, if a filter asks for a variable that each
/// match binds to be unbound.
pub(super) fn not_exists_for<'p>(
    filter: &Expression,
    pattern: &'p GraphPattern,
    builder: &Builder,
) -> Option<(&'p GraphPattern, Expression)> {
    let Expression::Not(bound) = filter else {
        return None;
    };
    let (
        Expression::Bound(variable),
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        },
    ) = (&**bound, pattern)
    else {
        return None;
    };
    let (scope, bound) = (in_scope(left), certain(left));
    let is_certain = |v: &Variable| bound.contains(v) || builder.is_certain(v);
    let is_same = is_tested_together(right)
        && certain(right).contains(variable)
        && !scope.contains(variable)
        && !builder.is_bound(variable)
        && in_scope(right)
            .iter()
            .all(|v| is_certain(v) || !(scope.contains(v) || builder.is_bound(v)))
        && can_seed(right, &(&scope | &builder.joined_variables()))
        && !expression.as_ref().is_some_and(draws);
    if !is_same {
        return None;
    }
    let right = match expression {
        Some(condition) => Box::new(GraphPattern::Filter {
            expr: condition.clone(),
            inner: right.clone(),
        }),
        None => right.clone(),
    };
    let exists = Expression::Exists(right);
    Some((left, Expression::Not(Box::new(exists))))
}

/// Returns whether all rows of an EXISTS of this pattern can be tested together. One after the other, they cost more than the
/// left join.
fn is_tested_together(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Bgp { .. } | GraphPattern::Path { .. } => true,
        GraphPattern::Join { left, right } => is_tested_together(left) && is_tested_together(right),
        GraphPattern::Union { left, right } => {
            in_scope(left) == in_scope(right)
                && is_tested_together(left)
                && is_tested_together(right)
        }
        GraphPattern::LeftJoin { left, right, .. } => {
            (&in_scope(left) & &in_scope(right)).is_subset(&certain(left))
                && is_tested_together(left)
                && is_tested_together(right)
        }
        GraphPattern::Filter { inner, .. } => is_tested_together(inner),
        _ => false,
    }
}

/// Returns the variables without which a condition is not true.
fn needed_for_true(condition: &Expression) -> Variables {
    use Expression as E;
    match condition {
        E::And(a, b) => &needed_for_true(a) | &needed_for_true(b),
        E::Or(a, b) => &needed_for_true(a) & &needed_for_true(b),
        E::Bound(variable) => [variable.clone()].into_iter().collect(),
        other => needed_for_value(other),
    }
}

/// Returns the variables without which an expression is an error.
fn needed_for_value(expression: &Expression) -> Variables {
    use Expression as E;
    match expression {
        E::Variable(variable) => [variable.clone()].into_iter().collect(),
        E::Equal(a, b)
        | E::SameTerm(a, b)
        | E::Greater(a, b)
        | E::GreaterOrEqual(a, b)
        | E::Less(a, b)
        | E::LessOrEqual(a, b)
        | E::Add(a, b)
        | E::Subtract(a, b)
        | E::Multiply(a, b)
        | E::Divide(a, b) => &needed_for_value(a) | &needed_for_value(b),
        E::Not(a) | E::UnaryPlus(a) | E::UnaryMinus(a) | E::In(a, _) | E::If(a, ..) => {
            needed_for_value(a)
        }
        E::FunctionCall(Function::Custom(name), _) if !name.as_str().starts_with(XSD) => {
            Variables::new()
        }
        E::FunctionCall(_, arguments) => arguments.iter().flat_map(needed_for_value).collect(),
        _ => Variables::new(),
    }
}

/// Returns a pattern with joins instead of OPTIONALs for solutions that bind these variables.
fn joined(pattern: &GraphPattern, needed: &Variables) -> Option<GraphPattern> {
    if needed.is_empty() {
        return None;
    }
    // What another part may bind need not be bound by this one.
    let part = |pattern: &GraphPattern, other: &GraphPattern| {
        joined(pattern, &(needed - &in_scope(other))).map(Box::new)
    };
    match pattern {
        GraphPattern::LeftJoin {
            left,
            right,
            expression,
        } => {
            let bound = &in_scope(right) & needed;
            let is_join = !bound.is_empty() && !bound.is_subset(&in_scope(left));
            let left_joined = part(left, right);
            if !is_join && left_joined.is_none() {
                return None;
            }
            let right_joined = if is_join { part(right, left) } else { None };
            let left = left_joined.unwrap_or_else(|| left.clone());
            let right = right_joined.unwrap_or_else(|| right.clone());
            Some(match (is_join, expression.clone()) {
                (false, expression) => GraphPattern::LeftJoin {
                    left,
                    right,
                    expression,
                },
                (true, None) => GraphPattern::Join { left, right },
                (true, Some(expr)) => GraphPattern::Filter {
                    expr,
                    inner: Box::new(GraphPattern::Join { left, right }),
                },
            })
        }
        GraphPattern::Join { left, right } => match (part(left, right), part(right, left)) {
            (None, None) => None,
            (new_left, new_right) => Some(GraphPattern::Join {
                left: new_left.unwrap_or_else(|| left.clone()),
                right: new_right.unwrap_or_else(|| right.clone()),
            }),
        },
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } => {
            let own = [variable.clone()].into_iter().collect();
            Some(GraphPattern::Extend {
                inner: Box::new(joined(inner, &(needed - &own))?),
                variable: variable.clone(),
                expression: expression.clone(),
            })
        }
        GraphPattern::Filter { expr, inner } => Some(GraphPattern::Filter {
            expr: expr.clone(),
            inner: Box::new(joined(inner, needed)?),
        }),
        _ => None,
    }
}
