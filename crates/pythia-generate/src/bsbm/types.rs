//! The tree of product types and the features of each.

use super::scale::Kind;
use crate::math::{HalfNormal, log10};
use crate::random::{Spread, Stream};
use std::ops::Range;

/// Product types, numbered from 1 (the root) level by level, and product features, numbered from 1
/// type by type.
#[derive(Clone, Debug)]
pub(super) struct TypeTree {
    /// The first type of each level, and the number after the last type.
    level_start: Vec<u64>,
    /// Children of each type of a level, for all levels but the last.
    branching: Vec<u64>,
    /// The first feature of each type; one more at the end. Types 0 and 1 have none.
    feature_start: Vec<u64>,
    half_normal: HalfNormal,
}

impl TypeTree {
    pub(super) fn new(seed: u64, products: u64) -> Self {
        let branching = branching(products);
        let mut level_start = vec![1, 2];
        let mut width = 1;
        for factor in &branching {
            width *= factor;
            level_start.push(level_start[level_start.len() - 1] + width);
        }
        let depth = branching.len();
        let spread = Spread::new(seed, Kind::FeatureCounts as u64);
        let mut feature_start = vec![1, 1, 1];
        for level in 1..=depth {
            for number in level_start[level]..level_start[level + 1] {
                let previous = feature_start[feature_start.len() - 1];
                feature_start.push(previous + feature_count(level, depth, spread.at(number)));
            }
        }
        Self {
            level_start,
            branching,
            feature_start,
            half_normal: HalfNormal::new(),
        }
    }

    pub(super) fn types(&self) -> u64 {
        self.level_start[self.level_start.len() - 1] - 1
    }

    pub(super) fn features(&self) -> u64 {
        self.feature_start[self.feature_start.len() - 1] - 1
    }

    /// Returns the number of levels below the root.
    pub(super) fn depth(&self) -> usize {
        self.branching.len()
    }

    pub(super) fn level(&self, number: u64) -> usize {
        self.level_start.partition_point(|&start| start <= number) - 1
    }

    pub(super) fn parent(&self, number: u64) -> Option<u64> {
        let level = self.level(number);
        let above = level.checked_sub(1)?;
        let index = number - self.level_start[level];
        Some(self.level_start[above] + index / self.branching[above])
    }

    pub(super) fn children(&self, number: u64) -> Range<u64> {
        let level = self.level(number);
        let Some(factor) = self.branching.get(level) else {
            return 0..0;
        };
        let first = self.level_start[level + 1] + (number - self.level_start[level]) * factor;
        first..first + factor
    }

    /// Returns the types without children, which products have.
    pub(super) fn leaves(&self) -> Range<u64> {
        let last = self.level_start.len() - 1;
        self.level_start[last - 1]..self.level_start[last]
    }

    pub(super) fn features_of(&self, number: u64) -> Range<u64> {
        let number = number as usize;
        self.feature_start[number]..self.feature_start[number + 1]
    }

    /// Draws a leaf: the first ones have more products, by a half-normal distribution.
    pub(super) fn random_leaf(&self, random: &mut Stream) -> u64 {
        let leaves = self.leaves();
        let width = (leaves.end - leaves.start) as f64;
        leaves.start + (self.half_normal.quantile(random.fraction()) * width) as u64
    }

    /// Returns the number of possible features of a product if every type had the middle of its level's range.
    pub(super) fn features_of_nominal_product(&self) -> f64 {
        let ranges = (1..=self.depth()).map(|level| feature_range(level, self.depth()));
        ranges.map(|(min, max)| (min + max) as f64 / 2.0).sum()
    }

    /// Returns the number of possible features of the average product: those of its types.
    pub(super) fn features_of_average_product(&self) -> f64 {
        let leaves = self.leaves();
        let width = (leaves.end - leaves.start) as f64;
        let mut sum = 0.0;
        let mut below = 0.0;
        for leaf in leaves.clone() {
            let share = (leaf + 1 - leaves.start) as f64 / width;
            let up_to = self.half_normal.share_below(share);
            let mut features = 0;
            let mut next = Some(leaf);
            while let Some(number) = next {
                let own = self.features_of(number);
                features += own.end - own.start;
                next = self.parent(number);
            }
            sum += (up_to - below) * features as f64;
            below = up_to;
        }
        sum
    }
}

