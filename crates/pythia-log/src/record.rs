//! `LOG`, the record of the log files that were begun. It is beside the log's folder, and distinguishes a damaged
//! or lost file from one that was never used.
//!
//! It is written when the first group of a file is durable, before any commit of that group is acknowledged, and
//! when the log is opened and closed; never per commit. Its two blocks are written in turn, so that an interrupted
//! write leaves the previous record. The format is described in docs/format/log.md.

use std::collections::BTreeMap;

use pythia_io::{AlignedBuffer, LogFile, Storage};

use crate::format::{BLOCK_BYTES, LogPoint};
use crate::{LogError, StoreId};
use pythia_io::bytes::ByteReader;

/// The record's name, in the storage of the log's first device.
pub const RECORD_NAME: &str = "LOG";
/// Limit on devices: more do not fit into a block.
pub(crate) const DEVICES_MAX: usize = 100;

const MAGIC: [u8; 8] = *b"PythiaLR";
const VERSION: u32 = 1;
const SLOTS: usize = 2;

/// A log file that was begun, which means that its first group is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) sequence: u64,
    /// As in the file's header.
    pub(crate) epoch: u64,
    /// As in the file's header; 0 for a file of log format 1.
    pub(crate) nonce: u64,
    /// The allocated length; 0 if the file may have been cut off after its last group.
    pub(crate) bytes: u64,
}

/// The contents of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) store: StoreId,
    /// The latest epoch.
    pub(crate) epoch: u64,
    /// All groups before this place were durable when the record was written.
    pub(crate) durable: LogPoint,
    /// The newest file of each device that was begun.
    pub(crate) newest: BTreeMap<u32, Begun>,
}

/// The record as it was found.
#[derive(Clone, Debug)]
pub(crate) enum RecordState {
    /// There is none, or its first write was not finished.
    None,
    /// Neither block can be read.
    Damaged,
    /// The record, and the number of times it was written.
    Found(Record, u64),
}

impl RecordState {
    /// Reads the record of the log in a storage.
    pub(crate) fn read(storage: &dyn Storage, store: StoreId) -> Result<Self, LogError> {
        match Self::read_any(storage)? {
            Self::Found(record, _) if record.store != store => Err(LogError::ForeignFile {
                file: RECORD_NAME.to_owned(),
                expected: store,
                found: record.store,
            }),
            state => Ok(state),
        }
    }

    /// Like [`Self::read`], for a record of any store.
    pub(crate) fn read_any(storage: &dyn Storage) -> Result<Self, LogError> {
        let bytes = match storage.read_all(RECORD_NAME) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Self::None),
            Err(error) => return Err(error.into()),
        };
        if bytes.len() != SLOTS * BLOCK_BYTES && !is_unfinished(&bytes) {
            return Ok(Self::Damaged);
        }
        let mut latest = None;
        for block in bytes.chunks_exact(BLOCK_BYTES) {
            let Some((record, writes)) = decode(block)? else {
                continue;
            };
            if latest.as_ref().is_none_or(|(_, other)| *other < writes) {
                latest = Some((record, writes));
            }
        }
        match latest {
            Some((record, writes)) => Ok(Self::Found(record, writes)),
            None if is_unfinished(&bytes) => Ok(Self::None),
            None => Ok(Self::Damaged),
        }
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        match self {
            Self::Found(record, _) => Some(record),
            Self::None | Self::Damaged => None,
        }
    }
}

/// Returns the store whose record is in a storage, if it can be read. If the manifest names no log, an interrupted
/// creation left the record.
pub fn left_store(storage: &dyn Storage) -> Result<Option<StoreId>, LogError> {
    let bytes = match storage.read_all(RECORD_NAME) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for block in bytes.chunks_exact(BLOCK_BYTES) {
        if let Some((record, _)) = decode(block)? {
            return Ok(Some(record.store));
        }
    }
    Ok(None)
}

