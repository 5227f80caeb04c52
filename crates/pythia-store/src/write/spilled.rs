//! The changes of a large transaction that do not fit in memory: runs on the device that no manifest names.

use std::sync::Arc;

use super::Writer;
use crate::StoreError;
use crate::delta::device::merge::{Unmerged, due, merge};
use crate::delta::device::{DeviceRun, EachTerm, write_run};
use crate::delta::{KindCounts, MergedRows, Run};
use crate::manifest::RunEntry;
use crate::pace::Pace;
use crate::pattern::Order;
use crate::segment::SegmentOptions;

/// Threads that write the orders of a run.
const THREADS: usize = 2;
/// Memory that is needed while a run is written, or runs are merged: buffers of its files.
pub(super) const WRITING_BYTES: usize = 8 << 20;

/// Runs of a transaction on the device. They are removed with it.
pub(super) struct SpilledRuns {
    writer: Arc<Writer>,
    options: SegmentOptions,
    /// The payloads from which the transaction's new terms are numbered: the runs have none of these terms.
    first_terms: KindCounts,
    runs: Vec<Arc<DeviceRun>>,
}

impl SpilledRuns {
    /// Returns no runs.
    pub(super) fn new(
        writer: &Arc<Writer>,
        options: SegmentOptions,
        first_terms: &KindCounts,
    ) -> Self {
        Self {
            writer: Arc::clone(writer),
            options,
            first_terms: *first_terms,
            runs: Vec::new(),
        }
    }

    /// Returns the runs, the oldest first.
    pub(super) fn runs(&self) -> &[Arc<DeviceRun>] {
        &self.runs
    }

    /// Returns the approximate memory of the open runs.
    pub(super) fn memory_bytes(&self) -> usize {
        self.runs.iter().map(|run| run.memory_bytes()).sum()
    }

    /// Writes the changes of runs in memory as one run, and merges runs if there are many.
    pub(super) fn write(&mut self, runs: &[Arc<Run>]) -> Result<(), StoreError> {
        let rows_max = runs.iter().map(|run| run.len() as u64).sum();
        let rows = |order| Ok(MergedRows::new(runs, order).map(Ok));
        self.write_rows(rows_max, rows)
    }

    /// Writes changes as one run, given at most `rows_max` rows of each order, sorted; merges runs if there are many.
    pub(super) fn write_rows<R: Iterator<Item = Result<([u64; 4], bool), StoreError>>>(
        &mut self,
        rows_max: u64,
        rows: impl Fn(Order) -> Result<R, StoreError> + Sync,
    ) -> Result<(), StoreError> {
        self.writer.check_files()?;
        let terms = (&self.first_terms[..], 0, |_: EachTerm<'_>| Ok(()));
        let storage = Arc::clone(self.writer.pool.storage());
        let id = self.writer.next_run();
        let rows = (rows_max, rows);
        let entry = write_run(storage, id, self.options, terms, rows, THREADS)?;
        self.push(&entry)?;
        let entries = |runs: &[Arc<DeviceRun>]| -> Vec<RunEntry> {
            runs.iter().map(|run| run.entry().clone()).collect()
        };
        while let Some(range) = due(&entries(&self.runs), Unmerged::default()) {
            self.merge(range)?;
        }
        Ok(())
    }

    /// Merges all runs into one and returns it; `None` if their changes cancel. From now on the caller removes it.
    pub(super) fn into_one(mut self) -> Result<Option<Arc<DeviceRun>>, StoreError> {
        if self.runs.len() > 1 {
            self.merge(0..self.runs.len())?;
        }
        let has_changes = |run: &Arc<DeviceRun>| run.entry().changes() > 0;
        Ok(match self.runs.first().is_some_and(has_changes) {
            true => self.runs.pop(),
            false => None,
        })
    }

    fn merge(&mut self, range: std::ops::Range<usize>) -> Result<(), StoreError> {
        let storage = Arc::clone(self.writer.pool.storage());
        let id = self.writer.next_run();
        let entry = merge(storage, id, &self.runs[range.clone()], &Pace::default())?;
        self.push(&entry)?;
        let merged = self.runs.pop().expect("just pushed");
        for replaced in self.runs.splice(range, [merged]) {
            remove(&self.writer, &replaced);
        }
        Ok(())
    }

    fn push(&mut self, entry: &RunEntry) -> Result<(), StoreError> {
        let unnamed = self.writer.unnamed([entry.id.folder()]);
        let run = DeviceRun::open(&self.writer.pool, entry)?;
        unnamed.keep();
        self.runs.push(Arc::new(run));
        Ok(())
    }
}

impl Drop for SpilledRuns {
    fn drop(&mut self) {
        for run in &self.runs {
            remove(&self.writer, run);
        }
    }
}

/// Removes a run's files. Snapshots that read them have them open.
fn remove(writer: &Writer, run: &DeviceRun) {
    // Best effort: the next writer removes what remains.
    let _ = writer.pool.storage().remove(&run.entry().id.folder());
}
