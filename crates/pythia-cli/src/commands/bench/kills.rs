//! `pythia bench kills`: whether commits outlive kills and power cuts.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::updates::kills;

use super::seconds;

/// Kill processes that commit, and cut the power of faulty devices: is every commit there?
///
/// A process commits with several clients while its runs are moved, merged and rewritten, and is killed
/// at a random instant; the store is opened again and compared with what was acknowledged. Then the same
/// in memory on a device that, when its power is cut, has lost, torn or reordered what was not synced.
/// Ends with an error at the first commit that is missing or not whole.
///
///   pythia bench kills --rounds 1000 --power-cuts 1000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Kills {
    /// Where to write: on the device in question
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Processes to kill
    #[arg(long, default_value_t = 100)]
    rounds: u64,

    /// Power cuts of the faulty device
    #[arg(long, default_value_t = 100)]
    power_cuts: u64,

    /// Clients that commit at once
    #[arg(long, default_value_t = 4)]
    clients: usize,

    /// The longest that a process lives
    #[arg(long, default_value_t = 0.5, value_name = "SECONDS")]
    life: f64,

    /// Verify the whole store every so many rounds
    #[arg(long, default_value_t = 10, value_name = "ROUNDS")]
    verify_every: u64,

    /// Decides everything that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Be the process that is killed, on this store
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,
}

impl Kills {
    pub(super) fn run(self) -> Result<()> {
        if let Some(store) = &self.victim {
            return kills::victim(store, self.clients);
        }
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let program = std::env::current_exe().context("find this program")?;
        let clients = self.clients.to_string();
        let victim = |store: &std::path::Path| {
            let mut command = Command::new(&program);
            command.args(["bench", "kills", "--clients", &clients, "--victim"]);
            command.arg(store);
            command
        };
        let options = kills::Options {
            rounds: self.rounds,
            power_cuts: self.power_cuts,
            clients: self.clients,
            life: seconds("--life", self.life)?,
            seed: self.seed,
            verify_every: self.verify_every.max(1),
        };
        let report = kills::run(folder.path(), victim, &options, |line| eprintln!("{line}"))?;
        print!("{}", report.text());
        Ok(())
    }
}
