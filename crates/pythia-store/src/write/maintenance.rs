//! Maintenance of runs: runs in memory are written to the device, runs on the device are merged, and finally all are
//! compacted into a new base ([`super::compaction`]; MaSM and Append/Pack in the Bulletin).
//!
//! Every step writes new files aside, switches the manifest once, and then publishes the new state to readers;
//! replaced files are removed when the last snapshot that reads them is dropped. After a crash the store is in the
//! old or the new state, and the next writer removes unfinished files, except for a base that it can continue. Steps
//! run one at a time, concurrently with readers and commits; commits wait only while the new state is put in place.
//!
//! A store never has more than [`RUNS_MAX`] runs on the device: a step that adds one first makes room for it.
//! Meanwhile changes gather in memory, and once there are too many, commits wait.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use pythia_log::Position;

use super::{Head, Writer};
use crate::StoreError;
use crate::compact::Extent;
use crate::delta::MergedRows;
use crate::delta::device::merge::{Unmerged, due, in_the_way, merge};
use crate::delta::device::{DeviceRun, EachTerm, write_run};
use crate::manifest::{LogEntry, Manifest, RunEntry, RunId};
use crate::snapshot::Snapshot;

/// Minimum number of bytes that a round of scrubbing counts as.
const SCRUB_BYTES_MIN: usize = 1 << 20;

/// Signals to and from the background threads.
#[derive(Default)]
pub(super) struct Background {
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Counts the signals that there may be work.
    wishes: u64,
    stopping: bool,
    /// For each task, the error of its last attempt, if that failed.
    failures: [Option<String>; 2],
}

/// Tasks of the background threads that may fail and are tried again after the next commits.
#[derive(Clone, Copy, Debug)]
enum Task {
    MoveRuns,
    Compact,
}

impl Background {
    pub(super) fn wake(&self) {
        self.state.lock().wishes += 1;
        self.changed.notify_all();
    }

    /// Wakes threads that wait for memory.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for work; returns false when stopping.
    fn next(&self, done: &mut u64) -> bool {
        let mut state = self.state.lock();
        while state.wishes == *done && !state.stopping {
            self.changed.wait(&mut state);
        }
        *done = state.wishes;
        !state.stopping
    }

