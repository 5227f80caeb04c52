//! The mix of queries on modelled devices (Pythia, §4.4, Figures 9 and 10).
//!
//! Each drawn query runs twice by itself: with an empty cache, which gives the batches of reads that it makes, and warm, which
//! gives its processing time. Then clients that repeat these queries are simulated: a query processes on one of
//! [`PAPER_CORES`] cores, waits until the device has served its next batch, and processes again. Reads in flight share the
//! device ([`DeviceModel`]). As in the paper, the dictionary is in memory, and no page of the graph is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pythia::{Database, Options, QueryOptions};
use pythia_io::{DeviceModel, DirectStorage, ModelClock, ModelledStorage};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde::Serialize;

use super::ModelledOptions;
use super::mix::Mix;
use crate::latency::{Latencies, LatencySummary};
use crate::timed::{self, Output};

/// Cores of the paper's machine.
pub(crate) const PAPER_CORES: usize = 24;
/// Drawn queries, which the clients repeat in random order.
const QUERIES: usize = 600;
/// Simulated queries of each number of clients.
const SIMULATED: u64 = 20_000;
/// Warm runs of each query; the fastest is the processing time.
const WARM_RUNS: usize = 3;
/// Name of the dictionary's files.
const DICTIONARY: &str = "dictionary";
/// Size of the reads of the model, in bytes.
const PAGE_BYTES: u64 = 4096;

/// A modelled device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// The paper's flash array.
    Flash,
    /// The paper's phase change memory.
    Pcm,
}

impl Device {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Pcm => "PCM",
        }
    }

    fn model(self) -> DeviceModel {
        match self {
            Self::Flash => DeviceModel::FLASH,
            Self::Pcm => DeviceModel::PCM,
        }
    }
}

/// Results on the modelled devices.
#[derive(Clone, Debug, Serialize)]
pub struct Modelled {
    /// Different queries.
    pub queries: usize,
    /// Mean number of pages that a query reads.
    pub pages_mean: f64,
    /// Mean number of batches of these reads, which follow each other.
    pub batches_mean: f64,
    /// Mean processing time of a query, in microseconds.
    pub processing_us_mean: f64,
    /// One step for each device and number of clients.
    pub steps: Vec<ModelledStep>,
}

/// Results for one number of clients of a device.
#[derive(Clone, Debug, Serialize)]
pub struct ModelledStep {
    /// The device.
    pub device: Device,
    /// Concurrent clients.
    pub clients: usize,
    /// Queries answered per second.
    pub queries_per_second: f64,
    /// Time of a query.
    pub latency: LatencySummary,
    /// Mean number of pages in flight.
    pub in_flight_mean: f64,
    /// Share of the time in which the device has at least as many pages in flight as saturate it.
    pub saturated: f64,
}

/// A query: the pages of each of its batches, and its processing time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trace {
    pub(crate) batches: Vec<u32>,
    pub(crate) processing_us: f64,
}

/// Traces queries of the mix on a store, and simulates clients on the devices.
pub(crate) fn run(
    parameters: &ModelledOptions,
    mix: &Mix,
    clients: &[usize],
    seed: u64,
) -> Result<Modelled> {
    let traces = record(parameters, mix, seed)?;
    let steps = parameters.devices.iter().flat_map(|device| {
        let step = |clients| simulate(*device, &traces, clients, SIMULATED, seed);
        clients.iter().copied().map(step).collect::<Vec<_>>()
    });
    let mean =
        |value: &dyn Fn(&Trace) -> f64| traces.iter().map(value).sum::<f64>() / traces.len() as f64;
    Ok(Modelled {
        queries: traces.len(),
        pages_mean: mean(&|trace| f64::from(trace.batches.iter().sum::<u32>())),
        batches_mean: mean(&|trace| trace.batches.len() as f64),
        processing_us_mean: mean(&|trace| trace.processing_us),
        steps: steps.collect(),
    })
}

