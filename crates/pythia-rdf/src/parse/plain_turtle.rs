//! Plain statements of Turtle and TriG, read without a parser.
//!
//! A statement is plain if it has only common tokens: absolute IRIs, prefixed names and labels of ASCII characters, strings
//! in double quotes, numbers and booleans. It is accepted only if oxttl would certainly accept it with the same terms. At
//! the first other statement the reading ends, and oxttl reads the rest, decides, and words the error.
//!
//! Reference: <https://www.w3.org/TR/rdf12-turtle/#sec-grammar>, <https://www.w3.org/TR/rdf12-trig/#sec-grammar>.

use std::ops::Range;

use memchr::{memchr2, memmem};
use oxiri::Iri;
use rustc_hash::FxHashMap;

use super::SourceInfo;
use super::handles::{Handles, RecentIris, Refused};
use super::sink::QuadSink;
use super::tokens::{self, Node, PrefixedName, Suffix};
use crate::error::SinkError;
use crate::format::RdfFormat;
use crate::id::TermKind;
use crate::validate;

const RDF_TYPE: &[u8] = b"http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const XSD_BOOLEAN: &[u8] = b"http://www.w3.org/2001/XMLSchema#boolean";
const XSD_INTEGER: &[u8] = b"http://www.w3.org/2001/XMLSchema#integer";
const XSD_DECIMAL: &[u8] = b"http://www.w3.org/2001/XMLSchema#decimal";
const XSD_DOUBLE: &[u8] = b"http://www.w3.org/2001/XMLSchema#double";

/// Limit on the triples of a statement, which are kept until its end.
const TRIPLES_MAX: usize = 1 << 16;

/// The end of the plain statements of a text.
pub(super) struct End {
    /// Quads passed to the sink.
    pub(super) quads: u64,
    /// The offset of the first statement that is not plain, and what it depends on: declarations, and the opening of its
    /// graph. `None` at the end of the text.
    pub(super) rest: Option<(usize, Vec<u8>)>,
}

/// Reads plain statements, up to the first that is not, and passes their quads to the sink. IRIs are relative to a base if
/// `has_base`.
pub(super) fn read<S: QuadSink>(
    text: &[u8],
    has_base: bool,
    info: &SourceInfo,
    handles: &mut Handles,
    sink: &mut S,
) -> Result<End, SinkError> {
    let reader = Reader {
        text,
        at: 0,
        info,
        has_base,
        handles,
        sink,
        prefixes: FxHashMap::default(),
        iris: RecentIris::new(),
        datatype: Vec::new(),
        declarations: Vec::new(),
        graph: None,
        default_graph: None,
        triples: Vec::new(),
        quads: 0,
    };
    reader.read()
}

struct Reader<'t, 'r, S: QuadSink> {
    text: &'t [u8],
    at: usize,
    info: &'r SourceInfo,
    has_base: bool,
    handles: &'r mut Handles,
    sink: &'r mut S,
    prefixes: FxHashMap<&'t [u8], Prefix<'t>>,
    /// IRIs as written: with brackets, or as prefixed names.
    iris: RecentIris<'t, S::Term>,
    /// Buffer for a datatype.
    datatype: Vec<u8>,
    declarations: Vec<Range<usize>>,
    /// The open graph: its opening, and its name.
    graph: Option<(Range<usize>, S::Term)>,
    default_graph: Option<S::Term>,
    /// The triples of the current statement.
    triples: Vec<[S::Term; 3]>,
    quads: u64,
}

#[derive(Clone, Copy)]
struct Prefix<'t> {
    iri: &'t [u8],
    /// Whether a name may continue the authority, so that oxttl checks each IRI.
    is_checked: bool,
}

/// The beginning of a declaration.
struct DeclarationStart {
    start: usize,
    is_base: bool,
    ends_in_dot: bool,
}

