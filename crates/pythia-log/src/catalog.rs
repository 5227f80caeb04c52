//! The catalog of a log: its files, in its log folders and its archive.

use std::collections::BTreeMap;
use std::sync::Arc;

use pythia_io::{AlignedBuffer, IoError, ReadRequest, Storage};

use crate::format::{BLOCK_BYTES, FOLDER, FileHeader, GroupHeader, LogPoint, parse_file_name};
use crate::record::{Begun, Record, RecordState};
use crate::{LogError, StoreId};

/// A log file with a header, which means that it was written to.
#[derive(Clone, Debug)]
pub(crate) struct CatalogFile {
    pub(crate) storage: Arc<dyn Storage>,
    /// The name within the storage.
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) sequence: u64,
    pub(crate) header: FileHeader,
    /// The file's length.
    pub(crate) bytes: u64,
    /// True if it is in the archive, where files have only a header and whole groups.
    pub(crate) is_archived: bool,
}

/// A log file without a readable header: it was never used, or its first write was interrupted, or it is damaged.
#[derive(Clone, Debug)]
pub(crate) struct Headless {
    pub(crate) storage: Arc<dyn Storage>,
    /// The name within the storage.
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) sequence: u64,
    /// True if the file is shorter than a header.
    pub(crate) is_short: bool,
    /// True if it is in the archive, where files are written whole.
    pub(crate) is_archived: bool,
}

/// All files of a log that were written to, by epoch and begin.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) files: Vec<CatalogFile>,
    pub(crate) headless: Vec<Headless>,
    /// The record on the log's first device: the files that were begun.
    pub(crate) record: RecordState,
    pub(crate) store: StoreId,
    /// The log folders; empty if only the archive was listed.
    devices: Vec<Arc<dyn Storage>>,
    /// The beginnings of epochs: epoch and place, ascending.
    epochs: Vec<(u64, LogPoint)>,
}

impl Catalog {
    /// Lists the files. A file that is in both the log and its archive is taken from the log.
    pub(crate) fn list(
        devices: &[Arc<dyn Storage>],
        archive: Option<&Arc<dyn Storage>>,
        store: StoreId,
    ) -> Result<Self, LogError> {
        let mut found: BTreeMap<(u32, u64), CatalogFile> = BTreeMap::new();
        let mut headless = Vec::new();
        // Read before the files are listed, so that every file it names was begun by then.
        let record = match devices.first() {
            Some(first) => RecordState::read(&**first, store)?,
            None => RecordState::None,
        };
        // The archive comes last, so that a file that moves there meanwhile is seen twice, not missed.
        for (index, storage) in devices.iter().chain(archive).enumerate() {
            for name in list_folder(&**storage)? {
                let is_archived = index >= devices.len();
                let file = match Listed::find(storage, &name, is_archived)? {
                    Listed::File(file) => file,
                    Listed::Headless(file) => {
                        headless.push(file);
                        continue;
                    }
                    Listed::Nothing => continue,
                };
                if file.header.store != store {
                    let is_own = index == 0 && !devices.is_empty();
                    return Err(LogError::ForeignFile {
                        file: path_in(&**storage, is_own, &file.name),
                        expected: store,
                        found: file.header.store,
                    });
                }
                let key = (file.device, file.sequence);
                found.entry(key).or_insert(file);
            }
        }
        // A damaged copy of a file that the log still has does no harm.
        headless
            .retain(|file| !file.is_archived || !found.contains_key(&(file.device, file.sequence)));
        let mut files: Vec<CatalogFile> = found.into_values().collect();
        files.sort_by_key(|file| (file.header.epoch, file.header.lower, file.device));
        let mut epochs: Vec<(u64, LogPoint)> = Vec::new();
        for file in &files {
            if epochs
                .last()
                .is_none_or(|(epoch, _)| *epoch < file.header.epoch)
            {
                epochs.push((file.header.epoch, file.header.begin));
            }
        }
        Ok(Self {
            files,
            headless,
            record,
            store,
            devices: devices.to_vec(),
            epochs,
        })
    }

    /// Returns the path, for messages, of a file that is, or should be, in a device's folder.
    pub(crate) fn path_of(&self, device: u32, name: &str) -> String {
        match self.devices.get(device as usize) {
            Some(storage) => path_in(&**storage, device == 0, name),
            None => name.to_owned(),
        }
    }

    /// Returns whether log folders were listed, not only the archive.
    pub(crate) fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Returns the epoch whose group of this number counts. A later epoch replaces the groups from its beginning
    /// on.
    pub(crate) fn epoch_of(&self, group: u64) -> Option<u64> {
        let begun = |(_, begin): &&(u64, LogPoint)| begin.group <= group;
        self.epochs
            .iter()
            .rev()
            .find(begun)
            .map(|(epoch, _)| *epoch)
    }

