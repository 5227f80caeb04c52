//! Planning of `EXISTS`, and insertion of a row's terms into a pattern.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_rdf::TermId;
use spargebra::algebra::GraphPattern;

use super::builder::{Builder, GraphScope};
use super::scope::{Variables, mentioned};
use super::{PlanError, Planner, paths};
use crate::error::QueryError;
use crate::exec::exists::Exists;
use crate::exec::step::{Step, StepKind};
use crate::expression::ExistsTest;

/// A pattern as a pipeline with rows as input.
pub(crate) struct Correlated {
    pub(crate) steps: Vec<Step>,
    /// Number of slots; the first ones are the bound variables.
    pub(crate) width: usize,
    /// Slot that is passed on from each row to its solutions.
    pub(crate) row_slot: usize,
}

impl Planner<'_> {
    /// Returns the test of an `EXISTS` over rows with these columns.
    pub(super) fn exists(
        &self,
        pattern: &GraphPattern,
        columns: &[Variable],
        graph: &GraphScope,
    ) -> Result<Arc<dyn ExistsTest>, QueryError> {
        let mut variables = Variables::new();
        mentioned(pattern, &mut variables);
        if let GraphScope::Variable(variable) = graph {
            variables.insert(variable.clone());
        }
        let is_shared = |v: &Variable| variables.contains(v) && !v.as_str().starts_with("_:");
        let shared = columns.iter().enumerate().filter(|(_, v)| is_shared(v));
        let mut body = solutions_body(pattern).clone();
        paths::expand(&mut body);
        Ok(Arc::new(Exists {
            number: self.evaluation.number_exists(),
            pattern: body,
            graph: graph.clone(),
            shared: shared.map(|(column, v)| (v.clone(), column)).collect(),
        }))
    }

    /// Plans a pattern as a pipeline whose input is about `rows` rows that bind these variables. Returns
    /// `None` if parts of it must be evaluated alone.
    pub(crate) fn correlated(
        &self,
        pattern: &GraphPattern,
        graph: &GraphScope,
        variables: &[Variable],
        rows: usize,
    ) -> Result<Option<Correlated>, QueryError> {
        let mut builder = Builder::fed(variables, rows);
        let row_slot = builder.temporary_slot();
        match self.extend(&mut builder, pattern, graph) {
            Ok(()) => {
                let (steps, width) = builder.finish_fed(row_slot);
                Ok(Some(Correlated {
                    steps,
                    width,
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

/// Strips operators that do not affect whether solutions exist. A projection at the top may be removed,
/// because only the projected variables are shared with the rows.
fn solutions_body(pattern: &GraphPattern) -> &GraphPattern {
    match pattern {
        GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::OrderBy { inner, .. } => solutions_body(inner),
        other => other,
    }
}
