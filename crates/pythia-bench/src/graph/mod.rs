//! The Pythia paper's custom graph benchmark (§3, Tables 1 and 3, Figures 1–5).
//!
//! The graph is random, with one node of 3 to 30 edges on each page of fixed size. A query starts at a random node and
//! follows a random edge at each step until its path is long enough; nothing is buffered, so each step is one dependent
//! read. Many queries run concurrently. On the real device each query is a chain of direct reads in one ring; on the
//! modelled flash and PCM, a closed system of clients is simulated ([`simulate`]). A page's processing time passes
//! without using a processor: the paper had 24 cores for it.

mod report;
pub mod simulate;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia_io::DeviceModel;
use pythia_io::probe::stream::{self, Step};
use pythia_io::probe::{SplitMix, TestFile};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;

/// Table 1: the smallest and the largest out-degree.
pub const DEGREES: (u64, u64) = (3, 30);
/// Table 1: bytes of the graph.
pub const PAPER_BYTES: u64 = 5 << 30;
/// Bytes of a page before its edges, which hold their number.
const HEADER_BYTES: usize = 8;
/// Reads of a simulated setting; the simulation becomes periodic long before.
const SIMULATED_READS: u64 = 20_000;

/// Parameters of the measurement: Table 3.
#[derive(Clone, Debug)]
pub struct Options {
    /// Page sizes, in bytes.
    pub page_bytes: Vec<usize>,
    /// Numbers of concurrent queries.
    pub clients: Vec<usize>,
    /// Numbers of nodes of a path.
    pub path_lengths: Vec<usize>,
    /// Processing times of a page, in microseconds.
    pub processing_us: Vec<u64>,
    /// True for all combinations, not only those that the figures show.
    pub all: bool,
    /// Bytes of the graph.
    pub graph_bytes: u64,
    /// Duration of each setting on the real device; `None`: only the models.
    pub measured: Option<Duration>,
    /// The seed of graph and walks.
    pub seed: u64,
}

impl Default for Options {
    /// Returns the paper's parameters, on a graph small enough for a minute.
    fn default() -> Self {
        Self {
            page_bytes: [4, 8, 16, 32].map(|kib| kib << 10).to_vec(),
            clients: vec![1, 2, 4, 8, 16, 32, 64, 96, 128, 192],
            path_lengths: vec![2, 4, 10, 100],
            processing_us: vec![0, 50, 100],
            all: false,
            graph_bytes: 256 << 20,
            measured: Some(Duration::from_millis(200)),
            seed: 1,
        }
    }
}

/// One combination of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Parameters {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Concurrent queries.
    pub clients: usize,
    /// Nodes of a path.
    pub path_length: usize,
    /// Processing time of a page.
    pub processing_us: u64,
}

/// A real or modelled device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// The device of the folder, measured.
    Measured,
    /// The paper's flash, modelled.
    ModelledFlash,
    /// The paper's PCM, modelled.
    ModelledPcm,
}

impl Device {
    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "this device, measured",
            Self::ModelledFlash => "flash, modelled",
            Self::ModelledPcm => "PCM, modelled",
        }
    }
}

/// Results of a device at one setting.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measurement {
    /// The device.
    pub device: Device,
    /// The parameters.
    #[serde(flatten)]
    pub setting: Parameters,
    /// Latency of each read.
    pub read: LatencySummary,
    /// Bytes a second.
    pub bandwidth_bytes: f64,
    /// Mean response time of a query, processing included.
    pub query_us: f64,
}

/// All measured and simulated results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The folder of the measured graph; `None` if only models ran.
    pub folder: Option<String>,
    /// Bytes of the graph.
    pub graph_bytes: u64,
    /// The reason if measured figures are of the kernel's cache.
    pub not_direct: Option<String>,
    /// All measurements.
    pub measurements: Vec<Measurement>,
}

/// Runs the benchmark in a folder; `progress` gets each page size before it begins.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let settings = options.settings();
    ensure!(!settings.is_empty(), "there is nothing to measure");
    let mut report = Report {
        machine: Machine::now(),
        folder: None,
        graph_bytes: options.graph_bytes,
        not_direct: None,
        measurements: Vec::new(),
    };
    for (device, model) in [
        (Device::ModelledFlash, DeviceModel::FLASH),
        (Device::ModelledPcm, DeviceModel::PCM),
    ] {
        let simulated = settings
            .iter()
            .map(|setting| simulate::run(device, &model, *setting, SIMULATED_READS));
        report.measurements.extend(simulated);
    }
    if let Some(time) = options.measured {
        progress("make a file");
        let file = TestFile::create(folder, options.graph_bytes)?;
        report.folder = Some(folder.display().to_string());
        report.graph_bytes = file.bytes();
        report.not_direct = file.not_direct().map(str::to_owned);
        for &page_bytes in &options.page_bytes {
            progress(&format!("pages of {} KiB", page_bytes >> 10));
            let graph = Graph::write(&file, page_bytes, options.seed)?;
            for setting in settings.iter().filter(|s| s.page_bytes == page_bytes) {
                report.measurements.push(graph.measure(*setting, time)?);
            }
        }
    }
    Ok(report)
}

