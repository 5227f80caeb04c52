//! Deduplication of any number of rows.
//!
//! While memory lasts, rows go into a set. Then the set is frozen: rows in it are still recognised, and all
//! others are put off to partitions of a file. The partitions are processed in passes, each with a new set,
//! and with new partitions if that set is full too.

use std::sync::Arc;

use super::partition::Partitions;
use super::rows::RowRun;
use super::table::RowSet;
use crate::error::QueryError;
use crate::limits::governor::{Governor, Share};

/// Number of rows for which memory is reserved at a time.
const ROOM_ROWS: usize = 256;

/// Number of bits of the number of a place among the recent ids.
const RECENT_BITS: u32 = 6;

/// Ids that were seen, each at the place that its value chooses. Few different ones, such as predicates, are recognised
/// without a search.
#[derive(Debug)]
struct RecentIds(Box<[u64; 1 << RECENT_BITS]>);

impl RecentIds {
    /// No id of a term.
    const NONE: u64 = u64::MAX;

    fn new() -> Self {
        Self(Box::new([Self::NONE; 1 << RECENT_BITS]))
    }

    fn place(&mut self, id: u64) -> &mut u64 {
        let place = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS);
        &mut self.0[place as usize]
    }
}

/// A set of rows that may exceed memory.
#[derive(Debug)]
pub(crate) struct DistinctRows {
    share: Share,
    /// Rows are equal if this many leading columns are; the other columns are carried along.
    key_width: usize,
    width: usize,
    set: RowSet,
    /// Ids of rows of one column that are in the set.
    recent: RecentIds,
    /// Number of rows that can be added before more memory must be reserved.
    room: usize,
    put_off: Option<Partitions>,
}

/// The result of offering a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The row is the first of its kind.
    New,
    /// An equal row came before.
    Seen,
    /// Decided later, by [`DistinctRows::drain`].
    PutOff,
}

impl DistinctRows {
    pub(crate) fn new(governor: &Arc<Governor>, key_width: usize, carried: usize) -> Self {
        Self {
            share: Share::new(governor),
            key_width,
            width: key_width + carried,
            set: RowSet::new(key_width, 0),
            recent: RecentIds::new(),
            room: 0,
            put_off: None,
        }
    }

    /// Adds a row.
    pub(crate) fn offer(&mut self, row: &[u64]) -> Result<Offered, QueryError> {
        debug_assert_eq!(row.len(), self.width);
        let key = &row[..self.key_width];
        if let &[id] = key
            && id != RecentIds::NONE
        {
            if *self.recent.place(id) == id {
                return Ok(Offered::Seen);
            }
            let offered = self.search(row)?;
            if offered != Offered::PutOff {
                *self.recent.place(id) = id;
            }
            return Ok(offered);
        }
        self.search(row)
    }

    /// Searches the set for a row, and adds it if it is new.
    fn search(&mut self, row: &[u64]) -> Result<Offered, QueryError> {
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
        self.set.insert_new(hash, key);
        self.room -= 1;
        Ok(Offered::New)
    }

    fn make_room(&mut self) -> Result<bool, QueryError> {
        let bytes = self.set.bytes_with(ROOM_ROWS);
        if !self.share.fits(bytes) {
            if self.set.len() > 0 {
                return Ok(false);
            }
            // Without at least one row in memory, passes would never end.
            self.share.require(bytes)?;
        }
        self.room = ROOM_ROWS;
        Ok(true)
    }

    /// Returns whether rows were put off.
    pub(crate) fn has_put_off(&self) -> bool {
        self.put_off.is_some()
    }

    /// Calls `each` with the new rows among those put off, each with the number of its pass. The rows of one
    /// pass come in the order in which they were offered.
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
            self.recent = RecentIds::new();
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

    /// Ends a pass: drops its set, and opens its partitions.
    fn close(&mut self, level: u32, open: &mut Vec<(u32, RowRun)>) -> Result<(), QueryError> {
        self.set = RowSet::new(self.key_width, level);
        self.recent = RecentIds::new();
        self.room = 0;
        if let Some(partitions) = self.put_off.take() {
            let runs = partitions.finish()?.into_iter().filter(|r| r.rows() > 0);
            open.extend(runs.map(|run| (level + 1, run)));
        }
        self.share.require(0)
    }

    /// Returns the block size of files for the drained rows. The share has room for one block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.share.block_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpillSpace;
    use super::*;
    use crate::limits::governor::MemoryBudget;

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

    #[test]
    fn ids_of_one_column_are_recognised_in_every_pass() {
        for budget in [40 << 10, 10 << 20] {
            let process = Arc::new(MemoryBudget::new(budget));
            let space = Arc::new(SpillSpace::default());
            let governor = Governor::new(Arc::default(), None, &process, budget, space);
            let mut distinct = DistinctRows::new(&Arc::new(governor), 1, 1);
            let id = |n: u64| match n % 3 {
                0 => u64::MAX - n % 4,
                1 => n % 5,
                _ => n * 7 % 20_011,
            };
            let (mut first, mut found) = (vec![false; 90_000], Vec::new());
            for n in 0..90_000 {
                first[n as usize] = distinct.offer(&[id(n), n]).unwrap() == Offered::New;
            }
            found.extend((0..90_000).filter(|n| first[*n as usize]).map(id));
            let each = |_, row: &[u64]| {
                found.push(row[0]);
                Ok(())
            };
            distinct.drain(each).unwrap();
            found.sort_unstable();
            let mut expected: Vec<u64> = (0..90_000).map(id).collect();
            expected.sort_unstable();
            expected.dedup();
            assert!(found == expected, "budget {budget}");
        }
    }
}
