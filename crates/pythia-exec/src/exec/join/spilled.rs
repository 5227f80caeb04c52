//! Joins of inputs that do not fit into memory.
//!
//! Partitions of both inputs with the same keys are joined in turn. If a right partition is still too
//! large, it is partitioned again together with the left one. If that does not help, because it has a
//! single key or none, it is read in chunks, and the left one is matched with each chunk.

use std::ops::Range;

use arrow::array::RecordBatch;

use super::matching::{Current, Matching, Side, Table};
use crate::error::QueryError;
use crate::exec::batch::Batch;
use crate::limits::governor::{Held, Share};
use crate::limits::spill::partition::Partitions;
use crate::limits::spill::rows::{RowReader, RowRun};

/// The most times that solutions are partitioned.
const LEVELS: u32 = 6;

/// One input being partitioned by its keys.
pub(super) struct Partitioned {
    partitions: Partitions,
    side: Side,
    level: u32,
    row: Vec<u64>,
}

impl Partitioned {
    /// Creates partitions whose buffers are charged on top of what the share holds.
    pub(super) fn new(
        share: &mut Share,
        width: usize,
        side: Side,
        level: u32,
    ) -> Result<Self, QueryError> {
        let bytes = share.bytes().saturating_add(share.buffer_bytes());
        share.require(bytes)?;
        Ok(Self {
            partitions: Partitions::create(share, width)?,
            side,
            level,
            row: vec![0; width],
        })
    }

    /// Reduces the share to the buffers.
    pub(super) fn settle(&self, share: &mut Share) -> Result<(), QueryError> {
        share.require(share.buffer_bytes())
    }

    /// Adds the rows whose keys have a hash that `keeps` accepts.
    pub(super) fn push(
        &mut self,
        matching: &Matching,
        columns: &[&[u64]],
        rows: Range<usize>,
        mut keeps: impl FnMut(u64) -> bool,
    ) -> Result<(), QueryError> {
        let mut row = std::mem::take(&mut self.row);
        for number in rows {
            for (cell, column) in row.iter_mut().zip(columns) {
                *cell = column[number];
            }
            let hash = matching.hash(&row, self.side, self.level);
            if keeps(hash) {
                self.partitions.push(hash, &row)?;
            }
        }
        self.row = row;
        Ok(())
    }

    /// Adds a row, and returns the hash of its keys.
    pub(super) fn push_row(&mut self, matching: &Matching, row: &[u64]) -> Result<u64, QueryError> {
        let hash = matching.hash(row, self.side, self.level);
        self.partitions.push(hash, row)?;
        Ok(hash)
    }

    pub(super) fn finish(self) -> Result<Vec<RowRun>, QueryError> {
        self.partitions.finish()
    }
}

/// A pair of partitions with the same keys.
struct Pair {
    left: RowRun,
    right: RowRun,
    /// Number of times that the rows were partitioned.
    level: u32,
    /// True if partitioning them again may help.
    divisible: bool,
}

/// Both inputs in files, being joined.
pub(super) struct Spilled {
    /// The columns of a left and of a right solution.
    widths: (usize, usize),
    pairs: Vec<Pair>,
    active: Option<Active>,
}

/// The pair being joined: a chunk of its right rows, and the left rows read against it.
struct Active {
    left: RowRun,
    left_reader: RowReader,
    /// Left rows read against this chunk.
    left_read: usize,
    right_reader: RowReader,
    /// Right rows read and not yet in a chunk.
    right_next: Vec<u64>,
    right_next_rows: usize,
    table: Table,
    current: Option<Current>,
    /// Marks of the left rows that have found a match in earlier chunks, if there are any.
    matched: Vec<bool>,
    matched_held: Held,
    is_last: bool,
}

impl Spilled {
    pub(super) fn new(
        left: Vec<RowRun>,
        right: Vec<RowRun>,
        widths: (usize, usize),
        matching: &Matching,
    ) -> Self {
        let mut spilled = Self {
            widths,
            pairs: Vec::new(),
            active: None,
        };
        spilled.add_pairs(left, right, 1, matching);
        spilled
    }

    fn add_pairs(
        &mut self,
        left: Vec<RowRun>,
        right: Vec<RowRun>,
        level: u32,
        matching: &Matching,
    ) {
        let all: u64 = right.iter().map(RowRun::rows).sum();
        for (left, right) in left.into_iter().zip(right) {
            let pointless = right.rows() == 0 && matching.wants_matches();
            if left.rows() == 0 || pointless {
                continue;
            }
            self.pairs.push(Pair {
                divisible: matching.has_keys() && level < LEVELS && right.rows() < all / 10 * 9,
                left,
                right,
                level,
            });
        }
    }

