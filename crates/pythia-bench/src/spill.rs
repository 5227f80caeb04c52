//! Sorting, grouping, removing duplicates and joining of more rows than fit in memory.
//!
//! The rows are the cross product of inline data, so they need no data set and little time: only the operator and its
//! temporary files are measured. Every answer is checked.

use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia::{Compression, Database, LoadOptions, QueryOptions, RdfFormat, Source};
use serde::Serialize;

use crate::machine::Machine;
use crate::table::{Table, count};
use crate::timed::bound_rows_within;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Approximate number of input rows of each operator.
    pub rows: u64,
    /// Time after which an operator is stopped and the run fails.
    pub timeout: Option<Duration>,
}

/// Results of one operator.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorReport {
    /// Its name in SPARQL.
    pub operator: &'static str,
    /// Input rows.
    pub rows: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// Bytes written to temporary files.
    pub spilled_bytes: u64,
    /// Peak memory of the process, if the system provides it, including the program and the page cache.
    pub peak_bytes: Option<u64>,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Memory of queries.
    pub memory_bytes: usize,
    /// Results of each operator.
    pub operators: Vec<OperatorReport>,
}

/// One operator over crossed inline data.
struct Workload {
    operator: &'static str,
    query: String,
    rows: u64,
    /// Its one solution.
    expected: Vec<String>,
}

/// Creates a nearly empty database for the workload.
pub fn database(folder: &Path, options: pythia::Options) -> Result<Database> {
    let text = "<http://ex.org/a> <http://ex.org/b> <http://ex.org/c> .\n";
    let format = RdfFormat::NTriples;
    let source = Source::from_reader(
        "one triple".to_owned(),
        text.as_bytes(),
        format,
        Compression::None,
    )?;
    let load = LoadOptions::default();
    pythia::load(folder, vec![source], &load, &std::sync::Arc::default())?;
    Ok(Database::open_with(folder, options)?)
}

/// Runs each operator once, in a database whose queries may hold `memory_bytes`.
pub fn run(
    database: &Database,
    memory_bytes: usize,
    options: &Options,
    mut progress: impl FnMut(&OperatorReport),
) -> Result<Report> {
    let machine = Machine::now();
    let mut operators = Vec::new();
    for workload in workloads(options.rows) {
        let report = measure(database, &workload, options)
            .with_context(|| format!("{} over {} rows", workload.operator, workload.rows))?;
        progress(&report);
        operators.push(report);
    }
    Ok(Report {
        machine,
        memory_bytes,
        operators,
    })
}

fn measure(database: &Database, workload: &Workload, options: &Options) -> Result<OperatorReport> {
    // If this is not allowed, the peak is that of the process so far.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = database.usage().spilled_bytes;
    let started = Instant::now();
    let limits = QueryOptions {
        timeout: options.timeout,
        ..QueryOptions::default()
    };
    let answer = bound_rows_within(database, &workload.query, &limits)?;
    let seconds = started.elapsed().as_secs_f64();
    let solution = answer.last().map(|row| {
        let terms = row.iter().map(|term| match term {
            pythia::Term::Literal(literal) => literal.value().to_owned(),
            term => term.to_string(),
        });
        terms.collect::<Vec<_>>()
    });
    let expected = &workload.expected;
    ensure!(
        solution.as_ref() == Some(expected),
        "the answer is {solution:?} and should be {expected:?}"
    );
    let usage = database.usage();
    ensure!(
        usage.memory_bytes == 0 && usage.spill_bytes == 0,
        "something is held after the query: {usage:?}"
    );
    Ok(OperatorReport {
        operator: workload.operator,
        rows: workload.rows,
        seconds,
        spilled_bytes: usage.spilled_bytes - before,
        peak_bytes: peak_bytes(),
    })
}

