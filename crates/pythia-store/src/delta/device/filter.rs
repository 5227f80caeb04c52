//! A Bloom filter of the nodes or terms of a run, which is stored on the device.
//!
//! It is split into blocks of eight words of 32 bits: a member sets one bit in each word of one block, so that a
//! lookup reads one cache line (Putze et al., "Cache-, hash- and space-efficient Bloom filters"). A filter is created
//! for the maximum number of members, and folded when their number is known.

use pythia_io::bytes::{ByteReader, ByteWriter};

use crate::StoreError;

/// Words of a block.
const BLOCK_WORDS: usize = 8;
/// Lookups whose blocks are fetched together: more than a processor fetches at a time.
const TOGETHER: usize = 32;
/// Minimum bits per member; the maximum is below twice as many. The false positive rate is about 1 %.
const BITS_PER_MEMBER: u64 = 12;
/// Odd numbers that choose a bit in each word.
const SALTS: [u32; BLOCK_WORDS] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

type Block = [u32; BLOCK_WORDS];

/// A set with false positives and no false negatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFilter {
    /// A power of two of blocks, or none if the set is empty.
    blocks: Vec<Block>,
}

/// Builder of a filter, which collects its members.
#[derive(Debug)]
pub struct FilterBuilder {
    blocks: Vec<Block>,
    members: u64,
    last: Option<u64>,
}

/// Returns the bytes of memory of the builder of a filter of the nodes and edges of this many rows.
pub(crate) fn filter_bytes(rows: u64) -> usize {
    blocks_for(members_max(rows)) * size_of::<Block>()
}

/// Returns the limit of the nodes and edges of this many rows: a row adds at most one of each.
pub(crate) fn members_max(rows: u64) -> u64 {
    rows.saturating_mul(2)
}

impl FilterBuilder {
    /// Returns a builder of a filter of at most this many members.
    pub fn new(members_max: u64) -> Self {
        Self {
            blocks: vec![Block::default(); blocks_for(members_max)],
            members: 0,
            last: None,
        }
    }

    /// Adds a member by its hash; immediate repeats count once.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.last.replace(hash) == Some(hash) {
            return;
        }
        self.members += 1;
        let index = place(hash, self.blocks.len());
        let block = &mut self.blocks[index];
        for (word, salt) in block.iter_mut().zip(SALTS) {
            *word |= bit(hash, salt);
        }
    }

    /// Returns the number of members added, immediate repeats once.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// Returns the bytes of memory of the builder.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }

    /// Returns the filter, as small as its members allow.
    pub fn finish(mut self) -> StoredFilter {
        if self.members == 0 {
            return StoredFilter { blocks: Vec::new() };
        }
        let wanted = blocks_for(self.members);
        while self.blocks.len() > wanted {
            let half = self.blocks.len() / 2;
            let (low, high) = self.blocks.split_at_mut(half);
            for (low, high) in low.iter_mut().flatten().zip(high.iter().flatten()) {
                *low |= high;
            }
            self.blocks.truncate(half);
        }
        self.blocks.shrink_to_fit();
        StoredFilter {
            blocks: self.blocks,
        }
    }
}

impl StoredFilter {
    /// Returns whether there may be a member with this hash; false is certain.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        let block = &self.blocks[place(hash, self.blocks.len())];
        let mut words = block.iter().zip(SALTS);
        words.all(|(word, salt)| word & bit(hash, salt) != 0)
    }

    /// Returns which of `count` hashes may be those of members, as [`Self::may_hold`] does for each.
    pub(crate) fn places_held(&self, count: usize, hash: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut held = Vec::new();
        if self.blocks.is_empty() {
            return held;
        }
        for start in (0..count).step_by(TOGETHER) {
            // Most blocks are not in the processor's caches. Nothing here depends on what is read, so the reads overlap.
            let mut first_words = [(0, 0); TOGETHER];
            let places = start..(start + TOGETHER).min(count);
            for (first, place_of_hash) in first_words.iter_mut().zip(places.clone()) {
                let hash = hash(place_of_hash);
                *first = (hash, self.blocks[place(hash, self.blocks.len())][0]);
            }
            let candidates = first_words.iter().zip(places);
            held.extend(candidates.filter_map(|(&(hash, word), place)| {
                let may_hold = word & bit(hash, SALTS[0]) != 0 && self.may_hold(hash);
                may_hold.then_some(place)
            }));
        }
        held
    }

    /// Returns an upper limit on the number of its members, unless more were added than it was made for.
    pub(crate) fn members_max(&self) -> u64 {
        self.blocks.len() as u64 * (BLOCK_WORDS as u64 * 32) / BITS_PER_MEMBER
    }

    /// Returns its bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }

    /// Appends the stored form.
    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.varint(self.blocks.len() as u64);
        for word in self.blocks.iter().flatten() {
            out.u32(*word);
        }
    }

    /// Reads the output of [`Self::write`].
    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, StoreError> {
        let count = input.count(size_of::<Block>())?;
        if count > 0 && !count.is_power_of_two() {
            return Err(input.corrupt("a power of two of filter blocks before this"));
        }
        let mut blocks = Vec::with_capacity(count);
        for _ in 0..count {
            let mut block = Block::default();
            for word in &mut block {
                *word = input.u32()?;
            }
            blocks.push(block);
        }
        Ok(Self { blocks })
    }
}

fn blocks_for(members: u64) -> usize {
    let bits = members.saturating_mul(BITS_PER_MEMBER);
    let blocks = bits.div_ceil(BLOCK_WORDS as u64 * 32).max(1);
    usize::try_from(blocks).map_or(1 << 31, usize::next_power_of_two)
}

#[inline]
fn place(hash: u64, blocks: usize) -> usize {
    (hash >> 32) as usize & (blocks - 1)
}

#[inline]
fn bit(hash: u64, salt: u32) -> u32 {
    1 << ((hash as u32).wrapping_mul(salt) >> 27)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashes::hash_of_node;

    #[test]
    fn it_holds_its_members_and_little_else_and_comes_back() {
        for members_max in [1000, 10_000, 1 << 20] {
            let mut builder = FilterBuilder::new(members_max);
            for node in 0..1000 {
                builder.add(hash_of_node(node * 37));
                builder.add(hash_of_node(node * 37));
            }
            let filter = builder.finish();
            assert_eq!(filter.memory_bytes(), 2048);
            assert!((0..1000).all(|node| filter.may_hold(hash_of_node(node * 37))));
            let wrong = (0..10_000).filter(|node| filter.may_hold(hash_of_node(node * 37 + 5)));
            assert!(wrong.count() < 200);
            for count in [0, 1, 31, 32, 33, 1000, 20_000] {
                let hash = |place: usize| hash_of_node(place as u64 * 37 / 2);
                let expected = (0..count).filter(|&place| filter.may_hold(hash(place)));
                assert!(filter.places_held(count, hash).into_iter().eq(expected));
            }
            let mut out = ByteWriter::new();
            filter.write(&mut out);
            let bytes = out.into_bytes();
            let read = StoredFilter::read(&mut ByteReader::new("test", &bytes));
            assert_eq!(read.expect("just written"), filter);
        }
    }

    #[test]
    fn an_empty_filter_holds_nothing() {
        let filter = FilterBuilder::new(1 << 16).finish();
        assert!(!filter.may_hold(hash_of_node(0)));
        assert!(filter.places_held(2, |_| hash_of_node(0)).is_empty());
        assert_eq!(filter.memory_bytes(), 0);
    }
}
