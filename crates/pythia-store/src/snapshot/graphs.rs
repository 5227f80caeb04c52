//! The named graphs of a snapshot.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::Snapshot;
use crate::StoreError;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};
use crate::scan::{NamedGraphs, of_segment};
use crate::segment::Segment;

/// The graphs of all quads in a named graph.
const NAMED: QuadPattern = QuadPattern {
    subject: None,
    predicate: None,
    object: None,
    graph: GraphFilter::Named,
};

impl Snapshot {
    /// Returns the named graphs that have quads, sorted. Reads nothing if they are few; otherwise the pages of the order
    /// that begins with the graph on which a graph begins. Calls `check` between reads, with the number of graphs so
    /// far.
    pub fn named_graphs<E: From<StoreError>>(
        &self,
        mut check: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<TermId>, E> {
        self.record_all_graphs();
        let known = &self.estimates().statistics().graphs;
        if known.is_complete() {
            let known = known.graphs.iter().map(|(graph, _)| *graph);
            return Ok(known.filter(|graph| graph.is_bound()).collect());
        }
        let mut graphs = Vec::new();
        append(&self.base, &mut graphs, &mut check)?;
        let mut doubtful = Vec::new();
        if let Some(delta) = self.changes() {
            for run in delta.device() {
                append(run.added(), &mut graphs, &mut check)?;
                append(run.removed(), &mut doubtful, &mut check)?;
            }
            let in_memory = delta.runs().iter().flat_map(|run| run.graphs());
            let in_memory = in_memory
                .map(|(graph, _)| *graph)
                .filter(|graph| *graph != 0);
            let in_memory: Vec<u64> = in_memory.collect();
            graphs.extend(&in_memory);
            doubtful.extend(in_memory);
        }
        for list in [&mut graphs, &mut doubtful] {
            list.sort_unstable();
            list.dedup();
        }
        let mut gone = Vec::new();
        for graph in doubtful {
            check(graphs.len())?;
            let graph_of = GraphFilter::One(TermId(graph));
            let pattern = QuadPattern {
                graph: graph_of,
                ..NAMED
            };
            if self.estimates().count(&pattern)? == 0 {
                gone.push(graph);
            }
        }
        graphs.retain(|graph| gone.binary_search(graph).is_err());
        Ok(graphs.into_iter().map(TermId).collect())
    }

    /// Records a list of the graphs that have quads as a read.
    fn record_all_graphs(&self) {
        match &self.reads {
            Some(_) if self.has_own_changes() => self.depend_on(&NAMED),
            Some(reads) => reads.all_graphs(),
            None => {}
        }
    }
}

/// Appends the named graphs of a segment, each at least once.
fn append<E: From<StoreError>>(
    segment: &Arc<Segment>,
    graphs: &mut Vec<u64>,
    check: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    if segment.statistics().quads == 0 {
        return Ok(());
    }
    if let Some(mut of_segment) = NamedGraphs::new(segment) {
        while of_segment.next_into(graphs)? {
            check(graphs.len())?;
        }
        return Ok(());
    }
    // By an earlier program: read all quads.
    let mut found: Vec<u64> = Vec::new();
    let mut scan = of_segment::scan(segment, &NAMED, Order::Spo, &[Component::Graph])?;
    let mut batch = IdBatch::default();
    while scan.next_into(&mut batch)? {
        found.extend(&batch.columns[0]);
        found.sort_unstable();
        found.dedup();
        check(graphs.len() + found.len())?;
    }
    graphs.extend(found);
    Ok(())
}
