//! Readers that watch the text on its way to a parser: where it is, and whether it is safe to parse.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::{memchr, memchr_iter};

/// Looks at a text piece by piece and may refuse it.
pub(crate) trait Watch {
    /// Goes over the next piece.
    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal>;
}

/// A text is well-formed so far, but would cost too much to parse.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Where in the piece.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// How far a parser has come, shared between its reader and the one who takes its quads.
pub(crate) struct Position {
    /// Bytes read.
    pub(crate) bytes: AtomicU64,
    /// Line ends read.
    pub(crate) lines: AtomicU64,
    /// Bytes, read or put in for entities, since the parser last came out with a quad.
    pub(crate) pending: AtomicU64,
    pending_bytes_max: u64,
}

impl Position {
    pub(crate) fn new(pending_bytes_max: u64) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            pending_bytes_max,
        }
    }

    /// Adds to what the parser holds.
    pub(crate) fn add_pending(&self, bytes: u64) -> Result<(), Refusal> {
        let pending = self.pending.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if pending <= self.pending_bytes_max {
            return Ok(());
        }
        Err(Refusal {
            offset: 0,
            message: format!(
                "the parser would have to hold more than {} bytes before the next statement",
                self.pending_bytes_max
            ),
        })
    }
}

/// A reader that counts lines, and ends with an error where a [`Watch`] refuses its text.
pub(crate) struct Watched<R, W> {
    inner: R,
    watch: W,
    position: Arc<Position>,
}

impl<R, W> Watched<R, W> {
    pub(crate) fn new(inner: R, watch: W, position: Arc<Position>) -> Self {
        Self {
            inner,
            watch,
            position,
        }
    }
}

impl<R: Read, W: Watch> Read for Watched<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let outcome = self.watch.scan(&buffer[..read]);
        let seen = outcome
            .as_ref()
            .map_or_else(|refusal| refusal.offset, |()| read);
        let lines = memchr_iter(b'\n', &buffer[..seen]).count();
        self.position
            .lines
            .fetch_add(lines as u64, Ordering::Relaxed);
        outcome.map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
        Ok(read)
    }
}

/// Counts what is read, and bounds how much of it a parser holds if the parser's own limits do not.
pub(crate) struct Counted<R> {
    inner: R,
    position: Arc<Position>,
    is_bounded: bool,
}

impl<R> Counted<R> {
    pub(crate) fn new(inner: R, position: Arc<Position>, is_bounded: bool) -> Self {
        Self {
            inner,
            position,
            is_bounded,
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position
            .bytes
            .fetch_add(read as u64, Ordering::Relaxed);
        if self.is_bounded {
            self.position
                .add_pending(read as u64)
                .map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
        }
        Ok(read)
    }
}

/// Hands out at most a line at a time, so that the number of lines tells where a parser is that does not say.
pub(crate) struct LineByLine<R> {
    inner: BufReader<R>,
}

impl<R: Read> LineByLine<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(64 << 10, inner),
        }
    }
}

impl<R: Read> Read for LineByLine<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.inner.fill_buf()?;
        let available = &available[..available.len().min(buffer.len())];
        let read = memchr(b'\n', available).map_or(available.len(), |at| at + 1);
        buffer[..read].copy_from_slice(&available[..read]);
        self.inner.consume(read);
        Ok(read)
    }
}
