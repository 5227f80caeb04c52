//! Operations on whole graphs: CLEAR, DROP, CREATE, ADD, COPY and MOVE.
//!
//! A graph exists if it has a quad, so CLEAR and DROP are the same. Without SILENT, an operation on a graph
//! that does not exist, or CREATE of one that does, fails and changes nothing. For graphs that are not
//! visible to the update, success or failure does not reveal whether they exist.

use oxrdf::{NamedNode, TermRef};
use pythia_rdf::TermId;
use pythia_sparql::update::Transfer;
use pythia_store::{Component, GraphFilter, IdBatch, Order, QuadPattern, Snapshot};
use spargebra::algebra::GraphTarget;
use spargebra::term::GraphName;

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
        each_quad(&snapshot, filter, governor, |rows| self.remove(rows))
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
            let filter = GraphFilter::One(destination);
            each_quad(&snapshot, filter, governor, |rows| self.remove(rows))?;
        }
        let Some(source) = source else {
            // A hidden default graph appears empty.
            return Ok(());
        };
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

/// Calls `each` with all quads of some graphs, some at a time.
fn each_quad(
    snapshot: &Snapshot,
    graph: GraphFilter,
    governor: &Governor,
    mut each: impl FnMut(&[Row]) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    use Component::{Graph, Object, Predicate, Subject};
    let pattern = QuadPattern {
        graph,
        ..QuadPattern::default()
    };
    let mut scan = snapshot.scan(&pattern, Order::Spo, &[Subject, Predicate, Object, Graph])?;
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
