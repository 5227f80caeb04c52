//! BINDs and what stands around them.
//!
//! A BIND is in the way of the join order and of filters over its variable: `{ ?x :p ?a . BIND(STR(?a) AS ?b) ?x :q ?c
//! FILTER(?b = "1") }`. So it follows a join with what stands behind it, and a filter over its variable is applied to its
//! expression, before the BIND.

use oxrdf::Variable;
use pythia_sparql::scope::{
    Variables, certain, draws, has_exists, in_scope, mentioned, seen_only_if_certain, variables_of,
    visit,
};
use spargebra::algebra::{Expression, Function, GraphPattern};

use super::builder::Builder;
use super::group::conjuncts;

/// The largest number of parts of a value and of a filter in which it takes its variable's place: values of values may be
/// huge.
const PARTS_MAX: usize = 64;

/// Moves BINDs behind joins, and filters over their variables before them; `None` if there are none to move.
pub(super) fn moved(builder: &Builder, pattern: &GraphPattern) -> Option<GraphPattern> {
    if !has_bind(pattern) {
        return None;
    }
    let mut mover = Mover {
        builder,
        has_moved: false,
    };
    let moved = mover.pattern(pattern.clone());
    mover.has_moved.then_some(moved)
}

/// Does the same for a filter over a pattern.
pub(super) fn moved_filter(
    builder: &Builder,
    filter: &Expression,
    pattern: &GraphPattern,
) -> Option<GraphPattern> {
    let is_over_bind = matches!(pattern, GraphPattern::Extend { .. }) || has_bind(pattern);
    is_over_bind.then_some(())?;
    moved(
        builder,
        &GraphPattern::Filter {
            expr: filter.clone(),
            inner: Box::new(pattern.clone()),
        },
    )
}

/// Returns whether operands of joins and filters end with a BIND.
fn has_bind(mut pattern: &GraphPattern) -> bool {
    loop {
        pattern = match pattern {
            GraphPattern::Join { left, right } => {
                if matches!(**right, GraphPattern::Extend { .. }) || has_bind(right) {
                    return true;
                }
                left
            }
            GraphPattern::Filter { inner, .. } => inner,
            _ => return false,
        };
        if matches!(pattern, GraphPattern::Extend { .. }) {
            return true;
        }
    }
}

struct Mover<'b> {
    builder: &'b Builder,
    has_moved: bool,
}

impl Mover<'_> {
    fn pattern(&mut self, pattern: GraphPattern) -> GraphPattern {
        match pattern {
            GraphPattern::Join { left, right } => self.join(*left, *right),
            GraphPattern::Filter { expr, inner } => {
                let inner = self.pattern(*inner);
                self.filter(expr, inner)
            }
            other => other,
        }
    }

    fn join(&mut self, left: GraphPattern, right: GraphPattern) -> GraphPattern {
        let (mut left, mut right) = (self.pattern(left), self.pattern(right));
        let mut binds = Vec::new();
        split_binds(&mut left, &right, &mut binds);
        split_binds(&mut right, &left, &mut binds);
        self.has_moved |= !binds.is_empty();
        let joined = GraphPattern::Join {
            left: Box::new(left),
            right: Box::new(right),
        };
        (binds.into_iter()).fold(joined, |inner, (variable, value)| {
            bound(inner, variable, value)
        })
    }

    /// Applies a filter before the BIND with which its pattern ends, if a part of the filter depends on that.
    fn filter(&mut self, filter: Expression, pattern: GraphPattern) -> GraphPattern {
        let GraphPattern::Extend {
            inner,
            variable,
            expression: value,
        } = pattern
        else {
            return filtered(pattern, filter);
        };
        // A variable that is bound outside need not have the value.
        if self.builder.is_bound(&variable)
            || !pays(&value, &inner)
            || !is_same_inside(&value, &inner)
        {
            return filtered(bound(*inner, variable, value), filter);
        }
        let mut parts = Vec::new();
        conjuncts(&filter, &mut parts);
        let (mut within, mut outside) = (Vec::new(), Vec::new());
        let mut is_over_value = false;
        for part in parts {
            if !variables_of(part).contains(&variable) {
                within.push(part.clone());
            } else if is_small(part)
                && let Some(part) = with_value(part, &variable, &value)
            {
                is_over_value = true;
                within.push(part);
            } else {
                outside.push(part.clone());
            }
        }
        if !is_over_value {
            return filtered(bound(*inner, variable, value), filter);
        }
        self.has_moved = true;
        let within = within.into_iter().reduce(and);
        let within = within.expect("a part is over the value");
        let done = bound(self.filter(within, *inner), variable, value);
        match outside.into_iter().reduce(and) {
            Some(outside) => filtered(done, outside),
            None => done,
        }
    }
}

fn and(one: Expression, other: Expression) -> Expression {
    Expression::And(Box::new(one), Box::new(other))
}

fn filtered(pattern: GraphPattern, filter: Expression) -> GraphPattern {
    GraphPattern::Filter {
        expr: filter,
        inner: Box::new(pattern),
    }
}

