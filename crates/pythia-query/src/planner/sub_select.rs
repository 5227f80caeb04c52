//! Conditions from outside inside sub-SELECTs with GROUP BY.
//!
//! A filter over keys of the groups, and the terms that the patterns outside give the keys, select whole groups. So they
//! apply to the pattern that is grouped, and the other groups are not made.

use pythia_sparql::scope::{Variables, certain, draws, has_exists, in_scope, variables_of};
use spargebra::algebra::GraphPattern;

use super::builder::Builder;
use super::components::join;
use super::group::{GroupFilter, Operands};
use super::{PlanError, Planner, sequence};
use pythia_exec::plan::dataset::GraphScope;

impl Planner<'_> {
    /// Returns those sub-SELECTs of a group to which conditions of the group apply, with these conditions. Each has its place
    /// in the group's rest.
    pub(super) fn confined_sub_selects(
        &self,
        builder: &Builder,
        group: &Operands<'_>,
        graph: &GraphScope,
    ) -> Result<Vec<(usize, GraphPattern)>, PlanError> {
        let mut confined = Vec::new();
        if builder.nested || !self.inserted.is_empty() {
            return Ok(confined);
        }
        for (place, pattern) in group.rest.iter().enumerate() {
            if let Some(pattern) = self.with_outer_conditions(pattern, group, graph)? {
                confined.push((place, pattern));
            }
        }
        Ok(confined)
    }

    /// Returns the sub-SELECT of a group with the group's conditions on its keys.
    fn with_outer_conditions(
        &self,
        pattern: &GraphPattern,
        group: &Operands<'_>,
        graph: &GraphScope,
    ) -> Result<Option<GraphPattern>, PlanError> {
        let Some(inner) = grouped(pattern).filter(|_| sequence::is_sequence(pattern)) else {
            return Ok(None);
        };
        // A key that a row of the sub-SELECT leaves unbound may be bound outside.
        let bound = certain(inner);
        let selecting =
            |filter: &&GroupFilter<'_>| selects(filter) && filter.waits_for.is_subset(&bound);
        let mut found = None;
        for filter in group.filters.iter().filter(selecting) {
            let pattern = found.as_ref().unwrap_or(pattern);
            let select = |inner: &GraphPattern| GraphPattern::Filter {
                expr: filter.expression.clone(),
                inner: Box::new(inner.clone()),
            };
            if let Some(confined) = inside_groups(pattern, &filter.waits_for, &select) {
                found = Some(confined);
            }
        }
        let current = found.as_ref().unwrap_or(pattern);
        let joined = self.confined_keys(current, group, graph)?;
        Ok(joined.or(found))
    }

    /// Returns the sub-SELECT with its keys confined to the terms that the triple patterns and VALUES outside give them, if
    /// these are far fewer than the matches of any pattern inside.
    fn confined_keys(
        &self,
        pattern: &GraphPattern,
        group: &Operands<'_>,
        graph: &GraphScope,
    ) -> Result<Option<GraphPattern>, PlanError> {
        let own = in_scope(pattern);
        let triples = group.triples.iter().map(|triple| (*triple).clone());
        let triples = GraphPattern::Bgp {
            patterns: triples.collect(),
        };
        let operands = group.operands.iter().map(|pattern| &**pattern);
        let values = operands.chain(group.rest.iter().copied());
        let values = values.filter(|one| matches!(one, GraphPattern::Values { .. }));
        let outside = values.cloned().chain([triples]);
        let outside = outside.filter(|one| !certain(one).is_disjoint(&own));
        let (Some(outside), Some(inner)) = (outside.reduce(join), grouped(pattern)) else {
            return Ok(None);
        };
        let shared = &certain(&outside) & &own;
        if !shared.is_subset(&certain(inner)) || !self.is_far_smaller(&outside, inner, graph)? {
            return Ok(None);
        }
        let terms = super::semi_join::distinct(outside, &shared);
        let select = |inner: &GraphPattern| GraphPattern::Join {
            left: Box::new(terms.clone()),
            right: Box::new(inner.clone()),
        };
        Ok(inside_groups(pattern, &shared, &select))
    }
}

/// Returns whether a filter can be evaluated wherever its variables are bound.
fn selects(filter: &GroupFilter<'_>) -> bool {
    let mut names = Variables::new();
    let is_simple = !has_exists(filter.expression) && !draws(filter.expression);
    names.extend(variables_of(filter.expression));
    is_simple && !names.is_empty() && names == filter.waits_for
}

/// Returns the pattern that a sub-SELECT groups.
fn grouped(pattern: &GraphPattern) -> Option<&GraphPattern> {
    match pattern {
        GraphPattern::Project { inner, .. }
        | GraphPattern::Extend { inner, .. }
        | GraphPattern::Filter { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::OrderBy { inner, .. } => grouped(inner),
        GraphPattern::Group { inner, .. } => Some(inner),
        _ => None,
    }
}

/// Returns a sub-SELECT with another pattern under its GROUP BY, if these variables are keys that it returns.
fn inside_groups(
    pattern: &GraphPattern,
    keys: &Variables,
    select: &dyn Fn(&GraphPattern) -> GraphPattern,
) -> Option<GraphPattern> {
    let deeper = |inner: &GraphPattern| Some(Box::new(inside_groups(inner, keys, select)?));
    Some(match pattern {
        GraphPattern::Project { inner, variables }
            if keys.iter().all(|key| variables.contains(key)) =>
        {
            GraphPattern::Project {
                inner: deeper(inner)?,
                variables: variables.clone(),
            }
        }
        GraphPattern::Extend {
            inner,
            variable,
            expression,
        } if !keys.contains(variable) && !draws(expression) => GraphPattern::Extend {
            inner: deeper(inner)?,
            variable: variable.clone(),
            expression: expression.clone(),
        },
        GraphPattern::Filter { expr, inner } if !draws(expr) => GraphPattern::Filter {
            expr: expr.clone(),
            inner: deeper(inner)?,
        },
        GraphPattern::Distinct { inner } => GraphPattern::Distinct {
            inner: deeper(inner)?,
        },
        GraphPattern::Reduced { inner } => GraphPattern::Reduced {
            inner: deeper(inner)?,
        },
        GraphPattern::OrderBy { inner, expression } => GraphPattern::OrderBy {
            inner: deeper(inner)?,
            expression: expression.clone(),
        },
        GraphPattern::Group {
            inner,
            variables,
            aggregates,
        } if keys.iter().all(|key| variables.contains(key)) => GraphPattern::Group {
            inner: Box::new(select(inner)),
            variables: variables.clone(),
            aggregates: aggregates.clone(),
        },
        _ => return None,
    })
}
