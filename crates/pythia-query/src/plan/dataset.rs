//! The graphs a query is asked of (SPARQL 1.1 §13.2): FROM and FROM NAMED, or all of the store; of
//! these, the graphs it may see.
//!
//! All that a query reads is read from the graphs named here, so a graph that it may not see is as one
//! that is not there.

use std::sync::Arc;

use oxrdf::NamedNode;
use pythia_rdf::{TermId, TermKind};
use pythia_store::GraphFilter;
use spargebra::algebra::QueryDataset;

use super::builder::GraphScope;
use super::visible::Visible;
use crate::error::QueryError;
use crate::expression::EvaluationContext;

/// The id of a graph that no store has.
pub(crate) const ABSENT: TermId = TermId::new(TermKind::Computed, TermId::PAYLOAD_MAX);

/// The dataset of a query.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// Where patterns outside GRAPH are matched.
    pub(crate) default: GraphScope,
    /// The graphs whose merge is the default graph, sorted, if they are several.
    pub(crate) merged: Vec<TermId>,
    /// The graphs that GRAPH sees, sorted; all named graphs of the store if `None`.
    pub(crate) named: Option<Vec<TermId>>,
    /// The graphs that may be seen at all, if not all may.
    pub(crate) visible: Option<Arc<Visible>>,
}

impl Dataset {
    /// The dataset that a query's clauses describe, of what is visible. With any of them, what they
    /// do not name is not there.
    pub(crate) fn of_query(
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

    /// Whether GRAPH may look at the graph.
    pub(crate) fn names(&self, graph: TermId) -> bool {
        let named = self.named.as_ref();
        named.is_none_or(|named| named.binary_search(&graph).is_ok())
    }

    /// What the default graph is read from: the quads of all of these.
    pub(crate) fn default_filters(&self) -> Vec<GraphFilter> {
        match self.default {
            GraphScope::Fixed(filter) => vec![filter],
            _ => self.merged.iter().map(|g| GraphFilter::One(*g)).collect(),
        }
    }
}

/// The sorted ids of graphs, each once; one that the store does not have gets an id of the query.
fn ids_of(graphs: &[NamedNode], evaluation: &EvaluationContext) -> Result<Vec<TermId>, QueryError> {
    let ids = graphs
        .iter()
        .map(|graph| evaluation.intern(graph.clone().into()));
    let mut ids = ids.collect::<Result<Vec<TermId>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
