//! External sort of rows: chunks are sorted, kept or encoded as runs, and merged.
//!
//! Rows come in SPO order or unsorted ([`RowSorter::new`] gets the unsorted bits) and leave in order. An encoded run
//! holds each row as its difference from the previous one.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::LoadError;
use super::row::SortRow;
use super::runs::{BLOCK_BYTES, RunFile, RunReader, WrittenRun};
use crate::loser_tree::LoserTree;

/// Rows decoded from a run at a time.
const DECODED_ROWS: usize = 1 << 12;

/// Shared settings of a load's sorters.
#[derive(Debug)]
pub(crate) struct SortPlan<R> {
    /// Rows sorted at a time.
    pub(crate) chunk_rows: usize,
    /// The file that sorted chunks are written to; `None` keeps them in memory.
    pub(crate) file: Option<Arc<RunFile>>,
    /// Memory of chunks that a sorter has finished, for reuse.
    pub(crate) spare: Mutex<Vec<Vec<R>>>,
}

impl<R> SortPlan<R> {
    /// Returns memory for a chunk, reused if possible.
    pub(crate) fn take_chunk(&self) -> Vec<R> {
        let spare = self.spare.lock().expect("nothing panics holding it").pop();
        spare.unwrap_or_else(|| match self.file {
            Some(_) => Vec::with_capacity(self.chunk_rows),
            None => Vec::new(),
        })
    }

    /// Frees the memory kept for chunks.
    pub(crate) fn shrink(&self) {
        *self.spare.lock().expect("nothing panics holding it") = Vec::new();
    }

    /// Takes a chunk's memory back.
    pub(crate) fn return_chunk(&self, mut chunk: Vec<R>) {
        if self.file.is_some() && chunk.capacity() == self.chunk_rows {
            chunk.clear();
            self.spare
                .lock()
                .expect("nothing panics holding it")
                .push(chunk);
        }
    }
}

/// External sorter of any number of rows.
#[derive(Debug)]
pub(crate) struct RowSorter<'a, R> {
    plan: &'a SortPlan<R>,
    bits: Range<u32>,
    chunk: Vec<R>,
    runs: Vec<SortedRun<R>>,
}

/// A sorted chunk.
#[derive(Debug)]
pub(crate) enum SortedRun<R> {
    /// In memory.
    Plain(Vec<R>),
    /// Encoded.
    Coded(WrittenRun),
}

impl<'a, R: SortRow> RowSorter<'a, R> {
    /// Returns a sorter of rows that are already in order except for `bits`.
    pub(crate) fn new(plan: &'a SortPlan<R>, bits: Range<u32>) -> Self {
        Self {
            plan,
            bits,
            chunk: plan.take_chunk(),
            runs: Vec::new(),
        }
    }

    /// Reserves memory for this many rows, to avoid the waste of growing.
    pub(crate) fn expect_rows(&mut self, rows: usize) {
        self.chunk.reserve_exact(rows.min(self.plan.chunk_rows));
    }

    /// Adds rows. Several sorters may use `scratch` in turn.
    pub(crate) fn extend(
        &mut self,
        mut rows: impl Iterator<Item = R>,
        scratch: &mut Vec<R>,
    ) -> Result<(), LoadError> {
        loop {
            let room = self.plan.chunk_rows - self.chunk.len();
            self.chunk.extend(rows.by_ref().take(room));
            if self.chunk.len() < self.plan.chunk_rows {
                return Ok(());
            }
            self.seal(scratch)?;
        }
    }

    /// Ends the current chunk: further rows go to another run.
    pub(crate) fn seal(&mut self, scratch: &mut Vec<R>) -> Result<(), LoadError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        R::sort(&mut self.chunk, scratch, self.bits.clone());
        let Some(file) = &self.plan.file else {
            self.runs
                .push(SortedRun::Plain(std::mem::take(&mut self.chunk)));
            return Ok(());
        };
        let mut run = file.run(BLOCK_BYTES);
        let mut bytes = Vec::new();
        let mut before = R::ZERO;
        for rows in self.chunk.chunks(DECODED_ROWS) {
            bytes.clear();
            for &row in rows {
                row.write_after(before, &mut bytes);
                before = row;
            }
            run.write(&bytes)?;
        }
        self.runs.push(SortedRun::Coded(run.finish()?));
        self.chunk.clear();
        Ok(())
    }

    /// Returns the sorted runs.
    pub(crate) fn finish(mut self, scratch: &mut Vec<R>) -> Result<Vec<SortedRun<R>>, LoadError> {
        self.seal(scratch)?;
        self.plan.return_chunk(self.chunk);
        Ok(self.runs)
    }
}

/// A merge of sorted runs into one stream.
#[derive(Debug)]
pub(crate) struct MergedRows<R> {
    heads: Vec<Head<R>>,
    tree: Option<LoserTree>,
}

/// A run being merged.
#[derive(Debug)]
struct Head<R> {
    /// The least row not yet taken.
    row: R,
    /// Rows in memory; `row` is the one at `at`.
    rows: Vec<R>,
    at: usize,
    /// The source of further rows.
    reader: Option<RunReader>,
}

impl<R: SortRow> Head<R> {
    fn open(run: SortedRun<R>, read_bytes: usize) -> Result<Option<Self>, LoadError> {
        let (rows, reader) = match run {
            SortedRun::Plain(rows) => (rows, None),
            SortedRun::Coded(run) => (Vec::new(), Some(run.into_reader(read_bytes))),
        };
        let mut head = Self {
            row: R::ZERO,
            at: 0,
            rows,
            reader,
        };
        Ok(head.settle()?.then_some(head))
    }

