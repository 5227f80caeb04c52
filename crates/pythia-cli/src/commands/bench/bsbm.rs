//! `pythia bench bsbm`: the Berlin SPARQL Benchmark, in process or on any SPARQL endpoint.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::bsbm;
use pythia_bench::faults::copy_folder;
use tempfile::TempDir;

use super::systems::SystemArguments;
use crate::arguments::{LimitArguments, ReportArguments, StoreArguments, UseCaseName};
use crate::exit::UsageError;
use crate::output::show_report;

/// The Berlin SPARQL Benchmark: mixes of queries by one client and by several
///
/// Measures this store in process, and SPARQL endpoints beside it that hold the same data. Parameters
/// are drawn from the store. Before anything is measured, each system is asked each query and the
/// answers are compared; a template that a system does not answer, or answers differently, is left
/// out of the comparison and named.
///
///   pythia generate bsbm --products 2848 -l bsbm.pythia
///   pythia bench bsbm -l bsbm.pythia --clients 1,4
///   pythia bench bsbm -l bsbm.pythia --use-case bi --report bi.html
///   pythia bench bsbm -l bsbm.pythia --endpoint virtuoso=http://127.0.0.1:8890/sparql
///   pythia bench bsbm -l bsbm.pythia --updates
///
/// With --updates, each mix of Explore begins with updates, the use case Explore and Update: U1 inserts a
/// copy of a product with its offers and reviews, and four times U2 deletes an offer. The store in process
/// is a copy, beside the store, which no other program may write to meanwhile. After each turn, every change
/// is taken back. If the command is stopped, the copy is left, and so are the changes of endpoints.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Bsbm {
    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    limits: LimitArguments,

    /// The use case
    #[arg(long, value_enum, default_value = "explore")]
    use_case: UseCaseName,

    /// Begin each mix of Explore with updates, and take all changes back after each turn
    #[arg(long)]
    updates: bool,

    /// The URL for updates of an endpoint, if it is not the URL for queries
    #[arg(
        long = "update-endpoint",
        value_name = "NAME=URL",
        requires = "updates"
    )]
    update_endpoints: Vec<String>,

    #[command(flatten)]
    systems: SystemArguments,

    /// Numbers of clients
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,4")]
    clients: Vec<usize>,

    /// Number of different mixes [default: 20 of Explore (25 queries each), 5 of BI (8 queries each)]
    #[arg(long, value_name = "N")]
    mixes: Option<usize>,

    /// Number of mixes of each system before the measurement, after the comparison of the answers
    #[arg(long, value_name = "N", default_value_t = 5)]
    warm_up: usize,

    /// Number of rounds; in each, the systems run all mixes in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Draw product types of BI at random. Otherwise, they drill down: from a type below the root to
    /// a leaf, one level from mix to mix
    #[arg(long)]
    no_drill_down: bool,

    /// Seed of the parameters
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of times that a query without results is drawn again; 0 follows the benchmark's rules
    #[arg(long, default_value_t = 20, value_name = "N")]
    redraws: u32,

    #[command(flatten)]
    output: ReportArguments,
}

impl Bsbm {
    pub(super) fn run(self) -> Result<()> {
        let options = self.options()?;
        // Dropped after the database that is open in it.
        let copy = self.updates.then(|| self.copy()).transpose()?;
        let database = match &copy {
            Some((_, copy)) => copy.open_for_writing(&self.limits)?,
            None => self.store.open(&self.limits)?,
        };
        let systems = self.systems.systems(&database, &self.update_endpoints)?;
        let report = bsbm::run(&database, &systems, &options, |part| eprintln!("{part}"))?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }

    /// Copies the store for updates. The copy is removed with its folder.
    fn copy(&self) -> Result<(TempDir, StoreArguments)> {
        let location = &self.store.location;
        let beside = location
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        let folder = tempfile::tempdir_in(beside.unwrap_or(Path::new(".")));
        let folder =
            folder.with_context(|| format!("make a folder beside {}", location.display()))?;
        let copy = StoreArguments {
            location: folder.path().join("store"),
            ..self.store.clone()
        };
        // Refuses what is no store.
        drop(self.store.open(&self.limits)?);
        copy_folder(location, &copy.location)
            .with_context(|| format!("copy {} for updates", location.display()))?;
        Ok((folder, copy))
    }

    fn options(&self) -> Result<bsbm::RunOptions> {
        let mixes = self.mixes.unwrap_or(match self.use_case {
            UseCaseName::Explore => 20,
            UseCaseName::Bi => 5,
        });
        if mixes == 0 || self.rounds == 0 || self.clients.contains(&0) {
            let message = "--mixes, --rounds and each number of --clients are at least 1";
            return Err(UsageError(message.to_owned()).into());
        }
        if self.updates && matches!(self.use_case, UseCaseName::Bi) {
            let message = "--updates belongs to --use-case explore";
            return Err(UsageError(message.to_owned()).into());
        }
        let is_multiple = |clients: &usize| mixes.is_multiple_of(*clients);
        if self.updates && !self.clients.iter().all(is_multiple) {
            let message = "with --updates, --mixes must be a multiple of each number of --clients, so that each update \
                           runs once in a turn";
            return Err(UsageError(message.to_owned()).into());
        }
        Ok(bsbm::RunOptions {
            use_case: self.use_case.into(),
            updates: self.updates,
            clients: self.clients.clone(),
            mixes,
            warm_up: self.warm_up,
            rounds: self.rounds,
            drill_down: !self.no_drill_down,
            seed: self.seed,
            redraws: self.redraws,
            budget: self.systems.seconds,
            timeout: self.systems.timeout,
        })
    }
}
