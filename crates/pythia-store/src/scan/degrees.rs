//! Degrees of nodes, read from the tuples alone: they hold the lengths of external lists.

use crate::StoreError;
use crate::pattern::End;
use crate::segment::Segment;
use crate::segment::tuple::{TupleRows, TupleScan};

/// A scan of all nodes with edges at one end, sorted, each with its number of edges in all graphs. Reads all tuple
/// pages of that end.
pub(crate) struct DegreeScan {
    scan: TupleScan,
    rows: TupleRows,
    row: usize,
    gap: usize,
    /// The current node, which may continue in the next batch.
    open: Option<(u64, u64)>,
}

impl DegreeScan {
    pub(crate) fn new(segment: &Segment, end: End) -> Self {
        Self {
            scan: segment.tuples(end).scan(),
            rows: TupleRows::default(),
            row: 0,
            gap: 0,
            open: None,
        }
    }

    /// Returns the next node and its number of edges.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, u64)>, StoreError> {
        loop {
            while let Some((node, edges)) = self.next_edges() {
                match &mut self.open {
                    Some((open, degree)) if *open == node => *degree += edges,
                    open => {
                        if let Some(done) = open.replace((node, edges)) {
                            return Ok(Some(done));
                        }
                    }
                }
            }
            (self.row, self.gap) = (0, 0);
            if !self.scan.next_batch(&mut self.rows)? {
                self.rows.clear();
                return Ok(self.open.take());
            }
        }
    }

    /// Returns some edges of the batch: a row, or an external list.
    fn next_edges(&mut self) -> Option<(u64, u64)> {
        if let Some(gap) = self
            .rows
            .gaps
            .get(self.gap)
            .filter(|gap| gap.row == self.row)
        {
            self.gap += 1;
            return Some((gap.node, gap.count));
        }
        let node = self.rows.node.get(self.row)?;
        self.row += 1;
        Some((*node, 1))
    }
}
