//! The rows of one node: its tuple, with the external lists in their places.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::tuples::external_list;
use super::{BATCH_ROWS, BATCH_ROWS_MIN, ColumnScan, Projection, Slot};
use crate::StoreError;
use crate::pattern::{Component, End, Expansion, IdBatch, QuadPattern};
use crate::segment::Segment;

/// A scan of one node's rows by predicate and other end.
pub(crate) struct NodeScan {
    segment: Arc<Segment>,
    end: End,
    node: TermId,
    pattern: QuadPattern,
    wanted: Vec<Component>,
    projection: Projection,
    /// Rows of the tuple pages, filtered by graph and other end.
    rows: Expansion,
    next_row: usize,
    next_list: usize,
    /// The current external list.
    list: Option<Box<ColumnScan>>,
    list_predicate: u64,
}

impl NodeScan {
    /// Reads the node's tuple page. The pattern binds the node at `end`, and may bind more.
    pub(crate) fn new(
        segment: Arc<Segment>,
        end: End,
        node: TermId,
        pattern: &QuadPattern,
        wanted: &[Component],
    ) -> Result<Self, StoreError> {
        let projection = Projection::new(pattern, end.order(), wanted);
        let mut rows = Expansion::new(true, projection.wants(Slot::Fourth));
        segment
            .tuples(end)
            .expand_one(node, 0, pattern.predicate, pattern.graph, &mut rows)?;
        let mut scan = Self {
            segment,
            end,
            node,
            pattern: *pattern,
            wanted: wanted.to_vec(),
            projection,
            rows,
            next_row: 0,
            next_list: 0,
            list: None,
            list_predicate: 0,
        };
        if let Some(other) = scan.other() {
            scan.keep_only(other);
        }
        Ok(scan)
    }

    /// Returns the other end, if it is bound.
    fn other(&self) -> Option<TermId> {
        match self.end {
            End::Subject => self.pattern.object,
            End::Object => self.pattern.subject,
        }
    }

    /// Drops the rows with another other end.
    fn keep_only(&mut self, other: TermId) {
        let rows = &mut self.rows;
        let mut kept = 0;
        for row in 0..rows.other.len() {
            if rows.other[row] == other.0 {
                rows.other[kept] = rows.other[row];
                rows.predicate[kept] = rows.predicate[row];
                if rows.with_graph {
                    rows.graph[kept] = rows.graph[row];
                }
                kept += 1;
            }
        }
        rows.other.truncate(kept);
        rows.predicate.truncate(kept);
        rows.graph.truncate(kept);
    }

    /// Appends the next rows to `batch`; it stays empty at the end.
    pub(crate) fn fill(&mut self, batch: &mut IdBatch) -> Result<(), StoreError> {
        while batch.rows < BATCH_ROWS_MIN {
            if let Some(list) = &mut self.list {
                list.fill(batch)?;
                if batch.rows < BATCH_ROWS_MIN {
                    self.list = None;
                }
                continue;
            }
            let list = self.rows.external.get(self.next_list).copied();
            let rows_end = list.map_or(self.rows.len(), |list| {
                let before = |&predicate: &u64| predicate < list.predicate.0;
                self.rows.predicate.partition_point(before)
            });
            if self.next_row < rows_end {
                let end = rows_end.min(self.next_row + BATCH_ROWS);
                self.push_rows(end, batch);
            } else if let Some(list) = list {
                self.open_list(list.predicate)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn push_rows(&mut self, end: usize, batch: &mut IdBatch) {
        let rows = self.next_row..end;
        for (slot, out) in self.projection.slots.iter().zip(&mut batch.columns) {
            match *slot {
                Slot::Constant(id) => out.resize(out.len() + rows.len(), id),
                Slot::First => out.resize(out.len() + rows.len(), self.node.0),
                Slot::Second => out.extend_from_slice(&self.rows.predicate[rows.clone()]),
                Slot::Third => out.extend_from_slice(&self.rows.other[rows.clone()]),
                Slot::Fourth => out.extend_from_slice(&self.rows.graph[rows.clone()]),
            }
        }
        batch.rows += rows.len();
        self.next_row = end;
    }

    fn open_list(&mut self, predicate: TermId) -> Result<(), StoreError> {
        self.next_list += 1;
        self.list_predicate = predicate.0;
        self.list = Some(Box::new(external_list(
            &self.segment,
            self.end,
            [self.node, predicate],
            self.other(),
            self.pattern.graph,
            &self.wanted,
        )?));
        Ok(())
    }

    /// Skips rows by predicate or, if that is bound, by the other end.
    pub(crate) fn seek(&mut self, id: TermId) -> Result<(), StoreError> {
        if self.pattern.predicate.is_none() {
            let rows = &self.rows.predicate[self.next_row..];
            self.next_row += rows.partition_point(|&predicate| predicate < id.0);
            let lists = &self.rows.external[self.next_list..];
            self.next_list += lists.partition_point(|list| list.predicate < id);
            if self.list_predicate < id.0 {
                self.list = None;
            }
        } else if self.other().is_none() {
            let rows = &self.rows.other[self.next_row..];
            self.next_row += rows.partition_point(|&other| other < id.0);
            if let Some(list) = self.rows.external.get(self.next_list) {
                self.open_list(list.predicate)?;
            }
            if let Some(list) = &mut self.list {
                list.seek(id);
            }
        }
        Ok(())
    }
}
