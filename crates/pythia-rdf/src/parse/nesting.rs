//! Bounds how deep brackets may nest in N-Triples, Turtle, TriG and JSON-LD.
//!
//! Parsers keep a stack of what is open, and triple terms are dropped by recursion, so memory and stack
//! grow with the nesting. These scanners follow just enough of the syntax (strings, IRIs, comments,
//! escapes) to count open brackets, and refuse text before the parser gets it. They also find where base
//! IRIs are declared.

use std::mem;

use super::watch::{Bases, Refusal, Watch};
use crate::triple_text::NESTING_MAX as TRIPLE_NESTING_MAX;

/// How deep lists, property lists, graphs and objects may nest.
const BRACKETS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// After one `<`: of an IRI, or the first of two.
    Less,
    /// After one `>`.
    Greater,
    Iri,
    Comment,
    /// After `count` (1 or 2) quotes that may open a string.
    Opening {
        quote: u8,
        count: u8,
    },
    String {
        quote: u8,
    },
    LongString {
        quote: u8,
        closing: u8,
    },
    /// After a backslash outside of strings.
    Escape,
    StringEscape {
        quote: u8,
        long: bool,
    },
}

/// Follows a text in N-Triples, Turtle or TriG and counts its open brackets.
#[derive(Debug)]
pub(crate) struct TurtleNesting {
    state: State,
    brackets: usize,
    triples: usize,
    /// The last bytes outside of strings, IRIs and comments, in lower case and without white space.
    recent: u64,
    bases: Bases,
}

impl Watch for TurtleNesting {
    fn is_between_tokens(&self) -> bool {
        self.state == State::Text
    }

    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.bases = Bases::default();
        for (offset, &byte) in text.iter().enumerate() {
            let before = self.state;
            self.state = self.next(byte);
            match (before, self.state) {
                (State::Less, State::Iri) if self.follows_base() => self.bases.open = Some(offset),
                (State::Iri, State::Text) => {
                    let start = self.bases.open.take();
                    self.bases.whole.extend(start.map(|start| start..offset));
                }
                _ => {}
            }
            if self.triples > TRIPLE_NESTING_MAX {
                return Err(too_deep(offset, "triple terms", TRIPLE_NESTING_MAX));
            }
            if self.brackets > BRACKETS_MAX {
                return Err(too_deep(offset, "brackets", BRACKETS_MAX));
            }
        }
        Ok(())
    }

    fn bases(&mut self) -> Bases {
        mem::take(&mut self.bases)
    }

    fn rewind(&mut self) {
        self.state = State::Less;
    }
}

fn too_deep(offset: usize, what: &str, limit: usize) -> Refusal {
    Refusal {
        offset,
        message: format!("{what} nest deeper than {limit}"),
    }
}

