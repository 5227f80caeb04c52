//! Reads of several graphs as one. Few graphs are read one after the other. Of many, all quads of the store that match
//! are read at once, and those of other graphs are dropped.
//!
//! A triple of several graphs is returned for each of them. The graphs are given as [`MergedGraphs`] lists them: one
//! filter, or the sorted graphs.
//!
//! [`MergedGraphs`]: crate::plan::dataset::MergedGraphs

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{Component, End, Expansion, GraphFilter, IdBatch, Order, QuadPattern, QuadScan};

use super::context::QueryContext;
use crate::error::QueryError;

/// The most graphs for which the links of nodes are read graph by graph. Each time the same pages are read.
const EXPANDED_MAX: usize = 8;
/// The most graphs that are scanned one by one. Each has rows of its own, which may be few of all.
const SCANNED_MAX: usize = 1024;

/// Appends the edges of `nodes`, which must be sorted and distinct, in the graphs.
pub(crate) fn expand(
    context: &QueryContext,
    graphs: &[GraphFilter],
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    links: &mut Expansion,
) -> Result<(), QueryError> {
    let snapshot = &context.snapshot;
    if graphs.len() <= EXPANDED_MAX {
        for &graph in graphs {
            snapshot.expand(end, nodes, predicate, graph, links)?;
        }
        return Ok(());
    }
    let mut all =
        Expansion::new(links.with_predicate, true).within(Arc::clone(context.governor()) as _);
    snapshot.expand(end, nodes, predicate, around(graphs), &mut all)?;
    for (row, &graph) in all.graph.iter().enumerate() {
        if has(graphs, graph) {
            links.source.push(all.source[row]);
            links.other.push(all.other[row]);
            if links.with_predicate {
                links.predicate.push(all.predicate[row]);
            }
        }
    }
    Ok(())
}

/// Calls `each` with batches of the quads in the graphs that match a pattern, as [`Scanning`] returns them, until it breaks.
pub(crate) fn scan(
    context: &QueryContext,
    graphs: &[GraphFilter],
    pattern: &QuadPattern,
    order: Order,
    ids: Option<Range<u64>>,
    wanted: &[Component],
    mut each: impl FnMut(&IdBatch) -> Result<ControlFlow<()>, QueryError>,
) -> Result<ControlFlow<()>, QueryError> {
    let mut scanning = Scanning::new(graphs.into(), *pattern, order, ids, wanted);
    while let Some(batch) = scanning.next(context)? {
        if each(batch)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Reads the quads in some graphs that match a pattern, in this order within each graph.
pub(super) struct Scanning {
    graphs: Arc<[GraphFilter]>,
    pattern: QuadPattern,
    order: Order,
    ids: Option<Range<u64>>,
    wanted: Vec<Component>,
    /// True if all graphs are read at once.
    is_whole: bool,
    /// The filters that are read one after the other, and how many of them were begun.
    filters: Arc<[GraphFilter]>,
    begun: usize,
    scan: Option<QuadScan>,
    batch: IdBatch,
}

impl Scanning {
    /// `ids` limits the first free component, as [`Snapshot::scan_range`] does.
    ///
    /// [`Snapshot::scan_range`]: pythia_store::Snapshot::scan_range
    pub(super) fn new(
        graphs: Arc<[GraphFilter]>,
        pattern: QuadPattern,
        order: Order,
        ids: Option<Range<u64>>,
        wanted: &[Component],
    ) -> Self {
        let is_whole = graphs.len() > SCANNED_MAX;
        let (filters, wanted) = match is_whole {
            true => (
                Arc::from([around(&graphs)]),
                [wanted, &[Component::Graph]].concat(),
            ),
            false => (Arc::clone(&graphs), wanted.to_vec()),
        };
        Self {
            graphs,
            pattern,
            order,
            ids,
            batch: IdBatch::new(wanted.len()),
            wanted,
            is_whole,
            filters,
            begun: 0,
            scan: None,
        }
    }

    /// Returns the next batch, or `None` after the last.
    pub(super) fn next(&mut self, context: &QueryContext) -> Result<Option<&IdBatch>, QueryError> {
        loop {
            let scan = match &mut self.scan {
                Some(scan) => scan,
                None => {
                    let Some(&graph) = self.filters.get(self.begun) else {
                        return Ok(None);
                    };
                    self.begun += 1;
                    self.scan.insert(self.open(graph, context)?)
                }
            };
            if scan.next_into(&mut self.batch)? {
                context.check()?;
                if self.is_whole {
                    keep(&self.graphs, &mut self.batch);
                }
                return Ok(Some(&self.batch));
            }
            self.scan = None;
        }
    }

    fn open(&self, graph: GraphFilter, context: &QueryContext) -> Result<QuadScan, QueryError> {
        let pattern = QuadPattern {
            graph,
            ..self.pattern
        };
        let snapshot = &context.snapshot;
        Ok(match self.ids.clone() {
            Some(ids) => snapshot.scan_range(&pattern, self.order, ids, &self.wanted)?,
            None => snapshot.scan(&pattern, self.order, &self.wanted)?,
        })
    }
}

/// Returns whether a quad in the graphs matches a pattern. `order` is one in which the pattern is read without sorting.
pub(crate) fn has_match(
    context: &QueryContext,
    graphs: &[GraphFilter],
    pattern: &QuadPattern,
    order: Order,
) -> Result<bool, QueryError> {
    if graphs.len() <= EXPANDED_MAX {
        for &graph in graphs {
            if context.snapshot.count(&QuadPattern { graph, ..*pattern })? > 0 {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let pattern = QuadPattern {
        graph: around(graphs),
        ..*pattern
    };
    let mut scan = context
        .snapshot
        .scan(&pattern, order, &[Component::Graph])?;
    while let Some(found) = scan.next()? {
        context.check()?;
        if found.columns[0].iter().any(|graph| has(graphs, *graph)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a filter that all of the graphs pass, which are sorted.
fn around(graphs: &[GraphFilter]) -> GraphFilter {
    match graphs.first() {
        Some(GraphFilter::One(graph)) if *graph != TermId::DEFAULT_GRAPH => GraphFilter::Named,
        _ => GraphFilter::Any,
    }
}

fn has(graphs: &[GraphFilter], graph: u64) -> bool {
    let id = |filter: &GraphFilter| match filter {
        GraphFilter::One(id) => id.0,
        GraphFilter::Named | GraphFilter::Any => {
            unreachable!("several graphs are given one by one")
        }
    };
    graphs.binary_search_by_key(&graph, id).is_ok()
}

/// Keeps the rows of the graphs. The graph is the last column.
fn keep(graphs: &[GraphFilter], batch: &mut IdBatch) {
    let found = batch.columns.last().expect("the graph");
    let kept: Vec<bool> = found.iter().map(|graph| has(graphs, *graph)).collect();
    for column in &mut batch.columns {
        let mut row = 0;
        column.retain(|_| {
            row += 1;
            kept[row - 1]
        });
    }
    batch.rows = kept.into_iter().filter(|kept| *kept).count();
}
