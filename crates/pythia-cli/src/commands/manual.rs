//! `pythia manual`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};

use crate::arguments::counted;

/// Write manual pages of all commands into a folder, for example: pythia manual /usr/local/share/man/man1
#[derive(Args)]
pub(crate) struct Manual {
    /// The folder, created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Manual {
    /// Writes the pages of a program's commands.
    pub(crate) fn run(self, mut program: Command) -> Result<()> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).with_context(|| format!("create {folder}"))?;
        // Gives the commands their full names, and the help command its pages.
        program.build();
        let pages = write_pages(&program, &self.folder)?;
        eprintln!("wrote {} to {folder}", counted(pages, "page"));
        Ok(())
    }
}

/// Writes the page of a command and of those below it; returns their number.
fn write_pages(command: &Command, folder: &std::path::Path) -> Result<u64> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    let title = name.to_uppercase();
    clap_mangen::Man::new(command.clone())
        .title(title)
        .source(concat!("Pythia ", env!("CARGO_PKG_VERSION")))
        .manual("Pythia")
        .render(&mut page)?;
    std::fs::write(&path, page).with_context(|| format!("write {}", path.display()))?;
    let below = command
        .get_subcommands()
        .filter(|below| below.get_name() != "help");
    below
        .map(|below| write_pages(below, folder))
        .sum::<Result<u64>>()
        .map(|pages| pages + 1)
}