    /// Returns the next epoch after this one, if there is one.
    pub(crate) fn later_epoch(&self, epoch: u64) -> Option<u64> {
        let mut later = self.epochs.iter().map(|(epoch, _)| *epoch);
        later.find(|other| *other > epoch)
    }

    /// Returns the latest known epoch.
    pub(crate) fn last_epoch(&self) -> u64 {
        let recorded = self.record.record().map_or(0, |record| record.epoch);
        self.epochs
            .last()
            .map_or(recorded, |(epoch, _)| (*epoch).max(recorded))
    }

    /// Returns the latest place, not after `position`, from which reading finds all groups that still count: they
    /// are in files that begin there or later, or in files that also hold earlier groups.
    pub(crate) fn start(&self, position: u64) -> Option<LogPoint> {
        let counts = |file: &&CatalogFile| {
            let lower = file.header.lower;
            lower.position <= position && self.epoch_of(lower.group) == Some(file.header.epoch)
        };
        let places = self
            .files
            .iter()
            .filter(counts)
            .map(|file| file.header.lower);
        places.max()
    }

    /// Returns the first place of any file.
    pub(crate) fn first(&self) -> Option<LogPoint> {
        self.files.iter().map(|file| file.header.lower).min()
    }

    /// Returns whether this file holds only groups before `group`, as the device's next file shows.
    pub(crate) fn ends_before(&self, file: &CatalogFile, group: u64) -> bool {
        let next =
            |other: &&CatalogFile| other.device == file.device && other.sequence > file.sequence;
        let next = self
            .files
            .iter()
            .filter(next)
            .min_by_key(|other| other.sequence);
        next.is_some_and(|next| next.header.upper.group <= group)
    }

    /// Returns the highest sequence number of any past or present file, by device.
    pub(crate) fn last_sequences(&self) -> BTreeMap<u32, u64> {
        let mut last = BTreeMap::new();
        let files = self.files.iter().map(|file| (file.device, file.sequence));
        let newest = self.record.record().map(|record| &record.newest);
        let newest = newest.into_iter().flatten();
        for (device, sequence) in
            files.chain(newest.map(|(device, begun)| (*device, begun.sequence)))
        {
            let highest = last.entry(device).or_insert(0);
            *highest = sequence.max(*highest);
        }
        last
    }

    /// Returns the record to write for a log that was found durable up to `end`.
    pub(crate) fn recovered_record(&self, end: LogPoint) -> Record {
        let mut newest: BTreeMap<u32, Begun> = BTreeMap::new();
        for file in &self.files {
            let begun = Begun {
                sequence: file.sequence,
                epoch: file.header.epoch,
                nonce: file.header.nonce,
                bytes: 0,
            };
            let highest = newest.entry(file.device).or_insert(begun);
            if highest.sequence < begun.sequence {
                *highest = begun;
            }
        }
        Record {
            store: self.store,
            epoch: self.last_epoch(),
            durable: end,
            newest,
        }
    }

