//! Answers in all the formats the suites use, and when two of them are the same: blank nodes may
//! have other labels, and only ORDER BY gives rows an order.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use oxrdf::dataset::CanonicalizationAlgorithm;
use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, Graph, Literal, NamedNodeRef, NamedOrBlankNode, Term, TermRef};
use oxrdfio::{RdfFormat, RdfParser};
use pythia::ResultFormat;
use sparesults::{QueryResultsFormat, QueryResultsParser, SliceQueryResultsParserOutput};

use crate::w3c::manifest::graph_of;

pub(crate) type Row = Vec<Option<Term>>;

/// An answer.
#[derive(Debug)]
pub(crate) enum Outcome {
    Boolean(bool),
    Graph(Box<Graph>),
    Solutions {
        variables: Vec<String>,
        rows: Vec<Row>,
    },
}

/// What counts when solutions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    InOrder,
    Counted,
    /// How often a row is there does not count.
    Lax,
}

/// How our answer is written to be compared with this file.
pub(crate) fn format_for(path: &Path, is_graph: bool) -> ResultFormat {
    match extension(path) {
        "srx" => ResultFormat::Xml,
        "csv" => ResultFormat::Csv,
        "tsv" => ResultFormat::Tsv,
        _ if is_graph => ResultFormat::NTriples,
        _ => ResultFormat::Json,
    }
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|extension| extension.to_str())
        .expect("an extension")
}

impl Outcome {
    /// Reads a file of a suite.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let table = match extension(path) {
            "srx" => ResultFormat::Xml,
            "srj" => ResultFormat::Json,
            "csv" => ResultFormat::Csv,
            "tsv" => ResultFormat::Tsv,
            _ => {
                let graph = graph_of(path);
                return Ok(from_vocabulary(&graph).unwrap_or(Self::Graph(Box::new(graph))));
            }
        };
        Self::parse(&bytes, table)
    }

    /// Reads an answer that was written in a format.
    pub(crate) fn parse(bytes: &[u8], format: ResultFormat) -> Result<Self, String> {
        let format = match format {
            ResultFormat::Json => QueryResultsFormat::Json,
            ResultFormat::Xml => QueryResultsFormat::Xml,
            ResultFormat::Tsv => QueryResultsFormat::Tsv,
            ResultFormat::Csv => return Ok(parse_csv(&String::from_utf8_lossy(bytes))),
            _ => return parse_graph(bytes),
        };
        let parser = QueryResultsParser::from_format(format);
        match parser.for_slice(bytes).map_err(|error| error.to_string())? {
            SliceQueryResultsParserOutput::Boolean(value) => Ok(Self::Boolean(value)),
            SliceQueryResultsParserOutput::Solutions(solutions) => {
                let variables = solutions.variables().to_vec();
                let mut rows = Vec::new();
                for solution in solutions {
                    let solution = solution.map_err(|error| error.to_string())?;
                    let row = variables.iter().map(|v| solution.get(v).cloned());
                    rows.push(row.collect());
                }
                Ok(Self::Solutions {
                    variables: variables.iter().map(|v| v.as_str().to_owned()).collect(),
                    rows,
                })
            }
        }
    }

    /// Whether this is the same answer.
    pub(crate) fn is(&self, expected: &Self, count: Rows) -> bool {
        match (self, expected) {
            (Self::Boolean(ours), Self::Boolean(theirs)) => ours == theirs,
            (Self::Graph(ours), Self::Graph(theirs)) => {
                let canonical = |graph: &Graph| {
                    let mut graph = graph.clone();
                    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
                    graph
                };
                canonical(ours) == canonical(theirs)
            }
            (
                Self::Solutions { variables, rows },
                Self::Solutions {
                    variables: wanted_variables,
                    rows: wanted,
                },
            ) => {
                let Some(ours) = reordered(variables, rows, wanted_variables) else {
                    return false;
                };
                same_rows(ours, wanted.clone(), count)
            }
            _ => false,
        }
    }
}

