//! Which graphs an update may change.
//!
//! What an update names is checked before any of it is done, whether or not the store has such graphs;
//! what its solutions and what it loads name is checked row by row, where all changes pass
//! ([`Permission::check_rows`]).

use hashbrown::HashSet;
use oxrdf::{GraphNameRef, NamedNodeRef, Term};
use pythia_rdf::TermId;
use pythia_store::Snapshot;
use rustc_hash::FxBuildHasher;
use spargebra::algebra::GraphTarget;
use spargebra::term::{GraphName, GraphNamePattern};

use super::Row;
use crate::error::QueryError;
use crate::graph_rules::GraphRules;
use crate::syntax::{Action, Operation, Transfer};

/// Graphs that are remembered to be writable.
const REMEMBERED_MAX: usize = 1 << 14;

/// The rules, and the graphs that are known to pass.
pub(super) struct Permission<'a> {
    rules: &'a GraphRules,
    passed: HashSet<u64, FxBuildHasher>,
}

impl<'a> Permission<'a> {
    pub(super) fn new(rules: &'a GraphRules) -> Self {
        Self {
            rules,
            passed: HashSet::default(),
        }
    }

    /// Checks the graphs that an operation names.
    pub(super) fn check(&self, operation: &Operation) -> Result<(), QueryError> {
        if self.rules.is_all() {
            return Ok(());
        }
        match &operation.action {
            Action::InsertData(quads) => quads.iter().try_for_each(|q| self.name(&q.graph_name)),
            Action::DeleteData(quads) => quads.iter().try_for_each(|q| self.name(&q.graph_name)),
            Action::Modify(modify) => {
                let deleted = modify.delete.iter().map(|quad| &quad.graph_name);
                let inserted = modify.insert.iter().map(|quad| &quad.graph_name);
                deleted.chain(inserted).try_for_each(|graph| match graph {
                    GraphNamePattern::NamedNode(node) => self.named(node.as_ref()),
                    GraphNamePattern::DefaultGraph => self.graph(GraphNameRef::DefaultGraph),
                    GraphNamePattern::Variable(_) => Ok(()),
                })
            }
            Action::Load { graph, .. } => self.name(graph),
            Action::Clear { graph, .. } => match graph {
                GraphTarget::NamedNode(node) => self.named(node.as_ref()),
                GraphTarget::DefaultGraph => self.graph(GraphNameRef::DefaultGraph),
                GraphTarget::NamedGraphs if self.rules.allows_all_named() => Ok(()),
                GraphTarget::NamedGraphs => Err(forbidden("all named graphs")),
                GraphTarget::AllGraphs => Err(forbidden("all graphs")),
            },
            Action::Create { graph, .. } => self.named(graph.as_ref()),
            Action::Transfer { verb, graphs, .. } => {
                let Some((from, to)) = graphs else {
                    return Ok(());
                };
                if *verb == Transfer::Move {
                    self.name(from)?;
                }
                self.name(to)
            }
        }
    }

    /// Checks rows that are about to be inserted or removed.
    pub(super) fn check_rows(
        &mut self,
        rows: &[Row],
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Result<(), QueryError> {
        if self.rules.is_all() {
            return Ok(());
        }
        let is_new = |row: &&Row| !self.passed.contains(&row[3]);
        let mut graphs: Vec<u64> = rows.iter().filter(is_new).map(|row| row[3]).collect();
        graphs.sort_unstable();
        graphs.dedup();
        if graphs.is_empty() {
            return Ok(());
        }
        if self.passed.len() + graphs.len() > REMEMBERED_MAX {
            self.passed.clear();
        }
        let snapshot = snapshot();
        for graph in graphs {
            if graph == TermId::DEFAULT_GRAPH.0 {
                self.graph(GraphNameRef::DefaultGraph)?;
            } else {
                match snapshot.decode(&[TermId(graph)])?.remove(0) {
                    Term::NamedNode(node) => self.named(node.as_ref())?,
                    Term::BlankNode(node) => self.graph(node.as_ref().into())?,
                    _ => unreachable!("a graph's name is an IRI or a blank node"),
                }
            }
            self.passed.insert(graph);
        }
        Ok(())
    }

    fn name(&self, graph: &GraphName) -> Result<(), QueryError> {
        match graph {
            GraphName::NamedNode(node) => self.named(node.as_ref()),
            GraphName::DefaultGraph => self.graph(GraphNameRef::DefaultGraph),
        }
    }

    fn named(&self, graph: NamedNodeRef<'_>) -> Result<(), QueryError> {
        self.graph(GraphNameRef::NamedNode(graph))
    }

    fn graph(&self, graph: GraphNameRef<'_>) -> Result<(), QueryError> {
        if self.rules.allows(graph) {
            return Ok(());
        }
        Err(match graph {
            GraphNameRef::DefaultGraph => forbidden("the default graph"),
            graph => forbidden(&format!("the graph {graph}")),
        })
    }
}

fn forbidden(what: &str) -> QueryError {
    QueryError::Forbidden {
        what: what.to_owned(),
    }
}
