//! Parses what only a sequential parser can read (RDF/XML, JSON-LD, and Turtle and TriG that cannot be cut) into batches
//! of quads.

use std::io::{self, Read};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use oxrdf::{Quad, TermRef};
use oxrdfio::{RdfFormat, RdfParseError, RdfParser};

use super::chunks::{ChunkPlace, Cutter, Rest, TurtleReader, strip_place};
use super::editor::{Columns, Position};
use super::json::JsonText;
use super::reader::ReadProgress;
use super::shared::{Cause, Content, Failure, InputPosition, Shared, Task};
use super::turtle::TurtleText;
use super::watch::{Counted, LineByLine, Refusal, Watched};
use super::xml::XmlWatch;
use crate::base::without_dot_segments;
use crate::error::{ParseError, shortened};
use crate::source::Source;

/// Maximum number of quads in a batch.
const BATCH_QUADS: usize = 4096;
/// Approximate maximum size of the text in a batch.
const BATCH_BYTES: usize = 1 << 20;

/// Parses `source` and sends its quads as tasks, until the source ends or the parse is stopped.
pub(crate) fn parse(
    index: usize,
    mut source: Source,
    shared: &Shared<'_>,
    sender: &Sender<Task>,
) -> Result<(), Failure> {
    let mut progress = ReadProgress::new(&source);
    let parser = parser_of(index, &source)?;
    let position = Arc::new(Position::new(shared.options.document_bytes_max));
    let input = mem::replace(&mut source.reader, Box::new(io::empty()));
    let mut batch = Batch::new(index);
    let reader: Box<dyn Read> = match source.format {
        RdfFormat::Turtle | RdfFormat::TriG => {
            let reader = turtle(input, shared.options.lenient, &position);
            let parser = (parser.clone(), source.base.is_some());
            let cutter = Cutter::new(index, parser, reader, &position, shared, sender);
            let rest = cutter.run(&mut progress).map_err(|(error, sequence)| {
                batch.sequence = sequence;
                let place = batch.place(&position);
                failed_read(error, place, &source, shared, &mut progress, &position)
            })?;
            let Some(rest) = rest else { return Ok(()) };
            batch.begin_at(&rest, &position);
            rest.reader
        }
        format => watched(input, format, &position),
    };
    for quad in parser.for_reader(reader) {
        match quad {
            Ok(quad) => {
                position.pending.store(0, Ordering::Relaxed);
                batch.push(quad);
                if batch.is_full() && !batch.send(sender, shared, &mut progress, &position) {
                    return Ok(());
                }
            }
            Err(error) => {
                let (place, message) =
                    judge(error, &source, &batch, shared, &mut progress, &position)?;
                shared.problem(place, message)?;
                if shared.is_stopped() {
                    return Ok(());
                }
            }
        }
    }
    batch.send(sender, shared, &mut progress, &position);
    Ok(())
}

fn parser_of(index: usize, source: &Source) -> Result<RdfParser, Failure> {
    let mut parser = RdfParser::from_format(source.format);
    if let Some(base) = &source.base {
        parser = parser
            .with_base_iri(&*without_dot_segments(base))
            .map_err(|error| {
                let error = ParseError::Base {
                    source_name: source.name.clone(),
                    base: base.clone(),
                    message: error.to_string(),
                };
                other(index, 0, error)
            })?;
    }
    if let Some(graph) = &source.graph {
        parser = parser.with_default_graph(graph.clone());
    }
    Ok(parser)
}

/// Returns a reader of Turtle or TriG that counts what is read, refuses what would cost the parser too much stack, and
/// finds the ends of statements unless it is lenient.
fn turtle(input: Box<dyn Read + Send>, is_lenient: bool, position: &Arc<Position>) -> TurtleReader {
    // oxttl limits the length of its tokens itself and holds little else.
    let input = Counted::new(input, Arc::clone(position), false);
    let watch = TurtleText::new(is_lenient);
    Watched::new(input, watch, Columns::Characters, Arc::clone(position))
}

/// Returns a reader that counts what the parser reads and refuses input that would cost the parser too much memory
/// or stack.
fn watched(
    input: Box<dyn Read + Send>,
    format: RdfFormat,
    position: &Arc<Position>,
) -> Box<dyn Read> {
    let input = Counted::new(input, Arc::clone(position), true);
    let position = Arc::clone(position);
    match format {
        RdfFormat::RdfXml => {
            let lines = LineByLine::new(input);
            let watch = XmlWatch::new(Arc::clone(&position));
            Box::new(Watched::new(lines, watch, Columns::Bytes, position))
        }
        _ => {
            let watch = JsonText::default();
            Box::new(Watched::new(input, watch, Columns::Bytes, position))
        }
    }
}

