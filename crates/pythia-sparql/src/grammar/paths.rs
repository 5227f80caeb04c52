//! Syntax of path searches: the PATHS query, and `?s ??path ?o` with `pathfilter(…)` (Pythia paper, Appendix
//! A). The positions of their parts are recorded, so that [`crate::paths`] can rewrite them as
//! standard SPARQL.

use std::ops::Range;

use super::{Kind, Read, Reader, Token};

/// Non-standard forms of a text, by byte ranges.
#[derive(Debug, Default)]
pub(crate) struct Extensions {
    pub(crate) paths: Option<PathsForm>,
    /// Predicates that may be paths, in order: `??path` and `?path`.
    pub(crate) verbs: Vec<PathVerb>,
    pub(crate) filters: Vec<PathFilter>,
    /// `??path` in SELECT clauses.
    pub(crate) selected: Vec<Range<usize>>,
    /// Variables to write as `COALESCE(?v)`: uses in a grouped SELECT after the expression that is named so, and
    /// grouping keys with another name.
    pub(crate) coalesced: Vec<Range<usize>>,
    /// Triple terms in expressions.
    pub(crate) triple_terms: Vec<WrittenTriple>,
    /// True if any SELECT has `*`.
    pub(crate) selects_all: bool,
}

impl Extensions {
    /// Returns whether the text has any such form.
    pub(crate) fn is_used(&self) -> bool {
        let paths = self.verbs.iter().any(|verb| verb.is_marked);
        let ranges = [&self.selected, &self.coalesced];
        self.paths.is_some()
            || paths
            || !self.filters.is_empty()
            || ranges.iter().any(|ranges| !ranges.is_empty())
    }
}

/// A triple term in an expression, with the positions of its parts.
#[derive(Debug)]
pub(crate) struct WrittenTriple {
    pub(crate) at: Range<usize>,
    pub(crate) subject_end: usize,
    pub(crate) predicate: Range<usize>,
}

/// A PATHS query.
#[derive(Debug)]
pub(crate) struct PathsForm {
    /// Position of the keyword.
    pub(crate) at: usize,
    /// Name of the mode in the `path:` namespace.
    pub(crate) mode: &'static str,
    pub(crate) count: Option<Range<usize>>,
    pub(crate) restrictor: &'static str,
    pub(crate) dataset: Range<usize>,
    pub(crate) start: PathsEnd,
    pub(crate) end: PathsEnd,
    pub(crate) via: (PathsPart, Range<usize>),
    pub(crate) weight: Option<(PathsPart, Range<usize>)>,
    pub(crate) weight_optional: bool,
    pub(crate) priority: Option<Range<usize>>,
    pub(crate) filter: Option<(PathsPart, Range<usize>)>,
    pub(crate) length_min: Option<Range<usize>>,
    pub(crate) length_max: Option<Range<usize>>,
    /// ORDER BY, LIMIT and OFFSET.
    pub(crate) modifiers: Range<usize>,
}

/// The START or END of a PATHS query.
#[derive(Debug)]
pub(crate) struct PathsEnd {
    pub(crate) variable: Range<usize>,
    /// The term, or the pattern that binds the variable.
    pub(crate) value: Option<(PathsPart, Range<usize>)>,
}

/// The kind of a part of a PATHS query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathsPart {
    Term,
    Variable,
    /// A pattern in braces.
    Group,
    /// An expression in brackets.
    Expression,
    /// A path expression.
    Path,
}

/// A predicate that is a variable or a path.
#[derive(Debug)]
pub(crate) struct PathVerb {
    pub(crate) name: String,
    pub(crate) at: Range<usize>,
    /// True if written with `??`.
    pub(crate) is_marked: bool,
    /// Number of its group.
    pub(crate) group: usize,
    /// Subject and object of its triple; empty if not a single term.
    pub(crate) subject: Range<usize>,
    pub(crate) object: Range<usize>,
    /// True if it is the only verb of its triple and both ends are single terms.
    pub(crate) is_alone: bool,
}

/// A `pathfilter`.
#[derive(Debug)]
pub(crate) struct PathFilter {
    pub(crate) name: String,
    pub(crate) at: Range<usize>,
    pub(crate) group: usize,
    pub(crate) conditions: Vec<PathCondition>,
}

#[derive(Debug)]
pub(crate) enum PathCondition {
    /// Every edge has one of these predicates.
    Only(Vec<Range<usize>>),
    /// Some edge has one of these predicates.
    Any(Vec<Range<usize>>),
    /// Bounds on the number of edges.
    AtLeast(u32),
    AtMost(u32),
}

/// Names of the variables that a PATHS query returns for parts of paths.
pub(crate) const RESULTS: [&str; 6] = ["path", "length", "cost", "from", "predicate", "to"];

