//! Lookups of solutions in a table of a pattern's matches.

use std::sync::Arc;

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::early_count::CountedRows;
use super::table::{SharedTable, Table};
use crate::error::QueryError;
use crate::plan::slots::Slots;

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
    pub(super) fn new(table: Arc<Table>, shared: &SharedTable, context: Arc<QueryContext>) -> Self {
        let slots = shared.row_slots();
        let place = |other: &usize| slots.iter().position(|slot| slot == other);
        let other = shared.other();
        Self {
            table,
            key: shared.key(),
            other: other.and_then(|slot| Some((place(&slot)?, slot))),
            slots,
            live: Arc::clone(shared.live()),
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
        let mut out = self.current.pick(&rows, &self.live);
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
