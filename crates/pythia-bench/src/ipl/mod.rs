//! In-Page Logging, with logs on flash and in phase change memory: `pythia bench ipl`.
//!
//! The Bulletin's "Accelerating In-Page Logging with Non-Volatile Memory" (§4, Figure 2): records of 40 to 50 bytes are
//! inserted into a B+-tree in random order, and retrieved in another. [`store`] is the page store over real bytes, with its
//! log beside the data on flash or on a byte-addressable device; [`runs`] is the product's way of writing, sorted runs. Each
//! record that is retrieved is compared with the one inserted.
//!
//! Nothing is measured but numbers of operations. Their times are *modelled*, as the sum of the times of all operations,
//! one after the other, on two sets of devices ([`DeviceSet`]): the chips whose times the paper gives, and the two devices of the
//! Pythia paper ([`pythia_io::DeviceModel`]).

mod cache;
mod commit_log;
mod devices;
mod page;
mod paper;
mod report;
mod runs;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod tree;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use serde::Serialize;

use self::commit_log::CommitLog;
use self::devices::BLOCK_BYTES;
use self::page::PAGE_BYTES;
use self::runs::Runs;
use self::trace::Trace;
use self::tree::Tree;
use crate::machine::Machine;
pub use commit_log::CommitLogReport;
pub use devices::{Counts, DeviceSet, Medium, Phase};

/// Least bytes of a log sector: one record and a header fit.
const SECTOR_BYTES_MIN: usize = 64;
/// Least pages of the buffer: a path from the root to a leaf, with room for a split.
const BUFFER_PAGES_MIN: usize = 16;

/// Parameters of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Records.
    pub records: usize,
    /// Bytes of memory; `None` for the paper's share of the data.
    pub buffer_bytes: Option<usize>,
    /// Bytes of a log sector in PCRAM. On flash, a sector has 512 bytes, the least that it writes.
    pub sector_bytes: Vec<usize>,
    /// Bytes of the log area of a block.
    pub log_area_bytes: Vec<usize>,
    /// Commits in a write of the log of sorted runs.
    pub groups: Vec<u64>,
    /// The seed of the records.
    pub seed: u64,
    /// Stores that are measured at the same time. Each is in memory as a whole.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            records: paper::RECORDS as usize,
            buffer_bytes: None,
            sector_bytes: vec![paper::SMALL_SECTOR_BYTES, paper::SECTOR_BYTES],
            log_area_bytes: [8, 16, 32, 64].map(|kib| kib << 10).to_vec(),
            groups: vec![1, 32],
            seed: 1,
            jobs: 1,
        }
    }
}

impl Options {
    /// Returns the bytes of the buffer. Fails if a parameter is out of range.
    pub fn check(&self) -> Result<usize> {
        ensure!(
            (1..=u32::MAX as usize).contains(&self.records),
            "there is at least 1 record, and at most {}",
            u32::MAX
        );
        let share = paper::BUFFER_BYTES as usize * self.records / paper::RECORDS as usize;
        let least = BUFFER_PAGES_MIN * PAGE_BYTES;
        let buffer_bytes = self.buffer_bytes.unwrap_or(share.max(least));
        ensure!(
            buffer_bytes >= least,
            "the buffer has at least {} KiB",
            least >> 10
        );
        let in_range =
            |area: &usize| (paper::SECTOR_BYTES..=BLOCK_BYTES - PAGE_BYTES).contains(area);
        ensure!(
            self.log_area_bytes.iter().all(in_range),
            "a log area has {} bytes to {} KiB, so that a block of {} KiB has room for a page",
            paper::SECTOR_BYTES,
            (BLOCK_BYTES - PAGE_BYTES) >> 10,
            BLOCK_BYTES >> 10
        );
        let largest = self.log_area_bytes.iter().min().copied().unwrap_or(0);
        let is_sector =
            |bytes: &usize| bytes.is_power_of_two() && (SECTOR_BYTES_MIN..=largest).contains(bytes);
        ensure!(
            self.sector_bytes.iter().all(is_sector),
            "a log sector has {SECTOR_BYTES_MIN} bytes at least, a power of two, and fits every log area"
        );
        ensure!(!self.groups.contains(&0), "a group has at least 1 commit");
        ensure!(self.jobs > 0, "at least 1 store is measured at a time");
        Ok(buffer_bytes)
    }
}

/// The places of pages and of the log of a page store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Layout {
    /// The device of the log areas. On flash, they are in the blocks of their pages.
    pub log: Medium,
    /// Bytes of a log sector.
    pub sector_bytes: usize,
    /// Bytes of the log area of a block.
    pub log_area_bytes: usize,
}

impl Layout {
    fn pages_per_block(&self) -> usize {
        let of_log = match self.log {
            Medium::Flash => self.log_area_bytes,
            Medium::Pcram => 0,
        };
        (BLOCK_BYTES - of_log) / PAGE_BYTES
    }

    fn sectors_per_block(&self) -> usize {
        self.log_area_bytes / self.sector_bytes
    }

