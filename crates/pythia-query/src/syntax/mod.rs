//! Parsing: from the text of a query or update to algebra, with the positions of errors.
//!
//! [`limits`] refuses texts that would overflow the stack. [`paths`] rewrites non-standard forms as standard
//! SPARQL. The parser library then reads the query, or each section of the update that [`statements`] finds;
//! long [`data`] is read in pieces. If it refuses, [`grammar`] finds the position and the reason.

mod beside;
mod data;
#[cfg(test)]
mod fuzz;
mod grammar;
mod limits;
mod lines;
mod paths;
mod place;
mod size;
mod statements;
mod suggest;

#[cfg(test)]
mod tests;
mod token;
mod update;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use oxrdf::Variable;
use pythia_rdf::base::without_dot_segments;
use spargebra::SparqlParser;
use spargebra::algebra::GraphPattern;

use crate::error::QueryError;
use crate::governor::{Governor, Held};
use crate::plan::scope::visit_mut;
use crate::plan::search::is_search;
use crate::plan::search::request::Request;
use crate::validate;
pub use beside::QueryForm;
pub(crate) use data::Data;
use grammar::Language;
use paths::Rewritten;
pub use place::{Expected, Place, SOUGHT};
pub use suggest::{function_names, nearest, well_known_prefixes};
use token::{Kind, Token, tokens};
pub use update::Update;
pub(crate) use update::{Action, Modify, Operation, Transfer};

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) algebra: spargebra::Query,
    /// Memory held by the query, if charged.
    held: Option<Arc<Held>>,
}

impl From<spargebra::Query> for Query {
    fn from(algebra: spargebra::Query) -> Self {
        Self {
            algebra,
            held: None,
        }
    }
}

impl Query {
    /// Parses a query. Relative IRIs are resolved against `base`.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, QueryError> {
        Self::parse_within(text, base, &Arc::new(Governor::unlimited()))
    }

    /// Parses a query within limits. A large query is charged before it is built, until it is dropped.
    pub(crate) fn parse_within(
        text: &str,
        base: Option<&str>,
        governor: &Arc<Governor>,
    ) -> Result<Self, QueryError> {
        governor.check()?;
        let mut held = Held::new(governor);
        let mut query = Self::parse_charged(text, base, &mut held)?;
        query.held = (held.bytes() > 0).then(|| Arc::new(held));
        Ok(query)
    }

    fn parse_charged(text: &str, base: Option<&str>, held: &mut Held) -> Result<Self, QueryError> {
        limits::check(text).map_err(|excess| syntax(text, excess.at, excess.message))?;
        let rewritten = rewrite(text, base.is_some(), Language::Query)?;
        let standard = rewritten.as_ref().map_or(text, |new| new.text.as_str());
        let bytes = size::text_tree_bytes(standard, base);
        if bytes > size::FREE_BYTES {
            held.add(bytes)?;
        }
        let parser = parser(text, base)?;
        let message = match parser.parse_query(&for_the_parser(standard)) {
            Ok(mut algebra) => match validate::finish(validate::pattern_of(&mut algebra)) {
                Ok(()) => {
                    let pattern = validate::pattern_of(&mut algebra);
                    check_searches(text, 0..text.len(), pattern)?;
                    let algebra = in_order_of_text(algebra, standard);
                    return Ok(algebra.into());
                }
                Err(fault) => fault.to_owned(),
            },
            Err(error) => error.to_string(),
        };
        Err(match rewritten {
            Some(new) => by_parser_of_new(text, &new, &message),
            None => explain(text, base.is_some(), &message),
        })
    }
}

/// Creates a parser with a base IRI.
fn parser(text: &str, base: Option<&str>) -> Result<SparqlParser, QueryError> {
    let parser = SparqlParser::new();
    let Some(base) = base else {
        return Ok(parser);
    };
    parser
        .with_base_iri(&*without_dot_segments(base))
        .map_err(|error| syntax(text, 0, format!("the base IRI is not valid: {error}")))
}

/// Returns an error for a path search with an invalid body, at its SERVICE or at the faulty option. The
/// pattern is written in the range `part` of the text.
fn check_searches(
    text: &str,
    part: Range<usize>,
    pattern: &mut GraphPattern,
) -> Result<(), QueryError> {
    let mut faults = Vec::new();
    let mut services = 0;
    visit_mut(pattern, &mut |pattern| {
        if let GraphPattern::Service { name, inner, .. } = pattern {
            if is_search(name) {
                faults.extend(search_fault(inner).map(|fault| (services, fault)));
            }
            services += 1;
        }
    });
    let Some((number, error)) = faults.into_iter().next() else {
        return Ok(());
    };
    let is_service =
        |token: &Token<'_>| token.kind == Kind::Word && token.text.eq_ignore_ascii_case("service");
    let message = error.to_string();
    let (start, text_of_pattern) = (part.start, &text[part]);
    let from = tokens(text_of_pattern).filter(is_service).nth(number);
    let written = tokens(text_of_pattern).filter(is_service).count();
    let Some(service) = from.filter(|_| written == services) else {
        return Err(*error);
    };
    let named = message.split_once("path:").map_or("", |(_, rest)| rest);
    let name = named.split(|c: char| !c.is_alphanumeric()).next();
    let name = name.filter(|name| *name != "search");
    let is_option = |token: &Token<'_>| {
        let local = match token.kind {
            Kind::Name => token.text.split_once(':').map(|(_, local)| local),
            Kind::Iri => token
                .text
                .trim_end_matches('>')
                .strip_prefix("<urn:pythia:path#"),
            _ => None,
        };
        local.is_some() && local == name
    };
    let mut inside = tokens(text_of_pattern).skip_while(|token| token.start < service.start);
    let at = inside.find(is_option).unwrap_or(service);
    Err(syntax(text, start + at.start, message))
}

