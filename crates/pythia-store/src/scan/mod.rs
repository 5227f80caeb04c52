//! Reads of one segment: scans, expansions, probes and counts. [`crate::delta`] and [`crate::snapshot`] combine those of
//! several segments.
//!
//! A [`SegmentScan`] gives the quads that match a pattern as batches of ids in a chosen order. It has one of four
//! sources: a range of a column file, all tuple pages, the tuple of one node, or rows that had to be sorted. Rows are
//! always sorted by the order's components that the pattern leaves free.

mod columns;
mod count;
mod degrees;
mod edges;
mod graphs;
mod node;
pub(crate) mod of_segment;
mod sample;
mod sorted;
mod tuples;

use pythia_rdf::TermId;

pub(crate) use columns::ColumnScan;
pub(crate) use count::{count, count_range};
pub(crate) use degrees::DegreeScan;
pub(crate) use edges::{append_list, expand, probe};
pub(crate) use graphs::NamedGraphs;
pub(crate) use node::NodeScan;
pub(crate) use of_segment::SORTED_ROWS_MAX;
pub(crate) use sample::{sample, sample_links};
pub(crate) use sorted::SortedRows;
pub(crate) use tuples::TupleScan;

use crate::StoreError;
use crate::pattern::{Component, IdBatch, Order, QuadPattern};

/// Approximate rows of a batch; it may have up to twice as many.
pub(crate) const BATCH_ROWS: usize = 4096;
/// Minimum rows of a batch that is not the last.
pub(crate) const BATCH_ROWS_MIN: usize = 1024;

/// The quads of a segment that match a pattern, in batches. Holds at most 32 pages of the cache, and at most a
/// sixty-fourth of the cache; of a small cache, up to four pages.
pub(crate) struct SegmentScan {
    source: Source,
    columns: usize,
}

pub(crate) enum Source {
    Empty,
    Columns(Box<ColumnScan>),
    Tuples(Box<TupleScan>),
    Node(Box<NodeScan>),
    Sorted(SortedRows),
}

impl SegmentScan {
    pub(crate) fn new(source: Source, wanted: &[Component]) -> Self {
        Self {
            source,
            columns: wanted.len(),
        }
    }

    /// Replaces a batch by the next rows, of which there is at least one; returns false at the end.
    pub(crate) fn next_into(&mut self, batch: &mut IdBatch) -> Result<bool, StoreError> {
        batch.clear();
        batch.columns.resize_with(self.columns, Vec::new);
        self.fill(batch)?;
        Ok(batch.rows > 0)
    }

    fn fill(&mut self, batch: &mut IdBatch) -> Result<(), StoreError> {
        match &mut self.source {
            Source::Empty => Ok(()),
            Source::Columns(scan) => scan.fill(batch),
            Source::Tuples(scan) => scan.fill(batch),
            Source::Node(scan) => scan.fill(batch),
            Source::Sorted(rows) => {
                rows.fill(batch);
                Ok(())
            }
        }
    }

    /// Returns whether the first rows take a page that was not read yet, or may take one.
    pub(crate) fn reads_on_request(&self) -> bool {
        match &self.source {
            Source::Columns(scan) => !scan.is_empty(),
            Source::Tuples(_) => true,
            Source::Empty | Source::Node(_) | Source::Sorted(_) => false,
        }
    }

    /// Skips rows whose first free component (of the order, after the bound ones) is smaller than `id`; never goes
    /// back. Reads nothing before rows are requested, unless the pattern binds a node. Without effect if subject,
    /// predicate and object are all bound.
    pub(crate) fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        match &mut self.source {
            Source::Empty => Ok(()),
            Source::Columns(scan) => {
                scan.seek(id);
                Ok(())
            }
            Source::Tuples(scan) => {
                scan.seek(id);
                Ok(())
            }
            Source::Node(scan) => scan.seek(id),
            Source::Sorted(rows) => {
                rows.seek(id);
                Ok(())
            }
        }
    }

    /// Announces the ids, sorted, that will be sought from here on: pages without any of them are not read ahead, and
    /// all others are read in batches. Other ids can still be sought.
    pub(crate) fn expect(&mut self, ids: &[u64]) {
        match &mut self.source {
            Source::Columns(scan) => scan.expect(ids),
            Source::Empty | Source::Tuples(_) | Source::Node(_) | Source::Sorted(_) => {}
        }
    }
}

/// The source of a column of the result: a component of the source's own order, or the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Constant(u64),
    First,
    Second,
    Third,
    Fourth,
}

/// The columns of the result.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    pub(crate) slots: Vec<Slot>,
}

impl Projection {
    /// Returns the wanted components, taken from a source whose rows have `order`'s components.
    pub(crate) fn new(pattern: &QuadPattern, order: Order, wanted: &[Component]) -> Self {
        let slot = |component: &Component| {
            let bound = match component {
                Component::Subject => pattern.subject,
                Component::Predicate => pattern.predicate,
                Component::Object => pattern.object,
                Component::Graph => match pattern.graph {
                    crate::pattern::GraphFilter::One(graph) => Some(graph),
                    _ => None,
                },
            };
            if let Some(id) = bound {
                return Slot::Constant(id.0);
            }
            let [first, second, third, _] = order.components();
            match *component {
                component if component == first => Slot::First,
                component if component == second => Slot::Second,
                component if component == third => Slot::Third,
                _ => Slot::Fourth,
            }
        };
        Self {
            slots: wanted.iter().map(slot).collect(),
        }
    }

    /// Returns whether a component is requested.
    pub(crate) fn wants(&self, slot: Slot) -> bool {
        self.slots.contains(&slot)
    }

    /// Appends one row.
    pub(crate) fn push(&self, row: [u64; 4], batch: &mut IdBatch) {
        for (slot, out) in self.slots.iter().zip(&mut batch.columns) {
            out.push(match *slot {
                Slot::Constant(id) => id,
                Slot::First => row[0],
                Slot::Second => row[1],
                Slot::Third => row[2],
                Slot::Fourth => row[3],
            });
        }
        batch.rows += 1;
    }
}
