//! `pythia backup`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pythia::Position;

use crate::arguments::{counted, human_bytes};

/// Back up a store, even while it is being written to
///
/// In a folder with an older backup of the store, only new data is copied. The old backup stays
/// intact until the new one is complete.
///
///   pythia backup -l STORE /mnt/backup/store
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Backup {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// The folder of the backup: empty, or with an older backup of the store
    folder: PathBuf,
}

impl Backup {
    pub(crate) fn run(self) -> Result<()> {
        let report = pythia::backup(&self.location, &self.folder)?;
        eprintln!(
            "copied {} in {} and {}, kept {} in {}",
            human_bytes(report.copied_bytes),
            counted(report.copied_files, "file"),
            counted(report.commits, "commit"),
            human_bytes(report.kept_bytes),
            counted(report.kept_files, "file")
        );
        match report.last {
            Some(Position(0)) => eprintln!("the store has no commits since it was loaded"),
            Some(last) => eprintln!("the backup ends with commit {last}"),
            None => eprintln!("the store was loaded, and never written to"),
        }
        Ok(())
    }
}
