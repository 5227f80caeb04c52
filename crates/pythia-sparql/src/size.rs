//! Estimates the maximum size of the tree of a text before parsing.
//!
//! The parser expands abbreviations: a prefixed name becomes the whole IRI, and each object of a list gets a
//! copy of the subject and the path. So a tree may take many thousand times the bytes of its text. The
//! estimate reads the tokens once.

use crate::data::{Declared, TOKEN_BYTES, TreeBytes};
use crate::token::{Kind, Token, tokens};

/// Trees up to this many bytes are free.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Estimates the maximum size in bytes of the tree of a text.
pub(crate) fn text_tree_bytes(text: &str, base: Option<&str>) -> usize {
    let mut declared = Declared::new(base);
    let mut tree = TreeBytes::new(text);
    let mut lists = Lists {
        name_bytes: 0,
        open: vec![Bracket::default()],
        bytes: 0,
        follows_word: false,
    };
    for token in tokens(text) {
        // A name uses only declarations before it.
        let name_bytes = declared.longest(&token);
        lists.name_bytes = name_bytes;
        lists.token(&token);
        tree.token(token, name_bytes);
    }
    lists.close();
    tree.finish().saturating_add(lists.bytes)
}

/// Counter of the bytes that object lists and path alternatives repeat.
struct Lists {
    /// Bytes by which a name may be longer than its text.
    name_bytes: usize,
    /// Open brackets; the first entry stands for the text outside all brackets.
    open: Vec<Bracket>,
    bytes: usize,
    /// True after a word, where brackets hold arguments.
    follows_word: bool,
}

/// Triples or a path in one bracket.
#[derive(Clone, Copy, Debug, Default)]
struct Bracket {
    is_round: bool,
    /// True in an expression, where operators and commas repeat nothing.
    is_expression: bool,
    /// Bytes of the subject.
    subject_bytes: usize,
    /// Bytes of the subject, path and first object, which each further object repeats.
    triple_bytes: usize,
    follows_comma: bool,
    /// Operators of the path, each of which may repeat both ends.
    operators: usize,
    longest_bytes: usize,
}

impl Bracket {
    /// Returns the bytes that the alternatives of the path repeat.
    fn ends_bytes(&self) -> usize {
        self.operators.saturating_mul(2 * self.longest_bytes)
    }
}

impl Lists {
    fn token(&mut self, token: &Token<'_>) {
        let is_short = matches!(token.kind, Kind::Name | Kind::Iri);
        let text_bytes = token.text.len() + if is_short { self.name_bytes } else { 0 };
        let bracket = self.open.last_mut().expect("there is what is outside");
        if bracket.subject_bytes == 0 {
            bracket.subject_bytes = text_bytes;
        }
        if !bracket.follows_comma {
            bracket.triple_bytes = bracket
                .triple_bytes
                .saturating_add(TOKEN_BYTES + text_bytes);
        }
        bracket.longest_bytes = bracket.longest_bytes.max(text_bytes);
        match token.text {
            "," if !bracket.is_round => {
                let again = bracket.triple_bytes.saturating_add(bracket.ends_bytes());
                self.bytes = self.bytes.saturating_add(again);
                bracket.follows_comma = true;
            }
            ";" | "." if !bracket.is_round => {
                self.bytes = self.bytes.saturating_add(bracket.ends_bytes());
                let subject_bytes = match token.text {
                    ";" => bracket.subject_bytes,
                    _ => 0,
                };
                *bracket = Bracket {
                    is_round: bracket.is_round,
                    is_expression: bracket.is_expression,
                    subject_bytes,
                    triple_bytes: subject_bytes,
                    longest_bytes: subject_bytes,
                    ..Bracket::default()
                };
            }
            "|" | "/" | "^" | "!" | "*" | "+" | "?" => bracket.operators += 1,
            "(" | "{" | "[" | "<<" | "<<(" | "{|" => {
                let is_round = token.text == "(";
                let is_expression = is_round && (bracket.is_expression || self.follows_word);
                self.open.push(Bracket {
                    is_round,
                    is_expression,
                    ..Bracket::default()
                });
            }
            ")" | "}" | "]" | ">>" | ")>>" | "|}" => self.close(),
            _ => {}
        }
        self.follows_word = token.kind == Kind::Word;
    }

