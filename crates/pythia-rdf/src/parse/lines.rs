//! N-Triples and N-Quads, line by line: a fast path for what such files consist of, oxttl for the rest.
//!
//! The fast path recognises a statement only when it is certain that oxttl would accept it with the same
//! terms, given that each term passes `validate`. Every other line goes to oxttl, which decides and words
//! the error. Lines are independent: no token of either format that oxttl accepts contains a line end.

use memchr::{memchr, memchr2};
use oxrdf::Quad;
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};

use super::SourceInfo;
use super::nesting::TurtleNesting;
use super::shared::{Cause, Failure, Place, Shared};
use super::sink::QuadSink;
use super::watch::Watch;
use super::worker::Encoder;
use crate::error::{SinkError, TermError, shortened};
use crate::format::RdfFormat;
use crate::id::TermKind;
use crate::inline;
use crate::key::{SEPARATOR, TermKey, push_escaped};
use crate::validate;

/// Parses chunks of lines; keeps its buffers from one to the next.
pub(crate) struct LineParser {
    /// A literal with its escapes undone.
    lexical: Vec<u8>,
    /// A key that is not a slice of the input.
    key: Vec<u8>,
    encoder: Encoder,
}

/// What the fast path made of a line.
enum Fast {
    Quad,
    Blank,
    /// Not recognised: ask oxttl.
    Slow,
}

