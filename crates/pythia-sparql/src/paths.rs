//! Rewrites PATHS queries and path patterns as standard SPARQL: `SERVICE path:search`, or a property path
//! where only the ends of paths matter.

use std::borrow::Cow;
use std::ops::Range;

use oxrdf::vocab::rdf;

use crate::grammar::Fault;
use crate::grammar::paths::{
    Extensions, PathCondition, PathFilter, PathVerb, PathsEnd, PathsForm, PathsPart,
};
use crate::token::{Kind, tokens};

/// A text in standard SPARQL.
#[derive(Debug)]
pub(crate) struct Rewritten<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Start of each copied part in the new text, and its range in the original.
    copied: Vec<(usize, Range<usize>)>,
}

impl<'t> Rewritten<'t> {
    /// Returns a text that has no other forms.
    pub(crate) fn unchanged(text: &'t str) -> Self {
        Self {
            text: text.into(),
            copied: vec![(0, 0..text.len())],
        }
    }

    /// Returns the position in the original of a byte of the new text. For inserted text, returns the end of
    /// the part copied before it.
    pub(crate) fn original(&self, at: usize) -> usize {
        let before = self.copied.partition_point(|(start, _)| *start <= at);
        let before = before.checked_sub(1).map(|place| &self.copied[place]);
        before.map_or(0, |(start, range)| {
            (range.start + (at - start)).min(range.end)
        })
    }
}

/// Rewrites non-standard forms. Returns `None` if there are none.
pub(crate) fn rewrite(
    text: &str,
    extensions: &Extensions,
) -> Result<Option<Rewritten<'static>>, Fault> {
    if !extensions.is_used() {
        return Ok(None);
    }
    let mut writer = Writer {
        source: text,
        new: String::with_capacity(text.len() + 400),
        copied: Vec::new(),
    };
    match &extensions.paths {
        Some(form) => writer.paths(form),
        None => {
            let mut changes = changes(text, extensions)?;
            changes.sort_by_key(|(range, _)| (range.start, range.end));
            let mut done = 0;
            for (range, new) in changes {
                writer.copy(done..range.start);
                writer.write(&new);
                done = range.end;
            }
            writer.copy(done..text.len());
        }
    }
    Ok(Some(Rewritten {
        text: writer.new.into(),
        copied: writer.copied,
    }))
}

struct Writer<'t> {
    source: &'t str,
    new: String,
    copied: Vec<(usize, Range<usize>)>,
}

/// IRI of an option of a search.
macro_rules! option {
    ($name:expr) => {
        concat!("<urn:pythia:path#", $name, ">")
    };
}

