//! Hash tables of rows by their first columns.

use std::cmp::Ordering;

use hashbrown::HashTable;

use super::rows::RowStore;

/// Hashes some ids. Each `level` is a different function, so that the rows of one partition spread evenly at
/// the next level.
#[inline]
pub(crate) fn hash_ids(ids: impl IntoIterator<Item = u64>, level: u32) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = u64::from(level).wrapping_mul(0xd6e8_feb8_6659_fd93);
    for id in ids {
        hash = (hash.rotate_left(23) ^ id).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 32)
}

/// Distinct rows, numbered in order of insertion.
///
/// Rows often come sorted, as a scan has them. As long as they do, there is no index: a row is known if it is the last one, and
/// new if it is greater. The first smaller one makes the index.
#[derive(Debug)]
pub(crate) struct RowSet {
    rows: RowStore,
    /// The numbers of all rows by their hash, unless the rows are sorted.
    index: HashTable<u32>,
    are_sorted: bool,
    level: u32,
}

impl RowSet {
    pub(crate) fn new(width: usize, level: u32) -> Self {
        Self {
            rows: RowStore::new(width),
            index: HashTable::new(),
            are_sorted: true,
            level,
        }
    }

    pub(crate) fn rows(&self) -> &RowStore {
        &self.rows
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn hash(&self, row: &[u64]) -> u64 {
        hash_ids(row.iter().copied(), self.level)
    }

    /// Returns the number of a row.
    pub(crate) fn find(&mut self, hash: u64, row: &[u64]) -> Option<u32> {
        if self.are_sorted {
            match self.after_last(row) {
                Ordering::Greater => return None,
                Ordering::Equal => return Some(self.rows.len() as u32 - 1),
                Ordering::Less => self.make_index(self.rows.len()),
            }
        }
        self.index
            .find(hash, |&number| {
                are_same(self.rows.row(number as usize), row)
            })
            .copied()
    }

    /// Returns the row's number, and whether it is new.
    pub(crate) fn insert(&mut self, hash: u64, row: &[u64]) -> (u32, bool) {
        match self.find(hash, row) {
            Some(number) => (number, false),
            None => (self.insert_new(hash, row), true),
        }
    }

    /// Adds a row that is not in the set, and returns its number.
    pub(crate) fn insert_new(&mut self, hash: u64, row: &[u64]) -> u32 {
        let number = u32::try_from(self.rows.len()).expect("a set outgrows memory before 2^32");
        if self.are_sorted && self.after_last(row) == Ordering::Greater {
            self.rows.push(row);
            return number;
        }
        if self.are_sorted || self.index.len() == self.index.capacity() {
            self.make_index(self.rows.len().max(self.index.capacity()) + 1);
        }
        self.rows.push(row);
        self.index.insert_unique(hash, number, has_room);
        number
    }

    /// Compares a row with the last one. Rows are short: a call that compares memory costs more.
    #[inline]
    fn after_last(&self, row: &[u64]) -> Ordering {
        match self.rows.len() {
            0 => Ordering::Greater,
            rows => row.iter().cmp(self.rows.row(rows - 1)),
        }
    }

    /// Makes an index for at least this many rows from the rows in their order: looking up the row of each place of the old index
    /// takes several times as long.
    fn make_index(&mut self, capacity: usize) {
        self.are_sorted = false;
        let capacity = capacity.max(self.rows.len());
        self.index = HashTable::new();
        let mut index = HashTable::with_capacity(capacity);
        for number in 0..self.rows.len() {
            let hash = self.hash(self.rows.row(number));
            index.insert_unique(hash, number as u32, has_room);
        }
        self.index = index;
    }

    /// Returns the maximum bytes held while `more` rows are added.
    pub(crate) fn bytes_with(&self, more: usize) -> usize {
        let (old, new) = (self.index.capacity(), self.rows.len() + more);
        let index = if new <= old {
            index_bytes(old)
        } else {
            index_bytes(new.max(old + 1))
        };
        index + self.rows.bytes_with(more)
    }
}

fn has_room(_: &u32) -> u64 {
    unreachable!("the index has room")
}

/// Returns whether two rows of the same width are equal. Rows are short: a call that compares memory costs more.
#[inline]
fn are_same(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(a, b)| a == b)
}

/// Returns the bytes of a hash table for the numbers of this many rows.
pub(crate) fn index_bytes(rows: usize) -> usize {
    let buckets = (rows.max(7) * 8 / 7 + 1).next_power_of_two();
    buckets * (size_of::<u32>() + 1) + 16
}

