//! Decomposition of triple terms: patterns inside `<<( … )>>` (SPARQL 1.2).

use std::sync::Arc;

use hashbrown::HashMap;
use oxrdf::Term;
use pythia_rdf::TermId;
use rustc_hash::FxBuildHasher;

use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::plan::slots::Slots;
use crate::plan::step::Position;

/// Keeps solutions in which a slot holds a triple term that agrees with three positions, and binds the new
/// ones.
pub(crate) struct TakeApart {
    input: Fed,
    term: usize,
    parts: [Position; 3],
    live: Arc<Slots>,
    context: Arc<QueryContext>,
}

impl TakeApart {
    pub(crate) fn new(
        input: Fed,
        term: usize,
        parts: [Position; 3],
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            term,
            parts,
            live,
            context,
        }
    }

    /// Returns subject, predicate and object of each distinct triple term of the batch.
    fn parts_of(&self, batch: &Batch) -> Result<HashMap<u64, [u64; 3], FxBuildHasher>, QueryError> {
        let mut ids: Vec<TermId> = (0..batch.rows)
            .map(|row| TermId(batch.value(self.term, row)))
            .filter(|id| id.is_bound() && !id.kind().is_inline())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let evaluation = &self.context.evaluation;
        let mut parts = HashMap::default();
        for (id, term) in ids.iter().zip(evaluation.decode(&ids)?) {
            if let Term::Triple(triple) = term {
                let subject = evaluation.intern(triple.subject.into())?;
                let predicate = evaluation.intern(triple.predicate.into())?;
                let object = evaluation.intern(triple.object)?;
                parts.insert(id.0, [subject.0, predicate.0, object.0]);
            }
        }
        Ok(parts)
    }

    fn take_apart(&self, batch: &Batch) -> Result<Batch, QueryError> {
        let parts = self.parts_of(batch)?;
        let mut rows = Vec::new();
        let mut found: [Vec<u64>; 3] = Default::default();
        for row in 0..batch.rows {
            let Some(values) = parts.get(&batch.value(self.term, row)) else {
                continue;
            };
            let agrees = self
                .parts
                .iter()
                .zip(values)
                .all(|(part, value)| match part {
                    Position::Constant(id) => id.0 == *value,
                    Position::Bound(slot) => batch.value(*slot, row) == *value,
                    Position::New(_) => true,
                });
            if agrees {
                rows.push(row as u32);
                for (found, value) in found.iter_mut().zip(values) {
                    found.push(*value);
                }
            }
        }
        let mut out = batch.gather(&rows, &self.live);
        for (part, found) in self.parts.iter().zip(found) {
            if let Position::New(slot) = part
                && self.live.contains(*slot)
            {
                out.columns[*slot] = found;
            }
        }
        Ok(out)
    }
}

impl RowSource for TakeApart {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            let batch = self.take_apart(&batch)?;
            if batch.rows > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}
