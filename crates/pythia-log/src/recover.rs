//! Opening a log that is there: how far it goes, what it knows, and away with what never was.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pythia_io::Storage;

use crate::catalog::{Catalog, CatalogFile, Scan, list_folder};
use crate::device::FileInfo;
use crate::format::{FOLDER, FileHeader, Place, Position, is_bulk_name, parse_file_name};
use crate::group::{decode_heads, payload};
use crate::keys::Keys;
use crate::walk::Walk;
use crate::{LogError, StoreId};

/// A log as it was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The epoch to begin.
    pub(crate) epoch: u64,
    /// Where the log ends.
    pub(crate) end: Place,
    pub(crate) files: Vec<FileInfo>,
    pub(crate) keys: Keys,
    /// The last file of each device.
    pub(crate) last_sequences: BTreeMap<u32, u64>,
}

/// Finds the log's end, and makes sure that all before is durable.
pub(crate) fn recover(
    devices: &[Arc<dyn Storage>],
    store: StoreId,
    from: Position,
    archive: Option<&Arc<dyn Storage>>,
) -> Result<Recovered, LogError> {
    let catalog = Catalog::list(devices, None, store)?;
    let mut walk = match Walk::new(catalog, from) {
        // Nobody lets go of commits that are still to be replayed, so the device has lost them.
        Err(LogError::Missing { first, .. }) => {
            let there = match first {
                Some(first) => format!("the log begins with commit {first}"),
                None => "there is no log".to_owned(),
            };
            return Err(gone(
                from,
                format!("{there}, the store has changes up to commit {from}"),
            ));
        }
        walk => walk?,
    };
    while walk.next_group()?.is_some() {}
    let end = walk.place();
    if end.position < from.0 {
        let evidence = format!(
            "the log ends before commit {}, the store has changes up to commit {from}",
            end.position
        );
        return Err(gone(Position(end.position), evidence));
    }
    let catalog = walk.catalog;
    let archived = archived_names(archive, store)?;
    let mut files = Vec::new();
    let mut found = Found::default();
    for file in &catalog.files {
        let mut info = describe(&catalog, file, end, &mut found)?;
        info.is_archived = archived.contains(&info.name);
        files.push(info);
    }
    catalog.sync_last()?;
    for (storage, name) in &catalog.unused {
        storage.remove(name)?;
    }
    remove_bulks(devices, &files)?;
    Ok(Recovered {
        epoch: catalog.last_epoch() + 1,
        end,
        files,
        keys: found.into_keys(),
        last_sequences: catalog.last_sequences(),
    })
}

/// The log has lost its beginning, its end, or all of it.
fn gone(position: Position, evidence: String) -> LogError {
    LogError::Lost {
        position,
        place: format!("the folder {FOLDER}"),
        evidence,
    }
}

/// The log files in the archive, which must be this log's.
pub(crate) fn archived_names(
    archive: Option<&Arc<dyn Storage>>,
    store: StoreId,
) -> Result<HashSet<String>, LogError> {
    let catalog = Catalog::list(&[], archive, store)?;
    Ok(catalog.files.into_iter().map(|file| file.name).collect())
}

/// Keys and files with changes that groups name.
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

/// What a file holds of the groups that count. It is cut off behind its last group.
fn describe(
    catalog: &Catalog,
    file: &CatalogFile,
    end: Place,
    found: &mut Found,
) -> Result<FileInfo, LogError> {
    let scan = Scan::read(file)?;
    let mut info = FileInfo {
        storage: Arc::clone(&file.storage),
        name: file.name.clone(),
        bytes: scan.end as u64,
        used_bytes: scan.end as u64,
        lower: file.header.lower,
        end: Position(0),
        bulks: Vec::new(),
        is_archived: false,
    };
    if scan.bytes.len() > scan.end {
        // Nothing is written to it any more.
        file.storage.open_log(&file.name)?.trim(info.used_bytes)?;
    }
    for (offset, header) in &scan.groups {
        let counts = catalog.epoch_of(header.group) == Some(file.header.epoch);
        if !counts || header.group >= end.group {
            continue;
        }
        let last = header.position + u64::from(header.count);
        info.end = info.end.max(Position(last));
        let (group, at) = (scan.group(*offset, header), *offset as u64);
        let bytes = payload(header, group, &file.name, at)?;
        let heads = decode_heads(&bytes, &file.name, at)?;
        for (position, (key, bulk)) in (header.position..).zip(heads) {
            found.keys.extend(key.map(|key| (position, key)));
            info.bulks.extend(bulk.map(|bulk| bulk.name));
        }
    }
    Ok(info)
}

/// Removes changes put aside that no commit names.
fn remove_bulks(devices: &[Arc<dyn Storage>], files: &[FileInfo]) -> Result<(), LogError> {
    let named: HashSet<&String> = files.iter().flat_map(|file| &file.bulks).collect();
    for storage in devices {
        for name in list_folder(&**storage)? {
            let path = format!("{FOLDER}/{name}");
            if is_bulk_name(&name) && !named.contains(&path) {
                storage.remove(&path)?;
            }
        }
    }
    Ok(())
}

/// Removes what an interrupted creation of a log has left.
pub(crate) fn clear_folder(storage: &dyn Storage) -> Result<(), LogError> {
    let names = list_folder(storage)?;
    let names = names
        .iter()
        .filter(|n| parse_file_name(n).is_some() || is_bulk_name(n));
    let paths: Vec<String> = names.map(|name| format!("{FOLDER}/{name}")).collect();
    for path in paths.iter().filter(|path| path.ends_with(".log")) {
        let bytes = storage.read_all(path)?;
        let header = FileHeader::decode(&bytes, path)?;
        let used = header.is_some_and(|header| Scan::of(bytes, &header).has_commits());
        if used {
            let file = path.clone();
            return Err(LogError::Exists { file });
        }
    }
    for path in &paths {
        storage.remove(path)?;
    }
    Ok(())
}
