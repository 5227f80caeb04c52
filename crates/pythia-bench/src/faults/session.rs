//! The activity of a process during faults: clients commit, files are loaded, the store is compacted and backed up.
//!
//! [`at_once`] does this in concurrent threads, like a server; [`Script`] does one step after the other, reproducible by
//! seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use pythia::BackupError;
use pythia_store::Store;
use pythia_store::load::LoadOptions;
use rand::Rng;
use rand::rngs::SmallRng;

use super::history::{self, Ledger};
use super::indexes;
use super::store::{StoreFolder, load_options};

/// An acknowledgement, as a line of text between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// The last commit of a client.
    Commit { client: usize, number: u64 },
    /// The last load.
    Load { number: u64 },
    /// A backup of a state with at least this history.
    Backup(Ledger),
}

impl Acknowledged {
    /// Prints the line in one write that a kill does not cut.
    pub(super) fn print(&self) -> Result<()> {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        out.write_all(self.line().as_bytes())?;
        Ok(out.flush()?)
    }

    fn line(&self) -> String {
        match self {
            Self::Commit { client, number } => format!("commit {client} {number}\n"),
            Self::Load { number } => format!("load {number}\n"),
            Self::Backup(ledger) => {
                let commits = ledger.commits.iter().map(|last| format!(" {last}"));
                format!("backup {}{}\n", ledger.loads, commits.collect::<String>())
            }
        }
    }

    /// Parses a line; `None` for any other line.
    fn parse(line: &str) -> Option<Self> {
        let (what, numbers) = line.split_once(' ')?;
        let numbers = numbers.split(' ').map(|number| number.parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        match (what, &*numbers) {
            ("commit", &[client, number]) => Some(Self::Commit {
                client: client as usize,
                number,
            }),
            ("load", &[number]) => Some(Self::Load { number }),
            ("backup", [loads, commits @ ..]) => Some(Self::Backup(Ledger {
                commits: commits.to_vec(),
                loads: *loads,
            })),
            _ => None,
        }
    }
}

/// The acknowledgements of a process until its end.
#[derive(Clone, Debug)]
pub(super) struct Acknowledgements {
    pub(super) ledger: Ledger,
    /// The least history of the last backup.
    pub(super) backup: Option<Ledger>,
}

impl Acknowledgements {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            ledger: Ledger::new(clients),
            backup: None,
        }
    }

    /// Records a line that a process has printed.
    pub(super) fn line(&mut self, line: &str) {
        match Acknowledged::parse(line) {
            Some(Acknowledged::Commit { client, number }) => {
                if let Some(last) = self.ledger.commits.get_mut(client) {
                    *last = number;
                }
            }
            Some(Acknowledged::Load { number }) => self.ledger.loads = number,
            Some(Acknowledged::Backup(ledger)) => self.backup = Some(ledger),
            None => {}
        }
    }
}

/// The ledger of concurrent writer threads.
struct SharedLedger {
    commits: Vec<AtomicU64>,
    loads: AtomicU64,
    /// Set once one of the threads has failed.
    is_over: AtomicBool,
}

impl SharedLedger {
    fn ledger(&self) -> Ledger {
        let commits = self.commits.iter();
        Ledger {
            commits: commits.map(|last| last.load(Ordering::SeqCst)).collect(),
            loads: self.loads.load(Ordering::SeqCst),
        }
    }

    /// Repeats a step until a thread fails.
    fn forever(&self, mut step: impl FnMut() -> Result<()>) -> Result<()> {
        while !self.is_over.load(Ordering::SeqCst) {
            step().inspect_err(|_| self.is_over.store(true, Ordering::SeqCst))?;
        }
        Ok(())
    }
}

/// Continues the history of a store until the process is killed, and prints acknowledgements.
pub(super) fn at_once(
    home: &StoreFolder,
    store: &Store,
    clients: usize,
    pause: Duration,
) -> Result<()> {
    let nothing = Ledger::new(clients);
    let found = history::find(store, &nothing, &nothing)?;
    let shared = SharedLedger {
        commits: found.commits.iter().copied().map(AtomicU64::new).collect(),
        loads: AtomicU64::new(found.loads),
        is_over: AtomicBool::new(false),
    };
    let shared = &shared;
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || shared.forever(|| commit_next(store, shared, client)))
            })
            .collect();
        threads.push(scope.spawn(move || {
            shared.forever(|| {
                std::thread::sleep(pause);
                load_next(home, store, shared)
            })
        }));
        threads.push(scope.spawn(move || shared.forever(|| keep(home, store, shared, pause))));
        threads.push(scope.spawn(move || {
            shared.forever(|| {
                std::thread::sleep(pause);
                Ok(indexes::build(store)?)
            })
        }));
        // They end when one of them fails.
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}

