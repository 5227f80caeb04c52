//! `pythia bench bsbm`: the Berlin SPARQL Benchmark, in process or on any SPARQL endpoint.

use anyhow::Result;
use clap::Args;
use pythia_bench::bsbm;

use super::systems::SystemArguments;
use crate::arguments::{LimitArguments, ReportArguments, StoreArguments, UseCaseName};
use crate::exit::UsageError;
use crate::output::{show, write};

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
        let database = self.store.open(&self.limits)?;
        let systems = self.systems.systems(&database)?;
        let report = bsbm::run(&database, &systems, &options, |part| eprintln!("{part}"))?;
        if let Some(path) = &self.output.report {
            write(path, &report.html())?;
        }
        show(
            self.output.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
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
        Ok(bsbm::RunOptions {
            use_case: self.use_case.into(),
            clients: self.clients.clone(),
            mixes,
            warm_up: self.warm_up,
            rounds: self.rounds,
            drill_down: !self.no_drill_down,
            seed: self.seed,
            redraws: self.redraws,
            budget: self.systems.budget()?,
            timeout: self.systems.timeout()?,
        })
    }
}
