//! Runs of rows sorted by a byte key, and their merge.

use std::cmp::Ordering;
use std::sync::Arc;

use super::file::{RunReader, RunWriter, SpillFile, SpilledRun};
use super::rows::{read_ids, write_ids};
use crate::error::QueryError;
use crate::limits::governor::Share;

/// Writes a run of rows with their keys, in sorted order. A record is the key's length, the key and the row's
/// ids.
#[derive(Debug)]
pub(crate) struct SortedWriter(RunWriter);

impl SortedWriter {
    pub(crate) fn new(file: &Arc<SpillFile>, block_bytes: usize) -> Self {
        Self(RunWriter::new(file, block_bytes))
    }

    pub(crate) fn push(&mut self, key: &[u8], row: &[u64]) -> Result<(), QueryError> {
        self.0.push(4 + key.len() + row.len() * 8, |out| {
            out.extend_from_slice(&(key.len() as u32).to_le_bytes());
            out.extend_from_slice(key);
            write_ids(row, out);
        })
    }

    pub(crate) fn finish(self) -> Result<SortedRun, QueryError> {
        Ok(SortedRun(self.0.finish()?))
    }
}

/// A sorted run.
#[derive(Debug)]
pub(crate) struct SortedRun(Arc<SpilledRun>);

/// The current record of a run.
struct Cursor {
    reader: RunReader,
    row_bytes: usize,
    /// Range of the record's key in the block.
    key: (usize, usize),
    /// First bytes of the key.
    prefix: u64,
    /// Number of the run, which orders rows with equal keys.
    number: usize,
}

impl Cursor {
    fn key(&self) -> &[u8] {
        &self.reader.block()[self.key.0..self.key.1]
    }

    fn row(&self) -> &[u8] {
        &self.reader.block()[self.key.1..self.key.1 + self.row_bytes]
    }

    /// Moves to the next record. Returns false at the end.
    fn advance(&mut self) -> Result<bool, QueryError> {
        let mut start = match self.key {
            (_, 0) => 0,
            (_, end) => end + self.row_bytes,
        };
        if start >= self.reader.block().len() {
            if self.reader.next_block()?.is_none() {
                return Ok(false);
            }
            start = 0;
        }
        let block = self.reader.block();
        let length: [u8; 4] = block[start..start + 4].try_into().expect("4 bytes");
        let length = u32::from_le_bytes(length) as usize;
        self.key = (start + 4, start + 4 + length);
        let mut prefix = [0; 8];
        let key = &block[start + 4..start + 4 + length.min(8)];
        prefix[..key.len()].copy_from_slice(key);
        self.prefix = u64::from_be_bytes(prefix);
        Ok(true)
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.prefix
            .cmp(&other.prefix)
            .then_with(|| self.key().cmp(other.key()))
            .then(self.number.cmp(&other.number))
    }
}

/// The rows of sorted runs in order; equal rows in the order of their runs.
pub(crate) struct Merge {
    /// A binary heap with the least cursor first.
    cursors: Vec<Cursor>,
    width: usize,
    share: Share,
}

impl Merge {
    /// Merges runs of rows with `width` ids. If not all fit into the share's memory at once, neighbouring
    /// runs are merged into one first.
    pub(crate) fn new(
        mut runs: Vec<SortedRun>,
        width: usize,
        share: Share,
    ) -> Result<Self, QueryError> {
        let mut merge = Self {
            cursors: Vec::new(),
            width,
            share,
        };
        loop {
            let block = merge.share.block_bytes();
            let room = merge.share.rows_limit().saturating_sub(block);
            let groups = group(runs, room);
            if groups.len() == 1 {
                let only = groups.into_iter().next().expect("one group");
                merge.open(only, 0)?;
                return Ok(merge);
            }
            let file = SpillFile::create(merge.share.governor().spill())?;
            runs = Vec::with_capacity(groups.len());
            for group in groups {
                merge.open(group, block)?;
                let mut writer = SortedWriter::new(&file, block);
                merge.rewrite(&mut writer)?;
                runs.push(writer.finish()?);
            }
        }
    }

