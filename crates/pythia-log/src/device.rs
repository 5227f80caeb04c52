//! One device of a log that is being written: its current file, the prepared next file, and its position.

use std::sync::Arc;
use std::time::Instant;

use pythia_io::{LogFile, Storage, system};

use crate::LogError;
use crate::bulk::Bulk;
use crate::format::{BLOCK_BYTES, FileHeader, LogPoint, file_name};

/// A device of the log.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) number: u32,
    pub(crate) storage: Arc<dyn Storage>,
    /// The file being written.
    current: Option<OpenFile>,
    /// An empty file that is ready to follow.
    next: Option<OpenFile>,
    next_sequence: u64,
    /// True while a thread makes the next file.
    pub(crate) is_preparing: bool,
    /// The time since when a thread writes to the device; `None` if it is free.
    pub(crate) busy_since: Option<Instant>,
    /// True if it takes groups only while all other devices are busy for long.
    pub(crate) is_spare: bool,
    /// Number of files made in this epoch.
    prepared: u32,
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<dyn LogFile>,
    /// Offset of the next group; 0 until the header is written.
    offset: u64,
    /// Upper bound of the bytes of the group that is being written.
    taken: u64,
    /// The nonce for the header.
    nonce: u64,
    info: FileInfo,
}

/// Facts about a file that was written to.
#[derive(Clone, Debug)]
pub(crate) struct FileInfo {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) name: String,
    pub(crate) device: u32,
    pub(crate) sequence: u64,
    /// Allocated length.
    pub(crate) bytes: u64,
    /// Bytes with groups in them.
    pub(crate) used_bytes: u64,
    /// The place where the file begins.
    pub(crate) lower: LogPoint,
    /// True if opening the log may begin here, because no later epoch has replaced the file's groups.
    pub(crate) may_start: bool,
    /// All groups and commits of the file are before this place.
    pub(crate) end: LogPoint,
    /// Bulk files that its commits name.
    pub(crate) bulks: Vec<Bulk>,
    /// True if a copy is in the archive.
    pub(crate) is_archived: bool,
}

impl FileInfo {
    /// Returns the length of the file with that of its bulk files.
    pub(crate) fn bytes_with_bulks(&self) -> u64 {
        self.bytes + self.bulks.iter().map(|bulk| bulk.bytes).sum::<u64>()
    }
}

/// The destination of a write.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) file: Arc<dyn LogFile>,
    pub(crate) offset: u64,
    /// True if the file's header must be written first.
    pub(crate) is_first: bool,
    /// The file's sequence number, and the nonce for its header.
    pub(crate) sequence: u64,
    pub(crate) nonce: u64,
    /// The file's length.
    pub(crate) bytes: u64,
}

/// Length of a log's first files, so that small stores stay small.
const FIRST_FILE_BYTES: u64 = 2 << 20;

/// Returns the length of the first files, if files may have up to `file_bytes`.
pub(crate) fn first_file_bytes(file_bytes: u64) -> u64 {
    file_bytes.min(FIRST_FILE_BYTES)
}

impl Device {
    pub(crate) fn new(number: u32, storage: Arc<dyn Storage>, next_sequence: u64) -> Self {
        Self {
            number,
            storage,
            current: None,
            next: None,
            next_sequence,
            is_preparing: false,
            busy_since: None,
            is_spare: false,
            prepared: 0,
        }
    }

    /// Returns whether there is no next file and no thread is making one.
    pub(crate) fn wants_file(&self) -> bool {
        self.next.is_none() && !self.is_preparing
    }

    /// Returns whether it is time to make the next file: half of the current one is written.
    pub(crate) fn wants_file_soon(&self) -> bool {
        let half = |file: &OpenFile| file.offset > file.file.len() / 2;
        self.wants_file() && self.current.as_ref().is_none_or(half)
    }

    /// Ends the file being written, if a group is in it and none is being written, and returns it.
    pub(crate) fn end_current(&mut self) -> Option<FileInfo> {
        let is_free = self.busy_since.is_none();
        let ended = self.current.take_if(|file| is_free && file.offset > 0);
        ended.map(|file| file.info)
    }

    /// Frees space that was allocated ahead. Ignores errors: opening the log frees it too.
    pub(crate) fn trim(&mut self) {
        if let Some(written) = self.current.take().filter(|file| file.offset > 0) {
            let _ = written.file.trim(written.offset);
        }
        if let Some(unused) = self.next.take() {
            let _ = self.storage.remove(&unused.info.name);
        }
    }

