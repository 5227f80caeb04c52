//! Kills at random instants: whether every acknowledged commit is there afterwards, and no half one.
//!
//! A *workload* is some clients that commit one transaction after the other. The `n`th commit of a
//! client adds some quads of subject `n` and removes one of the commit before, so that what there is to
//! be follows from the last commit of each client alone. Runs are small, so that they are moved,
//! merged and rewritten all the time. Two ways to end it: the process is killed, on a real disk; or a
//! faulty device in memory loses its power, when writes that were not synced are lost, torn or
//! reordered.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::LogOptions;
use pythia_rdf::{TermKey, TermKind};
use pythia_store::load::{LoadOptions, LoadProgress, load};
use pythia_store::store::WriteOptions;
use pythia_store::verify::{VerifyOptions, verify};
use pythia_store::write::MaintenanceOptions;
use pythia_store::{GraphFilter, OpenOptions, QuadPattern, Store, StoreError};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Quads of a commit, at most.
const QUADS_MAX: u64 = 40;
const PREDICATES: u64 = QUADS_MAX;

/// How to kill.
#[derive(Clone, Debug)]
pub struct Options {
    /// Processes killed.
    pub rounds: u64,
    /// Power cuts of the faulty device.
    pub power_cuts: u64,
    /// Clients that commit at once.
    pub clients: usize,
    /// The longest that a process lives.
    pub life: Duration,
    /// Decides everything that is random.
    pub seed: u64,
    /// The whole store is verified every so many rounds.
    pub verify_every: u64,
}

/// What there was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Processes killed.
    pub kills: u64,
    /// Power cuts of the faulty device.
    pub power_cuts: u64,
    /// Commits that had been acknowledged, all of them found again.
    pub acknowledged: u64,
    /// Commits that were found though their acknowledgement had not arrived.
    pub unacknowledged: u64,
}

impl Report {
    /// A line for people.
    pub fn text(&self) -> String {
        format!(
            "{} kills, {} power cuts: all of {} acknowledged commits were there, and {} more that were \
             under way; no half commit, and every store verified\n",
            self.kills, self.power_cuts, self.acknowledged, self.unacknowledged
        )
    }
}

fn open_options() -> OpenOptions {
    OpenOptions {
        cache_bytes: 16 << 20,
    }
}

fn write_options(in_background: bool) -> WriteOptions {
    WriteOptions {
        log: LogOptions {
            file_bytes: 256 << 10,
            retain_bytes: 1 << 20,
            ..LogOptions::default()
        },
        maintenance: MaintenanceOptions {
            memory_bytes: 256 << 10,
            rewrite_percent: 30,
            rewrite_quads_min: 4 << 10,
            in_background,
            ..MaintenanceOptions::default()
        },
        ..WriteOptions::default()
    }
}

/// How many quads the `n`th commit of a client adds, from 1.
fn quads_of(client: usize, number: u64) -> u64 {
    let mut random = SmallRng::seed_from_u64(number.wrapping_mul(31) ^ (client as u64) << 40);
    // One of them is removed by the next commit.
    random.random_range(2..=QUADS_MAX)
}

fn subject(client: usize, number: u64) -> String {
    format!("http://example.org/client/{client}/{number}")
}

/// Commits once, again as long as a new base comes between.
fn commit(store: &Store, client: usize, number: u64) -> Result<(), StoreError> {
    loop {
        match try_commit(store, client, number) {
            Err(error) if error.is_retryable() => {}
            outcome => return outcome,
        }
    }
}

/// Adds the quads of a commit, and removes one of the commit before.
fn try_commit(store: &Store, client: usize, number: u64) -> Result<(), StoreError> {
    let mut transaction = store.begin()?;
    let added = quads_of(client, number);
    let mut names = vec![subject(client, number), subject(client, number - 1)];
    names.extend((0..added).map(predicate));
    let keys: Vec<TermKey<'_>> = names.iter().map(|name| iri(name)).collect();
    let ids = transaction.ids(&keys)?;
    let quad = |subject: usize, predicate: u64| {
        let predicate = ids[2 + predicate as usize].0;
        [ids[subject].0, predicate, predicate, 0]
    };
    transaction.remove(&[quad(1, 0)])?;
    let quads: Vec<[u64; 4]> = (0..added).map(|predicate| quad(0, predicate)).collect();
    transaction.insert(&quads)?;
    transaction.commit().map(|_| ())
}

