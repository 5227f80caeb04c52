//! Planning of `LATERAL`: the right operand is evaluated for each solution of the left one, with the
//! solution's terms inserted at every leaf, as in `EXISTS`.
//!
//! Where the right operand can be part of the pipeline, its steps follow those of the left operand: they see
//! the solutions as they are. Otherwise (LIMIT, grouping, MINUS, variables that only some solutions bind) an
//! operator plans and runs it for each distinct combination of the terms that it shares with the solutions.

use oxrdf::Variable;
use pythia_sparql::path_search::is_search;
use pythia_sparql::scope::{Variables, can_seed, certain, in_scope, mentioned};
use spargebra::algebra::GraphPattern;

use super::builder::{Builder, Planned};
use super::{PlanError, Planner, Planning};
use pythia_exec::explain::CostId;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::operators::Lateral;
use pythia_exec::plan::{Operator, Plan};

/// Estimated solutions of a right operand that is planned at execution time, for each left solution.
const ROWS_UNKNOWN: f64 = 10.0;

impl Planner<'_> {
    /// Extends the pipeline's solutions by a left operand, and each of these solutions by a right operand in
    /// which its terms are inserted.
    pub(super) fn lateral(
        &self,
        builder: &mut Builder,
        left: &GraphPattern,
        right: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        self.extend(builder, left, graph)?;
        let mut seen = Variables::new();
        mentioned(right, &mut seen);
        if let GraphScope::Variable(variable) = graph {
            seen.insert(variable.clone());
        }
        let is_fixed = |v: &Variable| !builder.is_bound(v) || builder.is_certain(v);
        if seen.iter().all(is_fixed) {
            if let GraphPattern::Service {
                name,
                inner,
                silent,
            } = right
                && !is_search(name)
                && can_seed(inner, &builder.variables())
            {
                // The endpoint gets the terms of many solutions with one request.
                return self.service(builder, name, inner, *silent, false);
            }
            match self.extend_inserted(builder, right, graph) {
                Err(PlanError::Alone) if !builder.nested => {}
                planning => return planning,
            }
        }
        if builder.nested {
            return Err(PlanError::Alone);
        }
        self.push_lateral(builder, right, graph, &seen);
        Ok(())
    }

    /// Extends the pipeline's solutions by a pattern in which their terms are inserted.
    fn extend_inserted(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Planning {
        let all = &builder.inserted | &builder.variables();
        let before = std::mem::replace(&mut builder.inserted, all);
        let inside = builder.inside(|builder| self.extend(builder, pattern, graph));
        builder.inserted = before;
        let (steps, known) = inside?;
        builder.steps.extend(steps);
        builder.known = known;
        Ok(())
    }

    /// Puts an operator above the pipeline that plans the pattern for each combination of terms. `seen` are
    /// the variables of which the pattern sees the terms.
    pub(super) fn push_lateral(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
        seen: &Variables,
    ) {
        let inserted = builder.inserted.clone();
        let needed = builder.variables();
        let left = std::mem::take(builder).finish(Some(&needed));
        let mut variables = left.variables().to_vec();
        let is_seen = |v: &Variable| seen.contains(v) && !v.as_str().starts_with("_:");
        let given = (0..variables.len()).filter(|column| is_seen(&variables[*column]));
        let given: Vec<usize> = given.collect();
        let shared = given.iter().map(|c| variables[*c].clone()).collect();
        let mut found: Vec<Variable> = in_scope(pattern).into_iter().collect();
        found.retain(|v| !v.as_str().starts_with("_:"));
        found.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let columns = found.iter().map(|variable| {
            let known = variables.iter().position(|v| v == variable);
            known.unwrap_or_else(|| {
                variables.push(variable.clone());
                variables.len() - 1
            })
        });
        let lateral = Lateral {
            pattern: pattern.clone(),
            graph: graph.clone(),
            shared,
            given,
            columns: columns.collect(),
            found,
            number: CostId::next(),
        };
        let mut bound = certain(pattern);
        bound.retain(|v| variables.contains(v));
        let rows = left.rows * rows_each(pattern);
        let plan = Plan::new(Operator::Lateral(lateral), vec![left.plan], variables);
        *builder = Builder::from_planned(Planned {
            plan,
            certain: &left.certain | &bound,
            rows,
        });
        builder.inserted = inserted;
    }
}

/// Returns the expected solutions of a pattern for each combination of terms.
fn rows_each(pattern: &GraphPattern) -> f64 {
    match pattern {
        GraphPattern::Slice {
            length: Some(length),
            ..
        } => ROWS_UNKNOWN.min(*length as f64),
        _ => ROWS_UNKNOWN,
    }
}