/// Runs queries of the mix one at a time.
fn record(parameters: &ModelledOptions, mix: &Mix, seed: u64) -> Result<Vec<Trace>> {
    let device = Arc::new(DirectStorage::open(&parameters.location, false)?);
    // The model does not matter: only the batches are looked at.
    let storage = ModelledStorage::new(device, DeviceModel::FLASH, ModelClock::Virtual);
    let storage = Arc::new(storage);
    let options = Options {
        // Helpers would make batches at the same time.
        threads: std::num::NonZero::new(1),
        ..parameters.limits.clone()
    };
    let database = Database::open_storage(storage.clone(), options)?;
    let mut rng = SmallRng::seed_from_u64(seed);
    let trace = |_| {
        let (_, text) = mix.next(&mut rng);
        let run = || {
            let run = timed::run(&database, &text, &QueryOptions::default(), Output::Terms);
            run.with_context(|| format!("the query failed:\n{text}"))
        };
        database.clear_cache()?;
        storage.take_trace();
        run()?;
        let batches = storage.take_trace().into_iter().filter_map(|batch| {
            let of_graph = batch.iter().filter(|(file, _)| !file.contains(DICTIONARY));
            let bytes: u64 = of_graph.map(|(_, bytes)| bytes).sum();
            (bytes > 0).then(|| bytes.div_ceil(PAGE_BYTES) as u32)
        });
        let batches = batches.collect();
        let mut processing = Duration::MAX;
        for _ in 0..WARM_RUNS {
            processing = processing.min(run()?.total());
        }
        let is_warm = storage.take_trace().is_empty();
        ensure!(is_warm, "the cache is too small for the pages of a query");
        Ok(Trace {
            batches,
            processing_us: processing.as_secs_f64() * 1e6,
        })
    };
    (0..QUERIES).map(trace).collect()
}

/// A moment in microseconds; moments are never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The query of a client.
struct Running<'t> {
    trace: &'t Trace,
    /// Number of batches that were served.
    served: usize,
    started_us: f64,
}

impl Running<'_> {
    /// Returns the processing time before or after each batch.
    fn part_us(&self) -> f64 {
        self.trace.processing_us / (self.trace.batches.len() + 1) as f64
    }
}

/// Clients on the cores and the device.
struct Simulation<'t> {
    model: DeviceModel,
    now: f64,
    clients: Vec<Running<'t>>,
    /// Clients that wait for a core.
    ready: VecDeque<usize>,
    /// Clients that process, by the end of it.
    processing: BinaryHeap<Reverse<(Moment, usize)>>,
    /// Batches in flight, by the progress of the device at which each is served: client and pages. Batches begin in this
    /// order, and all advance evenly.
    in_flight: VecDeque<(f64, usize, u32)>,
    /// Pages in flight.
    pages: u32,
    /// Reads that each page in flight has advanced by.
    progress: f64,
    /// Pages in flight by time, and time in which the device is saturated.
    page_us: f64,
    saturated_us: f64,
}

/// Simulates clients that repeat the traced queries in random order.
pub(crate) fn simulate(
    device: Device,
    traces: &[Trace],
    clients: usize,
    queries: u64,
    seed: u64,
) -> ModelledStep {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut next = |now: f64| Running {
        trace: &traces[rng.random_range(0..traces.len())],
        served: 0,
        started_us: now,
    };
    let mut simulation = Simulation {
        model: device.model(),
        now: 0.0,
        clients: (0..clients).map(|_| next(0.0)).collect(),
        ready: (0..clients).collect(),
        processing: BinaryHeap::new(),
        in_flight: VecDeque::new(),
        pages: 0,
        progress: 0.0,
        page_us: 0.0,
        saturated_us: 0.0,
    };
    let mut latencies = Latencies::default();
    while latencies.count() < queries {
        let Some(done) = simulation.step() else {
            continue;
        };
        let now = simulation.now;
        let us = now - simulation.clients[done].started_us;
        latencies.record(Duration::from_nanos((us * 1e3).round() as u64));
        simulation.clients[done] = next(now);
        simulation.ready.push_back(done);
    }
    ModelledStep {
        device,
        clients,
        queries_per_second: latencies.count() as f64 * 1e6 / simulation.now,
        latency: latencies.summary(),
        in_flight_mean: simulation.page_us / simulation.now,
        saturated: simulation.saturated_us / simulation.now,
    }
}

