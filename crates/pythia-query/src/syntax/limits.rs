//! Limits on a query's text: what the parser, the planner and the operators recurse over, and what
//! is looked through again and again.
//!
//! They hold for threads with 2 MiB of stack. Lists are not limited: triples, values, arguments,
//! `IN`, `FROM`, `ORDER BY`.

use super::suggest::is_aggregate;
use super::token::{Kind, Token, tokens};

/// How deeply brackets may nest.
const NESTING_MAX: usize = 128;
/// How deep the tree of one expression or path may be: `1 + 1 + 1` is two deep.
const OPERATORS_MAX: usize = 2000;
/// How many columns a SELECT or VALUES may have; duplicates are looked for among them.
const COLUMNS_MAX: usize = 10_000;
/// Bytes of stack for what makes a plan deeper, half of what there is.
const STACK_BYTES: usize = 1 << 20;

/// What makes a plan deeper by one, and about how many bytes of stack that takes when it is
/// planned and run (measured without optimisation, rounded up).
#[derive(Clone, Copy)]
struct Part {
    name: &'static str,
    stack_bytes: usize,
}

const OPTIONAL: Part = Part {
    name: "OPTIONALs and MINUSes",
    stack_bytes: 4200,
};
const COMPUTED: Part = Part {
    name: "computed variables",
    stack_bytes: 1200,
};
const GROUP: Part = Part {
    name: "groups",
    stack_bytes: 700,
};
const UNION: Part = Part {
    name: "UNIONs",
    stack_bytes: 250,
};
const FILTER: Part = Part {
    name: "FILTERs",
    stack_bytes: 250,
};
const AGGREGATE: Part = Part {
    name: "aggregates",
    stack_bytes: 250,
};

/// What is too large, and at which byte.
pub(super) struct Excess {
    pub(super) at: usize,
    pub(super) message: String,
}

/// Refuses a text that is too large in one of these ways. Reads it once.
pub(super) fn check(text: &str) -> Result<(), Excess> {
    let mut counts = Counts::default();
    // The parser does not get past what is no token.
    tokens(text).try_for_each(|token| counts.add(token))
}

/// What there is so far.
#[derive(Default)]
struct Counts {
    /// The brackets that are open.
    open: Vec<Bracket>,
    /// Outside of brackets.
    outside: Bracket,
    negations: usize,
    stack_bytes: usize,
    columns: usize,
    /// Whether a list of columns is being read.
    in_columns: bool,
    after_values: bool,
    after_union: bool,
    /// Whether what was read last begins the quads of an update, and whether these are being read.
    after_quads: bool,
    in_quads: bool,
}

/// Expressions or paths in one bracket.
#[derive(Default)]
struct Bracket {
    is_round: bool,
    /// Depth of the current one, and the most there was.
    depth: usize,
    depth_max: usize,
}

impl Counts {
    fn add(&mut self, token: Token<'_>) -> Result<(), Excess> {
        if token.text != "!" {
            self.negations = 0;
        }
        match token.kind {
            Kind::Sign => self.sign(token)?,
            Kind::Word => self.word(token)?,
            Kind::Variable if self.in_columns => {
                self.columns += 1;
                limit(self.columns, COLUMNS_MAX, "columns", token)?;
            }
            // Where an operator can stand, `<((a))>` is a comparison with something in brackets.
            Kind::Iri => {
                let brackets = token.text.matches(['(', '[']).count();
                limit_nesting(self.open.len() + brackets, token)?;
            }
            _ => {}
        }
        let is = |word: &str| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word);
        (self.after_values, self.after_union) = (is("VALUES"), is("UNION"));
        self.after_quads = is("DATA") || is("INSERT") || is("DELETE");
        Ok(())
    }

    fn word(&mut self, token: Token<'_>) -> Result<(), Excess> {
        let is = |word: &str| token.text.eq_ignore_ascii_case(word);
        if is("SELECT") {
            (self.in_columns, self.columns) = (true, 0);
        } else if is("WHERE") || is("FROM") {
            self.in_columns = false;
        } else if is("OPTIONAL") || is("MINUS") {
            self.part(OPTIONAL, token)?;
        } else if is("FILTER") {
            self.part(FILTER, token)?;
        } else if is("AS") {
            self.part(COMPUTED, token)?;
        } else if is_aggregate(token.text) {
            self.part(AGGREGATE, token)?;
        }
        Ok(())
    }

    fn sign(&mut self, token: Token<'_>) -> Result<(), Excess> {
        match token.text {
            "(" | "{" | "[" | "<<" | "<<(" | "{|" => {
                if token.text == "{" {
                    self.in_columns = false;
                    if self.after_quads && self.open.is_empty() {
                        self.in_quads = true;
                    }
                    // Quads of many graphs make no plan deeper.
                    if !self.in_quads {
                        self.part(if self.after_union { UNION } else { GROUP }, token)?;
                    }
                }
                if token.text == "(" && self.after_values {
                    (self.in_columns, self.columns) = (true, 0);
                }
                self.open.push(Bracket {
                    is_round: token.text == "(",
                    ..Bracket::default()
                });
                limit_nesting(self.open.len(), token)?;
            }
            ")" | "}" | "]" | ">>" | ")>>" | "|}" => {
                if let Some(closed) = self.open.pop() {
                    self.in_quads &= !self.open.is_empty();
                    let inside = closed.depth.max(closed.depth_max);
                    let bracket = self.bracket();
                    bracket.depth = bracket.depth.max(inside);
                }
            }
            "!" => {
                self.negations += 1;
                limit_nesting(self.negations, token)?;
            }
            "," | "." | ";" => {
                let bracket = self.bracket();
                bracket.depth_max = bracket.depth_max.max(bracket.depth);
                bracket.depth = 0;
                // Each operation of an update has a plan of its own.
                if token.text == ";" && self.open.is_empty() {
                    self.stack_bytes = 0;
                }
            }
            // In braces + and - are signs of numbers, and + and * belong to one step of a path.
            "&&" | "||" | "/" | "|" | "+" | "-" | "*" => {
                let bracket = self.bracket();
                bracket.depth += usize::from(bracket.is_round || "/|".contains(token.text));
                limit(bracket.depth, OPERATORS_MAX, "operators in a row", token)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn bracket(&mut self) -> &mut Bracket {
        self.open.last_mut().unwrap_or(&mut self.outside)
    }

    fn part(&mut self, part: Part, token: Token<'_>) -> Result<(), Excess> {
        self.stack_bytes += part.stack_bytes;
        if self.stack_bytes <= STACK_BYTES {
            return Ok(());
        }
        let most = STACK_BYTES / part.stack_bytes;
        Err(Excess {
            at: token.start,
            message: format!(
                "the query has too many {} here: at most {most}, fewer with other parts",
                part.name
            ),
        })
    }
}

fn limit(count: usize, most: usize, what: &str, token: Token<'_>) -> Result<(), Excess> {
    if count <= most {
        return Ok(());
    }
    Err(Excess {
        at: token.start,
        message: format!("the query has too many {what} here: at most {most}"),
    })
}

fn limit_nesting(depth: usize, token: Token<'_>) -> Result<(), Excess> {
    if depth <= NESTING_MAX {
        return Ok(());
    }
    Err(Excess {
        at: token.start,
        message: format!("this is nested more than {NESTING_MAX} deep"),
    })
}