/// Returns the process's largest resident set since the last reset.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns workloads of about `rows` rows: ten values of ?a crossed with enough values of ?b and ?c.
fn workloads(rows: u64) -> Vec<Workload> {
    let side = ((rows as f64 / 10.0).sqrt().round() as u64).max(1);
    let rows = 10 * side * side;
    let (few, others) = (values("?a", 0..10), values("?a", 9..19));
    let many = format!("{} {}", values("?b", 0..side), values("?c", 0..side));
    let last = (side - 1).to_string();
    vec![
        Workload {
            operator: "ORDER BY",
            query: format!(
                "SELECT ?c ?a ?b {{ {many} {few} }} ORDER BY ?c ?a ?b OFFSET {}",
                rows - 1
            ),
            rows,
            expected: vec![last.clone(), "9".to_owned(), last],
        },
        Workload {
            operator: "GROUP BY",
            query: format!(
                "SELECT (COUNT(*) AS ?groups) (SUM(?n) AS ?rows) {{ {{ SELECT ?b ?c (COUNT(*) AS ?n) \
                 {{ {few} {many} }} GROUP BY ?b ?c }} }}"
            ),
            rows,
            expected: vec![(rows / 10).to_string(), rows.to_string()],
        },
        Workload {
            operator: "DISTINCT",
            query: format!(
                "SELECT (COUNT(*) AS ?n) {{ {{ SELECT DISTINCT ?a ?b ?c {{ {few} {many} }} }} }}"
            ),
            rows,
            expected: vec![rows.to_string()],
        },
        Workload {
            // LIMIT keeps each side a separate query. The larger one is held.
            operator: "join",
            query: format!(
                "SELECT (COUNT(*) AS ?n) (SUM(?a) AS ?s) {{ {{ SELECT ?b ?c {{ {many} }} LIMIT {rows} }} \
                 {{ SELECT ?a ?b ?c {{ {few} {many} }} LIMIT {rows} }} }}"
            ),
            rows,
            expected: vec![rows.to_string(), (rows / 10 * 45).to_string()],
        },
        Workload {
            // Of ten values of ?a, the sides share one.
            operator: "join, few match",
            query: format!(
                "SELECT (COUNT(*) AS ?n) (SUM(?a) AS ?s) {{ {{ SELECT ?a ?b ?c {{ {few} {many} }} LIMIT {rows} }} \
                 {{ SELECT ?a ?b ?c {{ {others} {many} }} LIMIT {rows} }} }}"
            ),
            rows,
            expected: vec![(rows / 10).to_string(), (rows / 10 * 9).to_string()],
        },
    ]
}

fn values(variable: &str, values: Range<u64>) -> String {
    let mut text = format!("VALUES {variable} {{");
    for value in values {
        let _ = write!(text, " {value}");
    }
    text + " }"
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mebibytes = |bytes: u64| format!("{:.0}", bytes as f64 / f64::from(1 << 20));
        let mut table = Table::new(
            format!(
                "operators within {} MiB of memory for queries",
                mebibytes(self.memory_bytes as u64)
            ),
            &["operator", "rows", "s", "rows/s", "spilled MiB", "peak MiB"],
        );
        for operator in &self.operators {
            table.row(vec![
                operator.operator.to_owned(),
                count(operator.rows),
                format!("{:.1}", operator.seconds),
                count((operator.rows as f64 / operator.seconds) as u64),
                mebibytes(operator.spilled_bytes),
                operator.peak_bytes.map_or_else(String::new, mebibytes),
            ]);
        }
        table.note("peak: the whole process, with program and page cache (--cache)");
        table.note(self.machine.describe());
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_over_more_rows_than_memory_give_the_right_answers() {
        let folder = tempfile::tempdir().expect("a folder");
        let memory_bytes = 1 << 20;
        let options = pythia::Options {
            memory_bytes,
            ..pythia::Options::default()
        };
        let database = database(folder.path(), options).expect("a database");
        let options = Options {
            rows: 100_000,
            timeout: None,
        };
        let report = run(&database, memory_bytes, &options, |_| ()).expect("the right answers");
        for operator in &report.operators {
            assert_eq!(operator.rows, 100_000);
            assert!(operator.spilled_bytes > 0, "{operator:?}");
        }
        assert!(report.text().contains("GROUP BY"), "{}", report.text());
    }
}
