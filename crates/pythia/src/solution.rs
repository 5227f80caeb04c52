//! One solution at a time, with typed access.

use std::collections::VecDeque;
use std::sync::Arc;

use oxrdf::{Term, Variable};
use pythia_query::{QueryError, SolutionStream};

/// One solution of a query: a term, or none, for each variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    variables: Arc<[Variable]>,
    terms: Vec<Option<Term>>,
}

/// Why a value could not be had from a solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SolutionError {
    /// The variable is unbound, or the query has no such variable.
    #[error("?{0} is not bound")]
    Unbound(String),
    /// The term is of another type.
    #[error("?{variable} is {term}, not {expected}")]
    Type {
        /// The variable.
        variable: String,
        /// What it is bound to.
        term: String,
        /// What was asked for.
        expected: &'static str,
    },
}

/// A Rust type that terms can be read as.
pub trait FromTerm: Sized {
    /// What the type holds, for error messages.
    const EXPECTED: &'static str;
    /// The value of a term, if it is one.
    fn from_term(term: &Term) -> Option<Self>;
}

/// An IRI, the label of a blank node, or the lexical form of a literal.
impl FromTerm for String {
    const EXPECTED: &'static str = "an IRI, blank node or literal";
    fn from_term(term: &Term) -> Option<Self> {
        Some(match term {
            Term::NamedNode(node) => node.as_str().to_owned(),
            Term::BlankNode(node) => node.as_str().to_owned(),
            Term::Literal(literal) => literal.value().to_owned(),
            Term::Triple(_) => return None,
        })
    }
}

macro_rules! from_lexical_form {
    ($($type:ty: $expected:literal),*) => {$(
        /// A literal whose lexical form reads as this type.
        impl FromTerm for $type {
            const EXPECTED: &'static str = $expected;
            fn from_term(term: &Term) -> Option<Self> {
                match term {
                    Term::Literal(literal) => literal.value().parse().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

from_lexical_form!(i64: "an integer", f64: "a number", bool: "a boolean");

impl FromTerm for Term {
    const EXPECTED: &'static str = "a term";
    fn from_term(term: &Term) -> Option<Self> {
        Some(term.clone())
    }
}

impl Solution {
    /// The variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The terms, in column order.
    pub fn terms(&self) -> &[Option<Term>] {
        &self.terms
    }

    /// The term bound to a variable, named without its question mark.
    pub fn get(&self, variable: &str) -> Option<&Term> {
        let column = self.variables.iter().position(|v| v.as_str() == variable)?;
        self.terms[column].as_ref()
    }

    /// The value bound to a variable, as a Rust type.
    pub fn get_as<T: FromTerm>(&self, variable: &str) -> Result<T, SolutionError> {
        let term = self
            .get(variable)
            .ok_or_else(|| SolutionError::Unbound(variable.to_owned()))?;
        T::from_term(term).ok_or_else(|| SolutionError::Type {
            variable: variable.to_owned(),
            term: term.to_string(),
            expected: T::EXPECTED,
        })
    }
}

/// Solutions one by one; the batches behind them are computed as they are needed.
pub struct Solutions {
    stream: SolutionStream,
    variables: Arc<[Variable]>,
    ready: VecDeque<Solution>,
}

impl Iterator for Solutions {
    type Item = Result<Solution, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            let batch = match self.stream.next_batch() {
                Ok(batch) => batch?,
                Err(error) => return Some(Err(error)),
            };
            self.ready.extend((0..batch.len()).map(|row| Solution {
                variables: Arc::clone(&self.variables),
                terms: batch.row(row).map(|(_, term)| term.cloned()).collect(),
            }));
        }
        self.ready.pop_front().map(Ok)
    }
}

/// Reads a stream solution by solution.
pub fn solutions(stream: SolutionStream) -> Solutions {
    Solutions {
        variables: stream.variables().into(),
        stream,
        ready: VecDeque::new(),
    }
}
