//! The part of the dictionary that is kept in memory: the page of each rank, the page of each key, and the symbol
//! tables.

use std::ops::Range;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_rdf::TermKind;

use super::format::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use super::separators::{SEPARATOR_BYTES_MAX, Separators};
use super::symbols::SymbolTable;
use crate::StoreError;

/// The in-memory part of a dictionary, made by [`DictionaryWriter`](super::DictionaryWriter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryDirectory {
    page_bytes: usize,
    page_count: u64,
    kinds: [KindDirectory; KIND_COUNT],
    tables: Vec<SymbolTable>,
}

const KIND_COUNT: usize = TermKind::DICTIONARY.len();

/// The pages of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindDirectory {
    /// Number of keys.
    count: u64,
    /// Bytes of all keys.
    key_bytes: u64,
    /// Number of the first page.
    first_page: u64,
    /// Rank of the first key of each entry page.
    first_ranks: Vec<u64>,
    separators: Separators,
    /// Entry pages with overflow pages: index, and number of overflow pages up to and including its own.
    overflows: Vec<(u64, u64)>,
}

/// Size of one kind's part of the dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindStatistics {
    /// Distinct terms.
    pub terms: u64,
    /// Bytes of their keys.
    pub key_bytes: u64,
    /// Pages of entries.
    pub entry_pages: u64,
    /// Pages that continue keys longer than a page.
    pub overflow_pages: u64,
}

/// An entry page, as recorded in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PagePlace {
    /// Page number in the file.
    pub(super) number: u64,
    /// Rank of the first key.
    pub(super) first_rank: u64,
    /// Keys in the page.
    pub(super) entry_count: u64,
}

impl DictionaryDirectory {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            page_count: 0,
            kinds: Default::default(),
            tables: Vec::new(),
        }
    }

    /// Returns the page size in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the number of pages in the file.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Returns the number of distinct terms of `kind`; ranks are below it.
    pub fn count(&self, kind: TermKind) -> u64 {
        self.kind(kind).map_or(0, |kind| kind.count)
    }

    /// Returns the number of distinct terms of all kinds.
    pub fn total_count(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// Returns the sizes of the part of the dictionary that holds `kind`.
    pub fn statistics(&self, kind: TermKind) -> KindStatistics {
        let empty = KindDirectory::default();
        let kind = self.kind(kind).unwrap_or(&empty);
        KindStatistics {
            terms: kind.count,
            key_bytes: kind.key_bytes,
            entry_pages: kind.page_count() as u64,
            overflow_pages: kind.overflow_page_count(),
        }
    }

    /// Returns the number of symbol tables.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// Returns the bytes of memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        let kinds = self.kinds.iter().map(|kind| {
            kind.first_ranks.len() * 8 + kind.separators.memory_bytes() + kind.overflows.len() * 16
        });
        kinds.sum::<usize>() + self.tables.len() * SymbolTable::MEMORY_BYTES
    }

    pub(super) fn tables(&self) -> &[SymbolTable] {
        &self.tables
    }

    /// Adds a symbol table; `None` if there are as many as pages can refer to.
    pub(super) fn add_table(&mut self, table: SymbolTable) -> Option<u16> {
        let number = u16::try_from(self.tables.len()).ok()?;
        self.tables.push(table);
        Some(number)
    }

    /// Returns the pages of a dictionary kind; `None` for other kinds.
    pub(super) fn kind(&self, kind: TermKind) -> Option<&KindDirectory> {
        self.kinds.get(kind_index(kind)?)
    }

    pub(super) fn kind_mut(&mut self, kind: TermKind) -> &mut KindDirectory {
        let index = kind_index(kind).expect("keys are of dictionary kinds");
        &mut self.kinds[index]
    }

    /// Numbers the kinds' pages one after the other, once all are known.
    pub(super) fn close(&mut self) {
        self.page_count = 0;
        for kind in &mut self.kinds {
            kind.first_page = self.page_count;
            self.page_count += kind.first_ranks.len() as u64 + kind.overflow_page_count();
        }
    }

    /// Appends the directory's bytes.
    pub fn encode(&self, writer: &mut ByteWriter) {
        writer.u32(u32::try_from(self.page_bytes).expect("pages of at most 64 KiB"));
        writer.u64(self.page_count);
        writer.varint(self.tables.len() as u64);
        for table in &self.tables {
            table.encode(writer);
        }
        for (kind, directory) in TermKind::DICTIONARY.iter().zip(&self.kinds) {
            writer.u8(*kind as u8);
            directory.encode(writer);
        }
    }

    /// Reads the output of [`Self::encode`], and checks that it is consistent.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let page_bytes = reader.u32()? as usize;
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(reader.corrupt("a dictionary page size of 4 to 64 KiB before this place"));
        }
        let mut directory = Self::new(page_bytes);
        directory.page_count = reader.u64()?;
        for _ in 0..reader.count(1)? {
            let table = SymbolTable::decode(reader)?;
            directory
                .add_table(table)
                .ok_or_else(|| reader.corrupt::<StoreError>("at most 65,536 symbol tables"))?;
        }
        let mut next_page = 0;
        for (kind, slot) in TermKind::DICTIONARY.iter().zip(&mut directory.kinds) {
            if reader.u8()? != *kind as u8 {
                return Err(reader.corrupt("the dictionary kinds in id order"));
            }
            *slot = KindDirectory::decode(reader, next_page)?;
            next_page = slot
                .end_page()
                .filter(|&end| end <= directory.page_count)
                .ok_or_else(|| {
                    reader.corrupt::<StoreError>("no more pages than the dictionary has")
                })?;
        }
        if next_page != directory.page_count {
            return Err(reader.corrupt("as many pages as the dictionary has"));
        }
        Ok(directory)
    }
}