/// The source a chunk belongs to, and what is remembered while in it.
struct Chunk<'c, 'i, T> {
    with_graph: bool,
    info: &'i SourceInfo,
    default_graph: Option<T>,
    /// The last subject and graph as written, brackets included.
    subject: Option<(&'c [u8], T)>,
    graph: Option<(&'c [u8], T)>,
    /// IRIs by a few of their bytes, brackets included.
    iris: Vec<Option<(&'c [u8], T)>>,
}

const IRI_SLOTS: usize = 128;

/// A blank node or IRI as written.
#[derive(Clone, Copy)]
struct Node<'c> {
    kind: TermKind,
    /// With brackets, or with `_:`.
    text: &'c [u8],
}

impl<'c> Node<'c> {
    /// The IRI or label.
    fn content(self) -> &'c [u8] {
        match self.kind {
            TermKind::Iri => &self.text[1..self.text.len() - 1],
            _ => &self.text[2..],
        }
    }
}

enum Suffix<'c> {
    None,
    Language(&'c [u8]),
    Datatype(&'c [u8]),
}

enum Object<'c> {
    Node(Node<'c>),
    /// `None`: the lexical form is in [`LineParser::lexical`].
    Literal(Option<&'c [u8]>, Suffix<'c>),
}

/// Why a term of the fast path did not become a handle.
enum Refused {
    Slow,
    Sink(SinkError),
}

impl From<TermError> for Refused {
    fn from(error: TermError) -> Self {
        match error {
            TermError::Sink(error) => Self::Sink(error),
            TermError::Invalid(_) => Self::Slow,
        }
    }
}

impl LineParser {
    pub(crate) fn new() -> Self {
        Self {
            lexical: Vec::new(),
            key: Vec::new(),
            encoder: Encoder::default(),
        }
    }

    /// Parses the chunk that is task `sequence` of a source.
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
            iris: vec![None; IRI_SLOTS],
        };
        let has_carriage_returns = memchr(b'\r', text).is_some();
        let (mut at, mut line_number, mut quads) = (0, 0, 0);
        while at < text.len() {
            let rest = &text[at..];
            let (length, end) = line_end(rest, has_carriage_returns);
            let line = &rest[..length];
            let sink_failed = |error| Failure {
                place: Place {
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
                        let place = Place {
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

    /// Recognises one line, without its end, and hands its quad over.
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
        let mut cached_subject = None;
        if let Some((text, handle)) = chunk.subject
            && line[at..].starts_with(text)
            && (text[0] == b'<' || matches!(line.get(at + text.len()), Some(b' ' | b'\t' | b'<')))
        {
            at += text.len();
            cached_subject = Some(handle);
        }
        let subject = if cached_subject.is_some() {
            None
        } else {
            let Some(node) = node(line, &mut at) else {
                return Ok(Fast::Slow);
            };
            Some(node)
        };
        at = skip_space(line, at);
        let Some(predicate) = iri(line, &mut at) else {
            return Ok(Fast::Slow);
        };
        at = skip_space(line, at);
        let Some(object) = self.object(line, &mut at) else {
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
        let subject = subject.map_or_else(|| Err(cached_subject.expect("set when there is no node")), Ok);
        match self.hand_over(subject, predicate, object, graph, chunk, sink) {
            Ok(()) => Ok(Fast::Quad),
            Err(Refused::Slow) => Ok(Fast::Slow),
            Err(Refused::Sink(error)) => Err(error),
        }
    }

    /// Makes handles of the terms of a line, and a quad of them.
    fn hand_over<'c, S: QuadSink>(
        &mut self,
        subject: Result<Node<'c>, S::Term>,
        predicate: Node<'c>,
        object: Object<'c>,
        graph: Option<Node<'c>>,
        chunk: &mut Chunk<'c, '_, S::Term>,
        sink: &mut S,
    ) -> Result<(), Refused> {
        let subject = match subject {
            Err(handle) => handle,
            Ok(node) => {
                let handle = self.node_handle(node, chunk.info, sink)?;
                chunk.subject = Some((node.text, handle));
                handle
            }
        };
        let predicate = self.iri_handle(predicate, chunk, sink)?;
        let object = match object {
            Object::Node(node) if node.kind == TermKind::Iri => self.iri_handle(node, chunk, sink)?,
            Object::Node(node) => self.node_handle(node, chunk.info, sink)?,
            Object::Literal(lexical, suffix) => self.literal_handle(lexical, &suffix, sink)?,
        };
        let graph = match graph {
            None => self.default_graph(chunk, sink).map_err(Refused::Sink)?,
            Some(node) => match chunk.graph {
                Some((text, handle)) if text == node.text => handle,
                _ => {
                    let handle = self.node_handle(node, chunk.info, sink)?;
                    chunk.graph = Some((node.text, handle));
                    handle
                }
            },
        };
        sink.quad(subject, predicate, object, graph)
            .map_err(Refused::Sink)
    }

    /// An IRI, looked up among the last ones first: predicates and classes repeat.
    fn iri_handle<'c, S: QuadSink>(
        &mut self,
        node: Node<'c>,
        chunk: &mut Chunk<'c, '_, S::Term>,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let slot = iri_slot(node.text);
        if let Some((text, handle)) = chunk.iris[slot]
            && text == node.text
        {
            return Ok(handle);
        }
        let handle = self.node_handle(node, chunk.info, sink)?;
        chunk.iris[slot] = Some((node.text, handle));
        Ok(handle)
    }

    fn node_handle<S: QuadSink>(
        &mut self,
        node: Node<'_>,
        info: &SourceInfo,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let content = node.content();
        if node.kind == TermKind::Iri {
            let key = TermKey {
                kind: TermKind::Iri,
                bytes: content,
            };
            return Ok(sink.key(key, || validate::iri(content))?);
        }
        // The recogniser takes only labels it knows to be valid.
        if info.blank_node_prefix.is_empty() {
            let key = TermKey {
                kind: TermKind::BlankNode,
                bytes: content,
            };
            return Ok(sink.key(key, || Ok(()))?);
        }
        self.key.clear();
        self.key.extend_from_slice(info.blank_node_prefix.as_bytes());
        self.key.extend_from_slice(content);
        let key = TermKey {
            kind: TermKind::BlankNode,
            bytes: &self.key,
        };
        Ok(sink.key(key, || Ok(()))?)
    }

    fn literal_handle<S: QuadSink>(
        &mut self,
        lexical: Option<&[u8]>,
        suffix: &Suffix<'_>,
        sink: &mut S,
    ) -> Result<S::Term, Refused> {
        let lexical = lexical.unwrap_or(&self.lexical);
        match *suffix {
            Suffix::None => {
                let key = TermKey {
                    kind: TermKind::String,
                    bytes: lexical,
                };
                Ok(sink.key(key, || validate::text(lexical))?)
            }
            Suffix::Language(tag) => {
                self.key.clear();
                push_escaped(lexical, &mut self.key);
                self.key.extend_from_slice(&SEPARATOR);
                let start = self.key.len();
                self.key.extend_from_slice(tag);
                self.key[start..].make_ascii_lowercase();
                let key = TermKey {
                    kind: TermKind::LangString,
                    bytes: &self.key,
                };
                Ok(sink.key(key, || {
                    validate::text(lexical)?;
                    validate::language(tag)
                })?)
            }
            Suffix::Datatype(datatype) => {
                if let Some(id) = inline::inline_bytes(lexical, datatype) {
                    return Ok(sink.inline(id));
                }
                if datatype == validate::XSD_STRING {
                    return self_string(lexical, sink);
                }
                if datatype.starts_with(validate::RDF) && validate::is_reserved_datatype(datatype) {
                    return Err(Refused::Slow);
                }
                self.key.clear();
                push_escaped(lexical, &mut self.key);
                self.key.extend_from_slice(&SEPARATOR);
                self.key.extend_from_slice(datatype);
                let key = TermKey {
                    kind: TermKind::TypedLiteral,
                    bytes: &self.key,
                };
                Ok(sink.key(key, || {
                    validate::text(lexical)?;
                    validate::iri(datatype)
                })?)
            }
        }
    }

    /// The graph of statements that name none.
    fn default_graph<S: QuadSink>(
        &mut self,
        chunk: &mut Chunk<'_, '_, S::Term>,
        sink: &mut S,
    ) -> Result<S::Term, SinkError> {
        if let Some(handle) = chunk.default_graph {
            return Ok(handle);
        }
        let handle = match &chunk.info.graph {
            None => sink.default_graph(),
            Some(graph) => self.encoder.term(graph.as_ref().into(), "", sink)?,
        };
        chunk.default_graph = Some(handle);
        Ok(handle)
    }

    /// Hands over a quad of oxttl's.
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

    fn object<'c>(&mut self, line: &'c [u8], at: &mut usize) -> Option<Object<'c>> {
        if line.get(*at) != Some(&b'"') {
            return node(line, at).map(Object::Node);
        }
        let start = *at + 1;
        let found = start + memchr2(b'"', b'\\', &line[start..])?;
        let lexical = if line[found] == b'"' {
            *at = found + 1;
            Some(&line[start..found])
        } else {
            self.lexical.clear();
            *at = unescape(line, start, found, &mut self.lexical)?;
            None
        };
        let suffix = match line.get(*at)? {
            b'@' => Suffix::Language(language(line, at)?),
            b'^' => {
                if line.get(*at + 1) != Some(&b'^') {
                    return None;
                }
                *at += 2;
                Suffix::Datatype(iri(line, at)?.content())
            }
            // A suffix after space is oxttl's to judge; the caller sends what it does not expect there.
            _ => Suffix::None,
        };
        Some(Object::Literal(lexical, suffix))
    }
}

fn self_string<S: QuadSink>(lexical: &[u8], sink: &mut S) -> Result<S::Term, Refused> {
    let key = TermKey {
        kind: TermKind::String,
        bytes: lexical,
    };
    Ok(sink.key(key, || validate::text(lexical))?)
}

/// Length of the first line and of its end (`\n`, `\r\n`, a lone `\r`, or nothing).
fn line_end(text: &[u8], has_carriage_returns: bool) -> (usize, usize) {
    let found = if has_carriage_returns {
        memchr2(b'\n', b'\r', text)
    } else {
        memchr(b'\n', text)
    };
    match found {
        None => (text.len(), 0),
        Some(at) if text[at..].starts_with(b"\r\n") => (at, 2),
        Some(at) => (at, 1),
    }
}

fn skip_space(line: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t') = line.get(at) {
        at += 1;
    }
    at
}