fn commit_next(store: &Store, shared: &SharedLedger, client: usize) -> Result<()> {
    let number = shared.commits[client].load(Ordering::SeqCst) + 1;
    history::commit(store, client, number)?;
    shared.commits[client].store(number, Ordering::SeqCst);
    Acknowledged::Commit { client, number }.print()?;
    if number.is_multiple_of(4) {
        history::cancel(store, shared.loads.load(Ordering::SeqCst) + 1, number)?;
    }
    Ok(())
}

fn load_next(home: &StoreFolder, store: &Store, shared: &SharedLedger) -> Result<()> {
    let number = shared.loads.load(Ordering::SeqCst) + 1;
    history::load(store, number, &load_options(home.folder()))?;
    shared.loads.store(number, Ordering::SeqCst);
    Acknowledged::Load { number }.print()
}

/// Makes a backup and compacts the store.
fn keep(home: &StoreFolder, store: &Store, shared: &SharedLedger, pause: Duration) -> Result<()> {
    std::thread::sleep(pause);
    let ledger = shared.ledger();
    match pythia::backup(&home.store(), &home.backup()) {
        Ok(_) => Acknowledged::Backup(ledger).print()?,
        Err(BackupError::Changing) => {}
        Err(error) => return Err(error.into()),
    }
    std::thread::sleep(pause);
    store.compact()?;
    Ok(())
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub(super) struct StepFailed {
    step: &'static str,
    #[source]
    pub(super) source: Error,
}

/// Random steps of a single client.
pub(super) struct Script<'a> {
    pub(super) random: &'a mut SmallRng,
    pub(super) ledger: &'a mut Ledger,
    /// Makes a backup.
    pub(super) back_up: &'a dyn Fn() -> Result<(), BackupError>,
    /// The history of the last backup, if any.
    pub(super) backup: &'a mut Option<Ledger>,
    pub(super) load_options: LoadOptions,
}

impl Script<'_> {
    /// Runs a random step. A failed commit or load is retried when the next one is drawn.
    pub(super) fn step(&mut self, store: &Store) -> Result<(), StepFailed> {
        let (step, outcome) = match self.random.random_range(0..20) {
            0..8 => ("commit", self.commit(store)),
            8..10 => ("cancel", self.cancel(store)),
            10..13 => ("load", self.load(store)),
            13..15 => ("flush", store.flush().map(|_| ()).map_err(Error::from)),
            15..17 => ("maintain", store.maintain().map_err(Error::from)),
            17..18 => ("compact", store.compact().map(|_| ()).map_err(Error::from)),
            _ => ("back up", self.back_up()),
        };
        outcome.map_err(|source| StepFailed { step, source })
    }

    fn commit(&mut self, store: &Store) -> Result<()> {
        let number = self.ledger.commits[0] + 1;
        history::commit(store, 0, number)?;
        self.ledger.commits[0] = number;
        Ok(())
    }

    fn cancel(&mut self, store: &Store) -> Result<()> {
        let number = self.random.random();
        Ok(history::cancel(store, self.ledger.loads + 1, number)?)
    }

    fn load(&mut self, store: &Store) -> Result<()> {
        let number = self.ledger.loads + 1;
        history::load(store, number, &self.load_options)?;
        self.ledger.loads = number;
        Ok(())
    }

    fn back_up(&mut self) -> Result<()> {
        (self.back_up)()?;
        *self.backup = Some(self.ledger.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_comes_back_from_its_line() {
        let mut heard = Acknowledgements::new(2);
        let ledger = Ledger {
            commits: vec![3, 4],
            loads: 5,
        };
        for said in [
            Acknowledged::Commit {
                client: 1,
                number: 7,
            },
            Acknowledged::Load { number: 6 },
            Acknowledged::Backup(ledger.clone()),
        ] {
            let line = said.line();
            assert_eq!(Acknowledged::parse(line.trim_end()), Some(said));
            heard.line(line.trim_end());
        }
        heard.line("running 1 test");
        assert_eq!((heard.ledger.commits, heard.ledger.loads), (vec![0, 7], 6));
        assert_eq!(heard.backup, Some(ledger));
    }
}
