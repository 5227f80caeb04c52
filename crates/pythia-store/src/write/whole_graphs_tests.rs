//! Changes of whole graphs, against a set of quads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use pythia_io::MemoryStorage;
use pythia_rdf::{TermId, TermKey, TermKind};

use super::tests::{Named, change, contents, contents_of, empty, open_spilling};
use super::{Transaction, TransactionOptions};
use crate::store::Store;
use crate::verify::{VerifyOptions, verify};
use crate::{Isolation, StoreError};

/// Number 0 is the default graph.
fn graph(number: usize) -> String {
    match number {
        0 => String::new(),
        number => format!("http://example.org/g/{number}"),
    }
}

fn quad(number: usize, of: usize) -> Named {
    let name = |what: &str, number: usize| format!("http://example.org/{what}/{number}");
    let (s, p, o) = (number % 37, number % 3, number % 11);
    [name("s", s), name("p", p), name("o", o), graph(of)]
}

/// Returns the id of a name in a transaction; the default graph has none.
fn id(transaction: &mut Transaction, name: &str) -> TermId {
    if name.is_empty() {
        return TermId::DEFAULT_GRAPH;
    }
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    };
    transaction.ids(&[key]).expect("no limit")[0]
}

/// A store in which each change of a transaction is large, with quads of its base and in runs on the device and in
/// memory.
struct Case {
    storage: Arc<MemoryStorage>,
    store: Store,
    quads: BTreeSet<Named>,
}

impl Case {
    fn new() -> Self {
        let storage = empty();
        let store = open_spilling(storage.clone(), true).expect("memory");
        let of = |numbers: std::ops::Range<usize>, graphs: [usize; 2]| -> Vec<Named> {
            let quad = |n: usize| quad(n, graphs[n % 2]);
            numbers.map(quad).collect()
        };
        let mut case = Self {
            storage,
            store,
            quads: BTreeSet::new(),
        };
        case.change(&of(0..300, [0, 1]), &[]);
        case.change(&of(0..100, [1, 2]), &[]);
        case.store.compact().expect("memory");
        case.change(&of(300..340, [1, 3]), &of(0..60, [0, 1]));
        case.store.flush().expect("memory");
        case.change(&of(400..420, [0, 1]), &of(60..80, [1, 2]));
        case
    }

    fn change(&mut self, add: &[Named], remove: &[Named]) {
        change(&self.store, add, remove).expect("alone");
        self.quads.retain(|quad| !remove.contains(quad));
        self.quads.extend(add.iter().cloned());
    }

    fn of(&self, of: usize) -> Vec<Named> {
        let quads = self.quads.iter().filter(|quad| quad[3] == graph(of));
        quads.cloned().collect()
    }

    /// Removes a graph in a transaction and in the set.
    fn remove(&mut self, transaction: &mut Transaction, number: usize) {
        let name = graph(number);
        let graph = id(transaction, &name);
        let removed = transaction.remove_graph(graph, &|| true).expect("no limit");
        assert_eq!(removed.unwrap_or(0), self.of(number).len() as u64);
        self.quads.retain(|quad| quad[3] != name);
        assert_eq!(contents_of(&transaction.snapshot()), self.quads);
    }

    /// Copies a graph in a transaction and in the set, unless the other has quads.
    fn copy(&mut self, transaction: &mut Transaction, from: usize, to: usize) {
        let ids = [from, to].map(|number| id(transaction, &graph(number)));
        let copied = transaction.copy_graph(ids[0], ids[1], &|| true);
        let copied = copied.expect("no limit");
        if self.of(to).is_empty() {
            let quads = self.of(from);
            assert_eq!(copied.unwrap_or(0), quads.len() as u64);
            for mut quad in quads {
                quad[3] = graph(to);
                self.quads.insert(quad);
            }
        } else {
            assert_eq!(copied, None);
        }
        assert_eq!(contents_of(&transaction.snapshot()), self.quads);
    }

