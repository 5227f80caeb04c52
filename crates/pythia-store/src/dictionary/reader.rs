//! Reading a dictionary: key → id, id → key, and both for batches.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use pythia_io::{Page, PagedFile};
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

use super::directory::{DictionaryDirectory, Lookup, PagePlace};
use super::format::Damage;
use super::keys::Keys;
use super::overflow::Overflow;
use super::page::{EntryCursor, EntryPage};
use crate::StoreError;
use crate::directory_pages;

/// The group of filter pages in counts of reads.
const FILTER_GROUP: &str = "filter";

/// A dictionary open for reading. Clones share everything.
#[derive(Clone, Debug)]
pub struct Dictionary {
    file: PagedFile,
    directory_pages: PagedFile,
    filter_pages: PagedFile,
    directory: Arc<DictionaryDirectory>,
}

/// A key of a batch that ends in overflow pages.
struct Unfinished {
    index: usize,
    kind: TermKind,
    owner: u64,
    prefix: Vec<u8>,
    overflow: Overflow,
}

impl Dictionary {
    /// Returns the dictionary whose pages are `file`.
    pub fn new(file: PagedFile, directory: Arc<DictionaryDirectory>) -> Result<Self, StoreError> {
        if file.page_bytes() != directory.page_bytes()
            || file.page_count() != directory.file_pages()
        {
            let message = format!(
                "expected {} pages of {} bytes, as the directory says; it has {} of {}",
                directory.file_pages(),
                directory.page_bytes(),
                file.page_count(),
                file.page_bytes()
            );
            return Err(StoreError::corrupt(file.name(), None, message));
        }
        Ok(Self {
            directory_pages: file.staying(directory_pages::GROUP),
            filter_pages: file.staying(FILTER_GROUP),
            file,
            directory,
        })
    }

    /// Returns the part kept in memory.
    pub fn directory(&self) -> &DictionaryDirectory {
        &self.directory
    }