fn predicate(number: u64) -> String {
    format!("http://example.org/p{}", number % PREDICATES)
}

fn iri(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

/// The last commit of a client, where those before `from` are known to be there; fails if there is a
/// half commit, or one missing before the last.
fn last_commit(store: &Store, client: usize, from: u64, at_least: u64) -> Result<u64> {
    let snapshot = store.snapshot();
    let count = |number: u64| -> Result<u64> {
        let Some(subject) = snapshot.resolve_key(iri(&subject(client, number)))? else {
            return Ok(0);
        };
        Ok(snapshot.count(&QuadPattern {
            subject: Some(subject),
            graph: GraphFilter::Any,
            ..QuadPattern::default()
        })?)
    };
    let mut last = from.saturating_sub(1);
    while count(last + 1)? > 0 || last < at_least {
        last += 1;
        let (found, added) = (count(last)?, quads_of(client, last));
        let is_last = count(last + 1)? == 0;
        // All but the last have lost one.
        let expected = if is_last { added } else { added - 1 };
        ensure!(
            found == expected,
            "client {client}, commit {last} of {at_least} acknowledged: {found} quads, not {expected}"
        );
    }
    Ok(last)
}

/// Makes an empty store.
fn create(storage: Arc<dyn Storage>) -> Result<()> {
    load(
        storage,
        Vec::new(),
        &LoadOptions::default(),
        &Arc::new(LoadProgress::default()),
    )?;
    Ok(())
}

fn check_all(storage: Arc<dyn Storage>) -> Result<()> {
    let report = verify(storage, VerifyOptions::default(), &mut |_| {});
    match report.problems.first() {
        None => Ok(()),
        Some(problem) => bail!("verify found {}: {problem}", report.problems.len()),
    }
}

/// The process to be killed: commits until then, and says so on standard output, a line each.
pub fn victim(path: &Path, clients: usize) -> Result<()> {
    let store = Store::open_for_writing(path, open_options(), &write_options(true))?;
    let client = |client: usize| -> Result<()> {
        let mut number = last_commit(&store, client, 0, 0)?;
        loop {
            number += 1;
            commit(&store, client, number)?;
            let line = format!("{client} {number}\n");
            std::io::stdout().write_all(line.as_bytes())?;
            std::io::stdout().flush()?;
        }
    };
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(_) => bail!("a client panicked"),
            })
    })
}

/// Runs the campaign; stores are in `folder`. `victim` makes the command that calls [`victim`] for a store.
pub fn run(
    folder: &Path,
    victim: impl Fn(&Path) -> Command,
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Report> {
    let mut report = Report::default();
    let mut random = SmallRng::seed_from_u64(options.seed);
    let path = folder.join("killed.pythia");
    std::fs::create_dir_all(&path)?;
    create(Arc::new(pythia_io::DirectStorage::open(&path, true)?))?;
    let mut before = vec![0; options.clients];
    for round in 1..=options.rounds {
        let verifies = round % options.verify_every == 0 || round == options.rounds;
        let life = options.life.mul_f64(random.random::<f64>());
        let acknowledged = kill(victim(&path), options.clients, life)?;
        let store = Store::open_for_writing(&path, open_options(), &write_options(false));
        let store = store.with_context(|| format!("opening after kill {round}"))?;
        for (client, before) in before.iter_mut().enumerate() {
            let at_least = acknowledged[client].max(*before);
            let from = if verifies { 0 } else { *before };
            let found = last_commit(&store, client, from, at_least)
                .with_context(|| format!("after kill {round}, seed {}", options.seed))?;
            report.acknowledged += at_least - *before;
            report.unacknowledged += found - at_least;
            *before = found;
        }
        drop(store);
        if verifies {
            let storage = pythia_io::DirectStorage::open(&path, false)?;
            check_all(Arc::new(storage)).with_context(|| format!("after kill {round}"))?;
        }
        report.kills = round;
        if round % 50 == 0 {
            progress(&format!("{round} kills, {} commits", report.acknowledged));
        }
    }
    for round in 1..=options.power_cuts {
        let seed = options.seed.wrapping_mul(0x9e37_79b9).wrapping_add(round);
        let (acknowledged, found) =
            cut_power(seed).with_context(|| format!("power cut with seed {seed}"))?;
        report.acknowledged += acknowledged;
        report.unacknowledged += found - acknowledged;
        report.power_cuts = round;
        if round % 50 == 0 {
            progress(&format!("{round} power cuts"));
        }
    }
    Ok(report)
}

/// Starts a process, kills it, and gives the last commit that each client had acknowledged.
fn kill(mut command: Command, clients: usize, life: Duration) -> Result<Vec<u64>> {
    let mut child: Child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().context("a pipe was asked for")?;
    let reader = std::thread::spawn(move || -> Vec<u64> {
        let mut last = vec![0; clients];
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((client, number)) = line.split_once(' ')
                && let (Ok(client), Ok(number)) = (client.parse::<usize>(), number.parse())
                && let Some(last) = last.get_mut(client)
            {
                *last = number;
            }
        }
        last
    });
    let started = Instant::now();
    while started.elapsed() < life {
        if let Some(status) = child.try_wait()? {
            bail!("the process ended by itself: {status}");
        }
        std::thread::sleep(Duration::from_millis(1).min(life));
    }
    child.kill()?;
    child.wait()?;
    reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader of the pipe panicked"))
}

