//! Finds the ends of statements in a Turtle or TriG text, and the text that later statements depend on.

use std::ops::Range;

use super::is_white;
use super::lexer::{Declared, Lexer, LexerMode};
use crate::parse::editor::Editor;

/// Finding in a text. Offsets are those of the text that the [`Editor`] passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A statement has ended at this offset, outside of graphs or in a graph that is still open.
    End(u64),
    /// The text declares a prefix, a base or a version for what follows.
    Declaration(Range<u64>),
    /// The text opens a graph; its last byte is the brace.
    GraphBegins(Range<u64>),
    /// A graph has ended at this offset.
    GraphEnds(u64),
}

/// Finds the ends of statements. Where a text is wrong, they may be wrong after the place of the first error.
#[derive(Debug)]
pub(super) struct Statements {
    marks: Vec<Mark>,
    state: State,
    /// Offset of the first byte of the statement.
    start: u64,
    in_graph: bool,
    /// True if the byte before was a brace that may open a graph.
    after_brace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    /// In the first word of a statement.
    FirstWord,
    /// In a declaration that ends with a dot.
    DottedDeclaration,
    /// In a declaration that ends with its IRI or string.
    BareDeclaration(Declared),
    Statement,
    /// The text is not understood: nothing is found any more.
    Lost,
}

/// The brackets that are open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Depth {
    brackets: usize,
    triples: usize,
}

impl Depth {
    pub(super) fn of(lexer: &Lexer) -> Self {
        Self {
            brackets: lexer.brackets,
            triples: lexer.triples,
        }
    }
}

impl Statements {
    pub(super) fn new() -> Self {
        Self {
            marks: Vec::new(),
            state: State::Between,
            start: 0,
            in_graph: false,
            after_brace: false,
        }
    }

    /// Takes what was found since the last call.
    pub(super) fn take_marks(&mut self) -> Vec<Mark> {
        std::mem::take(&mut self.marks)
    }

    /// Processes the byte at `at` of a piece, which the lexer and the editor have processed. `before` and `depth` are those
    /// before it.
    pub(super) fn pass(
        &mut self,
        (before, depth): (LexerMode, Depth),
        lexer: &Lexer,
        (piece, at): (&[u8], usize),
        editor: &Editor,
    ) {
        let byte = piece[at];
        // The editor may have passed on the byte itself, but no further one.
        let place = || editor.offset(at + 1) - 1;
        if std::mem::take(&mut self.after_brace) && byte != b'|' {
            self.in_graph = true;
            self.state = State::Between;
            self.marks.push(Mark::GraphBegins(self.start..place()));
        }
        let outside = Depth {
            brackets: usize::from(self.in_graph),
            triples: 0,
        };
        if lexer.after_statement && depth == outside {
            self.end(place());
        }
        match self.state {
            State::Between if is_white(byte) || before == LexerMode::Comment => return,
            State::Between if lexer.mode == LexerMode::Comment => return,
            State::Between => self.begin(place(), byte, lexer.mode),
            State::FirstWord if lexer.mode != LexerMode::Word => {
                self.state = match lexer.declared() {
                    Some(declared) => State::BareDeclaration(declared),
                    None => State::Statement,
                };
            }
            State::BareDeclaration(declared) if ends(declared, before, lexer.mode) => {
                self.state = State::DottedDeclaration;
                self.end(place() + 1);
                return;
            }
            State::Lost => return,
            _ => {}
        }
        self.brace(byte, depth, lexer, place);
    }

    /// Begins a statement with its first byte.
    fn begin(&mut self, place: u64, byte: u8, mode: LexerMode) {
        // A byte order mark hides the word after it.
        if place == 0 && byte == 0xEF {
            self.state = State::Lost;
            return;
        }
        self.start = place;
        self.state = match mode {
            LexerMode::Tag => State::DottedDeclaration,
            LexerMode::Word => State::FirstWord,
            _ => State::Statement,
        };
    }

    fn end(&mut self, place: u64) {
        if self.state == State::Lost {
            return;
        }
        if self.state == State::DottedDeclaration {
            self.marks.push(Mark::Declaration(self.start..place));
        }
        self.state = State::Between;
        self.marks.push(Mark::End(place));
    }

    /// Notes a brace that may open a graph, or one that closes it.
    fn brace(&mut self, byte: u8, depth: Depth, lexer: &Lexer, place: impl Fn() -> u64) {
        match byte {
            b'{' => self.after_brace = depth.brackets == 0 && lexer.brackets == 1,
            b'}' if self.in_graph && depth.brackets == 1 && lexer.brackets == 0 => {
                self.in_graph = false;
                self.state = State::Between;
                self.marks.push(Mark::GraphEnds(place() + 1));
            }
            _ => {}
        }
    }
}

/// Returns whether the token that has just ended is the last one of a declaration.
fn ends(declared: Declared, before: LexerMode, after: LexerMode) -> bool {
    use LexerMode as M;
    let is_last = match declared {
        Declared::Iri => matches!(before, M::Iri | M::Less),
        Declared::Version => matches!(before, M::String { .. } | M::LongString { .. }),
    };
    is_last && after == M::Text
}
