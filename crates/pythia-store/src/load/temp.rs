//! Temporary files: sequential runs appended to unnamed files.
//!
//! The files have no name in the file system from the moment they exist, so a load that is killed
//! leaves nothing behind. A run is written once, front to back, through a large buffer, and then
//! read front to back, possibly by several readers. A file's space comes back when the last handle to
//! it is dropped.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::LoadError;

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

/// The folder of temporary files, with the account of their sizes.
#[derive(Debug)]
pub(super) struct TempSpace {
    folder: PathBuf,
    bytes_max: u64,
    bytes: AtomicU64,
    bytes_peak: AtomicU64,
    bytes_written: AtomicU64,
}

impl TempSpace {
    /// A space in `folder` of at most `bytes_max` bytes.
    pub(super) fn new(folder: &Path, bytes_max: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.to_owned(),
            bytes_max: bytes_max.unwrap_or(u64::MAX),
            bytes: AtomicU64::new(0),
            bytes_peak: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
        })
    }

    /// A new, empty file for `what` (named in errors).
    pub(super) fn file(self: &Arc<Self>, what: &'static str) -> Result<Arc<TempFile>, LoadError> {
        let file = tempfile::tempfile_in(&self.folder).map_err(|source| LoadError::Temporary {
            action: "create",
            what,
            folder: self.folder.clone(),
            source,
        })?;
        Ok(Arc::new(TempFile {
            file,
            what,
            end: AtomicU64::new(0),
            space: Arc::clone(self),
        }))
    }

    /// The most bytes that were in temporary files at one time.
    pub(super) fn bytes_peak(&self) -> u64 {
        self.bytes_peak.load(Ordering::Relaxed)
    }

    /// All bytes ever written to temporary files.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    fn grow(&self, bytes: u64) -> Result<(), LoadError> {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if now > self.bytes_max {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(LoadError::TemporaryLimit {
                folder: self.folder.clone(),
                bytes_max: self.bytes_max,
            });
        }
        self.bytes_peak.fetch_max(now, Ordering::Relaxed);
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// An unnamed file that runs are appended to.
#[derive(Debug)]
pub(super) struct TempFile {
    file: File,
    what: &'static str,
    end: AtomicU64,
    space: Arc<TempSpace>,
}

impl TempFile {
    /// Starts a run at the file's end. Runs of one file are written one after another.
    pub(super) fn run(self: &Arc<Self>) -> RunWriter {
        let offset = self.end.load(Ordering::Acquire);
        RunWriter {
            file: Arc::clone(self),
            offset,
            start: offset,
            buffer: Vec::new(),
        }
    }

    /// Reserves `bytes` at the file's end, to be written with [`TempFile::write_at`].
    pub(super) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Run, LoadError> {
        self.space.grow(bytes)?;
        let offset = self.end.fetch_add(bytes, Ordering::AcqRel);
        Ok(Run {
            file: Arc::clone(self),
            offset,
            bytes,
        })
    }

