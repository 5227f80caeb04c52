//! Rows of ids, in memory and in runs of a file.

use std::sync::Arc;

use super::file::{RunReader, RunWriter, SpillFile, SpilledRun};
use crate::error::QueryError;

/// Approximate bytes of the rows in one block.
const BLOCK_BYTES: usize = 4 << 10;

/// Rows of a fixed number of ids, in blocks that never move: growing copies nothing, and the counted memory
/// is exact.
#[derive(Debug)]
pub struct RowStore {
    width: usize,
    /// A block has `1 << shift` rows.
    shift: u32,
    blocks: Vec<Vec<u64>>,
    rows: usize,
}

impl RowStore {
    /// Creates an empty store for rows of this width.
    pub fn new(width: usize) -> Self {
        let fitting = (BLOCK_BYTES / 8 / width.max(1)).max(1);
        Self {
            width,
            shift: fitting.ilog2(),
            blocks: Vec::new(),
            rows: 0,
        }
    }

    /// Returns the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[u64]) {
        debug_assert_eq!(row.len(), self.width);
        self.open_block().extend_from_slice(row);
        self.rows += 1;
    }

    /// Returns the block of the next row.
    fn open_block(&mut self) -> &mut Vec<u64> {
        let block = self.rows >> self.shift;
        if block == self.blocks.len() {
            self.blocks
                .push(Vec::with_capacity(self.width << self.shift));
        }
        &mut self.blocks[block]
    }

    /// Adds rows that are given by column.
    pub fn push_columns<C: AsRef<[u64]>>(&mut self, columns: &[C], rows: usize) {
        debug_assert_eq!(columns.len(), self.width);
        let (width, block_rows) = (self.width, 1 << self.shift);
        let mut from = 0;
        while from < rows {
            let to = rows.min(from + block_rows - self.rows % block_rows);
            let block = self.open_block();
            let filled = block.len();
            block.resize(filled + (to - from) * width, 0);
            for (place, column) in columns.iter().enumerate() {
                let cells = block[filled + place..].iter_mut().step_by(width);
                for (cell, id) in cells.zip(&column.as_ref()[from..to]) {
                    *cell = *id;
                }
            }
            self.rows += to - from;
            from = to;
        }
    }

    /// Adds the rows of another store of this width.
    pub fn append(&mut self, rows: Self) {
        debug_assert_eq!(rows.width, self.width);
        if self.width == 0 {
            return self.push_columns::<&[u64]>(&[], rows.rows);
        }
        let room = self.width << self.shift;
        for cells in rows.blocks {
            let mut left = &cells[..];
            while !left.is_empty() {
                let block = self.open_block();
                let (cells, later) = left.split_at(left.len().min(room - block.len()));
                block.extend_from_slice(cells);
                self.rows += cells.len() / self.width;
                left = later;
            }
        }
    }

    /// Returns the cells of one column.
    pub fn cells(&self, column: usize) -> impl Iterator<Item = u64> {
        (self.blocks.iter())
            .flat_map(move |block| block[column..].iter().step_by(self.width).copied())
    }

    /// Returns a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        let block = &self.blocks[row >> self.shift];
        let start = (row & ((1 << self.shift) - 1)) * self.width;
        &block[start..start + self.width]
    }

    /// Returns the bytes held after adding `more` rows.
    pub fn bytes_with(&self, more: usize) -> usize {
        let blocks = (self.rows + more).div_ceil(1 << self.shift);
        let directory = blocks
            .max(4)
            .next_power_of_two()
            .max(self.blocks.capacity());
        blocks.max(self.blocks.len()) * ((self.width * 8) << self.shift)
            + directory * size_of::<Vec<u64>>()
    }

    /// Returns the cells of some rows, by column.
    pub fn columns(&self, rows: impl ExactSizeIterator<Item = usize>) -> Vec<Vec<u64>> {
        let mut columns = vec![Vec::with_capacity(rows.len()); self.width];
        for row in rows {
            for (column, &id) in columns.iter_mut().zip(self.row(row)) {
                column.push(id);
            }
        }
        columns
    }
}

/// Writes a run of rows.
#[derive(Debug)]
pub struct RowWriter {
    writer: RunWriter,
    width: usize,
}

impl RowWriter {
    /// Creates a writer of a run of rows of this width.
    pub fn new(file: &Arc<SpillFile>, width: usize, block_bytes: usize) -> Self {
        Self {
            writer: RunWriter::new(file, block_bytes),
            width,
        }
    }

    /// Writes a row.
    pub fn push(&mut self, row: &[u64]) -> Result<(), QueryError> {
        debug_assert_eq!(row.len(), self.width);
        self.writer.push(row.len() * 8, |out| write_ids(row, out))
    }

    /// Ends the run.
    pub fn finish(self) -> Result<RowRun, QueryError> {
        Ok(RowRun {
            run: self.writer.finish()?,
            width: self.width,
        })
    }
}