/// Rows chained by the hash of some columns, for joins. Built once, then only read.
#[derive(Debug, Default)]
pub(crate) struct ChainTable {
    /// By the low bits of the hash: the number of the first row plus one.
    heads: Vec<u32>,
    /// For each row: the number of the next row plus one.
    next: Vec<u32>,
}

impl ChainTable {
    /// Chains rows `0..rows`, each chain in row order.
    pub(crate) fn build(rows: usize, mut hash: impl FnMut(usize) -> u64) -> Self {
        let mut table = Self {
            heads: vec![0; Self::buckets(rows)],
            next: vec![0; rows],
        };
        for row in (0..rows).rev() {
            let head = &mut table.heads[hash(row) as usize & (Self::buckets(rows) - 1)];
            table.next[row] = *head;
            *head = u32::try_from(row + 1).expect("a table outgrows memory before 2^32");
        }
        table
    }

    /// Returns the number plus one of the first row that may have this hash, or 0.
    #[inline]
    pub(crate) fn first(&self, hash: u64) -> u32 {
        match self.heads.len() {
            0 => 0,
            buckets => self.heads[hash as usize & (buckets - 1)],
        }
    }

    /// Returns the next row in the chain, as its number plus one, or 0.
    #[inline]
    pub(crate) fn after(&self, place: u32) -> u32 {
        self.next[place as usize - 1]
    }

    fn buckets(rows: usize) -> usize {
        rows.max(1).next_power_of_two()
    }

    /// Returns the bytes of a table with this many rows.
    pub(crate) fn bytes(rows: usize) -> usize {
        (Self::buckets(rows) + rows) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_numbers_distinct_rows_within_what_it_counts() {
        let mut set = RowSet::new(2, 0);
        for n in 0..20_000_u64 {
            let row = [n % 3000, n % 2];
            let counted = set.bytes_with(1);
            let hash = set.hash(&row);
            let (number, is_new) = set.insert(hash, &row);
            assert_eq!(is_new, n < 3000);
            assert_eq!(u64::from(number), n % 3000);
            let allocated = set.index.allocation_size() + set.rows.bytes_with(0);
            assert!(allocated <= counted, "{n}: {allocated} of {counted}");
            assert!(
                counted < allocated * 2 + 64,
                "{n}: {allocated} of {counted}"
            );
        }
        assert_eq!(set.len(), 3000);
    }

    #[test]
    fn sorted_rows_have_no_index_until_a_smaller_one_comes() {
        let mut set = RowSet::new(2, 0);
        let row = |n: u64| [n / 3, n];
        for n in 0..1000 {
            let hash = set.hash(&row(n));
            assert_eq!(set.insert(hash, &row(n)), (n as u32, true));
            assert_eq!(set.insert(hash, &row(n)), (n as u32, false));
        }
        assert_eq!(set.index.capacity(), 0);
        for (n, found) in [
            (1000, None),
            (500, Some(500)),
            (1000, None),
            (999, Some(999)),
        ] {
            assert_eq!(set.find(set.hash(&row(n)), &row(n)), found);
        }
        assert_eq!(set.index.len(), 1000);
        for n in (1000..2000).rev() {
            assert!(set.insert(set.hash(&row(n)), &row(n)).1);
            assert!(!set.insert(set.hash(&row(n - 1000)), &row(n - 1000)).1);
        }
        assert_eq!(set.len(), 2000);
        let mut empty = RowSet::new(0, 0);
        assert_eq!(empty.find(empty.hash(&[]), &[]), None);
        assert_eq!(empty.insert(empty.hash(&[]), &[]), (0, true));
        assert_eq!(empty.insert(empty.hash(&[]), &[]), (0, false));
    }

    #[test]
    fn chains_keep_row_order_and_find_all() {
        let keys: Vec<u64> = (0..1000).map(|n| n % 10).collect();
        let table = ChainTable::build(keys.len(), |row| hash_ids([keys[row]], 0));
        let mut found = Vec::new();
        let mut place = table.first(hash_ids([3], 0));
        while place != 0 {
            let row = place as usize - 1;
            if keys[row] == 3 {
                found.push(row);
            }
            place = table.after(place);
        }
        assert_eq!(found, (0..100).map(|n| n * 10 + 3).collect::<Vec<_>>());
        assert_eq!(ChainTable::build(0, |_| 0).first(5), 0);
    }

    #[test]
    fn hashes_of_levels_are_independent() {
        let mut counts = [0; 16];
        for n in 0..100_000_u64 {
            if hash_ids([n], 0) >> 40 & 15 == 3 {
                counts[(hash_ids([n], 1) >> 40 & 15) as usize] += 1;
            }
        }
        let all: i32 = counts.iter().sum();
        assert!(
            counts.iter().all(|c| (c - all / 16).abs() < all / 50),
            "{counts:?}"
        );
    }
}
