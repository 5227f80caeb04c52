//! The solutions of `LATERAL`, collected to batches.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::QueryError;
use crate::exec::batch::{BATCH_ROWS, record_batch};
use crate::exec::context::QueryContext;
use crate::limits::governor::Working;

/// Number of solutions in the first batch. It doubles with each batch, so that a LIMIT above reads little.
const FIRST_ROWS: usize = 64;

/// Solutions that were not returned yet.
pub(super) struct Output {
    columns: Vec<Vec<u64>>,
    rows: usize,
    /// Number of solutions that make a batch.
    full: usize,
    schema: SchemaRef,
    charge: Working,
}

impl Output {
    pub(super) fn new(schema: SchemaRef, context: &QueryContext) -> Self {
        Self {
            columns: vec![Vec::new(); schema.fields().len()],
            rows: 0,
            full: FIRST_ROWS,
            schema,
            charge: Working::new(context.governor()),
        }
    }

    /// Returns whether there are enough solutions for a batch.
    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.full
    }

    /// Joins a left solution with a solution of the pattern. `columns` are the output's columns of the pattern's
    /// variables. A variable that the left solution binds has the same term in both, or there is no solution.
    pub(super) fn add(
        &mut self,
        left: &[u64],
        right: impl Iterator<Item = u64> + Clone,
        columns: &[usize],
    ) {
        let mut cells = right.clone().zip(columns);
        let is_compatible = cells.all(|(term, column)| match left.get(*column) {
            Some(known) => *known == 0 || term == 0 || *known == term,
            None => true,
        });
        if !is_compatible {
            return;
        }
        for (column, output) in self.columns.iter_mut().enumerate() {
            output.push(left.get(column).copied().unwrap_or_default());
        }
        for (term, column) in right.zip(columns) {
            let cell = self.columns[*column].last_mut().expect("pushed above");
            if *cell == 0 {
                *cell = term;
            }
        }
        self.rows += 1;
    }

    /// Charges the query for the solutions.
    pub(super) fn charge(&mut self) -> Result<(), QueryError> {
        let ids: usize = self.columns.iter().map(Vec::capacity).sum();
        self.charge.set(ids * size_of::<u64>())
    }

    /// Takes the solutions, if there are any.
    pub(super) fn take(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.full = (self.full * 2).min(BATCH_ROWS);
        let columns = self.columns.iter_mut().map(std::mem::take).collect();
        self.charge.clear();
        let rows = std::mem::take(&mut self.rows);
        Ok(Some(record_batch(&self.schema, columns, rows)?))
    }
}