/// Returns whether a crash may have interrupted the first write of the record, which goes to the first block. No
/// file was begun with such a record.
fn is_unfinished(bytes: &[u8]) -> bool {
    let second = bytes.get(BLOCK_BYTES..).unwrap_or_default();
    let is_whole = |block: &[u8]| !matches!(decode(block), Ok(None));
    second.iter().all(|byte| *byte == 0) && !bytes.get(..BLOCK_BYTES).is_some_and(is_whole)
}

fn decode(block: &[u8]) -> Result<Option<(Record, u64)>, LogError> {
    let mut cursor = ByteReader::at(RECORD_NAME, 0, block);
    if cursor.array()? != MAGIC {
        return Ok(None);
    }
    let version = cursor.u32()?;
    let count = cursor.u32()? as usize;
    let store = StoreId(cursor.array()?);
    let writes = cursor.u64()?;
    let epoch = cursor.u64()?;
    let durable = LogPoint {
        group: cursor.u64()?,
        position: cursor.u64()?,
    };
    let mut newest = BTreeMap::new();
    for _ in 0..count.min(DEVICES_MAX) {
        let device = cursor.u32()?;
        cursor.u32()?;
        let begun = Begun {
            sequence: cursor.u64()?,
            epoch: cursor.u64()?,
            nonce: cursor.u64()?,
            bytes: cursor.u64()?,
        };
        newest.insert(device, begun);
    }
    let checksum = crc32c::crc32c(&block[..block.len() - cursor.remaining()]);
    if cursor.u32()? != checksum {
        return Ok(None);
    }
    if version > VERSION {
        return Err(LogError::Version {
            file: RECORD_NAME.to_owned(),
            found: version,
            supported: VERSION,
        });
    }
    let record = Record {
        store,
        epoch,
        durable,
        newest,
    };
    Ok(Some((record, writes)))
}