    /// Records the outcome of a task, for waiting threads and operators.
    fn settled(&self, task: Task, outcome: Result<(), StoreError>) {
        let failure = outcome.err().map(|error| error.to_string());
        let mut state = self.state.lock();
        let before = &mut state.failures[task as usize];
        if *before != failure {
            // Attempts are as frequent as commits: a failure that lasts is logged once.
            match (task, &failure) {
                (_, None) => tracing::info!(?task, "background maintenance succeeded again"),
                (Task::MoveRuns, Some(error)) => tracing::error!(
                    "changes cannot be written from memory to runs, which is tried again after the next commit: {error}"
                ),
                (Task::Compact, Some(error)) => tracing::error!(
                    "changes cannot be compacted, which is tried again after the next commit: {error}"
                ),
            }
            *before = failure;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Returns the number of tasks whose last attempt failed.
    pub(super) fn failing(&self) -> usize {
        self.state.lock().failures.iter().flatten().count()
    }

    fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }
}

/// Background threads that run until this is dropped: one writes runs to the device and merges them, another
/// compacts, so that the first need not wait for the second.
pub(crate) struct Maintainer {
    writer: Arc<Writer>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintainer {
    pub(crate) fn start(writer: &Arc<Writer>) -> Self {
        let spawn = |name: &str, run: fn(&Writer)| {
            let writer = Arc::clone(writer);
            let thread = std::thread::Builder::new().name(name.to_owned());
            // Without a thread, runs stay where they are, and the log keeps their changes.
            thread.spawn(move || run(&writer)).ok()
        };
        writer.background.wake();
        let scrubs = writer.options.scrub_bytes_per_second.is_some();
        let threads = [
            spawn("move runs", Writer::move_until_stopped),
            spawn("compact", Writer::compact_until_stopped),
            scrubs
                .then(|| spawn("scrub", Writer::scrub_until_stopped))
                .flatten(),
        ];
        Self {
            writer: Arc::clone(writer),
            threads: threads.into_iter().flatten().collect(),
        }
    }
}

impl Drop for Maintainer {
    fn drop(&mut self) {
        self.writer.pace.cancel();
        self.writer.scrub_pace.cancel();
        self.writer.background.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Writer {
    fn move_until_stopped(&self) {
        let mut done = 0;
        while self.background.next(&mut done) {
            let outcome = self.move_due();
            self.background.settled(Task::MoveRuns, outcome);
        }
    }

    fn compact_until_stopped(&self) {
        let mut done = 0;
        while self.background.next(&mut done) {
            if self.is_compaction_due() {
                let outcome = self.compact_due().map(|_| ());
                self.background.settled(Task::Compact, outcome);
            }
        }
    }

    fn scrub_until_stopped(&self) {
        // Findings are kept; the loop ends when it is cancelled.
        while self.scrub(&self.scrub_pace).is_ok() {
            // A store without pages must not cause a busy loop.
            self.scrub_pace.passed(SCRUB_BYTES_MIN);
        }
    }

    /// Performs the maintenance that is due.
    pub(crate) fn maintain(&self) -> Result<(), StoreError> {
        self.move_due()?;
        if self.is_compaction_due() {
            self.compact_due()?;
        }
        Ok(())
    }

    fn move_due(&self) -> Result<(), StoreError> {
        if self.memory_bytes() > self.options.memory_bytes
            && self.flush()?
            && self.is_compaction_due()
        {
            self.background.wake();
        }
        while self.merge_due()? {}
        Ok(())
    }

    /// Returns the number of background tasks whose last attempt failed.
    pub(crate) fn failing(&self) -> usize {
        self.background.failing()
    }

    /// Returns the memory of runs and new terms.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state
            .read()
            .snapshot
            .delta()
            .map_or(0, |delta| delta.memory_bytes())
    }

    /// Wakes the threads if there is work; waits if memory is far over its limit.
    pub(super) fn after_commit(&self) {
        let limit = self.options.memory_bytes;
        if !self.options.in_background || self.memory_bytes() <= limit {
            return;
        }
        self.background.wake();
        let mut state = self.background.state.lock();
        // If runs cannot be written, waiting does not help.
        while self.memory_bytes() > 2 * limit
            && state.failures[Task::MoveRuns as usize].is_none()
            && !state.stopping
        {
            self.background.changed.wait(&mut state);
        }
    }

    /// Writes the runs and new terms in memory to the device. Returns whether there were any.
    pub(crate) fn flush(&self) -> Result<bool, StoreError> {
        let _alone = self.maintenance.lock();
        self.flush_alone()
    }

    /// As [`Self::flush`]; the caller holds `maintenance`.
    pub(super) fn flush_alone(&self) -> Result<bool, StoreError> {
        self.check_files()?;
        self.make_room(1)?;
        let (frozen, last) = {
            let mut head = self.head.lock();
            let frozen = head.delta().frozen();
            head.snapshot = head.snapshot.with_delta(frozen);
            (head.snapshot.clone(), head.last)
        };
        let Some(entry) = self.write_memory_run(&frozen)? else {
            return Ok(false);
        };
        let mut head = self.head.lock();
        self.put_flushed(&mut head, &frozen, entry, last)?;
        drop(head);
        self.checkpoint(Position(last + 1))?;
        self.background.notify();
        Ok(true)
    }

    /// Writes all changes to the device and returns the head, locked. This ends regardless of concurrent commits:
    /// changes that arrive during the first write are written while commits wait, and are bounded by the memory
    /// limit.
    ///
    /// The caller holds `maintenance`; there must be room for two runs.
    pub(super) fn flushed_head(&self) -> Result<MutexGuard<'_, Head>, StoreError> {
        self.flush_alone()?;
        let mut head = self.head.lock();
        let (snapshot, last) = (head.snapshot.clone(), head.last);
        if let Some(entry) = self.write_memory_run(&snapshot)? {
            self.put_flushed(&mut head, &snapshot, entry, last)?;
        }
        Ok(head)
    }

    /// Replaces the changes that the snapshot `written`, with the commits up to `last`, has in memory by a run on the
    /// device.
    fn put_flushed(
        &self,
        head: &mut Head,
        written: &Snapshot,
        entry: RunEntry,
        last: u64,
    ) -> Result<(), StoreError> {
        let unnamed = self.unnamed([entry.id.folder()]);
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        let mut manifest = self.manifest();
        manifest.runs.push(entry);
        log_of(&mut manifest).position = Position(last + 1);
        let delta = written.delta().expect("a writer's snapshots have one");
        let flushed = head.delta().flushed(delta, run);
        let snapshot = head.snapshot.with_delta(flushed);
        self.install(head, manifest, snapshot, unnamed)
    }

    /// Merges device runs of similar size, if there are many. Returns whether there were.
    pub(crate) fn merge_due(&self) -> Result<bool, StoreError> {
        let _alone = self.maintenance.lock();
        self.check(&mut self.head.lock())?;
        match due(&self.manifest().runs, self.unmerged()) {
            None => Ok(false),
            Some(range) => self.merge_alone(range).map(|()| true),
        }
    }

    /// Merges runs until `more` runs may be added. The caller holds `maintenance` and does not hold the head.
    pub(super) fn make_room(&self, more: usize) -> Result<(), StoreError> {
        // A concurrent switch that failed may have left a state with other runs.
        self.check(&mut self.head.lock())?;
        let range = || {
            let runs = &self.manifest().runs;
            in_the_way(runs, more, self.options.runs_max, self.unmerged())
        };
        while let Some(range) = range() {
            self.merge_alone(range)?;
        }
        Ok(())
    }

