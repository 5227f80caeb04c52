//! The log folders outside the store's own, and the archive. `MANIFEST` records their paths and identities; they are
//! accepted or refused before anything is written.
//!
//! A folder that the manifest names is never created: if it is missing, its device is not mounted, or it is lost
//! (docs/decisions/0032-log-folders.md).

mod accept;
mod change;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pythia_io::system::{absolute, is_same_folder};
use pythia_io::{DirectStorage, Storage};
use pythia_log::{FolderIdentity, FolderRole};

use self::accept::{Accepted, Known, Newcomer, command};
use crate::StoreError;
use crate::locks::StoreLock;
use crate::manifest::{LogEntry, LogFolder, Manifest};
use crate::write::WriteOptions;

pub use change::{FolderChanges, FolderReport, FolderState, change_log_folders, log_folders};

/// The name of the spare log folder in the archive.
pub const SPARE_FOLDER: &str = "spare";

/// Opens the log folders: the store's own first, then the others.
///
/// # Errors
/// [`StoreError::LogFolder`] if one is missing, or is not the folder that the manifest names.
pub fn log_devices(
    storage: &Arc<dyn Storage>,
    log: &LogEntry,
) -> Result<Vec<Arc<dyn Storage>>, StoreError> {
    let mut devices = vec![Arc::clone(storage)];
    for (number, folder) in (1..).zip(&log.devices) {
        let known = Known::new(&**storage, log.store, FolderRole::Device(number), folder);
        devices.push(known.accept()?.storage);
    }
    Ok(devices)
}

/// Opens the archive of a log, if it has one.
///
/// # Errors
/// As [`log_devices`].
pub fn log_archive(
    storage: &Arc<dyn Storage>,
    log: &LogEntry,
) -> Result<Option<Arc<dyn Storage>>, StoreError> {
    let archive = log.archive.as_ref();
    let open = |folder| Known::new(&**storage, log.store, FolderRole::Archive, folder).accept();
    Ok(archive
        .map(open)
        .transpose()?
        .map(|accepted| accepted.storage as _))
}

/// Fails if a store whose `MANIFEST` names no log has files of a log that was used: their commits would be ignored.
pub fn check_no_log(storage: &Arc<dyn Storage>) -> Result<(), StoreError> {
    let Err(error) = pythia_log::check_unnamed(std::slice::from_ref(storage)) else {
        return Ok(());
    };
    match Manifest::read(&**storage)? {
        // A writer created the log after this state was read.
        Some(manifest) if manifest.log.is_some() => Ok(()),
        _ => Err(error.into()),
    }
}

/// The folders of a log that is opened for writing.
pub(crate) struct WritableFolders {
    /// The store's own, then the others.
    pub(crate) devices: Vec<Arc<dyn Storage>>,
    pub(crate) archive: Option<Arc<dyn Storage>>,
    /// Locks on them; no other process writes to them.
    pub(crate) locks: Vec<StoreLock>,
    /// The log's entry for `MANIFEST`.
    pub(crate) entry: LogEntry,
    /// Folders that have yet to get their identity.
    nameless: Vec<(Arc<DirectStorage>, FolderIdentity)>,
}

impl WritableFolders {
    /// Accepts all folders of a log, or none. Writes nothing, but creates folders that are new to the store.
    pub(crate) fn accept(
        own: &Arc<dyn Storage>,
        log: &LogEntry,
        write: &WriteOptions,
        is_new: bool,
    ) -> Result<Self, StoreError> {
        let mut found = Vec::new();
        for (number, folder) in (1..).zip(&log.devices) {
            let known = Known::new(&**own, log.store, FolderRole::Device(number), folder);
            found.push(known.accept()?);
        }
        let mut archive = match &log.archive {
            Some(folder) => {
                Some(Known::new(&**own, log.store, FolderRole::Archive, folder).accept()?)
            }
            None => None,
        };
        let mut added = Vec::new();
        let new_devices = new_devices(own, log, write)?;
        for (number, path) in (log.devices.len() as u32 + 1..).zip(&new_devices) {
            let new = Newcomer::new(log.store, FolderRole::Device(number), path, is_new);
            new.check()?;
            added.push(new);
        }
        let new_archive = new_archive(own, log, write)?
            .map(|path| Newcomer::new(log.store, FolderRole::Archive, path, is_new));
        if let Some(new) = &new_archive {
            new.check()?;
        }
        let new_spare = new_spare(own, log, write)?;
        if let Some(path) = &new_spare {
            let number = (log.devices.len() + new_devices.len()) as u32 + 1;
            let role = FolderRole::Device(number);
            let new = Newcomer::new(log.store, role, path, is_new).spare();
            new.check()?;
            added.push(new);
        }
        for new in added {
            found.push(new.accept()?);
        }
        if let Some(new) = new_archive {
            archive = Some(new.accept()?);
        }
        let mut folders = Self {
            devices: vec![Arc::clone(own)],
            archive: None,
            locks: Vec::new(),
            entry: LogEntry::new(log.store, log.position),
            nameless: Vec::new(),
        };
        for accepted in found {
            folders.entry.devices.push(accepted.entry());
            let storage = folders.take(accepted)?;
            folders.devices.push(storage);
        }
        check_storages(&folders, write)?;
        folders.devices.extend_from_slice(&write.log_storages);
        if let Some(accepted) = archive {
            folders.entry.archive = Some(accepted.entry());
            folders.archive = Some(folders.take(accepted)?);
        }
        Ok(folders)
    }

