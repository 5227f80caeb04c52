//! The merge of several graphs (more than one FROM), in which a triple appears once even if several graphs
//! contain it.

use std::sync::Arc;

use hashbrown::HashMap;
use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use rustc_hash::FxBuildHasher;

use super::batch::Batch;
use super::context::QueryContext;
use super::filter::rows_where;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// Keeps solutions whose quad is in one of the merged graphs and in no earlier one.
pub(crate) struct Merged {
    input: Fed,
    pattern: SlotPattern,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
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
        }
    }

    fn keep(&self, batch: &Batch) -> Result<Vec<bool>, QueryError> {
        let graphs = &self.context.dataset.merged;
        let graph_slot = self.pattern.graph.slot().expect("the graph is a slot");
        let value = |position: Position, row: usize| match position {
            Position::Constant(id) => id,
            Position::Bound(slot) | Position::New(slot) => TermId(batch.value(slot, row)),
        };
        // Rows by predicate and by an earlier graph that must not contain their triple.
        let mut lookups: HashMap<(TermId, TermId), Vec<u32>, FxBuildHasher> = HashMap::default();
        let mut keep = vec![false; batch.rows];
        for (row, keep) in keep.iter_mut().enumerate() {
            let graph = TermId(batch.value(graph_slot, row));
            let Ok(place) = graphs.binary_search(&graph) else {
                continue;
            };
            *keep = true;
            for earlier in &graphs[..place] {
                let key = (value(self.pattern.predicate, row), *earlier);
                lookups.entry(key).or_default().push(row as u32);
            }
        }
        for ((predicate, graph), rows) in lookups {
            self.context.check()?;
            let pairs: Vec<(TermId, TermId)> = rows
                .iter()
                .map(|&row| {
                    (
                        value(self.pattern.subject, row as usize),
                        value(self.pattern.object, row as usize),
                    )
                })
                .collect();
            let snapshot = &self.context.snapshot;
            let found = snapshot.probe(predicate, &pairs, GraphFilter::One(graph))?;
            for (row, found) in rows.into_iter().zip(found) {
                keep[row as usize] &= !found;
            }
        }
        Ok(keep)
    }
}

impl RowSource for Merged {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let rows = rows_where(&self.keep(&batch)?);
            if !rows.is_empty() {
                return Ok(Some(batch.gather(&rows, &self.live)));
            }
        }
        Ok(None)
    }
}
