//! Path searches: `SERVICE path:search`, which PATHS is rewritten as.

use std::fmt;

use oxrdf::{NamedNode, Variable};
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression as Path};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use crate::error::SparqlError;
use crate::scope::{Variables, term_variable};

/// Namespace of the IRIs of path searches.
pub const NAMESPACE: &str = "urn:pythia:path#";

/// The paths to return between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One of the cheapest.
    AnyShortest,
    /// All that are as cheap as the cheapest.
    AllShortest,
    /// The cheapest ones, this many, in order of cost.
    Shortest(u32),
    /// All.
    All,
}

/// The paths that are allowed (GQL's path modes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restrictor {
    /// All.
    Walk,
    /// Paths that use no edge twice, in either direction.
    Trail,
    /// Paths that visit no node twice.
    Acyclic,
    /// Paths that visit no node twice, except that they may end at their start.
    Simple,
}

/// A path search as requested in the query.
#[derive(Clone, Debug)]
pub struct PathSearch {
    /// Start of the paths.
    pub start: TermPattern,
    /// End of the paths.
    pub end: TermPattern,
    /// Edges that paths follow.
    pub edges: Edges,
    /// Conditions on each edge.
    pub filters: Vec<Expression>,
    /// Variables of each edge that are computed.
    pub computed: Vec<(Variable, Expression)>,
    /// Weight of an edge; without one, each edge costs 1.
    pub weight: Option<WeightOption>,
    /// True if edges without a weight are skipped, false if they are errors.
    pub weight_optional: bool,
    /// The predicate whose values say which node is visited first, of [`Mode::All`].
    pub priority: Option<NamedNode>,
    /// Variable of the path.
    pub path: Option<Variable>,
    /// Variable of the number of edges.
    pub length: Option<Variable>,
    /// Variable of the sum of weights.
    pub cost: Option<Variable>,
    /// Variable of the number of the path among those of its start and end.
    pub number: Option<Variable>,
    /// Variable of the number of an edge in its path. With it, each edge is a solution.
    pub index: Option<Variable>,
    /// Variable of an edge's first node.
    pub from: Option<Variable>,
    /// Variable of an edge's predicate.
    pub predicate: Option<Variable>,
    /// Variable of an edge's second node.
    pub to: Option<Variable>,
    /// Variable that tells whether an edge is followed backward.
    pub inverse: Option<Variable>,
    /// Paths to return.
    pub mode: Mode,
    /// Paths that are allowed.
    pub restrictor: Restrictor,
    /// Minimum number of edges.
    pub length_min: u32,
    /// Maximum number of edges.
    pub length_max: Option<u32>,
    /// Nodes to read in one batch.
    pub batch_nodes: Option<usize>,
}

/// Returns whether a service is the path search.
pub fn is_search(name: &NamedNodePattern) -> bool {
    match name {
        NamedNodePattern::NamedNode(node) => {
            node.as_str().strip_prefix(NAMESPACE) == Some("search")
        }
        NamedNodePattern::Variable(_) => false,
    }
}

/// Returns the variables that the solutions of a search may bind. Not inlined, to keep the frames of the
/// recursive functions over patterns small.
#[inline(never)]
pub(crate) fn search_binds(body: &GraphPattern) -> Variables {
    PathSearch::read(body).map_or_else(|_| Variables::new(), |request| request.binds())
}

/// The definition of an edge.
#[derive(Clone, Debug)]
pub enum Edges {
    /// A step of a path expression.
    Expression(Path),
    /// A solution of a pattern.
    Step(GraphPattern),
}

/// The weight of an edge.
#[derive(Clone, Debug)]
pub enum WeightOption {
    /// The value of this predicate at the target node of the edge.
    Value(NamedNode),
    /// A variable of the pattern or of a BIND.
    Variable(Variable),
}

type Reading<T = ()> = Result<T, SparqlError>;

/// A pattern that is not an option.
type Element = (TermPattern, Path, TermPattern);

/// The parts of a body.
#[derive(Default)]
struct Parts {
    options: Vec<TriplePattern>,
    elements: Vec<Element>,
    step: Option<GraphPattern>,
    filters: Vec<Expression>,
    binds: Vec<(Variable, Expression)>,
}

