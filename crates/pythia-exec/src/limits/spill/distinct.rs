//! Deduplication of any number of rows.
//!
//! While memory lasts, rows go into a set. Then the set is frozen: rows in it are still recognised, and all
//! others are put off to partitions of a file. The partitions are processed in passes, each with a new set,
//! and with new partitions if that set is full too. The first set may be in parts, on which several threads work.

use std::sync::Arc;

use parking_lot::Mutex;

use super::partition::Partitions;
use super::rows::RowRun;
use super::table::{RowSet, hash_ids};
use crate::error::QueryError;
use crate::limits::exchange::{Divided, PARTS, PARTS_BYTES_MIN, Parted, ROWS_MIN, part_of};
use crate::limits::fork::fork;
use crate::limits::governor::{Governor, Share};

/// Number of rows for which memory is reserved at a time.
const ROOM_ROWS: usize = 256;

/// Largest share of new rows, as one in this many, after which rows are not divided while the set is small.
const KNOWN_PART: usize = 8;
/// Number of rows of a set that fits into the processor's cache.
const SMALL_SET: usize = 1 << 15;

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
    /// The memory of all parts, and that of the partitions.
    share: Share,
    /// Rows are equal if this many leading columns are; the other columns are carried along.
    key_width: usize,
    width: usize,
    parts: Vec<Mutex<Part>>,
    /// Ids of rows of one column that are in the set.
    recent: RecentIds,
    /// True if few of the rows that came last were new.
    are_known: bool,
    level: u32,
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
        Self::within(Share::new(governor), key_width, carried)
    }

    /// Makes a set within the limits of a share.
    pub(crate) fn within(share: Share, key_width: usize, carried: usize) -> Self {
        let mut rows = Self {
            share,
            key_width,
            width: key_width + carried,
            parts: Vec::new(),
            recent: RecentIds::new(),
            are_known: false,
            level: 0,
            put_off: None,
        };
        rows.open(0, 1);
        rows
    }

    /// Divides the set into parts for several threads, if there is enough memory. No row has been offered yet.
    pub(crate) fn parted(mut self) -> Self {
        if self.key_width > 0 && self.share.limit() >= PARTS_BYTES_MIN {
            self.open(0, PARTS);
        }
        self
    }

    /// Begins a pass.
    fn open(&mut self, level: u32, parts: usize) {
        self.level = level;
        self.recent = RecentIds::new();
        let part = |_| {
            Mutex::new(Part::new(
                self.key_width,
                level,
                self.share.part(),
                parts == 1,
            ))
        };
        self.parts = (0..parts).map(part).collect();
    }

    /// Adds a row.
    pub(crate) fn offer(&mut self, row: &[u64]) -> Result<Offered, QueryError> {
        debug_assert_eq!(row.len(), self.width);
        let key = &row[..self.key_width];
        let recent = match key {
            &[id] if id != RecentIds::NONE => Some(self.recent.place(id)),
            _ => None,
        };
        if recent.as_ref().is_some_and(|recent| **recent == key[0]) {
            return Ok(Offered::Seen);
        }
        let hash = hash_ids(key.iter().copied(), self.level);
        let part = match self.parts.len() {
            1 => 0,
            _ => part_of(hash),
        };
        let offered = self.parts[part].get_mut().offer(hash, key)?;
        match (offered, recent) {
            (Offered::PutOff, _) => self.put_off(row)?,
            (_, Some(recent)) => *recent = key[0],
            _ => {}
        }
        Ok(offered)
    }

    /// Adds rows, given by column, on all free cores. Their numbers, which follow `number`, are carried along. Returns which
    /// of them are new, in order.
    pub(crate) fn offer_all(
        &mut self,
        keys: &[&[u64]],
        rows: usize,
        number: u64,
    ) -> Result<Vec<u32>, QueryError> {
        let mut row = vec![0; self.width];
        let fill = |row: &mut [u64], place: usize| {
            for (id, column) in row.iter_mut().zip(keys) {
                *id = column[place];
            }
            *row.last_mut().expect("a row has a number") = number + place as u64;
        };
        let mut new = Vec::new();
        if self.parts.len() == 1 || rows < ROWS_MIN || self.is_small_and_known() {
            for place in 0..rows {
                fill(&mut row, place);
                if self.offer(&row)? == Offered::New {
                    new.push(place as u32);
                }
            }
            self.are_known = new.len() < rows / KNOWN_PART;
            return Ok(new);
        }
        let mut are_new = vec![false; rows];
        let mut later = Vec::new();
        for offered in self.offer_parted(keys, rows)? {
            offered
                .new
                .iter()
                .for_each(|&place| are_new[place as usize] = true);
            later.extend(offered.put_off);
        }
        if let Some(&first) = later.iter().min() {
            // Rows after one that is put off come after it, whichever parts they are in.
            let after = first..rows as u32;
            later.extend(after.filter(|&place| std::mem::take(&mut are_new[place as usize])));
        }
        later.sort_unstable();
        for place in later {
            fill(&mut row, place as usize);
            self.put_off(&row)?;
        }
        new.extend((0..rows as u32).filter(|&place| are_new[place as usize]));
        self.are_known = new.len() < rows / KNOWN_PART;
        Ok(new)
    }

    /// Returns whether rows are looked up faster than they are divided.
    fn is_small_and_known(&mut self) -> bool {
        let parts = self.parts.iter_mut();
        self.are_known && parts.map(|part| part.get_mut().set.len()).sum::<usize>() < SMALL_SET
    }

    /// Adds rows to all parts on all free cores.
    fn offer_parted(&self, keys: &[&[u64]], rows: usize) -> Result<Vec<PartOffered>, QueryError> {
        let cores = self.share.governor().cores();
        let divided = Divided::new(cores, rows, |rows| {
            let keys: Vec<&[u64]> = keys.iter().map(|column| &column[rows.clone()]).collect();
            Parted::of(&keys, rows.len())
        })?;
        fork(cores, self.parts.len(), |part| {
            self.share.governor().check()?;
            let mut set = self.parts[part].lock();
            let mut offered = PartOffered::default();
            let mut key = vec![0; self.key_width];
            for row in divided.rows(part) {
                for (id, column) in key.iter_mut().zip(keys) {
                    *id = column[row];
                }
                match set.offer(hash_ids(key.iter().copied(), 0), &key)? {
                    Offered::New => offered.new.push(row as u32),
                    Offered::Seen => {}
                    Offered::PutOff => offered.put_off.push(row as u32),
                }
            }
            Ok(offered)
        })
    }

    /// Puts a row off to a later pass. From the first one on, all new rows are put off.
    fn put_off(&mut self, row: &[u64]) -> Result<(), QueryError> {
        if self.put_off.is_none() {
            let parts = self.parts.iter_mut();
            parts.for_each(|part| part.get_mut().is_full = true);
            self.share.require(self.share.buffer_bytes())?;
            self.put_off = Some(Partitions::create(&self.share, self.width)?);
        }
        let partitions = self.put_off.as_mut().expect("made before");
        let key = row[..self.key_width].iter().copied();
        partitions.push(hash_ids(key, self.level), row)
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
        self.close(&mut open)?;
        let mut rows = Vec::new();
        let mut pass = 0;
        while let Some((level, run)) = open.pop() {
            self.open(level, 1);
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
            self.close(&mut open)?;
            pass += 1;
        }
        Ok(())
    }

    /// Ends a pass: drops its set, and opens its partitions.
    fn close(&mut self, open: &mut Vec<(u32, RowRun)>) -> Result<(), QueryError> {
        self.parts.clear();
        if let Some(partitions) = self.put_off.take() {
            let runs = partitions.finish()?.into_iter().filter(|r| r.rows() > 0);
            open.extend(runs.map(|run| (self.level + 1, run)));
        }
        self.share.require(0)
    }

    /// Returns the block size of files for the drained rows. The share has room for one block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.share.block_bytes()
    }
}

