//! Planning of patterns for operators of a running query, and insertion of a row's terms into a pattern.

use std::rc::Rc;

use oxrdf::Variable;
use pythia_rdf::TermId;
use pythia_sparql::scope::{Variables, mentioned};
use spargebra::algebra::GraphPattern;

use super::builder::Builder;
use super::{PlanError, Planner};
use pythia_exec::error::QueryError;
use pythia_exec::exec::context::QueryContext;
use pythia_exec::exec::subquery::{FedPipeline, RestOfPattern, Subquery, SubqueryPlanner};
use pythia_exec::plan::Plan;
use pythia_exec::plan::dataset::GraphScope;
use pythia_exec::plan::step::Step;
use pythia_exec::plan::step::StepKind;

impl Planner<'_> {
    /// Plans a pattern as a pipeline whose input is about `rows` rows that bind these variables. Returns
    /// `None` if parts of it must be evaluated alone.
    pub(crate) fn correlated(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        variables: &[Variable],
        rows: usize,
    ) -> Result<Option<FedPipeline>, QueryError> {
        let mut builder = Builder::fed(variables, rows);
        let row_slot = builder.temporary_slot();
        match self.extend(&mut builder, pattern, graph) {
            Ok(()) => {
                let (steps, slots) = builder.finish_fed(row_slot);
                Ok(Some(FedPipeline {
                    steps,
                    slots,
                    row_slot,
                }))
            }
            Err(PlanError::Alone) => Ok(None),
            Err(PlanError::Query(error)) => Err(error),
        }
    }

    /// Returns a planner that substitutes terms for variables at every leaf.
    pub(crate) fn with_inserted(mut self, inserted: Vec<(Variable, TermId)>) -> Self {
        self.inserted = inserted;
        self
    }

    /// Returns a planner for a sub-query that keeps only the inserted terms of its projected variables; its
    /// other variables are local.
    pub(super) fn shown(&self, variables: &[Variable]) -> Self {
        let inserted = self.inserted.iter();
        let inserted = inserted.filter(|(v, _)| variables.contains(v)).cloned();
        Self {
            inserted: inserted.collect(),
            counted: None,
            terms: Rc::clone(&self.terms),
            matches: Rc::clone(&self.matches),
            samples: Rc::clone(&self.samples),
            ..*self
        }
    }

    /// Starts a pipeline with the inserted terms of the pattern's variables.
    pub(super) fn insert_terms(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) {
        if self.inserted.is_empty() {
            return;
        }
        let mut variables = Variables::new();
        mentioned(pattern, &mut variables);
        if let GraphScope::Variable(variable) = graph {
            variables.insert(variable.clone());
        }
        let (mut slots, mut row) = (Vec::new(), Vec::new());
        for (variable, term) in &self.inserted {
            if variables.contains(variable) {
                slots.push(builder.slot(variable));
                row.push(term.0);
                builder.inserted.insert(variable.clone());
            }
        }
        let bound = slots.clone();
        if !slots.is_empty() {
            let values = StepKind::Values {
                slots,
                keys: Vec::new(),
                rows: vec![row],
            };
            builder.push(values, 1.0);
        }
        for slot in bound {
            builder.bind(slot, 1.0);
        }
    }
}

/// The planner of this crate, for operators of running queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subqueries;

impl SubqueryPlanner for Subqueries {
    fn plan(&self, subquery: &Subquery<'_>, query: &QueryContext) -> Result<Plan, QueryError> {
        let none = Variables::new();
        let choices = query.choices.as_deref().filter(|_| subquery.is_shown);
        let planned = planner_of(query)
            .with_choices(choices)
            .with_inserted(subquery.inserted.clone())
            .plan(
                subquery.pattern,
                subquery.graph,
                subquery.is_test.then_some(&none),
            )?;
        Ok(planned.plan)
    }

    fn plan_fed(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        variables: &[Variable],
        rows: usize,
        query: &QueryContext,
    ) -> Result<Option<FedPipeline>, QueryError> {
        planner_of(query).correlated(pattern, graph, variables, rows)
    }

    fn plan_rest(
        &self,
        rest: &RestOfPattern<'_>,
        query: &QueryContext,
    ) -> Result<Option<Vec<Step>>, QueryError> {
        planner_of(query).rest(rest)
    }
}

fn planner_of(query: &QueryContext) -> Planner<'_> {
    Planner::new(&query.snapshot, &query.evaluation, &query.dataset)
        .with_choices(query.choices.as_deref())
}
