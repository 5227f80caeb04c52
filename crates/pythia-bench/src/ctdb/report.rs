//! The experiment's report as text and as a page of HTML: a table for each of the paper, and one of the queries.

use super::paper::{
    JOIN_TABLES, JoinTable, LOAD_RATES, PATTERN_TABLES, PatternTable, TRIPLES, Times,
};
use super::{Measurement, Report, Test, TestReport, plural};
use crate::page::Page;
use crate::table::{Table, count, figure, milliseconds, plain_text};

/// The columns of a table of times, after the first.
const COLUMNS: [&str; 8] = [
    "paper: TDB ms",
    "paper: CTDB1 ms",
    "mean ms",
    "p50 ms",
    "p99 ms",
    "results",
    "TDB / mean",
    "CTDB1 / mean",
];

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(&self.title(), &self.machine.describe(), &self.tables())
    }

    /// Renders a self-contained page with the tables.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        self.tables().iter().for_each(|table| page.table(table));
        page.html()
    }

    fn title(&self) -> String {
        format!(
            "The experiment of Clustered TDB: {} triples, {} properties, {} MiB of cache, {} queries a user, seed {}",
            count(self.store.triples),
            count(self.store.properties),
            self.store.cache_bytes >> 20,
            count(self.queries as u64),
            self.seed,
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.load_table()];
        tables.extend(PATTERN_TABLES.iter().map(|paper| self.pattern_table(paper)));
        tables.extend(self.other_pattern_tables());
        tables.extend(JOIN_TABLES.iter().map(|paper| self.join_table(paper)));
        tables.push(self.query_table());
        tables
    }

    fn load_table(&self) -> Table {
        let mut table = Table::new(
            "Table 1. Load rates (triples/s)",
            &["paper's system", "paper", "measured", "ratio"],
        );
        for (system, rate) in LOAD_RATES {
            let measured = self.load.as_ref().map(|load| load.triples_per_second);
            table.row(vec![
                system.to_owned(),
                figure(rate),
                measured.map_or_else(String::new, figure),
                measured.map_or_else(String::new, |measured| figure(measured / rate)),
            ]);
        }
        match &self.load {
            Some(load) => table.note(format!(
                "{} triples in {} s; the time includes the generation of the data on the same cores.",
                count(load.triples),
                figure(load.seconds)
            )),
            None => table.note("The store existed, so no load was measured (see --triples)."),
        }
        table.note(format!(
            "The paper loaded {} million triples on 8 cores at 2.4 GHz, with 32 GB of memory and two disks of 10,000 rpm (2008).",
            TRIPLES / 1_000_000
        ));
        table
    }

    fn pattern_table(&self, paper: &PatternTable) -> Table {
        let title = format!(
            "Table {}. {}",
            paper.number,
            pattern_title(paper.users, paper.with_terms)
        );
        let mut table = table_of_times(title, "index");
        for (test, times) in Test::PATTERNS.into_iter().zip(paper.times) {
            let measured = self.measurement(test, paper.users, paper.with_terms);
            table.row(row(test.name().to_owned(), Some(times), measured));
        }
        ratio_notes(&mut table, paper.number);
        table
    }

    /// Returns tables of single triple patterns for numbers of users that the paper does not have.
    fn other_pattern_tables(&self) -> Vec<Table> {
        let measured = &self.test(Test::Subject).measurements;
        let is_in_paper = |measured: &&Measurement| {
            PATTERN_TABLES
                .iter()
                .any(|paper| paper.users == measured.users)
        };
        let others = measured.iter().filter(|measured| !is_in_paper(measured));
        others
            .map(
                |Measurement {
                     users, with_terms, ..
                 }| {
                    let mut table = table_of_times(pattern_title(*users, *with_terms), "index");
                    for test in Test::PATTERNS {
                        let measured = self.measurement(test, *users, *with_terms);
                        table.row(row(test.name().to_owned(), None, measured));
                    }
                    table
                },
            )
            .collect()
    }

    fn join_table(&self, paper: &JoinTable) -> Table {
        let question = paper.test.question();
        let title = format!(
            "Table {}. {}: {question}",
            paper.number,
            capitalised(paper.test.name())
        );
        let mut table = table_of_times(title, "users");
        let measurements = &self.test(paper.test).measurements;
        for (users, times) in paper.times {
            let measured = self.measurement(paper.test, users, false);
            table.row(row(users_label(users, false), Some(times), measured));
        }
        let others = measurements.iter().filter(|measured| {
            measured.with_terms
                || paper
                    .times
                    .iter()
                    .all(|(users, _)| *users != measured.users)
        });
        for measured in others {
            let label = users_label(measured.users, measured.with_terms);
            table.row(row(label, None, Some(measured)));
        }
        table.note("The paper ran the joins without terms.");
        if paper.test == Test::Join4 {
            table.note(
                "The paper has the same times for one user as in Table 6, perhaps by mistake.",
            );
        }
        ratio_notes(&mut table, paper.number);
        table
    }

    fn query_table(&self) -> Table {
        let mut table = Table::new(
            "The queries of each test",
            &[
                "test",
                "users",
                "different",
                "found nothing",
                "results",
                "queries/s",
                "device pages",
            ],
        );
        for test in &self.tests {
            for measured in test
                .measurements
                .iter()
                .filter(|measured| !measured.with_terms)
            {
                table.row(vec![
                    test.test.name().to_owned(),
                    measured.users.to_string(),
                    count(measured.different_queries),
                    count(measured.found_nothing),
                    figure(measured.results_mean),
                    figure(measured.queries_per_second),
                    figure(measured.device_pages_per_query),
                ]);
            }
            table.note(format!("{}: {}", test.test.name(), test.query));
        }
        table.note("Parameters are drawn at random from the data. different: queries of all users that differ from each other.");
        table.note("results, device pages: of a query, on average. The rows are of the runs without terms.");
        table
    }

    fn test(&self, test: Test) -> &TestReport {
        let report = self.tests.iter().find(|report| report.test == test);
        report.expect("a report has all tests")
    }

    fn measurement(&self, test: Test, users: usize, with_terms: bool) -> Option<&Measurement> {
        let mut measurements = self.test(test).measurements.iter();
        measurements.find(|measured| (measured.users, measured.with_terms) == (users, with_terms))
    }
}

