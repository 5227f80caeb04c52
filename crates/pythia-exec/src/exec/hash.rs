//! Join with a pattern whose matches are held in memory, keyed by one slot.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use pythia_store::{End, Order};
use rustc_hash::FxHashMap;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::early_count::CountedRows;
use super::expand::Expand;
use super::row_source::{Fed, RowSource};
use super::runs::Runs;
use super::scan::{FIRST_ROWS, ScanColumns, sorted_slot};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::{Governor, Share};
use crate::limits::spill::rows::RowStore;
use crate::plan::slots::Slots;
use crate::plan::step::{Position, SlotPattern};

/// The matches of a pattern in key order, and the index of their keys.
struct Table {
    rows: RowStore,
    runs: Runs,
    /// The key's place in a row.
    key: usize,
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
    /// Returns the table of a step, which copies of the step that need the same rows have in common.
    pub(crate) fn of_step(
        &self,
        step: CostId,
        pattern: SlotPattern,
        order: Order,
        live: &Arc<Slots>,
        governor: &Arc<Governor>,
    ) -> Arc<SharedTable> {
        let mut tables = self.0.lock();
        if let Some(table) = tables.get(&step)
            && (table.pattern, table.order, &table.live) == (pattern, order, live)
        {
            return Arc::clone(table);
        }
        let table = Arc::new(SharedTable {
            pattern,
            order,
            live: Arc::clone(live),
            state: Mutex::new(TableState::Unread(Share::new(governor))),
        });
        tables.insert(step, Arc::clone(&table));
        table
    }
}

/// A table that pipelines have in common. The first that needs it reads it.
pub(crate) struct SharedTable {
    pattern: SlotPattern,
    order: Order,
    live: Arc<Slots>,
    state: Mutex<TableState>,
}

/// A table and the share for its memory.
enum TableState {
    Unread(Share),
    Read(
        Arc<Table>,
        #[expect(dead_code, reason = "held with the table")] Share,
    ),
    TooLarge,
}

/// The access method for matches.
enum Access {
    /// Not decided before the first solution arrives.
    Undecided,
    Table(Arc<Table>),
    /// The matches do not fit into memory: they are read page by page for each batch.
    Expand(Box<Expand>),
}

/// Joins solutions with a pattern by looking up their key in a table of all its matches.
///
/// The table is read once, in an order sorted by the key, when the first solution arrives; under a LIMIT, after the
/// first solutions. Solutions stay in order.
pub(crate) struct HashScan {
    input: Fed,
    pattern: SlotPattern,
    columns: ScanColumns,
    order: Order,
    key: usize,
    /// The other end's place in a row and its slot, if it is bound too: the match with its term is wanted.
    other: Option<(usize, usize)>,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    access: Access,
    /// Number of solutions that are looked up node by node before the table is read.
    few: usize,
    /// Looks these up.
    looked_up: Option<Box<Expand>>,
    table: Arc<SharedTable>,
    current: Cursor,
    once: bool,
    /// The slot for the number of matches, if they are only counted.
    counts: Option<usize>,
    /// Number of matches of the current row that were returned.
    taken: usize,
}

