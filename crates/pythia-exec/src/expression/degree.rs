//! Degrees as functions: the number of the store's quads with a term as subject or object.

use std::borrow::Cow;

use pythia_rdf::{TermId, inline};
use pythia_store::End;

use super::column::Column;
use super::context::EvaluationContext;
use crate::error::QueryError;

/// Returns the end whose edges a function counts; `None` for any other function.
pub(super) fn counted_end(name: &str) -> Option<End> {
    match name.strip_prefix("urn:pythia:graph#")? {
        "outDegree" => Some(End::Subject),
        "inDegree" => Some(End::Object),
        _ => None,
    }
}

/// Returns the degrees of terms, read in batches; an error where there is no term.
pub(super) fn degrees<'a>(
    end: End,
    ids: &[u64],
    context: &EvaluationContext,
) -> Result<Column<'a>, QueryError> {
    let mut nodes: Vec<TermId> = ids.iter().map(|&id| TermId(id)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.retain(|node| node.is_bound());
    let degrees = context.resolver().degrees(end, &nodes)?;
    let integer = |id: &u64| {
        let Ok(index) = nodes.binary_search(&TermId(*id)) else {
            return 0;
        };
        let degree = inline::inline_integer(degrees[index] as i64);
        degree.expect("fewer quads than integers that fit an id").0
    };
    Ok(Column::Ids(Cow::Owned(ids.iter().map(integer).collect())))
}
