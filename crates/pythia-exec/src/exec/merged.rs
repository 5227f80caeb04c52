//! The merge of several graphs (more than one FROM, or the union of all graphs), in which a triple appears once even
//! if several graphs contain it.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::batch::Batch;
use super::context::QueryContext;
use super::filter::rows_where;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// Keeps solutions whose quad is in the first of the merged graphs that has its triple.
///
/// The step before gives all quads of a triple together, in order of their graphs, and perhaps several times: for each
/// solution that it extends, or for each of the quads of another pattern. Then the first of them has the first graph.
pub(crate) struct Merged {
    input: Fed,
    pattern: SlotPattern,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    /// The triple of the last quad in one of the graphs, and the first graph that has it.
    last: Option<([u64; 3], u64)>,
}

impl Merged {
    /// Makes the step. The whole pattern, including its graph, must be bound when it runs.
    pub(crate) fn new(
        input: Fed,
        pattern: SlotPattern,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            pattern,
            live,
            context,
            last: None,
        }
    }

    fn keep(&mut self, batch: &Batch) -> Vec<bool> {
        let graph_slot = self.pattern.graph.slot().expect("the graph is a slot");
        let value = |position: Position, row: usize| match position {
            Position::Constant(TermId(id)) => id,
            Position::Bound(slot) | Position::New(slot) => batch.value(slot, row),
        };
        let places = [
            self.pattern.subject,
            self.pattern.predicate,
            self.pattern.object,
        ];
        let mut keep = vec![false; batch.rows];
        for (row, keep) in keep.iter_mut().enumerate() {
            let graph = batch.value(graph_slot, row);
            if !self.context.dataset.merged.contains(TermId(graph)) {
                continue;
            }
            let triple = places.map(|place| value(place, row));
            let first = match self.last {
                Some((last, first)) if last == triple => first,
                _ => graph,
            };
            self.last = Some((triple, first));
            *keep = graph == first;
        }
        keep
    }
}

impl RowSource for Merged {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let rows = rows_where(&self.keep(&batch));
            if !rows.is_empty() {
                return Ok(Some(batch.pick(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}