impl<'t> Reader<'t> {
    /// Reads the rest of a query after PATHS.
    pub(super) fn paths_form(&mut self, at: usize) -> Read {
        let (mode, count) = self.paths_mode()?;
        let restrictors = [
            ("WALK", "Walk"),
            ("TRAIL", "Trail"),
            ("ACYCLIC", "Acyclic"),
            ("SIMPLE", "Simple"),
        ];
        let named = restrictors.iter().find(|(word, _)| self.is_word(word));
        if named.is_some() {
            self.take();
        }
        let restrictor = named.map_or("Walk", |(_, name)| name);
        let dataset = self.span(Self::dataset)?;
        if !self.is_word("START") {
            let words = [
                "START", "ANY", "ALL", "SHORTEST", "WALK", "TRAIL", "ACYCLIC", "SIMPLE",
            ];
            return Err(self.expected_word("START and where paths start", &words));
        }
        let start = self.paths_end("START")?;
        let end = self.paths_end("END")?;
        self.need_word("VIA")?;
        let via = self.paths_via()?;
        let mut form = PathsForm {
            at,
            mode,
            count,
            restrictor,
            dataset,
            start,
            end,
            via,
            weight: None,
            weight_optional: false,
            priority: None,
            filter: None,
            length_min: None,
            length_max: None,
            modifiers: 0..0,
        };
        while self.paths_clause(&mut form)? {}
        if (form.mode, form.restrictor) == ("All", "Walk") && form.length_max.is_none() {
            let message = "there may be infinitely many walks; add MAX LENGTH, or use TRAIL, ACYCLIC or SIMPLE";
            return self.fault(at, message);
        }
        if form.priority.is_some() && form.mode != "All" {
            let message = "PRIORITY orders a search for ALL paths; other searches go by cost";
            return self.fault(at, message);
        }
        form.modifiers = self.span(Self::order_and_limits)?;
        self.extensions.paths = Some(form);
        if self.token.kind != Kind::End {
            let words = [
                "WEIGHT", "PRIORITY", "WHERE", "MIN", "MAX", "ORDER BY", "LIMIT", "OFFSET",
            ];
            return Err(self.expected_word("the end of the query", &words));
        }
        Ok(())
    }

    fn paths_mode(&mut self) -> Read<(&'static str, Option<Range<usize>>)> {
        if self.take_word("SHORTEST") {
            let count = self.whole_number("the number of paths after SHORTEST", 1)?;
            return Ok(("Shortest", Some(count)));
        }
        if self.take_word("ALL") {
            let shortest = self.take_word("SHORTEST");
            return Ok((if shortest { "AllShortest" } else { "All" }, None));
        }
        if self.take_word("ANY") {
            self.need_word("SHORTEST")?;
        }
        Ok(("AnyShortest", None))
    }

    fn paths_end(&mut self, keyword: &'static str) -> Read<PathsEnd> {
        self.need_word(keyword)?;
        let variable = self.variable(&format!("a variable after {keyword}"))?;
        if RESULTS.contains(&&variable.text[1..]) {
            let message = format!(
                "{} is a result variable of PATHS; use another name",
                variable.text
            );
            return self.fault(variable.start, message);
        }
        let value = match self.take_sign("=") {
            false => None,
            true if self.is_sign("{") => Some((PathsPart::Group, self.span(Self::hidden_group)?)),
            true => {
                let term = |this: &mut Self| this.ground_term("a term, or { and a pattern");
                Some((PathsPart::Term, self.span(term)?))
            }
        };
        Ok(PathsEnd {
            variable: variable.start..variable.end,
            value,
        })
    }

    fn paths_via(&mut self) -> Read<(PathsPart, Range<usize>)> {
        if self.token.kind == Kind::Variable {
            let token = self.take();
            return Ok((PathsPart::Variable, token.start..token.end));
        }
        if self.is_sign("{") {
            return Ok((PathsPart::Group, self.span(Self::hidden_group)?));
        }
        Ok((PathsPart::Path, self.span(Self::path)?))
    }

    /// Reads a clause after VIA; each may occur once. Returns false if there is none.
    fn paths_clause(&mut self, form: &mut PathsForm) -> Read<bool> {
        let keyword = self.token;
        let twice;
        if self.take_word("WEIGHT") {
            twice = form.weight.is_some();
            form.weight_optional = self.take_word("OPTIONAL");
            form.weight = Some(if self.is_sign("(") {
                (PathsPart::Expression, self.span(Self::bracketted)?)
            } else {
                let what = "a predicate, or (expression), after WEIGHT";
                (PathsPart::Term, self.span(|this| this.iri(what))?)
            });
        } else if self.take_word("PRIORITY") {
            let what = "a predicate after PRIORITY";
            twice = form
                .priority
                .replace(self.span(|this| this.iri(what))?)
                .is_some();
        } else if self.take_word("WHERE") {
            twice = form.filter.is_some();
            form.filter = Some(if self.is_sign("{") {
                (PathsPart::Group, self.span(Self::hidden_group)?)
            } else {
                (PathsPart::Expression, self.span(Self::bracketted)?)
            });
        } else if self.is_word("MIN") || self.is_word("MAX") {
            let least = self.is_word("MIN");
            self.take();
            self.need_word("LENGTH")?;
            let number = self.whole_number("the number of edges after LENGTH", 0)?;
            let place = if least {
                &mut form.length_min
            } else {
                &mut form.length_max
            };
            twice = place.replace(number).is_some();
        } else {
            return Ok(false);
        }
        if twice {
            return self.fault(keyword.start, format!("duplicate {}", keyword.text));
        }
        Ok(true)
    }

