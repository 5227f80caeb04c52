//! Processes killed at random instants while they write: `pythia bench kills`.
//!
//! A store is used for [`ROUNDS_OF_STORE`] kills. A server under load over HTTP writes to one store of every
//! [`Kills::http_every`], a process of this program to the others ([`be_the_victim`]). After most kills the store is
//! opened, for reading or for writing, and every acknowledged commit must be there; after others the next process finds
//! the store as it was left, and may be killed while it opens it.
//!
//! Some stores are of an earlier format at first. Until one is upgraded, some of the killed processes are `pythia upgrade`.

use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pythia_store::Store;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::history::{self, Ledger};
use super::origins::FORMATS;
use super::session::{self, Acknowledgements, GRAPH_STEPS, WHOLE_GRAPHS};
use super::store::{Settings, StoreFolder, is_locked, load_options};
use super::{Campaign, Tally, graphs, in_round, indexes, mix, server};

/// Kills of the writers of one store.
const ROUNDS_OF_STORE: u64 = 8;

/// The campaign.
#[derive(Clone, Debug)]
pub struct Kills {
    /// The `pythia` command to kill.
    pub program: PathBuf,
    /// Clients that commit concurrently.
    pub clients: usize,
    /// Maximum lifetime of most processes; one of ten lives up to three times as long.
    pub life: Duration,
    /// A server over HTTP writes to one store of this many; 0: never.
    pub http_every: u64,
}

impl Campaign for Kills {
    fn rounds_of_store(&self) -> u64 {
        ROUNDS_OF_STORE
    }

    fn run(
        &self,
        rounds: RangeInclusive<u64>,
        seed: u64,
        folder: &Path,
        tally: &Tally,
    ) -> Result<()> {
        let number = rounds.start() / ROUNDS_OF_STORE;
        let origin = origin_of(seed);
        let beginning = Ledger::new(self.clients).begun_in(origin);
        let mut killed = KilledStore {
            home: StoreFolder::new(folder),
            settings: Settings::draw(seed),
            seed,
            is_server: self.http_every > 0 && number % self.http_every == self.http_every - 1,
            is_upgraded: origin.is_none(),
            found: beginning.clone(),
            at_least: beginning,
            backup: None,
        };
        killed.home.create(origin)?;
        killed.begin().context("before the first kill")?;
        for round in rounds.clone() {
            let is_last = round == *rounds.end();
            let outcome = killed.round(self, mix(seed, round), is_last, tally);
            in_round(round, outcome)?;
        }
        Ok(())
    }
}

/// Returns the format of the store in which a history begins: an earlier one for a quarter of them.
fn origin_of(seed: u64) -> Option<u32> {
    let mut random = SmallRng::seed_from_u64(mix(seed, ROUNDS_OF_STORE));
    let format = random.random_range(0..4 * FORMATS.len());
    FORMATS.get(format).copied()
}

/// A store whose writers are killed.
struct KilledStore {
    home: StoreFolder,
    settings: Settings,
    seed: u64,
    is_server: bool,
    /// False until `pythia upgrade` has succeeded.
    is_upgraded: bool,
    /// The history found in it.
    found: Ledger,
    /// The history that it must have.
    at_least: Ledger,
    /// The history that its backup must have.
    backup: Option<Ledger>,
}

impl KilledStore {
    /// Begins the history without a fault, unless the store is to be upgraded as it is.
    fn begin(&mut self) -> Result<()> {
        if !self.is_upgraded {
            return Ok(());
        }
        let mut random = SmallRng::seed_from_u64(mix(self.seed, 0));
        let options = self.settings.write_options(&self.home, false);
        let store = self.home.open_for_writing(&options)?;
        let options = load_options(self.home.folder());
        self.at_least.graphs = graphs::begin(&store, &options, &mut random)?;
        Ok(())
    }

    fn round(&mut self, kills: &Kills, seed: u64, is_last: bool, tally: &Tally) -> Result<()> {
        let mut random = SmallRng::seed_from_u64(seed);
        let life = match random.random_range(0..10) {
            // Kills it while it opens the store.
            0..3 => kills.life.min(Duration::from_millis(15)),
            3..9 => kills.life,
            _ => kills.life * 3,
        };
        let life = life.mul_f64(random.random::<f64>());
        if !self.is_upgraded && random.random_range(0..2) == 0 {
            self.kill_upgrade(kills, life * 3, tally)?;
        } else {
            self.kill_writer(kills, life, &mut random, tally)?;
        }
        match random.random_range(0..4) {
            _ if is_last => self.check_all(tally),
            0 => Ok(()),
            1 => self.check(true, tally),
            _ => self.check(false, tally),
        }
    }

    /// Kills a process or a server that writes to the store.
    fn kill_writer(
        &mut self,
        kills: &Kills,
        life: Duration,
        random: &mut SmallRng,
        tally: &Tally,
    ) -> Result<()> {
        let heard = if self.is_server {
            let server = server::Server {
                program: &kills.program,
                home: &self.home,
                settings: &self.settings,
                from: &self.at_least,
            };
            // A server takes longer to start, and requests take longer.
            server.kill(life * 3, random)?
        } else {
            kill(self.command(kills), kills.clients, life)?
        };
        tally.add(
            if self.is_server {
                "kills of servers"
            } else {
                "kills of processes"
            },
            1,
        );
        tally.add(WHOLE_GRAPHS, heard.whole_graphs);
        let (before, graphs) = (self.at_least.total(), self.at_least.graphs);
        self.at_least.raise(&heard.ledger);
        tally.add(GRAPH_STEPS, self.at_least.graphs - graphs);
        tally.add(
            "commits and loads acknowledged",
            self.at_least.total() - before,
        );
        if heard.backup.is_some() {
            self.backup = heard.backup;
        }
        Ok(())
    }

