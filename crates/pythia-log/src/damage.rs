//! Distinguishes damaged or missing log files from files that were never used.
//!
//! A file was begun if the record names it or a later file of its device. Without a record (format 1), it was
//! begun if a later file has a header or if it has whole groups itself. A file that was begun must have its
//! header. Any other file without a header is empty, or holds a first write that a crash interrupted and that was
//! never acknowledged.

use std::collections::BTreeSet;

use crate::catalog::{Catalog, CatalogFile, Headless};
use crate::format::{BLOCK_BYTES, GroupHeader, Position, file_name};
use crate::record::{RECORD_NAME, RecordState};
use crate::{LogError, StoreId};

/// A log file that should be complete, but is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file's name within its folder.
    pub file: String,
    /// The file's path for messages: with the folder, unless that is the store's own.
    pub path: String,
    /// The problem, and the evidence.
    pub problem: String,
    /// Upper bound of what the file held: all its commits are before this position. `None` if unknown.
    pub(crate) before: Option<Position>,
}

impl Catalog {
    /// Returns an error if a damaged or missing file may hold commits from a position on.
    pub(crate) fn check(&self, from: Position) -> Result<(), LogError> {
        let mut damages = self.damages()?.into_iter();
        let needed = damages.find(|damage| damage.before.is_none_or(|before| before > from));
        match needed {
            Some(Damage { path, problem, .. }) => Err(LogError::Damaged {
                file: path,
                problem,
            }),
            None => Ok(()),
        }
    }

    /// Returns the position after the last commit that files without a header, or the record, prove to have
    /// existed.
    pub(crate) fn known_end(&self) -> Result<Position, LogError> {
        let recorded = self.record.record().map(|record| record.durable.position);
        let mut end = Position(recorded.unwrap_or(0));
        for file in &self.headless {
            for group in file.groups(self.store)? {
                end = end.max(Position(group.position + u64::from(group.count)));
            }
        }
        Ok(end)
    }

    /// Returns the files that are damaged or missing.
    pub(crate) fn damages(&self) -> Result<Vec<Damage>, LogError> {
        let mut damages = Vec::new();
        damages.extend(self.record_damage());
        for headless in &self.headless {
            damages.extend(self.header_damage(headless)?);
        }
        damages.extend(self.newest_damages());
        Ok(damages)
    }

    fn record_damage(&self) -> Option<Damage> {
        let problem = match &self.record {
            RecordState::Found(..) => return None,
            RecordState::Damaged => "it is damaged",
            RecordState::None => {
                let recorded = |file: &&CatalogFile| self.has_devices() && file.header.nonce > 0;
                self.files.iter().find(recorded)?;
                "it is missing or empty, and files of the log were begun with it"
            }
        };
        Some(Damage {
            file: RECORD_NAME.to_owned(),
            path: RECORD_NAME.to_owned(),
            problem: problem.to_owned(),
            before: None,
        })
    }

    /// Returns the damage of a file without a header, if there is evidence that it was begun.
    fn header_damage(&self, file: &Headless) -> Result<Option<Damage>, LogError> {
        let wrong = match file.is_short {
            true => "it is shorter than its header",
            false => "its header is damaged",
        };
        let next = self.next_of(file.device, file.sequence);
        let evidence = if file.is_archived {
            "it is in the archive, where files are put whole".to_owned()
        } else if self.newest_recorded(file.device) >= Some(file.sequence) {
            format!("{RECORD_NAME} says that it was begun")
        } else if let Some(next) = next {
            format!(
                "{} was begun after it",
                self.path_of(next.device, &next.name)
            )
        } else if self.record.record().is_some() {
            return Ok(None);
        } else {
            let groups = file.groups(self.store)?;
            let Some(first) = groups.iter().map(|group| group.position).min() else {
                return Ok(None);
            };
            format!("it has whole groups of commits, from {first} on")
        };
        Ok(Some(Damage {
            file: file.name.clone(),
            path: self.path_of(file.device, &file.name),
            problem: format!("{wrong}, and {evidence}"),
            before: next.map(|next| Position(next.header.upper.position)),
        }))
    }

