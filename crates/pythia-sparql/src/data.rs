//! The quads of INSERT DATA and DELETE DATA.
//!
//! Short data is kept as parsed quads. Long data is kept as text and parsed piece by piece each time it is
//! needed, because a parsed quad takes many times the bytes of its text. A piece ends with a triple, so that
//! it forms an update of its own. The maximum size of its tree is estimated from its tokens beforehand.

use std::ops::Range;

use oxrdf::NamedNode;
use spargebra::GraphUpdateOperation;
use spargebra::term::{GraphName, GroundQuad, Quad};

use crate::charge::Charge;
use crate::error::SparqlError;
use crate::parser::{Failure, parser};
use crate::token::{Kind, Token, tokens};

/// Approximate minimum and maximum size of the tree of a piece, if its triples can be separated. With little
/// memory, a piece gets one of `PIECE_PART` parts of the memory left.
const PIECE_BYTES: (usize, usize) = (64 << 10, 1 << 20);
const PIECE_PART: usize = 16;
/// The prologue is parsed with each piece. Maximum bytes of all these prologues together, absolute or as a
/// multiple of the data.
const REPEATED_BYTES_MAX: usize = 512 << 20;
const REPEATED_FACTOR: usize = 16;
/// Maximum bytes of a token in a tree, without texts: a third of a quad, in a growing list.
pub(crate) const TOKEN_BYTES: usize = 192;
/// A token in a collection yields two quads.
const COLLECTION_FACTOR: usize = 4;

/// A quad from the parser.
pub trait DataQuad: Sized {
    /// Keywords of the operation.
    const VERB: &'static str;

    /// Returns the quads of an operation, or `None` if it is of another kind.
    fn of(operation: GraphUpdateOperation) -> Option<Vec<Self>>;

    /// Returns the graph of the quad.
    fn graph_mut(&mut self) -> &mut GraphName;
}

impl DataQuad for Quad {
    const VERB: &'static str = "INSERT DATA";

    fn of(operation: GraphUpdateOperation) -> Option<Vec<Self>> {
        match operation {
            GraphUpdateOperation::InsertData { data } => Some(data),
            _ => None,
        }
    }

    fn graph_mut(&mut self) -> &mut GraphName {
        &mut self.graph_name
    }
}

impl DataQuad for GroundQuad {
    const VERB: &'static str = "DELETE DATA";

    fn of(operation: GraphUpdateOperation) -> Option<Vec<Self>> {
        match operation {
            GraphUpdateOperation::DeleteData { data } => Some(data),
            _ => None,
        }
    }

    fn graph_mut(&mut self) -> &mut GraphName {
        &mut self.graph_name
    }
}

/// The quads of an operation.
#[derive(Clone, Debug)]
pub enum Data<Q> {
    /// Short data.
    Parsed(Vec<Q>),
    /// Long data.
    Long(Box<LongData>),
}

impl<Q: DataQuad> Data<Q> {
    /// Calls `f` with all quads, some at a time. Quads of long data are charged while `f` has them.
    pub fn each<E: From<SparqlError>>(
        &self,
        charge: &mut dyn Charge,
        mut f: impl FnMut(&[Q]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Parsed(quads) => f(quads),
            Self::Long(long) => long.each(charge, |quads| f(&quads)),
        }
    }

    /// Moves the quads of the default graph to `graph`. Returns `None` if a quad names a graph.
    pub(crate) fn set_graph(&mut self, graph: &NamedNode) -> Option<()> {
        match self {
            Self::Parsed(quads) => quads.iter_mut().try_for_each(|quad| {
                let name = quad.graph_mut();
                (*name == GraphName::DefaultGraph).then(|| *name = graph.clone().into())
            }),
            Self::Long(long) => (!long.names_graphs).then(|| long.graph = Some(graph.clone())),
        }
    }
}

/// Quads as text.
#[derive(Clone, Debug)]
pub struct LongData {
    /// Base IRI and declarations that precede the data.
    base: Option<String>,
    prologue: String,
    /// Text between the braces.
    body: String,
    pieces: Vec<Piece>,
    names_graphs: bool,
    /// Graph that replaces the default graph.
    graph: Option<NamedNode>,
}

/// A part of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Piece {
    range: Range<usize>,
    /// Name of a graph that was opened in an earlier piece.
    begun: Option<Range<usize>>,
    /// True if a graph is open at the end.
    is_open: bool,
    /// Maximum size of its tree.
    tree_bytes: usize,
}

