//! Lexer for the part of Turtle's syntax that is needed to separate tokens in the same way as oxttl.

use memchr::{memchr, memchr2, memchr3};

/// LexerMode within a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexerMode {
    /// Between tokens.
    Text,
    /// In a prefixed name, a blank node label or a keyword.
    Word,
    /// After `@`.
    Tag,
    Number,
    /// After a dot that may end a statement or be part of a number.
    Dot {
        in_number: bool,
    },
    /// After one `<`, which begins an IRI or is the first of two.
    Less,
    /// After one `>`.
    Greater,
    Iri,
    Comment,
    /// After `count` quotes (1 or 2) that may open a string.
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
    /// After a backslash in a name.
    Escape,
    StringEscape {
        quote: u8,
        long: bool,
    },
}

/// The last token, as far as it decides the meaning of `@base` and of the next IRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// `@base` or `BASE`: an IRI that follows is declared as the base. Where no statement may begin, oxttl reports
    /// an error here and does not use the IRI.
    Base,
    /// `PREFIX` as a whole word.
    Prefix,
    Version,
    /// String after `VERSION`, which therefore has no language.
    VersionString,
    /// String after which `@base` is a language tag.
    String,
    Other,
}

/// Kind of declaration that a keyword without `@` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// `BASE` or `PREFIX`: the next IRI ends the declaration.
    Iri,
    /// `VERSION`: the next string ends it.
    Version,
}

/// Length of the word buffer. It is longer than every word that matters.
const WORD_BYTES_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Lexer {
    pub(super) mode: LexerMode,
    pub(super) brackets: usize,
    pub(super) triples: usize,
    /// True if the current IRI is declared as the base.
    pub(super) is_base: bool,
    /// True if there was a token with an error after which oxttl continues at a position that is not known here.
    pub(super) is_irregular: bool,
    /// True if the byte before the current one was a dot that ends a statement.
    pub(super) after_statement: bool,
    last: Token,
    /// True if the last byte of the word is a dot, which is part of the word only if another byte follows.
    ends_in_dot: bool,
    /// Beginning of the current word or tag.
    word: [u8; WORD_BYTES_MAX],
    word_bytes: usize,
    /// True if the previous byte was the first colon of the word.
    after_prefix: bool,
    has_prefix: bool,
    /// True if the previous byte was a backslash in an IRI.
    in_iri_escape: bool,
    /// Number of digits still missing in an escape. `code` is the value of the escape so far.
    digits: u8,
    code: u32,
}

impl Lexer {
    pub(super) fn new() -> Self {
        Self {
            mode: LexerMode::Text,
            brackets: 0,
            triples: 0,
            is_base: false,
            is_irregular: false,
            after_statement: false,
            last: Token::Other,
            ends_in_dot: false,
            word: [0; WORD_BYTES_MAX],
            word_bytes: 0,
            after_prefix: false,
            has_prefix: false,
            in_iri_escape: false,
            digits: 0,
            code: 0,
        }
    }

    /// Returns the number of bytes at the beginning of `text` that do not change the mode.
    pub(super) fn skip(&self, text: &[u8]) -> usize {
        if self.digits > 0 || self.in_iri_escape {
            return 0;
        }
        let length = match self.mode {
            LexerMode::Comment => memchr2(b'\n', b'\r', text),
            LexerMode::Iri => memchr2(b'>', b'\\', text),
            LexerMode::LongString { quote, closing: 0 } => memchr2(quote, b'\\', text),
            LexerMode::String { quote } => {
                let length = memchr3(quote, b'\\', b'\n', text).unwrap_or(text.len());
                Some(memchr(b'\r', &text[..length]).unwrap_or(length))
            }
            // With a colon before it, the rest of a name is no keyword. Dots, colons and escapes are looked at one by one.
            LexerMode::Word if self.has_prefix && !self.after_prefix && !self.ends_in_dot => text
                .iter()
                .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-')),
            _ => return 0,
        };
        length.unwrap_or(text.len())
    }

