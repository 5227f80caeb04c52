//! Dependent reads and frontiers of a store, cold, compared with the device's own rates.
//!
//! A random walk expands one node after the other, so each hop waits for a page. A frontier is thousands of random
//! nodes in order, whose pages are read together. Each round measures both and the device's own reads of the same file,
//! right after each other, so that other load on the machine affects all of them; medians of the rounds are compared.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pythia::{Database, End, Snapshot, StoreReport};
use pythia_io::probe::stream::{self, Transfer};
use pythia_io::probe::{SplitMix, open_to_measure};
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Expansion, GraphFilter};
use serde::Serialize;

use crate::machine::Machine;
use crate::table::{Table, count, figure};

/// Hops of a walk before the cache is emptied again.
const WALK_HOPS: usize = 500;
/// Depths tried for the device's best rate.
const DEPTHS: [usize; 4] = [16, 32, 64, 128];
/// A frontier reads one page in `SPARSE`, so that few of them are neighbours.
const SPARSE: u64 = 20;
/// Attempts to find start nodes.
const TRIES: usize = 200;
const START_NODES: usize = 2000;
/// Targets: a hop's time relative to a read's, a frontier's rate relative to the device's best.
const HOP_MAX: f64 = 1.15;
const FRONTIER_MIN: f64 = 0.85;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of each part of a round.
    pub part: Duration,
    /// Nodes of a frontier; `None`: enough for a twentieth of the pages.
    pub frontier: Option<usize>,
    /// True to measure the device with fio, if it is installed.
    pub use_fio: bool,
    /// The seed of the walks.
    pub seed: u64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Triples in the store.
    pub triples: u64,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of pages kept in memory.
    pub cache_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The program that read the device.
    pub reader: &'static str,
    /// Depth of the device's best rate.
    pub best_depth: usize,
    /// Each round.
    pub rounds: Vec<Round>,
    /// The median of all rounds.
    pub median: Round,
}

/// Figures of one round.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Round {
    /// Mean time of the device's single reads, µs.
    pub read_us: f64,
    /// Mean time of a hop, µs.
    pub hop_us: f64,
    /// Pages read from the device by a hop.
    pub reads_per_hop: f64,
    /// A hop's time divided by a read's.
    pub hop_ratio: f64,
    /// Reads a second of the device at its best depth.
    pub reads_per_second: f64,
    /// Reads a second of the store's frontiers; adjacent pages count as one read.
    pub frontier_reads_per_second: f64,
    /// Nodes a second of the store's frontiers.
    pub frontier_nodes_per_second: f64,
    /// The frontiers' reads a second divided by the device's.
    pub frontier_ratio: f64,
}

/// Walks and frontiers on a store, and their start nodes.
struct Walker<'d> {
    database: &'d Database,
    snapshot: Snapshot,
    starts: Vec<TermId>,
    nodes: u64,
    random: SplitMix,
}

/// Measures a store in the folder `location`.
pub fn run(database: &Database, location: &Path, options: &Options) -> Result<Report> {
    let machine = Machine::now();
    let store = StoreReport::new(database.store());
    let order = &store.orders[0].file;
    let folder = database.store().manifest().segment.folder();
    let device = DeviceReads {
        file: location.join(folder).join("spo.pages"),
        page_bytes: order.page_bytes,
        part: options.part,
        fio: options.use_fio && DeviceReads::has_fio(),
    };
    let mut walker = Walker::new(database, options.seed)?;
    let best_depth = device.best_depth()?;
    let frontier = options
        .frontier
        .unwrap_or((order.pages / SPARSE).max(1) as usize);
    let rounds: Vec<Round> = (0..options.rounds)
        .map(|_| walker.round(&device, best_depth, frontier))
        .collect::<Result<_>>()?;
    Ok(Report {
        machine,
        triples: store.statistics.quads,
        store_bytes: store.total_bytes(),
        cache_bytes: database.store().pool().budget_bytes() as u64,
        page_bytes: order.page_bytes,
        reader: if device.fio { "fio" } else { "a plain loop" },
        best_depth,
        median: median(&rounds),
        rounds,
    })
}

impl<'d> Walker<'d> {
    fn new(database: &'d Database, seed: u64) -> Result<Self> {
        let snapshot = database.snapshot();
        let report = StoreReport::new(database.store());
        let iris = report.kinds.iter().find(|(kind, _)| *kind == TermKind::Iri);
        let mut walker = Self {
            database,
            snapshot,
            starts: Vec::new(),
            nodes: iris.map_or(0, |(_, statistics)| statistics.terms),
            random: SplitMix(seed),
        };
        for _ in 0..TRIES {
            let nodes = walker.random_nodes(START_NODES);
            let mut edges = Expansion::default();
            walker.expand(&nodes, &mut edges)?;
            let from = edges.source.iter().zip(&edges.other);
            let onward = from.filter(|(_, other)| is_node(**other));
            walker
                .starts
                .extend(onward.map(|(source, _)| nodes[*source as usize]));
            walker.starts.dedup();
            if walker.starts.len() >= START_NODES {
                break;
            }
        }
        ensure!(
            !walker.starts.is_empty(),
            "no node of this store has an edge to another: there is nothing to walk on"
        );
        Ok(walker)
    }

