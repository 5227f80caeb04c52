//! All rows of SPO or OPS, in order, with the external lists in their places.

use std::sync::Arc;

use pythia_rdf::TermId;

use super::{BATCH_ROWS, BATCH_ROWS_MIN, ColumnScan, Projection, Slot};
use crate::StoreError;
use crate::directory_pages::Held;
use crate::pattern::{Component, End, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::Segment;
use crate::segment::tuple;

/// A scan over all tuples keyed by an end.
pub(crate) struct TupleScan {
    segment: Arc<Segment>,
    end: End,
    graph: GraphFilter,
    wanted: Vec<Component>,
    projection: Projection,
    scan: tuple::TupleScan,
    /// The current batch of tuple pages, the next row in it and the next gap.
    rows: tuple::TupleRows,
    next_row: usize,
    next_gap: usize,
    /// The current external list.
    list: Option<Box<ColumnScan>>,
    list_node: u64,
    /// Smaller nodes are skipped.
    first_node: u64,
    /// The last node read so far.
    last_node: Option<u64>,
    /// Whether the scan goes on at the page that has `first_node`.
    jumps: bool,
}

impl TupleScan {
    pub(crate) fn new(
        segment: Arc<Segment>,
        end: End,
        pattern: &QuadPattern,
        wanted: &[Component],
    ) -> Self {
        let scan = segment.tuples(end).scan();
        Self {
            end,
            graph: pattern.graph,
            wanted: wanted.to_vec(),
            projection: Projection::new(pattern, end.order(), wanted),
            scan,
            rows: tuple::TupleRows::default(),
            next_row: 0,
            next_gap: 0,
            list: None,
            list_node: 0,
            first_node: 0,
            last_node: None,
            jumps: false,
            segment,
        }
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
            let gap = self.rows.gaps.get(self.next_gap).copied();
            let rows_end = gap.map_or(self.rows.len(), |gap| gap.row);
            if self.next_row < rows_end {
                let end = rows_end.min(self.next_row + BATCH_ROWS);
                self.push_rows(end, batch);
            } else if let Some(gap) = gap {
                self.next_gap += 1;
                self.open_list(&gap)?;
            } else if self.next_batch()? {
                (self.next_row, self.next_gap) = (0, 0);
                let last_row = self.rows.node.last().copied();
                let last_gap = self.rows.gaps.last().map(|gap| gap.node);
                self.last_node = last_row.max(last_gap).max(self.last_node);
                self.skip();
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next batch of tuple pages; returns false at the end.
    fn next_batch(&mut self) -> Result<bool, StoreError> {
        if std::mem::take(&mut self.jumps) {
            let file = self.segment.tuples(self.end);
            let pages = file.locate(&mut Held::default(), self.first_node)?;
            self.scan = file.scan_pages(pages.start..file.directory().pages());
        }
        self.scan.next_batch(&mut self.rows)
    }

    fn push_rows(&mut self, end: usize, batch: &mut IdBatch) {
        let rows = self.next_row..end;
        self.next_row = end;
        let graphs = &self.rows.graph[rows.clone()];
        let accepts = |graph: &u64| self.graph.accepts(TermId(*graph));
        let all = self.graph == GraphFilter::Any || graphs.iter().all(accepts);
        for (slot, out) in self.projection.slots.iter().zip(&mut batch.columns) {
            let column = match *slot {
                Slot::Constant(id) => {
                    let count = if all {
                        rows.len()
                    } else {
                        graphs.iter().filter(|id| accepts(id)).count()
                    };
                    out.resize(out.len() + count, id);
                    continue;
                }
                Slot::First => &self.rows.node,
                Slot::Second => &self.rows.predicate,
                Slot::Third => &self.rows.other,
                Slot::Fourth => &self.rows.graph,
            };
            let values = &column[rows.clone()];
            if all {
                out.extend_from_slice(values);
            } else {
                let chosen = values
                    .iter()
                    .zip(graphs)
                    .filter(|(_, graph)| accepts(graph));
                out.extend(chosen.map(|(value, _)| *value));
            }
        }
        batch.rows += match all {
            true => rows.len(),
            false => graphs.iter().filter(|id| accepts(id)).count(),
        };
    }

    fn open_list(&mut self, gap: &tuple::Gap) -> Result<(), StoreError> {
        if gap.node < self.first_node {
            return Ok(());
        }
        self.list_node = gap.node;
        self.list = Some(Box::new(external_list(
            &self.segment,
            self.end,
            [TermId(gap.node), TermId(gap.predicate)],
            None,
            self.graph,
            &self.wanted,
        )?));
        Ok(())
    }

    /// Skips nodes smaller than `id`.
    pub(crate) fn seek(&mut self, id: TermId) {
        self.first_node = self.first_node.max(id.0);
        if self.list_node < self.first_node {
            self.list = None;
        }
        if self.last_node.is_none_or(|last| last < self.first_node) {
            // Continue at the page that has the node; rows of smaller nodes on it are skipped.
            self.jumps = true;
            self.rows.clear();
            (self.next_row, self.next_gap) = (0, 0);
        } else {
            self.skip();
        }
    }

    /// Skips the current rows whose node is too small.
    fn skip(&mut self) {
        let first = self.first_node;
        let row = self.rows.node.partition_point(|&node| node < first);
        self.next_row = self.next_row.max(row);
        let gap = self.rows.gaps.partition_point(|gap| gap.node < first);
        self.next_gap = self.next_gap.max(gap);
    }
}

/// Returns a scan of the rows of an external list: `key` is its node and predicate, `other` may be bound.
pub(crate) fn external_list(
    segment: &Arc<Segment>,
    end: End,
    [node, predicate]: [TermId; 2],
    other: Option<TermId>,
    graph: GraphFilter,
    wanted: &[Component],
) -> Result<ColumnScan, StoreError> {
    let (subject, object, order) = match end {
        End::Subject => (Some(node), other, Order::Pso),
        End::Object => (other, Some(node), Order::Pos),
    };
    let pattern = QuadPattern {
        subject,
        predicate: Some(predicate),
        object,
        graph,
    };
    let mut prefix = vec![predicate.0, node.0];
    prefix.extend(other.map(|id| id.0));
    let projection = Projection::new(&pattern, order, wanted);
    ColumnScan::new(Arc::clone(segment), order, prefix, graph, projection)
}