    /// Inserts or removes a quad in a transaction and in the set.
    fn put(&mut self, transaction: &mut Transaction, quad: Named, added: bool) {
        let row = quad.each_ref().map(|name| id(transaction, name).0);
        match added {
            true => transaction.insert(&[row]).expect("no limit"),
            false => transaction.remove(&[row]).expect("no limit"),
        };
        match added {
            true => self.quads.insert(quad),
            false => self.quads.remove(&quad),
        };
    }

    /// Commits, and fails unless the store has the quads of the set, now and after it is opened again.
    fn commit(self, transaction: Transaction) {
        transaction.commit().expect("alone");
        assert_eq!(contents(&self.store), self.quads);
        self.store.compact().expect("memory");
        assert_eq!(contents(&self.store), self.quads);
        drop(self.store);
        let report = verify(self.storage, VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, []);
        assert_eq!(report.quads, self.quads.len() as u64);
    }
}

#[test]
fn graphs_are_removed_and_copied_as_a_whole() {
    let mut case = Case::new();
    let mut transaction = case.store.begin().expect("a writer");
    case.put(&mut transaction, quad(900, 1), true);
    case.put(&mut transaction, quad(1, 1), false);
    case.remove(&mut transaction, 1);
    case.put(&mut transaction, quad(1, 1), true);
    case.copy(&mut transaction, 0, 5);
    case.copy(&mut transaction, 0, 1);
    case.remove(&mut transaction, 0);
    case.copy(&mut transaction, 5, 0);
    case.remove(&mut transaction, 7);
    case.commit(transaction);
}

#[test]
fn small_graphs_and_those_without_room_are_left_to_the_caller() {
    let case = Case::new();
    let mut transaction = case.store.begin().expect("a writer");
    // A graph that is not there has no quads.
    let nothing = id(&mut transaction, &graph(77));
    let removed = transaction.remove_graph(nothing, &|| true);
    assert!(matches!(removed, Ok(None | Some(0))), "{removed:?}");
    // The graph to copy to has some.
    let [from, to] = [0, 1].map(|number| id(&mut transaction, &graph(number)));
    assert!(matches!(
        transaction.copy_graph(from, to, &|| true),
        Ok(None)
    ));
    drop(transaction);
}

#[test]
fn a_change_of_a_graph_can_be_given_up() {
    let case = Case::new();
    let mut transaction = case.store.begin().expect("a writer");
    let graph = id(&mut transaction, &graph(1));
    let asked = AtomicUsize::new(0);
    let twice = || asked.fetch_add(1, Ordering::Relaxed) < 2;
    let removed = transaction.remove_graph(graph, &twice);
    assert!(matches!(removed, Err(StoreError::Cancelled)), "{removed:?}");
    assert_eq!(contents_of(&transaction.snapshot()), case.quads);
    case.commit(transaction);
}

#[test]
fn a_copy_conflicts_with_a_change_of_what_it_read_if_it_is_serializable() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let case = Case::new();
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let mut transaction = case.store.begin_with(options).expect("a writer");
        let [from, to] = [1, 9].map(|number| id(&mut transaction, &graph(number)));
        let copied = transaction.copy_graph(from, to, &|| true);
        assert!(copied.expect("no limit").is_some_and(|quads| quads > 100));
        change(&case.store, &[quad(950, 1)], &[]).expect("not committed yet");
        let committed = transaction.commit();
        let is_refused = matches!(committed, Err(StoreError::Conflict | StoreError::Outdated));
        assert_eq!(
            is_refused,
            isolation == Isolation::Serializable,
            "{committed:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_changes_of_graphs_and_quads_agree_with_a_set(
        changes in prop::collection::vec((0..4_usize, 0..5_usize, 0..5_usize, 0..1000_usize), 1..12),
    ) {
        let mut case = Case::new();
        let mut transaction = case.store.begin().expect("a writer");
        for (kind, one, other, number) in changes {
            match kind {
                0 => case.remove(&mut transaction, one),
                1 if one != other => case.copy(&mut transaction, one, other),
                _ => case.put(&mut transaction, quad(number, one), kind == 2),
            }
        }
        case.commit(transaction);
    }
}
