//! Walks the groups of a log in order, wherever they are.
//!
//! A device's groups ascend, except for one that was written again because another device was slow. So groups are
//! looked up by number among the files that may hold them. The log ends at the first missing number, unless later
//! data shows that the missing group was acknowledged.

use std::collections::BTreeMap;

use crate::LogError;
use crate::catalog::{Catalog, Scan};
use crate::format::{GroupHeader, LogPoint, Position};
use crate::group;
use crate::heads::FileHeads;
use crate::read_ahead::ReadAhead;
use crate::record::RECORD_NAME;

/// A walk through a log from a place on.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) catalog: Catalog,
    /// Files of the catalog that were not read yet, last first.
    files: Vec<usize>,
    /// Reads them; `None` until the first is needed.
    reads: Option<ReadAhead>,
    /// The heads of the files that were read, if they are wanted.
    heads: Option<BTreeMap<usize, FileHeads>>,
    loaded: Vec<Loaded>,
    /// Group number → its place, for the epochs that count.
    index: BTreeMap<u64, Found>,
    /// The next group and position.
    next: LogPoint,
    /// Commits before this position are not needed.
    from: Position,
    /// The evidence that groups were acknowledged.
    evidence: Evidence,
    /// Damaged groups: file, offset, number.
    damaged: Vec<(usize, usize, u64)>,
    /// Archived files with gaps between groups: file, offset, and the last group after the gap.
    gaps: Vec<(usize, usize, Option<GroupHeader>)>,
}

#[derive(Debug)]
struct Loaded {
    file: usize,
    scan: Scan,
    /// Its highest group.
    last: u64,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    file: usize,
    offset: usize,
    header: GroupHeader,
}

#[derive(Debug, Default)]
struct Evidence {
    /// All groups up to this one were acknowledged.
    group: u64,
    /// The file with the evidence; `None` is the record.
    file: Option<usize>,
}

/// A group of the log.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) header: GroupHeader,
    pub(crate) payload: Vec<u8>,
    /// Its file in the catalog, and its offset there.
    pub(crate) file: usize,
    pub(crate) offset: u64,
}

impl Walk {
    /// Begins at the latest place, not after `position`, from which the files hold all groups. If groups from there on
    /// have left the log and hold no commit from `position` on, begins at a later group.
    pub(crate) fn new(catalog: Catalog, position: Position) -> Result<Self, LogError> {
        let Some(start) = catalog.start(position.0) else {
            let first = catalog.first().map(|place| Position(place.position));
            return Err(LogError::Missing { position, first });
        };
        let mut evidence = Evidence::default();
        if let Some(record) = catalog.record.record() {
            evidence.raise(record.durable.group.saturating_sub(1), None);
        }
        let wanted = |file: &usize| !catalog.ends_before(&catalog.files[*file], start.group);
        let files = (0..catalog.files.len()).rev().filter(wanted).collect();
        Ok(Self {
            catalog,
            files,
            reads: None,
            heads: None,
            loaded: Vec::new(),
            index: BTreeMap::new(),
            next: start,
            from: position,
            evidence,
            damaged: Vec::new(),
            gaps: Vec::new(),
        })
    }

    /// Makes the walk keep the heads of the files that it reads.
    pub(crate) fn with_heads(self) -> Self {
        Self {
            heads: Some(BTreeMap::new()),
            ..self
        }
    }

    /// Returns the heads of the files that were read, by their index in the catalog.
    pub(crate) fn into_heads(self) -> BTreeMap<usize, FileHeads> {
        self.heads.unwrap_or_default()
    }

    /// Returns the next group and position.
    pub(crate) fn place(&self) -> LogPoint {
        self.next
    }

