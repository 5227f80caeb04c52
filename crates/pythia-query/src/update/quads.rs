//! Changes of single quads, for embedding programs.

use oxrdf::{GraphNameRef, QuadRef};
use pythia_rdf::{TermId, TermKey};

use super::batch::QuadBatch;
use super::{BATCH_ROWS, Transaction};
use crate::error::QueryError;

/// Inserts quads; how many were not there. Labels of blank nodes are the store's.
pub fn insert<'q>(
    transaction: &mut Transaction,
    quads: impl Iterator<Item = QuadRef<'q>>,
) -> Result<u64, QueryError> {
    let mut inserted = 0;
    in_batches(quads, |batch| {
        let rows = batch.rows(|keys| ids(transaction, keys))?;
        inserted += transaction.insert(&rows)?;
        Ok(())
    })?;
    Ok(inserted)
}

/// Removes quads; how many were there.
pub fn remove<'q>(
    transaction: &mut Transaction,
    quads: impl Iterator<Item = QuadRef<'q>>,
) -> Result<u64, QueryError> {
    let snapshot = transaction.snapshot();
    let mut removed = 0;
    in_batches(quads, |batch| {
        let rows = batch.rows(|keys| Ok(snapshot.resolve_keys(keys)?))?;
        removed += transaction.remove(&rows)?;
        Ok(())
    })?;
    Ok(removed)
}

/// The ids of keys; terms that the store does not have get new ones.
pub(super) fn ids(
    transaction: &mut Transaction,
    keys: &[TermKey<'_>],
) -> Result<Vec<Option<TermId>>, QueryError> {
    let ids = transaction.ids(keys)?;
    Ok(ids.into_iter().map(Some).collect())
}

fn in_batches<'q>(
    mut quads: impl Iterator<Item = QuadRef<'q>>,
    mut each: impl FnMut(&mut QuadBatch) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut batch = QuadBatch::new("");
    loop {
        let mut count = 0;
        for quad in quads.by_ref().take(BATCH_ROWS) {
            let graph = match quad.graph_name {
                GraphNameRef::DefaultGraph => None,
                GraphNameRef::NamedNode(node) => Some(node.into()),
                GraphNameRef::BlankNode(node) => Some(node.into()),
            };
            let (subject, predicate) = (quad.subject.into(), quad.predicate.into());
            batch.push(subject, predicate, quad.object, graph);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        each(&mut batch)?;
    }
}
