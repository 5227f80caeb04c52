//! The directory of a dictionary: the page of each rank, the page of each key, on directory pages; and in memory the
//! beginnings of these pages, and the symbol tables.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use pythia_io::PagedFile;
use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_rdf::TermKind;

use super::directory_page::{DirectoryPage, OpenDirectoryPage, PageStart};
use super::format::{Damage, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use super::separators::{SEPARATOR_BYTES_MAX, Separators};
use super::symbols::SymbolTable;
use crate::StoreError;
use crate::directory_pages::{Held, Place};

/// The bit of the page size, in the stored form, that says that there are directory pages.
const ON_PAGES: u32 = 1 << 31;
/// The bit that says that there are filter pages.
const HAS_FILTERS: u32 = 1 << 30;

/// The in-memory part of a dictionary, made by [`DictionaryWriter`](super::DictionaryWriter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryDirectory {
    page_bytes: usize,
    /// Pages of entries, overflow and filters.
    page_count: u64,
    kinds: [KindDirectory; KIND_COUNT],
    tables: Vec<SymbolTable>,
    /// The directory pages of all kinds, one kind after the other.
    place: Place,
}

const KIND_COUNT: usize = TermKind::DICTIONARY.len();

/// The entry pages of one kind. What is known of each is on directory pages; their beginnings are here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KindDirectory {
    /// Number of keys.
    count: u64,
    /// Bytes of all keys.
    key_bytes: u64,
    entry_pages: usize,
    overflow_pages: u64,
    /// Number of the first directory page among those of all kinds.
    first_directory_page: usize,
    /// Of each directory page: the index of its first entry page, and the rank of the first key there.
    first_indexes: Vec<usize>,
    first_ranks: Vec<u64>,
    /// The separators of these entry pages.
    separators: Separators,
    /// The filter pages, in order: together they have all entry pages, or there is none.
    filters: Vec<FilterPlace>,
}

/// A filter page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilterPlace {
    /// Index of its first entry page.
    first_index: usize,
    /// Page number in the file.
    number: u64,
}

/// The directory of a dictionary that is being written.
#[derive(Clone, Debug)]
pub(super) struct OpenDirectory {
    page_bytes: usize,
    kinds: [OpenKind; KIND_COUNT],
    tables: Vec<SymbolTable>,
}

