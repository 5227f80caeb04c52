//! Updates: a sequence of operations.

use super::query::{QUERIES, UPDATES};
use super::{Kind, Read, Reader, Token};
use crate::token::tokens;

/// The terms that quads in braces may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quads {
    /// Terms and blank nodes.
    Data,
    /// Terms only.
    Ground,
    /// Terms and variables.
    Deleted,
    /// Anything.
    Inserted,
}

pub(super) const DELETED_BLANK: &str = "a blank node cannot be deleted by its label; match it with a variable: DELETE { … } WHERE { … }";

const GRAPHS: [&str; 4] = ["GRAPH", "DEFAULT", "NAMED", "ALL"];

impl<'t> Reader<'t> {
    /// Reads a whole update.
    pub(super) fn update(&mut self) -> Read {
        loop {
            self.prologue()?;
            if self.token.kind == Kind::End {
                return Ok(());
            }
            self.labels.clear();
            self.labels_before.clear();
            self.scope.clear();
            self.operation()?;
            if self.take_sign(";") {
                continue;
            }
            if self.token.kind == Kind::End {
                return Ok(());
            }
            if self.is_sign("}") {
                return self.fault(self.token.start, "unmatched }");
            }
            if UPDATES.iter().any(|word| self.is_word(word)) {
                let message = "missing ; between two operations";
                return self.fault(self.token.start, message);
            }
            return Err(self.expected_word("; or the end of the update", &["USING", "WHERE"]));
        }
    }

    fn operation(&mut self) -> Read {
        let keyword = self.token;
        let is = |word: &str| keyword.text.eq_ignore_ascii_case(word);
        if keyword.kind != Kind::Word || !UPDATES.iter().any(|word| is(word)) {
            return self.no_operation();
        }
        self.take();
        if is("INSERT") && self.take_word("DATA") {
            return self.quads(Quads::Data);
        }
        if is("DELETE") && self.take_word("DATA") {
            return self.quads(Quads::Ground);
        }
        if is("DELETE") && self.take_word("WHERE") {
            return self.quads(Quads::Deleted);
        }
        if is("WITH") {
            self.iri("the IRI of a graph after WITH")?;
            return self.modify();
        }
        if is("INSERT") || is("DELETE") {
            return self.templates(is("DELETE"));
        }
        self.take_word("SILENT");
        if is("LOAD") {
            self.iri("the IRI to load from")?;
            return match self.take_word("INTO") {
                true => self.graph_ref(),
                false => Ok(()),
            };
        }
        if is("CREATE") {
            return self.graph_ref();
        }
        if is("CLEAR") || is("DROP") {
            if GRAPHS[1..].iter().any(|word| self.take_word(word)) {
                return Ok(());
            }
            if !self.is_word("GRAPH") {
                let what = "GRAPH and an IRI, DEFAULT, NAMED or ALL";
                return Err(self.expected_word(what, &GRAPHS));
            }
            return self.graph_ref();
        }
        self.graph_or_default()?;
        self.need_word("TO")?;
        self.graph_or_default()
    }

    /// Returns the error for a missing operation.
    fn no_operation(&self) -> Read {
        if QUERIES.iter().any(|word| self.is_word(word)) {
            let message = "expected an update, found a query; run it with `pythia query`";
            return self.fault(self.token.start, message);
        }
        let mut words = UPDATES.to_vec();
        words.extend(["PREFIX", "BASE", "VERSION"]);
        let what = "INSERT, DELETE, WITH, LOAD, CLEAR, CREATE, DROP, COPY, MOVE or ADD";
        Err(self.expected_word(what, &words))
    }

    /// Reads the rest of an operation after WITH and its graph.
    fn modify(&mut self) -> Read {
        if self.take_word("DELETE") {
            return self.templates(true);
        }
        if self.take_word("INSERT") {
            return self.templates(false);
        }
        Err(self.expected_word("DELETE or INSERT", &["DELETE", "INSERT"]))
    }

    /// Reads the rest of an operation after DELETE or INSERT, including the WHERE.
    fn templates(&mut self, deletes: bool) -> Read {
        if deletes {
            self.quads(Quads::Deleted)?;
        }
        if !deletes || self.take_word("INSERT") {
            self.quads(Quads::Inserted)?;
        }
        while self.take_word("USING") {
            self.take_word("NAMED");
            self.iri("the IRI of a graph")?;
        }
        if !self.take_word("WHERE") {
            let insert = if deletes { &["INSERT"][..] } else { &[] };
            let words = [&["USING", "WHERE"], insert].concat();
            return Err(self.expected_word("WHERE { … }", &words));
        }
        self.group()
    }

    fn graph_ref(&mut self) -> Read {
        self.need_word("GRAPH")?;
        self.iri("the IRI of a graph")
    }

    fn graph_or_default(&mut self) -> Read {
        if self.take_word("DEFAULT") {
            return Ok(());
        }
        self.take_word("GRAPH");
        self.iri("the IRI of a graph, or DEFAULT")
    }

    /// Reads quads in braces.
    fn quads(&mut self, quads: Quads) -> Read {
        self.check_terms(quads)?;
        self.in_data = matches!(quads, Quads::Data | Quads::Ground);
        self.in_deleted = matches!(quads, Quads::Ground | Quads::Deleted);
        self.open("{", "{ and quads")?;
        while !self.is_sign("}") {
            if self.take_word("GRAPH") {
                self.graph_name("the graph: an IRI or a variable")?;
                self.open("{", "{")?;
                self.triples_block(false)?;
                self.close("}")?;
                self.take_sign(".");
            } else if self.starts_term() {
                self.triples_same_subject(false)?;
                if !self.take_sign(".") && !self.is_sign("}") && !self.is_word("GRAPH") {
                    return Err(self.expected_word("., ;, , or }", &["GRAPH"]));
                }
            } else {
                return Err(self.expected_word("a triple, GRAPH or }", &["GRAPH"]));
            }
        }
        // Labels are local to a template.
        self.labels.clear();
        self.scope.clear();
        (self.in_data, self.in_deleted) = (false, false);
        self.close("}")
    }

    /// Returns an error at the first term in the braces that these quads may not have.
    fn check_terms(&self, quads: Quads) -> Read {
        let start = self.token.start;
        let mut depth = 0_usize;
        for token in tokens(&self.text[start..]) {
            match token.text {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {
                    if let Some(message) = unfit(token, quads) {
                        return self.fault(start + token.start, message);
                    }
                }
            }
            if depth == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the reason why a token cannot occur in quads.
fn unfit(token: Token<'_>, quads: Quads) -> Option<&'static str> {
    let is_blank = token.kind == Kind::BlankNode || token.kind == Kind::Sign && token.text == "[";
    match quads {
        Quads::Data if token.kind == Kind::Variable => Some(
            "INSERT DATA cannot have variables; to insert query results, write INSERT { … } WHERE { … }",
        ),
        Quads::Ground if token.kind == Kind::Variable => Some(
            "DELETE DATA cannot have variables; to delete query results, write DELETE WHERE { … }",
        ),
        Quads::Ground | Quads::Deleted if is_blank => Some(DELETED_BLANK),
        _ => None,
    }
}
