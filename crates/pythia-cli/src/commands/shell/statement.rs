//! What a text typed so far is: a statement, or the beginning of one.

use pythia::{Query, QueryError, Update};

/// Keywords that begin an operation of an update.
const OPERATIONS: [&str; 11] = [
    "INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING",
];

/// What a text is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command of the shell: `.help`.
    Command,
    /// Declarations of prefixes, and nothing else.
    Prefixes,
    Query,
    Update,
}

impl Kind {
    /// Returns the kind of a whole statement, which may have errors.
    pub(super) fn of(text: &str) -> Self {
        if text.trim_start().starts_with('.') {
            return Self::Command;
        }
        match first_keyword(text) {
            None => Self::Prefixes,
            Some(word) if OPERATIONS.contains(&&*word.to_ascii_uppercase()) => Self::Update,
            Some(_) => Self::Query,
        }
    }
}

/// Returns whether no more lines are needed: the text is complete, or an error comes before its end, or an empty line
/// follows. `declared` is put before the text, so that its prefixes are known.
pub(super) fn is_complete(text: &str, declared: &str) -> bool {
    let ends = text.ends_with('\n') || text.trim().is_empty();
    if ends {
        return true;
    }
    let whole = format!("{declared}{text}");
    let error = match Kind::of(text) {
        Kind::Command => return true,
        Kind::Prefixes => return text.trim_end().ends_with('>'),
        Kind::Query => Query::parse(&whole, None).err(),
        Kind::Update => Update::parse(&whole, None).err(),
    };
    error.is_none_or(|error| !is_at_end(error.into(), &whole))
}

/// Returns whether a syntax error is that the text ends too early.
fn is_at_end(error: QueryError, text: &str) -> bool {
    let QueryError::Syntax {
        line,
        column,
        message,
    } = error
    else {
        return false;
    };
    // The place of these errors is that of the bracket or quotation mark.
    if message.ends_with("is never closed") {
        return true;
    }
    let mut lines = text.split('\n');
    let Some(last) = lines.nth(line.saturating_sub(1)) else {
        return true;
    };
    let rest: String = last.chars().skip(column.saturating_sub(1)).collect();
    rest.trim().is_empty() && lines.all(|line| line.trim().is_empty())
}

/// Returns the first word after comments and declarations.
fn first_keyword(text: &str) -> Option<&str> {
    let mut words = Words(text);
    loop {
        let word = words.next()?;
        match () {
            () if word.eq_ignore_ascii_case("prefix") => drop((words.next(), words.next())),
            () if word.eq_ignore_ascii_case("base") => drop(words.next()),
            () => return Some(word),
        }
    }
}

/// Words of a text, as far as declarations need: separated by white space, `{`, `(` and comments. An IRI is one word.
struct Words<'t>(&'t str);

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let mut rest = self.0.trim_start();
        while rest.starts_with('#') {
            rest = rest
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .trim_start();
        }
        if rest.is_empty() {
            return None;
        }
        let end = match rest.starts_with('<') {
            true => rest.find('>').map_or(rest.len(), |at| at + 1),
            false => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '{' | '(' | '<' | '#');
                rest.find(is_end).unwrap_or(rest.len()).max(1)
            }
        };
        // A bracket alone is a word; it ends the declarations.
        let end = rest.ceil_char_boundary(end);
        let (word, after) = rest.split_at(end);
        self.0 = after;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_kinds() {
        for (text, kind) in [
            (".help", Kind::Command),
            ("PREFIX a: <http://a#>", Kind::Prefixes),
            ("# only\n", Kind::Prefixes),
            ("SELECT * {}", Kind::Query),
            ("prefix a: <http://a#> # x\nBASE <b>\n ask{}", Kind::Query),
            ("paths { }", Kind::Query),
            ("insert data {}", Kind::Update),
            ("PREFIX : <a> DELETE WHERE {}", Kind::Update),
            ("nonsense", Kind::Query),
            ("{ ?s ?p ?o }", Kind::Query),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }

    #[test]
    fn a_statement_is_complete_where_it_can_be_run() {
        let complete = |text: &str| is_complete(text, "PREFIX ex: <http://ex/>\n");
        for text in [
            "ASK {}",
            "SELECT * {\n ?s ex:p ?o\n}",
            "SELECT * {\n ?s ?p\n\n",
            "SELECT ?? { ?s ?p ?o }",
            "INSERT DATA { ex:a ex:b 1 }",
            "PREFIX a: <http://a#>",
            ".help",
            "",
        ] {
            assert!(complete(text), "{text}");
        }
        for text in [
            "SELECT",
            "SELECT *",
            "SELECT * {",
            "SELECT * {\n ?s ex:p",
            "SELECT * { ?s ?p \"a",
            "INSERT DATA {",
            "PREFIX a:",
            "PREFIX a: <http://a#>\nSELECT",
        ] {
            assert!(!complete(text), "{text}");
        }
    }
}
