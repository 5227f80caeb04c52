//! A tournament that finds the least of many heads with one comparison per level (Knuth's tree of losers).

/// The tree; it identifies heads by their index, and the caller compares them. The default has no heads and no winner.
#[derive(Debug, Default)]
pub(crate) struct LoserTree {
    /// Place 0 holds the winner, places 1.. the loser of the match played there.
    places: Vec<u32>,
}

impl LoserTree {
    /// Plays all matches among `count` heads, of which there must be at least one.
    pub(crate) fn new(count: usize, less: impl Fn(usize, usize) -> bool) -> Self {
        assert!(count > 0, "a tournament needs a head");
        if count == 1 {
            return Self { places: vec![0] };
        }
        let mut places = vec![0; count];
        let mut winners: Vec<u32> = vec![0; 2 * count];
        for leaf in 0..count {
            winners[count + leaf] = leaf as u32;
        }
        for node in (1..count).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if less(b as usize, a as usize) {
                (b, a)
            } else {
                (a, b)
            };
            winners[node] = winner;
            places[node] = loser;
        }
        places[0] = winners[1];
        Self { places }
    }

    /// Returns the index of the least head.
    #[inline]
    pub(crate) fn winner(&self) -> usize {
        self.places[0] as usize
    }

    /// Finds the least head again after the winner's head has changed.
    #[inline]
    pub(crate) fn replay(&mut self, less: impl Fn(usize, usize) -> bool) {
        let mut winner = self.places[0];
        let mut node = (self.places.len() + winner as usize) / 2;
        while node > 0 {
            if less(self.places[node] as usize, winner as usize) {
                std::mem::swap(&mut self.places[node], &mut winner);
            }
            node /= 2;
        }
        self.places[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heads_come_out_in_order(mut lists in prop::collection::vec(prop::collection::vec(0_u32..50, 0..20), 1..12)) {
            let mut expected: Vec<u32> = lists.concat();
            expected.sort_unstable();
            for list in &mut lists {
                list.sort_unstable_by(|a, b| b.cmp(a));
            }
            let head = |lists: &[Vec<u32>], index: usize| lists[index].last().copied().unwrap_or(u32::MAX);
            let mut tree = LoserTree::new(lists.len(), |a, b| head(&lists, a) < head(&lists, b));
            let mut merged = Vec::new();
            while let Some(value) = lists[tree.winner()].pop() {
                merged.push(value);
                tree.replay(|a, b| head(&lists, a) < head(&lists, b));
            }
            prop_assert_eq!(merged, expected);
        }
    }
}