impl LongData {
    /// Creates long data from the bytes of a statement, and charges for it. Returns `None` if its prologue would
    /// be parsed too often.
    pub(crate) fn new(
        (text, statement): (&str, Range<usize>),
        prologue: &str,
        base: Option<&str>,
        charge: &mut dyn Charge,
    ) -> Result<Option<Self>, SparqlError> {
        let inside = inside(text, statement);
        charge.add(inside.len() + prologue.len())?;
        let body = &text[inside];
        let (least, most) = PIECE_BYTES;
        let mut cutter = Cutter::new(body, longest_iri(prologue, base));
        // The prologue is parsed with each piece, so a piece should be several times as long.
        let piece_bytes = (charge.left() / PIECE_PART).clamp(least, most);
        cutter.piece_bytes = piece_bytes.max(4 * prologue.len());
        let repeated_max = REPEATED_BYTES_MAX.max(REPEATED_FACTOR * body.len());
        let pieces_max = repeated_max / prologue.len().max(1);
        for token in tokens(body) {
            cutter.token(token);
            if cutter.pieces.len() > pieces_max {
                return Ok(None);
            }
        }
        let names_graphs = cutter.names_graphs;
        Ok(Some(Self {
            base: base.map(str::to_owned),
            prologue: prologue.to_owned(),
            pieces: cutter.finish(),
            body: body.to_owned(),
            names_graphs,
            graph: None,
        }))
    }

    /// Returns the bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.body.len() + self.prologue.len()
    }

    /// Parses all pieces to find syntax errors.
    pub(crate) fn check<Q: DataQuad>(&self, charge: &mut dyn Charge) -> Result<(), Failure> {
        self.pieces.iter().try_for_each(|piece| {
            charge.check()?;
            let before = charge.bytes();
            charge.set(before.saturating_add(piece.tree_bytes))?;
            let parsed = self.parse::<Q>(piece).map(drop);
            charge.set(before)?;
            parsed
        })
    }

    fn each<Q: DataQuad, E: From<SparqlError>>(
        &self,
        charge: &mut dyn Charge,
        mut f: impl FnMut(Vec<Q>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = charge.bytes();
        for piece in &self.pieces {
            charge.check()?;
            charge.set(before.saturating_add(piece.tree_bytes))?;
            let parsed = self.parse::<Q>(piece);
            let mut quads = parsed.unwrap_or_else(|_| unreachable!("it was parsed before"));
            if let Some(graph) = &self.graph {
                let names = quads.iter_mut().map(DataQuad::graph_mut);
                names.for_each(|name| *name = graph.clone().into());
            }
            f(quads)?;
        }
        Ok(charge.set(before)?)
    }

    fn parse<Q: DataQuad>(&self, piece: &Piece) -> Result<Vec<Q>, Failure> {
        let begun = piece.begun.as_ref().map_or(String::new(), |name| {
            format!("GRAPH {} {{ ", &self.body[name.clone()])
        });
        // The piece may end with a comment, hence the newline.
        let end = if piece.is_open { "\n} }" } else { "\n}" };
        let source = format!(
            "{}{} {{ {begun}{}{end}",
            self.prologue,
            Q::VERB,
            &self.body[piece.range.clone()]
        );
        let parser = parser(&source, self.base.as_deref())?;
        let mut operations = parser.parse_update(&source)?.operations.into_iter();
        let quads = operations.next().map_or(Some(Vec::new()), Q::of);
        let only = quads.filter(|_| operations.next().is_none());
        only.ok_or_else(|| "the end of the data cannot be found".into())
    }
}

/// Returns the range between the braces of a statement.
fn inside(text: &str, statement: Range<usize>) -> Range<usize> {
    let first = tokens(&text[statement.clone()]).find(|token| token.text == "{");
    let start = first.map_or(statement.end, |token| statement.start + token.end);
    let end = match text[start..statement.end].ends_with('}') {
        true => statement.end - 1,
        false => statement.end,
    };
    start..end.max(start)
}

/// Reader of the PREFIX and BASE declarations of a text.
pub(crate) struct Declared<'t> {
    longest: usize,
    /// The two tokens before.
    before: [&'t str; 2],
}

impl<'t> Declared<'t> {
    pub(crate) fn new(base: Option<&str>) -> Self {
        Self {
            longest: base.map_or(0, str::len),
            before: [""; 2],
        }
    }

    /// Reads the next token. Returns the bytes of the longest IRI declared so far, by which a name may be longer
    /// than its text.
    pub(crate) fn longest(&mut self, token: &Token<'t>) -> usize {
        let [prefix, last] = self.before;
        if token.kind == Kind::Iri
            && (prefix.eq_ignore_ascii_case("prefix") || last.eq_ignore_ascii_case("base"))
        {
            self.longest = self.longest.max(token.text.len());
        }
        self.before = [last, token.text];
        self.longest
    }
}

