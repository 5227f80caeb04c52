//! The keys of commits in the log, so that a commit that is sent twice is made once (Hyder §4.1).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::format::Position;

/// Limit on the memory for keys; beyond it the oldest are forgotten.
const BYTES_MAX: usize = 64 << 20;
/// Estimated memory of a key besides its bytes: entries of the table and the queue, and the allocation.
const OVERHEAD_BYTES: usize = 80;

/// Keys and the positions of their commits.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    positions: HashMap<Arc<str>, Position>,
    /// In order of insertion.
    order: VecDeque<(Position, Arc<str>)>,
    bytes: usize,
}

impl Keys {
    pub(crate) fn insert(&mut self, key: &str, position: Position) {
        let key: Arc<str> = key.into();
        self.bytes += key.len() + OVERHEAD_BYTES;
        self.positions.insert(Arc::clone(&key), position);
        self.order.push_back((position, key));
        while self.bytes > BYTES_MAX {
            self.forget_oldest();
        }
    }

    pub(crate) fn find(&self, key: &str) -> Option<Position> {
        self.positions.get(key).copied()
    }

    /// Forgets the keys of commits before a position.
    pub(crate) fn forget_before(&mut self, position: Position) {
        while self
            .order
            .front()
            .is_some_and(|(oldest, _)| *oldest < position)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((position, key)) = self.order.pop_front() else {
            return;
        };
        self.bytes -= key.len() + OVERHEAD_BYTES;
        // The same key may have been inserted again.
        if self.positions.get(&key) == Some(&position) {
            self.positions.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_are_forgotten() {
        let mut keys = Keys::default();
        for number in 1..=10 {
            keys.insert(&format!("key {number}"), Position(number));
        }
        keys.insert("key 2", Position(11));
        keys.forget_before(Position(6));
        assert_eq!(keys.find("key 5"), None);
        assert_eq!(keys.find("key 6"), Some(Position(6)));
        assert_eq!(keys.find("key 2"), Some(Position(11)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut keys = Keys::default();
        let long = "x".repeat(1 << 20);
        for number in 0..100 {
            keys.insert(&format!("{number}{long}"), Position(number));
        }
        assert!(keys.bytes <= BYTES_MAX && keys.order.len() > 50);
        assert_eq!(keys.positions.len(), keys.order.len());
    }
}
