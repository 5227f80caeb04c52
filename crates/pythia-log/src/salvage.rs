//! Salvage: goes on with a log that has lost commits. Gives up commits and sets files aside.
//!
//! The commits before the first lost one stay. Those after it are given up even if they can be read, because they
//! build on it. A new epoch begins at its place, so that no group after it counts again.

use std::collections::BTreeSet;
use std::sync::Arc;

use pythia_io::{IoError, Storage};

use crate::aside::{clear_unused, copy_aside, set_aside};
use crate::bulk::BulkReader;
use crate::catalog::{Catalog, Headless, Scan};
use crate::damage::Damage;
use crate::device::Device;
use crate::format::{GroupHeader, LogPoint, Position};
use crate::group::{Body, decode_heads, decode_records, payload};
use crate::log::{Log, LogOptions};
use crate::queue::GroupQueue;
use crate::record::{RECORD_NAME, Record, RecordState, RecordWriter};
use crate::walk::{Group, Walk};
use crate::{LogError, StoreId};

/// The damage of a log, and the cost of going on without the lost commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvage {
    /// The files that are damaged or missing.
    pub damages: Vec<Damage>,
    /// The reason why the log cannot be read to its end, if it cannot.
    pub loss: Option<String>,
    /// True if the record can be read. Without it, some losses may go unnoticed.
    pub has_record: bool,
    /// The first commit that is given up, if it existed. The next commit gets this position.
    pub next: Position,
    /// The last commit that is known to have existed; before [`Self::next`] if no given-up commit is known.
    pub last_known: Position,
    /// Old and new names of the files that were set aside.
    pub set_aside: Vec<(String, String)>,
}

impl Salvage {
    /// Returns whether the log is sound, so that there is nothing to do.
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty() && self.loss.is_none()
    }
}

/// Finds the damage of the log of a store that needs the commits from a position on. With `give_up`, sets damaged
/// files aside and begins a new epoch after the last commit that can be read. The caller makes sure that nothing
/// is written to the log meanwhile.
pub fn salvage(
    devices: &[Arc<dyn Storage>],
    store: StoreId,
    from: Position,
    give_up: bool,
) -> Result<Salvage, LogError> {
    let catalog = Catalog::list(devices, None, store)?;
    let damages = catalog.damages()?;
    let (end, loss) = readable_end(devices, &catalog, from)?;
    let scans = Scans::read(&catalog)?;
    let next = match end {
        Some(end) if end.position >= from.0 => end,
        // The store has all commits before; their group numbers are unknown.
        _ => LogPoint {
            group: scans.last_group(&catalog) + 1,
            position: from.0,
        },
    };
    let mut salvage = Salvage {
        has_record: damages.iter().all(|damage| damage.file != RECORD_NAME),
        damages,
        loss: loss.map(|loss| loss.to_string()),
        next: Position(next.position),
        last_known: scans.last_known(&catalog, next),
        set_aside: Vec::new(),
    };
    if give_up && !salvage.is_sound() {
        let is_lost = salvage.loss.is_some();
        let aside = scans.files_to_set_aside(&catalog, next, is_lost, &salvage.damages);
        // Before the log files that name them, so that an interrupted attempt finds them again.
        salvage.set_aside = set_bulks_aside(devices, &catalog, &salvage.damages, &aside, next)?;
        let moved = clear(&catalog, &salvage.damages, aside)?;
        salvage.set_aside.extend(moved);
        begin_again(devices, store, next, &catalog)?;
    }
    Ok(salvage)
}

/// Walks the log as far as it can be read. Also returns the error that stopped the walk before the end.
fn readable_end(
    devices: &[Arc<dyn Storage>],
    catalog: &Catalog,
    from: Position,
) -> Result<(Option<LogPoint>, Option<LogError>), LogError> {
    let mut walk = match Walk::new(catalog.clone(), from) {
        Ok(walk) => walk,
        Err(error @ LogError::Missing { .. }) => return Ok((None, Some(error))),
        Err(error) => return Err(error),
    };
    loop {
        let place = walk.place();
        let group = walk.next_group();
        let checked = group.and_then(|group| {
            if let Some(group) = &group {
                check_bulks(devices, catalog, group)?;
            }
            Ok(group.is_some())
        });
        match checked {
            Ok(true) => {}
            Ok(false) if place.position < from.0 => {
                let next = Position(place.position);
                let position = from;
                return Ok((Some(place), Some(LogError::Ahead { position, next })));
            }
            Ok(false) => return Ok((Some(place), None)),
            Err(error) if is_loss(&error) => return Ok((Some(place), Some(error))),
            Err(error) => return Err(error),
        }
    }
}

