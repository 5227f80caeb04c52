//! Putting a new state in place: on the device by a switch of the manifest, then for commits and readers.
//!
//! A switch that fails after its rename was tried leaves two states, either of which may be the store's
//! ([`StoreError::Switching`]). Both are complete and hold the same quads: nothing that either names is removed, and
//! the writer does nothing else before the new one is certainly in place ([`Writer::check`]).

use std::sync::Arc;

use pythia_io::system;
use pythia_log::Position;

use super::log_copy::Submission;
use super::maintenance::log_of;
use super::replay::first_new;
use super::{Head, NewState, Writer};
use crate::StoreError;
use crate::delta::device::DeviceRun;
use crate::delta::{Delta, TermStore, TermView};
use crate::manifest::{AuxiliaryKind, Manifest, PreparedManifest, Unnamed};
use crate::snapshot::Snapshot;
use crate::version::Version;

impl Writer {
    /// Returns a guard of folders that no manifest names yet.
    pub(super) fn unnamed<const N: usize>(&self, folders: [String; N]) -> Unnamed<'_> {
        let mut unnamed = Unnamed::new(&**self.pool.storage());
        folders.into_iter().for_each(|folder| unnamed.push(folder));
        unnamed
    }

    /// Puts a pending state in place. Fails if that fails, or once nothing can be committed any more.
    pub(super) fn check(&self, head: &mut Head) -> Result<(), StoreError> {
        head.check()?;
        let Some(new) = head.unsettled.take() else {
            return Ok(());
        };
        let put = self.put_in_place(head, &new, self.unnamed([]), None);
        put.map_err(|error| {
            head.unsettled = Some(new);
            StoreError::Unsettled {
                cause: Box::new(error),
            }
        })
    }

    /// As [`Self::check`], for a step that will write or remove files. Fails permanently if the store's files are no
    /// longer this writer's: its next file names may be those of the new files.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        let mut head = self.head.lock();
        self.check(&mut head)?;
        self.refuse_another(&mut head, None)
    }

    /// Waits until all commits of the head are durable.
    pub(super) fn settle(&self, head: &mut Head) -> Result<(), StoreError> {
        self.check(head)?;
        let ticket = self.log.submit(&[])?;
        Ok(self.log.wait(ticket)?)
    }

    /// Makes a state that has all of the head's commits the store's; `unnamed` lists the files written for it. The
    /// caller holds `maintenance` and has called [`Self::check`]: the new state is derived from the present one, so
    /// no other may be pending.
    ///
    /// # Errors
    /// After [`StoreError::Switching`] the state will be put in place before anything else; after any other error the
    /// store is unchanged.
    pub(super) fn install(
        &self,
        head: &mut Head,
        manifest: Manifest,
        snapshot: Snapshot,
        unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        assert!(head.unsettled.is_none(), "it was put in place before");
        self.settle(head)?;
        let version = head.snapshot.versioned();
        // With other indexes, too, queries may get the same quads in another order.
        let has_ids = head.snapshot.base().shares_ids_with(snapshot.base());
        let version = match has_ids && has_same_indexes(&self.manifest(), &manifest) {
            true => version.clone(),
            false => version.with_layout(system::random_u64()),
        };
        let new = NewState::new(manifest, snapshot.with_version(version));
        let put = self.put_in_place(head, &new, unnamed, None);
        if matches!(put, Err(StoreError::Switching { .. })) {
            head.unsettled = Some(new);
        }
        put
    }

    /// Commits a run on the device: writes the changes that `below`, the head with corrections, has in memory as a
    /// run, and puts `run` on top of it. The run's files are listed in `unnamed`; nothing else refers to the run.
    /// `submit` hands the commit to the log, given a snapshot that has it.
    ///
    /// The caller holds `maintenance`, has settled the head, and has made room for two runs.
    pub(super) fn put_on_top(
        &self,
        head: &mut Head,
        below: &Snapshot,
        run: Arc<DeviceRun>,
        submit: impl FnOnce(&Snapshot) -> Result<Submission, StoreError>,
        unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let mut unnamed_too = self.unnamed([]);
        let is_empty = run.entry().changes() == 0;
        let mut new = self.on_top(head, below, run, &mut unnamed_too)?;
        // Once the log has the commit, nothing may need space any more.
        let prepared = match self.prepared(head, &new) {
            Err(StoreError::Replaced) => {
                unnamed.keep();
                unnamed_too.keep();
                return Err(StoreError::Replaced);
            }
            prepared => prepared?,
        };
        let submitted = submit(&new.snapshot)?;
        self.log.wait(submitted.ticket)?;
        head.last += 1;
        let last = head.last;
        let version = Version {
            position: last,
            time: submitted.time,
        };
        let changed = &submitted.changed;
        let version = head.snapshot.versioned().committed(changed, version);
        new.snapshot = new.snapshot.with_version(version);
        // Transactions that have not seen the commit may have changed the same quads.
        head.recent.forget_all(last);
        // The log has the commit: if it cannot be put in place now, that must happen before anything else.
        unnamed_too.keep();
        if !is_empty {
            unnamed.keep();
        }
        let put = self.put_in_place(head, &new, self.unnamed([]), Some(prepared));
        put.map_err(|error| {
            head.unsettled = Some(new);
            StoreError::Unsettled {
                cause: Box::new(error),
            }
        })
    }

    /// Returns the state after the next commit, which is `run`, unless it is empty, on top of `below`. Its changes in
    /// memory are written as a run, which is added to `unnamed`.
    fn on_top(
        &self,
        head: &Head,
        below: &Snapshot,
        mut run: Arc<DeviceRun>,
        unnamed: &mut Unnamed<'_>,
    ) -> Result<NewState, StoreError> {
        let mut device = head.delta().device().to_vec();
        let mut manifest = self.manifest();
        if let Some(entry) = self.write_memory_run(below)? {
            unnamed.push(entry.id.folder());
            device.push(Arc::new(DeviceRun::open(&self.pool, &entry)?));
            manifest.runs.push(entry);
        }
        if run.entry().changes() > 0 {
            let unshared = Arc::get_mut(&mut run).expect("nothing else refers to it");
            unshared.number_terms(&first_new(&head.snapshot.base_terms(), &device));
            manifest.runs.push(run.entry().clone());
            device.push(run);
        }
        let commit = head.last + 1;
        log_of(&mut manifest).position = Position(commit + 1);
        Ok(NewState::new(manifest, on_device(below, device)))
    }

    /// Writes the manifest of a new state beside that of the store.
    fn prepared(
        &self,
        head: &mut Head,
        new: &NewState,
    ) -> Result<PreparedManifest<'_>, StoreError> {
        self.refuse_another(head, None)?;
        new.manifest.prepare(&**self.pool.storage())
    }

    /// Puts a new state in place, whose manifest may be written already.
    fn put_in_place(
        &self,
        head: &mut Head,
        new: &NewState,
        unnamed: Unnamed<'_>,
        prepared: Option<PreparedManifest<'_>>,
    ) -> Result<(), StoreError> {
        let storage = &**self.pool.storage();
        if let Err(error) = self.refuse_another(head, Some(new)) {
            if matches!(error, StoreError::Replaced) {
                // The new files may have these names, too; the next writer knows which it needs.
                unnamed.keep();
                if let Some(prepared) = prepared {
                    prepared.keep();
                }
            }
            return Err(error);
        }
        match prepared {
            Some(prepared) => prepared.switch(unnamed)?,
            None => new.manifest.switch(storage, unnamed)?,
        }
        let is_compacted = !Arc::ptr_eq(head.snapshot.base(), new.snapshot.base());
        if !head.snapshot.base().shares_ids_with(new.snapshot.base()) {
            // Transactions that began before hold other ids.
            head.recent.forget_all(head.last);
        }
        head.snapshot = new.snapshot.clone();
        let old = {
            let mut state = self.state.write();
            state.snapshot = new.snapshot.clone();
            state.last = head.last;
            std::mem::replace(&mut state.manifest, Arc::clone(&new.manifest))
        };
        self.remove_replaced(&old);
        if is_compacted {
            self.end_compaction();
        }
        Ok(())
    }

    /// Fails permanently unless the store's manifest is the one that this writer has installed, or the new one.
    fn refuse_another(&self, head: &mut Head, new: Option<&NewState>) -> Result<(), StoreError> {
        let found = Manifest::read(&**self.pool.storage())?;
        let old = Arc::clone(&self.state.read().manifest);
        let ours = [Some(&old), new.map(|new| &new.manifest)];
        let is_ours = |found: Manifest| {
            ours.into_iter().flatten().any(|ours| {
                // Opening a store for writing may raise its format, which is written only from then on.
                let format = ours.format;
                **ours
                    == Manifest {
                        format,
                        ..found.clone()
                    }
            })
        };
        if found.is_some_and(is_ours) {
            return Ok(());
        }
        let error = StoreError::Replaced;
        head.failed = Some(error.to_string());
        Err(error)
    }
}

fn has_same_indexes(one: &Manifest, other: &Manifest) -> bool {
    let kinds = |manifest: &Manifest| -> Vec<AuxiliaryKind> {
        let entries = manifest.auxiliary.iter();
        entries.map(|entry| entry.kind.clone()).collect()
    };
    kinds(one) == kinds(other)
}

/// Returns a snapshot of the same base, whose changes and new terms are those of these runs.
pub(super) fn on_device(snapshot: &Snapshot, device: Vec<Arc<DeviceRun>>) -> Snapshot {
    let base_terms = snapshot.base_terms();
    let terms = TermStore::new(&first_new(&base_terms, &device));
    snapshot.with_delta(Delta::new(
        base_terms,
        device,
        TermView::new(Arc::new(terms)),
    ))
}
