//! The directory of a tuple file: the first node and predicate of each page.
//!
//! This replaces the Pythia paper's link from an id to its page: ids are sorted over the pages, so a search here
//! returns the page of any node. The entries are on directory pages, which the buffer pool keeps, so that a hop needs
//! no index read.

use pythia_io::bytes::{ByteReader, ByteWriter};

use crate::StoreError;

use super::format::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::directory_pages::{Entries, EntriesWriter};

/// Counts of a file, made while it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TupleStatistics {
    /// Tuples: distinct nodes.
    pub tuples: u64,
    /// Tuples that are on one page with all their values.
    pub tuples_inline: u64,
    /// Tuples split over several pages.
    pub tuples_split: u64,
    /// Rows (quads).
    pub rows: u64,
    /// Lists of which the pages hold only the length.
    pub external_lists: u64,
    /// Rows in those lists.
    pub external_rows: u64,
    /// Used bytes of all pages.
    pub bytes_used: u64,
}

/// The places of a file's tuples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleDirectory {
    page_bytes: usize,
    /// Per page, the first node, and its first predicate there: nodes ascend, and are equal only where a tuple is split.
    pub(super) entries: Entries<2>,
    /// Counts of the file.
    pub statistics: TupleStatistics,
}

/// A directory whose file is being written.
#[derive(Clone, Debug)]
pub(super) struct OpenTupleDirectory {
    page_bytes: usize,
    entries: EntriesWriter<2>,
    pub(super) statistics: TupleStatistics,
}

impl OpenTupleDirectory {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            entries: EntriesWriter::new(page_bytes),
            statistics: TupleStatistics::default(),
        }
    }

    pub(super) fn push(&mut self, number: u64, node: u64, predicate: u64) {
        let count = self.entries.count() as u64;
        assert_eq!(number, count, "pages are numbered in order");
        self.entries.push([node, predicate]);
    }

    /// Appends the directory pages to the file with `push`.
    pub(super) fn finish(
        self,
        push: impl FnMut(&mut [u8]) -> Result<u64, StoreError>,
    ) -> Result<TupleDirectory, StoreError> {
        Ok(TupleDirectory {
            page_bytes: self.page_bytes,
            entries: self.entries.finish(push)?,
            statistics: self.statistics,
        })
    }
}

/// Added to the page size in the stored form of a directory whose entries are on directory pages.
const ON_PAGES: u64 = 1;

impl TupleDirectory {
    /// Returns the bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns whether its entries are on directory pages.
    pub(crate) fn is_on_pages(&self) -> bool {
        self.entries.are_in_file()
    }

    /// Returns the number of pages of tuples.
    pub fn pages(&self) -> usize {
        self.entries.count()
    }

    /// Returns the number of pages of the file, directory pages included.
    pub fn file_pages(&self) -> u64 {
        self.entries.file_pages()
    }

    /// Returns the bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }

    /// Appends the in-memory part of the directory.
    pub fn write(&self, out: &mut ByteWriter) {
        let statistics = &self.statistics;
        out.varint(self.page_bytes as u64 | ON_PAGES);
        for number in [
            statistics.tuples,
            statistics.tuples_inline,
            statistics.tuples_split,
            statistics.rows,
            statistics.external_lists,
            statistics.external_rows,
            statistics.bytes_used,
        ] {
            out.varint(number);
        }
        self.entries.write(out);
    }

    /// Reads the output of [`Self::write`], or the whole directory of a file that has no directory pages.
    pub fn read(reader: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let size = reader.varint()?;
        let page_bytes = (size & !ON_PAGES) as usize;
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
        {
            return Err(reader.corrupt("a page size"));
        }
        let statistics = TupleStatistics {
            tuples: reader.varint()?,
            tuples_inline: reader.varint()?,
            tuples_split: reader.varint()?,
            rows: reader.varint()?,
            external_lists: reader.varint()?,
            external_rows: reader.varint()?,
            bytes_used: reader.varint()?,
        };
        let entries = match size & ON_PAGES {
            0 => read_whole(reader, page_bytes)?,
            _ => Entries::read(reader, page_bytes)?,
        };
        let is_sorted = entries.firsts().is_sorted_by(|before, next| before < next);
        if !is_sorted {
            return Err(reader.corrupt("pages in order of node and predicate"));
        }
        Ok(Self {
            page_bytes,
            entries,
            statistics,
        })
    }
}

/// Reads the entries of a file that has no directory pages.
fn read_whole(reader: &mut ByteReader<'_>, page_bytes: usize) -> Result<Entries<2>, StoreError> {
    let pages = reader.count(2)?;
    let mut nodes = Vec::with_capacity(pages);
    let mut last = 0_u64;
    for _ in 0..pages {
        let Some(node) = last.checked_add(reader.varint()?) else {
            return Err(reader.corrupt("a node of at most 64 bits"));
        };
        last = node;
        nodes.push(node);
    }
    let mut entries = EntriesWriter::new(page_bytes);
    let mut before = None;
    for node in nodes {
        let entry = [node, reader.varint()?];
        if before.is_some_and(|before| entry <= before) {
            return Err(reader.corrupt("pages in order of node and predicate"));
        }
        before = Some(entry);
        entries.push(entry);
    }
    Ok(entries.keep())
}