pub(crate) fn write_ids(row: &[u64], out: &mut Vec<u8>) {
    for id in row {
        out.extend_from_slice(&id.to_le_bytes());
    }
}

/// Appends the ids written by [`write_ids`].
pub(crate) fn read_ids(bytes: &[u8], row: &mut Vec<u64>) {
    let ids = bytes.chunks_exact(8);
    row.extend(ids.map(|id| u64::from_le_bytes(id.try_into().expect("8 bytes"))));
}

/// Rows in a file.
#[derive(Clone, Debug)]
pub struct RowRun {
    run: Arc<SpilledRun>,
    width: usize,
}

impl RowRun {
    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.run.records
    }

    /// Returns a reader at the first row.
    pub fn reader(&self) -> RowReader {
        RowReader {
            reader: RunReader::new(Arc::clone(&self.run)),
            width: self.width,
            left: self.run.records,
        }
    }
}

/// Reads a run of rows from its start.
#[derive(Debug)]
pub struct RowReader {
    reader: RunReader,
    width: usize,
    /// Rows not read yet. Rows without columns are only counted.
    left: u64,
}

impl RowReader {
    /// Reads the rows of the next block into `rows`, one after the other. Returns their number, 0 at the end.
    pub fn next_rows(&mut self, rows: &mut Vec<u64>) -> Result<usize, QueryError> {
        rows.clear();
        if self.width == 0 {
            let count = self.left.min(1024);
            self.left -= count;
            return Ok(count as usize);
        }
        if let Some(block) = self.reader.next_block()? {
            read_ids(block, rows);
        }
        let count = rows.len() / self.width;
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::SpillSpace;
    use super::*;

    #[test]
    fn columns_are_added_as_their_rows() {
        for width in [1, 2, 3, 700] {
            let (mut by_row, mut by_column) = (RowStore::new(width), RowStore::new(width));
            let cell = |row: usize, column: usize| (row * 1000 + column) as u64;
            let mut from = 0;
            for rows in [3, 0, 900, 1, 250, 8] {
                let columns = (0..width)
                    .map(|column| (from..from + rows).map(|row| cell(row, column)).collect())
                    .collect::<Vec<Vec<u64>>>();
                by_column.push_columns(&columns, rows);
                for row in from..from + rows {
                    by_row.push(
                        &(0..width)
                            .map(|column| cell(row, column))
                            .collect::<Vec<_>>(),
                    );
                }
                from += rows;
            }
            assert_eq!(by_column.len(), from);
            assert!((0..from).all(|row| by_column.row(row) == by_row.row(row)));
            assert_eq!(by_column.bytes_with(1), by_row.bytes_with(1));
            let mut parts = RowStore::new(width);
            let part = |rows: Range<usize>| {
                let mut part = RowStore::new(width);
                rows.for_each(|row| part.push(by_row.row(row)));
                part
            };
            for rows in [0..7, 7..7, 7..900, 900..from] {
                parts.append(part(rows));
            }
            assert_eq!(parts.len(), from);
            assert!((0..from).all(|row| parts.row(row) == by_row.row(row)));
            assert_eq!(parts.bytes_with(1), by_row.bytes_with(1));
            let last = by_column.cells(width - 1);
            assert!(last.eq((0..from).map(|row| cell(row, width - 1))));
        }
    }

    #[test]
    fn what_is_counted_is_what_is_allocated() {
        for width in [0, 1, 3, 7, 5000] {
            let mut rows = RowStore::new(width);
            for n in 0..3000_u64 {
                let expected = rows.bytes_with(1);
                rows.push(&vec![n; width]);
                let blocks = rows.blocks.iter().map(|b| b.capacity() * 8);
                let allocated =
                    blocks.sum::<usize>() + rows.blocks.capacity() * size_of::<Vec<u64>>();
                assert_eq!(allocated, expected, "width {width}, row {n}");
                if n > 20 && width > 100 {
                    break;
                }
            }
            assert_eq!(rows.row(2), vec![2; width]);
        }
    }

    #[test]
    fn runs_of_rows_come_back() {
        let space = Arc::new(SpillSpace::default());
        for width in [0, 1, 3] {
            let file = SpillFile::create(&space).unwrap();
            let mut writer = RowWriter::new(&file, width, 100);
            for n in 0..5000 {
                writer.push(&vec![n; width]).unwrap();
            }
            let mut reader = writer.finish().unwrap().reader();
            let (mut rows, mut next) = (Vec::new(), 0);
            loop {
                let count = reader.next_rows(&mut rows).unwrap();
                if count == 0 {
                    break;
                }
                for row in rows.chunks(width.max(1)) {
                    assert_eq!(row, vec![next; width]);
                    next += 1;
                }
                if width == 0 {
                    next += count as u64;
                }
            }
            assert_eq!(next, 5000);
        }
    }
}
