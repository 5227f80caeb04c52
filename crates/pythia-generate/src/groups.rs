//! A sequence of members cut into groups of random sizes: products by producer, offers by vendor,
//! reviews by reviewer, reviewers by rating site.
//!
//! Each boundary is that of equal groups, moved by a random part of a group's size. Any boundary is therefore known
//! without the ones before it, and the number of groups is exact. The sizes are between 0 and twice the mean and have a
//! standard deviation of a third of it, as in the official generator.

use crate::random::{hash, to_fraction};
use std::ops::Range;

#[derive(Clone, Debug)]
pub(crate) struct Groups {
    seed: u64,
    kind: u64,
    count: u64,
    members: u64,
    mean: f64,
}

impl Groups {
    /// Cuts `members` into about `count` groups: at least one, and none with a mean below two.
    pub(crate) fn new(seed: u64, kind: u64, members: u64, count: u64) -> Self {
        let count = count.clamp(1, (members / 2).max(1));
        Self {
            seed,
            kind,
            count,
            members,
            mean: members as f64 / count as f64,
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first member of a group; for the group after the last, the number of members.
    #[inline]
    pub(crate) fn start(&self, group: u64) -> u64 {
        if group == 0 {
            return 0;
        }
        if group >= self.count {
            return self.members;
        }
        let bits = hash(self.seed, self.kind, group);
        let coarse = to_fraction(bits) - 0.5;
        let fine = to_fraction(bits << 32) - 0.5;
        let moved = 0.8 * coarse + 0.2 * fine;
        ((group as f64 + moved) * self.mean) as u64
    }

    /// Returns the group of a member.
    #[inline]
    pub(crate) fn of(&self, member: u64) -> u64 {
        let mut group = (((member as f64 + 0.5) / self.mean) as u64 + 1).min(self.count - 1);
        while self.start(group) > member {
            group -= 1;
        }
        group
    }

    /// Returns the groups that begin with a member: several if groups are empty.
    #[inline]
    pub(crate) fn beginning_at(&self, member: u64) -> Range<u64> {
        let last = self.of(member);
        if self.start(last) != member {
            return 0..0;
        }
        let mut first = last;
        while first > 0 && self.start(first - 1) == member {
            first -= 1;
        }
        first..last + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_member_is_in_exactly_the_group_that_spans_it(
            seed: u64, members in 1_u64..3000, count in 1_u64..500,
        ) {
            let groups = Groups::new(seed, 9, members, count);
            let mut next_group = 0;
            let mut next_member = 0;
            for group in 0..groups.count() {
                for member in groups.start(group)..groups.start(group + 1) {
                    prop_assert_eq!(member, next_member);
                    prop_assert_eq!(groups.of(member), group);
                    next_member += 1;
                    for begun in groups.beginning_at(member) {
                        prop_assert_eq!(begun, next_group);
                        next_group += 1;
                    }
                }
            }
            prop_assert_eq!(next_member, members);
            prop_assert_eq!(next_group, groups.count());
        }
    }

    #[test]
    fn sizes_vary_by_a_third() {
        let groups = Groups::new(3, 1, 1_000_000, 10_000);
        let sizes: Vec<f64> = (0..groups.count())
            .map(|group| (groups.start(group + 1) - groups.start(group)) as f64)
            .collect();
        let variance =
            sizes.iter().map(|size| (size - 100.0).powi(2)).sum::<f64>() / sizes.len() as f64;
        let deviation = variance.sqrt();
        assert!((30.0..37.0).contains(&deviation), "{deviation}");
        assert!(sizes.iter().all(|&size| size <= 200.0));
    }
}
