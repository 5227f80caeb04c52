//! From a query's text to algebra, with errors that point at the place.

use std::borrow::Cow;

use spargebra::SparqlParser;

use crate::error::QueryError;
use crate::validate;

/// How deeply brackets may nest. The parser recurses; this keeps it within any thread's stack.
const NESTING_MAX: usize = 128;

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) algebra: spargebra::Query,
}

impl Query {
    /// Parses a query; relative IRIs are resolved against `base`.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, QueryError> {
        check_size(text)?;
        let mut parser = SparqlParser::new();
        if let Some(base) = base {
            parser = parser
                .with_base_iri(base)
                .map_err(|error| syntax(1, 1, format!("the base IRI is not valid: {error}")))?;
        }
        match parser.parse_query(&with_lowercase_booleans(text)) {
            Ok(algebra) => match validate::fault(&algebra) {
                Some(fault) => Err(syntax(1, 1, fault)),
                None => Ok(Self { algebra }),
            },
            Err(error) => Err(locate(text, &error.to_string())),
        }
    }
}

fn syntax(line: usize, column: usize, message: impl Into<String>) -> QueryError {
    QueryError::Syntax {
        line,
        column,
        message: message.into(),
    }
}

/// Finds the place in the parser's message, which reads `error at LINE:COLUMN: …`.
fn locate(text: &str, message: &str) -> QueryError {
    let place = message.strip_prefix("error at ").and_then(|rest| {
        let (line, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(':')?;
        Some((
            line.parse().ok()?,
            column.parse::<usize>().ok()?,
            rest.trim(),
        ))
    });
    let Some((line, column, message)) = place else {
        return syntax(1, 1, message);
    };
    let expected = expected_words(message);
    if let Some((prefix, line, column)) = undeclared_prefix(text) {
        let message = format!("the prefix {prefix}: is not declared; add PREFIX {prefix}: <…>");
        return syntax(line, column, message);
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    if ["INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE"]
        .iter()
        .any(|update| first.eq_ignore_ascii_case(update))
    {
        return syntax(
            line,
            1,
            "updates are not supported: this reads queries only",
        );
    }
    // A keyword that does not match is reported where it would have ended.
    let keywords = expected
        .iter()
        .all(|w| w.starts_with(|c: char| c.is_alphabetic()));
    let back = match expected.iter().map(String::len).max() {
        Some(length) if keywords && message.matches('[').count() == 0 => length,
        _ => 0,
    };
    let column = column.saturating_sub(back).max(1);
    let message = match expected.len() {
        0 => "this cannot stand here".to_owned(),
        1 => format!("expected {}", expected[0]),
        _ => format!("expected one of {}", expected.join(", ")),
    };
    syntax(line, column, message)
}

/// The keywords and signs in the parser's list of what it expected, without its character classes.
fn expected_words(message: &str) -> Vec<String> {
    const SHOWN_MAX: usize = 12;
    let list = message
        .trim_start_matches("expected one of ")
        .trim_start_matches("expected ");
    let plain = |word: &&str| {
        let quoted = word.len() > 2 && word.starts_with('"') && word.ends_with('"');
        quoted || (word.len() > 1 && word.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    let mut words: Vec<String> = list.split(", ").filter(plain).map(str::to_owned).collect();
    if words.len() > SHOWN_MAX {
        words.truncate(SHOWN_MAX);
        words.push("…".to_owned());
    }
    words
}

/// How many groups, or operators of one expression or path, a query may have: the parser and its
/// trees recurse over them.
const ELEMENTS_MAX: usize = 4000;

/// The text with the insides of strings and IRIs replaced by `x` and comments by spaces, byte for
/// byte, so that what is left can be looked at sign by sign.
fn masked(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' | b'\'' => i = mask_string(&mut bytes, i),
            b'<' => {
                let end = bytes[i + 1..]
                    .iter()
                    .position(|b| b" \t\r\n\"{}<>|^`".contains(b));
                if let Some(end) = end
                    && bytes[i + 1 + end] == b'>'
                {
                    bytes[i + 1..i + 1 + end].fill(b'x');
                    i += end + 1;
                }
                i += 1;
            }
            b'#' => {
                while i < bytes.len() && bytes[i] != b'\n' {
                    bytes[i] = b' ';
                    i += 1;
                }
            }
            _ => i += 1,
        }
    }
    bytes
}

/// The text with `TRUE` and `FALSE` in lower case, the only case in which the parser knows them.
fn with_lowercase_booleans(text: &str) -> Cow<'_, str> {
    let masked = masked(text);
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-:?$@%\\".contains(byte) || *byte > 127;
    let mut changed = None;
    for word in ["true", "false"] {
        let mut ends = word.len();
        while ends <= masked.len() {
            let start = ends - word.len();
            let found = &masked[start..ends];
            if found.eq_ignore_ascii_case(word.as_bytes())
                && found != word.as_bytes()
                && !masked[..start].last().is_some_and(is_part)
                && !masked[ends..].first().is_some_and(is_part)
            {
                let text: &mut String = changed.get_or_insert_with(|| text.to_owned());
                text.replace_range(start..ends, word);
            }
            ends += 1;
        }
    }
    changed.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Masks the string that starts at `start`; gives where it ends.
fn mask_string(bytes: &mut [u8], start: usize) -> usize {
    let quote = bytes[start];
    let delimiter: &[u8] = if bytes[start..].starts_with(&[quote; 3]) {
        &[quote; 3]
    } else {
        &[quote]
    };
    let mut i = start + delimiter.len();
    while i < bytes.len() && !bytes[i..].starts_with(delimiter) {
        if bytes[i] == b'\n' && delimiter.len() == 1 {
            return i;
        }
        let escape = bytes[i] == b'\\' && i + 1 < bytes.len();
        bytes[i] = b'x';
        if escape {
            bytes[i + 1] = b'x';
            i += 1;
        }
        i += 1;
    }
    (i + delimiter.len()).min(bytes.len())
}

/// Line and column, from 1, of a byte of the text.
fn place_of(text: &str, byte: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..byte];
    let line_start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..])
        .chars()
        .count();
    (
        before.iter().filter(|b| **b == b'\n').count() + 1,
        column + 1,
    )
}

