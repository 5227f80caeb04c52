//! Limits on a query's text: what the parser, the planner and their trees recurse over, and what
//! they look through again and again.
//!
//! Lists are not limited: triples, values, arguments, `IN`, `FROM`, `ORDER BY`.

use super::suggest::is_aggregate;
use super::token::{Kind, Token, tokens};

/// How deeply brackets may nest.
const NESTING_MAX: usize = 128;
/// How many operators may follow each other in one expression or path, and how many groups,
/// filters, aggregates and computed variables a query may have: each makes its tree one deeper.
const ELEMENTS_MAX: usize = 4000;
/// How many columns a SELECT or VALUES may have; duplicates are looked for among them.
const COLUMNS_MAX: usize = 10_000;

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
    groups: usize,
    filters: usize,
    aggregates: usize,
    computed: usize,
    columns: usize,
    /// Whether a list of columns is being read.
    in_columns: bool,
    after_values: bool,
}

/// Operators in a row in one bracket.
#[derive(Default)]
struct Bracket {
    is_round: bool,
    arithmetic: usize,
    logical: usize,
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
        self.after_values = token.kind == Kind::Word && token.text.eq_ignore_ascii_case("VALUES");
        Ok(())
    }

    fn word(&mut self, token: Token<'_>) -> Result<(), Excess> {
        let is = |word: &str| token.text.eq_ignore_ascii_case(word);
        if is("SELECT") {
            (self.in_columns, self.columns) = (true, 0);
        } else if is("WHERE") || is("FROM") {
            self.in_columns = false;
        } else if is("FILTER") {
            self.filters += 1;
            limit(self.filters, ELEMENTS_MAX, "FILTERs", token)?;
        } else if is("AS") {
            self.computed += 1;
            limit(self.computed, ELEMENTS_MAX, "computed variables", token)?;
        } else if is_aggregate(token.text) {
            self.aggregates += 1;
            limit(self.aggregates, ELEMENTS_MAX, "aggregates", token)?;
        }
        Ok(())
    }

    fn sign(&mut self, token: Token<'_>) -> Result<(), Excess> {
        match token.text {
            "(" | "{" | "[" | "<<" | "<<(" | "{|" => {
                if token.text == "{" {
                    self.in_columns = false;
                    self.groups += 1;
                    limit(self.groups, ELEMENTS_MAX, "groups", token)?;
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
                self.open.pop();
            }
            "!" => {
                self.negations += 1;
                limit_nesting(self.negations, token)?;
            }
            "&&" | "||" => {
                let bracket = self.bracket();
                bracket.arithmetic = 0;
                bracket.logical += 1;
                limit(bracket.logical, ELEMENTS_MAX, "operators in a row", token)?;
            }
            "," | "." | ";" => {
                let bracket = self.bracket();
                (bracket.arithmetic, bracket.logical) = (0, 0);
            }
            // In braces + and - are signs of numbers, and + and * belong to one step of a path.
            "/" | "|" | "+" | "-" | "*" => {
                let bracket = self.bracket();
                bracket.arithmetic += usize::from(bracket.is_round || "/|".contains(token.text));
                limit(
                    bracket.arithmetic,
                    ELEMENTS_MAX,
                    "operators in a row",
                    token,
                )?;
            }
            _ => {}
        }
        Ok(())
    }

    fn bracket(&mut self) -> &mut Bracket {
        self.open.last_mut().unwrap_or(&mut self.outside)
    }
}

fn limit(count: usize, most: usize, what: &str, token: Token<'_>) -> Result<(), Excess> {
    if count <= most {
        return Ok(());
    }
    Err(Excess {
        at: token.start,
        message: format!("the query has more than {most} {what}"),
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
