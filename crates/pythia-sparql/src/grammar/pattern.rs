//! Graph patterns: groups, triples, property paths, and VALUES.

use std::collections::HashSet;
use std::ops::Range;

use oxrdf::Literal;

use super::update::DELETED_BLANK;
use super::{Kind, Read, Reader, Token};
use crate::token::tokens;

const ELEMENTS: [&str; 12] = [
    "OPTIONAL",
    "LATERAL",
    "FILTER",
    "pathfilter",
    "BIND",
    "VALUES",
    "GRAPH",
    "MINUS",
    "SERVICE",
    "UNION",
    "SELECT",
    "EXISTS",
];

impl Reader<'_> {
    /// Reads a group in braces. Adds the variables that it binds to the scope.
    pub(super) fn group(&mut self) -> Read {
        self.open("{", "{")?;
        self.labels_before.extend(self.labels.drain());
        let outer = std::mem::take(&mut self.scope);
        self.group_count += 1;
        let outer_number = std::mem::replace(&mut self.group_number, self.group_count);
        if self.is_word("SELECT") {
            self.scope = self.sub_select()?;
        } else {
            self.elements()?;
        }
        self.group_number = outer_number;
        self.labels_before.extend(self.labels.drain());
        self.scope.extend(outer);
        self.close("}")
    }

    /// Reads a group whose variables are not visible outside.
    pub(super) fn hidden_group(&mut self) -> Read {
        let outer = self.scope.clone();
        let read = self.group();
        self.scope = outer;
        read
    }

    fn elements(&mut self) -> Read {
        // Whether a triple, or a dot, may come next.
        let (mut triples, mut dot) = (true, false);
        loop {
            if self.is_sign("}") {
                return Ok(());
            }
            if self.is_sign(".") {
                if !dot {
                    return self.fault(self.token.start, "no triple before this dot");
                }
                self.take();
                (triples, dot) = (true, false);
            } else if self.element()? {
                (triples, dot) = (true, true);
            } else if !triples {
                if self.starts_term() {
                    let message = "missing dot between two triples; or use ; or , to continue with the same subject";
                    return self.fault(self.token.start, message);
                }
                return Err(self.expected_word("., ;, , or }", &ELEMENTS));
            } else if self.starts_term() {
                self.triples_same_subject(true)?;
                (triples, dot) = (false, true);
            } else {
                return Err(self.expected_word("a triple, a keyword or }", &ELEMENTS));
            }
        }
    }

    /// Reads any element of a group except triples. Returns false if there is none.
    fn element(&mut self) -> Read<bool> {
        if self.is_sign("{") {
            self.group()?;
            while self.take_word("UNION") {
                self.group()?;
            }
        } else if self.take_word("OPTIONAL") {
            self.group()?;
        } else if self.take_word("LATERAL") {
            self.lateral()?;
        } else if self.take_word("MINUS") {
            self.hidden_group()?;
        } else if self.take_word("GRAPH") {
            self.graph_name("the graph: an IRI or a variable")?;
            self.group()?;
        } else if self.take_word("SERVICE") {
            self.take_word("SILENT");
            self.graph_name("the service: an IRI or a variable")?;
            let outer = std::mem::replace(&mut self.in_service, true);
            self.group()?;
            self.in_service = outer;
        } else if self.is_word("pathfilter") {
            self.path_filter()?;
        } else if self.take_word("FILTER") {
            self.constraint("FILTER")?;
        } else if self.take_word("BIND") {
            self.bind()?;
        } else if self.take_word("VALUES") {
            self.data_block()?;
        } else if self.is_word("EXISTS") || self.is_word("NOT") {
            let message = "EXISTS must be in a FILTER: FILTER NOT EXISTS { … }";
            return self.fault(self.token.start, message);
        } else if self.is_word("UNION") {
            let message = "UNION must be between two groups: { … } UNION { … }";
            return self.fault(self.token.start, message);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the group of a LATERAL. It gets the values of the variables before it, so that it cannot assign
    /// others to them.
    fn lateral(&mut self) -> Read {
        let before = self.scope.clone();
        let outer = std::mem::take(&mut self.assigned);
        self.group()?;
        let assigned = std::mem::replace(&mut self.assigned, outer);
        let has_value = |variable: &&Token<'_>| before.contains(&variable.text[1..]);
        if let Some(again) = assigned.iter().filter(has_value).min_by_key(|v| v.start) {
            let message = format!(
                "{} already has a value before LATERAL; use another name",
                again.text
            );
            return self.fault(again.start, message);
        }
        self.assigned.extend(assigned);
        Ok(())
    }

    pub(super) fn graph_name(&mut self, what: &str) -> Read {
        if self.token.kind == Kind::Variable {
            let name = &self.take().text[1..];
            self.scope.insert(name);
            return Ok(());
        }
        self.iri(what)
    }

    fn bind(&mut self) -> Read {
        self.open("(", "( after BIND")?;
        self.expression()?;
        if self.is_sign(")") {
            return self.fault(self.token.start, "expected AS and a variable, found )");
        }
        self.need_word("AS")?;
        let variable = self.variable("the variable after AS")?;
        if !self.scope.insert(&variable.text[1..]) {
            let message = format!(
                "{} already has a value; BIND needs a new variable",
                variable.text
            );
            return self.fault(variable.start, message);
        }
        self.assigned.push(variable);
        self.close(")")
    }

    /// Reads the rest of a VALUES clause.
    pub(super) fn data_block(&mut self) -> Read {
        if self.token.kind == Kind::Variable {
            let variable = self.take();
            self.scope.insert(&variable.text[1..]);
            self.assigned.push(variable);
            self.open("{", "{ and the values")?;
            while !self.is_sign("}") {
                self.data_value("a value or }")?;
            }
            return self.close("}");
        }
        self.open("(", "a variable, or ( and variables, after VALUES")?;
        let mut variables = HashSet::new();
        while self.token.kind == Kind::Variable {
            let variable = self.take();
            let name = &variable.text[1..];
            self.scope.insert(name);
            self.assigned.push(variable);
            if !variables.insert(name) {
                let message = format!("{} is in the VALUES twice", variable.text);
                return self.fault(variable.start, message);
            }
        }
        let variables = variables.len();
        self.close(")")?;
        self.open("{", "{ and the rows")?;
        while self.is_sign("(") {
            let row = self.token;
            self.open("(", "(")?;
            let mut values = 0;
            while !self.is_sign(")") {
                self.data_value("a value or )")?;
                values += 1;
            }
            self.close(")")?;
            if values != variables {
                let message = format!(
                    "this row has {values} values for {variables} variables; write UNDEF for no value"
                );
                return self.fault(row.start, message);
            }
        }
        if self.token.kind == Kind::Variable || self.starts_term() {
            return Err(self.expected("( and a row of values, or }"));
        }
        self.close("}")
    }

    fn data_value(&mut self, what: &str) -> Read {
        if self.take_word("UNDEF") {
            return Ok(());
        }
        match self.token.kind {
            Kind::Variable => self.fault(self.token.start, "VALUES takes values, not variables"),
            Kind::BlankNode => self.fault(self.token.start, "VALUES cannot have blank nodes"),
            _ if self.is_sign("<<(") => {
                self.open("<<(", "<<(")?;
                self.data_value("the subject of a triple term")?;
                if !self.take_word("a") {
                    self.iri("the predicate of a triple term")?;
                }
                self.data_value("the object of a triple term")?;
                self.close(")>>")
            }
            Kind::Word if !self.is_boolean() => Err(self.expected_word(what, &["UNDEF"])),
            _ => self.ground_term(what),
        }
    }

    /// Reads triples up to a closing brace.
    pub(super) fn triples_block(&mut self, paths: bool) -> Read {
        while !self.is_sign("}") {
            if !self.starts_term() {
                return Err(self.expected("a triple or }"));
            }
            self.triples_same_subject(paths)?;
            if !self.take_sign(".") && !self.is_sign("}") {
                return Err(self.expected("., ;, , or }"));
            }
        }
        Ok(())
    }

    pub(super) fn triples_same_subject(&mut self, paths: bool) -> Read {
        self.check_subject()?;
        let (start, single) = (self.token.start, self.is_single_term());
        let alone = self.node("a subject", paths)?;
        self.subject = if single { start..self.last_end } else { 0..0 };
        if alone && !self.starts_verb(paths) {
            return Ok(());
        }
        self.property_list(paths)
    }

    /// Returns an error for a subject that data cannot have.
    fn check_subject(&self) -> Read {
        let is_literal = match self.token.kind {
            Kind::String | Kind::Integer | Kind::Number => true,
            Kind::Sign => ["+", "-", "<<("].contains(&self.token.text),
            _ => self.is_boolean(),
        };
        if !(self.in_data && is_literal) {
            return Ok(());
        }
        let message = "the subject of a triple is an IRI or a blank node";
        self.fault(self.token.start, message)
    }

    fn starts_verb(&self, paths: bool) -> bool {
        let path = paths && ["^", "!", "(", "?"].iter().any(|sign| self.is_sign(sign));
        self.token.kind == Kind::Variable || self.is_iri() || self.is_word("a") || path
    }

    fn property_list(&mut self, paths: bool) -> Read {
        let noted = self.extensions.verbs.len();
        let mut is_first = true;
        loop {
            let verb = self.token.start;
            self.verb(paths)?;
            let verb = verb..self.last_end;
            let (start, single) = (self.token.start, self.is_single_term());
            self.object_list(paths, &verb)?;
            if !self.is_sign(";") {
                let object = start..self.last_end;
                let is_noted = is_first && self.extensions.verbs.len() == noted + 1;
                if is_noted && single && is_one_term(&self.text[object.clone()]) {
                    self.note_object(object);
                }
                return Ok(());
            }
            is_first = false;
            while self.take_sign(";") {}
            if !self.starts_verb(paths) {
                return Ok(());
            }
        }
    }

    fn verb(&mut self, paths: bool) -> Read {
        if self.token.kind == Kind::Variable {
            let variable = self.take();
            self.scope.insert(&variable.text[1..]);
            self.note_verb(variable, false);
            return Ok(());
        }
        if paths && let Some(path) = self.marked_variable()? {
            self.scope.insert(&path.text[1..]);
            self.note_verb(path, true);
            return Ok(());
        }
        if self.is_word("a") || self.is_iri() && !paths {
            if self.is_iri() {
                return self.iri("a predicate");
            }
            if !paths {
                self.take();
                return Ok(());
            }
        }
        if paths && self.starts_verb(true) {
            return self.path();
        }
        let what = if paths {
            "a predicate: an IRI, a variable or a path"
        } else {
            "a predicate: an IRI or a variable"
        };
        Err(self.expected(what))
    }

    /// Reads the objects of a verb, which is at this range.
    fn object_list(&mut self, paths: bool, verb: &Range<usize>) -> Read {
        loop {
            self.node("an object", paths)?;
            // True after a reifier, which an annotation in {| |} is about.
            let mut is_named = false;
            loop {
                let token = self.token;
                if self.is_sign("~") || self.is_sign("{|") {
                    self.check_annotated(verb)?;
                }
                if self.take_sign("~") {
                    self.reifier(token, paths)?;
                    is_named = true;
                } else if self.is_sign("{|") {
                    if self.in_deleted && !std::mem::take(&mut is_named) {
                        return self.fault(token.start, DELETED_BLANK);
                    }
                    self.open("{|", "{|")?;
                    self.property_list(paths)?;
                    self.close("|}")?;
                } else {
                    break;
                }
            }
            if !self.take_sign(",") {
                return Ok(());
            }
        }
    }

    /// Reads the name after `~`, which may be missing.
    fn reifier(&mut self, sign: Token<'_>, paths: bool) -> Read {
        let is_named = matches!(self.token.kind, Kind::Variable | Kind::BlankNode);
        if is_named || self.is_iri() {
            return self.node("a reifier", paths).map(drop);
        }
        match self.in_deleted {
            true => self.fault(sign.start, DELETED_BLANK),
            false => Ok(()),
        }
    }

    /// Returns an error for an annotation of a path, which is not a triple.
    fn check_annotated(&self, verb: &Range<usize>) -> Read {
        let is_operator = |token: Token<'_>| ["/", "|", "!", "*", "+", "?"].contains(&token.text);
        if !tokens(&self.text[verb.clone()]).any(is_operator) {
            return Ok(());
        }
        let message = "only a triple can be annotated, not a property path";
        self.fault(self.token.start, message)
    }

    /// Returns whether a subject or object can start here.
    pub(super) fn starts_term(&self) -> bool {
        match self.token.kind {
            Kind::Iri | Kind::Name | Kind::BlankNode | Kind::Variable | Kind::String => true,
            Kind::Integer | Kind::Number | Kind::Bad(_) => true,
            Kind::Sign => ["(", "[", "<<", "<<(", "+", "-"].contains(&self.token.text),
            Kind::Word => self.is_boolean(),
            Kind::Language | Kind::End => false,
        }
    }

    /// Returns whether a variable, IRI or literal starts here.
    fn is_single_term(&self) -> bool {
        self.starts_term() && !(self.token.kind == Kind::Sign || self.token.kind == Kind::BlankNode)
    }

    pub(super) fn is_boolean(&self) -> bool {
        self.is_word("true") || self.is_word("false")
    }

    /// Reads a subject or object. Returns whether it may stand without properties.
    fn node(&mut self, what: &str, paths: bool) -> Read<bool> {
        match self.token.kind {
            Kind::Variable => {
                let name = &self.take().text[1..];
                self.scope.insert(name);
            }
            Kind::BlankNode => self.blank_node()?,
            _ if self.is_sign("[") => {
                self.open("[", "[")?;
                let empty = self.is_sign("]");
                if !empty {
                    self.property_list(paths)?;
                }
                self.close("]")?;
                return Ok(!empty);
            }
            _ if self.is_sign("(") => {
                self.open("(", "(")?;
                let empty = self.is_sign(")");
                while !self.is_sign(")") {
                    self.node("an element of the list, or )", paths)?;
                }
                self.close(")")?;
                return Ok(!empty);
            }
            _ if self.is_sign("<<") => {
                self.open("<<", "<<")?;
                self.check_subject()?;
                self.node("the subject of a triple", false)?;
                self.verb(false)?;
                self.node("the object of a triple", false)?;
                let sign = self.token;
                if self.take_sign("~") || self.in_deleted {
                    self.reifier(sign, false)?;
                }
                self.close(">>")?;
                return Ok(true);
            }
            _ if self.is_sign("<<(") => {
                self.open("<<(", "<<(")?;
                self.check_subject()?;
                self.node("the subject of a triple term", false)?;
                self.verb(false)?;
                self.node("the object of a triple term", false)?;
                self.close(")>>")?;
            }
            _ => self.ground_term(what)?,
        }
        Ok(false)
    }

    fn blank_node(&mut self) -> Read {
        let token = self.take();
        if self.labels_before.contains(token.text) {
            let message = format!(
                "{} is used in another group; only variables can be shared between groups",
                token.text
            );
            return self.fault(token.start, message);
        }
        self.labels.insert(token.text);
        Ok(())
    }

    /// Reads an IRI or a literal.
    pub(super) fn ground_term(&mut self, what: &str) -> Read {
        match self.token.kind {
            Kind::Iri | Kind::Name => self.iri(what),
            Kind::String => {
                self.take();
                if self.token.kind == Kind::Language {
                    let tag = self.take();
                    let plain = tag.text[1..].split("--").next().unwrap_or_default();
                    let valid = Literal::new_language_tagged_literal("", plain).is_ok();
                    let direction = tag.text.split_once("--").map(|(_, direction)| direction);
                    if !valid || !matches!(direction, None | Some("ltr" | "rtl")) {
                        return self
                            .fault(tag.start, format!("{} is not a language tag", tag.text));
                    }
                } else if self.take_sign("^^") {
                    self.iri("the datatype: an IRI")?;
                }
                Ok(())
            }
            Kind::Integer | Kind::Number => {
                self.take();
                Ok(())
            }
            Kind::Sign if ["+", "-"].contains(&self.token.text) => {
                self.take();
                if !matches!(self.token.kind, Kind::Integer | Kind::Number) {
                    return Err(self.expected("a number after the sign"));
                }
                self.take();
                Ok(())
            }
            _ if self.is_boolean() => {
                self.take();
                Ok(())
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn path(&mut self) -> Read {
        loop {
            self.path_element()?;
            if !self.take_sign("/") && !self.take_sign("|") {
                return Ok(());
            }
        }
    }

    fn path_element(&mut self) -> Read {
        self.take_sign("^");
        if self.take_sign("!") {
            self.negated_set()?;
        } else if self.is_sign("(") {
            self.open("(", "(")?;
            self.path()?;
            self.close(")")?;
        } else if !self.take_word("a") {
            self.iri("a step of the path: an IRI, ^, ! or (")?;
        }
        if ["*", "+", "?"].iter().any(|sign| self.is_sign(sign)) {
            self.take();
        }
        Ok(())
    }

    fn negated_set(&mut self) -> Read {
        if !self.is_sign("(") {
            return self.negated_step();
        }
        self.open("(", "(")?;
        self.negated_step()?;
        while self.take_sign("|") {
            self.negated_step()?;
        }
        self.close(")")
    }

    fn negated_step(&mut self) -> Read {
        self.take_sign("^");
        if self.take_word("a") {
            return Ok(());
        }
        self.iri("an IRI, or ^ and an IRI, after !")
    }
}

/// Returns whether a list of objects is a single variable, IRI or literal.
fn is_one_term(text: &str) -> bool {
    let is_more = |token: Token<'_>| [",", "~", "{|"].contains(&token.text);
    !tokens(text).any(is_more)
}
