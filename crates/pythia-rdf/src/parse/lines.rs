//! N-Triples and N-Quads, parsed line by line. A fast path handles the common statements, and oxttl handles the
//! rest.
//!
//! The fast path accepts a statement only if oxttl would certainly accept it with the same terms, provided that
//! each term passes `validate`. Every other line goes to oxttl, which decides and words the error. Lines are
//! independent, because no token that oxttl accepts in either format contains a line end.

use memchr::memchr;
use oxrdf::Quad;
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};

use super::SourceInfo;
use super::handles::{Handles, RecentIris, Refused};
use super::shared::{Cause, Failure, InputPosition, Shared};
use super::sink::QuadSink;
use super::tokens::{self, Node, Object, iri, line_end, node, skip_space};
use super::turtle;
use super::worker::Encoder;
use crate::error::{SinkError, shortened};
use crate::format::RdfFormat;
use crate::id::TermKind;

/// Parser for chunks of lines. It reuses its buffers from chunk to chunk.
pub(crate) struct LineParser {
    handles: Handles,
    encoder: Encoder,
}

/// Result of the fast path for a line.
enum Fast {
    Quad,
    Blank,
    /// The line was not recognised and goes to oxttl.
    Slow,
}

/// The source of a chunk, and the terms remembered within the chunk.
struct Chunk<'c, 'i, T> {
    with_graph: bool,
    info: &'i SourceInfo,
    default_graph: Option<T>,
    /// The last subject and graph as written, including brackets.
    subject: Option<(&'c [u8], T)>,
    graph: Option<(&'c [u8], T)>,
    /// IRIs as written, including brackets.
    iris: RecentIris<'c, T>,
}

/// A new subject as written, or the subject of the previous statement.
enum Subject<'c, T> {
    New(Node<'c>),
    Known(T),
}

impl<T: Copy> Chunk<'_, '_, T> {
    /// Returns the length and handle of the last subject if the text begins with it again.
    fn known_subject(&self, text: &[u8]) -> Option<(usize, T)> {
        let (known, handle) = self.subject?;
        if !text.starts_with(known) {
            return None;
        }
        // An IRI ends with its bracket, but a blank node label might continue.
        let ends = known[0] == b'<' || matches!(text.get(known.len()), Some(b' ' | b'\t' | b'<'));
        ends.then_some((known.len(), handle))
    }
}

impl LineParser {
    pub(crate) fn new() -> Self {
        Self {
            handles: Handles::default(),
            encoder: Encoder::default(),
        }
    }

    /// Parses the chunk of task `sequence` of a source.
    pub(crate) fn parse<S: QuadSink>(
        &mut self,
        text: &[u8],
        source: usize,
        sequence: usize,
        sink: &mut S,
        shared: &Shared<'_>,
    ) -> Result<(), Failure> {
        let info = &shared.infos[source];
        let mut chunk = Chunk {
            with_graph: info.format == RdfFormat::NQuads,
            info,
            default_graph: None,
            subject: None,
            graph: None,
            iris: RecentIris::new(),
        };
        let has_carriage_returns = memchr(b'\r', text).is_some();
        let (mut at, mut line_number, mut quads) = (0, 0, 0);
        while at < text.len() {
            let rest = &text[at..];
            let (length, end) = line_end(rest, has_carriage_returns);
            let line = &rest[..length];
            let sink_failed = |error| Failure {
                place: InputPosition {
                    source,
                    sequence,
                    line: line_number,
                    column: 0,
                },
                cause: Cause::Sink(error),
            };
            match self.fast(line, &mut chunk, sink).map_err(sink_failed)? {
                Fast::Quad => quads += 1,
                Fast::Blank => {}
                Fast::Slow => match parse_slowly(line, chunk.with_graph) {
                    Ok(found) => {
                        for quad in found {
                            self.take(quad, &mut chunk, sink).map_err(sink_failed)?;
                            quads += 1;
                        }
                    }
                    Err((column, message)) => {
                        let place = InputPosition {
                            source,
                            sequence,
                            line: line_number,
                            column,
                        };
                        shared.problem(place, message)?;
                    }
                },
            }
            at += length + end;
            line_number += u64::from(end > 0);
        }
        shared.done(source, sequence, quads, text.len() as u64, line_number);
        Ok(())
    }

    /// Recognises one line, without its line end, and passes its quad to the sink.
    fn fast<'c, S: QuadSink>(
        &mut self,
        line: &'c [u8],
        chunk: &mut Chunk<'c, '_, S::Term>,
        sink: &mut S,
    ) -> Result<Fast, SinkError> {
        let mut at = skip_space(line, 0);
        if at == line.len() || line[at] == b'#' {
            return Ok(Fast::Blank);
        }
        let subject = match chunk.known_subject(&line[at..]) {
            Some((length, handle)) => {
                at += length;
                Subject::Known(handle)
            }
            None => match node(line, &mut at) {
                Some(node) => Subject::New(node),
                None => return Ok(Fast::Slow),
            },
        };
        at = skip_space(line, at);
        let Some(predicate) = iri(line, &mut at) else {
            return Ok(Fast::Slow);
        };
        at = skip_space(line, at);
        let Some(object) = tokens::object(line, &mut at, &mut self.handles.lexical) else {
            return Ok(Fast::Slow);
        };
        at = skip_space(line, at);
        let mut graph = None;
        if chunk.with_graph && line.get(at) != Some(&b'.') {
            graph = node(line, &mut at);
            if graph.is_none() {
                return Ok(Fast::Slow);
            }
            at = skip_space(line, at);
        }
        if line.get(at) != Some(&b'.') {
            return Ok(Fast::Slow);
        }
        at = skip_space(line, at + 1);
        if at != line.len() && line[at] != b'#' {
            return Ok(Fast::Slow);
        }
        match self.hand_over(subject, predicate, object, graph, chunk, sink) {
            Ok(()) => Ok(Fast::Quad),
            Err(Refused::Slow) => Ok(Fast::Slow),
            Err(Refused::Sink(error)) => Err(error),
        }
    }

    /// Creates handles for the terms of a line and passes the quad to the sink.
    fn hand_over<'c, S: QuadSink>(
        &mut self,
        subject: Subject<'c, S::Term>,
        predicate: Node<'c>,
        object: Object<'c>,
        graph: Option<Node<'c>>,
        chunk: &mut Chunk<'c, '_, S::Term>,
        sink: &mut S,
    ) -> Result<(), Refused> {
        let subject = match subject {
            Subject::Known(handle) => handle,
            Subject::New(node) => {
                let handle = self.handles.node(node, chunk.info, sink)?;
                chunk.subject = Some((node.text, handle));
                handle
            }
        };
        let predicate = self.iri_handle(predicate, chunk, sink)?;
        let object = match object {
            Object::Node(node) if node.kind == TermKind::Iri => {
                self.iri_handle(node, chunk, sink)?
            }
            Object::Node(node) => self.handles.node(node, chunk.info, sink)?,
            Object::Literal(lexical, suffix) => self.handles.literal(lexical, &suffix, sink)?,
        };
        let graph = match graph {
            None => self.default_graph(chunk, sink).map_err(Refused::Sink)?,
            Some(node) => match chunk.graph {
                Some((text, handle)) if text == node.text => handle,
                _ => {
                    let handle = self.handles.node(node, chunk.info, sink)?;
                    chunk.graph = Some((node.text, handle));
                    handle
                }
            },
        };
        sink.quad(subject, predicate, object, graph)
            .map_err(Refused::Sink)
    }

