//! A storage that fails on demand, to test that errors are reported and crashes survived.
//!
//! Written data reaches the storage below only when a file is synced (or closed, when a crash can still lose it).
//! So a crash leaves what a real device might leave: synced files whole, others missing, cut short, or without
//! some blocks. Everything follows from the plan and its seed.

mod log;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::IoError;
use crate::probe::DeviceProfile;
use crate::storage::{ALIGNMENT, FileVersion, LogFile, ReadFile, ReadRequest, Storage, WriteFile};

/// A plan of faults. Operations are numbered from 1 in the order in which they begin: opening, creating, each
/// append, sync, close, each batch of reads, rename, remove, list, making names durable. Creating a log file is
/// two operations, create and sync; opening and trimming one are one each.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// Decides what a crash leaves of files that were not synced.
    pub seed: u64,
    /// This operation fails with an I/O error and has no effect.
    pub fail_operation: Option<u64>,
    /// This operation takes effect and then fails with an I/O error. If it is a rename, the folder was not synced:
    /// until a later operation syncs it, the seed decides whether a crash takes the rename back.
    pub misreport_operation: Option<u64>,
    /// The device crashes as this operation begins; all operations fail from then on.
    pub crash_operation: Option<u64>,
    /// If this operation is an append, half of it is done and then the device crashes. Of a write to a log file,
    /// the seed decides what is done.
    pub tear_operation: Option<u64>,
    /// From this operation on, syncs of log files do nothing and report success.
    pub lying_sync_from: Option<u64>,
    /// Bytes that can be appended, or allocated for log files, before the disk is full.
    pub capacity_bytes: Option<u64>,
    /// Bits that are read wrong.
    pub flipped_bits: Vec<FlippedBit>,
}

/// A bit that is read wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlippedBit {
    /// The file's name.
    pub file: String,
    /// The byte's offset in the file.
    pub offset: u64,
    /// The bit's number, 0 to 7.
    pub bit: u8,
}

impl FaultPlan {
    /// Returns a plan without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a plan in which operation `number` fails.
    pub fn fail_at(number: u64) -> Self {
        Self {
            fail_operation: Some(number),
            ..Self::default()
        }
    }

    /// Returns a plan in which operation `number` takes effect but is reported as failed; `seed` decides what a
    /// crash takes back.
    pub fn misreport_at(number: u64, seed: u64) -> Self {
        Self {
            seed,
            misreport_operation: Some(number),
            ..Self::default()
        }
    }

    /// Returns a plan in which the device crashes at operation `number`; `seed` decides what is left.
    pub fn crash_at(number: u64, seed: u64) -> Self {
        Self {
            seed,
            crash_operation: Some(number),
            ..Self::default()
        }
    }

    /// Returns a plan in which the disk is full after `bytes`.
    pub fn disk_of(bytes: u64) -> Self {
        Self {
            capacity_bytes: Some(bytes),
            ..Self::default()
        }
    }

    /// Returns a plan in which one bit is read wrong.
    pub fn flip(file: &str, offset: u64, bit: u8) -> Self {
        Self {
            flipped_bits: vec![FlippedBit {
                file: file.to_owned(),
                offset,
                bit,
            }],
            ..Self::default()
        }
    }
}

/// A storage that fails according to its plan. Clones share the device.
#[derive(Clone, Debug)]
pub struct FaultyStorage {
    device: Arc<Device>,
}

struct Device {
    inner: Arc<dyn Storage>,
    state: Mutex<SimulatedDevice>,
}

struct SimulatedDevice {
    plan: FaultPlan,
    operations: u64,
    appended: u64,
    crashed: bool,
    /// Files that a crash would damage: being written, or closed without a sync.
    volatile: BTreeMap<String, Volatile>,
    logs: log::VolatileLogs,
    /// Renames that a crash may take back, the oldest first.
    renames: Vec<Rename>,
    next_writer: u64,
    /// Number of restarts of the device.
    restarts: u64,
}

struct Volatile {
    writer: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
}

/// A rename that is not durable.
struct Rename {
    from: String,
    to: String,
    /// The replaced file's bytes, if there was one.
    replaced: Option<Vec<u8>>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Faulty({:?})", self.inner)
    }
}

