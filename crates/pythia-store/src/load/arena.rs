//! Key storage of a batch: records in large blocks, addressed by 32 bits.
//!
//! A record is `ordinal: u32, length: u32, key`, where the key is the kind's number followed by the dictionary key
//! (or, for an inline id, its payload, most significant byte first), so that keys compare bytewise as their ids will.
//! Records begin at multiples of eight bytes and never cross a block; a key too long for a block has a longer block
//! to itself.

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 1 << 22;
const UNIT_BYTES: usize = 8;
const UNITS_PER_BLOCK: u32 = (BLOCK_BYTES / UNIT_BYTES) as u32;
const HEADER_BYTES: usize = 8;

/// The address of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordRef(pub(super) u32);

/// Records in blocks.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// An oversized block that spans several addresses is followed by empty ones.
    blocks: Vec<Vec<u8>>,
    /// Blocks emptied by [`Arena::clear`].
    spare: Vec<Vec<u8>>,
    bytes: usize,
}

impl Arena {
    /// Appends a record; `None` if 32 bits cannot address it.
    #[inline]
    pub(super) fn push(&mut self, ordinal: u32, kind: u8, key: &[u8]) -> Option<RecordRef> {
        let length = key.len() + 1;
        let bytes = (HEADER_BYTES + length).next_multiple_of(UNIT_BYTES);
        let fits = self
            .blocks
            .last()
            .is_some_and(|block| block.capacity() - block.len() >= bytes);
        if !fits {
            self.add_block(bytes);
        }
        let index = self.blocks.len() - 1;
        // An oversized block is addressed by the first of its places, and closed by the empty blocks after it.
        let block = &mut self.blocks[index];
        let unit = block.len() / UNIT_BYTES;
        let record = u32::try_from(index as u64 * u64::from(UNITS_PER_BLOCK) + unit as u64)
            .ok()
            .filter(|record| *record < u32::MAX)?;
        block.extend_from_slice(&ordinal.to_le_bytes());
        block.extend_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
        block.push(kind);
        block.extend_from_slice(key);
        block.resize(block.len().next_multiple_of(UNIT_BYTES), 0);
        self.bytes += bytes;
        if bytes > BLOCK_BYTES {
            let places = bytes.div_ceil(BLOCK_BYTES);
            self.blocks.extend((1..places).map(|_| Vec::new()));
        }
        Some(RecordRef(record))
    }

    fn add_block(&mut self, bytes: usize) {
        let block = if bytes > BLOCK_BYTES {
            Vec::with_capacity(bytes)
        } else {
            self.spare
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES))
        };
        self.blocks.push(block);
    }

    #[inline]
    fn record(&self, record: RecordRef) -> &[u8] {
        let block = &self.blocks[(record.0 / UNITS_PER_BLOCK) as usize];
        &block[(record.0 % UNITS_PER_BLOCK) as usize * UNIT_BYTES..]
    }

    /// Returns a record's ordinal.
    #[inline]
    pub(super) fn ordinal(&self, record: RecordRef) -> u32 {
        let bytes = self.record(record);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// Returns a record's key, kind first.
    #[inline]
    pub(super) fn key(&self, record: RecordRef) -> &[u8] {
        let bytes = self.record(record);
        let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        &bytes[HEADER_BYTES..HEADER_BYTES + length]
    }

    /// Returns every record, in the order of their ordinals.
    pub(super) fn records(&self) -> impl Iterator<Item = RecordRef> + '_ {
        self.blocks.iter().enumerate().flat_map(|(index, block)| {
            let mut unit = 0;
            std::iter::from_fn(move || {
                let bytes = block
                    .get(unit * UNIT_BYTES..)
                    .filter(|rest| !rest.is_empty())?;
                let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
                let record = RecordRef(index as u32 * UNITS_PER_BLOCK + unit as u32);
                unit += (HEADER_BYTES + length).div_ceil(UNIT_BYTES);
                Some(record)
            })
        })
    }

    /// Returns the bytes in records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of memory kept for new records.
    pub(super) fn spare_bytes(&self) -> usize {
        self.spare.len() * BLOCK_BYTES
    }

    /// Frees the memory kept for new records.
    pub(super) fn shrink(&mut self) {
        self.spare = Vec::new();
    }

    /// Removes all records and keeps the blocks for new ones.
    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        for mut block in self.blocks.drain(..) {
            if block.capacity() == BLOCK_BYTES {
                block.clear();
                self.spare.push(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_length_come_back() {
        let mut arena = Arena::default();
        let lengths = [
            0,
            1,
            7,
            8,
            100,
            BLOCK_BYTES,
            3,
            3 * BLOCK_BYTES + 5,
            BLOCK_BYTES - 17,
            9,
            BLOCK_BYTES / 2,
        ];
        for round in 0..2 {
            let mut records = Vec::new();
            for (ordinal, &length) in lengths.iter().enumerate() {
                let key = vec![ordinal as u8 + round; length];
                let record = arena.push(ordinal as u32, 16, &key).expect("addressable");
                records.push((record, key));
            }
            assert_eq!(
                arena.records().collect::<Vec<_>>(),
                records.iter().map(|record| record.0).collect::<Vec<_>>()
            );
            for (ordinal, (record, key)) in records.iter().enumerate() {
                assert_eq!(arena.ordinal(*record), ordinal as u32);
                assert_eq!(arena.key(*record)[0], 16);
                assert_eq!(&arena.key(*record)[1..], key);
            }
            arena.clear();
        }
    }
}
