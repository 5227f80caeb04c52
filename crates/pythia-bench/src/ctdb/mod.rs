//! The experiment of "Clustered TDB: A Clustered Triple Store for Jena" (§6, Tables 1–10) on one node: `pythia bench ctdb`.
//!
//! [`load`] makes a store of generated people ([`pythia_generate::people`]) and measures its load rate. [`run`] draws the
//! queries of eight tests from the data, and lets 1 and 5 users (threads of this process) run them, without and with the
//! retrieval of terms: the paper's "NodeID to Node conversion". Before each of these runs, the cache is emptied and warmed
//! as in the paper. Latencies are as the caller sees them: parse, plan, run.
//!
//! The paper's figures beside the measured ones are those of standalone TDB and of Clustered TDB on one machine (CTDB1).

mod draw;
mod load;
mod paper;
mod report;
#[cfg(test)]
mod tests;
mod users;

use anyhow::{Context, Result, ensure};
use pythia::{Database, QueryOptions};
use pythia_generate::people;
use serde::Serialize;

use crate::machine::Machine;
use crate::timed::{self, Output};
pub use load::{Load, load};
pub use users::Measurement;

/// Queries of each single triple pattern that warm the cache.
const WARM_UP_QUERIES: usize = 20;

/// Parameters of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of users, at least 1 each.
    pub users: Vec<usize>,
    /// Queries of each user in each test, at least 1.
    pub queries: usize,
    /// The seed of the queries' parameters.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            users: vec![1, 5],
            queries: 100,
            seed: 1,
        }
    }
}

/// A test of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// All statements of a subject (§6.3.1, "SPO index").
    Subject,
    /// All statements of a property ("POS index").
    Predicate,
    /// All statements with an object ("OSP index").
    Object,
    /// The people who like a cheese and live in a town (§6.3.3).
    Join1,
    /// The books and the interests of all people.
    Join2,
    /// All statements about all books.
    Join3,
    /// The people who like the books that a person likes.
    Join4,
    /// All statements of the property by which a person feels about a thing.
    Join5,
}

impl Test {
    /// All tests, in the paper's order.
    pub const ALL: [Self; 8] = [
        Self::Subject,
        Self::Predicate,
        Self::Object,
        Self::Join1,
        Self::Join2,
        Self::Join3,
        Self::Join4,
        Self::Join5,
    ];
    /// The tests of Tables 2 to 5.
    const PATTERNS: [Self; 3] = [Self::Subject, Self::Predicate, Self::Object];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subject => "subject (SPO)",
            Self::Predicate => "predicate (POS)",
            Self::Object => "object (OSP)",
            Self::Join1 => "join 1",
            Self::Join2 => "join 2",
            Self::Join3 => "join 3",
            Self::Join4 => "join 4",
            Self::Join5 => "join 5",
        }
    }

    /// Returns its question.
    pub fn question(self) -> &'static str {
        match self {
            Self::Subject => "all statements of a subject",
            Self::Predicate => "all statements of a property",
            Self::Object => "all statements with an object",
            Self::Join1 => "the people who like a cheese and live in a town",
            Self::Join2 => "the books that each person likes, and their interests",
            Self::Join3 => "everything about every book",
            Self::Join4 => "the people who like the books that a person likes",
            Self::Join5 => "those who feel about anything as a person feels about a thing",
        }
    }

    /// Returns the names of its parameters.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Subject => &["subject"],
            Self::Predicate => &["predicate"],
            Self::Object => &["object"],
            Self::Join1 => &["cheese", "town"],
            Self::Join2 | Self::Join3 => &[],
            Self::Join4 => &["person"],
            Self::Join5 => &["person", "thing"],
        }
    }

    /// Returns the query with parameters, written `%name%`.
    fn template(self) -> String {
        let (likes_cheese, lives_in) = (people::LIKES_CHEESE, people::LIVES_IN);
        let (likes_book, has_interests) = (people::LIKES_BOOK, people::HAS_INTERESTS);
        let (type_, book) = (people::TYPE, people::BOOK);
        match self {
            Self::Subject => "SELECT ?p ?o WHERE { %subject% ?p ?o }".to_owned(),
            Self::Predicate => "SELECT ?s ?o WHERE { ?s %predicate% ?o }".to_owned(),
            Self::Object => "SELECT ?s ?p WHERE { ?s ?p %object% }".to_owned(),
            Self::Join1 => format!(
                "SELECT ?person WHERE {{ ?person <{likes_cheese}> %cheese% . ?person <{lives_in}> %town% }}"
            ),
            Self::Join2 => format!(
                "SELECT ?person ?book ?interest WHERE \
                 {{ ?person <{likes_book}> ?book . ?person <{has_interests}> ?interest }}"
            ),
            Self::Join3 => {
                format!("SELECT ?book ?p ?o WHERE {{ ?book <{type_}> <{book}> . ?book ?p ?o }}")
            }
            Self::Join4 => format!(
                "SELECT ?person ?book WHERE {{ %person% <{likes_book}> ?book . ?person <{likes_book}> ?book }}"
            ),
            Self::Join5 => "SELECT ?s ?p ?o WHERE { %person% ?p %thing% . ?s ?p ?o }".to_owned(),
        }
    }

    /// Returns the query with values in N-Triples syntax.
    fn query(self, values: &[String]) -> String {
        let mut query = self.template();
        for (parameter, value) in self.parameters().iter().zip(values) {
            query = query.replace(&format!("%{parameter}%"), value);
        }
        query
    }
}

