//! The files of a log: which there are, in the folders it is written to and in its archive.

use std::collections::BTreeMap;
use std::sync::Arc;

use pythia_io::{AlignedBuffer, IoError, ReadRequest, Storage};

use crate::format::{BLOCK_BYTES, FOLDER, FileHeader, GroupHeader, Place, parse_file_name};
use crate::{LogError, StoreId};

/// A file of the log with a header, so one that was written to.
#[derive(Clone, Debug)]
pub(crate) struct CatalogFile {
    pub(crate) storage: Arc<dyn Storage>,
    /// Name within the storage.
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) sequence: u64,
    pub(crate) header: FileHeader,
}

/// All files of a log that were written to, by epoch and where they begin.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) files: Vec<CatalogFile>,
    /// Files that were made and never written to, with their storage.
    pub(crate) unused: Vec<(Arc<dyn Storage>, String)>,
    /// Where epochs begin: epoch and place, ascending.
    epochs: Vec<(u64, Place)>,
}

impl Catalog {
    /// Lists the files. What is in both the log and its archive is taken from the log.
    pub(crate) fn list(
        devices: &[Arc<dyn Storage>],
        archive: Option<&Arc<dyn Storage>>,
        store: StoreId,
    ) -> Result<Self, LogError> {
        let mut found: BTreeMap<(u32, u64), CatalogFile> = BTreeMap::new();
        let mut unused = Vec::new();
        // What moves to the archive meanwhile is seen twice, not missed.
        for storage in devices.iter().chain(archive) {
            for name in list_folder(&**storage)? {
                let Some((device, sequence)) = parse_file_name(&name) else {
                    continue;
                };
                let name = format!("{FOLDER}/{name}");
                let Some(header) = read_header(&**storage, &name)? else {
                    unused.push((Arc::clone(storage), name));
                    continue;
                };
                check_store(&name, store, header.store)?;
                let storage = Arc::clone(storage);
                let file = CatalogFile {
                    storage,
                    name,
                    device,
                    sequence,
                    header,
                };
                found.entry((device, sequence)).or_insert(file);
            }
        }
        let mut files: Vec<CatalogFile> = found.into_values().collect();
        files.sort_by_key(|file| (file.header.epoch, file.header.lower, file.device));
        let mut epochs: Vec<(u64, Place)> = Vec::new();
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
            unused,
            epochs,
        })
    }

    /// The epoch whose groups of this number count; later ones replace what they begin with.
    pub(crate) fn epoch_of(&self, group: u64) -> Option<u64> {
        let begun = |(_, begin): &&(u64, Place)| begin.group <= group;
        self.epochs
            .iter()
            .rev()
            .find(begun)
            .map(|(epoch, _)| *epoch)
    }

    /// Whether an epoch begins after this group's.
    pub(crate) fn later_epoch(&self, epoch: u64) -> Option<u64> {
        let mut later = self.epochs.iter().map(|(epoch, _)| *epoch);
        later.find(|other| *other > epoch)
    }

    /// The latest epoch.
    pub(crate) fn last_epoch(&self) -> u64 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    /// The latest place, not after `position`, from which on all groups that still count are in
    /// files that begin there or later, or hold them besides earlier ones.
    pub(crate) fn start(&self, position: u64) -> Option<Place> {
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

    /// The first place of any file.
    pub(crate) fn first(&self) -> Option<Place> {
        self.files.iter().map(|file| file.header.lower).min()
    }

    /// Whether this file holds only groups before `group`: the device's next file says so.
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

    /// The last file of each device.
    pub(crate) fn last_sequences(&self) -> BTreeMap<u32, u64> {
        let mut last = BTreeMap::new();
        for file in &self.files {
            let sequence = last.entry(file.device).or_insert(0);
            *sequence = file.sequence.max(*sequence);
        }
        last
    }

    /// Makes durable what was read: it may be in the kernel's cache alone, if its writer died, or is
    /// just about to. Files of whoever may not write to them are left alone.
    pub(crate) fn sync_last(&self) -> Result<(), LogError> {
        let last = self.last_sequences();
        for file in &self.files {
            if last.get(&file.device) != Some(&file.sequence) {
                continue;
            }
            match file.storage.open_log(&file.name) {
                Ok(log) => log.sync()?,
                Err(error) if error.is_not_found() || is_read_only(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether files that are gone may have held this group.
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

fn is_read_only(error: &IoError) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let IoError::Os { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// The names in a storage's log folder; none if there is no such folder.
pub(crate) fn list_folder(storage: &dyn Storage) -> Result<Vec<String>, LogError> {
    match storage.list(FOLDER) {
        Ok(names) => Ok(names),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn check_store(file: &str, expected: StoreId, found: StoreId) -> Result<(), LogError> {
    if expected == found {
        return Ok(());
    }
    Err(LogError::ForeignFile {
        file: file.to_owned(),
        expected,
        found,
    })
}

fn read_header(storage: &dyn Storage, name: &str) -> Result<Option<FileHeader>, LogError> {
    let file = match storage.open(name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if file.len() < BLOCK_BYTES as u64 {
        return Ok(None);
    }
    let mut buffer = AlignedBuffer::zeroed(BLOCK_BYTES);
    storage.read_batch(&mut [ReadRequest {
        file: &*file,
        offset: 0,
        buffer: &mut buffer,
    }])?;
    FileHeader::decode(&buffer, name)
}

/// A log file's bytes and the groups in them.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) bytes: Vec<u8>,
    /// The whole groups, with their offsets.
    pub(crate) groups: Vec<(usize, GroupHeader)>,
    /// Groups that are damaged or were not written to the end.
    pub(crate) damaged: Vec<(usize, GroupHeader)>,
    /// Where the last whole group ends.
    pub(crate) end: usize,
}

impl Scan {
    /// Reads a file whole (log files have at most some dozen megabytes) and looks for groups in all
    /// of it, also behind damage.
    pub(crate) fn read(file: &CatalogFile) -> Result<Self, IoError> {
        let bytes = file.storage.read_all(&file.name)?;
        Ok(Self::of(bytes, &file.header))
    }

    /// Looks for groups in the bytes of a file.
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

    /// Whether any group has commits.
    pub(crate) fn has_commits(&self) -> bool {
        self.groups.iter().any(|(_, header)| header.count > 0)
    }

    /// The bytes of the group at an offset of [`Self::groups`].
    pub(crate) fn group(&self, offset: usize, header: &GroupHeader) -> &[u8] {
        let end = (offset + header.total_bytes()).min(self.bytes.len());
        &self.bytes[offset..end]
    }
}
