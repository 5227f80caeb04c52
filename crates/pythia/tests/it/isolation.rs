//! Snapshot isolation, checked on the histories of random concurrent transactions.
//!
//! Transactions read and write registers: quads `(register, v, value)`, of which each register has
//! one. Every value is written once, so a read tells which commit it has seen. A campaign is the same
//! test with more of them:
//!
//! ```text
//! PYTHIA_ISOLATION_TRANSACTIONS=100000 PYTHIA_ISOLATION_SEED=1 \
//!     cargo test --release --workspace --test it histories
//! ```

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use pythia::{Database, QueryError, Results, Transaction};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{restless, writable};

const THREADS: u64 = 4;
/// Transactions in the tests, of each seed.
const TRANSACTIONS: u64 = 400;
const SEEDS: u64 = 3;

/// One transaction as its thread saw it.
#[derive(Clone, Debug)]
struct Record {
    /// A commit that was acknowledged before it began.
    began_after: u64,
    /// Registers read before they were written here, with the values found.
    reads: Vec<(usize, u64)>,
    /// Registers written: the value before, and the last value.
    writes: BTreeMap<usize, (u64, u64)>,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Committed(u64),
    Conflict,
    RolledBack,
    /// Nothing was written.
    ReadOnly,
}

/// What all threads of a run share.
struct Run {
    database: Database,
    /// Whether changes are moved into new bases meanwhile: what began before conflicts then, too.
    is_restless: bool,
    registers: usize,
    /// The last value written, by anyone.
    values: AtomicU64,
    /// The last commit acknowledged.
    acknowledged: AtomicU64,
    records: Mutex<Vec<Record>>,
}

fn register(number: usize) -> NamedNode {
    NamedNode::new_unchecked(format!("http://e/r{number}"))
}

fn quad(number: usize, value: u64) -> Quad {
    let v = NamedNode::new_unchecked("http://e/v");
    let value = Literal::from(value as i64);
    Quad::new(register(number), v, value, GraphName::DefaultGraph)
}

/// The registers and values among the solutions of `?r ?v`.
fn found(results: Results) -> Vec<(usize, u64)> {
    let Results::Solutions(mut solutions) = results else {
        panic!("no solutions");
    };
    let mut found = Vec::new();
    while let Some(batch) = solutions.next_batch().unwrap() {
        for row in 0..batch.len() {
            let (Some(Term::NamedNode(register)), Some(Term::Literal(value))) =
                (batch.term(row, 0), batch.term(row, 1))
            else {
                panic!("an odd register");
            };
            let number = register.as_str().strip_prefix("http://e/r").unwrap();
            found.push((number.parse().unwrap(), value.value().parse().unwrap()));
        }
    }
    found
}

impl Run {
    fn new(registers: usize, is_restless: bool) -> Self {
        let data: String = (0..registers)
            .map(|r| format!("{} .\n", quad(r, 0)))
            .collect();
        Self {
            database: match is_restless {
                true => restless(&data),
                false => writable(&data),
            },
            is_restless,
            registers,
            values: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            records: Mutex::default(),
        }
    }

    /// One reader's look at all registers at once.
    fn read_all(&self) {
        let began_after = self.acknowledged.load(Ordering::SeqCst);
        let query = "SELECT ?r ?v { ?r <http://e/v> ?v }";
        let reads = found(self.database.query(query).unwrap());
        assert_eq!(reads.len(), self.registers, "each has one value: {reads:?}");
        self.records.lock().unwrap().push(Record {
            began_after,
            reads,
            writes: BTreeMap::new(),
            outcome: Outcome::ReadOnly,
        });
    }

