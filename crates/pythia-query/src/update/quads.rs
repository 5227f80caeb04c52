//! Changes of single quads, for embedding programs.

use oxrdf::{GraphNameRef, QuadRef};
use pythia_rdf::{TermId, TermKey};

use super::batch::QuadBatch;
use super::{BATCH_ROWS, Transaction};
use pythia_exec::error::QueryError;

/// Inserts quads and returns how many did not exist. Labels of blank nodes are those of the store.
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

/// Removes quads and returns how many existed.
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

/// Returns the ids of keys. Terms that the store does not have get new ids.
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
