//! `pythia bench`: workloads that measure this database.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use pythia_bench::timed::Output;
use pythia_bench::{graph, hops, queries, reachability, search, spill, yago};
use serde_json::Value;

use crate::arguments::{LimitArguments, StoreArguments, bytes, human_count};
use crate::exit::UsageError;

/// Measure this database on this machine
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Yago(Yago),
    Queries(Queries),
    Reachability(Reachability),
    Spill(Spill),
    Hops(Hops),
    Graph(Graph),
    Search(Search),
}

/// The path paper's experiment: six queries on YAGO by 1 to 32 clients, and its Q1, Q2, Q3
///
/// Parameters are drawn at random from the data, such that each has an answer. Latencies are what
/// a caller in this process sees: parse, plan, run, decode.
///
///   pythia load -l yago.pythia testdata/yago/yago-slice.nt.zst
///   pythia bench yago -l yago.pythia --cold --report yago.html
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Yago {
    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    limits: LimitArguments,

    /// How long each number of clients runs
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,

    /// Numbers of clients
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32"
    )]
    clients: Vec<usize>,

    /// Run the mix cold, too: with the cache emptied before each number of clients, or before
    /// each query
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, default_missing_value = "step", require_equals = true)]
    cold: Option<Cold>,

    /// Runs of each of Q1, Q2, Q3
    #[arg(long, default_value_t = 200)]
    runs: u32,

    /// Seeds the parameters
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with plots and tables
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cold {
    Step,
    Query,
}

/// Time each query of a file: one JSON object a line, with "id", "template" and "query"
///
/// Queries run in turn, round after round; a first round is not counted. A query that fails is
/// reported as failed and does not stop the others.
#[derive(Args)]
struct Queries {
    #[command(flatten)]
    store: StoreArguments,

    /// The queries
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,

    /// Timed rounds
    #[arg(long, default_value_t = 10)]
    runs: u32,

    /// Begin no further round after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,

    /// Stop a query after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,

    /// Also write the results, to memory, as SPARQL JSON (graphs: N-Triples), as a server would
    #[arg(long)]
    serialize: bool,

    /// Empty the cache before each query
    #[arg(long)]
    cold: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Sort, group, deduplicate and join more rows than memory holds
///
/// Needs no store: the rows are made by crossing inline data. Answers are checked.
///
///   pythia bench spill --memory 256M --rows 100000000
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Spill {
    #[command(flatten)]
    limits: LimitArguments,

    /// About how many rows go into each operator
    #[arg(long, default_value_t = 100_000_000)]
    rows: u64,

    /// Stop, with an error, if an operator takes longer than this
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Time the store's hops and frontiers, cold, beside the device's own reads
///
/// Random walks read one page after the other: the mean time of a hop stands beside the latency of
/// a single read. Frontiers read thousands of pages at once: their rate stands beside the best the
/// device gives at any depth. The device's own reads are fio's, of the same file in the same run, or
/// a plain loop's where fio is not installed.
///
///   pythia generate graph --nodes 6000000 -l graph.pythia
///   pythia bench hops -l graph.pythia --cache 64M
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Hops {
    #[command(flatten)]
    store: StoreArguments,

    /// Rounds of walks, frontiers and the device's own reads; medians are reported
    #[arg(long, default_value_t = 15)]
    rounds: usize,

    /// How long each part of a round takes
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25)]
    seconds: f64,

    /// Nodes of a frontier [default: as many as a twentieth of the pages]
    #[arg(long, value_name = "N")]
    frontier: Option<usize>,

    /// Do not use fio even if it is there
    #[arg(long)]
    no_fio: bool,

