//! The rows of one order: the base's rows in their order, merged with the sorted added rows.

use std::sync::{Arc, Mutex};

use pythia_rdf::TermId;

use super::UNCHECKED;
use super::mapping::IdMapping;
use crate::StoreError;
use crate::delta::device::{DeviceRun, RunRows, SegmentRows};
use crate::load::runs::RunSpace;
use crate::load::sorter::{MergedRows, RowSorter, SortPlan};
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::{OrderDirectory, OrderWriter, Segment};

/// Rows passed on at a time.
const BLOCK_ROWS: usize = 1 << 12;
/// Minimum number of rows sorted at a time.
const CHUNK_ROWS_MIN: usize = 1 << 12;
/// Bytes read at a time from each sorted chunk.
const READ_BYTES: usize = 64 << 10;

/// The rows of a base with the changes of its runs, in one order, with their old ids.
pub(crate) struct CurrentRows {
    base: SegmentRows,
    runs: RunRows,
    change: Option<([u64; 4], bool)>,
}

impl CurrentRows {
    pub(crate) fn new(
        base: &Arc<Segment>,
        runs: &[Arc<DeviceRun>],
        order: Order,
    ) -> Result<Self, StoreError> {
        let mut runs = RunRows::new(runs, order)?;
        Ok(Self {
            base: SegmentRows::new(base, order)?,
            change: runs.next_row()?,
            runs,
        })
    }

    /// Returns the next row, and whether it was added to the base.
    #[inline]
    pub(crate) fn next_row(&mut self) -> Result<Option<([u64; 4], bool)>, StoreError> {
        loop {
            let row = self.base.head();
            match (row, self.change) {
                (None, None) => return Ok(None),
                (Some(row), None) => {
                    self.base.advance()?;
                    return Ok(Some((row, false)));
                }
                (Some(row), Some((change, _))) if row < change => {
                    self.base.advance()?;
                    return Ok(Some((row, false)));
                }
                (row, Some((change, added))) => {
                    if (row == Some(change)) == added {
                        let what = match added {
                            true => "adds a quad that the base has",
                            false => "removes a quad that the base does not have",
                        };
                        let message = format!("one of them {what}: {change:x?}");
                        return Err(StoreError::corrupt("runs", None, message));
                    }
                    self.change = self.runs.next_row()?;
                    if added {
                        return Ok(Some((change, true)));
                    }
                    self.base.advance()?;
                }
            }
        }
    }
}

/// Writer of orders with new ids.
pub(super) struct OrderCompactor<'r> {
    pub(super) base: &'r Arc<Segment>,
    pub(super) runs: &'r [Arc<DeviceRun>],
    pub(super) mapping: &'r IdMapping,
    /// Upper bound of the number of added rows.
    pub(super) added: u64,
    pub(super) memory_bytes: usize,
    pub(super) space: Arc<RunSpace>,
    pub(super) pace: &'r Pace,
}

impl OrderCompactor<'_> {
    pub(super) fn write(
        &self,
        order: Order,
        mut out: OrderWriter,
    ) -> Result<OrderDirectory, StoreError> {
        let mut added = self.added_rows(order)?;
        let mut current = CurrentRows::new(self.base, self.runs, order)?;
        let mut next_added = added.next()?;
        let mut seen = 0_u64;
        while let Some((row, was_added)) = current.next_row()? {
            seen += 1;
            if seen.is_multiple_of(UNCHECKED) {
                self.pace.check()?;
            }
            if was_added {
                continue;
            }
            let row = self.mapped(row)?;
            while let Some(new) = next_added.filter(|new| *new < row) {
                out.push(new)?;
                next_added = added.next()?;
            }
            out.push(row)?;
        }
        while let Some(new) = next_added {
            out.push(new)?;
            next_added = added.next()?;
        }
        out.finish()
    }

    #[inline]
    fn mapped(&self, row: [u64; 4]) -> Result<[u64; 4], StoreError> {
        let mut new = [0; 4];
        for (new, id) in new.iter_mut().zip(row) {
            let mapped = self.mapping.new_id(TermId(id)).ok_or_else(|| {
                let message = format!("{:?} is no term of base or runs", TermId(id));
                StoreError::corrupt(self.base.folder(), None, message)
            })?;
            *new = mapped.0;
        }
        Ok(new)
    }

    /// Returns the added rows with new ids, sorted.
    fn added_rows(&self, order: Order) -> Result<AddedRows, StoreError> {
        // Half for a chunk, half for sorting it or for reading during the merge.
        let fitting = self.memory_bytes / 2 / size_of::<[u64; 4]>();
        let fits = self.added <= fitting as u64;
        let plan = SortPlan {
            chunk_rows: match fits {
                true => (self.added as usize).max(1),
                false => fitting.max(CHUNK_ROWS_MIN),
            },
            file: (!fits).then(|| self.space.file("rows that were added")),
            spare: Mutex::new(Vec::new()),
        };
        let mut sorter = RowSorter::<[u64; 4]>::new(&plan, 0..0);
        let mut scratch = Vec::new();
        let mut rows = RunRows::new(self.runs, order)?;
        let mut block = Vec::with_capacity(BLOCK_ROWS);
        while let Some((row, added)) = rows.next_row()? {
            if added {
                block.push(self.mapped(row)?);
            }
            if block.len() == BLOCK_ROWS {
                self.pace.check()?;
                sorter.extend(block.drain(..), &mut scratch)?;
            }
        }
        sorter.extend(block.drain(..), &mut scratch)?;
        let runs = sorter.finish(&mut scratch)?;
        plan.shrink();
        Ok(AddedRows {
            rows: MergedRows::new(runs, READ_BYTES)?,
            block,
            next: 0,
        })
    }
}

/// Sorted rows, one after the other.
struct AddedRows {
    rows: MergedRows<[u64; 4]>,
    block: Vec<[u64; 4]>,
    next: usize,
}

impl AddedRows {
    #[inline]
    fn next(&mut self) -> Result<Option<[u64; 4]>, StoreError> {
        if self.next == self.block.len() {
            self.next = 0;
            if !self.rows.next_block(&mut self.block, BLOCK_ROWS)? {
                return Ok(None);
            }
        }
        self.next += 1;
        Ok(Some(self.block[self.next - 1]))
    }
}
