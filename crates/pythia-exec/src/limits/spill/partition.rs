//! Rows partitioned by the hash of their key into runs of a file, so that each partition can be processed
//! alone.

use super::file::SpillFile;
use super::rows::{RowRun, RowWriter};
use crate::error::QueryError;
use crate::limits::governor::{PARTITIONS, Share};

/// Partitions being filled.
#[derive(Debug)]
pub(crate) struct Partitions {
    writers: Vec<RowWriter>,
}

impl Partitions {
    /// Creates empty partitions in a new file. The caller's share holds [`Share::buffer_bytes`] for them.
    pub(crate) fn create(share: &Share, width: usize) -> Result<Self, QueryError> {
        let file = SpillFile::create(share.governor().spill())?;
        let writer = |_| RowWriter::new(&file, width, share.block_bytes());
        Ok(Self {
            writers: (0..PARTITIONS).map(writer).collect(),
        })
    }

    pub(crate) fn push(&mut self, hash: u64, row: &[u64]) -> Result<(), QueryError> {
        // Tables use the lowest and the highest bits.
        self.writers[(hash >> 40) as usize % PARTITIONS].push(row)
    }

    /// Returns the partitions, some of which may be empty.
    pub(crate) fn finish(self) -> Result<Vec<RowRun>, QueryError> {
        self.writers.into_iter().map(RowWriter::finish).collect()
    }
}
