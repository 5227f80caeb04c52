//! Tables of a pattern's matches, keyed by one slot, that pipelines share.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use pythia_store::Order;
use rustc_hash::FxHashMap;

use super::context::QueryContext;
use super::hash::HashScan;
use super::runs::{Runs, RunsBuilder};
use super::scan::{ScanColumns, sorted_slot};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Share;
use crate::limits::spill::rows::RowStore;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// A table that was not expected gets one of this many parts of the memory left.
const UNEXPECTED_SHARE: usize = 8;

/// The matches of a pattern in key order, without the keys, and the index of the keys.
pub(super) struct Table {
    pub(super) rows: RowStore,
    pub(super) runs: Runs,
}

impl Table {
    /// Returns those rows of a key, which are sorted by the other end, that have this id at a place.
    pub(super) fn rows_with(&self, place: usize, id: u64, rows: Range<usize>) -> Range<usize> {
        let first = |is_before: &dyn Fn(u64) -> bool| {
            let Range { mut start, mut end } = rows;
            while start < end {
                let middle = start.midpoint(end);
                match is_before(self.rows.row(middle)[place]) {
                    true => start = middle + 1,
                    false => end = middle,
                }
            }
            start
        };
        first(&|found| found < id)..first(&|found| found <= id)
    }
}

/// The tables of the steps of pipelines that run side by side.
#[derive(Default)]
pub(crate) struct Tables(Mutex<FxHashMap<CostId, Arc<SharedTable>>>);

impl Tables {
    /// Returns the table of a step, which copies of the step that need the same rows have in common. `share` makes the share
    /// for its memory, if the table is likely to be read.
    pub(crate) fn of_step(
        &self,
        step: CostId,
        pattern: SlotPattern,
        order: Order,
        live: &Arc<Slots>,
        share: impl FnOnce() -> Option<Share>,
    ) -> Arc<SharedTable> {
        let mut tables = self.0.lock();
        if let Some(table) = tables.get(&step)
            && (table.pattern, table.order, &table.live) == (pattern, order, live)
        {
            return Arc::clone(table);
        }
        let table = Arc::new(SharedTable::new(pattern, order, live, share()));
        tables.insert(step, Arc::clone(&table));
        table
    }
}

/// A table that pipelines have in common, and the number of nodes that were looked up without it.
pub(crate) struct SharedTable {
    pattern: SlotPattern,
    order: Order,
    /// The slot that keys the table.
    key: usize,
    live: Arc<Slots>,
    state: Mutex<TableState>,
}

/// A table and the share for its memory.
enum TableState {
    /// Number of visits that lookups have cost, and the share if there is one already.
    Unread(u64, Option<Share>),
    Read(
        Arc<Table>,
        #[expect(dead_code, reason = "held with the table")] Share,
    ),
    TooLarge,
}

/// The way to look up nodes.
pub(super) enum Way {
    /// One by one: they are few.
    ByNode,
    Table(Box<HashScan>),
    /// Many together: there is no room for the table.
    Together,
}

impl SharedTable {
    fn new(pattern: SlotPattern, order: Order, live: &Arc<Slots>, share: Option<Share>) -> Self {
        Self {
            pattern,
            order,
            key: sorted_slot(&pattern, order).expect("the planner joins by a variable"),
            live: Arc::clone(live),
            state: Mutex::new(TableState::Unread(0, share)),
        }
    }

    /// Returns the way to look up more nodes, which one by one cost this many visits, if up to `after` visits are made before
    /// the table. The first pipeline that needs the table reads it.
    pub(super) fn way(
        &self,
        visits: u64,
        after: u64,
        context: &Arc<QueryContext>,
    ) -> Result<Way, QueryError> {
        let mut state = self.state.lock();
        if let TableState::Unread(made, share) = &mut *state {
            *made += visits;
            if *made <= after {
                return Ok(Way::ByNode);
            }
            let (most, mut share) = match share.take() {
                Some(share) => (usize::MAX, share),
                // The other operators have divided the memory without this one.
                None => {
                    let governor = context.governor();
                    let most = governor.memory_left() / UNEXPECTED_SHARE;
                    (most, Share::new(governor))
                }
            };
            *state = TableState::TooLarge;
            if let Some(table) = self.read(&mut share, most, context)? {
                *state = TableState::Read(Arc::new(table), share);
            }
        }
        Ok(match &*state {
            TableState::Read(table, _) => {
                let scan = HashScan::new(Arc::clone(table), self, Arc::clone(context));
                Way::Table(Box::new(scan))
            }
            _ => Way::Together,
        })
    }

    /// Returns the slot that keys the table.
    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// Returns the slots that later steps need.
    pub(super) fn live(&self) -> &Arc<Slots> {
        &self.live
    }

    /// Returns the other end's slot, if it is bound too.
    pub(super) fn other(&self) -> Option<usize> {
        let ends = [self.pattern.subject, self.pattern.object].into_iter();
        let mut bound = ends.filter_map(|end| match end {
            Position::Bound(slot) if slot != self.key => Some(slot),
            _ => None,
        });
        bound.next()
    }

    /// Returns the columns of the table.
    fn columns(&self) -> ScanColumns {
        let other = self.other();
        // With any other pattern, a key's rows would not be sorted by the other end.
        debug_assert!(other.is_none() || matches!(self.pattern.predicate, Position::Constant(_)));
        let read: Vec<usize> = other.into_iter().chain([self.key]).collect();
        ScanColumns::new(&self.pattern, &read, &self.live)
    }

    /// Reads all matches; `None` if they do not fit into memory, or take more than `most` bytes of it.
    fn read(
        &self,
        share: &mut Share,
        most: usize,
        context: &QueryContext,
    ) -> Result<Option<Table>, QueryError> {
        let mut fits = |bytes: usize| bytes <= most && share.fits(bytes);
        let columns = self.columns();
        let key = columns.column_of(self.key);
        let mut scan = columns.open(self.order, context)?;
        let mut rows = RowStore::new(columns.slots.len() - 1);
        let mut runs = RunsBuilder::new();
        while let Some(found) = scan.next()? {
            context.check()?;
            if !fits(rows.bytes_with(found.rows) + runs.bytes()) {
                return Ok(None);
            }
            let mut cells: Vec<&[u64]> = found.columns.iter().map(Vec::as_slice).collect();
            runs.push(cells.remove(key));
            rows.push_columns(&cells, found.rows);
            if !fits(rows.bytes_with(0) + runs.bytes()) {
                return Ok(None);
            }
        }
        let runs = runs.finish();
        Ok(Some(Table { rows, runs }))
    }

    /// Returns the slots of the table's rows.
    pub(super) fn row_slots(&self) -> Vec<usize> {
        let slots = self.columns().slots.into_iter();
        slots.filter(|slot| *slot != self.key).collect()
    }
}
