//! Early removal of duplicates inside a pipeline whose reader does not count them.
//!
//! It only saves work: duplicates that get through are removed later. So the set of seen solutions is
//! dropped if it does not pay or memory is short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::batch::Batch;
use super::context::QueryContext;
use super::row_source::{Fed, RowSource};
use crate::error::QueryError;
use crate::explain::CostId;
use crate::limits::governor::Share;
use crate::limits::spill::table::RowSet;
use crate::plan::slots::Slots;

/// Number of rows after which at least one in [`DUPLICATES_MIN`] must have been a duplicate.
const TRIAL_ROWS: usize = 1 << 16;
/// See [`TRIAL_ROWS`].
const DUPLICATES_MIN: usize = 8;
/// Number of rows after which nearly none of a set pays: at least one in [`FEW_DUPLICATES_MIN`] must have been a duplicate.
const FEW_ROWS: usize = 1 << 14;
/// See [`FEW_ROWS`].
const FEW_DUPLICATES_MIN: usize = 64;
/// With this many solutions, the set no longer fits into the processor's cache. Then at least one row in
/// [`LARGE_DUPLICATES_MIN`] must have been a duplicate: a lookup takes as long as a join.
const LARGE_SET: usize = 1 << 19;
/// See [`LARGE_SET`].
const LARGE_DUPLICATES_MIN: usize = 2;
/// Number of rows for which memory is reserved at a time.
const ROOM_ROWS: usize = 1024;

/// Keeps the first of the solutions that are equal in the live slots.
pub(crate) struct EarlyDistinct {
    input: Fed,
    live: Arc<Slots>,
    key: Key,
    context: Arc<QueryContext>,
    /// The seen solutions and the memory for them; `None` once they are dropped.
    seen: Option<(RowSet, Share)>,
    /// Number of rows that were tested, and of those that were kept.
    rows: usize,
    kept: usize,
    trial: Arc<Trial>,
}

/// Trials by step: pipelines that run side by side have one in common.
#[derive(Default)]
pub(super) struct Trials(Mutex<FxHashMap<CostId, Arc<Trial>>>);

impl Trials {
    /// Returns the trial of a step.
    pub(super) fn of_step(&self, step: CostId) -> Arc<Trial> {
        Arc::clone(self.0.lock().entry(step).or_default())
    }
}

/// Records that the early removal of duplicates does not pay.
#[derive(Default)]
pub(super) struct Trial(AtomicBool);

