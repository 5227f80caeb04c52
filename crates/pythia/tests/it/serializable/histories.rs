//! Random histories, checked by the method of Elle (Kingsbury and Alvaro, *Elle: Inferring Isolation Anomalies from
//! Experimental Observations*, VLDB 2020).
//!
//! Transactions append to lists and write registers. Every value is written once, so that what a transaction has read
//! tells whose writes it saw. The history becomes a graph of transactions: an edge to who overwrote a version (ww), to who
//! read it (wr), and from who read it to who overwrote it (rw). A cycle is an anomaly: without rw edges under any level, with
//! one rw edge under snapshot isolation, with any number under serializability. Write skew has two.
//!
//! Most histories are made by one thread that runs several transactions by turns, so that a seed always makes the same
//! history.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use pythia::{Database, Isolation, Results, Transaction};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{answer_of, restless, writable};

/// Transactions of a history in the tests, and those that are open at the same time.
const TRANSACTIONS: u64 = 300;
const OPEN: usize = 5;
const SEEDS: u64 = 4;
const THREADS: u64 = 4;

/// A place that transactions read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A quad with a value.
    Register(u64),
    /// A quad with a text of values.
    List(u64),
    /// A quad for each value, with its place. An append counts the quads before it: nothing but what it reads keeps two
    /// from taking the same place.
    Counted(u64),
}

/// One transaction, as its client saw it.
#[derive(Clone, Debug)]
struct Record {
    isolation: Isolation,
    /// The values of keys when they were first read; of a register, one.
    reads: Vec<(Key, Vec<u64>)>,
    writes: BTreeMap<Key, u64>,
    /// Its commit; `None` if nothing was written.
    position: Option<u64>,
}

impl Key {
    /// Returns its subject, and its predicate.
    fn names(self) -> (String, &'static str) {
        match self {
            Self::Register(number) => (format!("<http://e/r{number}>"), "<http://e/value>"),
            Self::List(number) => (format!("<http://e/l{number}>"), "<http://e/values>"),
            Self::Counted(number) => (format!("<http://e/c{number}>"), "<http://e/entry>"),
        }
    }

    /// Returns its quads at the beginning.
    fn initial(self) -> String {
        let (subject, predicate) = self.names();
        match self {
            Self::Register(_) | Self::List(_) => format!("{subject} {predicate} \"0\" .\n"),
            Self::Counted(_) => String::new(),
        }
    }

    /// Returns its values, by one of several queries.
    fn read(self, transaction: &Transaction<&Database>, random: &mut StdRng) -> Vec<u64> {
        let (subject, predicate) = self.names();
        let query = match random.random_range(0..3) {
            0 => format!("SELECT ?v {{ {subject} {predicate} ?v }}"),
            1 => format!("SELECT ?v {{ ?s {predicate} ?v FILTER(?s = {subject}) }}"),
            _ => format!(
                "SELECT ?v {{ VALUES ?s {{ {subject} }} ?s {predicate}|<http://e/none> ?v }}"
            ),
        };
        let answer = answer_of(transaction.query(&query).expect("a query")).expect("an answer");
        let texts = answer
            .lines
            .iter()
            .map(|line| line.trim_matches('"').to_owned());
        let numbers = |text: &str| -> Vec<u64> {
            let numbers = text
                .split(' ')
                .map(|number| number.parse().expect("a number"));
            numbers.collect()
        };
        match self {
            Self::Register(_) | Self::List(_) => {
                let texts: Vec<String> = texts.collect();
                assert_eq!(texts.len(), 1, "{self:?} has one value");
                numbers(&texts[0])
            }
            Self::Counted(_) => {
                let mut entries: Vec<Vec<u64>> = texts.map(|text| numbers(&text)).collect();
                entries.sort_unstable();
                let places = entries.iter().enumerate();
                let are_in_order = places
                    .into_iter()
                    .all(|(place, entry)| entry[0] == place as u64);
                assert!(
                    are_in_order,
                    "two entries at one place of {self:?}: {entries:?}"
                );
                entries.into_iter().map(|entry| entry[1]).collect()
            }
        }
    }

