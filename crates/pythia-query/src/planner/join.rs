//! Planning of joins, left joins, MINUS and UNION: as part of the pipeline where that is sound, otherwise
//! over operands evaluated alone.

use std::collections::HashMap;

use oxrdf::Variable;
use pythia_sparql::path_search::is_search;
use pythia_sparql::scope::{Variables, can_seed, certain, in_scope};
use spargebra::algebra::{Expression, GraphPattern};
use spargebra::term::NamedNodePattern;

use super::builder::{Builder, Planned};
use super::group::GroupFilter;
use super::operand::union_branches;
use super::{PlanError, Planner, Planning, sequence};
use pythia_exec::error::QueryError;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::operators::{HashJoin, JoinKind};
use pythia_exec::plan::step::StepKind;
use pythia_exec::plan::{Operator, Plan};

impl Planner<'_> {
    /// Joins the pipeline with a pattern: by extending its solutions where that is sound, otherwise by a hash
    /// join.
    pub(super) fn join(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        if builder.is_unit() {
            return self.extend(builder, pattern, graph);
        }
        let shared_are_certain = in_scope(pattern)
            .iter()
            .all(|v| !builder.is_bound(v) || builder.is_certain(v));
        let is_search = matches!(pattern, GraphPattern::Service { name, .. } if is_search(name));
        let is_service = matches!(pattern, GraphPattern::Service { .. }) && !is_search;
        let sees_the_same = is_search || can_seed(pattern, &builder.joined_variables());
        // Solutions are joined with an endpoint's answers one by one, whatever they leave unbound.
        if is_service || shared_are_certain && sees_the_same {
            return self.extend(builder, pattern, graph);
        }
        if builder.nested {
            return Err(PlanError::Alone);
        }
        if let GraphPattern::Graph {
            name: NamedNodePattern::Variable(variable),
            inner,
        } = pattern
            && self.join_bound_graphs(builder, variable, inner)
        {
            return Ok(());
        }
        let right = self.plan(pattern, graph, None)?;
        hash_join(builder, right, |_| JoinKind::Inner)
    }

    pub(super) fn left_join(
        &self,
        builder: &mut Builder,
        right: &GraphPattern,
        condition: Option<&Expression>,
        graph: &GraphScope,
    ) -> Planning {
        let shared_are_certain = in_scope(right)
            .iter()
            .all(|v| !builder.is_bound(v) || builder.is_certain(v));
        if let (
            GraphPattern::Service {
                name,
                inner,
                silent,
            },
            None,
            true,
        ) = (right, condition, shared_are_certain && !builder.nested)
            && !is_search(name)
        {
            return self.service(builder, name, inner, *silent, true);
        }
        if shared_are_certain && can_seed(right, &builder.joined_variables()) {
            match builder.inside(|builder| self.optional(builder, right, condition, graph)) {
                Ok((steps, inner)) => {
                    let rows = builder.known.rows.max(inner.rows);
                    let new = &(&inner.certain | &inner.maybe) - &builder.known.certain;
                    builder.known.maybe.extend(new);
                    builder.known.sorted = None;
                    builder.push(StepKind::Optional(steps), rows);
                    return Ok(());
                }
                Err(PlanError::Alone) if !builder.nested => {}
                Err(error) => return Err(error),
            }
        }
        if builder.nested {
            return Err(PlanError::Alone);
        }
        let right = self.plan(right, graph, None)?;
        hash_join(builder, right, |variables| {
            JoinKind::Left(condition.map(|c| SlotExpression::new(c, variables, graph)))
        })
    }

    /// Plans the inside of an OPTIONAL. Its condition sees the solutions outside.
    fn optional(
        &self,
        builder: &mut Builder,
        right: &GraphPattern,
        condition: Option<&Expression>,
        graph: &GraphScope,
    ) -> Planning {
        match condition {
            Some(condition) => self.extend_filter(builder, condition, right, graph),
            None => self.extend(builder, right, graph),
        }
    }

    /// Drops the solutions that are compatible with a solution of the right side and share a variable with
    /// it. Tests each solution as NOT EXISTS does if that is equivalent and the left side is smaller.
    pub(super) fn minus(
        &self,
        builder: &mut Builder,
        right: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        let alone = self.plan(right, graph, None)?;
        let bound = certain(right);
        let mut shared = in_scope(right);
        shared.retain(|v| builder.is_bound(v));
        let are_certain = shared
            .iter()
            .all(|v| builder.is_certain(v) && bound.contains(v));
        if !shared.is_empty()
            && are_certain
            && builder.inserted.is_empty()
            && builder.known.rows < alone.rows
            && can_seed(right, &builder.variables())
        {
            let exists = Expression::Exists(Box::new(right.clone()));
            return self.push_filter(builder, &Expression::Not(Box::new(exists)), graph);
        }
        hash_join(builder, alone, |_| JoinKind::Minus)
    }

    /// Extends the pipeline's solutions by each branch. The branches take the filters, whose variables each branch or the
    /// pipeline binds.
    pub(super) fn union(
        &self,
        builder: &mut Builder,
        left: &GraphPattern,
        right: &GraphPattern,
        filters: &[GroupFilter<'_>],
        graph: &GraphScope,
    ) -> Planning {
        let mut branches = Vec::new();
        union_branches(left, &mut branches);
        union_branches(right, &mut branches);
        let mut planned = Vec::new();
        for branch in &branches {
            match builder.inside(|builder| self.extend_filtered(builder, branch, filters, graph)) {
                Ok(branch) => planned.push(branch),
                Err(PlanError::Alone) if !builder.nested => {
                    let union = self.concatenate(&branches, graph)?;
                    if builder.is_unit() {
                        *builder = Builder::from_planned(union);
                    } else {
                        hash_join(builder, union, |_| JoinKind::Inner)?;
                    }
                    for filter in filters {
                        self.push_filter(builder, filter.expression, graph)?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let mut rows = 0.0;
        let mut certain = planned[0].1.certain.clone();
        let mut all = builder.known.maybe.clone();
        for (_, known) in &planned {
            rows += known.rows;
            certain = &certain & &known.certain;
            all.extend(&known.certain | &known.maybe);
        }
        builder.known.maybe = &all - &certain;
        builder.known.certain = certain;
        builder.known.sorted = None;
        let steps = planned.into_iter().map(|(steps, _)| steps).collect();
        builder.push(StepKind::Union(steps), rows);
        Ok(())
    }

    /// Returns the solutions of separately planned patterns, one after the other.
    pub(super) fn concatenate(
        &self,
        branches: &[&GraphPattern],
        graph: &GraphScope,
    ) -> Result<Planned, QueryError> {
        let branches: Vec<Planned> = branches
            .iter()
            .map(|branch| self.plan(branch, graph, None))
            .collect::<Result<_, _>>()?;
        let mut variables: Vec<Variable> = Vec::new();
        let mut known = Variables::new();
        for variable in branches.iter().flat_map(|b| b.variables()) {
            if known.insert(variable.clone()) {
                variables.push(variable.clone());
            }
        }
        let certain = variables
            .iter()
            .filter(|v| branches.iter().all(|b| b.certain.contains(*v)))
            .cloned()
            .collect();
        let rows = branches.iter().map(|b| b.rows).sum();
        let inputs = branches
            .into_iter()
            .map(|branch| sequence::project(branch, &variables).plan)
            .collect();
        Ok(Planned {
            plan: Plan::new(Operator::Concatenate, inputs, variables),
            certain,
            rows,
        })
    }
}

/// Joins the pipeline so far with an independent plan.
pub(super) fn hash_join(
    builder: &mut Builder,
    right: Planned,
    kind: impl FnOnce(&[Variable]) -> JoinKind,
) -> Planning {
    if builder.nested {
        return Err(PlanError::Alone);
    }
    let needed = builder.variables();
    let inserted = builder.inserted.clone();
    let left = std::mem::take(builder).finish(Some(&needed));
    let mut keys = Vec::new();
    let mut maybe = Vec::new();
    let mut added = Vec::new();
    let mut variables = left.variables().to_vec();
    let places = left.variables().iter().enumerate();
    let places: HashMap<&Variable, usize> = places.map(|(place, v)| (v, place)).collect();
    for (r, variable) in right.variables().iter().enumerate() {
        match places.get(variable).copied() {
            Some(l) if left.certain.contains(variable) && right.certain.contains(variable) => {
                keys.push((l, r));
            }
            Some(l) => maybe.push((l, r)),
            None => {
                added.push(r);
                variables.push(variable.clone());
            }
        }
    }
    let kind = kind(&variables);
    let (mut certain, mut rows) = (left.certain, left.rows);
    match &kind {
        JoinKind::Inner => {
            certain = &certain | &right.certain;
            rows = if keys.is_empty() {
                rows * right.rows
            } else {
                rows.max(right.rows)
            };
        }
        JoinKind::Left(_) => rows = rows.max(right.rows),
        JoinKind::Minus => {
            added.clear();
            variables.truncate(left.plan.variables.len());
            if keys.is_empty() && maybe.is_empty() {
                *builder = Builder::from_planned(Planned {
                    plan: left.plan,
                    certain,
                    rows,
                });
                builder.inserted = inserted;
                return Ok(());
            }
        }
    }
    let join = HashJoin {
        kind,
        keys,
        maybe,
        added,
    };
    let join = Operator::HashJoin(join);
    let plan = Plan::new(join, vec![left.plan, right.plan], variables);
    *builder = Builder::from_planned(Planned {
        plan,
        certain,
        rows,
    });
    builder.inserted = inserted;
    Ok(())
}
