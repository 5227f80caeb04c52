//! `pythia bench hops`: a store's hops and frontiers beside the device's own reads.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pythia_bench::hops;

use super::{seconds, show};
use crate::arguments::StoreArguments;

/// Time the store's hops and frontiers, cold, beside the device's own reads
///
/// Random walks read one page after the other: the mean time of a hop stands beside the latency of
/// a single read. Frontiers read thousands of pages at once: their rate stands beside the best the
/// device gives at any depth. The device's own reads are fio's, of the same file in the same run, or
/// a plain loop's where fio is not installed.
///
///   pythia generate graph --nodes 6000000 -l graph.pythia
///   pythia bench hops -l graph.pythia --cache 64M
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Hops {
    #[command(flatten)]
    store: StoreArguments,

    /// Rounds of walks, frontiers and the device's own reads; medians are reported
    #[arg(long, default_value_t = 15)]
    rounds: usize,

    /// How long each part of a round takes
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25)]
    seconds: f64,

    /// Nodes of a frontier [default: as many as a twentieth of the pages]
    #[arg(long, value_name = "N")]
    frontier: Option<usize>,

    /// Do not use fio even if it is there
    #[arg(long)]
    no_fio: bool,

    /// Seeds the walks
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Hops {
    pub(super) fn run(self) -> Result<()> {
        let options = hops::Options {
            rounds: self.rounds.max(1),
            part: seconds("--seconds", self.seconds)?,
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
