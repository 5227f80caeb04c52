//! `pythia bench ipl`: In-Page Logging, with logs on flash and in phase change memory.

use anyhow::Result;
use clap::Args;
use pythia_bench::ipl;

use crate::arguments::{ReportArguments, bytes};
use crate::exit::UsageError;
use crate::output::show_report;

/// In-Page Logging on modelled devices, with logs on flash and in phase change memory, beside
/// sorted runs
///
/// Replays the trace of the paper "Accelerating In-Page Logging with Non-Volatile Memory": inserts
/// records of 40 to 50 bytes into a B+-tree in random order, and retrieves them in another. All
/// stores are in memory, and times are modelled: the machine does not matter. With five million
/// records, a store takes 370 to 690 MB, and as many are in memory at the same time as --jobs says.
///
///   pythia bench ipl --report ipl.html
///   pythia bench ipl --records 500000 --sectors 64,128,256,512 --log-areas 16K
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Ipl {
    /// Records; the paper has five million
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    records: u32,

    /// Memory of each store [default: 20M for five million records, in proportion for others, but at
    /// least 128K]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    buffer: Option<usize>,

    /// Bytes of a log sector in phase change memory
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…", default_value = "128,512", value_parser = bytes)]
    sectors: Vec<usize>,

    /// Bytes of the log area of each block of 128 KiB
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…", default_value = "8K,16K,32K,64K", value_parser = bytes)]
    log_areas: Vec<usize>,

    /// Commits of one record in a write of the log of sorted runs
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,32"
    )]
    groups: Vec<u64>,

    /// Seed of the records
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Stores in memory at the same time [default: 2, or 1 if there is one core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    jobs: Option<u16>,

    #[command(flatten)]
    output: ReportArguments,
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2))
}

impl Ipl {
    pub(super) fn run(self) -> Result<()> {
        let options = ipl::Options {
            records: self.records as usize,
            buffer_bytes: self.buffer,
            sector_bytes: self.sectors,
            log_area_bytes: self.log_areas,
            groups: self.groups,
            seed: self.seed,
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
        };
        options
            .check()
            .map_err(|error| UsageError(error.to_string()))?;
        let report = ipl::run(&options, |store| eprintln!("{store}"))?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }
}