/// The entry pages of one kind of a dictionary that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenKind {
    directory: KindDirectory,
    open: OpenDirectoryPage,
    pages: Vec<Vec<u8>>,
    /// Number of entry pages that have a filter page.
    filtered_pages: usize,
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
    /// Pages of filters.
    pub filter_pages: u64,
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
    /// Returns the page size in bytes.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Returns the number of pages of entries, overflow and filters.
    pub fn page_count(&self) -> u64 {
        self.page_count
    }

    /// Returns whether it is of the form that this program writes: with directory pages, and filter pages for all entry pages.
    pub(crate) fn is_of_newest_format(&self) -> bool {
        let is_filtered = |kind: &KindDirectory| kind.filters.is_empty() == (kind.entry_pages == 0);
        matches!(self.place, Place::File(_)) && self.kinds.iter().all(is_filtered)
    }

    /// Returns the number of pages of the file, directory pages included.
    pub fn file_pages(&self) -> u64 {
        let own = match self.place {
            Place::File(_) => self.kinds.iter().map(|kind| kind.first_ranks.len()).sum(),
            Place::Memory(_) => 0,
        };
        self.page_count + own as u64
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
            entry_pages: kind.entry_pages as u64,
            overflow_pages: kind.overflow_pages,
            filter_pages: kind.filters.len() as u64,
        }
    }

    /// Returns the number of symbol tables.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// Returns the bytes of memory of the directory.
    pub fn memory_bytes(&self) -> usize {
        let kinds = self.kinds.iter().map(|kind| {
            let firsts = (kind.first_ranks.len() + kind.filters.len()) * 16;
            firsts + kind.separators.memory_bytes()
        });
        let tables = self.tables.len() * SymbolTable::MEMORY_BYTES;
        kinds.sum::<usize>() + tables + self.place.memory_bytes()
    }

    pub(super) fn tables(&self) -> &[SymbolTable] {
        &self.tables
    }

    /// Returns the pages of a dictionary kind; `None` for other kinds.
    fn kind(&self, kind: TermKind) -> Option<&KindDirectory> {
        self.kinds.get(kind_index(kind)?)
    }

    /// Returns lookups among the pages of a dictionary kind, in the file that this is the directory of; `None` for
    /// other kinds. `file` is [`staying`](PagedFile::staying).
    pub(super) fn lookup<'d>(&'d self, kind: TermKind, file: &'d PagedFile) -> Option<Lookup<'d>> {
        Some(Lookup {
            file,
            place: &self.place,
            kind: self.kind(kind)?,
            held: Held::default(),
        })
    }

    /// Appends the directory's bytes.
    pub fn encode(&self, writer: &mut ByteWriter) {
        let page_bytes = u32::try_from(self.page_bytes).expect("pages of at most 64 KiB");
        let has_filters = self.kinds.iter().any(|kind| !kind.filters.is_empty());
        let filters = if has_filters { HAS_FILTERS } else { 0 };
        writer.u32(page_bytes | ON_PAGES | filters);
        writer.u64(self.page_count);
        writer.varint(self.tables.len() as u64);
        for table in &self.tables {
            table.encode(writer);
        }
        for (kind, directory) in TermKind::DICTIONARY.iter().zip(&self.kinds) {
            writer.u8(*kind as u8);
            directory.encode(writer);
            if has_filters {
                directory.encode_filters(writer);
            }
        }
    }

    /// Reads the output of [`Self::encode`], or the whole directory of a file that has no directory pages; checks that
    /// it is consistent.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let size = reader.u32()?;
        let page_bytes = (size & !(ON_PAGES | HAS_FILTERS)) as usize;
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(reader.corrupt("a dictionary page size of 4 to 64 KiB before this place"));
        }
        let page_count = reader.u64()?;
        let mut open = OpenDirectory::new(page_bytes);
        for _ in 0..reader.count(1)? {
            let table = SymbolTable::decode(reader)?;
            open.add_table(table)
                .ok_or_else(|| reader.corrupt::<StoreError>("at most 65,536 symbol tables"))?;
        }
        if size & ON_PAGES == 0 {
            open.read_whole(reader, page_count)?;
            return Ok(open.keep());
        }
        let mut directory = Self {
            page_bytes,
            page_count,
            kinds: Default::default(),
            tables: open.tables,
            place: Place::File(page_count),
        };
        let (mut pages, mut directory_pages) = (0_u64, 0);
        for (kind, slot) in TermKind::DICTIONARY.iter().zip(&mut directory.kinds) {
            if reader.u8()? != *kind as u8 {
                return Err(reader.corrupt("the dictionary kinds in id order"));
            }
            *slot = KindDirectory::decode(reader, directory_pages)?;
            if size & HAS_FILTERS != 0 {
                slot.decode_filters(reader, page_count)?;
            }
            pages = pages.saturating_add(slot.file_pages());
            directory_pages += slot.first_ranks.len();
        }
        if pages != page_count {
            return Err(reader.corrupt("as many pages as the dictionary has"));
        }
        Ok(directory)
    }
}

