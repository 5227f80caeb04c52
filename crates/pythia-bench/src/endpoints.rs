//! The queries of a file on this database and on SPARQL endpoints, in turn: `pythia bench endpoints`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use pythia::Database;
use serde::Serialize;

use crate::contest::{
    Contest, Found, LeftOut, Question, SystemName, Turn, found_table, geometric_mean,
    left_out_table, median,
};
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::page::Page;
use crate::queries::NamedQuery;
use crate::system::System;
use crate::table::{Table, count, figure, milliseconds, plain_text};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Number of rounds. In each round, every system is asked all queries in its turn.
    pub rounds: usize,
    /// Number of times that all queries are asked before the first measured round.
    pub warm_up: usize,
    /// Time after which a system has no further turn with the same number of clients. Each has at least one.
    pub budget: Option<Duration>,
    /// Time after which a query of the store in process has failed.
    pub timeout: Duration,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine, which all systems share.
    pub machine: Machine,
    /// Triples of the store that provided the right answers.
    pub triples: u64,
    /// Number of queries.
    pub queries: usize,
    /// Rounds.
    pub rounds: usize,
    /// Names of the templates, in the order of the file.
    pub templates: Vec<String>,
    /// The systems in the order of all lists.
    pub systems: Vec<SystemName>,
    /// Statistics of the queries' answers, by template.
    pub found: BTreeMap<String, Found>,
    /// Templates that do not count for a system.
    pub left_out: LeftOut,
    /// One test for each number of clients.
    pub tests: Vec<Test>,
}

/// Results for one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct Test {
    /// Concurrent clients.
    pub clients: usize,
    /// Results by system.
    pub systems: Vec<TestOfSystem>,
}

/// Results of one system for one number of clients.
#[derive(Clone, Debug, Serialize)]
pub struct TestOfSystem {
    /// Queries per second of the common templates in each round.
    pub queries_per_second: Vec<f64>,
    /// Median of the rounds.
    pub queries_per_second_median: f64,
    /// Geometric mean of the ratios of its medians to the first system's, over the common templates.
    pub ratio: f64,
    /// Times by template.
    pub templates: BTreeMap<String, TemplateTimes>,
}

/// Times of one template.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateTimes {
    /// Whether it counts for all systems.
    pub is_common: bool,
    /// Times of all rounds.
    pub latency: LatencySummary,
    /// Median of each round in microseconds: their spread is the noise of the machine.
    pub medians_us: Vec<f64>,
}

