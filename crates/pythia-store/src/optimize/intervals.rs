//! Interval labels of an acyclic graph whose edges lead to lower numbers: per node, ranges of numbers that include
//! all nodes it reaches (Seufert et al., FERRARI, ICDE 2013).
//!
//! An exact interval includes only reached nodes. An approximate one comes from joining intervals when a node had too
//! many, and its members must be searched for.

use crate::auxiliary::reachability::format::Interval;
use crate::graph::Graph;

/// Most intervals of a node.
pub(super) const INTERVALS_MAX: usize = 16;
/// Most nodes: an interval keeps one bit of a number for itself.
pub(super) const NODES_MAX: usize = (u32::MAX >> 1) as usize;
/// Nodes between two calls of `check`.
const CHECK_EVERY: u32 = 1 << 10;

/// The labels of all nodes.
pub(super) struct Labels {
    starts: Vec<u64>,
    intervals: Vec<Interval>,
    /// Per node, the length of the longest path from it.
    pub(super) levels: Vec<u32>,
}

impl Labels {
    /// Labels a graph with at most `most` intervals a node. `firsts` are its [`crate::graph::Components::firsts`].
    /// Calls `check` now and then, and ends with its error.
    pub(super) fn new<E>(
        graph: &Graph,
        firsts: &[u32],
        most: usize,
        check: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut labels = Self {
            starts: vec![0],
            intervals: Vec::new(),
            levels: Vec::new(),
        };
        let mut gathered = Vec::new();
        for node in 0..graph.nodes() as u32 {
            if node.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
            let first = firsts[node as usize];
            labels.gather(graph.targets(node), &mut gathered);
            gathered.push(Interval::new(first, node, true));
            join_overlaps(&mut gathered);
            limit(&mut gathered, most);
            labels.intervals.append(&mut gathered);
            labels.starts.push(labels.intervals.len() as u64);
            let below = graph.targets(node).iter();
            let level = below.map(|&target| labels.levels[target as usize] + 1);
            labels.levels.push(level.max().unwrap_or(0));
        }
        Ok(labels)
    }

    /// Collects the intervals of the targets, without those of targets that other targets reach.
    fn gather(&self, targets: &[u32], out: &mut Vec<Interval>) {
        // Downwards: a node that leads to a target within its own exact interval comes first.
        let mut covered: Option<Interval> = None;
        for &target in targets.iter().rev() {
            if covered.is_some_and(|covered| covered.contains(target)) {
                continue;
            }
            let intervals = self.of(target);
            out.extend_from_slice(intervals);
            covered = intervals.last().copied().filter(|last| last.is_exact());
        }
    }

    /// Returns a node's intervals, ascending and disjoint.
    pub(super) fn of(&self, node: u32) -> &[Interval] {
        let node = node as usize;
        &self.intervals[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Returns the number of intervals of all nodes together.
    pub(super) fn interval_count(&self) -> u64 {
        self.intervals.len() as u64
    }

    /// Returns whether the intervals alone decide what the node reaches.
    pub(super) fn is_exact(&self, node: u32) -> bool {
        self.of(node).iter().all(|interval| interval.is_exact())
    }
}

/// Joins intervals that overlap, and exact ones that touch. The numbers of an exact interval stay exact.
fn join_overlaps(intervals: &mut Vec<Interval>) {
    if intervals.len() < 2 {
        return;
    }
    let (mut exact, mut approximate): (Vec<Interval>, Vec<Interval>) =
        intervals.iter().partition(|interval| interval.is_exact());
    union(&mut exact);
    union(&mut approximate);
    intervals.clear();
    let mut next = exact.iter().peekable();
    for interval in approximate {
        let (mut low, high) = (interval.low, interval.high());
        while let Some(exact) = next.next_if(|exact| exact.high() < low) {
            intervals.push(*exact);
        }
        // The rest of it between the exact ones.
        let mut rest = true;
        while let Some(exact) = next.peek().filter(|exact| exact.low <= high) {
            if low < exact.low {
                intervals.push(Interval::new(low, exact.low - 1, false));
            }
            if exact.high() >= high {
                rest = false;
                break;
            }
            low = exact.high() + 1;
            intervals.push(**exact);
            next.next();
        }
        if rest {
            intervals.push(Interval::new(low, high, false));
        }
    }
    intervals.extend(next);
}

/// Sorts intervals that are all exact, or all approximate, and joins those that overlap or touch.
fn union(intervals: &mut Vec<Interval>) {
    intervals.sort_unstable_by_key(|interval| interval.low);
    intervals.dedup_by(|later, earlier| {
        let joined = u64::from(later.low) <= u64::from(earlier.high()) + 1;
        if joined {
            let high = earlier.high().max(later.high());
            *earlier = Interval::new(earlier.low, high, earlier.is_exact());
        }
        joined
    });
}

/// Joins neighbours until at most `most` intervals are left, first those that make the fewest numbers approximate.
fn limit(intervals: &mut Vec<Interval>, most: usize) {
    if intervals.len() <= most {
        return;
    }
    let exact = |interval: Interval| {
        if interval.is_exact() {
            interval.len()
        } else {
            0
        }
    };
    let mut costs: Vec<(u64, usize)> = (1..intervals.len())
        .map(|index| {
            let (a, b) = (intervals[index - 1], intervals[index]);
            let gap = u64::from(b.low - a.high() - 1);
            (exact(a) + gap + exact(b), index)
        })
        .collect();
    let joins = intervals.len() - most;
    costs.select_nth_unstable(joins - 1);
    let mut joined = vec![false; intervals.len()];
    costs[..joins]
        .iter()
        .for_each(|&(_, index)| joined[index] = true);
    let mut index = 0;
    intervals.dedup_by(|later, earlier| {
        index += 1;
        if joined[index] {
            *earlier = Interval::new(earlier.low, later.high(), false);
        }
        joined[index]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(low: u32, high: u32) -> Interval {
        Interval::new(low, high, true)
    }

    fn about(low: u32, high: u32) -> Interval {
        Interval::new(low, high, false)
    }

    fn joined(mut intervals: Vec<Interval>) -> Vec<Interval> {
        join_overlaps(&mut intervals);
        intervals
    }

    #[test]
    fn exact_intervals_come_first() {
        assert_eq!(joined(vec![exact(4, 6), exact(1, 3)]), [exact(1, 6)]);
        assert_eq!(
            joined(vec![about(1, 9), exact(4, 6)]),
            [about(1, 3), exact(4, 6), about(7, 9)]
        );
        assert_eq!(joined(vec![about(4, 6), exact(1, 9)]), [exact(1, 9)]);
        assert_eq!(
            joined(vec![about(0, 4), exact(3, 7), about(7, 8), exact(20, 21)]),
            [about(0, 2), exact(3, 7), about(8, 8), exact(20, 21)]
        );
        assert_eq!(
            joined(vec![exact(0, 0), about(5, 6), exact(6, 9)]),
            [exact(0, 0), about(5, 5), exact(6, 9)]
        );
    }

    #[test]
    fn the_cheapest_neighbours_are_joined() {
        let mut intervals = vec![exact(0, 0), exact(2, 2), exact(10, 19), exact(30, 39)];
        limit(&mut intervals, 3);
        assert_eq!(intervals, [about(0, 2), exact(10, 19), exact(30, 39)]);
        limit(&mut intervals, 1);
        assert_eq!(intervals, [about(0, 39)]);
    }
}
