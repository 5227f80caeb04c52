//! Rows divided by the hash of their keys, so that several threads work on them, each on keys of its own.
//!
//! ```text
//! rows → parts by the hash of the key → work on each part, on any thread
//! ```
//!
//! Rows with equal keys are in one part, in the order in which they came. So what is made of them does not depend on the
//! number of threads.

use std::ops::Range;
use std::sync::Arc;

use super::cores::Cores;
use super::fork::fork;
use super::spill::table::hash_ids;
use crate::error::QueryError;

/// Number of parts: more than most machines have cores, since parts take different times. The rows of a part fit into the
/// processor's cache when those of all parts no longer do.
pub(crate) const PARTS: usize = 16;
/// Minimum number of rows that are worth dividing: some hundred microseconds of work.
pub(crate) const ROWS_MIN: usize = 8192;
/// Number of rows that are looked at to divide all of them into ranges.
const SAMPLE: usize = 1024;
/// Minimum memory of an operator that is worth dividing among parts.
pub(crate) const PARTS_BYTES_MIN: usize = 16 << 20;

/// The rows of a batch by part.
#[derive(Debug)]
pub(crate) struct Parted {
    rows: Vec<u32>,
    /// The part of each row.
    parts: Vec<u8>,
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
        Self::into_parts(rows, |row| part_of(hash(row)))
    }

    /// Divides rows by the number of the part of each.
    pub(crate) fn into_parts(rows: usize, part: impl Fn(usize) -> usize) -> Self {
        let mut parts = Vec::with_capacity(rows);
        let mut starts = [0; PARTS + 1];
        for row in 0..rows {
            let part = part(row);
            starts[part + 1] += 1;
            parts.push(part as u8);
        }
        for part in 0..PARTS {
            starts[part + 1] += starts[part];
        }
        let mut places = starts;
        let mut parted = vec![0; rows];
        for (row, &part) in parts.iter().enumerate() {
            let place = &mut places[usize::from(part)];
            parted[*place] = row as u32;
            *place += 1;
        }
        Self {
            rows: parted,
            parts,
            starts,
        }
    }

    /// Returns the rows of a part, in order.
    pub(crate) fn rows(&self, part: usize) -> &[u32] {
        &self.rows[self.starts[part]..self.starts[part + 1]]
    }
}

/// Many rows by part.
#[derive(Debug)]
pub(crate) struct Divided(Vec<Parted>);

impl Divided {
    /// Divides rows on all free cores. `parted` divides a range of them.
    pub(crate) fn new(
        cores: &Arc<Cores>,
        rows: usize,
        parted: impl Fn(Range<usize>) -> Parted + Sync,
    ) -> Result<Self, QueryError> {
        let ranges = fork(cores, rows.div_ceil(ROWS_MIN), |range| {
            let start = range * ROWS_MIN;
            Ok(parted(start..(start + ROWS_MIN).min(rows)))
        })?;
        Ok(Self(ranges))
    }

    /// Returns the rows of a part, in order.
    pub(crate) fn rows(&self, part: usize) -> impl Iterator<Item = usize> {
        let ranges = self.0.iter().enumerate();
        ranges.flat_map(move |(range, parted)| {
            let rows = parted.rows(part).iter();
            rows.map(move |&row| range * ROWS_MIN + row as usize)
        })
    }

    /// Returns the part of each row.
    pub(crate) fn parts(&self) -> impl Iterator<Item = usize> {
        let parts = self.0.iter().flat_map(|parted| &parted.parts);
        parts.map(|&part| usize::from(part))
    }
}

/// Ranges of numbers that divide rows into parts of about equal size.
#[derive(Debug)]
pub(crate) struct Ranges([u64; PARTS - 1]);

impl Ranges {
    /// Makes ranges for numbers like these: there must be some.
    pub(crate) fn of(numbers: impl ExactSizeIterator<Item = u64>) -> Self {
        let step = numbers.len().div_ceil(SAMPLE);
        let mut some: Vec<u64> = numbers.step_by(step).collect();
        some.sort_unstable();
        Self(std::array::from_fn(|part| {
            some[(part + 1) * some.len() / PARTS]
        }))
    }

    /// Returns the part of a number.
    #[inline]
    pub(crate) fn part(&self, number: u64) -> usize {
        // No branch depends on the number.
        let starts = self.0.iter();
        starts.map(|start| usize::from(*start <= number)).sum()
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
    fn ranges_are_in_order_and_about_equal() {
        let numbers = || (0..100_000_u32).map(|n| u64::from(n).pow(2) % 70_001);
        let ranges = Ranges::of(numbers());
        let mut counts = [0; PARTS];
        numbers().for_each(|number| counts[ranges.part(number)] += 1);
        assert!(
            counts.iter().all(|count| (3000..12_000).contains(count)),
            "{counts:?}"
        );
        assert!((1..70_001).all(|number| ranges.part(number - 1) <= ranges.part(number)));
        let of_one = Ranges::of([7].into_iter());
        assert_eq!((of_one.part(6), of_one.part(7)), (0, PARTS - 1));
    }

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
        let of_range = |rows: Range<usize>| {
            let keys = [&one[rows.clone()], &other[rows.clone()]];
            Parted::of(&keys, rows.len())
        };
        let divided = Divided::new(&Cores::one(), one.len(), of_range).unwrap();
        for part in 0..PARTS {
            let rows = divided.rows(part).map(|row| row as u32);
            assert!(rows.eq(parted.rows(part).iter().copied()));
        }
        assert!(
            divided
                .parts()
                .eq(parted.parts.iter().map(|&part| usize::from(part)))
        );
        assert_eq!(Parted::of(&[], 3).rows(part_of(hash_ids([], 0))), [0, 1, 2]);
        assert_eq!(Parted::of(&[&[]], 0).rows(3), [0_u32; 0]);
    }
}
