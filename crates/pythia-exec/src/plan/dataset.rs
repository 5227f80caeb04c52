//! The dataset of a query (SPARQL 1.1 §13.2): the graphs of FROM and FROM NAMED, or the whole store,
//! restricted to the visible graphs. Without clauses, the default graph is the store's own or the union of all graphs.
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

/// The name of the store's default graph in FROM, as in Apache Jena.
const DEFAULT_GRAPH: &str = "urn:x-arq:DefaultGraph";
/// The name of the merge of all named graphs in FROM, as in Apache Jena.
const NAMED_GRAPHS: &str = "urn:x-arq:UnionGraph";

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
    /// The merge of several graphs: [`Dataset::merged`].
    Merged,
}

impl GraphScope {
    /// The default graph.
    pub const DEFAULT: Self = Self::Fixed(GraphFilter::One(TermId::DEFAULT_GRAPH));

    /// Returns whether the graphs that the store has are the same for all solutions.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_) | Self::Merged)
    }
}

/// Graphs that are merged: a triple of several of them occurs once.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct MergedGraphs {
    /// True if the store's default graph is one of them.
    pub default: bool,
    /// The named graphs, sorted; `None` for all named graphs of the store, if none is hidden.
    pub named: Option<Vec<TermId>>,
}

impl MergedGraphs {
    /// All graphs of the store.
    const ALL: Self = Self {
        default: true,
        named: None,
    };

    /// Returns the graphs that FROM clauses name. A graph that the store does not have gets a query-local id.
    fn of_clauses(
        graphs: &[NamedNode],
        evaluation: &EvaluationContext,
    ) -> Result<Self, QueryError> {
        let has = |name: &str| graphs.iter().any(|graph| graph.as_str() == name);
        let is_one = |graph: &&NamedNode| ![DEFAULT_GRAPH, NAMED_GRAPHS].contains(&graph.as_str());
        Ok(Self {
            default: has(DEFAULT_GRAPH),
            named: match has(NAMED_GRAPHS) {
                true => None,
                false => Some(ids_of(graphs.iter().filter(is_one), evaluation)?),
            },
        })
    }

    /// Returns those of the graphs that are visible.
    fn among(mut self, visible: Option<&Visible>) -> Self {
        let Some(visible) = visible else {
            return self;
        };
        self.default &= visible.default;
        self.named = match self.named {
            None => visible.named.clone(),
            Some(mut named) => {
                named.retain(|graph| visible.accepts(*graph));
                Some(named)
            }
        };
        self
    }

    /// Returns the scope of patterns in the merge.
    fn scope(&self) -> GraphScope {
        match (self.default, self.named.as_deref()) {
            (true, Some([])) => GraphScope::DEFAULT,
            (false, Some([])) => GraphScope::Fixed(GraphFilter::One(ABSENT)),
            (false, Some([graph])) => GraphScope::Fixed(GraphFilter::One(*graph)),
            _ => GraphScope::Merged,
        }
    }

    /// Returns whether a graph is one of them.
    pub fn contains(&self, graph: TermId) -> bool {
        if graph == TermId::DEFAULT_GRAPH {
            return self.default;
        }
        let named = self.named.as_ref();
        named.is_none_or(|named| named.binary_search(&graph).is_ok())
    }

    /// Returns whether these are all graphs of the store.
    pub fn are_all(&self) -> bool {
        *self == Self::ALL
    }

    /// Returns a filter that all of the graphs pass.
    pub fn filter(&self) -> GraphFilter {
        match self.default {
            true => GraphFilter::Any,
            false => GraphFilter::Named,
        }
    }

    /// Returns filters that exactly these graphs pass.
    fn filters(&self) -> Vec<GraphFilter> {
        let Some(named) = &self.named else {
            return vec![self.filter()];
        };
        let default = self.default.then_some(TermId::DEFAULT_GRAPH);
        let graphs = default.into_iter().chain(named.iter().copied());
        graphs.map(GraphFilter::One).collect()
    }
}

/// The dataset of a query.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Dataset {
    /// The default graph, in which patterns outside GRAPH are matched.
    pub default: GraphScope,
    /// Graphs whose merge is the default graph, if that is [`GraphScope::Merged`].
    pub merged: MergedGraphs,
    /// Graphs visible to GRAPH, sorted; `None` for all named graphs of the store.
    pub named: Option<Vec<TermId>>,
    /// Visible graphs; `None` if all are visible.
    #[serde(with = "super::shared::optional")]
    pub visible: Option<Arc<Visible>>,
}

impl Dataset {
    /// Returns the dataset that the query's clauses describe, restricted to the visible graphs. If there is
    /// any clause, graphs that no clause names are not in the dataset. If there is none, the default graph is that of
    /// the store or, with `union`, the merge of all graphs.
    pub fn of_query(
        clauses: Option<&QueryDataset>,
        union: bool,
        evaluation: &EvaluationContext,
        visible: Option<Arc<Visible>>,
    ) -> Result<Self, QueryError> {
        let sees = |graph: &TermId| visible.as_ref().is_none_or(|v| v.accepts(*graph));
        let merged = match clauses {
            Some(clauses) => MergedGraphs::of_clauses(&clauses.default, evaluation)?,
            None if union => MergedGraphs::ALL,
            None => MergedGraphs {
                default: true,
                named: Some(Vec::new()),
            },
        };
        let merged = merged.among(visible.as_deref());
        let named = match clauses.and_then(|clauses| clauses.named.as_ref()) {
            Some(named) => {
                let mut named = ids_of(named.iter(), evaluation)?;
                named.retain(sees);
                Some(named)
            }
            None => visible.as_ref().and_then(|v| v.named.clone()),
        };
        Ok(Self {
            default: merged.scope(),
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
            _ => self.merged.filters(),
        }
    }
}

/// Returns the sorted ids of graphs without duplicates. A graph that the store does not have gets a
/// query-local id.
fn ids_of<'n>(
    graphs: impl Iterator<Item = &'n NamedNode>,
    evaluation: &EvaluationContext,
) -> Result<Vec<TermId>, QueryError> {
    let ids = graphs.map(|graph| evaluation.intern(graph.clone().into()));
    let mut ids = ids.collect::<Result<Vec<TermId>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
