//! The query that requests the solutions that can be joined with some rows.

use hashbrown::HashSet;
use oxrdf::{Term, Triple};
use pythia_rdf::TermId;
use spargebra::algebra::GraphPattern;
use spargebra::term::{GroundTerm, GroundTriple};

use super::{Rows, Service};
use crate::error::QueryError;
use crate::exec::context::QueryContext;

/// Returns the text of the query: the pattern, with the rows' bindings as VALUES.
pub(super) fn query(
    service: &Service,
    context: &QueryContext,
    rows: Option<&Rows>,
) -> Result<String, QueryError> {
    let mut pattern = service.pattern.clone();
    if let Some(rows) = rows {
        let shared: Vec<usize> = service.shared().collect();
        let bindings = bindings(service, context, rows, &shared)?;
        // A row without a term that can be sent needs all solutions.
        if bindings.iter().all(|row| row.iter().any(Option::is_some)) {
            let variables = shared.iter().map(|asked| service.asked[*asked].clone());
            pattern = GraphPattern::Join {
                left: Box::new(GraphPattern::Values {
                    variables: variables.collect(),
                    bindings,
                }),
                right: Box::new(pattern),
            };
        }
    }
    let query = spargebra::Query::Select {
        dataset: None,
        pattern: GraphPattern::Project {
            inner: Box::new(pattern),
            variables: service.asked.clone(),
        },
        base_iri: None,
    };
    Ok(query.to_string())
}

/// Returns the rows' bindings of the requested variables, each combination once.
fn bindings(
    service: &Service,
    context: &QueryContext,
    rows: &Rows,
    shared: &[usize],
) -> Result<Vec<Vec<Option<GroundTerm>>>, QueryError> {
    let mut seen: HashSet<Vec<u64>> = HashSet::new();
    let mut distinct = Vec::new();
    for row in 0..rows.count {
        let ids = shared
            .iter()
            .map(|asked| rows.columns[service.columns[*asked]][row]);
        let ids: Vec<u64> = ids.collect();
        if seen.insert(ids.clone()) {
            distinct.push(ids);
        }
    }
    let bound = distinct.iter().flatten().filter(|id| **id != 0);
    let bound: Vec<TermId> = bound.map(|id| TermId(*id)).collect();
    let mut terms = context.evaluation.decode(&bound)?.into_iter();
    let term = |id: u64| match id {
        0 => None,
        _ => ground(terms.next().expect("one for each")),
    };
    let mut term = term;
    let row = |ids: Vec<u64>| ids.into_iter().map(&mut term).collect();
    Ok(distinct.into_iter().map(row).collect())
}

/// Converts a term for VALUES; `None` if it has blank nodes, which another endpoint cannot know.
fn ground(term: Term) -> Option<GroundTerm> {
    Some(match term {
        Term::NamedNode(node) => node.into(),
        Term::Literal(literal) => literal.into(),
        Term::BlankNode(_) => return None,
        Term::Triple(triple) => {
            let Triple {
                subject,
                predicate,
                object,
            } = *triple;
            let oxrdf::NamedOrBlankNode::NamedNode(subject) = subject else {
                return None;
            };
            GroundTerm::Triple(Box::new(GroundTriple {
                subject,
                predicate,
                object: ground(object)?,
            }))
        }
    })
}