    /// Seeds the walks
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The path paper's custom graph benchmark: chains of dependent reads, on this device and on the
/// paper's flash and PCM, modelled
///
/// A random graph with one node of 3 to 30 edges on each page; nothing is buffered. The report
/// redraws Figures 1 to 5, with the paper's numbers beside.
///
///   pythia bench graph --report graph.html /var/lib/pythia
///   pythia bench graph --modelled
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Graph {
    /// The folder whose device is measured
    #[arg(value_name = "FOLDER", required_unless_present = "modelled")]
    folder: Option<PathBuf>,

    /// Only the modelled devices
    #[arg(long, conflicts_with = "folder")]
    modelled: bool,

    /// Page sizes
    #[arg(long, value_delimiter = ',', value_name = "SIZE,…", value_parser = bytes, default_value = "4K,8K,16K,32K")]
    page: Vec<usize>,

    /// Queries at once
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32,64,96,128,192"
    )]
    clients: Vec<usize>,

    /// Nodes of a path
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "2,4,10,100"
    )]
    path_length: Vec<usize>,

    /// Processing time of a page
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "µs,…",
        default_value = "0,50,100"
    )]
    processing: Vec<u64>,

    /// All combinations, instead of those that the figures show
    #[arg(long)]
    all: bool,

    /// Size of the graph
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "256M", conflicts_with = "paper_scale")]
    size: usize,

    /// A graph of 5 GiB, 1.3 million nodes on pages of 4 KiB, as the paper's
    #[arg(long)]
    paper_scale: bool,

    /// How long each setting is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 0.2)]
    seconds: f64,

    /// Seeds graph and walks
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with plots and tables
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Search a grid best first, reading the top n nodes of the queue as one batch, cold
///
/// Breadth first, depth first, Dijkstra's and A*, for each n: time, pages and batches, and what the
/// path paper's flash and phase change memory would take. Then the k shortest paths from corner to
/// corner, warm.
///
///   pythia bench search --side 224
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Search {
    #[command(flatten)]
    limits: LimitArguments,

    /// Nodes on each side of the grid, which has about twice their square of edges
    #[arg(long, default_value_t = 224, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    side: u32,

    /// Nodes read with one batch
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32,64"
    )]
    batches: Vec<usize>,

    /// How many shortest paths
    #[arg(long, value_name = "K", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    paths: u32,

    /// Runs of each, of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,

    /// Seeds names and weights
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where to make the store, which is removed afterwards [default: the system's folder for
    /// temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Write all figures as JSON; - is standard output, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The cache of a store that has one triple.
const SMALL_CACHE: usize = 4 << 20;

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.workload {
            Workload::Yago(command) => command.run(),
            Workload::Queries(command) => command.run(),
            Workload::Reachability(command) => command.run(),
            Workload::Spill(command) => command.run(),
            Workload::Hops(command) => command.run(),
            Workload::Graph(command) => command.run(),
            Workload::Search(command) => command.run(),
        }
    }
}