impl FaultyStorage {
    /// Puts a device that fails in front of `inner`.
    pub fn new(inner: Arc<dyn Storage>, plan: FaultPlan) -> Self {
        Self {
            device: Arc::new(Device {
                inner,
                state: Mutex::new(SimulatedDevice {
                    plan,
                    operations: 0,
                    appended: 0,
                    crashed: false,
                    volatile: BTreeMap::new(),
                    logs: log::VolatileLogs::default(),
                    renames: Vec::new(),
                    next_writer: 0,
                    restarts: 0,
                }),
            }),
        }
    }

    /// Returns the number of operations begun so far. A run without faults shows where faults can be placed.
    pub fn operations(&self) -> u64 {
        self.device.state.lock().operations
    }

    /// Returns the number of bytes appended so far.
    pub fn bytes_appended(&self) -> u64 {
        self.device.state.lock().appended
    }

    /// Returns whether the device has crashed.
    pub fn crashed(&self) -> bool {
        self.device.state.lock().crashed
    }

    /// Crashes the device now.
    pub fn crash(&self) -> Result<(), IoError> {
        let mut state = self.device.state.lock();
        self.device.crash(&mut state)
    }

    /// Restarts the device with another plan, counting from 0, and with what the crash left. Writers from before
    /// stay dead.
    pub fn restart(&self, plan: FaultPlan) -> Result<(), IoError> {
        let mut state = self.device.state.lock();
        self.device.crash(&mut state)?;
        state.plan = plan;
        state.operations = 0;
        state.appended = 0;
        state.crashed = false;
        state.restarts += 1;
        Ok(())
    }

    /// Returns the current plan.
    pub fn plan(&self) -> FaultPlan {
        self.device.state.lock().plan.clone()
    }

    /// Changes the plan of the running device; operations are counted on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.device.state.lock().plan = plan;
    }
}

fn injected(action: &'static str, name: &str, code: i32) -> IoError {
    IoError::os(action, name, None, io::Error::from_raw_os_error(code))
}

fn dead(action: &'static str, name: &str) -> IoError {
    IoError::os(
        action,
        name,
        None,
        io::Error::other("the device has crashed"),
    )
}

impl Device {
    /// Counts an operation, applies the plan's faults, and runs the operation unless a fault prevents it.
    fn operate<T>(
        &self,
        action: &'static str,
        name: &str,
        run: impl FnOnce() -> Result<T, IoError>,
    ) -> Result<T, IoError> {
        let misreported = self.begin(action, name)?;
        let done = run()?;
        match misreported {
            true => Err(injected(action, name, libc::EIO)),
            false => Ok(done),
        }
    }

    /// Counts an operation and applies the plan's faults. Returns true if the operation must be reported as failed
    /// although it is done.
    fn begin(&self, action: &'static str, name: &str) -> Result<bool, IoError> {
        let mut state = self.state.lock();
        if state.crashed {
            return Err(dead(action, name));
        }
        state.operations += 1;
        let number = Some(state.operations);
        if state.plan.crash_operation == number {
            self.crash(&mut state)?;
            return Err(dead(action, name));
        }
        if state.plan.fail_operation == number {
            return Err(injected(action, name, libc::EIO));
        }
        Ok(state.plan.misreport_operation == number)
    }

    /// Loses what was not synced, as the seed decides.
    fn crash(&self, state: &mut SimulatedDevice) -> Result<(), IoError> {
        state.crashed = true;
        let mut random = Random(state.plan.seed ^ state.operations.rotate_left(32));
        for rename in std::mem::take(&mut state.renames).into_iter().rev() {
            if random.below(2) == 0 {
                rename.take_back(&*self.inner)?;
            }
        }
        for (name, volatile) in std::mem::take(&mut state.volatile) {
            let bytes = volatile.bytes.lock();
            match remains(&bytes, &mut random) {
                Some(left) => put(&*self.inner, &name, &left, true)?,
                None => self.inner.remove(&name)?,
            }
        }
        state.logs.crash(self, &mut random)
    }

    fn flip(&self, file: &str, offset: u64, buffer: &mut [u8]) {
        for flip in &self.state.lock().plan.flipped_bits {
            let place = flip.offset.checked_sub(offset).map(|place| place as usize);
            if flip.file == file
                && let Some(byte) = place.and_then(|place| buffer.get_mut(place))
            {
                *byte ^= 1 << (flip.bit % 8);
            }
        }
    }
}