    /// Writes a register, or appends to a list.
    fn write(self, transaction: &mut Transaction<&Database>, value: u64) {
        let (subject, predicate) = self.names();
        let new = match self {
            Self::Register(_) => format!("BIND(\"{value}\" AS ?new)"),
            _ => format!("BIND(CONCAT(STR(?old), \" {value}\") AS ?new)"),
        };
        let update = match self {
            Self::Register(_) | Self::List(_) => format!(
                "DELETE {{ {subject} {predicate} ?old }} INSERT {{ {subject} {predicate} ?new }}
                 WHERE {{ {subject} {predicate} ?old {new} }}"
            ),
            Self::Counted(_) => format!(
                "INSERT {{ {subject} {predicate} ?new }}
                 WHERE {{ {{ SELECT (COUNT(*) AS ?old) {{ {subject} {predicate} ?entry }} }} {new} }}"
            ),
        };
        let updated = transaction.update(&update).expect("an update");
        assert_eq!(updated.added, 1, "{update}");
    }
}

/// A running transaction.
struct Running<'d> {
    transaction: Transaction<&'d Database>,
    record: Record,
    /// Operations left.
    left: usize,
}

/// The keys and the values of a history.
struct Workload {
    keys: Vec<Key>,
    values: AtomicU64,
}

impl Workload {
    fn new(random: &mut StdRng, with_counted: bool) -> Self {
        let kinds = match with_counted {
            true => [Key::Register, Key::List, Key::Counted].as_slice(),
            false => [Key::Register as fn(u64) -> Key, Key::List].as_slice(),
        };
        let count = random.random_range(1..4);
        let keys = kinds.iter().flat_map(|kind| (0..count).map(kind));
        Self {
            keys: keys.collect(),
            values: AtomicU64::new(1),
        }
    }

    fn data(&self) -> String {
        self.keys.iter().map(|key| key.initial()).collect()
    }

    fn begin<'d>(
        &self,
        database: &'d Database,
        isolation: Isolation,
        random: &mut StdRng,
    ) -> Running<'d> {
        Running {
            transaction: database.transaction_with(isolation).expect("a writer"),
            record: Record {
                isolation,
                reads: Vec::new(),
                writes: BTreeMap::new(),
                position: None,
            },
            left: random.random_range(1..5),
        }
    }

    /// Runs the next operation.
    fn step(&self, running: &mut Running<'_>, random: &mut StdRng) {
        let Running {
            transaction,
            record,
            left,
        } = running;
        *left -= 1;
        let key = self.keys[random.random_range(0..self.keys.len())];
        let written = record.writes.get(&key).copied();
        if written.is_none() && random.random_bool(0.5) {
            let value = self.values.fetch_add(1, Ordering::SeqCst);
            key.write(transaction, value);
            record.writes.insert(key, value);
            return;
        }
        let values = key.read(transaction, random);
        match written {
            Some(own) => assert_eq!(values.last(), Some(&own), "its own write"),
            None => record.reads.push((key, values)),
        }
    }
}