impl Simulation<'_> {
    /// Goes on to the next event. Returns the client whose query has ended, if one has.
    fn step(&mut self) -> Option<usize> {
        while self.processing.len() < PAPER_CORES
            && let Some(client) = self.ready.pop_front()
        {
            let end = self.now + self.clients[client].part_us();
            self.processing.push(Reverse((Moment(end), client)));
        }
        let read_us = self.model.read_us(PAGE_BYTES, self.pages);
        let first = self.in_flight.front().map(|(at, ..)| *at);
        let served = first.map_or(f64::INFINITY, |at| {
            self.now + (at - self.progress) * read_us
        });
        let processed = self.processing.peek();
        let processed = processed.map_or(f64::INFINITY, |Reverse((end, _))| end.0);
        self.advance(served.min(processed), read_us);
        if served <= processed {
            let (at, client, pages) = self.in_flight.pop_front().expect("a batch is served");
            self.progress = at;
            self.pages -= pages;
            self.clients[client].served += 1;
            self.ready.push_back(client);
            return None;
        }
        let Reverse((_, client)) = self.processing.pop().expect("a client processes");
        let running = &self.clients[client];
        let Some(&pages) = running.trace.batches.get(running.served) else {
            return Some(client);
        };
        self.pages += pages;
        self.in_flight
            .push_back((self.progress + 1.0, client, pages));
        None
    }

    /// Lets time pass.
    fn advance(&mut self, to: f64, read_us: f64) {
        let passed = to - self.now;
        self.page_us += passed * f64::from(self.pages);
        if self.pages >= self.model.saturation_depth() {
            self.saturated_us += passed;
        }
        if self.pages > 0 {
            self.progress += passed / read_us;
        }
        self.now = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(batches: &[u32], processing_us: f64) -> Trace {
        Trace {
            batches: batches.to_vec(),
            processing_us,
        }
    }

    #[test]
    fn one_client_takes_the_time_of_its_batches_and_its_processing() {
        let traces = [trace(&[1, 1, 16], 30.0)];
        for (device, us) in [
            (Device::Flash, 72.0 * 2.0 + 205.0),
            (Device::Pcm, 36.0 * 2.0 + 81.92),
        ] {
            let step = simulate(device, &traces, 1, 100, 1);
            let expected = 1e6 / (us + 30.0);
            let ratio = step.queries_per_second / expected;
            assert!((ratio - 1.0).abs() < 1e-3, "{device:?}: {ratio}");
        }
    }

    #[test]
    fn clients_share_the_device_up_to_its_bandwidth_and_the_cores() {
        let reads = [trace(&[1; 10], 0.0)];
        // 32 pages in flight saturate flash: 246 µs each.
        let step = simulate(Device::Flash, &reads, 32, 5000, 1);
        let expected = 32.0 * 1e6 / 2460.0;
        assert!(
            (step.queries_per_second / expected - 1.0).abs() < 0.02,
            "{step:?}"
        );
        assert!((step.in_flight_mean - 32.0).abs() < 0.5 && step.saturated > 0.9);
        let twice = simulate(Device::Flash, &reads, 64, 5000, 1);
        assert!((twice.queries_per_second / step.queries_per_second - 1.0).abs() < 0.02);
        // No read: as many queries at a time as there are cores.
        let processing = [trace(&[], 100.0)];
        let step = simulate(Device::Pcm, &processing, 2 * PAPER_CORES, 5000, 1);
        let expected = PAPER_CORES as f64 * 1e4;
        assert!(
            (step.queries_per_second / expected - 1.0).abs() < 0.02,
            "{step:?}"
        );
        assert_eq!(step.in_flight_mean, 0.0);
    }
}
