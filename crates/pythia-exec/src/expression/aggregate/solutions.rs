//! The number of solutions of a group whose equal solutions were counted before.
//!
//! The aggregate is for the planner (`planner/early_count.rs`): the parser refuses it in a query.

use oxrdf::{NamedNode, Variable};
use pythia_rdf::TermId;
use pythia_rdf::inline::{InlineValue, inline_value};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression};

/// The aggregate that adds up numbers of solutions.
const SOLUTIONS: &str = "urn:pythia:plan#solutions";

/// Returns the aggregate that counts each solution as often as the number in this variable says.
pub fn solutions(numbers: Variable) -> AggregateExpression {
    AggregateExpression::FunctionCall {
        name: AggregateFunction::Custom(NamedNode::new_unchecked(SOLUTIONS)),
        expr: Expression::Variable(numbers),
        distinct: false,
    }
}

/// Returns whether this is the name of that aggregate.
pub(super) fn is_solutions(name: &NamedNode) -> bool {
    name.as_str() == SOLUTIONS
}

/// Returns the number that a solution stands for.
pub(crate) fn number(id: u64) -> u64 {
    match inline_value(TermId(id)) {
        Some(InlineValue::Integer(number)) => number.unsigned_abs(),
        _ => unreachable!("the planner counts solutions with integers"),
    }
}
