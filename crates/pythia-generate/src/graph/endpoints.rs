//! Random endpoints of edges and degrees of nodes.

use crate::math::pow;
use crate::random::{Stream, hash};

/// Degrees from a power law between two bounds: the continuous distribution, rounded down.
#[derive(Clone, Copy, Debug)]
pub(super) struct PowerLaw {
    min: u32,
    max: u32,
    /// The tail falls with this exponent: one less than the density's.
    tail: f64,
    /// The share of the unbounded distribution that lies below the upper bound.
    share: f64,
}

impl PowerLaw {
    /// Builds the distribution. Degree 0 gets the probability below 1: `min` 0 is the range from 1, less one.
    pub(super) fn new(exponent: f64, min: u32, max: u32) -> Self {
        let tail = exponent - 1.0;
        let mut law = Self {
            min,
            max,
            tail,
            share: 0.0,
        };
        law.share = 1.0 - law.tail_from(max + 1);
        law
    }

    fn shift(&self) -> u32 {
        u32::from(self.min == 0)
    }

    /// Returns the share of the unbounded distribution from this degree on.
    fn tail_from(&self, degree: u32) -> f64 {
        let shift = self.shift();
        let ratio = f64::from(degree + shift) / f64::from(self.min + shift);
        pow(ratio, -self.tail)
    }

    pub(super) fn sample(&self, random: &mut Stream) -> u32 {
        let point = 1.0 - random.fraction() * self.share;
        let shift = self.shift();
        let degree = f64::from(self.min + shift) * pow(point, -1.0 / self.tail);
        (degree as u32 - shift).clamp(self.min, self.max)
    }

    /// Returns the mean degree: the sum, over all degrees above the smallest, of the chance to reach it.
    pub(super) fn mean(&self) -> f64 {
        let end = 1.0 - self.share;
        let above: f64 = (self.min..self.max)
            .map(|degree| (self.tail_from(degree + 1) - end) / self.share)
            .sum();
        f64::from(self.min) + above
    }
}

/// The distribution of the other ends of edges.
#[derive(Clone, Debug)]
pub(super) enum Endpoints {
    Uniform { nodes: u64 },
    PowerLaw { ranks: Ranks, power: f64 },
}

impl Endpoints {
    pub(super) fn uniform(nodes: u64) -> Self {
        Self::Uniform { nodes }
    }

    /// Builds endpoints whose in-degrees follow a power law with this exponent: the node of rank r is drawn with a
    /// probability proportional to r to the power of -1/(exponent - 1) (Zipf's law).
    pub(super) fn power_law(nodes: u64, exponent: f64, seed: u64, kind: u64) -> Self {
        Self::PowerLaw {
            ranks: Ranks::new(nodes, seed, kind),
            power: (exponent - 1.0) / (exponent - 2.0),
        }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Stream) -> u64 {
        match self {
            Self::Uniform { nodes } => random.below_u64(*nodes),
            Self::PowerLaw { ranks, power } => {
                // Never 0, whose logarithm does not exist.
                let point = random.fraction() + f64::EPSILON / 4.0;
                let rank = ranks.nodes as f64 * pow(point, *power);
                ranks.node((rank as u64).min(ranks.nodes - 1))
            }
        }
    }
}

/// A random order of the nodes, without a table: a Feistel network over the smallest even number of bits that holds
/// all numbers, applied until the result is in their range.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    nodes: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Ranks {
    fn new(nodes: u64, seed: u64, kind: u64) -> Self {
        let bits = u64::BITS - (nodes - 1).leading_zeros();
        Self {
            nodes,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|round| hash(seed, kind, round as u64)),
        }
    }

    /// Returns the node of a rank; different for every rank.
    #[inline]
    fn node(&self, rank: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut value = rank;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (hash(key, 0, right) & mask));
            }
            value = left << self.half_bits | right;
            if value < self.nodes {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_a_permutation() {
        for nodes in [1, 2, 3, 10, 64, 1000, 4097] {
            let ranks = Ranks::new(nodes, 7, 1);
            let mut seen: Vec<u64> = (0..nodes).map(|rank| ranks.node(rank)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..nodes), "{nodes}");
        }
    }

    #[test]
    fn degrees_follow_the_power_law() {
        for (min, max) in [(1, 1000), (3, 30), (0, 500), (5, 5)] {
            let law = PowerLaw::new(2.5, min, max);
            let mut random = Stream::new(1, 1, 1);
            let count = 200_000;
            let mut sum = 0;
            let mut at_least_double = 0;
            for _ in 0..count {
                let degree = law.sample(&mut random);
                assert!((min..=max).contains(&degree));
                sum += u64::from(degree);
                at_least_double += u32::from(degree >= 2 * min);
            }
            let mean = sum as f64 / f64::from(count);
            assert!(
                (mean / law.mean() - 1.0).abs() < 0.03,
                "{mean} {}",
                law.mean()
            );
            if min == 1 {
                // 2 to the power of -1.5
                let share = f64::from(at_least_double) / f64::from(count);
                assert!((share - 0.3536).abs() < 0.005, "{share}");
            }
        }
    }
}
