//! Changes of whole graphs. The transaction's own state has the rows of a graph in each order, so a large change needs
//! neither sorting nor memory for its rows: it is written as one run on the device ([`super::spilled`]).

use pythia_rdf::TermId;

use super::spilled::WRITING_BYTES;
use super::transaction::Transaction;
use crate::StoreError;
use crate::delta::Run;
use crate::delta::device::filter_bytes;
use crate::pattern::{GraphFilter, Order, QuadPattern};
use crate::scan::SORTED_ROWS_MAX;
use crate::snapshot::{GoesOn, GraphRows, Snapshot};

/// A graph is changed like any other quads if these take less than this part of what a transaction keeps in memory.
const SMALL_PART: usize = 8;
/// A graph that needs whole orders to be read is changed in this way if it has at least this part of them.
const ORDERS_PART: u64 = 32;
/// Bytes of a row that a scan sorts in memory.
const SORTED_ROW_BYTES: usize = 64;

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

    /// Returns whether a graph with this many quads is large: its quads would take a good part of the memory of the
    /// transaction.
    pub fn is_large_graph(&self, quads: u64) -> bool {
        (quads as usize).saturating_mul(Run::bytes_of(1)) >= self.spilled_from() / SMALL_PART
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
        if !self.is_large_graph(count) || !(is_sorted || count >= all / ORDERS_PART) {
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