/// Returns the number of children of each type, by level. The depth grows with the logarithm of the number of
/// products; between two depths the last level becomes wider.
fn branching(products: u64) -> Vec<u64> {
    // The small number makes powers of ten exact.
    let magnitude = log10(products as f64) + 1e-9;
    let growth = magnitude / 2.0;
    let depth = (growth + 0.5) as usize + 1;
    let mut branching = vec![8; depth];
    let fraction = growth - growth.floor();
    branching[depth - 1] = if fraction >= 0.5 {
        2
    } else if fraction < 0.2 {
        4
    } else {
        8
    };
    branching[0] = (2 * (magnitude + 0.5) as u64).max(2);
    branching
}

/// Returns the smallest and largest number of features of the types of a level.
fn feature_range(level: usize, depth: usize) -> (u64, u64) {
    let unit = (depth * (depth + 1) / 2 - 1).max(1) as u64;
    let step = (level + 1).min(depth) as u64;
    (35 * step / unit, 75 * step / unit)
}

/// Returns the number of features of a type, evenly spread over the range of its level. Larger numbers are a little
/// rarer, as in the official data.
fn feature_count(level: usize, depth: usize, point: f64) -> u64 {
    let (min, max) = feature_range(level, depth);
    let skew = if level == 1 && depth > 1 { 0.88 } else { 0.216 };
    let skewed = point * (1.0 - skew) + point * point * skew;
    min + (skewed * (max - min + 1) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_types_are_those_of_the_official_generator() {
        let types = [
            (91, 13),
            (666, 55),
            (2848, 151),
            (70_812, 731),
            (284_826, 2011),
        ];
        for (products, count) in types {
            assert_eq!(TypeTree::new(1, products).types(), count, "{products}");
        }
        assert!(TypeTree::new(1, 2848).features().abs_diff(4745) < 47);
    }

    #[test]
    fn parents_and_children_agree() {
        for products in [1, 9, 100, 2848, 100_000, 1_000_000_000] {
            let tree = TypeTree::new(5, products);
            assert_eq!(tree.parent(1), None);
            let mut count = 1;
            for number in 1..=tree.types() {
                for child in tree.children(number) {
                    assert_eq!(tree.parent(child), Some(number));
                    assert_eq!(tree.level(child), tree.level(number) + 1);
                    count += 1;
                }
                let leaf = tree.leaves().contains(&number);
                assert_eq!(leaf, tree.children(number).is_empty());
                assert_eq!(leaf, tree.level(number) == tree.depth());
            }
            assert_eq!(count, tree.types());
        }
    }

    #[test]
    fn features_have_one_type_each() {
        let tree = TypeTree::new(1, 2848);
        assert!(tree.features_of(1).is_empty());
        let mut next = 1;
        for number in 2..=tree.types() {
            let features = tree.features_of(number);
            assert_eq!(features.start, next);
            let count = features.end - features.start;
            let range = if tree.level(number) == 1 {
                14..=30
            } else {
                21..=45
            };
            assert!(range.contains(&count));
            next = features.end;
        }
        assert_eq!(next, tree.features() + 1);
    }

    #[test]
    fn early_leaves_have_more_products() {
        let tree = TypeTree::new(1, 2848);
        let mut random = Stream::new(1, 1, 1);
        let mut counts = vec![0; 96];
        for _ in 0..96_000 {
            counts[(tree.random_leaf(&mut random) - tree.leaves().start) as usize] += 1;
        }
        let eighth = |n: usize| counts[12 * n..12 * (n + 1)].iter().sum::<i32>();
        assert!(eighth(0) > 4 * eighth(7), "{counts:?}");
        assert!(eighth(7) > 1000);
    }
}
