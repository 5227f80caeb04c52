//! Streams of random numbers, one for each entity, and evenly spread sequences.
//!
//! The generator is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). It is
//! implemented here because generated data must never change with the version of a library.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The random numbers of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    state: u64,
}

impl Stream {
    /// Returns the stream of entity `number` of the given kind.
    #[inline]
    pub(crate) fn new(seed: u64, kind: u64, number: u64) -> Self {
        Self {
            state: hash(seed, kind, number),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Draws a number in `0..bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        scale_u32((self.next() >> 32) as u32, bound)
    }

    /// Draws a number in `0..bound`.
    #[inline]
    pub(crate) fn below_u64(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws a number in `first..=last`.
    #[inline]
    pub(crate) fn between(&mut self, first: u32, last: u32) -> u32 {
        first + self.below(last - first + 1)
    }

    /// Draws a number in `0.0..1.0`.
    #[inline]
    pub(crate) fn fraction(&mut self) -> f64 {
        to_fraction(self.next())
    }
}

/// Returns `bound` times `fraction` / 2^32.
#[inline]
pub(crate) fn scale_u32(fraction: u32, bound: u32) -> u32 {
    ((u64::from(fraction) * u64::from(bound)) >> 32) as u32
}

/// Returns the upper 53 bits as a number in `0.0..1.0`.
#[inline]
pub(crate) fn to_fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Returns a pseudorandom number for the three.
#[inline]
pub(crate) fn hash(seed: u64, kind: u64, number: u64) -> u64 {
    let key = mix(seed ^ mix(kind.wrapping_mul(GOLDEN)));
    mix(key.wrapping_add(number.wrapping_mul(GOLDEN)))
}

#[inline]
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Points spread evenly over `0.0..1.0`: the multiples of the golden ratio modulo 1. Such points meet a share almost
/// exactly in every run of entities, whereas independent draws would miss it by about the square root of their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    offset: u64,
}

impl Spread {
    pub(crate) fn new(seed: u64, kind: u64) -> Self {
        Self {
            offset: hash(seed, kind, 0),
        }
    }

    /// Returns the point of entity `number`.
    #[inline]
    pub(crate) fn at(self, number: u64) -> f64 {
        to_fraction(self.offset.wrapping_add(number.wrapping_mul(GOLDEN)))
    }
}

/// A fixed random order of the numbers below a count. The place of each number is computed without the others: rounds of
/// invertible steps on numbers of as many bits as the count has, repeated until the result is below the count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    count: u64,
    bits: u32,
    keys: [u64; 3],
}

impl Shuffle {
    /// Returns the order of `count` (1 to 2^63) numbers.
    pub(crate) fn new(seed: u64, kind: u64, count: u64) -> Self {
        let bits = u64::BITS - (count - 1).leading_zeros();
        Self {
            count,
            bits: bits.max(1),
            keys: [0, 1, 2].map(|round| hash(seed, kind, round)),
        }
    }

    /// Returns the place of `number`, which is below the count.
    #[inline]
    pub(crate) fn at(&self, number: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let mut place = number;
        loop {
            for key in self.keys {
                // An odd factor and a shift to the right can be undone.
                place = place.wrapping_add(key).wrapping_mul(GOLDEN) & mask;
                place ^= place >> self.bits.div_ceil(2);
            }
            if place < self.count {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_has_every_place_once_and_no_order() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            let shuffle = Shuffle::new(3, 1, count);
            let mut places: Vec<u64> = (0..count).map(|n| shuffle.at(n)).collect();
            let steps = places.windows(2).filter(|two| two[0] + 1 == two[1]);
            assert!(steps.count() as u64 <= count / 16 + 2, "{count}");
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Stream::new(1, 2, 3);
        let mut seen = [0_u32; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] += 1;
            assert!(random.below_u64(7) < 7);
            assert!((5..=6).contains(&random.between(5, 6)));
            assert!((0.0..1.0).contains(&random.fraction()));
        }
        assert!(seen.iter().all(|&count| (50..150).contains(&count)));
    }

    #[test]
    fn streams_of_neighbours_differ() {
        let first: Vec<u64> = (0..1000).map(|n| Stream::new(7, 1, n).next()).collect();
        let mut distinct = first.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), first.len());
        assert_ne!(Stream::new(7, 1, 0).next(), Stream::new(8, 1, 0).next());
        assert_ne!(Stream::new(7, 1, 0).next(), Stream::new(7, 2, 0).next());
    }

    #[test]
    fn spread_meets_shares_almost_exactly() {
        let spread = Spread::new(42, 1);
        for share in [0.05, 0.2, 0.5] {
            let count = (0..1000).filter(|&n| spread.at(n) < share).count();
            assert!(count.abs_diff((share * 1000.0) as usize) <= 3, "{count}");
        }
    }
}
