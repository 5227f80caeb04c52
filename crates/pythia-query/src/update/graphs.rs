//! Operations on whole graphs: CLEAR, DROP, CREATE, ADD, COPY and MOVE.
//!
//! A graph exists if it has a quad, so CLEAR and DROP are the same. Without SILENT, an operation on a graph
//! that does not exist, or CREATE of one that does, fails and changes nothing. For graphs that are not
//! visible to the update, success or failure does not reveal whether they exist.

use oxrdf::{NamedNode, TermRef};
use pythia_rdf::TermId;
use pythia_sparql::update::Transfer;
use pythia_store::write::GoesOn;
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern, Snapshot};
use spargebra::algebra::GraphTarget;
use spargebra::term::GraphName;

use super::transaction::Transaction;
use super::{Row, Runner, name};
use pythia_exec::error::QueryError;
use pythia_exec::limits::governor::Governor;

impl Runner<'_> {
    pub(super) fn clear(
        &mut self,
        line: usize,
        silent: bool,
        graph: &GraphTarget,
        governor: &Governor,
    ) -> Result<(), QueryError> {
        let snapshot = self.snapshot();
        let filter = match graph {
            GraphTarget::DefaultGraph => GraphFilter::One(TermId::DEFAULT_GRAPH),
            GraphTarget::NamedGraphs => GraphFilter::Named,
            GraphTarget::AllGraphs => GraphFilter::Any,
            GraphTarget::NamedNode(node) => match existing(&snapshot, node)? {
                Some(id) => GraphFilter::One(id),
                None if silent || !self.sees(node) => return Ok(()),
                None => return Err(absent(line, node)),
            },
        };
        self.remove_graphs(&snapshot, filter, governor)
    }

    /// Removes all quads of some graphs: of large ones one at a time, then of the others.
    fn remove_graphs(
        &mut self,
        snapshot: &Snapshot,
        filter: GraphFilter,
        governor: &Governor,
    ) -> Result<(), QueryError> {
        let large = match filter {
            GraphFilter::One(graph) => vec![graph],
            GraphFilter::Named | GraphFilter::Any => {
                let graphs = snapshot.estimates().statistics().graphs.graphs.iter();
                let graphs = graphs.filter(|(graph, _)| filter.accepts(*graph));
                let large = graphs.filter(|(_, quads)| self.transaction.is_large_graph(*quads));
                large.map(|(graph, _)| *graph).collect()
            }
        };
        for graph in large {
            let removed = self.change_graph(graph, governor, |transaction, goes_on| {
                transaction.remove_graph(graph, goes_on)
            })?;
            self.updated.removed += removed.unwrap_or(0);
            if removed.is_some() && filter == GraphFilter::One(graph) {
                return Ok(());
            }
        }
        let rest = self.snapshot();
        if rest.count(&of_graphs(filter))? == 0 {
            // A scan would read all quads and all their removals.
            return Ok(());
        }
        each_quad(&rest, filter, governor, |rows| self.remove(rows))
    }

    /// Makes a change of all quads of a large graph; returns their number, or `None` if nothing is changed.
    fn change_graph(
        &mut self,
        changed: TermId,
        governor: &Governor,
        change: impl FnOnce(&mut Transaction, GoesOn<'_>) -> Result<Option<u64>, QueryError>,
    ) -> Result<Option<u64>, QueryError> {
        let transaction = &self.transaction;
        let row = [0, 0, 0, changed.0];
        self.permission
            .check_rows(&[row], || transaction.snapshot())?;
        let goes_on = || governor.check().is_ok();
        let changed = change(self.transaction, &goes_on);
        // It says why a change did not go on.
        governor.check()?;
        changed
    }

    pub(super) fn create(
        &mut self,
        line: usize,
        silent: bool,
        graph: &NamedNode,
    ) -> Result<(), QueryError> {
        if !silent && self.sees(graph) && existing(&self.snapshot(), graph)?.is_some() {
            let message = format!("the graph {graph} already exists; CREATE SILENT ignores that");
            return Err(QueryError::Graph { line, message });
        }
        // A graph exists from its first quad on.
        Ok(())
    }

    pub(super) fn transfer(
        &mut self,
        line: usize,
        silent: bool,
        verb: Transfer,
        (from, to): (&GraphName, &GraphName),
        governor: &Governor,
    ) -> Result<(), QueryError> {
        let snapshot = self.snapshot();
        let source = match from {
            GraphName::DefaultGraph if self.options.query.visible.allows_default() => {
                Some(TermId::DEFAULT_GRAPH)
            }
            GraphName::DefaultGraph => None,
            GraphName::NamedNode(node) => {
                let seen = match self.sees(node) {
                    true => existing(&snapshot, node)?,
                    false => None,
                };
                match seen {
                    Some(id) => Some(id),
                    None if silent => return Ok(()),
                    None => return Err(absent(line, node)),
                }
            }
        };
        let destination = self.graph_id(to)?;
        if verb != Transfer::Add {
            self.remove_graphs(&snapshot, GraphFilter::One(destination), governor)?;
        }
        let Some(source) = source else {
            // A hidden default graph appears empty.
            return Ok(());
        };
        let copied = self.change_graph(destination, governor, |transaction, goes_on| {
            transaction.copy_graph(source, destination, goes_on)
        })?;
        if let Some(copied) = copied {
            self.updated.added += copied;
            return match verb {
                Transfer::Move => self.remove_graphs(&snapshot, GraphFilter::One(source), governor),
                Transfer::Add | Transfer::Copy => Ok(()),
            };
        }
        each_quad(&snapshot, GraphFilter::One(source), governor, |rows| {
            let copied: Vec<Row> = rows
                .iter()
                .map(|&[s, p, o, _]| [s, p, o, destination.0])
                .collect();
            self.insert(&copied)?;
            match verb {
                Transfer::Move => self.remove(rows),
                Transfer::Add | Transfer::Copy => Ok(()),
            }
        })
    }

    /// Returns whether the graph is visible to the update.
    fn sees(&self, graph: &NamedNode) -> bool {
        self.options.query.visible.allows_named(graph.as_ref())
    }

    /// Returns the id of a graph that may get its first quad.
    fn graph_id(&mut self, graph: &GraphName) -> Result<TermId, QueryError> {
        let Some(term) = name(graph) else {
            return Ok(TermId::DEFAULT_GRAPH);
        };
        self.id_of(term)
    }
}

