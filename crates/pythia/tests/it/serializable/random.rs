//! Random queries and updates of serializable transactions, beside random commits of others.
//!
//! A transaction that commits must have read what it would have read after the commits of others: this finds answers
//! that depend on something that was not recorded.
//!
//! ```text
//! PYTHIA_SERIALIZABLE_CASES=100000 PYTHIA_SERIALIZABLE_SEED=1 \
//!     cargo test --release --workspace --test it serializable::random
//! ```

use std::time::Duration;

use pythia::{
    Database, Isolation, Query, QueryError, QueryOptions, Transaction, Update, UpdateOptions,
};

use crate::differential::generator::Generator;
use crate::support::{Answer, answer_of, collapsed, quads_of, writable};

/// Number of transactions in the tests.
const CASES: u64 = 600;
/// Transactions on each graph.
const PER_GRAPH: u64 = 10;
/// The most queries of a transaction.
const QUERIES: usize = 2;
/// A graph with more quads is given up: the next one is as good, and faster.
const QUADS_MAX: usize = 500;
const TIMEOUT: Duration = Duration::from_secs(2);

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Committed,
    Conflict,
    /// A query or an update takes too long, or makes too much, or nothing was changed.
    GivenUp,
}

/// A query without LIMIT, whose choice of rows is free.
fn query(generator: &mut Generator) -> String {
    let lines = generator.query();
    let lines = lines.into_iter().filter(|line| !line.starts_with("LIMIT "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a small change that others commit meanwhile.
fn other(generator: &mut Generator, database: &Database) -> String {
    let quads: Vec<String> = quads_of(database)
        .iter()
        .map(|quad| quad.to_string())
        .collect();
    let known: Vec<&String> = quads.iter().filter(|quad| !quad.contains("_:")).collect();
    if generator.chance(50) && !known.is_empty() {
        let number = generator.below(known.len());
        return format!("DELETE DATA {{ {} }}", in_graph(known[number]));
    }
    let mut lines = generator.data();
    lines.retain(|line| !line.contains("_:"));
    lines.truncate(1 + generator.below(2));
    let lines: Vec<String> = lines.iter().map(|line| in_graph(line)).collect();
    format!("INSERT DATA {{ {} }}", lines.join(" . "))
}

/// Returns a line of N-Quads as SPARQL.
fn in_graph(line: &str) -> String {
    let line = line.trim_end_matches(['.', ' ']);
    match line.rsplit_once(" <http://e/g") {
        Some((triple, graph)) => format!("GRAPH <http://e/g{graph} {{ {triple} }}"),
        None => line.to_owned(),
    }
}

fn query_options() -> QueryOptions {
    QueryOptions {
        timeout: Some(TIMEOUT),
        ..QueryOptions::default()
    }
}

/// Returns the answer of a query in a transaction.
fn ask(transaction: &Transaction<&Database>, text: &str) -> Result<Answer, QueryError> {
    let query = Query::parse(text, None)?;
    let prepared = transaction.prepare_parsed(&query, &query_options())?;
    Ok(answer_of(prepared.execute()?)?.sorted())
}

fn change(transaction: &mut Transaction<&Database>, text: &str) -> Result<(), QueryError> {
    let update = Update::parse(text, None)?;
    let options = UpdateOptions {
        query: query_options(),
        ..UpdateOptions::default()
    };
    transaction.update_parsed(&update, &options).map(|_| ())
}

/// The operations of a transaction, and what it reads.
struct Script {
    queries: Vec<String>,
    update: String,
}

impl Script {
    /// Returns the answers of the queries; the last is asked after the update.
    fn run(&self, transaction: &mut Transaction<&Database>) -> Result<Vec<Answer>, QueryError> {
        let (last, first) = self.queries.split_last().expect("there are some");
        let asked = first.iter().map(|query| ask(transaction, query));
        let mut answers = asked.collect::<Result<Vec<_>, _>>()?;
        change(transaction, &self.update)?;
        answers.push(ask(transaction, last)?);
        change(
            transaction,
            "INSERT DATA { <http://e/it> <http://e/has> <http://e/run> }",
        )?;
        Ok(answers)
    }
}

fn case(generator: &mut Generator, database: &Database) -> Result<Outcome, String> {
    let quads: Vec<_> = quads_of(database)
        .iter()
        .map(|quad| quad.into_owned())
        .collect();
    if quads.len() > QUADS_MAX {
        return Ok(Outcome::GivenUp);
    }
    let queries = 1 + generator.below(QUERIES);
    let script = Script {
        queries: (0..queries).map(|_| query(generator)).collect(),
        update: match generator.chance(40) {
            true => "INSERT DATA { <http://e/n0> <http://e/p0> <http://e/n1> }".to_owned(),
            false => generator.update(&quads),
        },
    };
    let other = other(generator, database);
    let mut transaction = database
        .transaction_with(Isolation::Serializable)
        .expect("a writer");
    let Ok(answers) = script.run(&mut transaction) else {
        return Ok(Outcome::GivenUp);
    };
    database.update(&other).map_err(|error| error.to_string())?;
    let before = quads_of(database);
    match transaction.commit() {
        // Without changes, its place is where it began.
        Ok(committed) if committed.position.is_none() => return Ok(Outcome::GivenUp),
        Ok(_) => {}
        Err(error) if error.is_retryable() => return Ok(Outcome::Conflict),
        Err(error) => return Err(error.to_string()),
    }
    // The same, one after the other.
    let serial = writable(&before.to_string());
    let mut transaction = serial.transaction().expect("a writer");
    let Ok(expected) = script.run(&mut transaction) else {
        return Ok(Outcome::GivenUp);
    };
    transaction.commit().map_err(|error| error.to_string())?;
    let (ours, theirs) = (
        collapsed(&quads_of(database)),
        collapsed(&quads_of(&serial)),
    );
    if answers == expected && ours == theirs {
        return Ok(Outcome::Committed);
    }
    let Script { queries, update } = script;
    let queries = queries.join("\n--\n");
    Err(format!(
        "BEFORE\n{quads:#?}\nQUERIES\n{queries}\nUPDATE\n{update}\nOTHER\n{other}\n\
         READ {answers:#?}\nSERIAL {expected:#?}\nOURS {ours:#?}\nSERIAL {theirs:#?}"
    ))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

#[test]
fn what_a_transaction_has_read_is_what_it_would_read_at_its_commit() {
    let first = number("PYTHIA_SERIALIZABLE_SEED").unwrap_or(0);
    let cases = number("PYTHIA_SERIALIZABLE_CASES").unwrap_or(CASES);
    let (mut committed, mut conflicts) = (0, 0);
    for seed in first..first + cases.div_ceil(PER_GRAPH) {
        let mut generator = Generator::new(seed);
        let database = writable(&generator.data().join("\n"));
        for _ in 0..PER_GRAPH {
            match case(&mut generator, &database) {
                Ok(Outcome::Committed) => committed += 1,
                Ok(Outcome::Conflict) => conflicts += 1,
                Ok(Outcome::GivenUp) => {}
                Err(problem) => panic!("seed {seed}\n{problem}"),
            }
        }
    }
    eprintln!("{committed} committed, {conflicts} conflicts");
    assert!(committed > cases / 50 && conflicts > cases / 50);
}