    /// Returns the runs that are not merged now.
    fn unmerged(&self) -> Unmerged {
        let compacting = self.compacting_from.lock();
        let kept = compacting.iter().find(|from| from.extent == Extent::Orders);
        Unmerged {
            first: kept.map_or(0, |from| from.manifest.runs.len()),
            apart: *self.apart.lock(),
        }
    }

    /// Merges adjacent device runs into one; the caller holds `maintenance`.
    fn merge_alone(&self, range: Range<usize>) -> Result<(), StoreError> {
        self.check_files()?;
        let (before, runs) = {
            let state = self.state.read();
            let delta = state
                .snapshot
                .delta()
                .expect("a writer's snapshots have one");
            (Arc::clone(&state.manifest), delta.device().to_vec())
        };
        let mut manifest = Manifest::clone(&before);
        let storage = Arc::clone(self.pool.storage());
        let entry = merge(storage, self.next_run(), &runs[range.clone()], &self.pace)?;
        let unnamed = self.unnamed([entry.id.folder()]);
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        manifest.runs.splice(range.clone(), [entry]);
        let mut device = runs;
        device.splice(range.clone(), [run]);
        let mut head = self.head.lock();
        self.settle(&mut head)?;
        // The installed state names these runs: any other state was put in place without `maintenance`.
        let is_same = Arc::ptr_eq(&before, &self.state.read().manifest);
        assert!(is_same, "the state that was merged is still the store's");
        let merged = head.delta().with_device(device);
        let snapshot = head.snapshot.with_delta(merged);
        let installed = self.install(&mut head, manifest, snapshot, unnamed);
        // After a switch with an unknown outcome the new state comes before anything else.
        if matches!(installed, Ok(()) | Err(StoreError::Switching { .. }))
            && let Some(apart) = &mut *self.apart.lock()
            && range.end <= *apart
        {
            *apart -= range.len() - 1;
        }
        installed
    }

    /// Returns whether a compaction is due, or one was interrupted.
    fn is_compaction_due(&self) -> bool {
        self.compacting_from.lock().is_some() || self.options.is_compaction_due(&self.manifest())
    }

    /// Lets the log drop commits before a position, unless a compaction has yet to replay them.
    pub(super) fn checkpoint(&self, position: Position) -> Result<(), StoreError> {
        // The store that replaced this one may need log files of the same names.
        self.check_files()?;
        let needed = self.compacting_from.lock().as_ref().and_then(|from| {
            // With the same ids, nothing is replayed.
            (from.extent == Extent::Whole).then(|| position_of(&from.manifest))
        });
        let position = needed.map_or(position, |needed| needed.min(position));
        Ok(self.log.checkpoint(position)?)
    }

    /// Returns a number that no run has had.
    pub(super) fn next_run(&self) -> RunId {
        RunId(self.runs_made.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Writes the runs and new terms that a snapshot has in memory to the device; `None` if there are none.
    pub(super) fn write_memory_run(
        &self,
        snapshot: &Snapshot,
    ) -> Result<Option<RunEntry>, StoreError> {
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        if delta.is_on_device() {
            return Ok(None);
        }
        // Written while they are merged, without a copy in memory.
        let rows_max = delta.runs().iter().map(|run| run.len() as u64).sum();
        let rows = |order| Ok(MergedRows::new(delta.runs(), order).map(Ok));
        let rows = (rows_max, rows);
        let view = &delta.terms()[0];
        let terms = |each: EachTerm<'_>| view.each_sorted(each);
        let terms = (&view.first()[..], view.len(), terms);
        let storage = Arc::clone(self.pool.storage());
        let options = snapshot.base().options();
        write_run(storage, self.next_run(), options, terms, rows, 1).map(Some)
    }

    /// Removes the folders of an old state that neither the present state nor a compaction needs.
    pub(super) fn remove_replaced(&self, old: &Manifest) {
        let needed: Vec<String> = {
            let from = self.compacting_from.lock();
            let of_compaction = from.iter().flat_map(|from| from.manifest.folders());
            of_compaction.chain(self.manifest().folders()).collect()
        };
        for folder in old.folders().filter(|folder| !needed.contains(folder)) {
            // Readers of its files have them open; if this fails, the next writer removes them.
            let _ = self.pool.storage().remove(&folder);
        }
    }

    /// Returns a copy of the manifest.
    pub(super) fn manifest(&self) -> Manifest {
        Manifest::clone(&self.state.read().manifest)
    }
}

pub(super) fn log_of(manifest: &mut Manifest) -> &mut LogEntry {
    manifest
        .log
        .as_mut()
        .expect("a store that is written to has a log")
}

/// Returns the position of the first commit that a state does not have.
pub(super) fn position_of(manifest: &Manifest) -> Position {
    let log = manifest.log.as_ref();
    log.map_or(Position::FIRST, |log| log.position)
}
