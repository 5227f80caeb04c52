//! The devices: bytes that follow the rules of flash, and clocks that know what each operation costs.

use std::ops::Range;

use pythia_io::DeviceModel;
use serde::Serialize;

/// Bytes of a block, the unit of an erase (§2.1: typically 128 or 256 KiB).
pub(super) const BLOCK_BYTES: usize = 128 << 10;
const ERASED: u8 = 0xff;

/// A device for data and one for logs. The latter is used only if logs are not beside the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceSet {
    /// The Bulletin's chips of flash and of PCRAM.
    Chips,
    /// The Pythia paper's flash array and phase change memory, which read and write 4 KiB at least.
    Ssds,
}

impl DeviceSet {
    /// All sets.
    pub const ALL: [Self; 2] = [Self::Chips, Self::Ssds];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chips => "chips",
            Self::Ssds => "SSDs",
        }
    }

    /// Returns the model of one of its devices.
    pub(super) fn model(self, medium: Medium) -> DeviceModel {
        match (self, medium) {
            (Self::Chips, Medium::Flash) => DeviceModel::NAND_CHIP,
            (Self::Chips, Medium::Pcram) => DeviceModel::PCRAM_CHIP,
            (Self::Ssds, Medium::Flash) => DeviceModel::FLASH,
            (Self::Ssds, Medium::Pcram) => DeviceModel::PCM,
        }
    }
}

/// A device of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Flash, with the data and perhaps the log.
    Flash,
    /// Phase change memory, with the log alone.
    Pcram,
}

/// Numbers of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Data pages read.
    pub pages_read: u64,
    /// Data pages written.
    pub pages_written: u64,
    /// Log sectors read.
    pub sectors_read: u64,
    /// Log sectors written.
    pub sectors_written: u64,
    /// Bytes of log records in the written sectors.
    pub log_bytes: u64,
    /// Merges of a block with its log, or of runs.
    pub merges: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// The operations of a part of the trace, and their time.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// The operations.
    pub counts: Counts,
    /// Seconds of device time on each of [`DeviceSet::ALL`].
    pub seconds: [f64; 2],
}

/// Counts operations and adds up their times on every set of devices, one after the other.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) counts: Counts,
    us: [f64; 2],
}

impl Meter {
    /// Reads ranges of bytes, each medium's in ascending order. Both media are read at the same time (§3.2).
    pub(super) fn read(&mut self, flash: &[Range<u64>], pcram: &[Range<u64>]) {
        for (set, us) in DeviceSet::ALL.into_iter().zip(&mut self.us) {
            let time = |medium, ranges| batch_us(&set.model(medium), ranges);
            *us += time(Medium::Flash, flash).max(time(Medium::Pcram, pcram));
        }
    }

    /// Writes a range of bytes. If it does not begin a smallest write of a device, the rest of that one is there
    /// already, and is read first.
    pub(super) fn write(&mut self, medium: Medium, range: Range<u64>) {
        for (set, us) in DeviceSet::ALL.into_iter().zip(&mut self.us) {
            let model = set.model(medium);
            let unit = model.writes.smallest_bytes();
            let start = range.start / unit * unit;
            if start < range.start {
                *us += model.batch_us(1, unit);
            }
            *us += model.write_us(range.end.next_multiple_of(unit) - start);
        }
    }

    /// Erases a block of flash.
    pub(super) fn erase(&mut self) {
        self.counts.erases += 1;
        for (set, us) in DeviceSet::ALL.into_iter().zip(&mut self.us) {
            *us += set.model(Medium::Flash).erase_us(BLOCK_BYTES as u64);
        }
    }

    /// Returns the operations since the last call.
    pub(super) fn take(&mut self) -> Phase {
        let Self { counts, us } = std::mem::take(self);
        Phase {
            counts,
            seconds: us.map(|us| us / 1e6),
        }
    }
}

/// Returns the time of a batch of reads. Ranges that share or adjoin smallest reads are one read. A chip reads one after the
/// other, and each has the latency of its first bytes (Table 2, footnote: 78 ns of PCRAM).
fn batch_us(model: &DeviceModel, ranges: &[Range<u64>]) -> f64 {
    let unit = model.read_bytes;
    let (mut reads, mut units, mut end) = (0_u32, 0, 0);
    for range in ranges {
        let (first, next) = (range.start / unit, range.end.div_ceil(unit));
        if units == 0 || first > end {
            reads += 1;
            end = first;
        }
        units += next.saturating_sub(end);
        end = end.max(next);
    }
    if reads == 0 {
        return 0.0;
    }
    if model.saturation_depth() == 1 {
        let others = reads - 1;
        let last_bytes = (units - u64::from(others)) * unit;
        return f64::from(others) * model.read_us(unit, 1) + model.read_us(last_bytes, 1);
    }
    // The paper's flash takes less time with two reads in flight than with one. A batch does not.
    let together = model.batch_us(reads, units * unit);
    together.max(model.batch_us(1, unit))
}

/// Blocks of flash: bytes are written once after each erase.
#[derive(Debug, Default)]
pub(super) struct Flash {
    blocks: Vec<Box<[u8]>>,
    erased: Vec<u32>,
}

impl Flash {
    /// Returns an erased block.
    pub(super) fn take(&mut self) -> u32 {
        self.erased.pop().unwrap_or_else(|| {
            let block = vec![ERASED; BLOCK_BYTES].into_boxed_slice();
            self.blocks.push(block);
            self.blocks.len() as u32 - 1
        })
    }

    /// Writes erased bytes.
    pub(super) fn write(&mut self, block: u32, at: usize, bytes: &[u8]) {
        let target = &mut self.blocks[block as usize][at..at + bytes.len()];
        let bits = target.iter().fold(ERASED, |bits, byte| bits & byte);
        assert!(bits == ERASED, "flash is written once after each erase");
        target.copy_from_slice(bytes);
    }

    /// Returns bytes of a block.
    pub(super) fn read(&self, block: u32, range: Range<usize>) -> &[u8] {
        &self.blocks[block as usize][range]
    }

    /// Erases a block, which can be taken again.
    pub(super) fn erase(&mut self, block: u32) {
        self.blocks[block as usize].fill(ERASED);
        self.erased.push(block);
    }

    /// Returns the number of blocks in use.
    pub(super) fn in_use(&self) -> usize {
        self.blocks.len() - self.erased.len()
    }
}

/// Returns the place of bytes of a block on the device.
pub(super) fn place(block: u32, range: Range<usize>) -> Range<u64> {
    let start = u64::from(block) * BLOCK_BYTES as u64;
    start + range.start as u64..start + range.end as u64
}
