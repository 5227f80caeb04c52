//! The format of a column page, drawn in `docs/format/column-pages.md`.

use pythia_io::bytes;
use std::fmt;

/// Rows of a block: each column of a page is split into blocks of this many rows (the page's last may have fewer), so
/// row `r` is in block `r / BLOCK_ROWS`.
pub(crate) const BLOCK_ROWS: usize = 256;

/// Most rows of a page, however well they pack: bounds the cost of decoding one page.
pub(crate) const PAGE_ROWS_MAX: usize = 1024 * BLOCK_ROWS;

/// The page type in byte 4.
pub(crate) const PAGE_TYPE: u8 = b'C';

/// Bytes before the predicate runs.
pub(super) const HEADER_BYTES: usize = 56;
/// Bytes of a predicate run: predicate, row after its last.
pub(super) const RUN_BYTES: usize = 12;
/// Bytes of a block's end offset in a column's index.
pub(super) const END_BYTES: usize = 2;

/// Offsets of the header's fields.
pub(super) mod field {
    pub(in super::super) const PAGE_TYPE: usize = 4;
    /// Bit `c` (0 for a, 1 for b, 2 for the graph): the column is constant and has no minipage.
    pub(in super::super) const FLAGS: usize = 5;
    pub(in super::super) const RUN_COUNT: usize = 6;
    pub(in super::super) const ROW_COUNT: usize = 8;
    pub(in super::super) const BLOCK_COUNT: usize = 12;
    /// One byte each for a, b, g: bytes of a block's minimum.
    pub(in super::super) const MINIMUM_BYTES: usize = 14;
    /// u16 each for a, b, g: start of the minipage.
    pub(in super::super) const STARTS: usize = 18;
    /// u16: end of the last minipage.
    pub(in super::super) const END: usize = 24;
    /// u64 each for a, b, g: the base of the blocks' minima.
    pub(in super::super) const BASES: usize = 32;
}

/// Forms of a block, its body's first byte. In a block with an empty body all values are the minimum.
pub(super) mod tag {
    /// Difference to the minimum, divided by a common divisor.
    pub(in super::super) const FRAME: u8 = 1;
    /// Difference to the previous value, with patches for exceptions.
    pub(in super::super) const DELTA: u8 = 2;
    /// Runs of equal values: lengths, then the runs' values as a nested body.
    pub(in super::super) const RUNS: u8 = 3;
    /// A selector of the term kind for each row, then each kind's values as a nested body.
    pub(in super::super) const KINDS: u8 = 4;
    /// The distinct values as a nested body, then an index for each row.
    pub(in super::super) const DISTINCT: u8 = 5;
}

/// The columns of a page that have minipages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// The order's second component.
    A = 0,
    /// The order's third component.
    B = 1,
    /// The graph.
    G = 2,
}

impl Column {
    pub(super) const ALL: [Self; 3] = [Self::A, Self::B, Self::G];

    /// Returns the bit in [`field::FLAGS`] that says the column has its base in all rows.
    pub(super) const fn constant_flag(self) -> u8 {
        1 << self as u8
    }
}

/// A problem of a page; the caller adds file and page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPage(pub(crate) &'static str);

impl fmt::Display for BadPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Takes a number written by [`pythia_io::bytes::push_varint`] off the front of `input`.
pub(super) fn take_varint(input: &mut &[u8]) -> Result<u64, BadPage> {
    bytes::take_varint(input).ok_or(BadPage("a number that is cut off, or of more than 64 bits"))
}

/// Takes one byte off the front.
pub(super) fn take_byte(bytes: &mut &[u8]) -> Result<u8, BadPage> {
    let (&byte, rest) = bytes
        .split_first()
        .ok_or(BadPage("a block ends in its middle"))?;
    *bytes = rest;
    Ok(byte)
}

/// Maps signed numbers to unsigned ones, so that small ones stay small.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Inverts [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