    fn take(&mut self, accepted: Accepted) -> Result<Arc<dyn Storage>, StoreError> {
        let Accepted {
            storage,
            identity,
            is_nameless,
            is_spare: _,
        } = accepted;
        self.locks.push(StoreLock::log_folder(&storage)?);
        if is_nameless {
            // Another store may have taken it before it was locked.
            if FolderIdentity::read(&*storage)?.is_some() {
                return Err(StoreError::LogInUse {
                    path: storage.root().display().to_string(),
                });
            }
            self.nameless.push((Arc::clone(&storage), identity));
        }
        Ok(storage)
    }

    /// Returns the numbers of the folders that get groups only while the others are slow.
    pub(crate) fn spares(&self) -> impl Iterator<Item = usize> {
        let devices = (1..).zip(&self.entry.devices);
        devices.filter_map(|(number, folder)| folder.is_spare.then_some(number))
    }

    /// Writes the identities of folders that have none, durably.
    pub(crate) fn give_identities(&self) -> Result<(), StoreError> {
        for (storage, identity) in &self.nameless {
            identity.write(&**storage)?;
        }
        Ok(())
    }
}

/// Refuses storages beside folders: a folder that is added later would change the numbers of the storages.
fn check_storages(folders: &WritableFolders, write: &WriteOptions) -> Result<(), StoreError> {
    match folders.entry.devices.first() {
        Some(folder) if !write.log_storages.is_empty() => Err(StoreError::LogFolder {
            path: folder.path.clone(),
            role: FolderRole::Device(1).to_string(),
            problem: "the log has folders, and `log_storages` names devices that are not folders"
                .to_owned(),
            remedy: "leave `log_storages` out, or use a store whose log is in its own folder alone"
                .to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Returns the configured folders that are new to the log. A configuration that names folders must name all of them:
/// a missing one could be a mistake, or a folder that was moved.
fn new_devices(
    own: &Arc<dyn Storage>,
    log: &LogEntry,
    write: &WriteOptions,
) -> Result<Vec<PathBuf>, StoreError> {
    let wanted = &write.log_folders;
    for (number, folder) in (1..).zip(&log.devices) {
        // The spare folder is not among those that a configuration names.
        if !wanted.is_empty()
            && !folder.is_spare
            && !wanted
                .iter()
                .any(|path| is_same_folder(path, folder.path()))
        {
            return Err(StoreError::LogFolder {
                path: folder.path.clone(),
                role: FolderRole::Device(number).to_string(),
                problem: "the configuration (`log_folders`) does not name it, and the log is in it"
                    .to_owned(),
                remedy: format!(
                    "add it to the configuration, or leave `log_folders` out: the store knows its folders; if \
                     it is at another place now, say so with `{} --move {} NEW`",
                    command(&**own),
                    folder.path
                ),
            });
        }
    }
    let mut new: Vec<PathBuf> = Vec::new();
    for path in wanted {
        let is_known = |other: &Path| is_same_folder(path, other);
        if !log.devices.iter().any(|folder| is_known(folder.path()))
            && !new.iter().any(|other| is_known(other))
        {
            new.push(absolute(path));
        }
    }
    Ok(new)
}

/// Returns the spare folder to make in the archive, if one is configured and the store has none.
fn new_spare(
    own: &Arc<dyn Storage>,
    log: &LogEntry,
    write: &WriteOptions,
) -> Result<Option<PathBuf>, StoreError> {
    if !write.log_spare || log.devices.iter().any(|folder| folder.is_spare) {
        return Ok(None);
    }
    let known = log.archive.as_ref().map(LogFolder::path);
    match known.or(write.log_archive.as_deref()) {
        Some(archive) => Ok(Some(absolute(&archive.join(SPARE_FOLDER)))),
        None => Err(StoreError::LogFolder {
            path: SPARE_FOLDER.to_owned(),
            role: "to be a folder in the archive of the log".to_owned(),
            problem: "the configuration says `log_spare`, and the log has no archive".to_owned(),
            remedy: format!(
                "configure `log_archive`, or set one with `{} --archive FOLDER`",
                command(&**own)
            ),
        }),
    }
}

/// Returns the configured archive, if the store has none yet.
fn new_archive<'w>(
    own: &Arc<dyn Storage>,
    log: &LogEntry,
    write: &'w WriteOptions,
) -> Result<Option<&'w Path>, StoreError> {
    let Some(wanted) = write.log_archive.as_deref() else {
        return Ok(None);
    };
    match &log.archive {
        None => Ok(Some(wanted)),
        Some(folder) if is_same_folder(wanted, folder.path()) => Ok(None),
        Some(folder) => Err(StoreError::LogFolder {
            path: folder.path.clone(),
            role: FolderRole::Archive.to_string(),
            problem: format!(
                "the configuration (`log_archive`) says {}, and the store has put files there",
                wanted.display()
            ),
            remedy: format!(
                "configure {old}, or leave `log_archive` out: the store knows its archive; if that is at another \
                 place now, say so with `{command} --move {old} {new}`; if another is to take its place from now on, with \
                 `{command} --archive {new}`",
                old = folder.path,
                new = wanted.display(),
                command = command(&**own)
            ),
        }),
    }
}
