//! Transactions whose changes are on the device before they are committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{TermKey, TermKind};

use super::tests::{Named, aside, change, contents, contents_of, empty, open, open_spilling};
use super::{Allowance, Transaction, TransactionOptions};
use crate::store::Store;
use crate::verify::{VerifyOptions, verify};
use crate::{GraphFilter, Isolation, QuadPattern, StoreError};

fn quad(number: usize) -> Named {
    let name = |what: &str| format!("http://example.org/{what}/{number}");
    [name("s"), name("p"), name("o"), name("g")]
}

fn quads(numbers: impl IntoIterator<Item = usize>) -> Vec<Named> {
    numbers.into_iter().map(quad).collect()
}

fn key(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

/// Makes a store with some quads, in which each change of a transaction moves its earlier ones to the device.
fn store() -> (Arc<MemoryStorage>, Store) {
    let storage = empty();
    let store = open_spilling(storage.clone(), true).expect("memory");
    change(&store, &quads(0..10), &[]).expect("alone");
    store.compact().expect("memory");
    change(&store, &quads(10..20), &[]).expect("alone");
    change(&store, &[], &quads([9])).expect("alone");
    (storage, store)
}

/// Adds (or removes) quads one by one.
fn put(transaction: &mut Transaction, numbers: std::ops::Range<usize>, added: bool) {
    for names in quads(numbers) {
        let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
        let ids = transaction.ids(&keys).expect("no limit");
        let row = std::array::from_fn(|place| ids[place].0);
        match added {
            true => transaction.insert(&[row]).expect("no limit"),
            false => transaction.remove(&[row]).expect("no limit"),
        };
    }
}

/// Returns the folders of runs that are on the device.
fn runs(storage: &MemoryStorage) -> BTreeSet<String> {
    let names = storage.list("").expect("memory").into_iter();
    names.filter(|name| name.starts_with("run-")).collect()
}

fn sound(storage: Arc<MemoryStorage>, expected: impl IntoIterator<Item = usize>) {
    let reader = open(storage.clone()).expect("sound");
    assert_eq!(contents(&reader), quads(expected).into_iter().collect());
    drop(reader);
    let report = verify(storage, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}

#[test]
fn changes_on_the_device_are_committed_at_once() {
    let (storage, store) = store();
    let mut transaction = store.begin().expect("a writer");
    put(&mut transaction, 20..40, true);
    put(&mut transaction, 5..12, false);
    // Undone in part.
    put(&mut transaction, 30..35, false);
    put(&mut transaction, 5..6, true);
    let expected = || (0..30).chain(35..40).filter(|n| !(6..12).contains(n));
    let seen: BTreeSet<Named> = quads(expected()).into_iter().collect();
    let snapshot = transaction.snapshot();
    assert_eq!(contents_of(&snapshot), seen);
    assert_eq!(contents(&store).len(), 19);
    let committed = transaction.commit().expect("alone");
    // 9 was removed before.
    assert_eq!((committed.added, committed.removed), (15, 5));
    assert_eq!(contents(&store), seen);
    assert_eq!(contents_of(&snapshot), seen);
    assert_eq!(aside(&storage), 1);
    change(&store, &quads([40]), &[]).expect("alone");
    store.compact().expect("memory");
    drop((snapshot, store));
    sound(storage, expected().chain([40]));
}

#[test]
fn what_is_not_committed_leaves_no_run() {
    let (storage, store) = store();
    let before = runs(&storage);
    for ending in 0..3 {
        let mut transaction = store.begin().expect("a writer");
        put(&mut transaction, 20..50, true);
        assert!(runs(&storage).len() > before.len());
        match ending {
            0 => drop(transaction),
            1 => {
                // All changes cancel.
                put(&mut transaction, 20..50, false);
                let committed = transaction.commit().expect("alone");
                assert_eq!((committed.position, committed.added), (None, 0));
            }
            _ => {
                change(&store, &quads([25]), &[]).expect("first");
                assert!(matches!(transaction.commit(), Err(StoreError::Conflict)));
            }
        }
        assert_eq!(runs(&storage), before, "{ending}");
        assert_eq!(aside(&storage), 0, "{ending}");
    }
    drop(store);
    sound(storage, (0..9).chain(10..20).chain([25]));
}

/// Gives memory until it is used up.
struct Memory(Arc<AtomicBool>);

impl Allowance for Memory {
    fn set(&mut self, bytes: usize) -> Result<(), String> {
        match bytes > 0 && self.0.load(Ordering::Relaxed) {
            true => Err("it is used up".to_owned()),
            false => Ok(()),
        }
    }

    fn left(&self) -> usize {
        usize::MAX
    }
}

#[test]
fn a_commit_without_memory_leaves_no_run() {
    let (storage, store) = store();
    let before = runs(&storage);
    let is_used_up = Arc::new(AtomicBool::new(false));
    let options = TransactionOptions {
        changes: Some(Box::new(Memory(Arc::clone(&is_used_up)))),
        ..TransactionOptions::default()
    };
    let mut transaction = store.begin_with(options).expect("a writer");
    put(&mut transaction, 20..50, true);
    let run = transaction.spilled_run().expect("memory").expect("changes");
    is_used_up.store(true, Ordering::Relaxed);
    let committed = transaction.commit_spilled(run, None);
    assert!(matches!(committed, Err(StoreError::Allowance { .. })));
    assert_eq!(runs(&storage), before);
}

#[test]
fn terms_of_other_commits_may_come_first() {
    for moves in 0..4 {
        let (storage, store) = store();
        let mut transaction = store.begin().expect("a writer");
        put(&mut transaction, 20..40, true);
        put(&mut transaction, 0..2, false);
        // The transaction's new terms get other numbers; some of them are there by now.
        change(&store, &quads(38..60), &quads(38..40)).expect("first");
        change(&store, &[], &quads(38..40)).expect("first");
        match moves {
            0 => {}
            1 => drop(store.flush().expect("memory")),
            2 => {
                store.flush().expect("memory");
                change(&store, &quads([60]), &quads([60])).expect("other quads");
                store.maintain().expect("memory");
            }
            _ => drop(store.writer().expect("open").compact_due().expect("memory")),
        }
        let committed = transaction.commit();
        match (moves, committed) {
            // They have changed the same quads.
            (_, Err(error)) => assert!(error.is_retryable(), "{error}"),
            (_, Ok(_)) => panic!("{moves}: quads that others changed"),
        }
        let mut transaction = store.begin().expect("a writer");
        put(&mut transaction, 20..38, true);
        put(&mut transaction, 0..2, false);
        change(&store, &quads(61..70), &[]).expect("other quads");
        let committed = transaction.commit().expect("other quads");
        assert_eq!((committed.added, committed.removed), (18, 2));
        let mut expected: BTreeSet<usize> =
            (2..9).chain(10..38).chain(40..60).chain(61..70).collect();
        expected.extend((moves == 2).then_some(60));
        let expected: Vec<usize> = expected.into_iter().collect();
        let names: BTreeSet<Named> = quads(expected.clone()).into_iter().collect();
        assert_eq!(contents(&store), names, "{moves}");
        drop(store);
        sound(storage, expected);
    }
}

#[test]
fn the_first_to_commit_wins() {
    for large_first in [true, false] {
        let (_, store) = store();
        let mut large = store.begin().expect("a writer");
        let mut small = store.begin().expect("a writer");
        put(&mut large, 20..30, true);
        put(&mut small, 29..30, true);
        let [first, second] = match large_first {
            true => [large, small],
            false => [small, large],
        };
        first.commit().expect("nobody came before");
        let error = second.commit().expect_err("the same quad");
        assert!(error.is_retryable(), "{error}");
    }
}

#[test]
fn a_watched_graph_and_what_was_read_may_not_change() {
    let graph = oxrdf::NamedNode::new_unchecked("http://example.org/g/3");
    let removed = |store: &Store| change(store, &[], &quads([3])).map(|_| ());
    for (watches, isolation) in [
        (true, Isolation::Snapshot),
        (false, Isolation::Serializable),
        (false, Isolation::Snapshot),
    ] {
        let (storage, store) = store();
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let mut transaction = store.begin_with(options).expect("a writer");
        if watches {
            transaction.watch(Some(graph.as_ref().into()));
        }
        let snapshot = transaction.snapshot();
        let id = snapshot.resolve_key(key(graph.as_str())).expect("sound");
        let pattern = QuadPattern {
            graph: GraphFilter::One(id.expect("there")),
            ..QuadPattern::default()
        };
        assert_eq!(snapshot.count(&pattern).expect("sound"), 1);
        drop(snapshot);
        put(&mut transaction, 20..30, true);
        removed(&store).expect("first");
        let is_refused = transaction
            .commit()
            .is_err_and(|error| error.is_retryable());
        assert_eq!(is_refused, watches || isolation == Isolation::Serializable);
        assert_eq!(aside(&storage), usize::from(!is_refused));
    }
}

/// Undoing one of its own changes depends on the state before.
#[test]
fn a_quad_that_is_added_and_removed_was_read() {
    let (_, store) = store();
    let options = TransactionOptions {
        isolation: Isolation::Serializable,
        ..TransactionOptions::default()
    };
    let mut transaction = store.begin_with(options).expect("a writer");
    put(&mut transaction, 20..30, true);
    put(&mut transaction, 20..21, false);
    change(&store, &quads([20]), &[]).expect("first");
    assert!(matches!(transaction.commit(), Err(StoreError::Outdated)));
}

#[test]
fn a_key_is_committed_once() {
    let (storage, store) = store();
    for round in 0..2 {
        let mut transaction = store.begin().expect("a writer");
        put(&mut transaction, 20..30, true);
        put(&mut transaction, 30 + round..31 + round, true);
        let committed = transaction.commit_with_key(Some("once")).expect("alone");
        assert_eq!(committed.added, [11, 0][round]);
        assert_eq!(committed.position.map(|position| position.0), Some(4));
    }
    assert_eq!(aside(&storage), 1);
    assert_eq!(contents(&store).len(), 19 + 11);
}

#[test]
fn a_base_with_other_ids_conflicts() {
    let (storage, store) = store();
    let mut transaction = store.begin().expect("a writer");
    put(&mut transaction, 20..30, true);
    store.compact().expect("memory");
    assert!(matches!(transaction.commit(), Err(StoreError::Conflict)));
    drop(store);
    sound(storage, (0..9).chain(10..20));
}