/// A few bits of an IRI's text: its length and its last bytes.
fn iri_slot(text: &[u8]) -> usize {
    let length = text.len();
    let mut tail = 0;
    for &byte in &text[length.saturating_sub(5)..length - 1] {
        tail = tail << 8 | u32::from(byte);
    }
    let mixed = (tail ^ length as u32).wrapping_mul(0x9E37_79B1);
    (mixed >> 16) as usize % IRI_SLOTS
}

/// An IRI or a blank node, nothing else.
fn node<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    match line.get(*at)? {
        b'<' => iri(line, at),
        b'_' => blank_node(line, at),
        _ => None,
    }
}

/// `<…>`: whatever stands between the brackets is for `validate` to judge.
fn iri<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    if line.get(*at) != Some(&b'<') || line.get(*at + 1) == Some(&b'<') {
        return None;
    }
    let length = memchr(b'>', &line[*at..])? + 1;
    let text = &line[*at..*at + length];
    *at += length;
    Some(Node {
        kind: TermKind::Iri,
        text,
    })
}

/// `_:label` of ASCII; dots at its end are not part of it.
fn blank_node<'c>(line: &'c [u8], at: &mut usize) -> Option<Node<'c>> {
    let start = *at;
    if line.get(start + 1) != Some(&b':') {
        return None;
    }
    let mut end = start + 2;
    if !line.get(end)?.is_ascii_alphanumeric() && line[end] != b'_' {
        return None;
    }
    while let Some(byte) = line.get(end) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') {
            end += 1;
        } else if *byte >= 0x80 {
            return None;
        } else {
            break;
        }
    }
    while line[end - 1] == b'.' {
        end -= 1;
    }
    *at = end;
    Some(Node {
        kind: TermKind::BlankNode,
        text: &line[start..end],
    })
}