/// Returns the id of a graph if it has a quad.
fn existing(snapshot: &Snapshot, graph: &NamedNode) -> Result<Option<TermId>, QueryError> {
    let Some(id) = snapshot.resolve(TermRef::from(graph.as_ref()))? else {
        return Ok(None);
    };
    Ok(snapshot.has_graph(id)?.then_some(id))
}

fn absent(line: usize, graph: &NamedNode) -> QueryError {
    QueryError::Graph {
        line,
        message: format!("there is no graph {graph}; SILENT after the keyword ignores that"),
    }
}

fn of_graphs(graph: GraphFilter) -> QuadPattern {
    QuadPattern {
        graph,
        ..QuadPattern::default()
    }
}

/// Calls `each` with all quads of some graphs, some at a time.
fn each_quad(
    snapshot: &Snapshot,
    graph: GraphFilter,
    governor: &Governor,
    mut each: impl FnMut(&[Row]) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    use Component::{Graph, Object, Predicate, Subject};
    let pattern = of_graphs(graph);
    // The quads of a named graph are read in the order in which its columns have them.
    let order = match graph {
        GraphFilter::One(TermId::DEFAULT_GRAPH) | GraphFilter::Named | GraphFilter::Any => {
            Order::Spo
        }
        GraphFilter::One(_) => Order::Gpso,
    };
    let mut scan = snapshot.scan(&pattern, order, &[Subject, Predicate, Object, Graph])?;
    let (mut batch, mut rows) = (IdBatch::default(), Vec::new());
    while scan.next_into(&mut batch)? {
        governor.check()?;
        let [s, p, o, g] = &*batch.columns else {
            unreachable!("four components were asked for");
        };
        rows.clear();
        rows.extend((0..batch.rows).map(|row| [s[row], p[row], o[row], g[row]]));
        each(&rows)?;
    }
    Ok(())
}
