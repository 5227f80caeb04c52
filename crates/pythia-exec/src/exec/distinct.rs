//! Early removal of duplicates inside a pipeline whose reader does not count them.
//!
//! It only saves work: duplicates that get through are removed later. So the set of seen solutions is
//! dropped if it does not pay or memory is short.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::limits::governor::Share;
use crate::limits::spill::table::RowSet;
use crate::plan::slots::Slots;

/// Number of rows after which at least one in [`DUPLICATES_MIN`] must have been a duplicate.
const TRIAL_ROWS: usize = 1 << 16;
/// See [`TRIAL_ROWS`].
const DUPLICATES_MIN: usize = 8;
/// Number of rows for which memory is reserved at a time.
const ROOM_ROWS: usize = 1024;

/// Keeps the first of the solutions that are equal in the live slots.
pub(crate) struct EarlyDistinct {
    input: Fed,
    live: Arc<Slots>,
    /// The live slots in order.
    key: Vec<usize>,
    context: Arc<QueryContext>,
    /// The seen solutions and the memory for them; `None` once they are dropped.
    seen: Option<(RowSet, Share)>,
    rows: usize,
}

impl EarlyDistinct {
    pub(crate) fn new(input: Fed, live: Arc<Slots>, context: Arc<QueryContext>) -> Self {
        let key: Vec<usize> = live.iter().collect();
        let seen = RowSet::new(key.len(), 0);
        Self {
            input,
            key,
            live,
            seen: Some((seen, Share::new(context.governor()))),
            context,
            rows: 0,
        }
    }

    /// Returns the rows that are new; `None` if the set was dropped.
    fn new_rows(&mut self, batch: &Batch) -> Option<Vec<u32>> {
        let (seen, share) = self.seen.as_mut()?;
        let mut key = vec![0; self.key.len()];
        let mut fresh = Vec::new();
        for row in 0..batch.rows {
            if row.is_multiple_of(ROOM_ROWS) && !share.fits(seen.bytes_with(ROOM_ROWS)) {
                // The rest of the batch is let through.
                fresh.extend(row as u32..batch.rows as u32);
                self.seen = None;
                return Some(fresh);
            }
            for (id, slot) in key.iter_mut().zip(&self.key) {
                *id = batch.value(*slot, row);
            }
            if seen.insert(seen.hash(&key), &key).1 {
                fresh.push(row as u32);
            }
        }
        self.rows += batch.rows;
        let duplicates_min = self.rows / DUPLICATES_MIN;
        if self.rows >= TRIAL_ROWS && seen.len() >= self.rows - duplicates_min {
            self.seen = None;
        }
        Some(fresh)
    }
}

impl RowSource for EarlyDistinct {
    fn begin(&mut self) {
        // The row numbers of a test of EXISTS start from 1 again with each feed.
        if let Some((seen, _)) = &mut self.seen {
            *seen = RowSet::new(self.key.len(), 0);
        }
    }

    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            match self.new_rows(&batch) {
                None => return Ok(Some(batch)),
                Some(rows) if rows.len() == batch.rows => return Ok(Some(batch)),
                Some(rows) if rows.is_empty() => {}
                Some(rows) => return Ok(Some(batch.gather(&rows, &self.live))),
            }
        }
        Ok(None)
    }
}