    /// Returns whether groups of these lengths need a file that no thread is making.
    pub(crate) fn lacks(&self, groups: &[usize]) -> bool {
        self.wants_file() && !self.has_room(groups.iter().copied())
    }

    /// Returns the name and length for a new file, and marks it as being made.
    pub(crate) fn begin_file(&mut self, file_bytes: u64) -> (String, u64) {
        self.is_preparing = true;
        let name = file_name(self.number, self.next_sequence);
        // A spare device writes little, and its files end at each checkpoint.
        let doublings = if self.is_spare {
            0
        } else {
            self.prepared.min(20)
        };
        let bytes = first_file_bytes(file_bytes) << doublings;
        (name, bytes.min(file_bytes))
    }

    /// Takes over the new file, or the error of making it.
    pub(crate) fn end_file(
        &mut self,
        made: Result<Box<dyn LogFile>, LogError>,
    ) -> Result<(), LogError> {
        self.is_preparing = false;
        let file = made?;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.prepared += 1;
        let info = FileInfo {
            storage: Arc::clone(&self.storage),
            name: file.name().to_owned(),
            device: self.number,
            sequence,
            bytes: file.len(),
            used_bytes: BLOCK_BYTES as u64,
            lower: LogPoint {
                group: 0,
                position: 0,
            },
            may_start: true,
            end: LogPoint {
                group: 0,
                position: 0,
            },
            bulks: Vec::new(),
            is_archived: false,
        };
        self.next = Some(OpenFile {
            file: file.into(),
            offset: 0,
            taken: 0,
            nonce: system::random_u64().max(1),
            info,
        });
        Ok(())
    }

    /// Returns whether groups of these lengths, one after the other, fit into the current and the next file.
    pub(crate) fn has_room(&self, groups: impl Iterator<Item = usize>) -> bool {
        let mut files = [&self.current, &self.next].into_iter().flatten();
        let mut room = files.next().map_or(0, OpenFile::room);
        for bytes in groups {
            while room < bytes as u64 {
                match files.next() {
                    Some(file) => room = file.room(),
                    None => return false,
                }
            }
            room -= bytes as u64;
        }
        true
    }

    /// Returns the place for a group of up to `bytes`. If that is in the next file, also returns the file that is
    /// full. `None` if there is no room.
    pub(crate) fn target(&mut self, bytes: usize) -> Option<(Target, Option<FileInfo>)> {
        if !self.has_room(std::iter::once(bytes)) {
            return None;
        }
        let mut full = None;
        if self
            .current
            .as_ref()
            .is_none_or(|file| file.room() < bytes as u64)
        {
            let next = self.next.take();
            full = std::mem::replace(&mut self.current, next).map(|file| file.info);
        }
        let current = self.current.as_mut()?;
        current.taken = bytes as u64;
        let target = Target {
            file: Arc::clone(&current.file),
            offset: current.offset.max(BLOCK_BYTES as u64),
            is_first: current.offset == 0,
            sequence: current.info.sequence,
            nonce: current.nonce,
            bytes: current.info.bytes,
        };
        Some((target, full))
    }

    /// Records that the current file's header was written.
    pub(crate) fn begin_current(&mut self, header: &FileHeader) {
        if let Some(current) = &mut self.current {
            current.info.lower = header.lower;
        }
    }

    /// Records that a group of `bytes` was written.
    pub(crate) fn advance(&mut self, bytes: u64, end: LogPoint, bulks: &[Bulk]) {
        if let Some(current) = &mut self.current {
            current.offset = current.offset.max(BLOCK_BYTES as u64) + bytes;
            current.taken = 0;
            current.info.used_bytes = current.offset;
            current.info.end = current.info.end.max(end);
            current.info.bulks.extend_from_slice(bulks);
        }
    }

    /// Returns device and sequence number of the current file, if it was written to.
    pub(crate) fn current_number(&self) -> Option<(u32, u64)> {
        let written = self.current.as_ref().filter(|file| file.offset > 0);
        written.map(|file| (file.info.device, file.info.sequence))
    }

    /// Returns where the current file begins, if it was written to.
    pub(crate) fn current_lower(&self) -> Option<LogPoint> {
        let written = self.current.as_ref().filter(|file| file.offset > 0);
        written.map(|file| file.info.lower)
    }
}

impl OpenFile {
    fn room(&self) -> u64 {
        let used = self.offset.max(BLOCK_BYTES as u64) + self.taken;
        self.file.len().saturating_sub(used)
    }
}
