//! Cuts Turtle and TriG between statements into chunks that workers parse.
//!
//! ```text
//! text ─ watch: ends of statements, declarations ─ cut ─┬─ declarations so far, graph { │ statements │ } ── chunk
//!                                                       └─ cannot be cut ──────────── the rest, for one parser
//! ```
//!
//! A chunk begins with the declarations before it, and with the opening of its graph if it begins inside of one. Where no
//! statement ends for long, or where declarations would be most of each chunk, the rest is left to one parser.
//!
//! A worker reads the plain statements of a chunk without a parser, and passes the rest of the chunk to oxttl.

use std::io::{self, Cursor, Read};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use oxrdfio::RdfParser;

use super::editor::{Columns, Position, TextPosition};
use super::handles::Handles;
use super::plain_turtle;
use super::reader::ReadProgress;
use super::shared::{Cause, Content, Failure, InputPosition, Shared, Task};
use super::sink::QuadSink;
use super::turtle::{Mark, TurtleText};
use super::watch::{Counted, Watched};
use super::worker::Encoder;
use crate::error::shortened;

/// The reader that the cutter takes its text from.
pub(super) type TurtleReader = Watched<Counted<Box<dyn Read + Send>>, TurtleText>;

/// Limit on the length of a chunk that no statement ends, in bytes. It is that of oxttl's tokens.
const UNCUT_BYTES_MAX: usize = 16 << 20;
/// Limit on what each chunk begins with, declarations and the opening of a graph: its share of a chunk, as a divisor, and a
/// size that is always allowed, in bytes.
const DECLARATIONS_PART: usize = 8;
const DECLARATIONS_BYTES: usize = 4 << 10;

/// Statements that can be parsed by themselves.
pub(crate) struct Chunk {
    parser: RdfParser,
    /// Whether the parser has a base IRI from the start.
    has_base: bool,
    text: Vec<u8>,
    /// Number of bytes before its statements.
    before_bytes: usize,
    place: ChunkPlace,
    position: Arc<Position>,
}

/// The place of a chunk in its source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkPlace {
    /// Number of lines before the statements.
    lines_before: u64,
    /// Line and column of the statements, from 0, in the text that the watch passes on.
    line: u64,
    column: u64,
}

impl ChunkPlace {
    /// Maps a line and column of the chunk to those of the source. All are counted from 0.
    pub(super) fn in_source(self, line: u64, column: u64, position: &Position) -> (u64, u64) {
        let (line, column) = match line.checked_sub(self.lines_before) {
            None => (self.line, self.column),
            Some(0) => (self.line, self.column + column),
            Some(line) => (self.line + line, column),
        };
        position.place_in_text(line, column)
    }

    /// Returns the place of the statements after `text`, in a chunk that begins with `before`.
    fn after(self, text: &[u8], before: &[u8]) -> Self {
        let mut end = TextPosition::at(self.line, self.column);
        end.advance(text, Columns::Characters);
        Self {
            lines_before: lines(before),
            line: end.line,
            column: end.column,
        }
    }
}

/// Returns the number of lines that end in a text.
fn lines(text: &[u8]) -> u64 {
    let mut end = TextPosition::default();
    end.advance(text, Columns::Characters);
    end.line
}

/// The part of a source that was not cut.
pub(super) struct Rest {
    pub(super) reader: Box<dyn Read>,
    pub(super) place: ChunkPlace,
    /// The number of the next task.
    pub(super) sequence: usize,
}

/// Cuts one source.
pub(super) struct Cutter<'c, 's> {
    source: usize,
    parser: RdfParser,
    has_base: bool,
    reader: TurtleReader,
    position: Arc<Position>,
    shared: &'c Shared<'s>,
    sender: &'c Sender<Task>,
    /// The next chunk. It begins with `before` bytes of what its statements depend on.
    buffer: Vec<u8>,
    before: usize,
    /// The place of its statements in the text, and their offset.
    at: TextPosition,
    start: u64,
    /// The end of the last whole statement in the buffer.
    last_end: Option<u64>,
    declarations: Vec<u8>,
    /// The text that opens the current graph.
    graph: Option<Vec<u8>>,
    sequence: usize,
    text_booked: u64,
}

