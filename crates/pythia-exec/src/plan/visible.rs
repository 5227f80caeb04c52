//! The visible graphs of a query, as ids of a snapshot.

use pythia_rdf::TermId;
use pythia_store::{GraphFilter, Snapshot};
use serde::{Deserialize, Serialize};

use super::counts::CountedPredicates;
use crate::error::QueryError;
use crate::limits::governor::Held;

/// Bytes per graph while graphs are listed.
const GRAPH_BYTES: usize = 3 * size_of::<TermId>();

/// The visible graphs of a snapshot, if some graphs are hidden.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Visible {
    /// True if the default graph is visible.
    pub default: bool,
    /// Visible named graphs that have quads, sorted; `None` if all are visible.
    pub named: Option<Vec<TermId>>,
    #[serde(skip)]
    pub(super) counted: CountedPredicates,
}

impl Visible {
    /// Makes the visible graphs of the default graph, if it is visible, and these named graphs.
    pub fn new(default: bool, named: Option<Vec<TermId>>) -> Self {
        Self {
            default,
            named,
            counted: CountedPredicates::default(),
        }
    }

    /// Returns whether a graph of the snapshot is visible.
    pub fn accepts(&self, graph: TermId) -> bool {
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

/// Returns the ids of all named graphs of the store, sorted, and charges them. Reads nothing unless there are very many
/// graphs.
pub fn named_graphs(snapshot: &Snapshot, charged: &mut Held) -> Result<Vec<TermId>, QueryError> {
    let graphs = snapshot.named_graphs(|graphs| {
        charged.check()?;
        charged.set(graphs * GRAPH_BYTES)
    })?;
    charged.set(graphs.len() * size_of::<TermId>())?;
    Ok(graphs)
}