impl PathSearch {
    /// Reads a body.
    pub fn read(body: &GraphPattern) -> Reading<Self> {
        let mut parts = Parts::default();
        parts.take(body)?;
        let unset = TermPattern::Variable(Variable::new_unchecked("_:unset"));
        let mut request = Self {
            start: unset.clone(),
            end: unset.clone(),
            edges: Edges::Expression(Path::NegatedPropertySet(Vec::new())),
            filters: parts.filters,
            computed: parts.binds,
            weight: None,
            weight_optional: false,
            priority: None,
            path: None,
            length: None,
            cost: None,
            number: None,
            index: None,
            from: None,
            predicate: None,
            to: None,
            inverse: None,
            mode: Mode::AnyShortest,
            restrictor: Restrictor::Walk,
            length_min: 0,
            length_max: None,
            batch_nodes: None,
        };
        for option in &parts.options {
            request.set(option)?;
        }
        match (parts.step, &parts.elements[..]) {
            (Some(step), []) => {
                request.edges = Edges::Step(step);
                request.step_ends()?;
                if request.start == unset || request.end == unset {
                    return Err(refused(
                        "path:step without path:start and path:end",
                        "say where paths start and end",
                    ));
                }
            }
            (None, elements) if !elements.is_empty() => {
                // The parser reads `?s ^:p ?e` as `?e :p ?s`.
                let given = (request.start != unset).then_some(&request.start);
                let (start, path, end) = whole(elements, given)?;
                let differs = |given: &TermPattern, read| *given != unset && given != read;
                if differs(&request.start, &start) || differs(&request.end, &end) {
                    return Err(refused(
                        "path:start or path:end that is not an end of the path expression",
                        "leave it out, or write the expression between the two",
                    ));
                }
                request.edges = Edges::Expression(path);
                (request.start, request.end) = (start, end);
            }
            (Some(_), _) => {
                return Err(refused(
                    "both a path expression and path:step",
                    "leave one of them out",
                ));
            }
            (None, _) => {
                return Err(refused(
                    "a search without a path",
                    "write it as a triple: ?start (:p|^:q)+ ?end",
                ));
            }
        }
        request.check()?;
        Ok(request)
    }

    /// Returns the conjunction of all filters.
    pub fn filter(&self) -> Option<Expression> {
        let and = |a, b| Expression::And(Box::new(a), Box::new(b));
        self.filters.iter().cloned().reduce(and)
    }

    /// Returns the variables that solutions of the search may bind.
    pub fn binds(&self) -> Variables {
        let ends = [&self.start, &self.end]
            .into_iter()
            .filter_map(term_variable);
        let of_path = [&self.path, &self.length, &self.cost, &self.number];
        let of_edge = [
            &self.index,
            &self.from,
            &self.predicate,
            &self.to,
            &self.inverse,
        ];
        let edges = self.index.is_some().then_some(of_edge);
        let named = of_path.into_iter().chain(edges.into_iter().flatten());
        ends.chain(named.flatten().cloned()).collect()
    }

    /// Returns the variables of an edge's ends in `path:step`.
    pub fn step_ends(&self) -> Reading<(&Variable, &Variable)> {
        self.from.as_ref().zip(self.to.as_ref()).ok_or_else(|| {
            refused(
                "path:step without path:from and path:to",
                "name the variables of the pattern that are an edge's ends",
            )
        })
    }

    fn check(&self) -> Reading {
        let is_endless = self.mode == Mode::All && self.restrictor == Restrictor::Walk;
        if is_endless && self.length_max.is_none() {
            return Err(SparqlError::Path(
                "there may be infinitely many walks; add MAX LENGTH (path:maxLength), or use TRAIL, ACYCLIC or SIMPLE".to_owned(),
            ));
        }
        if self.priority.is_some() && self.mode != Mode::All {
            return Err(SparqlError::Path(
                "PRIORITY (path:priority) orders a search for ALL paths (path:mode path:All); other searches go by cost".to_owned(),
            ));
        }
        if self.priority.is_some() && matches!(self.edges, Edges::Step(_)) {
            return Err(refused(
                "a priority where edges are solutions of a pattern",
                "write the path as an expression, or order the solutions with ORDER BY",
            ));
        }
        if self.length_max.is_some_and(|most| most < self.length_min) {
            return Err(refused(
                "a maximal length below the minimal",
                "the minimal length must not exceed the maximal length",
            ));
        }
        Ok(())
    }

