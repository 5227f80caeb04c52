//! `pythia log-folders`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pythia::{FolderChanges, FolderReport, FolderState, change_log_folders, log_folders};

use crate::exit::UsageError;

/// Show and change the folders of the log and its archive
///
/// A store identifies the folders of its log by an id in each (log/FOLDER). It refuses to open if a
/// folder is missing, empty or belongs to another store. The changes of one call are made together
/// or not at all. Needs exclusive access for writing.
///
///   pythia log-folders -l STORE
///   pythia log-folders -l STORE --move /mnt/old /mnt/new
///   pythia log-folders -l STORE --accept-empty /mnt/b
///   pythia log-folders -l STORE --archive /mnt/archive
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LogFolders {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// Tell the store that a folder of the log, or its archive, was moved
    #[arg(long = "move", num_args = 2, value_names = ["OLD", "NEW"])]
    moved: Vec<PathBuf>,

    /// Accept an empty folder in place of a lost one of the log. Commits that were only in the lost
    /// folder are lost: `pythia salvage` shows them
    #[arg(long, value_name = "FOLDER")]
    accept_empty: Vec<PathBuf>,

    /// Give a folder that has lost its identity (log/FOLDER) a new one, if its log files belong to
    /// this store
    #[arg(long, value_name = "FOLDER")]
    renew: Vec<PathBuf>,

    /// Folder to which log files are moved when they are no longer needed; `none`: remove them
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
}

impl LogFolders {
    pub(crate) fn run(self) -> Result<()> {
        let changes = self.changes()?;
        let report = match changes == FolderChanges::default() {
            true => log_folders(&self.location)?,
            false => change_log_folders(&self.location, &changes)?,
        };
        self.print(&report, &mut io::stdout().lock())?;
        Ok(())
    }

    fn changes(&self) -> Result<FolderChanges> {
        let mut moved = Vec::new();
        for pair in self.moved.chunks(2) {
            let [old, new] = pair else {
                return Err(UsageError("--move needs two folders: OLD and NEW".to_owned()).into());
            };
            moved.push((old.clone(), new.clone()));
        }
        let archive = self.archive.clone();
        Ok(FolderChanges {
            moved,
            accept_empty: self.accept_empty.clone(),
            renew: self.renew.clone(),
            archive: archive.map(|path| Some(path).filter(|path| path.as_os_str() != "none")),
        })
    }

    fn print(&self, report: &FolderReport, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "store {}", report.store)?;
        writeln!(
            out,
            "folder 0   {}  (the store's own)",
            self.location.display()
        )?;
        for (number, folder) in (1..).zip(&report.folders) {
            writeln!(out, "folder {number}   {}", described(folder))?;
        }
        match &report.archive {
            Some(archive) => writeln!(out, "archive    {}", described(archive)),
            None => writeln!(
                out,
                "archive    none: log files are removed when no longer needed"
            ),
        }
    }
}

fn described(folder: &FolderState) -> String {
    let id = match folder.id {
        Some(id) => id.to_string(),
        None => "none yet".to_owned(),
    };
    let state = folder.problem.as_deref().unwrap_or("present");
    let spare = if folder.is_spare { "  (spare)" } else { "" };
    format!("{}{spare}  identity {id}: {state}", folder.path)
}
