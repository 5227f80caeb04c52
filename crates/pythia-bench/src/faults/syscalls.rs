//! Failing calls to the operating system, each in turn: `pythia bench syscalls`.
//!
//! Loads, updates, changes of whole graphs, compactions, upgrades, builds of indexes, backups and restores run as
//! processes with a small preloaded library (`failing.c`, compiled here). It counts their calls on files of the store and
//! of the backup, and makes one of them fail. The failed operation is tried again and fails, or is killed, at another
//! call; then it runs once more without a fault. After each of the three attempts the store is opened, compared with the
//! acknowledgements and verified, and its backup is restored.
//!
//! Two of the operations are processes that continue after errors, as a server does ([`be_the_victim`]). Their
//! acknowledgements after a failed step must persist, too.

mod operation;
mod templates;
mod victim;

use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{self, Ledger};
use super::session::{Acknowledgements, WHOLE_GRAPHS};
use super::store::{LOCKED_MAX, StoreFolder, is_locked};
use super::{Campaign, Tally, copy_folder, in_round, indexes};
use operation::Operation;
pub use victim::be_the_victim;

/// Bytes of the report that the library writes: `struct report`.
const REPORT_BYTES: usize = 512;
/// Maximum duration of an operation.
const PATIENCE: Duration = Duration::from_secs(120);
/// The message of a process that reads less than it has acknowledged.
const LOST: &str = "lost while the store was open";

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const SIGKILL: i32 = 9;

/// The least expected contents: the ledger of each store, `None` if the store may be missing.
#[derive(Clone, Debug)]
struct LeastContents {
    store: Option<Ledger>,
    backup: Option<Ledger>,
    restored: Option<Ledger>,
}

/// The campaign: every call of every operation is a round.
#[derive(Debug)]
pub struct Syscalls {
    program: PathBuf,
    /// The preloaded library.
    library: PathBuf,
    templates: PathBuf,
    /// The history of the stores with changes.
    written: Ledger,
    /// The history of the older backup.
    backed_up: Ledger,
    seed: u64,
    /// The number of calls of each operation.
    calls: Vec<(Operation, u64)>,
}

/// Faults of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    fail: Option<(u64, i32)>,
    kill: Option<u64>,
}

/// The outcome of a process.
struct ProcessEnd {
    succeeded: bool,
    heard: Acknowledgements,
    /// Its standard error.
    said: String,
    calls: u64,
    /// The call that failed.
    failed: String,
}

impl Syscalls {
    /// Compiles the library, creates the initial stores, and counts the calls. `program` is the `pythia` command.
    pub fn prepare(program: PathBuf, folder: &Path, seed: u64) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let library = folder.join("failing.so");
        templates::compile(folder, &library)?;
        let templates = folder.join("templates");
        let (written, backed_up) = templates::make(&templates, seed)?;
        let mut campaign = Self {
            program,
            library,
            templates,
            written,
            backed_up,
            seed,
            calls: Vec::new(),
        };
        for operation in Operation::ALL {
            let folder = folder.join("count");
            let ended = campaign.begin(operation, &folder)?.run(Faults::default())?;
            ensure!(
                ended.succeeded,
                "{operation:?} without a fault: {}",
                ended.said
            );
            ensure!(
                ended.calls > 0,
                "{operation:?} made no calls that the library saw: a program linked statically cannot be used"
            );
            campaign.calls.push((operation, ended.calls));
            std::fs::remove_dir_all(folder)?;
        }
        Ok(campaign)
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.iter().map(|(_, calls)| calls).sum()
    }

    /// Formats the calls of each operation as a line of text.
    pub fn describe(&self) -> String {
        let calls = self
            .calls
            .iter()
            .map(|(operation, calls)| format!("{operation:?} {calls}"));
        format!(
            "{} calls: {}",
            self.calls(),
            calls.collect::<Vec<_>>().join(", ")
        )
    }

    /// Returns the call that fails in a round. As many rounds as there are calls cover each call once, and a few rounds
    /// already cover all operations.
    fn point(&self, round: u64) -> (Operation, u64, u64) {
        let total = self.calls();
        let coprime = |stride: &u64| greatest_common_divisor(*stride, total) == 1;
        let stride = (total * 618 / 1000..).find(coprime).unwrap_or(1);
        let mut index = (round - 1) % total * stride % total;
        for (operation, calls) in &self.calls {
            if index < *calls {
                return (*operation, index + 1, *calls);
            }
            index -= calls;
        }
        unreachable!("the index is less than the sum")
    }

    /// Creates the state before an operation.
    fn begin(&self, operation: Operation, folder: &Path) -> Result<Attempts<'_>> {
        let work = folder.join("work");
        std::fs::create_dir_all(&work)?;
        let template = self.templates.join(operation.template());
        if template.exists() {
            copy_folder(&template, &work)?;
        }
        let (store, load) = match operation {
            Operation::Load => (None, 1),
            Operation::FirstUpdate => (Some(loaded()), 1),
            Operation::Upgrade => (Some(templates::earlier()), 1),
            _ => (Some(self.written.clone()), self.written.loads + 1),
        };
        std::fs::write(folder.join("load.nt"), history::load_text(load))?;
        let has_backup = operation.template() == "backed-up";
        Ok(Attempts {
            campaign: self,
            operation,
            folder: folder.to_owned(),
            home: StoreFolder::new(&work),
            least: LeastContents {
                store,
                backup: has_backup.then(|| self.backed_up.clone()),
                restored: None,
            },
        })
    }
}

