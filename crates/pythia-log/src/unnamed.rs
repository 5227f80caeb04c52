//! Files of a log that no manifest names. Distinguishes the files of an interrupted creation from a used log.
//!
//! Creating a log writes the record, and file 1 of each device with a header and at most one group without
//! commits. Only then does `MANIFEST` name the log, and only then do commits follow. Anything else belongs to a
//! log that was used, so a `MANIFEST` without a log is not the right one for it.

use std::sync::Arc;
use std::time::Duration;

use pythia_io::Storage;

use crate::aside::{clear_unused, copy_aside};
use crate::catalog::list_folder;
use crate::format::{
    BLOCK_BYTES, FOLDER, FileHeader, GroupHeader, file_name, is_bulk_name, parse_file_name,
};
use crate::record::{Begun, RECORD_NAME, Record, RecordState, RecordWriter};
use crate::{LogError, StoreId};

/// Bytes that an interrupted creation may have written to a file: the header and one group.
const CREATED_BYTES: usize = 2 * BLOCK_BYTES;
/// Number of attempts of a reader, because a writer may just be creating the log.
const ATTEMPTS: usize = 10;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// Checks that the folders hold no more than an interrupted creation leaves, for a store whose `MANIFEST` names no
/// log.
///
/// # Errors
/// [`LogError::Exists`] with the file that shows that the log was used.
pub fn check_unnamed(devices: &[Arc<dyn Storage>]) -> Result<(), LogError> {
    let mut checked = Ok(());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        checked = check(devices);
        if checked.is_ok() {
            break;
        }
    }
    checked
}

/// Like [`check_unnamed`], for a caller that holds the writer's lock.
pub(crate) fn check(devices: &[Arc<dyn Storage>]) -> Result<(), LogError> {
    let record = match devices.first() {
        Some(first) => RecordState::read_any(&**first)?,
        None => RecordState::None,
    };
    for storage in devices {
        check_files(&**storage)?;
    }
    match record.record() {
        Some(record) => check_record(devices, record),
        None => Ok(()),
    }
}

fn exists(file: impl Into<String>, evidence: &str) -> LogError {
    LogError::Exists {
        file: file.into(),
        evidence: evidence.to_owned(),
    }
}

fn check_files(storage: &dyn Storage) -> Result<(), LogError> {
    for name in list_folder(storage)? {
        let path = format!("{FOLDER}/{name}");
        if is_bulk_name(&name) {
            return Err(exists(path, "it holds the changes of a commit"));
        }
        let Some((_, sequence)) = parse_file_name(&name) else {
            continue;
        };
        let bytes = match storage.read_all(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        if was_used(sequence, &bytes, &path)? {
            return Err(exists(
                path,
                "it holds more than the creation of a log writes",
            ));
        }
    }
    Ok(())
}

/// Returns whether a file has more in it than the creation of a log writes.
fn was_used(sequence: u64, bytes: &[u8], path: &str) -> Result<bool, LogError> {
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        return Ok(false);
    };
    if sequence > 1 || last >= CREATED_BYTES {
        return Ok(true);
    }
    let header = FileHeader::decode(bytes, path)?;
    let group = bytes.get(BLOCK_BYTES..);
    // Neither the checksum nor the store matters here.
    let group = group.and_then(|bytes| GroupHeader::decode(StoreId::default(), bytes));
    let has_commits = group.is_some_and(|(group, _)| group.count > 0);
    Ok(has_commits || header.is_some_and(|header| header.epoch > 1))
}

/// Checks a record against the files, which hold no commits.
fn check_record(devices: &[Arc<dyn Storage>], record: &Record) -> Result<(), LogError> {
    let is_later = |begun: &Begun| begun.sequence > 1 || begun.epoch > 1;
    if record.epoch > 1 || record.newest.values().any(is_later) {
        let evidence = "it says that the log was written to after its creation";
        return Err(exists(RECORD_NAME, evidence));
    }
    for (&number, begun) in &record.newest {
        let name = file_name(number, begun.sequence);
        // Without a manifest the folders of further devices are unknown.
        let Some(storage) = devices.get(number as usize) else {
            continue;
        };
        let bytes = match storage.read_all(&name) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let header = FileHeader::decode(&bytes, &name)?;
        if header.is_none_or(|header| header.nonce != begun.nonce) {
            let evidence =
                format!("it is missing or damaged, {RECORD_NAME} says that it was begun");
            return Err(exists(name, &evidence));
        }
    }
    Ok(())
}

/// Begins the record of a log that is being created. If an interrupted creation for the same store left a record,
/// it is overwritten block by block, so that another interruption still leaves the store's id. An unreadable
/// record is copied aside first.
pub(crate) fn begin_record(
    storage: &dyn Storage,
    record: Record,
) -> Result<RecordWriter, LogError> {
    let found = RecordState::read_any(storage)?;
    if let RecordState::Damaged = found {
        copy_aside(storage, RECORD_NAME)?;
    }
    match found {
        RecordState::Found(left, writes) if left.store == record.store => {
            RecordWriter::open(storage, RecordState::Found(left, writes), record)
        }
        _ => RecordWriter::create(storage, record),
    }
}

