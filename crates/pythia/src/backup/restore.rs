//! Restores a backup as a new store.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pythia_io::{DirectStorage, Storage, Subfolder};
use pythia_log::{Commit, Log, LogError, LogOptions, LogReader, Position, StoreId};
use pythia_store::LOCK_NAME;
use pythia_store::manifest::{LogEntry, MANIFEST_NAME, Unnamed};
use pythia_store::{StoreError, StoreLock};

use super::BackupError;
use super::contents::{CommitsEntry, Contents};
use super::copy::{copy_commit, copy_file};

/// The state to restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// The last state.
    #[default]
    End,
    /// The state after this commit.
    Position(Position),
    /// The state after the last commit at or before this time, in microseconds since 1970.
    Time(u64),
}

/// Options of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// The state to restore.
    pub until: Until,
    /// The archive of the store's log, or the folder of the store itself, for commits after the backup.
    pub archive: Option<Arc<dyn Storage>>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Number of copied files.
    pub files: u64,
    /// Bytes of the copied files.
    pub bytes: u64,
    /// Number of commits on top of the files.
    pub commits: u64,
    /// The last commit of the store, if it has a log.
    pub last: Option<Position>,
}

/// Restores a backup from one folder into another, which must be new or empty. Checks every byte.
pub fn restore(
    backup: &Path,
    store: &Path,
    options: &RestoreOptions,
) -> Result<RestoreReport, BackupError> {
    let backup: Arc<dyn Storage> = Arc::new(DirectStorage::open(backup, false)?);
    if Contents::read(&*backup)?.is_none() {
        return Err(BackupError::NoBackup);
    }
    let folder = Arc::new(DirectStorage::open(store, true)?);
    let had_lock = folder.exists(LOCK_NAME)?;
    let _lock = StoreLock::exclusive(&folder)?;
    let target: Arc<dyn Storage> = Arc::<DirectStorage>::clone(&folder);
    let restored = restore_storage(&backup, &target, options);
    let may_be_there = matches!(
        restored,
        Ok(_) | Err(BackupError::Store(StoreError::Switching { .. }))
    );
    if !may_be_there && !had_lock {
        folder.remove(LOCK_NAME)?;
    }
    restored
}

/// Restores a backup into an empty storage of any kind, without locking. If it fails, nothing is left, except
/// after a failure of the very last step ([`StoreError::Switching`]): then a complete store may exist.
pub fn restore_storage(
    backup: &Arc<dyn Storage>,
    target: &Arc<dyn Storage>,
    options: &RestoreOptions,
) -> Result<RestoreReport, BackupError> {
    let contents = Contents::read(&**backup)?.ok_or(BackupError::NoBackup)?;
    if let Some(found) = target.list("")?.into_iter().find(|name| name != LOCK_NAME) {
        return Err(BackupError::NotEmpty { found });
    }
    let restored = Restore {
        backup,
        target,
        options,
    };
    restored.run(contents)
}

struct Restore<'a> {
    backup: &'a Arc<dyn Storage>,
    target: &'a Arc<dyn Storage>,
    options: &'a RestoreOptions,
}

