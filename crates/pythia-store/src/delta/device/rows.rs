//! All rows of segments in one order, and of several runs with the sums of their signs.

use std::sync::Arc;

use super::DeviceRun;
use crate::StoreError;
use crate::loser_tree::LoserTree;
use crate::pattern::{End, IdBatch, Order, QuadPattern};
use crate::scan::{ColumnScan, Projection, SegmentScan, Source, TupleScan};
use crate::segment::Segment;

/// The rows of a segment in one of its orders, one after the other.
pub struct SegmentRows {
    scan: SegmentScan,
    batch: IdBatch,
    next: usize,
    head: Option<[u64; 4]>,
}

impl SegmentRows {
    /// Starts at the first row.
    pub fn new(segment: &Arc<Segment>, order: Order) -> Result<Self, StoreError> {
        let components = order.components();
        let all = QuadPattern::default();
        let tuples = |end| {
            let scan = TupleScan::new(Arc::clone(segment), end, &all, &components);
            Source::Tuples(Box::new(scan))
        };
        let columns = || -> Result<Source, StoreError> {
            let projection = Projection::new(&all, order, &components);
            let segment = Arc::clone(segment);
            let scan = ColumnScan::new(segment, order, Vec::new(), all.graph, projection)?;
            Ok(Source::Columns(Box::new(scan)))
        };
        let source = match order {
            _ if segment.statistics().quads == 0 => Source::Empty,
            Order::Spo => tuples(End::Subject),
            Order::Ops => tuples(End::Object),
            Order::Pso | Order::Pos | Order::Gpso => columns()?,
        };
        let mut rows = Self {
            scan: SegmentScan::new(source, &components),
            batch: IdBatch::new(components.len()),
            next: 0,
            head: None,
        };
        rows.advance()?;
        Ok(rows)
    }

    /// Returns the current row; `None` at the end.
    #[inline]
    pub fn head(&self) -> Option<[u64; 4]> {
        self.head
    }

    /// Moves to the next row.
    #[inline]
    pub fn advance(&mut self) -> Result<(), StoreError> {
        if self.next == self.batch.rows {
            self.next = 0;
            if !self.scan.next_into(&mut self.batch)? {
                self.head = None;
                return Ok(());
            }
        }
        let row = [0, 1, 2, 3].map(|column| self.batch.columns[column][self.next]);
        self.next += 1;
        self.head = Some(row);
        Ok(())
    }
}

/// The rows of several runs in one order, each once, without those whose signs cancel.
pub struct RunRows {
    /// Rows with their sign.
    heads: Vec<(SegmentRows, i32)>,
    tree: Option<LoserTree>,
}

impl RunRows {
    /// Starts at the first row.
    pub fn new(runs: &[Arc<DeviceRun>], order: Order) -> Result<Self, StoreError> {
        let mut heads = Vec::with_capacity(2 * runs.len());
        for run in runs {
            heads.push((SegmentRows::new(run.added(), order)?, 1));
            heads.push((SegmentRows::new(run.removed(), order)?, -1));
        }
        let tree = (!heads.is_empty()).then(|| LoserTree::new(heads.len(), less(&heads)));
        Ok(Self { heads, tree })
    }

    /// Returns the next row, and whether it was added; otherwise it was removed.
    pub fn next_row(&mut self) -> Result<Option<([u64; 4], bool)>, StoreError> {
        let Some(tree) = &mut self.tree else {
            return Ok(None);
        };
        while let Some(row) = self.heads[tree.winner()].0.head() {
            let mut sum = 0;
            loop {
                let (rows, sign) = &mut self.heads[tree.winner()];
                if rows.head() != Some(row) {
                    break;
                }
                sum += *sign;
                rows.advance()?;
                tree.replay(less(&self.heads));
            }
            match sum {
                0 => {}
                1 => return Ok(Some((row, true))),
                -1 => return Ok(Some((row, false))),
                _ => {
                    let message = format!("a quad is added or removed {} times", sum.abs());
                    return Err(StoreError::corrupt("runs", None, message));
                }
            }
        }
        Ok(None)
    }
}

/// Compares heads; those that have ended are last.
fn less(heads: &[(SegmentRows, i32)]) -> impl Fn(usize, usize) -> bool + '_ {
    |a, b| match (heads[a].0.head(), heads[b].0.head()) {
        (Some(a), Some(b)) => a < b,
        (a, _) => a.is_some(),
    }
}
