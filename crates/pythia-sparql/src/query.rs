//! Parsed queries.

use std::collections::HashMap;
use std::sync::Arc;

use oxrdf::{Term, Variable};
use spargebra::algebra::GraphPattern;

use crate::charge::{Charge, Unlimited};
use crate::error::SparqlError;
use crate::grammar::Language;
use crate::parser::{for_the_parser, parser, read};
use crate::position::syntax;
use crate::repeatable::is_repeatable;
use crate::service_check::check_services;
use crate::size::{FREE_BYTES, text_tree_bytes};
use crate::substitute::substitute;
use crate::token::{Kind, tokens};
use crate::{aggregates, limits, validate};

/// The kind of results that a query has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryForm {
    /// SELECT: a table.
    Select,
    /// ASK: yes or no.
    Ask,
    /// CONSTRUCT and DESCRIBE: a graph.
    Graph,
}

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) algebra: spargebra::Query,
    /// Memory held by the query, if charged.
    held: Option<Arc<dyn Charge>>,
}

impl From<spargebra::Query> for Query {
    fn from(algebra: spargebra::Query) -> Self {
        Self {
            algebra,
            held: None,
        }
    }
}

impl Query {
    /// Parses a query. Relative IRIs are resolved against `base`.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, SparqlError> {
        Self::parse_charged(text, base, &mut Unlimited::default())
    }

    /// Parses a query within limits. A large query is charged before it is built, until it is dropped.
    pub fn parse_within(
        text: &str,
        base: Option<&str>,
        mut charge: Box<dyn Charge>,
    ) -> Result<Self, SparqlError> {
        charge.check()?;
        let mut query = Self::parse_charged(text, base, &mut *charge)?;
        query.held = (charge.bytes() > 0).then(|| charge.into());
        Ok(query)
    }

    /// Returns the kind of results of the query.
    pub fn form(&self) -> QueryForm {
        match &self.algebra {
            spargebra::Query::Select { .. } => QueryForm::Select,
            spargebra::Query::Ask { .. } => QueryForm::Ask,
            spargebra::Query::Construct { .. } | spargebra::Query::Describe { .. } => {
                QueryForm::Graph
            }
        }
    }

    /// Returns the query with variables replaced by terms, wherever they are in scope at its top. Selected ones keep their
    /// columns. A blank node is the store's node with its label.
    ///
    /// # Errors
    /// [`SparqlError::Unsupported`]: a triple as a term, a literal in the place of a subject, predicate or graph, a blank node
    /// in that of a predicate, or a variable that the query binds itself.
    pub fn with_bindings(mut self, terms: &[(Variable, Term)]) -> Result<Self, SparqlError> {
        if !terms.is_empty() {
            substitute(&mut self.algebra, terms)?;
        }
        Ok(self)
    }

    /// Returns the query's algebra.
    pub fn algebra(&self) -> &spargebra::Query {
        &self.algebra
    }

    /// Returns whether the query, on the same state of the store, has the same results each time, except for their
    /// order and the labels of blank nodes: nowhere does it call `NOW`, `RAND`, `UUID`, `STRUUID` or `BNODE`, or ask
    /// another endpoint. Functions of an embedding program count as repeatable.
    pub fn is_repeatable(&self) -> bool {
        is_repeatable(&self.algebra)
    }

    fn parse_charged(
        text: &str,
        base: Option<&str>,
        charge: &mut dyn Charge,
    ) -> Result<Self, SparqlError> {
        limits::check(text).map_err(|excess| syntax(text, excess.at, excess.message))?;
        read(text, base, Language::Query, |standard| {
            let standard = &standard.text;
            if charge.is_limited() {
                let bytes = text_tree_bytes(standard, base);
                if bytes > FREE_BYTES {
                    charge.set(bytes)?;
                }
            }
            let parser = aggregates::for_text(parser(text, base)?, standard);
            let mut algebra = parser.parse_query(&for_the_parser(standard))?;
            let pattern = validate::pattern_of(&mut algebra);
            validate::finish(pattern)?;
            check_services(text, 0..text.len(), pattern)?;
            validate::endpoints::arrange(pattern);
            Ok(in_order_of_text(algebra, standard).into())
        })
    }
}

/// Sorts the columns of `SELECT *` by their first occurrence in the text. SPARQL leaves the order open; the
/// parser sorts by name.
fn in_order_of_text(mut query: spargebra::Query, text: &str) -> spargebra::Query {
    let mut words = tokens(text).skip_while(|token| !token.text.eq_ignore_ascii_case("select"));
    words.next();
    let after = words.find(|token| token.kind != Kind::Word);
    if after.is_some_and(|token| token.text == "*")
        && let spargebra::Query::Select { pattern, .. } = &mut query
        && let Some(variables) = projected(pattern)
    {
        let mut named: HashMap<&str, usize> = HashMap::new();
        for token in tokens(text).filter(|token| token.kind == Kind::Variable) {
            named.entry(&token.text[1..]).or_insert(token.start);
        }
        variables.sort_by_key(|v| named.get(v.as_str()).copied().unwrap_or(usize::MAX));
    }
    query
}

/// Returns the variables of the outermost projection.
pub(crate) fn projected(pattern: &mut GraphPattern) -> Option<&mut Vec<Variable>> {
    match pattern {
        GraphPattern::Project { variables, .. } => Some(variables),
        GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. } => projected(inner),
        _ => None,
    }
}