impl Restore<'_> {
    fn run(&self, contents: Contents) -> Result<RestoreReport, BackupError> {
        let mut report = RestoreReport::default();
        let mut manifest = contents.manifest.clone();
        self.check_begin(&contents)?;
        let unnamed = self.unnamed(&contents);
        for file in &contents.files {
            let (bytes, crc32c) = copy_file(self.backup, &file.copy, &**self.target, &file.name)?;
            if (bytes, crc32c) != (file.bytes, file.crc32c) {
                return Err(BackupError::Damaged {
                    file: file.copy.clone(),
                    message: "its length or checksum is not what it was".to_owned(),
                });
            }
            report.files += 1;
            report.bytes += bytes;
        }
        if let (Some(entry), Some(commits)) = (&contents.manifest.log, &contents.commits) {
            // The restored store has an identity of its own, since its history may differ from the
            // original's.
            let restored = LogEntry::new(StoreId(rand::random()), entry.position);
            let last = self.copy_commits(entry, commits, &restored, &mut report)?;
            report.last = Some(last);
            manifest.log = Some(restored);
            manifest.format = manifest.format_needed();
        }
        manifest.switch(&**self.target, unnamed)?;
        Ok(report)
    }

    /// Returns all files that will be written, which are removed if the restore fails.
    fn unnamed(&self, contents: &Contents) -> Unnamed<'_> {
        let folders = contents
            .files
            .iter()
            .filter_map(|file| file.name.split('/').next());
        let folders: BTreeSet<&str> = folders
            .chain([pythia_log::FOLDER, pythia_log::RECORD_NAME])
            .collect();
        let mut unnamed = Unnamed::new(&**self.target);
        for folder in folders {
            unnamed.push(folder.to_owned());
        }
        unnamed
    }

    /// Rejects states before the earliest one of the backup, and commits if the store has no log.
    fn check_begin(&self, contents: &Contents) -> Result<(), BackupError> {
        let entry = contents.manifest.log.as_ref();
        let first = Position(entry.map_or(0, |entry| entry.position.0 - 1));
        match self.options.until {
            Until::End => Ok(()),
            Until::Position(wanted) if entry.is_none() => Err(BackupError::TooLate {
                wanted,
                last: Position(0),
                with_archive: false,
            }),
            Until::Position(wanted) if wanted < first => {
                let time = contents.commits.as_ref().and_then(|commits| commits.before);
                Err(BackupError::TooEarly { first, time })
            }
            Until::Position(_) => Ok(()),
            Until::Time(wanted) if first.0 > 0 => {
                let time = contents.commits.as_ref().and_then(|commits| commits.before);
                // If the time of the preceding commit is unknown, the backup's first commit is the limit.
                match time.is_none_or(|time| time > wanted) {
                    true => Err(BackupError::TooEarly { first, time }),
                    false => Ok(()),
                }
            }
            Until::Time(wanted) => self.check_first_time(contents, wanted),
        }
    }

    /// Rejects times before the first commit, or before a backup without commits was made: the times of
    /// earlier states are not recorded.
    fn check_first_time(&self, contents: &Contents, wanted: u64) -> Result<(), BackupError> {
        let commit = match (&contents.manifest.log, &contents.commits) {
            (Some(entry), Some(commits)) if commits.end > entry.position => {
                let folder = Subfolder::new(Arc::clone(self.backup), &commits.folder);
                let reader = LogReader::open(vec![Arc::new(folder)], None, entry.store);
                let first = reader.commits_from(entry.position)?.next().transpose();
                first.map_err(StoreError::from)?
            }
            _ => None,
        };
        let (first, time) = match commit {
            Some(commit) => (Some(commit.position), commit.time),
            None => (None, contents.taken),
        };
        if wanted < time {
            return Err(BackupError::BeforeFirst { first, time });
        }
        Ok(())
    }

    /// Writes a log with the wanted commits, and returns the last one.
    fn copy_commits(
        &self,
        entry: &LogEntry,
        commits: &CommitsEntry,
        restored: &LogEntry,
        report: &mut RestoreReport,
    ) -> Result<Position, BackupError> {
        let options = LogOptions {
            prepare_ahead: false,
            ..LogOptions::default()
        };
        let devices = vec![Arc::clone(self.target)];
        let log = Log::create_at(devices, restored.store, entry.position, options)?;
        let folder = Subfolder::new(Arc::clone(self.backup), &commits.folder);
        let reader = LogReader::open(vec![Arc::new(folder)], None, entry.store);
        let of_backup = reader.commits_from(entry.position)?;
        let end = commits.end;
        let within = |commit: &Result<Commit, LogError>| {
            commit.as_ref().map_or(true, |commit| commit.position < end)
        };
        let mut goes_on = self.append(of_backup.take_while(within), &log, report)?;
        if goes_on && log.next_position() < end {
            return Err(BackupError::Damaged {
                file: commits.folder.clone(),
                message: format!("its commits end before {end}"),
            });
        }
        if goes_on && let Some(archive) = &self.options.archive {
            goes_on = self.append_archive(archive, entry, &log, report)?;
        }
        let last = Position(log.next_position().0 - 1);
        log.close()?;
        match self.options.until {
            Until::Position(wanted) if goes_on && last < wanted => Err(BackupError::TooLate {
                wanted,
                last,
                with_archive: self.options.archive.is_some(),
            }),
            _ => Ok(last),
        }
    }

    /// Appends the commits after the backup from the archive or the store's own folder; returns false once a
    /// commit is not wanted. Fails if wanted commits may be in a damaged or missing file.
    fn append_archive(
        &self,
        archive: &Arc<dyn Storage>,
        entry: &LogEntry,
        log: &Log,
        report: &mut RestoreReport,
    ) -> Result<bool, BackupError> {
        let has = |name| archive.exists(name);
        let reader = match has(MANIFEST_NAME)? || has(pythia_log::RECORD_NAME)? {
            true => LogReader::open(vec![Arc::clone(archive)], None, entry.store),
            false => LogReader::open(Vec::new(), Some(Arc::clone(archive)), entry.store),
        };
        let reader = reader.up_to_damage();
        let appended = match reader.commits_from(log.next_position()) {
            Ok(commits) => self.append(commits, log, report),
            // The archive ends before the backup.
            Err(LogError::Ahead { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        };
        match &appended {
            Ok(false) => return appended,
            Ok(true) => {}
            Err(BackupError::Store(StoreError::Log(_))) => {}
            Err(_) => return appended,
        }
        let next = log.next_position();
        if let Some((damage, end)) = reader.loss(next)? {
            return Err(BackupError::Archive {
                problem: format!("{}: {}", damage.file, damage.problem),
                next,
                end,
            });
        }
        match appended {
            Err(BackupError::Store(StoreError::Log(LogError::Lost {
                place, evidence, ..
            }))) => Err(BackupError::Archive {
                problem: format!("{place} ({evidence})"),
                next,
                end: None,
            }),
            appended => appended,
        }
    }

    /// Appends the wanted commits; returns false once one is not wanted.
    fn append(
        &self,
        mut commits: impl Iterator<Item = Result<Commit, LogError>>,
        log: &Log,
        report: &mut RestoreReport,
    ) -> Result<bool, BackupError> {
        let mut ticket = None;
        let mut goes_on = true;
        while goes_on {
            // Damage behind the last wanted commit does not matter.
            if matches!(self.options.until, Until::Position(wanted) if wanted < log.next_position())
            {
                goes_on = false;
                break;
            }
            let Some(commit) = commits.next() else {
                break;
            };
            let commit = commit.map_err(StoreError::from)?;
            goes_on = match self.options.until {
                Until::End => true,
                Until::Position(wanted) => commit.position <= wanted,
                Until::Time(wanted) => commit.time <= wanted,
            };
            if !goes_on {
                break;
            }
            ticket = Some(copy_commit(&commit, log)?);
            report.commits += 1;
        }
        if let Some(ticket) = ticket {
            log.wait(ticket)?;
        }
        Ok(goes_on)
    }
}
