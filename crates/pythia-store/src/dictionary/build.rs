//! Packing of one entry page, and of the overflow pages of its large keys.

use pythia_io::bytes::{push_varint, varint_bytes};

use super::format::{
    EntryHeader, GROUP_ENTRIES, GROUP_OFFSET_BYTES, HEADER_BYTES, LARGE_RECORD_BYTES, LargeRecord,
    OVERFLOW_HEADER_BYTES, write_overflow_header,
};

/// A page is closed once its large keys have filled this many bytes of overflow pages, to limit the memory that
/// waits.
const OVERFLOW_BYTES_MAX: usize = 1 << 20;

/// Stored bytes of a key or suffix: compressed, or raw if that is not longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) compressed: bool,
}

impl<'a> Stored<'a> {
    /// Returns the shorter of the two encodings.
    pub(super) fn shorter(raw: &'a [u8], codes: &'a [u8]) -> Self {
        let compressed = codes.len() < raw.len();
        Self {
            bytes: if compressed { codes } else { raw },
            compressed,
        }
    }

    fn length_and_coding(&self) -> u64 {
        (self.bytes.len() as u64) << 1 | u64::from(!self.compressed)
    }
}

/// The rest of a large key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continuation<'a> {
    pub(super) stored: Stored<'a>,
    pub(super) key_bytes: usize,
}

/// An entry page being packed.
#[derive(Debug)]
pub(super) struct PageBuilder {
    page_bytes: usize,
    kind: u8,
    table: u16,
    first_rank: u64,
    /// The page's first key as used by groups (for a large key: its prefix).
    reference: Vec<u8>,
    /// The reference's length and encoding, and its stored bytes.
    reference_stored: Vec<u8>,
    entry_count: usize,
    /// Group starts, counted from the first group.
    group_offsets: Vec<usize>,
    /// Finished groups, and the first entry of the open one.
    groups: Vec<u8>,
    /// Entries of the open group after its first: lengths, then suffixes.
    lengths: Vec<u8>,
    suffixes: Vec<u8>,
    large_records: Vec<u8>,
    overflow: Vec<u8>,
    /// The bytes of a page while it is passed on.
    page: Vec<u8>,
}