impl HashScan {
    pub(crate) fn new(input: Fed, table: Arc<SharedTable>, context: Arc<QueryContext>) -> Self {
        let (pattern, order) = (table.pattern, table.order);
        let live = Arc::clone(&table.live);
        let key = sorted_slot(&pattern, order).expect("the planner joins by a variable");
        let bound = [pattern.subject, pattern.object].into_iter();
        let mut bound = bound.filter_map(|end| match end {
            Position::Bound(slot) if slot != key => Some(slot),
            _ => None,
        });
        let other = bound.next();
        // With any other pattern, a key's rows would not be sorted by the other end.
        debug_assert!(other.is_none() || matches!(pattern.predicate, Position::Constant(_)));
        let read: Vec<usize> = other.into_iter().chain([key]).collect();
        let columns = ScanColumns::new(&pattern, &read, &live);
        Self {
            input,
            other: other.map(|slot| (columns.column_of(slot), slot)),
            columns,
            pattern,
            order,
            key,
            live,
            access: Access::Undecided,
            few: 0,
            looked_up: None,
            table,
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

    /// Looks up the first solutions without the table, if `small`: no others may be asked for.
    pub(crate) fn begin_small(mut self, small: bool) -> Self {
        self.few = if small { FIRST_ROWS } else { 0 };
        self
    }

    /// Reads all matches; `None` if they do not fit into memory.
    fn read(&self, share: &mut Share) -> Result<Option<Table>, QueryError> {
        let mut scan = self.columns.open(self.order, &self.context)?;
        let mut rows = RowStore::new(self.columns.slots.len());
        while let Some(found) = scan.next()? {
            self.context.check()?;
            let bytes = rows.bytes_with(found.rows) + Runs::bytes(rows.len() + found.rows);
            if !share.fits(bytes) {
                return Ok(None);
            }
            rows.push_columns(&found.columns, found.rows);
        }
        let key = self.columns.column_of(self.key);
        let runs = Runs::of(&rows, key);
        Ok(Some(Table { rows, runs, key }))
    }

    fn decide(&self) -> Result<Access, QueryError> {
        let mut state = self.table.state.lock();
        match std::mem::replace(&mut *state, TableState::TooLarge) {
            TableState::Unread(mut share) => {
                if let Some(table) = self.read(&mut share)? {
                    *state = TableState::Read(Arc::new(table), share);
                }
            }
            known => *state = known,
        }
        Ok(match &*state {
            TableState::Read(table, _) => Access::Table(Arc::clone(table)),
            _ => Access::Expand(Box::new(self.expand())),
        })
    }

    /// Returns the join that reads the matches page by page.
    fn expand(&self) -> Expand {
        let end = if self.pattern.subject.slot() == Some(self.key) {
            End::Subject
        } else {
            End::Object
        };
        let (live, context) = (Arc::clone(&self.live), Arc::clone(&self.context));
        let expand = Expand::new(Fed::default(), self.pattern, end, live, context);
        expand.once(self.once).counting(self.counts)
    }
}

impl RowSource for HashScan {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            self.context.check()?;
            if let Access::Expand(expand) = &mut self.access
                && let Some(found) = expand.next()?
            {
                return Ok(Some(found));
            }
            if let Some(looked_up) = &mut self.looked_up
                && let Some(found) = looked_up.next()?
            {
                return Ok(Some(found));
            }
            if !self.current.has_rows() {
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                if batch.rows <= self.few {
                    self.few -= batch.rows;
                    let mut looked_up = self.looked_up.take();
                    let expand = looked_up.get_or_insert_with(|| Box::new(self.expand()));
                    expand.feed(batch);
                    self.looked_up = looked_up;
                    continue;
                }
                (self.few, self.looked_up) = (0, None);
                self.current = Cursor::over(batch);
            }
            if let Access::Undecided = self.access {
                self.access = self.decide()?;
            }
            match &mut self.access {
                Access::Expand(expand) => expand.feed(std::mem::take(&mut self.current).batch),
                Access::Table(_) => {
                    let found = match self.counts {
                        Some(slot) => self.count(slot),
                        None => self.look_up(),
                    };
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Access::Undecided => unreachable!("decided above"),
            }
        }
    }
}

impl HashScan {
    /// Counts the matches of the current solutions.
    fn count(&mut self, slot: usize) -> Option<Batch> {
        let Access::Table(table) = &self.access else {
            return None;
        };
        let mut counted = CountedRows::default();
        let batch = std::mem::take(&mut self.current).batch;
        for row in 0..batch.rows {
            let found = (table.runs).find(&table.rows, table.key, batch.value(self.key, row));
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
        let Access::Table(table) = &self.access else {
            return None;
        };
        let most = self.context.governor().batch_rows(self.live.len());
        let Cursor { batch, row } = &mut self.current;
        let mut rows = Vec::new();
        let mut matches: Vec<u32> = Vec::new();
        // Solutions often come in runs of one key.
        let mut last = (0, 0..0);
        while *row < batch.rows && rows.len() < most {
            let id = batch.value(self.key, *row);
            if last.0 != id {
                last = (id, table.runs.find(&table.rows, table.key, id));
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
        for (place, &slot) in self.columns.slots.iter().enumerate() {
            if slot != self.key && self.other.is_none_or(|(other, _)| other != place) {
                let cell = |&found: &u32| table.rows.row(found as usize)[place];
                out.columns[slot] = matches.iter().map(cell).collect();
            }
        }
        self.current.drop_used();
        Some(out)
    }
}
