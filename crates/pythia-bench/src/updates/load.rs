//! A load into a store that is written to: its duration alone and beside commits, and the largest number of runs.
//!
//! The benchmark works on copies of a store. Loaded data has new subjects and new literals, ten quads of each subject.
//! The commits of several clients, at a common rate, have such data too. A commit that waits for the load is late; the
//! following commits run as fast as possible until they reach the rate again.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Compression, Database, Options as DatabaseOptions, RdfFormat, Source};
use pythia_store::StoreError;
use pythia_store::load::LoadOptions;
use pythia_store::write::WriteOptions;
use serde::Serialize;

use super::store::{commit, copy_store};
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, count, figure, milliseconds, plain_text};

/// Clients that commit beside a load.
const CLIENTS: usize = 4;
/// Quads of each commit.
const COMMIT_QUADS: usize = 10;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; it is not changed.
    pub store: PathBuf,
    /// Loaded quads.
    pub quads: u64,
    /// Commits a second beside the load, one measurement each; 0 is a load alone.
    pub rates: Vec<u32>,
    /// Bytes of pages in memory.
    pub cache_bytes: usize,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Quads of the store before.
    pub store_quads: u64,
    /// Loaded quads.
    pub quads: u64,
    /// Each load.
    pub loads: Vec<LoadResult>,
}

/// Results of a load beside commits.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    /// Requested commits a second.
    pub rate: u32,
    /// Duration of the load.
    pub seconds: f64,
    /// Commits acknowledged meanwhile.
    pub commits: u64,
    /// Latency from begin to acknowledgement of a commit.
    pub latency: LatencySummary,
    /// Largest number of runs on the device.
    pub runs_max: usize,
}

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let machine = Machine::now();
    let text = folder.join("load.nt");
    write_quads(&text, options.quads)?;
    let mut report = Report {
        machine,
        store_quads: 0,
        quads: options.quads,
        loads: Vec::new(),
    };
    for &rate in &options.rates {
        let copy = folder.join("loaded");
        copy_store(&options.store, &copy)?;
        let open = DatabaseOptions {
            cache_bytes: options.cache_bytes,
            write: Some(WriteOptions::default()),
            ..DatabaseOptions::default()
        };
        let database = Database::open_with(&copy, open).context("open the copy")?;
        report.store_quads = database.snapshot().statistics().quads;
        let load = measure(&database, &text, rate)?;
        progress(&load.line());
        report.loads.push(load);
        drop(database);
        std::fs::remove_dir_all(&copy)?;
    }
    Ok(report)
}

fn write_quads(path: &Path, quads: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for number in 0..quads {
        let (subject, predicate) = (number / 10, number % 10);
        writeln!(
            out,
            "<http://example.org/loaded/{subject}> <http://example.org/loaded/p{predicate}> \"loaded {number}\" ."
        )?;
    }
    Ok(out.flush()?)
}

fn measure(database: &Database, text: &Path, rate: u32) -> Result<LoadResult> {
    let reader = BufReader::new(File::open(text)?);
    let name = text.display().to_string();
    let source = Source::from_reader(name, reader, RdfFormat::NTriples, Compression::None)?;
    let done = AtomicBool::new(false);
    let runs_max = AtomicUsize::new(0);
    let clients = if rate == 0 { 0 } else { CLIENTS };
    let store = database.store();
    std::thread::scope(|scope| {
        let (done, runs_max) = (&done, &runs_max);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                runs_max.fetch_max(store.manifest().runs.len(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let interval = Duration::from_secs(1) * CLIENTS as u32 / rate.max(1);
        let threads: Vec<_> = (0..clients)
            .map(|client| scope.spawn(move || commit_until(database, client, interval, done)))
            .collect();
        let started = Instant::now();
        let loaded = store.load(vec![source], &LoadOptions::default(), &Arc::default());
        let seconds = started.elapsed().as_secs_f64();
        runs_max.fetch_max(store.manifest().runs.len(), Ordering::Relaxed);
        done.store(true, Ordering::Relaxed);
        let mut latencies = Latencies::default();
        let mut commits = 0;
        for thread in threads {
            let joined = thread.join();
            let measured = joined.map_err(|_| anyhow::anyhow!("a client panicked"))??;
            commits += measured.1;
            latencies.merge(&measured.0);
        }
        loaded.context("load")?;
        Ok(LoadResult {
            rate,
            seconds,
            commits,
            latency: latencies.summary(),
            runs_max: runs_max.load(Ordering::Relaxed),
        })
    })
}

/// Commits once in each interval until the load is done. Returns the number of commits.
fn commit_until(
    database: &Database,
    client: usize,
    interval: Duration,
    done: &AtomicBool,
) -> Result<(Latencies, u64)> {
    let mut latencies = Latencies::default();
    let started = Instant::now();
    let (mut serial, mut commits) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        while let Err(error) = commit(database, client, &mut serial, COMMIT_QUADS) {
            // A load or a new base came between.
            let store = error.downcast_ref::<StoreError>();
            if !store.is_some_and(StoreError::is_retryable) {
                return Err(error);
            }
        }
        latencies.record(begun.elapsed());
        commits += 1;
        let due = interval * commits as u32;
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
    Ok((latencies, commits))
}

impl LoadResult {
    fn line(&self) -> String {
        format!(
            "load beside {} commits/s: {:.1} s, {} runs at most",
            self.rate, self.seconds, self.runs_max
        )
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut table = Table::new(
            format!(
                "Loads of {} quads into a store of {}",
                count(self.quads),
                count(self.store_quads)
            ),
            &[
                "commits/s",
                "seconds",
                "ratio",
                "made/s",
                "p50 ms",
                "longest ms",
                "runs",
            ],
        );
        let first = self.loads.first().map_or(f64::NAN, |load| load.seconds);
        for load in &self.loads {
            table.row(vec![
                load.rate.to_string(),
                format!("{:.1}", load.seconds),
                format!("{:.2}", load.seconds / first),
                figure(load.commits as f64 / load.seconds),
                milliseconds(load.latency.p50_us),
                milliseconds(load.latency.max_us),
                load.runs_max.to_string(),
            ]);
        }
        plain_text("Loads beside commits", &self.machine.describe(), &[table])
    }
}

#[cfg(test)]
mod tests {
    use pythia_store::write::RUNS_MAX;

    use super::*;
    use crate::updates::store::tests::small_store;

    #[test]
    fn a_small_load_ends_beside_commits() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            store: small_store(folder.path()),
            quads: 2000,
            rates: vec![0, 1_000_000],
            cache_bytes: 8 << 20,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        let [alone, beside] = &report.loads[..] else {
            panic!("{report:?}");
        };
        // One with its terms, one with its quads.
        assert_eq!((alone.commits, alone.runs_max), (0, 2));
        assert!(beside.commits > 0 && beside.runs_max <= RUNS_MAX);
        assert!(report.text().contains("longest"), "{}", report.text());
    }
}