impl Running<'_> {
    /// Commits. Returns what the client saw, unless another transaction came first.
    fn commit(self) -> Option<Record> {
        match self.transaction.commit() {
            Ok(committed) => Some(Record {
                position: committed.position.map(|position| position.0),
                ..self.record
            }),
            Err(error) if error.is_retryable() => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads all keys at the end.
fn last_look(workload: &Workload, database: &Database, random: &mut StdRng) -> Record {
    let mut running = workload.begin(database, Isolation::Snapshot, random);
    let read = |key: &Key| (*key, key.read(&running.transaction, random));
    running.record.reads = workload.keys.iter().map(read).collect();
    running.commit().expect("nothing is written")
}

/// Returns the history of one thread that runs several transactions by turns.
fn by_turns(
    seed: u64,
    level: impl Fn(&mut StdRng) -> Isolation,
    with_counted: bool,
) -> Vec<Record> {
    let mut random = StdRng::seed_from_u64(seed);
    let workload = Workload::new(&mut random, with_counted);
    let database = writable(&workload.data());
    let mut open: Vec<Running<'_>> = Vec::new();
    let mut records = Vec::new();
    let mut begun = 0;
    while begun < TRANSACTIONS || !open.is_empty() {
        if begun < TRANSACTIONS && open.len() < OPEN {
            let isolation = level(&mut random);
            open.push(workload.begin(&database, isolation, &mut random));
            begun += 1;
        }
        let place = random.random_range(0..open.len());
        match open[place].left {
            0 => records.extend(open.swap_remove(place).commit()),
            _ => workload.step(&mut open[place], &mut random),
        }
    }
    records.push(last_look(&workload, &database, &mut random));
    records
}

/// Returns the history of several threads.
fn by_threads(seed: u64) -> Vec<Record> {
    let mut random = StdRng::seed_from_u64(seed);
    let workload = Workload::new(&mut random, true);
    let database = match seed % 2 {
        0 => writable(&workload.data()),
        _ => restless(&workload.data()),
    };
    let records = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (workload, database, records) = (&workload, &database, &records);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed * 1000 + thread);
                for _ in 0..TRANSACTIONS / THREADS {
                    let isolation = Isolation::Serializable;
                    let mut running = workload.begin(database, isolation, &mut random);
                    while running.left > 0 {
                        workload.step(&mut running, &mut random);
                        std::thread::yield_now();
                    }
                    records.lock().expect("no panic").extend(running.commit());
                }
            });
        }
    });
    let mut records = records.into_inner().expect("no panic");
    records.push(last_look(&workload, &database, &mut random));
    records
}

/// The versions of each key: the values in order, each with the transaction that wrote it. The first is that of the
/// beginning.
type Versions = BTreeMap<Key, Vec<(Option<usize>, u64)>>;

/// Infers the order of the versions: of lists from what was read of them, of registers from the order of the commits.
fn versions(records: &[Record]) -> Result<Versions, String> {
    let mut writers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut versions = Versions::new();
    for (number, record) in records.iter().enumerate() {
        writers.extend(record.writes.values().map(|value| (*value, number)));
    }
    let all_reads = || records.iter().flat_map(|record| &record.reads);
    for (key, read) in all_reads() {
        if matches!(key, Key::Register(_)) {
            versions.entry(*key).or_insert_with(|| vec![(None, 0)]);
            continue;
        }
        let chain = versions.entry(*key).or_default();
        let is_longer = read.len() > chain.len();
        if !chain
            .iter()
            .zip(read)
            .all(|((_, known), value)| known == value)
        {
            return Err(format!("{key:?} was {chain:?} and {read:?}"));
        }
        let is_unknown = |value: &&u64| **value != 0 && !writers.contains_key(value);
        if let Some(value) = read.iter().find(is_unknown) {
            return Err(format!("{value} of {key:?} was never committed"));
        }
        if is_longer {
            let version = |value: &u64| (writers.get(value).copied(), *value);
            *chain = read.iter().map(version).collect();
        }
    }
    let mut commits: Vec<(u64, usize)> = Vec::new();
    for (number, record) in records.iter().enumerate() {
        commits.extend(record.position.map(|position| (position, number)));
    }
    commits.sort_unstable();
    for (_, number) in commits {
        for (key, value) in &records[number].writes {
            let chain = versions.entry(*key).or_default();
            if matches!(key, Key::Register(_)) {
                chain.push((Some(number), *value));
            } else if !chain.contains(&(Some(number), *value)) {
                return Err(format!(
                    "{value} was appended to {key:?} and lost: {chain:?}"
                ));
            }
        }
    }
    Ok(versions)
}

/// A reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    WriteWrite,
    WriteRead,
    ReadWrite,
}

/// Anomalies of a history: whether it has cycles of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Anomalies {
    /// Without rw edges: G0 and G1c.
    circular: bool,
    /// With one rw edge: G-single, as a lost update or a skewed read.
    single: bool,
    /// With several: G2, as write skew.
    skew: bool,
}

