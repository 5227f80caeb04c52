//! Expansion of nodes: the base's edges, merged with changes.

use pythia_rdf::TermId;

use crate::StoreError;
use crate::delta::{self, Delta};
use crate::pattern::{End, Expansion, GraphFilter};
use crate::scan::expand;
use crate::segment::Segment;

/// Implements [`super::Snapshot::expand`]: the base's edges, merged with changes.
pub(super) fn expand_changed(
    base: &Segment,
    delta: Option<&Delta>,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    out: &mut Expansion,
) -> Result<(), StoreError> {
    let changes = delta.map(|delta| delta.edge_changes(end, nodes, predicate, graph));
    let Some(changes) = changes.transpose()?.filter(|changes| !changes.is_empty()) else {
        return expand(base, end, nodes, predicate, graph, out);
    };
    let mut rows = Expansion::new(predicate.is_none() || out.with_predicate, out.with_graph);
    rows.sequence = std::mem::take(&mut out.sequence);
    rows.room.clone_from(&out.room);
    expand(base, end, nodes, predicate, graph, &mut rows)?;
    out.sequence = std::mem::take(&mut rows.sequence);
    delta::merge(&rows, &changes, predicate, out)
}