/// The rows that a part was offered and does not have yet.
#[derive(Default)]
struct PartOffered {
    new: Vec<u32>,
    put_off: Vec<u32>,
}

/// The rows of some keys in memory.
#[derive(Debug)]
struct Part {
    share: Share,
    set: RowSet,
    /// Number of rows that can be added before more memory must be reserved.
    room: usize,
    /// True once there is no memory for more rows.
    is_full: bool,
    /// True if these are the rows of all keys. Then the first row is added even if there is no memory for it: without at
    /// least one row in memory, passes would never end.
    is_alone: bool,
}

impl Part {
    fn new(key_width: usize, level: u32, share: Share, is_alone: bool) -> Self {
        Self {
            share,
            set: RowSet::new(key_width, level),
            room: 0,
            is_full: false,
            is_alone,
        }
    }

    /// Adds a row, unless there is no memory for it.
    fn offer(&mut self, hash: u64, key: &[u64]) -> Result<Offered, QueryError> {
        if self.set.find(hash, key).is_some() {
            return Ok(Offered::Seen);
        }
        if !self.has_room()? {
            return Ok(Offered::PutOff);
        }
        self.set.insert_new(hash, key);
        self.room -= 1;
        Ok(Offered::New)
    }

    /// Returns whether a row can be added. Once it cannot, no other can.
    fn has_room(&mut self) -> Result<bool, QueryError> {
        if self.is_full || self.room > 0 {
            return Ok(!self.is_full);
        }
        let bytes = self.set.bytes_with(ROOM_ROWS);
        if !self.share.fits(bytes) {
            if self.set.len() > 0 || !self.is_alone {
                self.share.require(self.set.bytes_with(0))?;
                self.is_full = true;
                return Ok(false);
            }
            self.share.require(bytes)?;
        }
        self.room = ROOM_ROWS;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::num::NonZero;

    use super::super::SpillSpace;
    use super::*;
    use crate::limits::cores::Cores;
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
    fn parts_find_the_same_rows_with_any_memory_and_number_of_threads() {
        const ROWS: u64 = 900_000;
        let cell = |n: u64| [n * n % 700_001, n % 3];
        // Some batches have known rows, and some are small.
        let batch = |start: u64| match start % 120_000 {
            0 => start / 2..start / 2 + 30_000,
            30_000 => start..start + 100,
            _ => start..start + 30_000,
        };
        for (budget, threads) in [(64 << 10, 1), (24 << 20, 4), (1 << 30, 1), (1 << 30, 4)] {
            let governor = Governor::with_memory(budget);
            let cores = Arc::new(Cores::new(NonZero::new(threads)));
            let governor = Arc::new(governor.with_cores(&cores));
            let mut distinct = DistinctRows::new(&governor, 2, 1).parted();
            assert_eq!(distinct.parts.len() > 1, budget > 1 << 20);
            let rows: Vec<u64> = (0..ROWS).step_by(30_000).flat_map(batch).collect();
            let (mut found, mut offered): (Vec<[u64; 3]>, usize) = (Vec::new(), 0);
            for start in (0..ROWS).step_by(30_000) {
                let rows = &rows[offered..offered + batch(start).count()];
                let columns = [0, 1].map(|c| rows.iter().map(|n| cell(*n)[c]).collect::<Vec<_>>());
                let columns = [&*columns[0], &*columns[1]];
                let new = distinct
                    .offer_all(&columns, rows.len(), offered as u64)
                    .unwrap();
                assert!(new.is_sorted());
                let row = |row: u32| (cell(rows[row as usize]), u64::from(row) + offered as u64);
                found.extend(
                    new.into_iter()
                        .map(row)
                        .map(|([a, b], number)| [a, b, number]),
                );
                offered += rows.len();
            }
            assert_eq!(distinct.has_put_off(), budget < 1 << 30);
            let mut last = (0, found.last().map_or(0, |row| row[2]));
            let returned = last.1;
            let each = |pass, row: &[u64]| {
                assert!(returned < row[2], "new rows come before those put off");
                assert!(last.0 < pass || last.1 <= row[2]);
                last = (pass, row[2]);
                found.push(row.try_into().unwrap());
                Ok(())
            };
            distinct.drain(each).unwrap();
            found.sort_unstable();
            let mut seen = HashSet::new();
            let mut expected = Vec::new();
            for (number, n) in (0..).zip(rows) {
                if seen.insert(cell(n)) {
                    expected.push([cell(n)[0], cell(n)[1], number]);
                }
            }
            expected.sort_unstable();
            assert!(found == expected, "budget {budget}, {threads} threads");
            assert_eq!(governor.memory_used(), 0);
            cores.wait_until_idle();
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
