//! Cached attributes under changes: the base's rows of edges and values, with the edges and values that have changed
//! since they were written.
//!
//! Rows of an edge that was removed are dropped. The values of neighbours with changed values, and of neighbours by
//! edges that were added, are read again. A neighbour that had no value has no rows: the edges to those that have one
//! now are read once, from the neighbours' end.

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use super::edges::expand_changed;
use crate::StoreError;
use crate::auxiliary::attribute::Attribute;
use crate::delta::Delta;
use crate::pattern::{End, Expansion, GraphFilter};
use crate::scan;
use crate::segment::Segment;

/// Cached values are used with at most this many changed values.
pub(crate) const CHANGED_VALUES_MAX: u64 = 1024;
/// The most edges of the base to neighbours that had no value; with more, edges and values are read without the cache.
const GAINED_EDGES_MAX: u64 = 1 << 16;
const DEFAULT_GRAPH: GraphFilter = GraphFilter::One(TermId::DEFAULT_GRAPH);

/// The cached values of one predicate in a snapshot.
pub struct CurrentAttribute {
    attribute: Attribute,
    changed: Option<Arc<ChangedValues>>,
}

/// Edges and values that differ from those of the base.
pub(super) struct ChangedValues {
    predicate: TermId,
    base: Arc<Segment>,
    delta: Arc<Delta>,
    known: Arc<KnownValues>,
}

/// Nodes with changed values, and what is known about them in the base. It holds for all snapshots with these nodes.
pub(super) struct KnownValues {
    /// The nodes whose values have changed, sorted.
    nodes: Vec<TermId>,
    /// Those of them that have no value in the base, sorted.
    gained: Vec<TermId>,
    /// Per end and predicate, the base's edges to them.
    gained_edges: Mutex<FxHashMap<(End, TermId), GainedEdges>>,
}

/// Edges as (node, neighbour), sorted; `None` if there are too many.
type GainedEdges = Option<Arc<Vec<(u64, u64)>>>;

/// An edge of an expansion and a value: index of the node, neighbour, value.
type Row = (u32, u64, u64);

/// Values by node, sorted.
struct Values(Vec<(u64, u64)>);

impl CurrentAttribute {
    /// Returns the values, with the changes since if there are any.
    pub(super) fn new(attribute: &Attribute, changed: Option<Arc<ChangedValues>>) -> Self {
        Self {
            attribute: attribute.clone(),
            changed,
        }
    }

    /// Returns whether values are stored beside the edges of a predicate.
    pub fn is_along(&self, predicate: TermId) -> bool {
        self.attribute.is_along(predicate)
    }

    /// Appends to `out` the edges with `predicate` of `nodes` (sorted, distinct), in order of node, other end and
    /// value; the values of the nodes at the other ends take the place of graphs. Reads the pages of all lists as one
    /// batch, and what has changed in further ones.
    pub fn expand(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: TermId,
        value: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        let attribute = &self.attribute;
        let Some(changed) = &self.changed else {
            return attribute.expand(end, nodes, predicate, value, out);
        };
        if changed.known.nodes.is_empty() && !changed.delta.touches(predicate) {
            return attribute.expand(end, nodes, predicate, value, out);
        }
        let mut rows = changed.rows(attribute, end, nodes, predicate)?;
        rows.retain(|row| value.accepts(TermId(row.2)));
        rows.sort_unstable();
        out.require_room(rows.len() as u64)?;
        for (source, other, value) in rows {
            out.source.push(source);
            out.other.push(other);
            if out.with_predicate {
                out.predicate.push(predicate.0);
            }
            if out.with_graph {
                out.graph.push(value);
            }
        }
        Ok(())
    }
}

impl ChangedValues {
    /// Reads the changes: of values at most [`CHANGED_VALUES_MAX`]. Takes over what was `known` if the values of the same
    /// nodes have changed.
    pub(super) fn read(
        predicate: TermId,
        base: &Arc<Segment>,
        delta: &Arc<Delta>,
        known: Option<&Arc<KnownValues>>,
    ) -> Result<Self, StoreError> {
        let changes = delta.changed_edges(predicate)?;
        let mut nodes: Vec<TermId> = changes.iter().map(|change| change.subject).collect();
        nodes.dedup();
        let known = match known.filter(|known| known.nodes == nodes) {
            Some(known) => Arc::clone(known),
            None => Arc::new(KnownValues::read(predicate, base, nodes)?),
        };
        Ok(Self {
            predicate,
            base: Arc::clone(base),
            delta: Arc::clone(delta),
            known,
        })
    }

    /// Returns what is known, for snapshots with the same changes.
    pub(super) fn known(&self) -> &Arc<KnownValues> {
        &self.known
    }

