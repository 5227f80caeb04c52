//! Runs: sequences of bytes written once and read once, in memory while there is room, then in unnamed temporary
//! files.
//!
//! A run is a list of blocks. Full blocks stay in memory while the load's [`RunSpace`] has room for them, and go to
//! the run's file after that. Files are created without a name, so a killed load leaves nothing behind, and their
//! space is freed when the last run in them is dropped. The bytes of one write are in one block, so a reader never
//! sees them split.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pythia_io::bytes::{VARINT_BYTES_MAX, push_varint, take_varint};
use pythia_io::{TemporaryError, TemporaryFile, TemporarySpace};

use super::LoadError;

/// The usual size of a block.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// The space for runs, in memory and in the folder of temporary files.
#[derive(Debug)]
pub(crate) struct RunSpace {
    files: Arc<TemporarySpace>,
    /// Memory that is not taken.
    memory_bytes: AtomicUsize,
    /// Blocks to be reused: reusing them bypasses the allocator, which might keep freed memory.
    spare: Mutex<Vec<Vec<u8>>>,
}

impl RunSpace {
    /// Returns a space that keeps up to `memory_bytes` in memory, and then up to `file_bytes_max` in `folder`.
    pub(crate) fn new(
        folder: &Path,
        memory_bytes: usize,
        file_bytes_max: Option<u64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            files: Arc::new(TemporarySpace::new(
                folder.to_owned(),
                file_bytes_max.unwrap_or(u64::MAX),
            )),
            memory_bytes: AtomicUsize::new(memory_bytes),
            spare: Mutex::new(Vec::new()),
        })
    }

    /// Returns a new, empty file for `what` (named in errors). It is created on disk only when needed.
    pub(crate) fn file(self: &Arc<Self>, what: &'static str) -> Arc<RunFile> {
        Arc::new(RunFile {
            space: Arc::clone(self),
            what,
            file: TemporaryFile::new(&self.files),
        })
    }

    /// Returns the most bytes that were in files at a time.
    pub(crate) fn file_bytes_peak(&self) -> u64 {
        self.files.peak()
    }

    /// Returns the total bytes written to files.
    pub(crate) fn file_bytes_written(&self) -> u64 {
        self.files.written()
    }

    /// Returns the memory that is not taken.
    #[cfg(test)]
    pub(crate) fn memory_bytes_left(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Takes all remaining memory for another use than runs.
    pub(crate) fn take_memory(&self) -> usize {
        self.memory_bytes.swap(0, Ordering::Relaxed)
    }

    /// Returns memory to the space.
    pub(crate) fn give_memory(&self, bytes: usize) {
        self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns an empty block.
    fn block(&self, bytes: usize) -> Vec<u8> {
        if bytes == BLOCK_BYTES {
            let spare = self.spare.lock().expect("nothing panics holding it").pop();
            if let Some(block) = spare {
                return block;
            }
        }
        Vec::with_capacity(bytes)
    }

    /// Takes back a block that was read.
    fn recycle(&self, mut block: Vec<u8>) {
        if block.capacity() == BLOCK_BYTES {
            block.clear();
            self.spare
                .lock()
                .expect("nothing panics holding it")
                .push(block);
        }
    }

    /// Frees the blocks kept for reuse.
    pub(crate) fn shrink(&self) {
        *self.spare.lock().expect("nothing panics holding it") = Vec::new();
    }

    fn try_take(&self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self
            .memory_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.is_ok()
    }
}

/// A file for runs of one kind. Several may be written at the same time.
#[derive(Debug)]
pub(crate) struct RunFile {
    space: Arc<RunSpace>,
    what: &'static str,
    file: TemporaryFile,
}

impl RunFile {
    /// Starts a run, with blocks of about `block_bytes`.
    pub(crate) fn run(self: &Arc<Self>, block_bytes: usize) -> RunWriter {
        RunWriter {
            file: Arc::clone(self),
            block_bytes,
            buffer: Vec::new(),
            blocks: Vec::new(),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<Block, LoadError> {
        let offset = self.file.append(bytes).map_err(|error| self.error(error))?;
        Ok(Block::File {
            offset,
            bytes: bytes.len(),
        })
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadError> {
        let read = self.file.read_at(buffer, offset);
        read.map_err(|error| self.error(error))
    }

    fn error(&self, error: TemporaryError) -> LoadError {
        match error {
            TemporaryError::Os {
                action,
                folder,
                source,
            } => LoadError::Temporary {
                action,
                what: self.what,
                folder,
                source,
            },
            TemporaryError::Limit {
                folder, bytes_max, ..
            } => LoadError::TemporaryLimit { folder, bytes_max },
        }
    }
}

#[derive(Debug)]
enum Block {
    Memory(Vec<u8>),
    File { offset: u64, bytes: usize },
}

/// Writer of one run.
#[derive(Debug)]
pub(crate) struct RunWriter {
    file: Arc<RunFile>,
    block_bytes: usize,
    buffer: Vec<u8>,
    blocks: Vec<Block>,
}

impl RunWriter {
    /// Appends bytes, which a reader will see as a whole.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if bytes.len() > self.buffer.capacity() - self.buffer.len() {
            self.next_block(bytes.len())?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends two numbers in LEB128, and bytes.
    #[inline]
    pub(crate) fn write_entry(&mut self, a: u64, b: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let most = bytes.len() + 2 * VARINT_BYTES_MAX;
        if most > self.buffer.capacity() - self.buffer.len() {
            self.next_block(most)?;
        }
        push_varint(&mut self.buffer, a);
        push_varint(&mut self.buffer, b);
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    #[cold]
    fn next_block(&mut self, bytes: usize) -> Result<(), LoadError> {
        self.flush()?;
        let wanted = bytes.max(self.block_bytes);
        if self.buffer.capacity() < wanted {
            self.buffer = self.file.space.block(wanted);
        }
        Ok(())
    }

    /// Ends the block: in memory if there is room, otherwise in the file.
    fn flush(&mut self) -> Result<(), LoadError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.file.space.try_take(self.buffer.capacity()) {
            self.blocks
                .push(Block::Memory(std::mem::take(&mut self.buffer)));
        } else {
            self.blocks.push(self.file.write(&self.buffer)?);
            self.buffer.clear();
        }
        Ok(())
    }

    /// Ends the run.
    pub(crate) fn finish(mut self) -> Result<WrittenRun, LoadError> {
        if self.buffer.len() < self.buffer.capacity() / 2 {
            let whole = std::mem::take(&mut self.buffer);
            self.buffer = whole.as_slice().into();
            self.file.space.recycle(whole);
        }
        self.flush()?;
        self.file.space.recycle(self.buffer);
        Ok(WrittenRun {
            file: self.file,
            blocks: self.blocks,
        })
    }
}

/// A complete run.
#[derive(Debug)]
pub(crate) struct WrittenRun {
    file: Arc<RunFile>,
    blocks: Vec<Block>,
}

impl WrittenRun {
    /// Returns the bytes of memory that the run takes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> usize {
        let size = |block: &Block| match block {
            Block::Memory(bytes) => bytes.capacity(),
            Block::File { .. } => 0,
        };
        self.blocks.iter().map(size).sum()
    }

    /// Reads one of its blocks; there is one block per flush of the writer.
    pub(crate) fn read_block(&self, index: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        out.clear();
        match &self.blocks[index] {
            Block::Memory(block) => out.extend_from_slice(block),
            Block::File { offset, bytes } => {
                out.resize(*bytes, 0);
                self.file.read(out, *offset)?;
            }
        }
        Ok(())
    }

    /// Reads the run, `buffer_bytes` of a file at a time, and frees its memory on the way.
    pub(crate) fn into_reader(self, buffer_bytes: usize) -> RunReader {
        RunReader {
            file: self.file,
            blocks: self.blocks.into_iter(),
            offset: 0,
            left: 0,
            buffer: Vec::new(),
            taken_bytes: 0,
            at: 0,
            buffer_bytes: buffer_bytes.max(64),
        }
    }
}

/// Reader of one run, front to back.
#[derive(Debug)]
pub(crate) struct RunReader {
    file: Arc<RunFile>,
    blocks: std::vec::IntoIter<Block>,
    /// The unread part of a block in the file.
    offset: u64,
    left: usize,
    /// A block from memory, or a part of one from the file; read up to `at`.
    buffer: Vec<u8>,
    at: usize,
    /// Memory to return when the buffer, a block from memory, has been read.
    taken_bytes: usize,
    buffer_bytes: usize,
}

impl RunReader {
    /// Returns the next bytes: at least `wanted`, unless their block ends before; none at the end of the run. They
    /// stay unread until [`RunReader::consume`].
    #[inline]
    pub(crate) fn peek(&mut self, wanted: usize) -> Result<&[u8], LoadError> {
        if self.buffer.len() - self.at < wanted {
            self.refill(wanted)?;
        }
        Ok(&self.buffer[self.at..])
    }

    /// Marks bytes seen by [`RunReader::peek`] as read.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        debug_assert!(self.at <= self.buffer.len());
    }

    /// Reads a number in LEB128.
    #[inline]
    pub(crate) fn read_number(&mut self) -> Result<u64, LoadError> {
        let bytes = self.peek(VARINT_BYTES_MAX)?;
        let mut rest = bytes;
        if let Some(number) = take_varint(&mut rest) {
            let taken = bytes.len() - rest.len();
            self.consume(taken);
            return Ok(number);
        }
        Err(self.cut_short())
    }

    /// Appends the next `bytes` bytes to `out`.
    #[inline]
    pub(crate) fn read_into(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
        let mut missing = bytes;
        while missing > 0 {
            let ready = self.peek(1)?;
            if ready.is_empty() {
                return Err(self.cut_short());
            }
            let taken = ready.len().min(missing);
            out.extend_from_slice(&ready[..taken]);
            self.consume(taken);
            missing -= taken;
        }
        Ok(())
    }

    /// Returns the error of a run that ends within an entry.
    #[cold]
    pub(crate) fn cut_short(&self) -> LoadError {
        let cut_short = io::ErrorKind::UnexpectedEof.into();
        self.file.error(self.file.file.error("read", cut_short))
    }

    fn refill(&mut self, wanted: usize) -> Result<(), LoadError> {
        if self.at == self.buffer.len() && self.left == 0 {
            self.release();
            match self.blocks.next() {
                None => return Ok(()),
                Some(Block::Memory(bytes)) => {
                    self.taken_bytes = bytes.capacity();
                    self.buffer = bytes;
                    return Ok(());
                }
                Some(Block::File { offset, bytes }) => (self.offset, self.left) = (offset, bytes),
            }
        }
        if self.left == 0 {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        let kept = self.buffer.len();
        let room = self.buffer_bytes.max(wanted).saturating_sub(kept);
        let more = self.left.min(room);
        self.buffer.reserve_exact(more);
        self.buffer.resize(kept + more, 0);
        self.file.read(&mut self.buffer[kept..], self.offset)?;
        self.offset += more as u64;
        self.left -= more;
        Ok(())
    }

    /// Releases a block from memory that has been read.
    fn release(&mut self) {
        if self.taken_bytes > 0 {
            self.file.space.recycle(std::mem::take(&mut self.buffer));
            self.file
                .space
                .give_memory(std::mem::take(&mut self.taken_bytes));
        }
        self.buffer.clear();
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(
        memory_bytes: usize,
        file_bytes_max: Option<u64>,
    ) -> (tempfile::TempDir, Arc<RunSpace>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = RunSpace::new(folder.path(), memory_bytes, file_bytes_max);
        (folder, space)
    }

    #[test]
    fn runs_come_back_as_written_from_memory_and_from_files() {
        for memory_bytes in [0, 3 << 20, 1 << 30] {
            let (folder, space) = space(memory_bytes, None);
            let file = space.file("test");
            let starts = [0_u64, 1 << 40];
            // Two runs written at the same time.
            let mut writers = starts.map(|_| file.run(BLOCK_BYTES));
            for number in 0..300_000 {
                for (start, run) in starts.iter().zip(&mut writers) {
                    let number = start + number;
                    run.write_entry(number, 2 * number, &number.to_le_bytes())
                        .expect("written");
                }
            }
            for run in &mut writers {
                run.write(&vec![7; 3 * BLOCK_BYTES]).expect("written");
            }
            assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
            for ((start, writer), buffer_bytes) in starts.iter().zip(writers).zip([1, 1 << 16]) {
                let run = writer.finish().expect("finished");
                assert_eq!(run.memory_bytes() > 0, memory_bytes > 0);
                let mut reader = run.into_reader(buffer_bytes);
                let mut bytes = Vec::new();
                for number in 0..300_000 {
                    let number = start + number;
                    assert_eq!(reader.read_number().expect("read"), number);
                    assert_eq!(reader.read_number().expect("read"), 2 * number);
                    bytes.clear();
                    reader.read_into(8, &mut bytes).expect("read");
                    assert_eq!(bytes, number.to_le_bytes());
                }
                bytes.clear();
                reader.read_into(3 * BLOCK_BYTES, &mut bytes).expect("read");
                assert!(bytes.iter().all(|&byte| byte == 7));
                assert!(reader.peek(1).expect("the end").is_empty());
                assert!(reader.read_number().is_err());
            }
            assert_eq!(memory_bytes < 1 << 30, space.file_bytes_peak() > 0);
            assert_eq!(space.memory_bytes_left(), memory_bytes);
            drop(file);
            assert_eq!(space.files.used(), 0);
        }
    }

    #[test]
    fn the_limit_is_an_error_that_names_the_folder() {
        let (folder, space) = space(0, Some(1 << 20));
        let mut run = space.file("test").run(1 << 16);
        let fitting = (0..17)
            .take_while(|_| run.write(&[1; 1 << 16]).is_ok())
            .count();
        assert_eq!(fitting, 17);
        let error = run.write(&[1; 1 << 16]).expect_err("does not fit");
        assert!(
            error
                .to_string()
                .contains(&folder.path().display().to_string())
        );
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_it() {
        let space = RunSpace::new(Path::new("/no/such/folder"), 0, None);
        let mut run = space.file("test").run(64);
        run.write(&[1; 64]).expect("buffered");
        let error = run.finish().expect_err("no folder");
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
