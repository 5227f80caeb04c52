//! Recovery of a store whose log has lost commits.

use std::path::Path;
use std::sync::Arc;

use pythia_io::Storage;
use pythia_log::Salvage;

use crate::StoreError;
use crate::folders::{check_no_log, log_devices};
use crate::locks::{StoreLock, open_folder};
use crate::manifest::Manifest;

/// Checks the log of the store in a folder. With `give_up`, sets the damaged files aside, so that the store opens
/// with the commits before the first lost one.
///
/// # Errors
/// [`StoreError::Writing`] while the store is open for writing, [`StoreError::NoLog`] if it has no log.
pub fn salvage(path: &Path, give_up: bool) -> Result<Salvage, StoreError> {
    let storage = Arc::new(open_folder(path)?);
    let _shared = StoreLock::shared(&storage)?;
    let _writer = StoreLock::writer(&storage)?;
    salvage_storage(&(storage as _), give_up)
}

/// As [`salvage`], for a store in any kind of storage. Takes no locks.
pub fn salvage_storage(storage: &Arc<dyn Storage>, give_up: bool) -> Result<Salvage, StoreError> {
    let manifest = Manifest::read(&**storage)?.ok_or_else(|| StoreError::NotAStore {
        path: format!("{storage:?}"),
        message: "it has no MANIFEST".to_owned(),
    })?;
    let Some(log) = manifest.log else {
        check_no_log(storage)?;
        return Err(StoreError::NoLog);
    };
    let devices = log_devices(storage, &log)?;
    Ok(pythia_log::salvage(
        &devices,
        log.store,
        log.position,
        give_up,
    )?)
}