/// Returns the bytes of the longest IRI that a prologue declares.
fn longest_iri(prologue: &str, base: Option<&str>) -> usize {
    let mut declared = Declared::new(base);
    let longest = tokens(prologue)
        .map(|token| declared.longest(&token))
        .last();
    longest.unwrap_or(base.map_or(0, str::len))
}

/// Estimate of the maximum size of the tree of a text without long data.
pub(crate) struct TreeBytes<'t>(Cutter<'t>);

impl<'t> TreeBytes<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self(Cutter::new(text, 0))
    }

    /// Adds a token. A name may be longer than its text by `name_bytes`.
    pub(crate) fn token(&mut self, token: Token<'t>, name_bytes: usize) {
        self.0.name_bytes = name_bytes;
        self.0.token(token);
    }

    pub(crate) fn finish(self) -> usize {
        self.0.finish().iter().map(|piece| piece.tree_bytes).sum()
    }
}

/// A splitter of a body into pieces.
struct Cutter<'t> {
    text: &'t str,
    /// Bytes by which a name may be longer than its text.
    name_bytes: usize,
    piece_bytes: usize,
    pieces: Vec<Piece>,
    current: Piece,
    /// Name of the open graph.
    graph: Option<Range<usize>>,
    names_graphs: bool,
    /// Previous token.
    before: Option<Token<'t>>,
    /// Name after GRAPH.
    named: Option<Range<usize>>,
    /// Maximum bytes of a name after WITH, which each quad repeats.
    with_bytes: usize,
    /// Open brackets within a triple.
    nested: usize,
    collections: usize,
    /// Open round brackets of expressions, in this group and in each enclosing one.
    expressions: usize,
    expressions_outside: Vec<usize>,
    /// Triples with the current subject.
    statement: Statement,
}

/// Triples that share a subject.
#[derive(Default)]
struct Statement {
    bytes: usize,
    longest_bytes: usize,
    /// True if triples may be nested in others.
    has_triples: bool,
}

impl<'t> Cutter<'t> {
    /// Creates a splitter that makes one piece of any size.
    fn new(text: &'t str, name_bytes: usize) -> Self {
        Self {
            text,
            name_bytes,
            piece_bytes: usize::MAX,
            pieces: Vec::new(),
            current: Piece::default(),
            graph: None,
            names_graphs: false,
            before: None,
            named: None,
            with_bytes: 0,
            nested: 0,
            collections: 0,
            expressions: 0,
            expressions_outside: Vec::new(),
            statement: Statement::default(),
        }
    }

