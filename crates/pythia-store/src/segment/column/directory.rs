//! The in-memory directory of a column file: the first key of every page, bounds, and the predicates.
//!
//! The directory turns a key into the one or two pages that can hold its ends, and row numbers into exact counts,
//! without a read.

use std::ops::Range;

use pythia_io::bytes::{ByteReader, ByteWriter};

use super::format::{HEADER_BYTES, PAGE_ROWS_MAX};
use crate::StoreError;

/// Valid sizes of column pages.
pub const COLUMN_PAGE_BYTES: Range<usize> = 4 << 10..(64 << 10) + 1;

/// A predicate's rows, and the counts made when they were written.
///
/// In PSO, `a` is the subject and `b` the object; in POS it is the other way round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PredicateRows {
    /// The predicate.
    pub(crate) predicate: u64,
    /// Number of its first row in the file.
    pub(crate) first_row: u64,
    /// Its rows: quads.
    pub(crate) rows: u64,
    /// Distinct values of a.
    pub(crate) distinct_a: u64,
    /// Distinct pairs of a and b: triples, regardless of their graphs.
    pub(crate) pairs: u64,
    /// Most distinct b of one a.
    pub(crate) pairs_max: u64,
    /// Bit `k` is set if some a is of the kind with number `k`.
    pub(crate) a_kinds: u128,
}

/// One page, as recorded in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// Predicate, a and b of the first row.
    pub(crate) first: [u64; 3],
    /// Number of the first row in the file.
    pub(crate) row: u64,
    /// Smallest and largest b.
    pub(crate) b: [u64; 2],
    /// Smallest and largest graph.
    pub(crate) g: [u64; 2],
}

/// The directory of a column file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnDirectory {
    pub(crate) page_bytes: usize,
    /// All rows of the file.
    pub(crate) rows: u64,
    /// Sorted by first key.
    pub(crate) pages: Vec<PageEntry>,
    /// Sorted by predicate; empty in a file with any number of predicates.
    pub(crate) predicates: Vec<PredicateRows>,
    /// Bytes used by header, predicate runs, a, b and graph columns, over all pages.
    pub(crate) used_bytes: [u64; 5],
}

impl ColumnDirectory {
    /// Returns whether the directory has an entry for each predicate.
    pub(crate) fn is_counted(&self) -> bool {
        !self.predicates.is_empty() || self.rows == 0
    }

    /// Returns the predicate's entry.
    pub(crate) fn predicate(&self, predicate: u64) -> Option<&PredicateRows> {
        let found = self
            .predicates
            .binary_search_by_key(&predicate, |entry| entry.predicate);
        found.ok().map(|index| &self.predicates[index])
    }

    /// Returns the rows of a page, numbered within the file.
    pub(crate) fn page_rows(&self, page: usize) -> Range<u64> {
        let end = self.pages.get(page + 1).map_or(self.rows, |next| next.row);
        self.pages[page].row..end
    }

    /// Returns the page that holds a row.
    pub(crate) fn page_of_row(&self, row: u64) -> usize {
        let after = self.pages.partition_point(|entry| entry.row <= row);
        after.saturating_sub(1)
    }

