//! The fixed queries Q1, Q2 and Q3: one query at a time, warm, many times.

use anyhow::{Context, Result, ensure};
use pythia::{Database, Query, QueryOptions};
use serde::Serialize;
use std::time::Instant;

use super::templates::{FIXED, FixedQuery, fill};
use crate::latency::{Latencies, LatencySummary};
use crate::timed::{self, Output};

/// Runs before the measured ones.
const WARM_UP_RUNS: u32 = 20;

/// Results of one fixed query.
#[derive(Clone, Debug, Serialize)]
pub struct FixedReport {
    /// Q1, Q2 or Q3.
    pub name: &'static str,
    /// Its question.
    pub title: &'static str,
    /// Number of results.
    pub rows: u64,
    /// Time to parse, plan, run and decode; warm.
    pub end_to_end: LatencySummary,
    /// Time from text to algebra; warm.
    pub parse: LatencySummary,
    /// Time from algebra to plan; warm.
    pub plan: LatencySummary,
    /// Time to run and decode within the end-to-end runs; warm.
    pub run: LatencySummary,
    /// Time to run and decode a query prepared once; warm. The paper timed this part (§4.5: without parsing and
    /// optimisation).
    pub prepared: LatencySummary,
    /// Pages of the graph's orders that one run with an empty cache read from the device.
    pub cold_graph_pages: u64,
    /// Pages of the dictionary that this run read.
    pub cold_term_pages: u64,
    /// Submissions of these reads.
    pub cold_batches: u64,
    /// Time of that run.
    pub cold_us: f64,
    /// RDF-3X's time divided by Pythia's in the paper.
    pub paper_speed_up: f64,
    /// RDF-3X's time in milliseconds on 665,000 triples of YAGO, if it was measured, apart from this run.
    pub rdf_3x_ms: Option<f64>,
}

/// Measures all three queries.
pub(crate) fn run(database: &Database, runs: u32) -> Result<Vec<FixedReport>> {
    FIXED
        .iter()
        .map(|fixed| run_one(database, fixed, runs).with_context(|| fixed.title.to_owned()))
        .collect()
}

fn run_one(database: &Database, fixed: &FixedQuery, runs: u32) -> Result<FixedReport> {
    let text = fill(fixed.text, &[], &[]);
    let options = QueryOptions::default();
    database.clear_cache()?;
    let before = database.counters();
    let cold = timed::run(database, &text, &options, Output::Terms)?;
    let pages = database.counters().since(&before);
    let term_pages = pages.group("dictionary").device_pages;
    for _ in 0..WARM_UP_RUNS {
        timed::run(database, &text, &options, Output::Terms)?;
    }
    let mut end_to_end = Latencies::default();
    let (mut parse, mut plan, mut run) = (
        Latencies::default(),
        Latencies::default(),
        Latencies::default(),
    );
    for _ in 0..runs {
        let timing = timed::run(database, &text, &options, Output::Terms)?;
        ensure!(timing.rows == cold.rows, "the number of results changed");
        end_to_end.record(timing.total());
        parse.record(timing.parse);
        plan.record(timing.plan);
        run.record(timing.run);
    }
    let prepared = run_prepared(database, &text, runs, cold.rows)?;
    Ok(FixedReport {
        name: fixed.name,
        title: fixed.title,
        rows: cold.rows,
        end_to_end: end_to_end.summary(),
        parse: parse.summary(),
        plan: plan.summary(),
        run: run.summary(),
        prepared: prepared.summary(),
        cold_graph_pages: pages.total().device_pages - term_pages,
        cold_term_pages: term_pages,
        cold_batches: pages.total().device_batches,
        cold_us: cold.total().as_secs_f64() * 1e6,
        paper_speed_up: fixed.paper_speed_up,
        rdf_3x_ms: fixed.rdf_3x_ms,
    })
}

fn run_prepared(database: &Database, text: &str, runs: u32, rows: u64) -> Result<Latencies> {
    let query = Query::parse(text, None)?;
    let prepared = database.prepare_parsed(&query, &QueryOptions::default())?;
    let mut latencies = Latencies::default();
    for _ in 0..runs {
        let started = Instant::now();
        let now = timed::execute(&prepared, Output::Terms)?;
        latencies.record(started.elapsed());
        ensure!(
            now == rows,
            "a prepared query gave {now} results, not {rows}"
        );
    }
    Ok(latencies)
}
