//! Reachability of two terms over one predicate: by search, then by labels that are built in between. Both answer the
//! same questions and must agree.

mod online;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use pythia::{
    Auxiliary, Database, OptimizeOptions, Options as DatabaseOptions, ReachabilityReport, Results,
    Term,
};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, count, figure};
use crate::timed::bound_rows;

pub use online::{OnlineReport, run_online};

/// Edges sampled for each question; one of them is kept.
const SAMPLED: f64 = 20.0;
/// Steps of a walk from an edge's end.
const WALK_STEPS: usize = 4;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store; the labels stay in it.
    pub location: PathBuf,
    /// The predicate's IRI.
    pub predicate: String,
    /// Number of questions, each asked once.
    pub questions: usize,
    /// Memory for pages.
    pub cache_bytes: usize,
    /// Memory for building labels, and for queries.
    pub memory_bytes: usize,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The predicate.
    pub predicate: String,
    /// Its edges.
    pub edges: u64,
    /// Terms at their ends.
    pub nodes: u64,
    /// Strongly connected components.
    pub components: u64,
    /// Components whose labels answer every question without a search.
    pub exact: u64,
    /// Intervals of all labels.
    pub intervals: u64,
    /// Bytes of the labels.
    pub label_bytes: u64,
    /// Duration of the build.
    pub build_seconds: f64,
    /// Questions whose answer is yes.
    pub connected: u64,
    /// Time to parse, plan and run without labels.
    pub search: LatencySummary,
    /// The same with labels.
    pub labels: LatencySummary,
    /// Pages requested by all questions, cached or not, without labels.
    pub search_pages: u64,
    /// The same with labels.
    pub label_pages: u64,
}

/// Results of one method.
struct MethodMeasurement {
    latency: LatencySummary,
    pages: u64,
    answers: Vec<bool>,
}

/// Measures a store without labels of the predicate.
pub fn run(options: &Options) -> Result<Report> {
    let machine = Machine::now();
    let database = open(options)?;
    ensure!(
        built(&database, options)?.is_none(),
        "{} has labels already; drop them with `pythia optimize --drop` to measure without",
        options.predicate
    );
    let questions = questions(&database, options)?;
    let search = ask(&database, &questions)?;
    drop(database);
    let auxiliary = Auxiliary {
        reachability: vec![options.predicate.clone()],
        ..Auxiliary::default()
    };
    let optimize = OptimizeOptions {
        memory_bytes: options.memory_bytes,
        ..OptimizeOptions::default()
    };
    let added = pythia::optimize(&options.location, &auxiliary, optimize)?;
    let database = open(options)?;
    let labels = ask(&database, &questions)?;
    let differs = |index: &usize| search.answers[*index] != labels.answers[*index];
    if let Some(index) = (0..questions.len()).find(differs) {
        anyhow::bail!("search and labels disagree: {}", questions[index]);
    }
    let built = built(&database, options)?.context("the labels were just built")?;
    Ok(Report {
        machine,
        predicate: options.predicate.clone(),
        edges: built.edges,
        nodes: built.nodes,
        components: built.components,
        exact: built.exact,
        intervals: built.intervals,
        label_bytes: added.iter().map(|added| added.bytes).sum(),
        build_seconds: added.iter().map(|added| added.time.as_secs_f64()).sum(),
        connected: search.answers.iter().filter(|answer| **answer).count() as u64,
        search: search.latency,
        labels: labels.latency,
        search_pages: search.pages,
        label_pages: labels.pages,
    })
}

fn open(options: &Options) -> Result<Database> {
    let limits = DatabaseOptions {
        cache_bytes: options.cache_bytes,
        memory_bytes: options.memory_bytes,
        ..DatabaseOptions::default()
    };
    Ok(Database::open_with(&options.location, limits)?)
}

/// Returns the report of the predicate's labels, if the store has them.
fn built(database: &Database, options: &Options) -> Result<Option<ReachabilityReport>> {
    let snapshot = database.snapshot();
    let predicate = pythia::predicate_named(&snapshot, &options.predicate)?;
    Ok(snapshot
        .estimates()
        .reachability(predicate)
        .map(|labels| labels.report()))
}

/// Returns queries about pairs of nodes; a random walk connects every other pair.
fn questions(database: &Database, options: &Options) -> Result<Vec<String>> {
    let predicate = &options.predicate;
    let snapshot = database.snapshot();
    let id = pythia::predicate_named(&snapshot, predicate)?;
    let all = snapshot
        .statistics()
        .predicate(id)
        .map_or(0, |counts| counts.quads);
    // Sorting all edges at random would take memory for each. A random number that depends on no
    // variable is drawn once for all solutions, so this one depends on a variable.
    let share = SAMPLED * options.questions as f64 / all.max(1) as f64;
    let edges = format!(
        "SELECT ?a ?b {{
           ?a <{predicate}> ?b
           FILTER(isIRI(?a) && isIRI(?b) && IF(BOUND(?a), RAND(), 1) < {share:.9})
         }} ORDER BY RAND() LIMIT {}",
        options.questions
    );
    let edges = bound_rows(database, &edges)?;
    ensure!(!edges.is_empty(), "no edges of {predicate} between IRIs");
    let mut questions = Vec::with_capacity(options.questions);
    for question in 0..options.questions {
        // Pairs of starts and ends of different edges.
        let from = &edges[question % edges.len()][0];
        let to = match question % 2 {
            0 => edges[(question + edges.len() / 2) % edges.len()][1].clone(),
            _ => walk(database, predicate, &edges[question % edges.len()][1])?,
        };
        questions.push(format!("ASK {{ {from} <{predicate}>+ {to} }}"));
    }
    Ok(questions)
}