    /// Returns the next joined solutions.
    pub(super) fn next(
        &mut self,
        matching: &Matching,
        share: &mut Share,
    ) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            matching.context().check()?;
            let Some(active) = &mut self.active else {
                let Some(pair) = self.pairs.pop() else {
                    return Ok(None);
                };
                self.active = self.open(pair, matching, share)?;
                continue;
            };
            if active.current.is_some() || active.read_left(self.widths.0)? {
                let batch = active.join_on(matching)?;
                if batch.is_some() {
                    return Ok(batch);
                }
            } else if active.is_last {
                self.active = None;
                share.require(0)?;
            } else {
                active.next_chunk(self.widths.1, matching, share)?;
            }
        }
    }

    /// Starts with a pair, or partitions it again.
    fn open(
        &mut self,
        pair: Pair,
        matching: &Matching,
        share: &mut Share,
    ) -> Result<Option<Active>, QueryError> {
        let mut active = Active {
            left_reader: pair.left.reader(),
            left_read: 0,
            right_reader: pair.right.reader(),
            right_next: Vec::new(),
            right_next_rows: 0,
            table: Table::new(self.widths.1, pair.level),
            current: None,
            matched: Vec::new(),
            matched_held: Held::new(matching.context().governor()),
            is_last: false,
            left: pair.left.clone(),
        };
        active.fill(self.widths.1, matching, share)?;
        if active.is_last || !pair.divisible {
            active.start_chunk(matching)?;
            return Ok(Some(active));
        }
        drop(active);
        share.require(0)?;
        let left = deal_out(
            &pair.left,
            self.widths.0,
            Side::Left,
            pair.level,
            matching,
            share,
        )?;
        let right = deal_out(
            &pair.right,
            self.widths.1,
            Side::Right,
            pair.level,
            matching,
            share,
        )?;
        self.add_pairs(left, right, pair.level + 1, matching);
        Ok(None)
    }
}

/// Partitions a partition again.
fn deal_out(
    run: &RowRun,
    width: usize,
    side: Side,
    level: u32,
    matching: &Matching,
    share: &mut Share,
) -> Result<Vec<RowRun>, QueryError> {
    let mut partitioned = Partitioned::new(share, width, side, level)?;
    let (mut reader, mut rows) = (run.reader(), Vec::new());
    while reader.next_rows(&mut rows)? > 0 {
        matching.context().check()?;
        for row in rows.chunks_exact(width) {
            partitioned.push_row(matching, row)?;
        }
    }
    let runs = partitioned.finish();
    share.require(0)?;
    runs
}

impl Active {
    /// Reads right rows into the table until memory or the rows run out.
    fn fill(
        &mut self,
        width: usize,
        matching: &Matching,
        share: &mut Share,
    ) -> Result<(), QueryError> {
        loop {
            matching.context().check()?;
            if self.right_next_rows == 0 {
                self.right_next_rows = self.right_reader.next_rows(&mut self.right_next)?;
            }
            if self.right_next_rows == 0 {
                self.is_last = true;
                return Ok(());
            }
            // The table, a block of each input, and room for another.
            let bytes = self.table.bytes_with(self.right_next_rows) + 3 * share.block_bytes();
            if !share.fits(bytes) {
                if self.table.len() > 0 {
                    return Ok(());
                }
                share.require(bytes)?;
            }
            for row in 0..self.right_next_rows {
                let cells = &self.right_next[row * width..(row + 1) * width];
                self.table.push_row(cells);
            }
            self.right_next_rows = 0;
        }
    }

    /// Prepares to read the left rows against the table.
    fn start_chunk(&mut self, matching: &Matching) -> Result<(), QueryError> {
        self.table.index(matching);
        self.left_reader = self.left.reader();
        self.left_read = 0;
        if !self.is_last && self.matched.is_empty() && !matching.wants_matches() {
            let rows = usize::try_from(self.left.rows()).expect("fits into memory");
            self.matched_held.set(rows)?;
            self.matched = vec![false; rows];
        }
        Ok(())
    }

    fn next_chunk(
        &mut self,
        width: usize,
        matching: &Matching,
        share: &mut Share,
    ) -> Result<(), QueryError> {
        self.table = Table::new(width, 0);
        share.require(0)?;
        self.fill(width, matching, share)?;
        self.start_chunk(matching)
    }

    /// Continues joining the left rows read last, and drops them when they are finished.
    fn join_on(&mut self, matching: &Matching) -> Result<Option<RecordBatch>, QueryError> {
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        let batch = matching.join_on(&self.table, current)?;
        if current.is_finished() {
            if !self.matched.is_empty() {
                let start = self.left_read - current.matched.len();
                self.matched[start..self.left_read].copy_from_slice(&current.matched);
            }
            self.current = None;
        }
        Ok(batch)
    }

    /// Reads the next left rows; returns false at their end.
    fn read_left(&mut self, width: usize) -> Result<bool, QueryError> {
        let mut rows = Vec::new();
        let count = self.left_reader.next_rows(&mut rows)?;
        if count == 0 {
            return Ok(false);
        }
        let cells = |column| rows.iter().skip(column).step_by(width).copied();
        let columns = (0..width).map(|column| cells(column).collect()).collect();
        let mut current = Current::new(Batch::of(columns, count).into());
        current.decides = self.is_last;
        if !self.matched.is_empty() {
            let earlier = &self.matched[self.left_read..self.left_read + count];
            current.matched.copy_from_slice(earlier);
        }
        self.left_read += count;
        self.current = Some(current);
        Ok(true)
    }
}
