//! Exact counts of patterns in one segment.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::of_segment;
use crate::StoreError;
use crate::pattern::{End, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::Segment;

/// As [`Snapshot::count`](crate::Snapshot::count).
pub(crate) fn count(base: &Arc<Segment>, pattern: &QuadPattern) -> Result<u64, StoreError> {
    if base.statistics().quads == 0 {
        return Ok(0);
    }
    if let Some(count) = of_graph(base, pattern)? {
        return Ok(count);
    }
    // Where all quads are of these graphs, the tuple pages have the counts.
    let any_graph = known(base, pattern.graph) == Some(base.statistics().quads);
    match (pattern.subject, pattern.predicate, pattern.object) {
        (None, None, None) => all(base, pattern.graph),
        (None, Some(predicate), None) => columns(base, End::Subject, &[predicate], pattern.graph),
        (Some(subject), predicate, None) if any_graph => base.spo.count(subject, predicate),
        (None, predicate, Some(object)) if any_graph => base.ops.count(object, predicate),
        (Some(subject), Some(predicate), None) => {
            columns(base, End::Subject, &[predicate, subject], pattern.graph)
        }
        (None, Some(predicate), Some(object)) => {
            columns(base, End::Object, &[predicate, object], pattern.graph)
        }
        (Some(subject), Some(predicate), Some(object)) => columns(
            base,
            End::Subject,
            &[predicate, subject, object],
            pattern.graph,
        ),
        // The rows of one node, restricted to some graphs or to one other end.
        (Some(_), None, _) | (None, None, Some(_)) => {
            let mut scan = of_segment::scan(base, pattern, Order::Pso, &[])?;
            let mut batch = IdBatch::default();
            let mut count = 0;
            while scan.next_into(&mut batch)? {
                count += batch.rows as u64;
            }
            Ok(count)
        }
    }
}

/// As [`Snapshot::count_range`](crate::Snapshot::count_range).
pub(crate) fn count_range(
    base: &Arc<Segment>,
    predicate: TermId,
    end: End,
    ids: &Range<u64>,
    graph: GraphFilter,
) -> Result<u64, StoreError> {
    let rows = of_segment::rows_within(base, predicate, end, ids)?;
    base.columns(end).count(rows, graph)
}

fn columns(
    base: &Segment,
    end: End,
    prefix: &[TermId],
    graph: GraphFilter,
) -> Result<u64, StoreError> {
    let prefix: Vec<u64> = prefix.iter().map(|id| id.0).collect();
    let file = base.columns(end);
    file.count(file.find(&prefix)?, graph)
}

/// Counts the quads of one named graph, or of a graph and a predicate, in the order that begins with the graph.
fn of_graph(base: &Segment, pattern: &QuadPattern) -> Result<Option<u64>, StoreError> {
    let (None, None, Some(graph), Some(file)) = (
        pattern.subject,
        pattern.object,
        pattern.graph.one_named(),
        base.column_file(Order::Gpso),
    ) else {
        return Ok(None);
    };
    let known = base.statistics().graphs.quads(graph);
    let rows = match (pattern.predicate, known) {
        (None, Some(count)) | (Some(_), Some(count @ 0)) => return Ok(Some(count)),
        (predicate, _) => {
            let prefix = [Some(graph), predicate].into_iter().flatten();
            file.find(&prefix.map(|id| id.0).collect::<Vec<_>>())?
        }
    };
    Ok(Some(rows.end - rows.start))
}

/// Counts the quads of some graphs: known without reading, unless there are too many graphs to list.
fn all(base: &Segment, graph: GraphFilter) -> Result<u64, StoreError> {
    match known(base, graph) {
        Some(count) => Ok(count),
        None => base.pso.count(0..base.statistics().quads, graph),
    }
}

/// Returns the number of quads of some graphs, if it is known without reading.
fn known(base: &Segment, graph: GraphFilter) -> Option<u64> {
    let statistics = base.statistics();
    match graph {
        GraphFilter::Any => Some(statistics.quads),
        GraphFilter::Named => Some(statistics.quads - statistics.graphs.default_graph_quads()),
        GraphFilter::One(graph) => statistics.graphs.quads(graph),
    }
}