impl OpenDirectory {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            kinds: Default::default(),
            tables: Vec::new(),
        }
    }

    /// Returns the page size in bytes.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Adds a symbol table; `None` if there are as many as pages can refer to.
    pub(super) fn add_table(&mut self, table: SymbolTable) -> Option<u16> {
        let number = u16::try_from(self.tables.len()).ok()?;
        self.tables.push(table);
        Some(number)
    }

    /// Adds an entry page: the separator is above every key before it, and not above its first.
    pub(super) fn add_page(&mut self, kind: TermKind, number: u64, separator: &[u8]) {
        let page_bytes = self.page_bytes;
        self.kind(kind).add_page(number, separator, page_bytes);
    }

    /// Closes the page last added.
    pub(super) fn close_page(
        &mut self,
        kind: TermKind,
        entry_count: u64,
        key_bytes: u64,
        overflow_pages: u32,
    ) {
        let directory = &mut self.kind(kind).directory;
        directory.count += entry_count;
        directory.key_bytes += key_bytes;
        directory.overflow_pages += u64::from(overflow_pages);
    }

    /// Adds the filter page of the next entry pages.
    pub(super) fn add_filter(&mut self, kind: TermKind, number: u64, entry_pages: usize) {
        let kind = self.kind(kind);
        kind.directory.filters.push(FilterPlace {
            first_index: kind.filtered_pages,
            number,
        });
        kind.filtered_pages += entry_pages;
    }

    fn kind(&mut self, kind: TermKind) -> &mut OpenKind {
        let index = kind_index(kind).expect("keys are of dictionary kinds");
        &mut self.kinds[index]
    }

    /// Appends the directory pages to the file with `push`, which seals a page.
    pub(super) fn finish<E>(
        self,
        mut push: impl FnMut(&mut [u8]) -> Result<u64, E>,
    ) -> Result<DictionaryDirectory, E> {
        let (mut directory, mut pages) = self.close();
        for page in &mut pages {
            push(page)?;
        }
        directory.place = Place::File(directory.page_count);
        Ok(directory)
    }

    /// Keeps the directory pages in memory, for a file that has none.
    fn keep(self) -> DictionaryDirectory {
        let (mut directory, pages) = self.close();
        directory.place = Place::Memory(pages.into_iter().map(Arc::from).collect());
        directory
    }

    /// Returns the directory, without a place, and all directory pages.
    fn close(self) -> (DictionaryDirectory, Vec<Vec<u8>>) {
        let mut pages = Vec::new();
        let kinds = self.kinds.map(|mut kind| {
            kind.close_directory_page();
            kind.directory.first_directory_page = pages.len();
            pages.append(&mut kind.pages);
            kind.directory
        });
        let page_counts = kinds.iter().map(KindDirectory::file_pages);
        let directory = DictionaryDirectory {
            page_bytes: self.page_bytes,
            page_count: page_counts.sum(),
            kinds,
            tables: self.tables,
            place: Place::Memory(Vec::new()),
        };
        (directory, pages)
    }

    /// Reads the kinds of a file that has no directory pages.
    fn read_whole(
        &mut self,
        reader: &mut ByteReader<'_>,
        page_count: u64,
    ) -> Result<(), StoreError> {
        let mut next_page = 0;
        for (kind, slot) in TermKind::DICTIONARY.iter().zip(&mut self.kinds) {
            if reader.u8()? != *kind as u8 {
                return Err(reader.corrupt("the dictionary kinds in id order"));
            }
            next_page = slot
                .read_whole(reader, next_page, self.page_bytes)?
                .filter(|&end| end <= page_count)
                .ok_or_else(|| {
                    reader.corrupt::<StoreError>("no more pages than the dictionary has")
                })?;
        }
        match next_page == page_count {
            true => Ok(()),
            false => Err(reader.corrupt("as many pages as the dictionary has")),
        }
    }
}

impl OpenKind {
    fn add_page(&mut self, number: u64, separator: &[u8], page_bytes: usize) {
        let rank = self.directory.count;
        let start = PageStart { rank, number };
        if self.open.len() == 0 || !self.open.push(start, separator, page_bytes) {
            self.close_directory_page();
            self.directory
                .first_indexes
                .push(self.directory.entry_pages);
            self.directory.first_ranks.push(rank);
            self.directory.separators.push(separator);
            let fits = self.open.push(start, separator, page_bytes);
            assert!(fits, "a page has room for a separator");
        }
        self.directory.entry_pages += 1;
    }

    fn close_directory_page(&mut self) {
        if self.open.len() > 0 {
            self.pages.push(self.open.take());
        }
    }

