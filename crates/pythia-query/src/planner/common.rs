//! Groups that a query aggregates in several places.
//!
//! Rewritings make equal groups of different parts of a query, such as the total from which something is taken away, and
//! the part that is taken away. One of them is computed (`exec/common.rs`).

use std::cell::RefCell;

use oxrdf::Variable;
use pythia_sparql::scope::{draws, has_exists};
use rustc_hash::FxHashMap;
use spargebra::algebra::{AggregateExpression, GraphPattern};

use super::eager_aggregation::is_plain;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::{Operator, Plan};

/// Maximum number of groups that are compared.
const GROUPS_MAX: usize = 64;

/// The groups that were planned, by number.
#[derive(Debug, Default)]
pub(super) struct PlannedGroups(RefCell<Vec<PlannedGroup>>);

#[derive(Debug, PartialEq)]
struct PlannedGroup {
    inner: GraphPattern,
    keys: Vec<Variable>,
    aggregates: Vec<(Variable, AggregateExpression)>,
    graph: GraphScope,
}

impl PlannedGroups {
    /// Returns the number of a group, which is that of an equal one. `None` if it may have other solutions each time.
    pub(super) fn number(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Option<u32> {
        let is_steady = |(_, aggregate): &(Variable, AggregateExpression)| match aggregate {
            AggregateExpression::CountSolutions { .. } => true,
            AggregateExpression::FunctionCall { expr, .. } => !draws(expr) && !has_exists(expr),
        };
        if !is_plain(inner) || !aggregates.iter().all(is_steady) {
            return None;
        }
        let mut groups = self.0.borrow_mut();
        let group = PlannedGroup {
            inner: inner.clone(),
            keys: keys.to_vec(),
            aggregates: aggregates.to_vec(),
            graph: graph.clone(),
        };
        let known = groups.iter().position(|other| *other == group);
        let number = match known {
            Some(number) => number,
            None if groups.len() >= GROUPS_MAX => return None,
            None => {
                groups.push(group);
                groups.len() - 1
            }
        };
        u32::try_from(number).ok()
    }
}

/// Removes the numbers that only one aggregation of the plan has.
pub(super) fn keep_repeated(plan: &mut Plan) {
    let mut counts = FxHashMap::default();
    each_number(plan, &mut |number| {
        if let Some(number) = *number {
            *counts.entry(number).or_insert(0) += 1;
        }
    });
    each_number(plan, &mut |number| {
        *number = number.filter(|number| counts[number] > 1);
    });
}

fn each_number(plan: &mut Plan, each: &mut impl FnMut(&mut Option<u32>)) {
    if let Operator::Aggregation(aggregation) = &mut *plan.operator {
        each(&mut aggregation.common);
    }
    plan.inputs
        .iter_mut()
        .for_each(|input| each_number(input, each));
}
