//! Log files of the faulty storage. Writes since the last sync are visible to readers; in a crash, the seed
//! decides for each sector whether it is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Device, FaultPlan, Random, SimulatedDevice, Volatile, dead, injected, put};
use crate::storage::{ALIGNMENT, LogFile, check_log_write};
use crate::{AlignedBuffer, IoError};
use parking_lot::Mutex;

/// The unit that a device writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The log files that a crash would damage.
#[derive(Default)]
pub(super) struct VolatileLogs {
    files: BTreeMap<String, VolatileLog>,
}

/// A log file's current content, with the data to take back writes that are not durable.
struct VolatileLog {
    content: Vec<u8>,
    undo: Vec<Write>,
}

struct Write {
    offset: usize,
    old: Vec<u8>,
}

impl VolatileLogs {
    /// Loses what was not synced: a write stays, is lost, or loses some of its sectors.
    pub(super) fn crash(&mut self, device: &Device, random: &mut Random) -> Result<(), IoError> {
        for (name, mut log) in std::mem::take(&mut self.files) {
            if log.undo.is_empty() {
                continue;
            }
            for write in log.undo.iter().rev() {
                let fate = random.below(3);
                for (index, old) in write.old.chunks(SECTOR_BYTES).enumerate() {
                    if fate == 0 || (fate == 1 && random.below(2) == 0) {
                        let start = write.offset + index * SECTOR_BYTES;
                        log.content[start..start + old.len()].copy_from_slice(old);
                    }
                }
            }
            let mut bytes = AlignedBuffer::zeroed(log.content.len());
            bytes.copy_from_slice(&log.content);
            let file = device.inner.open_log(&name)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, name: &str) {
        let inside = format!("{name}/");
        self.files
            .retain(|key, _| key != name && !key.starts_with(&inside));
    }
}

impl FaultPlan {
    /// Returns a plan in which syncs of log files from operation `number` on do nothing and report success.
    pub fn lie_from(number: u64) -> Self {
        Self {
            lying_sync_from: Some(number),
            ..Self::default()
        }
    }
}

/// Creates a log file: one operation to write its zeros, one to make them durable.
pub(super) fn create(
    device: &Arc<Device>,
    name: &str,
    bytes: u64,
) -> Result<Box<dyn LogFile>, IoError> {
    let length = bytes.next_multiple_of(ALIGNMENT as u64) as usize;
    device.operate("create", name, || {
        reserve(&mut device.state.lock(), name, length as u64)?;
        let zeros = Arc::new(Mutex::new(vec![0; length]));
        put(&*device.inner, name, &zeros.lock(), false)?;
        let mut state = device.state.lock();
        state.logs.forget(name);
        state.next_writer += 1;
        let writer = state.next_writer;
        let bytes = Arc::clone(&zeros);
        state
            .volatile
            .insert(name.to_owned(), Volatile { writer, bytes });
        Ok(())
    })?;
    let misreported = match device.begin("sync", name) {
        Ok(misreported) => misreported,
        Err(error) => {
            let mut state = device.state.lock();
            if !state.crashed {
                state.volatile.remove(name);
                device.inner.remove(name)?;
            }
            return Err(error);
        }
    };
    device.state.lock().volatile.remove(name);
    device.inner.create_log(name, length as u64)?;
    match misreported {
        true => Err(injected("sync", name, libc::EIO)),
        false => open_alive(device, name),
    }
}

/// Opens a log file.
pub(super) fn open(device: &Arc<Device>, name: &str) -> Result<Box<dyn LogFile>, IoError> {
    device.operate("open", name, || open_alive(device, name))
}

fn open_alive(device: &Arc<Device>, name: &str) -> Result<Box<dyn LogFile>, IoError> {
    let inner = device.inner.open_log(name)?;
    Ok(Box::new(FaultyLogFile {
        device: Arc::clone(device),
        restarts: device.state.lock().restarts,
        inner,
    }))
}

fn reserve(state: &mut SimulatedDevice, name: &str, bytes: u64) -> Result<(), IoError> {
    let used = state.appended + bytes;
    if state.plan.capacity_bytes.is_some_and(|room| used > room) {
        return Err(injected("create", name, libc::ENOSPC));
    }
    state.appended = used;
    Ok(())
}

struct FaultyLogFile {
    device: Arc<Device>,
    /// Number of restarts when the file was opened.
    restarts: u64,
    inner: Box<dyn LogFile>,
}

impl fmt::Debug for FaultyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyLogFile({:?})", self.inner)
    }
}

impl FaultyLogFile {
    fn check_alive(&self, state: &SimulatedDevice, action: &'static str) -> Result<(), IoError> {
        if state.crashed || state.restarts != self.restarts {
            return Err(dead(action, self.name()));
        }
        Ok(())
    }

