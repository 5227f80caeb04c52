//! The graphs of a snapshot that are visible under rules over graph names.

use std::sync::Arc;

use pythia_rdf::{TermId, TermKind};
use pythia_store::Snapshot;

use crate::graph_rules::GraphRules;
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::{Governor, Held};
use pythia_exec::plan::visible::{Visible, named_graphs};

/// Returns the visible graphs, or `None` if all are visible. Reads the dictionary pages of the names in
/// the rules.
pub(crate) fn visible(
    rules: &GraphRules,
    snapshot: &Snapshot,
    governor: &Arc<Governor>,
) -> Result<Option<Visible>, QueryError> {
    if rules.is_all() {
        return Ok(None);
    }
    let named = match rules.listed() {
        None => None,
        Some((exact, prefixes)) => Some(named(exact, prefixes, snapshot, governor)?),
    };
    Ok(Some(Visible::new(rules.allows_default(), named)))
}

/// Returns the graphs with quads whose name is listed or has a listed prefix, sorted.
fn named(
    exact: &[String],
    prefixes: &[String],
    snapshot: &Snapshot,
    governor: &Arc<Governor>,
) -> Result<Vec<TermId>, QueryError> {
    let mut graphs = Vec::new();
    for name in exact {
        let name = oxrdf::NamedNodeRef::new_unchecked(name);
        if let Some(graph) = snapshot.resolve(name.into())?
            && snapshot.has_graph(graph)?
        {
            graphs.push(graph);
        }
    }
    if !prefixes.is_empty() {
        let all = named_graphs(snapshot, &mut Held::new(governor))?;
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