fn edges(records: &[Record], versions: &Versions) -> Result<DiGraph<usize, Edge>, String> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..records.len())
        .map(|number| graph.add_node(number))
        .collect();
    let mut add = |from: Option<usize>, to: Option<usize>, edge| {
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            graph.add_edge(nodes[from], nodes[to], edge);
        }
    };
    for chain in versions.values() {
        for pair in chain.windows(2) {
            add(pair[0].0, pair[1].0, Edge::WriteWrite);
        }
    }
    for (reader, record) in records.iter().enumerate() {
        for (key, read) in &record.reads {
            let chain = &versions[key];
            let next = match read.last() {
                None => 0,
                Some(last) => {
                    let place = chain.iter().position(|(_, value)| value == last);
                    let place =
                        place.ok_or_else(|| format!("{last} of {key:?} was never committed"))?;
                    add(chain[place].0, Some(reader), Edge::WriteRead);
                    place + 1
                }
            };
            let overwritten = chain.get(next).and_then(|(writer, _)| *writer);
            add(Some(reader), overwritten, Edge::ReadWrite);
        }
    }
    Ok(graph)
}

fn anomalies(graph: &DiGraph<usize, Edge>) -> Anomalies {
    let is_cycle = |part: &Vec<NodeIndex>| part.len() > 1;
    let without = graph.filter_map(
        |_, number| Some(*number),
        |_, edge| (*edge != Edge::ReadWrite).then_some(*edge),
    );
    let mut of_reads = graph
        .edge_indices()
        .filter(|&edge| graph[edge] == Edge::ReadWrite);
    let single = of_reads.any(|edge| {
        let (from, to) = graph.edge_endpoints(edge).expect("it is there");
        has_path_connecting(&without, to, from, None)
    });
    let is_cyclic = tarjan_scc(graph).iter().any(is_cycle);
    let circular = tarjan_scc(&without).iter().any(is_cycle);
    Anomalies {
        circular,
        single,
        skew: is_cyclic && !circular && !single,
    }
}

fn anomalies_of(seed: u64, records: &[Record]) -> Anomalies {
    let found = versions(records).and_then(|versions| Ok(anomalies(&edges(records, &versions)?)));
    found.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"))
}

/// Checks that every serializable transaction that wrote something has read the state right before its commit, whatever
/// the others were.
fn check_places(seed: u64, records: &[Record]) {
    let versions = versions(records).unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
    let is_before = |writer: Option<usize>, position: u64| {
        writer.is_none_or(|writer| {
            records[writer]
                .position
                .is_some_and(|before| before < position)
        })
    };
    for record in records {
        let (Some(position), Isolation::Serializable) = (record.position, record.isolation) else {
            continue;
        };
        for (key, read) in &record.reads {
            let mut before = versions[key]
                .iter()
                .filter(|(writer, _)| is_before(*writer, position));
            let last = before.next_back().map(|(_, value)| value);
            assert_eq!(
                read.last(),
                last,
                "seed {seed}: {key:?} before commit {position}"
            );
        }
    }
}

/// A number that an environment variable may give.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect(variable))
}

fn seeds() -> std::ops::Range<u64> {
    let first = number("PYTHIA_ISOLATION_SEED").unwrap_or(0);
    first..first + number("PYTHIA_ISOLATION_HISTORIES").unwrap_or(SEEDS)
}

fn committed(records: &[Record]) -> usize {
    let is_written = |record: &&Record| record.position.is_some();
    records.iter().filter(is_written).count()
}

#[test]
fn snapshot_isolation_permits_write_skew_and_nothing_worse() {
    let mut skewed = 0;
    for seed in seeds() {
        let records = by_turns(seed, |_| Isolation::Snapshot, false);
        let found = anomalies_of(seed, &records);
        assert!(!found.circular && !found.single, "seed {seed}: {found:?}");
        skewed += u64::from(found.skew);
        assert!(committed(&records) > 20, "seed {seed}");
    }
    // Without any, the next test would show nothing.
    assert!(skewed > 0);
}