/// The tag after `@`, without a base direction.
fn language<'c>(line: &'c [u8], at: &mut usize) -> Option<&'c [u8]> {
    let start = *at + 1;
    let tail = &line[start..];
    let length = tail
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-')?;
    let tag = &tail[..length];
    if !tag.first()?.is_ascii_alphabetic() || tag.ends_with(b"-") || tag.windows(2).any(|two| two == b"--") {
        return None;
    }
    *at = start + length;
    Some(tag)
}

/// Undoes the escapes of a literal that starts at `start` and has its first backslash at `escape`.
/// Answers where the text behind the closing quote starts.
fn unescape(line: &[u8], start: usize, escape: usize, out: &mut Vec<u8>) -> Option<usize> {
    out.extend_from_slice(&line[start..escape]);
    let mut at = escape;
    loop {
        match line[at] {
            b'"' => return Some(at + 1),
            _ => at = unescape_one(line, at + 1, out)?,
        }
        let next = at + memchr2(b'"', b'\\', &line[at..])?;
        out.extend_from_slice(&line[at..next]);
        at = next;
    }
}

/// Undoes the escape whose letter is at `at`; answers where the text goes on.
fn unescape_one(line: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let plain = match line.get(at)? {
        b't' => b'\t',
        b'b' => 0x08,
        b'n' => b'\n',
        b'r' => b'\r',
        b'f' => 0x0C,
        quoted @ (b'"' | b'\'' | b'\\') => *quoted,
        letter @ (b'u' | b'U') => {
            let digits = if *letter == b'u' { 4 } else { 8 };
            let hex = line.get(at + 1..at + 1 + digits)?;
            let mut code = 0;
            for &digit in hex {
                code = code << 4 | char::from(digit).to_digit(16)?;
            }
            let character = char::from_u32(code)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(at + 1 + digits);
        }
        _ => return None,
    };
    out.push(plain);
    Some(at + 1)
}

/// What oxttl makes of a line: its statements, or the column and the message of its first error.
fn parse_slowly(line: &[u8], with_graph: bool) -> Result<Vec<Quad>, (u64, String)> {
    if let Err(refusal) = TurtleNesting::new().scan(line) {
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
        // oxttl sees the line as a file.
        let message = match error.message() {
            "Unexpected end of file" => "the line ends in the middle of a term",
            other => other,
        };
        (error.location().start.column + 1, shortened(message.to_owned()))
    })
}

#[cfg(test)]
mod tests;
