//! The grammar of SPARQL 1.2, for locating syntax errors.
//!
//! The parser library tries many readings at once and knows only the furthest position that any of them
//! reached. A query that it refuses is read again here, token by token with one token of lookahead, by the
//! grammar of the specification. The first token that does not fit is the position of the error; the message
//! says what would fit or was probably meant. No tree is built.
//!
//! The text must be within [`crate::limits`], because brackets are read by recursion.

mod expression;
pub(crate) mod paths;
mod pattern;
mod query;
mod update;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::position::place_of;
use crate::suggest;
use crate::token::{Flaw, Kind, Lexer, Token, without_escapes};
use paths::Extensions;

/// A syntax error and its byte position.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

type Read<T = ()> = Result<T, Fault>;

/// The language of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Query,
    Update,
}

/// Returns the non-standard forms of a text up to its first error, and the error.
pub(crate) fn read(
    text: &str,
    base: Option<&str>,
    language: Language,
) -> (Extensions, Option<Fault>) {
    let mut reader = Reader::new(text, base);
    let fault = match language {
        Language::Query => reader.query(),
        Language::Update => reader.update(),
    };
    (reader.extensions, fault.err())
}

/// Reads a text token by token.
struct Reader<'t> {
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token<'t>,
    /// End of the previous token.
    last_end: usize,
    /// Brackets not closed yet.
    open: Vec<Token<'t>>,
    /// Declared prefixes with their IRIs.
    prefixes: HashMap<&'t str, &'t str>,
    /// The IRI that relative ones refer to.
    base: Option<oxiri::Iri<String>>,
    /// Labels of blank nodes in the current group, and in earlier groups.
    labels: HashSet<&'t str>,
    labels_before: HashSet<&'t str>,
    /// Variables bound so far in the current group.
    scope: HashSet<&'t str>,
    /// Variables that the current LATERAL assigns with AS or VALUES so far.
    assigned: Vec<Token<'t>>,
    /// Variables outside aggregates in the current expression, and whether it has aggregates.
    free: Vec<Token<'t>>,
    aggregates: bool,
    /// True while quads without variables are read, whose subjects cannot be literals.
    in_data: bool,
    /// True while quads to delete are read, whose reifiers need names.
    in_deleted: bool,
    /// True while the argument of an aggregate is read.
    in_aggregate: bool,
    /// True inside SERVICE: another endpoint may have other aggregates.
    in_service: bool,
    extensions: Extensions,
    /// Number of the current group, and of groups so far.
    group_number: usize,
    group_count: usize,
    /// Range of the current triple's subject if it is a single term with one verb so far.
    subject: Range<usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, base: Option<&str>) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.next();
        Self {
            text,
            lexer,
            token,
            last_end: 0,
            open: Vec::new(),
            prefixes: HashMap::new(),
            base: base.and_then(|iri| oxiri::Iri::parse(iri.to_owned()).ok()),
            labels: HashSet::new(),
            labels_before: HashSet::new(),
            scope: HashSet::new(),
            assigned: Vec::new(),
            free: Vec::new(),
            aggregates: false,
            in_data: false,
            in_deleted: false,
            in_aggregate: false,
            in_service: false,
            extensions: Extensions::default(),
            group_number: 0,
            group_count: 0,
            subject: 0..0,
        }
    }

    /// Consumes and returns the current token.
    fn take(&mut self) -> Token<'t> {
        let token = self.token;
        self.last_end = token.end;
        self.token = self.lexer.next();
        token
    }

    fn is_word(&self, word: &str) -> bool {
        self.token.kind == Kind::Word && self.token.text.eq_ignore_ascii_case(word)
    }

    fn is_sign(&self, sign: &str) -> bool {
        self.token.kind == Kind::Sign && self.token.text == sign
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.take();
        }
        found
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.take();
        }
        found
    }

    fn need_word(&mut self, word: &'static str) -> Read {
        if self.take_word(word) {
            return Ok(());
        }
        Err(self.expected_word(word, &[word]))
    }

    /// Consumes an opening bracket. [`Self::close`] must follow.
    fn open(&mut self, sign: &str, what: &str) -> Read {
        if !self.is_sign(sign) {
            return Err(self.expected(what));
        }
        let token = self.take();
        self.open.push(token);
        Ok(())
    }

    fn close(&mut self, sign: &str) -> Read {
        if self.is_sign(sign) {
            self.take();
            self.open.pop();
            return Ok(());
        }
        let opened = self.open.last().expect("closed where it was opened");
        let (line, column) = place_of(self.text, opened.start);
        let what = format!(
            "{sign} to close the {} of line {line}, column {column}",
            opened.text
        );
        Err(self.expected(&what))
    }

    fn fault<T>(&self, at: usize, message: impl Into<String>) -> Read<T> {
        let message = message.into();
        Err(Fault { at, message })
    }

    /// Returns the error for an unexpected current token.
    fn expected(&self, what: &str) -> Fault {
        let token = self.token;
        let (at, message) = match token.kind {
            Kind::Bad(flaw) => return self.flaw(token, flaw),
            Kind::End => match self.open.last() {
                Some(opened) => (
                    opened.start,
                    format!("this {} is never closed", opened.text),
                ),
                None => (
                    token.start,
                    format!("expected {what}, found the end of the text"),
                ),
            },
            Kind::Word => (
                token.start,
                format!(
                    "expected {what}, found {}; a name needs a prefix (ex:{0}), a variable ?, a string quotes",
                    token.text
                ),
            ),
            _ => (
                token.start,
                format!("expected {what}, found {}", shown(token.text)),
            ),
        };
        Fault { at, message }
    }

    /// Returns the error for an unexpected token where keywords may stand. Recognises misspelt keywords.
    fn expected_word(&self, what: &str, words: &[&'static str]) -> Fault {
        let token = self.token;
        if token.kind == Kind::Word
            && let Some(meant) = suggest::nearest(token.text, words.iter().copied())
        {
            return Fault {
                at: token.start,
                message: format!("{} is not a keyword; did you mean {meant}?", token.text),
            };
        }
        self.expected(what)
    }

    fn flaw(&self, token: Token<'t>, flaw: Flaw) -> Fault {
        let character = |at: usize| self.text[at..].chars().next().unwrap_or(' ');
        let (at, message) = match flaw {
            Flaw::OpenString => (token.start, format!("this {} is never closed", token.text)),
            Flaw::OpenIri => (
                token.start,
                "this < is never closed; an IRI ends with >".to_owned(),
            ),
            Flaw::IriCharacter(at) => match character(at) {
                ' ' => (at, "an IRI cannot contain a space; write %20".to_owned()),
                c => (
                    at,
                    format!("an IRI cannot contain {c}; write %{:02X}", c as u32),
                ),
            },
            Flaw::Escape(at) => (
                at,
                "\\ must be followed by t, b, n, r, f, \", ', \\ or u and hexadecimal digits"
                    .to_owned(),
            ),
            Flaw::Variable => (token.start, "a variable needs a name".to_owned()),
            Flaw::BlankNode => (token.start, "a blank node needs a label: _:x".to_owned()),
            Flaw::Character => (
                token.start,
                match character(token.start) {
                    '“' | '”' | '„' | '‘' | '’' => {
                        "write strings in straight quotes, \" or '".to_owned()
                    }
                    '&' => "write && for and".to_owned(),
                    c => format!("unexpected character {c}"),
                },
            ),
        };
        Fault { at, message }
    }

    fn variable(&mut self, what: &str) -> Read<Token<'t>> {
        if self.token.kind == Kind::Variable {
            return Ok(self.take());
        }
        Err(self.expected(what))
    }

    /// Reads an IRI or prefixed name.
    fn iri(&mut self, what: &str) -> Read {
        match self.token.kind {
            Kind::Iri => {
                let token = self.take();
                self.check_iri(token)
            }
            Kind::Name => {
                let token = self.take();
                let (prefix, local) = token.text.split_once(':').unwrap_or_default();
                let Some(iri) = self.prefixes.get(prefix) else {
                    return self.fault(token.start, undeclared(prefix));
                };
                match oxiri::Iri::parse(format!("{iri}{}", local.replace('\\', ""))) {
                    Err(error) if oxiri::Iri::parse(*iri).is_ok() => {
                        self.fault(token.start, format!("this is not an IRI: {error}"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Returns the IRI that a token stands for; `None` if it is relative to nothing.
    fn full_iri(&self, token: Token<'t>) -> Option<String> {
        let iri = match token.text.split_once(':') {
            Some((prefix, local)) if token.kind == Kind::Name => {
                let start = without_escapes(self.prefixes.get(prefix)?);
                format!("{start}{}", local.replace('\\', ""))
            }
            _ => without_escapes(token.text.trim_matches(['<', '>'])).into_owned(),
        };
        let full = match &self.base {
            Some(base) => base.resolve(&iri),
            None => oxiri::Iri::parse(iri),
        };
        full.ok().map(oxiri::Iri::into_inner)
    }

    fn is_iri(&self) -> bool {
        matches!(self.token.kind, Kind::Iri | Kind::Name)
    }

    fn check_iri(&self, token: Token<'t>) -> Read {
        let iri = &*without_escapes(&token.text[1..token.text.len() - 1]);
        let wrong = if self.base.is_some() {
            oxiri::IriRef::parse(iri).err()
        } else {
            oxiri::Iri::parse(iri).err()
        };
        match wrong {
            None => Ok(()),
            Some(_) if self.base.is_none() && oxiri::IriRef::parse(iri).is_ok() => {
                let message = "this IRI is relative; write it in full, or add BASE <…>";
                self.fault(token.start, message)
            }
            Some(error) => self.fault(token.start, format!("this is not an IRI: {error}")),
        }
    }
}

/// Shortens a token for a message.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    if line.len() == text.len() && line.chars().count() <= SHOWN_MAX {
        return line.to_owned();
    }
    let start: String = line.chars().take(SHOWN_MAX).collect();
    format!("{start}…")
}

fn undeclared(prefix: &str) -> String {
    let iri = suggest::prefix_iri(prefix).unwrap_or("…");
    format!("the prefix {prefix}: is not declared; add PREFIX {prefix}: <{iri}>")
}
