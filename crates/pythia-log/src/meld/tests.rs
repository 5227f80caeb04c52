//! The meld compared with a list of the committed transactions, and transactions with what their isolation promises.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{MemoryStorage, Storage};

use super::*;
use crate::{Changes, Entry, Log, LogOptions, StoreId};

/// More than any history of the tests has.
const WINDOW: u64 = 1000;

type Items = BTreeMap<Vec<u8>, Vec<u8>>;

fn items(state: &State) -> Items {
    let items = state.scan(Range::ALL);
    items
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .collect()
}

/// The rules of the article without a tree: all committed writes in a list.
#[derive(Default)]
struct Oracle {
    committed: Vec<(u64, Vec<Vec<u8>>)>,
    items: Items,
    melded: u64,
}

impl Oracle {
    fn meld(&mut self, intention: &Intention<'_>, window: u64) -> Decision {
        self.melded += 1;
        if intention.snapshot.0 + window < self.melded {
            return Decision::Aborted(Cause::Old);
        }
        let later = self.committed.iter();
        let later = later.filter(|(position, _)| *position >= intention.snapshot.0);
        let written: BTreeSet<&[u8]> = later.flat_map(|(_, keys)| keys).map(|k| &k[..]).collect();
        if intention.writes.iter().any(|w| written.contains(w.key)) {
            return Decision::Aborted(Cause::Written);
        }
        if let Some(reads) = &intention.reads {
            let in_range = |range: &Range<'_>| {
                let is_in = |key: &&[u8]| *key >= range.from && range.to.is_none_or(|to| *key < to);
                written.iter().any(is_in)
            };
            if reads.keys.iter().any(|key| written.contains(key))
                || reads.ranges.iter().any(in_range)
            {
                return Decision::Aborted(Cause::Read);
            }
        }
        let keys = intention.writes.iter().map(|write| write.key.to_vec());
        self.committed.push((self.melded, keys.collect()));
        for write in &intention.writes {
            match write.value {
                Some(value) => self.items.insert(write.key.to_vec(), value.to_vec()),
                None => self.items.remove(write.key),
            };
        }
        Decision::Committed
    }
}

/// The begin and the end of a range.
type Interval = (Vec<u8>, Option<Vec<u8>>);

/// An intention that owns its bytes. Its snapshot is some intentions before its place.
#[derive(Clone, Debug)]
struct Owned {
    behind: u64,
    reads: Option<(BTreeSet<Vec<u8>>, Vec<Interval>)>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Owned {
    fn at(&self, place: u64) -> Intention<'_> {
        let reads = self.reads.as_ref().map(|(keys, ranges)| Reads {
            keys: keys.iter().map(|key| &key[..]).collect(),
            ranges: ranges
                .iter()
                .map(|(from, to)| Range {
                    from,
                    to: to.as_deref(),
                })
                .collect(),
        });
        let writes = self.writes.iter().map(|(key, value)| Write {
            key,
            value: value.as_deref(),
        });
        Intention {
            snapshot: Position(place.saturating_sub(self.behind).max(1)),
            reads,
            writes: writes.collect(),
        }
    }
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..4_u8, 0..4)
}

fn any_intention() -> impl Strategy<Value = Owned> {
    let value = prop::option::weighted(0.7, any::<[u8; 2]>().prop_map(Vec::from));
    let keys = prop::collection::btree_set(any_key(), 0..4);
    let ranges = prop::collection::vec((any_key(), prop::option::of(any_key())), 0..2);
    let reads = prop::option::of((keys, ranges));
    let writes = prop::collection::btree_map(any_key(), value, 0..5);
    (0..12_u64, reads, writes).prop_map(|(behind, reads, writes)| Owned {
        behind,
        reads,
        writes,
    })
}

