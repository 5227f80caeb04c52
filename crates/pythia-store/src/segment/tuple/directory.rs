//! The part of a tuple file that stays in memory: the first node and predicate of each page.
//!
//! This replaces the Pythia paper's link from an id to its page: ids are sorted over the pages, so a search here
//! returns the page of any node, and a hop needs no index read.

use std::ops::Range;

use pythia_io::bytes::{ByteReader, ByteWriter};

use crate::StoreError;

use super::format::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};

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
    /// Per page, the first node: ascending, equal only where a tuple is split.
    first_nodes: Vec<u64>,
    /// Per page, the first predicate of the first node.
    first_predicates: Vec<u64>,
    /// Counts of the file.
    pub statistics: TupleStatistics,
}

impl TupleDirectory {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            first_nodes: Vec::new(),
            first_predicates: Vec::new(),
            statistics: TupleStatistics::default(),
        }
    }

    pub(super) fn push(&mut self, number: u64, node: u64, predicate: u64) {
        assert_eq!(number, self.pages() as u64, "pages are numbered in order");
        self.first_nodes.push(node);
        self.first_predicates.push(predicate);
    }

    /// Returns the bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> usize {
        self.first_nodes.len()
    }

    /// Returns the first node of a page.
    pub fn first_node(&self, page: usize) -> Option<u64> {
        self.first_nodes.get(page).copied()
    }

    /// Returns the bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        (self.first_nodes.capacity() + self.first_predicates.capacity()) * size_of::<u64>()
    }

    /// Returns the pages that hold the node if it exists: one, unless its tuple is split; none if the node is smaller
    /// than all.
    #[inline]
    pub fn locate(&self, node: u64) -> Range<usize> {
        self.locate_from(0, node)
    }

    /// As [`Self::locate`], if the page is known not to be before `from` (for sorted nodes). Takes time in the
    /// logarithm of the distance.
    #[inline]
    pub(super) fn locate_from(&self, from: usize, node: u64) -> Range<usize> {
        let nodes = &self.first_nodes;
        let end = gallop(nodes, from, |&first| first <= node);
        if end == 0 {
            return 0..0;
        }
        let last = end - 1;
        if last > 0 && nodes[last] == node && nodes[last - 1] == node {
            // The tuple is split; then it begins its first page.
            return nodes[..last].partition_point(|&first| first < node)..end;
        }
        last..end
    }

    /// Returns, of the pages of a node, those that may hold one of its predicates.
    #[inline]
    pub(super) fn narrow(&self, pages: Range<usize>, predicate: u64) -> Range<usize> {
        if pages.len() <= 1 {
            return pages;
        }
        let firsts = &self.first_predicates[pages.clone()];
        let page = firsts.partition_point(|&first| first <= predicate);
        if page == 0 {
            return pages.start..pages.start;
        }
        pages.start + page - 1..pages.start + page
    }

    /// Appends the directory to the in-memory part of a segment.
    pub fn write(&self, out: &mut ByteWriter) {
        let statistics = &self.statistics;
        out.varint(self.page_bytes as u64);
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
        out.varint(self.pages() as u64);
        let mut last = 0;
        for &node in &self.first_nodes {
            out.varint(node - last);
            last = node;
        }
        for &predicate in &self.first_predicates {
            out.varint(predicate);
        }
    }

    /// Reads the output of [`Self::write`].
    pub fn read(reader: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let page_bytes = reader.varint()? as usize;
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
        let pages = reader.count(2)?;
        let mut first_nodes = Vec::with_capacity(pages);
        let mut last = 0_u64;
        for _ in 0..pages {
            let Some(node) = last.checked_add(reader.varint()?) else {
                return Err(reader.corrupt("a node of at most 64 bits"));
            };
            last = node;
            first_nodes.push(node);
        }
        let mut first_predicates = Vec::with_capacity(pages);
        for page in 0..pages {
            let predicate = reader.varint()?;
            let cut = page > 0 && first_nodes[page] == first_nodes[page - 1];
            if cut && predicate <= first_predicates[page - 1] {
                return Err(reader.corrupt("pages in order of node and predicate"));
            }
            first_predicates.push(predicate);
        }
        Ok(Self {
            page_bytes,
            first_nodes,
            first_predicates,
            statistics,
        })
    }
}

/// Finds the partition point from `from` on, by doubling steps.
#[inline]
pub(super) fn gallop<T>(items: &[T], from: usize, holds: impl Fn(&T) -> bool) -> usize {
    if from == 0 {
        return items.partition_point(holds);
    }
    let mut low = from;
    let mut step = 1;
    while low + step <= items.len() && holds(&items[low + step - 1]) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(items.len());
    low + items[low..high].partition_point(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(firsts: &[(u64, u64)]) -> TupleDirectory {
        let mut directory = TupleDirectory::new(4096);
        for (page, &(node, predicate)) in firsts.iter().enumerate() {
            directory.push(page as u64, node, predicate);
        }
        directory
    }

    #[test]
    fn locate_finds_one_page_or_all_of_a_cut_tuple() {
        let directory = directory(&[(10, 1), (20, 1), (20, 7), (20, 9), (30, 1)]);
        assert_eq!(directory.locate(9), 0..0);
        assert_eq!(directory.locate(10), 0..1);
        assert_eq!(directory.locate(19), 0..1);
        assert_eq!(directory.locate(20), 1..4);
        assert_eq!(directory.locate(25), 3..4);
        assert_eq!(directory.locate(99), 4..5);
        assert_eq!(directory.narrow(1..4, 0), 1..1);
        assert_eq!(directory.narrow(1..4, 7), 2..3);
        assert_eq!(directory.narrow(1..4, 8), 2..3);
        assert_eq!(directory.narrow(1..4, 100), 3..4);
    }

    #[test]
    fn gallop_finds_what_partition_point_finds() {
        let items: Vec<u64> = (0..100).map(|i| i * 3).collect();
        for value in 0..310 {
            let expected = items.partition_point(|&item| item <= value);
            for from in 0..=expected {
                assert_eq!(gallop(&items, from, |&item| item <= value), expected);
            }
        }
    }

    #[test]
    fn directory_round_trips_and_refuses_damage() {
        let mut whole = directory(&[(10, 1), (20, 1), (20, 7), (1 << 63, 5)]);
        whole.statistics.rows = 77;
        let mut writer = ByteWriter::new();
        whole.write(&mut writer);
        let bytes = writer.into_bytes();
        let mut reader = ByteReader::new("directory", &bytes);
        assert_eq!(TupleDirectory::read(&mut reader).unwrap(), whole);
        for end in 0..bytes.len() {
            let mut reader = ByteReader::new("directory", &bytes[..end]);
            assert!(TupleDirectory::read(&mut reader).is_err());
        }
    }
}
