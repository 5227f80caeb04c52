//! Expressions and function calls.

use super::paths::WrittenTriple;
use super::{Kind, Read, Reader};
use crate::aggregates::{self, Statistic};
use crate::suggest;
use crate::token::Token;

impl Reader<'_> {
    /// Returns whether the operand of FILTER, HAVING or ORDER BY can start here.
    pub(super) fn starts_constraint(&self) -> bool {
        let function = self.token.kind == Kind::Word
            && (suggest::built_in(self.token.text).is_some()
                || suggest::is_aggregate(self.token.text)
                || self.is_word("EXISTS")
                || self.is_word("NOT"));
        self.is_sign("(") || self.is_iri() || function
    }

    /// Reads an expression in brackets, or a call.
    pub(super) fn constraint(&mut self, keyword: &str) -> Read {
        self.free.clear();
        if self.is_sign("(") {
            self.open("(", "(")?;
            self.expression()?;
            return self.close(")");
        }
        if self.is_iri() {
            return self.call("a function");
        }
        if self.token.kind == Kind::Word {
            return self.word();
        }
        if self.token.kind == Kind::Variable || self.is_sign("!") {
            let message = format!("{keyword} takes an expression in brackets: {keyword}(…)");
            return self.fault(self.token.start, message);
        }
        Err(self.expected(&format!("( or a function after {keyword}")))
    }

    /// Reads any expression. Precedence does not affect errors, so operators are read in a row.
    pub(super) fn expression(&mut self) -> Read {
        let mut compared = false;
        loop {
            self.operand()?;
            if self.token.kind == Kind::Iri {
                self.token = self.lexer.less_than(self.token);
            }
            if matches!(self.token.kind, Kind::Bad(_)) && self.token.text.starts_with('<') {
                self.token = self.lexer.less_than(self.token);
            }
            if self.is_word("IN") || self.is_word("NOT") {
                if self.take_word("NOT") {
                    self.need_word("IN")?;
                } else {
                    self.take();
                }
                self.arguments(0, usize::MAX, "IN")?;
                compared = true;
            }
            match (self.token.kind, self.token.text) {
                (Kind::Sign, "&&" | "||") => compared = false,
                (Kind::Sign, "=" | "!=" | "<" | ">" | "<=" | ">=") => {
                    if compared {
                        let message = "comparisons cannot be chained; join them with &&";
                        return self.fault(self.token.start, message);
                    }
                    compared = true;
                }
                (Kind::Sign, "+" | "-" | "*" | "/") => {}
                (Kind::Sign, "|") => return self.fault(self.token.start, "write || for or"),
                (Kind::Word, _) if self.is_word("AND") => {
                    return self.fault(self.token.start, "write && for and");
                }
                (Kind::Word, _) if self.is_word("OR") => {
                    return self.fault(self.token.start, "write || for or");
                }
                _ => return Ok(()),
            }
            let operator = self.take();
            if operator.text == "=" && self.is_sign("=") {
                return self.fault(operator.start, "write = for equal");
            }
            if operator.text == "<" && self.is_sign(">") {
                return self.fault(operator.start, "write != for not equal");
            }
        }
    }

    fn operand(&mut self) -> Read {
        // The parser accepts any number of `!`, and one sign.
        let mut signs = 0;
        while self.take_sign("!") {}
        while signs == 0 && (self.take_sign("+") || self.take_sign("-")) {
            signs += 1;
        }
        match self.token.kind {
            Kind::Variable => {
                let variable = self.take();
                self.free.push(variable);
                Ok(())
            }
            Kind::Iri | Kind::Name => {
                let mut after = self.lexer.clone();
                if after.next().text == "(" {
                    return self.call("a value");
                }
                self.iri("a value")
            }
            Kind::Word if !self.is_boolean() => self.word(),
            Kind::BlankNode => self.fault(
                self.token.start,
                "a blank node cannot be part of an expression; use a variable",
            ),
            _ if self.is_sign("(") => {
                self.open("(", "(")?;
                self.expression()?;
                self.close(")")
            }
            _ if self.is_sign("<<(") => {
                let start = self.token.start;
                self.open("<<(", "<<(")?;
                self.part_of_triple("the subject of a triple term")?;
                let (subject_end, predicate_start) = (self.last_end, self.token.start);
                if !self.take_word("a") {
                    self.part_of_triple("the predicate of a triple term")?;
                }
                let predicate = predicate_start..self.last_end;
                self.part_of_triple("the object of a triple term")?;
                self.close(")>>")?;
                self.extensions.triple_terms.push(WrittenTriple {
                    at: start..self.last_end,
                    subject_end,
                    predicate,
                });
                Ok(())
            }
            _ => self.ground_term("a value, a variable, a function or ("),
        }
    }

    /// Reads a part of a triple term, which cannot be a calculation.
    fn part_of_triple(&mut self, what: &str) -> Read {
        match self.token.kind {
            Kind::Variable => self.operand(),
            _ if self.is_sign("<<(") => self.operand(),
            _ => self.ground_term(what),
        }
    }

    /// Reads a call of a built-in function, an aggregate, or EXISTS.
    fn word(&mut self) -> Read {
        let name = self.token;
        if self.is_word("EXISTS") || self.is_word("NOT") {
            self.take_word("NOT");
            self.need_word("EXISTS")?;
            let free = std::mem::take(&mut self.free);
            let in_aggregate = std::mem::take(&mut self.in_aggregate);
            let assigned = self.assigned.len();
            self.hidden_group()?;
            self.assigned.truncate(assigned);
            (self.free, self.in_aggregate) = (free, in_aggregate);
            return Ok(());
        }
        if suggest::is_aggregate(name.text) {
            let name = self.take();
            return self.aggregate(name);
        }
        if let Some(function) = suggest::built_in(name.text) {
            self.take();
            if function.name == "BOUND" {
                self.open("(", "( after BOUND")?;
                self.variable("a variable in BOUND(…)")?;
                return self.close(")");
            }
            let (from, to) = function.arguments;
            return self.arguments(from, to, function.name);
        }
        let keywords = ["EXISTS", "NOT EXISTS"];
        let meant =
            suggest::nearest_function(name.text).or_else(|| suggest::nearest(name.text, keywords));
        match meant {
            Some(meant) => self.fault(
                name.start,
                format!("{} is not a function; did you mean {meant}?", name.text),
            ),
            None => {
                let mut after = self.lexer.clone();
                if after.next().text == "(" {
                    let message = format!(
                        "{} is not a SPARQL function; call other functions by IRI",
                        name.text
                    );
                    return self.fault(name.start, message);
                }
                Err(self.expected("a value, a variable, a function or ("))
            }
        }
    }

    /// Reads a call of a function or an aggregate by IRI.
    fn call(&mut self, what: &str) -> Read {
        let name = self.token;
        self.iri(what)?;
        let iri = self.full_iri(name);
        if let Some(message) = iri.as_deref().and_then(aggregates::unknown)
            && !self.in_service
        {
            return self.fault(name.start, message);
        }
        if iri.as_deref().and_then(Statistic::named).is_some() {
            return self.aggregate(name);
        }
        let mut after = self.lexer.clone();
        let first = after.next();
        let is_distinct = first.kind == Kind::Word && first.text.eq_ignore_ascii_case("DISTINCT");
        match iri {
            Some(iri) if is_distinct && self.is_sign("(") => {
                let message = format!("<{iri}> is not an aggregate, so it does not take DISTINCT");
                self.fault(name.start, message)
            }
            _ => self.arguments(0, usize::MAX, "the function"),
        }
    }

    fn aggregate(&mut self, name: Token<'_>) -> Read {
        if std::mem::replace(&mut self.in_aggregate, true) {
            let message = "aggregates cannot be nested";
            return self.fault(name.start, message);
        }
        let free = std::mem::take(&mut self.free);
        self.aggregates = true;
        self.open("(", &format!("( after {}", name.text))?;
        self.take_word("DISTINCT");
        if !(name.text.eq_ignore_ascii_case("COUNT") && self.take_sign("*")) {
            self.expression()?;
        }
        if self.is_sign(";") && name.text.eq_ignore_ascii_case("GROUP_CONCAT") {
            self.take();
            self.need_word("SEPARATOR")?;
            if !self.take_sign("=") || self.token.kind != Kind::String {
                return Err(self.expected("= and the separator in quotes"));
            }
            self.take();
        }
        if self.is_sign(",") {
            return self.fault(self.token.start, "an aggregate takes one expression");
        }
        self.free = free;
        self.in_aggregate = false;
        self.close(")")
    }

    /// Reads arguments in brackets, between `from` and `to` of them.
    fn arguments(&mut self, from: usize, to: usize, name: &str) -> Read {
        let after = if name == "the function" {
            String::new()
        } else {
            format!(" after {name}")
        };
        let bracket = self.token;
        self.open("(", &format!("({after}"))?;
        let mut count = 0;
        while count == 0 && !self.is_sign(")") || count > 0 && self.take_sign(",") {
            self.expression()?;
            count += 1;
        }
        if self.is_sign(")") && !(from..=to).contains(&count) {
            let takes = match (from, to) {
                (0, 0) => "no arguments".to_owned(),
                (1, 1) => "one argument".to_owned(),
                (from, to) if from == to => format!("{from} arguments"),
                (from, to) => format!("{from} to {to} arguments"),
            };
            return self.fault(
                bracket.start,
                format!("{name} takes {takes}, found {count}"),
            );
        }
        self.close(")")
    }
}
