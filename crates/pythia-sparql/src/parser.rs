//! The order in which a text is read: by the parser library, and by the grammar.
//!
//! The parser library builds the algebra; its messages are for programmers. The grammar reads a text that may
//! have PATHS forms, which the library does not know, and a text that the library refuses: it finds the
//! position and the reason, or a form to rewrite.

use std::borrow::Cow;

use pythia_rdf::base::without_dot_segments;
use spargebra::{SparqlParser, SparqlSyntaxError};

use crate::aggregates;
use crate::error::SparqlError;
use crate::grammar::{self, Fault, Language};
use crate::paths::{self, Rewritten};
use crate::position::syntax;
use crate::token::{Kind, Token, tokens};

/// Message for a text that the library refuses and the grammar accepts, if there is one: an error of either.
pub(crate) const UNEXPLAINED: &str = "this text cannot be parsed";
/// Characters of the library's message that are shown in that case.
const MESSAGE_CHARS_MAX: usize = 100;

/// The reason why a text cannot be parsed.
pub(crate) enum Failure {
    /// The parser library refuses it, with this message.
    Refused(String),
    Error(SparqlError),
}

impl From<SparqlError> for Failure {
    fn from(error: SparqlError) -> Self {
        Self::Error(error)
    }
}

impl From<SparqlSyntaxError> for Failure {
    fn from(error: SparqlSyntaxError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// The text fails a check after the library has parsed it.
impl From<&'static str> for Failure {
    fn from(message: &'static str) -> Self {
        Self::Refused(message.to_owned())
    }
}

/// Parses a text with `parse`, which gets it in standard SPARQL.
pub(crate) fn read<T>(
    text: &str,
    base: Option<&str>,
    language: Language,
    mut parse: impl FnMut(&Rewritten<'_>) -> Result<T, Failure>,
) -> Result<T, SparqlError> {
    let at = |fault: Fault| syntax(text, fault.at, fault.message);
    let mut rewritten = None;
    if may_need_rewriting(text) {
        let (extensions, fault) = grammar::read(text, base, language);
        match fault {
            None => rewritten = paths::rewrite(text, &extensions).map_err(at)?,
            Some(fault) if extensions.is_used() => return Err(at(fault)),
            // The parser library decides about standard forms.
            Some(_) => {}
        }
    }
    loop {
        let is_rewritten = rewritten.is_some();
        let standard = rewritten.unwrap_or_else(|| Rewritten::unchanged(text));
        let message = match parse(&standard) {
            Ok(parsed) => return Ok(parsed),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Refused(message)) => message,
        };
        let (extensions, fault) = grammar::read(&standard.text, base, language);
        if let Some(fault) = fault {
            return Err(syntax(text, standard.original(fault.at), fault.message));
        }
        // The library refuses names that a grouped SELECT reuses.
        rewritten = match is_rewritten {
            true => None,
            false => paths::rewrite(text, &extensions).map_err(at)?,
        };
        if rewritten.is_none() {
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            return Err(syntax(text, 0, format!("{UNEXPLAINED}: {message}")));
        }
    }
}

/// Returns whether the text may have a form that the library does not know, or misunderstands.
pub(crate) fn may_need_rewriting(text: &str) -> bool {
    let bytes = text.as_bytes();
    let starts = |at: usize, sign: &str| {
        let found = bytes.get(at..at + sign.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(sign.as_bytes()))
    };
    let is_sign = |(at, byte): (usize, &u8)| match byte {
        b'p' | b'P' => starts(at, "paths") || starts(at, "pathfilter"),
        b'?' => starts(at, "??"),
        b'g' | b'G' => starts(at, "group") && may_rename_key(&text[at..]),
        _ => false,
    };
    bytes.iter().enumerate().any(is_sign)
}

/// Returns whether a GROUP BY at the start of the text may have a key that is a variable with another name.
fn may_rename_key(text: &str) -> bool {
    const NEXT: [&str; 5] = ["HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES"];
    let is_word = |token: &Token<'_>, word: &str| {
        token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word)
    };
    let is_next = |token: &Token<'_>| NEXT.iter().any(|word| is_word(token, word));
    let mut follows_variable = false;
    tokens(text)
        .take_while(|token| token.text != "}" && !is_next(token))
        .any(|token| {
            let is_named = follows_variable && is_word(&token, "AS");
            follows_variable =
                token.kind == Kind::Variable || follows_variable && token.text == ")";
            is_named
        })
}

/// Creates a parser with a base IRI.
pub(crate) fn parser(text: &str, base: Option<&str>) -> Result<SparqlParser, SparqlError> {
    let parser = SparqlParser::new();
    let Some(base) = base else {
        return Ok(parser);
    };
    parser
        .with_base_iri(&*without_dot_segments(base))
        .map_err(|error| syntax(text, 0, format!("the base IRI is not valid: {error}")))
}

/// Adapts the text to the parser without moving any token: writes `TRUE` and `FALSE` in lower case, the only
/// case that the parser knows, removes dot segments from base IRIs, which the parser keeps, and marks `DISTINCT` in calls of
/// IRIs, where the parser does not read it.
pub(crate) fn for_the_parser(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 2] = ["true", "false"];
    let is_odd = |found: &[u8]| {
        let is =
            |word: &&str| found.eq_ignore_ascii_case(word.as_bytes()) && found != word.as_bytes();
        WORDS.iter().any(is)
    };
    let bytes = text.as_bytes();
    let starts_odd = |(at, byte): (usize, &u8)| {
        let length = match byte {
            b't' | b'T' => "true".len(),
            b'f' | b'F' => "false".len(),
            _ => return false,
        };
        bytes.get(at..at + length).is_some_and(is_odd)
    };
    let may_aggregate = aggregates::may_be_called(text);
    if !bytes.iter().enumerate().any(starts_odd) && !text.contains("/.") && !may_aggregate {
        return Cow::Borrowed(text);
    }
    let mut changed = text.to_owned();
    let mut follows_base = false;
    // Whether the last token is an IRI, and whether it is the bracket after one.
    let (mut follows_iri, mut follows_call) = (false, false);
    for token in tokens(text) {
        let place = token.start..token.end;
        match token.kind {
            Kind::Word if is_odd(token.text.as_bytes()) => {
                changed.replace_range(place, &token.text.to_ascii_lowercase());
            }
            Kind::Iri if follows_base => {
                let plain = without_dot_segments(token.text.trim_matches(['<', '>']));
                let mut plain = format!("<{plain}>");
                plain.extend(std::iter::repeat_n(' ', place.len() - plain.len()));
                changed.replace_range(place, &plain);
            }
            Kind::Word if follows_call && token.text.eq_ignore_ascii_case("distinct") => {
                changed.replace_range(place, aggregates::MARK);
            }
            _ => {}
        }
        follows_call = may_aggregate && follows_iri && token.text == "(";
        follows_iri = matches!(token.kind, Kind::Iri | Kind::Name);
        follows_base = token.kind == Kind::Word && token.text.eq_ignore_ascii_case("base");
    }
    Cow::Owned(changed)
}
