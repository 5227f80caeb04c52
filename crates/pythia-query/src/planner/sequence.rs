//! Planning of solution modifiers and grouping: projection, DISTINCT, ORDER BY, LIMIT and GROUP BY. Each is a
//! plan node of its own above a pipeline.

use std::collections::HashMap;

use oxrdf::Variable;
use pythia_sparql::scope::{Variables, certain, in_scope, variables_of};
use spargebra::algebra::{
    AggregateExpression, AggregateFunction, Expression, GraphPattern, OrderExpression,
};

use super::Planner;
use super::builder::Planned;
use super::limit;
use super::outer_join;
use super::path_count::{counts_all, sum_of};
use pythia_exec::error::QueryError;
use pythia_exec::expression::aggregate::solutions::solutions;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::duplicates::ignored;
use pythia_exec::plan::expression::{Aggregates, SlotExpression};
use pythia_exec::plan::operators::{Aggregation, Project, Slice, Sort, SortKey};
use pythia_exec::plan::{Operator, Plan};

/// Returns whether this module plans the pattern.
pub(super) fn is_sequence(pattern: &GraphPattern) -> bool {
    matches!(
        pattern,
        GraphPattern::Project { .. }
            | GraphPattern::Distinct { .. }
            | GraphPattern::Reduced { .. }
            | GraphPattern::OrderBy { .. }
            | GraphPattern::Slice { .. }
            | GraphPattern::Group { .. }
    )
}

/// Returns whether a pattern inside `GRAPH ?g` must be evaluated in each graph separately.
pub(super) fn needs_evaluation_per_graph(pattern: &GraphPattern) -> bool {
    match pattern {
        GraphPattern::Join { left, right }
        | GraphPattern::Union { left, right }
        | GraphPattern::Lateral { left, right }
        | GraphPattern::LeftJoin { left, right, .. } => {
            needs_evaluation_per_graph(left) || needs_evaluation_per_graph(right)
        }
        GraphPattern::Filter { inner, .. } | GraphPattern::Extend { inner, .. } => {
            needs_evaluation_per_graph(inner)
        }
        GraphPattern::Minus { .. } => true,
        other => is_sequence(other),
    }
}

/// Projects a plan to exactly these columns.
pub(super) fn project(planned: Planned, variables: &[Variable]) -> Planned {
    if planned.variables() == variables {
        return planned;
    }
    let places = planned.variables().iter().enumerate();
    let places: HashMap<&Variable, usize> = places.map(|(place, v)| (v, place)).collect();
    let columns = variables.iter().map(|v| places.get(v).copied()).collect();
    Planned {
        plan: Plan::new(
            Operator::Project(Project { columns }),
            vec![planned.plan],
            variables.to_vec(),
        ),
        certain: variables
            .iter()
            .filter(|v| planned.certain.contains(*v))
            .cloned()
            .collect(),
        rows: planned.rows,
    }
}

/// Returns whether an aggregate is unaffected by duplicate solutions.
fn ignores_duplicates(aggregate: &AggregateExpression) -> bool {
    match aggregate {
        AggregateExpression::CountSolutions { distinct } => *distinct,
        AggregateExpression::FunctionCall {
            name,
            expr: Expression::Variable(_),
            distinct,
        } => *distinct || matches!(name, AggregateFunction::Min | AggregateFunction::Max),
        AggregateExpression::FunctionCall { .. } => false,
    }
}

