//! Merge join of sorted solutions with a scan in the same order. It gallops over entries that do not match.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{IdBatch, Order, QuadScan, gallop};

use super::batch::{Batch, Cursor};
use super::context::QueryContext;
use super::early_count::CountedRows;
use super::row_source::{Fed, RowSource};
use super::scan::{ScanColumns, sorted_slot};
use crate::error::QueryError;
use crate::limits::governor::Working;
use crate::plan::slots::Slots;
use crate::plan::step::SlotPattern;

/// Joins solutions sorted by the key slot with a pattern scanned in key order.
pub(crate) struct MergeScan {
    input: Fed,
    columns: ScanColumns,
    order: Order,
    key: usize,
    live: Arc<Slots>,
    context: Arc<QueryContext>,
    scan: Option<QuadScan>,
    /// The scan has no more matches.
    is_over: bool,
    found: IdBatch,
    position: usize,
    /// The key last gathered, and its matches by column.
    group_key: u64,
    group: Vec<Vec<u64>>,
    /// The memory of very many matches.
    working: Working,
    current: Cursor,
    once: bool,
    /// The slot for the number of matches, if they are only counted.
    counts: Option<usize>,
    /// Number of matches of the current row that were returned.
    taken: usize,
}

impl MergeScan {
    pub(crate) fn new(
        input: Fed,
        pattern: SlotPattern,
        order: Order,
        live: Arc<Slots>,
        context: Arc<QueryContext>,
    ) -> Self {
        let key = sorted_slot(&pattern, order).expect("the planner joins by a variable");
        let columns = ScanColumns::new(&pattern, &[key], &live);
        let group = vec![Vec::new(); columns.slots.len()];
        Self {
            input,
            columns,
            order,
            key,
            live,
            working: Working::new(context.governor()),
            context,
            scan: None,
            is_over: false,
            found: IdBatch::default(),
            position: 0,
            group_key: 0,
            group,
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

    /// Moves the scan to the first match whose key is at least `key`; returns false at the end.
    fn advance(&mut self, key: u64, key_column: usize) -> Result<bool, QueryError> {
        let scan = self.scan.as_mut().expect("opened before use");
        while !self.is_over {
            if self.position < self.found.rows {
                let keys = &self.found.columns[key_column];
                if keys[self.found.rows - 1] >= key {
                    self.position += gallop(&keys[self.position..], key);
                    return Ok(true);
                }
                scan.seek(TermId(key))?;
            }
            match scan.next()? {
                Some(found) => {
                    self.found = found;
                    self.position = 0;
                }
                None => {
                    self.found = IdBatch::default();
                    self.position = 0;
                    self.is_over = true;
                }
            }
        }
        Ok(false)
    }

    /// Gathers all matches of `key`, which may span batches of the scan.
    fn gather_group(&mut self, key: u64, key_column: usize) -> Result<(), QueryError> {
        self.group.iter_mut().for_each(Vec::clear);
        self.group_key = key;
        while self.advance(key, key_column)? {
            let keys = &self.found.columns[key_column][self.position..];
            let length = keys.iter().take_while(|k| **k == key).count();
            if length == 0 {
                break;
            }
            for (group, found) in self.group.iter_mut().zip(&self.found.columns) {
                group.extend_from_slice(&found[self.position..self.position + length]);
            }
            let capacity = self.group.iter().map(Vec::capacity).sum::<usize>();
            self.working.set(capacity * size_of::<u64>())?;
            self.position += length;
            if self.position < self.found.rows {
                break;
            }
            self.context.check()?;
        }
        Ok(())
    }

    /// Continues counting the matches of the current batch.
    fn count(&mut self, slot: usize) -> Result<Option<Batch>, QueryError> {
        let key_column = self.columns.column_of(self.key);
        let most = self.context.governor().batch_rows(self.live.len());
        let mut counted = CountedRows::default();
        while self.current.has_rows() && counted.len() < most {
            let row = self.current.row;
            let key = self.current.batch.value(self.key, row);
            if key != self.group_key {
                self.gather_group(key, key_column)?;
            }
            counted.add(&self.current.batch, row, slot, self.group[key_column].len());
            self.current.row += 1;
        }
        Ok(counted.gather(&self.current.batch, slot, &self.live))
    }

    /// Continues joining the current batch, up to one batch of results.
    fn join(&mut self) -> Result<Option<Batch>, QueryError> {
        let key_column = self.columns.column_of(self.key);
        let most = self.context.governor().batch_rows(self.live.len());
        let mut rows = Vec::new();
        let mut matches: Vec<Vec<u64>> = vec![Vec::new(); self.group.len()];
        while self.current.has_rows() && rows.len() < most {
            let row = self.current.row;
            let key = self.current.batch.value(self.key, row);
            debug_assert!(key >= self.group_key, "merge input is sorted");
            if key != self.group_key {
                self.gather_group(key, key_column)?;
            }
            let found = self.group[key_column].len();
            let count = if self.once { found.min(1) } else { found };
            let part = self.taken..count.min(self.taken + most - rows.len());
            rows.extend(std::iter::repeat_n(row as u32, part.len()));
            for (matches, group) in matches.iter_mut().zip(&self.group) {
                matches.extend_from_slice(&group[part.clone()]);
            }
            if part.end == count {
                (self.current.row, self.taken) = (row + 1, 0);
            } else {
                self.taken = part.end;
            }
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let mut out = self.current.pick(&rows, &self.live);
        for (column, &slot) in matches.into_iter().zip(&self.columns.slots) {
            if slot != self.key {
                out.columns[slot] = column;
            }
        }
        Ok(Some(out))
    }
}

impl RowSource for MergeScan {
    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            if !self.current.has_rows() {
                let Some(batch) = self.input.take() else {
                    return Ok(None);
                };
                let scan = match &mut self.scan {
                    Some(scan) => scan,
                    scan => scan.insert(self.columns.open(self.order, None, &self.context)?),
                };
                scan.expect(&batch.columns[self.key]);
                self.current = Cursor::over(batch);
            }
            self.context.check()?;
            let joined = match self.counts {
                Some(slot) => self.count(slot)?,
                None => self.join()?,
            };
            self.current.drop_used();
            if joined.is_some() {
                return Ok(joined);
            }
        }
    }
}
