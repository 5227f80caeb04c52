//! `pythia bench compact`: what a new base costs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia_bench::updates::compact;

use super::show;
use crate::arguments::bytes;

/// Write new bases of a store and added quads, by where their new terms sort
///
/// Works on copies of the store, in a folder of its own, which is removed afterwards. The subjects of the
/// quads that are added are new: they sort behind all terms, or spread, or crowded before one predicate.
///
///   pythia bench compact --store bsbm.pythia --quads 1000000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Compact {
    /// The store, which is not changed
    #[arg(long, value_name = "STORE")]
    store: PathBuf,

    /// Where to write: on the device that the store is to be on
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Quads that are added
    #[arg(long, default_value_t = 1_000_000)]
    quads: u64,

    /// Where new terms sort
    #[arg(long, value_delimiter = ',', default_value = "behind,spread,crowded")]
    places: Vec<Place>,

    /// Bytes of pages in memory
    #[arg(long, value_parser = bytes, default_value = "256M")]
    cache: usize,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Place {
    Behind,
    Spread,
    Crowded,
}

impl From<Place> for compact::Place {
    fn from(place: Place) -> Self {
        match place {
            Place::Behind => Self::Behind,
            Place::Spread => Self::Spread,
            Place::Crowded => Self::Crowded,
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
