//! Limits on the text of a query. They bound the recursion of the parser, the planner and the operators, and
//! lists that are searched repeatedly.
//!
//! They hold for threads with 2 MiB of stack. Other lists are not limited: triples, values, arguments, `IN`,
//! `FROM`, `ORDER BY`.

use crate::aggregates;
use crate::suggest::is_aggregate;
use crate::token::{Kind, Token, tokens};

/// Maximum nesting of brackets.
const NESTING_MAX: usize = 128;
/// Maximum depth of the tree of one expression or path; `1 + 1 + 1` has depth two.
const OPERATORS_MAX: usize = 2000;
/// Maximum columns of a SELECT or VALUES. Duplicates are searched in the whole list.
const COLUMNS_MAX: usize = 10_000;
/// Bytes of stack for parts that make a plan deeper: half of the stack.
const STACK_BYTES: usize = 1 << 20;

/// A construct that makes a plan one level deeper, and the approximate bytes of stack that the level takes in
/// planning and execution (measured without optimisation, rounded up).
#[derive(Clone, Copy)]
struct StackCost {
    name: &'static str,
    stack_bytes: usize,
}

const OPTIONAL: StackCost = StackCost {
    name: "OPTIONALs and MINUSes",
    stack_bytes: 4200,
};
const LATERAL: StackCost = StackCost {
    name: "LATERALs",
    stack_bytes: 10_000,
};
const COMPUTED: StackCost = StackCost {
    name: "computed variables",
    stack_bytes: 1200,
};
/// A BIND with patterns between it and the BIND before in its group: these are joined with the value of that.
const JOINED_BIND: StackCost = StackCost {
    name: "BINDs between patterns",
    stack_bytes: 5500,
};
/// A group with a BIND or SELECT, which may be evaluated by itself and joined, unless it is a branch of a UNION.
const JOINED_GROUP: StackCost = StackCost {
    name: "groups with BINDs or SELECTs",
    stack_bytes: 5500,
};
const GROUP: StackCost = StackCost {
    name: "groups",
    stack_bytes: 700,
};
const UNION: StackCost = StackCost {
    name: "UNIONs",
    stack_bytes: 250,
};
const FILTER: StackCost = StackCost {
    name: "FILTERs",
    stack_bytes: 250,
};
const AGGREGATE: StackCost = StackCost {
    name: "aggregates",
    stack_bytes: 250,
};