#[test]
fn serializable_transactions_have_no_anomalies() {
    for seed in seeds() {
        let records = by_turns(seed, |_| Isolation::Serializable, true);
        assert_eq!(
            anomalies_of(seed, &records),
            Anomalies::default(),
            "seed {seed}"
        );
        check_places(seed, &records);
        assert!(committed(&records) > 20, "seed {seed}");
    }
}

#[test]
fn serializable_transactions_of_several_threads_have_no_anomalies() {
    for seed in seeds() {
        let records = by_threads(seed);
        assert_eq!(
            anomalies_of(seed, &records),
            Anomalies::default(),
            "seed {seed}"
        );
        check_places(seed, &records);
        assert!(committed(&records) > 10, "seed {seed}");
    }
}

#[test]
fn a_serializable_transaction_has_its_place_among_others_that_are_not() {
    for seed in seeds() {
        let level = |random: &mut StdRng| Isolation::ALL[random.random_range(0..2)];
        let records = by_turns(seed, level, false);
        check_places(seed, &records);
        let is_serializable = |record: &&Record| {
            record.position.is_some() && record.isolation == Isolation::Serializable
        };
        assert!(
            records.iter().filter(is_serializable).count() > 10,
            "seed {seed}"
        );
    }
}

#[test]
fn the_checker_finds_anomalies() {
    let record = |reads: &[(Key, &[u64])], writes: &[(Key, u64)], position| Record {
        isolation: Isolation::Serializable,
        reads: reads
            .iter()
            .map(|(key, values)| (*key, values.to_vec()))
            .collect(),
        writes: writes.iter().copied().collect(),
        position,
    };
    let (a, b) = (Key::List(0), Key::List(1));
    let last = |a_last: &[u64], b_last: &[u64]| record(&[(a, a_last), (b, b_last)], &[], None);
    let found = |records: &[Record]| {
        let versions = versions(records)?;
        Ok::<_, String>(anomalies(&edges(records, &versions)?))
    };
    // Each reads what the other appends to.
    let skew = [
        record(&[(a, &[0])], &[(b, 1)], Some(1)),
        record(&[(b, &[0])], &[(a, 2)], Some(2)),
        last(&[0, 2], &[0, 1]),
    ];
    let expected = Anomalies {
        skew: true,
        ..Anomalies::default()
    };
    assert_eq!(found(&skew), Ok(expected));
    // The second has seen the first.
    let serial = [
        skew[0].clone(),
        record(&[(b, &[0, 1])], &[(a, 2)], Some(2)),
        skew[2].clone(),
    ];
    assert_eq!(found(&serial), Ok(Anomalies::default()));
    // Half of a transaction is read.
    let half = [
        record(&[], &[(a, 1), (b, 2)], Some(1)),
        record(&[(a, &[0, 1]), (b, &[0])], &[], None),
        last(&[0, 1], &[0, 2]),
    ];
    assert!(found(&half).is_ok_and(|found| found.single));
    // Two orders of a list, a lost value, a value from nowhere.
    let orders = [last(&[0, 1, 2], &[0]), last(&[0, 2, 1], &[0])];
    assert!(found(&orders).is_err());
    assert!(found(&[record(&[], &[(a, 1)], Some(1)), last(&[0], &[0])]).is_err());
    let register = record(&[(Key::Register(0), &[7])], &[], None);
    assert!(found(&[register]).is_err());
}

#[test]
fn a_counted_list_is_read_in_the_order_of_its_places() {
    let database = writable("");
    let mut transaction = database.transaction().expect("a writer");
    let mut random = StdRng::seed_from_u64(0);
    for value in 1..15 {
        Key::Counted(0).write(&mut transaction, value);
    }
    let values: Vec<u64> = (1..15).collect();
    assert_eq!(Key::Counted(0).read(&transaction, &mut random), values);
    let ask = "ASK { <http://e/c0> <http://e/entry> \"13 14\" }";
    assert!(matches!(transaction.query(ask), Ok(Results::Boolean(true))));
}
