//! Users: threads that run their queries one after the other, all at the same time.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use pythia::{Database, QueryOptions};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::timed::{self, Output};

/// Results of a test for one number of users.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Concurrent users.
    pub users: usize,
    /// True if the terms of the results were looked up.
    pub with_terms: bool,
    /// Time of a query, as its user saw it.
    pub latency: LatencySummary,
    /// Queries answered per second by all users together.
    pub queries_per_second: f64,
    /// Different queries among those of all users.
    pub different_queries: u64,
    /// Different queries that found nothing.
    pub found_nothing: u64,
    /// Mean number of results of a query.
    pub results_mean: f64,
    /// Pages read from the device, per query.
    pub device_pages_per_query: f64,
}

/// The runs of one user.
#[derive(Default)]
struct Tally {
    latencies: Latencies,
    /// The query of each run, by index, and its number of results.
    rows: Vec<(usize, u64)>,
}

/// Lets users run `each` queries. Every user has queries of their own, as far as there are enough; the first user has
/// the first ones for any number of users. The first error of any user ends the run.
pub(super) fn run(
    database: &Database,
    queries: &[String],
    users: usize,
    each: usize,
    output: Output,
) -> Result<Measurement> {
    let before = database.counters();
    let barrier = Barrier::new(users + 1);
    let (started, tallies) = thread::scope(|scope| {
        let threads: Vec<_> = (0..users)
            .map(|user| {
                let barrier = &barrier;
                let own = (user * each..(user + 1) * each).map(|number| number % queries.len());
                scope.spawn(move || {
                    barrier.wait();
                    run_user(database, queries, own, output)
                })
            })
            .collect();
        let started = Instant::now();
        barrier.wait();
        let tallies: Vec<Result<Tally>> = threads
            .into_iter()
            .map(|user| {
                user.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        (started, tallies)
    });
    let seconds = started.elapsed().as_secs_f64();
    let tallies = tallies.into_iter().collect::<Result<Vec<Tally>>>()?;
    let pages = database.counters().since(&before).total().device_pages;
    let runs = (users * each) as f64;
    let mut all = Tally::default();
    for tally in &tallies {
        all.latencies.merge(&tally.latencies);
        all.rows.extend(&tally.rows);
    }
    let rows: u64 = all.rows.iter().map(|(_, rows)| rows).sum();
    let different: HashMap<usize, u64> = all.rows.into_iter().collect();
    Ok(Measurement {
        users,
        with_terms: output != Output::Ids,
        latency: all.latencies.summary(),
        queries_per_second: runs / seconds,
        different_queries: different.len() as u64,
        found_nothing: different.values().filter(|rows| **rows == 0).count() as u64,
        results_mean: rows as f64 / runs,
        device_pages_per_query: pages as f64 / runs,
    })
}

fn run_user(
    database: &Database,
    queries: &[String],
    own: impl Iterator<Item = usize>,
    output: Output,
) -> Result<Tally> {
    let options = QueryOptions::default();
    let mut tally = Tally::default();
    for number in own {
        let query = &queries[number];
        let timing = timed::run(database, query, &options, output)
            .with_context(|| format!("the query failed:\n{query}"))?;
        tally.latencies.record(timing.total());
        tally.rows.push((number, timing.rows));
    }
    Ok(tally)
}
