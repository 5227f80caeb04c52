//! Directory pages: the entries that describe the pages of a file, on pages at its end.
//!
//! The first entry of each directory page stays in memory, so finding an entry takes at most one page, which many
//! others share: opening a store does not read them, and the buffer pool keeps them before it keeps other pages. The
//! entries of the first directory pages of a file stay in memory, too, once they were read: a search there takes no lock and
//! touches less memory than one on a page. The format is drawn in `docs/format/segment.md`.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{Page, PagedFile, SEAL_BYTES};

use crate::StoreError;
use crate::gallop::gallop_rows;

/// The name under which reads of directory pages are counted.
pub(crate) const GROUP: &str = "directory";
/// Bytes before the entries: the seal, a mark, the number of entries.
const HEADER_BYTES: usize = 16;
/// The mark of a directory page with entries of one size.
const MARK: [u8; 4] = *b"dir\x01";
const WORD: usize = size_of::<u64>();
/// Maximum number of directory pages of a file whose entries stay in memory: with pages of 4 KiB half a MiB, for 128 MiB of a
/// file.
const KEPT_MAX: usize = 128;

/// A directory page: of a file, or of a file that has none, because its directory was written by an earlier program.
#[derive(Clone, Debug)]
pub(crate) enum DirectoryPage {
    Read(Page),
    Kept(Arc<[u8]>),
}

impl Deref for DirectoryPage {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(page) => page,
            Self::Kept(page) => page,
        }
    }
}

/// The directory pages of a part of a file: their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the file, from this page on.
    File(u64),
    /// In memory: the file has none.
    Memory(Vec<Arc<[u8]>>),
}

impl Place {
    /// Returns a page, by its number among the directory pages. `file` is [`staying`](PagedFile::staying).
    #[inline]
    pub(crate) fn page(
        &self,
        file: &PagedFile,
        number: usize,
    ) -> Result<DirectoryPage, StoreError> {
        match self {
            Self::File(first) => Ok(DirectoryPage::Read(file.page(first + number as u64)?)),
            Self::Memory(pages) => Ok(DirectoryPage::Kept(Arc::clone(&pages[number]))),
        }
    }

    /// Returns the number in the file of a directory page.
    pub(crate) fn number(&self, number: usize) -> Option<u64> {
        match self {
            Self::File(first) => Some(first + number as u64),
            Self::Memory(_) => None,
        }
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::File(_) => 0,
            Self::Memory(pages) => pages.iter().map(|page| page.len()).sum(),
        }
    }
}

/// Entries of `N` words, in order: a page's worth of them begins with each word list in `firsts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entries<const N: usize> {
    per_page: usize,
    count: usize,
    firsts: Vec<[u64; N]>,
    place: Place,
    kept: Kept<N>,
}

/// The entries of the first directory pages, as far as they were read.
#[derive(Debug)]
struct Kept<const N: usize>(Box<[KeptEntries<N>]>);

/// The entries of a directory page, once they were read.
type KeptEntries<const N: usize> = OnceLock<Box<[[u64; N]]>>;

impl<const N: usize> Kept<N> {
    /// Returns none of the entries of this many directory pages.
    fn none_of(pages: usize) -> Self {
        Self((0..pages.min(KEPT_MAX)).map(|_| OnceLock::new()).collect())
    }
}

impl<const N: usize> Clone for Kept<N> {
    fn clone(&self) -> Self {
        Self::none_of(self.0.len())
    }
}

/// What was read does not change what the entries are.
impl<const N: usize> PartialEq for Kept<N> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<const N: usize> Eq for Kept<N> {}

/// The directory page that a lookup used last, and its place there: lookups of neighbours need not find them again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    page: Option<(usize, DirectoryPage)>,
    /// The number of the directory page that was searched last, and of its leading entries that the search passed.
    passed: Option<(usize, usize)>,
}

impl Held {
    /// Returns the directory page with a number, which `read` reads and checks unless it is held.
    #[inline]
    pub(crate) fn page(
        &mut self,
        number: usize,
        read: impl FnOnce() -> Result<DirectoryPage, StoreError>,
    ) -> Result<&[u8], StoreError> {
        if self.page.as_ref().is_none_or(|(page, _)| *page != number) {
            self.page = Some((number, read()?));
        }
        let (_, page) = self.page.as_ref().expect("just put there");
        Ok(page)
    }
}

/// Collects entries, and writes them to directory pages.
#[derive(Clone, Debug)]
pub(crate) struct EntriesWriter<const N: usize> {
    page_bytes: usize,
    count: usize,
    firsts: Vec<[u64; N]>,
    pages: Vec<Vec<u8>>,
}