    /// Returns the kind of declaration that the word begins which the current byte has ended.
    pub(super) fn declared(&self) -> Option<Declared> {
        match self.last {
            Token::Base | Token::Prefix => Some(Declared::Iri),
            Token::Version => Some(Declared::Version),
            _ => None,
        }
    }

    /// Processes the next byte.
    pub(super) fn next(&mut self, byte: u8) {
        self.after_statement = false;
        if self.digits > 0 {
            self.digit(byte);
        }
        self.mode = match self.mode {
            LexerMode::Text => self.text(byte),
            LexerMode::Word => self.word(byte),
            LexerMode::Tag => self.tag(byte),
            LexerMode::Number => match byte {
                b'0'..=b'9' | b'e' | b'E' | b'+' | b'-' => LexerMode::Number,
                b'.' => LexerMode::Dot { in_number: true },
                _ => self.text(byte),
            },
            LexerMode::Dot { in_number } => match byte {
                b'0'..=b'9' => LexerMode::Number,
                b'e' | b'E' if in_number => LexerMode::Number,
                _ => {
                    self.after_statement = true;
                    self.text(byte)
                }
            },
            LexerMode::Less => self.less(byte),
            LexerMode::Greater if byte == b'>' => {
                self.triples = self.triples.saturating_sub(1);
                LexerMode::Text
            }
            LexerMode::Greater => self.text(byte),
            LexerMode::Iri => self.iri(byte),
            LexerMode::Comment if matches!(byte, b'\n' | b'\r') => LexerMode::Text,
            LexerMode::Comment => LexerMode::Comment,
            LexerMode::Opening { quote, count } => match (byte == quote, count) {
                (true, 1) => LexerMode::Opening { quote, count: 2 },
                (true, _) => LexerMode::LongString { quote, closing: 0 },
                (false, 1) => self.string(byte, quote),
                (false, _) => {
                    self.end_string(); // an empty string
                    self.text(byte)
                }
            },
            LexerMode::String { quote } => self.string(byte, quote),
            LexerMode::LongString { quote, closing } => match byte {
                b'\\' => LexerMode::StringEscape { quote, long: true },
                _ if byte != quote => LexerMode::LongString { quote, closing: 0 },
                _ if closing == 2 => self.end_string(),
                _ => LexerMode::LongString {
                    quote,
                    closing: closing + 1,
                },
            },
            LexerMode::Escape => {
                self.is_irregular |= !b"_~.-!$&'()*+,;=/?#@%".contains(&byte);
                LexerMode::Word
            }
            LexerMode::StringEscape { quote, long } => {
                match byte {
                    b't' | b'b' | b'n' | b'r' | b'f' | b'"' | b'\'' | b'\\' => {}
                    _ => self.begin_digits(byte),
                }
                match long {
                    true => LexerMode::LongString { quote, closing: 0 },
                    false => LexerMode::String { quote },
                }
            }
        };
    }

    /// Processes the first byte of a token, or a byte between tokens.
    fn text(&mut self, byte: u8) -> LexerMode {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return LexerMode::Text,
            b'#' => return LexerMode::Comment,
            b'<' => return LexerMode::Less,
            b'"' | b'\'' => {
                return LexerMode::Opening {
                    quote: byte,
                    count: 1,
                };
            }
            b'@' => {
                self.word_bytes = 0;
                return LexerMode::Tag;
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':' | 0x80.. => {
                (self.word_bytes, self.has_prefix) = (0, false);
                self.ends_in_dot = false;
                return self.word(byte);
            }
            _ => {}
        }
        self.last = Token::Other;
        match byte {
            b'>' => return LexerMode::Greater,
            b'.' => return LexerMode::Dot { in_number: false },
            b'0'..=b'9' | b'+' | b'-' => return LexerMode::Number,
            b'[' | b'(' | b'{' => self.brackets += 1,
            b']' | b')' | b'}' => self.brackets = self.brackets.saturating_sub(1),
            b'\\' => self.is_irregular = true,
            _ => {}
        }
        LexerMode::Text
    }

