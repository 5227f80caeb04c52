//! From a query's text to algebra, with errors that point at the place.

use spargebra::SparqlParser;

use crate::error::QueryError;

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
        check_nesting(text)?;
        check_size(text)?;
        let mut parser = SparqlParser::new();
        if let Some(base) = base {
            parser = parser
                .with_base_iri(base)
                .map_err(|error| syntax(1, 1, format!("the base IRI is not valid: {error}")))?;
        }
        match parser.parse_query(text) {
            Ok(algebra) => Ok(Self { algebra }),
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
        Some((line.parse().ok()?, column.parse().ok()?, rest.trim()))
    });
    let Some((line, column, message)) = place else {
        return syntax(1, 1, message);
    };
    let expected = expected_words(message);
    if message.contains("Prefix not found")
        && let Some((prefix, start)) = undeclared_prefix(text, line, column)
    {
        let message = format!("the prefix {prefix}: is not declared; add PREFIX {prefix}: <…>");
        return syntax(line, start, message);
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

/// The prefix of the prefixed name that ends at the place, and the column where it starts.
fn undeclared_prefix(text: &str, line: usize, column: usize) -> Option<(String, usize)> {
    let line: Vec<char> = text.lines().nth(line.checked_sub(1)?)?.chars().collect();
    let in_name = |c: &char| c.is_alphanumeric() || "_-.:%\\".contains(*c);
    let mut start = column.checked_sub(1)?.min(line.len());
    while start > 0 && in_name(&line[start - 1]) {
        start -= 1;
    }
    let prefix: String = line[start..].iter().take_while(|c| **c != ':').collect();
    Some((prefix, start + 1))
}

/// How many groups, or operators of one expression or path, a query may have: the parser and its
/// trees recurse over them.
const ELEMENTS_MAX: usize = 4000;

/// Refuses queries of so many parts that walking them would overflow the stack.
fn check_size(text: &str) -> Result<(), QueryError> {
    let upper = text.to_ascii_uppercase();
    let operators = |signs: [&str; 3]| signs.iter().map(|s| text.matches(s).count()).sum::<usize>();
    let counts = [
        ("groups", text.matches('{').count()),
        ("BINDs", upper.matches("BIND").count()),
        (
            "path steps",
            operators([">/", ">|", ">^"]) + operators([")/", "+/", "*/"]),
        ),
        (
            "operators",
            operators(["- ", "+ ", "* "]) + operators(["!!", "--", "++"]),
        ),
    ];
    match counts.iter().find(|(_, count)| *count > ELEMENTS_MAX) {
        Some((what, count)) => Err(syntax(
            1,
            1,
            format!("the query has {count} {what}; at most {ELEMENTS_MAX} are read"),
        )),
        None => Ok(()),
    }
}

/// Refuses brackets nested too deeply. Strings, IRIs and comments are passed over.
fn check_nesting(text: &str) -> Result<(), QueryError> {
    let bytes = text.as_bytes();
    let (mut depth, mut line, mut line_start, mut i) = (0_usize, 1, 0, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'\n' => {
                line += 1;
                line_start = i + 1;
            }
            b'(' | b'{' | b'[' => {
                depth += 1;
                if depth > NESTING_MAX {
                    return Err(syntax(
                        line,
                        i - line_start + 1,
                        format!("brackets are nested more than {NESTING_MAX} deep"),
                    ));
                }
            }
            b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            quote @ (b'"' | b'\'') => {
                i += 1;
                while i < bytes.len() && bytes[i] != quote && bytes[i] != b'\n' {
                    i += 1 + usize::from(bytes[i] == b'\\');
                }
                continue_line(bytes, i, &mut line, &mut line_start);
            }
            b'<' => {
                if let Some(end) = bytes[i..]
                    .iter()
                    .position(|b| b" \t\n\"{}<>".contains(b) && *b != b'<')
                    && bytes[i + end] == b'>'
                {
                    i += end;
                }
            }
            b'#' => {
                while i + 1 < bytes.len() && bytes[i + 1] != b'\n' {
                    i += 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    Ok(())
}

/// A string that ran into the end of its line: count the line.
fn continue_line(bytes: &[u8], at: usize, line: &mut usize, line_start: &mut usize) {
    if bytes.get(at) == Some(&b'\n') {
        *line += 1;
        *line_start = at + 1;
    }
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
    fn undeclared_prefixes_are_named() {
        let (line, column, message) = place("SELECT * WHERE {\n  ?s foaf:name ?o }");
        assert_eq!((line, column), (2, 6));
        assert!(message.contains("PREFIX foaf:"), "{message}");
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
