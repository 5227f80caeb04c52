//! Pages as in `src/dictionary/{build,page}.rs`, with any coding of suffixes. The parts of entries are in vectors
//! instead of the page's bytes; the bytes they would take are counted.

use pythia_rdf::{OwnedKey, TermKind};

pub(crate) const PAGE_BYTES: usize = 8 << 10;
const GROUP_ENTRIES: usize = 16;
const HEADER_BYTES: usize = 28;
const GROUP_OFFSET_BYTES: usize = 2;
const LARGE_RECORD_BYTES: usize = 28;
const LARGE_PREFIX_BYTES: usize = 256;
const OVERFLOW_PAYLOAD_BYTES: usize = PAGE_BYTES - 16;
const OVERFLOW_BYTES_MAX: usize = 1 << 20;
const INLINE_BYTES_MAX: usize = PAGE_BYTES - HEADER_BYTES - 32;
const BATCH_BYTES: usize = 1 << 20;
const BATCH_KEYS: usize = 1 << 16;

/// A coding of suffixes.
pub(crate) trait Coder {
    fn start_kind(&mut self, kind: TermKind);

    /// Looks at the suffixes of a batch before they are compressed; returns whether there is a new table.
    fn prepare(&mut self, suffixes: &[&[u8]], batch_bytes: u64) -> bool;

    /// Replaces `codes` by those of all values, and `ends` by the ends of each value's codes.
    fn compress(&mut self, values: &[&[u8]], codes: &mut Vec<u8>, ends: &mut Vec<u64>);

    /// Returns the number of the current table.
    fn table(&self) -> usize;

    /// Appends the expansion of `codes`; stops once there are at least `wanted` bytes.
    fn expand(&self, table: usize, codes: &[u8], wanted: usize, out: &mut Vec<u8>);

    /// Returns the bytes of strings that the directory stores, besides tables of 255 symbols.
    fn stored_bytes(&self) -> usize;

    /// Returns the bytes of memory of all tables.
    fn memory_bytes(&self) -> usize;
}

/// The bytes of a kind's pages.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) terms: usize,
    pub(crate) text: usize,
    /// Number of pages, with overflow pages.
    pub(crate) pages: usize,
    pub(crate) headers: usize,
    pub(crate) lengths: usize,
    pub(crate) first_keys: usize,
    pub(crate) suffixes: usize,
    pub(crate) unused: usize,
    pub(crate) overflow: usize,
}

struct Entry {
    shared: u32,
    start: u32,
    length: u32,
    raw: bool,
}

struct Page {
    /// Index of the first term.
    first: usize,
    table: usize,
    /// The first key's stored bytes, and whether they are raw.
    reference: (Vec<u8>, bool),
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    used: usize,
    overflow: usize,
}

/// A dictionary in memory.
pub(crate) struct Packed {
    pub(crate) coder: Box<dyn Coder>,
    pub(crate) parts: Vec<(TermKind, Parts)>,
    pages: Vec<Page>,
}

pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let chunks = a[..length].chunks(16).zip(b[..length].chunks(16));
    let same = 16 * chunks.take_while(|(a, b)| a == b).count();
    let start = same.min(length);
    let rest = a[start..].iter().zip(&b[start..]);
    start + rest.take_while(|(a, b)| a == b).count()
}

fn varint_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

/// Returns the part of a key that is in its entry.
fn form(key: &[u8]) -> &[u8] {
    match key.len() {
        ..=INLINE_BYTES_MAX => key,
        _ => &key[..LARGE_PREFIX_BYTES],
    }
}

/// Writer of pages.
struct Packer<'t> {
    terms: &'t [OwnedKey],
    packed: Packed,
    open: bool,
    parts: Parts,
    codes: Vec<u8>,
    ends: Vec<u64>,
}

/// Packs sorted terms.
pub(crate) fn pack(terms: &[OwnedKey], coder: Box<dyn Coder>) -> Packed {
    let mut packer = Packer {
        terms,
        packed: Packed {
            coder,
            parts: Vec::new(),
            pages: Vec::new(),
        },
        open: false,
        parts: Parts::default(),
        codes: Vec::new(),
        ends: Vec::new(),
    };
    for kind in TermKind::DICTIONARY {
        let start = terms.partition_point(|term| term.kind < kind);
        let end = terms.partition_point(|term| term.kind <= kind);
        if start < end {
            packer.kind(kind, start, end);
        }
    }
    packer.packed
}

