//! Codes of one to three bytes for strings of up to 15 bytes: the decoder of large symbol tables and of words.

use ::fsst::Compressor;

/// Bytes of a string's place: the string, zeros, its length.
pub(crate) const SLOT_BYTES: usize = 16;
/// Longest string.
pub(crate) const STRING_BYTES_MAX: usize = SLOT_BYTES - 1;
/// The first code of three bytes; there are two.
const FIRST_LONG: usize = 253;
/// The code before a literal byte.
const ESCAPE: usize = 255;
/// The first strings are the 256 bytes.
pub(crate) const LITERALS: usize = 256;

/// A string as a number: its bytes, zeros, its length.
pub(crate) fn token(text: u128, length: usize) -> u128 {
    text & ((1 << (8 * length)) - 1) | (length as u128) << 120
}

/// Returns up to 16 bytes from a place on, and zeros after the end.
#[inline]
pub(crate) fn load(text: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(match text[at..].first_chunk::<SLOT_BYTES>() {
        Some(bytes) => *bytes,
        None => {
            let mut bytes = [0; SLOT_BYTES];
            bytes[..text.len() - at].copy_from_slice(&text[at..]);
            bytes
        }
    })
}

#[inline]
pub(crate) fn hash(token: u128) -> u64 {
    let low = token as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let high = (token >> 64) as u64 ^ 0xc2b2_ae3d_27d4_eb4f;
    let product = u128::from(low) * u128::from(high);
    product as u64 ^ (product >> 64) as u64
}

/// The meaning of each first byte.
pub(crate) struct CodeTable {
    /// Codes of one byte.
    short: usize,
    /// Most bytes that a byte of codes stands for.
    expansion: usize,
    /// Number of the first string, shift of the two bytes that follow, bytes of the code.
    codes: [(u32, u8, u8); 256],
}

impl CodeTable {
    /// Returns the table with these strings for codes of one byte, from number `first` on.
    pub(crate) fn new(first: usize, short: usize, expansion: usize) -> Self {
        assert!(short < FIRST_LONG);
        let code = |code: usize| match code {
            code if code < short => (first + code, 16, 1),
            ESCAPE => (0, 8, 2),
            code if code >= FIRST_LONG => {
                let before = (FIRST_LONG - short) << 8;
                (LITERALS + before + ((code - FIRST_LONG) << 16), 0, 3)
            }
            code => (LITERALS + ((code - short) << 8), 8, 2),
        };
        Self {
            short,
            expansion,
            codes: std::array::from_fn(|first_byte| {
                let (base, shift, bytes) = code(first_byte);
                (base as u32, shift, bytes)
            }),
        }
    }

    /// Appends the code of a string that has no code of one byte.
    #[inline]
    pub(crate) fn push(&self, number: usize, codes: &mut Vec<u8>) {
        let number = number - LITERALS;
        let long = number.wrapping_sub((FIRST_LONG - self.short) << 8);
        let is_long = long >> 17 == 0;
        let short = (self.short + (number >> 8)) & 0xff | (number & 0xff) << 8;
        let long = (FIRST_LONG + (long >> 16)) & 0xff | (long & 0xff00) | (long & 0xff) << 16;
        let code = if is_long { long } else { short } as u32;
        let end = codes.len() + 2 + usize::from(is_long);
        codes.extend_from_slice(&code.to_le_bytes());
        codes.truncate(end);
    }

    /// Appends the expansion of `codes`; stops once there are at least `wanted` bytes. Has no branch that depends on
    /// the codes' lengths.
    #[inline]
    pub(crate) fn expand(
        &self,
        strings: &[[u8; SLOT_BYTES]],
        codes: &[u8],
        wanted: usize,
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        let most = (codes.len() * self.expansion).min(wanted.saturating_add(SLOT_BYTES));
        out.resize(start + most + 2 * SLOT_BYTES, 0);
        let target = &mut out[start..];
        let (mut length, mut at) = (0, 0);
        while length < wanted && at < codes.len() {
            let four = match codes[at..].first_chunk::<4>() {
                Some(four) => *four,
                None => {
                    let mut four = [0; 4];
                    four[..codes.len() - at].copy_from_slice(&codes[at..]);
                    four
                }
            };
            let (base, shift, bytes) = self.codes[usize::from(four[0])];
            let next = u32::from(u16::from_be_bytes([four[1], four[2]]));
            at += usize::from(bytes);
            let place = target[length..]
                .first_chunk_mut()
                .expect("room for one more");
            *place = strings[(base + (next >> shift)) as usize];
            length += usize::from(place[SLOT_BYTES - 1]);
        }
        out.truncate(start + length);
    }
}

/// Returns the strings of one byte.
pub(crate) fn literals() -> Vec<[u8; SLOT_BYTES]> {
    let literal = |byte: u8| token(u128::from(byte), 1).to_le_bytes();
    (0..=255).map(literal).collect()
}

/// Compresses many values.
pub(crate) fn compress(
    compressor: &Compressor,
    values: &[&[u8]],
    codes: &mut Vec<u8>,
    ends: &mut Vec<u64>,
) {
    codes.clear();
    ends.clear();
    compressor.compress_bulk_into::<{ Compressor::DEFAULT_BULK_LANES }>(values, codes, ends);
}

/// Returns the bytes of these values, each stored in its shorter encoding.
pub(crate) fn shorter_bytes(values: &[&[u8]], ends: &[u64]) -> usize {
    let mut start = 0;
    values.iter().zip(ends).fold(0, |sum, (value, &end)| {
        let length = (end - start) as usize;
        start = end;
        sum + length.min(value.len())
    })
}

/// Returns some of the values, evenly spaced, of about `bytes` together.
pub(crate) fn sample<'a>(values: &[&'a [u8]], bytes: usize) -> Vec<&'a [u8]> {
    let total: usize = values.iter().map(|value| value.len()).sum();
    let step = total.div_ceil(bytes).max(1);
    values.iter().step_by(step).copied().collect()
}