impl Record {
    pub(crate) fn encode(&self, writes: u64, block: &mut [u8]) {
        let mut out = Vec::with_capacity(block.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.newest.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.store.0);
        for number in [
            writes,
            self.epoch,
            self.durable.group,
            self.durable.position,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for (device, begun) in &self.newest {
            out.extend_from_slice(&device.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            for number in [begun.sequence, begun.epoch, begun.nonce, begun.bytes] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        block[..out.len()].copy_from_slice(&out);
    }
}

const _: () = assert!(8 + 4 + 4 + 16 + 4 * 8 + DEVICES_MAX * 40 + 4 <= BLOCK_BYTES);

/// The record of a log that is open for writing.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    file: Box<dyn LogFile>,
    record: Record,
    writes: u64,
}

impl RecordWriter {
    /// Creates the record of a log that has none, or whose record is damaged.
    pub(crate) fn create(storage: &dyn Storage, record: Record) -> Result<Self, LogError> {
        let file = storage.create_log(RECORD_NAME, (SLOTS * BLOCK_BYTES) as u64)?;
        let mut writer = Self {
            file,
            record,
            writes: 0,
        };
        writer.write_both()?;
        Ok(writer)
    }

    /// Continues the record that was found; writes it if it differs from `record`.
    pub(crate) fn open(
        storage: &dyn Storage,
        found: RecordState,
        record: Record,
    ) -> Result<Self, LogError> {
        let RecordState::Found(old, writes) = found else {
            return Self::create(storage, record);
        };
        let is_same = old == record;
        let mut writer = Self {
            file: storage.open_log(RECORD_NAME)?,
            record,
            writes,
        };
        match is_same {
            // Its writer may have ended or failed before it was durable. Files are cut off according to it.
            true => writer.file.sync()?,
            false => writer.write_both()?,
        }
        Ok(writer)
    }

    /// Records that a file was begun, and that all groups before a place are durable.
    pub(crate) fn begin(
        &mut self,
        device: u32,
        begun: Begun,
        durable: LogPoint,
    ) -> Result<(), LogError> {
        self.record.epoch = begun.epoch;
        self.record.newest.insert(device, begun);
        self.record.durable = self.record.durable.max(durable);
        self.write()
    }

    /// Records the end of the log when it is closed. Files may be cut off from then on.
    pub(crate) fn end(&mut self, durable: LogPoint) -> Result<(), LogError> {
        self.record.durable = self.record.durable.max(durable);
        for begun in self.record.newest.values_mut() {
            begun.bytes = 0;
        }
        self.write_both()
    }

    /// Writes both blocks, so that none holds outdated facts.
    fn write_both(&mut self) -> Result<(), LogError> {
        self.write()?;
        self.write()
    }

    fn write(&mut self) -> Result<(), LogError> {
        let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
        self.record.encode(self.writes + 1, &mut block);
        let slot = self.writes % SLOTS as u64;
        self.file.write_at(slot * BLOCK_BYTES as u64, &block)?;
        self.file.sync()?;
        self.writes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage};

    use super::*;

    const STORE: StoreId = StoreId([3; 16]);

    fn record(epoch: u64) -> Record {
        let begun = |sequence| Begun {
            sequence,
            epoch,
            nonce: 77,
            bytes: 88,
        };
        Record {
            store: STORE,
            epoch,
            durable: LogPoint {
                group: epoch,
                position: epoch,
            },
            newest: (0..DEVICES_MAX as u32).map(|n| (n, begun(epoch))).collect(),
        }
    }

    fn read(storage: &dyn Storage) -> Option<Record> {
        RecordState::read(storage, STORE).unwrap().record().cloned()
    }

    #[test]
    fn it_comes_back_and_its_blocks_take_turns() {
        let storage = MemoryStorage::new();
        assert_eq!(read(&storage), None);
        drop(RecordWriter::create(&storage, record(1)).unwrap());
        assert_eq!(read(&storage), Some(record(1)));
        for epoch in 2..6 {
            let found = RecordState::read(&storage, STORE).unwrap();
            drop(RecordWriter::open(&storage, found, record(epoch)).unwrap());
            assert_eq!(read(&storage), Some(record(epoch)));
        }
        let foreign = RecordState::read(&storage, StoreId([4; 16]));
        assert!(matches!(foreign, Err(LogError::ForeignFile { .. })));
    }

    #[test]
    fn a_write_that_a_crash_interrupts_leaves_one_of_both() {
        let mut seen = [0; 2];
        for seed in 0..40 {
            let storage = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
            drop(RecordWriter::create(&storage, record(1)).unwrap());
            let found = RecordState::read(&storage, STORE).unwrap();
            let plan = FaultPlan {
                seed,
                tear_operation: Some(storage.operations() + 2),
                ..FaultPlan::none()
            };
            storage.set_plan(plan);
            assert!(RecordWriter::open(&storage, found, record(2)).is_err());
            storage.restart(FaultPlan::none()).unwrap();
            let epoch = read(&storage).expect("one block was not touched").epoch;
            seen[epoch as usize - 1] += 1;
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }

    #[test]
    fn a_flipped_bit_costs_one_block_at_most() {
        let storage = MemoryStorage::new();
        drop(RecordWriter::create(&storage, record(1)).unwrap());
        let found = RecordState::read(&storage, STORE).unwrap();
        drop(RecordWriter::open(&storage, found, record(2)).unwrap());
        let bytes = storage.read_all(RECORD_NAME).unwrap();
        for offset in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 1;
            let mut file = storage.create(RECORD_NAME).unwrap();
            file.append(&damaged).unwrap();
            file.sync().unwrap();
            let left = read(&storage).expect("the other block is whole");
            assert_eq!(left.epoch, 2);
        }
        let mut file = storage.create(RECORD_NAME).unwrap();
        file.append(&bytes[1..]).unwrap();
        file.sync().unwrap();
        let state = RecordState::read(&storage, STORE).unwrap();
        assert!(matches!(state, RecordState::Damaged));
    }
}
