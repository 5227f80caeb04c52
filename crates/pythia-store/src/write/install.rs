//! Putting a new state in place: on the device by a switch of the manifest, then for commits and readers.
//!
//! A switch that fails after its rename was tried leaves two states, either of which may be the store's
//! ([`StoreError::Switching`]). Both are complete and hold the same quads: nothing that either names is removed, and
//! the writer does nothing else before the new one is certainly in place ([`Writer::check`]).

use std::sync::Arc;

use pythia_io::system;

use super::{Head, NewState, Writer};
use crate::StoreError;
use crate::manifest::{Manifest, Unnamed};
use crate::snapshot::Snapshot;

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
        let put = self.put_in_place(head, &new, self.unnamed([]));
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
        let version = match head.snapshot.base().shares_ids_with(snapshot.base()) {
            true => version.clone(),
            false => version.with_layout(system::random_u64()),
        };
        let new = NewState::new(manifest, snapshot.with_version(version));
        let put = self.put_in_place(head, &new, unnamed);
        if matches!(put, Err(StoreError::Switching { .. })) {
            head.unsettled = Some(new);
        }
        put
    }

    fn put_in_place(
        &self,
        head: &mut Head,
        new: &NewState,
        unnamed: Unnamed<'_>,
    ) -> Result<(), StoreError> {
        let storage = &**self.pool.storage();
        if let Err(error) = self.refuse_another(head, Some(new)) {
            if matches!(error, StoreError::Replaced) {
                // The new files may have these names, too; the next writer knows which it needs.
                unnamed.keep();
            }
            return Err(error);
        }
        new.manifest.switch(storage, unnamed)?;
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