impl Trial {
    fn has_failed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn fail(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The live slots that tell solutions apart. Slots with one value in all rows so far do not.
#[derive(Default)]
struct Key {
    varying: Vec<usize>,
    /// The other slots with their values.
    fixed: Vec<(usize, u64)>,
}

impl Key {
    /// Returns the key for the rows of a batch.
    fn of(batch: &Batch, live: &Slots) -> Self {
        let mut key = Self::default();
        for slot in live.iter() {
            let value = match batch.rows {
                0 => 0,
                _ => batch.value(slot, 0),
            };
            match has_only(batch, slot, value) {
                true => key.fixed.push((slot, value)),
                false => key.varying.push(slot),
            }
        }
        key
    }

    /// Returns whether the rows of a batch have the same values in the fixed slots.
    fn fits(&self, batch: &Batch) -> bool {
        let mut fixed = self.fixed.iter();
        fixed.all(|&(slot, value)| has_only(batch, slot, value))
    }

    /// Takes all slots into the key.
    fn widen(&mut self) {
        let fixed = self.fixed.drain(..).map(|(slot, _)| slot);
        self.varying.extend(fixed);
    }
}

/// Returns whether a slot has this value in all rows.
fn has_only(batch: &Batch, slot: usize, value: u64) -> bool {
    match batch.columns[slot].as_slice() {
        [] => value == 0 || batch.rows == 0,
        ids => ids.iter().all(|id| *id == value),
    }
}

impl EarlyDistinct {
    pub(super) fn new(
        input: Fed,
        live: Arc<Slots>,
        trial: Arc<Trial>,
        context: Arc<QueryContext>,
    ) -> Self {
        Self {
            input,
            key: Key::default(),
            live,
            seen: Some((RowSet::new(0, 0), Share::new(context.governor()))),
            context,
            rows: 0,
            kept: 0,
            trial,
        }
    }

    /// Returns the rows that are new; `None` if the set was dropped.
    fn new_rows(&mut self, batch: &Batch) -> Option<Vec<u32>> {
        if self.trial.has_failed() {
            self.seen = None;
        }
        let (seen, share) = self.seen.as_mut()?;
        if seen.len() == 0 {
            self.key = Key::of(batch, &self.live);
            *seen = RowSet::new(self.key.varying.len(), 0);
        } else if !self.key.fits(batch) {
            // Solutions that were seen with the narrow key get through once more.
            self.key.widen();
            *seen = RowSet::new(self.key.varying.len(), 0);
        }
        let slots = &self.key.varying;
        let mut key = vec![0; slots.len()];
        let mut fresh = Vec::new();
        for row in 0..batch.rows {
            if row.is_multiple_of(ROOM_ROWS) && !share.fits(seen.bytes_with(ROOM_ROWS)) {
                // The rest of the batch is let through.
                fresh.extend(row as u32..batch.rows as u32);
                self.seen = None;
                return Some(fresh);
            }
            for (id, slot) in key.iter_mut().zip(slots) {
                *id = batch.value(*slot, row);
            }
            if seen.insert(seen.hash(&key), &key).1 {
                fresh.push(row as u32);
            }
        }
        self.rows += batch.rows;
        self.kept += fresh.len();
        let duplicates_min = match seen.len() < LARGE_SET {
            true if self.rows < FEW_ROWS => return Some(fresh),
            true if self.rows < TRIAL_ROWS => self.rows / FEW_DUPLICATES_MIN,
            true => self.rows / DUPLICATES_MIN,
            false => self.rows / LARGE_DUPLICATES_MIN,
        };
        if self.kept >= self.rows - duplicates_min {
            self.trial.fail();
            self.seen = None;
        }
        Some(fresh)
    }
}

impl RowSource for EarlyDistinct {
    fn begin(&mut self) {
        // The row numbers of a test of EXISTS start from 1 again with each feed.
        if let Some((seen, _)) = &mut self.seen {
            *seen = RowSet::new(0, 0);
        }
    }

    /// Solutions of earlier parts come before those of later ones, whichever thread has them.
    fn go_on(&mut self) {}

    fn feed(&mut self, batch: Batch) {
        self.input.put(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        while let Some(batch) = self.input.take() {
            self.context.check()?;
            match self.new_rows(&batch) {
                None => return Ok(Some(batch)),
                Some(rows) if rows.is_empty() => {}
                Some(rows) => return Ok(Some(batch.pick(&rows, &self.live))),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(columns: &[&[u64]]) -> Batch {
        let mut batch = Batch::empty(columns.len());
        batch.rows = columns.iter().map(|ids| ids.len()).max().unwrap_or(0);
        batch.columns = columns.iter().map(|ids| ids.to_vec()).collect();
        batch
    }

    #[test]
    fn slots_with_one_value_are_not_in_the_key_until_they_have_another() {
        let live = Slots::from_iter(0..4);
        let mut key = Key::of(&batch(&[&[7, 7], &[1, 2], &[], &[0, 5]]), &live);
        assert_eq!(key.varying, [1, 3]);
        assert_eq!(key.fixed, [(0, 7), (2, 0)]);
        assert!(key.fits(&batch(&[&[7], &[9], &[], &[9]])));
        assert!(key.fits(&batch(&[&[7], &[9], &[0], &[]])));
        assert!(!key.fits(&batch(&[&[8], &[9], &[], &[9]])));
        assert!(!key.fits(&batch(&[&[7], &[9], &[3], &[9]])));
        assert!(!key.fits(&batch(&[&[], &[9], &[], &[9]])));
        key.widen();
        assert_eq!(key.varying, [1, 3, 0, 2]);
        assert!(key.fits(&batch(&[&[8], &[9], &[3], &[9]])));
    }

    #[test]
    fn rows_that_are_all_equal_are_one_row() {
        let live = Slots::from_iter(0..2);
        let rows = batch(&[&[7, 7, 7], &[]]);
        let key = Key::of(&rows, &live);
        assert!(key.varying.is_empty());
        let mut seen = RowSet::new(key.varying.len(), 0);
        let fresh = (0..rows.rows).filter(|_| seen.insert(seen.hash(&[]), &[]).1);
        assert_eq!(fresh.count(), 1);
    }
}
