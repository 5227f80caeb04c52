//! Load on a server over HTTP: `pythia bench http`.
//!
//! Each connection is a thread that sends prepared requests and reads answers to their end. Without a rate the loop is
//! closed: the next request follows the last answer, which measures the highest rate. With a rate it is open: requests
//! are due at random times, independent of earlier ones, and latency counts from the time a request was *due*. A stalled
//! server thus shows every request that it kept waiting, not just the one that it answered late.

pub(crate) mod client;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use client::Connection;

/// Stack size of the threads, of which there may be a thousand.
const STACK_BYTES: usize = 256 << 10;

/// Parameters of a load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub address: SocketAddr,
    /// Path of the dataset, before `/query` and `/update`.
    pub dataset: String,
    /// Concurrent connections.
    pub connections: usize,
    /// Requests a second of all connections together; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Duration of the load.
    pub time: Duration,
    /// Time after which an unanswered request has failed and an unsent one is given up.
    pub patience: Duration,
    /// The seed of random choices.
    pub seed: u64,
}

/// A line of a file of requests: a query or an update.
#[derive(Clone, Debug, Deserialize)]
struct RequestLine {
    template: String,
    query: Option<String>,
    update: Option<String>,
}

/// A prepared request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The name it is counted under.
    pub template: String,
    bytes: Vec<u8>,
}

/// Results of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine, which client and server share.
    pub machine: Machine,
    /// Concurrent connections.
    pub connections: usize,
    /// The requested rate; `None` in a closed loop.
    pub offered_per_second: Option<f64>,
    /// Duration.
    pub seconds: f64,
    /// Requests sent.
    pub sent: u64,
    /// Requests that were due and never sent, because connections were busy.
    pub given_up: u64,
    /// Successful answers (2xx) a second.
    pub per_second: f64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers of 429 and 503 without a time to retry.
    pub without_retry_after: u64,
    /// Requests without a whole answer, by error.
    pub failed: BTreeMap<String, u64>,
    /// Bytes of successful answers.
    pub bytes: u64,
    /// Latency of successful answers, from when they were due (open loop) or sent.
    pub latency: LatencySummary,
    /// The same by template.
    pub templates: BTreeMap<String, LatencySummary>,
    /// Latency of answers of 429 and 503, from when they were sent.
    pub shed: LatencySummary,
    /// Successful answers in each second.
    pub timeline: Vec<u64>,
}

/// Reads requests, one JSON object a line: `template` and `query` or `update`.
pub fn read(text: &str, options: &Options) -> Result<Vec<Request>> {
    let mut requests = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("line {}", number + 1);
        let line: RequestLine = serde_json::from_str(line).with_context(place)?;
        let bytes = match (&line.query, &line.update) {
            (Some(query), None) => client::query(options, query),
            (None, Some(update)) => client::update(options, update),
            _ => anyhow::bail!("line {}: one of query and update", number + 1),
        };
        requests.push(Request {
            template: line.template,
            bytes,
        });
    }
    ensure!(!requests.is_empty(), "no requests");
    Ok(requests)
}

/// Sends random requests and reports the results.
pub fn run(requests: &[Request], options: &Options) -> Result<Report> {
    ensure!(options.connections > 0, "no connections");
    ensure!(
        options.rate.is_none_or(|rate| rate > 0.0),
        "a rate above zero"
    );
    let machine = Machine::now();
    let started = Instant::now();
    let mut total = Tally::default();
    std::thread::scope(|scope| -> Result<()> {
        let mut threads = Vec::new();
        for number in 0..options.connections {
            let worker = Worker::new(number, requests, options, started);
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = builder.spawn_scoped(scope, move || worker.run());
            threads.push(thread.context("start a thread per connection")?);
        }
        for thread in threads {
            total.add(&thread.join().expect("no panic while sending"));
        }
        Ok(())
    })?;
    Ok(total.report(machine, options, started.elapsed()))
}

/// The counts of one connection.
#[derive(Default)]
struct Tally {
    sent: u64,
    given_up: u64,
    statuses: BTreeMap<u16, u64>,
    without_retry_after: u64,
    failed: BTreeMap<String, u64>,
    bytes: u64,
    templates: BTreeMap<String, Latencies>,
    shed: Latencies,
    timeline: Vec<u64>,
}

struct Worker<'a> {
    requests: &'a [Request],
    options: &'a Options,
    started: Instant,
    random: SmallRng,
    tally: Tally,
}