impl Rename {
    fn take_back(self, storage: &dyn Storage) -> Result<(), IoError> {
        match storage.rename(&self.to, &self.from) {
            // The renamed file was removed since.
            Err(error) if error.is_not_found() => {}
            renamed => renamed?,
        }
        match self.replaced {
            Some(bytes) => put(storage, &self.to, &bytes, true),
            None => Ok(()),
        }
    }
}

/// Returns what a crash leaves of a file that was not synced: nothing, a part, or the file with whole blocks
/// missing.
fn remains(bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let keep = random.below(bytes.len() as u64 + 1) as usize;
    match random.below(4) {
        0 => None,
        1 => Some(bytes.to_vec()),
        2 => Some(bytes[..keep].to_vec()),
        _ => {
            let mut left = bytes.to_vec();
            for block in left.chunks_mut(ALIGNMENT) {
                if random.below(4) == 0 {
                    block.fill(0);
                }
            }
            Some(left)
        }
    }
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8], durable: bool) -> Result<(), IoError> {
    let mut file = storage.create(name)?;
    file.append(bytes)?;
    if durable { file.sync() } else { file.close() }
}

/// SplitMix64: pseudo-random bits from the seed alone.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

struct FaultyWriter {
    device: Arc<Device>,
    name: String,
    id: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl fmt::Debug for FaultyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyWriter({}, {} bytes)", self.name, self.len())
    }
}

impl FaultyWriter {
    /// Returns an error if the device has crashed since the file was created, even if it was restarted.
    fn check_alive(&self, action: &'static str) -> Result<(), IoError> {
        let state = self.device.state.lock();
        match state.volatile.get(&self.name) {
            Some(volatile) if volatile.writer == self.id && !state.crashed => Ok(()),
            _ => Err(dead(action, &self.name)),
        }
    }
}

impl FaultyWriter {
    fn append_alive(&self, bytes: &[u8]) -> Result<(), IoError> {
        self.check_alive("write")?;
        let mut state = self.device.state.lock();
        let mut file = self.bytes.lock();
        if state.plan.tear_operation == Some(state.operations) {
            file.extend_from_slice(&bytes[..bytes.len() / 2]);
            drop(file);
            self.device.crash(&mut state)?;
            return Err(dead("write", &self.name));
        }
        let room = state
            .plan
            .capacity_bytes
            .map_or(u64::MAX, |c| c.saturating_sub(state.appended));
        let count = room.min(bytes.len() as u64);
        state.appended += count;
        file.extend_from_slice(&bytes[..count as usize]);
        if count < bytes.len() as u64 {
            let full = io::Error::from_raw_os_error(libc::ENOSPC);
            return Err(IoError::os(
                "write",
                &self.name,
                Some(file.len() as u64),
                full,
            ));
        }
        Ok(())
    }

    fn sync_alive(&self) -> Result<(), IoError> {
        self.check_alive("sync")?;
        let mut state = self.device.state.lock();
        put(&*self.device.inner, &self.name, &self.bytes.lock(), true)?;
        state.volatile.remove(&self.name);
        Ok(())
    }
}

impl WriteFile for FaultyWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.device
            .operate("write", &self.name, || self.append_alive(bytes))
    }

    fn len(&self) -> u64 {
        self.bytes.lock().len() as u64
    }

    fn sync(self: Box<Self>) -> Result<(), IoError> {
        self.device
            .operate("sync", &self.name, || self.sync_alive())
    }

    fn close(self: Box<Self>) -> Result<(), IoError> {
        self.device.operate("close", &self.name, || {
            self.check_alive("close")?;
            // Readable from now on, but a crash may still damage it.
            put(&*self.device.inner, &self.name, &self.bytes.lock(), false)
        })
    }
}

impl FaultyStorage {
    fn create_volatile(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        put(&*self.device.inner, name, &[], false)?;
        let mut state = self.device.state.lock();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        state.next_writer += 1;
        let id = state.next_writer;
        let volatile = Volatile {
            writer: id,
            bytes: Arc::clone(&bytes),
        };
        state.volatile.insert(name.to_owned(), volatile);
        Ok(Box::new(FaultyWriter {
            device: Arc::clone(&self.device),
            name: name.to_owned(),
            id,
            bytes,
        }))
    }

