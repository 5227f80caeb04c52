//! The format of a dictionary page, drawn in `docs/format/dictionary.md`.
//!
//! Damage found in a page is a [`Damage`], which says what was expected. The caller that knows the file and the page
//! number turns it into a [`StoreError::Corrupt`].

use crate::StoreError;

/// Default size of a page (`docs/decisions/0003-dictionary-blocks.md`).
pub const PAGE_BYTES_DEFAULT: usize = 8 << 10;
/// The smallest page.
pub const PAGE_BYTES_MIN: usize = 4 << 10;
/// The largest page: offsets within one are 16 bits.
pub const PAGE_BYTES_MAX: usize = 64 << 10;

/// Entries from one restart to the next.
pub(super) const GROUP_ENTRIES: usize = 16;

/// Page type of a page of entries.
const TYPE_ENTRIES: u8 = 1;
/// Page type of a page that continues large keys.
const TYPE_OVERFLOW: u8 = 2;

/// Bytes before the group offsets of an entry page.
pub(super) const HEADER_BYTES: usize = 28;
/// Bytes of a group offset.
pub(super) const GROUP_OFFSET_BYTES: usize = 2;
/// Bytes of a record that locates the rest of a large key.
pub(super) const LARGE_RECORD_BYTES: usize = 28;
/// Bytes before the payload of an overflow page.
pub(super) const OVERFLOW_HEADER_BYTES: usize = 16;

/// Bytes of a large key that are in the entry page; the rest overflows.
pub(super) const LARGE_PREFIX_BYTES: usize = 256;

/// Returns the length of the longest key that is kept whole in an entry page. It fits alone in an empty page even if
/// it does not compress: one group offset and two three-byte varints take less than 32 bytes.
pub(super) const fn inline_key_bytes_max(page_bytes: usize) -> usize {
    page_bytes - HEADER_BYTES - 32
}

const _: () =
    assert!(LARGE_PREFIX_BYTES + LARGE_RECORD_BYTES < inline_key_bytes_max(PAGE_BYTES_MIN));

/// The expected content of a damaged page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage(pub(super) &'static str);

impl Damage {
    /// Returns the error for `page` of `file`.
    #[cold]
    pub(super) fn at(self, file: &str, page: u64) -> StoreError {
        StoreError::corrupt(file, page, format!("expected {}", self.0))
    }
}

/// The fixed part of an entry page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHeader {
    /// Number of the kind of all keys in the page.
    pub(super) kind: u8,
    /// Symbol table of the compressed suffixes.
    pub(super) table: u16,
    /// Rank of the first entry among the keys of the kind.
    pub(super) first_rank: u64,
    /// Keys in the page.
    pub(super) entry_count: u16,
    /// Number of large keys among them.
    pub(super) large_count: u16,
    /// Overflow pages that follow this page.
    pub(super) overflow_page_count: u32,
    /// Bytes of the page in use.
    pub(super) used_bytes: u32,
}

impl EntryHeader {
    /// Writes the header over the page's first bytes, except for the checksum.
    pub(super) fn write(&self, page: &mut [u8]) {
        page[4] = TYPE_ENTRIES;
        page[5] = self.kind;
        page[6..8].copy_from_slice(&self.table.to_le_bytes());
        page[8..16].copy_from_slice(&self.first_rank.to_le_bytes());
        page[16..18].copy_from_slice(&self.entry_count.to_le_bytes());
        page[18..20].copy_from_slice(&self.large_count.to_le_bytes());
        page[20..24].copy_from_slice(&self.overflow_page_count.to_le_bytes());
        page[24..28].copy_from_slice(&self.used_bytes.to_le_bytes());
    }

    /// Reads the header of a page that must be an entry page.
    pub(super) fn read(page: &[u8]) -> Result<Self, Damage> {
        let header: &[u8; HEADER_BYTES] =
            page.first_chunk().ok_or(Damage("a whole page header"))?;
        if header[4] != TYPE_ENTRIES {
            return Err(Damage("a page of dictionary entries (page type 1)"));
        }
        Ok(Self {
            kind: header[5],
            table: u16_at(header, 6),
            first_rank: u64_at(header, 8),
            entry_count: u16_at(header, 16),
            large_count: u16_at(header, 18),
            overflow_page_count: u32_at(header, 20),
            used_bytes: u32_at(header, 24),
        })
    }
}

/// The place of the rest of a large key, after the prefix in its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeRecord {
    /// The entry's index in its page.
    pub(super) entry: u16,
    /// Whether the stored bytes are compressed.
    pub(super) compressed: bool,
    /// Start of the stored bytes, counted in payload bytes of the overflow pages.
    pub(super) offset: u64,
    /// Number of stored bytes.
    pub(super) stored_bytes: u64,
    /// Number of bytes of the key that they encode.
    pub(super) key_bytes: u64,
}

impl LargeRecord {
    /// Appends the record.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.entry.to_le_bytes());
        bytes.extend_from_slice(&u16::from(self.compressed).to_le_bytes());
        bytes.extend_from_slice(&self.offset.to_le_bytes());
        bytes.extend_from_slice(&self.stored_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.key_bytes.to_le_bytes());
    }

    /// Reads a record; checks only the flag.
    pub(super) fn read(bytes: &[u8; LARGE_RECORD_BYTES]) -> Result<Self, Damage> {
        let compressed = match u16_at(bytes, 2) {
            0 => false,
            1 => true,
            _ => return Err(Damage("a large key's coding to be 0 or 1")),
        };
        Ok(Self {
            entry: u16_at(bytes, 0),
            compressed,
            offset: u64_at(bytes, 4),
            stored_bytes: u64_at(bytes, 12),
            key_bytes: u64_at(bytes, 20),
        })
    }
}

/// Writes an overflow page's header, except for the checksum; `owner` is the page number of the entry page it belongs
/// to.
pub(super) fn write_overflow_header(page: &mut [u8], kind: u8, owner: u64) {
    page[4] = TYPE_OVERFLOW;
    page[5] = kind;
    page[6..8].fill(0);
    page[8..16].copy_from_slice(&owner.to_le_bytes());
}

/// Returns the payload of a page that must be an overflow page of `owner`.
pub(super) fn overflow_payload(page: &[u8], kind: u8, owner: u64) -> Result<&[u8], Damage> {
    let (header, payload) = page
        .split_first_chunk::<OVERFLOW_HEADER_BYTES>()
        .ok_or(Damage("a whole page header"))?;
    if header[4] != TYPE_OVERFLOW {
        return Err(Damage("a page that continues large keys (page type 2)"));
    }
    if header[5] != kind || u64_at(header, 8) != owner {
        return Err(Damage("an overflow page of the entry page before it"));
    }
    Ok(payload)
}

fn u16_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

fn u32_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u32 {
    u32::from_le_bytes(
        *bytes[offset..]
            .first_chunk()
            .expect("offsets are constants"),
    )
}

fn u64_at<const N: usize>(bytes: &[u8; N], offset: usize) -> u64 {
    u64::from_le_bytes(
        *bytes[offset..]
            .first_chunk()
            .expect("offsets are constants"),
    )
}
