//! Text as a parser receives it. All of it is passed on, except long blank runs and the dot segments of base IRIs.
//! Positions that the parser reports are mapped back to positions in the original text.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use memchr::{memchr, memchr_iter, memrchr2};

use super::watch::Refusal;

/// Length of white space and comments from which a run is shortened.
const BLANK_BYTES_MIN: usize = 512;

/// Maximum length of a base IRI that is edited.
const BASE_BYTES_MAX: usize = 64 << 10;

/// Maximum size of text that waits for a decision. If there is more, the text stays unchanged.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Length of parser input for which the positions of removed text are kept. Parsers never look back further than
/// their buffers of 16 MiB.
const PLACES_KEPT_BYTES: u64 = 64 << 20;

/// Progress of a parser, shared between its reader and the code that takes its quads.
pub(crate) struct Position {
    /// Bytes read.
    pub(crate) bytes: AtomicU64,
    /// Line ends read.
    pub(crate) lines: AtomicU64,
    /// Bytes since the parser last returned a quad: bytes read, and bytes inserted for entities.
    pub(crate) pending: AtomicU64,
    pending_bytes_max: u64,
    /// Positions at which blank text was removed, in order.
    left_out: Mutex<VecDeque<LeftOut>>,
}

/// Blank text that the parser does not see.
struct LeftOut {
    /// The parser's position directly after it. Line and column are counted from 0.
    line: u64,
    column: u64,
    /// Total number of line ends removed up to this point.
    lines: u64,
    /// Total number of columns removed from this line up to this point.
    columns: u64,
    /// Bytes that the parser received before this point.
    given: u64,
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

    /// Maps a line and column of the parser to those of the original text. All are counted from 0.
    pub(crate) fn place_in_text(&self, line: u64, column: u64) -> (u64, u64) {
        let left_out = self.left_out.lock().expect("nothing panics with it");
        let before = left_out.partition_point(|run| (run.line, run.column) <= (line, column));
        match before.checked_sub(1).map(|last| &left_out[last]) {
            None => (line, column),
            Some(last) if last.line == line => (line + last.lines, column + last.columns),
            Some(last) => (line + last.lines, column),
        }
    }

    /// Records that the parser, at position `place`, does not see `lines` lines and `columns` columns.
    fn leave_out(&self, place: (u64, u64), lines: u64, columns: u64, given: u64) {
        let (line, column) = place;
        let mut left_out = self.left_out.lock().expect("nothing panics with it");
        let last = left_out.back();
        let same_line = last.filter(|last| last.line == line);
        let run = LeftOut {
            line,
            column,
            lines: last.map_or(0, |last| last.lines) + lines,
            columns: same_line.map_or(0, |last| last.columns) + columns,
            given,
        };
        left_out.push_back(run);
        while left_out.len() > 1 && left_out[0].given + PLACES_KEPT_BYTES < given {
            left_out.pop_front();
        }
    }

    /// Adds `bytes` to the number of bytes that the parser holds.
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

/// Unit in which columns are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Bytes,
    Characters,
}

/// Position in a text. It is advanced by the text that is passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextPosition {
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// True if a newline that follows belongs to the line end before it.
    after_return: bool,
}

impl TextPosition {
    /// Returns the position at a line and column, not right after a carriage return.
    pub(crate) fn at(line: u64, column: u64) -> Self {
        Self {
            line,
            column,
            after_return: false,
        }
    }

    pub(crate) fn advance(&mut self, text: &[u8], columns: Columns) {
        let Some(last) = text.last() else {
            return;
        };
        let continued = usize::from(self.after_return && text[0] == b'\n');
        self.line += (line_ends(text) - continued) as u64;
        let line_start = memrchr2(b'\n', b'\r', text).map(|at| at + 1);
        if line_start.is_some() {
            self.column = 0;
        }
        let tail = &text[line_start.unwrap_or(0)..];
        self.column += match columns {
            Columns::Bytes => tail.len() as u64,
            // Continuation bytes are not characters of their own.
            Columns::Characters => tail.iter().filter(|byte| **byte as i8 >= -0x40).count() as u64,
        };
        self.after_return = *last == b'\r';
    }
}

/// Returns the number of line ends in a text. Most texts have newlines alone, which are counted fastest.
fn line_ends(text: &[u8]) -> usize {
    let newlines = memchr_iter(b'\n', text).count();
    if memchr(b'\r', text).is_none() {
        return newlines;
    }
    let pairs = text.windows(2).filter(|two| *two == b"\r\n").count();
    newlines + memchr_iter(b'\r', text).count() - pairs
}

/// Kind of a part of the text that may have to change and whose end is not reached yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Blank,
    Base,
}

/// Base IRI whose replacement depends on the text that follows.
struct Undecided {
    /// Offset in the waiting text.
    start: usize,
    bytes: usize,
    replacement: Vec<u8>,
}

/// Takes a text piece by piece and passes it to a parser, without the parts that the parser does not need.
///
/// A watch reports where blank text and base IRIs begin and end. Each call names offsets in the current piece.
pub(crate) struct Editor {
    position: Arc<Position>,
    columns: Columns,
    /// Text that the parser has not taken yet.
    pub(super) text: Vec<u8>,
    /// The parser's position after that text, and the number of bytes it received up to there.
    place: TextPosition,
    given: u64,
    /// Offset in the piece up to which everything is processed.
    done: usize,
    open: Option<(Open, usize)>,
    /// Beginning of the open part, from earlier pieces.
    held: Vec<u8>,
    /// Length, in lines and columns, of an open blank run from earlier pieces that is too long to be kept.
    skipped: Option<TextPosition>,
    undecided: Vec<Undecided>,
    /// Text from the first undecided base IRI on.
    waiting: Vec<u8>,
}