impl PageBuilder {
    /// Returns a builder of pages of `page_bytes`, with no page open.
    pub(super) fn new(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            kind: 0,
            table: 0,
            first_rank: 0,
            reference: Vec::new(),
            reference_stored: Vec::new(),
            entry_count: 0,
            group_offsets: Vec::new(),
            groups: Vec::new(),
            lengths: Vec::new(),
            suffixes: Vec::new(),
            large_records: Vec::new(),
            overflow: Vec::new(),
            page: Vec::new(),
        }
    }

    /// Returns whether no page is open.
    pub(super) fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Returns whether the next entry shares bytes with the reference instead of its predecessor.
    pub(super) fn at_restart(&self) -> bool {
        self.entry_count.is_multiple_of(GROUP_ENTRIES)
    }

    /// Returns the page's first key as used by groups.
    pub(super) fn reference(&self) -> &[u8] {
        &self.reference
    }

    /// Opens a page with its first key, which always fits, as it is no longer than
    /// [`super::format::inline_key_bytes_max`] allows.
    pub(super) fn start(
        &mut self,
        kind: u8,
        table: u16,
        first_rank: u64,
        key: &[u8],
        stored: Stored<'_>,
        continuation: Option<Continuation<'_>>,
    ) {
        debug_assert!(self.is_empty());
        self.kind = kind;
        self.table = table;
        self.first_rank = first_rank;
        self.reference.clear();
        self.reference.extend_from_slice(key);
        push_varint(&mut self.reference_stored, stored.length_and_coding());
        self.reference_stored.extend_from_slice(stored.bytes);
        let nothing = Stored {
            bytes: &[],
            compressed: false,
        };
        assert!(
            self.push(key.len(), nothing, continuation),
            "a key kept inline must fit in an empty page"
        );
    }

    /// Adds an entry, unless it does not fit or the page should be closed anyway.
    pub(super) fn push(
        &mut self,
        shared: usize,
        suffix: Stored<'_>,
        continuation: Option<Continuation<'_>>,
    ) -> bool {
        let restart = self.at_restart();
        let mut grows = varint_bytes(shared as u64)
            + varint_bytes(suffix.length_and_coding())
            + suffix.bytes.len();
        if restart {
            grows += GROUP_OFFSET_BYTES;
        }
        if continuation.is_some() {
            grows += LARGE_RECORD_BYTES;
        }
        if self.used_bytes() + grows > self.page_bytes
            || self.entry_count == usize::from(u16::MAX)
            || self.overflow.len() >= OVERFLOW_BYTES_MAX
        {
            return false;
        }
        if restart {
            self.close_group();
            self.group_offsets.push(self.groups.len());
        }
        // A group's first entry is stored whole before the others, so that it can be compared alone.
        let lengths = if restart {
            &mut self.groups
        } else {
            &mut self.lengths
        };
        push_varint(lengths, shared as u64);
        push_varint(lengths, suffix.length_and_coding());
        let suffixes = if restart {
            &mut self.groups
        } else {
            &mut self.suffixes
        };
        suffixes.extend_from_slice(suffix.bytes);
        if let Some(continuation) = continuation {
            let record = LargeRecord {
                entry: self.entry_count as u16,
                compressed: continuation.stored.compressed,
                offset: self.overflow.len() as u64,
                stored_bytes: continuation.stored.bytes.len() as u64,
                key_bytes: continuation.key_bytes as u64,
            };
            record.write(&mut self.large_records);
            self.overflow.extend_from_slice(continuation.stored.bytes);
        }
        self.entry_count += 1;
        true
    }

    fn used_bytes(&self) -> usize {
        HEADER_BYTES
            + GROUP_OFFSET_BYTES * self.group_offsets.len()
            + self.large_records.len()
            + self.reference_stored.len()
            + self.groups.len()
            + self.lengths.len()
            + self.suffixes.len()
    }

    fn close_group(&mut self) {
        self.groups.append(&mut self.lengths);
        self.groups.append(&mut self.suffixes);
    }

    /// Closes the page, which gets the number `number`: passes its used bytes, and those of the overflow pages that
    /// must follow it, to `emit`. Returns the number of overflow pages.
    pub(super) fn finish<E>(
        &mut self,
        number: u64,
        mut emit: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<u32, E> {
        debug_assert!(!self.is_empty());
        self.close_group();
        let used_bytes = self.used_bytes();
        let payload_bytes = self.page_bytes - OVERFLOW_HEADER_BYTES;
        let overflow_page_count = u32::try_from(self.overflow.len().div_ceil(payload_bytes))
            .expect("a key shorter than 16 TiB");
        let header = EntryHeader {
            kind: self.kind,
            table: self.table,
            first_rank: self.first_rank,
            entry_count: self.entry_count as u16,
            large_count: (self.large_records.len() / LARGE_RECORD_BYTES) as u16,
            overflow_page_count,
            used_bytes: used_bytes as u32,
        };
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        page.resize(HEADER_BYTES, 0);
        header.write(&mut page);
        let groups_start = used_bytes - self.groups.len();
        for offset in &self.group_offsets {
            let offset = u16::try_from(groups_start + offset).expect("pages of at most 64 KiB");
            page.extend_from_slice(&offset.to_le_bytes());
        }
        page.extend_from_slice(&self.large_records);
        page.extend_from_slice(&self.reference_stored);
        page.extend_from_slice(&self.groups);
        debug_assert_eq!(page.len(), used_bytes);
        emit(&mut page)?;
        for chunk in self.overflow.chunks(payload_bytes) {
            page.clear();
            page.resize(OVERFLOW_HEADER_BYTES, 0);
            write_overflow_header(&mut page, self.kind, number);
            page.extend_from_slice(chunk);
            emit(&mut page)?;
        }
        self.page = page;
        self.clear();
        Ok(overflow_page_count)
    }

    fn clear(&mut self) {
        self.reference_stored.clear();
        self.entry_count = 0;
        self.group_offsets.clear();
        self.groups.clear();
        self.large_records.clear();
        if self.overflow.capacity() > 2 * OVERFLOW_BYTES_MAX {
            self.overflow = Vec::new();
        }
        self.overflow.clear();
    }
}
