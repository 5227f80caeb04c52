//! Makes backups.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pythia_io::{DirectStorage, Storage, Subfolder};
use pythia_log::{Log, LogError, LogOptions, LogReader, Position};
use pythia_store::folders::check_no_log;
use pythia_store::folders::log_devices;
use pythia_store::manifest::{LogEntry, MANIFEST_NAME, Manifest};
use pythia_store::{LOCK_NAME, open_folder};
use pythia_store::{StoreError, StoreLock};

use super::BackupError;
use super::contents::{CommitsEntry, Contents, FileEntry};
use super::copy::{copy_commit, copy_file};

/// Number of attempts of a backup. It is restarted if the writer replaced files or commits to be copied.
const ATTEMPTS: usize = 10;

/// The result of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Number of copied files.
    pub copied_files: u64,
    /// Bytes of the copied files.
    pub copied_bytes: u64,
    /// Number of files kept from an earlier backup.
    pub kept_files: u64,
    /// Bytes of the kept files.
    pub kept_bytes: u64,
    /// Number of copied commits.
    pub commits: u64,
    /// The last commit of the backup, if the store has a log.
    pub last: Option<Position>,
}

/// Backs up the store in a folder, even while it is being written to, into another folder, which must be
/// empty or contain an older backup of the store.
pub fn backup(store: &Path, folder: &Path) -> Result<BackupReport, BackupError> {
    let store = Arc::new(open_folder(store)?);
    let _lock = StoreLock::shared(&store)?;
    backup_into(&(store as _), folder)
}

/// Backs up an open store like [`backup`], even if its folder was moved.
pub(crate) fn backup_into(
    store: &Arc<dyn Storage>,
    folder: &Path,
) -> Result<BackupReport, BackupError> {
    let target = Arc::new(DirectStorage::open(folder, true)?);
    let _lock = StoreLock::exclusive(&target)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_micros() as u64);
    backup_storage(store, &(target as _), now)
}

/// Backs up a store in a storage of any kind, at time `now`, without locking.
pub fn backup_storage(
    store: &Arc<dyn Storage>,
    target: &Arc<dyn Storage>,
    now: u64,
) -> Result<BackupReport, BackupError> {
    let previous = Contents::read(&**target)?;
    check_target(&**target)?;
    for _ in 0..ATTEMPTS {
        let attempt = Attempt {
            store,
            target,
            previous: previous.as_ref(),
            report: BackupReport::default(),
        };
        match attempt.copy(now) {
            Err(error) if was_replaced(&error) => {}
            Err(error) => return Err(error),
            Ok(copied) => return copied.finish(&**target),
        }
    }
    Err(BackupError::Changing)
}

/// Returns whether a file or a commit is missing because the store has a newer state.
fn was_replaced(error: &BackupError) -> bool {
    match error {
        BackupError::Store(StoreError::Io(error)) => error.is_not_found(),
        BackupError::Store(StoreError::Log(LogError::Missing { .. })) => true,
        BackupError::Store(StoreError::Log(LogError::Io(error))) => error.is_not_found(),
        _ => false,
    }
}

/// Rejects folders that contain anything but backups, complete or not.
fn check_target(target: &dyn Storage) -> Result<(), BackupError> {
    for name in target.list("")? {
        let ours = name == LOCK_NAME
            || ["BACKUP", "files-", "commits-"]
                .iter()
                .any(|start| name.starts_with(start));
        if !ours || name == MANIFEST_NAME {
            return Err(BackupError::NotEmpty { found: name });
        }
    }
    Ok(())
}

/// One attempt to copy a state of the store.
struct Attempt<'a> {
    store: &'a Arc<dyn Storage>,
    target: &'a Arc<dyn Storage>,
    previous: Option<&'a Contents>,
    report: BackupReport,
}

/// A copied state that the folder's `BACKUP` does not name yet.
struct Copied {
    contents: Contents,
    /// The backup's log, and the first position that is needed.
    log: Option<(Log, Position)>,
    report: BackupReport,
}

impl Copied {
    fn finish(self, target: &dyn Storage) -> Result<BackupReport, BackupError> {
        self.contents.switch(target)?;
        // The new backup is complete now, so data that only the old one needs can be removed.
        if let Some((log, position)) = self.log {
            log.checkpoint(position)?;
            log.close()?;
        }
        remove_leftovers(&self.contents, target)?;
        Ok(self.report)
    }
}

