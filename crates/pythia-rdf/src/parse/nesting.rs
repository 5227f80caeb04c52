//! Bounds how deep brackets may nest in N-Triples, Turtle, TriG and JSON-LD.
//!
//! Parsers keep a stack of what is open, and triple terms are dropped by recursion, so memory and stack
//! grow with the nesting. These scanners follow just enough of the syntax (strings, IRIs, comments,
//! escapes) to count open brackets, and refuse text before the parser gets it.

use super::watch::{Refusal, Watch};
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
}

impl Watch for TurtleNesting {
    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal> {
        for (offset, &byte) in text.iter().enumerate() {
            self.state = self.next(byte);
            if self.triples > TRIPLE_NESTING_MAX {
                return Err(too_deep(offset, "triple terms", TRIPLE_NESTING_MAX));
            }
            if self.brackets > BRACKETS_MAX {
                return Err(too_deep(offset, "brackets", BRACKETS_MAX));
            }
        }
        Ok(())
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
        }
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
            State::Iri if byte == b'>' => State::Text,
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
            b']' | b')' | b'}' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        State::Text
    }
}

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
}

impl Watch for JsonNesting {
    fn scan(&mut self, text: &[u8]) -> Result<(), Refusal> {
        for (offset, &byte) in text.iter().enumerate() {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                self.in_string = byte != b'"';
                self.escaped = byte == b'\\';
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'[' | b'{' => self.brackets += 1,
                    b']' | b'}' => self.brackets = self.brackets.saturating_sub(1),
                    _ => {}
                }
                if self.brackets > BRACKETS_MAX {
                    return Err(too_deep(offset, "brackets", BRACKETS_MAX));
                }
            }
        }
        Ok(())
    }
}
