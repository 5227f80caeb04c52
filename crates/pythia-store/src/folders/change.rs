//! Changes by an operator to the folders of a log: new paths, and folders to accept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pythia_io::system::{absolute, is_same_folder};
use pythia_io::{DirectStorage, Storage};
use pythia_log::{FolderFiles, FolderId, FolderIdentity, FolderRole, StoreId};

use super::SPARE_FOLDER;
use super::accept::{Found, Known, Newcomer};
use crate::StoreError;
use crate::locks::{StoreLock, open_folder};
use crate::manifest::{LogEntry, LogFolder, Manifest, Unnamed};

/// The changes to make. Folders are named by their paths, moved ones by their new paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderChanges {
    /// Moved folders: old path and new path.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// Empty folders that replace the store's folders at these paths.
    pub accept_empty: Vec<PathBuf>,
    /// Folders that have lost their identity but hold the store's log files.
    pub renew: Vec<PathBuf>,
    /// A new archive; `Some(None)`: no archive.
    pub archive: Option<Option<PathBuf>>,
}

/// The folders of a store's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderReport {
    /// The id of the log's store.
    pub store: StoreId,
    /// The log folders outside the store's own.
    pub folders: Vec<FolderState>,
    /// The archive.
    pub archive: Option<FolderState>,
}

/// A folder of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderState {
    /// Its expected path.
    pub path: String,
    /// Its identity; `None` if it has none yet.
    pub id: Option<FolderId>,
    /// True for the folder in the archive that gets groups only while the others are slow.
    pub is_spare: bool,
    /// The problem and its remedy.
    pub problem: Option<String>,
}

/// Lists the log folders of the store in a folder, and checks each.
///
/// # Errors
/// [`StoreError::NoLog`] if the store was never opened for writing.
pub fn log_folders(path: &Path) -> Result<FolderReport, StoreError> {
    let storage: Arc<dyn Storage> = Arc::new(open_folder(path)?);
    let (_, log) = read(&*storage)?;
    let state = |role, folder: &LogFolder| {
        let accepted = Known::new(&*storage, log.store, role, folder).accept();
        FolderState {
            path: folder.path.clone(),
            id: folder.id,
            is_spare: folder.is_spare,
            problem: accepted.err().map(|error| error.to_string()),
        }
    };
    let devices = (1..).zip(&log.devices);
    let archive = log.archive.as_ref();
    Ok(FolderReport {
        store: log.store,
        folders: devices
            .map(|(number, folder)| state(FolderRole::Device(number), folder))
            .collect(),
        archive: archive.map(|folder| state(FolderRole::Archive, folder)),
    })
}

/// Changes the log folders of the store in a folder: all changes, or none.
///
/// # Errors
/// [`StoreError::Writing`] while the store is open for writing; [`StoreError::LogFolder`] if a folder is not the one
/// that the change says it is.
pub fn change_log_folders(
    path: &Path,
    changes: &FolderChanges,
) -> Result<FolderReport, StoreError> {
    let folder = Arc::new(open_folder(path)?);
    let _shared = StoreLock::shared(&folder)?;
    let _writer = StoreLock::writer(&folder)?;
    let storage: Arc<dyn Storage> = folder;
    let (mut manifest, log) = read(&*storage)?;
    let mut change = Change {
        own: &*storage,
        log,
        identities: Vec::new(),
        locks: Vec::new(),
    };
    change.apply(changes)?;
    for (storage, identity) in &change.identities {
        identity.write(&**storage)?;
    }
    if manifest.log.as_ref() != Some(&change.log) {
        manifest.log = Some(change.log);
        manifest.format = manifest.format_needed();
        manifest.switch(&*storage, Unnamed::new(&*storage))?;
    }
    log_folders(path)
}

fn read(storage: &dyn Storage) -> Result<(Manifest, LogEntry), StoreError> {
    let manifest = Manifest::read(storage)?.ok_or_else(|| StoreError::NotAStore {
        path: format!("{storage:?}"),
        message: "it has no MANIFEST".to_owned(),
    })?;
    let log = manifest.log.clone().ok_or(StoreError::NoLog)?;
    Ok((manifest, log))
}

/// A change that is being checked.
struct Change<'a> {
    own: &'a dyn Storage,
    /// The log's new entry.
    log: LogEntry,
    /// Folders that will get an identity.
    identities: Vec<(Arc<DirectStorage>, FolderIdentity)>,
    locks: Vec<StoreLock>,
}

