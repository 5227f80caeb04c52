//! Batches of solutions inside a pattern pipeline: one column of term ids per variable.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::DataFusionError;
use oxrdf::Variable;

use crate::error::QueryError;
use crate::limits::governor::{Governor, Working};
use crate::plan::slots::Slots;

/// Target number of rows per batch.
pub(crate) const BATCH_ROWS: usize = 4096;

/// A batch that is consumed over several calls.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) batch: Batch,
    pub(crate) row: usize,
}

impl Cursor {
    pub(crate) fn over(batch: Batch) -> Self {
        Self { batch, row: 0 }
    }

    /// Returns whether rows are left.
    pub(crate) fn has_rows(&self) -> bool {
        self.row < self.batch.rows
    }

    /// Returns the rows picked by `rows`, as [`Batch::gather`] does. The batch is given up if no rows are left.
    pub(crate) fn pick(&mut self, rows: &[u32], live: &Slots) -> Batch {
        match self.has_rows() {
            true => self.batch.gather(rows, live),
            false => std::mem::take(self).batch.pick(rows, live),
        }
    }

    /// Drops the batch if no rows are left, so that it does not wait in memory while later steps work.
    pub(crate) fn drop_used(&mut self) {
        if !self.has_rows() {
            *self = Self::default();
        }
    }
}

/// Solutions by column. All batches of a pipeline have the same number of columns (its slots).
///
/// An empty column is unbound in every row, so a slot that is not reached yet costs nothing. Any other
/// column has `rows` entries, 0 where unbound.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// One column per slot: raw [`pythia_rdf::TermId`] bits.
    pub(crate) columns: Vec<Vec<u64>>,
    /// Number of solutions.
    pub(crate) rows: usize,
    /// The batch's charge to the query's memory, held as long as the batch lives.
    charge: Option<Working>,
}

impl Batch {
    /// Returns one solution that binds nothing, in a pipeline of `width` slots.
    pub(crate) fn unit(width: usize) -> Self {
        Self {
            rows: 1,
            ..Self::empty(width)
        }
    }

    /// Returns a batch without solutions, in a pipeline of `width` slots.
    pub(crate) fn empty(width: usize) -> Self {
        Self {
            columns: vec![Vec::new(); width],
            ..Self::default()
        }
    }

    /// Returns solutions with these columns, not charged for.
    pub(crate) fn of(columns: Vec<Vec<u64>>, rows: usize) -> Self {
        Self {
            columns,
            rows,
            charge: None,
        }
    }

    /// Appends solutions, whose columns have these slots.
    pub(crate) fn append_solutions(&mut self, solutions: &RecordBatch, slots: &[usize]) {
        self.rows += solutions.num_rows();
        for (column, &slot) in id_columns(solutions).into_iter().zip(slots) {
            self.columns[slot].extend_from_slice(column);
        }
    }

    /// Returns the same solutions, not charged for.
    pub(crate) fn copy(&self) -> Self {
        Self::of(self.columns.clone(), self.rows)
    }

    /// Charges the query for the batch's memory.
    pub(crate) fn charge(&mut self, governor: &Arc<Governor>) -> Result<(), QueryError> {
        let ids: usize = self.columns.iter().map(Vec::capacity).sum();
        let bytes = ids * size_of::<u64>() + self.columns.capacity() * size_of::<Vec<u64>>();
        let charge = self.charge.get_or_insert_with(|| Working::new(governor));
        charge.set(bytes)
    }

    /// Returns the value of `slot` in `row`, 0 if unbound.
    #[inline]
    pub(crate) fn value(&self, slot: usize, row: usize) -> u64 {
        let column = &self.columns[slot];
        if column.is_empty() { 0 } else { column[row] }
    }

    /// Returns the rows picked by `rows`, with only the `live` columns filled.
    pub(crate) fn gather(&self, rows: &[u32], live: &Slots) -> Self {
        let mut found = Self::empty(self.columns.len());
        found.rows = rows.len();
        for slot in live.iter() {
            let column = &self.columns[slot];
            if !column.is_empty() {
                found.columns[slot] = gather(column, rows);
            }
        }
        found
    }

    /// Like [`Self::gather`], for a batch that is not needed afterwards. Its columns are kept if `rows` are all of its rows in order, as
    /// they are when each solution has one match.
    pub(crate) fn pick(mut self, rows: &[u32], live: &Slots) -> Self {
        if !self.are_all(rows) {
            return self.gather(rows, live);
        }
        for (slot, column) in self.columns.iter_mut().enumerate() {
            if !live.contains(slot) {
                *column = Vec::new();
            }
        }
        self
    }

