//! The distinct terms of a batch in the order of their first occurrence: an open-addressing hash table over the keys
//! of an [`Arena`].
//!
//! A slot is the lower 32 bits of the key's hash and, above them, the record's address plus one; zero is an empty
//! slot. The hash bits in the slot also choose the slot, so that growing reads no key. The hash is seeded at random,
//! so that crafted input cannot make its terms collide; no output order depends on it.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use super::arena::{Arena, RecordRef};

const SLOTS_MIN: usize = 1 << 12;

/// Distinct terms, numbered by ordinals from zero.
#[derive(Debug)]
pub(super) struct TermTable {
    arena: Arena,
    slots: Vec<u64>,
    count: u32,
    hasher: DefaultHashBuilder,
}

impl TermTable {
    /// Returns an empty table.
    pub(super) fn new() -> Self {
        Self {
            arena: Arena::default(),
            slots: vec![0; SLOTS_MIN],
            count: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the ordinal of a term, adding it if `accept` agrees. `None` when the arena cannot address more:
    /// the interner ends a batch before that.
    #[inline]
    pub(super) fn intern<E>(
        &mut self,
        kind: u8,
        key: &[u8],
        accept: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<u32>, E> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.write_u8(kind);
        let tag = hasher.finish() as u32;
        let mask = self.slots.len() - 1;
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                accept()?;
                return Ok(self.insert(at, tag, kind, key));
            }
            if slot as u32 == tag {
                let record = RecordRef((slot >> 32) as u32 - 1);
                let found = self.arena.key(record);
                if found[0] == kind && &found[1..] == key {
                    return Ok(Some(self.arena.ordinal(record)));
                }
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let mut slots = vec![0; self.slots.len() * 2];
        let mask = slots.len() - 1;
        for &slot in self.slots.iter().filter(|slot| **slot != 0) {
            let mut at = slot as u32 as usize & mask;
            while slots[at] != 0 {
                at = (at + 1) & mask;
            }
            slots[at] = slot;
        }
        self.slots = slots;
    }

    fn insert(&mut self, at: usize, tag: u32, kind: u8, key: &[u8]) -> Option<u32> {
        let ordinal = self.count;
        let record = self.arena.push(ordinal, kind, key)?;
        self.slots[at] = u64::from(tag) | (u64::from(record.0) + 1) << 32;
        self.count += 1;
        if self.count as usize * 8 > self.slots.len() * 5 {
            self.grow();
        }
        Some(ordinal)
    }

    /// Returns the number of terms.
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns the bytes of memory in use, plus those that the next growth briefly needs.
    pub(super) fn bytes(&self) -> usize {
        let slots = self.slots.len() * 8;
        let growing = if self.count as usize * 16 > self.slots.len() * 9 {
            2 * slots
        } else {
            0
        };
        self.arena.bytes() + slots + growing
    }

    /// Returns the keys.
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Returns the keys, to free their memory.
    pub(super) fn arena_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Removes all terms and keeps the memory for new ones.
    pub(super) fn clear(&mut self) {
        self.arena.clear();
        self.slots.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_same_term_gets_the_same_ordinal() {
        let mut table = TermTable::new();
        for round in 0..2 {
            let mut expected: HashMap<(u8, Vec<u8>), u32> = HashMap::new();
            for number in 0_u32..60_000 {
                let number = number.wrapping_mul(2_654_435_761) % 20_000;
                let kind = (number % 3) as u8;
                let key = format!("key {}", number / 3 + round).into_bytes();
                let next = expected.len() as u32;
                let ordinal = *expected.entry((kind, key.clone())).or_insert(next);
                let interned = table.intern(kind, &key, || Ok::<_, Infallible>(()));
                assert_eq!(interned, Ok(Some(ordinal)));
            }
            assert_eq!(table.len(), expected.len());
            table.clear();
        }
    }

    #[test]
    fn a_refused_term_is_not_kept() {
        let mut table = TermTable::new();
        assert_eq!(table.intern(1, b"a", || Err("no")), Err("no"));
        assert_eq!(table.intern(1, b"a", || Ok::<_, &str>(())), Ok(Some(0)));
        assert_eq!(table.intern(1, b"a", || Err("no")), Ok(Some(0)));
        assert_eq!(table.len(), 1);
    }
}
