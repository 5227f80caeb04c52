//! Queries: prologue, forms, datasets and solution modifiers.

use std::collections::{HashMap, HashSet};

use super::{Kind, Read, Reader, Token};
use crate::suggest;
use crate::token::tokens;

const FORMS: [&str; 8] = [
    "SELECT",
    "PATHS",
    "CONSTRUCT",
    "ASK",
    "DESCRIBE",
    "PREFIX",
    "BASE",
    "VERSION",
];
/// Keywords that start a query, after its prologue.
pub(super) const QUERIES: &[&str] = FORMS.split_at(5).0;
/// Keywords that start an operation of an update.
pub(super) const UPDATES: [&str; 10] = [
    "INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH",
];
/// Clauses that may follow the pattern, in this order.
const MODIFIERS: [&str; 6] = [
    "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "VALUES",
];

/// The columns of a SELECT.
#[derive(Default)]
struct Selection<'t> {
    star: bool,
    variables: Vec<Token<'t>>,
    /// Variables named with AS.
    named: Vec<Token<'t>>,
    /// Variables that expressions use outside aggregates.
    used: Vec<Token<'t>>,
    aggregates: bool,
}

impl<'t> Reader<'t> {
    /// Reads a whole query.
    pub(super) fn query(&mut self) -> Read {
        self.prologue()?;
        if self.is_word("SELECT") {
            self.select(true)?;
        } else if self.is_word("PATHS") {
            let keyword = self.take();
            return self.paths_form(keyword.start);
        } else if self.take_word("CONSTRUCT") {
            self.construct()?;
        } else if self.take_word("DESCRIBE") {
            self.describe()?;
        } else if self.take_word("ASK") {
            self.dataset()?;
            self.where_clause()?;
            self.modifiers()?;
        } else if UPDATES.iter().any(|word| self.is_word(word)) {
            let message = "expected a query, found an update; run it with `pythia update`";
            return self.fault(self.token.start, message);
        } else {
            return Err(self.expected_word("SELECT, CONSTRUCT, ASK, DESCRIBE or PATHS", &FORMS));
        }
        if self.token.kind == Kind::End {
            return Ok(());
        }
        if self.is_sign("}") {
            return self.fault(self.token.start, "unmatched }");
        }
        if let Some(word) = ["GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"]
            .iter()
            .find(|word| self.is_word(word))
        {
            let message = format!(
                "{word} is out of order; the order is {}",
                MODIFIERS.join(", ")
            );
            return self.fault(self.token.start, message);
        }
        Err(self.expected_word("the end of the query", &MODIFIERS))
    }

    pub(super) fn prologue(&mut self) -> Read {
        loop {
            if self.take_word("BASE") {
                if self.token.kind != Kind::Iri {
                    return Err(self.expected("the base IRI in < >"));
                }
                let token = self.take();
                self.check_iri(token)?;
                let base = self.full_iri(token);
                self.base = base.and_then(|iri| oxiri::Iri::parse(iri).ok());
            } else if self.take_word("PREFIX") {
                let name = self.token;
                if name.kind != Kind::Name || name.text.find(':') != Some(name.text.len() - 1) {
                    return Err(self.expected("a prefix and a colon, as in PREFIX ex: <…>"));
                }
                self.take();
                if self.token.kind != Kind::Iri {
                    return Err(self.expected("the prefix's IRI in < >"));
                }
                let token = self.take();
                self.check_iri(token)?;
                let iri = &token.text[1..token.text.len() - 1];
                self.prefixes.insert(&name.text[..name.text.len() - 1], iri);
            } else if self.take_word("VERSION") {
                let is_long = ["'''", "\"\"\""]
                    .iter()
                    .any(|q| self.token.text.starts_with(q));
                if self.token.kind != Kind::String || is_long {
                    return Err(self.expected("the version in quotes"));
                }
                self.take();
            } else {
                return Ok(());
            }
        }
    }

