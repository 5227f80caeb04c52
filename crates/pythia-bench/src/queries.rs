//! Any file of queries, each timed on its own.
//!
//! A file has one JSON object a line: `{"id": …, "template": …, "query": SPARQL}`. All queries run
//! in turn, round after round, so that no query finds just its own pages warm; a first round is not
//! counted. A query that fails is reported as failed and left out of later rounds: what is not
//! supported yet must not hide the rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia::{Database, QueryError, QueryOptions, Results};
use serde::{Deserialize, Serialize};

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, count, milliseconds};
use crate::timed::{self, Output};

/// One query of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct NamedQuery {
    /// Its own name.
    pub id: String,
    /// What it has in common with others that differ in parameters only.
    #[serde(default)]
    pub template: String,
    /// SPARQL.
    pub query: String,
}

/// How queries are timed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timed rounds.
    pub runs: u32,
    /// No round but the first begins after this long.
    pub budget: Option<Duration>,
    /// A query is stopped, and reported as failed, after this long.
    pub timeout: Option<Duration>,
    /// What becomes of the results.
    pub output: Output,
    /// Drop all cached pages before each query.
    pub cold: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            runs: 10,
            budget: None,
            timeout: None,
            output: Output::Terms,
            cold: false,
        }
    }
}

/// What was measured of one query.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    /// The query's name.
    pub id: String,
    /// Its template.
    pub template: String,
    /// Solutions or triples; for ASK 1 or 0. None if the query failed.
    pub rows: Option<u64>,
    /// The answer, if it is one value: tells counts apart, whose `rows` is always 1.
    pub value: Option<String>,
    /// Parse, plan, run and decode.
    pub latency: LatencySummary,
    /// The same, run by run.
    pub runs_us: Vec<f64>,
    /// Parse and plan alone.
    pub plan: LatencySummary,
    /// Pages the last run asked for, cached or not.
    pub pages: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// What was measured of all queries.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Timed rounds; fewer were run if the time was over.
    pub runs: u32,
    /// In the file's order.
    pub queries: Vec<QueryReport>,
}

/// Reads a file's text.
pub fn read(text: &str) -> Result<Vec<NamedQuery>> {
    let mut queries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let mut query: NamedQuery = serde_json::from_str(line).with_context(|| {
            format!(
                "line {}: expected {{\"id\": …, \"template\": …, \"query\": …}}",
                number + 1
            )
        })?;
        if query.template.is_empty() {
            query.template.clone_from(&query.id);
        }
        queries.push(query);
    }
    ensure!(!queries.is_empty(), "the file has no queries");
    Ok(queries)
}

/// Times all queries.
pub fn run(database: &Database, queries: &[NamedQuery], options: &Options) -> Result<Report> {
    let machine = Machine::now();
    let mut measured: Vec<Measured> = queries.iter().map(|_| Measured::default()).collect();
    let started = Instant::now();
    for round in 0..=options.runs {
        let over = |budget| round > 1 && started.elapsed() > budget;
        if options.budget.is_some_and(over) {
            break;
        }
        for (query, measured) in queries.iter().zip(&mut measured) {
            if measured.error.is_some() {
                continue;
            }
            let outcome = if round == 0 {
                measured.try_out(database, query, options)
            } else {
                measured.time(database, query, options)
            };
            if let Err(error) = outcome {
                measured.error = Some(error.to_string());
                measured.rows = None;
            }
        }
    }
    let reports = queries
        .iter()
        .zip(measured)
        .map(|(query, measured)| QueryReport {
            id: query.id.clone(),
            template: query.template.clone(),
            rows: measured.rows,
            value: measured.value,
            latency: measured.latency.summary(),
            runs_us: measured.latency.microseconds().collect(),
            plan: measured.plan.summary(),
            pages: measured.pages,
            error: measured.error,
        });
    Ok(Report {
        machine,
        runs: options.runs,
        queries: reports.collect(),
    })
}

#[derive(Default)]
struct Measured {
    rows: Option<u64>,
    value: Option<String>,
    latency: Latencies,
    plan: Latencies,
    pages: u64,
    error: Option<String>,
}

/// Why a timed run is not one.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{0}")]
    Store(#[from] pythia::StoreError),
    #[error("gave {now} results after {before} before")]
    Unsteady { before: u64, now: u64 },
}

impl Measured {
    /// The round that is not counted: finds the answer if it is a single value.
    fn try_out(
        &mut self,
        database: &Database,
        query: &NamedQuery,
        options: &Options,
    ) -> Result<(), Failure> {
        let limits = limits(options);
        match database.prepare(&query.query, &limits)?.execute()? {
            Results::Boolean(answer) => self.rows = Some(u64::from(answer)),
            Results::Graph(mut triples) => {
                let mut rows = 0;
                while triples.next_triple()?.is_some() {
                    rows += 1;
                }
                self.rows = Some(rows);
            }
            Results::Solutions(mut solutions) => {
                let mut rows = 0;
                while let Some(batch) = solutions.next_batch()? {
                    if rows == 0 && batch.len() == 1 && batch.variables().len() == 1 {
                        self.value = batch.term(0, 0).map(ToString::to_string);
                    }
                    rows += batch.len() as u64;
                }
                if rows != 1 {
                    self.value = None;
                }
                self.rows = Some(rows);
            }
        }
        Ok(())
    }

    fn time(
        &mut self,
        database: &Database,
        query: &NamedQuery,
        options: &Options,
    ) -> Result<(), Failure> {
        if options.cold {
            database.clear_cache()?;
        }
        let before = database.counters();
        let timing = timed::run(database, &query.query, &limits(options), options.output)?;
        self.pages = database.counters().since(&before).total().pages();
        match self.rows {
            Some(rows) if rows != timing.rows => Err(Failure::Unsteady {
                before: rows,
                now: timing.rows,
            }),
            _ => {
                self.latency.record(timing.total());
                self.plan.record(timing.parse + timing.plan);
                Ok(())
            }
        }
    }
}

fn limits(options: &Options) -> QueryOptions {
    QueryOptions {
        timeout: options.timeout,
        ..QueryOptions::default()
    }
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let mut table = Table::new(
            format!("{} queries, {} runs each", self.queries.len(), self.runs),
            &[
                "query",
                "results",
                "median ms",
                "p95 ms",
                "plan ms",
                "pages",
            ],
        );
        for query in &self.queries {
            match &query.error {
                None => table.row(vec![
                    query.id.clone(),
                    query.rows.map_or_else(String::new, count),
                    milliseconds(query.latency.p50_us),
                    milliseconds(query.latency.p95_us),
                    milliseconds(query.plan.p50_us),
                    count(query.pages),
                ]),
                Some(_) => table.row(vec![query.id.clone(), "failed".to_owned()]),
            }
        }
        for query in &self.queries {
            if let Some(error) = &query.error {
                let first = error.lines().next().unwrap_or_default();
                table.note(format!("{} failed: {first}", query.id));
            }
        }
        table.note(self.machine.describe());
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_queries_and_mistakes_name_their_line() {
        let text = "{\"id\": \"a-0\", \"template\": \"a\", \"query\": \"ASK {}\"}\n\n\
                    {\"id\": \"b\", \"query\": \"ASK {}\"}\n";
        let queries = read(text).expect("two queries");
        assert_eq!(queries.len(), 2);
        assert_eq!(queries[1].template, "b");
        let error = read("{\"id\": 1}").expect_err("not a query");
        assert!(error.to_string().contains("line 1"), "{error}");
        assert!(read("\n").is_err());
    }
}