fn is_loss(error: &LogError) -> bool {
    let is_gone = matches!(error, LogError::Io(error) if error.is_not_found());
    error.is_corruption() || is_gone || matches!(error, LogError::Missing { .. })
}

/// Reads the bulk files that the commits of a group name.
fn check_bulks(
    devices: &[Arc<dyn Storage>],
    catalog: &Catalog,
    group: &Group,
) -> Result<(), LogError> {
    let name = &catalog.files[group.file].name;
    for record in decode_records(&group.header, &group.payload, name, group.offset)? {
        let Body::Bulk(bulk) = record.body else {
            continue;
        };
        for set in BulkReader::open(&devices[0], catalog.store, &bulk)? {
            set?;
        }
    }
    Ok(())
}

/// The readable contents of the log's files.
struct Scans {
    /// One for each file of the catalog.
    files: Vec<Scan>,
    /// Last group and last position in files without a header.
    headless: LogPoint,
}

impl Scans {
    fn read(catalog: &Catalog) -> Result<Self, LogError> {
        let without_bytes = |scan: Scan| Scan {
            bytes: Vec::new(),
            ..scan
        };
        let files = catalog
            .files
            .iter()
            .map(|file| Scan::read(file).map(without_bytes));
        let files = files.collect::<Result<Vec<_>, IoError>>()?;
        let mut headless = LogPoint {
            group: 0,
            position: 0,
        };
        for file in &catalog.headless {
            if !catalog.was_begun(file)? {
                continue;
            }
            for group in file.groups(catalog.store)? {
                let last = (group.position + u64::from(group.count)).saturating_sub(1);
                headless.group = headless.group.max(group.group);
                headless.position = headless.position.max(last);
            }
        }
        Ok(Self { files, headless })
    }

    /// Returns the highest group number, present or past.
    fn last_group(&self, catalog: &Catalog) -> u64 {
        let groups = self.files.iter().flat_map(|scan| &scan.groups);
        let groups = groups.map(|(_, header)| header.group);
        let headers = catalog.files.iter().map(|file| file.header.upper.group);
        let recorded = catalog.record.record().map(|record| record.durable.group);
        let all = groups
            .chain(headers)
            .chain(recorded)
            .chain([self.headless.group]);
        all.max().unwrap_or(0)
    }

    /// Returns the last commit that is known to have existed.
    fn last_known(&self, catalog: &Catalog, next: LogPoint) -> Position {
        let mut last = next.position.saturating_sub(1).max(self.headless.position);
        if let Some(record) = catalog.record.record() {
            last = last.max(record.durable.position.saturating_sub(1));
        }
        for (file, scan) in catalog.files.iter().zip(&self.files) {
            let counts = |group| catalog.epoch_of(group) == Some(file.header.epoch);
            if counts(file.header.lower.group) {
                last = last.max(file.header.lower.position.saturating_sub(1));
            }
            for (_, group) in scan.groups.iter().filter(|(_, group)| counts(group.group)) {
                last = last.max((group.position + u64::from(group.count)).saturating_sub(1));
            }
        }
        Position(last)
    }

    /// Returns the files with damage or with groups that are given up, by their index in the catalog, and whether
    /// a file must also stay, because others of its groups still count.
    fn files_to_set_aside(
        &self,
        catalog: &Catalog,
        next: LogPoint,
        is_lost: bool,
        damages: &[Damage],
    ) -> Vec<(usize, bool)> {
        let mut aside = Vec::new();
        for (index, (file, scan)) in catalog.files.iter().zip(&self.files).enumerate() {
            let counts = |group| catalog.epoch_of(group) == Some(file.header.epoch);
            let counted = scan.groups.iter().map(|(_, header)| header.group);
            let counted: Vec<u64> = counted.filter(|group| counts(*group)).collect();
            let is_named = damages.iter().any(|damage| damage.file == file.name);
            let is_damaged = is_named || (is_lost && !scan.damaged.is_empty());
            if is_damaged || counted.iter().any(|group| *group >= next.group) {
                aside.push((index, counted.iter().any(|group| *group < next.group)));
            }
        }
        aside
    }
}

