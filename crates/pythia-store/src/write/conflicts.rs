//! Conflicts: the quads that commits have changed since running transactions began.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::delta::{Quad, Run};
use crate::pattern::Order;

/// Limit of the memory for recent changes; transactions older than those count as conflicting.
const MEMORY_BYTES_MAX: usize = 16 << 20;
/// Commits of more quads are searched one by one.
const FEW_QUADS: usize = 1024;
/// Bytes of a quad, and of its entry in the index of last commits.
const QUAD_BYTES: usize = size_of::<Quad>();
const LOOKUP_BYTES: usize = 2 * size_of::<(Quad, u64)>();

/// The quads of recent commits.
#[derive(Debug, Default)]
pub(super) struct RecentChanges {
    /// Per quad, the last small commit that changed it.
    last: FxHashMap<Quad, u64>,
    /// Commits and their quads, sorted; the oldest first.
    commits: VecDeque<(u64, Arc<[Quad]>)>,
    /// Number of large commits among them.
    large: usize,
    bytes: usize,
    /// Transactions that began before this commit conflict, as its time is not remembered.
    floor: u64,
}

fn is_large(quads: &[Quad]) -> bool {
    quads.len() > FEW_QUADS
}

fn bytes_of(quads: usize) -> usize {
    match quads > FEW_QUADS {
        true => quads * QUAD_BYTES,
        false => quads * (QUAD_BYTES + LOOKUP_BYTES),
    }
}

impl RecentChanges {
    /// Returns whether a transaction that has seen commits up to `begin` changes a quad that a later one changed.
    pub(super) fn conflict(&self, begin: u64, changed: &Run) -> bool {
        if begin < self.floor {
            return true;
        }
        let quads = || changed.rows(Order::Spo).iter().map(|(quad, _)| quad);
        let is_later = |quad: Quad| self.last.get(&quad).is_some_and(|&commit| commit > begin);
        if !self.last.is_empty() && quads().any(is_later) {
            return true;
        }
        let later = self.commits.iter().rev();
        let later = later.take_while(|(commit, _)| self.large > 0 && *commit > begin);
        let mut large = later.filter(|(_, quads)| is_large(quads));
        large.any(|(_, large)| quads().any(|quad| large.binary_search(&quad).is_ok()))
    }

    /// Returns the quads that each commit after `commit` has changed; `None` if not all are remembered.
    pub(super) fn since(&self, commit: u64) -> Option<Vec<Arc<[Quad]>>> {
        let later = self.commits.iter().rev();
        let later = later.take_while(|(other, _)| *other > commit);
        (commit >= self.floor).then(|| later.map(|(_, quads)| Arc::clone(quads)).collect())
    }

    /// Records a commit, which is later than all before.
    pub(super) fn record(&mut self, commit: u64, changed: &Run) {
        let bytes = bytes_of(changed.len());
        while self.bytes + bytes > MEMORY_BYTES_MAX
            && let Some((oldest, _)) = self.commits.front()
        {
            let oldest = *oldest;
            self.floor = oldest;
            self.forget_until(oldest);
        }
        if bytes > MEMORY_BYTES_MAX {
            self.floor = commit;
            return;
        }
        let quads = changed.rows(Order::Spo).iter().map(|(quad, _)| quad);
        let quads: Arc<[Quad]> = quads.collect();
        match is_large(&quads) {
            true => self.large += 1,
            false => self.last.extend(quads.iter().map(|&quad| (quad, commit))),
        }
        self.bytes += bytes;
        self.commits.push_back((commit, quads));
    }

    /// Forgets commits up to this one: every transaction has seen them.
    pub(super) fn forget_until(&mut self, commit: u64) {
        while let Some((oldest, _)) = self.commits.front()
            && *oldest <= commit
        {
            let (oldest, quads) = self.commits.pop_front().expect("there is one in front");
            self.bytes -= bytes_of(quads.len());
            if is_large(&quads) {
                self.large -= 1;
                continue;
            }
            for quad in &*quads {
                if self.last.get(quad) == Some(&oldest) {
                    self.last.remove(quad);
                }
            }
        }
    }

    /// Makes all transactions conflict that have not seen this commit.
    pub(super) fn forget_all(&mut self, commit: u64) {
        *self = Self {
            floor: commit,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(quads: impl Iterator<Item = u64>) -> Run {
        let changes: Vec<(Quad, i32)> = quads.map(|number| ([number; 4], 1)).collect();
        Run::new(&changes)
    }

    fn one(quad: u64) -> Run {
        run([quad].into_iter())
    }

    #[test]
    fn the_first_committer_wins() {
        // Few changed quads, and many.
        for more in [0, 5000] {
            let many = |quads: [u64; 2]| run(quads.into_iter().chain(100..100 + more));
            let mut recent = RecentChanges::default();
            recent.record(5, &many([1, 2]));
            recent.record(6, &one(2));
            assert!(recent.conflict(4, &one(1)));
            assert!(!recent.conflict(5, &one(1)));
            assert!(recent.conflict(5, &many([3, 2])));
            let since = |commit| recent.since(commit).map(|quads| quads.len());
            assert_eq!([4, 5, 6].map(since), [Some(2), Some(1), Some(0)]);
            recent.forget_until(5);
            assert!(!recent.conflict(5, &one(1)));
            assert!(recent.conflict(5, &one(2)));
            recent.forget_all(6);
            assert!(recent.conflict(5, &run(0..0)));
            assert!(recent.since(5).is_none());
            assert!(!recent.conflict(6, &one(2)));
        }
    }

    #[test]
    fn what_is_too_much_to_remember_conflicts() {
        let fitting = (MEMORY_BYTES_MAX / QUAD_BYTES) as u64;
        for quads in [fitting, fitting + 1] {
            let mut recent = RecentChanges::default();
            recent.record(1, &one(1));
            recent.record(2, &run(10..10 + quads));
            assert!(recent.conflict(0, &one(1)));
            assert!(recent.conflict(1, &one(11)));
            assert!(!recent.conflict(2, &one(11)));
            assert!(recent.bytes <= MEMORY_BYTES_MAX);
        }
    }
}