impl Packer<'_> {
    fn kind(&mut self, kind: TermKind, start: usize, end: usize) {
        self.packed.coder.start_kind(kind);
        self.open = false;
        let first_page = self.packed.pages.len();
        let mut at = start;
        while at < end {
            let mut stop = at;
            let mut bytes = 0;
            while stop < end && stop - at < BATCH_KEYS {
                bytes += self.terms[stop].bytes.len();
                if stop > at && bytes > BATCH_BYTES {
                    bytes -= self.terms[stop].bytes.len();
                    break;
                }
                stop += 1;
            }
            self.batch(at, stop, at == start, bytes as u64);
            at = stop;
        }
        let mut parts = std::mem::take(&mut self.parts);
        parts.terms = end - start;
        parts.text = self.terms[start..end]
            .iter()
            .map(|term| term.bytes.len())
            .sum();
        for page in &self.packed.pages[first_page..] {
            let overflow_pages = page.overflow.div_ceil(OVERFLOW_PAYLOAD_BYTES);
            parts.pages += 1 + overflow_pages;
            parts.overflow += overflow_pages * PAGE_BYTES;
            parts.unused += PAGE_BYTES - page.used;
            parts.headers +=
                HEADER_BYTES + GROUP_OFFSET_BYTES * page.entries.len().div_ceil(GROUP_ENTRIES);
        }
        self.packed.parts.push((kind, parts));
    }

    fn batch(&mut self, start: usize, end: usize, is_first: bool, bytes: u64) {
        let terms = self.terms;
        let mut before: &[u8] = match is_first {
            true => &[],
            false => form(&terms[start - 1].bytes),
        };
        let mut suffixes = Vec::with_capacity(end - start);
        for term in &terms[start..end] {
            let key = form(&term.bytes);
            suffixes.push(&key[common_prefix(before, key)..]);
            before = key;
        }
        if self.packed.coder.prepare(&suffixes, bytes) {
            self.open = false;
        }
        let (mut codes, mut ends) = Default::default();
        self.packed.coder.compress(&suffixes, &mut codes, &mut ends);
        let mut from = 0;
        for (index, suffix) in suffixes.iter().enumerate() {
            let to = ends[index] as usize;
            self.place(start + index, suffix, &codes[from..to]);
            from = to;
        }
    }

    fn compress(&mut self, value: &[u8]) -> Vec<u8> {
        let mut codes = std::mem::take(&mut self.codes);
        self.packed
            .coder
            .compress(&[value], &mut codes, &mut self.ends);
        codes
    }

    fn place(&mut self, term: usize, suffix: &[u8], codes: &[u8]) {
        let terms = self.terms;
        let key = form(&terms[term].bytes);
        let rest = &terms[term].bytes[key.len()..];
        let overflow = match rest.len() {
            0 => 0,
            length => self.compress(rest).len().min(length),
        };
        let restart = self.open
            && self
                .packed
                .pages
                .last()
                .is_some_and(|page| page.entries.len().is_multiple_of(GROUP_ENTRIES));
        if restart {
            let page = self.packed.pages.last().expect("one is open");
            let shared = common_prefix(form(&terms[page.first].bytes), key);
            let codes = self.compress(&key[shared..]);
            self.open = self.push(shared, &key[shared..], &codes, true, overflow);
            self.codes = codes;
        } else if self.open {
            self.open = self.push(key.len() - suffix.len(), suffix, codes, false, overflow);
        }
        if !self.open {
            self.start(term, key, overflow);
        }
    }

    /// Adds an entry to the open page; returns false if it does not fit.
    fn push(
        &mut self,
        shared: usize,
        suffix: &[u8],
        codes: &[u8],
        restart: bool,
        overflow: usize,
    ) -> bool {
        let page = self.packed.pages.last_mut().expect("one is open");
        let raw = codes.len() >= suffix.len();
        let stored = if raw { suffix } else { codes };
        let lengths = varint_bytes(shared) + varint_bytes(2 * stored.len());
        let grows = lengths
            + stored.len()
            + if restart { GROUP_OFFSET_BYTES } else { 0 }
            + if overflow > 0 { LARGE_RECORD_BYTES } else { 0 };
        if page.used + grows > PAGE_BYTES || page.overflow >= OVERFLOW_BYTES_MAX {
            return false;
        }
        page.used += grows;
        page.overflow += overflow;
        page.entries.push(Entry {
            shared: shared as u32,
            start: page.bytes.len() as u32,
            length: stored.len() as u32,
            raw,
        });
        page.bytes.extend_from_slice(stored);
        self.parts.lengths += lengths;
        self.parts.suffixes += stored.len();
        true
    }

    /// Opens a page with its first key.
    fn start(&mut self, term: usize, key: &[u8], overflow: usize) {
        let codes = self.compress(key);
        let raw = codes.len() >= key.len();
        let stored = if raw { key } else { &codes };
        let lengths = varint_bytes(2 * stored.len()) + varint_bytes(key.len()) + 1;
        let large = if overflow > 0 { LARGE_RECORD_BYTES } else { 0 };
        self.parts.lengths += lengths;
        self.parts.first_keys += stored.len();
        self.packed.pages.push(Page {
            first: term,
            table: self.packed.coder.table(),
            reference: (stored.to_vec(), raw),
            entries: vec![Entry {
                shared: key.len() as u32,
                start: 0,
                length: 0,
                raw: true,
            }],
            bytes: Vec::new(),
            used: HEADER_BYTES + GROUP_OFFSET_BYTES + lengths + stored.len() + large,
            overflow,
        });
        self.codes = codes;
        self.open = true;
    }
}

