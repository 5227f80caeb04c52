//! Checks of the graphs that an update may change.
//!
//! Graphs that the update names are checked before any operation runs, whether or not the store has them.
//! Graphs in its solutions are checked before rows with unknown terms are dropped
//! ([`Permission::check_graphs`]); otherwise a refusal would reveal that a hidden graph has these terms. All
//! changes, including those of LOAD, are checked again where they are made ([`Permission::check_rows`]).

use hashbrown::HashSet;
use oxrdf::{GraphName, GraphNameRef, NamedNodeRef, Term};
use pythia_rdf::{TermId, TermKind};
use pythia_sparql::update::{Action, Operation, Transfer};
use pythia_store::Snapshot;
use rustc_hash::FxBuildHasher;
use spargebra::algebra::GraphTarget;
use spargebra::term::{GraphName as Written, GraphNamePattern};

use super::Row;
use crate::graph_rules::GraphRules;
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::Held;

/// Maximum number of graphs remembered as writable.
const REMEMBERED_MAX: usize = 1 << 14;

/// The rules, and the graphs known to pass.
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

    /// Checks the graphs that an operation names. Parsed data is charged during the check.
    pub(super) fn check(&self, operation: &Operation, held: &mut Held) -> Result<(), QueryError> {
        if self.rules.is_all() {
            return Ok(());
        }
        match &operation.action {
            Action::InsertData(data) => data.each(held, |quads| {
                let mut graphs = quads.iter().map(|quad| &quad.graph_name);
                graphs.try_for_each(|graph| self.name(graph))
            }),
            Action::DeleteData(data) => data.each(held, |quads| {
                let mut graphs = quads.iter().map(|quad| &quad.graph_name);
                graphs.try_for_each(|graph| self.name(graph))
            }),
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

    /// Checks rows before they are inserted or removed.
    pub(super) fn check_rows(
        &mut self,
        rows: &[Row],
        snapshot: impl FnOnce() -> Snapshot,
    ) -> Result<(), QueryError> {
        if self.rules.is_all() {
            return Ok(());
        }
        let graphs = rows.iter().map(|row| row[3]);
        self.check_graphs(graphs, |graphs| Ok(snapshot().decode(graphs)?))
    }

    /// Checks the graphs of rows. If several are refused, the error names the first by name, because an order
    /// of ids or of solutions would reveal which of them the store knows. A term that cannot name a graph
    /// forms no quad and passes.
    pub(super) fn check_graphs(
        &mut self,
        graphs: impl Iterator<Item = u64>,
        decode: impl FnOnce(&[TermId]) -> Result<Vec<Term>, QueryError>,
    ) -> Result<(), QueryError> {
        if self.rules.is_all() {
            return Ok(());
        }
        let mut seen: HashSet<u64, FxBuildHasher> = HashSet::default();
        let is_new = |graph: &u64| !self.passed.contains(graph) && seen.insert(*graph);
        let graphs: Vec<TermId> = graphs.filter(is_new).map(TermId).collect();
        if graphs.is_empty() {
            return Ok(());
        }
        if self.passed.len() + graphs.len() > REMEMBERED_MAX {
            self.passed.clear();
        }
        let is_term = |graph: &TermId| *graph != TermId::DEFAULT_GRAPH;
        if !graphs.iter().all(is_term) {
            self.graph(GraphNameRef::DefaultGraph)?;
        }
        let named: Vec<TermId> = graphs.into_iter().filter(is_term).collect();
        let mut refused: Option<GraphName> = None;
        for (id, term) in named.iter().zip(decode(&named)?) {
            let graph = match term {
                Term::NamedNode(node) => GraphName::NamedNode(node),
                Term::BlankNode(node) => GraphName::BlankNode(node),
                Term::Literal(_) | Term::Triple(_) => continue,
            };
            if self.rules.allows(graph.as_ref()) {
                // Another operation may give the same id to a different computed term.
                if id.kind() != TermKind::Computed {
                    self.passed.insert(id.0);
                }
            } else if refused
                .as_ref()
                .is_none_or(|first| graph.to_string() < first.to_string())
            {
                refused = Some(graph);
            }
        }
        match refused {
            Some(graph) => self.graph(graph.as_ref()),
            None => Ok(()),
        }
    }

    fn name(&self, graph: &Written) -> Result<(), QueryError> {
        match graph {
            Written::NamedNode(node) => self.named(node.as_ref()),
            Written::DefaultGraph => self.graph(GraphNameRef::DefaultGraph),
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
