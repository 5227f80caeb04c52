//! Transactions against a set of quads, and what is left of them after a crash.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::LogOptions;
use pythia_rdf::{TermId, TermKey, TermKind};

use super::MaintenanceOptions;
use crate::store::{OpenOptions, Store, WriteOptions};
use crate::testing::{SMALL_PAGES, write_segment};
use crate::verify::{VerifyOptions, verify};
use crate::{Order, QuadPattern, Snapshot, StoreError};

/// A quad of names.
type Named = [String; 4];

const OPEN: OpenOptions = OpenOptions {
    cache_bytes: 4 << 20,
};

fn write_options() -> WriteOptions {
    WriteOptions {
        log: LogOptions {
            file_bytes: 64 << 10,
            prepare_ahead: false,
            ..LogOptions::default()
        },
        maintenance: MaintenanceOptions {
            in_background: false,
            ..MaintenanceOptions::default()
        },
        ..WriteOptions::default()
    }
}

/// A store without quads.
fn empty() -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    write_segment(storage.clone(), &BTreeSet::new(), SMALL_PAGES).expect("memory does not fail");
    storage
}

fn open(storage: Arc<dyn Storage>) -> Result<Store, StoreError> {
    Store::open_storage_for_writing(storage, OPEN, &write_options())
}

