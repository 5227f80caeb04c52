//! Tables of a pattern's matches, keyed by one slot, and lookups in them.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use pythia_store::Order;
use rustc_hash::FxHashMap;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::early_count::CountedRows;
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
struct Table {
    rows: RowStore,
    runs: Runs,
}

impl Table {
    /// Returns those rows of a key, which are sorted by the other end, that have this id at a place.
    fn rows_with(&self, place: usize, id: u64, rows: Range<usize>) -> Range<usize> {
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

    /// Returns the other end's slot, if it is bound too.
    fn other(&self) -> Option<usize> {
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
    fn row_slots(&self) -> Vec<usize> {
        let slots = self.columns().slots.into_iter();
        slots.filter(|slot| *slot != self.key).collect()
    }
}

/// Looks up solutions in a table of all matches of a pattern, in an order sorted by their key. Solutions stay in order.
pub(crate) struct HashScan {
    table: Arc<Table>,
    /// The slots of the table's rows.
    slots: Vec<usize>,
    key: usize,
    /// The other end's place in a row and its slot, if it is bound too: the match with its term is wanted.
    other: Option<(usize, usize)>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    current: Cursor,
    once: bool,
    /// The slot for the number of matches, if they are only counted.
    counts: Option<usize>,
    /// Number of matches of the current row that were returned.
    taken: usize,
}

impl HashScan {
    fn new(table: Arc<Table>, shared: &SharedTable, context: Arc<QueryContext>) -> Self {
        let slots = shared.row_slots();
        let place = |other: &usize| slots.iter().position(|slot| slot == other);
        let other = shared.other();
        Self {
            table,
            key: shared.key,
            other: other.and_then(|slot| Some((place(&slot)?, slot))),
            slots,
            live: Arc::clone(&shared.live),
            context,
            current: Cursor::default(),
            once: false,
            counts: None,
            taken: 0,
        }
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Returns solutions once with the number of their matches, if there is a slot for that.
    pub(crate) fn counting(mut self, slot: Option<usize>) -> Self {
        self.counts = slot;
        self
    }

    /// Returns the number of matches in the table.
    pub(super) fn matches(&self) -> usize {
        self.table.rows.len()
    }

    /// Takes the next solutions. Those before must be used up.
    pub(super) fn feed(&mut self, batch: Batch) {
        self.current = Cursor::over(batch);
    }

    /// Returns the next solutions with their matches, or `None` when all are used up.
    pub(super) fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while self.current.has_rows() {
            self.context.check()?;
            let found = match self.counts {
                Some(slot) => self.count(slot),
                None => self.look_up(),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Counts the matches of the current solutions.
    fn count(&mut self, slot: usize) -> Option<Batch> {
        let table = &self.table;
        let mut counted = CountedRows::default();
        let batch = std::mem::take(&mut self.current).batch;
        for row in 0..batch.rows {
            let found = table.runs.find(batch.value(self.key, row));
            let found = match self.other {
                Some((place, slot)) => table.rows_with(place, batch.value(slot, row), found),
                None => found,
            };
            counted.add(&batch, row, slot, found.len());
        }
        counted.gather(&batch, slot, &self.live)
    }

    /// Looks up the current solutions, up to one batch of results.
    fn look_up(&mut self) -> Option<Batch> {
        let table = &self.table;
        let most = self.context.governor().batch_rows(self.live.len());
        let Cursor { batch, row } = &mut self.current;
        let mut rows = Vec::new();
        let mut matches: Vec<u32> = Vec::new();
        // Solutions often come in runs of one key.
        let mut last = (0, 0..0);
        while *row < batch.rows && rows.len() < most {
            let id = batch.value(self.key, *row);
            if last.0 != id {
                last = (id, table.runs.find(id));
            }
            let mut found = match self.other {
                Some((place, slot)) => {
                    table.rows_with(place, batch.value(slot, *row), last.1.clone())
                }
                None => last.1.clone(),
            };
            if self.once {
                found.end = found.end.min(found.start + 1);
            }
            found.start += self.taken;
            let count = found.len().min(most - rows.len());
            rows.extend(std::iter::repeat_n(*row as u32, count));
            matches.extend((found.start..found.start + count).map(|place| place as u32));
            if count < found.len() {
                self.taken += count;
                break;
            }
            *row += 1;
            self.taken = 0;
        }
        if rows.is_empty() {
            self.current.drop_used();
            return None;
        }
        let mut out = batch.gather(&rows, &self.live);
        for (place, &slot) in self.slots.iter().enumerate() {
            if self.other.is_none_or(|(other, _)| other != place) {
                let cell = |&found: &u32| table.rows.row(found as usize)[place];
                out.columns[slot] = matches.iter().map(cell).collect();
            }
        }
        self.current.drop_used();
        Some(out)
    }
}
