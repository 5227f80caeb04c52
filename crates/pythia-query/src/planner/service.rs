//! Planning of `SERVICE`: a join of the solutions so far with the answers of another endpoint.

use oxrdf::Variable;
use pythia_sparql::scope::{certain, in_scope};
use spargebra::algebra::GraphPattern;
use spargebra::term::NamedNodePattern;

use super::builder::{Builder, Planned};
use super::{PlanError, Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::operators::{Endpoint, Service};
use pythia_exec::plan::{Operator, Plan};
use pythia_exec::service::check;

/// Estimated solutions of an endpoint; nothing is known about it.
const ROWS_UNKNOWN: f64 = 1000.0;

impl Planner<'_> {
    /// Joins the pipeline with a pattern that an endpoint answers. With `optional`, solutions without a match
    /// are kept.
    pub(super) fn service(
        &self,
        builder: &mut Builder,
        name: &NamedNodePattern,
        pattern: &GraphPattern,
        silent: bool,
        optional: bool,
    ) -> Planning {
        if builder.nested {
            return Err(PlanError::Alone);
        }
        let inserted = builder.inserted.clone();
        let needed = builder.variables();
        let left = std::mem::take(builder).finish(Some(&needed));
        let endpoint = self.endpoint(name, silent, left.variables())?;
        let mut asked: Vec<Variable> = in_scope(pattern).into_iter().collect();
        asked.retain(|v| !v.as_str().starts_with("_:"));
        asked.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        let mut variables = left.variables().to_vec();
        let columns = asked.iter().map(|variable| {
            variables
                .iter()
                .position(|v| v == variable)
                .unwrap_or_else(|| {
                    variables.push(variable.clone());
                    variables.len() - 1
                })
        });
        let service = Service {
            endpoint,
            pattern: pattern.clone(),
            silent,
            optional,
            columns: columns.collect(),
            asked,
            left: left.variables().len(),
        };
        let mut bound = left.certain;
        if !silent && !optional {
            bound.extend(
                certain(pattern)
                    .into_iter()
                    .filter(|v| variables.contains(v)),
            );
        }
        let plan = Plan::new(Operator::Service(service), vec![left.plan], variables);
        *builder = Builder::from_planned(Planned {
            plan,
            certain: bound,
            rows: left.rows.max(ROWS_UNKNOWN),
        });
        builder.inserted = inserted;
        Ok(())
    }

    /// Returns the endpoint that a SERVICE names, by itself or by one of the input's columns.
    fn endpoint(
        &self,
        name: &NamedNodePattern,
        silent: bool,
        columns: &[Variable],
    ) -> Result<Endpoint, QueryError> {
        match name {
            NamedNodePattern::NamedNode(node) => {
                // Checked even if no request is sent in the end.
                if !silent && let Some(handler) = self.evaluation.service() {
                    check(handler.as_ref(), node)?;
                }
                Ok(Endpoint::Fixed(node.clone()))
            }
            NamedNodePattern::Variable(variable) => {
                let column = columns.iter().position(|v| v == variable);
                let column = column.ok_or_else(|| {
                    QueryError::unsupported_hint(
                        format!("SERVICE {variable} where nothing in its group binds {variable}"),
                        format!(
                            "bind {variable} in the same group with a pattern, VALUES or BIND that does not need \
                             the endpoint's answer, or name the endpoint"
                        ),
                    )
                })?;
                Ok(Endpoint::Column(column, variable.clone()))
            }
        }
    }
}