impl Writer<'_> {
    fn write(&mut self, text: &str) {
        self.new.push_str(text);
    }

    /// Copies a part of the source.
    fn copy(&mut self, range: Range<usize>) {
        let start = self.new.len();
        self.new.push_str(&self.source[range.clone()]);
        self.copied.push((start, range));
    }

    /// Writes an option with a copied value.
    fn option(&mut self, name: &str, value: Range<usize>) {
        self.write(&format!(" ; <urn:pythia:path#{name}> "));
        self.copy(value);
    }

    fn paths(&mut self, form: &PathsForm) {
        self.copy(0..form.at);
        self.write("SELECT ");
        self.copy(form.start.variable.clone());
        self.write(" ");
        let ends = [&form.start, &form.end].map(|end| &self.source[end.variable.clone()][1..]);
        if ends[0] != ends[1] {
            self.copy(form.end.variable.clone());
        }
        self.write(" ?path ?length ?cost ");
        self.copy(form.dataset.clone());
        self.write(" WHERE { ");
        self.end_values(&form.start);
        self.end_values(&form.end);
        self.write(concat!("SERVICE ", option!("search"), " { "));
        self.search(form);
        self.write(" } } ");
        self.copy(form.modifiers.clone());
    }

    /// Writes the pattern that binds the variable of START or END.
    fn end_values(&mut self, end: &PathsEnd) {
        match &end.value {
            None => {}
            Some((PathsPart::Group, pattern)) => {
                self.write("{ SELECT DISTINCT ");
                self.copy(end.variable.clone());
                self.write(" ");
                self.copy(pattern.clone());
                self.write(" } ");
            }
            Some((_, term)) => {
                self.write("VALUES ");
                self.copy(end.variable.clone());
                self.write(" { ");
                self.copy(term.clone());
                self.write(" } ");
            }
        }
    }

    /// Writes the options of weights and priorities.
    fn order(&mut self, form: &PathsForm) {
        match &form.weight {
            Some((PathsPart::Expression, _)) => {
                self.write(concat!(" ; ", option!("weight"), " ?pythia_weight"));
            }
            Some((_, predicate)) => self.option("weight", predicate.clone()),
            None => {}
        }
        if let Some(priority) = &form.priority {
            self.option("priority", priority.clone());
        }
        if form.weight_optional {
            self.write(concat!(
                " ; ",
                option!("missingWeight"),
                " ",
                option!("Skip")
            ));
        }
    }

    /// Writes the body of the search.
    fn search(&mut self, form: &PathsForm) {
        if let Some((PathsPart::Expression, expression)) = &form.weight {
            self.write("BIND(");
            self.copy(expression.clone());
            self.write(" AS ?pythia_weight) ");
        }
        let mut predicate = Some("?predicate".to_owned());
        match &form.via {
            (PathsPart::Group, pattern) => {
                let source = &self.source[pattern.clone()];
                let mut variables = tokens(source).filter(|token| token.kind == Kind::Variable);
                if !variables.any(|token| &token.text[1..] == "predicate") {
                    predicate = None;
                }
                self.write(concat!("GRAPH ", option!("step"), " "));
                self.copy(pattern.clone());
                self.write(" ");
            }
            (part, path) => {
                self.copy(form.start.variable.clone());
                if *part == PathsPart::Variable {
                    predicate = Some(self.source[path.clone()].to_owned());
                    self.write(concat!(" (!", option!("none"), ")+ "));
                } else {
                    self.write(" ");
                    self.copy(path.clone());
                    self.write(" ");
                }
                self.copy(form.end.variable.clone());
                self.write(" . ");
            }
        }
        self.write(concat!("?path ", option!("length"), " ?length ; "));
        self.write(concat!(
            option!("cost"),
            " ?cost ; ",
            option!("from"),
            " ?from ; "
        ));
        self.write(concat!(option!("to"), " ?to"));
        if let Some(predicate) = predicate {
            self.write(&format!(" ; <urn:pythia:path#predicate> {predicate}"));
        }
        self.option("start", form.start.variable.clone());
        self.option("end", form.end.variable.clone());
        for (name, value) in [("mode", form.mode), ("restrictor", form.restrictor)] {
            self.write(&format!(
                " ; <urn:pythia:path#{name}> <urn:pythia:path#{value}>"
            ));
        }
        let numbers = [
            ("k", &form.count),
            ("minLength", &form.length_min),
            ("maxLength", &form.length_max),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                self.option(name, number.clone());
            }
        }
        self.order(form);
        self.write(" . ");
        match &form.filter {
            Some((PathsPart::Group, pattern)) => {
                self.write("FILTER EXISTS ");
                self.copy(pattern.clone());
            }
            Some((_, expression)) => {
                self.write("FILTER");
                self.copy(expression.clone());
            }
            None => {}
        }
    }
}

type Changes = Vec<(Range<usize>, String)>;

/// Returns the replacements for path patterns and filters.
fn changes(text: &str, extensions: &Extensions) -> Result<Changes, Fault> {
    let mut changes: Changes = Vec::new();
    for filter in &extensions.filters {
        let is_meant = |verb: &&PathVerb| verb.name == filter.name && verb.group == filter.group;
        if !extensions.verbs.iter().any(|verb| is_meant(&verb)) {
            let message = format!(
                "no triple of this group has the path ??{}, as in ?s ??{0} ?o",
                filter.name
            );
            return Err(fault(filter.at.start, message));
        }
        // An empty group, because a dot may follow.
        changes.push((filter.at.clone(), "{}".to_owned()));
    }
    for selected in &extensions.selected {
        let name = &text[selected.start + 2..selected.end];
        if !extensions
            .verbs
            .iter()
            .any(|verb| verb.is_marked && verb.name == name)
        {
            let message = format!("no triple has the path ??{name}, as in ?s ??{name} ?o");
            return Err(fault(selected.start, message));
        }
        changes.push((selected.clone(), format!("?{name}")));
    }
    coalesce(text, extensions, &mut changes);
    for verb in &extensions.verbs {
        let meant = |filter: &&PathFilter| verb.name == filter.name && verb.group == filter.group;
        let filters: Vec<&PathFilter> = extensions.filters.iter().filter(meant).collect();
        if !verb.is_marked && filters.is_empty() {
            continue;
        }
        let conditions = Conditions::of(text, &filters)?;
        let is_selected = extensions.selects_all
            || (extensions.selected.iter()).any(|at| text[at.start + 2..at.end] == verb.name);
        if !is_selected && conditions.length == (1, None) {
            changes.push((verb.at.clone(), conditions.expression()));
            continue;
        }
        if !verb.is_alone {
            let message = "a path that is selected or limited in length needs a triple of its own: ?s ??path ?o .";
            return Err(fault(verb.at.start, message.to_owned()));
        }
        let (subject, object) = (&text[verb.subject.clone()], &text[verb.object.clone()]);
        let path = if is_selected {
            format!("?{}", verb.name)
        } else {
            "[]".to_owned()
        };
        let (least, most) = conditions.length;
        let most = most.map(|most| format!(" ; {} {most}", option!("maxLength")));
        let search = format!(
            "SERVICE {} {{ {subject} {} {object} . {path} {} {subject} ; {} {object} ; {} {least}{} }}",
            option!("search"),
            conditions.expression(),
            option!("start"),
            option!("end"),
            option!("minLength"),
            most.unwrap_or_default(),
        );
        changes.push((verb.subject.start..verb.object.end, search));
    }
    Ok(changes)
}