impl Yago {
    fn run(self) -> Result<()> {
        let options = yago::Options {
            step: seconds("--seconds", self.seconds)?,
            cold: self.cold.map(|cold| match cold {
                Cold::Step => yago::Cold::Step,
                Cold::Query => yago::Cold::Query,
            }),
            seed: self.seed,
            runs: self.runs,
            clients: self.clients,
        };
        if options.clients.contains(&0) {
            return Err(UsageError("--clients: each number is at least 1".to_owned()).into());
        }
        let database = self.store.open(&self.limits)?;
        let mut report = yago::run(&database, &options, |part| eprintln!("{part}"))?;
        report.store.file_bytes = file_bytes(&self.store.location)?;
        if let Some(path) = &self.report {
            write(path, &report.html())?;
        }
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

impl Queries {
    fn run(self) -> Result<()> {
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("read queries from {}", self.file.display()))?;
        let list = queries::read(&text).with_context(|| self.file.display().to_string())?;
        let options = queries::Options {
            runs: self.runs,
            budget: self.seconds.map(|s| seconds("--seconds", s)).transpose()?,
            timeout: self.timeout.map(|t| seconds("--timeout", t)).transpose()?,
            output: if self.serialize {
                Output::Serialized
            } else {
                Output::Terms
            },
            cold: self.cold,
        };
        let database = self.store.open(&self.limits)?;
        let report = queries::run(&database, &list, &options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

impl Hops {
    fn run(self) -> Result<()> {
        let options = hops::Options {
            rounds: self.rounds.max(1),
            part: seconds("--seconds", self.seconds)?,
            frontier: self.frontier,
            use_fio: !self.no_fio,
            seed: self.seed,
        };
        let database = self.store.open_without_queries()?;
        let report = hops::run(&database, &self.store.location, &options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

impl Graph {
    fn run(self) -> Result<()> {
        let is_page = |bytes: &usize| bytes.is_power_of_two() && (4096..=65_536).contains(bytes);
        if !self.page.iter().all(is_page) {
            let message = "--page: powers of two from 4K to 64K".to_owned();
            return Err(UsageError(message).into());
        }
        let is_count = |count: &usize| (1..=4096).contains(count);
        if !self.clients.iter().chain(&self.path_length).all(is_count) {
            let message = "--clients, --path-length: each number is 1 to 4096".to_owned();
            return Err(UsageError(message).into());
        }
        let measured = match &self.folder {
            Some(_) => Some(seconds("--seconds", self.seconds)?),
            None => None,
        };
        let options = graph::Options {
            page_bytes: self.page,
            clients: self.clients,
            path_lengths: self.path_length,
            processing_us: self.processing,
            all: self.all,
            graph_bytes: if self.paper_scale {
                graph::PAPER_BYTES
            } else {
                self.size as u64
            },
            measured,
            seed: self.seed,
        };
        let folder = self.folder.unwrap_or_default();
        let report = graph::run(&folder, &options, |part| eprintln!("{part} …"))?;
        if let Some(path) = &self.report {
            write(path, &report.html())?;
        }
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

/// Paths of one predicate between two known ends, by searches and by reachability labels
///
/// Asks questions without labels, builds them as `pythia optimize --reachability` does, and asks the
/// same questions again. The answers must agree. The labels stay in the store.
///
///   pythia bench reachability -l yago.pythia --predicate http://yago-knowledge.org/resource/isLocatedIn
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Reachability {
    #[command(flatten)]
    store: StoreArguments,

    /// The predicate
    #[arg(long, value_name = "IRI")]
    predicate: String,

    /// How many questions are asked
    #[arg(long, value_name = "N", default_value_t = 1000)]
    questions: usize,

    /// Memory for building, and for queries
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,

    /// Write the report as JSON to a file, or to standard output if it is "-"
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Reachability {
    fn run(self) -> Result<()> {
        let report = reachability::run(&reachability::Options {
            location: self.store.location,
            predicate: self.predicate,
            questions: self.questions,
            cache_bytes: self.store.cache,
            memory_bytes: self.memory,
        })?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

impl Spill {
    fn run(self) -> Result<()> {
        let options = spill::Options {
            rows: self.rows,
            timeout: self.timeout.map(|t| seconds("--timeout", t)).transpose()?,
        };
        let folder = match &self.limits.spill_folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("make a folder for a store of one triple")?;
        let database = spill::database(folder.path(), self.limits.options(SMALL_CACHE))?;
        let report = spill::run(&database, self.limits.memory, &options, |part| {
            eprintln!(
                "{}: {} rows in {:.1} s",
                part.operator,
                human_count(part.rows),
                part.seconds
            );
        })?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

impl Search {
    fn run(self) -> Result<()> {
        if self.batches.contains(&0) || self.runs == 0 {
            let message = "--batches and --runs: each number is at least 1";
            return Err(UsageError(message.to_owned()).into());
        }
        let folder = match &self.folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("make a folder for the grid's store")?;
        let options = search::Options {
            side: self.side,
            batches: self.batches,
            paths: self.paths,
            runs: self.runs,
            seed: self.seed,
            limits: self.limits.options(SMALL_CACHE),
        };
        let report = search::run(folder.path(), &options, |run| {
            eprintln!(
                "{}, n = {}: {:.1} ms",
                run.search, run.batch_nodes, run.measured_ms
            );
        })?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}

pub(super) fn seconds(option: &str, value: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(value)
        .map_err(|_| UsageError(format!("{option} is not a time")))?)
}

/// Prints the text, or the JSON if that is to go to standard output; writes the JSON elsewhere.
pub(super) fn show(json: Option<&Path>, text: &str, value: Value) -> Result<()> {
    let json_text = || format!("{value:#}\n");
    match json {
        Some(path) if path.as_os_str() == "-" => print!("{}", json_text()),
        Some(path) => {
            write(path, &json_text())?;
            println!("{text}");
        }
        None => println!("{text}"),
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Bytes of a store's files by name without ending, of all segments together.
fn file_bytes(location: &Path) -> Result<Vec<(String, u64)>> {
    let mut sizes = std::collections::BTreeMap::<String, u64>::new();
    let mut folders = vec![location.to_owned()];
    while let Some(folder) = folders.pop() {
        let context = || format!("list {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(context)? {
            let entry = entry.with_context(context)?;
            let metadata = entry.metadata().with_context(context)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                let name = PathBuf::from(entry.file_name());
                let stem = name.file_stem().unwrap_or_default().to_string_lossy();
                *sizes.entry(stem.into_owned()).or_default() += metadata.len();
            }
        }
    }
    Ok(sizes.into_iter().collect())
}
