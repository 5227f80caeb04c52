//! Reads the commits of a log in order, from any position on.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pythia_io::Storage;

use crate::bulk::{Bulk, BulkReader};
use crate::catalog::Catalog;
use crate::change::ChangeSet;
use crate::damage::Damage;
use crate::format::Position;
use crate::group::{Body, Record, decode_records};
use crate::walk::{Group, Walk};
use crate::{LogError, StoreId};

/// Number of attempts when the log changes during reading: a writer may be active, and files move to the archive.
const ATTEMPTS: usize = 20;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A log to read, whether or not a process writes to it.
#[derive(Clone, Debug)]
pub struct LogReader {
    devices: Vec<Arc<dyn Storage>>,
    archive: Option<Arc<dyn Storage>>,
    store: StoreId,
    /// True if damaged files that may hold commits are an error before any commit is read.
    is_strict: bool,
}

/// A commit of the log.
#[derive(Clone)]
pub struct Commit {
    /// The commit's position.
    pub position: Position,
    /// Time of the commit, in microseconds since 1970.
    pub time: u64,
    /// The key that the client gave the commit.
    pub key: Option<String>,
    body: Body,
    /// Folders and store, for reading the bulk file.
    source: Arc<Source>,
}

#[derive(Debug)]
struct Source {
    devices: Vec<Arc<dyn Storage>>,
    store: StoreId,
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Commit({} at {}, {:?})",
            self.position, self.time, self.key
        )
    }
}

impl LogReader {
    /// Makes a reader of the log in these folders, and of its archive.
    pub fn open(
        devices: Vec<Arc<dyn Storage>>,
        archive: Option<Arc<dyn Storage>>,
        store: StoreId,
    ) -> Self {
        Self {
            devices,
            archive,
            store,
            is_strict: true,
        }
    }

    /// Makes the reader return the commits before the first damage. [`Self::loss`] reports whether there may
    /// be more.
    pub fn up_to_damage(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// Returns the commits from a position on, up to the current end of the log.
    ///
    /// # Errors
    /// [`LogError::Missing`] if these commits have left the log, [`LogError::Ahead`] if the position is beyond the
    /// next commit's, [`LogError::Damaged`] if a file that may hold them is damaged.
    pub fn commits_from(&self, position: Position) -> Result<Commits, LogError> {
        let mut last = Err(LogError::NoDevice);
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                // Files were on their way into the archive.
                std::thread::sleep(PAUSE);
            }
            last = self.try_from(position);
            match &last {
                Err(error) if may_be_changing(error) => {}
                _ => break,
            }
        }
        last
    }

    /// Like [`Self::commits_from`], for a store that has all commits before a position and none after it: any
    /// commit that is missing from there on is lost.
    pub fn replay_from(&self, position: Position) -> Result<Commits, LogError> {
        let error = match self.commits_from(position) {
            Ok(commits) => return Ok(commits),
            Err(error) => error,
        };
        let catalog = Catalog::list(&self.devices, None, self.store)?;
        Err(catalog.lost_for_replay(error, position))
    }

    /// Returns the files of the log that are damaged or missing, including those that the store no longer needs.
    pub fn damages(&self) -> Result<Vec<Damage>, LogError> {
        let mut damages = Vec::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            damages = Catalog::list(&self.devices, None, self.store)?.damages()?;
            if damages.is_empty() {
                break;
            }
        }
        Ok(damages)
    }

    /// Returns a damaged or missing file that may hold commits from a position on, and the position after the last
    /// one of them that is known to have existed, if any.
    pub fn loss(&self, from: Position) -> Result<Option<(Damage, Option<Position>)>, LogError> {
        let mut loss = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                std::thread::sleep(PAUSE);
            }
            let archive = self.archive.as_ref();
            let catalog = Catalog::list(&self.devices, archive, self.store)?;
            let damages = catalog.damages()?;
            let needed = |damage: &Damage| damage.before.is_none_or(|before| before > from);
            let Some(damage) = damages.into_iter().find(needed) else {
                return Ok(None);
            };
            let end = Some(catalog.known_end()?).filter(|end| *end > from);
            loss = Some((damage, end));
        }
        Ok(loss)
    }

    /// Returns the first commit in the log, or the log's begin if it has no commits.
    pub fn first(&self) -> Result<Position, LogError> {
        let catalog = Catalog::list(&self.devices, self.archive.as_ref(), self.store)?;
        let first = catalog.first().map(|place| Position(place.position));
        first.ok_or(LogError::Missing {
            position: Position::FIRST,
            first: None,
        })
    }

    /// Returns the position after the current last commit. `from` is the position of an existing or of the next
    /// commit. Everything before the returned position is durable, even if its writer is still waiting for that.
    pub fn durable_end(&self, from: Position) -> Result<Position, LogError> {
        let mut commits = self.commits_from(from)?;
        for commit in commits.by_ref() {
            commit?;
        }
        let end = commits.position();
        if end > from {
            commits.walk.catalog.sync_last()?;
        }
        Ok(end)
    }

    fn try_from(&self, position: Position) -> Result<Commits, LogError> {
        let catalog = Catalog::list(&self.devices, self.archive.as_ref(), self.store)?;
        if self.is_strict {
            catalog.check(position)?;
        }
        let mut commits = Commits::new(Walk::new(catalog, position)?, self.clone());
        commits.skip_to(position)?;
        Ok(commits)
    }

    fn source(&self) -> Arc<Source> {
        Arc::new(Source {
            devices: self.devices.iter().chain(&self.archive).cloned().collect(),
            store: self.store,
        })
    }
}

