//! Aggregates over pairs for which a pattern has *no* match.
//!
//! `{ A B FILTER NOT EXISTS { P } }`, where A and B share no variable and P links them, has almost as many solutions as A
//! times B, and each has to be tested. But if the group's keys are all that P shares with A, an aggregate over B for one group
//! is the one over all of B without the solutions that do match P, as often as the group has solutions of A. The matching
//! ones are few, and a join finds them.

use oxrdf::Variable;
use pythia_sparql::scope::{Variables, certain, draws, has_exists, in_scope, variables_of};
use spargebra::algebra::{AggregateExpression, AggregateFunction, Expression, GraphPattern};

use super::Planner;
use super::builder::Planned;
use super::components::{Operands, join};
use super::group::conjuncts;
use super::semi_join::{distinct, distinct_of_exists};
use super::sequence::project;
use pythia_exec::error::QueryError;
use pythia_exec::expression::exact_sum;
use pythia_exec::plan::dataset::GraphScope;

/// Estimated number of keys up to which the matching solutions are found from the keys. Otherwise they are found for all
/// keys: the part with the values usually leaves few others.
const FEW_KEYS: f64 = 8.0;

const COUNT_ALL: AggregateExpression = AggregateExpression::CountSolutions { distinct: false };

/// The two steps of an aggregate over B.
struct Steps {
    /// The aggregate over all solutions of B, and over those that match.
    step: AggregateExpression,
    /// Returns the result from the aggregate over all solutions, their number of times, and the one over those that match.
    outcome: fn(Expression, Expression, Expression) -> Expression,
}

impl Planner<'_> {
    /// Plans a group whose aggregates are those of all pairs without those of the matching pairs. Returns `None` for other
    /// groups.
    pub(super) fn complement(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Option<Planned>, QueryError> {
        if !self.is_independent(graph) || keys.is_empty() || aggregates.is_empty() {
            return Ok(None);
        }
        let Some(split) = Split::of(inner, keys) else {
            return Ok(None);
        };
        let steps = aggregates.iter().map(|(_, one)| steps(one, &split.valued));
        let Some(steps) = steps.collect::<Option<Vec<Steps>>>() else {
            return Ok(None);
        };
        let mut matching = join(split.valued.clone(), split.matching.clone());
        let key_set: Variables = keys.iter().cloned().collect();
        let few_keys = distinct(split.groups.clone(), &key_set);
        if self.plan(&few_keys, graph, None)?.rows <= FEW_KEYS {
            matching = join(few_keys, matching);
        }
        // If the matching ones are summed by a link to the values, so are all of them.
        let sums = sums("matching", &steps);
        let by_link = self.parts_to_aggregate(&matching, keys, &sums, graph)?;
        let names: Vec<Variable> = (0..=steps.len())
            .map(|place| hidden("all", place))
            .collect();
        let all = by_link.and_then(|by_link| by_link.total(&split.valued, &names));
        let pattern = assembled(split, (all, matching), keys, aggregates, &steps);
        let planned = self.plan(&pattern, graph, None)?;
        let names = aggregates.iter().map(|(name, _)| name);
        let columns: Vec<Variable> = keys.iter().chain(names).cloned().collect();
        Ok(Some(project(planned, &columns)))
    }
}

/// The parts of a group with a negation that links them.
struct Split {
    /// The part that binds the keys.
    groups: GraphPattern,
    /// The rest, which shares no variable with it.
    valued: GraphPattern,
    /// The keys and the terms of the rest that match.
    matching: GraphPattern,
}

impl Split {
    fn of(inner: &GraphPattern, keys: &[Variable]) -> Option<Self> {
        let GraphPattern::Filter { expr, inner } = inner else {
            return None;
        };
        let mut conditions = Vec::new();
        conjuncts(expr, &mut conditions);
        let is_negation = |condition: &&Expression| matches!(condition, Expression::Not(exists) if matches!(**exists, Expression::Exists(_)));
        let place = conditions.iter().position(is_negation)?;
        let Expression::Not(exists) = conditions.remove(place) else {
            return None;
        };
        let shared = &variables_of(exists) & &in_scope(inner);
        let is_bound = shared.is_subset(&certain(inner));
        let matching = is_bound.then(|| distinct_of_exists(exists, &shared))??;
        let operands = Operands::of(inner, &conditions)?;
        let reached = operands.reached(keys.iter().cloned().collect(), &[]);
        let groups = operands.joined(|scope| !scope.is_disjoint(&reached))?;
        let valued = operands.joined(|scope| scope.is_disjoint(&reached))?;
        let reaches = |part: &GraphPattern| !in_scope(part).is_disjoint(&shared);
        let are_bound = keys.iter().all(|key| certain(&groups).contains(key));
        let by_keys = (&in_scope(&groups) & &shared)
            .iter()
            .all(|v| keys.contains(v));
        (are_bound && by_keys && reaches(&groups) && reaches(&valued)).then_some(Self {
            groups,
            valued,
            matching,
        })
    }
}

