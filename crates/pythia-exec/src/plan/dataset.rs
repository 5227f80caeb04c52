//! The dataset of a query (SPARQL 1.1 §13.2): the graphs of FROM and FROM NAMED, or the whole store,
//! restricted to the visible graphs.
//!
//! A query reads only the graphs listed here, so that hidden graphs appear not to exist.

use std::sync::Arc;

use oxrdf::{NamedNode, Variable};
use pythia_rdf::{TermId, TermKind};
use pythia_store::GraphFilter;
use serde::{Deserialize, Serialize};
use spargebra::algebra::QueryDataset;

use super::visible::Visible;
use crate::error::QueryError;
use crate::expression::EvaluationContext;

/// Id of a graph that no store has.
pub const ABSENT: TermId = TermId::new(TermKind::Computed, TermId::PAYLOAD_MAX);

/// The graph in which patterns are matched.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub enum GraphScope {
    /// One graph, or a set of them.
    Fixed(GraphFilter),
    /// A graph that the store does not have.
    Absent,
    /// `GRAPH ?g`.
    Variable(#[serde(with = "super::form")] Variable),
    /// The merge of the graphs in FROM clauses.
    Merged,
}

impl GraphScope {
    /// The default graph.
    pub const DEFAULT: Self = Self::Fixed(GraphFilter::One(TermId::DEFAULT_GRAPH));
}

/// The dataset of a query.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Dataset {
    /// The default graph, in which patterns outside GRAPH are matched.
    pub default: GraphScope,
    /// Graphs whose merge is the default graph, sorted; empty unless there are several.
    pub merged: Vec<TermId>,
    /// Graphs visible to GRAPH, sorted; `None` for all named graphs of the store.
    pub named: Option<Vec<TermId>>,
    /// Visible graphs; `None` if all are visible.
    #[serde(with = "super::shared::optional")]
    pub visible: Option<Arc<Visible>>,
}

impl Dataset {
    /// Returns the dataset that the query's clauses describe, restricted to the visible graphs. If there is
    /// any clause, graphs that no clause names are not in the dataset.
    pub fn of_query(
        clauses: Option<&QueryDataset>,
        evaluation: &EvaluationContext,
        visible: Option<Arc<Visible>>,
    ) -> Result<Self, QueryError> {
        let sees = |graph: &TermId| visible.as_ref().is_none_or(|v| v.accepts(*graph));
        let all_named = || visible.as_ref().and_then(|v| v.named.clone());
        let Some(clauses) = clauses else {
            return Ok(Self {
                default: match sees(&TermId::DEFAULT_GRAPH) {
                    true => GraphScope::DEFAULT,
                    false => GraphScope::Fixed(GraphFilter::One(ABSENT)),
                },
                merged: Vec::new(),
                named: all_named(),
                visible,
            });
        };
        let mut merged = ids_of(&clauses.default, evaluation)?;
        merged.retain(sees);
        let default = match &merged[..] {
            [] => GraphScope::Fixed(GraphFilter::One(ABSENT)),
            [graph] => GraphScope::Fixed(GraphFilter::One(*graph)),
            _ => GraphScope::Merged,
        };
        if default != GraphScope::Merged {
            merged.clear();
        }
        let named = match &clauses.named {
            Some(named) => {
                let mut named = ids_of(named, evaluation)?;
                named.retain(sees);
                Some(named)
            }
            None => all_named(),
        };
        Ok(Self {
            default,
            merged,
            named,
            visible,
        })
    }

    /// Returns whether GRAPH sees the graph.
    pub fn names(&self, graph: TermId) -> bool {
        let named = self.named.as_ref();
        named.is_none_or(|named| named.binary_search(&graph).is_ok())
    }

    /// Returns the graphs whose quads make up the default graph.
    pub fn default_filters(&self) -> Vec<GraphFilter> {
        match self.default {
            GraphScope::Fixed(filter) => vec![filter],
            _ => self.merged.iter().map(|g| GraphFilter::One(*g)).collect(),
        }
    }
}

/// Returns the sorted ids of graphs without duplicates. A graph that the store does not have gets a
/// query-local id.
fn ids_of(graphs: &[NamedNode], evaluation: &EvaluationContext) -> Result<Vec<TermId>, QueryError> {
    let ids = graphs
        .iter()
        .map(|graph| evaluation.intern(graph.clone().into()));
    let mut ids = ids.collect::<Result<Vec<TermId>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