    fn open(&mut self, runs: Vec<SortedRun>, more_bytes: usize) -> Result<(), QueryError> {
        let bytes: usize = runs.iter().map(|run| run.0.block_bytes_max()).sum();
        self.share.require(bytes + more_bytes)?;
        self.cursors.clear();
        for (number, run) in runs.into_iter().enumerate() {
            let mut cursor = Cursor {
                reader: RunReader::new(run.0),
                row_bytes: self.width * 8,
                key: (0, 0),
                prefix: 0,
                number,
            };
            if cursor.advance()? {
                self.cursors.push(cursor);
            }
        }
        self.cursors.sort_by(Cursor::compare);
        Ok(())
    }

    fn rewrite(&mut self, writer: &mut SortedWriter) -> Result<(), QueryError> {
        let mut row = Vec::with_capacity(self.width);
        let mut written = 0_usize;
        while let Some(cursor) = self.cursors.first() {
            if written.is_multiple_of(1024) {
                self.share.governor().check()?;
            }
            written += 1;
            row.clear();
            read_ids(cursor.row(), &mut row);
            writer.push(cursor.key(), &row)?;
            self.step()?;
        }
        Ok(())
    }

    /// Moves past the first record.
    fn step(&mut self) -> Result<(), QueryError> {
        if !self.cursors[0].advance()? {
            self.cursors.swap_remove(0);
        }
        let cursors = &mut self.cursors;
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < cursors.len() && cursors[child].compare(&cursors[least]).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return Ok(());
            }
            cursors.swap(at, least);
            at = least;
        }
    }

    /// Returns the next rows by column, at most `rows_max`; no rows at the end.
    pub(crate) fn next_columns(
        &mut self,
        rows_max: usize,
    ) -> Result<(Vec<Vec<u64>>, usize), QueryError> {
        self.share.governor().check()?;
        let mut columns = vec![Vec::new(); self.width];
        let (mut row, mut rows) = (Vec::with_capacity(self.width), 0);
        while rows < rows_max
            && let Some(cursor) = self.cursors.first()
        {
            row.clear();
            read_ids(cursor.row(), &mut row);
            for (column, id) in columns.iter_mut().zip(&row) {
                column.push(*id);
            }
            rows += 1;
            self.step()?;
        }
        Ok((columns, rows))
    }
}

/// Groups neighbouring runs whose blocks fit into `room` together, at least two to a group.
fn group(runs: Vec<SortedRun>, room: usize) -> Vec<Vec<SortedRun>> {
    let mut groups: Vec<Vec<SortedRun>> = vec![Vec::new()];
    let mut bytes = 0;
    for run in runs {
        let block = run.0.block_bytes_max();
        let last = groups.last_mut().expect("never empty");
        if last.len() >= 2 && bytes + block > room {
            groups.push(vec![run]);
            bytes = block;
        } else {
            last.push(run);
            bytes += block;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::SpillSpace;
    use super::*;
    use crate::limits::governor::{Governor, MemoryBudget};

    #[test]
    fn many_runs_are_merged_in_order_with_little_memory() {
        for budget in [30 << 10, 1 << 20] {
            let process = Arc::new(MemoryBudget::new(budget));
            let space = Arc::new(SpillSpace::default());
            let governor = Arc::new(Governor::new(
                Arc::default(),
                None,
                &process,
                budget,
                Arc::clone(&space),
            ));
            let file = SpillFile::create(&space).unwrap();
            let mut runs = Vec::new();
            for run in 0..50_u64 {
                let mut writer = SortedWriter::new(&file, 1024);
                for n in 0..run * 10 {
                    let key = n / 3 * 3;
                    writer.push(&key.to_be_bytes(), &[key, run, n]).unwrap();
                }
                runs.push(writer.finish().unwrap());
            }
            drop(file);
            let mut merge = Merge::new(runs, 3, Share::new(&governor)).unwrap();
            let mut found = Vec::new();
            loop {
                let (columns, rows) = merge.next_columns(100).unwrap();
                if rows == 0 {
                    break;
                }
                found.extend((0..rows).map(|r| [columns[0][r], columns[1][r], columns[2][r]]));
            }
            assert_eq!(found.len(), 50 * 49 / 2 * 10);
            assert!(found.is_sorted());
            drop(merge);
            assert_eq!((space.used(), process.used()), (0, 0));
        }
    }
}
