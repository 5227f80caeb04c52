//! Checks for quads whose ends are all known.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::batch::Batch;
use super::context::QueryContext;
use super::filter::rows_where;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// Keeps solutions for which the quad is in the store. The predicate is a constant.
pub(crate) struct Probe {
    input: Fed,
    pattern: SlotPattern,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
}

impl Probe {
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
        }
    }
}

impl RowSource for Probe {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        let Position::Constant(predicate) = self.pattern.predicate else {
            unreachable!("the planner probes only with a constant predicate");
        };
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let value = |position: Position, row: usize| match position {
                Position::Constant(id) => id,
                Position::Bound(slot) | Position::New(slot) => TermId(batch.value(slot, row)),
            };
            let pairs: Vec<(TermId, TermId)> = (0..batch.rows)
                .map(|row| {
                    (
                        value(self.pattern.subject, row),
                        value(self.pattern.object, row),
                    )
                })
                .collect();
            let found =
                self.context
                    .snapshot
                    .probe(predicate, &pairs, self.pattern.graph.filter())?;
            let rows = rows_where(&found);
            if !rows.is_empty() {
                return Ok(Some(batch.pick(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}