/// Rewrites uses of names that a grouped SELECT assigned before, and grouping keys that give a variable another
/// name. The parser forbids the former and loses the name of the latter, but does not look inside a COALESCE, and
/// a COALESCE of one variable equals that variable.
fn coalesce(text: &str, extensions: &Extensions, changes: &mut Changes) {
    let mut starts: Vec<usize> = extensions.coalesced.iter().map(|at| at.start).collect();
    starts.sort_unstable();
    for triple in &extensions.triple_terms {
        let at = &triple.at;
        let next = starts.partition_point(|start| *start < at.start);
        if starts.get(next).is_none_or(|start| *start >= at.end) {
            continue;
        }
        // A triple term cannot have a call as its part, but is itself the same as a call of TRIPLE.
        changes.push((at.start..at.start + "<<(".len(), "TRIPLE(".to_owned()));
        changes.push((triple.subject_end..triple.subject_end, ",".to_owned()));
        if text[triple.predicate.clone()] == *"a" {
            changes.push((
                triple.predicate.clone(),
                format!("<{}>", rdf::TYPE.as_str()),
            ));
        }
        changes.push((triple.predicate.end..triple.predicate.end, ",".to_owned()));
        changes.push((at.end - ")>>".len()..at.end, ")".to_owned()));
    }
    for variable in &extensions.coalesced {
        changes.push((
            variable.clone(),
            format!("COALESCE({})", &text[variable.clone()]),
        ));
    }
}

/// The combined conditions of all filters of one path.
struct Conditions<'t> {
    only: Option<Vec<&'t str>>,
    any: Option<Vec<&'t str>>,
    length: (u32, Option<u32>),
}

impl<'t> Conditions<'t> {
    fn of(text: &'t str, filters: &[&PathFilter]) -> Result<Self, Fault> {
        let mut all = Self {
            only: None,
            any: None,
            length: (1, None),
        };
        for filter in filters {
            let names = |ranges: &[Range<usize>]| -> Vec<&'t str> {
                ranges.iter().map(|range| &text[range.clone()]).collect()
            };
            for condition in &filter.conditions {
                let twice = match condition {
                    PathCondition::Only(names_of) => all.only.replace(names(names_of)).is_some(),
                    PathCondition::Any(names_of) => all.any.replace(names(names_of)).is_some(),
                    PathCondition::AtLeast(least) => {
                        all.length.0 = all.length.0.max(*least);
                        false
                    }
                    PathCondition::AtMost(most) => {
                        let known = all.length.1.unwrap_or(u32::MAX);
                        all.length.1 = Some(known.min(*most));
                        false
                    }
                };
                if twice {
                    let message = "a path can have one containsOnly and one containsAny; list all predicates in it";
                    return Err(fault(filter.at.start, message.to_owned()));
                }
            }
            if let (Some(only), Some(any)) = (&all.only, &all.any)
                && let Some(other) = any.iter().find(|name| !only.contains(name))
            {
                let message = format!("containsOnly excludes {other}, which containsAny lists");
                return Err(fault(filter.at.start, message));
            }
        }
        Ok(all)
    }

    /// Returns the path expression: one or more edges, restricted to the allowed predicates, at least one of
    /// them with a required predicate.
    fn expression(&self) -> String {
        let step = match &self.only {
            Some(names) => format!("({})", names.join("|")),
            None => concat!("(!", option!("none"), ")").to_owned(),
        };
        match &self.any {
            // Repeated, so that each pair of ends is found once, not once for each edge with a required
            // predicate.
            Some(names) => format!("({step}*/({})/{step}*)+", names.join("|")),
            None => format!("{step}+"),
        }
    }
}

fn fault(at: usize, message: String) -> Fault {
    Fault { at, message }
}
