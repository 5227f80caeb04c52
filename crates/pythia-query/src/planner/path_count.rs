//! Counting without enumeration: where solutions are only counted, the far end of a path need not be
//! enumerated. The path returns one solution with the number of its ends, and counts become sums.

use std::rc::Rc;

use oxrdf::Variable;
use pythia_sparql::scope::{
    Variables, certain, term_variable, term_variables, triple_variables, variables_of,
};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, GraphPattern};

use super::Planner;
use super::group::{Operands, take_apart};
use pythia_exec::plan::dataset::GraphScope;

impl Planner<'_> {
    /// Returns a planner that counts the end `variable` of a path.
    pub(super) fn counting(&self, variable: &Variable) -> Self {
        Self {
            inserted: self.inserted.clone(),
            counted: Some(variable.clone()),
            terms: Rc::clone(&self.terms),
            matches: Rc::clone(&self.matches),
            samples: Rc::clone(&self.samples),
            ..*self
        }
    }

    /// Returns the end of a path of which these aggregates need only the number.
    pub(super) fn counted_end(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Option<Variable> {
        let bound = certain(inner);
        let counts_all = aggregates.iter().all(|(_, one)| counts_all(one, &bound));
        if !self.is_independent(graph) || !counts_all {
            return None;
        }
        let mut group = Operands::default();
        take_apart(inner, &mut group);
        if !group.rest.is_empty() {
            return None;
        }
        let needed: Variables = (group.filters.iter())
            .flat_map(|filter| variables_of(filter.expression))
            .chain(group.triples.iter().flat_map(|t| triple_variables(t)))
            .chain(keys.iter().cloned())
            .collect();
        let ends = group.paths.iter().flat_map(|(s, _, o)| [*o, *s]);
        let ends: Vec<Variable> = ends.flat_map(term_variables).collect();
        let used_once = |end: &Variable| {
            !needed.contains(end) && ends.iter().filter(|other| *other == end).count() == 1
        };
        let candidates = group.paths.iter().flat_map(|(s, _, o)| [*o, *s]);
        let mut candidates = candidates.filter_map(term_variable);
        candidates.find(used_once)
    }
}

/// Returns whether an aggregate counts all solutions of a pattern that binds these variables.
pub(super) fn counts_all(aggregate: &AggregateExpression, bound: &Variables) -> bool {
    match aggregate {
        AggregateExpression::CountSolutions { distinct } => !distinct,
        AggregateExpression::FunctionCall {
            name: AggregateFunction::Count,
            expr: Expression::Variable(variable),
            distinct: false,
        } => bound.contains(variable),
        AggregateExpression::FunctionCall { .. } => false,
    }
}

/// Returns the aggregate that sums the counts.
pub(super) fn sum_of(counts: Expression) -> AggregateExpression {
    AggregateExpression::FunctionCall {
        name: AggregateFunction::Sum,
        expr: counts,
        distinct: false,
    }
}
