//! Compaction of an open store: writes a new base concurrently with readers and commits, then puts it in place
//! atomically, under the changes made meanwhile.
//!
//! Until then nothing names the new base, and the state that it is made of is kept ([`Writer::compacting_from`]). If
//! ids stay the same, the runs of that state stay the store's first, and are replaced by runs of their terms; later
//! runs stay as they are. If ids change, the changes made meanwhile are replayed from the log. An interrupted
//! compaction (the process ended, a device failed) leaves its finished parts, and the next one continues from there.

use std::sync::Arc;

use pythia_log::Position;
use pythia_rdf::TermId;

use super::maintenance::{log_of, position_of};
use super::{CompactedState, MaintenanceOptions, Replay, Writer};
use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::compact::unfinished::{Unfinished, interrupted, is_worth_keeping, remove_remains};
use crate::compact::{Extent, NewBase, compact};
use crate::delta::device::DeviceRun;
use crate::delta::device::merge::{Unmerged, in_the_way, merge, merge_only_terms, term_runs};
use crate::manifest::{AuxiliaryKind, Manifest, RunEntry, Unnamed};
use crate::optimize::{OptimizeOptions, Rebuilt, Succession, rebuild};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// The outcome of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Quads of the new base.
    pub quads: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Auxiliary files that could not be rebuilt, which name the old ids, each with the reason.
    pub dropped: Vec<(AuxiliaryKind, String)>,
}

/// The occasion of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// It was asked for: it is whole and includes all commits.
    Asked,
    /// It is due: it rewrites what has to be. If it continues an earlier one, it may lack the latest changes.
    Due,
}

/// The state that becomes a new base, opened.
struct Origin {
    state: CompactedState,
    base: Arc<Segment>,
    runs: Vec<Arc<DeviceRun>>,
}

impl Writer {
    /// Compacts the store with all changes so far; the new ids are in the order of their terms.
    pub(crate) fn compact(&self) -> Result<Compacted, StoreError> {
        self.compact_for(Occasion::Asked)
    }

    /// Performs a compaction that is due.
    pub(super) fn compact_due(&self) -> Result<Compacted, StoreError> {
        self.compact_for(Occasion::Due)
    }

    fn compact_for(&self, occasion: Occasion) -> Result<Compacted, StoreError> {
        let _base = self.base.lock();
        let _alone = self.compacting.write();
        // If a new base may already be in place, that must be settled before another is made.
        self.check(&mut self.head.lock())?;
        let from = self.state_to_compact(occasion)?;
        let compacted = match from.state.extent {
            Extent::Orders => self.compact_orders(&from),
            Extent::Whole => self.compact_whole(&from),
        };
        if let Err(error) = &compacted {
            self.end_failed(&from.state, error);
        }
        let compacted = compacted?;
        self.checkpoint(position_of(&self.manifest()))?;
        Ok(compacted)
    }

    /// Ends a failed compaction: keeps its finished parts for the next one, or discards them.
    fn end_failed(&self, from: &CompactedState, error: &StoreError) {
        let _moving = self.maintenance.lock();
        // The new base may already be in place, or the folders may belong to another store.
        if matches!(error, StoreError::Switching { .. }) || self.check_files().is_err() {
            return;
        }
        if !is_worth_keeping(error) && self.give_up(from).is_ok() {
            // Best effort; the log kept commits to be replayed, and otherwise drops them with the next flush.
            let _ = self.checkpoint(position_of(&self.manifest()));
        } else if matches!(
            interrupted(&**self.pool.storage(), &self.manifest()),
            Ok(None)
        ) {
            self.release(from);
        }
    }

    /// Releases the files that a new base was made of, once it is in place.
    pub(super) fn end_compaction(&self) {
        let from = self.compacting_from.lock().take();
        if let Some(from) = from {
            self.remove_replaced(&from.manifest);
        }
        // Best effort: the next writer removes what remains.
        let _ = remove_remains(&**self.pool.storage(), self.manifest().segment);
    }

    /// Returns the state to compact: that of an interrupted compaction, or the present state, which is kept from now
    /// on.
    fn state_to_compact(&self, occasion: Occasion) -> Result<Origin, StoreError> {
        let _moving = self.maintenance.lock();
        self.check_files()?;
        let before = self.compacting_from.lock().clone();
        if let Some(before) = before {
            if self.is_worth_going_on(&before, occasion)
                && let Ok(from) = self.opened(before.clone())
            {
                return Ok(from);
            }
            self.give_up(&before)?;
        }
        self.flush_alone()?;
        let manifest = self.manifest();
        let extent = match occasion {
            Occasion::Asked => Extent::Whole,
            Occasion::Due => MaintenanceOptions::extent_due(&manifest),
        };
        let from = self.opened(CompactedState { manifest, extent })?;
        *self.compacting_from.lock() = Some(from.state.clone());
        Ok(from)
    }

