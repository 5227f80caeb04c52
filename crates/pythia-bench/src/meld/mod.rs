//! Hyder's meld on one machine (Bulletin, "Implementing an Append-Only Interface for Semiconductor Storage", §2): `pythia
//! bench meld`.
//!
//! Items are read and written by transactions of one shape ([`workload`]), which run [`pythia_log::meld`] in three ways:
//!
//! - [`alone`]: one thread executes and melds in turn, so each has a time of its own;
//! - [`live`]: several executors append to a shared log, in memory or on the device, and one melder rolls it forward;
//! - [`writer`]: for comparison, the one writer of a store commits as many quads as the transactions write items.
//!
//! A transaction runs on the state `behind` intentions before the log's end: in a cluster, an executor knows the log only
//! up to there. This makes the share of conflicts a matter of the items alone. Every log is melded twice, and a difference
//! is an error.
//!
//! The article has no measurement of Hyder. It has the rates of a flash chip, which are printed beside the melder's.

mod alone;
mod live;
mod report;
mod shared;
#[cfg(test)]
mod tests;
mod workload;
mod writer;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use pythia_store::Isolation;
use serde::Serialize;

pub use self::alone::Alone;
pub use self::live::Live;
pub use self::workload::Shape;
use self::workload::Workload;
pub use self::writer::SingleWriter;
use crate::machine::Machine;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Items in the tree.
    pub items: u64,
    /// The transactions' reads and writes.
    pub shapes: Vec<Shape>,
    /// Shares of transactions that should conflict, from 0 to below 1.
    pub conflicts: Vec<f64>,
    /// Numbers of executors, and of clients of the single writer.
    pub executors: Vec<usize>,
    /// Transactions of each run.
    pub transactions: u64,
    /// Intentions between a transaction's snapshot and the end of the log when it begins.
    pub behind: u64,
    /// Duration of each measurement of the single writer.
    pub time: Duration,
    /// The seed of the transactions' items.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            items: 1_000_000,
            shapes: vec![Shape::new(8, 2), Shape::new(0, 10)],
            conflicts: vec![0.0, 0.01, 0.1],
            executors: vec![1, 2, 4],
            transactions: 50_000,
            behind: 64,
            time: Duration::from_secs(1),
            seed: 1,
        }
    }
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Items in the tree.
    pub items: u64,
    /// Intentions between a transaction's snapshot and the end of the log when it begins.
    pub behind: u64,
    /// Execution and meld by one thread.
    pub alone: Vec<Alone>,
    /// Executors beside a melder.
    pub live: Vec<Live>,
    /// The single writer of a store.
    pub writer: Vec<SingleWriter>,
}

/// The transactions of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Items that each transaction reads only, and that it reads and writes.
    pub shape: Shape,
    /// `snapshot` or `serializable`.
    pub isolation: &'static str,
    /// The share of transactions that should conflict.
    pub conflicts: f64,
}

/// Runs the benchmark. The log and a store are written to `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    options.check()?;
    let mut report = Report {
        machine: Machine::now(),
        items: options.items,
        behind: options.behind,
        alone: Vec::new(),
        live: Vec::new(),
        writer: Vec::new(),
    };
    let filled = workload::fill(options.items)?;
    for &shape in &options.shapes {
        for isolation in Isolation::ALL {
            for &conflicts in &options.conflicts {
                let workload = Workload::new(options, shape, isolation, conflicts);
                progress(&workload.describe());
                report.alone.push(alone::measure(&workload, &filled)?);
                for &executors in &options.executors {
                    let measured = live::measure(&workload, &filled, executors, None)?;
                    report.live.push(measured);
                }
            }
        }
        let conflicts = options.conflicts[0];
        let workload = Workload::new(options, shape, Isolation::Snapshot, conflicts);
        for &count in &options.executors {
            progress(&format!("{shape} on the device, executors: {count}"));
            let device = Some(folder);
            let measured = live::measure(&workload, &filled, count, device)?;
            report.live.push(measured);
            for device in [None, device] {
                let quads = shape.writes as usize;
                let measured = writer::measure(device, count, quads, options.time)?;
                report.writer.push(measured);
            }
        }
    }
    Ok(report)
}

impl Options {
    /// Checks that the measurement is possible.
    ///
    /// # Errors
    /// With a message for the user.
    pub fn check(&self) -> Result<()> {
        ensure!(
            !self.shapes.is_empty() && !self.conflicts.is_empty() && !self.executors.is_empty(),
            "a shape, a share of conflicts and a number of executors are needed"
        );
        ensure!(
            self.executors.iter().all(|&count| count > 0),
            "there must be an executor"
        );
        ensure!(
            self.transactions > 0 && !self.time.is_zero(),
            "there must be a transaction, and time to measure the single writer"
        );
        for share in &self.conflicts {
            ensure!(
                (0.0..1.0).contains(share),
                "{} % of the transactions cannot conflict: the percentage is at least 0 and less than 100",
                share * 100.0
            );
        }
        let most = self.executors.iter().copied().max().unwrap_or(1) as u64;
        for shape in &self.shapes {
            ensure!(
                shape.writes > 0,
                "{shape} writes nothing, and reads alone are not melded"
            );
            let needed = shape.accesses() * workload::stripes(self.behind, most);
            ensure!(
                needed <= self.items,
                "{} items are too few for transactions of {shape} items and {} intentions behind: at least {needed} are \
                 needed",
                self.items,
                self.behind
            );
        }
        Ok(())
    }
}
