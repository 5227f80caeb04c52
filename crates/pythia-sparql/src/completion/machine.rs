//! State machine that reads the tokens of a query and tracks open groups, unfinished triples and parentheses.

use super::pattern::{Pattern, Triples, kept, linked, sampled, written};
use super::{SOUGHT, expand};
use crate::token::{Kind, Token};

/// Maximum nesting of groups and parentheses; deeper ones are skipped.
const DEPTH_MAX: usize = 200;
/// Maximum number of variables recorded.
const VARIABLES_MAX: usize = 1000;

const TYPE: &str = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>";

/// The context of the next token.
pub(super) enum Top<'m> {
    /// Outside groups, after this keyword.
    Clause(&'m str),
    Graph,
    Subject,
    Predicate,
    Object {
        of_type: bool,
    },
    AfterTriple,
    Expression,
    /// Data, templates of quads, patterns of other endpoints.
    Elsewhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Subject,
    Predicate,
    /// A path may continue, or the object follows.
    AfterPredicate,
    Object,
    AfterObject,
    /// Skips to the end of the triple, which is not understood.
    Skipped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Triples of a graph pattern.
    Group,
    /// Predicates and objects of a blank node in square brackets.
    Properties,
    /// Round brackets of an expression or a list.
    Parentheses,
    /// A quoted triple, which is a term.
    Quoted,
    /// Data, and patterns sent to other endpoints.
    Closed,
}

#[derive(Clone, Debug)]
struct Frame {
    role: Role,
    slot: Slot,
    /// Graph name of a `GRAPH` group.
    graph: Option<String>,
    subject: String,
    path: String,
    /// Open parentheses in the path.
    path_depth: usize,
    /// True if the sought step, the last of the path, is inverse.
    inverse: bool,
    triples: Vec<[String; 3]>,
    /// Keyword that governs the next tokens.
    keyword: String,
    /// Name after `GRAPH` or `SERVICE`.
    name: Option<String>,
}

impl Frame {
    fn new(role: Role) -> Self {
        Self {
            role,
            slot: match role {
                Role::Properties => Slot::Predicate,
                _ => Slot::Subject,
            },
            graph: None,
            subject: String::new(),
            path: String::new(),
            path_depth: 0,
            inverse: false,
            triples: Vec::new(),
            keyword: String::new(),
            name: None,
        }
    }
}

/// State after the tokens read so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) prefixes: Vec<(String, String)>,
    pub(super) base: Option<String>,
    pub(super) variables: Vec<String>,
    frames: Vec<Frame>,
    /// Number of open frames beyond the depth limit, which are skipped.
    buried: usize,
    /// Last keyword outside groups.
    clause: String,
    /// Prefix whose IRI comes next.
    prefix: Option<String>,
    fresh: usize,
    /// Number of open frames at the sought term, and the frames closed since.
    sought_depth: Option<usize>,
    closed: Vec<Frame>,
}

