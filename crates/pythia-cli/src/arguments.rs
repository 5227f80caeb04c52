//! Arguments shared by several commands.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, HumanCount};
use pythia::{Database, Options, WriteOptions};
use pythia_bench::bsbm::UseCase;

use crate::allocator;
pub(crate) use pythia_server::config::{parse_bytes as bytes, parse_time as time};

/// The store's location, and its cache.
#[derive(Clone, Args)]
pub(crate) struct StoreArguments {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    pub(crate) location: PathBuf,

    /// Memory for the page cache of the store, a hard limit (for example 64M, 2G)
    #[arg(long, env = "PYTHIA_CACHE", value_name = "SIZE", value_parser = bytes, default_value = "256M")]
    pub(crate) cache: usize,
}

/// Limits of queries.
#[derive(Args)]
pub(crate) struct LimitArguments {
    /// Memory for running queries: joins, groups, sorts, computed terms (for example 512M). Larger
    /// intermediate results spill to temporary files
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    pub(crate) memory: usize,

    /// Folder for temporary files [default: the system's]
    #[arg(long, env = "PYTHIA_SPILL_FOLDER", value_name = "FOLDER")]
    pub(crate) spill_folder: Option<PathBuf>,

    /// Maximum size of all temporary files together (for example 20G) [default: limited by the
    /// disk]
    #[arg(long, env = "PYTHIA_SPILL_LIMIT", value_name = "SIZE", value_parser = bytes)]
    pub(crate) spill_limit: Option<usize>,

    /// Threads that compute queries at once [default: the number of cores]
    #[arg(long, env = "PYTHIA_THREADS", value_name = "NUMBER")]
    pub(crate) threads: Option<NonZero<usize>>,
}

impl LimitArguments {
    /// Returns the limits of a database with this much cache.
    pub(crate) fn options(&self, cache_bytes: usize) -> Options {
        Options {
            cache_bytes,
            memory_bytes: self.memory,
            spill_folder: self.spill_folder.clone(),
            spill_bytes: self.spill_limit.map_or(u64::MAX, |bytes| bytes as u64),
            threads: self.threads,
            write: None,
        }
    }
}

impl StoreArguments {
    /// Opens the store for queries within limits.
    pub(crate) fn open(&self, limits: &LimitArguments) -> anyhow::Result<Database> {
        let options = limits.options(self.cache);
        allocator::return_beyond(options.memory_bytes, options.cache_bytes);
        Ok(Database::open_with(&self.location, options)?)
    }

    /// Opens the store for queries and updates within limits.
    pub(crate) fn open_for_writing(&self, limits: &LimitArguments) -> anyhow::Result<Database> {
        let options = Options {
            write: Some(WriteOptions::default()),
            ..limits.options(self.cache)
        };
        allocator::return_beyond(options.memory_bytes, options.cache_bytes);
        Ok(Database::open_with(&self.location, options)?)
    }

    /// Opens the store for access below SPARQL.
    pub(crate) fn open_without_queries(&self) -> anyhow::Result<Database> {
        let options = Options {
            cache_bytes: self.cache,
            memory_bytes: 0,
            ..Options::default()
        };
        Ok(Database::open_with(&self.location, options)?)
    }
}

/// Formats a number of bytes.
pub(crate) fn human_bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Formats a count with thousands separators.
pub(crate) fn human_count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Formats a count with its noun, in the plural but for one.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", HumanCount(count))
}

/// A use case of the Berlin SPARQL Benchmark.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum UseCaseName {
    /// Q1 to Q12: a customer looks for a product
    Explore,
    /// BI1 to BI8: business intelligence, analyses of all data
    Bi,
}

impl From<UseCaseName> for UseCase {
    fn from(name: UseCaseName) -> Self {
        match name {
            UseCaseName::Explore => Self::Explore,
            UseCaseName::Bi => Self::BusinessIntelligence,
        }
    }
}

/// Output of a benchmark's figures.
#[derive(Args)]
pub(crate) struct ReportArguments {
    /// Write all figures as JSON; - is standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with plots and tables
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// The cache of a store with a single triple.
pub(crate) const SMALL_CACHE: usize = 4 << 20;
