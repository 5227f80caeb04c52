//! Changes of whole graphs. The transaction's own state has the rows of a graph in each order, so a large change needs
//! neither sorting nor memory for its rows: it is written as one run on the device ([`super::spilled`]).

use pythia_rdf::TermId;

use super::spilled::WRITING_BYTES;
use super::transaction::Transaction;
use crate::StoreError;
use crate::delta::Run;
use crate::delta::device::filter_bytes;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};
use crate::scan::SORTED_ROWS_MAX;
use crate::snapshot::QuadScan;
use crate::snapshot::Snapshot;

/// A graph is changed like any other quads if these take less than this part of what a transaction keeps in memory.
const SMALL_PART: usize = 8;
/// A graph that needs whole orders to be read is changed in this way if it has at least this part of them.
const ORDERS_PART: u64 = 32;
/// Bytes of a row that a scan sorts in memory.
const SORTED_ROW_BYTES: usize = 64;

/// The question whether to go on with a long change, asked now and then from several threads.
pub type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

impl Transaction {
    /// Removes all quads of a large graph; returns their number, or `None` if there are few, or too little memory: then
    /// the caller removes them in parts.
    ///
    /// # Errors
    /// [`StoreError::Cancelled`] if it shall not go on.
    pub fn remove_graph(
        &mut self,
        graph: TermId,
        goes_on: GoesOn<'_>,
    ) -> Result<Option<u64>, StoreError> {
        let rows = |snapshot: &Snapshot, order| {
            let rows = GraphRows::new(snapshot, order, graph, graph, goes_on)?;
            Ok(rows.map(|row| Ok((row?, false))))
        };
        self.change_graph(graph, rows)
    }

    /// Adds the quads of a large graph to another one that has none; returns their number, or `None` if there are few,
    /// or too little memory, or the other graph has some: then the caller adds them in parts.
    ///
    /// # Errors
    /// [`StoreError::Cancelled`] if it shall not go on.
    pub fn copy_graph(
        &mut self,
        from: TermId,
        to: TermId,
        goes_on: GoesOn<'_>,
    ) -> Result<Option<u64>, StoreError> {
        // Not a read: other commits that add one of these quads conflict.
        if self.view().estimates().count(&of_graph(to))? > 0 {
            return Ok(None);
        }
        let rows = |snapshot: &Snapshot, order| {
            let rows = GraphRows::new(snapshot, order, from, to, goes_on)?;
            Ok(rows.map(|row| Ok((row?, true))))
        };
        self.change_graph(from, rows)
    }

    /// Makes the changes that `rows` returns of each order of a state: one for each quad of the graph.
    fn change_graph<R: Iterator<Item = Result<([u64; 4], bool), StoreError>>>(
        &mut self,
        graph: TermId,
        rows: impl Fn(&Snapshot, Order) -> Result<R, StoreError> + Sync,
    ) -> Result<Option<u64>, StoreError> {
        let estimates = self.view().estimates();
        let count = estimates.count(&of_graph(graph))?;
        let all = estimates.statistics().quads;
        let is_sorted = count <= SORTED_ROWS_MAX;
        let is_small =
            (count as usize).saturating_mul(Run::bytes_of(1)) < self.spilled_from() / SMALL_PART;
        if is_small || !(is_sorted || count >= all / ORDERS_PART) {
            return Ok(None);
        }
        // Two orders are sorted and written at a time.
        let sorted = if is_sorted {
            count as usize * SORTED_ROW_BYTES
        } else {
            0
        };
        let bytes = 2 * (sorted + filter_bytes(count)) + 2 * WRITING_BYTES;
        if !self.has_room(bytes) {
            return Ok(None);
        }
        self.spill_rows(count, bytes, rows)?;
        Ok(Some(count))
    }
}

fn of_graph(graph: TermId) -> QuadPattern {
    QuadPattern {
        graph: GraphFilter::One(graph),
        ..QuadPattern::default()
    }
}

/// The rows of a graph in an order, as rows of another graph.
struct GraphRows<'g> {
    order: Order,
    graph: u64,
    /// `None`: the order does not have the graph.
    scan: Option<QuadScan>,
    batch: IdBatch,
    next: usize,
    goes_on: GoesOn<'g>,
}

impl<'g> GraphRows<'g> {
    fn new(
        snapshot: &Snapshot,
        order: Order,
        from: TermId,
        to: TermId,
        goes_on: GoesOn<'g>,
    ) -> Result<Self, StoreError> {
        let components = order.components();
        let wanted: Vec<Component> = components
            .into_iter()
            .filter(|component| *component != Component::Graph)
            .collect();
        let scan = order
            .has_graph(to.0)
            .then(|| snapshot.scan(&of_graph(from), order, &wanted));
        Ok(Self {
            order,
            graph: to.0,
            scan: scan.transpose()?,
            batch: IdBatch::default(),
            next: 0,
            goes_on,
        })
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
        let [a, b, c] = &self.batch.columns[..] else {
            unreachable!("three components were asked for");
        };
        let (a, b, c, graph) = (a[row], b[row], c[row], self.graph);
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