impl Planner<'_> {
    /// Plans a projection, DISTINCT, ORDER BY, LIMIT or grouping. Returns `None` for other patterns.
    pub(super) fn plan_sequence(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Option<Planned>, QueryError> {
        Ok(Some(match pattern {
            GraphPattern::Project { inner, variables } => {
                let wanted: Variables = variables.iter().cloned().collect();
                let planned = self.shown(variables).plan(inner, graph, Some(&wanted))?;
                project(planned, variables)
            }
            GraphPattern::Distinct { inner } | GraphPattern::Reduced { inner } => {
                if let Some(planned) = self.predicates_from_counts(inner, graph) {
                    return Ok(Some(planned));
                }
                // The columns decide which solutions are equal.
                let all = in_scope(inner);
                self.distinct(self.plan(inner, graph, Some(&all))?)
            }
            GraphPattern::OrderBy { inner, expression } => {
                self.order_by(inner, expression, None, graph, needed)?
            }
            GraphPattern::Slice {
                inner,
                start,
                length,
            } => self.slice(inner, *start, *length, graph, needed)?,
            GraphPattern::Group {
                inner,
                variables,
                aggregates,
            } => self.group(inner, variables, aggregates, graph)?,
            _ => return Ok(None),
        }))
    }

    fn distinct(&self, planned: Planned) -> Planned {
        planned.above(|input| (Operator::Distinct, ignored(input)))
    }

    /// Plans OFFSET and LIMIT. Over ORDER BY, with or without a projection between, the sort keeps only as
    /// many solutions as the slice can contain.
    fn slice(
        &self,
        inner: &GraphPattern,
        start: usize,
        length: Option<usize>,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        let limit = length.map(|length| start.saturating_add(length));
        let planned = match inner {
            GraphPattern::OrderBy { inner, expression } => {
                self.order_by(inner, expression, limit, graph, needed)?
            }
            GraphPattern::Project {
                inner: ordered,
                variables,
            } if matches!(**ordered, GraphPattern::OrderBy { .. }) => {
                let GraphPattern::OrderBy { inner, expression } = &**ordered else {
                    unreachable!("matched above");
                };
                let wanted: Variables = variables.iter().cloned().collect();
                let sorted = self.shown(variables).order_by(
                    inner,
                    expression,
                    limit,
                    graph,
                    Some(&wanted),
                )?;
                project(sorted, variables)
            }
            GraphPattern::Project {
                inner: first,
                variables,
            } => {
                let limited = self.limited(first, &[], limit, graph);
                let limited = limited.map(|inner| GraphPattern::Project {
                    inner: Box::new(inner),
                    variables: variables.clone(),
                });
                self.plan(limited.as_ref().unwrap_or(inner), graph, needed)?
            }
            other => {
                let limited = self.limited(other, &[], limit, graph);
                self.plan(limited.as_ref().unwrap_or(other), graph, needed)?
            }
        };
        let rows = length.map_or(planned.rows, |l| planned.rows.min(l as f64));
        let slice = Operator::Slice(Slice { start, length });
        Ok(Planned {
            rows,
            ..planned.above(|input| (slice, input))
        })
    }

    /// Returns a pattern that drops solutions beyond a limit before OPTIONALs and BINDs; `None` if there is nothing to drop.
    fn limited(
        &self,
        pattern: &GraphPattern,
        keys: &[OrderExpression],
        limit: Option<usize>,
        graph: &GraphScope,
    ) -> Option<GraphPattern> {
        match graph.is_fixed() && self.inserted.is_empty() {
            true => limit::limited(pattern, keys, limit?),
            false => None,
        }
    }

    fn order_by(
        &self,
        inner: &GraphPattern,
        keys: &[OrderExpression],
        limit: Option<usize>,
        graph: &GraphScope,
        needed: Option<&Variables>,
    ) -> Result<Planned, QueryError> {
        let mut wanted = needed.cloned();
        for key in keys {
            let (OrderExpression::Asc(e) | OrderExpression::Desc(e)) = key;
            if let Some(wanted) = &mut wanted {
                wanted.extend(variables_of(e));
            }
        }
        let limited = self.limited(inner, keys, limit, graph);
        let planned = self.plan(limited.as_ref().unwrap_or(inner), graph, wanted.as_ref())?;
        let keys = keys
            .iter()
            .map(|key| {
                let (expression, descending) = match key {
                    OrderExpression::Asc(e) => (e, false),
                    OrderExpression::Desc(e) => (e, true),
                };
                SortKey {
                    expression: SlotExpression::new(expression, planned.variables(), graph),
                    descending,
                }
            })
            .collect();
        let sort = Operator::Sort(Sort { keys, limit });
        Ok(planned.above(|input| (sort, input)))
    }

    fn group(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Planned, QueryError> {
        if let Some(planned) = self.group_from_counts(inner, keys, aggregates, graph)? {
            return Ok(planned);
        }
        if keys.is_empty()
            && self.inserted.is_empty()
            && let Some(joined) = outer_join::joined_for_counts(aggregates, inner)
        {
            return self.group(&joined, keys, aggregates, graph);
        }
        if let Some(planned) = self.complement(inner, keys, aggregates, graph)? {
            return Ok(planned);
        }
        if let Some(planned) = self.eager_aggregation(inner, keys, aggregates, graph)? {
            return Ok(planned);
        }
        if let Some(end) = self.counted_end(inner, keys, aggregates, graph) {
            let sum = sum_of(Expression::Variable(end.clone()));
            let sums = aggregates.iter().map(|(v, _)| (v.clone(), sum.clone()));
            let sums: Vec<_> = sums.collect();
            return self.counting(&end).grouped(inner, keys, &sums, graph);
        }
        self.grouped(inner, keys, aggregates, graph)
    }

    /// Plans the solutions of groups. Returns the aggregates over its columns.
    fn solutions_of_groups(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<(Planned, Vec<AggregateExpression>), QueryError> {
        let mut wanted: Variables = keys.iter().cloned().collect();
        let bound = certain(inner);
        let counts = |one: &AggregateExpression| counts_all(one, &bound);
        let same = |one: &AggregateExpression| {
            let is_call = matches!(one, AggregateExpression::FunctionCall { .. });
            counts(one) || is_call && ignores_duplicates(one)
        };
        if aggregates.iter().any(|(_, one)| counts(one))
            && aggregates.iter().all(|(_, one)| same(one))
        {
            for (_, one) in aggregates {
                if let AggregateExpression::FunctionCall { expr, .. } = one
                    && !counts(one)
                {
                    wanted.extend(variables_of(expr));
                }
            }
            let mut planned = self.plan(inner, graph, Some(&wanted))?;
            let count = match self.count_early(&mut planned)? {
                Some(numbers) => solutions(numbers),
                None => AggregateExpression::CountSolutions { distinct: false },
            };
            let aggregates = aggregates.iter().map(|(_, one)| match counts(one) {
                true => count.clone(),
                false => one.clone(),
            });
            return Ok((planned, aggregates.collect()));
        }
        for (_, aggregate) in aggregates {
            match aggregate {
                AggregateExpression::FunctionCall { expr, .. } => {
                    wanted.extend(variables_of(expr));
                }
                AggregateExpression::CountSolutions { distinct: true } => {
                    let named = |v: &Variable| !v.as_str().starts_with("_:");
                    wanted.extend(in_scope(inner).into_iter().filter(named));
                }
                AggregateExpression::CountSolutions { distinct: false } => {}
            }
        }
        let expressions = aggregates.iter().map(|(_, one)| one.clone()).collect();
        Ok((self.plan(inner, graph, Some(&wanted))?, expressions))
    }

    fn grouped(
        &self,
        inner: &GraphPattern,
        keys: &[Variable],
        aggregates: &[(Variable, AggregateExpression)],
        graph: &GraphScope,
    ) -> Result<Planned, QueryError> {
        let (planned, expressions) = self.solutions_of_groups(inner, keys, aggregates, graph)?;
        let columns = keys
            .iter()
            .map(|key| planned.variables().iter().position(|v| v == key))
            .collect();
        let input = if aggregates.iter().all(|(_, a)| ignores_duplicates(a)) {
            ignored(planned.plan)
        } else {
            planned.plan
        };
        let variables: Vec<Variable> = keys
            .iter()
            .chain(aggregates.iter().map(|(v, _)| v))
            .cloned()
            .collect();
        let certain: Variables = keys
            .iter()
            .filter(|key| planned.certain.contains(*key))
            .cloned()
            .collect();
        let rows = if keys.is_empty() {
            1.0
        } else {
            (planned.rows * 0.1).max(1.0)
        };
        let is_whole = self.inserted.is_empty() && self.counted.is_none();
        let groups = self.groups.filter(|_| is_whole);
        let aggregation = Aggregation {
            common: groups.and_then(|groups| groups.number(inner, keys, aggregates, graph)),
            keys: columns,
            aggregates: Aggregates {
                expressions,
                graph: graph.clone(),
                compiled: None,
            },
        };
        Ok(Planned {
            plan: Plan::new(Operator::Aggregation(aggregation), vec![input], variables),
            certain,
            rows,
        })
    }
}
