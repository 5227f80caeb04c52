//! Temporary files of runs: sequences of records, written and read block by block.
//!
//! A file has no name, so it disappears with the process in any case. Several runs may be written to one
//! file, with their blocks in any order; only the run knows which blocks are its own, and their checksums. A
//! record never crosses a block boundary.

use std::path::PathBuf;
use std::sync::Arc;

use pythia_io::{TemporaryError, TemporaryFile, TemporarySpace};

use crate::error::QueryError;

/// The folder and space limit of the process's temporary files.
#[derive(Debug)]
pub struct SpillSpace(Arc<TemporarySpace>);

impl Default for SpillSpace {
    fn default() -> Self {
        Self::new(std::env::temp_dir(), u64::MAX)
    }
}

impl SpillSpace {
    /// Creates a space in a folder, of at most `limit` bytes.
    pub fn new(folder: PathBuf, limit: u64) -> Self {
        Self(Arc::new(TemporarySpace::new(folder, limit)))
    }

    /// Returns the bytes in temporary files now.
    pub fn used(&self) -> u64 {
        self.0.used()
    }

    /// Returns the bytes written to temporary files so far.
    pub fn written(&self) -> u64 {
        self.0.written()
    }
}

fn spill_error(error: TemporaryError) -> QueryError {
    match error {
        TemporaryError::Os {
            action,
            folder,
            source,
        } => QueryError::Spill {
            folder,
            message: format!("cannot {action} a temporary file: {source}"),
        },
        TemporaryError::Limit {
            folder,
            bytes_max,
            used,
        } => QueryError::Spill {
            folder,
            message: format!(
                "its limit of {} MiB is reached, with {} MiB in use",
                bytes_max >> 20,
                used >> 20
            ),
        },
    }
}

/// One temporary file.
#[derive(Debug)]
pub struct SpillFile(TemporaryFile);

impl SpillFile {
    /// Creates an empty file.
    pub fn create(space: &Arc<SpillSpace>) -> Result<Arc<Self>, QueryError> {
        let file = TemporaryFile::new(&space.0);
        file.create().map_err(spill_error)?;
        Ok(Arc::new(Self(file)))
    }