impl<'c, 's> Cutter<'c, 's> {
    pub(super) fn new(
        source: usize,
        (parser, has_base): (RdfParser, bool),
        reader: TurtleReader,
        position: &Arc<Position>,
        shared: &'c Shared<'s>,
        sender: &'c Sender<Task>,
    ) -> Self {
        Self {
            source,
            parser,
            has_base,
            reader,
            position: Arc::clone(position),
            shared,
            sender,
            buffer: shared.take_buffer(),
            before: 0,
            at: TextPosition::default(),
            start: 0,
            last_end: None,
            declarations: Vec::new(),
            graph: None,
            sequence: 0,
            text_booked: 0,
        }
    }

    /// Sends the statements as tasks, until the source ends, the parse is stopped, or the rest cannot be cut. Returns that
    /// rest. It is everything in lenient mode, because a parser that goes on after an error may go on anywhere.
    ///
    /// # Errors
    /// The reader's error, with the number of the task in which it is.
    pub(super) fn run(
        mut self,
        progress: &mut ReadProgress,
    ) -> Result<Option<Rest>, (io::Error, usize)> {
        if self.shared.options.lenient {
            return Ok(Some(self.rest()));
        }
        loop {
            match self.reader.next_text() {
                Ok(Some(text)) => self.buffer.extend_from_slice(text),
                Ok(None) => {
                    self.send_buffer();
                    return Ok(None);
                }
                Err(error) => {
                    // What is whole may have an error that comes first.
                    if let Some(end) = self.last_end {
                        self.cut(end);
                    }
                    return Err((error, self.sequence));
                }
            }
            progress.advance(self.shared);
            self.book_text();
            for mark in self.reader.watch().take_marks() {
                if !self.pass(mark) {
                    return Ok(None);
                }
            }
            if self.shared.is_stopped() {
                return Ok(None);
            }
            let uncut_max = UNCUT_BYTES_MAX.max(2 * self.shared.options.chunk_bytes);
            if self.buffer.len() - self.before > uncut_max || !self.has_few_declarations() {
                return Ok(Some(self.rest()));
            }
        }
    }

    /// Takes note of a mark. Returns whether to go on.
    fn pass(&mut self, mark: Mark) -> bool {
        match mark {
            Mark::Declaration(text) => {
                let text = self.own(text);
                self.declarations
                    .extend_from_slice(&self.buffer[text.clone()]);
                self.declarations.push(b'\n');
                true
            }
            Mark::GraphBegins(text) => {
                let text = self.own(text);
                self.graph = Some(self.buffer[text].to_vec());
                // A chunk that ends before the graph must not be closed like one inside it.
                self.last_end = None;
                true
            }
            Mark::GraphEnds(end) => {
                self.graph = None;
                self.end(end)
            }
            Mark::End(end) => self.end(end),
        }
    }

    /// Returns the place of a part of the text in the buffer.
    fn own(&self, text: Range<u64>) -> Range<usize> {
        let place = |offset: u64| (offset - self.start) as usize + self.before;
        place(text.start)..place(text.end)
    }

    /// Cuts at the end of a statement if the chunk is long enough. Returns whether to go on.
    fn end(&mut self, end: u64) -> bool {
        self.last_end = Some(end);
        let is_long = (end - self.start) as usize >= self.shared.options.chunk_bytes;
        !(is_long && self.has_few_declarations()) || self.cut(end)
    }

    fn has_few_declarations(&self) -> bool {
        let part = self.shared.options.chunk_bytes / DECLARATIONS_PART;
        let graph = self.graph.as_ref().map_or(0, Vec::len);
        self.declarations.len() + graph <= part.max(DECLARATIONS_BYTES)
    }

    /// Sends the statements up to an offset. Returns whether to go on.
    fn cut(&mut self, end: u64) -> bool {
        let place = self.own(end..end).start;
        let mut next = self.shared.take_buffer();
        next.extend_from_slice(&self.declarations);
        if let Some(graph) = &self.graph {
            next.extend_from_slice(graph);
            next.push(b'\n');
        }
        let before = next.len();
        next.extend_from_slice(&self.buffer[place..]);
        self.buffer.truncate(place);
        let mut after = self.at.clone();
        after.advance(&self.buffer[self.before..], Columns::Characters);
        if self.graph.is_some() {
            self.buffer.push(b'}');
        }
        let goes_on = self.send_buffer();
        self.at = after;
        (self.buffer, self.before, self.start) = (next, before, end);
        self.last_end = None;
        goes_on
    }

