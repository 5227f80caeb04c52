//! Commits to a store, and queries on a partly changed store.
//!
//! The benchmark works on copies of a store. Commits: each of several clients adds quads with a new subject and a new
//! literal, several to a commit; the rate is compared with the device's own rate of durable writes. Queries: each runs
//! on the original store and on copies with some percent of changes, spread over all of it. The runs alternate, so that
//! other load on the machine affects all alike (MaSM in the Bulletin).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Database, Options as DatabaseOptions, QueryOptions};
use pythia_io::DirectStorage;
use pythia_rdf::{TermId, TermKey, TermKind};
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::log::durable_writes;
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::queries::{NamedQuery, share};
use crate::table::{Table, figure, milliseconds, plain_text};
use crate::timed::{self, Output};

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; it is not changed.
    pub store: PathBuf,
    /// Queries to run with and without changes.
    pub queries: Vec<NamedQuery>,
    /// Rounds of all queries.
    pub rounds: u32,
    /// Percentages of the quads that are changed and not compacted.
    pub percent: Vec<f64>,
    /// Pairs of the number of clients and the quads of each commit.
    pub commits: Vec<(usize, usize)>,
    /// Commits per second, of ten quads each, while queries run once more on the changed store; 0 for no such run.
    pub stream: u32,
    /// Duration of each measurement of commits.
    pub time: Duration,
    /// Bytes of pages in memory.
    pub cache_bytes: usize,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Quads of the store.
    pub quads: u64,
    /// Commits.
    pub commits: Vec<CommitResult>,
    /// Queries, per share of changed quads.
    pub queries: Vec<ChangedStore>,
}

/// Results of commits by some clients.
#[derive(Clone, Debug, Serialize)]
pub struct CommitResult {
    /// Clients that commit concurrently.
    pub clients: usize,
    /// Quads of each commit.
    pub batch: usize,
    /// Durable writes of 4 KiB a second on the same device.
    pub device_writes_per_second: f64,
    /// Commits a second.
    pub commits_per_second: f64,
    /// Quads a second.
    pub quads_per_second: f64,
    /// Latency from begin to acknowledgement.
    pub latency: LatencySummary,
    /// Memory of the process at the end, in bytes.
    pub resident_bytes: u64,
}

/// Results of queries on a partly changed store.
#[derive(Clone, Debug, Serialize)]
pub struct ChangedStore {
    /// Percentage of changed quads.
    pub percent: f64,
    /// Quads added or removed.
    pub changes: u64,
    /// Commits per second, of ten quads each, that were made while the queries ran.
    pub stream: u32,
    /// Each query.
    pub queries: Vec<QueryComparison>,
}

/// Results of a query on the store without changes and on the one with changes.
#[derive(Clone, Debug, Serialize)]
pub struct QueryComparison {
    /// Its name.
    pub id: String,
    /// Its template.
    pub template: String,
    /// Its number of results, without and with changes.
    pub rows: [u64; 2],
    /// The median on the store without changes, in microseconds.
    pub clean_us: f64,
    /// The median on the store with changes.
    pub changed_us: f64,
    /// Pages read for it, from cache or device, without and with changes.
    pub pages: [u64; 2],
}

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let machine = Machine::now();
    let clean = open(&options.store, options, false)?;
    let quads = clean.snapshot().statistics().quads;
    let mut commits = Vec::new();
    for &(clients, batch) in &options.commits {
        let copy = folder.join("commits");
        copy_store(&options.store, &copy)?;
        let measured = measure_commits(&copy, clients, batch, options)?;
        progress(&measured.line());
        commits.push(measured);
        std::fs::remove_dir_all(&copy)?;
    }
    let mut queries = Vec::new();
    for &percent in &options.percent {
        let copy = folder.join("changed");
        copy_store(&options.store, &copy)?;
        let database = open(&copy, options, true)?;
        let changes = change(&database, percent / 100.0)?;
        progress(&format!("{percent} %: {changes} changes"));
        let mut compared = |stream: u32| -> Result<()> {
            queries.push(ChangedStore {
                percent,
                changes,
                stream,
                queries: while_committing(&database, stream, || {
                    compare(&clean, &database, options)
                })?,
            });
            Ok(())
        };
        compared(0)?;
        if options.stream > 0 {
            compared(options.stream)?;
        }
        drop(database);
        std::fs::remove_dir_all(&copy)?;
    }
    Ok(Report {
        machine,
        quads,
        commits,
        queries,
    })
}

