//! `pythia bench queries`: any file of queries, timed one by one.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::queries;
use pythia_bench::timed::Output;

use crate::arguments::{LimitArguments, StoreArguments, time};
use crate::output::show;

/// Time each query of a file: one JSON object per line, with "id", "template" and "query"
///
/// Queries run in turn, round after round. A first round is not counted. A query that fails is
/// reported as failed and does not stop the others.
#[derive(Args)]
pub(super) struct Queries {
    #[command(flatten)]
    store: StoreArguments,

    /// File of queries
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,

    /// Number of timed rounds
    #[arg(long, default_value_t = 10)]
    runs: u32,

    /// Start no further round after this time (30s, 500ms)
    #[arg(long, value_name = "TIME", value_parser = time)]
    seconds: Option<Duration>,

    /// Stop a query after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Also serialize the results in memory as SPARQL JSON (graphs: N-Triples), as a server would
    #[arg(long)]
    serialize: bool,

    /// Empty the cache before each query
    #[arg(long)]
    cold: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Queries {
    pub(super) fn run(self) -> Result<()> {
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("read queries from {}", self.file.display()))?;
        let list = queries::read(&text).with_context(|| self.file.display().to_string())?;
        let options = queries::Options {
            runs: self.runs,
            budget: self.seconds,
            timeout: self.timeout,
            output: if self.serialize {
                Output::Serialized
            } else {
                Output::Terms
            },
            cold: self.cold,
        };
        let database = self.store.open(&self.limits)?;
        let report = queries::run(&database, &list, &options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