    /// Renames a file. The folder is synced unless the operation is to be reported as failed.
    fn rename_volatile(&self, from: &str, to: &str, is_synced: bool) -> Result<(), IoError> {
        let replaced = self.device.inner.read_all(to).ok();
        self.device.inner.rename(from, to)?;
        let mut state = self.device.state.lock();
        if is_synced {
            state.renames.clear();
        } else {
            state.renames.push(Rename {
                from: from.to_owned(),
                to: to.to_owned(),
                replaced,
            });
        }
        forget(&mut state.volatile, to);
        let inside = format!("{from}/");
        let moved: Vec<String> = state
            .volatile
            .keys()
            .filter(|name| *name == from || name.starts_with(&inside))
            .cloned()
            .collect();
        for name in moved {
            if let Some(volatile) = state.volatile.remove(&name) {
                let name = format!("{to}{}", &name[from.len()..]);
                state.volatile.insert(name, volatile);
            }
        }
        Ok(())
    }
}

impl Storage for FaultyStorage {
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>, IoError> {
        self.device
            .operate("open", name, || self.device.inner.open(name))
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>, IoError> {
        self.device
            .operate("create", name, || self.create_volatile(name))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Box<dyn LogFile>, IoError> {
        log::create(&self.device, name, bytes)
    }

    fn open_log(&self, name: &str) -> Result<Box<dyn LogFile>, IoError> {
        log::open(&self.device, name)
    }

    fn read_batch(&self, reads: &mut [ReadRequest<'_>]) -> Result<(), IoError> {
        let name = reads.first().map_or("", |read| read.file.name()).to_owned();
        self.device
            .operate("read", &name, || self.device.inner.read_batch(reads))?;
        for read in reads {
            self.device.flip(read.file.name(), read.offset, read.buffer);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), IoError> {
        let misreported = self.device.begin("rename", from)?;
        self.rename_volatile(from, to, !misreported)?;
        match misreported {
            true => Err(injected("sync the folder of", to, libc::EIO)),
            false => Ok(()),
        }
    }

    fn sync_names(&self) -> Result<(), IoError> {
        self.device.operate("sync the folder", "", || {
            self.device.state.lock().renames.clear();
            self.device.inner.sync_names()
        })
    }

    fn remove(&self, name: &str) -> Result<(), IoError> {
        self.device.operate("remove", name, || {
            {
                let mut state = self.device.state.lock();
                forget(&mut state.volatile, name);
                state.logs.forget(name);
            }
            self.device.inner.remove(name)
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, IoError> {
        self.device
            .operate("list folder", folder, || self.device.inner.list(folder))
    }

    fn place(&self) -> Option<String> {
        self.device.inner.place()
    }

    fn device(&self) -> DeviceProfile {
        self.device.inner.device()
    }

    fn version(&self, name: &str) -> Result<Option<FileVersion>, IoError> {
        self.device.inner.version(name)
    }

    fn read_all(&self, name: &str) -> Result<Vec<u8>, IoError> {
        let mut bytes = self
            .device
            .operate("read", name, || self.device.inner.read_all(name))?;
        self.device.flip(name, 0, &mut bytes);
        Ok(bytes)
    }
}

/// Forgets a file, or all files of a folder.
fn forget(volatile: &mut BTreeMap<String, Volatile>, name: &str) {
    let inside = format!("{name}/");
    volatile.retain(|key, _| key != name && !key.starts_with(&inside));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStorage;

    /// Writes two files, the second under a temporary name.
    fn work(storage: &dyn Storage) -> Result<(), IoError> {
        let mut file = storage.create("s/a")?;
        file.append(&[1; 10_000])?;
        file.append(&[2; 10_000])?;
        file.sync()?;
        let mut file = storage.create("s/b.new")?;
        file.append(&[3; 5_000])?;
        file.sync()?;
        storage.rename("s/b.new", "b")
    }

    fn faulty(plan: FaultPlan) -> (FaultyStorage, Arc<MemoryStorage>) {
        let memory = Arc::new(MemoryStorage::new());
        (FaultyStorage::new(memory.clone(), plan), memory)
    }

    #[test]
    fn nothing_goes_wrong_without_faults() {
        let (storage, memory) = faulty(FaultPlan::none());
        work(&storage).unwrap();
        assert_eq!(storage.operations(), 8);
        assert_eq!(memory.read_all("s/a").unwrap().len(), 20_000);
        storage.crash().unwrap();
        assert!(storage.crashed());
        assert_eq!(memory.read_all("b").unwrap(), [3; 5_000]);
    }

    #[test]
    fn each_operation_can_fail() {
        for number in 1..=8 {
            let (storage, _) = faulty(FaultPlan::fail_at(number));
            let error = work(&storage).unwrap_err();
            assert!(matches!(error, IoError::Os { .. }), "{error}");
            assert_eq!(storage.operations(), number);
        }
    }

    #[test]
    fn a_rename_that_is_reported_as_failed_was_done_and_may_be_taken_back() {
        for is_synced in [false, true] {
            let mut left = std::collections::BTreeSet::new();
            for seed in 0..20 {
                let (storage, memory) = faulty(FaultPlan::misreport_at(8, seed));
                put(&*memory, "b", b"old", true).unwrap();
                let error = work(&storage).unwrap_err();
                assert!(error.to_string().contains("sync the folder"), "{error}");
                assert_eq!(storage.read_all("b").unwrap(), [3; 5_000]);
                if is_synced {
                    storage.sync_names().unwrap();
                }
                storage.restart(FaultPlan::none()).unwrap();
                left.insert(memory.read_all("b").unwrap().len());
            }
            let expected: &[usize] = if is_synced { &[5_000] } else { &[3, 5_000] };
            assert!(left.iter().eq(expected), "{left:?}");
        }
    }

    #[test]
    fn crashes_keep_what_was_synced_and_nothing_else_is_sure() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..40 {
            for number in 1..=8 {
                let (storage, memory) = faulty(FaultPlan::crash_at(number, seed));
                let error = work(&storage).unwrap_err();
                assert!(error.to_string().contains("crashed"), "{error}");
                assert!(storage.list("").is_err());
                storage.restart(FaultPlan::none()).unwrap();
                assert!(!storage.exists("b").unwrap());
                let a = memory.read_all("s/a");
                if number > 4 {
                    assert_eq!(a.unwrap().len(), 20_000);
                } else {
                    outcomes.insert(a.map(|bytes| bytes.len()).ok());
                }
                work(&storage).unwrap();
            }
        }
        assert!(outcomes.contains(&None) && outcomes.contains(&Some(20_000)));
        assert!(outcomes.len() > 10, "cut at many places: {outcomes:?}");
    }

    #[test]
    fn the_same_seed_leaves_the_same_bytes() {
        let left = |seed| {
            let (storage, memory) = faulty(FaultPlan::crash_at(4, seed));
            work(&storage).unwrap_err();
            memory.read_all("s/a").ok()
        };
        for seed in 0..20 {
            assert_eq!(left(seed), left(seed));
        }
    }

    #[test]
    fn torn_appends_crash_with_half_of_the_bytes() {
        let mut lengths = Vec::new();
        for seed in 0..40 {
            let (storage, memory) = faulty(FaultPlan {
                seed,
                tear_operation: Some(3),
                ..FaultPlan::none()
            });
            work(&storage).unwrap_err();
            lengths.extend(memory.read_all("s/a").map(|bytes| bytes.len()));
        }
        assert_eq!(lengths.iter().max(), Some(&15_000));
    }

    #[test]
    fn a_full_disk_says_so() {
        let (storage, _) = faulty(FaultPlan::disk_of(15_000));
        let error = work(&storage).unwrap_err();
        assert!(
            matches!(&error, IoError::DiskFull { name, offset: 15_000, .. } if name == "s/a"),
            "{error}"
        );
    }

    #[test]
    fn writers_from_before_a_crash_stay_dead_and_closed_files_are_volatile() {
        let (storage, memory) = faulty(FaultPlan::none());
        let mut old = storage.create("x").unwrap();
        old.append(b"one").unwrap();
        storage.restart(FaultPlan::none()).unwrap();
        assert!(old.append(b"two").is_err());
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut run = storage.create("run").unwrap();
            run.append(&[9; 10_000]).unwrap();
            run.close().unwrap();
            assert_eq!(storage.read_all("run").unwrap(), [9; 10_000]);
            storage.set_plan(FaultPlan {
                seed,
                ..FaultPlan::none()
            });
            storage.restart(FaultPlan::none()).unwrap();
            seen.insert(memory.read_all("run").ok().map(|bytes| bytes.len()));
        }
        assert!(seen.contains(&None) && seen.len() > 5, "{seen:?}");
    }
}
