//! `pythia bench meld`: optimistic transactions over a shared log, as in Hyder.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::meld::{self, Shape};

use crate::arguments::time;
use crate::exit::UsageError;
use crate::output::show;

/// Measure Hyder's meld: executors append transactions to a shared log, and one melder decides which
/// of them have committed
///
/// Transactions read and write items in a tree. Measured are execution and meld by one thread in
/// turn, executors beside one melder with the log in memory and on the device, and, for comparison,
/// the single writer of a store with as many changed quads. Rates of more executors than this machine
/// has cores for are computed. Every log is melded twice, and must have the same result. Data is
/// written to a temporary folder that is removed afterwards.
///
///   pythia bench meld --folder /mnt/ssd
///   pythia bench meld --shapes 8+2,0+1 --conflicts 0,10 --executors 1,2
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Meld {
    /// Folder to write to, on the device that is to be measured
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Items in the tree
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    items: u64,

    /// Items that each transaction only reads, and items that it reads and writes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8+2,0+10",
        value_name = "R+W,…"
    )]
    shapes: Vec<Shape>,

    /// Percentages of transactions that should conflict with another
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,1,10",
        value_name = "P,…"
    )]
    conflicts: Vec<f64>,

    /// Numbers of executors, and of clients of the single writer
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_name = "N,…", value_parser = clap::value_parser!(u16).range(1..=1000))]
    executors: Vec<u16>,

    /// Transactions of each run
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    transactions: u64,

    /// Intentions between a transaction's snapshot and the end of the log when it begins
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1 << 20))]
    behind: u64,

    /// Duration of each measurement of the single writer
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = time)]
    seconds: Duration,

    /// Seed of the transactions' items
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Meld {
    pub(super) fn run(self) -> Result<()> {
        let options = meld::Options {
            items: self.items,
            shapes: self.shapes,
            conflicts: self
                .conflicts
                .iter()
                .map(|percent| percent / 100.0)
                .collect(),
            executors: self.executors.into_iter().map(usize::from).collect(),
            transactions: self.transactions,
            behind: self.behind,
            time: self.seconds,
            seed: self.seed,
        };
        options
            .check()
            .map_err(|error| UsageError(error.to_string()))?;
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let report = meld::run(folder.path(), &options, |line| eprintln!("{line}"))?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