    /// Returns the next group; `None` at the end of the log.
    pub(crate) fn next_group(&mut self) -> Result<Option<Group>, LogError> {
        loop {
            let number = self.next.group;
            let Some(epoch) = self.catalog.epoch_of(number) else {
                return Ok(None);
            };
            self.load(Some((epoch, number)))?;
            if let Some(found) = self.index.remove(&number) {
                return self.take(found).map(Some);
            }
            match self.end(epoch, number) {
                Ok(()) => return Ok(None),
                // The group was in a file that was removed or archived; later groups may be enough.
                Err(error @ LogError::Missing { .. }) if !self.is_damaged(number) => {
                    self.skip_unneeded().ok_or(error)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns whether a group is present but damaged.
    fn is_damaged(&self, number: u64) -> bool {
        self.damaged.iter().any(|(.., group)| *group == number)
    }

    /// Continues at the latest acknowledged group that begins no later than the needed position, if there is one.
    /// Groups before it may be missing.
    fn skip_unneeded(&mut self) -> Option<()> {
        let acknowledged = ..=self.evidence.group;
        let mut groups = self.index.range(acknowledged).rev();
        let is_enough = |header: &GroupHeader| header.position <= self.from.0;
        let (&group, found) = groups.find(|(_, found)| is_enough(&found.header))?;
        self.next = LogPoint {
            group,
            position: found.header.position,
        };
        self.index = self.index.split_off(&group);
        Some(())
    }

    /// Reads the files that may hold a group, or all remaining files.
    fn load(&mut self, wanted: Option<(u64, u64)>) -> Result<(), LogError> {
        while let Some(&file) = self.files.last() {
            let header = self.catalog.files[file].header;
            if wanted.is_some_and(|wanted| wanted < (header.epoch, header.lower.group)) {
                break;
            }
            let files = self.files.iter().rev();
            let files = files.map(|file| &self.catalog.files[*file]);
            let reads = self.reads.get_or_insert_with(|| ReadAhead::new(files));
            let scan = reads.take(&self.catalog.files[file]);
            self.files.pop();
            self.load_file(file, scan?);
        }
        Ok(())
    }

    fn load_file(&mut self, file: usize, scan: Scan) {
        let entry = &self.catalog.files[file];
        let epoch = entry.header.epoch;
        if let Some(heads) = &mut self.heads {
            heads.insert(file, FileHeads::of(entry, &scan));
        }
        let counts = |group| self.catalog.epoch_of(group) == Some(epoch);
        if counts(entry.header.lower.group) {
            self.evidence
                .raise(entry.header.lower.group - 1, Some(file));
        }
        let mut last = 0;
        for &(offset, header) in &scan.groups {
            if !counts(header.group) {
                continue;
            }
            self.evidence.raise(header.durable_before, Some(file));
            if header.group >= self.next.group {
                last = last.max(header.group);
                let found = Found {
                    file,
                    offset,
                    header,
                };
                self.index.entry(header.group).or_insert(found);
            }
        }
        for (offset, header) in &scan.damaged {
            self.damaged.push((file, *offset, header.group));
        }
        if let Some((offset, behind)) = scan.gap().filter(|_| entry.is_archived) {
            self.gaps.push((file, offset, behind));
        }
        if last > 0 {
            self.loaded.push(Loaded { file, scan, last });
        }
    }

    fn take(&mut self, found: Found) -> Result<Group, LogError> {
        let Found {
            file,
            offset,
            header,
        } = found;
        let entry = &self.catalog.files[file];
        let name = &self.catalog.path_of(entry.device, &entry.name);
        if header.position != self.next.position {
            return Err(LogError::Corrupt {
                file: name.clone(),
                offset: offset as u64,
                message: format!(
                    "its first commit is {}, not {}",
                    header.position, self.next.position
                ),
            });
        }
        let loaded = self.loaded.iter().find(|loaded| loaded.file == file);
        let scan = &loaded.expect("files with groups to come stay loaded").scan;
        let bytes = scan.group(offset, &header);
        let payload = group::payload(&header, bytes, name, offset as u64)?.into_owned();
        self.next.group += 1;
        self.next.position += u64::from(header.count);
        let next = self.next.group;
        self.loaded.retain(|loaded| loaded.last >= next);
        Ok(Group {
            header,
            payload,
            file,
            offset: offset as u64,
        })
    }

    /// Handles a missing group: succeeds at the end of the log, fails if the group was acknowledged.
    fn end(&mut self, epoch: u64, number: u64) -> Result<(), LogError> {
        self.load(None)?;
        let later = self.catalog.later_epoch(epoch).is_some();
        let position = Position(self.next.position);
        if self.evidence.group < number && !later {
            return match self.archive_gap(number) {
                Some((file, offset)) => Err(LogError::Lost {
                    position,
                    place: format!(
                        "{}: damaged at byte {offset}",
                        self.catalog.files[file].name
                    ),
                    evidence: "archived files hold only whole groups".to_owned(),
                }),
                None => Ok(()),
            };
        }
        if self.catalog.may_have_left(number) {
            let first = None;
            return Err(LogError::Missing { position, first });
        }
        let damaged = self.damaged.iter().find(|(.., group)| *group == number);
        let place = match damaged {
            Some((file, offset, _)) => {
                let entry = &self.catalog.files[*file];
                let path = self.catalog.path_of(entry.device, &entry.name);
                format!("{path}: damaged at byte {offset}")
            }
            None => format!("{} is missing or damaged", self.catalog.suspects(position)),
        };
        let evidence = if later {
            "the log was opened again after them".to_owned()
        } else {
            let file = self
                .evidence
                .file
                .map(|file| &*self.catalog.files[file].name);
            format!("{} says so", file.unwrap_or(RECORD_NAME))
        };
        Err(LogError::Lost {
            position,
            place,
            evidence,
        })
    }

    /// Returns the place of damage in the archive that may have been a group.
    fn archive_gap(&self, number: u64) -> Option<(usize, usize)> {
        let may_be = |(file, _, behind): &&(usize, usize, Option<GroupHeader>)| {
            behind.is_none_or(|behind| behind.group > number)
                && !self.catalog.ends_before(&self.catalog.files[*file], number)
        };
        let (file, offset, _) = self.gaps.iter().find(may_be)?;
        Some((*file, *offset))
    }
}

impl Evidence {
    fn raise(&mut self, group: u64, file: Option<usize>) {
        if group > self.group {
            *self = Self { group, file };
        }
    }
}