impl TurtleNesting {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Text,
            brackets: 0,
            triples: 0,
            recent: 0,
            bases: Bases::default(),
        }
    }

    /// Whether `@base`, or `BASE` after a statement, comes right before.
    fn follows_base(&self) -> bool {
        let before = (self.recent >> 32) as u8;
        self.recent as u32 == u32::from_be_bytes(*b"base")
            && matches!(before, 0 | b'.' | b'>' | b'}' | AT)
    }

    fn note(&mut self, byte: u8) {
        self.recent = self.recent << 8 | u64::from(byte | 0x20);
    }

    fn next(&mut self, byte: u8) -> State {
        match self.state {
            State::Text => self.text(byte),
            State::Less => match byte {
                b'<' => {
                    self.triples += 1;
                    State::Text
                }
                b'>' => State::Text,
                _ => State::Iri,
            },
            State::Greater => {
                if byte == b'>' {
                    self.triples = self.triples.saturating_sub(1);
                    State::Text
                } else {
                    self.text(byte)
                }
            }
            State::Iri if byte == b'>' => {
                self.note(byte);
                State::Text
            }
            State::Comment if matches!(byte, b'\n' | b'\r') => State::Text,
            State::Iri | State::Comment => self.state,
            State::Escape => State::Text,
            State::Opening { quote, count } => match (byte == quote, count) {
                (true, 1) => State::Opening { quote, count: 2 },
                (true, _) => State::LongString { quote, closing: 0 },
                (false, 1) => string(byte, quote),
                (false, _) => self.text(byte), // an empty string
            },
            State::String { quote } => string(byte, quote),
            State::LongString { quote, closing } => match byte {
                b'\\' => State::StringEscape { quote, long: true },
                _ if byte != quote => State::LongString { quote, closing: 0 },
                _ if closing == 2 => State::Text,
                _ => State::LongString {
                    quote,
                    closing: closing + 1,
                },
            },
            State::StringEscape { quote, long: true } => State::LongString { quote, closing: 0 },
            State::StringEscape { quote, long: false } => State::String { quote },
        }
    }

    fn text(&mut self, byte: u8) -> State {
        match byte {
            b'<' => return State::Less,
            b'>' => return State::Greater,
            b'#' => return State::Comment,
            b'\\' => return State::Escape,
            b'"' | b'\'' => {
                return State::Opening {
                    quote: byte,
                    count: 1,
                };
            }
            b'[' | b'(' | b'{' => self.brackets += 1,
            b']' | b')' => self.brackets = self.brackets.saturating_sub(1),
            b'}' => {
                self.brackets = self.brackets.saturating_sub(1);
                self.note(byte);
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.note(byte),
        }
        State::Text
    }
}

/// `@` with the bit that makes letters lower case.
const AT: u8 = b'@' | 0x20;

fn string(byte: u8, quote: u8) -> State {
    match byte {
        b'\\' => State::StringEscape { quote, long: false },
        _ if byte == quote => State::Text,
        _ => State::String { quote },
    }
}

/// Follows a JSON text and counts its open brackets.
#[derive(Debug, Default)]
pub(crate) struct JsonNesting {
    in_string: bool,
    escaped: bool,
    brackets: usize,
    /// How much of [`BASE_KEY`] the current string is so far; `None` once it is another.
    matched: Option<usize>,
    /// Right after that key, or in its value.
    at_base: bool,
    /// What comes next is the inside of a base IRI.
    resumes: bool,
    bases: Bases,
}

/// The key of a base IRI in JSON-LD.
const BASE_KEY: &[u8] = b"@base";

impl Watch for JsonNesting {
    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.bases = Bases {
            whole: Vec::new(),
            open: mem::take(&mut self.resumes).then_some(0),
        };
        for (offset, &byte) in text.iter().enumerate() {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                self.string(byte, offset);
            } else {
                match byte {
                    b'"' => {
                        self.in_string = true;
                        self.matched = Some(0);
                        self.bases.open = self.at_base.then_some(offset + 1);
                    }
                    b'[' | b'{' => self.brackets += 1,
                    b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
                    _ => {}
                }
                if !matches!(byte, b'"' | b':' | b' ' | b'\t' | b'\r' | b'\n') {
                    self.at_base = false;
                }
                if self.brackets > BRACKETS_MAX {
                    return Err(too_deep(offset, "brackets", BRACKETS_MAX));
                }
            }
        }
        Ok(())
    }

    fn bases(&mut self) -> Bases {
        mem::take(&mut self.bases)
    }

    fn rewind(&mut self) {
        (self.escaped, self.resumes) = (false, true);
    }
}

impl JsonNesting {
    /// A byte of a string.
    fn string(&mut self, byte: u8, offset: usize) {
        match byte {
            b'"' => {
                self.in_string = false;
                let start = self.bases.open.take();
                self.bases.whole.extend(start.map(|start| start..offset));
                self.at_base = !self.at_base && self.matched == Some(BASE_KEY.len());
            }
            b'\\' => {
                self.escaped = true;
                self.matched = None;
            }
            byte => {
                let is_next = |matched: &usize| BASE_KEY.get(*matched) == Some(&byte);
                self.matched = self.matched.filter(is_next).map(|matched| matched + 1);
            }
        }
    }
}
