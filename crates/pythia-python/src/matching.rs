//! Quads that match a pattern of terms.

use std::collections::VecDeque;
use std::sync::Mutex;

use oxrdf::{GraphName, GraphNameRef, NamedNode, NamedOrBlankNode, Quad, Term, TermRef};
use pyo3::prelude::*;
use pythia::ids::{Component, GraphFilter, IdBatch, Order, QuadPattern, QuadScan, TermId};
use pythia::{Snapshot, StoreError};

use crate::errors::of_store;
use crate::scope::Scope;
use crate::solutions::lock;
use crate::terms::{PyQuad, graph_of, term_of};

const WANTED: [Component; 4] = [
    Component::Subject,
    Component::Predicate,
    Component::Object,
    Component::Graph,
];
/// Quads that are decoded together.
const DECODED: usize = 1024;

/// An iterator of quads.
#[pyclass(frozen, name = "Quads", module = "pythiadb")]
pub(crate) struct Matching {
    scope: Scope,
    /// `None` once it is closed or read.
    state: Mutex<Option<Reading>>,
}

struct Reading {
    snapshot: Snapshot,
    scan: QuadScan,
    batch: IdBatch,
    next: usize,
    decoded: VecDeque<Quad>,
}

impl Matching {
    /// Finds the quads of a snapshot; `None` matches every term and every graph.
    pub(crate) fn new(
        py: Python<'_>,
        snapshot: Snapshot,
        scope: Scope,
        pattern: [Option<&Bound<'_, PyAny>>; 3],
        graph: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let terms =
            pattern.map(|term| term.filter(|term| !term.is_none()).map(term_of).transpose());
        let [subject, predicate, object] = terms;
        let terms = [subject?, predicate?, object?];
        let graph = graph
            .filter(|graph| !graph.is_none())
            .map(graph_of)
            .transpose()?;
        let reading = py.detach(|| Reading::new(snapshot, &terms, graph.as_ref()));
        Ok(Self {
            scope,
            state: Mutex::new(reading.map_err(of_store)?),
        })
    }
}

/// Returns the id of the name of a graph; `None` if the store does not have the term.
fn graph_id(snapshot: &Snapshot, graph: GraphNameRef<'_>) -> Result<Option<TermId>, StoreError> {
    match graph {
        GraphNameRef::DefaultGraph => Ok(Some(TermId::DEFAULT_GRAPH)),
        GraphNameRef::NamedNode(node) => snapshot.resolve(node.into()),
        GraphNameRef::BlankNode(node) => snapshot.resolve(TermRef::from(node)),
    }
}

/// Returns the pattern in ids; `None` if the store does not have one of the terms.
fn pattern(
    snapshot: &Snapshot,
    terms: &[Option<Term>; 3],
    graph: Option<&GraphName>,
) -> Result<Option<QuadPattern>, StoreError> {
    let mut ids = [None; 3];
    for (id, term) in ids.iter_mut().zip(terms) {
        if let Some(term) = term {
            *id = snapshot.resolve(term.as_ref())?;
            if id.is_none() {
                return Ok(None);
            }
        }
    }
    let graph = match graph {
        None => GraphFilter::Any,
        Some(graph) => match graph_id(snapshot, graph.as_ref())? {
            Some(id) => GraphFilter::One(id),
            None => return Ok(None),
        },
    };
    let [subject, predicate, object] = ids;
    Ok(Some(QuadPattern {
        subject,
        predicate,
        object,
        graph,
    }))
}

impl Reading {
    /// Begins a scan; `None` if the store does not have one of the terms.
    fn new(
        snapshot: Snapshot,
        terms: &[Option<Term>; 3],
        graph: Option<&GraphName>,
    ) -> Result<Option<Self>, StoreError> {
        let Some(pattern) = pattern(&snapshot, terms, graph)? else {
            return Ok(None);
        };
        // An object alone is looked up in its own tuple.
        let order = match (pattern.subject, pattern.object) {
            (None, Some(_)) => Order::Ops,
            _ => Order::Spo,
        };
        let scan = snapshot.scan(&pattern, order, &WANTED)?;
        Ok(Some(Self {
            snapshot,
            scan,
            batch: IdBatch::new(WANTED.len()),
            next: 0,
            decoded: VecDeque::new(),
        }))
    }