    fn iri_handle<'c, S: QuadSink>(
        &mut self,
        node: Node<'c>,
        chunk: &mut Chunk<'c, '_, S::Term>,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let info = chunk.info;
        let make = || self.handles.node(node, info, sink);
        chunk.iris.get_or_make(node.text, make)
    }

    /// Returns the graph for statements that name no graph.
    fn default_graph<S: QuadSink>(
        &mut self,
        chunk: &mut Chunk<'_, '_, S::Term>,
        sink: &mut S,
    ) -> Result<S::Term, SinkError> {
        if let Some(handle) = chunk.default_graph {
            return Ok(handle);
        }
        let handle = self.handles.default_graph(chunk.info, sink)?;
        chunk.default_graph = Some(handle);
        Ok(handle)
    }

    /// Passes a quad from oxttl to the sink.
    fn take<S: QuadSink>(
        &mut self,
        mut quad: Quad,
        chunk: &mut Chunk<'_, '_, S::Term>,
        sink: &mut S,
    ) -> Result<(), SinkError> {
        if quad.graph_name.is_default_graph()
            && let Some(graph) = &chunk.info.graph
        {
            quad.graph_name = graph.clone().into();
        }
        self.encoder
            .quad(quad.as_ref(), &chunk.info.blank_node_prefix, sink)
    }
}

/// Parses a line with oxttl. Returns its statements, or the column and the message of its first error.
fn parse_slowly(line: &[u8], with_graph: bool) -> Result<Vec<Quad>, (u64, String)> {
    if let Err(refusal) = turtle::check_nesting(line) {
        let before = String::from_utf8_lossy(&line[..refusal.offset]);
        return Err((before.chars().count() as u64 + 1, refusal.message));
    }
    let quads: Result<Vec<Quad>, TurtleSyntaxError> = if with_graph {
        NQuadsParser::new().for_slice(line).collect()
    } else {
        NTriplesParser::new()
            .for_slice(line)
            .map(|triple| triple.map(|triple| triple.in_graph(oxrdf::GraphName::DefaultGraph)))
            .collect()
    };
    quads.map_err(|error| {
        // oxttl treats the line as a whole file.
        let message = match error.message() {
            "Unexpected end of file" => "the line ends in the middle of a term",
            other => other,
        };
        (
            error.location().start.column + 1,
            shortened(message.to_owned()),
        )
    })
}