/// Returns how many entries of `N` words a page has.
const fn entries_per_page<const N: usize>(page_bytes: usize) -> usize {
    (page_bytes - HEADER_BYTES) / (N * WORD)
}

impl<const N: usize> EntriesWriter<N> {
    /// Returns a writer of directory pages of a size in bytes.
    pub(crate) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            count: 0,
            firsts: Vec::new(),
            pages: Vec::new(),
        }
    }

    /// Returns the number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: [u64; N]) {
        if self
            .count
            .is_multiple_of(entries_per_page::<N>(self.page_bytes))
        {
            self.firsts.push(entry);
            let mut page = Vec::with_capacity(self.page_bytes);
            page.resize(HEADER_BYTES, 0);
            page[SEAL_BYTES..SEAL_BYTES + MARK.len()].copy_from_slice(&MARK);
            self.pages.push(page);
        }
        self.count += 1;
        let page = self.pages.last_mut().expect("just made");
        for word in entry {
            page.extend_from_slice(&word.to_le_bytes());
        }
        let entries = ((page.len() - HEADER_BYTES) / (N * WORD)) as u32;
        page[8..12].copy_from_slice(&entries.to_le_bytes());
    }

    /// Appends the directory pages to the file with `push`, which seals a page.
    pub(crate) fn finish(
        mut self,
        mut push: impl FnMut(&mut [u8]) -> Result<u64, StoreError>,
    ) -> Result<Entries<N>, StoreError> {
        let first = self.count as u64;
        for (number, page) in self.pages.iter_mut().enumerate() {
            let place = push(page)?;
            debug_assert_eq!(
                place,
                first + number as u64,
                "they follow the pages they describe"
            );
        }
        Ok(self.entries(Place::File(first)))
    }

    /// Keeps the directory pages in memory, for a file that has none.
    pub(crate) fn keep(mut self) -> Entries<N> {
        let pages = std::mem::take(&mut self.pages).into_iter();
        let pages = pages.map(Arc::from).collect();
        self.entries(Place::Memory(pages))
    }

    fn entries(self, place: Place) -> Entries<N> {
        Entries {
            per_page: entries_per_page::<N>(self.page_bytes),
            count: self.count,
            kept: Kept::none_of(self.firsts.len()),
            firsts: self.firsts,
            place,
        }
    }
}

impl<const N: usize> Entries<N> {
    /// Returns the number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of pages of the file: those described, and the directory's.
    pub(crate) fn file_pages(&self) -> u64 {
        let own = match self.place {
            Place::File(_) => self.firsts.len(),
            Place::Memory(_) => 0,
        };
        (self.count + own) as u64
    }

