//! Sets of slots.

use serde::{Deserialize, Serialize};

/// A set of slots, as a bit set: a pipeline of `n` steps over `n` slots has `n` of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Slots {
    words: Vec<u64>,
}

impl Slots {
    /// Adds a slot and returns whether it is new.
    pub fn insert(&mut self, slot: usize) -> bool {
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: usize) {
        if let Some(word) = self.words.get_mut(slot / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Returns whether a slot is in the set.
    #[inline]
    pub fn contains(&self, slot: usize) -> bool {
        let word = self.words.get(slot / 64).copied().unwrap_or_default();
        word >> (slot % 64) & 1 == 1
    }

    /// Adds the slots of another set.
    pub fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Removes the slots that are not in another set.
    pub fn intersect(&mut self, other: &Self) {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        for (word, other) in self.words.iter_mut().zip(others) {
            *word &= other;
        }
    }

    /// Returns whether all slots are in another set.
    pub fn is_within(&self, other: &Self) -> bool {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        self.words
            .iter()
            .zip(others)
            .all(|(word, other)| word & !other == 0)
    }

    /// Returns whether the set has no slot in common with another.
    pub fn is_apart(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0)
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the slots in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(place, &word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| place * 64 + rest.trailing_zeros() as usize)
        })
    }

    /// Returns the bytes of a set of slots up to this number.
    pub fn bytes(slots: usize) -> usize {
        slots.div_ceil(64) * 8
    }
}

impl FromIterator<usize> for Slots {
    fn from_iter<I: IntoIterator<Item = usize>>(slots: I) -> Self {
        let mut set = Self::default();
        set.extend(slots);
        set
    }
}

impl Extend<usize> for Slots {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, slots: I) {
        for slot in slots {
            self.insert(slot);
        }
    }
}

impl<'s> Extend<&'s usize> for Slots {
    fn extend<I: IntoIterator<Item = &'s usize>>(&mut self, slots: I) {
        self.extend(slots.into_iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn slots_are_a_set_in_order() {
        let mut slots: Slots = [3, 200, 64, 63, 3].into_iter().collect();
        assert_eq!(slots.iter().collect::<Vec<_>>(), [3, 63, 64, 200]);
        assert_eq!(
            (slots.len(), slots.contains(200), slots.contains(500)),
            (4, true, false)
        );
        assert!(!slots.insert(64));
        slots.remove(200);
        let small: Slots = [63].into_iter().collect();
        assert!(small.is_within(&slots) && !slots.is_within(&small));
        assert!(!small.is_apart(&slots));
        slots.remove(63);
        assert!(small.is_apart(&slots) && !slots.is_empty());
        slots.add(&small);
        assert_eq!(slots.iter().collect::<Vec<_>>(), [3, 63, 64]);
    }
}