    /// Reads a SELECT and returns its variables. A sub-query has no dataset.
    fn select(&mut self, whole: bool) -> Read<HashSet<&'t str>> {
        self.need_word("SELECT")?;
        let selection = self.selection()?;
        if whole {
            self.dataset()?;
        }
        let outer = std::mem::take(&mut self.scope);
        let assigned_before = self.assigned.len();
        self.where_clause()?;
        let grouped = self.modifiers()?;
        let scope = std::mem::replace(&mut self.scope, outer);
        self.check_selection(&selection, &scope, grouped)?;
        if selection.star {
            return Ok(scope);
        }
        let all = selection.variables.iter().chain(&selection.named);
        let selected: HashSet<&str> = all.map(|variable| &variable.text[1..]).collect();
        let inside = self.assigned.split_off(assigned_before);
        let is_selected = |variable: &Token<'_>| selected.contains(&variable.text[1..]);
        self.assigned.extend(inside.into_iter().filter(is_selected));
        self.assigned.extend(selection.named);
        Ok(selected)
    }

    /// Reads a sub-query and returns its variables.
    pub(super) fn sub_select(&mut self) -> Read<HashSet<&'t str>> {
        self.select(false)
    }

    fn selection(&mut self) -> Read<Selection<'t>> {
        let mut selection = Selection::default();
        if !self.take_word("DISTINCT") {
            self.take_word("REDUCED");
        }
        if self.take_sign("*") {
            selection.star = true;
            self.extensions.selects_all = true;
            return Ok(selection);
        }
        loop {
            if self.token.kind == Kind::Variable {
                let variable = self.take();
                selection.variables.push(variable);
            } else if let Some(path) = self.marked_variable()? {
                self.extensions.selected.push(path.start..path.end);
                selection.variables.push(path);
            } else if self.is_sign("(") {
                self.open("(", "(")?;
                let outer = std::mem::take(&mut self.aggregates);
                self.free.clear();
                self.expression()?;
                selection.used.append(&mut self.free);
                selection.aggregates |= self.aggregates;
                self.aggregates |= outer;
                self.need_as()?;
                let variable = self.variable("the variable after AS")?;
                selection.named.push(variable);
                self.close(")")?;
            } else if selection.variables.len() + selection.named.len() > 0 {
                if self.is_sign(",") {
                    let message = "variables of a SELECT are separated by spaces, not by commas";
                    return self.fault(self.token.start, message);
                }
                return Ok(selection);
            } else if suggest::is_aggregate(self.token.text)
                || suggest::built_in(self.token.text).is_some()
            {
                let message = "SELECT takes an expression in brackets: (COUNT(*) AS ?count)";
                return self.fault(self.token.start, message);
            } else {
                let what = "* or the variables to select";
                return Err(self.expected_word(what, &["DISTINCT", "REDUCED", "WHERE"]));
            }
        }
    }

    fn need_as(&mut self) -> Read {
        if self.is_sign(")") {
            return self.fault(self.token.start, "expected AS and a variable, found )");
        }
        self.need_word("AS")
    }

    fn check_selection(
        &mut self,
        selection: &Selection<'t>,
        scope: &HashSet<&'t str>,
        grouped: Option<HashSet<&'t str>>,
    ) -> Read {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut all: Vec<&Token<'_>> = selection.variables.iter().chain(&selection.named).collect();
        all.sort_by_key(|variable| variable.start);
        for variable in all {
            if !seen.insert(&variable.text[1..]) {
                let message = format!("{} is in the SELECT twice", variable.text);
                return self.fault(variable.start, message);
            }
        }
        let keys = match grouped {
            None if !selection.aggregates => None,
            keys => Some(keys.unwrap_or_default()),
        };
        let visible = keys.as_ref().unwrap_or(scope);
        for variable in &selection.named {
            if visible.contains(&variable.text[1..]) {
                let message = format!("{} already has a value; use another name", variable.text);
                return self.fault(variable.start, message);
            }
        }
        let Some(keys) = keys else {
            return Ok(());
        };
        let mut starts: HashMap<&str, usize> = HashMap::new();
        for named in &selection.named {
            starts.entry(&named.text[1..]).or_insert(named.start);
        }
        for variable in selection.variables.iter().chain(&selection.used) {
            let name = &variable.text[1..];
            if keys.contains(name) {
                continue;
            }
            let named = starts.get(name);
            if named.is_some_and(|start| *start < variable.start) {
                self.extensions.coalesced.push(variable.start..variable.end);
            } else if named.is_some() {
                let message = format!("{} is defined after this; put it first", variable.text);
                return self.fault(variable.start, message);
            } else {
                let message = format!(
                    "{} has many values in a group; add it to GROUP BY, or aggregate it: (SAMPLE({0}) AS ?one)",
                    variable.text
                );
                return self.fault(variable.start, message);
            }
        }
        Ok(())
    }

    fn construct(&mut self) -> Read {
        if self.is_sign("{") {
            self.template()?;
            self.dataset()?;
            self.where_clause()?;
        } else {
            self.dataset()?;
            self.need_word("WHERE")?;
            self.template()?;
        }
        self.modifiers().map(drop)
    }

    /// Reads triples in braces.
    fn template(&mut self) -> Read {
        self.open("{", "{ and the triples to make")?;
        self.triples_block(false)?;
        self.labels.clear();
        self.close("}")
    }

    fn describe(&mut self) -> Read {
        if !self.take_sign("*") {
            let mut variables = HashSet::new();
            self.described(&mut variables)?;
            while self.token.kind == Kind::Variable || self.is_iri() {
                self.described(&mut variables)?;
            }
        }
        self.dataset()?;
        if self.is_word("WHERE") || self.is_sign("{") {
            self.where_clause()?;
        }
        self.modifiers().map(drop)
    }

    fn described(&mut self, variables: &mut HashSet<&'t str>) -> Read {
        if self.token.kind == Kind::Variable {
            let variable = self.take();
            if !variables.insert(&variable.text[1..]) {
                let message = format!("{} is in the DESCRIBE twice", variable.text);
                return self.fault(variable.start, message);
            }
            return Ok(());
        }
        self.iri("*, a variable or an IRI to describe")
    }

    pub(super) fn dataset(&mut self) -> Read {
        while self.take_word("FROM") {
            self.take_word("NAMED");
            self.iri("the IRI of a graph")?;
        }
        Ok(())
    }

    fn where_clause(&mut self) -> Read {
        let keyword = self.take_word("WHERE");
        if self.is_sign("{") {
            return self.group();
        }
        let what = if keyword { "{" } else { "WHERE { … }" };
        Err(self.expected_word(what, &["WHERE", "FROM"]))
    }

    /// Reads the solution modifiers. Returns the grouping variables if there is a GROUP BY.
    fn modifiers(&mut self) -> Read<Option<HashSet<&'t str>>> {
        let mut grouped = None;
        if self.take_word("GROUP") {
            self.need_word("BY")?;
            grouped = Some(self.group_keys()?);
        }
        if self.take_word("HAVING") {
            self.constraint("HAVING")?;
            while self.starts_constraint() {
                self.constraint("HAVING")?;
            }
        }
        self.order_and_limits()?;
        if self.take_word("VALUES") {
            self.data_block()?;
        }
        Ok(grouped)
    }

    /// Reads ORDER BY, LIMIT and OFFSET.
    pub(super) fn order_and_limits(&mut self) -> Read {
        if self.take_word("ORDER") {
            self.need_word("BY")?;
            self.order_key()?;
            while self.starts_constraint()
                || self.token.kind == Kind::Variable
                || self.is_word("ASC")
                || self.is_word("DESC")
            {
                self.order_key()?;
            }
        }
        if self.is_word("LIMIT") {
            self.count("LIMIT")?;
            self.count("OFFSET")?;
        } else {
            self.count("OFFSET")?;
            self.count("LIMIT")?;
        }
        Ok(())
    }

    fn group_keys(&mut self) -> Read<HashSet<&'t str>> {
        let mut keys = HashSet::new();
        let mut count = 0;
        loop {
            if self.token.kind == Kind::Variable {
                keys.insert(&self.take().text[1..]);
            } else if self.is_sign("(") {
                self.open("(", "(")?;
                let start = self.token.start;
                self.expression()?;
                let key = start..self.token.start;
                if self.take_word("AS") {
                    let only = only_variable(&self.text[key]);
                    let place = only.map(|v| start + v.start..start + v.end);
                    self.extensions.coalesced.extend(place);
                    let variable = self.variable("the variable after AS")?;
                    keys.insert(&variable.text[1..]);
                    self.assigned.push(variable);
                }
                self.close(")")?;
            } else if self.starts_constraint() {
                self.constraint("GROUP BY")?;
            } else if count > 0 {
                return Ok(keys);
            } else {
                return Err(self.expected("a variable or (expression) to group by"));
            }
            count += 1;
        }
    }

    fn order_key(&mut self) -> Read {
        if self.take_word("ASC") || self.take_word("DESC") {
            self.open("(", "( after ASC or DESC")?;
            self.expression()?;
            return self.close(")");
        }
        if self.token.kind == Kind::Variable {
            self.take();
            return Ok(());
        }
        if !self.starts_constraint() {
            let what = "a variable, (expression), ASC(…) or DESC(…) to order by";
            return Err(self.expected_word(what, &["ASC", "DESC"]));
        }
        self.constraint("ORDER BY")
    }

    fn count(&mut self, keyword: &'static str) -> Read {
        if !self.take_word(keyword) {
            return Ok(());
        }
        let token = self.token;
        if token.kind != Kind::Integer || token.text.parse::<usize>().is_err() {
            return Err(self.expected(&format!("a whole number after {keyword}")));
        }
        self.take();
        Ok(())
    }
}

/// Returns the variable of an expression that has nothing else but brackets.
fn only_variable(expression: &str) -> Option<Token<'_>> {
    let mut inside = tokens(expression).filter(|token| !matches!(token.text, "(" | ")"));
    let only = inside.next().filter(|token| token.kind == Kind::Variable)?;
    inside.next().is_none().then_some(only)
}
