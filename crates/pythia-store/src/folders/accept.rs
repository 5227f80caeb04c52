//! Checks that a folder is the right one: the one that the manifest names, or one that is new to the store.

use std::path::Path;
use std::sync::Arc;

use pythia_io::system::absolute;
use pythia_io::{DirectStorage, Storage};
use pythia_log::{FolderFiles, FolderId, FolderIdentity, FolderRole, LogError, StoreId};

use crate::StoreError;
use crate::manifest::LogFolder;

/// Returns the command that changes a store's log folders.
pub(super) fn command(own: &dyn Storage) -> String {
    let place = own.place().unwrap_or_else(|| "STORE".to_owned());
    format!("pythia log-folders -l {place}")
}

/// A folder that passed the check.
pub(super) struct Accepted {
    pub(super) storage: Arc<DirectStorage>,
    pub(super) identity: FolderIdentity,
    /// Whether the identity has yet to be written.
    pub(super) is_nameless: bool,
    /// Whether it gets groups only while the others are slow.
    pub(super) is_spare: bool,
}

impl Accepted {
    pub(super) fn entry(&self) -> LogFolder {
        LogFolder {
            path: absolute(self.storage.root()).display().to_string(),
            id: Some(self.identity.id),
            is_spare: self.is_spare,
        }
    }
}

/// A folder found at a path.
pub(super) struct Found {
    pub(super) storage: Arc<DirectStorage>,
    /// `Err`: the damage.
    pub(super) identity: Result<Option<FolderIdentity>, String>,
}

impl Found {
    /// Opens the folder at a path; `None` if there is none.
    pub(super) fn at(path: &Path) -> Result<Option<Self>, StoreError> {
        let storage = match DirectStorage::open(path, false) {
            Ok(storage) => Arc::new(storage),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let identity = match FolderIdentity::read(&*storage) {
            Ok(identity) => Ok(identity),
            Err(LogError::Corrupt { file, message, .. }) => {
                Err(format!("its identity, {file}, is damaged: {message}"))
            }
            Err(error @ LogError::Version { .. }) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Self { storage, identity }))
    }
}

/// A folder that the manifest names.
pub(super) struct Known<'a> {
    pub(super) store: StoreId,
    pub(super) role: FolderRole,
    pub(super) folder: &'a LogFolder,
    pub(super) command: String,
    /// Whether files without an owner count as the store's: the store's record `LOG` lists the log files that must
    /// exist. A log of format 1 has no such record.
    pub(super) takes_unknown: bool,
}

impl<'a> Known<'a> {
    pub(super) fn new(
        own: &dyn Storage,
        store: StoreId,
        role: FolderRole,
        folder: &'a LogFolder,
    ) -> Self {
        let command = command(own);
        let recorded = pythia_log::left_store(own);
        Self {
            store,
            role,
            folder,
            command,
            takes_unknown: recorded.is_ok_and(|recorded| recorded == Some(store)),
        }
    }

    /// Opens the folder if it is the one that the manifest names. A folder without an identity in the manifest
    /// (earlier programs wrote none) may have none, if its files are the store's.
    pub(super) fn accept(&self) -> Result<Accepted, StoreError> {
        let Some(found) = Found::at(self.folder.path())? else {
            return Err(self.refuse(
                "there is no such folder; is its device mounted?",
                &self.if_missing(),
            ));
        };
        let identity = match found.identity {
            Ok(Some(identity)) => {
                self.check_identity(&identity)?;
                Some(identity)
            }
            Ok(None) => {
                self.check_files(&found.storage)?;
                None
            }
            Err(damage) => return Err(self.refuse(&damage, &self.if_damaged())),
        };
        Ok(Accepted {
            storage: found.storage,
            is_nameless: identity.is_none(),
            is_spare: self.folder.is_spare,
            identity: identity.unwrap_or_else(|| self.identity(FolderId::random())),
        })
    }

    pub(super) fn identity(&self, id: FolderId) -> FolderIdentity {
        FolderIdentity {
            store: self.store,
            role: self.role,
            id,
        }
    }

    pub(super) fn check_identity(&self, found: &FolderIdentity) -> Result<(), StoreError> {
        if found.store != self.store {
            let (found, expected) = (found.store, self.store);
            return Err(self.foreign(&format!(
                "it belongs to store {found}, not to store {expected}"
            )));
        }
        if found.role != self.role {
            return Err(self.foreign(&format!("it is {} of this store", found.role)));
        }
        match self.folder.id {
            Some(id) if id != found.id => {
                let problem = format!("it was {} before another took its place", self.role);
                Err(self.foreign(&problem))
            }
            _ => Ok(()),
        }
    }

    /// Checks the files of a folder without an identity.
    pub(super) fn check_files(&self, storage: &DirectStorage) -> Result<(), StoreError> {
        let has_identity = self.folder.id.is_some();
        match (FolderFiles::of(storage, self.store)?, self.role) {
            (FolderFiles::Foreign { file, store }, _) => Err(self.foreign(&format!(
                "its {file} belongs to store {store}, not to store {}",
                self.store
            ))),
            (FolderFiles::Own { devices }, FolderRole::Device(number))
                if devices.iter().any(|device| *device != number) =>
            {
                let other = devices
                    .into_iter()
                    .find(|device| *device != number)
                    .unwrap_or(0);
                Err(self.foreign(&format!("it has files of folder {other} of the log")))
            }
            (FolderFiles::Own { .. }, _) if has_identity => {
                Err(self.refuse("its identity, log/FOLDER, is missing", &self.if_damaged()))
            }
            (FolderFiles::Own { .. }, _) => Ok(()),
            (FolderFiles::Unknown, _) if !has_identity && self.takes_unknown => Ok(()),
            (FolderFiles::Unknown, _) if !has_identity => Err(self.refuse(
                "none of its files says that it is this store's, and without the record LOG nothing tells what the \
                 folder should have",
                &self.if_unknown(),
            )),
            (FolderFiles::Unknown, _) => {
                Err(self.foreign("it has no identity, and files that do not say whose they are"))
            }
            (FolderFiles::None, _) => Err(self.refuse(
                "it is empty, and has no identity; is its device mounted?",
                &self.if_missing(),
            )),
        }
    }