    /// Returns the rows of nodes, in any order.
    fn rows(
        &self,
        attribute: &Attribute,
        end: End,
        nodes: &[TermId],
        predicate: TermId,
    ) -> Result<Vec<Row>, StoreError> {
        let Some(gained) = self.known.gained_edges(&self.base, end, predicate)? else {
            return self.joined(self.edges(end, nodes, predicate)?);
        };
        let mut old = Expansion::new(false, true);
        attribute.expand(end, nodes, predicate, GraphFilter::Any, &mut old)?;
        let changes = self
            .delta
            .edge_changes(end, nodes, Some(predicate), DEFAULT_GRAPH)?;
        let (mut rows, mut edges): (Vec<Row>, Vec<(u32, u64)>) = (Vec::new(), Vec::new());
        let mut removed: Vec<(u32, u64)> = Vec::new();
        for change in &changes {
            match change.is_added() {
                true => edges.push(change.edge()),
                false => removed.push(change.edge()),
            }
        }
        let is_removed = |edge: &(u32, u64)| removed.binary_search(edge).is_ok();
        for row in 0..old.len() {
            let edge = (old.source[row], old.other[row]);
            if is_removed(&edge) {
                continue;
            }
            match self.known.nodes.binary_search(&TermId(edge.1)) {
                Ok(_) => edges.push(edge),
                Err(_) => rows.push((edge.0, edge.1, old.graph[row])),
            }
        }
        for (source, node) in nodes.iter().enumerate() {
            let first = gained.partition_point(|edge| edge.0 < node.0);
            let own = gained[first..].iter().take_while(|edge| edge.0 == node.0);
            let own = own.map(|edge| (source as u32, edge.1));
            edges.extend(own.filter(|edge| !is_removed(edge)));
        }
        edges.sort_unstable();
        edges.dedup();
        rows.extend(self.joined(edges)?);
        Ok(rows)
    }

    /// Returns edges (node's index and neighbour) with the present values of the neighbours.
    fn joined(&self, edges: Vec<(u32, u64)>) -> Result<Vec<Row>, StoreError> {
        let mut others: Vec<TermId> = edges.iter().map(|edge| TermId(edge.1)).collect();
        others.sort_unstable();
        others.dedup();
        let mut rows = Expansion::new(false, false);
        let delta = Some(&*self.delta);
        let of = Some(self.predicate);
        expand_changed(
            &self.base,
            delta,
            End::Subject,
            &others,
            of,
            DEFAULT_GRAPH,
            &mut rows,
        )?;
        let nodes = rows.source.iter().map(|&index| others[index as usize].0);
        let values = Values(nodes.zip(rows.other.iter().copied()).collect());
        let with_values = |(source, other)| {
            let values = values.of(other);
            values.map(move |value| (source, other, value))
        };
        Ok(edges.into_iter().flat_map(with_values).collect())
    }

    /// Returns the present edges of nodes, as (node's index, neighbour).
    fn edges(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: TermId,
    ) -> Result<Vec<(u32, u64)>, StoreError> {
        let mut rows = Expansion::new(false, false);
        let (delta, of) = (Some(&*self.delta), Some(predicate));
        expand_changed(&self.base, delta, end, nodes, of, DEFAULT_GRAPH, &mut rows)?;
        Ok(rows.source.into_iter().zip(rows.other).collect())
    }
}

impl KnownValues {
    fn read(predicate: TermId, base: &Segment, nodes: Vec<TermId>) -> Result<Self, StoreError> {
        let (mut old, of) = (Expansion::new(false, false), Some(predicate));
        scan::expand(base, End::Subject, &nodes, of, DEFAULT_GRAPH, &mut old)?;
        let has_none = |index: &usize| old.source.binary_search(&(*index as u32)).is_err();
        let gained = (0..nodes.len()).filter(has_none).map(|index| nodes[index]);
        Ok(Self {
            gained: gained.collect(),
            nodes,
            gained_edges: Mutex::default(),
        })
    }

    /// Returns the base's edges to neighbours that had no value; reads them once.
    fn gained_edges(
        &self,
        base: &Arc<Segment>,
        end: End,
        predicate: TermId,
    ) -> Result<GainedEdges, StoreError> {
        let known = self.gained_edges.lock().get(&(end, predicate)).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let edges = self.read_gained_edges(base, end, predicate)?;
        let mut known = self.gained_edges.lock();
        known.insert((end, predicate), edges.clone());
        Ok(edges)
    }

    fn read_gained_edges(
        &self,
        base: &Arc<Segment>,
        end: End,
        predicate: TermId,
    ) -> Result<GainedEdges, StoreError> {
        let far = end.other();
        let mut count = 0;
        for &node in &self.gained {
            let pattern = far.pattern(node, Some(predicate), DEFAULT_GRAPH);
            count += scan::count(base, &pattern)?;
            if count > GAINED_EDGES_MAX {
                return Ok(None);
            }
        }
        let mut rows = Expansion::new(false, false);
        let of = Some(predicate);
        scan::expand(base, far, &self.gained, of, DEFAULT_GRAPH, &mut rows)?;
        let neighbours = rows.source.iter();
        let neighbours = neighbours.map(|&index| self.gained[index as usize].0);
        let mut edges: Vec<(u64, u64)> = rows.other.iter().copied().zip(neighbours).collect();
        edges.sort_unstable();
        Ok(Some(Arc::new(edges)))
    }
}

impl Values {
    fn of(&self, node: u64) -> impl Iterator<Item = u64> {
        let first = self.0.partition_point(|pair| pair.0 < node);
        let own = self.0[first..].iter();
        own.take_while(move |pair| pair.0 == node)
            .map(|pair| pair.1)
    }
}