fn parse_graph(bytes: &[u8]) -> Result<Outcome, String> {
    let mut graph = Graph::new();
    for quad in RdfParser::from_format(RdfFormat::NTriples).for_slice(bytes) {
        let quad = quad.map_err(|error| error.to_string())?;
        graph.insert(oxrdf::TripleRef::from(quad.as_ref()));
    }
    Ok(Outcome::Graph(Box::new(graph)))
}

/// CSV says nothing about terms but their text and which are blank nodes.
fn parse_csv(text: &str) -> Outcome {
    let mut records = text.lines().map(fields);
    let variables = records.next().unwrap_or_default();
    let cell = |text: String| match text.strip_prefix("_:") {
        Some(label) => Some(BlankNode::new_unchecked(label).into()),
        None if text.is_empty() => None,
        None => Some(Literal::new_simple_literal(text).into()),
    };
    Outcome::Solutions {
        variables,
        rows: records
            .map(|record| record.into_iter().map(cell).collect())
            .collect(),
    }
}

/// The fields of a line of CSV. No field of the suites holds a line's end.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        let field = fields.last_mut().expect("one at least");
        match sign {
            '"' if quoted && signs.peek() == Some(&'"') => field.extend(signs.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            sign => field.push(sign),
        }
    }
    fields
}

/// An answer in the vocabulary of the first working group's result sets.
fn from_vocabulary(graph: &Graph) -> Option<Outcome> {
    const RS: &str = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#";
    let names: HashMap<&str, String> = [
        "boolean",
        "resultVariable",
        "solution",
        "binding",
        "variable",
        "value",
        "index",
    ]
    .map(|name| (name, format!("{RS}{name}")))
    .into();
    let property = |name: &str| NamedNodeRef::new_unchecked(names[name].as_str());
    let objects = |subject: TermRef<'_>, name: &str| -> Vec<Term> {
        let subject: NamedOrBlankNode = match subject {
            TermRef::NamedNode(node) => node.into_owned().into(),
            TermRef::BlankNode(node) => node.into_owned().into(),
            _ => return Vec::new(),
        };
        let objects = graph.objects_for_subject_predicate(&subject, property(name));
        objects.map(TermRef::into_owned).collect()
    };
    let text = |term: &Term| match term {
        Term::Literal(literal) => literal.value().to_owned(),
        other => other.to_string(),
    };
    if let Some(triple) = graph.triples_for_predicate(property("boolean")).next() {
        return Some(Outcome::Boolean(
            text(&triple.object.into_owned()) == "true",
        ));
    }
    let result_set = NamedNodeRef::new_unchecked(
        "http://www.w3.org/2001/sw/DataAccess/tests/result-set#ResultSet",
    );
    let set = graph.subject_for_predicate_object(oxrdf::vocab::rdf::TYPE, result_set)?;
    let set = TermRef::from(set);
    let variables: Vec<String> = objects(set, "resultVariable").iter().map(text).collect();
    let mut rows: Vec<(Option<u64>, Row)> = Vec::new();
    for solution in objects(set, "solution") {
        let mut row = vec![None; variables.len()];
        for binding in objects(solution.as_ref(), "binding") {
            let name = text(&objects(binding.as_ref(), "variable").pop()?);
            let column = variables.iter().position(|v| *v == name)?;
            row[column] = objects(binding.as_ref(), "value").pop();
        }
        let index = objects(solution.as_ref(), "index").pop();
        rows.push((index.and_then(|index| text(&index).parse().ok()), row));
    }
    rows.sort_by_key(|(index, _)| *index);
    Some(Outcome::Solutions {
        variables,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    })
}

/// The rows with their columns in the wanted order.
fn reordered(variables: &[String], rows: &[Row], wanted: &[String]) -> Option<Vec<Row>> {
    if variables.len() != wanted.len() {
        return None;
    }
    let columns: Option<Vec<usize>> = wanted
        .iter()
        .map(|v| variables.iter().position(|ours| ours == v))
        .collect();
    let columns = columns?;
    let row = |row: &Row| columns.iter().map(|&column| row[column].clone()).collect();
    Some(rows.iter().map(row).collect())
}

