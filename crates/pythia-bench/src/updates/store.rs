//! Commits to a store.
//!
//! The benchmark works on copies of a store. Each of several clients adds quads with a new subject and a new literal, several
//! to a commit; the rate is compared with the device's own rate of durable writes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Database, Options as DatabaseOptions};
use pythia_io::DirectStorage;
use pythia_log::{FOLDER as LOG_FOLDER, RECORD_NAME as LOG_RECORD};
use pythia_rdf::{TermKey, TermKind};
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use serde::Serialize;

use super::log::durable_writes;
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, figure, milliseconds, plain_text};

/// Files of a store that a program may change in place, or lock.
const OWN_FILES: [&str; 4] = ["MANIFEST", "LOCK", "WRITER", LOG_RECORD];

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; it is not changed.
    pub store: PathBuf,
    /// Pairs of the number of clients and the quads of each commit.
    pub commits: Vec<(usize, usize)>,
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

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let machine = Machine::now();
    let mut commits = Vec::new();
    let mut quads = 0;
    for &(clients, batch) in &options.commits {
        let copy = folder.join("commits");
        copy_store(&options.store, &copy)?;
        let database = open(&copy, options)?;
        quads = database.snapshot().statistics().quads;
        let measured = measure_commits(&database, &copy, (clients, batch), options)?;
        progress(&measured.line());
        commits.push(measured);
        drop(database);
        std::fs::remove_dir_all(&copy)?;
    }
    Ok(Report {
        machine,
        quads,
        commits,
    })
}

fn open(path: &Path, options: &Options) -> Result<Database> {
    // Changes stay unmerged.
    let maintenance = MaintenanceOptions {
        compaction_quads_min: u64::MAX,
        ..MaintenanceOptions::default()
    };
    let options = DatabaseOptions {
        cache_bytes: options.cache_bytes,
        write: Some(WriteOptions {
            maintenance,
            ..WriteOptions::default()
        }),
        ..DatabaseOptions::default()
    };
    Database::open_with(path, options).with_context(|| format!("open {}", path.display()))
}

/// Copies a store that no program has open for writing. Its files never change, so they are linked if possible; only its log
/// is written in place.
pub(super) fn copy_store(from: &Path, to: &Path) -> Result<()> {
    copy_folder(from, to, true)
}

fn copy_folder(from: &Path, to: &Path, links: bool) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (source, target) = (entry.path(), to.join(&name));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target, links && name != LOG_FOLDER)?;
            continue;
        }
        let links = links && OWN_FILES.iter().all(|own| name != *own);
        if !links || std::fs::hard_link(&source, &target).is_err() {
            std::fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

fn measure_commits(
    database: &Database,
    path: &Path,
    (clients, batch): (usize, usize),
    options: &Options,
) -> Result<CommitResult> {
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
            commit(database, number, &mut serial, batch)?;
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
    // Only those that the quads use, as a client would.
    let predicates = batch.min(10);
    let first = *serial;
    let mut names: Vec<(TermKind, String)> = Vec::with_capacity(batch * 2 + predicates);
    for number in 0..predicates as u64 {
        let predicate = (first + number) % 10;
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
    let (predicates, ends) = ids.split_at(predicates);
    let quads: Vec<[u64; 4]> = ends
        .chunks_exact(2)
        .enumerate()
        .map(|(number, ends)| {
            [
                ends[0].0,
                predicates[number % predicates.len()].0,
                ends[1].0,
                0,
            ]
        })
        .collect();
    transaction.insert(&quads)?;
    transaction.commit()?;
    Ok(())
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

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
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
            let of_device = run.commits_per_second / run.device_writes_per_second;
            table.row(vec![
                run.clients.to_string(),
                run.batch.to_string(),
                figure(run.commits_per_second),
                format!("{of_device:.2}"),
                figure(run.quads_per_second),
                milliseconds(run.latency.p50_us),
                milliseconds(run.latency.p99_us),
                (run.resident_bytes >> 20).to_string(),
            ]);
        }
        plain_text("Updates", &self.machine.describe(), &[table])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Creates a store in a folder: 500 nodes, each with an edge of each of three predicates.
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
    fn a_small_run_measures_commits() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = small_store(folder.path());
        let options = Options {
            store: store.clone(),
            commits: vec![(1, 1), (2, 50)],
            time: Duration::from_millis(50),
            cache_bytes: 8 << 20,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert_eq!(report.quads, 1500);
        let rates = report.commits.iter().map(|run| run.commits_per_second);
        assert!(rates.min_by(f64::total_cmp) > Some(0.0));
        let text = report.text();
        assert!(text.contains("store of 1500 quads"), "{text}");
        let manifest = Database::open(&store)
            .expect("untouched")
            .store()
            .manifest();
        assert!(manifest.log.is_none(), "the store itself was not changed");
    }

    #[test]
    fn a_copy_of_a_store_with_a_log_changes_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = small_store(folder.path());
        let quads = |path: &Path| {
            let database = Database::open(path).expect("sound");
            database.snapshot().statistics().quads
        };
        let add = |path: &Path, client: usize| {
            let database = Database::open_for_writing(path).expect("sound");
            commit(&database, client, &mut 0, 10).expect("committed");
        };
        add(&store, 0);
        let copy = folder.path().join("copy");
        copy_store(&store, &copy).expect("copied");
        add(&store, 1);
        assert_eq!([quads(&store), quads(&copy)], [1520, 1510]);
        add(&copy, 2);
        add(&copy, 3);
        assert_eq!([quads(&store), quads(&copy)], [1520, 1530]);
    }
}
