//! The tokens of a query.
//!
//! Used only where the parser's own information is not enough: to locate errors, and to enforce the limits on
//! a query's size.

use std::borrow::Cow;

/// A token with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    /// Byte range.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: &'t str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword, the name of a function, or a word that is neither.
    Word,
    Iri,
    /// `prefix:local`, or `prefix:` alone.
    Name,
    BlankNode,
    Variable,
    String,
    Language,
    Integer,
    /// A decimal or double.
    Number,
    Sign,
    /// An invalid or unterminated token, with the reason.
    Bad(Flaw),
    End,
}

/// The reason why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A string without its closing quotes.
    OpenString,
    /// An IRI without `>`.
    OpenIri,
    /// An IRI with a forbidden character, at this byte of the text.
    IriCharacter(usize),
    /// `\` before a character that cannot be escaped, at this byte of the text.
    Escape(usize),
    /// A variable without a name.
    Variable,
    /// A blank node without a label.
    BlankNode,
    Character,
}

/// Returns the tokens of a text up to the first invalid one. An invalid IRI is read as a comparison.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || {
        let token = lexer.next();
        match token.kind {
            Kind::Bad(_) if token.text.starts_with('<') => Some(lexer.less_than(token)),
            Kind::Bad(_) | Kind::End => None,
            _ => Some(token),
        }
    })
}

/// Reads tokens one after the other. Never fails.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the next token, or [`Kind::End`] at the end and after it.
    pub(crate) fn next(&mut self) -> Token<'t> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let (kind, length) = match rest.chars().next() {
            None => (Kind::End, 0),
            Some(c) => self.token(rest, c),
        };
        self.take(kind, length)
    }

    /// Reads the `<` or `<=` at the start of an invalid IRI as a sign instead.
    pub(crate) fn less_than(&mut self, token: Token<'t>) -> Token<'t> {
        self.at = token.start;
        let length = if token.text.starts_with("<=") { 2 } else { 1 };
        self.take(Kind::Sign, length)
    }

    fn take(&mut self, kind: Kind, length: usize) -> Token<'t> {
        let start = self.at;
        self.at += length;
        Token {
            kind,
            start,
            end: self.at,
            text: &self.text[start..self.at],
        }
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        loop {
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            self.at += bytes[self.at..].iter().take_while(|b| space(b)).count();
            if bytes.get(self.at) != Some(&b'#') {
                return;
            }
            let end = |byte: &u8| matches!(byte, b'\r' | b'\n');
            self.at += bytes[self.at..].iter().take_while(|b| !end(b)).count();
        }
    }

    /// Returns the kind and length of the token at the start of `rest`.
    fn token(&self, rest: &str, first: char) -> (Kind, usize) {
        match first {
            '"' | '\'' => self.string(rest, first),
            '<' if !rest.starts_with("<<") => self.iri(rest),
            '?' | '$' => {
                let name = prefix_length(&rest[1..], is_variable_character);
                match (name, first) {
                    (0, '?') => (Kind::Sign, 1),
                    (0, _) => (Kind::Bad(Flaw::Variable), 1),
                    (length, _) => (Kind::Variable, 1 + length),
                }
            }
            '@' => {
                let length = prefix_length(&rest[1..], |c| c.is_ascii_alphanumeric() || c == '-');
                (Kind::Language, 1 + length)
            }
            '_' if rest.starts_with("_:") => {
                let starts = rest[2..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
                match starts {
                    true => (Kind::BlankNode, 2 + dotted_length(&rest[2..], is_name)),
                    false => (Kind::Bad(Flaw::BlankNode), 2),
                }
            }
            '0'..='9' => number(rest),
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => number(rest),
            ':' => (Kind::Name, name_length(rest, 0)),
            c if c.is_alphabetic() || c == '_' => {
                let prefix = dotted_length(rest, is_name);
                if c != '_' && rest[prefix..].starts_with(':') {
                    return (Kind::Name, name_length(rest, prefix));
                }
                (
                    Kind::Word,
                    prefix_length(rest, |c| c.is_alphanumeric() || c == '_'),
                )
            }
            c => match sign_length(rest.as_bytes()) {
                Some(length) => (Kind::Sign, length),
                None => (Kind::Bad(Flaw::Character), c.len_utf8()),
            },
        }
    }

    fn string(&self, rest: &str, quote: char) -> (Kind, usize) {
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        let long = rest.starts_with(triple);
        let delimiter = if long { triple } else { &triple[..1] };
        let bytes = rest.as_bytes();
        let mut at = delimiter.len();
        let mut flaw = None;
        while at < bytes.len() {
            if rest[at..].starts_with(delimiter) {
                return (flaw.map_or(Kind::String, Kind::Bad), at + delimiter.len());
            }
            let c = rest[at..]
                .chars()
                .next()
                .expect("before the end, between characters");
            match c {
                '\n' | '\r' if !long => break,
                '\\' => {
                    let escaped = rest[at + 1..].chars().next();
                    let is_short = escaped.is_some_and(|c| "tbnrf\"'\\".contains(c));
                    if !is_short && code_point(&rest[at..]).is_none() {
                        flaw = flaw.or(Some(Flaw::Escape(self.at + at)));
                    }
                    at += 1 + escaped.map_or(0, char::len_utf8);
                }
                c => at += c.len_utf8(),
            }
        }
        (Kind::Bad(Flaw::OpenString), delimiter.len())
    }

    /// Reads an IRI, or `<` if the following text cannot be an IRI.
    fn iri(&self, rest: &str) -> (Kind, usize) {
        let is_forbidden =
            |b: u8| b <= b' ' || matches!(b, b'<' | b'>' | b'"' | b'{' | b'}' | b'|' | b'^' | b'`');
        let inside = &rest[1..];
        let stop = inside.bytes().position(is_forbidden);
        let stop = stop.unwrap_or(inside.len());
        if inside[stop..].starts_with('>') {
            let escape = inside[..stop]
                .match_indices('\\')
                .find(|(at, _)| code_point(&inside[*at..]).is_none());
            return match escape {
                Some((at, _)) => (Kind::Bad(Flaw::Escape(self.at + 1 + at)), stop + 2),
                None => (Kind::Iri, stop + 2),
            };
        }
        // With a scheme, it is meant as an IRI.
        let scheme = prefix_length(inside, |c| c.is_ascii_alphanumeric());
        if !(inside[scheme..].starts_with("://")
            || inside.starts_with("urn:")
            || inside.starts_with("mailto:"))
        {
            return (Kind::Sign, if inside.starts_with('=') { 2 } else { 1 });
        }
        // A limited distance, because a text may have very many of these.
        const LENGTH_MAX: usize = 1000;
        let mut line = inside.char_indices().take(LENGTH_MAX);
        let end = line.find(|(_, c)| "\r\n>".contains(*c));
        match end.filter(|(_, c)| *c == '>') {
            Some((end, _)) => (Kind::Bad(Flaw::IriCharacter(self.at + 1 + stop)), end + 2),
            None => (Kind::Bad(Flaw::OpenIri), 1 + stop),
        }
    }
}

