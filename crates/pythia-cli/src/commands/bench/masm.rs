//! Options of `pythia bench updates --masm`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use pythia_bench::queries::NamedQuery;
use pythia_bench::updates::masm::changes::Memory;
use pythia_bench::updates::masm::compare::Condition;
use pythia_bench::updates::masm::{Options, Part, Report, run};

use crate::arguments::bytes;
use crate::exit::UsageError;
use crate::output::write;

#[derive(Args)]
pub(super) struct MasmArguments {
    /// Compare range scans, and the queries of --queries, on the store with and without changes
    /// that are not compacted, instead of measuring commits
    #[arg(
        long,
        requires = "store",
        conflicts_with_all = ["load", "clients", "payload", "folders", "batch", "seconds"]
    )]
    pub(super) masm: bool,

    /// File of queries, one JSON object per line with id, template and query
    #[arg(long, requires = "masm", value_name = "FILE")]
    pub(super) queries: Option<PathBuf>,

    /// Pairs of runs of each scan and query
    #[arg(long, default_value_t = 15, requires = "masm", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// Percentages of the store that have changed and are not compacted
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,3,10",
        requires = "masm"
    )]
    percent: Vec<f64>,

    /// Lengths of the scans, as percentages of the store's quads
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0.1,1,10,100",
        requires = "masm"
    )]
    lengths: Vec<f64>,

    /// Scans of each kind and length
    #[arg(long, default_value_t = 3, requires = "masm", value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..))]
    each: u16,

    /// Memory for changes that are not on the device: m is the paper's, the square root of the
    /// pages of all changes; default is that of a server. The parts stream and migration have the
    /// first
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "m,2m,default",
        requires = "masm"
    )]
    memory: Vec<MemoryName>,

    /// Parts to run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "changed,stream,migration,in-place",
        requires = "masm",
        value_name = "PART,…"
    )]
    parts: Vec<PartName>,

    /// Cold: no page is in memory before a run, and the cache is small; warm: the pages are in
    /// memory
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cold,warm",
        requires = "masm"
    )]
    conditions: Vec<ConditionName>,

    /// Commits of ten quads per second beside the runs of the parts stream and in-place
    #[arg(long, default_value_t = 100, requires = "masm", value_name = "RATE",
        value_parser = clap::value_parser!(u32).range(1..))]
    stream: u32,

    /// Pages that a changed quad costs the simulated store that updates in place: 1 with one order,
    /// 6 with this store's four
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,6",
        requires = "masm",
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    in_place_pages: Vec<u32>,

    /// Memory for the page cache of cold runs, at most a quarter of the store [default: a quarter]
    #[arg(long, value_parser = bytes, requires = "masm", value_name = "SIZE")]
    cold_cache: Option<usize>,

    /// Seed of the choice of scans and changes
    #[arg(long, default_value_t = 1, requires = "masm")]
    seed: u64,

    /// Write a page with a plot and the tables of each comparison
    #[arg(long, requires = "masm", value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum MemoryName {
    M,
    #[value(name = "2m")]
    TwiceM,
    Default,
}

#[derive(Clone, Copy, ValueEnum)]
enum PartName {
    Changed,
    Stream,
    Migration,
    InPlace,
}

#[derive(Clone, Copy, ValueEnum)]
enum ConditionName {
    Cold,
    Warm,
}

impl From<MemoryName> for Memory {
    fn from(name: MemoryName) -> Self {
        match name {
            MemoryName::M => Self::Root,
            MemoryName::TwiceM => Self::TwiceRoot,
            MemoryName::Default => Self::Product,
        }
    }
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Changed => Self::Changed,
            PartName::Stream => Self::Stream,
            PartName::Migration => Self::Migration,
            PartName::InPlace => Self::InPlace,
        }
    }
}

impl From<ConditionName> for Condition {
    fn from(name: ConditionName) -> Self {
        match name {
            ConditionName::Cold => Self::Cold,
            ConditionName::Warm => Self::Warm,
        }
    }
}

impl MasmArguments {
    /// Runs the benchmark and writes its page, if there is to be one.
    pub(super) fn run(
        self,
        store: PathBuf,
        folder: &Path,
        queries: Vec<NamedQuery>,
        cache_bytes: usize,
    ) -> Result<Report> {
        let options = Options {
            store,
            parts: self.parts.into_iter().map(Into::into).collect(),
            conditions: self.conditions.into_iter().map(Into::into).collect(),
            queries,
            lengths: self.lengths,
            each: self.each.into(),
            percent: self.percent,
            memory: self.memory.into_iter().map(Into::into).collect(),
            commits_per_second: self.stream,
            in_place_pages: self.in_place_pages,
            rounds: self.rounds,
            cache_bytes,
            cold_cache_bytes: self.cold_cache,
            seed: self.seed,
        };
        options
            .check()
            .map_err(|error| UsageError(error.to_string()))?;
        let report = run(folder, &options, |line| eprintln!("{line}"))?;
        if let Some(path) = &self.report {
            write(path, &report.html())?;
        }
        Ok(report)
    }
}