fn key(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

/// The quads of a store, by name.
fn contents(store: &Store) -> BTreeSet<Named> {
    let snapshot = store.snapshot();
    let mut scan = snapshot.quads().expect("sound");
    let mut quads = BTreeSet::new();
    while let Some(batch) = scan.next().expect("sound") {
        for row in 0..batch.rows {
            let name = |column: usize| match batch.columns[column][row] {
                0 => String::new(),
                id => match &snapshot.decode(&[TermId(id)]).expect("sound")[0] {
                    oxrdf::Term::NamedNode(node) => node.as_str().to_owned(),
                    term => term.to_string(),
                },
            };
            quads.insert([0, 1, 2, 3].map(name));
        }
    }
    let count = snapshot.count(&QuadPattern::default()).expect("sound");
    assert_eq!(count, quads.len() as u64);
    quads
}

/// One transaction that adds and removes quads.
fn change(store: &Store, add: &[Named], remove: &[Named]) -> Result<super::Committed, StoreError> {
    let mut transaction = store.begin()?;
    let mut ids = |quads: &[Named]| -> Result<Vec<[u64; 4]>, StoreError> {
        let mut rows = Vec::new();
        for quad in quads {
            let keys: Vec<_> = quad.iter().filter(|name| !name.is_empty()).collect();
            let keys: Vec<_> = keys.into_iter().map(|name| key(name)).collect();
            let mut row = transaction.ids(&keys)?.into_iter();
            rows.push(std::array::from_fn(|_| row.next().map_or(0, |id| id.0)));
        }
        Ok(rows)
    };
    let (add, remove) = (ids(add)?, ids(remove)?);
    transaction.remove(&remove)?;
    transaction.insert(&add)?;
    transaction.commit()
}

fn named(number: u8) -> Named {
    let name = |what: &str, number: u8| format!("http://example.org/{what}{number}");
    let graph = match number % 3 {
        0 => name("g", number % 2),
        _ => String::new(),
    };
    [
        name("s", number % 5),
        name("p", number % 2),
        name("o", number / 5),
        graph,
    ]
}

/// Quads to add and to remove, and what to do then.
type Step = (Vec<u8>, Vec<u8>, After);

#[derive(Clone, Copy, Debug)]
enum After {
    Nothing,
    Flush,
    Merge,
    Rewrite,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = || prop::collection::vec(0..60u8, 0..12);
    let after = prop_oneof![
        4 => Just(After::Nothing),
        3 => Just(After::Flush),
        1 => Just(After::Merge),
        1 => Just(After::Rewrite),
    ];
    prop::collection::vec((numbers(), numbers(), after), 1..20)
}

fn maintain(store: &Store, after: After) -> Result<(), StoreError> {
    match after {
        After::Nothing => Ok(()),
        After::Flush => store.flush().map(|_| ()),
        After::Merge => store.maintain(),
        After::Rewrite => store.rewrite().map(|_| ()),
    }
}

/// Terms by the beginnings of their keys, against all terms one by one.
fn check_prefixes(snapshot: &Snapshot) {
    let [old, new] = snapshot.ids_with_prefix(TermKind::Iri, b"").expect("sound");
    let ids: Vec<TermId> = old.chain(new.clone()).map(TermId).collect();
    let mut terms = Vec::new();
    let collect = |index: usize, key: TermKey<'_>| terms.push((key.to_owned_key(), ids[index]));
    snapshot.decode_keys(&ids, collect).expect("sound");
    terms.sort_unstable();
    for prefix in ["http://example.org/o1", "http://example.org/0004", "i"] {
        for limit in [0, 3, usize::MAX] {
            let prefix = prefix.as_bytes();
            let matching = terms
                .iter()
                .filter(|(key, _)| key.bytes.starts_with(prefix));
            let found = snapshot.terms_with_prefix(TermKind::Iri, prefix, limit);
            let expected: Vec<_> = matching.clone().take(limit).cloned().collect();
            assert_eq!(found.expect("sound"), expected);
            let found = snapshot.new_terms_with_prefix(TermKind::Iri, prefix, limit);
            let matching = matching.filter(|(_, id)| new.contains(&id.0));
            assert_eq!(
                found.expect("sound"),
                matching.take(limit).cloned().collect::<Vec<_>>()
            );
        }
    }
}

fn quads(numbers: &[u8]) -> Vec<Named> {
    numbers.iter().map(|&number| named(number)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn transactions_change_a_set_and_outlive_a_restart(changes in steps(), restart in 0..20usize) {
        let storage = empty();
        let mut store = open(storage.clone()).expect("sound");
        let mut model: BTreeSet<Named> = BTreeSet::new();
        for (number, (add, remove, after)) in changes.iter().enumerate() {
            if number == restart {
                drop(store);
                store = open(storage.clone()).expect("sound");
            }
            let committed = change(&store, &quads(add), &quads(remove)).expect("memory");
            let before = model.clone();
            quads(remove).iter().for_each(|quad| { model.remove(quad); });
            model.extend(quads(add));
            prop_assert_eq!(committed.added, model.difference(&before).count() as u64);
            prop_assert_eq!(committed.removed, before.difference(&model).count() as u64);
            prop_assert_eq!(contents(&store), model.clone());
            maintain(&store, *after).expect("memory");
            prop_assert_eq!(contents(&store), model.clone());
            check_prefixes(&store.snapshot());
        }
        let position = store.position();
        drop(store);
        let reader = Store::open_storage(storage.clone(), OPEN).expect("sound");
        prop_assert_eq!(contents(&reader), model);
        let report = verify(storage, VerifyOptions::default(), &mut |_| {});
        prop_assert_eq!(report.problems, []);
        prop_assert_eq!(reader.position(), position);
    }

    /// What was acknowledged is there, in order, and nothing else but perhaps the commit under way.
    #[test]
    fn a_crash_loses_nothing_that_was_acknowledged(
        changes in steps(),
        crash in 1..1500u64,
        seed in any::<u64>(),
    ) {
        let disk = empty();
        let faulty = FaultyStorage::new(disk.clone(), FaultPlan::crash_at(crash, seed));
        let mut states = vec![BTreeSet::new()];
        let mut acknowledged = 0;
        if let Ok(store) = open(Arc::new(faulty.clone())) {
            for (add, remove, after) in &changes {
                let mut next: BTreeSet<Named> = states.last().expect("never empty").clone();
                quads(remove).iter().for_each(|quad| { next.remove(quad); });
                next.extend(quads(add));
                states.push(next);
                if change(&store, &quads(add), &quads(remove)).is_err() {
                    break;
                }
                acknowledged = states.len() - 1;
                if maintain(&store, *after).is_err() {
                    break;
                }
            }
        }
        faulty.crash().expect("memory");
        let store = open(disk).expect("a store after a crash");
        let found = contents(&store);
        prop_assert!(states[acknowledged..].contains(&found), "{} were acknowledged", acknowledged);
        change(&store, &quads(&[1]), &[]).expect("it can be written to");
    }
}

#[test]
fn a_view_has_its_own_changes_and_nobody_elses() {
    let store = open(empty()).expect("sound");
    change(&store, &quads(&[1, 2]), &[]).expect("memory");
    let mut transaction = store.begin().expect("open for writing");
    let ids = transaction.ids(&[key("http://example.org/new"), key("http://example.org/s1")]);
    let ids = ids.expect("memory");
    let quad = [ids[0].0, ids[1].0, ids[0].0, 0];
    assert_eq!(transaction.insert(&[quad, quad]).expect("memory"), 1);
    assert_eq!(transaction.insert(&[quad]).expect("memory"), 0);
    assert_eq!(transaction.snapshot().statistics().quads, 3);
    assert_eq!(store.snapshot().statistics().quads, 2);
    change(&store, &quads(&[3]), &[]).expect("memory");
    assert_eq!(transaction.snapshot().statistics().quads, 3);
    let committed = transaction.commit().expect("no conflict");
    assert_eq!((committed.added, committed.removed), (1, 0));
    assert_eq!(contents(&store).len(), 4);
    let names: Vec<_> = contents(&store)
        .into_iter()
        .map(|quad| quad[0].clone())
        .collect();
    assert!(
        names.contains(&"http://example.org/new".to_owned()),
        "{names:?}"
    );
}

#[test]
fn the_first_committer_wins_and_the_other_may_try_again() {
    let store = open(empty()).expect("sound");
    let mut first = store.begin().expect("open for writing");
    let mut second = store.begin().expect("open for writing");
    for transaction in [&mut first, &mut second] {
        let names = named(1);
        let keys: Vec<_> = names[..3].iter().map(|name| key(name)).collect();
        let ids = transaction.ids(&keys).expect("memory");
        transaction
            .insert(&[[ids[0].0, ids[1].0, ids[2].0, 0]])
            .expect("memory");
    }
    first.commit().expect("nobody came before");
    let error = second.commit().expect_err("the same quad");
    assert!(error.is_retryable(), "{error}");
    let again = change(&store, &quads(&[1]), &[]).expect("memory");
    assert_eq!((again.added, again.position), (0, None));
}

#[test]
fn a_commit_with_a_key_is_made_once() {
    let storage = empty();
    for restart in 0..3 {
        let store = open(storage.clone()).expect("sound");
        let mut transaction = store.begin().expect("open for writing");
        let ids = transaction
            .ids(&[key("http://example.org/a")])
            .expect("memory");
        let quad = [ids[0].0, ids[0].0, ids[0].0, 0];
        transaction.remove(&[quad]).expect("memory");
        let committed = transaction.commit_with_key(Some("once")).expect("memory");
        assert_eq!(
            committed.position.map(|position| position.0),
            Some(1),
            "{restart}"
        );
    }
}

#[test]
fn a_store_opened_for_reading_is_not_written_to() {
    let store = Store::open_storage(empty(), OPEN).expect("sound");
    assert!(matches!(store.begin(), Err(StoreError::ReadOnly)));
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let store = open(empty()).expect("sound");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..40u8 {
                    let name = |what: &str| format!("http://example.org/{what}/{thread}/{number}");
                    let quad = [
                        name("s"),
                        "http://example.org/p".to_owned(),
                        name("o"),
                        String::new(),
                    ];
                    change(store, &[quad], &[]).expect("no conflict");
                }
            });
        }
    });
    assert_eq!(contents(&store).len(), 160);
    assert_eq!(store.position().0, 160);
    let orders = Order::ALL.map(|order| {
        let mut scan = store
            .snapshot()
            .scan(&QuadPattern::default(), order, &[])
            .expect("sound");
        let mut rows = 0;
        while let Some(batch) = scan.next().expect("sound") {
            rows += batch.rows;
        }
        rows
    });
    assert_eq!(orders, [160; 4]);
}

