//! Writing out all that a store holds.

use std::io::Write;

use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use pythia_query::QueryError;
use pythia_rdf::write::RdfWriter;
use pythia_rdf::{RdfFormat, TermId};
use pythia_store::{Snapshot, StoreError};

use crate::write::{WriteError, WriteReport};

/// Writes all quads, sorted by subject, predicate, object and graph. The same data gives the same
/// bytes, whatever order it was loaded in. Memory stays constant.
pub fn dump(
    snapshot: &Snapshot,
    format: RdfFormat,
    out: impl Write,
) -> Result<WriteReport, WriteError> {
    let mut writer = RdfWriter::new(out, format, &[]).expect("no prefixes, so none is wrong");
    let mut report = WriteReport::default();
    let failed = |error: StoreError| WriteError::Query(QueryError::Store(error));
    let mut quads = snapshot.quads().map_err(failed)?;
    while let Some(batch) = quads.next().map_err(failed)? {
        let mut ids: Vec<TermId> = Vec::with_capacity(batch.rows * 4);
        for row in 0..batch.rows {
            let present = batch.columns.iter().map(|column| TermId(column[row]));
            ids.extend(present.filter(|id| id.is_bound()));
        }
        let mut terms = snapshot.decode(&ids).map_err(failed)?.into_iter();
        for row in 0..batch.rows {
            let mut next = |column: usize| {
                let bound = batch.columns[column][row] != 0;
                bound.then(|| terms.next()).flatten()
            };
            let quad = quad([next(0), next(1), next(2), next(3)]).ok_or_else(|| {
                failed(StoreError::corrupt("spo", None, "a quad that is not RDF"))
            })?;
            writer.quad(quad.as_ref())?;
            report.rows += 1;
        }
    }
    writer.finish()?.flush()?;
    Ok(report)
}

/// The quad of these terms, if each can stand in its place.
fn quad([subject, predicate, object, graph]: [Option<Term>; 4]) -> Option<Quad> {
    let node = |term: Term| -> Option<NamedOrBlankNode> {
        match term {
            Term::NamedNode(node) => Some(node.into()),
            Term::BlankNode(node) => Some(node.into()),
            _ => None,
        }
    };
    let predicate: NamedNode = match predicate? {
        Term::NamedNode(node) => node,
        _ => return None,
    };
    let graph = match graph {
        None => GraphName::DefaultGraph,
        Some(term) => node(term)?.into(),
    };
    Some(Quad::new(node(subject?)?, predicate, object?, graph))
}