impl Options {
    /// Returns the combinations to measure.
    fn settings(&self) -> Vec<Parameters> {
        let mut settings = Vec::new();
        let longest = self.path_lengths.iter().max();
        let smallest = self.page_bytes.iter().min();
        let shortest = self.processing_us.iter().min();
        for &page_bytes in &self.page_bytes {
            for &path_length in &self.path_lengths {
                for &processing_us in &self.processing_us {
                    // The figures vary one parameter at a time, each with the number of queries.
                    let usual = [
                        smallest == Some(&page_bytes),
                        longest == Some(&path_length),
                        shortest == Some(&processing_us),
                    ];
                    if !self.all && usual.iter().filter(|usual| **usual).count() < 2 {
                        continue;
                    }
                    settings.extend(self.clients.iter().map(|&clients| Parameters {
                        page_bytes,
                        clients,
                        path_length,
                        processing_us,
                    }));
                }
            }
        }
        settings
    }
}

/// A graph in a file, one node on each page.
struct Graph<'f> {
    file: &'f TestFile,
    page_bytes: usize,
    nodes: u64,
    seed: u64,
}

impl<'f> Graph<'f> {
    fn write(file: &'f TestFile, page_bytes: usize, seed: u64) -> Result<Self> {
        let nodes = file.bytes() / page_bytes as u64;
        file.rewrite(|offset, bytes| {
            let first = offset / page_bytes as u64;
            for (page, number) in bytes.chunks_mut(page_bytes).zip(first..) {
                write_node(page, number, nodes, seed);
            }
        })?;
        Ok(Self {
            file,
            page_bytes,
            nodes,
            seed,
        })
    }

    /// Runs queries for `time`; each client runs one after the other.
    fn measure(&self, setting: Parameters, time: Duration) -> Result<Measurement> {
        let mut random = SplitMix(self.seed ^ setting.clients as u64);
        let mut walks = vec![Walk::default(); setting.clients];
        let processing = Duration::from_micros(setting.processing_us);
        let begun = Instant::now();
        let mut queries = (0_u64, Duration::ZERO);
        let run = stream::chase(
            self.file.file(),
            setting.clients,
            self.page_bytes,
            &mut |client, page| {
                let walk = &mut walks[client];
                let now = begun.elapsed();
                let next = page.map(|page| random_edge(page, self.nodes, &mut random));
                if page.is_some() && walk.left == 0 {
                    queries.0 += 1;
                    queries.1 += now + processing - walk.begun;
                    if now >= time {
                        return Step::End;
                    }
                }
                let (node, pause) = match next {
                    Some(next) if walk.left > 0 => (next, processing),
                    // The last page of the previous query is processed first.
                    next => {
                        let pause = next.map_or(Duration::ZERO, |_| processing);
                        walk.begun = now + pause;
                        walk.left = setting.path_length;
                        (random.below(self.nodes), pause)
                    }
                };
                walk.left -= 1;
                Step::Read(node * self.page_bytes as u64, pause)
            },
        )
        .with_context(|| format!("read with {} in flight", setting.clients))?;
        let mut latencies = Latencies::default();
        for sample in &run.samples {
            latencies.record(sample.latency);
        }
        Ok(Measurement {
            device: Device::Measured,
            setting,
            read: latencies.summary(),
            bandwidth_bytes: run.bytes_per_second(),
            query_us: queries.1.as_secs_f64() * 1e6 / (queries.0 as f64).max(1.0),
        })
    }
}

/// The state of a client's walk.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// Nodes still to read.
    left: usize,
    begun: Duration,
}

/// Writes a page: the number of edges, their target nodes, noise.
fn write_node(page: &mut [u8], number: u64, nodes: u64, seed: u64) {
    let mut random = SplitMix(seed.rotate_left(32) ^ number);
    random.fill(page);
    let (least, most) = DEGREES;
    let degree = least + random.below(most - least + 1);
    page[..HEADER_BYTES].copy_from_slice(&degree.to_le_bytes());
    for edge in page[HEADER_BYTES..].chunks_mut(8).take(degree as usize) {
        edge.copy_from_slice(&random.below(nodes).to_le_bytes());
    }
}

/// Returns the target of a random edge of a page.
fn random_edge(page: &[u8], nodes: u64, random: &mut SplitMix) -> u64 {
    let word = |at: usize| {
        let bytes = page[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    // Stay on the page and in the file, whatever the device returns.
    let degree = word(0).clamp(1, DEGREES.1);
    let edge = random.below(degree) as usize;
    word(HEADER_BYTES + edge * 8) % nodes
}