/// Compares the answers of the systems with those of a store that holds the same data, and measures the systems.
pub fn run(
    database: &Database,
    systems: &[System<'_>],
    queries: &[NamedQuery],
    options: &Options,
    progress: impl Fn(&str),
) -> Result<Report> {
    ensure!(!systems.is_empty(), "no system to measure");
    ensure!(
        !queries.is_empty() && options.rounds > 0 && !options.clients.contains(&0),
        "at least one query, one round and one client"
    );
    let machine = Machine::now();
    let question = |query: &NamedQuery| {
        let question = Question::new(&query.template, None, query.query.clone())?;
        Ok(vec![question])
    };
    let parts: Vec<Vec<Question>> = queries.iter().map(question).collect::<Result<_>>()?;
    progress("compare the answers");
    let reference = System::in_process("the store", database, options.timeout);
    let mut contest = Contest::check(&reference, systems, &parts)?;
    contest.warm_up(options.warm_up * parts.len())?;
    let rounds = |clients| {
        let turns = contest.rounds(clients, options.rounds, options.budget, &progress)?;
        Ok((clients, turns))
    };
    let turns = options.clients.iter().copied().map(rounds);
    let turns: Vec<_> = turns.collect::<Result<_>>()?;
    let (left_out, found) = contest.end();
    let mut templates: Vec<String> = Vec::new();
    for query in queries {
        if !templates.contains(&query.template) {
            templates.push(query.template.clone());
        }
    }
    let tests = turns.iter();
    Ok(Report {
        machine,
        triples: database.snapshot().statistics().triples,
        queries: queries.len(),
        rounds: options.rounds,
        templates,
        systems: systems.iter().map(Into::into).collect(),
        found,
        tests: tests
            .map(|(clients, turns)| Test::new(*clients, turns, &left_out))
            .collect(),
        left_out,
    })
}

impl Test {
    fn new(clients: usize, turns: &[Vec<Turn>], left_out: &LeftOut) -> Self {
        let of_system = |(number, turns): (usize, &Vec<Turn>)| {
            TestOfSystem::new(number, clients, turns, left_out)
        };
        let mut systems: Vec<TestOfSystem> = turns.iter().enumerate().map(of_system).collect();
        let first = systems.first().map(TestOfSystem::medians);
        let first = first.unwrap_or_default();
        for system in &mut systems {
            let own = system.medians().into_iter();
            let ratios = own.filter_map(|(template, median)| Some(median / first.get(&template)?));
            system.ratio = geometric_mean(ratios);
        }
        Self { clients, systems }
    }
}

impl TestOfSystem {
    fn new(number: usize, clients: usize, turns: &[Turn], left_out: &LeftOut) -> Self {
        let mut all: BTreeMap<String, (Latencies, Vec<f64>)> = BTreeMap::new();
        for ((template, _), times) in turns.iter().flat_map(|turn| &turn.times) {
            if left_out.counts(number, template) {
                let (latencies, medians) = all.entry(template.clone()).or_default();
                latencies.merge(times);
                medians.push(times.summary().p50_us);
            }
        }
        let times = |(template, (latencies, medians_us)): (String, (Latencies, Vec<f64>))| {
            let times = TemplateTimes {
                is_common: left_out.is_common(&template),
                latency: latencies.summary(),
                medians_us,
            };
            (template, times)
        };
        let rate = |turn: &Turn| turn.questions(left_out) as f64 / turn.seconds(clients, left_out);
        let queries_per_second: Vec<f64> = turns.iter().map(rate).collect();
        Self {
            queries_per_second_median: median(queries_per_second.iter().copied()),
            queries_per_second,
            ratio: 1.0,
            templates: all.into_iter().map(times).collect(),
        }
    }

    /// Returns the medians of the common templates, in microseconds.
    fn medians(&self) -> BTreeMap<String, f64> {
        let common = self.templates.iter().filter(|(_, times)| times.is_common);
        common
            .map(|(template, times)| (template.clone(), times.latency.p50_us))
            .collect()
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(&self.title(), &self.machine.describe(), &self.tables())
    }

    /// Renders a self-contained page.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        self.tables().iter().for_each(|table| page.table(table));
        page.html()
    }

    fn title(&self) -> String {
        format!(
            "{} queries of {} templates on {} triples, {} rounds",
            count(self.queries as u64),
            self.templates.len(),
            count(self.triples),
            self.rounds
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.rates()];
        tables.extend(self.tests.iter().map(|test| self.times(test)));
        let templates = self.templates.iter().map(String::as_str);
        tables.push(found_table(templates, &self.found));
        tables.extend(left_out_table(&self.systems, &self.left_out));
        tables
    }

    fn rates(&self) -> Table {
        let header = [
            "system",
            "clients",
            "queries/s",
            "from",
            "to",
            "times the median",
        ];
        let mut table = Table::new("Rates", &header);
        for test in &self.tests {
            for (system, name) in test.systems.iter().zip(&self.systems) {
                let rounds = system.queries_per_second.iter().copied();
                table.row(vec![
                    name.name.clone(),
                    test.clients.to_string(),
                    figure(system.queries_per_second_median),
                    figure(rounds.clone().fold(f64::INFINITY, f64::min)),
                    figure(rounds.fold(0.0, f64::max)),
                    figure(system.ratio),
                ]);
            }
        }
        table.note(
            "Queries per second, from the slowest round to the fastest, with the median. times the median: geometric \
             mean over the templates of its median divided by the first system's.",
        );
        if !self.left_out.is_empty() {
            table.note("All of these are of the templates that count for every system.");
        }
        table
    }

    fn times(&self, test: &Test) -> Table {
        let mut header = vec!["template".to_owned(), "runs".to_owned()];
        for system in &self.systems {
            header.extend([format!("{} ms", system.name), "p95".to_owned()]);
        }
        for peer in self.systems.iter().skip(1) {
            header.push(format!("{}/{}", peer.name, self.systems[0].name));
        }
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let title = format!(
            "Median and 95th percentile by template, clients: {}",
            test.clients
        );
        let mut table = Table::new(title, &header);
        let dash = || "–".to_owned();
        for template in &self.templates {
            let times: Vec<Option<&LatencySummary>> = (test.systems.iter())
                .map(|system| system.templates.get(template).map(|times| &times.latency))
                .collect();
            let runs = times.iter().flatten().map(|times| times.count).max();
            let mut row = vec![template.clone(), count(runs.unwrap_or(0))];
            for times in &times {
                row.push(times.map_or_else(dash, |times| milliseconds(times.p50_us)));
                row.push(times.map_or_else(dash, |times| milliseconds(times.p95_us)));
            }
            for peer in times.iter().skip(1) {
                let ratio = peer
                    .zip(times[0])
                    .map(|(peer, first)| peer.p50_us / first.p50_us);
                row.push(ratio.map_or_else(dash, figure));
            }
            table.row(row);
        }
        table.note(
            "From the query's text to the last byte of its results. –: does not count, see below.",
        );
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_measured_in_turn_and_those_that_answer_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let text: &[u8] = b"<http://e/a> <http://e/b> <http://e/c> .\n";
        let format = pythia::RdfFormat::NTriples;
        let none = pythia::Compression::None;
        let source = pythia::Source::from_reader("text".to_owned(), Box::new(text), format, none);
        let sources = vec![source.expect("plain text")];
        pythia::load(&path, sources, &Default::default(), &Default::default()).expect("loaded");
        let database = Database::open(&path).expect("opened");
        let named = |id: &str, query: &str| NamedQuery {
            id: id.to_owned(),
            template: id.to_owned(),
            query: query.to_owned(),
        };
        let queries = [
            named("all", "SELECT * { ?s ?p ?o } LIMIT 1"),
            named("none", "SELECT * { ?s <http://e/x> ?o }"),
            named("ask", "ASK {}"),
        ];
        let timeout = Duration::from_secs(10);
        let systems = ["one", "two"].map(|name| System::in_process(name, &database, timeout));
        let options = Options {
            clients: vec![1, 4],
            rounds: 3,
            warm_up: 1,
            budget: None,
            timeout,
        };
        let report = run(&database, &systems, &queries, &options, |_| {}).expect("a report");
        assert!(report.left_out.is_empty());
        assert_eq!(
            (report.found["none"].empty, report.found["ask"].empty),
            (1, 0)
        );
        for test in &report.tests {
            let system = &test.systems[1];
            assert_eq!(system.queries_per_second.len(), 3);
            assert_eq!(system.templates["all"].medians_us.len(), 3);
            assert!(system.ratio > 0.0 && system.queries_per_second_median > 0.0);
        }
        let text = report.text();
        assert!(
            text.contains("two/one") && report.html().contains("two/one"),
            "{text}"
        );
        let wrong = [named("wrong", "SELECT * { ?s ?p }")];
        let error = run(&database, &systems, &wrong, &options, |_| {}).expect_err("no query");
        assert!(error.to_string().starts_with("wrong: "), "{error}");
    }
}