    fn transaction(&self, random: &mut StdRng) {
        let began_after = self.acknowledged.load(Ordering::SeqCst);
        let mut transaction = self.database.transaction().unwrap();
        let (mut reads, mut writes) = (Vec::new(), BTreeMap::new());
        for _ in 0..random.random_range(1..5) {
            let number = random.random_range(0..self.registers);
            let value = read(&transaction, number, random.random_bool(0.5));
            match writes.get(&number) {
                Some(&(_, own)) => assert_eq!(value, own, "its own write"),
                None => reads.push((number, value)),
            }
            if random.random_bool(0.5) {
                let new = self.values.fetch_add(1, Ordering::SeqCst) + 1;
                write(
                    &mut transaction,
                    number,
                    value,
                    new,
                    random.random_bool(0.5),
                );
                let before = writes.get(&number).map_or(value, |(before, _)| *before);
                writes.insert(number, (before, new));
            }
            if random.random_bool(0.2) {
                std::thread::yield_now();
            }
        }
        let outcome = match random.random_range(0..10) {
            0 => {
                transaction.rollback();
                Outcome::RolledBack
            }
            _ => match transaction.commit() {
                Ok(committed) => match committed.position {
                    Some(position) => Outcome::Committed(position.0),
                    None => Outcome::ReadOnly,
                },
                Err(error) if error.is_retryable() => Outcome::Conflict,
                Err(error) => panic!("{error}"),
            },
        };
        if let Outcome::Committed(position) = outcome {
            self.acknowledged.fetch_max(position, Ordering::SeqCst);
        }
        self.records.lock().unwrap().push(Record {
            began_after,
            reads,
            writes,
            outcome,
        });
    }
}

/// The value of a register, by a query or by what is below SPARQL.
fn read(transaction: &Transaction<&Database>, number: usize, by_query: bool) -> u64 {
    let all = match by_query {
        true => format!(
            "SELECT ?r ?v {{ VALUES ?r {{ {} }} ?r <http://e/v> ?v }}",
            register(number)
        ),
        false => format!(
            "SELECT ?r ?v {{ ?r ?p ?v FILTER(?r = {}) }}",
            register(number)
        ),
    };
    let values = found(transaction.query(&all).unwrap());
    assert_eq!(values.len(), 1, "a register has one value: {values:?}");
    assert!(transaction.contains(&quad(number, values[0].1)).unwrap());
    values[0].1
}

fn write(
    transaction: &mut Transaction<&Database>,
    number: usize,
    old: u64,
    new: u64,
    by_update: bool,
) {
    if by_update {
        let r = register(number);
        let text =
            format!("DELETE {{ {r} ?p ?old }} INSERT {{ {r} ?p {new} }} WHERE {{ {r} ?p ?old }}");
        let done = transaction.update(&text).unwrap();
        assert_eq!((done.added, done.removed), (1, 1));
        return;
    }
    assert!(transaction.remove(&quad(number, old)).unwrap());
    assert!(transaction.insert(&quad(number, new)).unwrap());
}

/// What each register was after which commit, from the first.
type Versions = Vec<Vec<(u64, u64)>>;

/// The versions of all registers, from the commits in order. Fails if a commit did not replace what
/// was there: that would be a lost update.
fn versions(run: &Run, records: &[Record]) -> Result<Versions, String> {
    let mut versions: Versions = vec![vec![(0, 0)]; run.registers];
    let mut commits: Vec<(u64, &Record)> = Vec::new();
    for record in records {
        if let Outcome::Committed(position) = record.outcome {
            commits.push((position, record));
        }
    }
    commits.sort_by_key(|(position, _)| *position);
    for (number, (position, record)) in commits.into_iter().enumerate() {
        if position != number as u64 + 1 {
            return Err(format!("commit {position} is number {}", number + 1));
        }
        for (&register, &(before, after)) in &record.writes {
            let (_, last) = versions[register][versions[register].len() - 1];
            if last != before {
                return Err(format!(
                    "commit {position} lost {last} of {register}: {record:?}"
                ));
            }
            versions[register].push((position, after));
        }
    }
    Ok(versions)
}

/// Checks one transaction: there is a state that it has read, as new as it must be; and a conflict is
/// with a commit that the state does not have.
fn check(record: &Record, versions: &Versions, is_restless: bool) -> Result<(), String> {
    let (mut from, mut to) = (record.began_after, u64::MAX);
    for &(register, value) in &record.reads {
        let chain = &versions[register];
        let Some(place) = chain.iter().position(|(_, written)| *written == value) else {
            return Err(format!(
                "{value} of {register} was never committed: {record:?}"
            ));
        };
        from = from.max(chain[place].0);
        to = to.min(
            chain
                .get(place + 1)
                .map_or(u64::MAX, |(position, _)| *position),
        );
    }
    if from >= to {
        return Err(format!(
            "no state between commits has all it read: {record:?}"
        ));
    }
    let is_later = |register: &usize| {
        versions[*register]
            .iter()
            .any(|(position, _)| *position > from)
    };
    match record.outcome {
        Outcome::Committed(position) if position <= from => Err(format!(
            "it has read commit {from}, which is after its own: {record:?}"
        )),
        Outcome::Conflict if !is_restless && !record.writes.keys().any(is_later) => {
            Err(format!("nobody else has written what it wrote: {record:?}"))
        }
        _ => Ok(()),
    }
}

