//! Readers that watch the text on its way to a parser: where it is, and whether it is safe to parse.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use memchr::{memchr, memchr_iter};

use crate::base::without_dot_segments;

/// Looks at a text piece by piece and may refuse it.
pub(crate) trait Watch {
    /// Goes over the next piece.
    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal>;

    /// The base IRIs that the last piece declares.
    fn bases(&mut self) -> Bases {
        Bases::default()
    }

    /// Goes back to where [`Bases::open`] began.
    fn rewind(&mut self) {}

    /// Returns whether what follows stands between tokens, where a line end is as good as many.
    fn is_between_tokens(&self) -> bool {
        false
    }
}

/// Where a piece of text declares base IRIs.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    /// The IRIs, without what is around them.
    pub(crate) whole: Vec<Range<usize>>,
    /// The beginning of one whose end is not in the piece.
    pub(crate) open: Option<usize>,
}

/// Longer base IRIs that come in two pieces are left as they are.
const BASE_BYTES_MAX: usize = 2048;

/// Shorter runs of empty lines are left as they are.
const EMPTY_LINES_MIN: usize = 512;

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
    /// Where empty lines were left out, in order.
    left_out: Mutex<Vec<LeftOut>>,
}

/// Empty lines that a parser does not see.
struct LeftOut {
    /// Line ends that the parser sees before them.
    after: u64,
    /// All that were left out up to there.
    lines: u64,
}

impl Position {
    pub(crate) fn new(pending_bytes_max: u64) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            pending_bytes_max,
            left_out: Mutex::default(),
        }
    }

    /// The line of the text that is this line for the parser; both from 0.
    pub(crate) fn line_of_text(&self, line: u64) -> u64 {
        let left_out = self.left_out.lock().expect("nothing panics with it");
        let before = left_out.partition_point(|runs| runs.after < line);
        line + before.checked_sub(1).map_or(0, |last| left_out[last].lines)
    }

    /// Notes that the parser does not see these lines, after `lines` line ends of the text.
    fn leave_out(&self, lines: u64, after: u64) {
        let mut left_out = self.left_out.lock().expect("nothing panics with it");
        let before = left_out.last().map_or(0, |last| last.lines);
        left_out.push(LeftOut {
            after: after - before,
            lines: before + lines,
        });
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

/// A reader that counts lines, and ends with an error where a [`Watch`] refuses its text. It takes the
/// dot segments out of base IRIs, which the parsers leave in, and puts spaces behind them instead, so
/// that no place changes.
pub(crate) struct Watched<R, W> {
    inner: R,
    watch: W,
    position: Arc<Position>,
    /// The beginning of a base IRI, to be given away with its end.
    held: Vec<u8>,
}

impl<R, W> Watched<R, W> {
    pub(crate) fn new(inner: R, watch: W, position: Arc<Position>) -> Self {
        Self {
            inner,
            watch,
            position,
            held: Vec::new(),
        }
    }
}

impl<R, W> Watched<R, W> {
    /// Shortens the run of line ends that a piece begins with to one, so that tokens stay apart;
    /// gives the length that is left.
    fn leave_out_lines(&self, piece: &mut [u8]) -> usize {
        let run = line_ends(piece);
        if run < EMPTY_LINES_MIN {
            return piece.len();
        }
        let left_out = run - 1;
        piece.copy_within(left_out.., 0);
        let lines = &self.position.lines;
        let before = lines.fetch_add(left_out as u64, Ordering::Relaxed);
        self.position.leave_out(left_out as u64, before);
        piece.len() - left_out
    }
}

impl<R: Read, W: Watch> Read for Watched<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let start = self.held.len().min(buffer.len());
            buffer[..start].copy_from_slice(&self.held[..start]);
            self.held.drain(..start);
            let mut read = match self.held.is_empty() {
                true => self.inner.read(&mut buffer[start..])?,
                false => 0,
            };
            if start == 0 && self.watch.is_between_tokens() {
                read = self.leave_out_lines(&mut buffer[..read]);
            }
            let text = &mut buffer[..start + read];
            let outcome = self.watch.scan(text);
            let bases = self.watch.bases();
            for base in bases.whole {
                remove_dot_segments(text, base);
            }
            let mut given = text.len();
            if let Some(open) = bases.open
                && read > 0
                && given - open < BASE_BYTES_MAX
            {
                self.held.extend_from_slice(&text[open..]);
                self.watch.rewind();
                given = open;
            }
            let seen = outcome
                .as_ref()
                .map_or_else(|refusal| refusal.offset, |()| given);
            let lines = memchr_iter(b'\n', &text[..seen]).count();
            self.position
                .lines
                .fetch_add(lines as u64, Ordering::Relaxed);
            outcome.map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
            if given > 0 || self.held.is_empty() {
                return Ok(given);
            }
        }
    }
}

/// Takes the dot segments out of a base IRI, and puts spaces behind its end.
fn remove_dot_segments(text: &mut [u8], base: Range<usize>) {
    let Ok(iri) = std::str::from_utf8(&text[base.clone()]) else {
        return;
    };
    let Cow::Owned(plain) = without_dot_segments(iri) else {
        return;
    };
    let (end, closing) = (base.start + plain.len(), text[base.end]);
    text[base.start..end].copy_from_slice(plain.as_bytes());
    text[end] = closing;
    text[end + 1..=base.end].fill(b' ');
}

/// How many line ends a text begins with.
fn line_ends(text: &[u8]) -> usize {
    /// Compared at once.
    const BLOCK: usize = 64;
    let blocks = text.chunks_exact(BLOCK);
    let whole = blocks.take_while(|block| **block == [b'\n'; BLOCK]).count() * BLOCK;
    let rest = text[whole..].iter().take_while(|byte| **byte == b'\n');
    whole + rest.count()
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
