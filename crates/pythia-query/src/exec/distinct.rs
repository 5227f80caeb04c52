//! Dropping duplicates inside a pipeline, where whoever reads it does not count them.
//!
//! Only to save work: a duplicate that gets through is dropped later. So the set of what was seen
//! is given up where it does not pay, or where memory is short.

use std::sync::Arc;

use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

use super::batch::Batch;
use super::context::QueryContext;
use super::pipeline::RowSource;
use crate::error::QueryError;
use crate::governor::Share;

/// After this many rows, at least one in [`DUPLICATES_MIN`] must have been a duplicate.
const TRIAL_ROWS: usize = 1 << 16;
/// See [`TRIAL_ROWS`].
const DUPLICATES_MIN: usize = 8;
/// What a hash table takes besides the ids.
const ENTRY_BYTES: usize = 32;

/// Solutions by their live slots.
type Seen = HashSet<Box<[u64]>, FxBuildHasher>;

/// Keeps the first of the solutions that are alike in the live slots.
pub(crate) struct EarlyDistinct {
    input: Box<dyn RowSource>,
    live: Vec<usize>,
    context: Arc<QueryContext>,
    /// What was seen, and the memory for it; `None` once it is given up.
    seen: Option<(Seen, Share)>,
    rows: usize,
}

impl EarlyDistinct {
    pub(crate) fn new(
        input: Box<dyn RowSource>,
        live: Vec<usize>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            live,
            seen: Some((Seen::default(), Share::new(context.governor()))),
            context,
            rows: 0,
        }
    }

    /// The rows that are new; `None` if the set was given up.
    fn new_rows(&mut self, batch: &Batch) -> Option<Vec<u32>> {
        let (seen, share) = self.seen.as_mut()?;
        let mut key = vec![0; self.live.len()];
        let mut fresh = Vec::new();
        for row in 0..batch.rows {
            for (id, slot) in key.iter_mut().zip(&self.live) {
                *id = batch.value(*slot, row);
            }
            if !seen.contains(&key[..]) {
                seen.insert(key.clone().into());
                fresh.push(row as u32);
            }
        }
        self.rows += batch.rows;
        let bytes = seen.len() * (key.len() * 8 + ENTRY_BYTES);
        let pays = self.rows < TRIAL_ROWS || seen.len() < self.rows - self.rows / DUPLICATES_MIN;
        if !pays || !share.fits(bytes) {
            self.seen = None;
        }
        Some(fresh)
    }
}

impl RowSource for EarlyDistinct {
    fn feed(&mut self, batch: Batch) {
        // What tells the rows that are fed apart may start anew, as in a test of EXISTS.
        if let Some((seen, _)) = &mut self.seen {
            seen.clear();
        }
        self.rows = 0;
        self.input.feed(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.next()? {
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