fn open(path: &Path, options: &Options, write: bool) -> Result<Database> {
    // Changes stay unmerged.
    let maintenance = MaintenanceOptions {
        compaction_quads_min: u64::MAX,
        ..MaintenanceOptions::default()
    };
    let write = write.then(|| WriteOptions {
        maintenance,
        ..WriteOptions::default()
    });
    let options = DatabaseOptions {
        cache_bytes: options.cache_bytes,
        write,
        ..DatabaseOptions::default()
    };
    Database::open_with(path, options).with_context(|| format!("open {}", path.display()))
}

/// Copies a store. Its files never change, so they are linked if possible.
pub(super) fn copy_store(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            // A log is written in place, so it is not linked; a store with one is not measured.
            copy_store(&entry.path(), &target)?;
        } else if entry.file_name() == "MANIFEST"
            || std::fs::hard_link(entry.path(), &target).is_err()
        {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn measure_commits(
    path: &Path,
    clients: usize,
    batch: usize,
    options: &Options,
) -> Result<CommitResult> {
    let database = open(path, options, true)?;
    let storage = DirectStorage::open(path, false)?;
    let before = durable_writes(&storage, options.time / 4)?;
    let started = Instant::now();
    let until = started + options.time;
    let committed = AtomicU64::new(0);
    let client = |number: usize| -> Result<Latencies> {
        let mut latencies = Latencies::default();
        let mut serial = 0;
        while Instant::now() < until {
            let begun = Instant::now();
            commit(&database, number, &mut serial, batch)?;
            latencies.record(begun.elapsed());
            committed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(latencies)
    };
    let mut latencies = Latencies::default();
    std::thread::scope(|scope| -> Result<()> {
        let client = &client;
        let threads: Vec<_> = (0..clients)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        for thread in threads {
            let measured = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))?;
            latencies.merge(&measured?);
        }
        Ok(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let after = durable_writes(&storage, options.time / 4)?;
    let commits = committed.load(Ordering::Relaxed) as f64 / seconds;
    Ok(CommitResult {
        clients,
        batch,
        device_writes_per_second: (before.per_second() + after.per_second()) / 2.0,
        commits_per_second: commits,
        quads_per_second: commits * batch as f64,
        latency: latencies.summary(),
        resident_bytes: pythia_io::system::resident_bytes().unwrap_or(0) as u64,
    })
}

/// Commits new quads, with subjects and literals that the store lacks. No base is written meanwhile, so there are no
/// conflicts.
pub(crate) fn commit(
    database: &Database,
    client: usize,
    serial: &mut u64,
    batch: usize,
) -> Result<()> {
    let mut transaction = database.store().begin()?;
    let mut names: Vec<(TermKind, String)> = Vec::with_capacity(batch * 2 + 10);
    for predicate in 0..10 {
        names.push((
            TermKind::Iri,
            format!("http://example.org/updates/p{predicate}"),
        ));
    }
    for _ in 0..batch {
        *serial += 1;
        // Ten quads of each subject.
        let subject = format!("http://example.org/updates/{client}/{}", *serial / 10);
        names.push((TermKind::Iri, subject));
        names.push((
            TermKind::String,
            format!("value {serial} of client {client}"),
        ));
    }
    let keys: Vec<TermKey<'_>> = names
        .iter()
        .map(|(kind, name)| TermKey {
            kind: *kind,
            bytes: name.as_bytes(),
        })
        .collect();
    let ids = transaction.ids(&keys)?;
    let (predicates, ends) = ids.split_at(10);
    let quads: Vec<[u64; 4]> = ends
        .chunks_exact(2)
        .enumerate()
        .map(|(number, ends)| [ends[0].0, predicates[number % 10].0, ends[1].0, 0])
        .collect();
    transaction.insert(&quads)?;
    transaction.commit()?;
    Ok(())
}

/// Changes a share of the quads, spread over all: at even intervals, a quad loses its object and gets that of the
/// previously changed quad of the same predicate. Returns the number of changes.
fn change(database: &Database, share: f64) -> Result<u64> {
    let snapshot = database.snapshot();
    // About a third of the quads met stay unchanged.
    let step = (1.4 / share).max(2.0) as u64;
    let mut scan = snapshot.quads()?;
    let mut last: FxHashMap<u64, u64> = FxHashMap::default();
    let (mut add, mut remove) = (Vec::new(), Vec::new());
    let mut number = 0_u64;
    let mut changes = 0;
    loop {
        let batch = scan.next()?;
        for row in 0..batch.as_ref().map_or(0, |batch| batch.rows) {
            let columns = &batch.as_ref().expect("it has rows").columns;
            let [s, p, o, g] = [0, 1, 2, 3].map(|column| columns[column][row]);
            number += 1;
            // Types stay, as queries begin with them.
            let is_literal = TermId(o).kind().is_literal();
            if !number.is_multiple_of(step) || (!is_literal && number.is_multiple_of(3)) {
                continue;
            }
            if let Some(other) = last.insert(p, o).filter(|other| *other != o) {
                remove.push([s, p, o, g]);
                add.push([s, p, other, g]);
            }
        }
        if add.len() >= 10_000 || batch.is_none() {
            let mut transaction = database.store().begin()?;
            changes += transaction.remove(&remove)? + transaction.insert(&add)?;
            transaction.commit()?;
            add.clear();
            remove.clear();
        }
        if batch.is_none() {
            return Ok(changes);
        }
    }
}

/// Runs a function while another thread commits at a rate.
fn while_committing<T>(
    database: &Database,
    per_second: u32,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if per_second == 0 {
        return work();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let commits = scope.spawn(|| -> Result<()> {
            let started = Instant::now();
            let mut serial = 0;
            while !done.load(Ordering::Relaxed) {
                commit(database, 0, &mut serial, 10)?;
                let due = Duration::from_secs(1) * (serial / 10) as u32 / per_second;
                std::thread::sleep(due.saturating_sub(started.elapsed()));
            }
            Ok(())
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        commits
            .join()
            .map_err(|_| anyhow::anyhow!("the client panicked"))??;
        outcome
    })
}

fn compare(
    clean: &Database,
    changed: &Database,
    options: &Options,
) -> Result<Vec<QueryComparison>> {
    let mut latencies: Vec<[Latencies; 2]> = Vec::new();
    latencies.resize_with(options.queries.len(), Default::default);
    let mut pages = vec![[0; 2]; options.queries.len()];
    let mut rows = vec![[0; 2]; options.queries.len()];
    for round in 0..=options.rounds {
        for (number, query) in options.queries.iter().enumerate() {
            for (which, database) in [clean, changed].into_iter().enumerate() {
                let before = database.counters();
                let run = timed::run(
                    database,
                    &query.query,
                    &QueryOptions::default(),
                    Output::Terms,
                );
                let timing = run.with_context(|| format!("query {}", query.id))?;
                pages[number][which] = database.counters().since(&before).total().pages();
                rows[number][which] = timing.rows;
                // The first round fills the caches.
                if round > 0 {
                    latencies[number][which].record(timing.total());
                }
            }
        }
    }
    let queries = options.queries.iter().zip(latencies).zip(pages).zip(rows);
    Ok(queries
        .map(
            |(((query, [clean, changed]), pages), rows)| QueryComparison {
                id: query.id.clone(),
                template: query.template.clone(),
                rows,
                clean_us: clean.summary().p50_us,
                changed_us: changed.summary().p50_us,
                pages,
            },
        )
        .collect())
}

impl CommitResult {
    fn line(&self) -> String {
        format!(
            "{} clients, {} quads a commit: {} commits/s, device {}/s",
            self.clients,
            self.batch,
            figure(self.commits_per_second),
            figure(self.device_writes_per_second)
        )
    }
}

impl ChangedStore {
    /// Returns the sums of the medians, without and with changes, of each template; then of all.
    fn templates(&self) -> Vec<(String, f64, f64)> {
        let mut sums: Vec<(String, f64, f64)> = Vec::new();
        for query in &self.queries {
            let found = sums.iter().position(|(name, ..)| *name == query.template);
            let index = found.unwrap_or_else(|| {
                sums.push((query.template.clone(), 0.0, 0.0));
                sums.len() - 1
            });
            sums[index].1 += query.clean_us;
            sums[index].2 += query.changed_us;
        }
        let all = |sums: &[(String, f64, f64)]| {
            let clean = sums.iter().map(|sum| sum.1).sum();
            ("all".to_owned(), clean, sums.iter().map(|sum| sum.2).sum())
        };
        let all = all(&sums);
        sums.push(all);
        sums
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut tables = Vec::new();
        if !self.commits.is_empty() {
            let mut table = Table::new(
                format!("Commits to a store of {} quads", self.quads),
                &[
                    "clients",
                    "quads",
                    "commits/s",
                    "of device",
                    "quads/s",
                    "p50 ms",
                    "p99 ms",
                    "MiB",
                ],
            );
            for run in &self.commits {
                table.row(vec![
                    run.clients.to_string(),
                    run.batch.to_string(),
                    figure(run.commits_per_second),
                    format!(
                        "{:.2}",
                        run.commits_per_second / run.device_writes_per_second
                    ),
                    figure(run.quads_per_second),
                    milliseconds(run.latency.p50_us),
                    milliseconds(run.latency.p99_us),
                    (run.resident_bytes >> 20).to_string(),
                ]);
            }
            tables.push(table);
        }
        for changed in &self.queries {
            let mut table = Table::new(
                format!(
                    "Queries with {} changes ({} %) not merged, {} commits a second meanwhile",
                    changed.changes, changed.percent, changed.stream
                ),
                &["queries", "clean ms", "changed ms", "ratio"],
            );
            for (name, clean, with) in changed.templates() {
                let ratio = format!("{:.2}", with / clean);
                table.row(vec![name, milliseconds(clean), milliseconds(with), ratio]);
            }
            let empty = changed
                .queries
                .iter()
                .filter(|query| query.rows[0] == 0)
                .count();
            let empty = share(empty as u64, changed.queries.len() as u64);
            table.note(format!("queries without results: {empty}"));
            tables.push(table);
        }
        plain_text("Updates", &self.machine.describe(), &tables)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a store of some quads in a folder.
    pub(in super::super) fn small_store(folder: &Path) -> PathBuf {
        let store = folder.join("store");
        let mut text = String::new();
        for number in 0..2000 {
            let (node, next) = (number % 500, (number * 7) % 500);
            text.push_str(&format!(
                "<http://e/{node}> <http://e/p{}> <http://e/{next}> .\n",
                number % 3
            ));
        }
        let format = pythia::RdfFormat::NTriples;
        let source = pythia::Source::from_reader(
            "text".to_owned(),
            std::io::Cursor::new(text.into_bytes()),
            format,
            pythia::Compression::None,
        );
        let sources = vec![source.expect("plain text")];
        pythia::load(&store, sources, &Default::default(), &Default::default()).expect("loaded");
        store
    }

    #[test]
    fn a_small_run_measures_commits_and_queries() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = small_store(folder.path());
        let query = NamedQuery {
            id: "hop".to_owned(),
            template: "hop".to_owned(),
            query: "SELECT * { <http://e/1> <http://e/p1> ?x . ?x ?p ?y }".to_owned(),
        };
        let options = Options {
            store: store.clone(),
            queries: vec![query],
            rounds: 2,
            percent: vec![10.0],
            commits: vec![(1, 1), (2, 50)],
            time: Duration::from_millis(50),
            cache_bytes: 8 << 20,
            stream: 50,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert!(
            report
                .commits
                .iter()
                .all(|run| run.commits_per_second > 0.0)
        );
        assert!(report.queries[0].changes > 0);
        assert!(report.text().contains("hop"), "{}", report.text());
        assert!(report.queries[0].queries[0].rows[0] > 0);
        assert!(report.text().contains("without results: 0 (0 %)"));
        let manifest = Database::open(&store)
            .expect("untouched")
            .store()
            .manifest();
        assert!(manifest.log.is_none(), "the store itself was not changed");
    }
}
