//! `pythia bench updates`: what durable commits cost.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::updates::log;

use super::{seconds, show};

/// Commit by many clients, against the device's own rate of durable writes
///
/// Needs no store: a log is written in a folder of its own, which is removed afterwards.
///
///   pythia bench updates --folder /mnt/ssd --clients 1,8,32
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Updates {
    /// Where to write: on the device that the store is to be on
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    clients: Vec<usize>,

    /// Bytes of each commit
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    payload: Vec<usize>,

    /// Numbers of folders that the log is in
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    folders: Vec<usize>,

    /// How long each figure is measured
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Updates {
    pub(super) fn run(self) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let options = log::Options {
            clients: self.clients,
            payload_bytes: self.payload,
            folders: self.folders,
            time: seconds("--seconds", self.seconds)?,
            modelled: true,
        };
        let report = log::run(folder.path(), &options, |line| eprintln!("{line}"))?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
