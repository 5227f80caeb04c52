//! Serializable transactions: which commits of others make one fail, and which do not.

use pythia_rdf::{TermId, TermKey, TermKind};

use super::tests::{Named, change, empty, open};
use super::{Committed, Transaction, TransactionOptions};
use crate::store::Store;
use crate::{Component, End, Expansion, GraphFilter, Isolation, Order, QuadPattern};
use crate::{Snapshot, StoreError};

fn quad(text: &str) -> Named {
    let mut names = text.split(' ').map(str::to_owned);
    std::array::from_fn(|_| names.next().unwrap_or_default())
}

fn quads(texts: &[&str]) -> Vec<Named> {
    texts.iter().map(|text| quad(text)).collect()
}

/// Opens a store with some quads.
fn store() -> Store {
    let store = open(empty()).expect("memory");
    let before = ["a p b", "a p c", "b q c", "c r d", "a p b g", "b p c h"];
    change(&store, &quads(&before), &[]).expect("alone");
    store
}

fn key(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

fn begin(store: &Store, isolation: Isolation) -> Transaction {
    let options = TransactionOptions {
        isolation,
        ..TransactionOptions::default()
    };
    store.begin_with(options).expect("a writer")
}

/// Adds (or removes) quads in a transaction.
fn put(transaction: &mut Transaction, texts: &[&str], is_added: bool) {
    for names in quads(texts) {
        let names: Vec<TermKey<'_>> = names
            .iter()
            .filter(|n| !n.is_empty())
            .map(|n| key(n))
            .collect();
        let mut ids = transaction.ids(&names).expect("no limit").into_iter();
        let row = std::array::from_fn(|_| ids.next().map_or(0, |id| id.0));
        match is_added {
            true => transaction.insert(&[row]).expect("no limit"),
            false => transaction.remove(&[row]).expect("no limit"),
        };
    }
}

/// Runs a transaction that reads and then adds a quad, beside one that adds and removes others. Returns the outcome of
/// the first.
fn beside(
    isolation: Isolation,
    read: impl FnOnce(&mut Transaction),
    added: &[&str],
    removed: &[&str],
) -> Result<Committed, StoreError> {
    let store = store();
    let mut transaction = begin(&store, isolation);
    read(&mut transaction);
    put(&mut transaction, &["own p own"], true);
    change(&store, &quads(added), &quads(removed)).expect("the first to commit");
    transaction.commit()
}

/// Returns whether a read makes a serializable transaction fail beside these changes. Under snapshot isolation it must
/// not.
fn is_outdated(read: impl Fn(&Snapshot), added: &[&str], removed: &[&str]) -> bool {
    let read = |transaction: &mut Transaction| read(&transaction.snapshot());
    beside(Isolation::Snapshot, read, added, removed).expect("another quad");
    match beside(Isolation::Serializable, read, added, removed) {
        Ok(_) => false,
        Err(StoreError::Outdated) => true,
        Err(error) => panic!("{error}"),
    }
}

fn named_graphs(snapshot: &Snapshot) -> usize {
    let graphs = snapshot.named_graphs(|_| Ok::<_, StoreError>(()));
    graphs.expect("sound").len()
}

fn id(snapshot: &Snapshot, name: &str) -> TermId {
    let found = snapshot.resolve_key(key(name)).expect("sound");
    found.expect("it is there")
}

/// Returns a pattern of names; `?` is any term.
fn pattern(snapshot: &Snapshot, text: &str) -> QuadPattern {
    let mut names = text.split(' ');
    let mut bound = || {
        let name = names.next().filter(|name| *name != "?");
        name.map(|name| id(snapshot, name))
    };
    QuadPattern {
        subject: bound(),
        predicate: bound(),
        object: bound(),
        graph: bound().map_or(GraphFilter::Any, GraphFilter::One),
    }
}

#[test]
fn a_pattern_conflicts_with_matching_changes_alone() {
    let wanted = [Component::Subject];
    for (read, added, removed, expected) in [
        ("a p ?", "a p new", "", true),
        ("a p ?", "", "a p c", true),
        ("a p ?", "b p a", "", false),
        ("a p ?", "a q a", "", false),
        ("? p b", "c p b", "", true),
        ("? p b", "c p a", "", false),
        ("? p ?", "new p newer", "", true),
        ("? p ?", "new q newer", "", false),
        ("a ? ?", "a r new", "", true),
        ("a ? ?", "c r a", "", false),
        ("? ? c", "new r c", "", true),
        ("a p d", "a p d", "", true),
        ("a p d", "a p d g", "", true),
        ("? p ? g", "a p c", "", false),
        ("? p ? g", "a p c g", "", true),
        ("? ? ?", "new new new", "", true),
    ] {
        let lists = |text: &'static str| match text {
            "" => Vec::new(),
            text => vec![text],
        };
        let (added, removed) = (lists(added), lists(removed));
        let scan = |snapshot: &Snapshot| {
            let pattern = pattern(snapshot, read);
            snapshot.scan(&pattern, Order::Spo, &wanted).expect("sound");
        };
        let count = |snapshot: &Snapshot| {
            let pattern = pattern(snapshot, read);
            snapshot.count(&pattern).expect("sound");
        };
        assert_eq!(is_outdated(scan, &added, &removed), expected, "{read}");
        assert_eq!(is_outdated(count, &added, &removed), expected, "{read}");
    }
}

