//! The graphs that rules let a query see, as ids of a snapshot.

use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, GraphFilter, Order, QuadPattern, Snapshot};

use super::counts::{CountedPredicates, Counts};
use crate::error::QueryError;
use crate::governor::Governor;
use crate::graph_rules::GraphRules;

/// The graphs of a snapshot that a query sees, where it does not see all.
#[derive(Debug, Default)]
pub(crate) struct Visible {
    pub(crate) default: bool,
    /// The named ones that have quads, sorted; `None` if they are all.
    pub(crate) named: Option<Vec<TermId>>,
    pub(super) counted: CountedPredicates,
}

impl Visible {
    /// What the rules let be seen; `None` if that is all. Reads the dictionary's pages of the rules'
    /// names.
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

    /// Whether a graph of the snapshot is visible.
    pub(crate) fn accepts(&self, graph: TermId) -> bool {
        if graph == TermId::DEFAULT_GRAPH {
            return self.default;
        }
        let named = self.named.as_ref();
        named.is_none_or(|named| named.binary_search(&graph).is_ok())
    }

    /// The visible graphs among some, of which one graph is visible.
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

/// The graphs with quads that have one of the names, or a name that begins so, sorted.
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
            // Of the new terms, all are given.
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

/// Whether the graph has a quad.
pub(crate) fn has_graph(snapshot: &Snapshot, graph: TermId) -> Result<bool, QueryError> {
    let pattern = QuadPattern {
        graph: GraphFilter::One(graph),
        ..QuadPattern::default()
    };
    Ok(Counts::new(snapshot, None).exact(&pattern)? > 0)
}

/// The ids of all named graphs of the store, sorted. Known without reading unless there are very many.
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
