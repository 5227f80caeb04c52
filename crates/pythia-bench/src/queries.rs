//! Timing of each query in a file.
//!
//! A file has one JSON object a line: `{"id": …, "template": …, "query": SPARQL}`. All queries run in turn, round after
//! round, so that no query finds just its own pages warm; the first round is not counted. A failing query is reported
//! as failed and left out of later rounds. The report counts the queries that find nothing, by template and in all,
//! because a search for nothing is faster.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia::{Database, QueryError, QueryOptions, Results};
use serde::{Deserialize, Serialize};

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, count, milliseconds};
use crate::timed::{self, Output};

/// One query of a file.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct NamedQuery {
    /// Its name.
    pub id: String,
    /// The name shared by queries that differ only in parameters.
    #[serde(default)]
    pub template: String,
    /// Its SPARQL text.
    pub query: String,
}

/// Parameters of the timing.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timed rounds.
    pub runs: u32,
    /// Time after which no round begins, except the first.
    pub budget: Option<Duration>,
    /// Time after which a query is stopped and reported as failed.
    pub timeout: Option<Duration>,
    /// The use of the results.
    pub output: Output,
    /// True to drop all cached pages before each query.
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

/// Results of one query.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    /// The query's name.
    pub id: String,
    /// Its template.
    pub template: String,
    /// Solutions or triples; for ASK 1 or 0. `None` if the query failed.
    pub rows: Option<u64>,
    /// True if it found no solution and no triple. ASK always has an answer.
    pub empty: bool,
    /// The answer, if it is one value: distinguishes counts, whose `rows` is always 1.
    pub value: Option<String>,
    /// Time to parse, plan, run and decode.
    pub latency: LatencySummary,
    /// The same for each run.
    pub runs_us: Vec<f64>,
    /// Time to parse and plan.
    pub plan: LatencySummary,
    /// Pages that the last run requested, cached or not.
    pub pages: u64,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// Results of the queries of a template, or of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TemplateReport {
    /// Its name.
    pub template: String,
    /// Number of queries.
    pub queries: u64,
    /// Number of failed queries.
    pub failed: u64,
    /// Number of other queries that found nothing.
    pub empty: u64,
    /// The same as a share of the queries that did not fail.
    pub empty_share: f64,
    /// Median number of results.
    pub rows_median: u64,
    /// Largest number of results.
    pub rows_max: u64,
    /// Latency of all timed runs of all queries.
    pub latency: LatencySummary,
}

/// Results of all queries.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Timed rounds; fewer were run if the time ran out.
    pub runs: u32,
    /// All queries together.
    pub all: TemplateReport,
    /// Queries of each template together, in the file's order.
    pub templates: Vec<TemplateReport>,
    /// All queries in the file's order.
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
    let mut measured: Vec<QueryMeasurement> = queries
        .iter()
        .map(|_| QueryMeasurement::default())
        .collect();
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
    let of = |template: Option<&str>| {
        let both = queries.iter().zip(&measured);
        let chosen = both.filter(|(query, _)| template.is_none_or(|name| query.template == name));
        TemplateReport::of(
            template.unwrap_or("all"),
            chosen.map(|(_, measured)| measured),
        )
    };
    let mut names: Vec<&str> = Vec::new();
    for query in queries {
        if !names.contains(&query.template.as_str()) {
            names.push(&query.template);
        }
    }
    let all = of(None);
    let templates = names.into_iter().map(|name| of(Some(name))).collect();
    let reports = queries
        .iter()
        .zip(measured)
        .map(|(query, measured)| QueryReport {
            id: query.id.clone(),
            template: query.template.clone(),
            rows: measured.rows,
            empty: measured.is_empty(),
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
        all,
        templates,
        queries: reports.collect(),
    })
}

#[derive(Default)]
struct QueryMeasurement {
    rows: Option<u64>,
    /// True if the answer is yes or no.
    boolean: bool,
    value: Option<String>,
    latency: Latencies,
    plan: Latencies,
    pages: u64,
    error: Option<String>,
}

/// The reason why a run does not count.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("{0}")]
    Store(#[from] pythia::StoreError),
    #[error("gave {now} results after {before} before")]
    Unsteady { before: u64, now: u64 },
}

impl QueryMeasurement {
    fn is_empty(&self) -> bool {
        self.rows == Some(0) && !self.boolean
    }

