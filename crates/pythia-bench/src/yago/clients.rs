//! Closed-loop clients: each thread sends its next query when the last is answered.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Database, QueryOptions};
use rand::{SeedableRng, rngs::SmallRng};
use serde::Serialize;

use super::Cold;
use super::mix::Mix;
use super::templates::TEMPLATES;
use crate::latency::{Latencies, LatencySummary};
use crate::timed::{self, Output};

/// Results for one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Concurrent clients.
    pub clients: usize,
    /// Time from the first query's start to the last one's end.
    pub seconds: f64,
    /// Queries answered.
    pub queries: u64,
    /// Queries answered per second.
    pub queries_per_second: f64,
    /// Time to parse, plan, run and decode, as each client saw it.
    pub latency: LatencySummary,
    /// Pages found in the cache, per query.
    pub cache_pages_per_query: f64,
    /// Pages read from the device, per query.
    pub device_pages_per_query: f64,
    /// Bytes read from the device, per query.
    pub device_bytes_per_query: f64,
    /// Reads per submission to the device, on average; 0 without reads.
    pub queue_depth_mean: f64,
    /// Results of each of the six queries.
    pub templates: Vec<TemplateStep>,
}

/// Results of one template within a step.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateStep {
    /// The template's name.
    pub name: &'static str,
    /// Latency as each client saw it.
    pub latency: LatencySummary,
    /// Mean number of results.
    pub rows_mean: f64,
    /// Share of runs that had an answer.
    pub answered: f64,
}

/// The counts of one client.
struct Tally {
    templates: Vec<TemplateTally>,
    end: Instant,
}

#[derive(Clone, Default)]
struct TemplateTally {
    latencies: Latencies,
    rows: u64,
    answered: u64,
}

/// Runs the mix with a number of clients for a time. The first error of any client ends the run.
pub(crate) fn run_step(
    database: &Database,
    mix: &Mix,
    clients: usize,
    duration: Duration,
    seed: u64,
    cold: Option<Cold>,
) -> Result<Step> {
    if cold.is_some() {
        database.clear_cache()?;
    }
    let before = database.counters();
    let barrier = Barrier::new(clients + 1);
    let (start, tallies) = thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|client| {
                let rng = SmallRng::seed_from_u64(seed ^ ((client as u64 + 1) << 32));
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    run_client(database, mix, rng, duration, cold)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let tallies: Vec<Result<Tally>> = workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        (start, tallies)
    });
    let tallies = tallies.into_iter().collect::<Result<Vec<Tally>>>()?;
    let pages = database.counters().since(&before).total();
    let end = tallies.iter().map(|tally| tally.end).max().unwrap_or(start);
    let seconds = (end - start).as_secs_f64();
    let (templates, latency) = summarise(&tallies);
    let queries = latency.count;
    let per_query = |count: u64| count as f64 / queries.max(1) as f64;
    Ok(Step {
        clients,
        seconds,
        queries,
        queries_per_second: queries as f64 / seconds,
        latency,
        cache_pages_per_query: per_query(pages.cache_hits),
        device_pages_per_query: per_query(pages.device_pages),
        device_bytes_per_query: per_query(pages.bytes),
        queue_depth_mean: pages.depth_mean(),
        templates,
    })
}

fn run_client(
    database: &Database,
    mix: &Mix,
    mut rng: SmallRng,
    duration: Duration,
    cold: Option<Cold>,
) -> Result<Tally> {
    let options = QueryOptions::default();
    let mut templates = vec![TemplateTally::default(); TEMPLATES.len()];
    let start = Instant::now();
    loop {
        let (template, text) = mix.next(&mut rng);
        if cold == Some(Cold::Query) {
            database.clear_cache()?;
        }
        let timing = timed::run(database, &text, &options, Output::Terms)
            .with_context(|| format!("the query failed:\n{text}"))?;
        let tally = &mut templates[template];
        tally.latencies.record(timing.total());
        tally.rows += timing.rows;
        tally.answered += u64::from(timing.rows > 0);
        let end = Instant::now();
        if end - start >= duration {
            return Ok(Tally { templates, end });
        }
    }
}

fn summarise(tallies: &[Tally]) -> (Vec<TemplateStep>, LatencySummary) {
    let mut all = Latencies::default();
    let mut steps = Vec::new();
    for (number, template) in TEMPLATES.iter().enumerate() {
        let mut total = TemplateTally::default();
        for tally in tallies {
            let tally = &tally.templates[number];
            total.latencies.merge(&tally.latencies);
            total.rows += tally.rows;
            total.answered += tally.answered;
        }
        all.merge(&total.latencies);
        let count = total.latencies.count();
        if count > 0 {
            steps.push(TemplateStep {
                name: template.name,
                latency: total.latencies.summary(),
                rows_mean: total.rows as f64 / count as f64,
                answered: total.answered as f64 / count as f64,
            });
        }
    }
    (steps, all.summary())
}
