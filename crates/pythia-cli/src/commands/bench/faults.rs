//! `pythia bench kills`, `power-cuts`, `syscalls` and `damages`: whether anything is lost by faults.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::faults::{self, Campaign, FailedRound, Rounds};

use super::seconds;
use crate::exit::UsageError;

/// Which rounds of a campaign to run, and where.
#[derive(Args)]
struct Which {
    /// Where to write: on the device in question
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// The first round
    #[arg(long, default_value_t = 1, value_name = "ROUND")]
    from: u64,

    /// Decides everything that is random
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Rounds that run at once [default: the machine's cores]
    #[arg(long)]
    jobs: Option<usize>,
}

impl Which {
    fn run(&self, command: &str, campaign: &impl Campaign, count: u64) -> Result<()> {
        let rounds = self.rounds(count)?;
        let (from, seed) = (rounds.from, rounds.seed);
        println!("seed {seed}, rounds {from} to {}", from + count - 1);
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        let progress = |line: &str| eprintln!("{line}");
        match faults::run(campaign, rounds, &folder.path().canonicalize()?, &progress) {
            Ok(report) => {
                print!("{}", report.text());
                Ok(())
            }
            Err(error) => {
                // What the round has left shows what went wrong.
                let _ = folder.keep();
                let round = error
                    .downcast_ref::<FailedRound>()
                    .map_or(from, |failed| failed.round);
                let again = format!(
                    "repeat it with `pythia bench {command} --seed {seed} --from {round} --rounds 1`, \
                     go on after it with `--from {}`",
                    round + 1
                );
                Err(error.context(again))
            }
        }
    }

    fn rounds(&self, count: u64) -> Result<Rounds> {
        if self.from == 0 || count == 0 {
            let message = "--from and --rounds begin with 1".to_owned();
            return Err(UsageError(message).into());
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Rounds {
            from: self.from,
            count,
            seed: self.seed,
            jobs: self.jobs.unwrap_or_else(cores),
        })
    }
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("find this program")
}

/// Kill processes while they write to a store: is everything there that they acknowledged?
///
/// A process commits with several clients, loads files, writes new bases and makes backups, and is
/// killed at a random instant; then the store is opened again. A store outlives eight kills, and is
/// verified after the last. Every tenth store belongs to a server, with all of this over HTTP.
/// Ends with an error at the first commit that is missing or not whole.
///
///   pythia bench kills --rounds 10000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Kills {
    #[command(flatten)]
    which: Which,

    /// Kills
    #[arg(long, default_value_t = 100)]
    rounds: u64,

    /// Every so many stores belong to a server; 0: none
    #[arg(long, default_value_t = 10, value_name = "STORES")]
    http_every: u64,

    /// Clients that commit at once
    #[arg(long, default_value_t = 3)]
    clients: usize,

    /// The longest that most processes live; one of ten lives up to three times as long
    #[arg(long, default_value_t = 0.1, value_name = "SECONDS")]
    life: f64,

    /// Be the process that is killed, in this folder
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,
}

impl Kills {
    pub(super) fn run(self) -> Result<()> {
        if let Some(folder) = &self.victim {
            return faults::kills::be_the_victim(folder, self.which.seed, self.clients);
        }
        let campaign = faults::kills::Kills {
            program: this_program()?,
            clients: self.clients,
            life: seconds("--life", self.life)?,
            http_every: self.http_every,
        };
        let command = format!(
            "kills --http-every {} --clients {} --life {}",
            self.http_every, self.clients, self.life
        );
        self.which.run(&command, &campaign, self.rounds)
    }
}

/// Cut the power of faulty devices while a store is written to: is everything there that was durable?
///
/// The device is in memory; when its power is cut, it has lost, torn or reordered what was not synced.
///
///   pythia bench power-cuts --rounds 1000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct PowerCuts {
    #[command(flatten)]
    which: Which,

    /// Devices, whose power is cut up to four times each
    #[arg(long, default_value_t = 100)]
    rounds: u64,
}

impl PowerCuts {
    pub(super) fn run(self) -> Result<()> {
        let campaign = faults::power::PowerCuts;
        self.which.run("power-cuts", &campaign, self.rounds)
    }
}

/// Let each call to the operating system fail once: is anything lost, and does trying again help?
///
/// Loads, updates, compactions, backups and restores run as processes in which one call on a file of the
/// store or the backup fails; then again, with a second failure or a kill, then without. There are as many
/// rounds as calls; a part of them has some of each operation. Needs the C compiler `cc`.
///
///   pythia bench syscalls
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Syscalls {
    #[command(flatten)]
    which: Which,

    /// Calls that fail [default: each once]
    #[arg(long)]
    rounds: Option<u64>,

    /// Be the process that goes on after errors, in this folder
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,
}

impl Syscalls {
    pub(super) fn run(self) -> Result<()> {
        if let Some(folder) = &self.victim {
            return faults::syscalls::be_the_victim(folder, self.which.seed);
        }
        let folder = tempfile::tempdir_in(&self.which.folder)?;
        let folder = folder.path().canonicalize()?;
        let campaign =
            faults::syscalls::Syscalls::prepare(this_program()?, &folder, self.which.seed)?;
        println!("{}", campaign.describe());
        let rounds = self.rounds.unwrap_or_else(|| campaign.calls());
        self.which.run("syscalls", &campaign, rounds)
    }
}

/// Damage files and folders of a store: is everything there, or is what is damaged named?
///
/// Headers, ends and middles of files are flipped, zeroed or cut off; files and folders are removed, or
/// another store's are put in their place. Ends with an error at the first loss that neither opening nor
/// `pythia verify` tells, and at the first message that does not name what is damaged.
///
///   pythia bench damages --rounds 1000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Damages {
    #[command(flatten)]
    which: Which,

    /// Stores, each of them damaged once
    #[arg(long, default_value_t = 100)]
    rounds: u64,
}

impl Damages {
    pub(super) fn run(self) -> Result<()> {
        let campaign = faults::damage::Damages;
        self.which.run("damages", &campaign, self.rounds)
    }
}