fn same_rows(mut ours: Vec<Row>, mut wanted: Vec<Row>, count: Rows) -> bool {
    if count == Rows::Lax {
        for rows in [&mut ours, &mut wanted] {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(row.clone()));
        }
    }
    if ours.len() != wanted.len() {
        return false;
    }
    let mut renaming = Renaming::default();
    if count == Rows::InOrder {
        return ours
            .iter()
            .zip(&wanted)
            .all(|(ours, wanted)| renaming.extend(ours, wanted));
    }
    // Rows without blank nodes first: they can be matched in one way only.
    let has_blank = |row: &Row| row.iter().flatten().any(has_blank_node);
    wanted.sort_by_key(has_blank);
    let mut free: Vec<Option<Row>> = ours.into_iter().map(Some).collect();
    matches(&wanted, &mut free, &renaming)
}

/// Whether the wanted rows can be matched with the free ones, one each.
fn matches(wanted: &[Row], free: &mut [Option<Row>], renaming: &Renaming) -> bool {
    let Some((row, rest)) = wanted.split_first() else {
        return true;
    };
    let mut tried = HashSet::new();
    for place in 0..free.len() {
        let Some(candidate) = free[place].take() else {
            continue;
        };
        let mut extended = renaming.clone();
        if tried.insert(candidate.clone())
            && extended.extend(&candidate, row)
            && matches(rest, free, &extended)
        {
            return true;
        }
        free[place] = Some(candidate);
    }
    false
}

fn has_blank_node(term: &Term) -> bool {
    match term {
        Term::BlankNode(_) => true,
        Term::Triple(triple) => {
            matches!(triple.subject, NamedOrBlankNode::BlankNode(_))
                || has_blank_node(&triple.object)
        }
        Term::NamedNode(_) | Term::Literal(_) => false,
    }
}

/// A one-to-one renaming of blank nodes.
#[derive(Clone, Default)]
struct Renaming {
    forth: HashMap<BlankNode, BlankNode>,
    back: HashMap<BlankNode, BlankNode>,
}

impl Renaming {
    /// Makes the rows equal if that can be.
    fn extend(&mut self, ours: &Row, wanted: &Row) -> bool {
        ours.len() == wanted.len()
            && ours.iter().zip(wanted).all(|pair| match pair {
                (Some(ours), Some(wanted)) => self.unify(ours, wanted),
                (None, None) => true,
                _ => false,
            })
    }

    fn unify(&mut self, ours: &Term, wanted: &Term) -> bool {
        match (ours, wanted) {
            (Term::BlankNode(ours), Term::BlankNode(wanted)) => {
                let forth = self.forth.entry(ours.clone()).or_insert(wanted.clone());
                let back = self.back.entry(wanted.clone()).or_insert(ours.clone());
                forth == wanted && back == ours
            }
            (Term::Triple(ours), Term::Triple(wanted)) => {
                ours.predicate == wanted.predicate
                    && self.unify(&ours.subject.clone().into(), &wanted.subject.clone().into())
                    && self.unify(&ours.object, &wanted.object)
            }
            (Term::Literal(ours), Term::Literal(wanted)) => same_literal(ours, wanted),
            _ => ours == wanted,
        }
    }
}

/// A computed decimal, float or double may be written in any way.
fn same_literal(ours: &Literal, wanted: &Literal) -> bool {
    let number = |literal: &Literal| match literal.datatype() {
        xsd::DECIMAL | xsd::FLOAT | xsd::DOUBLE => literal.value().parse::<f64>().ok(),
        _ => None,
    };
    ours == wanted
        || (ours.datatype() == wanted.datatype()
            && number(ours).is_some()
            && number(ours) == number(wanted))
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Graph(graph) => write!(f, "{graph}"),
            Self::Solutions { variables, rows } => {
                writeln!(f, "{variables:?}")?;
                let cell = |term: &Option<Term>| term.as_ref().map_or("-".into(), Term::to_string);
                for row in rows {
                    let cells: Vec<String> = row.iter().map(cell).collect();
                    writeln!(f, "  {}", cells.join("  "))?;
                }
                Ok(())
            }
        }
    }
}