    /// Sends the buffer. Returns whether to go on.
    fn send_buffer(&mut self) -> bool {
        let task = Task {
            source: self.source,
            sequence: self.sequence,
            content: Content::Chunk(Box::new(Chunk {
                parser: self.parser.clone(),
                has_base: self.has_base,
                place: self.place(),
                text: mem::take(&mut self.buffer),
                before_bytes: self.before,
                position: Arc::clone(&self.position),
            })),
        };
        self.sequence += 1;
        !self.shared.is_stopped() && self.sender.send(task).is_ok()
    }

    fn place(&self) -> ChunkPlace {
        ChunkPlace {
            lines_before: lines(&self.buffer[..self.before]),
            line: self.at.line,
            column: self.at.column,
        }
    }

    fn rest(mut self) -> Rest {
        let place = self.place();
        self.reader.watch().end_marks();
        Rest {
            reader: Box::new(Cursor::new(self.buffer).chain(self.reader)),
            place,
            sequence: self.sequence,
        }
    }

    /// Counts the text that was read.
    fn book_text(&mut self) {
        let text = self.position.bytes.load(Ordering::Relaxed);
        self.shared.add_bytes(text - self.text_booked);
        self.text_booked = text;
    }
}

impl Chunk {
    /// Returns the part of the chunk from an offset on, which depends on `before`.
    fn rest(mut self, at: usize, before: &[u8]) -> Self {
        // If a declaration is not plain, the chunk stays as it is.
        if at < self.before_bytes {
            return self;
        }
        let read = &self.text[self.before_bytes..at];
        self.place = self.place.after(read, before);
        self.text.splice(..at, before.iter().copied());
        self.before_bytes = before.len();
        self
    }
}

/// Reads a chunk and passes its quads to the sink.
pub(super) fn parse<S: QuadSink>(
    chunk: Chunk,
    source: usize,
    sequence: usize,
    handles: &mut Handles,
    sink: &mut S,
    shared: &Shared<'_>,
) -> Result<(), Failure> {
    let info = &shared.infos[source];
    let end = plain_turtle::read(&chunk.text, chunk.has_base, info, handles, sink);
    let end = end.map_err(|error| Failure {
        place: InputPosition::of_task(source, sequence),
        cause: Cause::Sink(error),
    })?;
    let mut quads = end.quads;
    let text = match end.rest {
        None => chunk.text,
        Some((at, before)) => {
            let rest = chunk.rest(at, &before);
            quads += parse_rest(&rest, source, sequence, sink, shared)?;
            rest.text
        }
    };
    shared.done(source, sequence, quads, 0, 0);
    shared.return_buffer(text);
    Ok(())
}

/// Parses a chunk with oxttl. Returns the number of its quads.
fn parse_rest<S: QuadSink>(
    chunk: &Chunk,
    source: usize,
    sequence: usize,
    sink: &mut S,
    shared: &Shared<'_>,
) -> Result<u64, Failure> {
    let scope = &shared.infos[source].blank_node_prefix;
    let mut encoder = Encoder::default();
    let mut quads = 0;
    let (place, position) = (chunk.place, &chunk.position);
    for quad in chunk.parser.clone().for_slice(&chunk.text) {
        let quad = quad.map_err(|error| {
            let (line, column) = match error.location() {
                Some(at) => {
                    let (line, column) = (at.start.line, at.start.column);
                    let (line, column) = place.in_source(line, column, position);
                    (line, column + 1)
                }
                None => (place.in_source(0, 0, position).0, 0),
            };
            Failure {
                place: InputPosition {
                    source,
                    sequence,
                    line,
                    column,
                },
                cause: Cause::Syntax(shortened(strip_place(&error.to_string()).to_owned())),
            }
        })?;
        encoder
            .quad(quad.as_ref(), scope, sink)
            .map_err(|error| Failure {
                place: InputPosition::of_task(source, sequence),
                cause: Cause::Sink(error),
            })?;
        quads += 1;
    }
    Ok(quads)
}

/// Returns oxttl's message without the position at its start. The position is reported separately.
pub(super) fn strip_place(message: &str) -> &str {
    match message.split_once(": ") {
        Some((place, rest)) if place.starts_with("Parser error ") => rest,
        _ => message,
    }
}