#[test]
fn nodes_and_pairs_conflict_with_their_own_changes() {
    let expand = |snapshot: &Snapshot| {
        let nodes = [id(snapshot, "b"), id(snapshot, "c")];
        let mut out = Expansion::new(true, true);
        let any = GraphFilter::Any;
        snapshot
            .expand(End::Subject, &nodes, None, any, &mut out)
            .expect("sound");
    };
    assert!(is_outdated(expand, &["c r new"], &[]));
    assert!(!is_outdated(expand, &["a r c"], &[]));
    let probe = |snapshot: &Snapshot| {
        let pairs = [(id(snapshot, "a"), id(snapshot, "d"))];
        let graph = GraphFilter::One(TermId::DEFAULT_GRAPH);
        let found = snapshot.probe(id(snapshot, "p"), &pairs, graph);
        assert_eq!(found.expect("sound"), [false]);
    };
    assert!(is_outdated(probe, &["a p d"], &[]));
    assert!(!is_outdated(probe, &["a p d g", "b p d"], &[]));
    let degrees = |snapshot: &Snapshot| {
        let nodes = [id(snapshot, "c")];
        snapshot.degrees(End::Object, &nodes).expect("sound");
    };
    assert!(is_outdated(degrees, &["new r c"], &[]));
    assert!(!is_outdated(degrees, &["c r new"], &[]));
}

#[test]
fn ranges_conflict_with_the_whole_predicate() {
    let ranges: [fn(&Snapshot); 2] = [
        |snapshot| {
            let (pattern, ids) = (pattern(snapshot, "? p ?"), 0..1);
            snapshot
                .scan_range(&pattern, Order::Pso, ids, &[])
                .expect("sound");
        },
        |snapshot| {
            let any = GraphFilter::Any;
            snapshot
                .count_range(id(snapshot, "p"), End::Object, 0..1, any)
                .expect("sound");
        },
    ];
    for range in ranges {
        assert!(is_outdated(range, &["new p new"], &[]));
        assert!(!is_outdated(range, &["new q new"], &[]));
    }
}

#[test]
fn estimates_conflict_with_nothing_unless_an_answer_depends_on_them() {
    let estimate = |snapshot: &Snapshot| {
        let estimates = snapshot.estimates();
        estimates.count(&pattern(snapshot, "a p ?")).expect("sound");
        assert!(estimates.statistics().quads > 0);
        let wanted = [Component::Object];
        let links = pattern(snapshot, "a p ?");
        let mut scan = estimates.scan(&links, Order::Pso, &wanted).expect("sound");
        assert!(scan.next().expect("sound").is_some());
        let pairs = [(id(snapshot, "a"), id(snapshot, "b"))];
        let found = estimates.probe(id(snapshot, "p"), &pairs, GraphFilter::Any);
        assert_eq!(found.expect("sound"), [true]);
    };
    let everything = ["a p new", "new p new", "a q a new"];
    assert!(!is_outdated(estimate, &everything, &["a p b"]));
    let statistics = |snapshot: &Snapshot| assert!(snapshot.statistics().quads > 0);
    assert!(is_outdated(statistics, &["new new new"], &[]));
    let dependent = |snapshot: &Snapshot| {
        estimate(snapshot);
        snapshot.depend_on(&pattern(snapshot, "a p ?"));
    };
    assert!(is_outdated(dependent, &everything, &[]));
    assert!(!is_outdated(dependent, &["a q new"], &[]));
}

