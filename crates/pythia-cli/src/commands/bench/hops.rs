//! `pythia bench hops`: a store's hops and frontiers compared with the device's reads.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia_bench::hops;

use crate::arguments::{StoreArguments, time};
use crate::output::show;

/// Measure a store's cold hops and frontiers, and compare them with the device's reads
///
/// Random walks read one page after the other: the mean time of a hop is compared with the latency
/// of a single read. Frontiers read thousands of pages at once: their rate is compared with the
/// device's best rate at any queue depth. The device's reads are measured with fio on the same file
/// in the same run, or with a plain loop if fio is not installed.
///
///   pythia generate graph --nodes 6000000 -l graph.pythia
///   pythia bench hops -l graph.pythia --cache 64M
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Hops {
    #[command(flatten)]
    store: StoreArguments,

    /// Rounds of walks, frontiers and device reads; medians are reported
    #[arg(long, default_value_t = 15)]
    rounds: usize,

    /// Duration of each part of a round
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = time)]
    seconds: Duration,

    /// Number of nodes of a frontier [default: a twentieth of the number of pages]
    #[arg(long, value_name = "N")]
    frontier: Option<usize>,

    /// Do not use fio even if it is installed
    #[arg(long)]
    no_fio: bool,

    /// Seed of the walks
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Hops {
    pub(super) fn run(self) -> Result<()> {
        let options = hops::Options {
            rounds: self.rounds.max(1),
            part: self.seconds,
            frontier: self.frontier,
            use_fio: !self.no_fio,
            seed: self.seed,
        };
        let database = self.store.open_without_queries()?;
        let report = hops::run(&database, &self.store.location, &options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
