//! A new base of all changes: written beside readers and commits, then brought up to the last commit and
//! put in place in one step.
//!
//! Until that step nothing names it, and the state that it is made of is kept: the runs, which may have
//! been merged meanwhile, and the log from there on ([`Writer::rewriting_from`]). An interrupted rewrite (a
//! process that ended, a device that failed) leaves what it had finished, and the next goes on from there.

use std::sync::Arc;

use pythia_log::Position;

use super::maintenance::{log_of, position_of};
use super::{Replay, Writer};
use crate::StoreError;
use crate::auxiliary::{Auxiliaries, AuxiliaryKind, OptimizeOptions, rebuild};
use crate::delta::RunEntry;
use crate::delta::device::DeviceRun;
use crate::delta::device::merge::{in_the_way, merge};
use crate::manifest::{Manifest, Unnamed};
use crate::rewrite::unfinished::{Unfinished, interrupted, is_worth_keeping, remove_remains};
use crate::rewrite::{NewBase, rewrite};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

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

/// Which interrupted rewrite may be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoOn {
    /// One that has all commits.
    IfCurrent,
    /// Any that saves work: what was committed since stays on top.
    IfWorthIt,
}

/// The state that becomes a new base, with what is read of it.
struct Origin {
    manifest: Manifest,
    base: Arc<Segment>,
    runs: Vec<Arc<DeviceRun>>,
}

impl Writer {
    /// Writes a new base that has all changes so far, with ids in the order of their terms.
    pub(crate) fn rewrite(&self) -> Result<Rewritten, StoreError> {
        self.rewrite_with(GoOn::IfCurrent)
    }

    /// Writes a new base as one is due; one that was begun before may come without the last changes.
    pub(super) fn rewrite_due(&self) -> Result<Rewritten, StoreError> {
        self.rewrite_with(GoOn::IfWorthIt)
    }

    fn rewrite_with(&self, go_on: GoOn) -> Result<Rewritten, StoreError> {
        let _alone = self.rewriting.lock();
        // A new base that may be the store's is to be it for certain, before another is made.
        self.check(&mut self.head.lock())?;
        let from = self.state_to_rewrite(go_on)?;
        let rewritten = self.rewrite_from(&from);
        if let Err(error) = &rewritten {
            self.end_failed(&from.manifest, error);
        }
        let rewritten = rewritten?;
        self.checkpoint(position_of(&self.manifest()))?;
        Ok(rewritten)
    }

    /// Keeps what a rewrite that has failed had finished, for the next to go on with, or gives it up.
    fn end_failed(&self, from: &Manifest, error: &StoreError) {
        let _moving = self.maintenance.lock();
        // The new base may be the store's, or the folders another's by now.
        if matches!(error, StoreError::Switching { .. }) || self.check_files().is_err() {
            return;
        }
        if !is_worth_keeping(error) && self.give_up(from).is_ok() {
            // The log kept what was to be replayed. It is cut with the next flush otherwise.
            let _ = self.checkpoint(position_of(&self.manifest()));
        } else if matches!(
            interrupted(&**self.pool.storage(), &self.manifest()),
            Ok(None)
        ) {
            self.release(from);
        }
    }

    /// Lets go of what a new base was made of, now that it is in place.
    pub(super) fn end_rewrite(&self) {
        let from = self.rewriting_from.lock().take();
        if let Some(from) = from {
            self.remove_replaced(&from);
        }
        // Best effort: the next writer removes what is still there.
        let _ = remove_remains(&**self.pool.storage(), self.manifest().segment);
    }

    /// The state to make a new base of: that of an interrupted rewrite, or the present one, which from now
    /// on is kept.
    fn state_to_rewrite(&self, go_on: GoOn) -> Result<Origin, StoreError> {
        let _moving = self.maintenance.lock();
        self.check_files()?;
        let before = self.rewriting_from.lock().clone();
        if let Some(before) = before {
            if self.is_worth_going_on(&before, go_on)
                && let Ok(from) = self.opened(before.clone())
            {
                return Ok(from);
            }
            self.give_up(&before)?;
        }
        self.flush_alone()?;
        let manifest = self.manifest();
        let from = self.opened(manifest)?;
        *self.rewriting_from.lock() = Some(from.manifest.clone());
        Ok(from)
    }

    fn is_worth_going_on(&self, before: &Manifest, go_on: GoOn) -> bool {
        let position = position_of(before);
        let is_current = position == Position(self.head.lock().last + 1);
        // As much again as it had is to be replayed: then the next rewrite would be due at once.
        let changes =
            |manifest: &Manifest| manifest.runs.iter().map(RunEntry::changes).sum::<u64>();
        let most = (2 * changes(before)).max(self.options.rewrite_quads_min);
        let saves_work = go_on == GoOn::IfWorthIt && changes(&self.manifest()) <= most;
        (is_current || saves_work) && self.log.reader().commits_from(position).is_ok()
    }

    /// Gives up an interrupted rewrite, if there is one, with what it had finished.
    pub(super) fn give_up_interrupted(&self) -> Result<(), StoreError> {
        let before = self.rewriting_from.lock().clone();
        before.map_or(Ok(()), |before| self.give_up(&before))
    }

    /// By who holds `maintenance`.
    fn give_up(&self, before: &Manifest) -> Result<(), StoreError> {
        // After a switch whose outcome is unknown, and where files were replaced, its folder may be the store's.
        self.check_files()?;
        if self.rewriting_from.lock().as_ref() != Some(before) {
            return Ok(());
        }
        Unfinished::of(Arc::clone(self.pool.storage()), before).discard()?;
        self.release(before);
        Ok(())
    }

