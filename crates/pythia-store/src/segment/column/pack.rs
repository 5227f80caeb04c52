//! Bit packing of runs of numbers: `width` bits each, low bits first, without gaps.
//!
//! Bulk packing for the blocks of a column, where every number of a run is needed; a run starts and ends on a byte.

use super::format::BadPage;
use crate::segment::bits::mask;

/// Returns the bytes of `count` numbers of `width` bits.
pub(super) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends `values`, each of which must fit in `width` bits.
pub(super) fn pack(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut word = 0u64;
    let mut used = 0u32;
    for value in values {
        debug_assert!(value & !mask(width) == 0);
        word |= value << used;
        if used + width >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            word = if used == 0 { 0 } else { value >> (64 - used) };
            used = used + width - 64;
        } else {
            used += width;
        }
    }
    if used > 0 {
        let bytes = word.to_le_bytes();
        out.extend_from_slice(&bytes[..used.div_ceil(8) as usize]);
    }
}

/// Reads `out.len()` numbers of `width` bits from the start of `bytes`, which may be longer. Returns the bytes used.
pub(super) fn unpack(bytes: &[u8], width: u32, out: &mut [u64]) -> Result<usize, BadPage> {
    let used = packed_bytes(out.len(), width);
    if width > 64 || bytes.len() < used {
        return Err(BadPage("packed numbers run past their column"));
    }
    match width {
        0 => out.fill(0),
        1..=56 => unpack_narrow(bytes, width, out),
        _ => unpack_wide(bytes, width, out),
    }
    Ok(used)
}

/// Unpacks numbers of up to 56 bits: each is within the eight bytes from its first.
fn unpack_narrow(bytes: &[u8], width: u32, out: &mut [u64]) {
    let mask = mask(width);
    let step = width as usize;
    // Numbers whose eight bytes are all present.
    let whole = match bytes.len().checked_sub(8) {
        Some(last) => ((last * 8 + 7) / step + 1).min(out.len()),
        None => 0,
    };
    let (fast, slow) = out.split_at_mut(whole);
    let mut bit = 0usize;
    for slot in fast {
        let at = bit >> 3;
        let word = match bytes[at..].first_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => 0,
        };
        *slot = (word >> (bit & 7)) & mask;
        bit += step;
    }
    for slot in slow {
        *slot = ((padded(bytes, bit >> 3) >> (bit & 7)) as u64) & mask;
        bit += step;
    }
}

fn unpack_wide(bytes: &[u8], width: u32, out: &mut [u64]) {
    let mask = mask(width);
    for (index, slot) in out.iter_mut().enumerate() {
        let bit = index * width as usize;
        *slot = ((padded(bytes, bit >> 3) >> (bit & 7)) as u64) & mask;
    }
}

/// Returns sixteen bytes from `at`, with zeros after the end.
fn padded(bytes: &[u8], at: usize) -> u128 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    if let Some(chunk) = rest.first_chunk::<16>() {
        return u128::from_le_bytes(*chunk);
    }
    let mut chunk = [0u8; 16];
    chunk[..rest.len()].copy_from_slice(rest);
    u128::from_le_bytes(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_comes_back() {
        for width in 0..=64u32 {
            let mask = mask(width);
            for count in [0usize, 1, 2, 7, 63, 64, 65, 256] {
                let values: Vec<u64> = (0..count as u64)
                    .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(width) & mask)
                    .collect();
                let mut bytes = Vec::new();
                pack(values.iter().copied(), width, &mut bytes);
                assert_eq!(bytes.len(), packed_bytes(count, width));
                let mut back = vec![0; count];
                assert_eq!(unpack(&bytes, width, &mut back), Ok(bytes.len()));
                assert_eq!(back, values, "width {width}, count {count}");
                bytes.extend_from_slice(&[0xff; 20]);
                unpack(&bytes, width, &mut back).expect("long enough");
                assert_eq!(back, values, "width {width}, count {count}, more behind");
            }
        }
    }

    #[test]
    fn too_few_bytes_are_an_error() {
        assert!(unpack(&[0; 3], 8, &mut [0; 4]).is_err());
        assert!(unpack(&[0; 300], 65, &mut [0; 4]).is_err());
    }
}