    fn foreign(&self, problem: &str) -> StoreError {
        let remedy = format!(
            "put the right folder there, or mount it; if it is at another place now, say so with `{} --move {} NEW`",
            self.command, self.folder.path
        );
        self.refuse(problem, &remedy)
    }

    fn if_missing(&self) -> String {
        let (command, path) = (&self.command, &self.folder.path);
        let place = format!(
            "mount it, or put it back; if it is at another place now, say so with `{command} --move {path} NEW`"
        );
        match self.role {
            FolderRole::Device(_) => format!(
                "{place}; if it is lost, or never held anything, make an empty folder there and accept that with `{command} \
                 --accept-empty {path}`: `pythia salvage` then shows what is lost with it"
            ),
            FolderRole::Archive => format!(
                "{place}; if it is lost, make an empty folder there and accept that with `{command} --accept-empty \
                 {path}`, or give it up with `{command} --archive none`"
            ),
        }
    }

    fn if_unknown(&self) -> String {
        let (command, path) = (&self.command, &self.folder.path);
        format!(
            "mount the right folder, or put its files back; if it is at another place now, say so with `{command} --move \
             {path} NEW`; or, if this is the folder all the same, say that with `{command} --renew {path}`"
        )
    }

    fn if_damaged(&self) -> String {
        format!(
            "put that file back; or, if this is the folder that it should be, write a new one with `{} --renew {}`, which \
             checks that its log files are this store's",
            self.command, self.folder.path
        )
    }

    pub(super) fn refuse(&self, problem: &str, remedy: &str) -> StoreError {
        StoreError::LogFolder {
            path: self.folder.path.clone(),
            role: self.role.to_string(),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        }
    }
}

/// A folder that the store does not have yet.
pub(super) struct Newcomer<'a> {
    store: StoreId,
    role: FolderRole,
    path: &'a Path,
    /// Whether the log is new, too: an interrupted attempt may have left files of it.
    is_new_log: bool,
    is_spare: bool,
}

impl<'a> Newcomer<'a> {
    pub(super) fn new(store: StoreId, role: FolderRole, path: &'a Path, is_new_log: bool) -> Self {
        Self {
            store,
            role,
            path,
            is_new_log,
            is_spare: false,
        }
    }

    /// Makes it a folder that gets groups only while the others are slow.
    pub(super) fn spare(self) -> Self {
        Self {
            is_spare: true,
            ..self
        }
    }

    /// Refuses a folder that holds anything that is not this store's.
    pub(super) fn check(&self) -> Result<Option<FolderId>, StoreError> {
        match Found::at(self.path)? {
            None => Ok(None),
            Some(found) => self.check_found(&found),
        }
    }

    /// Returns the identity that an interrupted attempt has given the folder.
    fn check_found(&self, found: &Found) -> Result<Option<FolderId>, StoreError> {
        let identity = match &found.identity {
            Ok(identity) => identity,
            Err(damage) => return Err(self.refuse(damage)),
        };
        match identity {
            Some(identity) if identity.store != self.store => {
                let other = identity.store;
                return Err(self.refuse(&format!("it belongs to store {other}")));
            }
            Some(identity) if identity.role != self.role => {
                return Err(self.refuse(&format!("it is {} of this store", identity.role)));
            }
            _ => {}
        }
        let may_have_files = self.role == FolderRole::Archive || self.is_new_log;
        match FolderFiles::of(&*found.storage, self.store)? {
            FolderFiles::Foreign { file, store } => {
                Err(self.refuse(&format!("its {file} belongs to store {store}")))
            }
            FolderFiles::Own { .. } | FolderFiles::Unknown if !may_have_files => {
                Err(self.refuse("it has files of a log, and the store does not know it"))
            }
            _ => Ok(identity.as_ref().map(|identity| identity.id)),
        }
    }

    pub(super) fn accept(self) -> Result<Accepted, StoreError> {
        let storage = Arc::new(DirectStorage::open(self.path, true)?);
        let identity = FolderIdentity::read(&*storage).map(|identity| (storage, identity));
        let (storage, identity) = identity?;
        let found = Found {
            storage,
            identity: Ok(identity),
        };
        let left = self.check_found(&found)?;
        let identity = FolderIdentity {
            store: self.store,
            role: self.role,
            id: left.unwrap_or_else(FolderId::random),
        };
        Ok(Accepted {
            storage: found.storage,
            identity,
            is_nameless: left.is_none(),
            is_spare: self.is_spare,
        })
    }

    fn refuse(&self, problem: &str) -> StoreError {
        StoreError::LogFolder {
            path: self.path.display().to_string(),
            role: format!("to be {}", self.role),
            problem: problem.to_owned(),
            remedy: "choose a new or empty folder for this store alone".to_owned(),
        }
    }
}
