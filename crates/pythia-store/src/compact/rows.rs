//! The rows of one order of a new base: those that stay in order, merged with the others after sorting these.

use std::sync::{Arc, Mutex};

use pythia_rdf::TermId;

use super::UNCHECKED;
use super::mapping::IdMapping;
use crate::StoreError;
use crate::delta::device::{DeviceRun, RunRows, SegmentRows};
use crate::delta::{in_order, quad_of};
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

/// Writer of the orders of a new base.
pub(super) struct OrderCompactor<'r> {
    pub(super) base: &'r Arc<Segment>,
    /// True if the base's quads use only terms of its dictionary.
    pub(super) uses_all_terms: bool,
    pub(super) runs: &'r [Arc<DeviceRun>],
    /// `None`: ids stay the same.
    pub(super) mapping: Option<&'r IdMapping>,
    pub(super) memory_bytes: usize,
    pub(super) space: Arc<RunSpace>,
    pub(super) pace: &'r Pace,
}

impl OrderCompactor<'_> {
    pub(super) fn write(
        &self,
        order: Order,
        out: OrderWriter,
    ) -> Result<OrderDirectory, StoreError> {
        match self.mapping {
            None => self.write_same(order, out),
            Some(mapping) if self.has(order) => self.write_mapped(order, mapping, out),
            Some(mapping) => self.write_sorted(order, mapping, out),
        }
    }

    /// Returns whether base and runs have the order: those of earlier programs may lack one.
    fn has(&self, order: Order) -> bool {
        let of_run = |run: &Arc<DeviceRun>| run.added().paged_file(order).is_some();
        self.base.paged_file(order).is_some() && self.runs.iter().all(of_run)
    }

    /// Writes an order that base or runs lack: sorts all its rows.
    fn write_sorted(
        &self,
        order: Order,
        mapping: &IdMapping,
        mut out: OrderWriter,
    ) -> Result<OrderDirectory, StoreError> {
        let added = self.runs.iter().map(|run| run.entry().added.quads);
        let rows_max = self.base.statistics().quads + added.sum::<u64>();
        let mut sorted = self.sorted(rows_max, mapping, |take| {
            let mut rows = CurrentRows::new(self.base, self.runs, Order::Pso)?;
            let mut seen = 0_u64;
            while let Some((row, _)) = rows.next_row()? {
                seen += 1;
                if seen.is_multiple_of(UNCHECKED) {
                    self.pace.check()?;
                }
                let quad = quad_of(Order::Pso, &row);
                if order.has_graph(quad[3]) {
                    take(in_order(order, &quad))?;
                }
            }
            Ok(())
        })?;
        while let Some(row) = sorted.next()? {
            out.push(row)?;
        }
        out.finish()
    }

    /// Writes the rows as they are.
    fn write_same(&self, order: Order, mut out: OrderWriter) -> Result<OrderDirectory, StoreError> {
        let mut current = CurrentRows::new(self.base, self.runs, order)?;
        let mut seen = 0_u64;
        while let Some((row, _)) = current.next_row()? {
            seen += 1;
            if seen.is_multiple_of(UNCHECKED) {
                self.pace.check()?;
            }
            out.push(row)?;
        }
        out.finish()
    }

    /// Writes the rows with new ids: merges those that stay in order with the others, sorted.
    fn write_mapped(
        &self,
        order: Order,
        mapping: &IdMapping,
        mut out: OrderWriter,
    ) -> Result<OrderDirectory, StoreError> {
        let mut sorted = self.sorted_rows(order, mapping)?;
        let mut current = CurrentRows::new(self.base, self.runs, order)?;
        let mut next_sorted = sorted.next()?;
        let mut seen = 0_u64;
        while let Some((row, was_added)) = current.next_row()? {
            seen += 1;
            if seen.is_multiple_of(UNCHECKED) {
                self.pace.check()?;
            }
            if was_added || self.has_later_term(mapping, row) {
                continue;
            }
            let row = self.mapped(mapping, row)?;
            while let Some(new) = next_sorted.filter(|new| *new < row) {
                out.push(new)?;
                next_sorted = sorted.next()?;
            }
            out.push(row)?;
        }
        while let Some(new) = next_sorted {
            out.push(new)?;
            next_sorted = sorted.next()?;
        }
        out.finish()
    }

    /// Returns whether a row of the base has a term of a run, whose new id may sort anywhere.
    #[inline]
    fn has_later_term(&self, mapping: &IdMapping, row: [u64; 4]) -> bool {
        !self.uses_all_terms && row.iter().any(|&id| mapping.is_later(TermId(id)))
    }

    #[inline]
    fn mapped(&self, mapping: &IdMapping, row: [u64; 4]) -> Result<[u64; 4], StoreError> {
        let mut new = [0; 4];
        for (new, id) in new.iter_mut().zip(row) {
            let mapped = mapping.new_id(TermId(id)).ok_or_else(|| {
                let message = format!("{:?} is no term of base or runs", TermId(id));
                StoreError::corrupt(self.base.folder(), None, message)
            })?;
            *new = mapped.0;
        }
        Ok(new)
    }

    /// Returns the rows whose new ids may sort anywhere, with these ids, sorted.
    fn sorted_rows(&self, order: Order, mapping: &IdMapping) -> Result<SortedRows, StoreError> {
        let added = self.runs.iter().map(|run| run.entry().added.quads);
        let rows_max = added.sum::<u64>()
            + match self.uses_all_terms {
                true => 0,
                false => self.base.statistics().quads,
            };
        self.sorted(rows_max, mapping, |take| {
            self.each_unordered(order, mapping, take)
        })
    }

    /// Returns rows with new ids, sorted. `each` passes on at most `rows_max` rows, with their old ids.
    fn sorted(
        &self,
        rows_max: u64,
        mapping: &IdMapping,
        each: impl FnOnce(&mut dyn FnMut([u64; 4]) -> Result<(), StoreError>) -> Result<(), StoreError>,
    ) -> Result<SortedRows, StoreError> {
        let plan = self.sort_plan(rows_max);
        let mut sorter = RowSorter::<[u64; 4]>::new(&plan, 0..0);
        let mut scratch = Vec::new();
        let mut block = Vec::with_capacity(BLOCK_ROWS);
        let mut seen = 0_u64;
        each(&mut |row| {
            block.push(self.mapped(mapping, row)?);
            seen += 1;
            if seen.is_multiple_of(UNCHECKED) {
                self.pace.check()?;
            }
            if block.len() == BLOCK_ROWS {
                sorter.extend(block.drain(..), &mut scratch)?;
            }
            Ok(())
        })?;
        sorter.extend(block.drain(..), &mut scratch)?;
        let runs = sorter.finish(&mut scratch)?;
        plan.shrink();
        Ok(SortedRows {
            rows: MergedRows::new(runs, READ_BYTES)?,
            block,
            next: 0,
        })
    }

    fn sort_plan(&self, rows_max: u64) -> SortPlan<[u64; 4]> {
        // Half for a chunk, half for sorting it or for reading during the merge.
        let fitting = self.memory_bytes / 2 / size_of::<[u64; 4]>();
        let fits = rows_max <= fitting as u64;
        SortPlan {
            chunk_rows: match fits {
                true => (rows_max as usize).max(1),
                false => fitting.max(CHUNK_ROWS_MIN),
            },
            file: (!fits).then(|| self.space.file("rows that were added")),
            spare: Mutex::new(Vec::new()),
        }
    }

    /// Calls `f` with each row whose new ids may sort anywhere: added rows, and the base's rows with a term of a run.
    fn each_unordered(
        &self,
        order: Order,
        mapping: &IdMapping,
        f: &mut dyn FnMut([u64; 4]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.uses_all_terms {
            let mut rows = RunRows::new(self.runs, order)?;
            while let Some((row, added)) = rows.next_row()? {
                if added {
                    f(row)?;
                }
            }
            return Ok(());
        }
        let mut current = CurrentRows::new(self.base, self.runs, order)?;
        let mut seen = 0_u64;
        while let Some((row, added)) = current.next_row()? {
            seen += 1;
            if seen.is_multiple_of(UNCHECKED) {
                self.pace.check()?;
            }
            if added || self.has_later_term(mapping, row) {
                f(row)?;
            }
        }
        Ok(())
    }
}

/// Sorted rows, one after the other.
struct SortedRows {
    rows: MergedRows<[u64; 4]>,
    block: Vec<[u64; 4]>,
    next: usize,
}

impl SortedRows {
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
