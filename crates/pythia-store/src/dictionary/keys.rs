//! All keys of a kind, in order: for dump and verify.

use std::collections::VecDeque;
use std::ops::Range;

use pythia_io::Page;
use pythia_rdf::{TermId, TermKey, TermKind};

use super::directory::PagePlace;
use super::page::EntryCursor;
use super::reader::Dictionary;
use crate::StoreError;

/// Bytes of the pages read at once, and read ahead.
const WINDOW_BYTES: usize = 128 << 10;

/// A lending iterator over keys, in order.
#[derive(Debug)]
pub struct Keys<'d> {
    dictionary: &'d Dictionary,
    kind: TermKind,
    next_rank: u64,
    end_rank: u64,
    /// Index of the next page to read, once it is known.
    next_page: Option<usize>,
    /// Pages read and not yet expanded.
    window: VecDeque<(PagePlace, Page)>,
    /// The keys of one page, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Rank of the first of them.
    first_rank: u64,
}

impl<'d> Keys<'d> {
    pub(super) fn new(dictionary: &'d Dictionary, kind: TermKind, ranks: Range<u64>) -> Self {
        Self {
            dictionary,
            kind,
            next_rank: ranks.start,
            end_rank: ranks.end,
            next_page: None,
            window: VecDeque::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
            first_rank: 0,
        }
    }

    /// Returns the next key and its id.
    #[expect(
        clippy::should_implement_trait,
        reason = "the key borrows from the iterator"
    )]
    pub fn next(&mut self) -> Result<Option<(TermId, TermKey<'_>)>, StoreError> {
        if self.next_rank >= self.end_rank {
            return Ok(None);
        }
        let rank = self.next_rank;
        if rank < self.first_rank || rank - self.first_rank >= self.ends.len() as u64 {
            self.load_page()?;
        }
        self.next_rank += 1;
        let index = (rank - self.first_rank) as usize;
        let start = match index.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        let key = TermKey {
            kind: self.kind,
            bytes: &self.bytes[start..self.ends[index]],
        };
        Ok(Some((TermId::new(self.kind, rank), key)))
    }

    /// Expands the page that holds `next_rank`.
    fn load_page(&mut self) -> Result<(), StoreError> {
        if self.window.is_empty() {
            self.fill_window()?;
        }
        let (place, page) = self
            .window
            .pop_front()
            .expect("the directory has a page for every rank");
        let entries = self.dictionary.entries(&page, self.kind, &place)?;
        self.bytes.clear();
        self.ends.clear();
        let mut cursor = EntryCursor::new(&entries);
        let mut key = Vec::new();
        for entry in 0..entries.len() {
            let overflow = cursor
                .seek(entry, &mut key)
                .and_then(|()| entries.large(entry))
                .and_then(|record| self.dictionary.overflow(&entries, &place, record))
                .map_err(|damage| damage.at(self.dictionary.file().name(), place.number))?;
            self.bytes.extend_from_slice(&key);
            if let Some(overflow) = overflow {
                let directory = self.dictionary.directory();
                overflow.read(self.dictionary.file(), directory.tables(), &mut self.bytes)?;
            }
            self.ends.push(self.bytes.len());
        }
        self.first_rank = place.first_rank;
        Ok(())
    }

    fn fill_window(&mut self) -> Result<(), StoreError> {
        let Some(mut lookup) = self.dictionary.lookup(self.kind) else {
            return Ok(());
        };
        let first = match self.next_page {
            Some(page) => page,
            None => lookup.page_of_rank(self.next_rank)?.unwrap_or(0),
        };
        let file = self.dictionary.file();
        let window_pages = (WINDOW_BYTES / file.page_bytes()).max(1);
        let end = (first + window_pages).min(lookup.page_count());
        let mut places: Vec<PagePlace> = Vec::with_capacity(end - first);
        for index in first..end {
            let place = lookup.place(index)?;
            if place.first_rank >= self.end_rank {
                break;
            }
            places.push(place);
        }
        let numbers: Vec<u64> = places.iter().map(|place| place.number).collect();
        let window = &mut self.window;
        if let Some(last) = places.last().filter(|_| end < lookup.page_count()) {
            file.prefetch(last.number + 1..last.number + 1 + window_pages as u64);
        }
        file.pages(&numbers, |index, page| {
            window.push_back((places[index], page.clone()));
            Ok::<(), StoreError>(())
        })?;
        self.next_page = Some(first + places.len());
        Ok(())
    }
}
