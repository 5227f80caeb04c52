//! `pythia restore`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use pythia::{Position, RestoreOptions, Until, parse_time};
use pythia_io::DirectStorage;

use crate::arguments::{counted, human_bytes};

/// Restore a backup, optionally to a given commit or time
///
///   pythia restore /mnt/backup/store -l STORE --to-time 2026-11-22T07:30:00Z
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Restore {
    /// The folder of the backup
    backup: PathBuf,

    /// The folder of the new store, which must be new or empty
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// The last commit to restore [default: the last in the backup]
    #[arg(long, value_name = "POSITION", conflicts_with = "to_time")]
    to_position: Option<u64>,

    /// Restore the commits up to this time, for example 2026-11-22T07:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to_time: Option<u64>,

    /// For commits after the backup: the folder of the log's archive, or of the store itself
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
}

impl Restore {
    pub(crate) fn run(self) -> Result<()> {
        let mut options = RestoreOptions {
            until: match (self.to_position, self.to_time) {
                (Some(position), _) => Until::Position(Position(position)),
                (None, Some(time)) => Until::Time(time),
                (None, None) => Until::End,
            },
            archive: None,
        };
        if let Some(path) = &self.archive {
            let storage = DirectStorage::open(path, false);
            let storage = storage.with_context(|| format!("open {}", path.display()))?;
            options.archive = Some(Arc::new(storage));
        }
        let report = pythia::restore(&self.backup, &self.location, &options)?;
        eprintln!(
            "restored {} in {}, and {}",
            human_bytes(report.bytes),
            counted(report.files, "file"),
            counted(report.commits, "commit")
        );
        if let Some(last) = report.last.filter(|last| last.0 > 0) {
            eprintln!("the store is in the state after commit {last}");
        }
        Ok(())
    }
}
