//! Write–write conflicts: which quads commits have changed since running transactions began.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::delta::Quad;

/// Changed quads that are remembered; beyond, older transactions are taken to conflict.
const QUADS_MAX: usize = 1 << 19;

/// The quads of recent commits.
#[derive(Debug, Default)]
pub(super) struct RecentChanges {
    /// The last commit that changed a quad.
    last: FxHashMap<Quad, u64>,
    /// Commits and their quads, the oldest first.
    commits: VecDeque<(u64, Vec<Quad>)>,
    quads: usize,
    /// Transactions that began before this commit are of a time that is not remembered.
    floor: u64,
}

impl RecentChanges {
    /// Whether a transaction that has seen commits up to `begin` changes what a later one changed.
    pub(super) fn conflict(&self, begin: u64, mut quads: impl Iterator<Item = Quad>) -> bool {
        let is_later = |quad: Quad| self.last.get(&quad).is_some_and(|&commit| commit > begin);
        begin < self.floor || (!self.last.is_empty() && quads.any(is_later))
    }

    /// Remembers a commit, which is later than all before.
    pub(super) fn record(&mut self, commit: u64, quads: Vec<Quad>) {
        self.quads += quads.len();
        self.last.extend(quads.iter().map(|&quad| (quad, commit)));
        self.commits.push_back((commit, quads));
        while self.quads > QUADS_MAX
            && let Some((oldest, _)) = self.commits.front()
        {
            let oldest = *oldest;
            self.floor = oldest;
            self.forget_until(oldest);
        }
    }

    /// Forgets commits up to this one: every transaction has seen them.
    pub(super) fn forget_until(&mut self, commit: u64) {
        while let Some((oldest, _)) = self.commits.front()
            && *oldest <= commit
        {
            let (oldest, quads) = self.commits.pop_front().expect("there is one in front");
            self.quads -= quads.len();
            for quad in quads {
                if self.last.get(&quad) == Some(&oldest) {
                    self.last.remove(&quad);
                }
            }
        }
    }

    /// Lets all transactions conflict that have not seen this commit.
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

    #[test]
    fn the_first_committer_wins() {
        let mut recent = RecentChanges::default();
        recent.record(5, vec![[1; 4], [2; 4]]);
        recent.record(6, vec![[2; 4]]);
        assert!(recent.conflict(4, [[1; 4]].into_iter()));
        assert!(!recent.conflict(5, [[1; 4]].into_iter()));
        assert!(recent.conflict(5, [[3; 4], [2; 4]].into_iter()));
        recent.forget_until(5);
        assert!(!recent.conflict(5, [[1; 4]].into_iter()));
        assert!(recent.conflict(5, [[2; 4]].into_iter()));
        recent.forget_all(6);
        assert!(recent.conflict(5, std::iter::empty()));
        assert!(!recent.conflict(6, [[2; 4]].into_iter()));
    }

    #[test]
    fn what_is_too_much_to_remember_conflicts() {
        let mut recent = RecentChanges::default();
        recent.record(1, vec![[1; 4]]);
        let many = 0..QUADS_MAX as u64;
        recent.record(2, many.map(|number| [number; 4]).collect());
        assert!(recent.conflict(0, [[9, 9, 9, 1]].into_iter()));
        assert!(!recent.conflict(2, [[1; 4]].into_iter()));
    }
}
