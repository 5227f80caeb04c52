//! Scans of a snapshot.

use pythia_rdf::TermId;

use super::merged::MergedScan;
use crate::StoreError;
use crate::pattern::IdBatch;
use crate::scan::SegmentScan;

/// The quads that match a pattern, in batches.
///
/// Owns what it needs of the store, so it may outlive the [`Snapshot`](crate::Snapshot) and go to
/// another thread. Of each segment that it reads, of the base and of runs, it holds at most 32 pages of the cache,
/// and at most a sixty-fourth of the cache; of a small cache, up to four pages.
pub struct QuadScan {
    rows: Rows,
    columns: usize,
}

enum Rows {
    Base(SegmentScan),
    Merged(Box<MergedScan>),
}

impl QuadScan {
    /// Returns a scan of the base alone, of rows of `columns` components.
    pub(super) fn of_base(scan: SegmentScan, columns: usize) -> Self {
        let rows = Rows::Base(scan);
        Self { rows, columns }
    }

    /// Returns a scan with changes, of rows of `columns` components.
    pub(super) fn merged(scan: MergedScan, columns: usize) -> Self {
        let rows = Rows::Merged(Box::new(scan));
        Self { rows, columns }
    }

    /// Returns the next rows; `None` at the end. No batch is empty.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator cannot be sought in"
    )]
    pub fn next(&mut self) -> Result<Option<IdBatch>, StoreError> {
        let mut batch = IdBatch::new(self.columns);
        Ok(self.next_into(&mut batch)?.then_some(batch))
    }

    /// As [`Self::next`], into a batch that is reused; returns false at the end.
    pub fn next_into(&mut self, batch: &mut IdBatch) -> Result<bool, StoreError> {
        match &mut self.rows {
            Rows::Base(scan) => scan.next_into(batch),
            Rows::Merged(scan) => {
                batch.clear();
                batch.columns.resize_with(self.columns, Vec::new);
                scan.fill(batch)?;
                Ok(batch.rows > 0)
            }
        }
    }

    /// Skips rows whose first free component (of the order, after the bound ones) is smaller than `id`; never goes
    /// back. Reads nothing before rows are requested, unless the pattern binds a node. Without effect if subject,
    /// predicate and object are all bound.
    pub fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        match &mut self.rows {
            Rows::Base(scan) => scan.seek(id),
            Rows::Merged(scan) => scan.seek(id),
        }
    }

    /// Announces the ids, sorted, that will be sought from here on: pages without any of them are not read ahead, and
    /// all others are read in batches. Other ids can still be sought.
    pub fn expect(&mut self, ids: &[u64]) {
        match &mut self.rows {
            Rows::Base(scan) => scan.expect(ids),
            Rows::Merged(scan) => scan.expect(ids),
        }
    }
}
