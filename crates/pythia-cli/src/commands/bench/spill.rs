//! `pythia bench spill`: more rows than fit into memory.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::spill;

use crate::arguments::{LimitArguments, SMALL_CACHE, human_count, time};
use crate::output::show;

/// Sort, group, deduplicate and join more rows than fit into memory
///
/// Needs no store: the rows are a cross product of inline data. Answers are checked.
///
///   pythia bench spill --memory 256M --rows 100000000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Spill {
    #[command(flatten)]
    limits: LimitArguments,

    /// Approximate number of input rows of each operator
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,

    /// Stop with an error if an operator takes longer than this
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Spill {
    pub(super) fn run(self) -> Result<()> {
        let options = spill::Options {
            rows: self.rows,
            timeout: self.timeout,
        };
        let folder = match &self.limits.spill_folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("make a folder for a store of one triple")?;
        let database = spill::database(folder.path(), self.limits.options(SMALL_CACHE))?;
        let report = spill::run(&database, self.limits.memory, &options, |part| {
            eprintln!(
                "{}: {} rows in {:.1} s",
                part.operator,
                human_count(part.rows),
                part.seconds
            );
        })?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