/// Facts about the store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreFacts {
    /// Distinct triples.
    pub triples: u64,
    /// Distinct properties.
    pub properties: u64,
    /// Budget of the page cache.
    pub cache_bytes: u64,
}

/// Results of one test.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    /// The test.
    pub test: Test,
    /// Its question.
    pub question: &'static str,
    /// Its query, with `%parameters%`.
    pub query: String,
    /// One for each number of users, without and with terms.
    pub measurements: Vec<Measurement>,
}

/// The experiment's report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The store.
    pub store: StoreFacts,
    /// The load of the store; `None` if the store existed.
    pub load: Option<Load>,
    /// The seed of the parameters.
    pub seed: u64,
    /// Queries of each user in each test.
    pub queries: usize,
    /// The tests, in the paper's order.
    pub tests: Vec<TestReport>,
}

/// Runs the tests on a store of people. `load` goes into the report; `progress` gets the name of every part before it
/// begins.
/// Fails if the store lacks the data of a test, or if a query fails.
pub fn run(
    database: &Database,
    load: Option<Load>,
    options: &Options,
    mut progress: impl FnMut(&str),
) -> Result<Report> {
    let users_max = options.users.iter().copied().max().unwrap_or(0);
    ensure!(
        users_max > 0 && options.queries > 0 && !options.users.contains(&0),
        "the numbers of users and of queries are at least 1"
    );
    let machine = Machine::now();
    let queries = options.queries.checked_mul(users_max);
    let queries = queries.context("fewer users or queries: there are too many to count")?;
    progress("draw parameters from the data");
    let drawn = draw::draw(database, queries, options.seed)?;
    let warm_up = warm_up_queries(database, &drawn, options.seed)?;
    let mut tests: Vec<TestReport> = Test::ALL.into_iter().map(empty_report).collect();
    for output in [Output::Ids, Output::Terms] {
        for users in &options.users {
            let (plural, terms) = (plural(*users), terms(output));
            progress(&format!("{users} user{plural}, {terms}"));
            run_cold(database, &warm_up)?;
            for (report, queries) in tests.iter_mut().zip(&drawn) {
                let measurement = users::run(database, queries, *users, options.queries, output)
                    .with_context(|| report.test.name())?;
                report.measurements.push(measurement);
            }
        }
    }
    let snapshot = database.snapshot();
    let statistics = snapshot.statistics();
    Ok(Report {
        machine,
        store: StoreFacts {
            triples: statistics.triples,
            properties: statistics.predicates.len() as u64,
            cache_bytes: database.store().pool().budget_bytes() as u64,
        },
        load,
        seed: options.seed,
        queries: options.queries,
        tests,
    })
}

/// Returns single triple patterns with other parameters than those of the tests.
fn warm_up_queries(database: &Database, drawn: &[Vec<String>], seed: u64) -> Result<Vec<String>> {
    let mut queries = Vec::new();
    for test in Test::PATTERNS {
        let others = draw::draw_test(database, test, WARM_UP_QUERIES, !seed)?;
        let is_other = |query: &String| !drawn.iter().any(|tested| tested.contains(query));
        queries.extend(others.into_iter().filter(is_other));
    }
    Ok(queries)
}

/// Empties the cache and warms it with these queries, with terms, as the paper does (§6.1).
fn run_cold(database: &Database, warm_up: &[String]) -> Result<()> {
    database.clear_cache()?;
    let options = QueryOptions::default();
    for query in warm_up {
        timed::run(database, query, &options, Output::Terms)?;
    }
    Ok(())
}

fn empty_report(test: Test) -> TestReport {
    TestReport {
        test,
        question: test.question(),
        query: test.template(),
        measurements: Vec::new(),
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn terms(output: Output) -> &'static str {
    match output {
        Output::Ids => "without terms",
        Output::Terms | Output::Serialized => "with terms",
    }
}