/// Returns the end of a random walk of a few steps.
fn walk(database: &Database, predicate: &str, from: &Term) -> Result<Term> {
    let mut at = from.clone();
    for _ in 0..WALK_STEPS {
        let next = format!(
            "SELECT ?x {{ {at} <{predicate}> ?x FILTER isIRI(?x) }} ORDER BY RAND() LIMIT 1"
        );
        match bound_rows(database, &next)?
            .pop()
            .and_then(|mut row| row.pop())
        {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(at)
}

/// Asks all questions, once to warm up and once measured.
fn ask(database: &Database, questions: &[String]) -> Result<MethodMeasurement> {
    let mut latencies = Latencies::default();
    let mut answers = Vec::with_capacity(questions.len());
    for is_measured in [false, true] {
        let before = database.counters();
        for question in questions {
            let started = Instant::now();
            let results = database.query(question)?;
            let Results::Boolean(answer) = results else {
                anyhow::bail!("an ASK query gives a boolean");
            };
            if is_measured {
                latencies.record(started.elapsed());
                answers.push(answer);
            }
        }
        if is_measured {
            let used = database.counters().since(&before).total();
            return Ok(MethodMeasurement {
                latency: latencies.summary(),
                pages: used.cache_hits + used.device_pages,
                answers,
            });
        }
    }
    unreachable!("the second round is measured")
}

impl Report {
    /// Formats the report as a table.
    pub fn text(&self) -> String {
        let title = format!("Reachability over {}", self.predicate);
        let header = ["", "p50 us", "p95 us", "p99 us", "pages a question"];
        let mut table = Table::new(title, &header);
        for (name, latency, pages) in [
            ("search", &self.search, self.search_pages),
            ("labels", &self.labels, self.label_pages),
        ] {
            table.row(vec![
                name.to_owned(),
                figure(latency.p50_us),
                figure(latency.p95_us),
                figure(latency.p99_us),
                figure(pages as f64 / latency.count.max(1) as f64),
            ]);
        }
        table.note(format!(
            "{} questions, {} answered yes; {} edges, {} nodes, {} components",
            count(self.labels.count),
            count(self.connected),
            count(self.edges),
            count(self.nodes),
            count(self.components),
        ));
        table.note(format!(
            "labels: {} bytes in {:.2} s, {} intervals, {} components exact",
            count(self.label_bytes),
            self.build_seconds,
            count(self.intervals),
            count(self.exact),
        ));
        format!("{}\n{}", self.machine.describe(), table.text())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pythia::{Compression, LoadOptions, RdfFormat, Source};

    use super::*;

    #[test]
    fn searches_and_labels_agree_and_labels_read_less() {
        let folder = tempfile::tempdir().expect("a folder");
        let edge = |i: u32| format!("<http://e/{i}> <http://e/in> <http://e/{}> .\n", i / 3);
        let text: String = (1..3000).map(edge).collect();
        let text = std::io::Cursor::new(text.into_bytes());
        let (format, compression) = (RdfFormat::NTriples, Compression::None);
        let source = Source::from_reader("tree".to_owned(), text, format, compression);
        let load = LoadOptions::default();
        let sources = vec![source.expect("text")];
        pythia::load(folder.path(), sources, &load, &Arc::default()).expect("loaded");
        let options = Options {
            location: folder.path().to_owned(),
            predicate: "http://e/in".to_owned(),
            questions: 200,
            cache_bytes: 16 << 20,
            memory_bytes: 64 << 20,
        };
        let report = run(&options).expect("they agree");
        assert_eq!((report.nodes, report.exact), (3000, 3000));
        assert!(report.connected >= 100, "{report:?}");
        assert!(report.label_pages <= report.search_pages, "{report:?}");
        assert!(report.text().contains("labels"), "{}", report.text());
        let online = run_online(&options, 1.0).expect("built beside queries");
        // On a busy machine no build may end in its window.
        assert!(
            online.calm.count > 0 && online.building.count > 0,
            "{online:?}"
        );
        assert!(online.text().contains("ratio"), "{}", online.text());
        let again = run(&options).expect_err("there are labels now");
        assert!(again.to_string().contains("--drop"), "{again}");
    }
}
