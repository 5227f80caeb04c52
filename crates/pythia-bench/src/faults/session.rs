//! The activity of a process during faults: clients commit, files are loaded, whole graphs are changed, indexes are
//! built, the store is compacted and backed up.
//!
//! [`at_once`] does this in concurrent threads, like a server; [`Script`] does one step after the other, reproducible by
//! seed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use pythia::BackupError;
use pythia_store::load::LoadOptions;
use pythia_store::manifest::Manifest;
use pythia_store::{Pace, Store};
use rand::Rng;
use rand::rngs::SmallRng;

use super::history::{self, Ledger};
use super::store::{StoreFolder, load_options};
use super::{Tally, graphs, indexes};

/// The count of acknowledged changes of graphs.
pub(super) const GRAPH_STEPS: &str = "changes of graphs acknowledged";
/// The count of whole graphs that were removed or copied order by order.
pub(super) const WHOLE_GRAPHS: &str = "graphs changed as a whole";
/// The counts of new bases, and of those that kept the dictionary.
const WHOLE_COMPACTIONS: &str = "whole compactions";
const PARTIAL_COMPACTIONS: &str = "partial compactions";

/// An acknowledgement, as a line of text between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// The last commit of a client.
    Commit { client: usize, number: u64 },
    /// The last load.
    Load { number: u64 },
    /// The last change of whole graphs, and how often it removed or copied one order by order.
    Graphs { number: u64, whole: u64 },
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
            Self::Graphs { number, whole } => format!("graphs {number} {whole}\n"),
            Self::Backup(ledger) => {
                let commits = ledger.commits.iter().map(|last| format!(" {last}"));
                let commits = commits.collect::<String>();
                format!("backup {} {}{commits}\n", ledger.loads, ledger.graphs)
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
            ("graphs", &[number, whole]) => Some(Self::Graphs { number, whole }),
            ("backup", [loads, graphs, commits @ ..]) => Some(Self::Backup(Ledger {
                commits: commits.to_vec(),
                loads: *loads,
                graphs: *graphs,
                origin: None,
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
    /// The number of times that a graph was removed or copied order by order.
    pub(super) whole_graphs: u64,
}

impl Acknowledgements {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            ledger: Ledger::new(clients),
            backup: None,
            whole_graphs: 0,
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
            Some(Acknowledged::Graphs { number, whole }) => {
                self.ledger.graphs = number;
                self.whole_graphs += whole;
            }
            Some(Acknowledged::Backup(ledger)) => self.backup = Some(ledger),
            None => {}
        }
    }
}

/// The ledger of concurrent writer threads.
struct SharedLedger {
    commits: Vec<AtomicU64>,
    loads: AtomicU64,
    graphs: AtomicU64,
    /// Set once one of the threads has failed.
    is_over: AtomicBool,
}

impl SharedLedger {
    fn ledger(&self) -> Ledger {
        let commits = self.commits.iter();
        Ledger {
            commits: commits.map(|last| last.load(Ordering::SeqCst)).collect(),
            loads: self.loads.load(Ordering::SeqCst),
            graphs: self.graphs.load(Ordering::SeqCst),
            origin: None,
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

/// Pauses of the threads of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// Before each commit of a client.
    pub(super) of_clients: Duration,
    /// Before each load, backup, compaction and build of an index.
    pub(super) of_others: Duration,
}

/// Continues the history of a store until the process is killed, and prints acknowledgements.
pub(super) fn at_once(
    home: &StoreFolder,
    store: &Store,
    clients: usize,
    pauses: Pauses,
) -> Result<()> {
    let pause = pauses.of_others;
    let nothing = Ledger::new(clients);
    let found = history::find(store, &nothing, &nothing)?;
    let shared = SharedLedger {
        commits: found.commits.iter().copied().map(AtomicU64::new).collect(),
        loads: AtomicU64::new(found.loads),
        graphs: AtomicU64::new(found.graphs),
        is_over: AtomicBool::new(false),
    };
    let shared = &shared;
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || {
                    shared.forever(|| {
                        std::thread::sleep(pauses.of_clients);
                        commit_next(store, shared, client)
                    })
                })
            })
            .collect();
        threads.push(scope.spawn(move || {
            shared.forever(|| {
                std::thread::sleep(pause);
                load_next(home, store, shared)
            })
        }));
        threads
            .push(scope.spawn(move || shared.forever(|| change_next_graphs(home, store, shared))));
        threads.push(scope.spawn(move || {
            let mut times = 0;
            shared.forever(|| {
                times += 1;
                keep(home, store, shared, pause, times)
            })
        }));
        threads.push(scope.spawn(move || {
            shared.forever(|| {
                std::thread::sleep(pause);
                Ok(indexes::build(store, &Pace::default().with_rests())?)
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

fn change_next_graphs(home: &StoreFolder, store: &Store, shared: &SharedLedger) -> Result<()> {
    let number = shared.graphs.load(Ordering::SeqCst) + 1;
    let whole = graphs::step(store, number, &load_options(home.folder()))?;
    shared.graphs.store(number, Ordering::SeqCst);
    Acknowledged::Graphs { number, whole }.print()
}

/// Makes a backup and compacts the store: as a whole every third time, otherwise as is due.
fn keep(
    home: &StoreFolder,
    store: &Store,
    shared: &SharedLedger,
    pause: Duration,
    times: u64,
) -> Result<()> {
    std::thread::sleep(pause);
    let ledger = shared.ledger();
    match pythia::backup(&home.store(), &home.backup()) {
        Ok(_) => Acknowledged::Backup(ledger).print()?,
        Err(BackupError::Changing) => {}
        Err(error) => return Err(error.into()),
    }
    std::thread::sleep(pause);
    match times % 3 {
        0 => store.compact().map(|_| ())?,
        _ => store.maintain()?,
    }
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
    /// Counts of the steps that take one of several ways.
    pub(super) tally: &'a Tally,
}

impl Script<'_> {
    /// Runs a random step. A failed commit or load is retried when the next one is drawn.
    pub(super) fn step(&mut self, store: &Store) -> Result<(), StepFailed> {
        let before = store.manifest();
        let (step, outcome) = match self.random.random_range(0..30) {
            0..8 => ("commit", self.commit(store)),
            8..10 => ("cancel", self.cancel(store)),
            10..13 => ("load", self.load(store)),
            13..21 => return self.change_graphs(store),
            21..23 => ("flush", store.flush().map(|_| ()).map_err(Error::from)),
            23..26 => ("maintain", store.maintain().map_err(Error::from)),
            26..27 => ("compact", store.compact().map(|_| ()).map_err(Error::from)),
            27..28 => ("build indexes", self.build_indexes(store)),
            _ => ("back up", self.back_up()),
        };
        self.count_compaction(&before, &store.manifest());
        outcome.map_err(|source| StepFailed { step, source })
    }

    /// Makes the next change of whole graphs.
    pub(super) fn change_graphs(&mut self, store: &Store) -> Result<(), StepFailed> {
        let number = self.ledger.graphs + 1;
        let step = "change graphs";
        let whole = graphs::step(store, number, &self.load_options)
            .map_err(|source| StepFailed { step, source })?;
        self.ledger.graphs = number;
        self.tally.add(GRAPH_STEPS, 1);
        self.tally.add(WHOLE_GRAPHS, whole);
        Ok(())
    }

    fn build_indexes(&self, store: &Store) -> Result<()> {
        indexes::build(store, &Pace::default())?;
        self.tally.add("builds of indexes", 1);
        Ok(())
    }

    fn count_compaction(&self, before: &Manifest, after: &Manifest) {
        let dictionary = |manifest: &Manifest| manifest.dictionary.as_ref().map(|of| of.id);
        if before.segment == after.segment {
            return;
        }
        let name = match dictionary(before) == dictionary(after) {
            true => PARTIAL_COMPACTIONS,
            false => WHOLE_COMPACTIONS,
        };
        self.tally.add(name, 1);
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
            graphs: 2,
            origin: None,
        };
        for said in [
            Acknowledged::Commit {
                client: 1,
                number: 7,
            },
            Acknowledged::Load { number: 6 },
            Acknowledged::Graphs {
                number: 3,
                whole: 2,
            },
            Acknowledged::Backup(ledger.clone()),
        ] {
            let line = said.line();
            assert_eq!(Acknowledged::parse(line.trim_end()), Some(said));
            heard.line(line.trim_end());
        }
        heard.line("running 1 test");
        assert_eq!((heard.ledger.commits, heard.ledger.loads), (vec![0, 7], 6));
        assert_eq!((heard.ledger.graphs, heard.whole_graphs), (3, 2));
        assert_eq!(heard.backup, Some(ledger));
    }
}
