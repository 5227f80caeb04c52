//! Fault injection: checks that no acknowledged commit is lost, or there in part, after any fault.
//!
//! - [`kills`]: processes killed while they write: processes of this program, and servers under load over HTTP;
//! - [`power`]: power cuts of a faulty device in memory, which loses, tears and reorders unsynced writes;
//! - [`syscalls`]: failing calls to the operating system, each in turn, then a second fault during the retry;
//! - [`damage`]: damaged, missing and foreign files and folders.
//!
//! A [`Campaign`] has rounds. The campaign's seed and the round's number determine a round, except for the scheduling of
//! threads and processes. A failed round can therefore be repeated alone, and an interrupted campaign continued. All
//! campaigns write the same [`history`], and some of their stores are of an earlier format at first ([`origins`]).

pub mod damage;
mod graphs;
mod history;
mod indexes;
pub mod kills;
mod origins;
pub mod power;
mod server;
mod session;
mod store;
pub mod syscalls;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow};

/// The rounds of a campaign to run.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The number of the first round, from 1 on.
    pub from: u64,
    /// Number of rounds.
    pub count: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Concurrent rounds.
    pub jobs: usize,
}

/// A kind of fault, and the checks after it.
pub trait Campaign: Sync {
    /// Returns the number of consecutive rounds in one store. A round that is repeated alone begins with the preceding
    /// rounds of its store.
    fn rounds_of_store(&self) -> u64 {
        1
    }

    /// Runs the first rounds of one store in an empty folder.
    ///
    /// # Errors
    /// Reports lost data or a failed check.
    fn run(
        &self,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
        tally: &Tally,
    ) -> Result<()>;
}

/// Counts of a campaign's rounds, by name.
#[derive(Debug, Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    fn add(&self, name: &'static str, count: u64) {
        let mut counts = self.counts.lock().expect("no panic while counting");
        *counts.entry(name).or_default() += count;
    }

    /// Returns a count; 0 for an unknown name.
    pub fn get(&self, name: &str) -> u64 {
        let counts = self.counts.lock().expect("no panic while counting");
        counts.get(name).copied().unwrap_or_default()
    }

    fn text(&self) -> String {
        let counts = self.counts.lock().expect("no panic while counting");
        let counts = counts.iter().map(|(name, count)| format!("{count} {name}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}

/// The report of a successful campaign.
#[derive(Debug)]
pub struct Report {
    /// Number of rounds.
    pub rounds: u64,
    /// Their counts.
    pub tally: Tally,
    /// Their duration.
    pub time: Duration,
}

impl Report {
    /// Formats the report as a line of text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "nothing lost in {} rounds: {}; {:.1} s, {:.1} rounds/s\n",
            self.rounds,
            self.tally.text(),
            self.time.as_secs_f64(),
            self.rounds as f64 / self.time.as_secs_f64()
        );
        if self.rounds == 0 {
            text.clear();
            let _ = writeln!(text, "no rounds");
        }
        text
    }
}

/// Runs rounds of a campaign in folders below `folder`, until one fails.
///
/// # Errors
/// Returns the first failure, with the round's number and the folder of its files.
pub fn run(
    campaign: &impl Campaign,
    rounds: Rounds,
    folder: &Path,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let started = Instant::now();
    let of_store = campaign.rounds_of_store();
    let last = rounds.from + rounds.count - 1;
    let stores = (rounds.from - 1) / of_store..=(last - 1) / of_store;
    let runner = Runner {
        next: AtomicU64::new(*stores.start()),
        failed: AtomicBool::new(false),
        tally: Tally::default(),
        done: AtomicU64::new(0),
    };
    let work = || -> Result<()> {
        while !runner.failed.load(Ordering::Relaxed) {
            let store = runner.next.fetch_add(1, Ordering::Relaxed);
            if store > *stores.end() {
                break;
            }
            let first = store * of_store + 1;
            let these = first..=(first + of_store - 1).min(last);
            let count = these.end() - these.start() + 1;
            runner.run(
                campaign,
                these,
                rounds.seed,
                &folder.join(first.to_string()),
            )?;
            let done = runner.done.fetch_add(count, Ordering::Relaxed) + count;
            if done / 100 > (done - count) / 100 {
                progress(&format!("{done} rounds: {}", runner.tally.text()));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..rounds.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a panic"))))
            // Waits for all of them; reports the first failure.
            .collect::<Vec<Result<()>>>()
            .into_iter()
            .collect::<Result<()>>()
    })?;
    Ok(Report {
        rounds: runner.done.into_inner(),
        tally: runner.tally,
        time: started.elapsed(),
    })
}

struct Runner {
    /// The next store.
    next: AtomicU64,
    failed: AtomicBool,
    tally: Tally,
    /// Completed rounds.
    done: AtomicU64,
}

impl Runner {
    fn run(
        &self,
        campaign: &impl Campaign,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
    ) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let first = *rounds.start();
        let outcome = campaign.run(rounds, mix(seed, first), folder, &self.tally);
        match outcome {
            Ok(()) => Ok(std::fs::remove_dir_all(folder)?),
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                Err(error.context(format!("its files are in {}", folder.display())))
            }
        }
    }
}

/// Adds the round's number to an error, so that the round can be repeated.
fn in_round<T>(round: u64, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| {
        let failed = FailedRound { round };
        Error::context(error, failed)
    })
}

/// The number of a round that failed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("round {round} failed")]
pub struct FailedRound {
    /// Its number.
    pub round: u64,
}

/// Derives the seed of a part.
fn mix(seed: u64, part: u64) -> u64 {
    let mixed =
        (seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

/// Copies a folder with its contents.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