fn bound(pattern: GraphPattern, variable: Variable, value: Expression) -> GraphPattern {
    GraphPattern::Extend {
        inner: Box::new(pattern),
        variable,
        expression: value,
    }
}

/// Returns whether evaluating a value once more, for the filter, can save work: it costs little, or the filter can be
/// applied before a join.
fn pays(value: &Expression, inner: &GraphPattern) -> bool {
    let is_cheap = match value {
        Expression::NamedNode(_) | Expression::Literal(_) | Expression::Variable(_) => true,
        Expression::FunctionCall(Function::Str | Function::Lang | Function::Datatype, of) => {
            matches!(of[..], [Expression::Variable(_)])
        }
        _ => false,
    };
    is_cheap || !matches!(inner, GraphPattern::Bgp { patterns } if patterns.len() < 2)
}

/// Returns whether a value is the same for each evaluation, and depends only on what the pattern always binds.
fn is_same_inside(value: &Expression, pattern: &GraphPattern) -> bool {
    let depends_on = variables_of(value);
    !draws(value)
        && !has_exists(value)
        && is_small(value)
        && depends_on.is_subset(&certain(pattern))
}

fn is_small(expression: &Expression) -> bool {
    let mut parts = 0;
    visit(expression, &mut |_| parts += 1);
    parts <= PARTS_MAX
}

/// Returns all variables of a pattern; a SERVICE has the one of its endpoint.
fn mentioned_in(pattern: &GraphPattern) -> Variables {
    let mut found = in_scope(pattern);
    mentioned(pattern, &mut found);
    found
}

/// Returns whether a pattern ends with a BIND that gives the same after a join with a pattern of these variables.
fn can_follow(pattern: &GraphPattern, others: &Variables) -> bool {
    let GraphPattern::Extend {
        inner,
        variable,
        expression,
    } = pattern
    else {
        return false;
    };
    !others.contains(variable)
        && !draws(expression)
        && !has_exists(expression)
        && seen_only_if_certain(expression, inner, others)
}

/// Takes the BINDs at the end of a pattern that can follow its join with another one, in order.
fn split_binds(
    pattern: &mut GraphPattern,
    other: &GraphPattern,
    binds: &mut Vec<(Variable, Expression)>,
) {
    if !matches!(pattern, GraphPattern::Extend { .. }) {
        return;
    }
    let (others, place) = (mentioned_in(other), binds.len());
    while can_follow(pattern, &others) {
        let unit = GraphPattern::Bgp {
            patterns: Vec::new(),
        };
        let GraphPattern::Extend {
            inner,
            variable,
            expression,
        } = std::mem::replace(pattern, unit)
        else {
            unreachable!("it ends with a BIND");
        };
        *pattern = *inner;
        binds.push((variable, expression));
    }
    binds[place..].reverse();
}

/// Replaces a variable of an expression. Returns `None` for parts that take variables only.
fn with_value(
    expression: &Expression,
    variable: &Variable,
    value: &Expression,
) -> Option<Expression> {
    use Expression as E;
    let one = |part: &E| with_value(part, variable, value).map(Box::new);
    let list = |parts: &[E]| -> Option<Vec<E>> {
        let parts = parts.iter();
        parts
            .map(|part| with_value(part, variable, value))
            .collect()
    };
    Some(match expression {
        E::Variable(v) if v == variable => value.clone(),
        E::Variable(_) | E::NamedNode(_) | E::Literal(_) => expression.clone(),
        E::Or(a, b) => E::Or(one(a)?, one(b)?),
        E::And(a, b) => E::And(one(a)?, one(b)?),
        E::Equal(a, b) => E::Equal(one(a)?, one(b)?),
        E::SameTerm(a, b) => E::SameTerm(one(a)?, one(b)?),
        E::Greater(a, b) => E::Greater(one(a)?, one(b)?),
        E::GreaterOrEqual(a, b) => E::GreaterOrEqual(one(a)?, one(b)?),
        E::Less(a, b) => E::Less(one(a)?, one(b)?),
        E::LessOrEqual(a, b) => E::LessOrEqual(one(a)?, one(b)?),
        E::Add(a, b) => E::Add(one(a)?, one(b)?),
        E::Subtract(a, b) => E::Subtract(one(a)?, one(b)?),
        E::Multiply(a, b) => E::Multiply(one(a)?, one(b)?),
        E::Divide(a, b) => E::Divide(one(a)?, one(b)?),
        E::UnaryPlus(a) => E::UnaryPlus(one(a)?),
        E::UnaryMinus(a) => E::UnaryMinus(one(a)?),
        E::Not(a) => E::Not(one(a)?),
        E::In(a, parts) => E::In(one(a)?, list(parts)?),
        E::If(a, b, c) => E::If(one(a)?, one(b)?, one(c)?),
        E::Coalesce(parts) => E::Coalesce(list(parts)?),
        E::FunctionCall(function, parts) => E::FunctionCall(function.clone(), list(parts)?),
        _ => return None,
    })
}