    fn token(&mut self, token: Token<'t>) {
        // A dot may follow a graph; then it is part of the same piece.
        let follows_graph = self.before.is_some_and(|before| before.text == "}");
        if follows_graph && token.text != "." {
            self.cut(token.start);
        }
        self.count(&token);
        match token.text {
            "{" => {
                self.graph = self.named.take().or_else(|| self.graph.take());
                self.statement = Statement::default();
                let outside = std::mem::take(&mut self.expressions);
                self.expressions_outside.push(outside);
            }
            "}" => {
                self.graph = None;
                self.statement = Statement::default();
                self.expressions = self.expressions_outside.pop().unwrap_or(0);
            }
            "(" if self.expressions > 0 || self.follows_function() => self.expressions += 1,
            ")" if self.expressions > 0 => self.expressions -= 1,
            "(" => (self.nested, self.collections) = (self.nested + 1, self.collections + 1),
            ")" => {
                self.nested = self.nested.saturating_sub(1);
                self.collections = self.collections.saturating_sub(1);
            }
            "[" | "<<" | "<<(" | "{|" => self.nested += 1,
            "]" | ">>" | ")>>" | "|}" => self.nested = self.nested.saturating_sub(1),
            "." if self.nested == 0 => {
                self.statement = Statement::default();
                self.cut(token.end);
            }
            _ => {}
        }
        let follows = |word: &str| {
            let is = |before: Token<'_>| {
                before.kind == Kind::Word && before.text.eq_ignore_ascii_case(word)
            };
            self.before.is_some_and(is)
        };
        if follows("graph") {
            self.named = Some(token.start..token.end);
            self.names_graphs = true;
        } else if follows("with") {
            let bytes = token.text.len() + self.name_bytes;
            self.with_bytes = self.with_bytes.max(bytes);
        }
        self.before = Some(token);
    }

    /// Returns whether brackets after the previous token hold an expression or arguments rather than a
    /// collection.
    fn follows_function(&self) -> bool {
        let is_term = |text: &str| {
            text == "a"
                || ["true", "false"]
                    .iter()
                    .any(|word| text.eq_ignore_ascii_case(word))
        };
        self.before
            .is_some_and(|before| before.kind == Kind::Word && !is_term(before.text))
    }

    /// Adds the size of a token in the tree. Its text may be repeated in each quad of its subject.
    fn count(&mut self, token: &Token<'_>) {
        let is_short = matches!(token.kind, Kind::Name | Kind::Iri);
        let text = token.text.len() + if is_short { self.name_bytes } else { 0 };
        if self.expressions > 0 {
            // Nothing in an expression is repeated.
            let bytes = self.current.tree_bytes.saturating_add(TOKEN_BYTES + text);
            self.current.tree_bytes = bytes;
            return;
        }
        let statement = &mut self.statement;
        statement.bytes += text;
        // All objects share the subject and predicate, and neither can be a string.
        if token.kind != Kind::String {
            statement.longest_bytes = statement.longest_bytes.max(text);
        }
        statement.has_triples |= matches!(token.text, "<<" | "<<(" | "{|" | "~");
        let shared = match statement.has_triples {
            true => statement.bytes,
            false => 2 * statement.longest_bytes,
        };
        let graph = self.graph.as_ref().map_or(0, Range::len);
        let graph = graph + self.name_bytes * usize::from(graph > 0) + self.with_bytes;
        let once = TOKEN_BYTES + text + shared + graph;
        let factor = if self.collections > 0 {
            COLLECTION_FACTOR
        } else {
            1
        };
        let bytes = once.saturating_mul(factor);
        self.current.tree_bytes = self.current.tree_bytes.saturating_add(bytes);
    }

    /// Ends the piece if it is large enough.
    fn cut(&mut self, at: usize) {
        if self.current.tree_bytes >= self.piece_bytes {
            self.end(at);
        }
    }

    fn end(&mut self, at: usize) {
        self.current.range.end = at;
        self.current.is_open = self.graph.is_some();
        let next = Piece {
            range: at..at,
            begun: self.graph.clone(),
            ..Piece::default()
        };
        self.pieces.push(std::mem::replace(&mut self.current, next));
    }

    fn finish(mut self) -> Vec<Piece> {
        // Unclosed groups stay open here, so that the parser reports them.
        self.graph = None;
        self.end(self.text.len());
        self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestLimits;
    use crate::update::{Action, Update};

    fn quads(text: &str) -> (Vec<Quad>, usize) {
        let update = Update::parse(text, Some("http://e/")).unwrap();
        let mut charge = TestLimits::of_memory(usize::MAX).charge();
        let (mut quads, mut pieces) = (Vec::new(), 0);
        for operation in &update.operations {
            let Action::InsertData(data) = &operation.action else {
                panic!("{operation:?}");
            };
            let each = data.each(&mut *charge, |some| {
                quads.extend_from_slice(some);
                pieces += 1;
                Ok::<(), SparqlError>(())
            });
            each.unwrap();
        }
        assert_eq!(charge.bytes(), 0);
        (quads, pieces)
    }

    /// Long data yields the same quads as its parts.
    #[test]
    fn long_data_is_read_in_pieces() {
        let part = |n: usize| {
            format!(
                "p:s{n} p:p {n}., 1.5, \"a . }} GRAPH\" ; <q> _:b{n} . # no end . \n\
                 GRAPH <g{n}> {{ <x{n}> a <y> . p:z p:p ( {n} [ p:p 7 ] ) . }} \
                 GRAPH p:same {{ <x{n}> p:p '''.'''@en {{| p:q {n} |}} }} . \
                 << p:a p:b {n} >> p:p <<( p:a p:b {n}.5 )>> . "
            )
            .replace("., 1.5", " , 1.5")
        };
        let prologue = "PREFIX p: <http://p/>\nINSERT DATA { ";
        let count = 3000;
        let all: String = (0..count).map(part).collect();
        let (found, pieces) = quads(&format!("{prologue}{all} }} ; "));
        assert!(pieces > 10, "{pieces}");
        let known = |quads: Vec<Quad>| {
            let text = |quad: &Quad| {
                // Blank nodes without labels get a new label each time.
                let words = quad.to_string();
                let words = words.split(' ').map(|word| match word.strip_prefix("_:") {
                    Some(label) if label.len() > 5 => "_:",
                    _ => word,
                });
                words.collect::<Vec<_>>().join(" ")
            };
            quads.iter().map(text).collect::<Vec<_>>()
        };
        let one_by_one = (0..count).map(|n| quads(&format!("{prologue}{}}}", part(n))).0);
        let expected: Vec<Quad> = one_by_one.flatten().collect();
        let (found, expected) = (known(found), known(expected));
        let first = found.iter().zip(&expected).find(|(a, b)| a != b);
        assert_eq!((found.len(), first), (expected.len(), None));
    }

    #[test]
    fn a_fault_in_long_data_is_found_where_it_is() {
        let good = "<a> <b> <c> .\n".repeat(20_000);
        for (wrong, column) in [("<a> <b> .", 9), ("<a> <b> ?v .", 9), ("<a> . <b>", 5)] {
            let text = format!("INSERT DATA {{\n{good}{wrong}\n{good} }}");
            let error = Update::parse(&text, Some("http://e/")).unwrap_err();
            let SparqlError::Syntax {
                line,
                column: found,
                ..
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!((line, found), (20_002, column), "{wrong}: {error}");
        }
        let more = [
            format!("INSERT DATA {{ {good}"),
            format!("INSERT DATA {{ {good} }} }}"),
            format!("INSERT DATA {{ {good} }} INSERT DATA {{ {good} }}"),
            format!("INSERT DATA {{ {good} . . }}"),
            format!("DELETE DATA {{ {good} _:b <a> <b> }}"),
            format!("INSERT DATA {{ GRAPH <g> {{ GRAPH <h> {{ {good} }} }} }}"),
        ];
        for text in more {
            let error = Update::parse(&text, Some("http://e/"));
            assert!(
                matches!(error, Err(SparqlError::Syntax { .. })),
                "{:?}",
                error.map(|update| update.len())
            );
        }
    }

    #[test]
    fn a_tree_beyond_the_memory_is_not_built() {
        let one_subject = format!("<a> <b> {} .", "1,".repeat(40_000) + "2");
        let named = format!(
            "PREFIX p: <http://e/{}> INSERT DATA {{ {} }}",
            "x".repeat(30_000),
            "p:a p:b p:c .\n".repeat(10_000)
        );
        let texts = [
            (format!("INSERT DATA {{ {one_subject} }}"), 4 << 20, false),
            (
                format!("INSERT DATA {{ {} }}", "<a> <b> 1 .".repeat(40_000)),
                8 << 20,
                true,
            ),
            (named, 4 << 20, true),
            (
                format!("DELETE WHERE {{ {} }}", "?a <b> ?c .".repeat(40_000)),
                8 << 20,
                false,
            ),
        ];
        for (text, memory, fits) in texts {
            let limits = TestLimits::of_memory(memory);
            let update = Update::parse_within(&text, Some("http://e/"), limits.charge());
            let first = &text[..40];
            match update {
                Ok(update) => {
                    assert!(fits, "{first}");
                    assert!(limits.used() >= text.len() / 2);
                    drop(update);
                }
                Err(SparqlError::Memory(_)) => assert!(!fits, "{first}"),
                Err(error) => panic!("{first}: {error}"),
            }
            assert_eq!(limits.used(), 0);
        }
    }

    #[test]
    fn a_long_prologue_is_not_parsed_with_each_of_many_pieces() {
        let prefix = "x".repeat(200_000);
        let data = ": : : . ".repeat(20_000);
        let text = format!("PREFIX : <http://e/{prefix}>\nINSERT DATA {{ {data} }}");
        let error = Update::parse(&text, None).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("the prologue is too long"), "{message}");
        assert!(matches!(error, SparqlError::Syntax { line: 2, .. }));
    }

    #[test]
    fn long_data_is_left_where_the_deadline_is_past() {
        let text = format!("INSERT DATA {{ {} }}", "<a> <b> 1 .".repeat(20_000));
        let limits = TestLimits::of_checks(2);
        let update = Update::parse_within(&text, Some("http://e/"), limits.charge());
        assert!(matches!(update, Err(SparqlError::Cancelled)));
        let update = Update::parse(&text, Some("http://e/")).unwrap();
        let Action::InsertData(data) = &update.operations[0].action else {
            panic!("{update:?}");
        };
        let limits = TestLimits::of_checks(2);
        let mut pieces = 0;
        let read = data.each(&mut *limits.charge(), |_| {
            pieces += 1;
            Ok::<(), SparqlError>(())
        });
        assert!(matches!(read, Err(SparqlError::Cancelled)));
        assert_eq!(pieces, 2);
    }
}