#[test]
fn an_absent_term_conflicts_with_its_first_quad() {
    let look_up = |snapshot: &Snapshot| {
        assert_eq!(snapshot.resolve_key(key("new")).expect("sound"), None);
    };
    assert!(is_outdated(look_up, &["a p new"], &[]));
    assert!(!is_outdated(look_up, &["a p newer"], &[]));
    let several = |snapshot: &Snapshot| {
        let ids = snapshot.resolve_keys(&[key("a"), key("new")]);
        assert_eq!(ids.expect("sound")[1], None);
    };
    assert!(is_outdated(several, &["new p a"], &[]));
}

#[test]
fn an_absent_term_is_found_on_the_device_too() {
    let store = store();
    for (name, expected) in [("one", true), ("two", false)] {
        let mut transaction = begin(&store, Isolation::Serializable);
        let found = transaction.snapshot().resolve_key(key(name));
        assert_eq!(found.expect("sound"), None);
        put(&mut transaction, &["a p mine"], true);
        change(&store, &quads(&["a q one", "a q other"]), &[]).expect("first");
        store.flush().expect("memory");
        change(&store, &quads(&["a r other"]), &[]).expect("another");
        let outcome = transaction.commit();
        assert_eq!(matches!(outcome, Err(StoreError::Outdated)), expected);
        change(&store, &[], &quads(&["a q one", "a r other"])).expect("alone");
    }
}

