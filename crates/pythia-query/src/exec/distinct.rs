//! Dropping duplicates inside a pipeline, where whoever reads it does not count them.
//!
//! Only to save work: a duplicate that gets through is dropped later. So the set of what was seen
//! is given up where it does not pay, or where memory is short.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::pipeline::{Fed, RowSource};
use super::slots::Slots;
use crate::error::QueryError;
use crate::governor::Share;
use crate::spill::table::RowSet;

/// After this many rows, at least one in [`DUPLICATES_MIN`] must have been a duplicate.
const TRIAL_ROWS: usize = 1 << 16;
/// See [`TRIAL_ROWS`].
const DUPLICATES_MIN: usize = 8;
/// Memory is asked for this many rows at a time.
const ROOM_ROWS: usize = 1024;

/// Keeps the first of the solutions that are alike in the live slots.
pub(crate) struct EarlyDistinct {
    input: Fed,
    live: Arc<Slots>,
    /// The live slots in order.
    key: Vec<usize>,
    context: Arc<QueryContext>,
    /// What was seen, and the memory for it; `None` once it is given up.
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

    /// The rows that are new; `None` if the set was given up.
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
        // What tells the rows that are fed apart may start anew, as in a test of EXISTS.
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
