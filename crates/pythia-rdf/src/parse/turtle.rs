//! Watch for N-Triples, Turtle and TriG on the way to oxttl. It limits the nesting of brackets and finds blank
//! text, the declared base IRIs and the ends of statements.
//!
//! Parsers keep a stack of open brackets, and triple terms are dropped by recursion, so memory and stack use grow
//! with the nesting.

mod lexer;
mod statements;

use std::borrow::Cow;

use self::lexer::{Lexer, LexerMode};
pub(crate) use self::statements::Mark;
use self::statements::{Depth, Statements};
use super::editor::Editor;
use super::watch::{BRACKETS_MAX, Refusal, Watch, replacement_of_base, too_deep};
use crate::triple_text::NESTING_MAX as TRIPLE_NESTING_MAX;

/// LexerMode of the watch over a Turtle or TriG text.
#[derive(Debug)]
pub(crate) struct TurtleText {
    lexer: Lexer,
    /// `None` if the ends of statements are not wanted.
    statements: Option<Statements>,
    is_lenient: bool,
    /// True if the rest of the text stays unchanged.
    is_left_alone: bool,
    in_blank: bool,
    in_base: bool,
    /// Beginning of a character whose end is in the next piece.
    partial: Vec<u8>,
}

/// Checks that the brackets of a line of N-Triples or N-Quads do not nest too deeply.
pub(crate) fn check_nesting(line: &[u8]) -> Result<(), Refusal> {
    let mut lexer = Lexer::new();
    for (offset, &byte) in line.iter().enumerate() {
        lexer.next(byte);
        check_depth(&lexer, offset)?;
    }
    Ok(())
}

fn check_depth(lexer: &Lexer, offset: usize) -> Result<(), Refusal> {
    if lexer.triples > TRIPLE_NESTING_MAX {
        return Err(too_deep(offset, "triple terms", TRIPLE_NESTING_MAX));
    }
    if lexer.brackets > BRACKETS_MAX {
        return Err(too_deep(offset, "brackets", BRACKETS_MAX));
    }
    Ok(())
}

impl Watch for TurtleText {
    fn pass(&mut self, piece: &[u8], editor: &mut Editor) -> Result<(), Refusal> {
        if self.is_lenient && !self.is_left_alone && !self.is_utf8(piece) {
            self.leave_alone(piece, 0, editor);
        }
        let mut at = 0;
        while at < piece.len() {
            let before = (self.lexer.mode, Depth::of(&self.lexer));
            self.lexer.next(piece[at]);
            check_depth(&self.lexer, at)?;
            if !self.is_left_alone {
                self.edit(before.0, piece, at, editor);
            }
            if let Some(statements) = &mut self.statements {
                statements.pass(before, &self.lexer, (piece, at), editor);
            }
            at += 1;
            at += match self.lexer.mode {
                LexerMode::Text | LexerMode::Comment if self.in_blank => self.blank(&piece[at..]),
                _ => self.lexer.skip(&piece[at..]),
            };
        }
        Ok(())
    }
}

impl TurtleText {
    /// Creates a watch. In lenient mode the parser continues after an error.
    pub(crate) fn new(is_lenient: bool) -> Self {
        Self {
            lexer: Lexer::new(),
            statements: (!is_lenient).then(Statements::new),
            is_lenient,
            is_left_alone: false,
            in_blank: false,
            in_base: false,
            partial: Vec::new(),
        }
    }

    /// Takes the marks of statements since the last call. In lenient mode there are none, because the parser goes on after an
    /// error at a place that is not known here.
    pub(crate) fn take_marks(&mut self) -> Vec<Mark> {
        let statements = self.statements.as_mut();
        statements.map_or_else(Vec::new, Statements::take_marks)
    }

    /// Looks for no more ends of statements.
    pub(crate) fn end_marks(&mut self) {
        self.statements = None;
    }

    /// Skips the blank text at the beginning of `text` and returns its length.
    fn blank(&mut self, text: &[u8]) -> usize {
        let mut at = 0;
        loop {
            at += match self.lexer.mode {
                LexerMode::Comment => self.lexer.skip(&text[at..]),
                _ => white_space(&text[at..]),
            };
            match (self.lexer.mode, text.get(at)) {
                (LexerMode::Comment, Some(_)) => self.lexer.mode = LexerMode::Text,
                (LexerMode::Text, Some(b'#')) => self.lexer.mode = LexerMode::Comment,
                _ => return at,
            }
            at += 1;
        }
    }

    /// Reports to the editor which part the byte begins or ends.
    fn edit(&mut self, before: LexerMode, piece: &[u8], at: usize, editor: &mut Editor) {
        if self.is_lenient && self.lexer.is_irregular {
            return self.leave_alone(piece, at, editor);
        }
        let after = self.lexer.mode;
        let in_blank = before == LexerMode::Comment
            || after == LexerMode::Comment
            || after == LexerMode::Text && is_white(piece[at]);
        match (self.in_blank, in_blank) {
            (false, true) => editor.begin_blank(at),
            (true, false) => editor.end_blank(piece, at),
            _ => {}
        }
        self.in_blank = in_blank;
        match (before, after) {
            (LexerMode::Less, LexerMode::Iri) if self.lexer.is_base => {
                self.in_base = true;
                editor.begin_base(at);
            }
            (LexerMode::Iri, LexerMode::Text) if self.in_base => {
                self.in_base = false;
                editor.end_base(piece, at, true, |iri| {
                    replacement_of_base(iri, b'>', unescaped)
                });
            }
            _ => {}
        }
    }

    /// Leaves the rest of the text unchanged. After an error the parser continues at a position that is not known
    /// here, so the watch cannot tell what is inside a string.
    fn leave_alone(&mut self, piece: &[u8], at: usize, editor: &mut Editor) {
        self.is_left_alone = true;
        if self.in_blank {
            editor.end_blank(piece, at);
        }
        editor.leave_base();
        (self.in_blank, self.in_base) = (false, false);
    }

    fn is_utf8(&mut self, piece: &[u8]) -> bool {
        let mut text = Cow::Borrowed(piece);
        if !self.partial.is_empty() {
            text.to_mut().splice(0..0, self.partial.drain(..));
        }
        match std::str::from_utf8(&text) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                self.partial.extend_from_slice(&text[error.valid_up_to()..]);
                true
            }
        }
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Returns the length of the white space at the beginning of a text.
fn white_space(text: &[u8]) -> usize {
    let length = text.iter().position(|byte| !is_white(*byte));
    length.unwrap_or(text.len())
}

/// Returns the IRI that is written as `text` between `<` and `>`, or `None` if an escape is invalid.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut parts = text.split('\\');
    let mut iri = parts.next()?.to_owned();
    for part in parts {
        let digits = match part.as_bytes().first()? {
            b'u' => 4,
            b'U' => 8,
            _ => return None,
        };
        let hex = part.get(1..=digits)?;
        if !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        iri.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
        iri.push_str(&part[digits + 1..]);
    }
    Some(Cow::Owned(iri))
}