impl Editor {
    pub(crate) fn new(position: Arc<Position>, columns: Columns) -> Self {
        Self {
            position,
            columns,
            text: Vec::new(),
            place: TextPosition::default(),
            given: 0,
            done: 0,
            open: None,
            held: Vec::new(),
            skipped: None,
            undecided: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Returns the offset, in the text that is passed on, of the byte at `at` of the current piece, which is in no open part.
    pub(crate) fn offset(&self, at: usize) -> u64 {
        self.given + at as u64 - self.done as u64
    }

    /// Begins a run of white space and comments. One line end or one space is enough in its place.
    pub(crate) fn begin_blank(&mut self, at: usize) {
        // The parser's position is not known yet for text that waits.
        if self.undecided.is_empty() {
            self.open = Some((Open::Blank, at));
        }
    }

    pub(crate) fn end_blank(&mut self, piece: &[u8], end: usize) {
        let Some((Open::Blank, start)) = self.open else {
            return;
        };
        self.open = None;
        let is_short = self.held.len() + (end - start) < BLANK_BYTES_MIN;
        if self.skipped.is_none() && is_short {
            self.give_held();
            return;
        }
        self.give(&piece[self.done..start]);
        self.done = end;
        self.skip(&piece[start..end]);
        self.give_skipped();
    }

    /// Begins the inside of a base IRI.
    pub(crate) fn begin_base(&mut self, at: usize) {
        self.open = Some((Open::Base, at));
    }

    /// Ends the inside of a base IRI. `replace` returns the text that replaces the IRI and the byte that closes
    /// it. If `is_certain` is false, the replacement waits for [`Self::decide`].
    pub(crate) fn end_base(
        &mut self,
        piece: &[u8],
        end: usize,
        is_certain: bool,
        replace: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) {
        let Some((Open::Base, start)) = self.open.take() else {
            return;
        };
        let mut base = std::mem::take(&mut self.held);
        base.extend_from_slice(&piece[start..end]);
        self.give(&piece[self.done..start]);
        self.done = end + 1;
        let replacement = replace(&base);
        base.push(piece[end]);
        match replacement {
            None => self.give(&base),
            Some(replacement) if is_certain => self.give(&replacement),
            Some(replacement) => {
                self.undecided.push(Undecided {
                    start: self.waiting.len(),
                    bytes: base.len(),
                    replacement,
                });
                self.give(&base);
            }
        }
    }

    /// Returns the number of base IRI replacements that are not decided yet.
    pub(crate) fn undecided(&self) -> usize {
        self.undecided.len()
    }

    /// Drops the undecided replacements except the first `kept`, so the other base IRIs stay unchanged.
    pub(crate) fn leave_undecided(&mut self, kept: usize) {
        self.undecided.truncate(kept);
        if self.undecided.is_empty() {
            self.decide();
        }
    }

    /// Replaces the base IRIs that wait.
    pub(crate) fn decide(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut from = 0;
        for base in std::mem::take(&mut self.undecided) {
            self.give(&waiting[from..base.start]);
            self.give(&base.replacement);
            from = base.start + base.bytes;
        }
        self.give(&waiting[from..]);
    }

    /// Leaves an open base IRI unchanged.
    pub(crate) fn leave_base(&mut self) {
        if matches!(self.open, Some((Open::Base, _))) {
            self.open = None;
            self.give_held();
        }
    }

    /// Passes on the rest of a piece, or keeps it until it is decided.
    pub(crate) fn end_piece(&mut self, piece: &[u8]) {
        let start = self.open.map_or(piece.len(), |(_, start)| start);
        self.give(&piece[self.done..start]);
        self.done = 0;
        let Some((kind, _)) = self.open else {
            return;
        };
        self.open = Some((kind, 0));
        let rest = &piece[start..];
        match kind {
            Open::Blank if self.skipped.is_some() => self.skip(rest),
            Open::Blank => {
                self.held.extend_from_slice(rest);
                if self.held.len() >= BLANK_BYTES_MIN {
                    self.skip(&[]);
                }
            }
            Open::Base => {
                self.held.extend_from_slice(rest);
                if self.held.len() > BASE_BYTES_MAX {
                    self.leave_base();
                }
            }
        }
    }

    /// Passes on everything that is left at the end of the text.
    pub(crate) fn end(&mut self) {
        self.leave_undecided(0);
        self.open = None;
        self.give_held();
        self.give_skipped();
    }

    fn give_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        self.give(&held);
        held.clear();
        self.held = held;
    }

    /// Adds the held text and `more` to the removed blank text.
    fn skip(&mut self, more: &[u8]) {
        let mut skipped = self.skipped.take().unwrap_or_default();
        skipped.advance(&self.held, self.columns);
        skipped.advance(more, self.columns);
        self.held.clear();
        self.skipped = Some(skipped);
    }

    /// Passes on one byte in place of the removed blank text.
    fn give_skipped(&mut self) {
        let Some(skipped) = self.skipped.take() else {
            return;
        };
        let (byte, lines, columns) = match skipped.line {
            0 => (b" ", 0, skipped.column - 1),
            lines => (b"\n", lines - 1, skipped.column),
        };
        self.give(byte);
        let place = (self.place.line, self.place.column);
        self.position.leave_out(place, lines, columns, self.given);
    }

    fn give(&mut self, text: &[u8]) {
        if !self.undecided.is_empty() {
            self.waiting.extend_from_slice(text);
            if self.waiting.len() > WAITING_BYTES_MAX {
                self.leave_undecided(0);
            }
            return;
        }
        self.place.advance(text, self.columns);
        self.given += text.len() as u64;
        self.text.extend_from_slice(text);
    }
}