    fn is_worth_going_on(&self, before: &CompactedState, occasion: Occasion) -> bool {
        let from = &before.manifest;
        if before.extent == Extent::Orders {
            return occasion == Occasion::Due && self.manifest().runs.starts_with(&from.runs);
        }
        let position = position_of(from);
        let is_current = position == Position(self.head.lock().last + 1);
        // Beyond this limit, as many changes as it had must be replayed: the next compaction would be due at once.
        let changes =
            |manifest: &Manifest| manifest.runs.iter().map(RunEntry::changes).sum::<u64>();
        let most = (2 * changes(from)).max(self.options.compaction_quads_min);
        let saves_work = occasion == Occasion::Due && changes(&self.manifest()) <= most;
        (is_current || saves_work) && self.log.reader().commits_from(position).is_ok()
    }

    /// Discards an interrupted compaction, if there is one, with its finished parts.
    pub(super) fn give_up_interrupted(&self) -> Result<(), StoreError> {
        let before = self.compacting_from.lock().clone();
        before.map_or(Ok(()), |before| self.give_up(&before))
    }

    /// Discards an interrupted compaction. The caller holds `maintenance`.
    fn give_up(&self, before: &CompactedState) -> Result<(), StoreError> {
        // After a switch with an unknown outcome, and where files were replaced, the folder may belong to the store.
        self.check_files()?;
        if self.compacting_from.lock().as_ref() != Some(before) {
            return Ok(());
        }
        Unfinished::of(Arc::clone(self.pool.storage()), &before.manifest).discard()?;
        self.release(before);
        Ok(())
    }

    /// Releases a state that was kept for a compaction.
    fn release(&self, from: &CompactedState) {
        *self.compacting_from.lock() = None;
        self.remove_replaced(&from.manifest);
    }

    /// Opens a state's base and runs, including runs that have been replaced since.
    fn opened(&self, state: CompactedState) -> Result<Origin, StoreError> {
        let snapshot = self.state.read().snapshot.clone();
        let delta = snapshot.delta().expect("a writer's snapshots have one");
        let run = |entry: &RunEntry| match delta.device().iter().find(|run| run.entry() == entry) {
            Some(run) => Ok(Arc::clone(run)),
            None => DeviceRun::open(&self.pool, entry).map(Arc::new),
        };
        let runs = state.manifest.runs.iter().map(run);
        Ok(Origin {
            runs: runs.collect::<Result<_, StoreError>>()?,
            base: Arc::clone(snapshot.base()),
            state,
        })
    }

    fn written(&self, from: &Origin) -> Result<NewBase, StoreError> {
        let storage = Arc::clone(self.pool.storage());
        compact(
            (&from.state.manifest, from.state.extent),
            &from.base,
            &from.runs,
            storage,
            &self.options.compaction,
            &self.pace,
        )
    }

    /// Moves the quads of the first runs to a new base, and leaves their terms.
    fn compact_orders(&self, from: &Origin) -> Result<Compacted, StoreError> {
        let new = self.written(from)?;
        let entry = &new.sealed.segment;
        let base = from.base.open_beside(&self.pool, &new.id.folder(), entry)?;
        let base = Arc::new(base);
        let touched = |predicate: u64| {
            let mut runs = from.runs.iter();
            runs.any(|run| run.predicate(TermId(predicate)) != (0, 0))
        };
        let succession = Succession {
            is_kept: &|kind| !kind.is_stale(&touched),
            new_id: &Some,
            numbers: &self.indexes_made,
        };
        // If the compaction was interrupted, there may be other indexes of the same base since.
        let rebuilt = self.rebuilt(&self.manifest(), &base, &succession)?;
        let dropped = rebuilt.dropped.clone();
        self.put_under_changes(from, &new, base, rebuilt)?;
        Ok(Compacted {
            quads: entry.quads,
            bytes: entry.bytes(),
            dropped,
        })
    }

    /// Rebuilds the auxiliary files of a state for its new base.
    fn rebuilt(
        &self,
        from: &Manifest,
        base: &Arc<Segment>,
        succession: &Succession<'_>,
    ) -> Result<Rebuilt, StoreError> {
        let building = OptimizeOptions {
            memory_bytes: self.options.compaction.memory_bytes,
            ..OptimizeOptions::default()
        };
        rebuild(
            &self.pool,
            base,
            &from.auxiliary,
            succession,
            building,
            &self.pace,
        )
    }

