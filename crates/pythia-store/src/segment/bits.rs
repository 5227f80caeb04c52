//! Bit packing shared by the tuple and column pages.
//!
//! Numbers are packed least significant bit first: bit `i` of a packed area is bit `i % 8` of byte `i / 8`. A number
//! may have 0 to 64 bits and starts at any bit. Reads are total: bits beyond the end of the slice read as zero, so
//! wrong lengths cannot cause a panic. Callers that need all bits to be present compare [`bytes_for`] with the slice
//! first.

/// Returns the bits needed to write `value`; 0 for 0.
#[inline]
pub const fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// Returns the bytes that hold `bits` bits.
#[inline]
pub const fn bytes_for(bits: usize) -> usize {
    bits.div_ceil(8)
}

/// Returns a mask of the lowest `width` bits; `width` is at most 64.
#[inline]
pub const fn mask(width: u32) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}

/// A writer that appends numbers of 0 to 64 bits to a growing buffer.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits not yet in `bytes`, lowest first; those above `pending_bits` are zero.
    pending: u64,
    /// Always below 64.
    pending_bits: u32,
}

impl BitWriter {
    /// Returns an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty writer with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes + 8),
            ..Self::default()
        }
    }

    /// Appends the lowest `width` bits of `value`. The bits above them must be zero, which is
    /// checked in debug builds.
    #[inline]
    pub fn append(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 64);
        debug_assert!(value & !mask(width) == 0, "{value} in {width} bits");
        self.pending |= value << self.pending_bits;
        let bits = self.pending_bits + width;
        if bits < 64 {
            self.pending_bits = bits;
            return;
        }
        self.bytes.extend_from_slice(&self.pending.to_le_bytes());
        let written = 64 - self.pending_bits;
        self.pending = value.checked_shr(written).unwrap_or(0);
        self.pending_bits = bits - 64;
    }

    /// Appends `value - base` for each value, all in `width` bits.
    pub fn append_all(&mut self, values: &[u64], base: u64, width: u32) {
        if width == 0 {
            return;
        }
        for &value in values {
            self.append(value.wrapping_sub(base), width);
        }
    }

    /// Returns the number of bits appended so far.
    #[inline]
    pub fn bit_len(&self) -> usize {
        self.bytes.len() * 8 + self.pending_bits as usize
    }

    /// Pads with zero bits to the next byte.
    pub fn align(&mut self) {
        let missing = self.pending_bits.wrapping_neg() & 7;
        self.append(0, missing);
    }

    /// Removes everything that was appended and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending = 0;
        self.pending_bits = 0;
    }

    /// Returns the bytes, the last one padded with zero bits. More can be appended only if the writer was at a byte
    /// boundary.
    pub fn as_bytes(&mut self) -> &[u8] {
        let bytes = bytes_for(self.pending_bits as usize);
        self.bytes
            .extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
        self.pending = 0;
        self.pending_bits = 0;
        &self.bytes
    }

    /// Returns the bytes, the last one padded with zero bits.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.as_bytes();
        self.bytes
    }
}

/// Returns the number of `width` (0 to 64) bits at `bit_offset`.
#[inline]
pub fn read_bits(bytes: &[u8], bit_offset: usize, width: u32) -> u64 {
    let at = bit_offset >> 3;
    let shift = (bit_offset & 7) as u32;
    let Some(word) = word_at(bytes, at) else {
        return read_bits_at_end(bytes, bit_offset, width);
    };
    let mut value = word >> shift;
    if shift + width > 64 {
        let next = bytes.get(at + 8).copied().unwrap_or(0);
        value |= u64::from(next) << (64 - shift);
    }
    value & mask(width)
}

/// Returns a number of at most [`SHORT_BITS_MAX`] bits like [`read_bits`], with a single load. The highest bits of a
/// wider number may read as zero.
#[inline]
pub fn read_short_bits(bytes: &[u8], bit_offset: usize, width: u32) -> u64 {
    let Some(word) = word_at(bytes, bit_offset >> 3) else {
        return read_bits_at_end(bytes, bit_offset, width);
    };
    (word >> (bit_offset & 7)) & mask(width)
}

/// The widest number that [`read_short_bits`] reads.
pub const SHORT_BITS_MAX: u32 = 57;

/// Returns eight bytes, if there are as many.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(
        word.try_into().expect("a range of eight"),
    ))
}

/// Implements [`read_bits`] where fewer than 8 bytes follow.
#[cold]
fn read_bits_at_end(bytes: &[u8], bit_offset: usize, width: u32) -> u64 {
    let rest = bytes.get(bit_offset >> 3..).unwrap_or(&[]);
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    (u64::from_le_bytes(word) >> (bit_offset & 7)) & mask(width)
}