/// Returns the error in the body of a path search. Not inlined, to keep the frame of the visiting function
/// small, because that recurses as deep as patterns nest.
#[inline(never)]
fn search_fault(body: &GraphPattern) -> Option<Box<QueryError>> {
    Request::read(body).err().map(Box::new)
}

/// Rewrites a text with non-standard forms in standard SPARQL.
fn rewrite(
    text: &str,
    has_base: bool,
    language: Language,
) -> Result<Option<Rewritten>, QueryError> {
    let lower = text.to_ascii_lowercase();
    let has_paths = ["paths", "pathfilter", "??"]
        .iter()
        .any(|sign| lower.contains(sign));
    // Two named expressions in a grouped SELECT, where one may use the other.
    let may_reuse = lower.contains("select")
        && lower.matches("as").nth(1).is_some()
        && (lower.contains("group") || suggest::may_aggregate(&lower));
    if !has_paths && !may_reuse {
        return Ok(None);
    }
    let (extensions, fault) = grammar::read(text, has_base, language);
    let rewritten = match fault {
        Some(fault) if extensions.is_used() => Err(fault),
        // The parser library decides about standard forms.
        Some(_) => Ok(None),
        None => paths::rewrite(text, &extensions),
    };
    rewritten.map_err(|fault| syntax(text, fault.at, fault.message))
}

/// Returns the parser's error for a rewritten text, at its position in the original.
fn by_parser_of_new(text: &str, new: &Rewritten, message: &str) -> QueryError {
    match by_parser(&new.text, message) {
        QueryError::Syntax {
            line,
            column,
            message,
        } => {
            let at = byte_of(&new.text, line, column);
            syntax(text, new.original(at), message)
        }
        other => other,
    }
}

/// Sorts the columns of `SELECT *` by their first occurrence in the text. SPARQL leaves the order open; the
/// parser sorts by name.
fn in_order_of_text(mut query: spargebra::Query, text: &str) -> spargebra::Query {
    let mut words = tokens(text).skip_while(|token| !token.text.eq_ignore_ascii_case("select"));
    words.next();
    let after = words.find(|token| token.kind != Kind::Word);
    if after.is_some_and(|token| token.text == "*")
        && let spargebra::Query::Select { pattern, .. } = &mut query
        && let Some(variables) = projected(pattern)
    {
        let mut named: HashMap<&str, usize> = HashMap::new();
        for token in tokens(text).filter(|token| token.kind == Kind::Variable) {
            named.entry(&token.text[1..]).or_insert(token.start);
        }
        variables.sort_by_key(|v| named.get(v.as_str()).copied().unwrap_or(usize::MAX));
    }
    query
}

/// Returns the variables of the outermost projection.
fn projected(pattern: &mut GraphPattern) -> Option<&mut Vec<Variable>> {
    match pattern {
        GraphPattern::Project { variables, .. } => Some(variables),
        GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => projected(inner),
        _ => None,
    }
}

fn syntax(text: &str, at: usize, message: impl Into<String>) -> QueryError {
    let (line, column) = place_of(text, at);
    QueryError::Syntax {
        line,
        column,
        message: message.into(),
    }
}

/// Adapts the text to the parser without moving any token: writes `TRUE` and `FALSE` in lower case, the only
/// case that the parser knows, and removes dot segments from base IRIs, which the parser keeps.
fn for_the_parser(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 2] = ["true", "false"];
    let is_odd = |found: &[u8]| {
        let is =
            |word: &&str| found.eq_ignore_ascii_case(word.as_bytes()) && found != word.as_bytes();
        WORDS.iter().any(is)
    };
    let bytes = text.as_bytes();
    let has_odd = |word: &&str| bytes.windows(word.len()).any(is_odd);
    if !WORDS.iter().any(has_odd) && !text.contains("/.") {
        return Cow::Borrowed(text);
    }
    let mut changed = text.to_owned();
    let mut follows_base = false;
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
            _ => {}
        }
        follows_base = token.kind == Kind::Word && token.text.eq_ignore_ascii_case("base");
    }
    Cow::Owned(changed)
}

/// Returns the line and column, from 1, of a byte of the text.
fn place_of(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..byte];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Returns the byte at a line and column; the inverse of [`place_of`].
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line - 1);
    let start: usize = lines.map(str::len).sum();
    let rest = text[start..].char_indices().nth(column - 1);
    start + rest.map_or(text.len() - start, |(at, _)| at)
}

/// Returns the error for a query that the parser refuses with `message`.
fn explain(text: &str, has_base: bool, message: &str) -> QueryError {
    match grammar::first_fault(text, has_base, Language::Query) {
        Some(fault) => syntax(text, fault.at, fault.message),
        None => by_parser(text, message),
    }
}

/// Converts the parser's own message, `error at LINE:COLUMN: expected one of …`. The parser's semantic checks
/// appear as sentences among the expected items; such a sentence is the whole message.
fn by_parser(text: &str, message: &str) -> QueryError {
    let place = message.strip_prefix("error at ").and_then(|rest| {
        let (line, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(':')?;
        Some((line.parse().ok()?, column.parse().ok()?, rest.trim()))
    });
    let Some((line, column, expected)) = place else {
        return syntax(text, 0, message);
    };
    let list = expected.trim_start_matches("expected ");
    let sentence = list
        .trim_start_matches("one of ")
        .split(", ")
        .find(|item| item.contains(' ') && !item.starts_with(['"', '[']));
    let message = sentence.map_or_else(|| expected.to_owned(), str::to_owned);
    QueryError::Syntax {
        line,
        column,
        message,
    }
}
