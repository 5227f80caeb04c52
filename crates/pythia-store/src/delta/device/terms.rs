//! The new terms of a run: lookup by key and by id.
//!
//! The dictionary of the run's added segment has them sorted, so a term has a rank there. It also has a serial
//! number, which with the first payload of its kind makes its id. Where the two differ, a column file maps them: rows
//! (kind, direction), from, to.

use std::ops::Range;
use std::sync::Arc;

use pythia_io::bytes::{ByteReader, ByteWriter};
use pythia_io::{BufferPool, IoError, PageWriter, PagedFile, Storage};
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

use super::filter::{FilterBuilder, StoredFilter};
use crate::StoreError;
use crate::dictionary::{Dictionary, DictionaryDirectory, DictionaryWriter, Keys};
use crate::hashes::hash_of_key;
use crate::manifest::TermSpan;
use crate::segment::Segment;
use crate::segment::column::{Column, ColumnDirectory, ColumnFile, ColumnWriter};

/// The paged file that maps ranks and serial numbers.
pub(super) const MAP_NAME: &str = "terms.pages";
const MAP_PAGE_BYTES: usize = 4096;
/// Serial numbers read at a time.
const SERIALS: u64 = 4096;

/// The direction of a map's rows; in the place of the predicate, with the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// From serial numbers to ranks.
    Ranks,
    /// From ranks to serial numbers.
    Serials,
}

fn map_key(kind: u8, direction: Direction) -> u64 {
    u64::from(kind) << TermId::PAYLOAD_BITS | direction as u64
}

/// ByteWriter of the terms of a run.
pub struct RunTermsWriter {
    dictionary: DictionaryWriter,
    spans: Vec<TermSpan>,
    /// Serial numbers by rank, for each span; empty while they are equal.
    serials: Vec<Vec<u32>>,
    filter: FilterBuilder,
}

/// Terms of a run, written except for their map.
pub(super) struct WrittenTerms {
    pub(super) dictionary: DictionaryDirectory,
    pub(super) spans: Vec<TermSpan>,
    serials: Vec<Vec<u32>>,
    pub(super) filter: StoredFilter,
}

impl RunTermsWriter {
    pub(super) fn new(dictionary: DictionaryWriter, first: &[u64], terms_max: u64) -> Self {
        let spans = TermKind::DICTIONARY.iter().zip(first);
        Self {
            dictionary,
            spans: spans
                .map(|(&kind, &first)| TermSpan {
                    kind: kind as u8,
                    first,
                    count: 0,
                    sorted: true,
                })
                .collect(),
            serials: vec![Vec::new(); TermKind::DICTIONARY.len()],
            filter: FilterBuilder::new(terms_max),
        }
    }