/// Returns the length of the sign at the start of a text.
fn sign_length(text: &[u8]) -> Option<usize> {
    Some(match text {
        [b'<', b'<', b'(', ..] | [b')', b'>', b'>', ..] => 3,
        [b'<', b'<' | b'=', ..]
        | [b'>', b'>' | b'=', ..]
        | [b'{', b'|', ..]
        | [b'|', b'}' | b'|', ..]
        | [b'^', b'^', ..]
        | [b'&', b'&', ..]
        | [b'!', b'=', ..] => 2,
        [
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'.' | b';' | b',' | b'*' | b'/' | b'|'
            | b'^' | b'!' | b'+' | b'-' | b'=' | b'<' | b'>' | b'~' | b'?',
            ..,
        ] => 1,
        _ => return None,
    })
}

/// Returns the character that an escape `\uXXXX` or `\UXXXXXXXX` at the start of the text stands for, and the
/// length of the escape.
fn code_point(text: &str) -> Option<(char, usize)> {
    let length = match text.as_bytes().get(1)? {
        b'u' => 6,
        b'U' => 10,
        _ => return None,
    };
    let digits = text.get(2..length)?;
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok();
    let character = code.filter(|_| is_hexadecimal).and_then(char::from_u32)?;
    Some((character, length))
}

/// Replaces the escapes of an IRI by their characters.
pub(crate) fn without_escapes(iri: &str) -> Cow<'_, str> {
    let Some(first) = iri.find('\\') else {
        return Cow::Borrowed(iri);
    };
    let (mut text, mut rest) = (iri[..first].to_owned(), &iri[first..]);
    while let Some(c) = rest.chars().next() {
        let (c, length) = code_point(rest)
            .filter(|_| c == '\\')
            .unwrap_or((c, c.len_utf8()));
        text.push(c);
        rest = &rest[length..];
    }
    Cow::Owned(text)
}

fn prefix_length(text: &str, is_in: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_in(c)).unwrap_or(text.len())
}

fn is_variable_character(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    c.is_alphanumeric()
        || matches!(
            c,
            '\u{b7}' | '\u{203f}' | '\u{2040}' | '\u{300}'..='\u{36f}'
        )
}