    /// Sets an option.
    fn set(&mut self, option: &TriplePattern) -> Reading {
        let name = option_name(option).unwrap_or_default();
        if let TermPattern::Variable(path) = &option.subject {
            match &self.path {
                Some(other) if other != path => {
                    return Err(refused(
                        &format!("options of both {other} and {path}"),
                        "a search has one path, the subject of its options",
                    ));
                }
                _ => self.path = Some(path.clone()),
            }
        }
        let value = &option.object;
        match name {
            "start" => self.start = value.clone(),
            "end" => self.end = value.clone(),
            "mode" => {
                self.mode = match word(name, value, &MODES)? {
                    "AnyShortest" => Mode::AnyShortest,
                    "AllShortest" => Mode::AllShortest,
                    "All" => Mode::All,
                    _ => match self.mode {
                        Mode::Shortest(count) => Mode::Shortest(count),
                        _ => Mode::Shortest(1),
                    },
                }
            }
            "k" => self.mode = Mode::Shortest(number(name, value, 1)?),
            "restrictor" => {
                self.restrictor = match word(name, value, &RESTRICTORS)? {
                    "Trail" => Restrictor::Trail,
                    "Acyclic" => Restrictor::Acyclic,
                    "Simple" => Restrictor::Simple,
                    _ => Restrictor::Walk,
                }
            }
            "minLength" => self.length_min = number(name, value, 0)?,
            "maxLength" => self.length_max = Some(number(name, value, 0)?),
            "batch" => self.batch_nodes = Some(number(name, value, 1)? as usize),
            "weight" => {
                self.weight = Some(match value {
                    TermPattern::NamedNode(predicate) => WeightOption::Value(predicate.clone()),
                    other => WeightOption::Variable(variable(name, other)?),
                });
            }
            "priority" => self.priority = Some(priority(value)?),
            "missingWeight" => {
                self.weight_optional = word(name, value, &["Skip", "Error"])? == "Skip";
            }
            _ => {
                let place = match name {
                    "length" => &mut self.length,
                    "cost" => &mut self.cost,
                    "number" => &mut self.number,
                    "index" => &mut self.index,
                    "from" => &mut self.from,
                    "predicate" => &mut self.predicate,
                    "to" => &mut self.to,
                    "inverse" => &mut self.inverse,
                    _ => {
                        return Err(refused(
                            &format!("the option path:{name}"),
                            &format!("there are {}", OPTIONS.join(", ")),
                        ));
                    }
                };
                *place = Some(variable(name, value)?);
            }
        }
        Ok(())
    }
}

const MODES: [&str; 4] = ["AnyShortest", "AllShortest", "Shortest", "All"];
const RESTRICTORS: [&str; 4] = ["Walk", "Trail", "Acyclic", "Simple"];
const OPTIONS: [&str; 19] = [
    "start",
    "end",
    "mode",
    "k",
    "restrictor",
    "minLength",
    "maxLength",
    "weight",
    "missingWeight",
    "priority",
    "length",
    "cost",
    "number",
    "index",
    "from",
    "predicate",
    "to",
    "inverse",
    "batch",
];

fn priority(value: &TermPattern) -> Reading<NamedNode> {
    match value {
        TermPattern::NamedNode(predicate) => Ok(predicate.clone()),
        _ => Err(refused(
            "the value of path:priority",
            "it is a predicate: nodes with the greatest value are visited first",
        )),
    }
}

impl Parts {
    fn take(&mut self, pattern: &GraphPattern) -> Reading {
        match pattern {
            GraphPattern::Bgp { patterns } => {
                for triple in patterns {
                    self.take_triple(triple)?;
                }
            }
            GraphPattern::Path {
                subject,
                path,
                object,
            } => self
                .elements
                .push((subject.clone(), path.clone(), object.clone())),
            GraphPattern::Join { left, right } => {
                self.take(left)?;
                self.take(right)?;
            }
            GraphPattern::Filter { expr, inner } => {
                self.filters.push(expr.clone());
                self.take(inner)?;
            }
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                self.take(inner)?;
                self.binds.push((variable.clone(), expression.clone()));
            }
            GraphPattern::Graph {
                name: NamedNodePattern::NamedNode(name),
                inner,
            } if name.as_str().strip_prefix(NAMESPACE) == Some("step") => {
                self.step = Some((**inner).clone());
            }
            _ => {
                return Err(refused(
                    "this kind of pattern in SERVICE path:search",
                    "it takes options, one path expression or path:step, FILTER and BIND; put the rest before it",
                ));
            }
        }
        Ok(())
    }

    fn take_triple(&mut self, triple: &TriplePattern) -> Reading {
        if option_name(triple).is_some() {
            self.options.push(triple.clone());
            return Ok(());
        }
        match &triple.predicate {
            NamedNodePattern::NamedNode(predicate) => self.elements.push((
                triple.subject.clone(),
                Path::NamedNode(predicate.clone()),
                triple.object.clone(),
            )),
            NamedNodePattern::Variable(variable) => {
                return Err(refused(
                    &format!("the variable {variable} as a path expression"),
                    "for any predicate write (!path:none)+, and path:predicate for its variable",
                ));
            }
        }
        Ok(())
    }
}