    /// Reads the entry pages of a kind whose file has no directory pages, from page `first_page` on; returns the number
    /// of the page after the last.
    fn read_whole(
        &mut self,
        reader: &mut ByteReader<'_>,
        first_page: u64,
        page_bytes: usize,
    ) -> Result<Option<u64>, StoreError> {
        let count = reader.varint()?;
        self.directory.key_bytes = reader.varint()?;
        let page_count = reader.count(1)?;
        let mut entry_counts = Vec::with_capacity(page_count);
        let mut terms = 0u64;
        for _ in 0..page_count {
            let entry_count = reader.varint()?;
            if !ENTRIES.contains(&entry_count) {
                return Err(reader.corrupt("pages of 1 to 65,535 entries before this place"));
            }
            terms = terms
                .checked_add(entry_count)
                .filter(|&terms| terms <= count)
                .ok_or_else(|| reader.corrupt::<StoreError>("no more entries than terms"))?;
            entry_counts.push(entry_count);
        }
        if terms != count {
            return Err(reader.corrupt("as many entries as terms before this place"));
        }
        let separators = Separators::decode(reader, page_count)?;
        let overflows = read_overflows(reader, page_count)?;
        let mut overflows = overflows.into_iter().peekable();
        let mut number = Some(first_page);
        let mut index = 0;
        separators.for_each(|separator| {
            let Some(place) = number else { return };
            self.add_page(place, separator, page_bytes);
            let overflow = overflows.next_if(|(owner, _)| *owner == index as u64);
            let overflow_pages = overflow.map_or(0, |(_, pages)| pages);
            self.directory.count += entry_counts[index];
            self.directory.overflow_pages += overflow_pages;
            number = place
                .checked_add(1)
                .and_then(|next| next.checked_add(overflow_pages));
            index += 1;
        });
        Ok(number)
    }
}

/// Entries of an entry page.
const ENTRIES: std::ops::RangeInclusive<u64> = 1..=u16::MAX as u64;

/// Reads the entry pages with overflow pages: the index, and the number of overflow pages, of each.
fn read_overflows(
    reader: &mut ByteReader<'_>,
    page_count: usize,
) -> Result<Vec<(u64, u64)>, StoreError> {
    let mut overflows = Vec::new();
    let (mut last, mut total) = (0u64, 0u64);
    for entry in 0..reader.count(2)? {
        let (step, pages) = (reader.varint()?, reader.varint()?);
        match (last.checked_add(step), total.checked_add(pages)) {
            (Some(index), Some(sum))
                if index < page_count as u64 && pages > 0 && (entry == 0 || step > 0) =>
            {
                (last, total) = (index, sum);
                overflows.push((index, pages));
            }
            _ => return Err(reader.corrupt("overflow pages after pages, in order")),
        }
    }
    Ok(overflows)
}

impl KindDirectory {
    fn encode(&self, writer: &mut ByteWriter) {
        writer.varint(self.count);
        writer.varint(self.key_bytes);
        writer.varint(self.entry_pages as u64);
        writer.varint(self.overflow_pages);
        writer.varint(self.first_ranks.len() as u64);
        for (&index, &rank) in self.first_indexes.iter().zip(&self.first_ranks) {
            writer.varint(index as u64);
            writer.varint(rank);
        }
        self.separators.encode(writer);
    }

    fn decode(
        reader: &mut ByteReader<'_>,
        first_directory_page: usize,
    ) -> Result<Self, StoreError> {
        let mut directory = Self {
            count: reader.varint()?,
            key_bytes: reader.varint()?,
            entry_pages: usize::try_from(reader.varint()?).unwrap_or(usize::MAX),
            overflow_pages: reader.varint()?,
            first_directory_page,
            ..Self::default()
        };
        let pages = reader.count(3)?;
        for _ in 0..pages {
            let index = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
            directory.first_indexes.push(index);
            directory.first_ranks.push(reader.varint()?);
        }
        let (indexes, ranks) = (&directory.first_indexes, &directory.first_ranks);
        let ascend = indexes.is_sorted_by(|a, b| a < b) && ranks.is_sorted_by(|a, b| a < b);
        let begin = indexes.first().is_none_or(|&index| index == 0)
            && ranks.first().is_none_or(|&rank| rank == 0);
        let end = indexes.last().map_or(0, |index| index + 1) <= directory.entry_pages
            && ranks.last().map_or(0, |rank| rank.saturating_add(1)) <= directory.count;
        let none = [pages == 0, directory.entry_pages == 0, directory.count == 0];
        if !ascend || !begin || !end || (none != [false; 3] && none != [true; 3]) {
            return Err(reader.corrupt("the beginnings of directory pages in order"));
        }
        directory.separators = Separators::decode(reader, pages)?;
        Ok(directory)
    }