/// An IRI or a blank node, as written.
enum Written<'t> {
    Node(Node<'t>),
    Name(PrefixedName<'t>),
}

impl<'t, S: QuadSink> Reader<'t, '_, S> {
    fn read(mut self) -> Result<End, SinkError> {
        loop {
            self.skip_blank();
            let start = self.at;
            if start == self.text.len() && self.graph.is_none() {
                return Ok(End {
                    quads: self.quads,
                    rest: None,
                });
            }
            self.triples.clear();
            match self.statement() {
                Ok(()) => self.pass_on()?,
                Err(Refused::Sink(error)) => return Err(error),
                Err(Refused::Slow) => {
                    return Ok(End {
                        quads: self.quads,
                        rest: Some((start, self.dependencies())),
                    });
                }
            }
        }
    }

    /// Returns what statements from here on depend on.
    fn dependencies(&self) -> Vec<u8> {
        let graph = self.graph.iter().map(|(opening, _)| opening);
        let parts = self.declarations.iter().chain(graph);
        parts
            .flat_map(|part| [&self.text[part.clone()], b"\n"])
            .collect::<Vec<_>>()
            .concat()
    }

    /// Passes the quads of a statement to the sink.
    fn pass_on(&mut self) -> Result<(), SinkError> {
        if self.triples.is_empty() {
            return Ok(());
        }
        let named = self.graph.as_ref().map(|(_, graph)| *graph);
        let graph = match named.or(self.default_graph) {
            Some(graph) => graph,
            None => {
                let graph = self.handles.default_graph(self.info, self.sink)?;
                *self.default_graph.insert(graph)
            }
        };
        for &[subject, predicate, object] in &self.triples {
            self.sink.quad(subject, predicate, object, graph)?;
        }
        self.quads += self.triples.len() as u64;
        Ok(())
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips `token` if the text continues with it; otherwise returns `None`.
    fn take(&mut self, token: &[u8]) -> Option<()> {
        self.text[self.at..]
            .starts_with(token)
            .then(|| self.at += token.len())
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Returns whether a token certainly ends here. A dot ends it only if it also ends the statement.
    fn is_end(&self) -> bool {
        match self.byte() {
            Some(b' ' | b'\t' | b'\n' | b'\r' | b';' | b',') => true,
            Some(b'.') => self.is_last_dot(),
            _ => false,
        }
    }

    fn is_last_dot(&self) -> bool {
        match self.text.get(self.at + 1) {
            None | Some(b' ' | b'\t' | b'\n' | b'\r') => true,
            Some(b'}') => self.graph.is_some(),
            _ => false,
        }
    }

    /// Reads a declaration, the triples of one subject, or the beginning or the end of a graph.
    fn statement(&mut self) -> Result<(), Refused> {
        if self.graph.is_some() && self.take(b"}").is_some() {
            self.graph = None;
            return Ok(());
        }
        if self.graph.is_none()
            && let Some(declared) = self.declared()
        {
            return self.declaration(&declared).ok_or(Refused::Slow);
        }
        let start = self.at;
        let subject = self.written().ok_or(Refused::Slow)?;
        self.skip_blank();
        if self.byte() == Some(b'{') {
            return self.open_graph(start, subject);
        }
        let subject = self.handle(subject)?;
        self.predicates(subject)
    }

    /// Opens a graph, whose name begins at `start`.
    fn open_graph(&mut self, start: usize, name: Written<'t>) -> Result<(), Refused> {
        let may_open = self.info.format == RdfFormat::TriG && self.graph.is_none();
        self.at += 1;
        let end = self.at;
        // oxttl decides what the brace is by the byte after it.
        let opens = self.byte().is_some_and(|byte| byte != b'|');
        self.skip_blank();
        // No quad would have the name of an empty graph.
        if !may_open || !opens || matches!(self.byte(), None | Some(b'}')) {
            return Err(Refused::Slow);
        }
        self.graph = Some((start..end, self.handle(name)?));
        Ok(())
    }

    /// Reads the keyword of a declaration, if there is one.
    fn declared(&mut self) -> Option<DeclarationStart> {
        let ends_in_dot = self.byte()? == b'@';
        let rest = &self.text[self.at + usize::from(ends_in_dot)..];
        let length = rest.iter().position(|byte| !byte.is_ascii_alphabetic())?;
        let (word, after) = rest.split_at(length);
        let is = |keyword: &[u8]| match ends_in_dot {
            true => word == keyword,
            false => word.eq_ignore_ascii_case(keyword),
        };
        let is_base = is(b"base");
        let is_declared = is_base || is(b"prefix");
        if !is_declared || !matches!(after[0], b' ' | b'\t' | b'\n' | b'\r') {
            return None;
        }
        let start = self.at;
        self.at += usize::from(ends_in_dot) + length;
        Some(DeclarationStart {
            start,
            is_base,
            ends_in_dot,
        })
    }

    /// Reads the rest of a declaration.
    fn declaration(&mut self, declared: &DeclarationStart) -> Option<()> {
        self.skip_blank();
        let mut name = None;
        if !declared.is_base {
            let named = tokens::prefixed_name(self.text, &mut self.at)?;
            named.local.is_empty().then(|| name = Some(named.prefix))?;
            self.skip_blank();
        }
        let iri = tokens::iri(self.text, &mut self.at)?.content();
        validate::iri(iri).ok()?;
        if self.has_base && has_dot_segments(iri) {
            return None;
        }
        if declared.ends_in_dot {
            self.skip_blank();
            let ends = self.byte()? == b'.' && self.is_last_dot();
            ends.then(|| self.at += 1)?;
        }
        if let Some(name) = name {
            let parsed = Iri::parse(std::str::from_utf8(iri).ok()?).ok()?;
            let is_checked = parsed.path().is_empty();
            self.prefixes.insert(name, Prefix { iri, is_checked });
            self.iris.clear();
        } else {
            self.has_base = true;
        }
        self.declarations.push(declared.start..self.at);
        Some(())
    }

    /// Reads the predicates and objects of a subject.
    fn predicates(&mut self, subject: S::Term) -> Result<(), Refused> {
        loop {
            self.skip_blank();
            let predicate = self.predicate()?;
            loop {
                self.skip_blank();
                let object = self.object()?;
                if self.triples.len() == TRIPLES_MAX {
                    return Err(Refused::Slow);
                }
                self.triples.push([subject, predicate, object]);
                self.skip_blank();
                if self.take(b",").is_none() {
                    break;
                }
            }
            let goes_on = self.take(b";").is_some();
            if goes_on {
                self.skip_blank();
            }
            match self.byte() {
                Some(b'.') if self.is_last_dot() => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'}') if self.graph.is_some() => return Ok(()),
                _ if goes_on => {}
                _ => return Err(Refused::Slow),
            }
        }
    }

    fn predicate(&mut self) -> Result<S::Term, Refused> {
        let start = self.at;
        if self.take(b"a").is_some() {
            if matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                let (handles, sink) = (&mut *self.handles, &mut *self.sink);
                let make = || handles.joined_iri([RDF_TYPE, b""], false, sink);
                return self.iris.get_or_make(&self.text[start..self.at], make);
            }
            self.at = start;
        }
        match self.written() {
            Some(Written::Node(node)) if node.kind != TermKind::Iri => Err(Refused::Slow),
            Some(written) => self.handle(written),
            None => Err(Refused::Slow),
        }
    }

    fn object(&mut self) -> Result<S::Term, Refused> {
        match self.byte() {
            Some(b'"') => self.literal(),
            Some(b'0'..=b'9' | b'+' | b'-') => self.number(),
            _ => {
                for word in [&b"true"[..], b"false"] {
                    let start = self.at;
                    if self.take(word).is_some() && self.is_end() {
                        let suffix = Suffix::Datatype(XSD_BOOLEAN);
                        return self.handles.literal(Some(word), &suffix, self.sink);
                    }
                    self.at = start;
                }
                let written = self.written().ok_or(Refused::Slow)?;
                self.handle(written)
            }
        }
    }

    /// Reads an IRI, a prefixed name or a blank node label.
    fn written(&mut self) -> Option<Written<'t>> {
        let written = match self.byte()? {
            b'<' | b'_' => Written::Node(tokens::node(self.text, &mut self.at)?),
            _ => Written::Name(tokens::prefixed_name(self.text, &mut self.at)?),
        };
        self.is_end().then_some(written)
    }

    fn handle(&mut self, written: Written<'t>) -> Result<S::Term, Refused> {
        let (handles, sink) = (&mut *self.handles, &mut *self.sink);
        match written {
            Written::Node(node) if node.kind == TermKind::Iri => {
                if self.has_base && has_dot_segments(node.content()) {
                    return Err(Refused::Slow);
                }
                let make = || handles.node(node, self.info, sink);
                self.iris.get_or_make(node.text, make)
            }
            Written::Node(node) => handles.node(node, self.info, sink),
            Written::Name(name) => {
                let prefixes = &self.prefixes;
                self.iris.get_or_make(name.text, || {
                    let prefix = prefixes.get(name.prefix).ok_or(Refused::Slow)?;
                    let is_checked = prefix.is_checked || name.local.contains(&b':');
                    handles.joined_iri([prefix.iri, name.local], is_checked, sink)
                })
            }
        }
    }

    /// Reads a string, and its language or datatype.
    fn literal(&mut self) -> Result<S::Term, Refused> {
        let lexical = self.string().ok_or(Refused::Slow)?;
        let suffix = self.suffix().ok_or(Refused::Slow)?;
        if !self.is_end() {
            return Err(Refused::Slow);
        }
        let suffix = suffix.unwrap_or(Suffix::Datatype(&self.datatype));
        self.handles.literal(lexical, &suffix, self.sink)
    }

    /// Reads a string in one or three double quotes. Returns `None` inside if it is in the buffer for unescaped text.
    fn string(&mut self) -> Option<Option<&'t [u8]>> {
        let text = self.text;
        if self.take(b"\"\"\"").is_some() {
            let length = memmem::find(&text[self.at..], b"\"\"\"")?;
            let lexical = &text[self.at..self.at + length];
            self.at += length + 3;
            return (!lexical.contains(&b'\\')).then_some(Some(lexical));
        }
        let start = self.at + 1;
        let found = start + memchr2(b'"', b'\\', &text[start..])?;
        let lexical = if text[found] == b'"' {
            self.at = found + 1;
            Some(&text[start..found])
        } else {
            self.handles.lexical.clear();
            self.at = tokens::unescape(text, start, found, &mut self.handles.lexical)?;
            None
        };
        let has_line_end = memchr2(b'\n', b'\r', &text[start..self.at]).is_some();
        (!has_line_end).then_some(lexical)
    }

    /// Reads what follows a string. Returns `None` inside if it is a datatype in the buffer.
    fn suffix(&mut self) -> Option<Option<Suffix<'t>>> {
        if self.byte()? == b'@' {
            let tag = tokens::language(self.text, &mut self.at)?;
            return Some(Some(Suffix::Language(tag)));
        }
        if self.take(b"^^").is_none() {
            // White space may come before a language or a datatype.
            let end = self.at;
            self.skip_blank();
            let has_none = !matches!(self.byte(), Some(b'@' | b'^'));
            self.at = end;
            return has_none.then_some(Some(Suffix::None));
        }
        match self.written()? {
            Written::Node(node) => {
                let iri = node.content();
                let is_plain =
                    node.kind == TermKind::Iri && !(self.has_base && has_dot_segments(iri));
                is_plain.then_some(Some(Suffix::Datatype(iri)))
            }
            Written::Name(name) => {
                let prefix = self.prefixes.get(name.prefix)?;
                self.datatype.clear();
                self.datatype.extend_from_slice(prefix.iri);
                self.datatype.extend_from_slice(name.local);
                Some(None)
            }
        }
    }

    fn number(&mut self) -> Result<S::Term, Refused> {
        let start = self.at;
        let datatype = self.number_type().ok_or(Refused::Slow)?;
        if !self.is_end() {
            return Err(Refused::Slow);
        }
        let lexical = &self.text[start..self.at];
        let suffix = Suffix::Datatype(datatype);
        self.handles.literal(Some(lexical), &suffix, self.sink)
    }

    /// Reads a number that begins with a digit, after its sign. Returns its datatype.
    fn number_type(&mut self) -> Option<&'static [u8]> {
        if matches!(self.byte(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        self.digits()?;
        let mut datatype = XSD_INTEGER;
        if self.byte() == Some(b'.') && !self.is_last_dot() {
            self.at += 1;
            self.digits()?;
            datatype = XSD_DECIMAL;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
            datatype = XSD_DOUBLE;
        }
        Some(datatype)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.byte(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

/// Returns whether resolving an absolute IRI might change it.
fn has_dot_segments(iri: &[u8]) -> bool {
    iri.windows(2).any(|two| matches!(two, b"/." | b":."))
}
