//! Join with a pattern whose matches are held in memory, keyed by one slot.

use std::sync::Arc;

use hashbrown::HashTable;
use pythia_store::{End, Order};

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::expand::Expand;
use super::row_source::{Fed, RowSource};
use super::scan::{ScanColumns, sorted_slot};
use crate::error::QueryError;
use crate::limits::governor::Share;
use crate::limits::spill::rows::RowStore;
use crate::limits::spill::table::{hash_ids, index_bytes};
use crate::plan::slots::Slots;
use crate::plan::step::SlotPattern;

/// The matches of a pattern in key order, and the start of each key's matches.
struct Table {
    rows: RowStore,
    runs: HashTable<u32>,
    /// The key's place in a row.
    key: usize,
}

impl Table {
    /// Finds the runs of equal keys in rows that are sorted by the key.
    fn index(rows: RowStore, key: usize) -> Self {
        let starts_run = |row: usize| row == 0 || rows.row(row)[key] != rows.row(row - 1)[key];
        let count = (0..rows.len()).filter(|&row| starts_run(row)).count();
        let mut runs = HashTable::with_capacity(count);
        for row in (0..rows.len()).filter(|&row| starts_run(row)) {
            let number = u32::try_from(row).expect("a table outgrows memory before 2^32");
            runs.insert_unique(hash_ids([rows.row(row)[key]], 0), number, |&start| {
                hash_ids([rows.row(start as usize)[key]], 0)
            });
        }
        Self { rows, runs, key }
    }

    /// Returns the first match of a key.
    fn first(&self, key: u64) -> Option<usize> {
        let is_key = |start: &u32| self.rows.row(*start as usize)[self.key] == key;
        let start = self.runs.find(hash_ids([key], 0), is_key)?;
        Some(*start as usize)
    }

    fn has(&self, row: usize, key: u64) -> bool {
        row < self.rows.len() && self.rows.row(row)[self.key] == key
    }
}

/// The access method for matches.
enum Access {
    /// Not decided before the first solution arrives.
    Undecided,
    Table {
        table: Table,
        /// Holds the table's memory.
        _share: Share,
    },
    /// The matches do not fit into memory: they are read page by page for each batch.
    Expand(Box<Expand>),
}

/// Joins solutions with a pattern by looking up their key in a table of all its matches.
///
/// The table is read once, in an order sorted by the key, when the first solution arrives. Solutions stay
/// in order.
pub(crate) struct HashScan {
    input: Fed,
    pattern: SlotPattern,
    columns: ScanColumns,
    order: Order,
    key: usize,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    access: Access,
    /// The share for the table, until the access is decided.
    share: Option<Share>,
    current: Cursor,
    once: bool,
    /// Number of matches of the current row that were returned.
    taken: usize,
}

impl HashScan {
    pub(crate) fn new(
        input: Fed,
        pattern: SlotPattern,
        order: Order,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let key = sorted_slot(&pattern, order).expect("the planner joins by a variable");
        Self {
            input,
            columns: ScanColumns::new(&pattern, &[key], &live),
            pattern,
            order,
            key,
            live,
            access: Access::Undecided,
            share: Some(Share::new(context.governor())),
            context,
            current: Cursor::default(),
            once: false,
            taken: 0,
        }
    }

    /// Stops at each solution's first match, if `once`.
    pub(crate) fn once(mut self, once: bool) -> Self {
        self.once = once;
        self
    }

    /// Reads all matches; `None` if they do not fit into memory.
    fn read(&self, share: &mut Share) -> Result<Option<Table>, QueryError> {
        let mut scan = self.columns.open(self.order, &self.context)?;
        let mut rows = RowStore::new(self.columns.slots.len());
        let mut row = vec![0; rows.width()];
        while let Some(found) = scan.next()? {
            self.context.check()?;
            let bytes = rows.bytes_with(found.rows) + index_bytes(rows.len() + found.rows);
            if !share.fits(bytes) {
                return Ok(None);
            }
            for number in 0..found.rows {
                for (cell, column) in row.iter_mut().zip(&found.columns) {
                    *cell = column[number];
                }
                rows.push(&row);
            }
        }
        Ok(Some(Table::index(rows, self.columns.column_of(self.key))))
    }

    fn decide(&self, mut share: Share) -> Result<Access, QueryError> {
        if let Some(table) = self.read(&mut share)? {
            let _share = share;
            return Ok(Access::Table { table, _share });
        }
        let end = if self.pattern.subject.slot() == Some(self.key) {
            End::Subject
        } else {
            End::Object
        };
        let (live, context) = (Arc::clone(&self.live), Arc::clone(&self.context));
        let expand = Expand::new(Fed::default(), self.pattern, end, live, context);
        Ok(Access::Expand(Box::new(expand.once(self.once))))
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
            if !self.current.has_rows() {
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                self.current = Cursor::over(batch);
            }
            if let Access::Undecided = self.access {
                let share = self.share.take().expect("decided once");
                self.access = self.decide(share)?;
            }
            match &mut self.access {
                Access::Expand(expand) => expand.feed(std::mem::take(&mut self.current).batch),
                Access::Table { .. } => {
                    if let Some(found) = self.look_up() {
                        return Ok(Some(found));
                    }
                }
                Access::Undecided => unreachable!("decided above"),
            }
        }
    }
}

impl HashScan {
    /// Looks up the current solutions, up to one batch of results.
    fn look_up(&mut self) -> Option<Batch> {
        let Access::Table { table, .. } = &self.access else {
            return None;
        };
        let most = self.context.governor().batch_rows(self.live.len());
        let Cursor { batch, row } = &mut self.current;
        let mut rows = Vec::new();
        let mut matches: Vec<u32> = Vec::new();
        while *row < batch.rows && rows.len() < most {
            let key = batch.value(self.key, *row);
            let mut place = table.first(key).map(|first| first + self.taken);
            while let Some(found) = place.filter(|found| table.has(*found, key)) {
                if rows.len() == most {
                    break;
                }
                rows.push(*row as u32);
                matches.push(found as u32);
                self.taken += 1;
                place = (!self.once).then_some(found + 1);
            }
            if !place.is_some_and(|found| table.has(found, key)) {
                *row += 1;
                self.taken = 0;
            }
        }
        if rows.is_empty() {
            self.current.drop_used();
            return None;
        }
        let mut out = batch.gather(&rows, &self.live);
        for (place, &slot) in self.columns.slots.iter().enumerate() {
            if slot != self.key {
                let cell = |&found: &u32| table.rows.row(found as usize)[place];
                out.columns[slot] = matches.iter().map(cell).collect();
            }
        }
        self.current.drop_used();
        Some(out)
    }
}