impl Packed {
    /// Returns the bytes of all pages.
    pub(crate) fn file_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|(_, parts)| parts.pages * PAGE_BYTES)
            .sum()
    }

    /// Returns the first and last term of each page.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.pages
            .iter()
            .map(|page| page.first..page.first + page.entries.len())
    }

    /// Panics unless every key comes back (of a large one: its prefix).
    pub(crate) fn check(&self, terms: &[OwnedKey]) {
        let mut key = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            self.key(index, &mut key);
            assert!(key == form(&term.bytes), "term {index} is another one");
        }
    }

    /// Passes on all keys, in order.
    pub(crate) fn walk(&self, key: &mut Vec<u8>, mut f: impl FnMut(&[u8])) {
        for page in &self.pages {
            for index in 0..page.entries.len() {
                let base = index
                    .checked_sub(1)
                    .filter(|_| !index.is_multiple_of(GROUP_ENTRIES));
                self.assemble(page, base, index, key);
                f(key);
            }
        }
    }

    /// Puts the key of a term into `key`.
    pub(crate) fn key(&self, term: usize, key: &mut Vec<u8>) {
        let page = self.page(term);
        self.assemble(page, None, term - page.first, key);
    }

    /// Passes on the keys of terms in order.
    pub(crate) fn keys(&self, terms: &[usize], key: &mut Vec<u8>, mut f: impl FnMut(&[u8])) {
        let mut before: Option<(&Page, usize)> = None;
        for &term in terms {
            let inside = before.filter(|(page, _)| term < page.first + page.entries.len());
            let page = inside.map_or_else(|| self.page(term), |(page, _)| page);
            let index = term - page.first;
            let base = inside
                .map(|(_, at)| at)
                .filter(|at| at / GROUP_ENTRIES == index / GROUP_ENTRIES);
            if base != Some(index) {
                self.assemble(page, base, index, key);
            }
            f(key);
            before = Some((page, index));
        }
    }

    fn page(&self, term: usize) -> &Page {
        let after = self.pages.partition_point(|page| page.first <= term);
        &self.pages[after - 1]
    }

    fn expand(&self, page: &Page, entry: usize, wanted: usize, key: &mut Vec<u8>) {
        let entry = &page.entries[entry];
        let stored = &page.bytes[entry.start as usize..][..entry.length as usize];
        if entry.raw {
            key.extend_from_slice(&stored[..stored.len().min(wanted)]);
        } else {
            self.coder.expand(page.table, stored, wanted, key);
        }
    }

    /// Expands only the bytes that make up the key; `key` holds that of entry `base`, if there is one.
    fn assemble(&self, page: &Page, base: Option<usize>, index: usize, key: &mut Vec<u8>) {
        let mut pieces = [(0, 0); GROUP_ENTRIES];
        let mut count = 0;
        let mut wanted = page.entries[index].shared as usize;
        let stop = base.map_or(index / GROUP_ENTRIES * GROUP_ENTRIES, |base| base + 1);
        for between in (stop..index).rev() {
            let shared = page.entries[between].shared as usize;
            if wanted > shared {
                pieces[count] = (between, wanted - shared);
                count += 1;
                wanted = shared;
            }
        }
        if base.is_none() {
            key.clear();
            match &page.reference {
                (bytes, true) => key.extend_from_slice(bytes),
                (codes, false) => self.coder.expand(page.table, codes, wanted, key),
            }
        }
        key.truncate(wanted);
        for &(between, length) in pieces[..count].iter().rev() {
            let end = key.len() + length;
            self.expand(page, between, length, key);
            key.truncate(end);
        }
        self.expand(page, index, usize::MAX, key);
    }
}
