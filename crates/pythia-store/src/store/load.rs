//! Loads into the store in a folder, whatever it has.

use std::path::Path;
use std::sync::Arc;

use pythia_io::{DirectStorage, Storage, system};
use pythia_rdf::Source;

use super::{OpenOptions, Store};
use crate::device;
use crate::folders::check_no_log;
use crate::load::{LoadError, LoadOptions, LoadProgress, LoadReport, load, page_sizes};
use crate::locks::{LOCK_NAME, StoreLock};
use crate::manifest::Manifest;
use crate::write::WriteOptions;

/// The share of the memory that the page cache takes in a load into a store with quads, as a divisor.
const CACHE_PART: usize = 8;
const CACHE_BYTES_MIN: usize = 16 << 20;
const CACHE_BYTES_MAX: usize = 256 << 20;

/// Loads the sources into the store at `path`, creating it if it is missing.
///
/// A new or empty store is locked during the load. A store with quads is opened for writing, and the quads that it
/// lacks are added atomically, concurrently with readers. Blank nodes in the sources are always new.
///
/// # Errors
/// See [`load`]; also if the folder cannot be created, or the store is in use.
pub fn load_into(
    path: &Path,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let is_new = !path.exists();
    let storage = DirectStorage::open(path, true)?;
    if has_quads(&storage)? {
        return load_onto(storage, sources, options, progress);
    }
    let storage = Arc::new(storage);
    let _lock = StoreLock::exclusive(&storage)?;
    let loaded = load_first(&storage, sources, options, progress);
    if loaded.is_err() && is_new {
        // A folder that was made for nothing would be taken for a store, or for a mistake.
        let _ = storage.remove(LOCK_NAME);
        storage.remove_if_empty();
    }
    loaded
}

/// Loads the sources into a store without quads, which is locked.
fn load_first(
    storage: &Arc<DirectStorage>,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let known = device::read(&**storage).filter(|device| device.identity == storage.identity());
    let segment = options
        .segment
        .unwrap_or_else(|| page_sizes(&known.unwrap_or_default()));
    let options = LoadOptions {
        segment: Some(segment),
        ..options.clone()
    };
    check_no_log(&(Arc::clone(storage) as _))?;
    let report = load(
        Arc::<DirectStorage>::clone(storage),
        sources,
        &options,
        progress,
    )?;
    if let Some(manifest) = Manifest::read(&**storage)? {
        // Measures the device, unless that was done before, and keeps the result.
        device::of_store(storage, &manifest);
    }
    Ok(report)
}

/// Returns whether the store has quads, or was ever opened for writing.
fn has_quads(storage: &DirectStorage) -> Result<bool, LoadError> {
    let manifest = Manifest::read(storage)?;
    Ok(manifest.is_some_and(|manifest| manifest.quads > 0 || manifest.log.is_some()))
}

/// Loads the sources into a store that has quads.
fn load_onto(
    storage: DirectStorage,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let cache_bytes = (options.memory_bytes / CACHE_PART).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX);
    let open = OpenOptions { cache_bytes };
    let mut write = WriteOptions::default();
    write.maintenance.in_background = false;
    let store = Store::open_folder_for_writing(Arc::new(storage), open, &write)?;
    let options = LoadOptions {
        memory_bytes: options.memory_bytes.saturating_sub(cache_bytes),
        ..options.clone()
    };
    let apart = |source: Source| source.with_blank_node_scope(Some(system::random_u64()));
    let sources = sources.into_iter().map(apart).collect();
    store.load(sources, &options, progress)
}