    /// Appends the places of filter pages.
    fn encode_filters(&self, writer: &mut ByteWriter) {
        writer.varint(self.filters.len() as u64);
        for filter in &self.filters {
            writer.varint(filter.first_index as u64);
            writer.varint(filter.number);
        }
    }

    /// Reads the output of [`Self::encode_filters`].
    fn decode_filters(
        &mut self,
        reader: &mut ByteReader<'_>,
        page_count: u64,
    ) -> Result<(), StoreError> {
        for _ in 0..reader.count(2)? {
            self.filters.push(FilterPlace {
                first_index: usize::try_from(reader.varint()?).unwrap_or(usize::MAX),
                number: reader.varint()?,
            });
        }
        let filters = &self.filters;
        let ascend =
            filters.is_sorted_by(|a, b| a.first_index < b.first_index && a.number < b.number);
        let begin = filters
            .first()
            .map_or(self.entry_pages == 0, |first| first.first_index == 0);
        let end = filters
            .last()
            .is_none_or(|last| last.first_index < self.entry_pages && last.number < page_count);
        match ascend && begin && end {
            true => Ok(()),
            false => Err(reader.corrupt("the beginnings of filter pages in order")),
        }
    }

    /// Returns the number of pages of entries, overflow and filters.
    fn file_pages(&self) -> u64 {
        (self.entry_pages as u64)
            .saturating_add(self.overflow_pages)
            .saturating_add(self.filters.len() as u64)
    }

    /// Returns the indexes of the entry pages of a directory page.
    fn indexes(&self, page: usize) -> Range<usize> {
        let end = self.first_indexes.get(page + 1).copied();
        self.first_indexes[page]..end.unwrap_or(self.entry_pages)
    }
}

/// Lookups among the entry pages of one kind, each of which begins with the directory page that the last one used.
pub(super) struct Lookup<'d> {
    file: &'d PagedFile,
    place: &'d Place,
    kind: &'d KindDirectory,
    held: Held,
}