impl Attempt<'_> {
    fn copy(mut self, now: u64) -> Result<Copied, BackupError> {
        let not_a_store = || StoreError::NotAStore {
            path: format!("{:?}", self.store),
            message: "it has no MANIFEST".to_owned(),
        };
        let manifest = Manifest::read(&**self.store)?.ok_or_else(not_a_store)?;
        let number = self.previous.map_or(0, |previous| previous.number) + 1;
        let mut contents = Contents::new(number, now, manifest);
        self.check_store(&contents.manifest)?;
        contents.files = self.copy_files(&contents)?;
        let log = match contents.manifest.log.clone() {
            None => {
                check_no_log(self.store)?;
                None
            }
            Some(entry) => {
                let (commits, log) = self.copy_commits(&entry, number)?;
                contents.commits = Some(commits);
                Some((log, entry.position))
            }
        };
        Ok(Copied {
            contents,
            log,
            report: self.report,
        })
    }

    fn check_store(&self, manifest: &Manifest) -> Result<(), BackupError> {
        let id = |manifest: &Manifest| manifest.log.as_ref().map(|log| log.store);
        let old = self.previous.and_then(|previous| id(&previous.manifest));
        match old {
            Some(old) if id(manifest) != Some(old) => Err(BackupError::OtherStore),
            _ => Ok(()),
        }
    }

    /// Copies the files that the folder does not contain.
    fn copy_files(&mut self, contents: &Contents) -> Result<Vec<FileEntry>, BackupError> {
        let previous = self.previous.iter().flat_map(|previous| &previous.files);
        let old: HashMap<&str, &FileEntry> =
            previous.map(|entry| (entry.name.as_str(), entry)).collect();
        let mut files = Vec::new();
        for (name, bytes) in Contents::names(&contents.manifest) {
            let version = self.store.version(&name)?;
            let same = |entry: &&&FileEntry| {
                entry.bytes == bytes && version.is_some() && entry.version == version
            };
            if let Some(entry) = old.get(name.as_str()).filter(same) {
                self.report.kept_files += 1;
                self.report.kept_bytes += bytes;
                files.push((*entry).clone());
                continue;
            }
            let copy = format!("files-{:06}/{name}", contents.number);
            let (copied, crc32c) = copy_file(self.store, &name, &**self.target, &copy)?;
            if copied != bytes {
                let message = format!("it has {copied} bytes, not {bytes}");
                return Err(StoreError::corrupt(&name, None, message).into());
            }
            self.report.copied_files += 1;
            self.report.copied_bytes += bytes;
            files.push(FileEntry {
                name,
                copy,
                bytes,
                crc32c,
                version,
            });
        }
        Ok(files)
    }

    /// Copies the commits that the folder does not contain. The log stays open until its older commits may be
    /// removed.
    fn copy_commits(
        &mut self,
        entry: &LogEntry,
        number: u64,
    ) -> Result<(CommitsEntry, Log), BackupError> {
        let devices = log_devices(self.store, entry)?;
        let reader = LogReader::open(devices, None, entry.store);
        let (folder, log) = self.open_commits(entry, number)?;
        let from = log.next_position();
        let end = if from < entry.position {
            return Err(BackupError::Changing);
        } else {
            reader.durable_end(from)?
        };
        let mut ticket = None;
        for commit in reader.commits_from(from)? {
            let commit = commit?;
            if commit.position >= end {
                break;
            }
            ticket = Some(copy_commit(&commit, &log)?);
            self.report.commits += 1;
        }
        if let Some(ticket) = ticket {
            log.wait(ticket)?;
        }
        self.report.last = Some(Position(end.0 - 1));
        let before = time_before(&reader, entry.position).or_else(|| {
            let previous = self.previous.filter(|previous| {
                let log = previous.manifest.log.as_ref();
                log.is_some_and(|log| log.position == entry.position)
            });
            previous?.commits.as_ref()?.before
        });
        let commits = CommitsEntry {
            folder,
            end,
            before,
        };
        Ok((commits, log))
    }

    /// Opens the backup's log if it reaches far enough, else creates a new one.
    fn open_commits(&self, entry: &LogEntry, number: u64) -> Result<(String, Log), BackupError> {
        let options = LogOptions {
            retain_bytes: 0,
            prepare_ahead: false,
            ..LogOptions::default()
        };
        let storage = |folder: &str| -> Arc<dyn Storage> {
            Arc::new(Subfolder::new(Arc::clone(self.target), folder))
        };
        let previous = self.previous.and_then(|previous| {
            Some((previous.commits.as_ref()?, previous.manifest.log.as_ref()?))
        });
        if let Some((commits, log)) = previous
            && commits.end >= entry.position
        {
            let devices = vec![storage(&commits.folder)];
            let (log, _) = Log::open(devices, entry.store, log.position, options)?;
            return Ok((commits.folder.clone(), log));
        }
        let folder = format!("commits-{number:06}");
        // Leftovers of an interrupted backup.
        self.target.remove(&folder)?;
        let log = Log::create_at(vec![storage(&folder)], entry.store, entry.position, options)?;
        Ok((folder, log))
    }
}

/// Returns the time of the commit before a position, if the log still contains it.
fn time_before(reader: &LogReader, position: Position) -> Option<u64> {
    let before = Position(position.0.checked_sub(1)?);
    let mut commits = reader.commits_from(before.max(Position::FIRST)).ok()?;
    let commit = commits.next()?.ok()?;
    (commit.position == before).then_some(commit.time)
}

/// Removes files and logs that the backup does not name.
fn remove_leftovers(contents: &Contents, target: &dyn Storage) -> Result<(), BackupError> {
    for name in target.list("")? {
        let folder = format!("{name}/");
        let has_files = contents
            .files
            .iter()
            .any(|file| file.copy.starts_with(&folder));
        let has_commits = contents
            .commits
            .iter()
            .any(|commits| commits.folder == name);
        if name.starts_with("commits-") && !has_commits {
            target.remove(&name)?;
        }
        if name.starts_with("files-") {
            if has_files {
                remove_unnamed(contents, target, &name)?;
            } else {
                target.remove(&name)?;
            }
        }
    }
    Ok(())
}

/// Removes files from a folder that the backup does not name.
fn remove_unnamed(
    contents: &Contents,
    target: &dyn Storage,
    folder: &str,
) -> Result<(), BackupError> {
    let names = match target.list(folder) {
        Ok(names) => names,
        // A file, not a folder: it is named, or removed with its folder.
        Err(_) => return Ok(()),
    };
    for name in names {
        let path = format!("{folder}/{name}");
        let inside = format!("{path}/");
        let is_file = contents.files.iter().any(|file| file.copy == path);
        if is_file {
            continue;
        }
        if contents
            .files
            .iter()
            .any(|file| file.copy.starts_with(&inside))
        {
            remove_unnamed(contents, target, &path)?;
        } else {
            target.remove(&path)?;
        }
    }
    Ok(())
}