    /// Returns whether these are all rows in order.
    fn are_all(&self, rows: &[u32]) -> bool {
        // Without a branch, so that several rows are compared at once.
        let all_equal = |all: bool, (place, row): (u32, &u32)| all & (place == *row);
        rows.len() == self.rows && (0..).zip(rows).fold(true, all_equal)
    }

    /// Returns rows `from..to` as a separate batch.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Self {
        let columns = self
            .columns
            .iter()
            .map(|c| {
                if c.is_empty() {
                    Vec::new()
                } else {
                    c[from..to].to_vec()
                }
            })
            .collect();
        Self {
            columns,
            rows: to - from,
            charge: None,
        }
    }

    /// Adds the rows of another batch of the pipeline.
    pub(crate) fn append(&mut self, other: &Self) {
        let rows = self.rows + other.rows;
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            if column.is_empty() && more.is_empty() {
                continue;
            }
            column.resize(self.rows, 0);
            column.extend_from_slice(more);
            column.resize(rows, 0);
        }
        self.rows = rows;
    }

    /// Returns all columns at full length: `zeros` replaces unbound ones.
    pub(crate) fn full_columns<'a>(&'a self, zeros: &'a mut Vec<u64>) -> Vec<&'a [u64]> {
        if zeros.len() < self.rows {
            zeros.resize(self.rows, 0);
        }
        let zeros = &zeros[..self.rows];
        self.columns
            .iter()
            .map(|c| if c.is_empty() { zeros } else { &c[..] })
            .collect()
    }
}

/// Returns the cells of some rows.
pub(super) fn gather(column: &[u64], rows: &[u32]) -> Vec<u64> {
    rows.iter().map(|&row| column[row as usize]).collect()
}

/// Returns the bytes of the ids of solutions.
pub(super) fn bytes_of(solutions: &RecordBatch) -> usize {
    solutions.num_rows() * solutions.num_columns() * size_of::<u64>()
}

/// Returns the schema of solutions over `variables`: unsigned 64-bit ids, 0 for unbound.
pub(crate) fn schema_of(variables: &[Variable]) -> SchemaRef {
    Arc::new(Schema::new(
        variables
            .iter()
            .map(|v| Field::new(v.as_str(), DataType::UInt64, false))
            .collect::<Vec<_>>(),
    ))
}

/// Makes a record batch of id columns, possibly without any column.
pub(crate) fn record_batch(
    schema: &SchemaRef,
    columns: Vec<Vec<u64>>,
    rows: usize,
) -> Result<RecordBatch, DataFusionError> {
    let arrays = columns
        .into_iter()
        .map(|mut column| {
            if column.is_empty() {
                column.resize(rows, 0);
            }
            Arc::new(UInt64Array::from(column)) as ArrayRef
        })
        .collect();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        arrays,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )?)
}

/// Returns the id columns of a record batch made by [`record_batch`].
pub(crate) fn id_columns(batch: &RecordBatch) -> Vec<&[u64]> {
    batch
        .columns()
        .iter()
        .map(|array| {
            let ids: &UInt64Array = array
                .as_any()
                .downcast_ref()
                .expect("every solution column is UInt64");
            &ids.values()[..]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch {
            columns: vec![vec![1, 2, 3], Vec::new(), vec![4, 5, 6]],
            rows: 3,
            charge: None,
        }
    }

    #[test]
    fn picked_rows_are_gathered_rows() {
        for live in [&[0, 1][..], &[0, 2], &[]] {
            let live = Slots::from_iter(live.iter().copied());
            for rows in [&[0, 1, 2][..], &[0, 2], &[0, 2, 1], &[0, 0, 1, 2], &[]] {
                let gathered = batch().gather(rows, &live);
                let picked = batch().pick(rows, &live);
                assert_eq!(picked.columns, gathered.columns, "{rows:?}");
                assert_eq!(picked.rows, gathered.rows);
                let mut cursor = Cursor {
                    batch: batch(),
                    row: 3,
                };
                assert_eq!(cursor.pick(rows, &live).columns, gathered.columns);
                assert_eq!(cursor.batch.rows, 0, "the batch is given up");
            }
        }
        let all = batch();
        let cells = all.columns[2].as_ptr();
        let picked = all.pick(&[0, 1, 2], &Slots::from_iter([2]));
        assert_eq!(picked.columns[2].as_ptr(), cells, "nothing is copied");
    }

    #[test]
    fn rows_that_are_left_keep_the_batch() {
        let mut cursor = Cursor {
            batch: batch(),
            row: 2,
        };
        let picked = cursor.pick(&[0, 1, 2], &Slots::from_iter([0]));
        assert_eq!(picked.columns[0], [1, 2, 3]);
        assert_eq!(cursor.batch.rows, 3);
    }
}
