//! Helpers of this module's tests: a dictionary in memory with the ids that a store would use, and parsing
//! of expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxrdf::vocab::xsd;
use oxrdf::{Term, TermRef, Variable};
use oxsdatatypes::DateTime;
use pythia_rdf::inline::inline_literal;
use pythia_rdf::{TermId, TermKind};
use spargebra::algebra::{Expression, GraphPattern};
use spargebra::{Query, SparqlParser};

use super::context::EvaluationContext;
use super::table::{FoundTerm, TermReader, TermResolver};
use crate::error::QueryError;
use crate::limits::governor::Governor;

/// A sorted dictionary.
#[derive(Default)]
pub(crate) struct MemoryDictionary {
    terms: BTreeMap<TermKind, Vec<Term>>,
}

impl MemoryDictionary {
    /// Makes a dictionary of those terms that do not fit into ids.
    pub(crate) fn new(terms: impl IntoIterator<Item = Term>) -> Self {
        let mut dictionary = Self::default();
        for term in terms {
            if let Some(kind) = dictionary_kind(&term) {
                dictionary.terms.entry(kind).or_default().push(term);
            }
        }
        for terms in dictionary.terms.values_mut() {
            terms.sort_by_key(sort_key);
            terms.dedup();
        }
        dictionary
    }
}

impl TermResolver for MemoryDictionary {
    fn resolve(&self, term: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
        let term = term.into_owned();
        let kind = dictionary_kind(&term).expect("inline terms are not looked up");
        let terms = self.terms.get(&kind).map_or(&[][..], Vec::as_slice);
        let rank = terms.binary_search_by_key(&sort_key(&term), sort_key).ok();
        Ok(rank.map(|rank| TermId::new(kind, rank as u64)))
    }

    fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
        for (index, id) in ids.iter().enumerate() {
            let term = &self.terms[&id.kind()][id.payload() as usize];
            f(index, FoundTerm::of(term)).expect("a term");
        }
        Ok(())
    }

    fn sorted_payloads(&self, kind: TermKind) -> u64 {
        self.terms.get(&kind).map_or(0, |terms| terms.len() as u64)
    }
}

fn dictionary_kind(term: &Term) -> Option<TermKind> {
    match term {
        Term::NamedNode(_) => Some(TermKind::Iri),
        Term::BlankNode(_) => Some(TermKind::BlankNode),
        Term::Triple(_) => Some(TermKind::Triple),
        Term::Literal(literal) if literal.language().is_some() => Some(TermKind::LangString),
        Term::Literal(literal) if literal.datatype() == xsd::STRING => Some(TermKind::String),
        Term::Literal(literal) => {
            let inline = inline_literal(literal.value(), literal.datatype().as_str());
            inline.is_none().then_some(TermKind::TypedLiteral)
        }
    }
}

fn sort_key(term: &Term) -> (String, String) {
    match term {
        Term::NamedNode(node) => (node.as_str().to_owned(), String::new()),
        Term::BlankNode(node) => (node.as_str().to_owned(), String::new()),
        Term::Literal(literal) => {
            let mut rest = literal.language().unwrap_or_default().to_owned();
            rest.push_str(literal.datatype().as_str());
            rest.extend(literal.direction().map(|direction| direction.to_string()));
            (literal.value().to_owned(), rest)
        }
        Term::Triple(triple) => (triple.to_string(), String::new()),
    }
}

/// Makes a context without limits over a dictionary.
pub(crate) fn context_over(dictionary: Arc<dyn TermResolver>) -> EvaluationContext {
    EvaluationContext::new(dictionary, Arc::new(Governor::unlimited()))
}

/// Makes a context over a dictionary of these terms.
pub(crate) fn context(terms: impl IntoIterator<Item = Term>) -> EvaluationContext {
    let now: DateTime = "2024-05-06T07:08:09Z".parse().expect("a dateTime");
    context_over(Arc::new(MemoryDictionary::new(terms)))
        .with_now(now)
        .with_seed([7; 32])
}

/// Parses a term.
pub(crate) fn term(text: &str) -> Term {
    match expression(text) {
        Expression::NamedNode(node) => node.into(),
        Expression::Literal(literal) => literal.into(),
        other => panic!("{text} is no term but {other:?}"),
    }
}

/// Parses an expression.
pub(crate) fn expression(text: &str) -> Expression {
    let query =
        format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT ({text} AS ?result) {{}}");
    match SparqlParser::new().parse_query(&query) {
        Ok(Query::Select { pattern, .. }) => extended(&pattern).expect("an expression").clone(),
        Ok(other) => panic!("{text}: {other}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

fn extended(pattern: &GraphPattern) -> Option<&Expression> {
    match pattern {
        GraphPattern::Extend { expression, .. } => Some(expression),
        GraphPattern::Project { inner, .. } => extended(inner),
        _ => None,
    }
}

/// Returns the variables of these names.
pub(crate) fn variables(names: &[&str]) -> Vec<Variable> {
    names
        .iter()
        .map(|name| Variable::new_unchecked(*name))
        .collect()
}