    /// Returns the bytes written so far.
    pub(super) fn len(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn append(&self, bytes: &[u8]) -> Result<Block, QueryError> {
        Ok(Block {
            offset: self.0.append(bytes).map_err(spill_error)?,
            bytes: bytes.len() as u32,
            checksum: crc32c::crc32c(bytes),
        })
    }

    pub(super) fn read(&self, block: Block, into: &mut Vec<u8>) -> Result<(), QueryError> {
        into.resize(block.bytes as usize, 0);
        self.0.read_at(into, block.offset).map_err(spill_error)?;
        if crc32c::crc32c(into) != block.checksum {
            let message = format!("checksum mismatch at byte {}", block.offset);
            let damaged = std::io::Error::other(message);
            return Err(spill_error(self.0.error("read", damaged)));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    offset: u64,
    bytes: u32,
    checksum: u32,
}

/// Records in a file, in the order in which they were written.
#[derive(Debug)]
pub(crate) struct SpilledRun {
    file: Arc<SpillFile>,
    blocks: Vec<Block>,
    pub(crate) records: u64,
}

impl SpilledRun {
    /// Returns the size of the largest block: the memory that reading takes.
    pub(crate) fn block_bytes_max(&self) -> usize {
        let bytes = self.blocks.iter().map(|block| block.bytes as usize);
        bytes.max().unwrap_or(0)
    }
}

/// Writes a run.
#[derive(Debug)]
pub(crate) struct RunWriter {
    run: SpilledRun,
    buffer: Vec<u8>,
    block_bytes: usize,
}

impl RunWriter {
    /// Creates a writer of a run in `file`. Holds `block_bytes` of memory from the first record on.
    pub(crate) fn new(file: &Arc<SpillFile>, block_bytes: usize) -> Self {
        Self {
            run: SpilledRun {
                file: Arc::clone(file),
                blocks: Vec::new(),
                records: 0,
            },
            buffer: Vec::new(),
            block_bytes,
        }
    }

    /// Adds a record of `bytes` bytes, which `write` appends to the buffer.
    pub(crate) fn push(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), QueryError> {
        if self.buffer.len() + bytes > self.block_bytes {
            self.flush()?;
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(self.block_bytes.max(bytes));
        }
        let before = self.buffer.len();
        write(&mut self.buffer);
        debug_assert_eq!(self.buffer.len() - before, bytes);
        self.run.records += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), QueryError> {
        if !self.buffer.is_empty() {
            self.run.blocks.push(self.run.file.append(&self.buffer)?);
            self.buffer.clear();
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Arc<SpilledRun>, QueryError> {
        self.flush()?;
        self.run.blocks.shrink_to_fit();
        Ok(Arc::new(self.run))
    }
}

/// Reads a run from its start, one block at a time.
#[derive(Debug)]
pub(crate) struct RunReader {
    run: Arc<SpilledRun>,
    next: usize,
    buffer: Vec<u8>,
}

impl RunReader {
    pub(crate) fn new(run: Arc<SpilledRun>) -> Self {
        Self {
            run,
            next: 0,
            buffer: Vec::new(),
        }
    }

    /// Returns the records of the next block, or `None` at the end.
    pub(crate) fn next_block(&mut self) -> Result<Option<&[u8]>, QueryError> {
        let Some(&block) = self.run.blocks.get(self.next) else {
            return Ok(None);
        };
        self.run.file.read(block, &mut self.buffer)?;
        self.next += 1;
        Ok(Some(&self.buffer))
    }

    /// Returns the last block read.
    pub(crate) fn block(&self) -> &[u8] {
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_runs_come_back_whole_and_leave_nothing() {
        let space = Arc::new(SpillSpace::default());
        let file = SpillFile::create(&space).unwrap();
        let mut writers: Vec<RunWriter> = (0..3).map(|_| RunWriter::new(&file, 64)).collect();
        for n in 0..1000_u64 {
            let writer = &mut writers[n as usize % 3];
            writer.push(8, |out| out.extend(n.to_le_bytes())).unwrap();
        }
        // A record larger than a block gets a block of its own.
        writers[0].push(200, |out| out.extend([7; 200])).unwrap();
        let runs: Vec<_> = writers.into_iter().map(|w| w.finish().unwrap()).collect();
        assert_eq!(space.used(), 8200);
        let mut first = Vec::new();
        let mut reader = RunReader::new(Arc::clone(&runs[0]));
        while let Some(block) = reader.next_block().unwrap() {
            first.extend_from_slice(block);
        }
        let expected: Vec<u8> = (0..1000_u64)
            .step_by(3)
            .flat_map(u64::to_le_bytes)
            .chain([7; 200])
            .collect();
        assert!(first == expected);
        drop((runs, reader, file));
        assert_eq!((space.used(), space.written()), (0, 8200));
    }

    #[test]
    fn a_full_or_missing_folder_is_a_clear_error() {
        let full = Arc::new(SpillSpace::new(std::env::temp_dir(), 100));
        let file = SpillFile::create(&full).unwrap();
        let mut writer = RunWriter::new(&file, 64);
        let result = (0..100_u64).try_for_each(|_| writer.push(8, |out| out.extend([0; 8])));
        let text = result.unwrap_err().to_string();
        assert!(text.contains("limit") && text.contains("--spill"), "{text}");

        let missing = Arc::new(SpillSpace::new("/nowhere/at/all".into(), u64::MAX));
        let text = SpillFile::create(&missing).unwrap_err().to_string();
        assert!(text.contains("/nowhere/at/all"), "{text}");
    }

    #[test]
    fn a_damaged_block_is_not_believed() {
        let space = Arc::new(SpillSpace::default());
        let file = SpillFile::create(&space).unwrap();
        let mut writer = RunWriter::new(&file, 64);
        writer.push(8, |out| out.extend([1; 8])).unwrap();
        let run = writer.finish().unwrap();
        file.0.write_at(&[2], 3).unwrap();
        let error = RunReader::new(run).next_block().unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }
}