impl Machine {
    /// Returns the context of the next token.
    pub(super) fn top(&self) -> Top<'_> {
        let Some(frame) = self.frames.last() else {
            return Top::Clause(&self.clause);
        };
        let is_closed = |frame: &Frame| matches!(frame.role, Role::Closed | Role::Quoted);
        if self.buried > 0 || self.frames.iter().any(is_closed) {
            return Top::Elsewhere;
        }
        match (frame.role, frame.keyword.as_str(), frame.slot) {
            (_, "SERVICE", _) => Top::Elsewhere,
            (Role::Parentheses, ..) | (_, "FILTER" | "BIND" | "NOT" | "EXISTS", _) => {
                Top::Expression
            }
            (_, "GRAPH", _) if frame.name.is_none() => Top::Graph,
            (_, "SELECT" | "VALUES", _) => Top::Clause("SELECT"),
            (_, _, Slot::Subject) => Top::Subject,
            (_, _, Slot::Predicate) => Top::Predicate,
            (_, _, Slot::AfterPredicate | Slot::Object) => Top::Object {
                of_type: frame.path == TYPE,
            },
            (_, _, Slot::AfterObject | Slot::Skipped) => Top::AfterTriple,
        }
    }

    /// Reads a token.
    pub(super) fn take(&mut self, token: Token<'_>) {
        if token.kind == Kind::Variable {
            let name = &token.text[1..];
            let is_room = self.variables.len() < VARIABLES_MAX;
            if is_room && !self.variables.iter().any(|known| known == name) {
                self.variables.push(name.to_owned());
            }
        }
        match self.frames.last().map(|frame| frame.role) {
            _ if self.buried > 0 => self.bury(token),
            None => self.take_in_clause(token),
            Some(Role::Group | Role::Properties) => self.take_in_group(token),
            Some(role) => match token.text {
                "{" if role == Role::Parentheses => self.open(Role::Group),
                "{" | "(" | "[" | "<<" | "<<(" | "{|" => self.open(role),
                "}" | ")" | "]" | ">>" | ")>>" | "|}" => self.close(),
                _ => {}
            },
        }
    }

    fn is_in(&self, role: Role) -> bool {
        self.frames.last().is_some_and(|frame| frame.role == role)
    }

    fn bury(&mut self, token: Token<'_>) {
        match token.text {
            "{" | "(" | "[" => self.buried += 1,
            "}" | ")" | "]" => self.buried -= 1,
            _ => {}
        }
    }

    fn open(&mut self, role: Role) {
        if self.frames.len() == DEPTH_MAX {
            self.buried += 1;
            return;
        }
        let mut frame = Frame::new(role);
        if role == Role::Properties {
            frame.subject = self.new_variable();
        }
        self.frames.push(frame);
    }

    /// Closes the innermost frame. Square brackets, lists and quoted triples become a term of the enclosing
    /// triple.
    fn close(&mut self) {
        self.end_triple();
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let depth = self.frames.len();
        let role = frame.role;
        let node = frame.subject.clone();
        if self.sought_depth.is_some_and(|sought| depth < sought) {
            self.sought_depth = Some(depth);
            self.closed.push(frame);
        } else if let (Role::Properties, Some(outer)) = (role, self.frames.last_mut()) {
            outer.triples.extend(frame.triples);
        }
        let Some(outer) = self.frames.last() else {
            return;
        };
        let in_triple = matches!(outer.role, Role::Group | Role::Properties);
        match (role, outer.keyword.as_str()) {
            _ if !in_triple => {}
            (Role::Properties, "") => self.term(node),
            (Role::Parentheses | Role::Quoted, "") => {
                let term = self.new_variable();
                self.term(term);
            }
            (Role::Parentheses, "VALUES" | "SELECT") => {}
            _ => {
                let outer = self.frames.last_mut().expect("there is one");
                outer.slot = Slot::Subject;
                outer.keyword.clear();
                outer.name = None;
            }
        }
    }

    fn take_in_clause(&mut self, token: Token<'_>) {
        match token.kind {
            Kind::Word => self.clause = token.text.to_ascii_uppercase(),
            Kind::Name if self.clause == "PREFIX" => {
                self.prefix = token.text.split(':').next().map(str::to_owned);
            }
            Kind::Iri => {
                let iri = token.text[1..token.text.len() - 1].to_owned();
                match (self.prefix.take(), self.clause.as_str()) {
                    (Some(prefix), _) => self.prefixes.push((prefix, iri)),
                    (None, "BASE") => self.base = Some(iri),
                    _ => {}
                }
                self.clause.clear();
            }
            Kind::Name | Kind::Integer => self.clause.clear(),
            Kind::Sign => match token.text {
                "{" if self.clause == "VALUES" => self.open(Role::Closed),
                "{" => self.open(Role::Group),
                "(" => self.open(Role::Parentheses),
                _ => {}
            },
            _ => {}
        }
    }

    fn take_in_group(&mut self, token: Token<'_>) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        match token.kind {
            Kind::Sign => self.sign(token.text),
            Kind::Word => self.word(token.text),
            Kind::Language => {
                if let Some([_, _, object]) = frame.triples.last_mut()
                    && frame.slot == Slot::AfterObject
                {
                    object.push_str(token.text);
                }
            }
            Kind::Iri => self.term(token.text.to_owned()),
            Kind::Name => match expand(token.text, &self.prefixes) {
                Some(iri) => self.term(format!("<{iri}>")),
                None => self.skip(),
            },
            Kind::BlankNode => {
                let name = token.text.trim_start_matches("_:").replace(['.', '-'], "_");
                self.term(format!("?pythiaNode{name}"));
            }
            Kind::Variable => self.term(format!("?{}", &token.text[1..])),
            Kind::String | Kind::Integer | Kind::Number => self.term(token.text.to_owned()),
            Kind::Bad(_) | Kind::End => {}
        }
    }

    fn sign(&mut self, sign: &str) {
        let frame = self.frames.last_mut().expect("in a group");
        let in_path = matches!(frame.slot, Slot::Predicate | Slot::AfterPredicate)
            && frame.keyword.is_empty();
        match sign {
            "{" => self.open_group(),
            "}" => {
                while self.is_in(Role::Properties) {
                    self.close();
                }
                self.close();
            }
            "]" if frame.role == Role::Properties => self.close(),
            "." | ";" | "," => {
                self.end_triple();
                let frame = self.frames.last_mut().expect("in a group");
                frame.keyword.clear();
                frame.slot = match sign {
                    "," => Slot::Object,
                    ";" => Slot::Predicate,
                    _ => Slot::Subject,
                };
            }
            "[" => self.open(Role::Properties),
            "(" if in_path && frame.slot == Slot::Predicate => {
                frame.path.push('(');
                frame.path_depth += 1;
            }
            ")" if in_path && frame.path_depth > 0 => {
                frame.path.push(')');
                frame.path_depth -= 1;
                frame.slot = Slot::AfterPredicate;
            }
            "(" => self.open(Role::Parentheses),
            "<<" | "<<(" => self.open(Role::Quoted),
            "{|" => self.open(Role::Closed),
            "^^" if frame.slot == Slot::AfterObject => {
                if let Some([_, _, object]) = frame.triples.last_mut() {
                    object.push_str("^^");
                }
            }
            "/" | "|" | "^" | "!" | "*" | "+" | "?" if in_path => {
                if frame.path == format!("?{SOUGHT}") {
                    // A path cannot continue after a variable, so the rest is skipped.
                    self.end_triple();
                    self.skip();
                    return;
                }
                frame.path.push_str(sign);
                if matches!(sign, "/" | "|" | "^" | "!") {
                    frame.slot = Slot::Predicate;
                }
            }
            _ => {}
        }
    }

    /// Opens a nested group: of a graph, of another endpoint, of data, or a plain one.
    fn open_group(&mut self) {
        let frame = self.frames.last_mut().expect("in a group");
        let keyword = std::mem::take(&mut frame.keyword);
        let name = frame.name.take();
        match keyword.as_str() {
            "SERVICE" | "VALUES" => self.open(Role::Closed),
            "GRAPH" => {
                self.open(Role::Group);
                if let Some(frame) = self.frames.last_mut() {
                    frame.graph = name;
                }
            }
            _ => self.open(Role::Group),
        }
    }

    fn word(&mut self, word: &str) {
        let frame = self.frames.last_mut().expect("in a group");
        let is_free = frame.keyword.is_empty();
        match word {
            "a" if is_free && frame.slot == Slot::Predicate => self.term(TYPE.to_owned()),
            "true" | "false" if is_free => self.term(word.to_owned()),
            _ => {
                let keyword = word.to_ascii_uppercase();
                match keyword.as_str() {
                    "OPTIONAL" | "LATERAL" | "UNION" | "MINUS" | "FILTER" | "BIND" | "VALUES"
                    | "GRAPH" | "SERVICE" | "SELECT" | "NOT" | "EXISTS" => {
                        self.end_triple();
                        let frame = self.frames.last_mut().expect("in a group");
                        frame.slot = Slot::Subject;
                        frame.keyword = match keyword.as_str() {
                            "OPTIONAL" | "LATERAL" | "UNION" | "MINUS" => String::new(),
                            _ => keyword,
                        };
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds a term of a triple, or the name of a graph.
    fn term(&mut self, term: String) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        match frame.keyword.as_str() {
            "" => {}
            "GRAPH" | "SERVICE" => {
                frame.name = Some(term);
                return;
            }
            _ => return,
        }
        match frame.slot {
            Slot::AfterObject
                if frame
                    .triples
                    .last()
                    .is_some_and(|[.., o]| o.ends_with("^^")) =>
            {
                if let Some([_, _, object]) = frame.triples.last_mut() {
                    object.push_str(&term);
                }
            }
            Slot::Subject | Slot::AfterObject => {
                frame.subject = term;
                frame.slot = Slot::Predicate;
                frame.path.clear();
            }
            Slot::Predicate => {
                if frame.path_depth == 0 && !frame.path.ends_with(['/', '|', '^', '!']) {
                    frame.path.clear();
                }
                frame.path.push_str(&term);
                frame.slot = Slot::AfterPredicate;
            }
            Slot::AfterPredicate | Slot::Object => {
                let mut ends = [frame.subject.clone(), term];
                if frame.inverse {
                    ends.reverse();
                }
                let [subject, object] = ends;
                frame.triples.push([subject, frame.path.clone(), object]);
                frame.slot = Slot::AfterObject;
            }
            Slot::Skipped => {}
        }
    }

    /// Adds a new variable as object to a triple without object.
    fn end_triple(&mut self) {
        let frame = self.frames.last();
        if frame.is_some_and(|frame| frame.slot == Slot::AfterPredicate && frame.path_depth == 0) {
            let object = self.new_variable();
            self.term(object);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.inverse = false;
            frame.path_depth = 0;
        }
    }

    fn skip(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.slot = Slot::Skipped;
        }
    }

    fn new_variable(&mut self) -> String {
        self.fresh += 1;
        format!("?pythia{}", self.fresh)
    }

    /// Inserts the sought variable at the current position. Returns false if no term fits there.
    pub(super) fn seek(&mut self) -> bool {
        if !matches!(
            self.top(),
            Top::Subject | Top::Predicate | Top::Object { .. }
        ) {
            return false;
        }
        self.sought_depth = Some(self.frames.len());
        let frame = self.frames.last_mut().expect("in a group");
        if frame.slot == Slot::Predicate {
            let path = std::mem::take(&mut frame.path);
            frame.inverse = path.ends_with('^');
            let steps = path.trim_end_matches('^');
            let before = steps.strip_suffix('/').filter(|_| frame.path_depth == 0);
            frame.path_depth = 0;
            if let Some(before) = before.filter(|before| !before.is_empty()) {
                let between = self.new_variable();
                let frame = self.frames.last_mut().expect("in a group");
                let subject = std::mem::replace(&mut frame.subject, between.clone());
                frame.triples.push([subject, before.to_owned(), between]);
            }
        }
        self.term(format!("?{SOUGHT}"));
        true
    }

    /// Returns the triples around the sought term that are linked to it, or `None` if there are none.
    pub(super) fn pattern(mut self) -> Option<Pattern> {
        let depth = self.sought_depth?;
        // Frames opened after the position and still open are useless.
        self.frames.truncate(depth);
        while !self.frames.is_empty() {
            self.close();
        }
        let sought = format!("?{SOUGHT}");
        let mut known = vec![sought.clone()];
        known.extend(self.closed.iter().find_map(|frame| frame.graph.clone()));
        let all: Triples<'_> = self.closed.iter().flat_map(|f| &f.triples).collect();
        let is_wanted = linked(&all, known);
        let wanted: Triples<'_> = kept(&all, &is_wanted);
        let in_graph = self.closed.iter().any(|frame| frame.graph.is_some());
        let sampled = match in_graph {
            true => None,
            false => sampled(&wanted),
        };
        let mut is_wanted = is_wanted.into_iter();
        let mut body = String::new();
        for frame in &self.closed {
            let triples = frame.triples.iter();
            let triples: Vec<_> = triples.filter(|_| is_wanted.next() == Some(true)).collect();
            let triples = written(&triples);
            let inner = body;
            body = match (&frame.graph, triples.is_empty() && inner.is_empty()) {
                (_, true) => String::new(),
                (Some(graph), _) => format!("GRAPH {graph} {{ {triples}{inner}}} "),
                (None, _) => format!("{triples}{inner}"),
            };
        }
        body.contains(&sought).then_some(Pattern {
            whole: body,
            sampled,
        })
    }
}