#[test]
fn inserted_terms_are_not_reads() {
    // Both add the same new term, in different quads.
    let insert = |transaction: &mut Transaction| put(transaction, &["a q new"], true);
    beside(Isolation::Serializable, insert, &["b q new"], &[]).expect("different quads");
    // A private id stands for another term than the same number of others.
    let read = |transaction: &mut Transaction| {
        put(transaction, &["mine p mine"], true);
        let snapshot = transaction.snapshot();
        let count = snapshot.count(&pattern(&snapshot, "mine p ?"));
        assert_eq!(count.expect("sound"), 1);
    };
    beside(Isolation::Serializable, read, &["theirs p theirs"], &[]).expect("another term");
    let outcome = beside(Isolation::Serializable, read, &["mine p theirs"], &[]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
}

#[test]
fn changes_without_effect_are_reads() {
    let again = |transaction: &mut Transaction| put(transaction, &["a p b"], true);
    let outcome = beside(Isolation::Serializable, again, &[], &["a p b"]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
    beside(Isolation::Serializable, again, &[], &["a p c"]).expect("another quad");
    let absent = |transaction: &mut Transaction| put(transaction, &["a p d"], false);
    let outcome = beside(Isolation::Serializable, absent, &["a p d"], &[]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
    let undone = |transaction: &mut Transaction| {
        put(transaction, &["a p d"], true);
        put(transaction, &["a p d"], false);
    };
    beside(Isolation::Snapshot, undone, &["a p d"], &[]).expect("nothing is left of it");
    let outcome = beside(Isolation::Serializable, undone, &["a p d"], &[]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
    let restored = |transaction: &mut Transaction| {
        put(transaction, &["a p b"], false);
        put(transaction, &["a p b"], true);
    };
    let outcome = beside(Isolation::Serializable, restored, &[], &["a p b"]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
}

#[test]
fn a_graph_conflicts_with_its_first_and_last_quad() {
    let asked = |name: &'static str| {
        move |snapshot: &Snapshot| {
            let graph = id(snapshot, name);
            snapshot.has_graph(graph).expect("sound");
        }
    };
    assert!(is_outdated(asked("g"), &[], &["a p b g"]));
    assert!(!is_outdated(asked("g"), &["a p c g"], &[]));
    assert!(!is_outdated(asked("g"), &["a p c g"], &["a p b g"]));
    assert!(!is_outdated(asked("g"), &["a p c new"], &["b p c h"]));
    assert!(is_outdated(asked("a"), &["a p c a"], &[]));
    let list = |snapshot: &Snapshot| {
        assert_eq!(named_graphs(snapshot), 2);
    };
    assert!(is_outdated(list, &[], &["a p b g"]));
    assert!(is_outdated(list, &["a p c new"], &[]));
    assert!(!is_outdated(list, &["a p c g", "new new new"], &[]));
}

#[test]
fn after_own_changes_graphs_are_read_as_patterns() {
    let list = |transaction: &mut Transaction| {
        put(transaction, &["a p c mine"], true);
        assert_eq!(named_graphs(&transaction.snapshot()), 3);
    };
    let outcome = beside(Isolation::Serializable, list, &["a p c g"], &[]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
    beside(Isolation::Serializable, list, &["a p new"], &[]).expect("no named graph");
    let asked = |transaction: &mut Transaction| {
        put(transaction, &["a p b g"], false);
        let snapshot = transaction.snapshot();
        assert!(!snapshot.has_graph(id(&snapshot, "g")).expect("sound"));
    };
    let outcome = beside(Isolation::Serializable, asked, &["b p b g"], &[]);
    assert!(matches!(outcome, Err(StoreError::Outdated)));
}

#[test]
fn of_two_that_check_what_the_other_changes_one_commits() {
    for (isolation, both) in [
        (Isolation::Snapshot, true),
        (Isolation::Serializable, false),
    ] {
        let store = store();
        let mut transactions = [begin(&store, isolation), begin(&store, isolation)];
        for (transaction, name) in transactions
            .iter_mut()
            .zip(["on-call first", "on-call second"])
        {
            let names: Vec<&str> = name.split(' ').collect();
            let snapshot = transaction.snapshot();
            let found = snapshot.resolve_key(key(names[0])).expect("sound");
            assert_eq!(found, None);
            put(transaction, &[&format!("a on-call {}", names[1])], true);
        }
        let [first, second] = transactions;
        first.commit().expect("the first");
        assert_eq!(second.commit().is_ok(), both);
    }
}

#[test]
fn a_retry_sees_the_commit_that_it_conflicted_with() {
    let store = store();
    let mut transaction = begin(&store, Isolation::Serializable);
    let count = |transaction: &Transaction| {
        let snapshot = transaction.snapshot();
        let count = snapshot.count(&pattern(&snapshot, "a p ?"));
        count.expect("sound")
    };
    let before = count(&transaction);
    put(&mut transaction, &["a q new"], true);
    change(&store, &quads(&["a p new"]), &[]).expect("first");
    let error = transaction.commit().expect_err("outdated");
    assert!(error.is_retryable());
    let mut again = begin(&store, Isolation::Serializable);
    assert_eq!(count(&again), before + 1);
    put(&mut again, &["a q new"], true);
    again.commit().expect("nobody else");
}

#[test]
fn a_transaction_without_changes_commits_whatever_others_do() {
    let store = store();
    let transaction = begin(&store, Isolation::Serializable);
    assert!(transaction.snapshot().statistics().quads > 0);
    change(&store, &quads(&["a p new"]), &[]).expect("first");
    assert_eq!(transaction.commit().expect("no changes").position, None);
}

#[test]
fn a_key_is_committed_once_whatever_was_read() {
    let store = store();
    let run = || {
        let mut transaction = begin(&store, Isolation::Serializable);
        assert!(transaction.snapshot().statistics().quads > 0);
        put(&mut transaction, &["a q keyed"], true);
        transaction
    };
    let (first, second) = (run(), run());
    let first = first.commit_with_key(Some("k")).expect("the first");
    let second = second.commit_with_key(Some("k")).expect("the same");
    assert_eq!(first.position, second.position);
}

#[test]
fn a_new_base_conflicts() {
    let store = store();
    let mut transaction = begin(&store, Isolation::Serializable);
    let snapshot = transaction.snapshot();
    assert!(snapshot.has_graph(id(&snapshot, "g")).expect("sound"));
    put(&mut transaction, &["a q new"], true);
    store.compact().expect("memory");
    let error = transaction.commit().expect_err("ids of the old base");
    assert!(error.is_retryable());
}

#[test]
fn nothing_is_recorded_once_a_transaction_commits() {
    let store = open(empty()).expect("memory");
    let mut transaction = begin(&store, Isolation::Serializable);
    let snapshot = transaction.snapshot();
    assert_eq!(snapshot.resolve_key(key("a")).expect("sound"), None);
    assert!(transaction.reads_bytes() > 0);
    put(&mut transaction, &["a p b"], true);
    transaction.commit().expect("alone");
    assert!(snapshot.reads().expect("recorded").take().is_none());
}