    /// Closes a bracket and adds its contents to the enclosing one.
    fn close(&mut self) {
        let Some(inner) = self.open.pop() else {
            return;
        };
        if !inner.is_expression {
            self.bytes = self.bytes.saturating_add(inner.ends_bytes());
        }
        let Some(outer) = self.open.last_mut() else {
            // An unmatched closing bracket, which the parser refuses.
            return self.open.push(Bracket::default());
        };
        if inner.is_round && !inner.is_expression {
            outer.operators += inner.operators;
            outer.longest_bytes = outer.longest_bytes.max(inner.longest_bytes);
            if !outer.follows_comma {
                outer.triple_bytes = outer.triple_bytes.saturating_add(inner.triple_bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::charge::Charge;
    use crate::error::SparqlError;
    use crate::testing::TestLimits;
    use crate::{Query, Update};

    const BASE: Option<&str> = Some("http://e/");
    const MEMORY_BYTES: usize = 64 << 20;

    type Parsed<T> = Result<T, SparqlError>;

    /// Texts of at most 64 KiB whose trees take gigabytes.
    fn bombs() -> Vec<String> {
        let prefix = format!("PREFIX : <http://e/{}>", "x".repeat(30_000));
        let objects = |count: usize| vec![":"; count].join(",");
        let path = vec!["<p>"; 1900].join("/");
        let ways = vec!["<p>"; 1900].join("|");
        vec![
            format!("{prefix} SELECT * {{ : : {} }}", objects(16_000)),
            format!("{prefix} CONSTRUCT {{ : : {} }} {{}}", objects(16_000)),
            format!("SELECT * {{ ?s {path} {} }}", vec!["<o>"; 12_000].join(",")),
            format!(
                "SELECT * {{ <{}> ({ways})|({ways})|({ways}) ?o }}",
                "y".repeat(30_000)
            ),
            format!(
                "{prefix} ASK {{ FILTER(EXISTS {{ ?s ?p {} }}) }}",
                objects(16_000)
            ),
        ]
    }

    /// Asserts that short texts are not parsed within the memory.
    fn assert_refused<T>(texts: Vec<String>, parse: impl Fn(&str, Box<dyn Charge>) -> Parsed<T>) {
        for text in texts {
            assert!(text.len() <= 64 << 10);
            let limits = TestLimits::of_memory(MEMORY_BYTES);
            let parsed = parse(&text, limits.charge());
            let end = &text[text.len() - 40..];
            assert!(matches!(parsed, Err(SparqlError::Memory(_))), "{end}");
            assert_eq!(limits.used(), 0);
        }
    }

    #[test]
    fn queries_with_trees_beyond_the_memory_are_not_parsed() {
        assert_refused(bombs(), |text, charge| {
            Query::parse_within(text, BASE, charge)
        });
    }

    #[test]
    fn short_updates_with_trees_beyond_the_memory_are_not_parsed() {
        let prefix = format!("PREFIX : <http://e/{}>", "x".repeat(30_000));
        let objects = vec![":"; 15_000].join(",");
        let texts = vec![
            format!("{prefix} INSERT DATA {{ : : {objects} }}"),
            format!("{prefix} DELETE WHERE {{ : : {objects} }}"),
            format!(
                "WITH <{}> INSERT {{ {} }} WHERE {{}}",
                "z".repeat(30_000),
                "<> <> 1.".repeat(3500)
            ),
        ];
        assert_refused(texts, |text, charge| {
            Update::parse_within(text, BASE, charge)
        });
    }

    /// Ordinary queries are charged by their size, and small ones are free.
    #[test]
    fn usual_queries_are_charged_little() {
        let long = "x".repeat(1 << 20);
        let calls = vec!["STR(?o) = (1 / 2 * 3)"; 200].join(" || ");
        let many = vec!["<http://example.org/resource/Q123456>"; 10_000];
        let texts = [
            (
                "SELECT * { ?s ?p ?o ; a <c> , <d> . ?o <p>/<q>|<r> ?x }".to_owned(),
                0,
            ),
            (
                format!("SELECT * {{ ?s ?p ?o FILTER(CONTAINS(?o, \"{long}\") && {calls}) }}"),
                3 << 20,
            ),
            (
                format!("SELECT * {{ VALUES ?s {{ {} }} ?s ?p ?o }}", many.join(" ")),
                8 << 20,
            ),
            (
                format!(
                    "SELECT * {{ ?s ?p ?o FILTER(?s IN ({})) }}",
                    many.join(", ")
                ),
                8 << 20,
            ),
        ];
        for (text, most) in texts {
            let limits = TestLimits::of_memory(MEMORY_BYTES);
            let parsed = Query::parse_within(&text, BASE, limits.charge()).unwrap();
            let used = limits.used();
            assert!(used <= most, "{used} of {most}: {}", &text[..50]);
            assert!(most == 0 || used >= text.len(), "{used}: {}", &text[..50]);
            drop(parsed);
            assert_eq!(limits.used(), 0);
        }
    }
}