fn is_name(c: char) -> bool {
    is_variable_character(c) || c == '-'
}

/// Returns the length of a name with inner dots, but none at the end.
fn dotted_length(text: &str, is_in: impl Fn(char) -> bool) -> usize {
    let length = prefix_length(text, |c| is_in(c) || c == '.');
    text[..length].trim_end_matches('.').len()
}

/// Returns the length of a prefixed name whose colon is at `colon`.
fn name_length(text: &str, colon: usize) -> usize {
    let local = &text[colon + 1..];
    let is_later = |c: char| c == '.' || is_name(c) && !c.is_alphanumeric() && c != '_';
    if local.starts_with(is_later) {
        return colon + 1;
    }
    // A dot belongs to the name only if something follows it.
    let (mut at, mut end) = (0, 0);
    while let Some(c) = local[at..].chars().next() {
        let escaped = local[at + c.len_utf8()..].chars().next();
        match c {
            '.' => at += 1,
            '\\' if escaped.is_some_and(|c| "_~.-!$&'()*+,;=/?#@%".contains(c)) => {
                at += 2;
                end = at;
            }
            c if is_name(c) || c == ':' || c == '%' => {
                at += c.len_utf8();
                end = at;
            }
            _ => break,
        }
    }
    colon + 1 + end
}

fn number(text: &str) -> (Kind, usize) {
    let digits = |from: usize| prefix_length(&text[from..], |c| c.is_ascii_digit());
    let mut length = digits(0);
    let mut kind = Kind::Integer;
    if text[length..].starts_with('.') {
        let fraction = digits(length + 1);
        let exponent = text[length + 1..].starts_with(['e', 'E']);
        if fraction > 0 || exponent && exponent_length(&text[length + 1..]) > 0 {
            length += 1 + fraction;
            kind = Kind::Number;
        }
    }
    let exponent = exponent_length(&text[length..]);
    if exponent > 0 {
        kind = Kind::Number;
    }
    (kind, length + exponent)
}

/// Returns the length of an exponent, or 0 if there is none.
fn exponent_length(text: &str) -> usize {
    if !text.starts_with(['e', 'E']) {
        return 0;
    }
    let sign = usize::from(text[1..].starts_with(['+', '-']));
    match prefix_length(&text[1 + sign..], |c| c.is_ascii_digit()) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(text);
        std::iter::from_fn(|| Some(lexer.next()))
            .take_while(|token| token.kind != Kind::End)
            .map(|token| (token.kind, token.text))
            .collect()
    }

    #[test]
    fn tokens_are_told_apart() {
        use Kind::{BlankNode, Integer, Iri, Language, Name, Number, Sign, String, Variable, Word};
        for (text, expected) in [
            ("a:b.c.", vec![(Name, "a:b.c"), (Sign, ".")]),
            (
                "_:x.y. # z\n:",
                vec![(BlankNode, "_:x.y"), (Sign, "."), (Name, ":")],
            ),
            (
                "1.5.2e3 1.",
                vec![
                    (Number, "1.5"),
                    (Number, ".2e3"),
                    (Integer, "1"),
                    (Sign, "."),
                ],
            ),
            (
                "?x<?y",
                vec![(Variable, "?x"), (Sign, "<"), (Variable, "?y")],
            ),
            ("<a>?b", vec![(Iri, "<a>"), (Variable, "?b")]),
            (
                "<a>?/b",
                vec![(Iri, "<a>"), (Sign, "?"), (Sign, "/"), (Word, "b")],
            ),
            (
                "'a\\'#'@en--ltr",
                vec![(String, "'a\\'#'"), (Language, "@en--ltr")],
            ),
            ("\"\"\"a\"\nb\"\"\"", vec![(String, "\"\"\"a\"\nb\"\"\"")]),
            ("<<(x)>>", vec![(Sign, "<<("), (Word, "x"), (Sign, ")>>")]),
            ("p:a\\,b,", vec![(Name, "p:a\\,b"), (Sign, ",")]),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_in_a_token_is_found() {
        for (text, flaw) in [
            ("'abc\n'", Flaw::OpenString),
            ("\"\"\"abc\"\"", Flaw::OpenString),
            ("'a\\xb'", Flaw::Escape(2)),
            ("<http://e/a b>", Flaw::IriCharacter(11)),
            ("<http://e/a\n", Flaw::OpenIri),
            ("$ x", Flaw::Variable),
            ("“x”", Flaw::Character),
        ] {
            assert_eq!(kinds(text)[0].0, Kind::Bad(flaw), "{text}");
        }
    }
}
