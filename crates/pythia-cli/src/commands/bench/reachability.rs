//! `pythia bench reachability`: paths between two known ends, with and without labels.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia_bench::reachability;

use crate::arguments::{StoreArguments, bytes, time};
use crate::output::show;

/// Compare searches with reachability labels for paths of one predicate between two known ends
///
/// Runs queries without labels, builds labels like `pythia optimize --reachability`, and runs the
/// same queries again. The answers must agree. The labels stay in the store. With --online, measures
/// point queries beside builds of the labels instead.
///
///   pythia bench reachability -l yago.pythia --predicate http://yago-knowledge.org/resource/isLocatedIn
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Reachability {
    #[command(flatten)]
    store: StoreArguments,

    /// The predicate
    #[arg(long, value_name = "IRI")]
    predicate: String,

    /// Number of queries
    #[arg(long, value_name = "N", default_value_t = 1000)]
    questions: usize,

    /// Memory for building labels, and for queries
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,

    /// Measure point queries with and without builds of the labels beside them
    #[arg(long)]
    online: bool,

    /// With --online: duration of the measurement
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        requires = "online", value_parser = time)]
    seconds: Duration,

    /// Write the report as JSON to a file, or to standard output if it is "-"
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reachability {
    pub(super) fn run(self) -> Result<()> {
        let options = reachability::Options {
            location: self.store.location,
            predicate: self.predicate,
            questions: self.questions,
            cache_bytes: self.store.cache,
            memory_bytes: self.memory,
        };
        if self.online {
            let report = reachability::run_online(&options, self.seconds.as_secs_f64())?;
            let json = serde_json::to_value(&report)?;
            return show(self.json.as_deref(), &report.text(), json);
        }
        let report = reachability::run(&options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