    fn next(&mut self) -> Result<Option<Quad>, StoreError> {
        while self.decoded.is_empty() {
            if self.next >= self.batch.rows {
                self.next = 0;
                if !self.scan.next_into(&mut self.batch)? {
                    return Ok(None);
                }
            }
            let end = self.batch.rows.min(self.next + DECODED);
            let rows = self.next..end;
            let ids = self
                .batch
                .columns
                .iter()
                .flat_map(|column| &column[rows.clone()]);
            let ids: Vec<TermId> = ids.map(|id| TermId(*id)).collect();
            let quads = ids.len() / WANTED.len();
            // The default graph is no term.
            let (graphs, others) = (&ids[3 * quads..], &ids[..3 * quads]);
            let named: Vec<TermId> = graphs
                .iter()
                .copied()
                .filter(|id| *id != TermId::DEFAULT_GRAPH)
                .collect();
            let terms = self.snapshot.decode(others)?;
            let mut names = self.snapshot.decode(&named)?.into_iter();
            for row in 0..quads {
                let graph = match graphs[row] {
                    TermId::DEFAULT_GRAPH => GraphName::DefaultGraph,
                    _ => match node(names.next().expect("one for each id")) {
                        NamedOrBlankNode::NamedNode(node) => node.into(),
                        NamedOrBlankNode::BlankNode(node) => node.into(),
                    },
                };
                let [subject, predicate, object] =
                    [0, 1, 2].map(|column| terms[column * quads + row].clone());
                self.decoded
                    .push_back(Quad::new(node(subject), iri(predicate), object, graph));
            }
            self.next = end;
        }
        Ok(self.decoded.pop_front())
    }
}

/// Returns a subject or the name of a graph: a store has no others.
fn node(term: Term) -> NamedOrBlankNode {
    match term {
        Term::BlankNode(node) => node.into(),
        term => iri(term).into(),
    }
}

fn iri(term: Term) -> NamedNode {
    match term {
        Term::NamedNode(node) => node,
        term => unreachable!("a store has no quad with {term} in this place"),
    }
}

/// Returns whether the store has a quad.
pub(crate) fn contains(snapshot: &Snapshot, quad: &Quad) -> Result<bool, StoreError> {
    let terms = [
        Some(quad.subject.clone().into()),
        Some(quad.predicate.clone().into()),
        Some(quad.object.clone()),
    ];
    match pattern(snapshot, &terms, Some(&quad.graph_name))? {
        Some(pattern) => Ok(snapshot.count(&pattern)? > 0),
        None => Ok(false),
    }
}

/// Returns the names of the named graphs.
pub(crate) fn graphs(snapshot: &Snapshot) -> Result<Vec<Term>, StoreError> {
    let statistics = &snapshot.statistics().graphs;
    if statistics.is_complete() {
        let listed = statistics
            .graphs
            .iter()
            .filter(|(id, quads)| id.is_bound() && *quads > 0);
        let ids: Vec<TermId> = listed.map(|(id, _)| *id).collect();
        return snapshot.decode(&ids);
    }
    let pattern = QuadPattern {
        graph: GraphFilter::Named,
        ..QuadPattern::default()
    };
    let mut scan = snapshot.scan(&pattern, Order::Spo, &[Component::Graph])?;
    let mut ids = std::collections::BTreeSet::new();
    while let Some(batch) = scan.next()? {
        ids.extend(&batch.columns[0]);
    }
    let ids: Vec<TermId> = ids.into_iter().map(TermId).collect();
    snapshot.decode(&ids)
}

#[pymethods]
impl Matching {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyQuad>> {
        self.scope.check()?;
        let mut state = lock(&self.state);
        let Some(reading) = &mut *state else {
            return Ok(None);
        };
        if let Some(quad) = reading.decoded.pop_front() {
            return Ok(Some(PyQuad(quad)));
        }
        match py.detach(|| reading.next()) {
            Ok(Some(quad)) => Ok(Some(PyQuad(quad))),
            Ok(None) => {
                *state = None;
                Ok(None)
            }
            Err(error) => {
                *state = None;
                Err(of_store(error))
            }
        }
    }

    /// Frees the snapshot that it reads.
    fn close(&self) {
        *lock(&self.state) = None;
    }
}
