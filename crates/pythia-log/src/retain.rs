//! Archives and removes files that the store no longer needs.

use std::sync::Arc;

use pythia_io::{SequentialReader, Storage};

use crate::LogError;
use crate::device::{Device, FileInfo};
use crate::format::Position;
use crate::shared::Shared;

const COPY_BYTES: usize = 1 << 20;

impl Shared {
    /// See [`crate::Log::checkpoint`].
    pub(crate) fn checkpoint(&self, position: Position) -> Result<(), LogError> {
        let _one_at_a_time = self.checkpoints.lock();
        // A spare device may take years to fill a file.
        self.queue.lock().end_spare_files();
        let bulks = self.bulk_storage();
        if let Some(archive) = &self.options.archive {
            for file in self.files_before(position) {
                if !file.is_archived {
                    archive_file(&**archive, &file, &bulks)?;
                    self.mark_archived(&file.name);
                }
            }
        }
        let mut files = self.files_before(position);
        // A file that has just become full is archived next time.
        files.retain(|file| file.is_archived || self.options.archive.is_none());
        files.sort_by_key(|file| (file.end, file.device, file.sequence));
        let mut kept: u64 = files.iter().map(FileInfo::bytes_with_bulks).sum();
        for file in files {
            if kept <= self.options.retain_bytes {
                break;
            }
            if !self.forget(&file, position) {
                continue;
            }
            kept -= file.bytes_with_bulks();
            file.storage.remove(&file.name)?;
            for bulk in &file.bulks {
                bulks.remove(bulk.name())?;
            }
        }
        Ok(())
    }

    /// Returns the full files with only commits before a position.
    fn files_before(&self, position: Position) -> Vec<FileInfo> {
        let queue = self.queue.lock();
        let before = queue
            .full
            .iter()
            .filter(|file| file.end.position <= position.0);
        before.cloned().collect()
    }

    fn mark_archived(&self, name: &str) {
        let mut queue = self.queue.lock();
        for file in queue.full.iter_mut().filter(|file| file.name == name) {
            file.is_archived = true;
        }
    }

    /// Takes a file off the list. Returns false if the log could not be opened from `position` on without it, or
    /// if the sequence numbers of the device's remaining files would have a gap.
    fn forget(&self, file: &FileInfo, position: Position) -> bool {
        let mut queue = self.queue.lock();
        let current = queue.devices.iter().filter_map(Device::current_number);
        let full = queue
            .full
            .iter()
            .map(|other| (other.device, other.sequence));
        let same = full
            .chain(current)
            .filter(|(device, _)| *device == file.device);
        let (mut is_oldest, mut is_newest) = (true, true);
        for (_, sequence) in same {
            is_oldest &= sequence >= file.sequence;
            is_newest &= sequence <= file.sequence;
        }
        if !is_oldest || is_newest {
            return false;
        }
        let others = queue.full.iter().filter(|other| other.name != file.name);
        let others = others.filter(|other| other.may_start);
        let lowers = others.map(|other| other.lower);
        let current = queue
            .devices
            .iter()
            .filter_map(|device| device.current_lower());
        let lowers: Vec<_> = lowers.chain(current).collect();
        // Opening begins at the last of these places and needs every group from there on. Another device's file
        // may begin while some of these groups are still in this one.
        let before = lowers.iter().filter(|lower| lower.position <= position.0);
        if before
            .max()
            .is_none_or(|start| start.group < file.end.group)
        {
            return false;
        }
        queue.full.retain(|other| other.name != file.name);
        let first = lowers.iter().min();
        queue
            .keys
            .forget_before(Position(first.map_or(0, |lower| lower.position)));
        true
    }
}

/// Copies the used part of a file, and the bulk files that it names.
fn archive_file(
    archive: &dyn Storage,
    file: &FileInfo,
    bulks: &Arc<dyn Storage>,
) -> Result<(), LogError> {
    for bulk in &file.bulks {
        let bytes = bulks.open(bulk.name())?.len();
        copy(bulks, bulk.name(), bytes, archive)?;
    }
    copy(&file.storage, &file.name, file.used_bytes, archive)
}

/// Copies the first `bytes` of a file. The copy gets its name only when it is complete and durable.
fn copy(from: &Arc<dyn Storage>, name: &str, bytes: u64, to: &dyn Storage) -> Result<(), LogError> {
    let mut reader = SequentialReader::new(Arc::clone(from), from.open(name)?, COPY_BYTES);
    let new_name = format!("{name}.new");
    let mut writer = to.create(&new_name)?;
    let mut left = bytes;
    while left > 0 {
        let filled = reader.fill()?;
        let count = (filled.len() as u64).min(left) as usize;
        if count == 0 {
            break;
        }
        writer.append(&filled[..count])?;
        std::io::BufRead::consume(&mut reader, count);
        left -= count as u64;
    }
    writer.sync()?;
    to.rename(&new_name, name)?;
    Ok(())
}
