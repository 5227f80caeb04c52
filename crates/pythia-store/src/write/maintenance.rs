//! What becomes of runs: those in memory go to the device, those on the device become one, and in
//! the end all become a new base (MaSM and Append/Pack in the Bulletin).
//!
//! Every step writes new files aside, switches the manifest once, and then lets readers see the new
//! state; what it replaces goes when the last snapshot that reads it does. After a crash the store is
//! in the old state or the new, and what was being written is removed by the next writer. Steps run
//! one at a time, beside readers and commits; those wait only while the new state is put in place.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};
use pythia_log::Position;

use super::{Head, Replay, Writer};
use crate::StoreError;
use crate::auxiliary::{Auxiliaries, AuxiliaryKind, OptimizeOptions, rebuild};
use crate::delta::device::merge::{due, merge};
use crate::delta::device::{DeviceRun, write_run};
use crate::delta::{Run, RunEntry, RunId};
use crate::manifest::{LogEntry, Manifest, SegmentId};
use crate::pattern::Order;
use crate::rewrite::{RewriteOptions, rewrite};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// A round of scrubbing counts as so many bytes at least.
const SCRUB_BYTES_MIN: usize = 1 << 20;

/// When and how runs are moved.
#[derive(Clone, Debug)]
pub struct MaintenanceOptions {
    /// Memory for runs and new terms; beyond, they go to the device. Commits wait once it is twice
    /// as much.
    pub memory_bytes: usize,
    /// A new base is written when this many hundredths of it have changed.
    pub rewrite_percent: u64,
    /// Fewer changed quads than these are not worth a new base.
    pub rewrite_quads_min: u64,
    /// Bytes per second that merging and rewriting may write; `None` is no limit.
    pub bytes_per_second: Option<u64>,
    /// Bytes per second at which all pages are read again and again, to find what goes bad;
    /// `None`: they are not.
    pub scrub_bytes_per_second: Option<u64>,
    /// Whether all this happens by itself.
    pub in_background: bool,
    /// How a new base is written.
    pub rewrite: RewriteOptions,
}

impl Default for MaintenanceOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            rewrite_percent: 10,
            rewrite_quads_min: 1 << 16,
            bytes_per_second: None,
            scrub_bytes_per_second: None,
            in_background: true,
            rewrite: RewriteOptions::default(),
        }
    }
}

impl MaintenanceOptions {
    /// Whether so much has changed that a new base is worth it.
    pub(crate) fn is_rewrite_due(&self, manifest: &Manifest) -> bool {
        let changes: u64 = manifest.runs.iter().map(RunEntry::changes).sum();
        changes >= self.rewrite_quads_min && changes * 100 >= manifest.quads * self.rewrite_percent
    }
}

/// What a rewrite has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Quads of the new base.
    pub quads: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Auxiliary files that could not be built again, with the old ids they were about, and why.
    pub dropped: Vec<(AuxiliaryKind, String)>,
}

/// What the threads in the background are told, and say.
#[derive(Default)]
pub(super) struct Background {
    state: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// Counts the times that there may have become something to do.
    wishes: u64,
    stopping: bool,
    /// Why moving runs has failed the last time.
    failure: Option<String>,
}

impl Background {
    fn wake(&self) {
        self.state.lock().wishes += 1;
        self.changed.notify_all();
    }

    /// Waits for something to do; false at the end.
    fn next(&self, done: &mut u64) -> bool {
        let mut state = self.state.lock();
        while state.wishes == *done && !state.stopping {
            self.changed.wait(&mut state);
        }
        *done = state.wishes;
        !state.stopping
    }

    /// Notes the outcome of moving runs, for those who wait.
    fn settled(&self, outcome: Result<(), StoreError>) {
        self.state.lock().failure = outcome.err().map(|error| error.to_string());
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.state.lock().stopping = true;
        self.changed.notify_all();
    }
}

/// Threads that move runs until this is dropped: one moves them to the device and merges them
/// there, one writes new bases, so that the first need not wait for the second.
pub(crate) struct Maintainer {
    writer: Arc<Writer>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintainer {
    pub(crate) fn start(writer: &Arc<Writer>) -> Self {
        let spawn = |name: &str, run: fn(&Writer)| {
            let writer = Arc::clone(writer);
            let thread = std::thread::Builder::new().name(name.to_owned());
            // Without a thread runs stay where they are, and the log keeps what they hold.
            thread.spawn(move || run(&writer)).ok()
        };
        writer.background.wake();
        let scrubs = writer.options.scrub_bytes_per_second.is_some();
        let threads = [
            spawn("move runs", Writer::move_until_stopped),
            spawn("rewrite", Writer::rewrite_until_stopped),
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
            self.background.settled(outcome);
        }
    }

    fn rewrite_until_stopped(&self) {
        let mut done = 0;
        while self.background.next(&mut done) {
            if self.is_rewrite_due() {
                // What fails now is tried again after the next commits.
                let _ = self.rewrite();
            }
        }
    }

    fn scrub_until_stopped(&self) {
        // What it finds is kept; it ends when it is cancelled.
        while self.scrub(&self.scrub_pace).is_ok() {
            // A store without pages is not read in a busy loop.
            self.scrub_pace.passed(SCRUB_BYTES_MIN);
        }
    }

    /// Does what is due.
    pub(crate) fn maintain(&self) -> Result<(), StoreError> {
        self.move_due()?;
        if self.is_rewrite_due() {
            self.rewrite()?;
        }
        Ok(())
    }

    fn move_due(&self) -> Result<(), StoreError> {
        if self.memory_bytes() > self.options.memory_bytes && self.flush()? && self.is_rewrite_due()
        {
            self.background.wake();
        }
        while self.merge_due()? {}
        Ok(())
    }

    /// Memory of runs and new terms.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.state
            .read()
            .snapshot
            .delta()
            .map_or(0, |delta| delta.memory_bytes())
    }