/// Appends `count` consecutive numbers of `width` bits from `bit_offset`, each plus `base` (wrapping). `count` sizes
/// an allocation: the caller has checked it.
pub fn unpack(
    bytes: &[u8],
    bit_offset: usize,
    width: u32,
    count: usize,
    base: u64,
    out: &mut Vec<u64>,
) {
    if width == 0 {
        out.resize(out.len() + count, base);
        return;
    }
    out.reserve(count);
    let groups = if count >= 8 {
        unpack_groups(bytes, bit_offset, width, count / 8, base, out)
    } else {
        0
    };
    let mut bit = bit_offset + groups * 8 * width as usize;
    out.extend((groups * 8..count).map(|_| {
        let value = base.wrapping_add(read_bits(bytes, bit, width));
        bit += width as usize;
        value
    }));
}

/// Unpacks groups of eight numbers, whose bits are whole bytes, while the slice is long enough for eight-byte loads.
/// Returns the number of groups.
fn unpack_groups(
    bytes: &[u8],
    bit_offset: usize,
    width: u32,
    groups: usize,
    base: u64,
    out: &mut Vec<u64>,
) -> usize {
    /// Unpacks one width known at compile time: every load has a constant place in its group.
    fn run<const WIDTH: usize>(
        bytes: &[u8],
        shift: u32,
        groups: usize,
        base: u64,
        out: &mut Vec<u64>,
    ) -> usize {
        let fit = (bytes.len().saturating_sub(8) / WIDTH).min(groups);
        for group in 0..fit {
            let at = group * WIDTH;
            let chunk = &bytes[at..at + WIDTH + 8];
            let values: [u64; 8] = std::array::from_fn(|i| {
                let bit = i * WIDTH;
                let word: [u8; 8] = chunk[bit / 8..bit / 8 + 8]
                    .try_into()
                    .expect("a range of eight");
                let word = u64::from_le_bytes(word) >> (shift + (bit % 8) as u32);
                base.wrapping_add(word & mask(WIDTH as u32))
            });
            out.extend_from_slice(&values);
        }
        fit
    }
    let Some(bytes) = bytes.get(bit_offset >> 3..) else {
        return 0;
    };
    let shift = (bit_offset & 7) as u32;
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => run::<$width>(bytes, shift, groups, base, out),)*
                // 14 bits of shift and 51 bits of a number do not fit into one load.
                _ => 0,
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_appended_is_read(
            values in prop::collection::vec((any::<u64>(), 0_u32..=64), 0..200),
        ) {
            let mut writer = BitWriter::new();
            for &(value, width) in &values {
                writer.append(value & mask(width), width);
            }
            let bits: usize = values.iter().map(|v| v.1 as usize).sum();
            prop_assert_eq!(writer.bit_len(), bits);
            let bytes = writer.into_bytes();
            prop_assert_eq!(bytes.len(), bytes_for(bits));
            let mut at = 0;
            for (value, width) in values {
                prop_assert_eq!(read_bits(&bytes, at, width), value & mask(width));
                if width <= SHORT_BITS_MAX {
                    prop_assert_eq!(read_short_bits(&bytes, at, width), value & mask(width));
                }
                at += width as usize;
            }
        }

        #[test]
        fn unpack_reads_like_read_bits(
            lead in 0_u32..20,
            width in 0_u32..=64,
            values in prop::collection::vec(any::<u64>(), 0..100),
            base in any::<u64>(),
        ) {
            let mut writer = BitWriter::new();
            writer.append(0, lead);
            for &value in &values {
                writer.append(value & mask(width), width);
            }
            let bytes = writer.into_bytes();
            let mut out = vec![7];
            unpack(&bytes, lead as usize, width, values.len(), base, &mut out);
            let expected: Vec<u64> = std::iter::once(7)
                .chain(values.iter().map(|v| (v & mask(width)).wrapping_add(base)))
                .collect();
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn reads_beyond_the_end_are_zero(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            at in 0_usize..1000,
            width in 0_u32..=64,
            count in 0_usize..100,
        ) {
            let mut long = bytes.clone();
            long.resize(2000, 0);
            prop_assert_eq!(read_bits(&bytes, at, width), read_bits(&long, at, width));
            let (mut short_out, mut long_out) = (Vec::new(), Vec::new());
            unpack(&bytes, at, width, count, 3, &mut short_out);
            unpack(&long, at, width, count, 3, &mut long_out);
            prop_assert_eq!(short_out, long_out);
        }
    }

    #[test]
    fn align_fills_up_to_a_byte() {
        let mut writer = BitWriter::new();
        writer.append(5, 3);
        writer.align();
        writer.append(1, 1);
        assert_eq!(writer.as_bytes(), [5, 1]);
        writer.clear();
        assert_eq!(writer.bit_len(), 0);
    }
}
