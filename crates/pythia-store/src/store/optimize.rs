//! Adding and dropping auxiliary files, as one change of a store.

use std::path::Path;
use std::sync::Arc;

use pythia_io::Storage;

use super::{OpenOptions, Store};
use crate::StoreError;
use crate::locks::{StoreLock, open_folder};
use crate::manifest::Manifest;
use crate::optimize::{Added, Change, Numbers, OptimizeOptions, Writer};
use crate::pace::Pace;

/// Changes the auxiliary files of the store in a folder; needs exclusive access. `change` is called with the store
/// opened without its auxiliary files, so that damaged ones can be dropped.
pub fn optimize_in(
    path: &Path,
    options: OptimizeOptions,
    change: impl FnOnce(&Store) -> Result<Change, StoreError>,
) -> Result<Vec<Added>, StoreError> {
    let storage = Arc::new(open_folder(path)?);
    let _lock = StoreLock::exclusive(&storage)?;
    let storage: Arc<dyn Storage> = storage;
    let store = Store::open_bare(Arc::clone(&storage), opening(options))?;
    let change = change(&store)?;
    optimize(storage, &change, options)
}

/// Changes the auxiliary files of the store in a storage atomically: on an error, or after a crash, they are
/// unchanged. The caller holds the store's exclusive lock.
pub fn optimize(
    storage: Arc<dyn Storage>,
    change: &Change,
    options: OptimizeOptions,
) -> Result<Vec<Added>, StoreError> {
    let store = Store::open_bare(Arc::clone(&storage), opening(options))?;
    let mut manifest = Manifest::clone(&store.manifest());
    change.check(&manifest)?;
    Store::check_whole(Arc::clone(&storage), opening(options))?;
    Manifest::remove_leftovers(Some(&manifest), &*storage)?;
    let (numbers, pace) = (Numbers::after([&manifest]), Pace::default());
    let mut writer = Writer::new(&*storage, store.snapshot(), options, &numbers, &pace);
    let added = change.write(&mut writer, &mut manifest)?;
    manifest.format = manifest.format_needed();
    manifest.switch(&*storage, writer.finish())?;
    // Removes dropped files; the next writer tries again if this fails.
    let _ = Manifest::remove_leftovers(Some(&manifest), &*storage);
    Ok(added)
}

impl Store {
    /// Changes the auxiliary files while the store is used, by readers and by commits: builds those to be added of the
    /// base, then puts all in place in one step. On an error, or after a crash, they are unchanged. Compacts first
    /// if too much has changed since the base was written for an index to be of use, or the base lacks its predicates.
    ///
    /// `change` returns the change, with the ids of a snapshot; it is called again after a compaction. `pace` sets
    /// the rests of the build, and cancels it. Loads and commits go on; compactions wait.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] unless the store is open for writing; [`StoreError::Cancelled`].
    pub fn optimize(
        &self,
        change: &dyn Fn(&Self) -> Result<Change, StoreError>,
        options: OptimizeOptions,
        pace: &Pace,
    ) -> Result<Vec<Added>, StoreError> {
        self.writer()?.optimize(&|| change(self), options, pace)
    }
}

fn opening(options: OptimizeOptions) -> OpenOptions {
    OpenOptions {
        cache_bytes: options.cache_bytes,
    }
}
