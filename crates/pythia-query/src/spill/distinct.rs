//! Distinct rows, however many there are.
//!
//! As long as memory lasts, rows go into a set. Then the set is frozen: rows in it are still
//! recognised, all others are put off to partitions of a file. Those are worked off in passes,
//! each with a set of its own, and with partitions of its own if that set is full, too.

use std::sync::Arc;

use super::partition::Partitions;
use super::rows::RowRun;
use super::table::RowSet;
use crate::error::QueryError;
use crate::governor::{Governor, Share};

/// Memory is asked for this many rows at a time.
const ROOM_ROWS: usize = 256;

/// A set of rows that outgrows memory.
#[derive(Debug)]
pub(crate) struct DistinctRows {
    share: Share,
    /// Rows are the same if these many first columns are; the others are carried along.
    key_width: usize,
    width: usize,
    set: RowSet,
    /// How many rows can be added before memory must be asked for.
    room: usize,
    put_off: Option<Partitions>,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It is the first of its kind.
    New,
    /// One like it came before.
    Seen,
    /// That will be known later, from [`DistinctRows::drain`].
    PutOff,
}

impl DistinctRows {
    pub(crate) fn new(governor: &Arc<Governor>, key_width: usize, carried: usize) -> Self {
        Self {
            share: Share::new(governor),
            key_width,
            width: key_width + carried,
            set: RowSet::new(key_width, 0),
            room: 0,
            put_off: None,
        }
    }

    /// Adds a row.
    pub(crate) fn offer(&mut self, row: &[u64]) -> Result<Offered, QueryError> {
        debug_assert_eq!(row.len(), self.width);
        let key = &row[..self.key_width];
        let hash = self.set.hash(key);
        if self.set.find(hash, key).is_some() {
            return Ok(Offered::Seen);
        }
        if self.put_off.is_none() && self.room == 0 && !self.make_room()? {
            let bytes = self.set.bytes_with(0) + self.share.buffer_bytes();
            self.share.require(bytes)?;
            self.put_off = Some(Partitions::create(&self.share, self.width)?);
        }
        if let Some(partitions) = &mut self.put_off {
            partitions.push(hash, row)?;
            return Ok(Offered::PutOff);
        }
        self.set.insert(hash, key);
        self.room -= 1;
        Ok(Offered::New)
    }

    fn make_room(&mut self) -> Result<bool, QueryError> {
        let bytes = self.set.bytes_with(ROOM_ROWS);
        if !self.share.fits(bytes) {
            if self.set.len() > 0 {
                return Ok(false);
            }
            // Without a row in memory there is no end to putting off.
            self.share.require(bytes)?;
        }
        self.room = ROOM_ROWS;
        Ok(true)
    }

    /// Whether rows were put off.
    pub(crate) fn has_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    /// Gives those of the rows put off that are new, each with the number of its pass. The rows
    /// of one pass come in the order they were offered.
    pub(crate) fn drain(
        mut self,
        mut each: impl FnMut(usize, &[u64]) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let mut open = Vec::new();
        self.close(0, &mut open)?;
        let mut rows = Vec::new();
        let mut pass = 0;
        while let Some((level, run)) = open.pop() {
            self.set = RowSet::new(self.key_width, level);
            let mut reader = run.reader();
            loop {
                self.share.governor().check()?;
                if reader.next_rows(&mut rows)? == 0 {
                    break;
                }
                for row in rows.chunks_exact(self.width) {
                    if self.offer(row)? == Offered::New {
                        each(pass, row)?;
                    }
                }
            }
            drop(reader);
            self.close(level, &mut open)?;
            pass += 1;
        }
        Ok(())
    }

    /// Ends a pass: forgets its set, and opens what it put off.
    fn close(&mut self, level: u32, open: &mut Vec<(u32, RowRun)>) -> Result<(), QueryError> {
        self.set = RowSet::new(self.key_width, level);
        self.room = 0;
        if let Some(partitions) = self.put_off.take() {
            let runs = partitions.finish()?.into_iter().filter(|r| r.rows() > 0);
            open.extend(runs.map(|run| (level + 1, run)));
        }
        self.share.require(0)
    }

    /// The size of blocks for files that the drained rows go to; room for one is kept.
    pub(crate) fn block_bytes(&self) -> usize {
        self.share.block_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpillSpace;
    use super::*;
    use crate::governor::MemoryBudget;

    #[test]
    fn distinct_rows_are_the_same_with_little_memory() {
        for budget in [40 << 10, 100 << 10, 10 << 20] {
            let process = Arc::new(MemoryBudget::new(budget));
            let space = Arc::new(SpillSpace::default());
            let governor = Arc::new(Governor::new(
                Arc::default(),
                None,
                &process,
                budget,
                Arc::clone(&space),
            ));
            let mut distinct = DistinctRows::new(&governor, 2, 1);
            let mut found = Vec::new();
            for n in 0..60_000_u64 {
                let row = [n * 7 % 20_011, 5, n];
                if distinct.offer(&row).unwrap() == Offered::New {
                    found.push(row);
                }
            }
            assert_eq!(distinct.has_put_off(), budget < 1 << 20);
            let mut last = (0, 0);
            distinct
                .drain(|pass, row| {
                    assert!(last < (pass, row[2]) || last == (0, 0));
                    last = (pass, row[2]);
                    found.push(row.try_into().unwrap());
                    Ok(())
                })
                .unwrap();
            found.sort_unstable();
            let mut expected: Vec<[u64; 3]> = (0..20_011).map(|n| [n * 7 % 20_011, 5, n]).collect();
            expected.sort_unstable();
            assert!(found == expected, "budget {budget}");
            assert_eq!((space.used(), process.used()), (0, 0));
        }
    }
}
