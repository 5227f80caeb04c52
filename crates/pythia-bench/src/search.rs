//! Best-first search (Pythia paper §5.1): the top n of the queue read as one batch, n = 1 to 64, and the k shortest
//! paths of a grid.
//!
//! The grid's nodes have names in random order, so that neighbours are on different pages. Every n must give the same
//! answer. Times on modelled devices are labelled as such; all others are measured.

use std::fmt::Write;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pythia::{Compression, Database, LoadOptions, QueryOptions, RdfFormat, Source};
use pythia_io::{DeviceModel, DirectStorage, ModelClock, ModelledStorage};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::files::bytes_by_name;
use crate::machine::Machine;
use crate::table::{Table, count};
use crate::timed::{Output, execute};

/// Maximum number of nodes on each side of the square that is searched.
const SEARCHED: u32 = 224;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes on each side of the grid.
    pub side: u32,
    /// Numbers of nodes read with one batch.
    pub batches: Vec<usize>,
    /// Number of shortest paths.
    pub paths: u32,
    /// Runs of each search; the median counts.
    pub runs: usize,
    /// The seed of names and weights.
    pub seed: u64,
    /// Limits of the database.
    pub limits: pythia::Options,
}

/// Results of a cold search with one batch size.
#[derive(Clone, Debug, Serialize)]
pub struct SearchRun {
    /// The order of the queue.
    pub search: &'static str,
    /// Nodes read with one batch.
    pub batch_nodes: usize,
    /// Rows of the answer.
    pub rows: u64,
    /// Pages read.
    pub pages: u64,
    /// Batches of reads.
    pub batches: u64,
    /// Median wall-clock time on this machine's device.
    pub measured_ms: f64,
    /// Modelled time of the reads on the paper's flash.
    pub modelled_flash_ms: f64,
    /// Modelled time of the reads on the paper's phase-change memory.
    pub modelled_pcm_ms: f64,
}

/// Results of a warm search for the shortest paths from corner to corner.
#[derive(Clone, Debug, Serialize)]
pub struct PathsRun {
    /// The kind of paths.
    pub paths: &'static str,
    /// Number of paths.
    pub rows: u64,
    /// Median wall-clock time with all terms of the result.
    pub measured_ms: f64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The grid's edges.
    pub edges: u64,
    /// Bytes of the store's pages.
    pub store_bytes: u64,
    /// Searches by batch size.
    pub searches: Vec<SearchRun>,
    /// The k shortest paths.
    pub paths: Vec<PathsRun>,
}

/// A grid whose nodes are named in random order.
struct Grid {
    side: u32,
    names: Vec<u32>,
}

impl Grid {
    fn new(side: u32, random: &mut StdRng) -> Self {
        let mut names: Vec<u32> = (0..side * side).collect();
        names.shuffle(random);
        Self { side, names }
    }

    /// Returns the node at the given fractions of both sides of a square around the middle. A large grid is searched only
    /// there: it makes the store larger, not the searches.
    fn node(&self, x: f64, y: f64) -> String {
        let searched = self.side.min(SEARCHED);
        let place = |share: f64| {
            (self.side - searched) / 2 + (share * f64::from(searched - 1)).round() as u32
        };
        self.name(place(x), place(y))
    }

    fn name(&self, x: u32, y: u32) -> String {
        format!("<http://e/{}>", self.names[(y * self.side + x) as usize])
    }

    fn edges(&self) -> u64 {
        2 * u64::from(self.side) * u64::from(self.side - 1)
    }

    /// Returns the edges to the right and down, and each node's cost, of a row of nodes.
    fn row(&self, y: u32, random: &mut StdRng) -> String {
        let mut text = String::new();
        for x in 0..self.side {
            let node = self.name(x, y);
            let cost = random.random_range(1..10);
            let _ = writeln!(
                text,
                "{node} <http://e/cost> \"{cost}\"^^<http://www.w3.org/2001/XMLSchema#integer> ."
            );
            for (x, y) in [(x + 1, y), (x, y + 1)] {
                if x < self.side && y < self.side {
                    let _ = writeln!(text, "{node} <http://e/p> {} .", self.name(x, y));
                }
            }
        }
        text
    }
}

