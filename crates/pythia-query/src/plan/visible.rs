//! The visible graphs of a query, as ids of a snapshot.

use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, GraphFilter, Order, QuadPattern, Snapshot};

use super::counts::{CountedPredicates, Counts};
use crate::error::QueryError;
use crate::governor::Governor;
use crate::graph_rules::GraphRules;

/// The visible graphs of a snapshot, if some graphs are hidden.
#[derive(Debug, Default)]
pub(crate) struct Visible {
    pub(crate) default: bool,
    /// Visible named graphs that have quads, sorted; `None` if all are visible.
    pub(crate) named: Option<Vec<TermId>>,
    pub(super) counted: CountedPredicates,
}

impl Visible {
    /// Returns the visible graphs, or `None` if all are visible. Reads the dictionary pages of the names in
    /// the rules.
    pub(crate) fn of(
        rules: &GraphRules,
        snapshot: &Snapshot,
        governor: &Governor,
    ) -> Result<Option<Self>, QueryError> {
        if rules.is_all() {
            return Ok(None);
        }
        Ok(Some(Self {
            default: rules.allows_default(),
            named: match rules.listed() {
                None => None,
                Some((exact, prefixes)) => Some(named(exact, prefixes, snapshot, governor)?),
            },
            counted: CountedPredicates::default(),
        }))
    }

    /// Returns whether a graph of the snapshot is visible.
    pub(crate) fn accepts(&self, graph: TermId) -> bool {
        if graph == TermId::DEFAULT_GRAPH {
            return self.default;
        }
        let named = self.named.as_ref();
        named.is_none_or(|named| named.binary_search(&graph).is_ok())
    }

    /// Returns the visible graphs among `graphs`. A single graph must be visible.
    pub(super) fn among(&self, graphs: GraphFilter) -> Vec<GraphFilter> {
        let mut among = Vec::new();
        match graphs {
            GraphFilter::One(_) => return vec![graphs],
            GraphFilter::Any if self.default => {
                among.push(GraphFilter::One(TermId::DEFAULT_GRAPH));
            }
            GraphFilter::Any | GraphFilter::Named => {}
        }
        match &self.named {
            None => among.push(GraphFilter::Named),
            Some(named) => among.extend(named.iter().map(|graph| GraphFilter::One(*graph))),
        }
        among
    }
}

/// Returns the graphs with quads whose name is listed or has a listed prefix, sorted.
fn named(
    exact: &[String],
    prefixes: &[String],
    snapshot: &Snapshot,
    governor: &Governor,
) -> Result<Vec<TermId>, QueryError> {
    let mut graphs = Vec::new();
    for name in exact {
        let name = oxrdf::NamedNodeRef::new_unchecked(name);
        if let Some(graph) = snapshot.resolve(name.into())?
            && has_graph(snapshot, graph)?
        {
            graphs.push(graph);
        }
    }
    if !prefixes.is_empty() {
        let all = named_graphs(snapshot, governor)?;
        for prefix in prefixes {
            let [old, new] = snapshot.ids_with_prefix(TermKind::Iri, prefix.as_bytes())?;
            graphs.extend(all.iter().filter(|graph| old.contains(&graph.0)));
            // The range covers all new terms, so prefixes are compared.
            let new = all.iter().copied().filter(|graph| new.contains(&graph.0));
            let new: Vec<TermId> = new.collect();
            for (graph, term) in new.iter().zip(snapshot.decode(&new)?) {
                if matches!(term, oxrdf::Term::NamedNode(node) if node.as_str().starts_with(prefix))
                {
                    graphs.push(*graph);
                }
            }
        }
    }
    graphs.sort_unstable();
    graphs.dedup();
    Ok(graphs)
}

/// Returns whether the graph has a quad.
pub(crate) fn has_graph(snapshot: &Snapshot, graph: TermId) -> Result<bool, QueryError> {
    let pattern = QuadPattern {
        graph: GraphFilter::One(graph),
        ..QuadPattern::default()
    };
    Ok(Counts::new(snapshot, None).exact(&pattern)? > 0)
}

/// Returns the ids of all named graphs of the store, sorted. Reads nothing unless there are very many graphs.
pub(crate) fn named_graphs(
    snapshot: &Snapshot,
    governor: &Governor,
) -> Result<Vec<TermId>, QueryError> {
    let statistics = &snapshot.statistics().graphs;
    let mut graphs: Vec<TermId> = statistics.graphs.iter().map(|(graph, _)| *graph).collect();
    if !statistics.is_complete() {
        let pattern = QuadPattern {
            graph: GraphFilter::Named,
            ..QuadPattern::default()
        };
        let mut scan = snapshot.scan(&pattern, Order::Spo, &[Component::Graph])?;
        while let Some(found) = scan.next()? {
            governor.check()?;
            graphs.extend(found.columns[0].iter().map(|graph| TermId(*graph)));
            graphs.sort_unstable();
            graphs.dedup();
        }
    }
    graphs.retain(|graph| graph.is_bound());
    Ok(graphs)
}