    /// Returns random IRIs, sorted and distinct.
    fn random_nodes(&mut self, count: usize) -> Vec<TermId> {
        let mut nodes: Vec<TermId> = (0..count)
            .map(|_| TermId::new(TermKind::Iri, self.random.below(self.nodes.max(1))))
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn expand(&self, nodes: &[TermId], edges: &mut Expansion) -> Result<()> {
        edges.clear();
        Ok(self
            .snapshot
            .expand(End::Subject, nodes, None, GraphFilter::Any, edges)?)
    }

    fn round(&mut self, device: &DeviceReads, best_depth: usize, frontier: usize) -> Result<Round> {
        let mut round = Round {
            read_us: 1e6 / device.reads_per_second(1)?,
            ..Round::default()
        };
        self.walk(device.part, &mut round)?;
        round.reads_per_second = device.reads_per_second(best_depth)?;
        self.expand_frontiers(device.part, frontier, &mut round)?;
        round.hop_ratio = round.hop_us / round.read_us;
        round.frontier_ratio = round.frontier_reads_per_second / round.reads_per_second;
        Ok(round)
    }

    /// Runs random walks from a cold cache for `time`.
    fn walk(&mut self, time: Duration, round: &mut Round) -> Result<()> {
        let (mut hops, mut spent, mut pages) = (0_u64, Duration::ZERO, 0);
        let mut edges = Expansion::new(true, false);
        let mut onward = Vec::new();
        while spent < time {
            self.database.clear_cache()?;
            let before = self.database.counters().total().device_pages;
            let started = Instant::now();
            let mut node = self.start();
            for _ in 0..WALK_HOPS {
                self.expand(&[node], &mut edges)?;
                onward.clear();
                onward.extend(edges.other.iter().filter(|id| is_node(**id)));
                node = match onward.len() as u64 {
                    // A dead end.
                    0 => self.start(),
                    choices => TermId(onward[self.random.below(choices) as usize]),
                };
            }
            spent += started.elapsed();
            hops += WALK_HOPS as u64;
            pages += self.database.counters().total().device_pages - before;
        }
        round.hop_us = spent.as_secs_f64() * 1e6 / hops as f64;
        round.reads_per_hop = pages as f64 / hops as f64;
        Ok(())
    }

    fn start(&mut self) -> TermId {
        self.starts[self.random.below(self.starts.len() as u64) as usize]
    }

    /// Expands random frontiers from a cold cache for `time`.
    fn expand_frontiers(&mut self, time: Duration, nodes: usize, round: &mut Round) -> Result<()> {
        let (mut expanded, mut spent, mut reads) = (0_u64, Duration::ZERO, 0);
        let mut edges = Expansion::default();
        while spent < time {
            let frontier = self.random_nodes(nodes);
            self.database.clear_cache()?;
            let before = self.database.counters();
            let started = Instant::now();
            self.expand(&frontier, &mut edges)?;
            spent += started.elapsed();
            expanded += frontier.len() as u64;
            reads += self.database.counters().since(&before).total().depth_sum;
        }
        let seconds = spent.as_secs_f64();
        round.frontier_nodes_per_second = expanded as f64 / seconds;
        round.frontier_reads_per_second = reads as f64 / seconds;
        Ok(())
    }
}

fn is_node(id: u64) -> bool {
    matches!(TermId(id).kind(), TermKind::Iri | TermKind::BlankNode)
}

/// The device's own reads of the file that the hops read.
struct DeviceReads {
    file: std::path::PathBuf,
    page_bytes: usize,
    part: Duration,
    fio: bool,
}

impl DeviceReads {
    fn has_fio() -> bool {
        let mut version = Command::new("fio");
        version.arg("--version").stdout(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    }

    fn best_depth(&self) -> Result<usize> {
        let mut best = (DEPTHS[0], 0.0);
        for depth in DEPTHS {
            let rate = self.reads_per_second(depth)?;
            if rate > best.1 {
                best = (depth, rate);
            }
        }
        Ok(best.0)
    }

    fn reads_per_second(&self, depth: usize) -> Result<f64> {
        if self.fio {
            self.by_fio(depth)
        } else {
            self.by_loop(depth)
        }
    }

    fn by_fio(&self, depth: usize) -> Result<f64> {
        let output = Command::new("fio")
            .args(["--name=reads", "--readonly", "--direct=1", "--rw=randread"])
            .args([
                "--ioengine=io_uring",
                "--time_based",
                "--output-format=json",
            ])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--bs={}", self.page_bytes))
            .arg(format!("--iodepth={depth}"))
            .arg(format!("--runtime={}ms", self.part.as_millis().max(1)))
            .output()
            .context("run fio")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // Warnings may come first.
        let json = text.find('{').map_or("", |start| &text[start..]);
        let value: serde_json::Value = serde_json::from_str(json).context("read what fio says")?;
        match value["jobs"][0]["read"]["iops"].as_f64() {
            Some(rate) if rate > 0.0 => Ok(rate),
            _ => bail!(
                "fio read nothing: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }

    fn by_loop(&self, depth: usize) -> Result<f64> {
        let file = open_to_measure(&self.file).context("open the store's file")?;
        let places = file.metadata()?.len() / self.page_bytes as u64;
        let mut random = SplitMix(depth as u64);
        let begun = Instant::now();
        let run = stream::run(&file, depth, self.page_bytes, &mut || {
            let offset = random.below(places) * self.page_bytes as u64;
            (begun.elapsed() < self.part).then_some(Transfer {
                offset,
                bytes: self.page_bytes,
                write: false,
            })
        })?;
        Ok(run.per_second())
    }
}

/// Returns the median of each figure.
fn median(rounds: &[Round]) -> Round {
    let middle = |value: fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Round {
        read_us: middle(|r| r.read_us),
        hop_us: middle(|r| r.hop_us),
        reads_per_hop: middle(|r| r.reads_per_hop),
        hop_ratio: middle(|r| r.hop_ratio),
        reads_per_second: middle(|r| r.reads_per_second),
        frontier_reads_per_second: middle(|r| r.frontier_reads_per_second),
        frontier_nodes_per_second: middle(|r| r.frontier_nodes_per_second),
        frontier_ratio: middle(|r| r.frontier_ratio),
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut table = Table::new(
            format!(
                "Hops and frontiers, cold: {} triples, {} MiB, {} MiB of cache, pages of {} KiB",
                count(self.triples),
                self.store_bytes >> 20,
                self.cache_bytes >> 20,
                self.page_bytes >> 10
            ),
            &[
                "",
                "read µs",
                "hop µs",
                "reads/hop",
                "ratio",
                "reads/s",
                "frontier reads/s",
                "nodes/s",
                "ratio",
            ],
        );
        let rounds = self.rounds.iter().enumerate();
        let rounds = rounds.map(|(i, round)| (format!("round {}", i + 1), round));
        for (name, round) in rounds.chain([("median".to_owned(), &self.median)]) {
            table.row(vec![
                name,
                figure(round.read_us),
                figure(round.hop_us),
                figure(round.reads_per_hop),
                figure(round.hop_ratio),
                figure(round.reads_per_second),
                figure(round.frontier_reads_per_second),
                figure(round.frontier_nodes_per_second),
                figure(round.frontier_ratio),
            ]);
        }
        table.note(format!(
            "read, reads/s: of the same file by {}, one at a time and {} in flight, its best depth.",
            self.reader, self.best_depth
        ));
        table.note(format!(
            "aims: a hop at most {HOP_MAX} times a read, a frontier at least {FRONTIER_MIN} times the device's best rate."
        ));
        table.note(verdict(&self.median));
        format!("{}\n\n{}", self.machine.describe(), table.text())
    }
}

fn verdict(median: &Round) -> String {
    let says = |reached: bool| if reached { "reached" } else { "missed" };
    format!(
        "hops: {}; frontiers: {}.",
        says(median.hop_ratio <= HOP_MAX),
        says(median.frontier_ratio >= FRONTIER_MIN)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pythia::{Compression, LoadOptions, RdfFormat, Source};

    fn database(folder: &Path, text: String) -> Database {
        let source = Source::from_reader(
            "test".to_owned(),
            std::io::Cursor::new(text),
            RdfFormat::NTriples,
            Compression::None,
        )
        .expect("a format");
        let progress = std::sync::Arc::default();
        pythia::load(folder, vec![source], &LoadOptions::default(), &progress).expect("sound");
        Database::open(folder).expect("just loaded")
    }

    const OPTIONS: Options = Options {
        rounds: 2,
        part: Duration::from_millis(10),
        frontier: None,
        use_fio: false,
        seed: 1,
    };

    #[test]
    fn a_small_store_is_walked_on_and_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let edges = (0..2000).map(|i| {
            let to = i * 7919 % 2000;
            format!("<http://ex.org/{i}> <http://ex.org/to> <http://ex.org/{to}> .\n")
        });
        let database = database(folder.path(), edges.collect());
        let report = run(&database, folder.path(), &OPTIONS).expect("measured");
        assert_eq!(report.rounds.len(), 2);
        assert!(report.median.hop_us > 0.0 && report.median.frontier_ratio > 0.0);
        assert!(report.median.reads_per_hop > 0.0, "{report:?}");
        let text = report.text();
        assert!(
            text.contains("a plain loop") && text.contains("median"),
            "{text}"
        );
    }

    #[test]
    fn a_store_without_edges_between_nodes_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = "<http://ex.org/a> <http://ex.org/b> \"c\" .\n".to_owned();
        let database = database(folder.path(), text);
        let error = run(&database, folder.path(), &OPTIONS).expect_err("nowhere to walk");
        assert!(error.to_string().contains("nothing to walk on"), "{error}");
    }
}
