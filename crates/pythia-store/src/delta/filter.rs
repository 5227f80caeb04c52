//! Which nodes a run has rows of: a Bloom filter whose answer is one word of memory away.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

/// Runs so small are searched at once.
const ROWS_MIN: usize = 256;
/// Bits set for a node, all in one word.
const BITS: u32 = 4;
/// Rows for each word of 64 bits; distinct nodes are mostly fewer.
const ROWS_PER_WORD: usize = 4;

/// A set of nodes that may claim to hold some it does not: below one in a hundred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeFilter {
    /// As many as a power of two; none: everything may be there.
    words: Vec<u64>,
}

impl NodeFilter {
    /// The filter of sorted nodes, of which there are at most `rows`.
    pub(crate) fn new(nodes: impl Iterator<Item = u64>, rows: usize) -> Self {
        if rows < ROWS_MIN {
            return Self::default();
        }
        let count = (rows / ROWS_PER_WORD).next_power_of_two();
        let mut filter = Self {
            words: vec![0; count],
        };
        let mut last = None;
        for node in nodes {
            if last.replace(node) != Some(node) {
                let (word, mask) = filter.place(node);
                filter.words[word] |= mask;
            }
        }
        filter
    }

    /// Whether the node may be there; false is certain.
    #[inline]
    pub(crate) fn may_contain(&self, node: u64) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let (word, mask) = self.place(node);
        self.words[word] & mask == mask
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    #[inline]
    fn place(&self, node: u64) -> (usize, u64) {
        let hash = FxBuildHasher.hash_one(node);
        // The low bits of the product are poor; the upper ones choose the word.
        let hash = hash ^ hash >> 29;
        let word = (hash >> 32) as usize & (self.words.len() - 1);
        let mask = (0..BITS).fold(0, |mask, bit| mask | 1 << (hash >> (6 * bit) & 63));
        (word, mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in_and_little_else() {
        let nodes: Vec<u64> = (0..10_000).map(|node| node * 37).collect();
        let filter = NodeFilter::new(nodes.iter().copied(), nodes.len());
        assert!(nodes.iter().all(|&node| filter.may_contain(node)));
        let wrong = nodes.iter().filter(|&&node| filter.may_contain(node + 5));
        assert!(wrong.count() < nodes.len() / 50);
    }

    #[test]
    fn a_small_run_is_always_searched() {
        assert!(NodeFilter::new([1, 2].into_iter(), 2).may_contain(3));
    }
}
