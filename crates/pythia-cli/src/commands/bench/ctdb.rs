//! `pythia bench ctdb`: the experiment of the paper "Clustered TDB" on one node.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use pythia::LoadOptions;
use pythia_bench::ctdb;
use pythia_generate::people;
use tempfile::TempDir;

use crate::arguments::{LimitArguments, ReportArguments, StoreArguments, bytes};
use crate::exit::UsageError;
use crate::output::show_report;

/// Triples of a store that is made for the measurement and removed.
const TRIPLES: u64 = 10_000_000;

/// The experiment of the paper "Clustered TDB" on one node: load rate, single triple patterns and
/// five joins, by 1 and 5 users
///
/// Without --location, generates people, measures their load into a temporary store, and removes
/// the store at the end (not if the command is stopped). With --location and --triples, the new store is kept. With --location
/// alone, measures the queries on a store of `pythia generate people`.
///
/// Parameters are drawn at random from the data. The report has a table for each table of the
/// paper, with its figures for standalone TDB and for one machine of Clustered TDB.
///
///   pythia bench ctdb --report ctdb.html
///   pythia bench ctdb -l people.pythia --triples 375000000
///   pythia bench ctdb -l people.pythia --users 1,5,16
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Ctdb {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: Option<PathBuf>,

    /// Memory for the page cache of the store, a hard limit (for example 64M, 2G)
    #[arg(long, env = "PYTHIA_CACHE", value_name = "SIZE", value_parser = bytes, default_value = "256M")]
    cache: usize,

    #[command(flatten)]
    limits: LimitArguments,

    /// Generate and load this number of triples into a new store, and measure the load [default:
    /// 10000000 without --location]
    #[arg(long, value_name = "N")]
    triples: Option<u64>,

    /// Folder for the temporary store [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER", conflicts_with = "location")]
    folder: Option<PathBuf>,

    /// Numbers of users who run their queries at the same time
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,5", value_parser = clap::value_parser!(u16).range(1..=1000))]
    users: Vec<u16>,

    /// Queries of each user in each test
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    queries: u32,

    /// Seed of the data and of the queries' parameters
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    output: ReportArguments,
}

impl Ctdb {
    pub(super) fn run(self) -> Result<()> {
        let temporary = self.temporary_folder()?;
        let location = match (&self.location, &temporary) {
            (Some(location), _) => location.clone(),
            (None, Some(folder)) => folder.path().join("store"),
            (None, None) => unreachable!("one of them is there"),
        };
        let load = self.load(&location)?;
        let store = StoreArguments {
            location,
            cache: self.cache,
        };
        let database = store.open(&self.limits)?;
        let options = ctdb::Options {
            users: self.users.iter().copied().map(usize::from).collect(),
            queries: self.queries as usize,
            seed: self.seed,
        };
        let report = ctdb::run(&database, load, &options, |part| eprintln!("{part}"))?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }

    /// Makes the folder of the temporary store, which is removed with the returned value.
    fn temporary_folder(&self) -> Result<Option<TempDir>> {
        let folder = match (&self.location, &self.folder) {
            (Some(_), _) => return Ok(None),
            (None, Some(folder)) => tempfile::tempdir_in(folder),
            (None, None) => tempfile::tempdir(),
        };
        Ok(Some(folder.context("make a folder for the store")?))
    }

    /// Makes the store if triples are asked for.
    fn load(&self, location: &Path) -> Result<Option<ctdb::Load>> {
        let triples = match (self.triples, &self.location) {
            (Some(triples), _) => triples,
            (None, None) => TRIPLES,
            (None, Some(_)) => return Ok(None),
        };
        let config = people::Config::new(triples)
            .map_err(|error| UsageError(error.to_string()))?
            .with_seed(self.seed);
        if fs::read_dir(location).is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!(
                "{} is not empty, so --triples cannot make a store there; leave out --triples to measure the store, or remove \
                 the folder if a load was stopped",
                location.display()
            );
            return Err(UsageError(message).into());
        }
        eprintln!("load {triples} triples");
        let options = LoadOptions {
            tmp: location.to_owned(),
            threads: self.limits.threads,
            memory_bytes: self.limits.memory,
            ..LoadOptions::default()
        };
        Ok(Some(ctdb::load(location, &config, &options)?))
    }
}
