//! A log of commits, whose writes are counted and modelled.

use pythia_io::DeviceModel;
use serde::Serialize;

use super::devices::{BLOCK_BYTES, DeviceSet, Medium};

/// A log of commits on a device: each group of records is one write, of the smallest size that the device writes or a
/// multiple of it. A block of the log is erased once its records are in a run.
#[derive(Clone, Debug)]
pub(super) struct CommitLog {
    devices: DeviceSet,
    medium: Medium,
    group: u64,
    model: DeviceModel,
    /// Records and bytes that are not written yet.
    waiting: (u64, u64),
    writes: u64,
    written_bytes: u64,
    us: f64,
}

/// Results of a log of commits.
#[derive(Clone, Debug, Serialize)]
pub struct CommitLogReport {
    /// The set of devices.
    pub devices: DeviceSet,
    /// The device of the log.
    pub medium: Medium,
    /// Commits of one record each in a write.
    pub group: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Seconds of device time.
    pub seconds: f64,
}

impl CommitLog {
    /// Returns an empty log that writes `group` records at a time.
    pub(super) fn new(devices: DeviceSet, medium: Medium, group: u64) -> Self {
        Self {
            devices,
            medium,
            group,
            model: devices.model(medium),
            waiting: (0, 0),
            writes: 0,
            written_bytes: 0,
            us: 0.0,
        }
    }

    /// Adds a commit of one record with this many bytes.
    pub(super) fn commit(&mut self, bytes: u64) {
        self.waiting.0 += 1;
        self.waiting.1 += bytes;
        if self.waiting.0 == self.group {
            self.write();
        }
    }

    /// Writes the records that wait for their group.
    pub(super) fn write(&mut self) {
        let (records, bytes) = std::mem::take(&mut self.waiting);
        if records == 0 {
            return;
        }
        let bytes = bytes.next_multiple_of(self.model.writes.smallest_bytes());
        let block = |bytes: u64| bytes / BLOCK_BYTES as u64;
        let before = block(self.written_bytes);
        self.writes += 1;
        self.written_bytes += bytes;
        self.us += self.model.write_us(bytes);
        let full = (block(self.written_bytes) - before) * BLOCK_BYTES as u64;
        self.us += self.model.erase_us(full);
    }

    /// Returns the results so far.
    pub(super) fn report(&self) -> CommitLogReport {
        CommitLogReport {
            devices: self.devices,
            medium: self.medium,
            group: self.group,
            writes: self.writes,
            written_bytes: self.written_bytes,
            seconds: self.us / 1e6,
        }
    }
}
