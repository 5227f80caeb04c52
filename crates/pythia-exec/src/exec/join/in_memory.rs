//! Left solutions matched with right ones in memory, some by each thread.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::matching::{Current, Matching, Table};
use crate::error::QueryError;
use crate::exec::batch::bytes_of;
use crate::exec::context::QueryContext;
use crate::exec::ordered::Work;
use crate::exec::pieces::{FedPieces, Input, Piece};

/// Joins left solutions, in their order, with the right ones in a table.
pub(super) fn joined(
    left: Input,
    table: Table,
    matching: &Arc<Matching>,
    context: &Arc<QueryContext>,
) -> FedPieces<InMemory> {
    let (table, matching) = (Arc::new(table), Arc::clone(matching));
    let are_several = context.cores().are_several() && context.profile.is_none();
    let held = (are_several && matching.is_divisible()).then(|| matching.held_bytes());
    let work = move || InMemory {
        table: Arc::clone(&table),
        matching: Arc::clone(&matching),
        current: None,
    };
    FedPieces::new(left, work, held, context)
}

/// The work of one thread.
pub(super) struct InMemory {
    table: Arc<Table>,
    matching: Arc<Matching>,
    current: Option<Current>,
}

impl Work for InMemory {
    type Item = Piece;
    type Output = RecordBatch;

    fn begin(&mut self, left: Piece) {
        self.current = Some(Current::new(left));
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        while let Some(current) = &mut self.current {
            self.matching.context().check()?;
            let joined = self.matching.join_on(&self.table, current)?;
            if current.is_finished() {
                self.current = None;
            }
            if joined.is_some() {
                return Ok(joined);
            }
        }
        Ok(None)
    }

    fn bytes(solutions: &RecordBatch) -> usize {
        bytes_of(solutions)
    }
}
