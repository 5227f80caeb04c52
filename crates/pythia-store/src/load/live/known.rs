//! Quads of a load that the store already had, in a temporary file, to be looked up few at a time.

use std::sync::Arc;

use crate::load::LoadError;
use crate::load::runs::{RunFile, RunWriter, WrittenRun};

/// Quads of a block, which is the unit of reads.
const BLOCK_QUADS: usize = 1 << 11;
const QUAD_BYTES: usize = 32;

/// Ids of subject, predicate, object and graph.
type Quad = [u64; 4];

/// Quads, sorted.
#[derive(Debug)]
pub(crate) struct KnownQuads {
    /// The first quad of each block.
    first: Vec<Quad>,
    blocks: WrittenRun,
    /// The block that was read last, and its place.
    read: Vec<u8>,
    place: Option<usize>,
}

impl KnownQuads {
    /// Returns whether it has a quad. Reads a block, unless that was read last: sorted lookups read few.
    pub(crate) fn contains(&mut self, quad: &Quad) -> Result<bool, LoadError> {
        let after = self.first.partition_point(|first| first <= quad);
        let Some(place) = after.checked_sub(1) else {
            return Ok(false);
        };
        if self.place != Some(place) {
            self.place = None;
            self.blocks.read_block(place, &mut self.read)?;
            self.place = Some(place);
        }
        let (quads, _) = self.read.as_chunks::<QUAD_BYTES>();
        Ok(quads.binary_search_by_key(quad, decoded).is_ok())
    }
}

fn decoded(bytes: &[u8; QUAD_BYTES]) -> Quad {
    let (numbers, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(numbers[index]))
}

/// Writer of quads, which come sorted.
#[derive(Debug)]
pub(crate) struct KnownQuadsWriter {
    first: Vec<Quad>,
    blocks: RunWriter,
    block: Vec<u8>,
}

impl KnownQuadsWriter {
    pub(crate) fn new(file: &Arc<RunFile>) -> Self {
        Self {
            first: Vec::new(),
            blocks: file.run(BLOCK_QUADS * QUAD_BYTES),
            block: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, quad: &Quad) -> Result<(), LoadError> {
        if self.block.is_empty() {
            self.first.push(*quad);
        }
        for id in quad {
            self.block.extend_from_slice(&id.to_le_bytes());
        }
        match self.block.len() == BLOCK_QUADS * QUAD_BYTES {
            true => self.end_block(),
            false => Ok(()),
        }
    }

    fn end_block(&mut self) -> Result<(), LoadError> {
        // One write is in one block, and two of these do not fit into one.
        self.blocks.write(&self.block)?;
        self.block.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<KnownQuads, LoadError> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        Ok(KnownQuads {
            first: self.first,
            blocks: self.blocks.finish()?,
            read: Vec::new(),
            place: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::runs::RunSpace;

    #[test]
    fn quads_are_found_in_memory_and_in_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let quad = |number: u64| [number / 1000, 7 << 40, number % 1000, number % 3];
        for (memory_bytes, count) in [(0, 20_001), (1 << 30, 20_001), (0, 1 << 12), (0, 1), (0, 0)]
        {
            let space = RunSpace::new(folder.path(), memory_bytes, None);
            let mut writer = KnownQuadsWriter::new(&space.file("known quads"));
            for number in (0..count).map(|number| 2 * number) {
                writer.push(&quad(number)).expect("written");
            }
            let mut known = writer.finish().expect("written");
            for number in 0..2 * count + 2 {
                let expected = number % 2 == 0 && number < 2 * count;
                assert_eq!(known.contains(&quad(number)).expect("read"), expected);
            }
        }
    }
}