    /// Wakes the threads if there is something to do; waits if there is far too much.
    pub(super) fn after_commit(&self) {
        let limit = self.options.memory_bytes;
        if !self.options.in_background || self.memory_bytes() <= limit {
            return;
        }
        self.background.wake();
        let mut state = self.background.state.lock();
        // Where runs cannot be moved, waiting does not help.
        while self.memory_bytes() > 2 * limit && state.failure.is_none() && !state.stopping {
            self.background.changed.wait(&mut state);
        }
    }

    /// Moves the runs in memory to the device; whether there were any.
    pub(crate) fn flush(&self) -> Result<bool, StoreError> {
        let _alone = self.maintenance.lock();
        self.flush_alone()
    }

    pub(super) fn flush_alone(&self) -> Result<bool, StoreError> {
        let (frozen, last) = {
            let mut head = self.head.lock();
            let frozen = head.delta().frozen();
            head.snapshot = head.snapshot.with_delta(frozen);
            (head.snapshot.clone(), head.last)
        };
        let delta = frozen.delta().expect("a writer's snapshots have one");
        if delta.runs().is_empty() {
            return Ok(false);
        }
        let entry = self.write_memory_run(&frozen)?;
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        let mut manifest = self.manifest();
        manifest.runs.push(entry);
        log_of(&mut manifest).position = Position(last + 1);
        let mut head = self.head.lock();
        let flushed = head.delta().flushed(delta, run);
        let snapshot = head.snapshot.with_delta(flushed);
        self.install(&mut head, manifest, snapshot)?;
        drop(head);
        self.checkpoint(Position(last + 1))?;
        self.background.changed.notify_all();
        Ok(true)
    }

    /// Merges device runs of similar size, if there are many; whether there were.
    pub(crate) fn merge_due(&self) -> Result<bool, StoreError> {
        let _alone = self.maintenance.lock();
        let mut manifest = self.manifest();
        let Some(range) = due(&manifest.runs) else {
            return Ok(false);
        };
        let runs = {
            let state = self.state.read();
            let delta = state
                .snapshot
                .delta()
                .expect("a writer's snapshots have one");
            delta.device().to_vec()
        };
        let storage = Arc::clone(self.pool.storage());
        let entry = merge(storage, self.next_run(), &runs[range.clone()], &self.pace)?;
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        manifest.runs.splice(range.clone(), [entry]);
        let mut device = runs;
        device.splice(range, [run]);
        let mut head = self.head.lock();
        let merged = head.delta().with_device(device);
        let snapshot = head.snapshot.with_delta(merged);
        self.install(&mut head, manifest, snapshot)?;
        Ok(true)
    }

    fn is_rewrite_due(&self) -> bool {
        self.options.is_rewrite_due(&self.manifest())
    }

    /// Writes a new base that has all changes so far, with ids in the order of their terms.
    pub(crate) fn rewrite(&self) -> Result<Rewritten, StoreError> {
        let _alone = self.rewriting.lock();
        let (old, base, runs) = {
            let _moving = self.maintenance.lock();
            self.flush_alone()?;
            let state = self.state.read();
            let delta = state
                .snapshot
                .delta()
                .expect("a writer's snapshots have one");
            let old = Manifest::clone(&state.manifest);
            // From here on commits are to be replayed.
            *self.log_needed.lock() = old.log.as_ref().map(|log| log.position);
            (
                old,
                Arc::clone(state.snapshot.base()),
                delta.device().to_vec(),
            )
        };
        let rewritten = self.rewrite_from(&old, &base, &runs);
        *self.log_needed.lock() = None;
        let rewritten = rewritten?;
        self.checkpoint(
            self.manifest()
                .log
                .map_or(Position::FIRST, |log| log.position),
        )?;
        Ok(rewritten)
    }

