//! The directory of a column file: the predicates, in memory, and the first key and the bounds of every page, on
//! directory pages.
//!
//! The directory turns a key into the one or two pages that can hold its ends, and row numbers into exact counts.

use std::ops::Range;

use pythia_io::PagedFile;
use pythia_io::bytes::{ByteReader, ByteWriter};

use super::format::{HEADER_BYTES, PAGE_ROWS_MAX};
use crate::StoreError;
use crate::directory_pages::{Entries, EntriesWriter, Held};

/// The bit of the page size, in the stored form, that says that the entries are on directory pages.
const ON_PAGES: u32 = 1 << 31;
/// The place of the first row's number in an [`Entry`].
const ROW: usize = 3;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageEntry {
    /// Predicate, a and b of the first row.
    pub(crate) first: [u64; 3],
    /// Its rows within the file.
    pub(crate) rows: Range<u64>,
    /// Smallest and largest b.
    pub(crate) b: [u64; 2],
    /// Smallest and largest graph.
    pub(crate) g: [u64; 2],
}

/// The stored form of a [`PageEntry`]: predicate, a and b of the first row, the number of that row, the smallest and
/// largest b, the smallest and largest graph.
type Entry = [u64; 8];

/// The directory of a column file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnDirectory {
    pub(crate) page_bytes: usize,
    /// All rows of the file.
    pub(crate) rows: u64,
    /// The pages, sorted by first key.
    pub(super) entries: Entries<8>,
    /// Sorted by predicate; empty in a file with any number of predicates.
    pub(crate) predicates: Vec<PredicateRows>,
    /// Bytes used by header, predicate runs, a, b and graph columns, over all pages.
    pub(crate) used_bytes: [u64; 5],
}

/// A directory whose file is being written.
#[derive(Clone, Debug)]
pub(super) struct OpenColumnDirectory {
    pub(super) page_bytes: usize,
    pub(super) rows: u64,
    entries: EntriesWriter<8>,
    pub(super) used_bytes: [u64; 5],
}

impl OpenColumnDirectory {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            rows: 0,
            entries: EntriesWriter::new(page_bytes),
            used_bytes: [0; 5],
        }
    }

    /// Adds a page.
    pub(super) fn push(&mut self, entry: &PageEntry) {
        self.entries.push(entry.stored());
        self.rows = entry.rows.end;
    }

    /// Appends the directory pages to the file with `push`.
    pub(super) fn finish(
        self,
        predicates: Vec<PredicateRows>,
        push: impl FnMut(&mut [u8]) -> Result<u64, StoreError>,
    ) -> Result<ColumnDirectory, StoreError> {
        Ok(ColumnDirectory {
            page_bytes: self.page_bytes,
            rows: self.rows,
            entries: self.entries.finish(push)?,
            predicates,
            used_bytes: self.used_bytes,
        })
    }
}

impl PageEntry {
    /// Returns the entry's stored form.
    fn stored(&self) -> Entry {
        let ([p, a, b], [b_min, b_max], [g_min, g_max]) = (self.first, self.b, self.g);
        [p, a, b, self.rows.start, b_min, b_max, g_min, g_max]
    }

    /// Returns the entry in its stored form; `end` is the number of the row after its last.
    fn of([p, a, b, row, b_min, b_max, g_min, g_max]: Entry, end: u64) -> Self {
        Self {
            first: [p, a, b],
            rows: row..end,
            b: [b_min, b_max],
            g: [g_min, g_max],
        }
    }
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

    /// Returns the entry of a page.
    pub(super) fn entry(
        &self,
        file: &PagedFile,
        held: &mut Held,
        page: usize,
    ) -> Result<PageEntry, StoreError> {
        let end = match page + 1 < self.pages() {
            true => self.entries.get(file, held, page + 1)?[ROW],
            false => self.rows,
        };
        let entry = PageEntry::of(self.entries.get(file, held, page)?, end);
        let rows = end.checked_sub(entry.rows.start);
        match rows.is_some_and(|rows| (1..=PAGE_ROWS_MAX as u64).contains(&rows)) {
            true => Ok(entry),
            false => {
                let message = format!("the directory gives page {page} the rows {:?}", entry.rows);
                Err(StoreError::corrupt(file.name(), None, message))
            }
        }
    }

    /// Returns the page that holds a row.
    pub(super) fn page_of_row(
        &self,
        file: &PagedFile,
        held: &mut Held,
        row: u64,
    ) -> Result<usize, StoreError> {
        let entries = &self.entries;
        let after = entries.partition_point(file, held, |entry| entry[ROW] <= row)?;
        Ok(after.saturating_sub(1))
    }

