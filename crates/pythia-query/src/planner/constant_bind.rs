//! `BIND` of a constant, and a filter over it: the filter is applied to the constant, before the `BIND`.

use oxrdf::Variable;
use pythia_sparql::scope::variables_of;
use spargebra::algebra::{Expression, GraphPattern};

use super::builder::Builder;

/// A filter over a `BIND`, as a filter over the pattern inside.
pub(super) struct Inside<'p> {
    pub(super) filter: Expression,
    pub(super) pattern: &'p GraphPattern,
    pub(super) variable: &'p Variable,
    pub(super) constant: &'p Expression,
}

/// Moves a filter into a pattern that ends with the `BIND` of a constant, if the filter depends on it.
pub(super) fn inside<'p>(
    builder: &Builder,
    filter: &Expression,
    pattern: &'p GraphPattern,
) -> Option<Inside<'p>> {
    let GraphPattern::Extend {
        inner,
        variable,
        expression: constant @ (Expression::NamedNode(_) | Expression::Literal(_)),
    } = pattern
    else {
        return None;
    };
    // A variable that is bound outside need not have the constant.
    if builder.is_bound(variable) || !variables_of(filter).contains(variable) {
        return None;
    }
    Some(Inside {
        filter: with_constant(filter, variable, constant)?,
        pattern: inner,
        variable,
        constant,
    })
}

/// Replaces a variable of an expression. Returns `None` for parts that take variables only.
fn with_constant(
    expression: &Expression,
    variable: &Variable,
    constant: &Expression,
) -> Option<Expression> {
    use Expression as E;
    let one = |part: &E| with_constant(part, variable, constant).map(Box::new);
    let list = |parts: &[E]| -> Option<Vec<E>> {
        let parts = parts.iter();
        parts
            .map(|part| with_constant(part, variable, constant))
            .collect()
    };
    Some(match expression {
        E::Variable(v) if v == variable => constant.clone(),
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