proptest! {
    #[test]
    fn decisions_and_states_are_those_of_a_list(
        intentions in prop::collection::vec(any_intention(), 0..80), window in 0..10_u64,
    ) {
        let (mut melder, mut other) = (Melder::new(window), Melder::new(window));
        let mut oracle = Oracle::default();
        let mut states = Vec::new();
        for (place, owned) in (1..).zip(&intentions) {
            let intention = owned.at(place);
            let bytes = intention.encode();
            let decision = melder.meld(&bytes).unwrap();
            prop_assert_eq!(decision, oracle.meld(&intention, window));
            prop_assert_eq!(items(melder.state()), oracle.items.clone());
            prop_assert_eq!(other.meld(&bytes).unwrap(), decision);
            prop_assert!(other.state() == melder.state());
            let kept = melder.state.tree.check();
            prop_assert!(kept - oracle.items.len() <= melder.removed.len());
            states.push((melder.state().clone(), oracle.items.clone()));
        }
        for (state, items_then) in states {
            prop_assert_eq!(items(&state), items_then, "a state never changes");
        }
    }

    #[test]
    fn intentions_come_back(owned in any_intention(), place in 1..1_000_000_u64) {
        let intention = owned.at(place);
        let bytes = intention.encode();
        prop_assert_eq!(&Intention::decode(&bytes, Position(place)).unwrap(), &intention);
        let changes = to_changes(&bytes);
        prop_assert_eq!(from_changes(&changes, Position(place)).unwrap(), &bytes[..]);
    }

    #[test]
    fn intentions_cut_or_changed_never_panic(
        owned in any_intention(), cut: prop::sample::Index, at: prop::sample::Index, bit in 0..8_u8,
    ) {
        let mut bytes = owned.at(20).encode();
        let mut melder = Melder::new(WINDOW);
        let before = melder.state().clone();
        prop_assert!(melder.meld(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert!(*melder.state() == before);
        bytes.push(0);
        prop_assert!(Intention::decode(&bytes, Position(20)).is_err(), "bytes after the end");
        bytes.pop();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // If it is accepted, it is an intention with one encoding.
        if let Ok(changed) = Intention::decode(&bytes, Position(u64::MAX)) {
            prop_assert!(Intention::decode(&changed.encode(), Position(u64::MAX)).unwrap() == changed);
        }
    }

    #[test]
    fn random_bytes_never_panic(mut bytes: Vec<u8>) {
        let mut melder = Melder::new(WINDOW);
        let _ = melder.meld(&bytes);
        bytes.splice(..0, [1, 1]);
        let _ = melder.meld(&bytes);
        prop_assert!(from_changes(&ChangeSet::new(), Position(1)).is_err());
    }

    #[test]
    fn serializable_transactions_read_what_they_would_one_after_the_other(
        programs in prop::collection::vec(any_program(), 1..40),
    ) {
        let mut states = vec![Melder::new(WINDOW)];
        let mut serial = Items::new();
        for program in &programs {
            let mut melder = states.last().expect("the first").clone();
            let begin = states.len() - 1 - (program.behind as usize).min(states.len() - 1);
            let state = states[begin].state().clone();
            let mut transaction = Transaction::serializable(state);
            let seen = program.run(&mut transaction);
            let Some(bytes) = transaction.finish() else { continue };
            if melder.meld(&bytes).unwrap() == Decision::Committed {
                let mut alone = Transaction::serializable(state_of(&serial));
                prop_assert_eq!(&program.run(&mut alone), &seen, "the same reads");
                if let Some(bytes) = alone.finish() {
                    apply(&mut serial, &bytes);
                }
            }
            prop_assert_eq!(&items(melder.state()), &serial);
            states.push(melder);
        }
    }
}

/// Steps of a transaction whose writes depend on what it has read.
#[derive(Clone, Debug)]
struct Program {
    behind: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Get(Vec<u8>),
    Scan(Vec<u8>, Option<Vec<u8>>),
    /// Writes a digest of all reads so far.
    Put(Vec<u8>),
    Remove(Vec<u8>),
}

fn any_program() -> impl Strategy<Value = Program> {
    let step = prop_oneof![
        any_key().prop_map(Step::Get),
        (any_key(), prop::option::of(any_key())).prop_map(|(from, to)| Step::Scan(from, to)),
        any_key().prop_map(Step::Put),
        any_key().prop_map(Step::Remove),
    ];
    (0..5_u64, prop::collection::vec(step, 1..6))
        .prop_map(|(behind, steps)| Program { behind, steps })
}

impl Program {
    /// Runs the steps and returns everything that they have read.
    fn run(&self, transaction: &mut Transaction) -> Vec<u8> {
        let mut seen = Vec::new();
        for step in &self.steps {
            match step {
                Step::Get(key) => match transaction.get(key) {
                    Some(value) => seen.extend_from_slice(&value),
                    None => seen.push(255),
                },
                Step::Scan(from, to) => {
                    let to = to.as_deref();
                    for (key, value) in transaction.scan(Range { from, to }) {
                        seen.extend([&key[..], &[254], &value[..]].concat());
                    }
                }
                Step::Put(key) => {
                    let digest = crc32c::crc32c(&seen).to_le_bytes();
                    transaction.put(key, &digest);
                }
                Step::Remove(key) => transaction.remove(key),
            }
        }
        seen
    }
}

/// Returns a state with these items.
fn state_of(items: &Items) -> State {
    let mut melder = Melder::new(WINDOW);
    let mut transaction = Transaction::snapshot(melder.state().clone());
    items
        .iter()
        .for_each(|(key, value)| transaction.put(key, value));
    if let Some(bytes) = transaction.finish() {
        melder.meld(&bytes).unwrap();
    }
    melder.state().clone()
}

fn apply(items: &mut Items, bytes: &[u8]) {
    for write in Intention::decode(bytes, Position(WINDOW)).unwrap().writes {
        match write.value {
            Some(value) => items.insert(write.key.to_vec(), value.to_vec()),
            None => items.remove(write.key),
        };
    }
}

/// Two doctors are on call. Each leaves if the other stays, and both look before either is seen to leave.
fn both_leave(begin: fn(State) -> Transaction) -> [Decision; 2] {
    let mut melder = Melder::new(WINDOW);
    let mut first = Transaction::snapshot(melder.state().clone());
    first.put(b"alice", b"on call");
    first.put(b"bob", b"on call");
    melder.meld(&first.finish().unwrap()).unwrap();
    let state = melder.state().clone();
    let leave = |name: &[u8], other: &[u8]| {
        let mut transaction = begin(state.clone());
        assert_eq!(transaction.get(other).as_deref(), Some(&b"on call"[..]));
        transaction.remove(name);
        transaction.finish().unwrap()
    };
    let intentions = [leave(b"alice", b"bob"), leave(b"bob", b"alice")];
    intentions.map(|bytes| melder.meld(&bytes).unwrap())
}

#[test]
fn snapshot_isolation_permits_write_skew_and_serializable_does_not() {
    let skewed = both_leave(Transaction::snapshot);
    assert_eq!(skewed, [Decision::Committed; 2]);
    let [first, second] = both_leave(Transaction::serializable);
    assert_eq!(first, Decision::Committed);
    assert_eq!(second, Decision::Aborted(Cause::Read));
}

#[test]
fn an_item_that_appears_in_a_range_that_was_read_is_a_conflict() {
    let mut melder = Melder::new(WINDOW);
    let add = |key: &[u8]| {
        let mut transaction = Transaction::serializable(melder.state().clone());
        let range = Range {
            from: b"a",
            to: Some(b"b"),
        };
        assert!(transaction.scan(range).is_empty());
        transaction.put(key, b"the first");
        transaction.finish().unwrap()
    };
    let intentions = [add(b"a1"), add(b"a2"), add(b"c")];
    let decisions = intentions.map(|bytes| melder.meld(&bytes).unwrap());
    let phantom = Decision::Aborted(Cause::Read);
    assert_eq!(decisions, [Decision::Committed, phantom, phantom]);
}

#[test]
fn states_share_what_did_not_change() {
    let mut melder = Melder::new(WINDOW);
    let mut transaction = Transaction::snapshot(melder.state().clone());
    for key in 0..1000_u32 {
        transaction.put(&key.to_be_bytes(), b"value");
    }
    melder.meld(&transaction.finish().unwrap()).unwrap();
    let before = melder.state().clone();
    let mut transaction = Transaction::snapshot(before.clone());
    transaction.put(&500_u32.to_be_bytes(), b"other");
    melder.meld(&transaction.finish().unwrap()).unwrap();
    let (old, new) = (before.tree.nodes(), melder.state.tree.nodes());
    let made = new.difference(&old).count();
    assert!((1..=11).contains(&made), "{made} nodes on one path");
}

#[test]
fn removed_items_leave_the_tree_after_the_window() {
    let mut melder = Melder::new(3);
    let meld = |melder: &mut Melder, change: &dyn Fn(&mut Transaction)| {
        let mut transaction = Transaction::snapshot(melder.state().clone());
        change(&mut transaction);
        melder.meld(&transaction.finish().unwrap()).unwrap()
    };
    meld(&mut melder, &|transaction| transaction.put(b"a", b"1"));
    let old = melder.state().clone();
    meld(&mut melder, &|transaction| transaction.remove(b"a"));
    assert_eq!(melder.state.tree.check(), 1);
    let late = |melder: &mut Melder| {
        let mut transaction = Transaction::snapshot(old.clone());
        transaction.put(b"a", b"2");
        melder.meld(&transaction.finish().unwrap()).unwrap()
    };
    assert_eq!(late(&mut melder), Decision::Aborted(Cause::Written));
    for _ in 0..3 {
        meld(&mut melder, &|transaction| transaction.put(b"b", b"1"));
    }
    assert_eq!(late(&mut melder), Decision::Aborted(Cause::Old));
    assert_eq!(melder.state.tree.check(), 1, "only b is left");
}

#[test]
fn errors_name_the_intention_and_the_byte() {
    let mut melder = Melder::new(WINDOW);
    let message = |error: LogError| error.to_string();
    let cut = message(melder.meld(&[1, 0]).unwrap_err());
    assert!(
        cut.contains("intention 1") && cut.contains("byte 2"),
        "{cut}"
    );
    let version = message(melder.meld(&[9, 0]).unwrap_err());
    assert!(version.contains("format 9"), "{version}");
    let future = message(melder.meld(&[1, 0, 7, 0]).unwrap_err());
    assert!(
        future.contains("a snapshot of intentions before"),
        "{future}"
    );
    let unsorted = [1, 0, 1, 2, 0, 1, b'b', 0, 1, b'a'];
    let unsorted = message(melder.meld(&unsorted).unwrap_err());
    assert!(unsorted.contains("ascending order"), "{unsorted}");
    let quads = crate::testing::numbered(1, 1);
    let quads = message(from_changes(&quads, Position(8)).unwrap_err());
    assert!(
        quads.contains("commit 8") && quads.contains("changes of quads"),
        "{quads}"
    );
}

/// A server of the article: it shares nothing with the others but the log.
struct Server {
    melder: Melder,
    decisions: Vec<Decision>,
}

impl Server {
    fn new() -> Self {
        Self {
            melder: Melder::new(WINDOW),
            decisions: Vec::new(),
        }
    }

    fn roll_forward(&mut self, log: &Log) {
        let from = self.melder.state().next();
        for commit in log.reader().commits_from(from).unwrap() {
            let commit = commit.unwrap();
            for changes in commit.changes() {
                let changes = changes.unwrap();
                let bytes = from_changes(&changes, commit.position).unwrap();
                self.decisions.push(self.melder.meld(bytes).unwrap());
            }
        }
    }

    /// Adds one to a counter. Returns the decision.
    fn increment(&mut self, log: &Log, key: &str) -> Decision {
        let mut transaction = Transaction::snapshot(self.melder.state().clone());
        let count = transaction.get(b"counter").map_or(0, |value| value[0]);
        transaction.put(b"counter", &[count + 1]);
        let changes = to_changes(&transaction.finish().unwrap());
        let entry = Entry {
            time: 0,
            key: Some(key),
            changes: Changes::Inline(&changes),
        };
        log.wait(log.submit(&[entry]).unwrap()).unwrap();
        self.roll_forward(log);
        let position = log.find_key(key).expect("it was appended");
        self.decisions[position.0 as usize - 1]
    }

    /// Adds to the counter until some of the increments have committed.
    fn run(&mut self, log: &Log, name: usize, increments: usize) {
        let mut keys = (0..).map(|attempt| format!("{name}/{attempt}"));
        let committed = || keys.find(|key| self.increment(log, key) == Decision::Committed);
        std::iter::repeat_with(committed)
            .take(increments)
            .for_each(drop);
    }
}

#[test]
fn servers_that_share_only_a_log_agree() {
    let devices: Vec<Arc<dyn Storage>> = vec![Arc::new(MemoryStorage::new())];
    let log = Log::create(devices, StoreId([1; 16]), LogOptions::default()).unwrap();
    let mut servers: Vec<Server> = (0..3).map(|_| Server::new()).collect();
    std::thread::scope(|scope| {
        for (name, server) in servers.iter_mut().enumerate() {
            let log = &log;
            scope.spawn(move || server.run(log, name, 10));
        }
    });
    for server in &mut servers {
        server.roll_forward(&log);
    }
    let (first, others) = servers.split_first().unwrap();
    for other in others {
        assert_eq!(other.decisions, first.decisions);
        assert!(other.melder.state() == first.melder.state());
    }
    let count = first.melder.state().get(b"counter").unwrap()[0];
    assert_eq!(count, 30, "no increment is lost, and none counts twice");
}
