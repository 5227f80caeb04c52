//! Rows divided by the hash of their keys, so that several threads work on them, each on keys of its own.
//!
//! ```text
//! rows → parts by the hash of the key → work on each part, on any thread
//! ```
//!
//! Rows with equal keys are in one part, in the order in which they came. So what is made of them does not depend on the
//! number of threads.

use super::spill::table::hash_ids;

/// Number of parts: more than most machines have cores, since parts take different times. The rows of a part fit into the
/// processor's cache when those of all parts no longer do.
pub(crate) const PARTS: usize = 16;
/// Minimum number of rows that are worth dividing: some hundred microseconds of work.
pub(crate) const ROWS_MIN: usize = 8192;
/// Minimum memory of an operator that is worth dividing among parts.
pub(crate) const PARTS_BYTES_MIN: usize = 16 << 20;

/// The rows of a batch by part.
#[derive(Debug)]
pub(crate) struct Parted {
    rows: Vec<u32>,
    /// The place of the first row of each part, and the number of rows.
    starts: [usize; PARTS + 1],
}

impl Parted {
    /// Divides rows that have these columns as their key.
    pub(crate) fn of(keys: &[&[u64]], rows: usize) -> Self {
        Self::by(rows, |row| {
            hash_ids(keys.iter().map(|column| column[row]), 0)
        })
    }

    /// Divides rows by the hash of each.
    pub(crate) fn by(rows: usize, hash: impl Fn(usize) -> u64) -> Self {
        let mut parts = Vec::with_capacity(rows);
        let mut starts = [0; PARTS + 1];
        for row in 0..rows {
            let part = part_of(hash(row));
            starts[part + 1] += 1;
            parts.push(part as u8);
        }
        for part in 0..PARTS {
            starts[part + 1] += starts[part];
        }
        let mut places = starts;
        let mut parted = vec![0; rows];
        for (row, part) in parts.into_iter().enumerate() {
            let place = &mut places[usize::from(part)];
            parted[*place] = row as u32;
            *place += 1;
        }
        Self {
            rows: parted,
            starts,
        }
    }

    /// Returns the rows of a part, in order.
    pub(crate) fn rows(&self, part: usize) -> &[u32] {
        &self.rows[self.starts[part]..self.starts[part + 1]]
    }
}

/// Returns the part of a key with this hash.
#[inline]
pub(crate) fn part_of(hash: u64) -> usize {
    // Tables use the lowest and the highest bits, partitions of files those in the middle.
    (hash >> 48) as usize % PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_equal_keys_are_in_one_part_and_in_order() {
        let one: Vec<u64> = (0..10_000).map(|row| row * 7 % 501).collect();
        let other: Vec<u64> = (0..10_000).map(|row| row % 3).collect();
        let parted = Parted::of(&[&one, &other], one.len());
        let mut seen = 0;
        for part in 0..PARTS {
            let rows = parted.rows(part);
            assert!(rows.is_sorted());
            assert!(rows.len() > 300, "{} rows", rows.len());
            let key = |row: u32| [one[row as usize], other[row as usize]];
            assert!(
                rows.iter()
                    .all(|&row| part_of(hash_ids(key(row), 0)) == part)
            );
            seen += rows.len();
        }
        assert_eq!(seen, one.len());
        assert_eq!(Parted::of(&[], 3).rows(part_of(hash_ids([], 0))), [0, 1, 2]);
        assert_eq!(Parted::of(&[&[]], 0).rows(3), [0_u32; 0]);
    }
}