/// Returns the steps of all aggregates and the count of solutions, under names for `what` they are over.
fn sums(what: &str, steps: &[Steps]) -> Vec<(Variable, AggregateExpression)> {
    let steps = steps.iter().map(|one| one.step.clone());
    let steps = steps.chain([COUNT_ALL]).enumerate();
    steps
        .map(|(place, step)| (hidden(what, place), step))
        .collect()
}

fn hidden(what: &str, place: usize) -> Variable {
    Variable::new_unchecked(format!("_:{what}{place}"))
}

/// Returns the pattern of the keys and aggregates.
fn assembled(
    split: Split,
    (all, matching): (Option<GraphPattern>, GraphPattern),
    keys: &[Variable],
    aggregates: &[(Variable, AggregateExpression)],
    steps: &[Steps],
) -> GraphPattern {
    let group = |inner: GraphPattern, keys: &[Variable], aggregates| GraphPattern::Group {
        inner: Box::new(inner),
        variables: keys.to_vec(),
        aggregates,
    };
    let times = hidden("times", 0);
    let counted = vec![(times.clone(), COUNT_ALL)];
    let all = all.unwrap_or_else(|| group(split.valued, &[], sums("all", steps)));
    let all = join(group(split.groups, keys, counted), all);
    let joined = GraphPattern::LeftJoin {
        left: Box::new(all),
        right: Box::new(group(matching, keys, sums("matching", steps))),
        expression: None,
    };
    let times = Expression::Variable(times);
    let argument = |what: &str, place| Expression::Variable(hidden(what, place));
    let rows = argument("all", steps.len());
    let matches = argument("matching", steps.len());
    let rest = count_without(rows, times.clone(), matches);
    let mut pattern = GraphPattern::Filter {
        expr: Expression::Greater(Box::new(rest), Box::new(Expression::Literal(0.into()))),
        inner: Box::new(joined),
    };
    for (place, (steps, (name, _))) in steps.iter().zip(aggregates).enumerate() {
        let (all, matching) = (argument("all", place), argument("matching", place));
        pattern = GraphPattern::Extend {
            inner: Box::new(pattern),
            variable: name.clone(),
            expression: (steps.outcome)(all, times.clone(), matching),
        };
    }
    pattern
}

/// Returns how an aggregate over B is computed; `None` if it cannot be, or is not over B alone.
fn steps(aggregate: &AggregateExpression, valued: &GraphPattern) -> Option<Steps> {
    let AggregateExpression::FunctionCall {
        name,
        expr,
        distinct: false,
    } = aggregate
    else {
        let counts_rows = matches!(
            aggregate,
            AggregateExpression::CountSolutions { distinct: false }
        );
        return counts_rows.then(|| Steps {
            step: aggregate.clone(),
            outcome: count_without,
        });
    };
    let of_valued = variables_of(expr).is_subset(&in_scope(valued));
    if !of_valued || draws(expr) || has_exists(expr) {
        return None;
    }
    let outcome = match name {
        AggregateFunction::Count => {
            return Some(Steps {
                step: aggregate.clone(),
                outcome: count_without,
            });
        }
        AggregateFunction::Sum => |all, times, matching| sum_without(false, all, times, matching),
        AggregateFunction::Avg => |all, times, matching| sum_without(true, all, times, matching),
        _ => return None,
    };
    Some(Steps {
        step: exact_sum::state_of(expr.clone()),
        outcome,
    })
}

/// Returns `(all - matching) * times`.
fn count_without(all: Expression, times: Expression, matching: Expression) -> Expression {
    let matching = Expression::Coalesce(vec![matching, Expression::Literal(0.into())]);
    let rest = Expression::Subtract(Box::new(all), Box::new(matching));
    Expression::Multiply(Box::new(rest), Box::new(times))
}

fn sum_without(
    is_average: bool,
    all: Expression,
    times: Expression,
    matching: Expression,
) -> Expression {
    let none = Expression::Literal(exact_sum::empty_state());
    let matching = Expression::Coalesce(vec![matching, none]);
    exact_sum::without(is_average, [all, matching, times])
}