    /// Kills `pythia upgrade`, unless it ends before.
    fn kill_upgrade(&mut self, kills: &Kills, life: Duration, tally: &Tally) -> Result<()> {
        let mut command = Command::new(&kills.program);
        command.arg("upgrade").arg("-l").arg(self.home.store());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let until = Instant::now() + life;
        while child.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1).min(life));
        }
        child.kill()?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            None => tally.add("kills of upgrades", 1),
            Some(0) => {
                tally.add("upgrades done", 1);
                self.is_upgraded = true;
                ensure!(self.home.open()?.has_newest_base(), "it is not upgraded");
            }
            Some(_) if is_locked(&said) => {}
            Some(_) => bail!("the upgrade failed, {}: {said}", output.status),
        }
        Ok(())
    }

    fn command(&self, kills: &Kills) -> Command {
        let mut command = Command::new(&kills.program);
        command
            .args(["bench", "kills", "--victim"])
            .arg(self.home.folder());
        command.args(["--seed", &self.seed.to_string()]);
        command.args(["--clients", &kills.clients.to_string()]);
        command
    }

    /// Opens the store and checks everything acknowledged since it was last opened.
    fn check(&mut self, writes: bool, tally: &Tally) -> Result<()> {
        let store = if writes {
            let options = self.settings.write_options(&self.home, false);
            self.home.open_for_writing(&options)?
        } else {
            self.home.open()?
        };
        count_base(&store, tally);
        let found = history::find(&store, &self.found, &self.at_least)?;
        self.note(found, tally);
        Ok(())
    }

    /// Checks everything, verifies the store and restores its backup.
    fn check_all(&mut self, tally: &Tally) -> Result<()> {
        let store = self.home.open().context("the first opening for reading")?;
        count_base(&store, tally);
        let read = history::find_all(&store, &self.at_least).context("open for reading")?;
        drop(store);
        let options = self.settings.write_options(&self.home, false);
        let store = self.home.open_for_writing(&options)?;
        let found = history::find_all(&store, &read).context("open for writing")?;
        let compared = indexes::check(&store).context("the optional indexes")?;
        tally.add("answers of indexes compared", compared);
        store.compact().context("write a new base")?;
        history::find_all(&store, &found).context("a new base")?;
        ensure!(store.has_newest_base(), "the new base has an old format");
        indexes::check(&store).context("the optional indexes of a new base")?;
        drop(store);
        self.home.verify()?;
        tally.add("stores verified", 1);
        if self.home.has_backup() {
            let nothing = Ledger::new(self.found.commits.len());
            let at_least = self.backup.as_ref().unwrap_or(&nothing);
            self.home.check_backup(at_least, &found)?;
            tally.add("backups restored", 1);
        } else if self.backup.is_some() {
            bail!("a backup that was acknowledged is not there");
        }
        self.note(found, tally);
        Ok(())
    }

    /// Records the history found, which must never be lost again.
    fn note(&mut self, found: Ledger, tally: &Tally) {
        let more = found.total() - self.at_least.total();
        tally.add("found before they were acknowledged", more);
        self.at_least = found.clone();
        self.found = found;
    }
}

/// Counts a store whose base was made by a compaction that kept the dictionary.
fn count_base(store: &Store, tally: &Tally) {
    let manifest = store.manifest();
    let dictionary = manifest.dictionary.as_ref();
    if dictionary.is_some_and(|dictionary| dictionary.id.0 != manifest.segment.0) {
        tally.add("bases of partial compactions", 1);
    }
}

/// Runs as the process to be killed: writes to the store in a folder until then, and prints acknowledgements on
/// standard output.
pub fn be_the_victim(folder: &Path, seed: u64, clients: usize) -> Result<()> {
    let home = StoreFolder::new(folder);
    let settings = Settings::draw(seed);
    let store = home.open_for_writing(&settings.write_options(&home, true))?;
    let pauses = session::Pauses {
        of_clients: settings.commit_pause,
        of_others: Duration::from_millis(3),
    };
    session::at_once(&home, &store, clients, pauses)
}

/// Starts a process, kills it, and returns its acknowledgements.
fn kill(mut command: Command, clients: usize, life: Duration) -> Result<Acknowledgements> {
    let mut child: Child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start the process to be killed")?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let reader = std::thread::spawn(move || {
        let mut heard = Acknowledgements::new(clients);
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| heard.line(&line));
        heard
    });
    let started = Instant::now();
    while started.elapsed() < life {
        if child.try_wait()?.is_some() {
            let output = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("the process ended by itself, {}: {said}", output.status);
        }
        std::thread::sleep(Duration::from_millis(1).min(life));
    }
    child.kill()?;
    child.wait()?;
    reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader of the pipe panicked"))
}
