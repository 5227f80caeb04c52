//! `pythia bench search`: best-first search.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::search;

use crate::arguments::{LimitArguments, SMALL_CACHE};
use crate::exit::UsageError;
use crate::output::show;

/// Search a grid best first, reading the top n nodes of the queue as one batch, cold
///
/// Reports breadth-first, depth-first, Dijkstra's and A* search for each n: time, pages and
/// batches, and the modelled times of the Pythia paper's flash and phase-change memory. Then finds
/// the k shortest paths from corner to corner, warm.
///
///   pythia bench search --side 224
///   pythia bench search --side 6000 --batches 1,32    # a store of more than 1 GB
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Search {
    #[command(flatten)]
    limits: LimitArguments,

    /// Nodes on each side of the grid, which has about twice their square of edges. Only a square of
    /// 224 nodes around its middle is searched, so a larger grid makes only the store larger
    #[arg(long, default_value_t = 224, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    side: u32,

    /// Numbers of nodes read as one batch
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32,64"
    )]
    batches: Vec<usize>,

    /// Number of shortest paths
    #[arg(long, value_name = "K", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    paths: u32,

    /// Runs of each search; the median is reported
    #[arg(long, default_value_t = 3)]
    runs: usize,

    /// Seed of names and weights
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Folder for the store, which is removed afterwards [default: the system's folder for
    /// temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Write all figures as JSON; - is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Search {
    pub(super) fn run(self) -> Result<()> {
        if self.batches.contains(&0) || self.runs == 0 {
            let message = "--batches and --runs: each number is at least 1";
            return Err(UsageError(message.to_owned()).into());
        }
        let folder = match &self.folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("make a folder for the grid's store")?;
        let options = search::Options {
            side: self.side,
            batches: self.batches,
            paths: self.paths,
            runs: self.runs,
            seed: self.seed,
            limits: self.limits.options(SMALL_CACHE),
        };
        let report = search::run(folder.path(), &options, |run| {
            eprintln!(
                "{}, n = {}: {:.1} ms",
                run.search, run.batch_nodes, run.measured_ms
            );
        })?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
