//! Single solutions with typed access.

use std::collections::VecDeque;
use std::sync::Arc;

use oxrdf::{Term, Variable};
use pythia_query::{QueryError, SolutionStream};

/// One solution of a query: for each variable a term, if it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    variables: Arc<[Variable]>,
    terms: Vec<Option<Term>>,
}

/// The error of reading a value from a solution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SolutionError {
    /// The variable is unbound, or the query has no such variable.
    #[error("?{0} is not bound")]
    Unbound(String),
    /// The term has another type.
    #[error("?{variable} is {term}, not {expected}")]
    Type {
        /// The variable.
        variable: String,
        /// The bound term.
        term: String,
        /// The requested type.
        expected: &'static str,
    },
}

/// A Rust type that terms can be converted to.
pub trait FromTerm: Sized {
    /// A description of the type, for error messages.
    const EXPECTED: &'static str;
    /// Converts a term; `None` if it is of another type.
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
        /// A literal whose lexical form parses as this type.
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
    /// Returns the variables, in column order.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Returns the terms, in column order.
    pub fn terms(&self) -> &[Option<Term>] {
        &self.terms
    }

    /// Returns the term bound to a variable, named without its question mark.
    pub fn get(&self, variable: &str) -> Option<&Term> {
        let column = self.variables.iter().position(|v| v.as_str() == variable)?;
        self.terms[column].as_ref()
    }

    /// Returns the value bound to a variable, as a Rust type.
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

/// An iterator over single solutions. The underlying batches are computed as needed.
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

/// Returns the solutions of a stream one by one.
pub fn solutions(stream: SolutionStream) -> Solutions {
    Solutions {
        variables: stream.variables().into(),
        stream,
        ready: VecDeque::new(),
    }
}