fn history(seed: u64, transactions: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let registers = random.random_range(2..9);
    let run = Run::new(registers, seed % 2 == 1);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let run = &run;
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed * 1000 + thread);
                for _ in 0..transactions / THREADS {
                    match random.random_range(0..5) {
                        0 => run.read_all(),
                        _ => run.transaction(&mut random),
                    }
                }
            });
        }
    });
    let records = run.records.lock().unwrap().clone();
    let versions = versions(&run, &records).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    for record in &records {
        if let Err(fault) = check(record, &versions, run.is_restless) {
            panic!("seed {seed}: {fault}");
        }
    }
    let last = found(
        run.database
            .query("SELECT ?r ?v { ?r <http://e/v> ?v }")
            .unwrap(),
    );
    assert_eq!(last.len(), run.registers);
    for (register, value) in last {
        assert_eq!(
            versions[register].last().map(|(_, last)| *last),
            Some(value),
            "seed {seed}"
        );
    }
    let of = |outcome: fn(&Outcome) -> bool| records.iter().filter(|r| outcome(&r.outcome)).count();
    let committed = of(|outcome| matches!(outcome, Outcome::Committed(_)));
    assert!(
        committed > records.len() / 10,
        "seed {seed}: only {committed} commits"
    );
}

/// A number that an environment variable may give.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

#[test]
fn histories_of_concurrent_transactions_are_snapshot_isolated() {
    let first = number("PYTHIA_ISOLATION_SEED").unwrap_or(0);
    let transactions = number("PYTHIA_ISOLATION_TRANSACTIONS").unwrap_or(TRANSACTIONS);
    for seed in first..first + SEEDS {
        history(seed, transactions);
    }
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let run = Run::new(2, false);
    let record = |reads: &[(usize, u64)], writes: &[(usize, (u64, u64))], outcome| Record {
        began_after: 0,
        reads: reads.to_vec(),
        writes: writes.iter().copied().collect(),
        outcome,
    };
    let one = record(
        &[(0, 0), (1, 0)],
        &[(0, (0, 1)), (1, (0, 2))],
        Outcome::Committed(1),
    );
    let two = record(&[(0, 1)], &[(0, (1, 3))], Outcome::Committed(2));
    let good = versions(&run, &[two.clone(), one.clone()]).unwrap();
    assert_eq!(good, [vec![(0, 0), (1, 1), (2, 3)], vec![(0, 0), (1, 2)]]);
    let read = |reads: &[(usize, u64)]| check(&record(reads, &[], Outcome::ReadOnly), &good, false);
    assert!(read(&[(0, 1), (1, 2)]).is_ok() && read(&[(0, 3), (1, 2)]).is_ok());
    // Half of a commit; a value that nobody committed; a state older than the one acknowledged.
    assert!(read(&[(0, 1), (1, 0)]).is_err() && read(&[(1, 9)]).is_err());
    let late = Record {
        began_after: 2,
        ..record(&[(0, 1)], &[], Outcome::ReadOnly)
    };
    assert!(check(&late, &good, false).is_err());
    // A lost update, a gap, a conflict with nobody.
    let lost = record(&[(0, 0)], &[(0, (0, 4))], Outcome::Committed(2));
    assert!(versions(&run, &[one.clone(), lost]).is_err());
    assert!(versions(&run, &[two]).is_err());
    let alone = record(&[(1, 2)], &[(1, (2, 5))], Outcome::Conflict);
    assert!(check(&alone, &good, false).is_err());
}

#[test]
fn a_conflict_says_that_it_can_be_retried() {
    let error = QueryError::Store(pythia::StoreError::Conflict);
    assert!(error.is_retryable() && !QueryError::Timeout.is_retryable());
}
