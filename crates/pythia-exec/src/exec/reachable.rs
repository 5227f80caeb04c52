//! Paths of one predicate between two known ends, where the store has reachability labels: each solution is
//! kept or dropped without a search.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use pythia_store::snapshot::CurrentReachability;

use super::batch::{BATCH_ROWS, Batch};
use super::context::QueryContext;
use super::filter::rows_where;
use super::path::is_node;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Held;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, ReachableStep};

/// Keeps solutions in which a path connects the ends.
pub(crate) struct Reachable {
    input: Fed,
    step: ReachableStep,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// Made when it is first needed.
    labels: Option<CurrentReachability>,
}

impl Reachable {
    pub(crate) fn new(
        input: Fed,
        step: ReachableStep,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            step,
            live,
            context,
            labels: None,
        }
    }

    fn keep(&mut self, pairs: &[(TermId, TermId)], keep: &mut Vec<bool>) -> Result<(), QueryError> {
        if self.labels.is_none() {
            self.labels = self.context.snapshot.reachability(self.step.predicate)?;
        }
        let labels = self.labels.as_ref();
        let labels = labels.expect("the planner found labels in this snapshot");
        let mut held = Held::new(self.context.governor());
        let reached = labels.reaches(pairs, &mut |bytes| {
            self.context.check()?;
            held.set(bytes)
        })?;
        for (&(from, to), reached) in pairs.iter().zip(reached) {
            let is_same = self.step.reflexive && from == to;
            keep.push(reached || (is_same && self.connects_itself(from)?));
        }
        Ok(())
    }

    /// Returns whether the empty path connects the term with itself. Between two variables this holds only
    /// for nodes of the graph, with a constant for any term (SPARQL 1.1 §18.4).
    fn connects_itself(&self, term: TermId) -> Result<bool, QueryError> {
        let is_constant = |position| matches!(position, Position::Constant(_));
        let graph = [GraphFilter::One(TermId::DEFAULT_GRAPH)];
        Ok(is_constant(self.step.from)
            || is_constant(self.step.to)
            || is_node(&self.context, term, &graph)?)
    }
}

impl RowSource for Reachable {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            let value = |position: Position, row: usize| match position {
                Position::Constant(id) => id,
                Position::Bound(slot) | Position::New(slot) => TermId(batch.value(slot, row)),
            };
            let mut keep = Vec::with_capacity(batch.rows);
            for start in (0..batch.rows).step_by(BATCH_ROWS) {
                self.context.check()?;
                let rows = start..(start + BATCH_ROWS).min(batch.rows);
                let ends = |row| (value(self.step.from, row), value(self.step.to, row));
                let pairs: Vec<(TermId, TermId)> = rows.map(ends).collect();
                self.keep(&pairs, &mut keep)?;
            }
            let rows = rows_where(&keep);
            if !rows.is_empty() {
                return Ok(Some(batch.pick(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}
