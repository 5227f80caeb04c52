//! Database operators for flash: `pythia bench operators`.
//!
//! - [`scan`]: FlashScan, which reads the minipages of the projected attributes instead of whole pages;
//! - [`columns`]: the same for the product's column pages;
//! - [`join`]: FlashJoin, which joins row numbers and fetches attributes late, compared with a hybrid hash join;
//! - [`bloom`]: the Buffered Bloom filter on the device, compared with filters in memory.
//!
//! All files are in one folder, which its owner removes. They are read past the kernel's cache, so each run is cold. Every time
//! is the median of some rounds, in which the compared methods take turns; and the methods check each other's results.

pub mod bloom;
pub mod columns;
pub mod device;
pub mod join;
mod paper;
mod relation;
mod report;
pub mod scan;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use pythia_io::{DirectStorage, Storage};
use serde::Serialize;

use crate::machine::Machine;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// FlashScan.
    Scan,
    /// The product's column pages.
    Columns,
    /// FlashJoin.
    Join,
    /// Bloom filters.
    Bloom,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Scan, Self::Columns, Self::Join, Self::Bloom];
}

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// An empty folder on the device.
    pub folder: PathBuf,
    /// The parts to run.
    pub parts: Vec<Part>,
    /// Runs of each measurement.
    pub rounds: usize,
    /// Duration of each stream of the device's own reads.
    pub device_time: Duration,
    /// Bytes of the relation to scan.
    pub scan_bytes: u64,
    /// BSBM products in the store whose column pages are read.
    pub products: u64,
    /// Rows of each relation to join.
    pub join_rows: usize,
    /// Memory of a join, in bytes.
    pub join_memory_bytes: usize,
    /// The Bloom filters.
    pub bloom: bloom::Options,
}

/// Results of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The way of reading.
    pub backend: String,
    /// Runs of each measurement.
    pub rounds: usize,
    /// The device's reads.
    pub device: device::Device,
    /// FlashScan.
    pub scan: Option<scan::Scans>,
    /// The product's column pages.
    pub columns: Option<Vec<columns::Column>>,
    /// FlashJoin.
    pub join: Option<join::Joins>,
    /// Bloom filters.
    pub bloom: Option<bloom::Filters>,
}

/// Runs the benchmark. `progress` gets the name of every step before it begins.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    ensure!(options.rounds > 0, "there is at least one round");
    let machine = Machine::now();
    let rounds = options.rounds;
    progress("measure the device");
    let device = device::measure(&options.folder, options.scan_bytes, options.device_time)?;
    let bridge_bytes = device.bridge_bytes();
    let direct = Arc::new(DirectStorage::open(&options.folder, false)?);
    let backend = direct.backend().to_string();
    let storage: Arc<dyn Storage> = Arc::clone(&direct) as _;
    let mut report = Report {
        machine,
        backend,
        rounds,
        device,
        scan: None,
        columns: None,
        join: None,
        bloom: None,
    };
    for part in &options.parts {
        match part {
            Part::Scan => {
                let bytes = options.scan_bytes;
                let scans = scan::run(&*storage, bridge_bytes, bytes, rounds, &mut progress)?;
                report.scan = Some(scans);
            }
            Part::Columns => {
                let (folder, products) = (&options.folder, options.products);
                let columns = columns::run(
                    &*storage,
                    folder,
                    products,
                    bridge_bytes,
                    rounds,
                    &mut progress,
                )?;
                report.columns = Some(columns);
            }
            Part::Join => {
                let size = (options.join_rows, options.join_memory_bytes);
                let joins = join::run(&storage, bridge_bytes, size, rounds, &mut progress)?;
                report.join = Some(joins);
            }
            Part::Bloom => {
                let filters = bloom::run(&direct, &options.bloom, rounds, &mut progress)?;
                report.bloom = Some(filters);
            }
        }
    }
    Ok(report)
}

/// Returns the median of some times; 0 if there are none.
fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