    /// Sets `row` to the one at `at`, reading on if necessary; returns false at the end of the run.
    #[inline]
    fn settle(&mut self) -> Result<bool, LoadError> {
        if let Some(&row) = self.rows.get(self.at) {
            self.row = row;
            return Ok(true);
        }
        self.refill()
    }

    fn refill(&mut self) -> Result<bool, LoadError> {
        let last = self.rows.last().copied();
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        let mut before = last.unwrap_or(R::ZERO);
        self.rows.clear();
        self.at = 0;
        let bytes = reader.peek(DECODED_ROWS * R::CODED_BYTES_MAX)?;
        let ended = bytes.is_empty();
        let mut used = 0;
        while self.rows.len() < DECODED_ROWS
            && let Some((row, taken)) = R::read_after(before, &bytes[used..])
        {
            self.rows.push(row);
            before = row;
            used += taken;
        }
        reader.consume(used);
        match self.rows.first() {
            Some(&row) => {
                self.row = row;
                Ok(true)
            }
            None if ended => Ok(false),
            None => Err(reader.cut_short()),
        }
    }
}

impl<R: SortRow> MergedRows<R> {
    /// Merges `runs`, reading `read_bytes` of each at a time.
    pub(crate) fn new(runs: Vec<SortedRun<R>>, read_bytes: usize) -> Result<Self, LoadError> {
        let mut heads = Vec::with_capacity(runs.len());
        for run in runs {
            heads.extend(Head::open(run, read_bytes)?);
        }
        let mut merged = Self { heads, tree: None };
        merged.plant();
        Ok(merged)
    }

    fn plant(&mut self) {
        let heads = &self.heads;
        self.tree = (heads.len() > 1)
            .then(|| LoserTree::new(heads.len(), |a, b| heads[a].row < heads[b].row));
    }

    /// Replaces the contents of `block` by the next rows, about `rows_max` of them; returns false at the end.
    pub(crate) fn next_block(
        &mut self,
        block: &mut Vec<R>,
        rows_max: usize,
    ) -> Result<bool, LoadError> {
        block.clear();
        while block.len() < rows_max && !self.heads.is_empty() {
            if self.tree.is_some() {
                self.merge_into(block, rows_max)?;
                continue;
            }
            // A single run is copied.
            let head = &mut self.heads[0];
            let until = head.rows.len().min(head.at + rows_max - block.len());
            block.extend_from_slice(&head.rows[head.at..until]);
            head.at = until;
            if !head.settle()? {
                self.heads.clear();
            }
        }
        Ok(!block.is_empty())
    }

    /// Merges until the block is full or a run ends.
    fn merge_into(&mut self, block: &mut Vec<R>, rows_max: usize) -> Result<(), LoadError> {
        let Some(tree) = &mut self.tree else {
            return Ok(());
        };
        while block.len() < rows_max {
            let winner = tree.winner();
            let head = &mut self.heads[winner];
            block.push(head.row);
            head.at += 1;
            if !head.settle()? {
                self.heads.swap_remove(winner);
                self.plant();
                return Ok(());
            }
            let heads = &self.heads;
            tree.replay(|a, b| heads[a].row < heads[b].row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::runs::RunSpace;

    proptest! {
        #[test]
        fn rows_come_back_sorted(
            lists in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..3000), 1..4),
            low in any::<bool>(),
            chunk_rows in 1_usize..900,
            spill in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let plan = SortPlan::<u64> {
                chunk_rows,
                file: spill.then(|| RunSpace::new(folder.path(), 1 << 20, None).file("test")),
                spare: Mutex::new(Vec::new()),
            };
            let mask = if low { 0xfff } else { u64::MAX };
            let mut expected: Vec<u64> = lists.concat().iter().map(|row| row & mask).collect();
            let mut runs = Vec::new();
            let mut scratch = Vec::new();
            for list in &lists {
                let mut sorter = RowSorter::new(&plan, 0..64);
                for rows in list.chunks(700) {
                    sorter.extend(rows.iter().map(|row| row & mask), &mut scratch).expect("sorted");
                }
                runs.extend(sorter.finish(&mut scratch).expect("sorted"));
            }
            let mut merged = MergedRows::new(runs, 1000).expect("opened");
            let mut rows = Vec::new();
            let mut block = Vec::new();
            while merged.next_block(&mut block, 333).expect("merged") {
                prop_assert!(block.len() <= 333);
                rows.extend_from_slice(&block);
            }
            expected.sort_unstable();
            prop_assert_eq!(rows, expected);
        }

        #[test]
        fn rows_of_ids_come_back_from_their_code(
            mut rows in prop::collection::vec(
                prop::array::uniform4(prop_oneof![0..3_u64, any::<u64>()]), 0..200,
            ),
        ) {
            rows.sort_unstable();
            let mut bytes = Vec::new();
            let mut before = SortRow::ZERO;
            for &row in &rows {
                let start = bytes.len();
                row.write_after(before, &mut bytes);
                prop_assert!(bytes.len() - start <= <[u64; 4]>::CODED_BYTES_MAX);
                before = row;
            }
            let (mut before, mut used) = (SortRow::ZERO, 0);
            for row in rows {
                let (read, taken) = SortRow::read_after(before, &bytes[used..]).expect("whole");
                prop_assert_eq!(read, row);
                prop_assert_eq!(<[u64; 4]>::read_after(before, &bytes[used..used + taken - 1]), None);
                (before, used) = (row, used + taken);
            }
        }
    }
}