    /// Lets go of a state that was kept for a rewrite.
    fn release(&self, from: &Manifest) {
        *self.rewriting_from.lock() = None;
        self.remove_replaced(from);
    }

    /// A state with its base and its runs, also those that others have replaced since.
    fn opened(&self, manifest: Manifest) -> Result<Origin, StoreError> {
        let snapshot = self.state.read().snapshot.clone();
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        let run = |entry: &RunEntry| match delta.device().iter().find(|run| run.entry() == entry) {
            Some(run) => Ok(Arc::clone(run)),
            None => DeviceRun::open(&self.pool, entry).map(Arc::new),
        };
        let runs = manifest.runs.iter().map(run);
        Ok(Origin {
            runs: runs.collect::<Result<_, StoreError>>()?,
            base: Arc::clone(snapshot.base()),
            manifest,
        })
    }

    fn rewrite_from(&self, from: &Origin) -> Result<Rewritten, StoreError> {
        let storage = Arc::clone(self.pool.storage());
        let options = &self.options.rewrite;
        let new = rewrite(
            &from.manifest,
            &from.base,
            &from.runs,
            storage,
            options,
            &self.pace,
        )?;
        let mut manifest = self.manifest();
        log_of(&mut manifest).position = position_of(&from.manifest);
        let NewBase { id, segment, .. } = &new;
        (manifest.segment, manifest.quads) = (*id, segment.quads);
        manifest.files = segment.files.clone();
        manifest.runs.clear();
        let base = Arc::new(Segment::open_base(&self.pool, &manifest)?);
        let building = OptimizeOptions {
            memory_bytes: options.memory_bytes,
            ..OptimizeOptions::default()
        };
        let rebuilt = rebuild(
            &self.pool,
            &base,
            &manifest.auxiliary,
            &new.mapping,
            building,
            &self.pace,
        )?;
        // What is finished of the base itself stays for the next attempt.
        let mut unnamed = self.unnamed([]);
        for entry in &rebuilt.entries {
            unnamed.push(entry.id.folder());
        }
        manifest.auxiliary = rebuilt.entries;
        let auxiliaries = Arc::new(Auxiliaries::open(&self.pool, &manifest)?);
        self.catch_up(Snapshot::new(base, auxiliaries), manifest, unnamed)?;
        Ok(Rewritten {
            quads: segment.quads,
            bytes: segment.bytes(),
            dropped: rebuilt.dropped,
        })
    }

    /// Applies to a new base what was committed while it was written, then puts it in place.
    fn catch_up(
        &self,
        base: Snapshot,
        mut manifest: Manifest,
        mut unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let from = log_of(&mut manifest).position;
        let mut replay = Replay::new(&base, Vec::new(), from.0 - 1);
        // Most of it while commits go on, the rest while they wait.
        for _ in 0..2 {
            self.replay_rest(&mut replay, &mut manifest, &mut unnamed)?;
        }
        let _moving = self.maintenance.lock();
        let mut head = self.head.lock();
        self.settle(&mut head)?;
        self.replay_rest(&mut replay, &mut manifest, &mut unnamed)?;
        let (snapshot, last) = replay.finish();
        debug_assert_eq!(last, head.last, "the log has what was committed");
        self.install(&mut head, manifest, snapshot, unnamed)?;
        drop(head);
        self.background.notify();
        Ok(())
    }

    /// Applies what the log has behind the last commit that was applied. What is too much for memory goes to the
    /// device on the way: a rewrite that goes on after a long time has much to replay.
    fn replay_rest(
        &self,
        replay: &mut Replay,
        manifest: &mut Manifest,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let from = Position(replay.last() + 1);
        for commit in self.log.reader().commits_from(from)? {
            replay.commit(&commit?)?;
            // Between two commits: the manifest says from which one on the log is needed.
            if replay.memory_bytes() > self.options.memory_bytes {
                self.spill(replay, manifest, unnamed)?;
            }
        }
        replay.settle();
        Ok(())
    }

    /// Moves what was replayed to the device.
    fn spill(
        &self,
        replay: &mut Replay,
        manifest: &mut Manifest,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        self.make_room_for_spill(replay, manifest, unnamed)?;
        replay.settle();
        let snapshot = replay.snapshot();
        let delta = snapshot.delta().expect("it was made with one");
        let Some(entry) = self.write_memory_run(&snapshot)? else {
            return Ok(());
        };
        unnamed.push(entry.id.folder());
        let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
        manifest.runs.push(entry);
        log_of(manifest).position = Position(replay.last() + 1);
        replay.flushed(delta, run);
        Ok(())
    }

    /// Merges runs of the new base until there may be another.
    fn make_room_for_spill(
        &self,
        replay: &mut Replay,
        manifest: &mut Manifest,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        while let Some(range) = in_the_way(&manifest.runs, 1, self.options.runs_max, None) {
            let storage = self.pool.storage();
            let mut device = replay.device().to_vec();
            let merged = &device[range.clone()];
            let entry = merge(Arc::clone(storage), self.next_run(), merged, &self.pace)?;
            unnamed.push(entry.id.folder());
            let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
            device.splice(range.clone(), [run]);
            for merged in manifest.runs.splice(range, [entry]) {
                // Best effort: no manifest names them, and the next writer removes what is still there.
                let _ = storage.remove(&merged.id.folder());
            }
            replay.merged(device);
        }
        Ok(())
    }
}
