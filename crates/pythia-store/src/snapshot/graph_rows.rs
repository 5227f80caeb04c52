//! The rows of a graph, or of all graphs, in each order.

use pythia_rdf::TermId;

use super::{QuadScan, Snapshot};
use crate::StoreError;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};

/// The question whether to go on with a long change, asked now and then from several threads.
pub type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

/// The rows of a graph in an order: the ids of its components in that order, sorted.
pub(crate) struct GraphRows<'g> {
    order: Order,
    /// The graph of the rows; `None`: the one that each has.
    graph: Option<TermId>,
    /// `None` at the end.
    scan: Option<QuadScan>,
    batch: IdBatch,
    next: usize,
    goes_on: GoesOn<'g>,
}

impl<'g> GraphRows<'g> {
    /// Returns the rows of the graph `from`, as rows of the graph `to`. The order GPSO has no rows of the default graph.
    pub(crate) fn new(
        snapshot: &Snapshot,
        order: Order,
        from: TermId,
        to: TermId,
        goes_on: GoesOn<'g>,
    ) -> Result<Self, StoreError> {
        let scan = order
            .has_graph(to.0)
            .then(|| scan(snapshot, GraphFilter::One(from), order));
        Ok(Self::of_scan(order, Some(to), scan.transpose()?, goes_on))
    }

    /// Returns the rows of all graphs, in an order other than GPSO.
    fn all(snapshot: &Snapshot, order: Order) -> Result<Self, StoreError> {
        let scan = scan(snapshot, GraphFilter::Any, order)?;
        Ok(Self::of_scan(order, None, Some(scan), &|| true))
    }

    fn of_scan(
        order: Order,
        graph: Option<TermId>,
        scan: Option<QuadScan>,
        goes_on: GoesOn<'g>,
    ) -> Self {
        Self {
            order,
            graph,
            scan,
            batch: IdBatch::default(),
            next: 0,
            goes_on,
        }
    }

    fn next_row(&mut self) -> Result<Option<[u64; 4]>, StoreError> {
        while self.next == self.batch.rows {
            if !(self.goes_on)() {
                return Err(StoreError::Cancelled);
            }
            let Some(scan) = &mut self.scan else {
                return Ok(None);
            };
            if !scan.next_into(&mut self.batch)? {
                self.scan = None;
                self.batch.rows = 0;
            }
            self.next = 0;
        }
        let row = self.next;
        self.next += 1;
        let id = |column: usize| self.batch.columns[column][row];
        let (a, b, c) = (id(0), id(1), id(2));
        let graph = self.graph.map_or_else(|| id(3), |graph| graph.0);
        Ok(Some(match self.order {
            Order::Gpso => [graph, a, b, c],
            _ => [a, b, c, graph],
        }))
    }
}

impl Iterator for GraphRows<'_> {
    type Item = Result<[u64; 4], StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

/// Scans the quads of a graph in an order; without a certain graph, the graph is the last column.
fn scan(snapshot: &Snapshot, graph: GraphFilter, order: Order) -> Result<QuadScan, StoreError> {
    let components = order.components().into_iter();
    let mut wanted: Vec<Component> = components
        .filter(|component| *component != Component::Graph)
        .collect();
    if !matches!(graph, GraphFilter::One(_)) {
        wanted.push(Component::Graph);
    }
    let pattern = QuadPattern {
        graph,
        ..QuadPattern::default()
    };
    snapshot.scan(&pattern, order, &wanted)
}

/// The quads of some graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeGraphs {
    One(TermId),
    All,
}

impl WholeGraphs {
    /// Returns whether a quad is one of them.
    pub(crate) fn has(self, quad: &[u64; 4]) -> bool {
        match self {
            Self::One(graph) => quad[3] == graph.0,
            Self::All => true,
        }
    }

    /// Returns the number of these quads that a snapshot has.
    pub(crate) fn count(self, snapshot: &Snapshot) -> Result<u64, StoreError> {
        let graph = match self {
            Self::One(graph) => GraphFilter::One(graph),
            Self::All => GraphFilter::Any,
        };
        let pattern = QuadPattern {
            graph,
            ..QuadPattern::default()
        };
        snapshot.estimates().count(&pattern)
    }

    /// Returns their rows in an order, sorted. Begins to read when the first row is asked for.
    pub(crate) fn rows(self, snapshot: &Snapshot, order: Order) -> WholeGraphRows {
        WholeGraphRows {
            snapshot: snapshot.clone(),
            order,
            parts: None,
            graphs: self,
            rows: None,
        }
    }
}

/// The rows of [`WholeGraphs`] in an order.
pub(crate) struct WholeGraphRows {
    snapshot: Snapshot,
    order: Order,
    graphs: WholeGraphs,
    /// The parts to read, the next one last; `None` before the first row.
    parts: Option<Vec<WholeGraphs>>,
    rows: Option<GraphRows<'static>>,
}

impl WholeGraphRows {
    /// Lists the parts whose rows follow one another in the order.
    fn list_parts(&self) -> Result<Vec<WholeGraphs>, StoreError> {
        match (self.graphs, self.order) {
            (WholeGraphs::All, Order::Gpso) => {
                let graphs = self.snapshot.named_graphs(|_| Ok::<_, StoreError>(()))?;
                Ok(graphs.into_iter().rev().map(WholeGraphs::One).collect())
            }
            (graphs, _) => Ok(vec![graphs]),
        }
    }

    fn next_row(&mut self) -> Result<Option<[u64; 4]>, StoreError> {
        if self.parts.is_none() {
            self.parts = Some(self.list_parts()?);
        }
        loop {
            if let Some(row) = self.rows.as_mut().and_then(Iterator::next) {
                return row.map(Some);
            }
            let Some(part) = self.parts.as_mut().and_then(Vec::pop) else {
                return Ok(None);
            };
            self.rows = Some(match part {
                WholeGraphs::One(graph) => {
                    GraphRows::new(&self.snapshot, self.order, graph, graph, &|| true)?
                }
                WholeGraphs::All => GraphRows::all(&self.snapshot, self.order)?,
            });
        }
    }
}

impl Iterator for WholeGraphRows {
    type Item = Result<[u64; 4], StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}