impl Change<'_> {
    fn apply(&mut self, changes: &FolderChanges) -> Result<(), StoreError> {
        let all_moved = self.with_spare(&changes.moved)?;
        // All at once: two folders may have swapped places.
        let moved = all_moved.iter();
        let moved = moved.map(|(old, new)| Ok((self.find(old)?.0, new)));
        for (role, new) in moved.collect::<Result<Vec<_>, StoreError>>()? {
            let path = absolute(new).display().to_string();
            match (role, &mut self.log.archive) {
                (FolderRole::Device(number), _) => {
                    self.log.devices[number as usize - 1].path = path
                }
                (FolderRole::Archive, Some(archive)) => archive.path = path,
                (FolderRole::Archive, None) => {}
            }
        }
        for path in &changes.accept_empty {
            self.accept_empty(path)?;
        }
        for path in &changes.renew {
            self.renew(path)?;
        }
        for (_, new) in &all_moved {
            let is_said = |paths: &[PathBuf]| paths.iter().any(|path| is_same_folder(path, new));
            if !is_said(&changes.accept_empty) && !is_said(&changes.renew) {
                self.keep(new)?;
            }
        }
        match &changes.archive {
            None => {}
            Some(None) => self.log.archive = None,
            Some(Some(path)) => self.set_archive(path)?,
        }
        Ok(())
    }

    /// Adds the spare folder to the moved ones if it is in the archive, the archive is moved, and it is not named itself.
    fn with_spare(
        &mut self,
        moved: &[(PathBuf, PathBuf)],
    ) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
        let mut all = moved.to_vec();
        for (old, new) in moved {
            if self.find(old)?.0 != FolderRole::Archive {
                continue;
            }
            let spare = old.join(SPARE_FOLDER);
            let is_named = moved.iter().any(|(old, _)| is_same_folder(old, &spare));
            let mut devices = self.log.devices.iter();
            let is_spare = devices.any(|folder| {
                folder.is_spare && (folder.path() == spare || is_same_folder(folder.path(), &spare))
            });
            if is_spare && !is_named {
                all.push((spare, new.join(SPARE_FOLDER)));
            }
        }
        Ok(all)
    }

    /// Returns the log folder, or the archive, that the store has at a path.
    fn find(&mut self, path: &Path) -> Result<(FolderRole, &mut LogFolder), StoreError> {
        let (store, own) = (self.log.store, self.own.place().unwrap_or_default());
        let devices = (1..).zip(&mut self.log.devices);
        let devices = devices.map(|(number, folder)| (FolderRole::Device(number), folder));
        let archive = self.log.archive.as_mut();
        let mut all = devices.chain(archive.map(|folder| (FolderRole::Archive, folder)));
        all.find(|(_, folder)| folder.path() == path || is_same_folder(folder.path(), path))
            .ok_or_else(|| StoreError::LogFolder {
                path: path.display().to_string(),
                role: "not of this log".to_owned(),
                problem: format!("the log of store {store} has no folder there"),
                remedy: format!("`pythia log-folders -l {own}` shows which it has"),
            })
    }

    /// Accepts a moved folder if it is the same folder as before.
    fn keep(&mut self, path: &Path) -> Result<(), StoreError> {
        let (role, folder) = self.find(path)?;
        let folder = folder.clone();
        let accepted = Known::new(self.own, self.log.store, role, &folder).accept()?;
        self.find(path)?.1.id = Some(accepted.identity.id);
        self.take(accepted.storage, accepted.identity, accepted.is_nameless)
    }

    fn accept_empty(&mut self, path: &Path) -> Result<(), StoreError> {
        let (role, folder) = self.find(path)?;
        let folder = folder.clone();
        let known = Known::new(self.own, self.log.store, role, &folder);
        let found = open(&known)?;
        let files = FolderFiles::of(&*found.storage, self.log.store)?;
        let is_others =
            |found: &FolderIdentity| (found.store, found.role) != (self.log.store, role);
        let has_other_identity = matches!(&found.identity, Ok(Some(found)) if is_others(found));
        if files != FolderFiles::None || has_other_identity {
            return Err(known.refuse(
                "it is not empty",
                "what is in it may be the store's, or another's: look, and give an empty folder",
            ));
        }
        // A new identity: the folder that was here before may come back.
        let identity = known.identity(FolderId::random());
        self.find(path)?.1.id = Some(identity.id);
        self.take(found.storage, identity, true)
    }

    fn renew(&mut self, path: &Path) -> Result<(), StoreError> {
        let (role, folder) = self.find(path)?;
        let folder = folder.clone();
        let known = Known::new(self.own, self.log.store, role, &folder);
        let found = open(&known)?;
        if let Ok(Some(identity)) = &found.identity {
            // The identity is not lost; perhaps this is another folder.
            known.check_identity(identity)?;
        }
        let nameless = LogFolder {
            id: None,
            ..folder.clone()
        };
        // The operator has checked its files.
        let renewed = Known {
            takes_unknown: true,
            ..Known::new(self.own, self.log.store, role, &nameless)
        };
        renewed.check_files(&found.storage)?;
        let identity = known.identity(folder.id.unwrap_or_else(FolderId::random));
        self.find(path)?.1.id = Some(identity.id);
        self.take(found.storage, identity, true)
    }

    fn set_archive(&mut self, path: &Path) -> Result<(), StoreError> {
        let has_it =
            (self.log.archive.as_ref()).is_some_and(|folder| is_same_folder(folder.path(), path));
        if has_it {
            return self.keep(path);
        }
        let path = absolute(path);
        let new = Newcomer::new(self.log.store, FolderRole::Archive, &path, false);
        let accepted = new.accept()?;
        self.log.archive = Some(accepted.entry());
        self.take(accepted.storage, accepted.identity, accepted.is_nameless)
    }

    fn take(
        &mut self,
        storage: Arc<DirectStorage>,
        identity: FolderIdentity,
        is_nameless: bool,
    ) -> Result<(), StoreError> {
        self.locks.push(StoreLock::log_folder(&storage)?);
        if is_nameless {
            self.identities.push((storage, identity));
        }
        Ok(())
    }
}

fn open(known: &Known<'_>) -> Result<Found, StoreError> {
    let found = Found::at(known.folder.path())?;
    found.ok_or_else(|| known.refuse("there is no such folder", "make it, or mount it"))
}
