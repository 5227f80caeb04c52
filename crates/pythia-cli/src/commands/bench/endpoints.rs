//! `pythia bench endpoints`: the queries of a file, on this store and SPARQL endpoints in turn.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::{endpoints, queries};

use super::systems::SystemArguments;
use crate::arguments::{LimitArguments, ReportArguments, StoreArguments};
use crate::exit::UsageError;
use crate::output::show_report;

/// Compare this store with SPARQL endpoints on the queries of a file, in turn
///
/// The file has one JSON object per line, with "id", "template" and "query". Before anything is
/// measured, each system is asked each query and the answers are compared with the store's; a
/// template that a system does not answer, or answers differently, is left out of the comparison
/// and named.
///
///   pythia bench endpoints -l STORE queries.jsonl --endpoint oxigraph=http://127.0.0.1:7879/query
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Endpoints {
    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    limits: LimitArguments,

    /// File of queries
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,

    #[command(flatten)]
    systems: SystemArguments,

    /// Numbers of clients
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1")]
    clients: Vec<usize>,

    /// Number of rounds; in each, the systems are asked all queries in turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,

    /// Number of times that all queries are asked before the measurement, after the comparison of the
    /// answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: usize,

    #[command(flatten)]
    output: ReportArguments,
}

impl Endpoints {
    pub(super) fn run(self) -> Result<()> {
        if self.rounds == 0 || self.clients.contains(&0) {
            let message = "--rounds and each number of --clients are at least 1";
            return Err(UsageError(message.to_owned()).into());
        }
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("read queries from {}", self.file.display()))?;
        let list = queries::read(&text).with_context(|| self.file.display().to_string())?;
        let options = endpoints::Options {
            clients: self.clients.clone(),
            rounds: self.rounds,
            warm_up: self.warm_up,
            budget: self.systems.seconds,
            timeout: self.systems.timeout,
        };
        let database = self.store.open(&self.limits)?;
        let systems = self.systems.systems(&database, &[])?;
        let progress = |part: &str| eprintln!("{part}");
        let report = endpoints::run(&database, &systems, &list, &options, progress)?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }
}
