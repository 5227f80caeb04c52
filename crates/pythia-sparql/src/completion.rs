//! Completion: what may follow at a position of an unfinished query.
//!
//! The text need not be a valid query. A state machine (`machine`) reads the tokens; it knows only as much
//! grammar as is needed to find triples, groups and expressions. The triples around the position become
//! patterns that ask the store for fitting terms.

mod machine;
mod pattern;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::suggest::well_known_prefixes;
use crate::token::{Flaw, Kind, Lexer, Token};
use machine::{Machine, Top};

/// Variable that stands in patterns for the term to complete.
pub const SOUGHT: &str = "pythiaSought";

/// Maximum number of tokens read; later ones are ignored.
const TOKENS_MAX: usize = 20_000;

/// The context of a position in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionContext {
    /// Byte range that a completion replaces.
    pub span: Range<usize>,
    /// The part of it before the cursor.
    pub typed: String,
    /// The kind of text that fits.
    pub expected: Expected,
    /// Bodies of groups that bind `?pythiaSought` to fitting terms, the most selective first. All names are
    /// in full. Empty if the query does not restrict the term.
    pub patterns: Vec<String>,
    /// Variants of `patterns` in which only the first solutions of the surrounding triples are used, so that
    /// answers come soon and from different nodes.
    pub samples: Vec<String>,
    /// Prefixes that the text declares, with their IRIs.
    pub prefixes: Vec<(String, String)>,
    /// Base IRI that the text declares.
    pub base: Option<String>,
    /// All variables of the text, without their signs, in order.
    pub variables: Vec<String>,
}

/// The kind of text that may follow at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Unknown: inside a string, a comment, or the pattern of another endpoint.
    Nothing,
    /// A keyword outside groups.
    Clause,
    /// A prefix to declare.
    PrefixName,
    /// A variable to select or sort by.
    Projection,
    /// The name of a graph.
    Graph,
    /// A triple's subject, or a keyword of a group.
    Subject,
    /// A triple's predicate.
    Predicate,
    /// A triple's object.
    Object,
    /// A class: the object of `a`.
    Class,
    /// The continuation after a triple.
    AfterTriple,
    /// Part of an expression.
    Expression,
}

impl CompletionContext {
    /// Analyses the position of the cursor, which must be a character boundary.
    pub fn at(text: &str, cursor: usize) -> Self {
        let span = word_at(text, cursor);
        let mut machine = Machine::default();
        let before = Tokens::of(&text[..span.start]);
        before.list.iter().for_each(|token| machine.take(*token));
        let typed = text[span.start..cursor].to_owned();
        let expected = match before.is_open {
            true => Expected::Nothing,
            false => expected(&machine, &typed),
        };
        let mut place = Self {
            typed,
            expected,
            patterns: Vec::new(),
            samples: Vec::new(),
            variables: Vec::new(),
            prefixes: Vec::new(),
            base: None,
            span: span.clone(),
        };
        let after = Tokens::of(&text[span.end..]);
        if machine.seek() {
            let mut whole = machine.clone();
            after.list.iter().for_each(|token| whole.take(*token));
            let both = [whole.pattern(), machine.clone().pattern()];
            for pattern in both.into_iter().flatten() {
                place.patterns.push(pattern.whole);
                place.samples.extend(pattern.sampled);
            }
            place.patterns.dedup();
            place.samples.dedup();
        }
        // Declarations and variables are those of the whole text.
        after.list.iter().for_each(|token| machine.take(*token));
        place.variables = machine.variables;
        place.prefixes = machine.prefixes;
        place.base = machine.base;
        place
    }
}

/// The tokens of a part of a text.
struct Tokens<'t> {
    list: Vec<Token<'t>>,
    /// True if the text ends inside a string or a comment.
    is_open: bool,
}

impl<'t> Tokens<'t> {
    fn of(text: &'t str) -> Self {
        let mut lexer = Lexer::new(text);
        let mut list = Vec::new();
        let mut end = 0;
        let mut is_open = false;
        for _ in 0..TOKENS_MAX {
            let mut token = lexer.next();
            match token.kind {
                Kind::End => break,
                Kind::Bad(Flaw::OpenString) => {
                    is_open = true;
                    break;
                }
                Kind::Bad(_) if token.text.starts_with('<') => token = lexer.less_than(token),
                Kind::Bad(_) => continue,
                _ => {}
            }
            end = token.end;
            list.push(token);
        }
        let rest = &text[end..];
        is_open |= rest
            .rfind('#')
            .is_some_and(|at| !rest[at..].contains(['\n', '\r']));
        Self { list, is_open }
    }
}

/// Returns the word that contains or ends at the cursor.
fn word_at(text: &str, cursor: usize) -> Range<usize> {
    let before = &text[..cursor];
    let start = match open_iri(before) {
        Some(start) => start,
        None => {
            let tokens = Tokens::of(before);
            let last = tokens.list.last().filter(|token| token.end == cursor);
            match last {
                Some(token) if is_word(token) => token.start,
                _ => cursor,
            }
        }
    };
    let token = Lexer::new(&text[start..]).next();
    let reaches = token.start == 0 && start + token.end > cursor;
    let end = match reaches && start < cursor && is_word(&token) {
        true => start + token.end,
        false => cursor,
    };
    start..end
}

fn is_word(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Word | Kind::Name | Kind::Variable | Kind::Iri => true,
        Kind::Sign => token.text == "?",
        _ => false,
    }
}

/// Returns the start of an unfinished IRI at the end of the text.
fn open_iri(before: &str) -> Option<usize> {
    let start = before.rfind('<')?;
    let inside = &before[start + 1..];
    let is_iri = !inside.contains(|c: char| c <= ' ' || "<>\"{}|^`\\=".contains(c));
    let follows = before[..start].chars().next_back();
    let is_first = follows.is_none_or(|c| c.is_whitespace() || "{.;,(/|^!".contains(c));
    // In an expression, `<` is a comparison: it has an operand before it and usually a space after it.
    (is_iri && is_first && !Tokens::of(&before[..start]).is_open).then_some(start)
}

fn expected(machine: &Machine, typed: &str) -> Expected {
    match machine.top() {
        Top::Elsewhere => Expected::Nothing,
        Top::Clause(word) => match word {
            "PREFIX" => Expected::PrefixName,
            "FROM" | "NAMED" | "WITH" | "USING" | "INTO" | "TO" | "GRAPH" => Expected::Graph,
            "SELECT" | "DISTINCT" | "REDUCED" | "BY" | "ASC" | "DESC" | "DESCRIBE" => {
                Expected::Projection
            }
            _ if typed.starts_with(['?', '$']) => Expected::Projection,
            _ => Expected::Clause,
        },
        Top::Graph => Expected::Graph,
        Top::Subject => Expected::Subject,
        Top::Predicate => Expected::Predicate,
        Top::Object { of_type: true } => Expected::Class,
        Top::Object { of_type: false } => Expected::Object,
        Top::AfterTriple => Expected::AfterTriple,
        Top::Expression => Expected::Expression,
    }
}

/// Returns the IRI of a prefixed name, using the text's prefixes or well-known ones.
fn expand(name: &str, prefixes: &[(String, String)]) -> Option<String> {
    let (prefix, local) = name.split_once(':')?;
    let declared = prefixes.iter().rev().find(|(known, _)| known == prefix);
    let known = || {
        well_known_prefixes()
            .iter()
            .find(|(known, _)| *known == prefix)
    };
    let iri = match declared {
        Some((_, iri)) => iri.as_str(),
        None => known()?.1,
    };
    Some(format!("{iri}{}", local.replace('\\', "")))
}
