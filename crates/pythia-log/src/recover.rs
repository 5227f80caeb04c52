//! Opening an existing log: finds its end and its keys, and clears away files that never counted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pythia_io::Storage;

use crate::aside::{clear_unused, keep_unfinished, remove_unfinished};
use crate::bulk::Bulk;
use crate::catalog::{Catalog, CatalogFile, list_folder};
use crate::device::FileInfo;
use crate::format::{FOLDER, LogPoint, Position, is_bulk_name};
use crate::heads::FileHeads;
use crate::keys::Keys;
use crate::read_ahead::ReadAhead;
use crate::record::{Record, RecordState};
use crate::walk::Walk;
use crate::{LogError, StoreId};

/// The log as it was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The epoch to begin.
    pub(crate) epoch: u64,
    /// The end of the log.
    pub(crate) end: LogPoint,
    pub(crate) files: Vec<FileInfo>,
    /// Lengths of files without the zeros at their end, for files that have such zeros.
    pub(crate) lengths: Vec<(Arc<dyn Storage>, String, u64)>,
    pub(crate) keys: Keys,
    /// The record to write, and the record that was found.
    pub(crate) record: Record,
    pub(crate) found_record: RecordState,
    /// The highest sequence number of each device.
    pub(crate) last_sequences: BTreeMap<u32, u64>,
}

/// Finds the log's end and makes everything before it durable. Changes nothing before it is certain that no commit
/// from `from` on is lost.
pub(crate) fn recover(
    devices: &[Arc<dyn Storage>],
    store: StoreId,
    from: Position,
    archive: Option<&Arc<dyn Storage>>,
) -> Result<Recovered, LogError> {
    let catalog = Catalog::list(devices, None, store)?;
    catalog.check(from)?;
    let walk = Walk::new(catalog.clone(), from).and_then(|mut walk| {
        walk = walk.with_heads();
        while walk.next_group()?.is_some() {}
        let next = Position(walk.place().position);
        match next < from {
            true => Err(LogError::Ahead {
                position: from,
                next,
            }),
            false => Ok(walk),
        }
    });
    let walk = walk.map_err(|error| catalog.lost_for_replay(error, from))?;
    let end = walk.place();
    let mut heads = walk.into_heads();
    let archived = archived_names(archive, store)?;
    let mut files = Vec::new();
    let mut lengths = Vec::new();
    let mut found = Found::default();
    // The walk has not read the files before its start.
    let unread = (0..).zip(&catalog.files);
    let unread = unread.filter(|(index, _)| !heads.contains_key(index));
    let reads = ReadAhead::new(unread.map(|(_, file)| file));
    for (index, file) in catalog.files.iter().enumerate() {
        let heads = match heads.remove(&index) {
            Some(heads) => heads,
            None => FileHeads::of(file, &reads.take(file)?),
        };
        let mut info = describe(&catalog, file, heads, end, &mut found)?;
        info.is_archived = archived.contains(&info.name);
        if info.bytes < file.bytes {
            lengths.push((Arc::clone(&file.storage), file.name.clone(), info.bytes));
        }
        files.push(info);
    }
    catalog.sync_last()?;
    for file in &catalog.headless {
        if !catalog.was_begun(file)? {
            clear_unused(&*file.storage, &file.name)?;
        }
    }
    clear_bulks(devices, &files)?;
    Ok(Recovered {
        epoch: catalog.last_epoch() + 1,
        end,
        record: catalog.recovered_record(end),
        found_record: catalog.record.clone(),
        last_sequences: catalog.last_sequences(),
        files,
        lengths,
        keys: found.into_keys(),
    })
}

/// Returns the log files in the archive, which must belong to this log.
pub(crate) fn archived_names(
    archive: Option<&Arc<dyn Storage>>,
    store: StoreId,
) -> Result<HashSet<String>, LogError> {
    let catalog = Catalog::list(&[], archive, store)?;
    Ok(catalog.files.into_iter().map(|file| file.name).collect())
}

/// Keys that groups name.
#[derive(Default)]
struct Found {
    keys: BTreeMap<u64, String>,
}

impl Found {
    fn into_keys(self) -> Keys {
        let mut keys = Keys::default();
        for (position, key) in self.keys {
            keys.insert(&key, Position(position));
        }
        keys
    }
}

/// Returns what a file holds of the groups that count.
fn describe(
    catalog: &Catalog,
    file: &CatalogFile,
    heads: FileHeads,
    end: LogPoint,
    found: &mut Found,
) -> Result<FileInfo, LogError> {
    let mut info = FileInfo {
        storage: Arc::clone(&file.storage),
        name: file.name.clone(),
        device: file.device,
        sequence: file.sequence,
        bytes: heads.used as u64,
        used_bytes: heads.end as u64,
        lower: file.header.lower,
        may_start: catalog.epoch_of(file.header.lower.group) == Some(file.header.epoch)
            && file.header.lower.group < end.group,
        end: LogPoint {
            group: 0,
            position: 0,
        },
        bulks: Vec::new(),
        is_archived: false,
    };
    for (header, named) in heads.groups {
        let counts = catalog.epoch_of(header.group) == Some(file.header.epoch);
        if !counts || header.group >= end.group {
            continue;
        }
        info.end = info.end.max(LogPoint {
            group: header.group + 1,
            position: header.position + u64::from(header.count),
        });
        for (position, (key, bulk)) in (header.position..).zip(named?) {
            found.keys.extend(key.map(|key| (position, key)));
            info.bulks.extend(bulk);
        }
    }
    Ok(info)
}

impl Recovered {
    /// Cuts off the zeros at the end of files that are no longer written. The record no longer states their
    /// length.
    pub(crate) fn trim(&self) -> Result<(), LogError> {
        for (storage, name, bytes) in &self.lengths {
            storage.open_log(name)?.trim(*bytes)?;
        }
        Ok(())
    }
}

/// Clears away bulk files that no commit names, which an interrupted load or update left.
fn clear_bulks(devices: &[Arc<dyn Storage>], files: &[FileInfo]) -> Result<(), LogError> {
    let bulks = files.iter().flat_map(|file| &file.bulks);
    let named: HashSet<&str> = bulks.map(Bulk::name).collect();
    for storage in devices {
        remove_unfinished(&**storage)?;
        for name in list_folder(&**storage)? {
            let path = format!("{FOLDER}/{name}");
            if is_bulk_name(&name) && !named.contains(&*path) {
                keep_unfinished(&**storage, &path)?;
            }
        }
    }
    Ok(())
}
