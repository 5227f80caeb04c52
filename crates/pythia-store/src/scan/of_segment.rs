//! The rows of one segment that match a pattern, from the file that has them sorted.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::TermId;

use super::{ColumnScan, NodeScan, Projection, SegmentScan, SortedRows, Source, TupleScan};
use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::{Component, End, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::Segment;

/// Most rows of a graph that are sorted in memory: 32 MiB of them.
pub(crate) const SORTED_ROWS_MAX: u64 = 1 << 20;

/// As [`Snapshot::scan`](crate::Snapshot::scan).
pub(crate) fn scan(
    segment: &Arc<Segment>,
    pattern: &QuadPattern,
    order: Order,
    wanted: &[Component],
) -> Result<SegmentScan, StoreError> {
    let source = source(segment, pattern, order, wanted)?;
    Ok(SegmentScan::new(source, wanted))
}

/// As [`Snapshot::scan_range`](crate::Snapshot::scan_range).
pub(crate) fn scan_range(
    segment: &Arc<Segment>,
    pattern: &QuadPattern,
    order: Order,
    ids: Range<u64>,
    wanted: &[Component],
) -> Result<SegmentScan, StoreError> {
    let (None, Some(predicate), None, Order::Pso | Order::Pos) =
        (pattern.subject, pattern.predicate, pattern.object, order)
    else {
        panic!("a range of ids of {pattern:?} in order {order:?}");
    };
    let end = first_end(order);
    let rows = rows_within(segment, predicate, end, &ids)?;
    let projection = Projection::new(pattern, order, wanted);
    let prefix = vec![predicate.0];
    let segment = Arc::clone(segment);
    let scan = ColumnScan::over(segment, order, prefix, rows, pattern.graph, projection)?;
    Ok(SegmentScan::new(Source::Columns(Box::new(scan)), wanted))
}

/// Returns the rows of a predicate whose subject (or object) is in `ids`. Reads at most two pages.
pub(crate) fn rows_within(
    segment: &Arc<Segment>,
    predicate: TermId,
    end: End,
    ids: &Range<u64>,
) -> Result<Range<u64>, StoreError> {
    let file = segment.columns(end);
    let all = file.find(&[predicate.0])?;
    let first = |id: u64| -> Result<u64, StoreError> {
        Ok(file.seek(&[predicate.0, id])?.clamp(all.start, all.end))
    };
    let start = first(ids.start)?;
    Ok(start..first(ids.end)?.max(start))
}

fn source(
    segment: &Arc<Segment>,
    pattern: &QuadPattern,
    order: Order,
    wanted: &[Component],
) -> Result<Source, StoreError> {
    if segment.statistics().quads == 0 {
        return Ok(Source::Empty);
    }
    if let Some(source) = of_graph(segment, pattern, order, wanted)? {
        return Ok(source);
    }
    match (pattern.subject, pattern.predicate, pattern.object) {
        (Some(_), None, None) if order == Order::Ops => sorted(segment, pattern, order, wanted),
        (None, None, Some(_)) if order == Order::Spo => sorted(segment, pattern, order, wanted),
        (Some(subject), ..) => of_node(segment, End::Subject, subject, pattern, wanted),
        (None, _, Some(object)) => of_node(segment, End::Object, object, pattern, wanted),
        (None, None, None) if matches!(order, Order::Spo | Order::Ops) => {
            let end = first_end(order);
            let segment = Arc::clone(segment);
            let scan = TupleScan::new(segment, end, pattern, wanted);
            Ok(Source::Tuples(Box::new(scan)))
        }
        (None, predicate, None) => {
            let prefix = predicate.map(|id| id.0).into_iter().collect();
            columns(segment, first_end(order), prefix, pattern, wanted)
        }
    }
}

fn of_node(
    segment: &Arc<Segment>,
    end: End,
    node: TermId,
    pattern: &QuadPattern,
    wanted: &[Component],
) -> Result<Source, StoreError> {
    // A list that fills pages is external: skip the tuple page.
    if let Some(predicate) = pattern.predicate {
        let mut prefix = vec![predicate.0, node.0];
        let pages = segment
            .columns(end)
            .pages_of(&mut Held::default(), &prefix)?;
        if pages.len() > 2 {
            let other = match end {
                End::Subject => pattern.object,
                End::Object => pattern.subject,
            };
            prefix.extend(other.map(|id| id.0));
            return columns(segment, end, prefix, pattern, wanted);
        }
    }
    let segment = Arc::clone(segment);
    let scan = NodeScan::new(segment, end, node, pattern, wanted)?;
    Ok(Source::Node(Box::new(scan)))
}

fn columns(
    segment: &Arc<Segment>,
    end: End,
    prefix: Vec<u64>,
    pattern: &QuadPattern,
    wanted: &[Component],
) -> Result<Source, StoreError> {
    let order = match end {
        End::Subject => Order::Pso,
        End::Object => Order::Pos,
    };
    let projection = Projection::new(pattern, order, wanted);
    let segment = Arc::clone(segment);
    let scan = ColumnScan::new(segment, order, prefix, pattern.graph, projection)?;
    Ok(Source::Columns(Box::new(scan)))
}

/// Returns the rows of one named graph, or of a graph and a predicate, from the order that begins with the graph.
/// `None` if another order is better: the pattern binds a node, or more rows than [`SORTED_ROWS_MAX`] would have to be
/// sorted.
fn of_graph(
    segment: &Arc<Segment>,
    pattern: &QuadPattern,
    order: Order,
    wanted: &[Component],
) -> Result<Option<Source>, StoreError> {
    let (None, None, Some(graph), Some(file)) = (
        pattern.subject,
        pattern.object,
        pattern.graph.one_named(),
        segment.column_file(Order::Gpso),
    ) else {
        return Ok(None);
    };
    let mut prefix = vec![graph.0];
    prefix.extend(pattern.predicate.map(|id| id.0));
    let rows = file.find(&prefix)?;
    if rows.is_empty() {
        return Ok(Some(Source::Empty));
    }
    let is_in_order = match order {
        Order::Pso | Order::Gpso => true,
        Order::Spo => pattern.predicate.is_some(),
        Order::Ops | Order::Pos => false,
    };
    if !is_in_order && rows.end - rows.start > SORTED_ROWS_MAX {
        return Ok(None);
    }
    // The rows of the range are all of this graph.
    let any = GraphFilter::Any;
    let of_range = |wanted: &[Component]| {
        let projection = Projection::new(pattern, Order::Gpso, wanted);
        let (segment, prefix) = (Arc::clone(segment), prefix.clone());
        ColumnScan::over(segment, Order::Gpso, prefix, rows.clone(), any, projection)
    };
    if is_in_order {
        return Ok(Some(Source::Columns(Box::new(of_range(wanted)?))));
    }
    let components = order.components();
    let source = Source::Columns(Box::new(of_range(&components)?));
    let rows = collected(source, &components)?;
    let projection = Projection::new(pattern, order, wanted);
    let key = usize::from(pattern.predicate.is_some() && order == Order::Pos);
    Ok(Some(Source::Sorted(SortedRows::new(rows, key, projection))))
}

/// Collects the rows of one node and sorts them by the other end.
fn sorted(
    segment: &Arc<Segment>,
    pattern: &QuadPattern,
    order: Order,
    wanted: &[Component],
) -> Result<Source, StoreError> {
    let (end, node) = match (pattern.subject, pattern.object) {
        (Some(subject), _) => (End::Subject, subject),
        (None, Some(object)) => (End::Object, object),
        (None, None) => return Ok(Source::Empty),
    };
    let components = order.components();
    let source = of_node(segment, end, node, pattern, &components)?;
    let rows = collected(source, &components)?;
    let projection = Projection::new(pattern, order, wanted);
    Ok(Source::Sorted(SortedRows::new(rows, 0, projection)))
}

/// Returns all rows of a source.
fn collected(source: Source, components: &[Component; 4]) -> Result<Vec<[u64; 4]>, StoreError> {
    let mut scan = SegmentScan::new(source, components);
    let mut rows = Vec::new();
    let mut batch = IdBatch::default();
    while scan.next_into(&mut batch)? {
        let [first, second, third, graph] = &*batch.columns else {
            unreachable!("four components were asked for");
        };
        rows.extend((0..batch.rows).map(|row| [first[row], second[row], third[row], graph[row]]));
    }
    Ok(rows)
}

/// Returns the end that an order sorts by first, predicates aside.
fn first_end(order: Order) -> End {
    match order {
        Order::Spo | Order::Pso | Order::Gpso => End::Subject,
        Order::Ops | Order::Pos => End::Object,
    }
}