/// Clears away the log files that an interrupted creation left.
pub(crate) fn clear_folder(storage: &dyn Storage) -> Result<(), LogError> {
    for name in list_folder(storage)? {
        if parse_file_name(&name).is_some() {
            clear_unused(storage, &format!("{FOLDER}/{name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage};

    use super::*;
    use crate::tests::{Devices, STORE, commit, options};
    use crate::{Log, Position};

    fn files(storage: &dyn Storage) -> Vec<(String, Vec<u8>)> {
        let names = storage.list(FOLDER).unwrap_or_default();
        let names = names.iter().map(|name| format!("{FOLDER}/{name}"));
        let names = names.chain([RECORD_NAME.to_owned()]);
        let read = |name: String| storage.read_all(&name).ok().map(|bytes| (name, bytes));
        names.filter_map(read).collect()
    }

    fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
        let mut file = storage.create(name).unwrap();
        file.append(bytes).unwrap();
        file.sync().unwrap();
    }

    /// Whatever happens to one file, no other log takes the log's place while its commits can be detected.
    #[test]
    fn a_log_with_commits_is_not_replaced_and_nothing_is_removed() {
        let devices: Devices = vec![Arc::new(MemoryStorage::new())];
        let log = Log::create(devices.clone(), STORE, options()).unwrap();
        for number in 1..60 {
            commit(&log, number..number + 1).unwrap();
        }
        drop(log);
        let sound = files(&*devices[0]);
        assert!(sound.len() > 3, "several files and the record");
        let damages: [fn(&mut Vec<u8>); 4] = [
            |_| {},
            |bytes| bytes[20] ^= 0x55,
            |bytes| bytes[..BLOCK_BYTES].fill(0),
            |bytes| bytes.fill(0),
        ];
        for (name, _) in &sound {
            for damage in damages {
                let devices: Devices = vec![Arc::new(MemoryStorage::new())];
                for (other, bytes) in &sound {
                    let mut bytes = bytes.clone();
                    if other == name {
                        damage(&mut bytes);
                    }
                    put(&*devices[0], other, &bytes);
                }
                let before = files(&*devices[0]);
                let error = check_unnamed(&devices).unwrap_err().to_string();
                assert!(error.contains("MANIFEST names no log"), "{error}");
                let created = Log::create(devices.clone(), StoreId([1; 16]), options());
                assert!(matches!(created, Err(LogError::Exists { .. })), "{name}");
                assert_eq!(files(&*devices[0]), before, "{name}");
            }
        }
    }

    #[test]
    fn the_record_is_evidence_where_the_one_file_of_the_log_is_gone() {
        let devices: Devices = vec![Arc::new(MemoryStorage::new())];
        let log = Log::create(devices.clone(), STORE, options()).unwrap();
        commit(&log, 1..2).unwrap();
        drop(log);
        devices[0].remove(&file_name(0, 1)).unwrap();
        let error = check_unnamed(&devices).unwrap_err().to_string();
        assert!(error.starts_with(&file_name(0, 1)), "{error}");
        assert!(Log::create(devices, STORE, options()).is_err());
    }

    /// Creating a log may be interrupted anywhere, twice, and then be repeated for a store with another id.
    #[test]
    fn an_interrupted_creation_is_no_evidence() {
        let mut interrupted = 0;
        for seed in 0..40 {
            for crash in 1..14 {
                let faulty = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
                let faulty = Arc::new(faulty);
                let devices: Devices = vec![Arc::clone(&faulty) as _];
                for round in 0..2_u8 {
                    faulty.set_plan(FaultPlan {
                        seed: seed * 2 + u64::from(round),
                        crash_operation: Some(faulty.operations() + crash + u64::from(round)),
                        ..FaultPlan::none()
                    });
                    let log = Log::create(devices.clone(), StoreId([round; 16]), options());
                    interrupted += usize::from(log.is_err());
                    drop(log);
                    faulty.restart(FaultPlan::none()).unwrap();
                    check(&devices).unwrap_or_else(|error| panic!("{seed}, {crash}: {error}"));
                }
                let log = Log::create(devices.clone(), STORE, options()).unwrap();
                commit(&log, 1..2).unwrap();
                drop(log);
                let (_, commits) = Log::open(devices, STORE, Position(1), options()).unwrap();
                assert_eq!(crate::tests::check(commits, 1).unwrap(), 2);
            }
        }
        assert!(interrupted > 400, "{interrupted}");
    }

    /// A repeated creation must be able to find out which store the folders already belong to.
    #[test]
    fn a_creation_that_is_interrupted_again_still_says_whose_log_it_is() {
        for crash in 1..20 {
            for seed in 0..8 {
                let faulty = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
                let devices: Devices = vec![Arc::new(faulty.clone())];
                drop(Log::create(devices.clone(), STORE, options()).unwrap());
                assert_eq!(crate::left_store(&faulty).unwrap(), Some(STORE));
                faulty.set_plan(FaultPlan {
                    seed,
                    crash_operation: Some(faulty.operations() + crash),
                    ..FaultPlan::none()
                });
                drop(Log::create(devices, STORE, options()));
                faulty.restart(FaultPlan::none()).unwrap();
                let left = crate::left_store(&faulty).unwrap();
                assert_eq!(left, Some(STORE), "crash at {crash}, seed {seed}");
            }
        }
    }
}