    fn bracketted(&mut self) -> Read {
        self.open("(", "( and an expression, or { and a pattern")?;
        self.expression()?;
        self.close(")")
    }

    fn whole_number(&mut self, what: &str, least: u32) -> Read<Range<usize>> {
        let token = self.token;
        let value = token.text.parse::<u32>().ok();
        if token.kind != Kind::Integer || value.is_none_or(|value| value < least) {
            let what = format!("{what}: a whole number, at least {least}");
            return Err(self.expected(&what));
        }
        self.take();
        Ok(token.start..token.end)
    }

    /// Returns the range of the text that `read` consumes.
    fn span(&mut self, read: impl FnOnce(&mut Self) -> Read) -> Read<Range<usize>> {
        let start = self.token.start;
        read(self)?;
        Ok(start..self.last_end.max(start))
    }

    /// Reads `??path` if it is next, and returns the name.
    pub(super) fn marked_variable(&mut self) -> Read<Option<Token<'t>>> {
        if !self.is_sign("?") {
            return Ok(None);
        }
        let sign = self.take();
        if self.token.start > sign.end {
            return self.fault(sign.start, "a variable needs a name");
        }
        let variable = self.variable("the name of the path, as in ??path")?;
        Ok(Some(Token {
            start: sign.start,
            ..variable
        }))
    }

    /// Records a predicate that is a variable or a path.
    pub(super) fn note_verb(&mut self, variable: Token<'t>, is_marked: bool) {
        self.extensions.verbs.push(PathVerb {
            name: variable.text[1..].to_owned(),
            at: variable.start..variable.end,
            is_marked,
            group: self.group_number,
            subject: self.subject.clone(),
            object: 0..0,
            is_alone: false,
        });
    }

    /// Records the object of a triple whose only verb may be a path.
    pub(super) fn note_object(&mut self, object: Range<usize>) {
        if let Some(verb) = self.extensions.verbs.last_mut() {
            verb.object = object;
            verb.is_alone = !verb.subject.is_empty() && !verb.object.is_empty();
        }
    }

    /// Reads a pathfilter; its keyword is the current token.
    pub(super) fn path_filter(&mut self) -> Read {
        let keyword = self.take();
        self.open("(", "( after pathfilter")?;
        let mut conditions = Vec::new();
        let mut name: Option<Token<'t>> = None;
        loop {
            let (path, condition) = self.path_condition()?;
            if name.is_some_and(|name| name.text != path.text) {
                let message =
                    "a pathfilter applies to one path; add another pathfilter for this one";
                return self.fault(path.start, message);
            }
            name = Some(path);
            conditions.extend(condition);
            if !self.take_sign("&&") {
                break;
            }
        }
        self.close(")")?;
        self.extensions.filters.push(PathFilter {
            name: name.map_or_else(String::new, |name| name.text[1..].to_owned()),
            at: keyword.start..self.last_end,
            group: self.group_number,
            conditions,
        });
        Ok(())
    }

    fn path_condition(&mut self) -> Read<(Token<'t>, Vec<PathCondition>)> {
        const WORDS: [&str; 3] = ["containsOnly", "containsAny", "length"];
        let what = "containsOnly(??path, <p>), containsAny(??path, <p>) or length(??path) <= 3";
        let Some(word) = WORDS.iter().find(|word| self.is_word(word)) else {
            return Err(self.expected_word(what, &WORDS));
        };
        self.take();
        self.open("(", "( and the path")?;
        let Some(path) = self.marked_variable()? else {
            return Err(self.expected("the path, as in ??path"));
        };
        let mut predicates = Vec::new();
        while *word != "length" && (predicates.is_empty() || self.is_sign(",")) {
            if !self.take_sign(",") {
                return Err(self.expected(", and a predicate"));
            }
            predicates.push(self.span(|this| this.iri("a predicate"))?);
        }
        self.close(")")?;
        Ok(match *word {
            "containsOnly" => (path, vec![PathCondition::Only(predicates)]),
            "containsAny" => (path, vec![PathCondition::Any(predicates)]),
            _ => (path, self.length_condition()?),
        })
    }

    fn length_condition(&mut self) -> Read<Vec<PathCondition>> {
        use PathCondition::{AtLeast, AtMost};
        let comparison = self.token;
        if !["<", "<=", "=", ">=", ">"].contains(&comparison.text) {
            return Err(self.expected("<, <=, =, >= or > after length(…)"));
        }
        self.take();
        let least = u32::from(comparison.text == "<");
        let number = self.whole_number("the number of edges", least)?;
        let number: u32 = self.text[number].parse().expect("read as one");
        Ok(match comparison.text {
            "<" => vec![AtMost(number - 1)],
            "<=" => vec![AtMost(number)],
            "=" => vec![AtLeast(number), AtMost(number)],
            ">=" => vec![AtLeast(number)],
            _ => vec![AtLeast(number.saturating_add(1))],
        })
    }
}