/// Rejoins the path pattern that the parser split into a chain of patterns linked by blank nodes. Starts at
/// the given start, if there is one.
fn whole(elements: &[Element], given: Option<&TermPattern>) -> Reading<Element> {
    let touching = |term: &TermPattern| {
        let ends = elements.iter().flat_map(|(s, _, o)| [s, o]);
        ends.filter(|end| *end == term).count()
    };
    let is_end =
        |term: &&TermPattern| !matches!(term, TermPattern::BlankNode(_)) || touching(term) == 1;
    let mut ends = elements.iter().flat_map(|(s, _, o)| [s, o]).filter(is_end);
    let start = ends
        .clone()
        .find(|end| Some(*end) == given)
        .or_else(|| ends.next());
    let mut at = start.unwrap_or(&elements[0].0);
    let first = at;
    let mut left: Vec<&Element> = elements.iter().collect();
    let mut path: Option<Path> = None;
    while !left.is_empty() {
        let next = left.iter().position(|(s, _, o)| s == at || o == at);
        let Some(next) = next.filter(|_| path.is_none() || !is_end(&at)) else {
            return Err(refused(
                "more than one path expression in a search",
                "put other patterns before SERVICE path:search",
            ));
        };
        let (subject, step, object) = left.remove(next);
        let (step, to) = if subject == at {
            (step.clone(), object)
        } else {
            (Path::Reverse(Box::new(step.clone())), subject)
        };
        path = Some(match path {
            None => step,
            Some(path) => Path::Sequence(Box::new(path), Box::new(step)),
        });
        at = to;
    }
    let path = path.expect("there is an element");
    Ok((first.clone(), path, at.clone()))
}

fn option_name(triple: &TriplePattern) -> Option<&str> {
    match &triple.predicate {
        NamedNodePattern::NamedNode(predicate) => predicate.as_str().strip_prefix(NAMESPACE),
        NamedNodePattern::Variable(_) => None,
    }
}

fn refused(what: &str, hint: &str) -> SparqlError {
    SparqlError::Unsupported {
        what: what.to_owned(),
        hint: Some(hint.to_owned()),
    }
}

fn variable(name: &str, value: &TermPattern) -> Reading<Variable> {
    match term_variable(value) {
        Some(variable) => Ok(variable),
        None => Err(refused(
            &format!("path:{name} {value}"),
            "it takes a variable",
        )),
    }
}

fn number(name: &str, value: &TermPattern, least: u32) -> Reading<u32> {
    let number = match value {
        TermPattern::Literal(literal) => literal.value().parse().ok(),
        _ => None,
    };
    number.filter(|number| *number >= least).ok_or_else(|| {
        refused(
            &format!("path:{name} {value}"),
            &format!("it takes a whole number, at least {least}"),
        )
    })
}

fn word<'v>(name: &str, value: &'v TermPattern, words: &[&'v str]) -> Reading<&'v str> {
    let found = match value {
        TermPattern::NamedNode(node) => node.as_str().strip_prefix(NAMESPACE),
        _ => None,
    };
    found.filter(|found| words.contains(found)).ok_or_else(|| {
        refused(
            &format!("path:{name} {value}"),
            &format!("it takes one of path:{}", words.join(", path:")),
        )
    })
}

/// Formats the request for EXPLAIN.
impl fmt::Display for PathSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.start)?;
        match &self.edges {
            Edges::Expression(path) => write!(f, "{path}")?,
            Edges::Step(step) => write!(f, "{{ {step} }}")?,
        }
        write!(f, " {}", self.end)?;
        if let Some(filter) = self.filter() {
            write!(f, " where {filter}")?;
        }
        Ok(())
    }
}
