//! Adding and dropping auxiliary files, as one change of a store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pythia_io::Storage;

use super::{OpenOptions, Store};
use crate::StoreError;
use crate::locks::{StoreLock, open_folder};
use crate::manifest::{AuxiliaryKind, Manifest};
use crate::optimize::{OptimizeOptions, Writer};

/// A change of the auxiliary files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Auxiliary files to build; existing ones are rebuilt.
    pub add: Vec<AuxiliaryKind>,
    /// Auxiliary files to drop.
    pub drop: Vec<AuxiliaryKind>,
}

/// An auxiliary file that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its kind.
    pub kind: AuxiliaryKind,
    /// Bytes of its files.
    pub bytes: u64,
    /// Duration of the build.
    pub time: Duration,
}

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
    refuse_unknown(&manifest, change)?;
    Store::check_whole(Arc::clone(&storage), opening(options))?;
    Manifest::remove_leftovers(Some(&manifest), &*storage)?;
    let mut writer = Writer::new(&*storage, store.snapshot(), options, &manifest.auxiliary);
    let mut added = Vec::new();
    for kind in &change.add {
        let started = Instant::now();
        let entry = writer.write(kind)?;
        added.push(Added {
            kind: kind.clone(),
            bytes: entry.bytes(),
            time: started.elapsed(),
        });
        manifest.auxiliary.retain(|old| !kind.replaces(&old.kind));
        manifest.auxiliary.push(entry);
    }
    for kind in &change.drop {
        manifest
            .auxiliary
            .retain(|entry| !kind.replaces(&entry.kind));
    }
    manifest.format = manifest.format_needed();
    manifest.switch(&*storage, writer.finish())?;
    // Removes dropped files; the next writer tries again if this fails.
    let _ = Manifest::remove_leftovers(Some(&manifest), &*storage);
    Ok(added)
}

fn refuse_unknown(manifest: &Manifest, change: &Change) -> Result<(), StoreError> {
    let is_there = |kind: &AuxiliaryKind| manifest.auxiliary.iter().any(|e| kind.replaces(&e.kind));
    match change.drop.iter().find(|kind| !is_there(kind)) {
        Some(kind) => Err(StoreError::NotOptimizable {
            message: format!("the store has no {kind:?} that could be dropped"),
        }),
        None => Ok(()),
    }
}

fn opening(options: OptimizeOptions) -> OpenOptions {
    OpenOptions {
        cache_bytes: options.cache_bytes,
    }
}