    /// Returns the number of pages that start before the first row whose key is not less than `prefix` (`after`:
    /// greater than every key that starts with it). That row is in the last of these pages or starts the page after
    /// it.
    pub(super) fn pages_before(
        &self,
        file: &PagedFile,
        held: &mut Held,
        prefix: &[u64],
        after: bool,
    ) -> Result<usize, StoreError> {
        let prefix = &prefix[..prefix.len().min(3)];
        self.entries.partition_point(file, held, |entry| {
            match entry[..prefix.len()].cmp(prefix) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => after,
                std::cmp::Ordering::Greater => false,
            }
        })
    }

    /// Returns whether its entries are on directory pages.
    pub(crate) fn is_on_pages(&self) -> bool {
        self.entries.are_in_file()
    }

    /// Returns the number of pages of rows.
    pub(crate) fn pages(&self) -> usize {
        self.entries.count()
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes() + self.predicates.capacity() * size_of::<PredicateRows>()
    }

    /// Appends the in-memory part of the directory.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.u32(self.page_bytes as u32 | ON_PAGES);
        out.varint(self.rows);
        for bytes in self.used_bytes {
            out.varint(bytes);
        }
        self.entries.write(out);
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

    /// Reads the output of [`Self::write`], or the whole directory of a file that has no directory pages; checks that it
    /// is consistent.
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let size = input.u32()?;
        let page_bytes = (size & !ON_PAGES) as usize;
        let rows = input.varint()?;
        if !COLUMN_PAGE_BYTES.contains(&page_bytes)
            || !page_bytes.is_power_of_two()
            || rows > u64::MAX >> 8
        {
            return Err(input.corrupt("a column file with pages of 4 to 64 KiB"));
        }
        let mut used_bytes = [0; 5];
        for bytes in &mut used_bytes {
            *bytes = input.varint()?;
        }
        let entries = match size & ON_PAGES {
            0 => read_whole(input, page_bytes, rows)?,
            _ => read_firsts(input, page_bytes, rows)?,
        };
        let mut directory = Self {
            page_bytes,
            rows,
            entries,
            predicates: Vec::new(),
            used_bytes,
        };
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

/// Reads the first entries of the directory pages.
fn read_firsts(
    input: &mut ByteReader<'_>,
    page_bytes: usize,
    rows: u64,
) -> Result<Entries<8>, StoreError> {
    let entries = Entries::<8>::read(input, page_bytes)?;
    let firsts = entries.firsts();
    let is_sorted = firsts.is_sorted_by(|a, b| a[..3] <= b[..3] && a[ROW] < b[ROW]);
    let begins = firsts.first().map(|first| first[ROW]);
    let ends = firsts.last().is_none_or(|last| last[ROW] < rows);
    let pages = entries.count() as u64;
    if !is_sorted
        || begins != (rows > 0).then_some(0)
        || !ends
        || rows < pages
        || rows.div_ceil(PAGE_ROWS_MAX as u64) > pages
    {
        return Err(input.corrupt("pages in order"));
    }
    Ok(entries)
}

/// Reads the entries of a file that has no directory pages.
fn read_whole(
    input: &mut ByteReader<'_>,
    page_bytes: usize,
    rows: u64,
) -> Result<Entries<8>, StoreError> {
    let mut entries = EntriesWriter::<8>::new(page_bytes);
    let mut last: Option<Entry> = None;
    for _ in 0..input.count(8)? {
        let entry = read_entry(input, last, rows)?;
        entries.push(entry);
        last = Some(entry);
    }
    let rows_left = rows - last.map_or(0, |entry| entry[ROW]);
    if rows_left > PAGE_ROWS_MAX as u64 || (rows_left == 0) != last.is_none() {
        return Err(input.corrupt("as many rows as the pages hold"));
    }
    Ok(entries.keep())
}

fn read_entry(
    input: &mut ByteReader<'_>,
    last: Option<Entry>,
    rows: u64,
) -> Result<Entry, StoreError> {
    let first = [input.varint()?, input.varint()?, input.varint()?];
    let step = input.varint()?;
    let row = last.map_or(0, |entry| entry[ROW]).saturating_add(step);
    // A page has between one row and this many; the first starts at row 0.
    let step_fits = match last {
        None => step == 0,
        Some(_) => (1..=PAGE_ROWS_MAX as u64).contains(&step),
    };
    let sorted = last.is_none_or(|entry| entry[..3] <= first[..]);
    if !step_fits || !sorted || row >= rows {
        return Err(input.corrupt("pages in order"));
    }
    let mut bounds = [[0; 2]; 2];
    for [min, max] in &mut bounds {
        *min = input.varint()?;
        *max = input.varint()?.saturating_add(*min);
    }
    let [b, g] = bounds;
    let rows = row..row;
    Ok(PageEntry { first, rows, b, g }.stored())
}

const _: () = assert!(HEADER_BYTES < COLUMN_PAGE_BYTES.start);