    /// Adds a term. Terms come sorted by their keys; the ids of a kind are consecutive from its first payload on, in
    /// any order.
    pub fn push(&mut self, key: TermKey<'_>, id: TermId) -> Result<(), StoreError> {
        let rank = self.dictionary.push(key)?.payload();
        self.filter.add(hash_of_key(key));
        let place = TermKind::DICTIONARY
            .iter()
            .position(|&kind| kind == key.kind);
        let place = place.expect("the dictionary took the kind");
        let (span, serials) = (&mut self.spans[place], &mut self.serials[place]);
        let serial = id.payload().checked_sub(span.first);
        let serial = serial.expect("ids begin with the first payload");
        span.count += 1;
        if serial != rank || !span.sorted {
            let small = |number: u64| {
                u32::try_from(number).map_err(|_| StoreError::TooLarge {
                    what: "more than 4,294,967,295 new terms of a kind in one run".to_owned(),
                })
            };
            if span.sorted {
                let last = small(rank)?;
                serials.extend(0..last);
                span.sorted = false;
            }
            serials.push(small(serial)?);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<WrittenTerms, StoreError> {
        Ok(WrittenTerms {
            dictionary: self.dictionary.finish()?,
            spans: self.spans,
            serials: self.serials,
            filter: self.filter.finish(),
        })
    }
}

impl WrittenTerms {
    /// Writes the map, if one is needed.
    ///
    /// # Panics
    /// If the ids of a kind are not consecutive from its first payload on.
    pub(super) fn write_map(
        &mut self,
        storage: &dyn Storage,
        folder: &str,
    ) -> Result<Option<ColumnDirectory>, StoreError> {
        if self.spans.iter().all(|span| span.sorted) {
            return Ok(None);
        }
        let file = storage.create(&format!("{folder}/{MAP_NAME}"))?;
        let mut writer = ColumnWriter::new(PageWriter::new(file, MAP_PAGE_BYTES), MAP_PAGE_BYTES);
        let unsorted = self.spans.iter().zip(std::mem::take(&mut self.serials));
        for (span, serials) in unsorted.filter(|(span, _)| !span.sorted) {
            const NONE: u32 = u32::MAX;
            let mut ranks = vec![NONE; serials.len()];
            for (rank, &serial) in serials.iter().enumerate() {
                let place = ranks.get_mut(serial as usize);
                let before = place.map(|place| std::mem::replace(place, rank as u32));
                assert_eq!(before, Some(NONE), "each serial number comes once");
            }
            for (direction, list) in [(Direction::Ranks, ranks), (Direction::Serials, serials)] {
                let key = map_key(span.kind, direction);
                for (from, to) in list.into_iter().enumerate() {
                    writer.push(key, from as u64, u64::from(to), 0)?;
                }
            }
        }
        Ok(Some(writer.finish()?))
    }
}

/// The terms of a run, open for reading.
pub(super) struct RunTerms {
    segment: Arc<Segment>,
    spans: Vec<TermSpan>,
    filter: StoredFilter,
    map: Option<ColumnFile>,
}

impl RunTerms {
    /// Opens the terms of the segment; `input` is the output of [`Self::encode`].
    pub(super) fn open(
        pool: &Arc<BufferPool>,
        folder: &str,
        segment: Arc<Segment>,
        spans: &[TermSpan],
        input: &mut ByteReader<'_>,
    ) -> Result<Self, StoreError> {
        let filter = StoredFilter::read(input)?;
        let map = match input.u8()? {
            0 => None,
            1 => {
                let directory = ColumnDirectory::read(input)?;
                let name = format!("{folder}/{MAP_NAME}");
                let file = pool.open(&name, directory.page_bytes, "terms")?;
                Some(ColumnFile::new(file, directory)?)
            }
            _ => return Err(input.corrupt("0 or 1 before this: whether there is a map of terms")),
        };
        let dictionary = &segment.dictionary;
        for (kind, span) in TermKind::DICTIONARY.iter().zip(spans) {
            if span.kind != *kind as u8 || span.count != dictionary.count(*kind) {
                return Err(input.corrupt("as many terms as the manifest says"));
            }
            if !span.sorted && map.is_none() {
                return Err(input.corrupt("a map of the terms that are not sorted"));
            }
        }
        if spans.len() != TermKind::DICTIONARY.len() {
            return Err(input.corrupt("terms of every kind in the manifest"));
        }
        Ok(Self {
            spans: spans.to_vec(),
            segment,
            filter,
            map,
        })
    }

    /// Gives the terms other ids; serial numbers and files stay the same.
    pub(super) fn number(&mut self, spans: &[TermSpan]) {
        self.spans.clone_from_slice(spans);
    }

    /// Appends the input of [`Self::open`].
    pub(super) fn encode(
        filter: &StoredFilter,
        map: Option<&ColumnDirectory>,
        out: &mut ByteWriter,
    ) {
        filter.write(out);
        out.u8(u8::from(map.is_some()));
        if let Some(map) = map {
            map.write(out);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let map = self.map.as_ref();
        self.filter.memory_bytes() + map.map_or(0, |map| map.directory().memory_bytes())
    }

    pub(super) fn map(&self) -> Option<&PagedFile> {
        self.map.as_ref().map(ColumnFile::file)
    }

    fn dictionary(&self) -> &Dictionary {
        &self.segment.dictionary
    }

    fn span_of(&self, id: TermId) -> Option<(&TermSpan, u64)> {
        let mut spans = self.spans.iter();
        spans.find_map(|span| Some((span, span.serial(id)?)))
    }

    /// Returns whether the id is of one of these terms.
    pub(super) fn contains(&self, id: TermId) -> bool {
        self.span_of(id).is_some()
    }

    /// Returns whether the term may be in the run; false is certain.
    pub(super) fn may_hold(&self, key: TermKey<'_>) -> bool {
        self.filter.may_hold(hash_of_key(key))
    }

    /// Returns the ids of several keys, in their order. Reads a page for each key that the filter does not rule out,
    /// as a batch, and one more where terms are mapped.
    pub(super) fn find_batch(
        &self,
        keys: &[TermKey<'_>],
    ) -> Result<Vec<Option<TermId>>, StoreError> {
        let mut ids = vec![None; keys.len()];
        let asked: Vec<usize> = (0..keys.len())
            .filter(|&index| self.may_hold(keys[index]))
            .collect();
        if asked.is_empty() {
            return Ok(ids);
        }
        let likely: Vec<TermKey<'_>> = asked.iter().map(|&index| keys[index]).collect();
        let ranks = self.dictionary().find_batch(&likely)?;
        let found = asked.into_iter().zip(ranks);
        let found: Vec<(usize, TermId)> = found
            .filter_map(|(index, rank)| Some((index, rank?)))
            .collect();
        let ranks: Vec<TermId> = found.iter().map(|&(_, rank)| rank).collect();
        for ((index, rank), serial) in found.iter().zip(self.mapped(&ranks, Direction::Serials)?) {
            ids[*index] = self
                .span_of_kind(rank.kind_number())
                .map(|span| span.id(serial));
        }
        Ok(ids)
    }

    /// Returns the first `limit` terms whose keys start with `prefix`, in order of their keys.
    pub(super) fn with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        let mut found = self.dictionary().keys_with_prefix(kind, prefix, limit)?;
        let ranks: Vec<TermId> = found.iter().map(|&(_, rank)| rank).collect();
        let serials = self.mapped(&ranks, Direction::Serials)?;
        if let Some(span) = self.span_of_kind(kind as u8) {
            for ((_, id), serial) in found.iter_mut().zip(serials) {
                *id = span.id(serial);
            }
        }
        Ok(found)
    }

    fn span_of_kind(&self, kind: u8) -> Option<&TermSpan> {
        self.spans.iter().find(|span| span.kind == kind)
    }

    /// Maps ranks to serial numbers, or the reverse, given ids that have them as payloads.
    fn mapped(&self, from: &[TermId], direction: Direction) -> Result<Vec<u64>, StoreError> {
        let mut to: Vec<u64> = from.iter().map(|id| id.payload()).collect();
        let Some(map) = &self.map else {
            return Ok(to);
        };
        let is_mapped = |id: &TermId| {
            let span = self.span_of_kind(id.kind_number());
            span.is_some_and(|span| !span.sorted)
        };
        let key = |id: &TermId| [map_key(id.kind_number(), direction), id.payload()];
        let mut keys: Vec<[u64; 2]> = from.iter().filter(|id| is_mapped(id)).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut values = vec![None; keys.len()];
        let mut read = Vec::new();
        map.lists(&keys, |index, page, rows| {
            read.clear();
            page.values(Column::B, rows, &mut read)?;
            values[index] = read.first().copied();
            Ok(())
        })?;
        for (id, to) in from.iter().zip(&mut to).filter(|(id, _)| is_mapped(id)) {
            let index = keys.binary_search(&key(id));
            let value = index.ok().and_then(|index| values[index]);
            *to = value.ok_or_else(|| {
                let message = format!("it has no row for {id:?}");
                StoreError::corrupt(map.file().name(), None, message)
            })?;
        }
        Ok(to)
    }

    /// Calls `f` with the index in `ids` and the key of each of these terms, in any order. Reads all pages as one
    /// batch, after those of the map.
    pub(super) fn keys<E: From<StoreError> + From<IoError>>(
        &self,
        ids: &[TermId],
        mut f: impl FnMut(usize, TermKey<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut indexes, mut serials) = (Vec::new(), Vec::new());
        for (index, &id) in ids.iter().enumerate() {
            if let Some((span, serial)) = self.span_of(id) {
                indexes.push(index);
                serials.push(TermId(map_key(span.kind, Direction::Ranks) | serial));
            }
        }
        let ranks = self.mapped(&serials, Direction::Ranks)?;
        let ranks: Vec<TermId> = serials
            .iter()
            .zip(ranks)
            .map(|(serial, rank)| TermId::new(serial.kind(), rank))
            .collect();
        self.dictionary()
            .keys(&ranks, |index, key| f(indexes[index], key))
    }

    /// Returns all terms, sorted by their keys.
    pub(super) fn cursor(&self) -> Result<TermCursor<'_>, StoreError> {
        let mut cursor = TermCursor {
            terms: self,
            kind: 0,
            keys: self.dictionary().iter(TermKind::DICTIONARY[0]),
            serials: Vec::new(),
            ranks: 0..0,
            id: None,
            key: Vec::new(),
        };
        cursor.advance()?;
        Ok(cursor)
    }
}

/// A cursor over the terms of a run, in the order of their keys.
pub struct TermCursor<'r> {
    terms: &'r RunTerms,
    /// Index of the current kind in [`TermKind::DICTIONARY`].
    kind: usize,
    keys: Keys<'r>,
    /// The serial numbers of these ranks.
    serials: Vec<u64>,
    ranks: Range<u64>,
    /// The current term.
    id: Option<TermId>,
    key: Vec<u8>,
}

impl TermCursor<'_> {
    /// Returns the current term with its id; `None` at the end.
    pub fn head(&self) -> Option<(TermKey<'_>, TermId)> {
        let id = self.id?;
        let key = TermKey {
            kind: id.kind(),
            bytes: &self.key,
        };
        Some((key, id))
    }

    /// Moves to the next term.
    pub fn advance(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some((rank, key)) = self.keys.next()? {
                self.key.clear();
                self.key.extend_from_slice(key.bytes);
                let serial = self.serial(rank)?;
                self.id = Some(self.terms.spans[self.kind].id(serial));
                return Ok(());
            }
            self.kind += 1;
            self.ranks = 0..0;
            let Some(&kind) = TermKind::DICTIONARY.get(self.kind) else {
                self.kind -= 1;
                self.id = None;
                return Ok(());
            };
            self.keys = self.terms.dictionary().iter(kind);
        }
    }

    fn serial(&mut self, rank: TermId) -> Result<u64, StoreError> {
        let span = &self.terms.spans[self.kind];
        if span.sorted {
            return Ok(rank.payload());
        }
        if !self.ranks.contains(&rank.payload()) {
            let end = (rank.payload() + SERIALS).min(span.count);
            self.ranks = rank.payload()..end;
            let ranks: Vec<TermId> = self
                .ranks
                .clone()
                .map(|payload| TermId::new(rank.kind(), payload))
                .collect();
            self.serials = self.terms.mapped(&ranks, Direction::Serials)?;
        }
        Ok(self.serials[(rank.payload() - self.ranks.start) as usize])
    }
}
