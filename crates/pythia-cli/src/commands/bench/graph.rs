//! `pythia bench graph`: the custom graph benchmark of the Pythia paper.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia_bench::graph;

use crate::arguments::{ReportArguments, bytes, time};
use crate::exit::UsageError;
use crate::output::show_report;

/// The Pythia paper's custom graph benchmark: chains of dependent reads, on this device and on
/// models of the paper's flash and PCM
///
/// Uses a random graph with one node of 3 to 30 edges on each page. Nothing is cached. The report
/// reproduces Figures 1 to 5 next to the paper's numbers.
///
///   pythia bench graph --report graph.html /var/lib/pythia
///   pythia bench graph --modelled
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Graph {
    /// The folder whose device is measured
    #[arg(value_name = "FOLDER", required_unless_present = "modelled")]
    folder: Option<PathBuf>,

    /// Measure only the modelled devices
    #[arg(long, conflicts_with = "folder")]
    modelled: bool,

    /// Page sizes
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…", value_parser = bytes, default_value = "4K,8K,16K,32K")]
    page: Vec<usize>,

    /// Numbers of concurrent queries
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32,64,96,128,192"
    )]
    clients: Vec<usize>,

    /// Numbers of nodes of a path
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "2,4,10,100"
    )]
    path_length: Vec<usize>,

    /// Processing times of a page
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "µs,…",
        default_value = "0,50,100"
    )]
    processing: Vec<u64>,

    /// Measure all combinations, not only those that the figures show
    #[arg(long)]
    all: bool,

    /// Size of the graph
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "256M", conflicts_with = "paper_scale")]
    size: usize,

    /// Use a graph of 5 GiB, with 1.3 million nodes on pages of 4 KiB, like the paper
    #[arg(long)]
    paper_scale: bool,

    /// Duration of each measurement
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = time)]
    seconds: Duration,

    /// Seed of the graph and the walks
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    output: ReportArguments,
}

impl Graph {
    pub(super) fn run(self) -> Result<()> {
        let is_page = |bytes: &usize| bytes.is_power_of_two() && (4096..=65_536).contains(bytes);
        if !self.page.iter().all(is_page) {
            let message = "--page: powers of two from 4K to 64K".to_owned();
            return Err(UsageError(message).into());
        }
        let is_count = |count: &usize| (1..=4096).contains(count);
        if !self.clients.iter().chain(&self.path_length).all(is_count) {
            let message = "--clients, --path-length: each number is 1 to 4096".to_owned();
            return Err(UsageError(message).into());
        }
        let measured = self.folder.is_some().then_some(self.seconds);
        let options = graph::Options {
            page_bytes: self.page,
            clients: self.clients,
            path_lengths: self.path_length,
            processing_us: self.processing,
            all: self.all,
            graph_bytes: if self.paper_scale {
                graph::PAPER_BYTES
            } else {
                self.size as u64
            },
            measured,
            seed: self.seed,
        };
        let folder = self.folder.unwrap_or_default();
        let report = graph::run(&folder, &options, |part| eprintln!("{part} …"))?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }
}