    /// Returns the place of a log sector of a block on its device.
    fn sector(&self, block: u32, index: usize) -> Range<u64> {
        let block = block as usize;
        let area = match self.log {
            Medium::Flash => block * BLOCK_BYTES + self.pages_per_block() * PAGE_BYTES,
            Medium::Pcram => block * self.log_area_bytes,
        };
        let start = area + index * self.sector_bytes;
        start as u64..(start + self.sector_bytes) as u64
    }
}

/// A store of records.
trait RecordStore {
    /// Inserts a record, or replaces the one with this key.
    fn insert(&mut self, key: u64, value: &[u8]);

    /// Returns the value of a key.
    fn get(&mut self, key: u64) -> Option<Vec<u8>>;

    /// Writes all changes that are in memory.
    fn flush(&mut self);

    /// Returns the operations since the last call.
    fn take_phase(&mut self) -> Phase;
}

/// Results of one store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// The layout of a page store; `None` for sorted runs.
    pub layout: Option<Layout>,
    /// Pages in the end.
    pub pages: u64,
    /// Bytes of all blocks and log areas in the end.
    pub device_bytes: u64,
    /// The insertion of all records, and the writing of what is in memory at its end.
    pub insert: Phase,
    /// The retrieval of all records.
    pub retrieve: Phase,
    /// Logs of commits, of sorted runs only.
    pub commit_logs: Vec<CommitLogReport>,
}

/// Results of the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine, which matters for none of the figures.
    pub machine: Machine,
    /// True: all times are modelled.
    pub modelled: bool,
    /// Records.
    pub records: u64,
    /// Bytes of memory.
    pub buffer_bytes: u64,
    /// The seed of the records.
    pub seed: u64,
    /// Page stores, by log area: log on flash, then in PCRAM by ascending sectors. Sorted runs are the last.
    pub stores: Vec<StoreReport>,
}

/// Replays the trace on all stores. `progress` gets a line for each store that is done.
/// Fails if a parameter is out of range.
pub fn run(options: &Options, progress: impl Fn(&str) + Sync) -> Result<Report> {
    let buffer_bytes = options.check()?;
    let trace = Trace::new(options.records, options.seed);
    let mut stores: Vec<Option<Layout>> = layouts(options).into_iter().map(Some).collect();
    stores.push(None);
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<StoreReport>> {
        let mut reports = Vec::new();
        while let Some(layout) = stores.get(next.fetch_add(1, Ordering::Relaxed)) {
            reports.push(measure(*layout, &trace, buffer_bytes, &options.groups)?);
            progress(&report::store_name(*layout));
        }
        Ok(reports)
    };
    // Times are modelled, so stores may run beside each other.
    let threads = options.jobs.min(stores.len());
    let mut reports = Vec::new();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            reports.extend(worker.join().expect("stores do not panic")?);
        }
        Ok(())
    })?;
    reports.sort_by_key(|report| stores.iter().position(|layout| *layout == report.layout));
    Ok(Report {
        machine: Machine::now(),
        modelled: true,
        records: options.records as u64,
        buffer_bytes: buffer_bytes as u64,
        seed: options.seed,
        stores: reports,
    })
}

/// Returns the layouts of the page stores.
fn layouts(options: &Options) -> Vec<Layout> {
    let sorted = |sizes: &[usize]| {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let sectors = sorted(&options.sector_bytes);
    let mut layouts = Vec::new();
    for log_area_bytes in sorted(&options.log_area_bytes) {
        let layout = |log, sector_bytes| Layout {
            log,
            sector_bytes,
            log_area_bytes,
        };
        layouts.push(layout(Medium::Flash, paper::SECTOR_BYTES));
        layouts.extend(sectors.iter().map(|bytes| layout(Medium::Pcram, *bytes)));
    }
    layouts
}

/// Replays the trace on one store.
fn measure(
    layout: Option<Layout>,
    trace: &Trace,
    buffer_bytes: usize,
    groups: &[u64],
) -> Result<StoreReport> {
    let Some(layout) = layout else {
        let mut runs = Runs::new(buffer_bytes, commit_logs(groups));
        let [insert, retrieve] = trace.replay(&mut runs)?;
        return Ok(StoreReport {
            layout: None,
            pages: runs.page_count(),
            device_bytes: runs.bytes(),
            insert,
            retrieve,
            commit_logs: runs.logs.iter().map(CommitLog::report).collect(),
        });
    };
    let mut tree = Tree::new(layout, buffer_bytes / PAGE_BYTES);
    let [insert, retrieve] = trace.replay(&mut tree)?;
    Ok(StoreReport {
        layout: Some(layout),
        pages: tree.store.page_count(),
        device_bytes: tree.store.bytes(),
        insert,
        retrieve,
        commit_logs: Vec::new(),
    })
}

fn commit_logs(groups: &[u64]) -> Vec<CommitLog> {
    let mut logs = Vec::new();
    for devices in DeviceSet::ALL {
        for medium in [Medium::Flash, Medium::Pcram] {
            logs.extend(
                groups
                    .iter()
                    .map(|group| CommitLog::new(devices, medium, *group)),
            );
        }
    }
    logs
}