impl Lookup<'_> {
    /// Returns the number of entry pages.
    pub(super) fn page_count(&self) -> usize {
        self.kind.entry_pages
    }

    /// Returns the entry page with this index.
    pub(super) fn place(&mut self, index: usize) -> Result<PagePlace, StoreError> {
        let firsts = &self.kind.first_indexes;
        let after = firsts.partition_point(|&first| first <= index);
        let page = after.saturating_sub(1);
        self.place_on(page, |_, slots| Ok(index - slots.start))
    }

    /// Returns the number of the filter page of the entry page with this index, if the dictionary has filters.
    pub(super) fn filter_of(&self, index: usize) -> Option<u64> {
        let filters = &self.kind.filters;
        let after = filters.partition_point(|filter| filter.first_index <= index);
        let filter = filters.get(after.checked_sub(1)?)?;
        Some(filter.number)
    }

    /// Returns the entry page that holds `rank`.
    pub(super) fn place_of_rank(&mut self, rank: u64) -> Result<Option<PagePlace>, StoreError> {
        let Some(page) = self.directory_page_of_rank(rank) else {
            return Ok(None);
        };
        let place = self.place_on(page, |entries, _| slot_of_rank(entries, rank));
        place.map(Some)
    }

    /// Returns the entry page whose slot on a directory page `slot` finds.
    fn place_on(
        &mut self,
        page: usize,
        slot: impl FnOnce(&DirectoryPage<'_>, &Range<usize>) -> Result<usize, Damage>,
    ) -> Result<PagePlace, StoreError> {
        let kind = self.kind;
        let after = kind
            .first_ranks
            .get(page + 1)
            .copied()
            .unwrap_or(kind.count);
        self.on_page(page, |entries, slots| {
            let slot = slot(entries, &slots)?;
            let first_rank = entries.rank(slot);
            let next = match slot + 1 < slots.len() {
                true => entries.rank(slot + 1),
                false => after,
            };
            let entry_count = next.checked_sub(first_rank);
            let entry_count = entry_count.filter(|count| ENTRIES.contains(count));
            Ok(PagePlace {
                number: entries.number(slot),
                first_rank,
                entry_count: entry_count
                    .ok_or(Damage("pages of 1 to 65,535 entries in a directory page"))?,
            })
        })
    }

    /// Returns the number of the directory page that has the entry page of `rank`.
    fn directory_page_of_rank(&self, rank: u64) -> Option<usize> {
        let ranks = &self.kind.first_ranks;
        let after = ranks.partition_point(|&first| first <= rank);
        after.checked_sub(1).filter(|_| rank < self.kind.count)
    }

    /// Returns the index of the page that holds `rank`.
    pub(super) fn page_of_rank(&mut self, rank: u64) -> Result<Option<usize>, StoreError> {
        let Some(page) = self.directory_page_of_rank(rank) else {
            return Ok(None);
        };
        self.on_page(page, |entries, slots| {
            Ok(Some(slots.start + slot_of_rank(entries, rank)?))
        })
    }

    /// Returns the indexes of the pages that may hold `key`: one, unless separators had to be cut short.
    pub(super) fn pages_of_key(&mut self, key: &[u8]) -> Result<Range<usize>, StoreError> {
        if self.page_count() == 0 {
            return Ok(0..0);
        }
        // The first separator is empty, so there is always one before the end.
        let end = self.partition(key, Ordering::Equal)?;
        if let Some(prefix) = key.get(..SEPARATOR_BYTES_MAX) {
            let below = self.partition(prefix, Ordering::Less)?;
            if below < end {
                return Ok(below.saturating_sub(1)..end);
            }
        }
        Ok(end.saturating_sub(1)..end)
    }

    /// Returns the number of separators that compare to `key` as `most` or less.
    fn partition(&mut self, key: &[u8], most: Ordering) -> Result<usize, StoreError> {
        let separators = &self.kind.separators;
        let Some(page) = separators.partition(key, most).checked_sub(1) else {
            return Ok(0);
        };
        self.on_page(page, |entries, slots| {
            Ok(slots.start + entries.partition(key, most)?)
        })
    }

    /// Passes a directory page, and the indexes of its entry pages, to `f`.
    fn on_page<T>(
        &mut self,
        page: usize,
        f: impl FnOnce(&DirectoryPage<'_>, Range<usize>) -> Result<T, Damage>,
    ) -> Result<T, StoreError> {
        let (file, place, indexes) = (self.file, self.place, self.kind.indexes(page));
        let number = self.kind.first_directory_page + page;
        let bytes = self.held.page(number, || place.page(file, number))?;
        DirectoryPage::parse(bytes, indexes.len())
            .and_then(|entries| f(&entries, indexes))
            .map_err(|damage| self.damaged(page, damage))
    }

    fn damaged(&self, page: usize, Damage(expected): Damage) -> StoreError {
        let number = self.kind.first_directory_page + page;
        let message = format!("expected {expected}");
        StoreError::corrupt(self.file.name(), self.place.number(number), message)
    }
}

/// Returns the slot of the entry page of a rank that is on this directory page.
fn slot_of_rank(entries: &DirectoryPage<'_>, rank: u64) -> Result<usize, Damage> {
    let slot = entries.count_up_to(rank).checked_sub(1);
    slot.ok_or(Damage("the first rank that `directory` lists"))
}

fn kind_index(kind: TermKind) -> Option<usize> {
    TermKind::DICTIONARY.iter().position(|&known| known == kind)
}