    /// Runs the uncounted round, which records the answer if it is a single value.
    fn try_out(
        &mut self,
        database: &Database,
        query: &NamedQuery,
        options: &Options,
    ) -> Result<(), Failure> {
        let limits = limits(options);
        match database.prepare(&query.query, &limits)?.execute()? {
            Results::Boolean(answer) => {
                self.boolean = true;
                self.rows = Some(u64::from(answer));
            }
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

impl TemplateReport {
    fn of<'m>(template: &str, queries: impl Iterator<Item = &'m QueryMeasurement>) -> Self {
        let mut report = Self {
            template: template.to_owned(),
            ..Self::default()
        };
        let mut latencies = Latencies::default();
        let mut rows = Vec::new();
        for measured in queries {
            report.queries += 1;
            report.failed += u64::from(measured.error.is_some());
            report.empty += u64::from(measured.is_empty());
            rows.extend(measured.rows);
            latencies.merge(&measured.latency);
        }
        rows.sort_unstable();
        report.rows_median = rows.get(rows.len() / 2).copied().unwrap_or(0);
        report.rows_max = rows.last().copied().unwrap_or(0);
        report.empty_share = report.empty as f64 / rows.len().max(1) as f64;
        report.latency = latencies.summary();
        report
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.template.clone(),
            count(self.queries),
            count(self.failed),
            share(self.empty, self.queries - self.failed),
            count(self.rows_median),
            count(self.rows_max),
            milliseconds(self.latency.p50_us),
            milliseconds(self.latency.p95_us),
        ]
    }
}

/// Formats a part of a total, also as a percentage.
pub(crate) fn share(part: u64, of: u64) -> String {
    format!(
        "{} ({:.0} %)",
        count(part),
        part as f64 * 100.0 / of.max(1) as f64
    )
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        format!(
            "{}\n{}",
            self.queries_table().text(),
            self.templates_table().text()
        )
    }

    fn templates_table(&self) -> Table {
        let mut table = Table::new(
            "By template",
            &[
                "template",
                "queries",
                "failed",
                "empty",
                "results, median",
                "most",
                "median ms",
                "p95 ms",
            ],
        );
        for template in self.templates.iter().chain([&self.all]) {
            table.row(template.cells());
        }
        table.note("empty: queries that found nothing, which is faster than to find something");
        table.note(self.machine.describe());
        table
    }

    fn queries_table(&self) -> Table {
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
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_that_find_nothing_are_counted_by_template_and_in_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let text: &[u8] = b"<http://e/a> <http://e/b> <http://e/c> , <http://e/d> .\n";
        let source = pythia::Source::from_reader(
            "text".to_owned(),
            Box::new(text),
            pythia::RdfFormat::Turtle,
            pythia::Compression::None,
        );
        let sources = vec![source.expect("plain text")];
        pythia::load(&path, sources, &Default::default(), &Default::default()).expect("loaded");
        let database = Database::open(&path).expect("opened");
        let queries = [
            ("hop", "SELECT * { <http://e/a> ?p ?o }"),
            ("hop", "SELECT * { <http://e/b> ?p ?o }"),
            ("ask", "ASK { <http://e/b> ?p ?o }"),
            ("graph", "CONSTRUCT WHERE { <http://e/b> ?p ?o }"),
            ("wrong", "SELECT"),
        ];
        let queries: Vec<_> = (queries.iter().enumerate())
            .map(|(number, (template, query))| NamedQuery {
                id: format!("{template}-{number}"),
                template: (*template).to_owned(),
                query: (*query).to_owned(),
            })
            .collect();
        let options = Options {
            runs: 1,
            ..Options::default()
        };
        let report = run(&database, &queries, &options).expect("it runs");
        let found: Vec<_> = (report.templates.iter())
            .map(|one| (one.template.as_str(), one.queries, one.failed, one.empty))
            .collect();
        assert_eq!(
            found,
            [
                ("hop", 2, 0, 1),
                ("ask", 1, 0, 0),
                ("graph", 1, 0, 1),
                ("wrong", 1, 1, 0),
            ]
        );
        assert_eq!((report.all.empty, report.all.empty_share), (2, 0.5));
        assert_eq!(
            (
                report.templates[0].rows_max,
                report.templates[0].empty_share
            ),
            (2, 0.5)
        );
        let empty: Vec<bool> = report.queries.iter().map(|query| query.empty).collect();
        assert_eq!(empty, [false, true, false, true, false]);
        assert!(report.text().contains("2 (50 %)"), "{}", report.text());
    }

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
