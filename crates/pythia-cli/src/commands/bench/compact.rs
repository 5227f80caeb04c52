//! `pythia bench compact`: the cost of a compaction.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia_bench::updates::compact;

use crate::arguments::bytes;
use crate::output::show;

/// Compact a store with new quads, by the position of their new terms
///
/// Works on copies of the store, in a temporary folder that is removed afterwards. The subjects of
/// the added quads are new: they sort behind all terms, are spread, or are crowded before one
/// predicate.
///
///   pythia bench compact --store bsbm.pythia --quads 1000000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Compact {
    /// The store, which is not modified
    #[arg(long, value_name = "STORE")]
    store: PathBuf,

    /// Folder to write to, on the device that is to be measured
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Number of quads to add
    #[arg(long, default_value_t = 1_000_000)]
    quads: u64,

    /// Positions of the new terms
    #[arg(long, value_delimiter = ',', default_value = "behind,spread,crowded")]
    places: Vec<NewTerms>,

    /// Memory for the page cache
    #[arg(long, value_parser = bytes, default_value = "256M")]
    cache: usize,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NewTerms {
    Behind,
    Spread,
    Crowded,
}

impl From<NewTerms> for compact::NewTerms {
    fn from(place: NewTerms) -> Self {
        match place {
            NewTerms::Behind => Self::Behind,
            NewTerms::Spread => Self::Spread,
            NewTerms::Crowded => Self::Crowded,
        }
    }
}

impl Compact {
    pub(super) fn run(self) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let options = compact::Options {
            store: self.store,
            quads: self.quads,
            places: self.places.into_iter().map(Into::into).collect(),
            cache_bytes: self.cache,
        };
        let report = compact::run(folder.path(), &options, |line| eprintln!("{line}"))?;
        let json = serde_json::to_value(&report)?;
        show(self.json.as_deref(), &report.text(), json)
    }
}