struct Batch {
    source: usize,
    sequence: usize,
    quads: Vec<Quad>,
    /// Approximate memory size of the quads.
    bytes: usize,
    /// Text bytes already added to the report.
    text_booked: u64,
    /// Place in the source at which the parser's text begins.
    chunk: ChunkPlace,
}

impl Batch {
    fn new(source: usize) -> Self {
        Self {
            source,
            sequence: 0,
            quads: Vec::new(),
            bytes: 0,
            text_booked: 0,
            chunk: ChunkPlace::default(),
        }
    }

    /// Begins where a source is no longer cut.
    fn begin_at(&mut self, rest: &Rest, position: &Position) {
        (self.sequence, self.chunk) = (rest.sequence, rest.place);
        self.text_booked = position.bytes.load(Ordering::Relaxed);
    }

    /// Returns the place up to which the source was read.
    fn place(&self, position: &Position) -> InputPosition {
        InputPosition {
            source: self.source,
            sequence: self.sequence,
            line: position.lines.load(Ordering::Relaxed),
            column: 0,
        }
    }

    fn push(&mut self, quad: Quad) {
        self.bytes += text_bytes(quad.as_ref().object) + 128;
        self.quads.push(quad);
    }

    fn is_full(&self) -> bool {
        self.quads.len() >= BATCH_QUADS || self.bytes >= BATCH_BYTES
    }

    /// Sends the batch. Returns whether parsing should go on.
    fn send(
        &mut self,
        sender: &Sender<Task>,
        shared: &Shared<'_>,
        progress: &mut ReadProgress,
        position: &Position,
    ) -> bool {
        progress.advance(shared);
        let text = position.bytes.load(Ordering::Relaxed);
        shared.add_bytes(text - self.text_booked);
        self.text_booked = text;
        let quads = mem::replace(&mut self.quads, Vec::with_capacity(BATCH_QUADS));
        let task = Task {
            source: self.source,
            sequence: self.sequence,
            content: Content::Quads(quads),
        };
        self.bytes = 0;
        self.sequence += 1;
        !shared.is_stopped() && sender.send(task).is_ok()
    }
}

/// Returns the approximate memory size of an object.
fn text_bytes(term: TermRef<'_>) -> usize {
    match term {
        TermRef::NamedNode(node) => node.as_str().len(),
        TermRef::BlankNode(_) => 32,
        TermRef::Literal(literal) => literal.value().len(),
        TermRef::Triple(triple) => 128 + text_bytes(triple.object.as_ref()),
    }
}

fn other(source: usize, sequence: usize, error: ParseError) -> Failure {
    Failure {
        place: InputPosition {
            source,
            sequence,
            line: 0,
            column: 0,
        },
        cause: Cause::Other(error),
    }
}

/// Returns a problem to be counted in lenient mode, or the failure that ends the source in every mode.
fn judge(
    error: RdfParseError,
    source: &Source,
    batch: &Batch,
    shared: &Shared<'_>,
    progress: &mut ReadProgress,
    position: &Position,
) -> Result<(InputPosition, String), Failure> {
    let mut place = batch.place(position);
    match error {
        RdfParseError::Syntax(error) => {
            if let Some(location) = error.location() {
                let (line, column) = (location.start.line, location.start.column);
                (place.line, place.column) = batch.chunk.in_source(line, column, position);
                place.column += 1;
            } else {
                // The parser has already read the end of the line in which it stopped.
                place.line = place.line.saturating_sub(1);
            }
            let mut message = shortened(strip_place(&error.to_string()).to_owned());
            let resumable = matches!(source.format, RdfFormat::Turtle | RdfFormat::TriG);
            if resumable {
                return Ok((place, message));
            }
            if shared.options.lenient {
                message.push_str(" (the parser cannot go on after an error in ");
                message.push_str(source.format.name());
                message.push_str(", so nothing can be skipped)");
            }
            Err(Failure {
                place,
                cause: Cause::Syntax(message),
            })
        }
        RdfParseError::Io(error) => Err(failed_read(
            error, place, source, shared, progress, position,
        )),
    }
}

/// Returns the failure for an error of the reader.
fn failed_read(
    error: io::Error,
    place: InputPosition,
    source: &Source,
    shared: &Shared<'_>,
    progress: &mut ReadProgress,
    position: &Position,
) -> Failure {
    let read = progress.advance(shared);
    let cause = if let Some(refusal) = error.get_ref().and_then(|e| e.downcast_ref::<Refusal>()) {
        Cause::Syntax(refusal.to_string())
    } else if error.kind() == io::ErrorKind::OutOfMemory {
        let message = "a token longer than 16 MiB (it starts on this line or before)";
        Cause::Syntax(message.to_owned())
    } else {
        Cause::Other(ParseError::Io {
            source_name: source.name.clone(),
            read,
            text: position.bytes.load(Ordering::Relaxed),
            error,
        })
    };
    Failure { place, cause }
}
