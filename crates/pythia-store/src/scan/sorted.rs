//! Rows that had to be collected and sorted, because no file has the requested order.

use pythia_rdf::TermId;

use super::{BATCH_ROWS, Projection};
use crate::pattern::IdBatch;

/// Sorted rows in memory.
pub(crate) struct SortedRows {
    /// Components in sort order; bound ones are equal in all rows.
    rows: Vec<[u64; 4]>,
    next: usize,
    /// The component that [`Self::seek`] compares.
    key: usize,
    projection: Projection,
}

impl SortedRows {
    pub(crate) fn new(mut rows: Vec<[u64; 4]>, key: usize, projection: Projection) -> Self {
        rows.sort_unstable();
        Self {
            rows,
            next: 0,
            key,
            projection,
        }
    }

    pub(crate) fn fill(&mut self, batch: &mut IdBatch) {
        let end = (self.next + BATCH_ROWS).min(self.rows.len());
        for row in &self.rows[self.next..end] {
            self.projection.push(*row, batch);
        }
        self.next = end;
    }

    pub(crate) fn seek(&mut self, id: TermId) {
        let rest = &self.rows[self.next..];
        self.next += rest.partition_point(|row| row[self.key] < id.0);
    }
}