    /// Writes bytes and remembers the old ones.
    fn write(
        &self,
        state: &mut SimulatedDevice,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), IoError> {
        if !state.logs.files.contains_key(self.name()) {
            let content = self.device.inner.read_all(self.name())?;
            let undo = Vec::new();
            let log = VolatileLog { content, undo };
            state.logs.files.insert(self.name().to_owned(), log);
        }
        let Some(log) = state.logs.files.get_mut(self.name()) else {
            return Err(dead("write", self.name()));
        };
        let place = &mut log.content[offset..offset + bytes.len()];
        let old = place.to_vec();
        place.copy_from_slice(bytes);
        log.undo.push(Write { offset, old });
        self.inner.write_at(offset as u64, bytes)
    }
}

impl LogFile for FaultyLogFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.device.operate("write", self.name(), || {
            check_log_write(self.name(), self.len(), offset, bytes)?;
            let mut state = self.device.state.lock();
            self.check_alive(&state, "write")?;
            if state.plan.tear_operation == Some(state.operations) {
                self.write(&mut state, offset as usize, bytes)?;
                self.device.crash(&mut state)?;
                return Err(dead("write", self.name()));
            }
            self.write(&mut state, offset as usize, bytes)
        })
    }

    fn sync(&self) -> Result<(), IoError> {
        self.device.operate("sync", self.name(), || {
            let mut state = self.device.state.lock();
            self.check_alive(&state, "sync")?;
            let lies = state.plan.lying_sync_from;
            if lies.is_some_and(|from| state.operations >= from) {
                return Ok(());
            }
            if let Some(log) = state.logs.files.get_mut(self.name()) {
                log.undo.clear();
            }
            Ok(())
        })
    }

    fn trim(&self, bytes: u64) -> Result<(), IoError> {
        self.device.operate("trim", self.name(), || {
            let mut state = self.device.state.lock();
            self.check_alive(&state, "trim")?;
            if let Some(log) = state.logs.files.get_mut(self.name()) {
                let kept = |write: &Write| (write.offset + write.old.len()) as u64 <= bytes;
                log.undo.retain(kept);
                log.content.truncate(bytes as usize);
            }
            self.inner.trim(bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{FaultyStorage, MemoryStorage, Storage};

    /// Returns the first byte of each sector after a crash, for two writes of which the first was synced; with
    /// `lie`, neither was.
    fn left(seed: u64, lie: bool) -> Vec<u8> {
        let plan = FaultPlan {
            seed,
            lying_sync_from: lie.then_some(1),
            ..FaultPlan::none()
        };
        let storage = FaultyStorage::new(Arc::new(MemoryStorage::new()), plan);
        let log = storage.create_log("a", 8192).unwrap();
        let mut bytes = AlignedBuffer::zeroed(4096);
        for (number, offset) in [(1, 0), (2, 4096)] {
            bytes.fill(number);
            log.write_at(offset, &bytes).unwrap();
            if number == 1 {
                log.sync().unwrap();
            }
        }
        storage.restart(FaultPlan::none()).unwrap();
        assert!(
            log.write_at(0, &bytes).is_err(),
            "files from before the crash are dead"
        );
        let bytes = storage.read_all("a").unwrap();
        bytes.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_crash_takes_any_sectors_of_what_was_not_synced() {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let sectors = left(seed, false);
            assert_eq!(sectors[..8], [1; 8]);
            assert_eq!(left(seed, false), sectors, "the seed decides");
            seen.insert(sectors[8..].to_vec());
        }
        assert!(seen.contains(&vec![0; 8]) && seen.contains(&vec![2; 8]));
        assert!(seen.len() > 10, "torn at many places");
    }

    #[test]
    fn a_lying_sync_loses_what_it_said_was_durable() {
        let all: Vec<_> = (0..60).map(|seed| left(seed, true)).collect();
        assert!(
            all.iter()
                .any(|sectors| sectors[..8] == [0; 8] && sectors[8..] == [2; 8])
        );
    }

    #[test]
    fn creating_a_log_file_can_fail_or_crash_in_two_places() {
        for number in 1..=2 {
            let storage =
                FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::fail_at(number));
            assert!(storage.create_log("a", 4096).is_err());
            assert!(!storage.exists("a").unwrap());
            let mut lengths = BTreeSet::new();
            for seed in 0..30 {
                let memory = Arc::new(MemoryStorage::new());
                let storage = FaultyStorage::new(memory.clone(), FaultPlan::crash_at(number, seed));
                assert!(storage.create_log("a", 4096).is_err());
                lengths.insert(memory.read_all("a").ok().map(|bytes| bytes.len()));
            }
            assert_eq!(lengths.len() > 3, number == 2, "{lengths:?}");
        }
        let full = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::disk_of(8191));
        let error = full.create_log("a", 8192).unwrap_err();
        assert!(matches!(error, IoError::DiskFull { .. }), "{error}");
        assert!(!full.exists("a").unwrap());
    }
}
