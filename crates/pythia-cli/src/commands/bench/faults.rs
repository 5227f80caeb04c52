//! `pythia bench kills`, `power-cuts`, `syscalls` and `damages`: tests for data loss after faults.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::faults::{self, Campaign, FailedRound, Rounds};

use crate::arguments::time;
use crate::exit::UsageError;

/// The rounds of a campaign to run, and their folder.
#[derive(Args)]
struct RoundArguments {
    /// Folder to write to, on the device that is to be tested
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// The first round
    #[arg(long, default_value_t = 1, value_name = "ROUND")]
    from: u64,

    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of concurrent rounds [default: the number of cores]
    #[arg(long)]
    jobs: Option<usize>,
}

impl RoundArguments {
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
                // Keeps the files of the failed round for analysis.
                let _ = folder.keep();
                let round = error
                    .downcast_ref::<FailedRound>()
                    .map_or(from, |failed| failed.round);
                let again = format!(
                    "repeat it with `pythia bench {command} --seed {seed} --from {round} --rounds 1`, \
                     continue after it with `--from {}`",
                    round + 1
                );
                Err(error.context(again))
            }
        }
    }

    fn rounds(&self, count: u64) -> Result<Rounds> {
        if self.from == 0 || count == 0 {
            let message = "--from and --rounds must be at least 1".to_owned();
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

/// Kill processes that write to a store, and check that all acknowledged commits survive
///
/// A process commits with several clients, loads files, changes whole graphs, compacts, builds
/// indexes and makes backups, and is killed at a random moment; then the store is opened again. A
/// store goes through eight kills and is verified after the last. Every tenth store belongs to a
/// server that gets the same requests over HTTP. A quarter of the stores have an earlier format at
/// first, and upgrades are killed, too. Fails at the first commit that is missing or incomplete.
///
///   pythia bench kills --rounds 10000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Kills {
    #[command(flatten)]
    which: RoundArguments,

    /// Number of kills
    #[arg(long, default_value_t = 100)]
    rounds: u64,

    /// Every Nth store belongs to a server; 0: none
    #[arg(long, default_value_t = 10, value_name = "STORES")]
    http_every: u64,

    /// Number of concurrently committing clients
    #[arg(long, default_value_t = 3)]
    clients: usize,

    /// Maximum lifetime of most processes; one in ten lives up to three times as long
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = time)]
    life: Duration,

    /// Run as the process that is killed, in this folder
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
            life: self.life,
            http_every: self.http_every,
        };
        let command = format!(
            "kills --http-every {} --clients {} --life {}s",
            self.http_every,
            self.clients,
            self.life.as_secs_f64()
        );
        self.which.run(&command, &campaign, self.rounds)
    }
}

/// Cut the power of faulty devices during writes, and check that all durable commits survive
///
/// The device is simulated in memory. A power cut loses, tears or reorders the data that was not
/// synced. A third of the stores have an earlier format at first.
///
///   pythia bench power-cuts --rounds 1000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct PowerCuts {
    #[command(flatten)]
    which: RoundArguments,

    /// Number of devices. The power of each is cut up to four times
    #[arg(long, default_value_t = 100)]
    rounds: u64,
}

impl PowerCuts {
    pub(super) fn run(self) -> Result<()> {
        let campaign = faults::power::PowerCuts;
        self.which.run("power-cuts", &campaign, self.rounds)
    }
}

/// Make each system call fail once, and check that nothing is lost and that retries succeed
///
/// Loads, updates, changes of whole graphs, compactions, upgrades, builds of indexes, backups and
/// restores run as processes in which one call on a file of the store or the backup fails; then
/// again, with a second failure or a kill, then without.
/// There are as many rounds as calls; a smaller number of rounds includes some of each operation.
/// Needs the C compiler `cc`.
///
///   pythia bench syscalls
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Syscalls {
    #[command(flatten)]
    which: RoundArguments,

    /// Number of calls that fail [default: each call once]
    #[arg(long)]
    rounds: Option<u64>,

    /// Run as the process that continues after errors, in this folder
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,

    /// As this process, change whole graphs only
    #[arg(long, hide = true, requires = "victim")]
    graphs: bool,
}

impl Syscalls {
    pub(super) fn run(self) -> Result<()> {
        if let Some(folder) = &self.victim {
            return faults::syscalls::be_the_victim(folder, self.which.seed, self.graphs);
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

/// Damage files and folders of a store, and check that every loss is reported
///
/// Headers, ends and middles of files are flipped, zeroed or cut off; files and folders are removed
/// or replaced by another store's. Fails at the first loss that neither opening the store nor
/// `pythia verify` reports, and at the first message that does not name the damaged file or folder.
///
///   pythia bench damages --rounds 1000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Damages {
    #[command(flatten)]
    which: RoundArguments,

    /// Number of stores, each damaged once
    #[arg(long, default_value_t = 100)]
    rounds: u64,
}

impl Damages {
    pub(super) fn run(self) -> Result<()> {
        let campaign = faults::damage::Damages;
        self.which.run("damages", &campaign, self.rounds)
    }
}