    /// Returns whether they are on pages of their file.
    pub(crate) fn are_in_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// Returns the bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let kept = self.kept.0.iter().filter_map(OnceLock::get);
        let kept: usize = kept.map(|entries| size_of_val(&entries[..])).sum();
        size_of_val(&self.firsts[..]) + kept + self.place.memory_bytes()
    }

    /// Returns the first entries of the directory pages, in order.
    pub(crate) fn firsts(&self) -> &[[u64; N]] {
        &self.firsts
    }

    /// Returns an entry.
    #[inline]
    pub(crate) fn get(
        &self,
        file: &PagedFile,
        held: &mut Held,
        index: usize,
    ) -> Result<[u64; N], StoreError> {
        let (page, slot) = (index / self.per_page, index % self.per_page);
        match self.kept(file, held, page)? {
            Some(entries) => Ok(entries[slot]),
            None => Ok(entry(self.hold(file, held, page)?, slot)),
        }
    }

    /// Returns the number of leading entries for which `holds` is true; it is true for all of them and for none after
    /// them.
    #[inline]
    pub(crate) fn partition_point(
        &self,
        file: &PagedFile,
        held: &mut Held,
        holds: impl Fn(&[u64; N]) -> bool,
    ) -> Result<usize, StoreError> {
        let page = match held.passed {
            Some((page, _)) if self.is_within(page, &holds) => page,
            _ => match self.firsts.partition_point(&holds).checked_sub(1) {
                Some(page) => page,
                None => return Ok(0),
            },
        };
        let passed = match held.passed {
            Some((of, passed)) if of == page => passed,
            _ => 0,
        };
        let found = match self.kept(file, held, page)? {
            Some(entries) => partition_point(entries.len(), passed, |slot| holds(&entries[slot])),
            None => {
                let bytes = self.hold(file, held, page)?;
                partition_point(self.entries_of(page), passed, |slot| {
                    holds(&entry(bytes, slot))
                })
            }
        };
        held.passed = Some((page, found));
        Ok(page * self.per_page + found)
    }

    /// Returns whether the last entry for which `holds` is true is on the page.
    fn is_within(&self, page: usize, holds: impl Fn(&[u64; N]) -> bool) -> bool {
        holds(&self.firsts[page]) && self.firsts.get(page + 1).is_none_or(|next| !holds(next))
    }

    fn entries_of(&self, page: usize) -> usize {
        self.per_page.min(self.count - page * self.per_page)
    }

    /// Returns the entries of a directory page, if they stay in memory.
    #[inline]
    fn kept(
        &self,
        file: &PagedFile,
        held: &mut Held,
        number: usize,
    ) -> Result<Option<&[[u64; N]]>, StoreError> {
        let Some(kept) = self.kept.0.get(number) else {
            return Ok(None);
        };
        match kept.get() {
            Some(entries) => Ok(Some(entries)),
            None => self.keep(kept, file, held, number).map(Some),
        }
    }

    /// Reads the entries of a directory page that are to stay in memory.
    #[cold]
    fn keep<'k>(
        &self,
        kept: &'k KeptEntries<N>,
        file: &PagedFile,
        held: &mut Held,
        number: usize,
    ) -> Result<&'k [[u64; N]], StoreError> {
        let count = self.entries_of(number);
        let bytes = self.hold(file, held, number)?;
        let entries = (0..count).map(|slot| entry(bytes, slot)).collect();
        Ok(kept.get_or_init(|| entries))
    }

    #[inline]
    fn hold<'h>(
        &self,
        file: &PagedFile,
        held: &'h mut Held,
        number: usize,
    ) -> Result<&'h [u8], StoreError> {
        held.page(number, || {
            let page = self.place.page(file, number)?;
            self.check(file, number, &page)?;
            Ok(page)
        })
    }

    /// Fails if the page is not the directory page with this number.
    fn check(&self, file: &PagedFile, number: usize, page: &[u8]) -> Result<(), StoreError> {
        let entries = u32::from_le_bytes([page[8], page[9], page[10], page[11]]) as usize;
        if page[SEAL_BYTES..8] != MARK || entries != self.entries_of(number) {
            return Err(self.corrupt(
                file,
                number,
                "it is not the directory page that belongs here",
            ));
        }
        if entry::<N>(page, 0) != self.firsts[number] {
            return Err(self.corrupt(
                file,
                number,
                "its first entry is not the one in `directory`",
            ));
        }
        Ok(())
    }

    fn corrupt(&self, file: &PagedFile, number: usize, message: &str) -> StoreError {
        StoreError::corrupt(file.name(), self.place.number(number), message)
    }

    /// Appends the part that stays in memory, which must be in a file.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.varint(self.count as u64);
        for word in self.firsts.iter().flatten() {
            out.u64(*word);
        }
    }

    /// Reads the output of [`Self::write`], of a file with pages of this size.
    pub(crate) fn read(input: &mut ByteReader<'_>, page_bytes: usize) -> Result<Self, StoreError> {
        let count = input.varint()?;
        let per_page = entries_per_page::<N>(page_bytes);
        let pages = count.div_ceil(per_page as u64);
        if pages.saturating_mul((N * WORD) as u64) > input.remaining() as u64 {
            return Err(input.corrupt("as many directory pages as the pages need"));
        }
        let mut firsts = Vec::with_capacity(pages as usize);
        for _ in 0..pages {
            let mut first = [0; N];
            for word in &mut first {
                *word = input.u64()?;
            }
            firsts.push(first);
        }
        Ok(Self {
            per_page,
            count: count as usize,
            kept: Kept::none_of(firsts.len()),
            firsts,
            place: Place::File(count),
        })
    }
}

/// Returns the number of leading slots of `count` for which `holds` is true; it is true for the first one, for all of them
/// and for none after them. Searches from `passed` on, the result of an earlier search, as the next of sorted lookups is
/// mostly close.
#[inline]
fn partition_point(count: usize, passed: usize, holds: impl Fn(usize) -> bool) -> usize {
    // A first step beyond the slots halves them from the beginning.
    let (slots, first_step) = match passed {
        0 => (1..count, count),
        _ if !holds(passed - 1) => (1..passed - 1, count),
        _ => (passed..count, 1),
    };
    gallop_rows(slots, first_step, holds)
}

/// Returns the entry in a slot of a page.
#[inline]
fn entry<const N: usize>(page: &[u8], slot: usize) -> [u64; N] {
    let start = HEADER_BYTES + slot * N * WORD;
    let bytes = &page[start..start + N * WORD];
    std::array::from_fn(|word| {
        let bytes = bytes[word * WORD..(word + 1) * WORD].try_into();
        u64::from_le_bytes(bytes.expect("a word"))
    })
}

#[cfg(test)]
mod tests {
    use pythia_io::{BufferPool, MemoryStorage, PageWriter, Storage};

    use super::*;

    const PAGE_BYTES: usize = 4096;

