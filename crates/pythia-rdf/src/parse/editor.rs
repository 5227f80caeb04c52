//! What a parser gets of a text: all of it, but for long runs of blank text and the dot segments of base
//! IRIs. Places that the parser tells are turned back into those of the text.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use memchr::memrchr2;

use super::watch::Refusal;

/// Shorter runs of white space and comments are left as they are.
const BLANK_BYTES_MIN: usize = 512;

/// Longer base IRIs are left as they are.
const BASE_BYTES_MAX: usize = 64 << 10;

/// How much text may wait for a decision; with more, it stays as it is.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Parsers look back no further than their buffers, of 16 MiB, reach.
const PLACES_KEPT_BYTES: u64 = 64 << 20;

/// How far a parser has come, shared between its reader and the one who takes its quads.
pub(crate) struct Position {
    /// Bytes read.
    pub(crate) bytes: AtomicU64,
    /// Line ends read.
    pub(crate) lines: AtomicU64,
    /// Bytes, read or put in for entities, since the parser last came out with a quad.
    pub(crate) pending: AtomicU64,
    pending_bytes_max: u64,
    /// Where blank text was left out, in order.
    left_out: Mutex<VecDeque<LeftOut>>,
}

/// Blank text that a parser does not see.
struct LeftOut {
    /// The parser's place right after it, both from 0.
    line: u64,
    column: u64,
    /// All line ends that were left out up to there.
    lines: u64,
    /// All columns that were left out of this line up to there.
    columns: u64,
    /// Bytes that the parser got before.
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

    /// The line and column of the text that are these for the parser; all from 0.
    pub(crate) fn place_in_text(&self, line: u64, column: u64) -> (u64, u64) {
        let left_out = self.left_out.lock().expect("nothing panics with it");
        let before = left_out.partition_point(|run| (run.line, run.column) <= (line, column));
        match before.checked_sub(1).map(|last| &left_out[last]) {
            None => (line, column),
            Some(last) if last.line == line => (line + last.lines, column + last.columns),
            Some(last) => (line + last.lines, column),
        }
    }

    /// Notes that the parser, which is at this place, does not see so many lines and columns.
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

/// What columns count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    Bytes,
    Characters,
}

/// A place in a text, moved on by what stands there.
#[derive(Clone, Debug, Default)]
struct Place {
    line: u64,
    column: u64,
    /// A newline that follows is a part of the line end before.
    after_return: bool,
}

impl Place {
    fn advance(&mut self, text: &[u8], columns: Columns) {
        let Some(last) = text.last() else {
            return;
        };
        let second_of_two = text.windows(2).filter(|two| *two == b"\r\n").count();
        let continued = usize::from(self.after_return && text[0] == b'\n');
        let ends = text.iter().filter(|byte| is_line_end(**byte)).count();
        self.line += (ends - second_of_two - continued) as u64;
        let line_start = memrchr2(b'\n', b'\r', text).map(|at| at + 1);
        if line_start.is_some() {
            self.column = 0;
        }
        let tail = &text[line_start.unwrap_or(0)..];
        self.column += match columns {
            Columns::Bytes => tail.len() as u64,
            // Continuation bytes are no characters of their own.
            Columns::Characters => tail.iter().filter(|byte| **byte as i8 >= -0x40).count() as u64,
        };
        self.after_return = *last == b'\r';
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// A part of the text that may not stay as it is, and is not at its end yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Blank,
    Base,
}

/// A base IRI whose replacement depends on what follows.
struct Undecided {
    /// Where it is in the text that waits.
    start: usize,
    bytes: usize,
    replacement: Vec<u8>,
}

/// Takes a text piece by piece and gives it to a parser, less what it may do without.
///
/// A watch tells where blank text and base IRIs begin and end; each call names offsets of the piece.
pub(crate) struct Editor {
    position: Arc<Position>,
    columns: Columns,
    /// What the parser has not taken yet.
    pub(super) text: Vec<u8>,
    /// Where the parser is after that text, and how many bytes it had till there.
    place: Place,
    given: u64,
    /// The part of the piece up to here is done with.
    done: usize,
    open: Option<(Open, usize)>,
    /// The beginning of what is open, from earlier pieces.
    held: Vec<u8>,
    /// How far an open run of blank text, longer than is kept, went in earlier pieces.
    skipped: Option<Place>,
    undecided: Vec<Undecided>,
    /// The text from the first of them on.
    waiting: Vec<u8>,
}

impl Editor {
    pub(crate) fn new(position: Arc<Position>, columns: Columns) -> Self {
        Self {
            position,
            columns,
            text: Vec::new(),
            place: Place::default(),
            given: 0,
            done: 0,
            open: None,
            held: Vec::new(),
            skipped: None,
            undecided: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// A run of white space and comments begins, where a line end or a space is as good as all of it.
    pub(crate) fn begin_blank(&mut self, at: usize) {
        // Text that waits is not at its place in the parser yet.
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

    /// The inside of a base IRI begins.
    pub(crate) fn begin_base(&mut self, at: usize) {
        self.open = Some((Open::Base, at));
    }

    /// The inside of a base IRI ends; `replace` gives what to put for it and the byte that closes it.
    /// That waits for [`Self::decide`] if it is not certain.
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

    /// How many replacements of base IRIs wait to be decided on.
    pub(crate) fn undecided(&self) -> usize {
        self.undecided.len()
    }

    /// Leaves base IRIs that wait as they are, but for the first `kept`.
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

    /// Leaves a base IRI as it is that is open.
    pub(crate) fn leave_base(&mut self) {
        if matches!(self.open, Some((Open::Base, _))) {
            self.open = None;
            self.give_held();
        }
    }

    /// Gives the rest of a piece, or keeps it until it is known what becomes of it.
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

    /// Gives all that is left at the end of the text.
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

    /// Adds what is held and more to the blank text that is left out.
    fn skip(&mut self, more: &[u8]) {
        let mut skipped = self.skipped.take().unwrap_or_default();
        skipped.advance(&self.held, self.columns);
        skipped.advance(more, self.columns);
        self.held.clear();
        self.skipped = Some(skipped);
    }

    /// Gives one byte for the blank text that is left out.
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