    /// Returns lookups among the pages of a kind; `None` if it is not in the dictionary.
    pub(super) fn lookup(&self, kind: TermKind) -> Option<Lookup<'_>> {
        self.directory.lookup(kind, &self.directory_pages)
    }

    /// Returns the number of distinct terms of `kind`; ranks are below it.
    pub fn count(&self, kind: TermKind) -> u64 {
        self.directory.count(kind)
    }

    /// Returns the id of a key, if it is in the dictionary. Reads one page, unless the key is longer than a page.
    pub fn find(&self, key: TermKey<'_>) -> Result<Option<TermId>, StoreError> {
        let rank = self.rank(key)?;
        Ok(rank.ok().map(|rank| TermId::new(key.kind, rank)))
    }

    /// Reads the key of an id of a dictionary kind into `scratch`. Reads one page, unless the key is longer than a
    /// page.
    pub fn key<'s>(&self, id: TermId, scratch: &'s mut Vec<u8>) -> Result<TermKey<'s>, StoreError> {
        let kind = id.kind();
        let place = self.place(id, self.lookup(kind).as_mut())?;
        let page = self.file.page(place.number)?;
        let entries = self.entries(&page, kind, &place)?;
        let entry = (id.payload() - place.first_rank) as usize;
        scratch.clear();
        let large = EntryCursor::new(&entries)
            .seek(entry, scratch)
            .and_then(|()| entries.large(entry))
            .and_then(|record| self.overflow(&entries, &place, record))
            .map_err(|damage| damage.at(self.file.name(), place.number))?;
        drop(page);
        if let Some(overflow) = large {
            overflow.read(&self.file, self.directory.tables(), scratch)?;
        }
        Ok(TermKey {
            kind,
            bytes: scratch,
        })
    }

    /// Calls `f` with each id's index in `ids` and its key, in any order. Reads all pages as one batch; ids may
    /// repeat.
    ///
    /// # Errors
    /// Errors of `f`, and [`StoreError::Corrupt`] for an id that is not in this dictionary.
    pub fn keys<E: From<StoreError> + From<pythia_io::IoError>>(
        &self,
        ids: &[TermId],
        mut f: impl FnMut(usize, TermKey<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut sorted: Vec<(TermId, usize)> = ids
            .iter()
            .enumerate()
            .map(|(index, &id)| (id, index))
            .collect();
        sorted.sort_unstable();
        let pages = self.pages_of(&sorted)?;
        let numbers: Vec<u64> = pages.iter().map(|(place, _)| place.number).collect();
        let mut unfinished = Vec::new();
        let mut key = Vec::new();
        self.file.pages(&numbers, |page_index, page| {
            let (place, range) = &pages[page_index];
            let kind = sorted[range.start].0.kind();
            let entries = self.entries(page, kind, place)?;
            let mut cursor = EntryCursor::new(&entries);
            for &(id, index) in &sorted[range.clone()] {
                let entry = (id.payload() - place.first_rank) as usize;
                let large = cursor
                    .seek(entry, &mut key)
                    .and_then(|()| entries.large(entry))
                    .and_then(|record| self.overflow(&entries, place, record))
                    .map_err(|damage| damage.at(self.file.name(), place.number))?;
                match large {
                    None => f(index, TermKey { kind, bytes: &key })?,
                    Some(overflow) => unfinished.push(Unfinished {
                        index,
                        kind,
                        owner: place.number,
                        prefix: key.clone(),
                        overflow,
                    }),
                }
            }
            Ok::<(), E>(())
        })?;
        self.finish_large(&mut unfinished, f)
    }

    /// Returns the pages of sorted ids, each with its part of them.
    fn pages_of(
        &self,
        sorted: &[(TermId, usize)],
    ) -> Result<Vec<(PagePlace, Range<usize>)>, StoreError> {
        let mut pages: Vec<(PagePlace, Range<usize>)> = Vec::new();
        let mut position = 0;
        let mut lookup: Option<(TermKind, Lookup<'_>)> = None;
        while let Some(&(id, _)) = sorted.get(position) {
            let place = self.place(id, self.lookup_of(id.kind(), &mut lookup))?;
            let end = TermId::new(id.kind(), place.first_rank + place.entry_count - 1);
            let here = sorted[position..].iter().take_while(|&&(id, _)| id <= end);
            let next = position + here.count();
            pages.push((place, position..next));
            position = next;
        }
        Ok(pages)
    }

    fn finish_large<E: From<StoreError>>(
        &self,
        unfinished: &mut [Unfinished],
        mut f: impl FnMut(usize, TermKey<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for large in unfinished {
            let mut key = std::mem::take(&mut large.prefix);
            debug_assert!(large.owner < self.file.page_count());
            large
                .overflow
                .read(&self.file, self.directory.tables(), &mut key)?;
            f(
                large.index,
                TermKey {
                    kind: large.kind,
                    bytes: &key,
                },
            )?;
        }
        Ok(())
    }

    /// Returns the first `limit` keys that start with `prefix`, with their ids.
    pub(crate) fn keys_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        let ranks = self.prefix_range(kind, prefix)?;
        let end = ranks.end.min(ranks.start.saturating_add(limit as u64));
        let mut keys = self.iter_range(kind, ranks.start..end);
        let mut found = Vec::new();
        while let Some((id, key)) = keys.next()? {
            found.push((key.to_owned_key(), id));
        }
        Ok(found)
    }

    /// Returns the ranks of all keys of `kind` that start with `prefix`. Reads at most two pages, unless keys there
    /// are longer than a page.
    pub fn prefix_range(&self, kind: TermKind, prefix: &[u8]) -> Result<Range<u64>, StoreError> {
        let start = self.lower_bound(TermKey {
            kind,
            bytes: prefix,
        })?;
        let mut after = prefix.to_vec();
        while after.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let end = match after.last_mut() {
            None => self.count(kind),
            Some(byte) => {
                *byte += 1;
                self.lower_bound(TermKey {
                    kind,
                    bytes: &after,
                })?
            }
        };
        Ok(start..end)
    }

    /// Returns the rank of the first key not below `key`; the number of keys if there is none.
    pub fn lower_bound(&self, key: TermKey<'_>) -> Result<u64, StoreError> {
        let rank = self.rank(key)?;
        Ok(rank.unwrap_or_else(|before| before))
    }

    /// Returns all keys of `kind`, in order.
    pub fn iter(&self, kind: TermKind) -> Keys<'_> {
        self.iter_range(kind, 0..self.count(kind))
    }

    /// Returns the keys of `kind` with these ranks, in order; ranks past the last are ignored.
    pub fn iter_range(&self, kind: TermKind, ranks: Range<u64>) -> Keys<'_> {
        let end = ranks.end.min(self.count(kind));
        Keys::new(self, kind, ranks.start.min(end)..end)
    }

    pub(crate) fn file(&self) -> &PagedFile {
        &self.file
    }

    pub(super) fn filter_pages(&self) -> &PagedFile {
        &self.filter_pages
    }

    /// Returns the rank of a key, or the rank it would have.
    fn rank(&self, key: TermKey<'_>) -> Result<Result<u64, u64>, StoreError> {
        let Some(mut lookup) = self.lookup(key.kind) else {
            return Ok(Err(0));
        };
        let candidates = lookup.pages_of_key(key.bytes)?;
        let (mut low, mut high) = (candidates.start, candidates.end);
        let mut before = 0;
        let mut scratch = Vec::new();
        while low < high {
            let middle = low.midpoint(high);
            let place = lookup.place(middle)?;
            match self.rank_in_page(&place, key, &mut scratch)? {
                Ok(entry) => return Ok(Ok(place.first_rank + entry)),
                Err(entry) => {
                    before = place.first_rank + entry;
                    if entry == 0 {
                        high = middle;
                    } else if entry == place.entry_count {
                        low = middle + 1;
                    } else {
                        break;
                    }
                }
            }
        }
        Ok(Err(before))
    }

    fn rank_in_page(
        &self,
        place: &PagePlace,
        key: TermKey<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Result<u64, u64>, StoreError> {
        let page = self.file.page(place.number)?;
        let entries = self.entries(&page, key.kind, place)?;
        let damaged = |damage: Damage| damage.at(self.file.name(), place.number);
        let compare = |record, rest: &[u8]| -> Result<Ordering, SearchError> {
            let overflow = Overflow::new(&self.file, place.number, entries.header(), record)?;
            Ok(overflow.compare(&self.file, self.directory.tables(), rest)?)
        };
        let found = entries.search(key.bytes, scratch, compare);
        match found {
            Ok(found) => Ok(found
                .map(|entry| entry as u64)
                .map_err(|entry| entry as u64)),
            Err(SearchError::Damaged(damage)) => Err(damaged(damage)),
            Err(SearchError::Store(error)) => Err(error),
        }
    }

    /// Returns the lookups of a kind: the last ones, if they are of that kind.
    pub(super) fn lookup_of<'d, 'l>(
        &'d self,
        kind: TermKind,
        last: &'l mut Option<(TermKind, Lookup<'d>)>,
    ) -> Option<&'l mut Lookup<'d>> {
        if last.as_ref().is_none_or(|(of, _)| *of != kind) {
            *last = self.lookup(kind).map(|lookup| (kind, lookup));
        }
        last.as_mut().map(|(_, lookup)| lookup)
    }

    /// Returns the page of an id, given the lookups of its kind.
    fn place(&self, id: TermId, lookup: Option<&mut Lookup<'_>>) -> Result<PagePlace, StoreError> {
        if let Some(lookup) = lookup
            && let Some(place) = lookup.place_of_rank(id.payload())?
        {
            return Ok(place);
        }
        let kind = id.kind();
        let message = format!(
            "there is no term {:#018x} here: {} terms are of its kind {kind:?}",
            id.0,
            self.count(kind)
        );
        Err(StoreError::corrupt(self.file.name(), None, message))
    }

    /// Parses the page, and checks that it is the one that the directory describes.
    pub(super) fn entries<'a>(
        &'a self,
        page: &'a Page,
        kind: TermKind,
        place: &PagePlace,
    ) -> Result<EntryPage<'a>, StoreError> {
        let entries = EntryPage::parse(page, self.directory.tables())
            .map_err(|damage| damage.at(self.file.name(), place.number))?;
        let header = entries.header();
        if header.kind != kind as u8
            || header.first_rank != place.first_rank
            || u64::from(header.entry_count) != place.entry_count
        {
            let message = format!(
                "expected {} terms of kind {kind:?} from rank {}, as the directory says; \
                 it has {} of kind {:#04x} from rank {}",
                place.entry_count,
                place.first_rank,
                header.entry_count,
                header.kind,
                header.first_rank
            );
            return Err(StoreError::corrupt(self.file.name(), place.number, message));
        }
        Ok(entries)
    }

    pub(super) fn overflow(
        &self,
        entries: &EntryPage<'_>,
        place: &PagePlace,
        record: Option<super::format::LargeRecord>,
    ) -> Result<Option<Overflow>, Damage> {
        record
            .map(|record| Overflow::new(&self.file, place.number, entries.header(), record))
            .transpose()
    }
}

/// An error of a search in a page.
enum SearchError {
    Damaged(Damage),
    Store(StoreError),
}

impl From<Damage> for SearchError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