    fn word(&mut self, byte: u8) -> LexerMode {
        let after_prefix = std::mem::take(&mut self.after_prefix);
        match byte {
            // A local name cannot begin with a dot.
            b'.' if after_prefix => {
                self.last = Token::Other;
                return LexerMode::Dot { in_number: false };
            }
            b':' if !self.has_prefix => (self.has_prefix, self.after_prefix) = (true, true),
            b'\\' => {
                self.is_irregular |= !self.has_prefix;
                self.ends_in_dot = false;
                self.note(byte);
                return LexerMode::Escape;
            }
            b'%' => self.begin_escaped_byte(),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':' | 0x80.. => {}
            _ => {
                self.after_statement = self.ends_in_dot;
                self.last = match &self.word[..self.word_bytes.min(WORD_BYTES_MAX)] {
                    word if word.eq_ignore_ascii_case(b"base") => Token::Base,
                    word if word.eq_ignore_ascii_case(b"prefix") => Token::Prefix,
                    word if word.eq_ignore_ascii_case(b"version") => Token::Version,
                    _ => Token::Other,
                };
                return self.text(byte);
            }
        }
        self.ends_in_dot = byte == b'.';
        self.note(byte);
        LexerMode::Word
    }

    fn tag(&mut self, byte: u8) -> LexerMode {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            self.note(byte);
            return LexerMode::Tag;
        }
        let is_base = self.word_bytes == 4 && self.word.starts_with(b"base");
        self.last = match self.last {
            Token::String => Token::Other,
            _ if is_base => Token::Base,
            _ => Token::Other,
        };
        self.text(byte)
    }

    /// Adds a byte to the word.
    fn note(&mut self, byte: u8) {
        if let Some(place) = self.word.get_mut(self.word_bytes) {
            *place = byte;
        }
        self.word_bytes = self.word_bytes.saturating_add(1);
    }

    fn less(&mut self, byte: u8) -> LexerMode {
        self.is_base = self.last == Token::Base;
        self.last = Token::Other;
        match byte {
            b'<' => {
                self.triples += 1;
                LexerMode::Text
            }
            b'>' => LexerMode::Text,
            _ => self.iri(byte),
        }
    }

    fn iri(&mut self, byte: u8) -> LexerMode {
        if std::mem::take(&mut self.in_iri_escape) {
            self.begin_digits(byte);
        }
        match byte {
            b'>' => return LexerMode::Text,
            b'\\' => self.in_iri_escape = true,
            _ => {}
        }
        LexerMode::Iri
    }

    fn string(&mut self, byte: u8, quote: u8) -> LexerMode {
        match byte {
            b'\\' => return LexerMode::StringEscape { quote, long: false },
            b'\n' | b'\r' => self.is_irregular = true,
            _ if byte == quote => return self.end_string(),
            _ => {}
        }
        LexerMode::String { quote }
    }

    fn end_string(&mut self) -> LexerMode {
        self.last = match self.last {
            Token::Version => Token::VersionString,
            _ => Token::String,
        };
        LexerMode::Text
    }

    /// Processes the byte after the backslash of a numeric escape.
    fn begin_digits(&mut self, byte: u8) {
        self.code = 0;
        match byte {
            b'u' => self.digits = 4,
            b'U' => self.digits = 8,
            _ => self.is_irregular = true,
        }
    }

    /// Processes `%`, after which two digits follow.
    fn begin_escaped_byte(&mut self) {
        (self.code, self.digits) = (0, 2);
    }

    fn digit(&mut self, byte: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            (self.is_irregular, self.digits) = (true, 0);
            return;
        };
        self.code = self.code << 4 | digit;
        self.digits -= 1;
        self.is_irregular |= self.digits == 0 && char::from_u32(self.code).is_none();
    }
}
