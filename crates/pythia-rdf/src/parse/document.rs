//! Parses the formats that only a sequential parser can read (Turtle, TriG, RDF/XML, JSON-LD) into batches of
//! quads.

use std::io::{self, Read};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use oxrdf::{Quad, TermRef};
use oxrdfio::{RdfFormat, RdfParseError, RdfParser};

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
    let mut parser = RdfParser::from_format(source.format);
    if let Some(base) = &source.base {
        parser = parser
            .with_base_iri(&*without_dot_segments(base))
            .map_err(|error| {
                other(
                    index,
                    0,
                    ParseError::Base {
                        source_name: source.name.clone(),
                        base: base.clone(),
                        message: error.to_string(),
                    },
                )
            })?;
    }
    if let Some(graph) = &source.graph {
        parser = parser.with_default_graph(graph.clone());
    }
    let position = Arc::new(Position::new(shared.options.document_bytes_max));
    let input = mem::replace(&mut source.reader, Box::new(io::empty()));
    let reader = watched(input, source.format, shared.options.lenient, &position);
    let mut batch = Batch {
        source: index,
        sequence: 0,
        quads: Vec::new(),
        bytes: 0,
        text_booked: 0,
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

/// Returns a reader that counts what the parser reads and refuses input that would cost the parser too much memory
/// or stack.
fn watched(
    input: Box<dyn Read + Send>,
    format: RdfFormat,
    is_lenient: bool,
    position: &Arc<Position>,
) -> Box<dyn Read> {
    let counted = |is_bounded| Counted::new(input, Arc::clone(position), is_bounded);
    let position = Arc::clone(position);
    match format {
        // oxttl limits the length of its tokens itself and holds little else.
        RdfFormat::Turtle | RdfFormat::TriG => {
            let watch = TurtleText::new(is_lenient);
            let input = counted(false);
            Box::new(Watched::new(input, watch, Columns::Characters, position))
        }
        RdfFormat::RdfXml => {
            let lines = LineByLine::new(counted(true));
            let watch = XmlWatch::new(Arc::clone(&position));
            Box::new(Watched::new(lines, watch, Columns::Bytes, position))
        }
        _ => {
            let watch = JsonText::default();
            Box::new(Watched::new(counted(true), watch, Columns::Bytes, position))
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
}

impl Batch {
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
    let mut place = InputPosition {
        source: batch.source,
        sequence: batch.sequence,
        line: position.lines.load(Ordering::Relaxed),
        column: 0,
    };
    match error {
        RdfParseError::Syntax(error) => {
            if let Some(location) = error.location() {
                let (line, column) = (location.start.line, location.start.column);
                (place.line, place.column) = position.place_in_text(line, column);
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
        RdfParseError::Io(error) => {
            let read = progress.advance(shared);
            if let Some(refusal) = error.get_ref().and_then(|e| e.downcast_ref::<Refusal>()) {
                return Err(Failure {
                    place,
                    cause: Cause::Syntax(refusal.to_string()),
                });
            }
            if error.kind() == io::ErrorKind::OutOfMemory {
                let message = "a token longer than 16 MiB (it starts on this line or before)";
                return Err(Failure {
                    place,
                    cause: Cause::Syntax(message.to_owned()),
                });
            }
            Err(Failure {
                place,
                cause: Cause::Other(ParseError::Io {
                    source_name: source.name.clone(),
                    read,
                    text: position.bytes.load(Ordering::Relaxed),
                    error,
                }),
            })
        }
    }
}

/// Returns oxttl's message without the position at its start. The position is reported separately.
fn strip_place(message: &str) -> &str {
    match message.split_once(": ") {
        Some((place, rest)) if place.starts_with("Parser error ") => rest,
        _ => message,
    }
}