/// Refuses queries of so many parts, or brackets nested so deeply, that walking them would overflow
/// the stack.
fn check_size(text: &str) -> Result<(), QueryError> {
    let masked = masked(text);
    let mut depth = 0_usize;
    for (at, byte) in masked.iter().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            let (line, column) = place_of(text, at);
            let message = format!("brackets are nested more than {NESTING_MAX} deep");
            return Err(syntax(line, column, message));
        }
    }
    if text.len() < ELEMENTS_MAX {
        return Ok(());
    }
    let upper = masked.to_ascii_uppercase();
    let count = |sign: &&str| {
        let sign = sign.as_bytes();
        upper
            .windows(sign.len())
            .filter(|window| *window == sign)
            .count()
    };
    let counts: [(&str, &[&str]); 4] = [
        ("groups", &["{"]),
        ("BINDs", &["BIND"]),
        ("path steps", &[">/", ">|", ">^", ")/", "+/", "*/"]),
        ("operators", &["- ", "+ ", "* ", "!!", "--", "++"]),
    ];
    for (what, signs) in counts {
        let found: usize = signs.iter().map(count).sum();
        if found > ELEMENTS_MAX {
            let message = format!("the query has {found} {what}; at most {ELEMENTS_MAX} are read");
            return Err(syntax(1, 1, message));
        }
    }
    Ok(())
}

/// The first prefixed name whose prefix the query does not declare: the prefix, and where it is.
fn undeclared_prefix(text: &str) -> Option<(String, usize, usize)> {
    let masked = String::from_utf8(masked(text)).ok()?;
    let is_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let mut declared: Vec<&str> = Vec::new();
    let mut declares = false;
    let mut at = 0;
    while at < masked.len() {
        let rest = &masked[at..];
        let word = &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())];
        let after = &rest[word.len()..];
        let before = masked[..at].chars().next_back();
        if after.starts_with(':') && !matches!(before, Some('?' | '$' | '@')) {
            if declares {
                declared.push(word);
            } else if word != "_" && !declared.contains(&word) {
                let (line, column) = place_of(text, at);
                return Some((word.to_owned(), line, column));
            }
            let local = after[1..].find(|c: char| !(is_name(c) || "%\\:".contains(c)));
            at += word.len() + 1 + local.unwrap_or(after.len() - 1);
            declares = false;
        } else if word.is_empty() {
            let sign = rest.chars().next().unwrap_or(' ');
            declares &= sign.is_whitespace();
            at += sign.len_utf8();
        } else {
            declares = word.eq_ignore_ascii_case("prefix");
            at += word.len();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> (usize, usize, String) {
        match Query::parse(text, None) {
            Err(QueryError::Syntax {
                line,
                column,
                message,
            }) => (line, column, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_say_where() {
        let (line, column, _) = place("SELECT * WHERE {\n  ?s ?p }");
        assert_eq!((line, column), (2, 10));
        let (line, column, message) = place("SELEC * WHERE { ?s ?p ?o }");
        assert_eq!((line, column), (1, 1), "{message}");
    }

    #[test]
    fn aggregates_do_not_nest() {
        let (_, _, message) = place("SELECT (SUM(COUNT(?x)) AS ?y) { ?x ?p ?o }");
        assert!(message.contains("aggregate"), "{message}");
        let text = "SELECT (SUM(?n) AS ?y) { { SELECT (COUNT(?x) AS ?n) { ?x ?p ?o } } }";
        assert!(Query::parse(text, None).is_ok());
    }

    #[test]
    fn booleans_are_read_in_any_case() {
        let text = "SELECT (TRUE AS ?TRUE) { ?s :False 'TRUE', False, <TRUE>, TRUE:x }";
        let read = "SELECT (true AS ?TRUE) { ?s :False 'TRUE', false, <TRUE>, TRUE:x }";
        assert_eq!(with_lowercase_booleans(text), read);
    }

    #[test]
    fn undeclared_prefixes_are_named() {
        let (line, column, message) = place("SELECT * WHERE {\n  ?s foaf:name ?o }");
        assert_eq!((line, column), (2, 6));
        assert!(message.contains("PREFIX foaf:"), "{message}");
    }

    #[test]
    fn declared_prefixes_strings_and_blank_nodes_are_no_problem() {
        let text = "PREFIX a: <http://a/> prefix : <http://b/>\n# c: d\nSELECT * { _:x a:p 'e:f' , :g ; <h:i> ?j ";
        assert_eq!(undeclared_prefix(text), None);
        let text = "SELECT * { ?s ?p 'x {' . ?s k:l \"m:n\" }";
        assert_eq!(undeclared_prefix(text), Some(("k".to_owned(), 1, 29)));
    }

    #[test]
    fn deep_nesting_is_refused_not_recursed_into() {
        let text = format!(
            "SELECT * {{ FILTER({}1{}) }}",
            "(".repeat(10_000),
            ")".repeat(10_000)
        );
        let (_, _, message) = place(&text);
        assert!(message.contains("nested"), "{message}");
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        let text = format!("SELECT * {{ ?s ?p \"{}\" }}", "(".repeat(1000));
        assert!(Query::parse(&text, None).is_ok());
    }
}