    /// Writes into a reserved range.
    pub(super) fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), LoadError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|source| self.error("write", source))
    }

    fn error(&self, action: &'static str, source: io::Error) -> LoadError {
        LoadError::Temporary {
            action,
            what: self.what,
            folder: self.space.folder.clone(),
            source,
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let bytes = self.end.load(Ordering::Acquire);
        self.space.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A range of a temporary file, complete.
#[derive(Clone, Debug)]
pub(super) struct Run {
    file: Arc<TempFile>,
    offset: u64,
    bytes: u64,
}

impl Run {
    /// Where the run begins in its file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads from the start, `buffer_bytes` at a time.
    pub(super) fn reader(&self, buffer_bytes: usize) -> RunReader {
        RunReader {
            file: Arc::clone(&self.file),
            offset: self.offset,
            end: self.offset + self.bytes,
            buffer: Vec::new(),
            buffer_bytes: buffer_bytes.max(64),
            at: 0,
        }
    }
}

/// Writes one run.
#[derive(Debug)]
pub(super) struct RunWriter {
    file: Arc<TempFile>,
    start: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl RunWriter {
    /// Appends bytes.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
            if bytes.len() >= WRITE_BYTES {
                return self.put(bytes);
            }
        }
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(WRITE_BYTES);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a number in LEB128.
    #[inline]
    pub(super) fn write_number(&mut self, mut number: u64) -> Result<(), LoadError> {
        let mut bytes = [0; 10];
        let mut len = 0;
        while number >= 0x80 {
            bytes[len] = number as u8 | 0x80;
            number >>= 7;
            len += 1;
        }
        bytes[len] = number as u8;
        self.write(&bytes[..=len])
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.put(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.file.space.grow(bytes.len() as u64)?;
        self.file.end.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        self.file.write_at(bytes, self.offset)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Writes what is buffered; the run is complete.
    pub(super) fn finish(mut self) -> Result<Run, LoadError> {
        self.flush()?;
        Ok(Run {
            offset: self.start,
            bytes: self.offset - self.start,
            file: self.file,
        })
    }
}

/// Reads one run front to back.
#[derive(Debug)]
pub(super) struct RunReader {
    file: Arc<TempFile>,
    offset: u64,
    end: u64,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    at: usize,
}

impl RunReader {
    /// The next bytes, `wanted` of them unless the run ends before; they stay unread until
    /// [`RunReader::consume`].
    #[inline]
    pub(super) fn peek(&mut self, wanted: usize) -> Result<&[u8], LoadError> {
        if self.buffer.len() - self.at < wanted {
            self.refill(wanted)?;
        }
        Ok(&self.buffer[self.at..])
    }

    /// Marks bytes seen by [`RunReader::peek`] as read.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        debug_assert!(self.at <= self.buffer.len());
    }

    /// The error of a run that ends within an entry.
    #[cold]
    pub(super) fn cut_short(&self) -> LoadError {
        self.file.error("read", io::ErrorKind::UnexpectedEof.into())
    }

    /// Whether everything has been read.
    #[inline]
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.buffer.len() && self.offset == self.end
    }

    /// A number in LEB128.
    #[inline]
    pub(super) fn read_number(&mut self) -> Result<u64, LoadError> {
        let bytes = self.peek(10)?;
        let mut number = 0;
        for (index, &byte) in bytes.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.consume(index + 1);
                return Ok(number);
            }
        }
        Err(self.cut_short())
    }

    /// Appends the next `bytes` bytes to `out`.
    #[inline]
    pub(super) fn read_into(&mut self, bytes: usize, out: &mut Vec<u8>) -> Result<(), LoadError> {
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

    fn refill(&mut self, wanted: usize) -> Result<(), LoadError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let kept = self.buffer.len();
        let room = self.buffer_bytes.max(wanted) - kept;
        let more = (self.end - self.offset).min(room as u64) as usize;
        self.buffer.resize(kept + more, 0);
        self.file
            .file
            .read_exact_at(&mut self.buffer[kept..], self.offset)
            .map_err(|source| self.file.error("read", source))?;
        self.offset += more as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_file_come_back_as_written() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = TempSpace::new(folder.path(), None);
        let file = space.file("test").expect("a file");
        let mut runs = Vec::new();
        for start in [0_u64, 1 << 40] {
            let mut run = file.run();
            for number in start..start + 300_000 {
                run.write_number(number).expect("written");
                run.write(&number.to_le_bytes()).expect("written");
            }
            run.write(&vec![7; 3 * WRITE_BYTES]).expect("written");
            runs.push((start, run.finish().expect("finished")));
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        for (start, run) in &runs {
            for buffer_bytes in [1, 4096, 1 << 20] {
                let mut reader = run.reader(buffer_bytes);
                let mut bytes = Vec::new();
                for number in *start..start + 300_000 {
                    assert_eq!(reader.read_number().expect("read"), number);
                    bytes.clear();
                    reader.read_into(8, &mut bytes).expect("read");
                    assert_eq!(bytes, number.to_le_bytes());
                }
                bytes.clear();
                reader.read_into(3 * WRITE_BYTES, &mut bytes).expect("read");
                assert!(bytes.iter().all(|&byte| byte == 7));
                assert!(reader.is_at_end());
                assert!(reader.read_number().is_err());
            }
        }
        assert_eq!(space.bytes_peak(), runs.iter().map(|run| run.1.bytes()).sum::<u64>());
        drop((file, runs));
        assert_eq!(space.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_limit_is_an_error_that_names_the_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let space = TempSpace::new(folder.path(), Some(1 << 20));
        let mut run = space.file("test").expect("a file").run();
        run.write(&vec![1; 1 << 20]).expect("fits");
        let error = run.write(&vec![1; 1 << 20]).expect_err("does not fit");
        assert!(error.to_string().contains(&folder.path().display().to_string()));
    }
}