    /// Returns the newest files in the record that are missing, or replaced by others.
    fn newest_damages(&self) -> Vec<Damage> {
        let mut damages = Vec::new();
        let newest = self.record.record().map(|record| &record.newest);
        for (&device, begun) in newest.into_iter().flatten() {
            let name = file_name(device, begun.sequence);
            let is_same = |(d, sequence)| (d, sequence) == (device, begun.sequence);
            let problem = if let Some(file) =
                (self.files.iter()).find(|file| is_same((file.device, file.sequence)))
            {
                let header = file.header;
                if (header.epoch, header.nonce) != (begun.epoch, begun.nonce) {
                    format!("it is not the file of this name that {RECORD_NAME} says was begun")
                } else if file.bytes < begun.bytes {
                    let (bytes, made) = (file.bytes, begun.bytes);
                    format!(
                        "it has {bytes} bytes, and {RECORD_NAME} says that it was made with {made}"
                    )
                } else {
                    continue;
                }
            } else if (self.headless.iter()).any(|file| is_same((file.device, file.sequence)))
                || self.next_of(device, begun.sequence).is_some()
            {
                // The first case is reported as a damaged header. If there is a later file, this one may be gone.
                continue;
            } else {
                format!("it is missing, and {RECORD_NAME} says that it was begun")
            };
            damages.push(Damage {
                path: self.path_of(device, &name),
                file: name,
                problem,
                before: None,
            });
        }
        damages
    }

    /// Returns whether a file without a header was begun, so that its first write was acknowledged.
    pub(crate) fn was_begun(&self, file: &Headless) -> Result<bool, LogError> {
        Ok(self.header_damage(file)?.is_some())
    }

    fn newest_recorded(&self, device: u32) -> Option<u64> {
        let newest = &self.record.record()?.newest;
        newest.get(&device).map(|begun| begun.sequence)
    }

    /// Returns the device's next file that has a header.
    fn next_of(&self, device: u32, sequence: u64) -> Option<&CatalogFile> {
        let files = self.files.iter();
        let later = files.filter(|file| file.device == device && file.sequence > sequence);
        later.min_by_key(|file| file.sequence)
    }

    /// Returns the files, present or missing, that may have held a commit, for messages.
    pub(crate) fn suspects(&self, commit: Position) -> String {
        let numbers = self.files.iter().map(|file| (file.device, file.sequence));
        let there: BTreeSet<(u32, u64)> = numbers.collect();
        let counts =
            |file: &CatalogFile| self.epoch_of(file.header.lower.group) == Some(file.header.epoch);
        let mut names = BTreeSet::new();
        for file in self.files.iter().filter(|file| counts(file)) {
            let next = self.next_of(file.device, file.sequence);
            let ends_before = next.is_some_and(|next| next.header.upper.position <= commit.0);
            if file.header.lower.position <= commit.0 && !ends_before {
                names.insert(self.path_of(file.device, &file.name));
            }
        }
        for file in &self.files {
            let before = (file.device, file.sequence.saturating_sub(1));
            if before.1 > 0 && !there.contains(&before) && file.header.upper.position > commit.0 {
                names.insert(self.path_of(before.0, &file_name(before.0, before.1)));
            }
        }
        match names.is_empty() {
            true => "a file of the log".to_owned(),
            false => names.into_iter().collect::<Vec<_>>().join(" or "),
        }
    }

    /// Converts an error of reading the log from a position on, for a store that needs these commits. Commits that
    /// are still to be replayed are never removed, so missing ones were lost by the device.
    pub(crate) fn lost_for_replay(&self, error: LogError, from: Position) -> LogError {
        let first = self.first().map(|place| Position(place.position));
        let (position, there) = match (error, first) {
            (LogError::Missing { position, .. }, Some(first)) if first < position => {
                (position, format!("the log begins with commit {first}"))
            }
            (LogError::Missing { .. }, Some(first)) => {
                (from, format!("the log begins with commit {first}"))
            }
            (LogError::Missing { .. }, None) => (from, "there is no log".to_owned()),
            (LogError::Ahead { next, .. }, _) => {
                (next, format!("the log ends before commit {next}"))
            }
            (error, _) => return error,
        };
        LogError::Lost {
            position,
            place: format!("{} is missing or damaged", self.suspects(position)),
            evidence: format!("{there}, and the store needs the commits from {from} on"),
        }
    }
}

impl Headless {
    /// Returns the whole groups in the file.
    pub(crate) fn groups(&self, store: StoreId) -> Result<Vec<GroupHeader>, LogError> {
        let bytes = self.storage.read_all(&self.name)?;
        let groups = Self::groups_in(&bytes, store).into_iter();
        Ok(groups.map(|(_, header)| header).collect())
    }

    /// Returns the whole groups in the bytes of a file, with their offsets.
    pub(crate) fn groups_in(bytes: &[u8], store: StoreId) -> Vec<(usize, GroupHeader)> {
        let mut groups = Vec::new();
        let mut offset = BLOCK_BYTES;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            offset += match GroupHeader::decode(store, rest) {
                Some((header, true)) => {
                    groups.push((offset, header));
                    header.total_bytes()
                }
                _ => BLOCK_BYTES,
            };
        }
        groups
    }
}