    /// Returns the number of pages that start before the first row whose key is not less than `prefix` (`after`:
    /// greater than every key that starts with it). That row is in the last of these pages or starts the page after
    /// it.
    pub(crate) fn pages_before(&self, prefix: &[u64], after: bool) -> usize {
        self.pages.partition_point(|entry| {
            let first = &entry.first[..prefix.len().min(3)];
            match first.cmp(&prefix[..first.len()]) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => after,
                std::cmp::Ordering::Greater => false,
            }
        })
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<PageEntry>()
            + self.predicates.capacity() * size_of::<PredicateRows>()
    }

    /// Appends the directory in its stored form.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.u32(self.page_bytes as u32);
        out.varint(self.rows);
        for bytes in self.used_bytes {
            out.varint(bytes);
        }
        out.varint(self.pages.len() as u64);
        let mut row = 0;
        for entry in &self.pages {
            for value in entry.first {
                out.varint(value);
            }
            out.varint(entry.row - row);
            row = entry.row;
            for [min, max] in [entry.b, entry.g] {
                out.varint(min);
                out.varint(max - min);
            }
        }
        out.varint(self.predicates.len() as u64);
        for entry in &self.predicates {
            out.varint(entry.predicate);
            for count in [entry.rows, entry.distinct_a, entry.pairs, entry.pairs_max] {
                out.varint(count);
            }
            out.u64(entry.a_kinds as u64);
            out.u64((entry.a_kinds >> 64) as u64);
        }
    }

    /// Reads the output of [`Self::write`], and checks that it is consistent.
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let mut directory = Self {
            page_bytes: input.u32()? as usize,
            rows: input.varint()?,
            ..Self::default()
        };
        if !COLUMN_PAGE_BYTES.contains(&directory.page_bytes)
            || !directory.page_bytes.is_power_of_two()
            || directory.rows > u64::MAX >> 8
        {
            return Err(input.corrupt("a column file with pages of 4 to 64 KiB"));
        }
        for bytes in &mut directory.used_bytes {
            *bytes = input.varint()?;
        }
        let page_count = input.count(8)?;
        directory.pages.reserve_exact(page_count);
        for _ in 0..page_count {
            directory.read_page(input)?;
        }
        let rows_left = directory.rows - directory.pages.last().map_or(0, |entry| entry.row);
        if rows_left > PAGE_ROWS_MAX as u64 || (rows_left == 0) != directory.pages.is_empty() {
            return Err(input.corrupt("as many rows as the pages hold"));
        }
        let predicate_count = input.count(21)?;
        directory.predicates.reserve_exact(predicate_count);
        let mut first_row = 0u64;
        for _ in 0..predicate_count {
            first_row = directory.read_predicate(input, first_row)?;
        }
        if first_row != directory.rows && directory.is_counted() {
            return Err(input.corrupt("as many rows as the predicates have"));
        }
        Ok(directory)
    }

    fn read_page(&mut self, input: &mut ByteReader<'_>) -> Result<(), StoreError> {
        let first = [input.varint()?, input.varint()?, input.varint()?];
        let step = input.varint()?;
        let last = self.pages.last();
        let row = last.map_or(0, |entry| entry.row).saturating_add(step);
        // A page has between one row and this many; the first starts at row 0.
        let step_fits = match last {
            None => step == 0,
            Some(_) => (1..=PAGE_ROWS_MAX as u64).contains(&step),
        };
        let sorted = last.is_none_or(|entry| entry.first <= first);
        if !step_fits || !sorted || row >= self.rows {
            return Err(input.corrupt("pages in order"));
        }
        let mut bounds = [[0; 2]; 2];
        for [min, max] in &mut bounds {
            *min = input.varint()?;
            *max = input.varint()?.saturating_add(*min);
        }
        let [b, g] = bounds;
        self.pages.push(PageEntry { first, row, b, g });
        Ok(())
    }

    fn read_predicate(
        &mut self,
        input: &mut ByteReader<'_>,
        first_row: u64,
    ) -> Result<u64, StoreError> {
        let entry = PredicateRows {
            predicate: input.varint()?,
            first_row,
            rows: input.varint()?,
            distinct_a: input.varint()?,
            pairs: input.varint()?,
            pairs_max: input.varint()?,
            a_kinds: u128::from(input.u64()?) | u128::from(input.u64()?) << 64,
        };
        let last = self.predicates.last();
        let sorted = last.is_none_or(|before| before.predicate < entry.predicate);
        let next_row = first_row.saturating_add(entry.rows);
        if !sorted || entry.rows == 0 || next_row > self.rows {
            return Err(input.corrupt("predicates in order"));
        }
        let counts = [entry.pairs_max, entry.pairs, entry.rows];
        if !counts.is_sorted() || !(1..=entry.pairs).contains(&entry.distinct_a) {
            return Err(input.corrupt("a predicate with no more triples than quads"));
        }
        self.predicates.push(entry);
        Ok(next_row)
    }
}

const _: () = assert!(HEADER_BYTES < COLUMN_PAGE_BYTES.start);