/// The exceeded limit and its byte position.
pub(crate) struct Excess {
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// Returns an error if a text exceeds one of the limits. Reads the text once.
pub(crate) fn check(text: &str) -> Result<(), Excess> {
    if is_small(text) {
        return Ok(());
    }
    let mut counts = Counts {
        may_aggregate: aggregates::may_be_called(text),
        ..Counts::default()
    };
    // The parser stops at the first invalid token too.
    tokens(text).try_for_each(|token| counts.add(token))
}

/// Returns whether a text is too short to exceed a limit: the common case, decided without reading tokens.
fn is_small(text: &str) -> bool {
    /// The most bytes of stack for a byte of text: of LATERAL. MINUS comes next.
    const STACK_FACTOR: usize = LATERAL.stack_bytes.div_ceil("LATERAL".len());
    const {
        assert!(STACK_FACTOR >= OPTIONAL.stack_bytes.div_ceil("MINUS".len()));
        assert!(STACK_FACTOR >= JOINED_BIND.stack_bytes.div_ceil("BIND".len()));
        assert!(STACK_FACTOR >= JOINED_GROUP.stack_bytes.div_ceil("{BIND(".len()));
        assert!(STACK_FACTOR >= GROUP.stack_bytes && STACK_FACTOR >= COMPUTED.stack_bytes / 2);
    }
    let nests = |byte: &u8| matches!(byte, b'(' | b'[' | b'{' | b'<' | b'!');
    text.len() <= STACK_BYTES / STACK_FACTOR
        && text.bytes().filter(|byte| nests(byte)).count() <= NESTING_MAX
}

/// Counts so far.
#[derive(Default)]
struct Counts {
    /// Open brackets.
    open: Vec<Bracket>,
    /// Expressions outside brackets.
    outside: Bracket,
    negations: usize,
    stack_bytes: usize,
    columns: usize,
    /// True while a list of columns is read.
    in_columns: bool,
    after_values: bool,
    after_union: bool,
    after_lateral: bool,
    /// True if the last token starts the quads of an update, and true inside the quads.
    after_quads: bool,
    in_quads: bool,
    /// True if IRIs that are called may be aggregates, and true after an IRI.
    may_aggregate: bool,
    after_iri: bool,
}

/// Expressions or paths in one bracket.
#[derive(Default)]
struct Bracket {
    is_round: bool,
    /// True if the group is a later branch of a UNION, or of a LATERAL, whose cost has it.
    is_branch: bool,
    /// True if the group has a SELECT; if it has a BIND; and if a pattern follows the last BIND.
    has_select: bool,
    has_bind: bool,
    after_pattern: bool,
    /// Depth of the current expression, and the maximum of all.
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
            _ => {}
        }
        let is_part = matches!(
            token.kind,
            Kind::Variable | Kind::Iri | Kind::Name | Kind::BlankNode
        );
        if is_part || token.text == "a" {
            self.bracket().after_pattern = true;
        }
        if token.kind == Kind::Iri {
            // Where an operator can stand, `<((a))>` is a comparison with brackets rather than an IRI.
            let brackets = token.text.matches(['(', '[']).count();
            limit_nesting(self.open.len() + brackets, token)?;
        }
        let is = |word: &str| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word);
        (self.after_values, self.after_union) = (is("VALUES"), is("UNION"));
        self.after_lateral = is("LATERAL");
        self.after_iri = matches!(token.kind, Kind::Iri | Kind::Name);
        self.after_quads = is("DATA") || is("INSERT") || is("DELETE");
        Ok(())
    }

    fn word(&mut self, token: Token<'_>) -> Result<(), Excess> {
        let is = |word: &str| token.text.eq_ignore_ascii_case(word);
        if is("SELECT") {
            (self.in_columns, self.columns) = (true, 0);
            self.bracket().has_select = true;
        } else if is("WHERE") || is("FROM") {
            self.in_columns = false;
        } else if is("OPTIONAL") || is("MINUS") {
            self.deepen(OPTIONAL, token)?;
        } else if is("LATERAL") {
            self.deepen(LATERAL, token)?;
        } else if is("FILTER") {
            self.deepen(FILTER, token)?;
        } else if is("BIND") {
            let bracket = self.bracket();
            let had_bind = std::mem::replace(&mut bracket.has_bind, true);
            if std::mem::take(&mut bracket.after_pattern) && had_bind {
                self.deepen(JOINED_BIND, token)?;
            }
        } else if is("AS") {
            self.deepen(COMPUTED, token)?;
        } else if is_aggregate(token.text) {
            self.deepen(AGGREGATE, token)?;
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
                    // Quads do not make a plan deeper, however many graphs they name.
                    if !self.in_quads {
                        self.deepen(if self.after_union { UNION } else { GROUP }, token)?;
                    }
                }
                if token.text == "(" && self.after_iri && self.may_aggregate {
                    self.deepen(AGGREGATE, token)?;
                }
                if token.text == "(" && self.after_values {
                    (self.in_columns, self.columns) = (true, 0);
                }
                self.open.push(Bracket {
                    is_round: token.text == "(",
                    is_branch: self.after_union || self.after_lateral,
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
                    // Brackets of BIND and FILTER are round.
                    bracket.after_pattern |= !closed.is_round;
                    if (closed.has_bind || closed.has_select) && !closed.is_branch {
                        self.deepen(JOINED_GROUP, token)?;
                    }
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
                // Each operation of an update has its own plan.
                if token.text == ";" && self.open.is_empty() {
                    self.stack_bytes = 0;
                }
            }
            // In braces, + and - are signs of numbers, and + and * belong to one step of a path.
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

    fn deepen(&mut self, cost: StackCost, token: Token<'_>) -> Result<(), Excess> {
        self.stack_bytes += cost.stack_bytes;
        if self.stack_bytes <= STACK_BYTES {
            return Ok(());
        }
        let most = STACK_BYTES / cost.stack_bytes;
        Err(Excess {
            at: token.start,
            message: format!(
                "the query has too many {} here: at most {most}, fewer with other parts",
                cost.name
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_limited_too() {
        for (part, name) in [("LATERAL{}", "LATERALs"), ("MINUS{}", "MINUSes")] {
            let text = |parts: usize| format!("SELECT*{{{}}}", part.repeat(parts));
            let refused = (1..1000).find_map(|parts| check(&text(parts)).err());
            let message = refused.expect("a limit").message;
            assert!(
                message.contains(name) || message.contains("groups"),
                "{message}"
            );
        }
        // Just above the limit, however short the text is.
        let chain = format!("SELECT*{{{}}}", "LATERAL{}".repeat(105));
        assert!(chain.len() < 1000 && check(&chain).is_err());
    }
}