    /// Writes a file with a page for each entry, and returns it with its entries.
    fn file(entries: &[[u64; 2]]) -> (PagedFile, Entries<2>) {
        let storage = MemoryStorage::new();
        let mut pages = PageWriter::new(storage.create("pages").unwrap(), PAGE_BYTES);
        let mut writer = EntriesWriter::new(PAGE_BYTES);
        for entry in entries {
            pages.push(&mut [0; PAGE_BYTES]).unwrap();
            writer.push(*entry);
        }
        let entries = writer.finish(|page| Ok(pages.push(page)?)).unwrap();
        pages.finish().unwrap();
        let pool = BufferPool::new(Arc::new(storage), 4 << 20);
        let file = pool.open("pages", PAGE_BYTES, "pages").unwrap();
        (file.staying(GROUP), entries)
    }

    fn kept(entries: &[[u64; 2]]) -> Entries<2> {
        let mut writer = EntriesWriter::new(PAGE_BYTES);
        entries.iter().for_each(|entry| writer.push(*entry));
        writer.keep()
    }

    #[test]
    fn entries_are_found_as_in_a_vector() {
        for count in [0, 1, 2, 254, 255, 256, 510, 511, 2000] {
            let all: Vec<[u64; 2]> = (0..count).map(|n| [n / 3 * 2, n]).collect();
            let (file, on_pages) = file(&all);
            assert_eq!(on_pages.file_pages(), file.page_count());
            for entries in [on_pages, kept(&all)] {
                let (mut held, mut sorted) = (Held::default(), Held::default());
                for value in (0..count + 4).chain([0, count / 2, u64::MAX]) {
                    let expected = all.partition_point(|entry| entry[0] <= value);
                    for held in [&mut held, &mut sorted, &mut Held::default()] {
                        let found = entries.partition_point(&file, held, |entry| entry[0] <= value);
                        assert_eq!(found.unwrap(), expected, "{value} of {count}");
                    }
                    if let Some(index) = expected.checked_sub(1) {
                        let entry = entries.get(&file, &mut held, index).unwrap();
                        assert_eq!(entry, all[index]);
                    }
                }
            }
        }
    }

    #[test]
    fn searches_find_the_same_from_anywhere() {
        for count in 1..40 {
            for expected in 1..=count {
                for passed in 0..=count {
                    let found = partition_point(count, passed, |slot| slot < expected);
                    assert_eq!(found, expected, "of {count}, from {passed}");
                }
            }
        }
    }

    #[test]
    fn a_sorted_list_of_lookups_reads_each_directory_page_once() {
        let all: Vec<[u64; 2]> = (0..2000).map(|n| [n, n]).collect();
        let (file, entries) = file(&all);
        let mut held = Held::default();
        for value in 0..2000 {
            let found = entries.partition_point(&file, &mut held, |entry| entry[0] <= value);
            assert_eq!(found.unwrap() as u64, value + 1);
        }
        let counters = file.pool().counters().group(GROUP);
        assert_eq!((counters.device_pages, counters.cache_hits), (8, 0));
    }

    #[test]
    fn the_part_in_memory_round_trips_and_refuses_damage() {
        let all: Vec<[u64; 2]> = (0..600).map(|n| [n, 1 << 63 | n]).collect();
        let (_, entries) = file(&all);
        let mut out = ByteWriter::new();
        entries.write(&mut out);
        let bytes = out.into_bytes();
        let read = |bytes: &[u8]| {
            let mut input = ByteReader::new("directory", bytes);
            let entries = Entries::<2>::read(&mut input, PAGE_BYTES)?;
            input.finish()?;
            Ok::<_, StoreError>(entries)
        };
        assert_eq!(read(&bytes).unwrap(), entries);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end} bytes");
        }
        let mut huge = ByteWriter::new();
        huge.varint(u64::MAX);
        assert!(read(huge.as_slice()).is_err());
    }

    #[test]
    fn a_page_that_is_no_directory_page_or_another_one_is_refused() {
        let all: Vec<[u64; 2]> = (0..600).map(|n| [n, n]).collect();
        let (file, mut entries) = file(&all);
        let get = |entries: &Entries<2>, index| entries.get(&file, &mut Held::default(), index);
        assert!(get(&entries, 599).is_ok());
        entries = entries.clone();
        entries.place = Place::File(0);
        let error = get(&entries, 0).unwrap_err().to_string();
        assert!(
            error.contains("page 0") && error.contains("directory page"),
            "{error}"
        );
        entries = entries.clone();
        entries.place = Place::File(601);
        let error = get(&entries, 0).unwrap_err().to_string();
        assert!(error.contains("first entry"), "{error}");
        assert!(get(&entries, 599).is_err());
    }
}