/// Reads a grid as N-Triples, which are made row by row.
struct GridText {
    grid: Arc<Grid>,
    random: StdRng,
    /// The next row, and what is left of the last one.
    next: u32,
    row: Cursor<String>,
}

impl Read for GridText {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.row.read(out)?;
            if count > 0 || out.is_empty() || self.next == self.grid.side {
                return Ok(count);
            }
            self.row = Cursor::new(self.grid.row(self.next, &mut self.random));
            self.next += 1;
        }
    }
}

/// Creates the grid's store in a folder and runs all searches.
pub fn run(
    folder: &Path,
    options: &Options,
    mut progress: impl FnMut(&SearchRun),
) -> Result<Report> {
    let machine = Machine::now();
    let mut random = StdRng::seed_from_u64(options.seed);
    let grid = Arc::new(Grid::new(options.side, &mut random));
    let text = GridText {
        grid: Arc::clone(&grid),
        random,
        next: 0,
        row: Cursor::default(),
    };
    let (name, none) = ("grid".to_owned(), Compression::None);
    let source = Source::from_reader(name, text, RdfFormat::NTriples, none)?;
    let load = LoadOptions::default();
    pythia::load(folder, vec![source], &load, &Arc::default())?;
    let database = Database::open_with(folder, options.limits.clone())?;
    let store_bytes = bytes_by_name(folder)?.iter().map(|(_, bytes)| bytes).sum();
    let mut searches = Vec::new();
    for (search, query) in queries(&grid) {
        let mut rows = None;
        for &batch_nodes in &options.batches {
            let query = query.replace("BATCH", &batch_nodes.to_string());
            let run = measure(folder, &database, options, search, batch_nodes, &query)?;
            let expected = *rows.get_or_insert(run.rows);
            ensure!(
                run.rows == expected,
                "{search} gives {} rows with batches of {batch_nodes}, and {expected} else",
                run.rows
            );
            progress(&run);
            searches.push(run);
        }
    }
    Ok(Report {
        machine,
        edges: grid.edges(),
        store_bytes,
        searches,
        paths: shortest_paths(&database, &grid, options)?,
    })
}