    /// Makes the last files durable: if their writer died, they may be in the kernel's cache only. Skips files
    /// that this process may not write.
    pub(crate) fn sync_last(&self) -> Result<(), LogError> {
        let newest = self
            .recovered_record(LogPoint {
                group: 1,
                position: 1,
            })
            .newest;
        for file in &self.files {
            let last = newest.get(&file.device).map(|begun| begun.sequence);
            if last != Some(file.sequence) {
                continue;
            }
            match file.storage.open_log(&file.name) {
                Ok(log) => log.sync()?,
                Err(error) if error.is_not_found() || error.is_read_only() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns whether files that are gone may have held this group.
    pub(crate) fn may_have_left(&self, group: u64) -> bool {
        let mut first: BTreeMap<u32, &CatalogFile> = BTreeMap::new();
        for file in &self.files {
            let earliest = first.entry(file.device).or_insert(file);
            if file.sequence < earliest.sequence {
                *earliest = file;
            }
        }
        first
            .values()
            .any(|file| file.sequence > 1 && file.header.upper.group > group)
    }
}

/// Returns the names in a storage's log folder; empty if there is no such folder.
pub(crate) fn list_folder(storage: &dyn Storage) -> Result<Vec<String>, LogError> {
    match storage.list(FOLDER) {
        Ok(names) => Ok(names),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns a file's path for messages: with its folder, unless that is the store's own.
fn path_in(storage: &dyn Storage, is_own: bool, name: &str) -> String {
    match storage.place().filter(|_| !is_own) {
        Some(place) => format!("{place}/{name}"),
        None => name.to_owned(),
    }
}

/// A name in a folder of the log.
enum Listed {
    File(CatalogFile),
    Headless(Headless),
    /// It is not the name of a log file, or the file was removed meanwhile.
    Nothing,
}

impl Listed {
    /// Reads the header of the file with this name in the folder of the log.
    fn find(storage: &Arc<dyn Storage>, name: &str, is_archived: bool) -> Result<Self, LogError> {
        let Some((device, sequence)) = parse_file_name(name) else {
            return Ok(Self::Nothing);
        };
        let name = format!("{FOLDER}/{name}");
        let storage = Arc::clone(storage);
        Ok(match read_header(&*storage, &name)? {
            Header::Whole(header, bytes) => Self::File(CatalogFile {
                storage,
                name,
                device,
                sequence,
                header,
                bytes,
                is_archived,
            }),
            Header::Gone => Self::Nothing,
            bad => Self::Headless(Headless {
                storage,
                name,
                device,
                sequence,
                is_short: bad == Header::Short,
                is_archived,
            }),
        })
    }
}

/// The first block of a file.
#[derive(PartialEq, Eq)]
pub(crate) enum Header {
    /// The header, and the length of the file.
    Whole(FileHeader, u64),
    /// There is no header, or it is damaged.
    None,
    /// The file is shorter than a header.
    Short,
    /// The file was removed meanwhile.
    Gone,
}

pub(crate) fn read_header(storage: &dyn Storage, name: &str) -> Result<Header, LogError> {
    let file = match storage.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(Header::Gone),
        Err(error) => return Err(error.into()),
    };
    if file.len() < BLOCK_BYTES as u64 {
        return Ok(Header::Short);
    }
    let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
    storage.read_batch(&mut [ReadRequest {
        file: &*file,
        offset: 0,
        buffer: &mut buffer,
    }])?;
    let header = FileHeader::decode(&buffer, name)?;
    Ok(header.map_or(Header::None, |header| Header::Whole(header, file.len())))
}

/// A log file's bytes and the groups in them.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) bytes: Vec<u8>,
    /// The whole groups, with their offsets.
    pub(crate) groups: Vec<(usize, GroupHeader)>,
    /// Groups that are damaged or incomplete.
    pub(crate) damaged: Vec<(usize, GroupHeader)>,
    /// End of the last whole group.
    pub(crate) end: usize,
}

impl Scan {
    /// Reads a file whole (at most some dozen megabytes) and finds all groups, also those behind damage.
    pub(crate) fn read(file: &CatalogFile) -> Result<Self, IoError> {
        let bytes = file.storage.read_all(&file.name)?;
        Ok(Self::of(bytes, &file.header))
    }

    /// Finds the groups in the bytes of a file.
    pub(crate) fn of(bytes: Vec<u8>, file: &FileHeader) -> Self {
        let mut scan = Self {
            bytes: Vec::new(),
            groups: Vec::new(),
            damaged: Vec::new(),
            end: BLOCK_BYTES.min(bytes.len()),
        };
        let mut offset = BLOCK_BYTES;
        while offset < bytes.len() {
            match GroupHeader::decode(file.store, &bytes[offset..]) {
                Some((header, true)) if header.epoch == file.epoch => {
                    scan.groups.push((offset, header));
                    offset += header.total_bytes();
                    scan.end = offset.min(bytes.len());
                }
                Some((header, false)) if header.epoch == file.epoch => {
                    scan.damaged.push((offset, header));
                    offset += BLOCK_BYTES;
                }
                _ => offset += BLOCK_BYTES,
            }
        }
        scan.bytes = bytes;
        scan
    }

    /// Returns the offset of the first block that is in no whole group, and the last whole group if it is behind
    /// that block.
    pub(crate) fn gap(&self) -> Option<(usize, Option<GroupHeader>)> {
        let mut end = BLOCK_BYTES;
        for (offset, header) in &self.groups {
            if *offset > end {
                return Some((end, self.groups.last().map(|(_, last)| *last)));
            }
            end = offset + header.total_bytes();
        }
        (end < self.bytes.len()).then_some((end, None))
    }

    /// Returns the bytes of the group at an offset of [`Self::groups`].
    pub(crate) fn group(&self, offset: usize, header: &GroupHeader) -> &[u8] {
        let end = (offset + header.total_bytes()).min(self.bytes.len());
        &self.bytes[offset..end]
    }
}
