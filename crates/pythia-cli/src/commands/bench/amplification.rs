//! `pythia bench amplification`: the bytes that changes take on the device.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia_bench::updates::amplification;

use crate::arguments::bytes;
use crate::output::show;

/// Change a share of a store, and count the bytes written and the space taken
///
/// Works on copies of the store, in a temporary folder that is removed afterwards. Each change gives
/// a quad of some node a new object. Compactions write what is due, or the whole base each time.
///
///   pythia bench amplification --store bsbm.pythia --percent 20
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Amplification {
    /// The store, which is not modified
    #[arg(long, value_name = "STORE")]
    store: PathBuf,

    /// Folder to write to
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Changed quads, as a percentage of the store's
    #[arg(long, default_value_t = 20)]
    percent: u64,

    /// Places of the changes: all nodes alike, or most of them in a fifth or a hundredth of the nodes
    #[arg(long, value_delimiter = ',', default_value = "even,80,99")]
    places: Vec<Places>,

    /// Work of a compaction: what is due, or the whole base
    #[arg(long, value_delimiter = ',', default_value = "due,whole")]
    policies: Vec<Policy>,

    /// Memory for the page cache
    #[arg(long, value_parser = bytes, default_value = "64M")]
    cache: usize,

    /// Memory for changes, beyond which they are written as runs
    #[arg(long, value_parser = bytes, default_value = "64M")]
    memory: usize,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Places {
    Even,
    #[value(name = "80")]
    Eighty,
    #[value(name = "99")]
    NinetyNine,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    Due,
    Whole,
}

impl From<Places> for amplification::Places {
    fn from(places: Places) -> Self {
        match places {
            Places::Even => Self::Even,
            Places::Eighty => Self::Eighty,
            Places::NinetyNine => Self::NinetyNine,
        }
    }
}

impl From<Policy> for amplification::Policy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Due => Self::Due,
            Policy::Whole => Self::Whole,
        }
    }
}

impl Amplification {
    pub(super) fn run(self) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let options = amplification::Options {
            store: self.store,
            percent: self.percent,
            places: self.places.into_iter().map(Into::into).collect(),
            policies: self.policies.into_iter().map(Into::into).collect(),
            cache_bytes: self.cache,
            memory_bytes: self.memory,
            compaction_quads_min: 1,
        };
        let report = amplification::run(folder.path(), &options, |line| eprintln!("{line}"))?;
        let json = serde_json::to_value(&report)?;
        show(self.json.as_deref(), &report.text(), json)
    }
}