/// Commits to a faulty device until its power is cut; gives the commits that were acknowledged, and found.
fn cut_power(seed: u64) -> Result<(u64, u64)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let disk = Arc::new(MemoryStorage::new());
    create(disk.clone())?;
    let plan = FaultPlan::crash_at(random.random_range(1..4000), random.random());
    let faulty = FaultyStorage::new(disk.clone(), plan);
    let mut options = write_options(false);
    options.log.prepare_ahead = false;
    options.maintenance.memory_bytes = 16 << 10;
    options.maintenance.rewrite_quads_min = 256;
    let acknowledged = AtomicU64::new(0);
    let until_it_fails = || -> Result<(), StoreError> {
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        let store = Store::open_storage_for_writing(storage, open_options(), &options)?;
        for number in 1..=400 {
            commit(&store, 0, number)?;
            acknowledged.store(number, Ordering::Relaxed);
            if number % 5 == 0 {
                store.maintain()?;
            }
        }
        Ok(())
    };
    let outcome = until_it_fails();
    ensure!(
        outcome.is_ok() || faulty.crashed(),
        "{outcome:?} before the power was cut"
    );
    faulty.crash()?;
    let acknowledged = acknowledged.into_inner();
    let store = Store::open_storage_for_writing(disk.clone(), open_options(), &options)?;
    let found = last_commit(&store, 0, 0, acknowledged)?;
    commit(&store, 0, found + 1)?;
    drop(store);
    check_all(disk)?;
    Ok((acknowledged, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VICTIM: &str = "PYTHIA_VICTIM";
    const CLIENTS: usize = 3;

    /// The process that the next test kills is this test; run by itself it does nothing.
    #[test]
    fn be_the_victim() {
        if let Some(path) = std::env::var_os(VICTIM) {
            // What the test runner has begun to print ends here.
            println!();
            victim(Path::new(&path), CLIENTS).expect("killed before anything fails");
        }
    }

    #[test]
    fn a_few_kills_and_power_cuts_lose_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = std::env::current_exe().expect("this program");
        let victim = |path: &Path| {
            let mut command = Command::new(&program);
            command.args([
                "--exact",
                "updates::kills::tests::be_the_victim",
                "--nocapture",
            ]);
            command.env(VICTIM, path);
            command
        };
        let options = Options {
            rounds: 24,
            power_cuts: 24,
            clients: CLIENTS,
            life: Duration::from_millis(300),
            seed: 7,
            verify_every: 8,
        };
        let report = run(folder.path(), victim, &options, |_| ()).expect("nothing is lost");
        assert_eq!((report.kills, report.power_cuts), (24, 24));
        assert!(report.acknowledged > 0);
    }
}