fn pattern_title(users: usize, with_terms: bool) -> String {
    format!("Single triple patterns, {}", users_label(users, with_terms))
}

fn users_label(users: usize, with_terms: bool) -> String {
    let terms = if with_terms { "with" } else { "without" };
    format!("{users} user{}, {terms} terms", plural(users))
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

fn table_of_times(title: String, first: &str) -> Table {
    let header: Vec<&str> = [first].into_iter().chain(COLUMNS).collect();
    Table::new(title, &header)
}

/// Returns a row of a table of times; cells without a figure stay empty.
fn row(label: String, paper: Option<Times>, measured: Option<&Measurement>) -> Vec<String> {
    let mut cells = vec![label];
    match paper {
        Some(times) => cells.extend(times.map(figure)),
        None => cells.extend([String::new(), String::new()]),
    }
    let Some(measured) = measured else {
        return cells;
    };
    let latency = &measured.latency;
    cells.extend([latency.mean_us, latency.p50_us, latency.p99_us].map(milliseconds));
    cells.push(figure(measured.results_mean));
    if let Some(times) = paper {
        cells.extend(times.map(|time| figure(time * 1e3 / latency.mean_us)));
    }
    cells
}

/// Explains the ratios below the first table that has some, and refers to it below the others.
fn ratio_notes(table: &mut Table, number: u32) {
    let first = PATTERN_TABLES[0].number;
    if number != first {
        table.note(format!("The ratios are upper bounds: see Table {first}."));
        return;
    }
    table.note(format!(
        "The paper's times are of a test on {} million triples and hardware of 2008. The paper does not say how many queries a \
         test has.",
        TRIPLES / 1_000_000
    ));
    table.note(
        "A ratio is the paper's time of a test divided by the mean time of one query here. If a test of the paper has n \
         queries, the ratio of the times of one query is n times smaller: the ratios are upper bounds.",
    );
    table.note(
        "Less data makes the ratios larger, too: by predicate, the number of results grows with the data (the paper's properties have          about 94,000 statements each), and below two million triples so do those of the joins.",
    );
}