/// Sets the bulk files of given-up commits aside, as far as the commits can be read. Otherwise no commit would
/// name these files, and they would be removed like those of interrupted updates.
fn set_bulks_aside(
    devices: &[Arc<dyn Storage>],
    catalog: &Catalog,
    damages: &[Damage],
    aside: &[(usize, bool)],
    next: LogPoint,
) -> Result<Vec<(String, String)>, LogError> {
    let mut names = BTreeSet::new();
    for (index, _) in aside {
        let file = &catalog.files[*index];
        let scan = Scan::read(file)?;
        for (offset, header) in &scan.groups {
            let counts = catalog.epoch_of(header.group) == Some(file.header.epoch);
            if counts && header.group >= next.group {
                names.extend(bulks_named(header, scan.group(*offset, header), &file.name));
            }
        }
    }
    for file in &catalog.headless {
        if damages.iter().all(|damage| damage.file != file.name) {
            continue;
        }
        let bytes = file.storage.read_all(&file.name)?;
        for (offset, header) in Headless::groups_in(&bytes, catalog.store) {
            // Without the file's header the epoch is unknown; given-up groups are at the file's end.
            if header.group >= next.group {
                let group = &bytes[offset..offset + header.total_bytes()];
                names.extend(bulks_named(&header, group, &file.name));
            }
        }
    }
    let mut moved = Vec::new();
    for name in names {
        if devices[0].exists(&name)? {
            let to = set_aside(&*devices[0], &name)?;
            moved.push((catalog.path_of(0, &name), catalog.path_of(0, &to)));
        }
    }
    Ok(moved)
}

/// Returns the bulk files that the commits of a group name; none if the group cannot be read.
fn bulks_named(header: &GroupHeader, group: &[u8], file: &str) -> Vec<String> {
    let heads = payload(header, group, file, 0).and_then(|bytes| decode_heads(&bytes, file, 0));
    let heads = heads.unwrap_or_default().into_iter();
    heads
        .filter_map(|(_, bulk)| Some(bulk?.name().to_owned()))
        .collect()
}

/// Sets aside damaged files and files with given-up groups.
fn clear(
    catalog: &Catalog,
    damages: &[Damage],
    aside: Vec<(usize, bool)>,
) -> Result<Vec<(String, String)>, LogError> {
    let mut moved = Vec::new();
    for (index, stays) in aside {
        let file = &catalog.files[index];
        let to = match stays {
            true => copy_aside(&*file.storage, &file.name)?,
            false => set_aside(&*file.storage, &file.name)?,
        };
        let [from, to] = [&file.name, &to].map(|name| catalog.path_of(file.device, name));
        moved.push((from, to));
    }
    for file in &catalog.headless {
        if damages.iter().any(|damage| damage.file == file.name) {
            let to = set_aside(&*file.storage, &file.name)?;
            let [from, to] = [&file.name, &to].map(|name| catalog.path_of(file.device, name));
            moved.push((from, to));
        } else {
            // New files get higher numbers, so this one would look as if it had been begun before them.
            clear_unused(&*file.storage, &file.name)?;
        }
    }
    Ok(moved)
}

/// Begins an epoch at a place, durably, with the remaining files.
fn begin_again(
    devices: &[Arc<dyn Storage>],
    store: StoreId,
    next: LogPoint,
    before: &Catalog,
) -> Result<(), LogError> {
    let mut last = before.last_sequences();
    for file in &before.headless {
        let highest = last.entry(file.device).or_insert(0);
        *highest = file.sequence.max(*highest);
    }
    let epoch = before.last_epoch() + 1;
    let left = Catalog::list(devices, None, store)?;
    let record = Record {
        epoch,
        ..left.recovered_record(next)
    };
    if matches!(left.record, RecordState::Damaged) {
        copy_aside(&*devices[0], RECORD_NAME)?;
    }
    let record = RecordWriter::open(&*devices[0], left.record, record)?;
    let entries = (0..).zip(devices).map(|(number, storage)| {
        let last = last.get(&number).copied().unwrap_or(0);
        Device::new(number, Arc::clone(storage), last + 1)
    });
    let options = LogOptions {
        prepare_ahead: false,
        ..LogOptions::default()
    };
    let queue = GroupQueue::new(store, epoch, next, entries.collect());
    let log = Log::start(queue, record, options);
    log.submit(&[])?;
    log.close()
}