impl KindDirectory {
    /// Returns the number of entry pages.
    pub(super) fn page_count(&self) -> usize {
        self.first_ranks.len()
    }

    fn overflow_page_count(&self) -> u64 {
        self.overflows.last().map_or(0, |&(_, total)| total)
    }

    /// Returns the page number after the last page.
    fn end_page(&self) -> Option<u64> {
        let pages = (self.page_count() as u64).checked_add(self.overflow_page_count())?;
        self.first_page.checked_add(pages)
    }

    /// Adds an entry page: the separator is above every key before it, and not above its first.
    pub(super) fn add_page(&mut self, separator: &[u8]) {
        self.first_ranks.push(self.count);
        self.separators.push(separator);
    }

    /// Closes the page last added.
    pub(super) fn close_page(&mut self, entry_count: u64, key_bytes: u64, overflow_pages: u32) {
        self.count += entry_count;
        self.key_bytes += key_bytes;
        if overflow_pages > 0 {
            let index = self.page_count() as u64 - 1;
            let total = self.overflow_page_count() + u64::from(overflow_pages);
            self.overflows.push((index, total));
        }
    }

    /// Returns the entry page with this index.
    pub(super) fn place(&self, index: usize) -> PagePlace {
        let before = self
            .overflows
            .partition_point(|&(owner, _)| owner < index as u64);
        let overflow_pages = match before.checked_sub(1) {
            Some(last) => self.overflows[last].1,
            None => 0,
        };
        let first_rank = self.first_ranks[index];
        let next = self.first_ranks.get(index + 1).copied();
        PagePlace {
            number: self.first_page + index as u64 + overflow_pages,
            first_rank,
            entry_count: next.unwrap_or(self.count) - first_rank,
        }
    }

    /// Returns the index of the page that holds `rank`.
    pub(super) fn page_of_rank(&self, rank: u64) -> Option<usize> {
        if rank >= self.count {
            return None;
        }
        let after = self.first_ranks.partition_point(|&first| first <= rank);
        after.checked_sub(1)
    }

    /// Returns the indexes of the pages that may hold `key`: one, unless separators had to be cut short.
    pub(super) fn pages_of_key(&self, key: &[u8]) -> Range<usize> {
        if self.page_count() == 0 {
            return 0..0;
        }
        // The first separator is empty, so there is always one before the end.
        let end = self.separators.count_not_above(key);
        if let Some(prefix) = key.get(..SEPARATOR_BYTES_MAX) {
            let below = self.separators.count_below(prefix);
            if below < end {
                return below.saturating_sub(1)..end;
            }
        }
        end.saturating_sub(1)..end
    }

    fn encode(&self, writer: &mut ByteWriter) {
        writer.varint(self.count);
        writer.varint(self.key_bytes);
        writer.varint(self.page_count() as u64);
        for index in 0..self.page_count() {
            writer.varint(self.place(index).entry_count);
        }
        self.separators.encode(writer);
        writer.varint(self.overflows.len() as u64);
        let mut before = (0, 0);
        for &(index, total) in &self.overflows {
            writer.varint(index - before.0);
            writer.varint(total - before.1);
            before = (index, total);
        }
    }

    fn decode(reader: &mut ByteReader<'_>, first_page: u64) -> Result<Self, StoreError> {
        let count = reader.varint()?;
        let key_bytes = reader.varint()?;
        let page_count = reader.count(1)?;
        let mut first_ranks = Vec::with_capacity(page_count);
        let mut rank = 0u64;
        for _ in 0..page_count {
            first_ranks.push(rank);
            let entry_count = reader.varint()?;
            if !(1..=u64::from(u16::MAX)).contains(&entry_count) {
                return Err(reader.corrupt("pages of 1 to 65,535 entries before this place"));
            }
            rank = rank
                .checked_add(entry_count)
                .filter(|&rank| rank <= count)
                .ok_or_else(|| reader.corrupt::<StoreError>("no more entries than terms"))?;
        }
        if rank != count {
            return Err(reader.corrupt("as many entries as terms before this place"));
        }
        let separators = Separators::decode(reader, page_count)?;
        let mut overflows = Vec::new();
        let mut last = (0u64, 0u64);
        for entry in 0..reader.count(2)? {
            let (step, pages) = (reader.varint()?, reader.varint()?);
            let index = last.0.checked_add(step);
            let total = last.1.checked_add(pages);
            match (index, total) {
                (Some(index), Some(total))
                    if index < page_count as u64 && pages > 0 && (entry == 0 || step > 0) =>
                {
                    last = (index, total);
                    overflows.push(last);
                }
                _ => return Err(reader.corrupt("overflow pages after pages, in order")),
            }
        }
        Ok(Self {
            count,
            key_bytes,
            first_page,
            first_ranks,
            separators,
            overflows,
        })
    }
}

fn kind_index(kind: TermKind) -> Option<usize> {
    TermKind::DICTIONARY.iter().position(|&known| known == kind)
}