#[test]
fn scrubbing_finds_a_flipped_bit_and_commits_go_on() {
    let disk = empty();
    let faulty = FaultyStorage::new(disk, FaultPlan::none());
    let store = open(Arc::new(faulty.clone())).expect("sound");
    change(&store, &quads(&(0..60).collect::<Vec<_>>()), &[]).expect("memory");
    store.flush().expect("memory");
    let writer = store.writer().expect("open for writing");
    let unpaced = crate::pace::Pace::default();
    writer.scrub(&unpaced).expect("nothing fails");
    let sound = store.scrubbed().expect("open for writing");
    assert_eq!((sound.rounds, sound.problems.len()), (1, 0));
    assert!(sound.pages > 0);
    faulty.set_plan(FaultPlan::flip("run-000001/added/spo.pages", 100, 3));
    writer.scrub(&unpaced).expect("what is found is no failure");
    writer.scrub(&unpaced).expect("what is found is no failure");
    let found = store.scrubbed().expect("open for writing").problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].file, "run-000001/added/spo.pages");
    assert_eq!(found[0].page, Some(0));
    change(&store, &quads(&[61]), &[]).expect("commits go on");
}

/// A step of maintenance that fails leaves terms and quads as they were, for readers and commits.
#[test]
fn commits_go_on_after_maintenance_has_failed_anywhere() {
    for after in [After::Flush, After::Rewrite] {
        let faulty = FaultyStorage::new(empty(), FaultPlan::none());
        let store = open(Arc::new(faulty.clone())).expect("sound");
        let mut model = BTreeSet::new();
        let mut add = |number: usize| {
            let name = |what: &str| format!("http://example.org/{what}/{number}");
            let quad = [name("s"), name("p"), name("o"), String::new()];
            change(&store, std::slice::from_ref(&quad), &[]).expect("the device works again");
            model.insert(quad);
            assert_eq!(contents(&store), model, "{after:?} {number}");
        };
        for step in 1..40 {
            add(step);
            faulty.set_plan(FaultPlan::fail_at(faulty.operations() + step as u64));
            let outcome = maintain(&store, after);
            faulty.set_plan(FaultPlan::none());
            if matches!(outcome, Err(StoreError::Log(_))) {
                break;
            }
            add(1000 + step);
        }
    }
}
