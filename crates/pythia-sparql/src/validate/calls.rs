//! Calls of aggregates by IRI: `DISTINCT` in them, and names that no aggregate has.

use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, Function, GraphPattern,
};

use super::{each_part, expressions_mut, visit_all};
use crate::aggregates::{is_marked, take_mark, unknown};
use crate::path_search::is_search;

/// Makes aggregates whose argument is marked distinct ones. Returns whether all other calls are of functions.
pub(super) fn settle(pattern: &mut GraphPattern) -> bool {
    let mut all_are_known = true;
    settle_in(pattern, false, &mut all_are_known);
    all_are_known
}

/// Settles the calls of a pattern. Another endpoint may have further aggregates.
fn settle_in(pattern: &mut GraphPattern, is_remote: bool, all_are_known: &mut bool) {
    visit_all(pattern, &mut |pattern| {
        if let GraphPattern::Group { aggregates, .. } = pattern {
            aggregates
                .iter_mut()
                .for_each(|(_, aggregate)| settle_one(aggregate));
        }
        for expression in expressions_mut(pattern) {
            each_part(expression, &mut |part| {
                if let Expression::FunctionCall(Function::Custom(name), arguments) = part {
                    *all_are_known &= !arguments.iter().any(is_marked);
                    *all_are_known &= is_remote || unknown(name.as_str()).is_none();
                }
            });
        }
        if let GraphPattern::Service { name, inner, .. } = pattern
            && !is_search(name)
        {
            settle_in(inner, true, all_are_known);
        }
    });
}

fn settle_one(aggregate: &mut AggregateExpression) {
    if let AggregateExpression::FunctionCall {
        name: AggregateFunction::Custom(_),
        expr,
        distinct,
    } = aggregate
    {
        *distinct |= take_mark(expr);
    }
}