    fn rewrite_from(
        &self,
        old: &Manifest,
        base: &Arc<Segment>,
        runs: &[Arc<DeviceRun>],
    ) -> Result<Rewritten, StoreError> {
        let mut manifest = old.clone();
        manifest.segment = SegmentId(old.segment.0 + 1);
        let storage = Arc::clone(self.pool.storage());
        let options = &self.options.rewrite;
        let new = rewrite(base, runs, storage, manifest.segment, options, &self.pace)?;
        manifest.quads = new.segment.quads;
        manifest.files = new.segment.files.clone();
        manifest.runs.clear();
        let segment = Arc::new(Segment::open_base(&self.pool, &manifest)?);
        let building = OptimizeOptions {
            memory_bytes: options.memory_bytes,
            ..OptimizeOptions::default()
        };
        let rebuilt = rebuild(
            &self.pool,
            &segment,
            &old.auxiliary,
            &new.mapping,
            building,
            &self.pace,
        )?;
        manifest.auxiliary = rebuilt.entries;
        let auxiliaries = Arc::new(Auxiliaries::open(&self.pool, &manifest)?);
        self.catch_up(Snapshot::new(segment, auxiliaries), manifest)?;
        Ok(Rewritten {
            quads: new.segment.quads,
            bytes: new.segment.bytes(),
            dropped: rebuilt.dropped,
        })
    }

    /// Applies to a new base what was committed while it was written, then puts it in place.
    fn catch_up(&self, base: Snapshot, mut manifest: Manifest) -> Result<(), StoreError> {
        let mut from = log_of(&mut manifest).position;
        let mut replay = Replay::new(&base, Vec::new(), from.0 - 1);
        // Most of it while commits go on, the rest while they wait.
        for _ in 0..2 {
            replay.commits(self.log.reader().commits_from(from)?)?;
            from = Position(replay.last() + 1);
            self.spill(&mut replay, &mut manifest)?;
        }
        let _moving = self.maintenance.lock();
        let mut head = self.head.lock();
        self.settle(&head)?;
        replay.commits(self.log.reader().commits_from(from)?)?;
        let (snapshot, last) = replay.finish();
        debug_assert_eq!(last, head.last, "the log has what was committed");
        self.install(&mut head, manifest, snapshot)?;
        // Transactions that have begun before hold ids of the old base.
        head.recent.forget_all(last);
        drop(head);
        self.background.changed.notify_all();
        Ok(())
    }

    /// Moves what was replayed to the device if it is too much for memory.
    fn spill(&self, replay: &mut Replay, manifest: &mut Manifest) -> Result<(), StoreError> {
        let snapshot = replay.snapshot();
        let delta = snapshot.delta().expect("it was made with one");
        if delta.memory_bytes() <= self.options.memory_bytes {
            return Ok(());
        }
        let entry = self.write_memory_run(&snapshot)?;
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        manifest.runs.push(entry);
        log_of(manifest).position = Position(replay.last() + 1);
        replay.flushed(delta, run);
        Ok(())
    }

    /// Lets the log drop what is before a position, unless a rewrite is to replay it.
    pub(super) fn checkpoint(&self, position: Position) -> Result<(), StoreError> {
        let needed = *self.log_needed.lock();
        let position = needed.map_or(position, |needed| needed.min(position));
        Ok(self.log.checkpoint(position)?)
    }

    /// A number that no run has had.
    pub(super) fn next_run(&self) -> RunId {
        RunId(self.runs_made.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Writes the runs that a snapshot has in memory to the device, with the new terms.
    fn write_memory_run(&self, snapshot: &Snapshot) -> Result<RunEntry, StoreError> {
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        let runs: Vec<&Run> = delta.runs().iter().map(|run| &**run).collect();
        let merged = Run::merged(&runs);
        let terms = delta.terms()[0].sorted();
        let keys = terms.iter().map(|(key, id)| (key.as_key(), *id));
        let storage = Arc::clone(self.pool.storage());
        let rows = |order: Order| merged.rows(order).iter();
        let first = &delta.terms()[0].first()[..];
        let rows = (merged.len() as u64, rows);
        let options = snapshot.base().options();
        write_run(storage, self.next_run(), options, (first, keys), rows)
    }

    /// Waits until all that the head has is durable.
    pub(super) fn settle(&self, head: &Head) -> Result<(), StoreError> {
        head.check()?;
        let ticket = self.log.submit(&[])?;
        Ok(self.log.wait(ticket)?)
    }

    /// Makes a state that has all of the head's commits the store's, on the device and for readers.
    pub(super) fn install(
        &self,
        head: &mut MutexGuard<'_, Head>,
        mut manifest: Manifest,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.settle(head)?;
        manifest.format = manifest.format_needed();
        manifest.switch(&**self.pool.storage())?;
        head.snapshot = snapshot.clone();
        let manifest = Arc::new(manifest);
        let old = {
            let mut state = self.state.write();
            state.snapshot = snapshot;
            state.last = head.last;
            std::mem::replace(&mut state.manifest, Arc::clone(&manifest))
        };
        for folder in old
            .folders()
            .filter(|folder| !manifest.folders().any(|f| f == *folder))
        {
            // Who reads its files has them open; if this fails the next writer removes them.
            let _ = self.pool.storage().remove(&folder);
        }
        Ok(())
    }

    /// A copy of the manifest.
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
