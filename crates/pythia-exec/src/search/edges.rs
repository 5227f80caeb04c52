//! The part of the graph that searches have read: numbered nodes, and their edges with weights, read for many
//! nodes at a time.
//!
//! Edges are the stored ones that the path expression follows and the filter accepts, or the solutions of a
//! pattern. A node has two lists, in the direction of the search: the edges that leave it, and the edges that
//! reach it. If the search goes from the end to the start (`flipped`), filters and weights still see edges in
//! the direction of the query.

use std::ops::Range;
use std::sync::Arc;

use oxrdf::Term;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{End, Expansion};
use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::Cost;
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::several_graphs;
use crate::expression::{Number, Value};
use crate::limits::governor::Held;
use crate::plan::path_search::{StoreEdges, Wanted, WeightKind};

/// An edge as seen from one of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// Node at the other end.
    pub(crate) other: u32,
    /// True if followed from object to subject.
    pub(crate) inverse: bool,
    pub(crate) predicate: u64,
    pub(crate) weight: Cost,
}

/// Edges by column, in the direction of the query.
#[derive(Clone, Debug, Default)]
pub(crate) struct EdgeColumns {
    pub(crate) from: Vec<u64>,
    pub(crate) predicate: Vec<u64>,
    pub(crate) to: Vec<u64>,
}

/// The edges of each node.
#[derive(Debug, Default)]
struct Lists {
    places: Vec<Option<(u32, u32)>>,
    edges: Vec<Edge>,
    /// Term in place of a valid weight, by edge; 0 if there is no term.
    faults: FxHashMap<u32, u64>,
}

/// Nodes and edges read so far.
pub(crate) struct Graph {
    context: Arc<QueryContext>,
    /// Stored edges to read; `None` if the caller supplied all edges.
    source: Option<StoreEdges>,
    /// True if searches go from the query's ends to its starts.
    flipped: bool,
    ids: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    /// Lists of the edges that leave a node, and of those that reach it.
    lists: [Lists; 2],
    /// The priorities of nodes, where they have been read.
    priorities: Vec<Option<Cost>>,
    held: Held,
}

impl Lists {
    /// Adds an edge to the list of a node, next to the node's previous edges. `weight` is the term of its
    /// weight.
    fn push(&mut self, node: u32, edge: Edge, weight: u64) {
        let number = self.edges.len() as u32;
        let place = self.places[node as usize].get_or_insert((0, 0));
        if place.0 == place.1 {
            place.0 = number;
        }
        place.1 = number + 1;
        if edge.weight == Cost::FAULT {
            self.faults.insert(number, weight);
        }
        self.edges.push(edge);
    }
}

/// An edge of a node being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Raw {
    node: u32,
    predicate: u64,
    other: u64,
    inverse: bool,
}

