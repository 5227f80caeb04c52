//! Stable radix sort of rows by some of their bits, least significant digit first.

use std::ops::Range;

use super::row::Row;

/// Bits of a digit: the write positions of its buckets fit into the L1 cache.
const DIGIT_BITS: u32 = 10;
const BUCKETS: usize = 1 << DIGIT_BITS;
/// Below this many rows a comparison sort is as good.
const COMPARE_BELOW: usize = 256;

/// Sorts `rows` by the bits in `bits`; rows equal in them keep their order. `scratch` becomes as long as `rows`, with
/// undefined content.
pub(super) fn sort<R: Row>(rows: &mut Vec<R>, scratch: &mut Vec<R>, bits: Range<u32>) {
    if bits.is_empty() || rows.len() < 2 {
        return;
    }
    if rows.len() < COMPARE_BELOW {
        rows.sort_by_key(|row| high_bits(*row, bits.start));
        return;
    }
    let passes = (bits.end - bits.start).div_ceil(DIGIT_BITS);
    let digit_bits = (bits.end - bits.start).div_ceil(passes);
    let digits: Vec<(u32, u32)> = (0..passes)
        .map(|pass| {
            let shift = bits.start + pass * digit_bits;
            let width = digit_bits.min(bits.end - shift);
            (shift, (1 << width) - 1)
        })
        .collect();
    scratch.clear();
    scratch.resize(rows.len(), R::ZERO);
    for (histogram, &(shift, mask)) in histograms(rows, &digits).iter().zip(&digits) {
        // All rows are in one bucket: nothing moves.
        if histogram.contains(&rows.len()) {
            continue;
        }
        scatter(rows, scratch, histogram, shift, mask);
        std::mem::swap(rows, scratch);
    }
}

/// Returns the bits compared by a sort from bit `from` upwards. `bits` always reach a row's highest used bit.
fn high_bits<R: Row>(row: R, from: u32) -> [u32; 4] {
    let word = |index: u32| {
        let shift = from + 32 * index;
        if shift < R::BYTES as u32 * 8 {
            row.get(shift, u32::MAX)
        } else {
            0
        }
    };
    [word(3), word(2), word(1), word(0)]
}

fn histograms<R: Row>(rows: &[R], digits: &[(u32, u32)]) -> Vec<Vec<usize>> {
    let mut histograms = vec![vec![0; BUCKETS]; digits.len()];
    for row in rows {
        for (histogram, &(shift, mask)) in histograms.iter_mut().zip(digits) {
            histogram[row.get(shift, mask) as usize] += 1;
        }
    }
    histograms
}

fn scatter<R: Row>(from: &[R], to: &mut [R], histogram: &[usize], shift: u32, mask: u32) {
    let mut next = [0; BUCKETS];
    let mut sum = 0;
    for (start, count) in next.iter_mut().zip(histogram) {
        *start = sum;
        sum += count;
    }
    for row in from {
        let place = &mut next[row.get(shift, mask) as usize];
        to[*place] = *row;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_out_in_order(
            mut rows in prop_oneof![prop::collection::vec(any::<u64>(), 0..600), prop::collection::vec(0..5_u64, 0..600)],
            from in 0_u32..64,
            wide in any::<bool>(),
        ) {
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row >> from);
            let mut scratch = Vec::new();
            if wide {
                let mut wide: Vec<u128> = rows.iter().map(|row| u128::from(*row) << 50).collect();
                sort(&mut wide, &mut Vec::new(), from + 50..114);
                rows = wide.iter().map(|row| (row >> 50) as u64).collect();
            } else {
                sort(&mut rows, &mut scratch, from..64);
            }
            prop_assert_eq!(rows, expected);
        }
    }
}