/// Returns whether another attempt may help: a writer may be active, and files move to the archive.
fn may_be_changing(error: &LogError) -> bool {
    match error {
        LogError::Lost { .. } | LogError::Missing { .. } | LogError::Damaged { .. } => true,
        LogError::Io(error) => error.is_not_found(),
        _ => false,
    }
}

impl Commit {
    /// Returns whether the changes are in a bulk file, because they are many.
    pub fn is_bulk(&self) -> bool {
        matches!(self.body, Body::Bulk(_))
    }

    /// Returns the changes: one set, or many if the commit is large.
    pub fn changes(&self) -> Box<dyn Iterator<Item = Result<ChangeSet, LogError>> + '_> {
        match &self.body {
            Body::Inline(set) => Box::new(std::iter::once_with(|| Ok(set.clone()))),
            Body::Bulk(bulk) => match self.source.open(bulk) {
                Ok(reader) => Box::new(reader),
                Err(error) => Box::new(std::iter::once_with(|| Err(error))),
            },
        }
    }
}

impl Source {
    fn open(&self, bulk: &Bulk) -> Result<BulkReader, LogError> {
        let mut last = Err(LogError::NoDevice);
        for storage in &self.devices {
            last = BulkReader::open(storage, self.store, bulk);
            match &last {
                Err(LogError::Io(error)) if error.is_not_found() => {}
                _ => break,
            }
        }
        last
    }
}

/// An iterator over the commits of a log, in order.
#[derive(Debug)]
pub struct Commits {
    walk: Walk,
    reader: LogReader,
    source: Arc<Source>,
    /// The remaining commits of the current group.
    ready: VecDeque<Commit>,
    /// The position at which a new walk would begin.
    position: Position,
    failed: bool,
}

impl Commits {
    pub(crate) fn new(walk: Walk, reader: LogReader) -> Self {
        Self {
            position: Position(walk.place().position),
            source: reader.source(),
            walk,
            reader,
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// Returns the position of the next commit.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Skips the commits before a position.
    pub(crate) fn skip_to(&mut self, position: Position) -> Result<(), LogError> {
        while self.position < position {
            if self.ready.is_empty() && !self.fill()? {
                return Err(LogError::Ahead {
                    position,
                    next: self.position,
                });
            }
            if let Some(commit) = self.ready.pop_front() {
                self.position = commit.position.next();
            }
        }
        Ok(())
    }

    /// Reads the next group with commits. Returns false at the end.
    fn fill(&mut self) -> Result<bool, LogError> {
        while self.ready.is_empty() {
            let Some(group) = self.walk.next_group()? else {
                return Ok(false);
            };
            self.ready = self.commits(&group)?;
        }
        Ok(true)
    }

    fn commits(&self, group: &Group) -> Result<VecDeque<Commit>, LogError> {
        let name = &self.walk.catalog.files[group.file].name;
        let records = decode_records(&group.header, &group.payload, name, group.offset)?;
        let commit = |(index, record): (usize, Record)| Commit {
            position: Position(group.header.position + index as u64),
            time: record.time,
            key: record.key,
            body: record.body,
            source: Arc::clone(&self.source),
        };
        Ok(records.into_iter().enumerate().map(commit).collect())
    }

    /// Like [`Self::fill`], but lists the files again if the log changed meanwhile.
    fn fill_or_look_again(&mut self) -> Result<bool, LogError> {
        for _ in 0..ATTEMPTS {
            match self.fill() {
                Err(error) if may_be_changing(&error) => {}
                filled => return filled,
            }
            std::thread::sleep(PAUSE);
            *self = self.reader.commits_from(self.position)?;
        }
        self.fill()
    }
}

impl Iterator for Commits {
    type Item = Result<Commit, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        if self.ready.is_empty() {
            match self.fill_or_look_again() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let commit = self.ready.pop_front()?;
        self.position = commit.position.next();
        Some(Ok(commit))
    }
}