impl<'a> Worker<'a> {
    fn new(number: usize, requests: &'a [Request], options: &'a Options, started: Instant) -> Self {
        Self {
            requests,
            options,
            started,
            random: SmallRng::seed_from_u64(options.seed.wrapping_add(number as u64)),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> Tally {
        let end = self.started + self.options.time;
        let mut connection = Connection::new(self.options.address, self.options.patience);
        let mut due = self.started;
        loop {
            due = match self.options.rate {
                Some(rate) => due + self.gap(rate / self.options.connections as f64),
                None => Instant::now(),
            };
            if due >= end || Instant::now() >= end {
                return self.tally;
            }
            let now = Instant::now();
            if due > now {
                std::thread::sleep(due - now);
            } else if now - due > self.options.patience {
                self.tally.given_up += 1;
                continue;
            }
            self.ask(&mut connection, due);
        }
    }

    /// Draws the time to the next request (exponentially distributed gaps).
    fn gap(&mut self, rate: f64) -> Duration {
        let uniform: f64 = self.random.random();
        Duration::from_secs_f64(-(1.0 - uniform).ln() / rate)
    }

    fn ask(&mut self, connection: &mut Connection, due: Instant) {
        let request = &self.requests[self.random.random_range(0..self.requests.len())];
        let sent = Instant::now();
        self.tally.sent += 1;
        let answer = match connection.ask(&request.bytes) {
            Ok(answer) => answer,
            Err(error) => {
                let kind = format!("{}", error.kind());
                *self.tally.failed.entry(kind).or_default() += 1;
                return;
            }
        };
        *self.tally.statuses.entry(answer.status).or_default() += 1;
        match answer.status {
            200..300 => {
                self.tally.bytes += answer.bytes;
                let latencies = match self.tally.templates.get_mut(&request.template) {
                    Some(latencies) => latencies,
                    None => self
                        .tally
                        .templates
                        .entry(request.template.clone())
                        .or_default(),
                };
                latencies.record(due.elapsed());
                let second = self.started.elapsed().as_secs() as usize;
                if self.tally.timeline.len() <= second {
                    self.tally.timeline.resize(second + 1, 0);
                }
                self.tally.timeline[second] += 1;
            }
            429 | 503 => {
                self.tally.shed.record(sent.elapsed());
                self.tally.without_retry_after += u64::from(!answer.has_retry_after);
            }
            _ => {}
        }
    }
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.given_up += other.given_up;
        self.without_retry_after += other.without_retry_after;
        self.bytes += other.bytes;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (kind, count) in &other.failed {
            *self.failed.entry(kind.clone()).or_default() += count;
        }
        for (template, latencies) in &other.templates {
            let all = self.templates.entry(template.clone()).or_default();
            all.merge(latencies);
        }
        self.shed.merge(&other.shed);
        let seconds = self.timeline.len().max(other.timeline.len());
        self.timeline.resize(seconds, 0);
        for (sum, count) in self.timeline.iter_mut().zip(&other.timeline) {
            *sum += count;
        }
    }

    fn report(self, machine: Machine, options: &Options, elapsed: Duration) -> Report {
        let mut all = Latencies::default();
        for latencies in self.templates.values() {
            all.merge(latencies);
        }
        let templates = self.templates.iter();
        Report {
            machine,
            connections: options.connections,
            offered_per_second: options.rate,
            seconds: elapsed.as_secs_f64(),
            sent: self.sent,
            given_up: self.given_up,
            per_second: all.count() as f64 / elapsed.as_secs_f64(),
            statuses: self.statuses,
            without_retry_after: self.without_retry_after,
            failed: self.failed,
            bytes: self.bytes,
            latency: all.summary(),
            templates: templates
                .map(|(template, latencies)| (template.clone(), latencies.summary()))
                .collect(),
            shed: self.shed.summary(),
            timeline: self.timeline,
        }
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let offered = match self.offered_per_second {
            Some(rate) => format!("{rate:.0} requests/s offered"),
            None => "as fast as answers come".to_owned(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} connections, {offered}, {:.1} s: {} sent, {:.0} successful/s",
            self.connections, self.seconds, self.sent, self.per_second
        );
        let row = |text: &mut String, name: &str, latency: &LatencySummary| {
            let _ = writeln!(
                text,
                "  {name:<16} {:>9}  p50 {:>9.2} ms  p95 {:>9.2} ms  p99 {:>9.2} ms  max {:>9.2} ms",
                latency.count,
                latency.p50_us / 1e3,
                latency.p95_us / 1e3,
                latency.p99_us / 1e3,
                latency.max_us / 1e3
            );
        };
        row(&mut text, "all", &self.latency);
        for (template, latency) in &self.templates {
            row(&mut text, template, latency);
        }
        if self.shed.count > 0 {
            row(&mut text, "429 and 503", &self.shed);
        }
        let _ = writeln!(text, "  statuses {:?}", self.statuses);
        if !self.failed.is_empty() || self.given_up > 0 {
            let _ = writeln!(
                text,
                "  failed {:?}, never sent {}",
                self.failed, self.given_up
            );
        }
        text
    }
}

#[cfg(test)]
mod tests;
