//! Rows dealt out to partitions of a file by the hash of their key, so that each partition can
//! be worked off alone.

use super::file::SpillFile;
use super::rows::{RowRun, RowWriter};
use crate::error::QueryError;
use crate::governor::Share;

/// How many partitions rows are dealt out to. Sixteenths twice over are 1/256.
pub(crate) const PARTITIONS: usize = 16;

/// Partitions being filled.
#[derive(Debug)]
pub(crate) struct Partitions {
    writers: Vec<RowWriter>,
}

impl Partitions {
    /// Empty partitions in a new file. The caller's share holds [`Share::buffer_bytes`] for them.
    pub(crate) fn create(share: &Share, width: usize) -> Result<Self, QueryError> {
        let file = SpillFile::create(share.governor().spill())?;
        let writer = |_| RowWriter::new(&file, width, share.block_bytes());
        Ok(Self {
            writers: (0..PARTITIONS).map(writer).collect(),
        })
    }

    pub(crate) fn push(&mut self, hash: u64, row: &[u64]) -> Result<(), QueryError> {
        // Tables use the low and the highest bits.
        self.writers[(hash >> 40) as usize % PARTITIONS].push(row)
    }

    /// The partitions, some of which may be empty.
    pub(crate) fn finish(self) -> Result<Vec<RowRun>, QueryError> {
        self.writers.into_iter().map(RowWriter::finish).collect()
    }
}
