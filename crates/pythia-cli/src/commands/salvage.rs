//! `pythia salvage`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use pythia::{Position, Salvage as Report};

use crate::exit::DataError;

/// Continue with a store whose log has lost commits
///
/// Prints the damaged and missing files of the log, and the commits that are lost with them. With
/// --give-up, renames these files (*.aside), so that the store opens with the earlier commits.
/// Restoring a backup with the log's archive may recover more: see docs/backup.md. Exit code 3 if
/// the log is damaged and was left unchanged, 0 if it is sound or the commits were given up.
///
///   pythia salvage -l STORE
///   pythia salvage -l STORE --give-up
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Salvage {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// Give up the lost commits
    #[arg(long)]
    give_up: bool,
}

impl Salvage {
    pub(crate) fn run(self) -> Result<()> {
        let report = pythia::salvage(&self.location, self.give_up)?;
        let mut out = io::stdout().lock();
        if report.is_sound() {
            writeln!(out, "the log is sound: nothing is lost")?;
            return Ok(());
        }
        for damage in &report.damages {
            writeln!(out, "{}: {}", damage.path, damage.problem)?;
        }
        if let Some(loss) = report.loss.as_ref().filter(|_| report.damages.is_empty()) {
            writeln!(out, "{loss}")?;
        }
        writeln!(out, "{}", commits(&report, self.give_up))?;
        for (from, to) in &report.set_aside {
            writeln!(out, "set aside: {from} as {to}")?;
        }
        if !self.give_up {
            return Err(DataError(
                "the log is damaged, nothing was changed; put the files back, or restore a backup, or run this again \
                 with --give-up"
                    .to_owned(),
            )
            .into());
        }
        Ok(())
    }
}

/// Describes the commits that are given up, or would be.
fn commits(report: &Report, is_done: bool) -> String {
    let (next, last) = (report.next, report.last_known);
    let verb = if is_done { "are" } else { "would be" };
    let kept = match Position(next.0.saturating_sub(1)) {
        Position(0) => "the store has the quads that were loaded".to_owned(),
        kept => format!("the store has all commits up to {kept}"),
    };
    match last.0.checked_sub(next.0) {
        Some(0) => format!("commit {next}, and any after it, {verb} given up; {kept}"),
        Some(_) => format!("commits {next} to {last}, and any after them, {verb} given up; {kept}"),
        None if !report.has_record => format!(
            "no commit is known to be lost, but the record that would show it (LOG) is missing or damaged; {kept}, and any \
             after that {verb} given up"
        ),
        None if report.loss.is_none() => format!("no commit is lost; {kept}"),
        None => {
            format!("no commit is known to be lost; {kept}, and any after that {verb} given up")
        }
    }
}
