//! Results of a query, and whether two databases give the same ones.

use std::cmp::Ordering;
use std::fmt;

use anyhow::{Context, Result};
use oxrdf::vocab::xsd;
use oxrdf::{NamedNodeRef, Term};
use oxttl::NTriplesParser;
use sparesults::{QueryResultsFormat, QueryResultsParser, ReaderQueryResultsParserOutput};

/// Relative difference up to which two numbers are the same. Databases add `xsd:float` values in different precisions.
const TOLERANCE: f64 = 1e-3;

/// The results of a query in a form that does not depend on the database: rows in a fixed order, columns by name.
///
/// Datatypes and languages are ignored, because some databases change them; numbers are compared by value and blank
/// nodes are all the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    rows: Vec<Vec<Cell>>,
    /// False for ASK, which has an answer always.
    may_be_empty: bool,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Unbound,
    Blank,
    Text(String),
    Integer(i64),
    Number(f64),
}

impl Answer {
    /// Reads SPARQL JSON.
    pub fn of_solutions(json: &[u8]) -> Result<Self> {
        let parser = QueryResultsParser::from_format(QueryResultsFormat::Json);
        let mut rows = Vec::new();
        let may_be_empty = match parser.for_reader(json).context("SPARQL JSON")? {
            ReaderQueryResultsParserOutput::Boolean(yes) => {
                rows.push(vec![Cell::Text(yes.to_string())]);
                false
            }
            ReaderQueryResultsParserOutput::Solutions(solutions) => {
                let mut names: Vec<_> = solutions.variables().to_vec();
                names.sort_unstable();
                for solution in solutions {
                    let solution = solution.context("SPARQL JSON")?;
                    let cell = |name| solution.get(name).map_or(Cell::Unbound, Cell::of);
                    rows.push(names.iter().map(cell).collect());
                }
                true
            }
        };
        Ok(Self::of_rows(rows, may_be_empty))
    }

    /// Reads N-Triples.
    pub fn of_graph(text: &[u8]) -> Result<Self> {
        let mut rows = Vec::new();
        for triple in NTriplesParser::new().for_reader(text) {
            let triple = triple.context("N-Triples")?;
            let subject = Cell::of(&triple.subject.into());
            let predicate = Cell::Text(triple.predicate.into_string());
            rows.push(vec![subject, predicate, Cell::of(&triple.object)]);
        }
        let mut answer = Self::of_rows(rows, true);
        answer.rows.dedup();
        Ok(answer)
    }

    fn of_rows(mut rows: Vec<Vec<Cell>>, may_be_empty: bool) -> Self {
        rows.sort_by(|left, right| compare(left, right));
        Self { rows, may_be_empty }
    }

    /// Returns the number of rows or distinct triples.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the query found nothing. ASK always has an answer.
    pub fn is_empty(&self) -> bool {
        self.may_be_empty && self.rows.is_empty()
    }

    /// Returns the answer of an ASK. Virtuoso gives the number 1 or 0 in a table of one row.
    fn yes_or_no(&self) -> Option<bool> {
        let [row] = &self.rows[..] else { return None };
        match &row[..] {
            [Cell::Integer(number)] => Some(*number == 1),
            [Cell::Text(text)] => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the first difference to the answer of another database; `None` if the answers are the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.rows.len() != other.rows.len() {
            return Some(format!("{} rows, not {}", self.rows(), other.rows()));
        }
        if self.may_be_empty != other.may_be_empty && self.yes_or_no() == other.yes_or_no() {
            return None;
        }
        let mut pairs = self.rows.iter().zip(&other.rows);
        let (one, two) = pairs.find(|(one, two)| !are_same(one, two))?;
        Some(format!("{}, not {}", Row(one), Row(two)))
    }
}

impl Cell {
    fn of(term: &Term) -> Self {
        let literal = match term {
            Term::NamedNode(node) => return Self::Text(node.as_str().to_owned()),
            Term::BlankNode(_) => return Self::Blank,
            Term::Literal(literal) => literal,
            Term::Triple(_) => return Self::Text(term.to_string()),
        };
        let value = literal.value();
        if is_numeric(literal.datatype()) {
            if let Ok(integer) = value.parse() {
                return Self::Integer(integer);
            }
            if let Ok(number) = value.parse() {
                return Self::Number(number);
            }
        }
        Self::Text(value.to_owned())
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Unbound => Some(""),
            Self::Blank => Some("_:"),
            Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Number(_) => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(one), Self::Integer(two)) => one == two,
            _ => match (self.number(), other.number()) {
                (Some(one), Some(two)) => {
                    one == two
                        || (one.is_nan() && two.is_nan())
                        || (one - two).abs() <= TOLERANCE * one.abs().max(two.abs())
                }
                _ => self == other,
            },
        }
    }
}

fn is_numeric(datatype: NamedNodeRef<'_>) -> bool {
    [
        xsd::INTEGER,
        xsd::DECIMAL,
        xsd::DOUBLE,
        xsd::FLOAT,
        xsd::INT,
        xsd::LONG,
        xsd::SHORT,
        xsd::BYTE,
        xsd::NON_NEGATIVE_INTEGER,
        xsd::POSITIVE_INTEGER,
        xsd::UNSIGNED_INT,
        xsd::UNSIGNED_LONG,
    ]
    .contains(&datatype)
}

fn are_same(one: &[Cell], two: &[Cell]) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_same(two))
}

/// Orders rows by their texts and then by their numbers: numbers that differ a little do not change the order of rows
/// with different texts.
fn compare(one: &[Cell], two: &[Cell]) -> Ordering {
    let texts = one.iter().map(Cell::text).cmp(two.iter().map(Cell::text));
    texts.then_with(|| {
        let numbers = |row: &[Cell]| row.iter().filter_map(Cell::number).collect::<Vec<_>>();
        let (one, two) = (numbers(one), numbers(two));
        let mut orders = one.iter().zip(&two).map(|(one, two)| one.total_cmp(two));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

/// A row in a message.
struct Row<'a>(&'a [Cell]);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LENGTH: usize = 60;
        f.write_str("(")?;
        for (place, cell) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            match cell {
                Cell::Integer(integer) => write!(f, "{integer}")?,
                Cell::Number(number) => write!(f, "{number}")?,
                _ => {
                    let text = cell.text().unwrap_or_default();
                    f.write_str(&text.chars().take(LENGTH).collect::<String>())?;
                }
            }
        }
        f.write_str(")")
    }
}