    /// Puts a base with the quads of the first runs in their place.
    fn put_under_changes(
        &self,
        from: &Origin,
        new: &NewBase,
        base: Arc<Segment>,
        rebuilt: Rebuilt,
    ) -> Result<(), StoreError> {
        // Finished parts of the base itself stay for the next attempt.
        let mut unnamed = self.unnamed([]);
        let old = &from.state.manifest;
        let named = self.manifest().auxiliary;
        let is_new = |id| named.iter().all(|entry| entry.id != id);
        for entry in rebuilt.entries.iter().filter(|entry| is_new(entry.id)) {
            unnamed.push(entry.id.folder());
        }
        // Terms that are alone already stay where they are.
        let alone = term_runs(&old.runs);
        let storage = Arc::clone(self.pool.storage());
        let terms = merge_only_terms(storage, self.next_run(), &from.runs[alone..], &self.pace)?;
        let mut kept: Vec<Arc<DeviceRun>> = from.runs[..alone].to_vec();
        if let Some(entry) = &terms {
            unnamed.push(entry.id.folder());
            kept.push(Arc::new(DeviceRun::open(&self.pool, entry)?));
        }
        let _moving = self.maintenance.lock();
        let mut head = self.head.lock();
        self.settle(&mut head)?;
        let mut manifest = self.manifest();
        assert!(
            manifest.runs.starts_with(&old.runs),
            "the runs of a state that is compacted stay as they are"
        );
        let compacted = old.runs.len();
        manifest.segment = new.id;
        manifest.quads = new.sealed.segment.quads;
        manifest.files.clone_from(&new.sealed.segment.files);
        manifest.auxiliary = rebuilt.entries;
        manifest.runs.splice(alone..compacted, terms);
        let mut device = head.delta().device().to_vec();
        device.splice(..compacted, kept);
        let auxiliaries = Arc::new(Auxiliaries::open(&self.pool, &manifest)?);
        let delta = head.delta().with_device(device);
        let snapshot = head
            .snapshot
            .with_base(base, delta)
            .with_auxiliaries(auxiliaries);
        self.install(&mut head, manifest, snapshot, unnamed)?;
        drop(head);
        self.background.notify();
        Ok(())
    }

    /// Writes the whole base again.
    fn compact_whole(&self, from: &Origin) -> Result<Compacted, StoreError> {
        let new = self.written(from)?;
        let mut manifest = self.manifest();
        log_of(&mut manifest).position = position_of(&from.state.manifest);
        let segment = &new.sealed.segment;
        (manifest.segment, manifest.quads) = (new.id, segment.quads);
        manifest.files.clone_from(&segment.files);
        manifest.dictionary.clone_from(&new.sealed.dictionary);
        manifest.runs.clear();
        let base = Arc::new(Segment::open_base(&self.pool, &manifest)?);
        let mapping = new
            .mapping
            .as_ref()
            .expect("a whole compaction assigns new ids");
        let succession = Succession {
            is_kept: &|_| false,
            new_id: &|id| mapping.new_id(id),
            numbers: &self.indexes_made,
        };
        let rebuilt = self.rebuilt(&manifest, &base, &succession)?;
        // Finished parts of the base itself stay for the next attempt.
        let mut unnamed = self.unnamed([]);
        for entry in &rebuilt.entries {
            unnamed.push(entry.id.folder());
        }
        manifest.auxiliary = rebuilt.entries;
        let auxiliaries = Arc::new(Auxiliaries::open(&self.pool, &manifest)?);
        let bytes = manifest.base_bytes();
        self.catch_up(Snapshot::new(base, auxiliaries), manifest, unnamed)?;
        Ok(Compacted {
            quads: segment.quads,
            bytes,
            dropped: rebuilt.dropped,
        })
    }

    /// Applies the commits made meanwhile to a new base, then puts it in place.
    fn catch_up(
        &self,
        base: Snapshot,
        mut manifest: Manifest,
        mut unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let from = log_of(&mut manifest).position;
        let mut replay = Replay::new(&base, Vec::new(), from.0 - 1);
        // Most of them while commits continue, the rest while they wait.
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

    /// Applies the commits after the last applied one. Writes changes that exceed memory to the device on the way: a
    /// compaction that is continued after a long time has much to replay.
    fn replay_rest(
        &self,
        replay: &mut Replay,
        manifest: &mut Manifest,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let from = Position(replay.last() + 1);
        for commit in self.log.reader().commits_from(from)? {
            replay.commit(&commit?)?;
            // Between two commits, as the manifest records the commit from which on the log is needed.
            if replay.memory_bytes() > self.options.memory_bytes {
                self.spill(replay, manifest, unnamed)?;
            }
        }
        replay.settle();
        Ok(())
    }

    /// Writes the replayed changes to the device.
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

    /// Merges runs of the new base until there is room for another.
    fn make_room_for_spill(
        &self,
        replay: &mut Replay,
        manifest: &mut Manifest,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<(), StoreError> {
        while let Some(range) = in_the_way(
            &manifest.runs,
            1,
            self.options.runs_max,
            Unmerged::default(),
        ) {
            let storage = self.pool.storage();
            let mut device = replay.device().to_vec();
            let merged = &device[range.clone()];
            let entry = merge(Arc::clone(storage), self.next_run(), merged, &self.pace)?;
            unnamed.push(entry.id.folder());
            let run = Arc::new(DeviceRun::open(&self.pool, &entry)?);
            device.splice(range.clone(), [run]);
            for merged in manifest.runs.splice(range, [entry]) {
                // Best effort: no manifest names them, and the next writer removes what remains.
                let _ = storage.remove(&merged.id.folder());
            }
            replay.merged(device);
        }
        Ok(())
    }
}