impl Campaign for Syscalls {
    fn run(
        &self,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
        tally: &Tally,
    ) -> Result<()> {
        let round = *rounds.start();
        let mut random = SmallRng::seed_from_u64(seed);
        let (operation, call, calls) = self.point(round);
        let outcome = self
            .begin(operation, folder)
            .and_then(|mut attempts| attempts.all(call, calls, &mut random, tally));
        let outcome = outcome.with_context(|| format!("{operation:?}, call {call} of {calls}"));
        in_round(round, outcome)
    }
}

/// The attempts at one operation.
struct Attempts<'a> {
    campaign: &'a Syscalls,
    operation: Operation,
    folder: PathBuf,
    home: StoreFolder,
    least: LeastContents,
}

impl Attempts<'_> {
    fn all(&mut self, call: u64, calls: u64, random: &mut SmallRng, tally: &Tally) -> Result<()> {
        let mut error = || [EIO, ENOSPC, EMFILE][random.random_range(0..3)];
        let first = Faults {
            fail: Some((call, error())),
            kill: None,
        };
        let mut second = Faults {
            fail: Some((0, error())),
            kill: None,
        };
        let at = random.random_range(1..=calls);
        match random.random_range(0..2) {
            0 => second.kill = Some(at),
            _ => second.fail = second.fail.map(|(_, error)| (at, error)),
        }
        self.attempt(first, tally).context("the first fault")?;
        self.attempt(second, tally)
            .with_context(|| format!("the second fault, {second:?}"))?;
        let mut last = self.attempt_unlocked(tally);
        if self.operation == Operation::Restore
            && last
                .as_ref()
                .is_ok_and(|said| said.contains("choose an empty folder"))
        {
            std::fs::remove_dir_all(self.restored().folder())?;
            last = self.attempt_unlocked(tally);
        }
        let said = last.context("without a fault")?;
        ensure!(said.is_empty(), "failed without a fault: {said}");
        Ok(())
    }

    /// Runs the operation without a fault, and repeats it while a process that another round is starting holds this
    /// process's locks.
    fn attempt_unlocked(&mut self, tally: &Tally) -> Result<String> {
        let until = Instant::now() + LOCKED_MAX;
        loop {
            let last = self.attempt(Faults::default(), tally);
            match &last {
                Ok(said) if is_locked(said) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => return last,
            }
        }
    }

    /// Runs the operation and checks the resulting state. Returns its message if it fails.
    fn attempt(&mut self, faults: Faults, tally: &Tally) -> Result<String> {
        let ended = self.run(faults)?;
        let seen = || format!("{} failed; it said: {}", ended.failed, ended.said);
        let what = match (ended.failed.is_empty(), ended.succeeded) {
            (true, true) => None,
            (true, false) => Some("kills, and attempts refused after faults"),
            (false, true) => Some("failures that did no harm"),
            (false, false) => Some("failures reported"),
        };
        what.inspect(|what| tally.add(what, 1));
        if ended.succeeded {
            self.succeeded(tally)?;
        }
        if let Some(store) = &mut self.least.store {
            store.raise(&ended.heard.ledger);
        }
        tally.add(WHOLE_GRAPHS, ended.heard.whole_graphs);
        if let Some(backup) = ended.heard.backup.clone() {
            self.least.backup = Some(backup);
        }
        self.check().with_context(seen)?;
        let fell_silent = !ended.succeeded && ended.said.is_empty() && faults.kill.is_none();
        ensure!(!fell_silent, "{}: no error message", ended.failed);
        Ok(if ended.succeeded {
            String::new()
        } else {
            ended.said
        })
    }

    /// Raises the least contents that later checks expect. Called after the operation has succeeded.
    fn succeeded(&mut self, tally: &Tally) -> Result<()> {
        let number = self.number();
        let LeastContents {
            store,
            backup,
            restored,
        } = &mut self.least;
        match self.operation {
            Operation::Load => *store = Some(loaded()),
            Operation::LoadMore => {
                if let Some(store) = store {
                    store.loads = self.campaign.written.loads + 1;
                }
            }
            Operation::FirstUpdate | Operation::Update => {
                if let Some(store) = store {
                    store.commits[0] = store.commits[0].max(number);
                }
            }
            Operation::Backup | Operation::BackupMore => backup.clone_from(store),
            Operation::Restore => restored.clone_from(backup),
            Operation::Upgrade => {
                let is_upgraded = self.home.open()?.has_newest_base();
                ensure!(is_upgraded, "it is not upgraded");
                tally.add("upgrades done", 1);
            }
            Operation::Optimize => {
                let compared = indexes::check(&self.home.open()?)?;
                ensure!(compared > 0, "there are no indexes");
                tally.add("answers of indexes compared", compared);
            }
            Operation::Compact | Operation::Graphs | Operation::Session => {}
        }
        Ok(())
    }

    /// Returns the number of the commit that an update makes.
    fn number(&self) -> u64 {
        match self.operation {
            Operation::FirstUpdate => 1,
            _ => self.campaign.written.commits[0] + 1,
        }
    }

    fn restored(&self) -> StoreFolder {
        StoreFolder::new(&self.home.folder().join("made-of-backup"))
    }

    /// Checks everything acknowledged in the store, in its backup and in the store restored from it.
    fn check(&mut self) -> Result<()> {
        if let Some(found) = check_store(&self.home, self.least.store.as_ref())? {
            let nothing = Ledger::new(1);
            if self.home.has_backup() {
                let at_least = self.least.backup.as_ref().unwrap_or(&nothing);
                self.home.check_backup(at_least, &found)?;
            } else {
                ensure!(self.least.backup.is_none(), "the backup is gone");
            }
            self.least.store = Some(found);
        }
        let restored = check_store(&self.restored(), self.least.restored.as_ref());
        restored.context("what was restored").map(|_| ())
    }

    /// Runs the operation in a process of its own.
    fn run(&self, faults: Faults) -> Result<ProcessEnd> {
        let report = self.folder.join("report");
        std::fs::write(&report, [0; REPORT_BYTES])?;
        let mut command = Command::new(&self.campaign.program);
        let paths = operation::Paths {
            home: &self.home,
            restored: &self.restored(),
            input: &self.folder.join("load.nt"),
        };
        let arguments = self
            .operation
            .arguments(&paths, self.number(), self.campaign.seed);
        command.args(arguments);
        command.env("LD_PRELOAD", &self.campaign.library);
        command.env("FAILING_BELOW", self.home.folder());
        command.env("FAILING_REPORT", &report);
        command.env("PYTHIA_IO", "pread");
        if let Some((call, error)) = faults.fail {
            command.env("FAILING_CALL", call.to_string());
            command.env("FAILING_ERROR", error.to_string());
        }
        if let Some(call) = faults.kill {
            command.env("FAILING_KILL", call.to_string());
        }
        let (out, err) = (self.folder.join("out"), self.folder.join("err"));
        command
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&out)?)
            .stderr(std::fs::File::create(&err)?);
        let mut child = command.spawn().context("start the operation")?;
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                child.kill()?;
                child.wait()?;
                bail!("it hangs after {faults:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let said = String::from_utf8_lossy(&std::fs::read(err)?)
            .trim()
            .to_owned();
        let mut heard = Acknowledgements::new(1);
        let printed = String::from_utf8_lossy(&std::fs::read(out)?).into_owned();
        printed.lines().for_each(|line| heard.line(line));
        let was_killed = status.signal() == Some(SIGKILL) && faults.kill.is_some();
        // A panic exits with 101.
        let ended_well = status.code().is_some_and(|code| code < 101) && !said.contains(LOST);
        let report = std::fs::read(report)?;
        let (calls, failed) = report.split_at(8);
        let failed = failed.split(|byte| *byte == 0).next().unwrap_or_default();
        let failed = String::from_utf8_lossy(failed).into_owned();
        ensure!(
            was_killed || ended_well,
            "it ended with {status} after {failed} failed: {said}"
        );
        Ok(ProcessEnd {
            succeeded: status.success(),
            heard,
            said,
            calls: u64::from_ne_bytes(calls.try_into().context("8 bytes")?),
            failed,
        })
    }
}

/// Checks a store, if it exists, and verifies it. Returns its history.
fn check_store(home: &StoreFolder, at_least: Option<&Ledger>) -> Result<Option<Ledger>> {
    if !home.store().join("MANIFEST").exists() {
        ensure!(at_least.is_none(), "the store is gone");
        return Ok(None);
    }
    let nothing = Ledger::new(1);
    let store = home.open()?;
    let found = history::find_all(&store, at_least.unwrap_or(&nothing))?;
    indexes::check(&store).context("the optional indexes")?;
    drop(store);
    home.verify()?;
    Ok(Some(found))
}

/// Returns the history of a store that was only loaded.
fn loaded() -> Ledger {
    Ledger {
        loads: 1,
        ..Ledger::new(1)
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}