impl Graph {
    pub(crate) fn new(
        source: Option<StoreEdges>,
        flipped: bool,
        context: &Arc<QueryContext>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            source,
            flipped,
            ids: Vec::new(),
            numbers: FxHashMap::default(),
            lists: Default::default(),
            priorities: Vec::new(),
            held: Held::new(context.governor()),
        }
    }

    /// Supplies all edges. `weights` are raw ids, one per edge, if there are weights.
    pub(crate) fn give(
        &mut self,
        columns: &EdgeColumns,
        weights: Option<&[u64]>,
        optional: bool,
    ) -> Result<(), QueryError> {
        let costs = match weights {
            Some(ids) => self.costs(ids)?,
            None => vec![Cost::EDGE; columns.from.len()],
        };
        let ends: Vec<(u32, u32)> = (columns.from.iter().zip(&columns.to))
            .map(|(&from, &to)| (self.number(from), self.number(to)))
            .collect();
        let kept = (0..ends.len()).filter(|&row| !optional || weights.is_none_or(|w| w[row] != 0));
        let mut rows: Vec<usize> = kept.collect();
        for backward in [false, true] {
            let leaves = backward != self.flipped;
            let near = |row: usize| if leaves { ends[row].1 } else { ends[row].0 };
            let far = |row: usize| if leaves { ends[row].0 } else { ends[row].1 };
            let key = |row: usize| (near(row), far(row), columns.predicate[row], costs[row]);
            rows.sort_unstable_by_key(|&row| key(row));
            rows.dedup_by_key(|row| key(*row));
            let lists = &mut self.lists[usize::from(backward)];
            lists.places = vec![Some((0, 0)); self.ids.len()];
            for &row in &rows {
                let edge = Edge {
                    other: far(row),
                    inverse: self.flipped,
                    predicate: columns.predicate[row],
                    weight: costs[row],
                };
                lists.push(near(row), edge, weights.map_or(0, |ids| ids[row]));
            }
        }
        self.charge()
    }

    /// Returns the number of a node.
    pub(crate) fn number(&mut self, id: u64) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            self.ids.len() as u32 - 1
        })
    }

    /// Returns the term id of a node.
    pub(crate) fn id(&self, node: u32) -> u64 {
        self.ids[node as usize]
    }

    /// Returns whether the node's list has been read.
    pub(crate) fn has(&self, backward: bool, node: u32) -> bool {
        let lists = &self.lists[usize::from(backward)];
        self.source.is_none() || matches!(lists.places.get(node as usize), Some(Some(_)))
    }

    /// Returns the range of the edges of a node whose list has been read.
    pub(crate) fn edges(&self, backward: bool, node: u32) -> Range<u32> {
        let lists = &self.lists[usize::from(backward)];
        let place = lists.places.get(node as usize).copied().flatten();
        place.map_or(0..0, |(start, end)| start..end)
    }

    /// Returns an edge from such a range.
    pub(crate) fn edge(&self, backward: bool, edge: u32) -> Edge {
        self.lists[usize::from(backward)].edges[edge as usize]
    }

    /// Drops all edges if the query has less memory left than half of what they take.
    pub(crate) fn make_room(&mut self) -> Result<(), QueryError> {
        let bytes = self.bytes();
        if self.source.is_some() && bytes / 2 > self.context.governor().memory_left() {
            self.lists = Default::default();
            self.priorities = Vec::new();
            self.ids = Vec::new();
            self.numbers = FxHashMap::default();
        }
        self.charge()
    }

    /// Reads the lists of nodes, with one batch for each direction that the path expression follows.
    pub(crate) fn read(
        &mut self,
        backward: bool,
        nodes: &FxHashSet<u32>,
    ) -> Result<(), QueryError> {
        let Some(source) = self.source.clone() else {
            return Ok(());
        };
        self.context.check()?;
        let mut nodes: Vec<u32> = nodes.iter().copied().collect();
        nodes.sort_unstable_by_key(|&node| self.id(node));
        let mut raw = Vec::new();
        for inverse in [false, true] {
            self.expand(&source, backward, inverse, &nodes, &mut raw)?;
        }
        raw.sort_unstable();
        raw.dedup();
        self.keep(&source, backward, &nodes, &raw)
    }

    /// Reads the edges that are followed forward, or those followed backward.
    fn expand(
        &self,
        source: &StoreEdges,
        backward: bool,
        inverse: bool,
        nodes: &[u32],
        raw: &mut Vec<Raw>,
    ) -> Result<(), QueryError> {
        let wanted = &source.wanted[usize::from(inverse)];
        let only = match wanted {
            Wanted::None => return Ok(()),
            Wanted::Some(predicates) if predicates.len() == 1 => Some(predicates[0]),
            _ => None,
        };
        let end = if inverse == backward {
            End::Subject
        } else {
            End::Object
        };
        // Computed terms have no edges.
        let stored = nodes.iter().copied().filter(|&node| {
            let kind = TermId(self.id(node)).kind();
            !matches!(kind, TermKind::Computed | TermKind::Nothing)
        });
        let stored: Vec<u32> = stored.collect();
        let ids: Vec<TermId> = stored.iter().map(|&node| TermId(self.id(node))).collect();
        let mut found =
            Expansion::new(only.is_none(), false).within(Arc::clone(self.context.governor()) as _);
        let (context, graphs) = (&self.context, &source.graphs);
        several_graphs::expand(context, graphs, end, &ids, only.map(TermId), &mut found)?;
        for row in 0..found.len() {
            let predicate = only.unwrap_or_else(|| found.predicate[row]);
            if let Wanted::Some(predicates) = wanted
                && predicates.binary_search(&predicate).is_err()
            {
                continue;
            }
            raw.push(Raw {
                node: stored[found.source[row] as usize],
                predicate,
                other: found.other[row],
                inverse,
            });
        }
        Ok(())
    }

    /// Adds the edges that pass the filter to the lists, with their weights.
    fn keep(
        &mut self,
        source: &StoreEdges,
        backward: bool,
        nodes: &[u32],
        raw: &[Raw],
    ) -> Result<(), QueryError> {
        let others = raw.iter().map(|edge| edge.other).collect();
        let near = raw.iter().map(|edge| self.id(edge.node)).collect();
        let (from, to) = if backward == self.flipped {
            (near, others)
        } else {
            (others, near)
        };
        let columns = EdgeColumns {
            from,
            predicate: raw.iter().map(|edge| edge.predicate).collect(),
            to,
        };
        let mut keep = match &source.filter {
            Some(filter) => filter.compiled().filter(
                &[&columns.from, &columns.predicate, &columns.to],
                raw.len(),
                &self.context.evaluation,
            )?,
            None => vec![true; raw.len()],
        };
        let mut weights = vec![Cost::EDGE; raw.len()];
        let mut ids = Vec::new();
        if let Some(weight) = &source.weight {
            ids = self.weights(&weight.kind, &columns)?;
            weights = self.costs(&ids)?;
            for row in 0..raw.len() {
                keep[row] &= !weight.optional || ids[row] != 0;
            }
        }
        let numbers: Vec<u32> = raw.iter().map(|edge| self.number(edge.other)).collect();
        if let Some(predicate) = source.priority {
            self.read_priorities(predicate, &numbers)?;
        }
        let lists = &mut self.lists[usize::from(backward)];
        lists.places.resize(self.ids.len(), None);
        for &node in nodes {
            lists.places[node as usize] = Some((0, 0));
        }
        for (row, edge) in raw.iter().enumerate() {
            if !keep[row] {
                continue;
            }
            let kept = Edge {
                other: numbers[row],
                inverse: edge.inverse,
                predicate: edge.predicate,
                weight: weights[row],
            };
            lists.push(edge.node, kept, ids.get(row).copied().unwrap_or(0));
        }
        self.charge()
    }

    /// Returns the ids of the edges' weights, 0 for edges without one.
    fn weights(&self, kind: &WeightKind, columns: &EdgeColumns) -> Result<Vec<u64>, QueryError> {
        let predicate = match kind {
            WeightKind::Expression(expression) => {
                return expression.compiled().evaluate_ids(
                    &[&columns.from, &columns.predicate, &columns.to],
                    columns.to.len(),
                    &self.context.evaluation,
                );
            }
            WeightKind::Value(predicate) => predicate,
        };
        let Some(predicate) = predicate else {
            return Ok(vec![0; columns.to.len()]);
        };
        let mut least: FxHashMap<u64, (Cost, u64)> = FxHashMap::default();
        for (node, cost, value) in self.values(*predicate, columns.to.clone())? {
            let known = least.entry(node).or_insert((cost, value));
            *known = (*known).min((cost, value));
        }
        let of_node = |id: &u64| least.get(id).map_or(0, |(_, id)| *id);
        Ok(columns.to.iter().map(of_node).collect())
    }

    /// Reads the values of a predicate at nodes. Returns each with its node and as a cost.
    fn values(
        &self,
        predicate: TermId,
        mut nodes: Vec<u64>,
    ) -> Result<Vec<(u64, Cost, u64)>, QueryError> {
        nodes.sort_unstable();
        nodes.dedup();
        let nodes: Vec<TermId> = nodes.into_iter().map(TermId).collect();
        let mut values =
            Expansion::new(false, false).within(Arc::clone(self.context.governor()) as _);
        let graphs = self.source.as_ref().map(|source| &source.graphs[..]);
        let (context, graphs) = (&self.context, graphs.unwrap_or_default());
        let (end, predicate) = (End::Subject, Some(predicate));
        several_graphs::expand(context, graphs, end, &nodes, predicate, &mut values)?;
        let costs = self.costs(&values.other)?;
        let rows = values.source.iter().zip(costs).zip(&values.other);
        let row = |((&source, cost), &value)| (nodes[source as usize].0, cost, value);
        Ok(rows.map(row).collect())
    }

    /// Reads the priorities of nodes: the greatest value of the predicate that is a cost; 0 if there is none.
    fn read_priorities(&mut self, predicate: TermId, nodes: &[u32]) -> Result<(), QueryError> {
        self.priorities.resize(self.ids.len(), None);
        let unread = nodes
            .iter()
            .filter(|&&node| self.priorities[node as usize].is_none());
        let unread: Vec<u32> = unread.copied().collect();
        let ids = unread.iter().map(|&node| self.id(node));
        let is_stored =
            |id: &u64| !matches!(TermId(*id).kind(), TermKind::Computed | TermKind::Nothing);
        let values = self.values(predicate, ids.filter(is_stored).collect())?;
        for node in unread {
            self.priorities[node as usize] = Some(Cost::ZERO);
        }
        for (id, cost, _) in values {
            let node = self.number(id);
            let priority = &mut self.priorities[node as usize];
            *priority = (*priority).max(Some(cost));
        }
        Ok(())
    }

    /// Returns the priority of a node; 0 if it has none.
    pub(crate) fn priority(&self, node: u32) -> Cost {
        let known = self.priorities.get(node as usize).copied().flatten();
        known.unwrap_or(Cost::ZERO)
    }

    /// Converts terms to costs.
    fn costs(&self, ids: &[u64]) -> Result<Vec<Cost>, QueryError> {
        let mut stored: Vec<TermId> = ids.iter().map(|&id| TermId(id)).collect();
        stored.retain(|id| id.is_bound() && !id.kind().is_inline());
        stored.sort_unstable();
        stored.dedup();
        let terms = self.context.evaluation.decode(&stored)?;
        let cost = |&id: &u64| {
            let number = match stored.binary_search(&TermId(id)) {
                Ok(place) => Value::from_term(&terms[place]).as_number(),
                Err(_) => Number::from_inline(TermId(id)),
            };
            number.and_then(Cost::of).unwrap_or(Cost::FAULT)
        };
        Ok(ids.iter().map(cost).collect())
    }

    /// Returns the error for an edge without a valid weight.
    pub(crate) fn fault(&self, backward: bool, node: u32, edge: u32) -> QueryError {
        let id = self.lists[usize::from(backward)].faults.get(&edge);
        let id = id.copied().unwrap_or(0);
        let edge = self.edge(backward, edge);
        let (mut from, mut to) = (self.id(node), self.id(edge.other));
        if backward != edge.inverse {
            std::mem::swap(&mut from, &mut to);
        }
        let shown = |id: u64| -> Result<String, QueryError> {
            if id == 0 {
                return Ok("?".to_owned());
            }
            let term = self.context.evaluation.decode(&[TermId(id)])?.remove(0);
            Ok(term.to_string())
        };
        let message = || -> Result<String, QueryError> {
            let (from, to) = (shown(from)?, shown(to)?);
            let edge = format!("the edge {from} {} {to}", shown(edge.predicate)?);
            if id == 0 {
                return Ok(format!(
                    "{edge} has no weight; leave such edges out with WEIGHT OPTIONAL (path:missingWeight path:Skip), or give them one with COALESCE"
                ));
            }
            let weight: Term = self.context.evaluation.decode(&[TermId(id)])?.remove(0);
            Ok(match Value::from_term(&weight).as_number() {
                Some(_) => {
                    format!("{edge} has the weight {weight}; weights are numbers from 0 to 1.7e20")
                }
                None => format!("{edge} has the weight {weight}, which is not a number"),
            })
        };
        message().map_or_else(|error| error, QueryError::Path)
    }

    fn bytes(&self) -> usize {
        let lists = self.lists.iter();
        let lists = lists
            .map(|lists| lists.places.capacity() * 12 + lists.edges.capacity() * size_of::<Edge>());
        let priorities = self.priorities.capacity() * size_of::<Option<Cost>>();
        self.ids.capacity() * 8 + self.numbers.capacity() * 17 + lists.sum::<usize>() + priorities
    }

    fn charge(&mut self) -> Result<(), QueryError> {
        let bytes = self.bytes();
        self.held.set(bytes)
    }
}