/// Returns the searches, with `BATCH` in place of the batch size.
fn queries(grid: &Grid) -> [(&'static str, String); 4] {
    let middle = grid.node(0.5, 0.5);
    let (near, far) = (grid.node(0.4, 0.4), grid.node(0.25, 0.25));
    let service = |body: &str| {
        format!(
            "PREFIX path: <urn:pythia:path#> SELECT ?l {{ {body} ; path:length ?l ; path:batch BATCH }} }}"
        )
    };
    let path = "(<http://e/p>|^<http://e/p>)+";
    [
        (
            "breadth first",
            service(&format!(
                "SERVICE path:search {{ {middle} {path} ?e . [] path:maxLength 40"
            )),
        ),
        (
            "depth first",
            service(&format!(
                "SERVICE path:search {{ {middle} {path} ?e . [] path:mode path:All ; path:restrictor path:Acyclic"
            )) + " LIMIT 3000",
        ),
        (
            "Dijkstra",
            service(&format!(
                "VALUES ?e {{ {near} {far} }} SERVICE path:search {{ {middle} {path} ?e . [] path:weight <http://e/cost>"
            )),
        ),
        (
            "A*",
            service(&format!(
                "SERVICE path:search {{ {middle} {path} {far} . [] path:weight <http://e/cost>"
            )),
        ),
    ]
}

fn measure(
    folder: &Path,
    database: &Database,
    options: &Options,
    search: &'static str,
    batch_nodes: usize,
    query: &str,
) -> Result<SearchRun> {
    let mut times = Vec::new();
    let mut rows = 0;
    let mut counters = database.counters();
    for _ in 0..options.runs {
        database.clear_cache()?;
        counters = database.counters();
        let (found, time) = timed(database, query)?;
        rows = found;
        times.push(time);
    }
    let reads = database.counters().since(&counters).total();
    let modelled = |model: DeviceModel| -> Result<f64> {
        let device = Arc::new(DirectStorage::open(folder, false)?);
        let storage = Arc::new(ModelledStorage::new(device, model, ModelClock::Virtual));
        let database = Database::open_storage(storage.clone(), options.limits.clone())?;
        database.clear_cache()?;
        let before = storage.elapsed();
        timed(&database, query)?;
        Ok((storage.elapsed() - before).as_secs_f64() * 1e3)
    };
    Ok(SearchRun {
        search,
        batch_nodes,
        rows,
        pages: reads.device_pages,
        batches: reads.device_batches,
        measured_ms: median_ms(times),
        modelled_flash_ms: modelled(DeviceModel::FLASH)?,
        modelled_pcm_ms: modelled(DeviceModel::PCM)?,
    })
}

fn timed(database: &Database, query: &str) -> Result<(u64, Duration)> {
    let started = Instant::now();
    let prepared = database.prepare(query, &QueryOptions::default())?;
    let rows = execute(&prepared, Output::Terms)?;
    Ok((rows, started.elapsed()))
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2);
    median.map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn shortest_paths(database: &Database, grid: &Grid, options: &Options) -> Result<Vec<PathsRun>> {
    let (start, end) = (grid.node(0.0, 0.0), grid.node(1.0, 1.0));
    let query = |restrictor: &str, weight: &str| {
        format!(
            "PATHS SHORTEST {} {restrictor} START ?s = {start} END ?e = {end} VIA (<http://e/p>|^<http://e/p>)+ {weight}",
            options.paths
        )
    };
    let weight = "WEIGHT <http://e/cost>";
    let kinds = [
        ("simple, fewest edges", query("SIMPLE", "")),
        ("simple, least cost", query("SIMPLE", weight)),
        ("walks, least cost", query("WALK", weight)),
    ];
    let mut runs = Vec::new();
    for (paths, query) in kinds {
        let mut times = Vec::new();
        let mut rows = 0;
        for _ in 0..=options.runs {
            let (found, time) = timed(database, &query)?;
            rows = found;
            times.push(time);
        }
        // The first run warmed the cache.
        times.remove(0);
        runs.push(PathsRun {
            paths,
            rows,
            measured_ms: median_ms(times),
        });
    }
    Ok(runs)
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut searches = Table::new(
            format!(
                "best-first search, cold, on a grid of {} edges, in a store of {} MiB",
                count(self.edges),
                self.store_bytes >> 20
            ),
            &[
                "search", "n", "rows", "pages", "batches", "ms", "speed-up", "flash ms", "PCM ms",
            ],
        );
        let mut first = self.searches.first();
        for run in &self.searches {
            first = first
                .filter(|first| first.search == run.search)
                .or(Some(run));
            let first_ms = first.map_or(0.0, |first| first.measured_ms);
            searches.row(vec![
                run.search.to_owned(),
                run.batch_nodes.to_string(),
                count(run.rows),
                count(run.pages),
                count(run.batches),
                format!("{:.1}", run.measured_ms),
                format!("{:.1}", first_ms / run.measured_ms),
                format!("{:.1}", run.modelled_flash_ms),
                format!("{:.1}", run.modelled_pcm_ms),
            ]);
        }
        searches
            .note("n: nodes of the queue read with one batch; ms: measured on this device, median; speed-up: over the first n");
        searches.note("flash ms, PCM ms: modelled after the Pythia paper's devices, reads only");
        let mut paths = Table::new(
            "shortest paths from corner to corner, warm, with all their terms",
            &["paths", "rows", "ms"],
        );
        for run in &self.paths {
            paths.row(vec![
                run.paths.to_owned(),
                count(run.rows),
                format!("{:.0}", run.measured_ms),
            ]);
        }
        paths.note(self.machine.describe());
        format!("{}\n{}", searches.text(), paths.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_change_no_answer_and_save_batches() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            side: 120,
            batches: vec![1, 16],
            paths: 100,
            runs: 1,
            seed: 1,
            limits: pythia::Options::default(),
        };
        let report = run(folder.path(), &options, |_| ()).expect("the same answers");
        assert_eq!(report.searches.len(), 8);
        for pair in report.searches.chunks(2) {
            assert!(
                pair[0].rows > 0 && pair[0].batches >= pair[1].batches,
                "{pair:?}"
            );
        }
        assert!(report.paths.iter().all(|run| run.rows == 100));
        assert!(report.text().contains("breadth first"));
    }
}
