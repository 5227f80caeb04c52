//! A sum over quads that does not depend on their order.

/// 128 bits that two different sets of quads share only by accident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(u128);

impl Fingerprint {
    /// Adds a quad: subject, predicate, object, graph.
    #[inline]
    pub(super) fn add(&mut self, quad: [u64; 4]) {
        let (mut low, mut high) = (0x243f_6a88_85a3_08d3_u64, 0x1319_8a2e_0370_7344_u64);
        for id in quad {
            low = mix(low ^ id);
            high = mix(high.rotate_left(23) ^ id).wrapping_add(low);
        }
        self.0 = self
            .0
            .wrapping_add(u128::from(high) << 64 | u128::from(low));
    }
}

/// Spreads every bit over all others: two rounds of multiply and shift.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 32)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    value = (value ^ (value >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(quads: &[[u64; 4]]) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        quads.iter().for_each(|&quad| fingerprint.add(quad));
        fingerprint
    }

    #[test]
    fn order_does_not_matter_and_contents_do() {
        let quads = [[1, 2, 3, 0], [1, 2, 4, 0], [5, 2, 3, 9]];
        let [a, b, c] = quads;
        assert_eq!(of(&quads), of(&[c, a, b]));
        assert_ne!(of(&quads), of(&[a, b]));
        // Components must not change places, within a quad or between quads.
        assert_ne!(of(&[[1, 2, 3, 0]]), of(&[[3, 2, 1, 0]]));
        assert_ne!(
            of(&[[1, 2, 3, 0], [4, 2, 6, 0]]),
            of(&[[1, 2, 6, 0], [4, 2, 3, 0]])
        );
    }
}
