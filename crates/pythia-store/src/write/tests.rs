//! Transactions against a model set of quads, and their results after a crash.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::LogOptions;
use pythia_rdf::{TermId, TermKey, TermKind};

use super::load::LoadStep;
use super::load_tests::{Beside, Moves, load_beside};
use super::{MaintenanceOptions, Transaction};
use crate::compact::Extent;
use crate::load::LoadProgress;
use crate::load::store_tests::{options, source};
use crate::store::{OpenOptions, Store};
use crate::testing::{SMALL_PAGES, TERMS, write_segment_of};
use crate::verify::{VerifyOptions, verify};
use crate::write::WriteOptions;
use crate::{Order, QuadPattern, Snapshot, StoreError};

/// A quad of names.
pub(super) type Named = [String; 4];

pub(super) const OPEN: OpenOptions = OpenOptions {
    cache_bytes: 4 << 20,
};

pub(super) fn write_options() -> WriteOptions {
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

/// Makes a store without quads.
pub(super) fn empty() -> Arc<MemoryStorage> {
    empty_of(TERMS)
}

/// As [`empty`], with this many terms of each kind in its dictionary.
fn empty_of(terms: u64) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new());
    let none = BTreeSet::new();
    write_segment_of(storage.clone(), &none, SMALL_PAGES, terms).expect("memory does not fail");
    storage
}

pub(super) fn open(storage: Arc<dyn Storage>) -> Result<Store, StoreError> {
    open_spilling(storage, false)
}

/// As [`open`]; if asked for, each change of a transaction moves its earlier ones to the device.
pub(super) fn open_spilling(storage: Arc<dyn Storage>, spills: bool) -> Result<Store, StoreError> {
    let mut options = write_options();
    if spills {
        options.maintenance.transaction_bytes = 0;
    }
    Store::open_storage_for_writing(storage, OPEN, &options)
}

fn key(name: &str) -> TermKey<'_> {
    TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    }
}

/// Returns the quads of a store, by name.
pub(super) fn contents(store: &Store) -> BTreeSet<Named> {
    contents_of(&store.snapshot())
}

/// Returns the quads of a snapshot, by name.
pub(super) fn contents_of(snapshot: &Snapshot) -> BTreeSet<Named> {
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

/// Runs one transaction that adds and removes quads.
pub(super) fn change(
    store: &Store,
    add: &[Named],
    remove: &[Named],
) -> Result<super::Committed, StoreError> {
    change_by(store.begin()?, add, remove)
}

/// Adds and removes quads, and commits.
pub(super) fn change_by(
    mut transaction: Transaction,
    add: &[Named],
    remove: &[Named],
) -> Result<super::Committed, StoreError> {
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

/// Quads to add, quads to remove, and the action after the commit.
pub(super) type Step = (Vec<u8>, Vec<u8>, After);

#[derive(Clone, Debug)]
pub(super) enum After {
    Nothing,
    Flush,
    Merge,
    Compact,
    /// Compacts the orders, or the whole base if that is due.
    CompactDue,
    /// Removes all quads.
    Clear,
    /// Loads quads.
    Load(Vec<u8>),
    /// Loads quads while others are added and removed.
    LoadBeside(Vec<u8>, Vec<Beside>),
}

impl After {
    /// Returns the successive states of the quads.
    pub(super) fn states(&self, before: &BTreeSet<Named>) -> Vec<BTreeSet<Named>> {
        let loaded = |before: &BTreeSet<Named>, numbers: &[u8]| {
            let mut after = before.clone();
            after.extend(quads(numbers));
            after
        };
        match self {
            Self::Clear => vec![BTreeSet::new()],
            Self::Load(numbers) => vec![loaded(before, numbers)],
            Self::LoadBeside(numbers, beside) => {
                let mut states = Vec::new();
                let mut last = before.clone();
                for change in beside {
                    change.apply(&mut last);
                    states.push(last.clone());
                }
                states.push(loaded(&last, numbers));
                states
            }
            _ => vec![before.clone()],
        }
    }
}

/// Actions during a load.
fn beside() -> impl Strategy<Value = Vec<Beside>> {
    use LoadStep::{AlmostDone, Copied, Placed, Resolved, Written};
    let steps = prop::sample::subsequence(
        vec![
            Resolved, Resolved, Placed, Placed, Written, Written, Copied, Copied, AlmostDone,
            AlmostDone,
        ],
        1..8,
    );
    let numbers = || prop::collection::vec(0..60u8, 0..6);
    let moves = prop::sample::select(vec![Moves::Nothing, Moves::Flush, Moves::Merge]);
    let changes = prop::collection::vec((numbers(), numbers(), moves), 8);
    (steps, changes).prop_map(|(steps, changes)| {
        let with_step =
            |(step, (add, remove, moves)): (LoadStep, (Vec<u8>, Vec<u8>, Moves))| Beside {
                step,
                add: quads(&add),
                remove: quads(&remove),
                moves,
            };
        steps.into_iter().zip(changes).map(with_step).collect()
    })
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Often none, so that the action after the previous step stands alone.
    let numbers = || prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(0..60u8, 1..12)];
    let after = prop_oneof![
        2 => Just(After::Nothing),
        3 => Just(After::Flush),
        1 => Just(After::Merge),
        1 => Just(After::Compact),
        3 => Just(After::CompactDue),
        4 => Just(After::Clear),
        2 => numbers().prop_map(After::Load),
        4 => (numbers(), beside()).prop_map(|(load, beside)| After::LoadBeside(load, beside)),
    ];
    prop::collection::vec((numbers(), numbers(), after), 1..20)
}

/// Moves actions at a load's end before it: then a transaction with changes on the device would wait for the load,
/// whose thread it runs on.
fn spilling(mut steps: Vec<Step>) -> Vec<Step> {
    for (_, _, after) in &mut steps {
        if let After::LoadBeside(_, beside) = after {
            for beside in beside {
                beside.step = beside.step.min(LoadStep::Copied);
            }
        }
    }
    steps
}

/// Runs the action after a step, on a store with these quads.
pub(super) fn maintain(
    store: &Store,
    after: &After,
    model: &BTreeSet<Named>,
) -> Result<(), StoreError> {
    maintain_counting(store, after, model, &Arc::default())
}

/// As [`maintain`]; counts the states of [`After::states`] that are reached.
fn maintain_counting(
    store: &Store,
    after: &After,
    model: &BTreeSet<Named>,
    reached: &Arc<AtomicUsize>,
) -> Result<(), StoreError> {
    if let After::LoadBeside(numbers, beside) = after {
        return load_beside(store, &quads(numbers), beside, reached);
    }
    match after {
        After::Nothing => Ok(()),
        After::Flush => store.flush().map(|_| ()),
        After::Merge => store.maintain(),
        After::Compact => store.compact().map(|_| ()),
        After::CompactDue => store.writer()?.compact_due().map(|_| ()),
        After::Clear => {
            let all: Vec<Named> = model.iter().cloned().collect();
            change(store, &[], &all).map(|_| ())
        }
        After::Load(numbers) => load(store, &quads(numbers)),
        After::LoadBeside(..) => unreachable!("done above"),
    }?;
    reached.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Returns quads as N-Quads.
pub(super) fn lines<'q>(quads: impl IntoIterator<Item = &'q Named>) -> String {
    let line = |quad: &Named| {
        let terms = quad.iter().filter(|name| !name.is_empty());
        let terms = terms.map(|name| format!("<{name}> "));
        terms.chain([".\n".to_owned()]).collect::<String>()
    };
    quads.into_iter().map(line).collect()
}

/// Loads quads.
pub(super) fn load(store: &Store, quads: &[Named]) -> Result<(), StoreError> {
    let progress = Arc::new(LoadProgress::default());
    let sources = vec![source(&lines(quads))];
    store.load(sources, &options(1 << 30, 1), &progress)?;
    Ok(())
}

/// Checks lookups of terms by key prefix against all terms one by one.
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

pub(super) fn quads(numbers: &[u8]) -> Vec<Named> {
    numbers.iter().map(|&number| named(number)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn changes_and_loads_are_those_of_a_set_and_outlive_a_restart(
        changes in steps(),
        restart in 0..20usize,
        spills in prop::bool::weighted(0.2),
    ) {
        let storage = empty();
        let changes = if spills { spilling(changes) } else { changes };
        let open = |storage| open_spilling(storage, spills);
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
            maintain(&store, after, &model).expect("memory");
            model = after.states(&model).pop().expect("never empty");
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

    /// Acknowledged commits survive, in order, and nothing else except perhaps the commit in progress.
    #[test]
    fn a_crash_loses_nothing_that_was_acknowledged(
        changes in steps(),
        crash in 1..1500u64,
        seed in any::<u64>(),
        spills in prop::bool::weighted(0.2),
    ) {
        let disk = empty();
        let faulty = FaultyStorage::new(disk.clone(), FaultPlan::crash_at(crash, seed));
        let changes = if spills { spilling(changes) } else { changes };
        let open = |storage| open_spilling(storage, spills);
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
                let before = states.last().expect("never empty").clone();
                states.extend(after.states(&before));
                let reached = Arc::default();
                let outcome = maintain_counting(&store, after, &before, &reached);
                acknowledged += reached.load(Ordering::Relaxed);
                // A load of nothing succeeds although a commit beside it has failed, and so does a commit of nothing after it.
                if outcome.is_err() || acknowledged + 1 < states.len() {
                    break;
                }
            }
        }
        faulty.crash().expect("memory");
        let store = open(disk).expect("a store after a crash");
        let found = contents(&store);
        prop_assert!(
            states[acknowledged..].contains(&found),
            "{acknowledged} were acknowledged, up to {:?}; there is {found:?}",
            states[acknowledged]
        );
        change(&store, &quads(&[1]), &[]).expect("it can be written to");
    }
}

/// Terms keep their numbers when the quads that added them are gone, and terms that a load finds in memory must be on
/// the device when its run names them.
#[test]
fn a_load_may_use_terms_whose_quads_have_cancelled_out() {
    for reopen in [false, true] {
        let storage = empty();
        let mut store = open(storage.clone()).expect("sound");
        change(&store, &quads(&[1, 2, 3]), &[]).expect("memory");
        change(&store, &[], &quads(&[1, 2, 3])).expect("memory");
        if reopen {
            drop(store);
            store = open(storage.clone()).expect("sound");
        }
        load(&store, &quads(&[2, 7])).expect("memory");
        let expected: BTreeSet<Named> = quads(&[2, 7]).into_iter().collect();
        assert_eq!(contents(&store), expected);
        store.compact().expect("memory");
        assert_eq!(contents(&store), expected);
        drop(store);
        let report = verify(storage, VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, []);
    }
}

/// Otherwise commits would wait for memory forever once such terms fill it.
#[test]
fn a_flush_moves_terms_whose_quads_have_cancelled_out() {
    let store = open(empty()).expect("sound");
    change(&store, &quads(&[1, 2, 3]), &[]).expect("memory");
    change(&store, &[], &quads(&[1, 2, 3])).expect("memory");
    let writer = store.writer().expect("open for writing");
    let before = writer.memory_bytes();
    assert!(store.flush().expect("memory"));
    assert!(writer.memory_bytes() < before / 2);
    assert!(!store.flush().expect("memory"), "nothing is left to move");
    change(&store, &quads(&[2]), &[]).expect("memory");
    assert_eq!(contents(&store), quads(&[2]).into_iter().collect());
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

/// Counts the files with changes that are too many for the log itself.
pub(super) fn aside(storage: &MemoryStorage) -> usize {
    let names = storage.list("log").expect("memory");
    names.iter().filter(|name| name.ends_with(".bulk")).count()
}

#[test]
fn a_large_commit_is_put_aside_in_pieces_and_what_conflicts_leaves_no_file() {
    let storage = empty();
    let store = open(storage.clone()).expect("sound");
    let numbers = 0..20_000;
    let fill = |transaction: &mut super::Transaction| {
        let names: Vec<String> = numbers
            .clone()
            .map(|n| format!("http://example.org/{n}"))
            .collect();
        let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
        let ids = transaction.ids(&keys).expect("memory");
        let rows: Vec<[u64; 4]> = ids.iter().map(|id| [id.0, ids[0].0, id.0, 0]).collect();
        transaction.insert(&rows).expect("memory");
    };
    let (mut first, mut second) = (
        store.begin().expect("a writer"),
        store.begin().expect("a writer"),
    );
    fill(&mut first);
    fill(&mut second);
    // Its terms get other numbers than their private ones.
    change(&store, &quads(&[1, 2, 3]), &[]).expect("nobody else commits");
    let committed = first.commit_with_key(Some("large")).expect("other quads");
    assert_eq!((committed.added, aside(&storage)), (20_000, 1));
    assert!(matches!(second.commit(), Err(StoreError::Conflict)));
    assert_eq!(aside(&storage), 1);
    let mut again = store.begin().expect("a writer");
    fill(&mut again);
    let again = again.commit_with_key(Some("large")).expect("made before");
    assert_eq!((again.added, aside(&storage)), (0, 1));
    let expected = contents(&store);
    assert_eq!(expected.len(), 20_003);
    drop(store);
    let store = open(storage.clone()).expect("sound");
    assert_eq!(contents(&store), expected);
    store.flush().expect("memory");
    assert_eq!(contents(&store), expected);
}

#[test]
fn a_snapshot_keeps_what_its_transaction_makes_one_with_later_changes() {
    let store = open(empty()).expect("sound");
    let mut transaction = store.begin().expect("a writer");
    let mut snapshots = Vec::new();
    for number in 0..20 {
        let names = named(number);
        let keys: Vec<_> = names[..3].iter().map(|name| key(name)).collect();
        let ids = transaction.ids(&keys).expect("memory");
        transaction
            .insert(&[[ids[0].0, ids[1].0, ids[2].0, 0]])
            .expect("memory");
        snapshots.push(transaction.snapshot());
    }
    let all = QuadPattern::default();
    for (number, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.count(&all).expect("sound"), number as u64 + 1);
    }
    assert_eq!(transaction.commit().expect("alone").added, 20);
    assert_eq!(snapshots[3].count(&all).expect("sound"), 4);
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
    let orders = Order::OF_ALL_GRAPHS.map(|order| {
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

/// A failed maintenance step leaves terms and quads unchanged for readers and commits.
#[test]
fn commits_go_on_after_maintenance_has_failed_anywhere() {
    for after in [After::Flush, After::Compact, After::CompactDue] {
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
            let outcome = maintain(&store, &after, &BTreeSet::new());
            faulty.set_plan(FaultPlan::none());
            if matches!(outcome, Err(StoreError::Log(_))) {
                break;
            }
            add(1000 + step);
        }
    }
}

/// Quads of many new terms: enough for a compaction to finish some files before others.
pub(super) fn many(from: u32, count: u32) -> Vec<Named> {
    let name = |what: &str, number: u32| format!("http://example.org/{what}/{number}");
    (from..from + count)
        .map(|n| {
            [
                name("s", n),
                name("p", n % 3),
                name("o", n % 50),
                String::new(),
            ]
        })
        .collect()
}

/// A compaction interrupted by a crash continues when the store is opened again, even after commits in between, and
/// does not write finished parts again.
#[test]
fn an_interrupted_compaction_continues_after_any_crash() {
    // Without terms in the dictionary, the whole base is written again.
    go_on_after_any_crash(0, Extent::Whole);
    go_on_after_any_crash(TERMS, Extent::Orders);
}

/// Interrupts compactions of a store with this many terms of each kind.
fn go_on_after_any_crash(terms: u64, extent: Extent) {
    let disk = || {
        let disk = empty_of(terms);
        let store = open(disk.clone()).expect("sound");
        for from in [0, 300, 600] {
            change(&store, &many(from, 300), &[]).expect("memory");
            store.flush().expect("memory");
        }
        disk
    };
    let writer = |store: &Store| Arc::clone(store.writer().expect("open for writing"));
    let calm = FaultyStorage::new(disk(), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("sound");
    let (opened, before) = (calm.operations(), calm.bytes_appended());
    let manifest = store.manifest();
    assert_eq!(MaintenanceOptions::extent_due(&manifest), extent);
    writer(&store).compact_due().expect("no faults");
    let whole = calm.bytes_appended() - before;
    drop(store);
    let mut least = u64::MAX;
    for crash in opened + 1..=calm.operations() {
        let disk = disk();
        let faulty = FaultyStorage::new(disk.clone(), FaultPlan::crash_at(crash, crash));
        let store = open(Arc::new(faulty.clone())).expect("not yet");
        let _ = writer(&store).compact_due();
        drop(store);
        faulty.crash().expect("memory");
        // Its input runs may be merged, and there may be commits.
        let store = open(disk.clone()).expect("after a crash");
        change(&store, &many(2000, 5), &many(0, 5)).expect("memory");
        store.flush().expect("memory");
        while writer(&store).merge_due().expect("memory") {}
        drop(store);
        let again = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(again.clone())).expect("sound");
        let before = again.bytes_appended();
        writer(&store).compact_due().expect("no faults");
        least = least.min(again.bytes_appended() - before);
        let expected: BTreeSet<Named> =
            [many(5, 895), many(2000, 5)].concat().into_iter().collect();
        assert!(contents(&store) == expected, "crash at {crash}");
        drop(store);
        let leftovers = |names: Vec<String>| {
            let is_left = |name: &String| name.starts_with("FROM") || name.ends_with(".part");
            names.into_iter().filter(is_left).count()
        };
        let store = open(disk.clone()).expect("sound");
        let manifest = store.manifest();
        assert_eq!(
            leftovers(disk.list(&manifest.segment.folder()).expect("memory")),
            0
        );
        let folders = disk.list("").expect("memory");
        let of_state = |name: &&String| {
            let kinds = ["run-", "segment-", "dictionary-"];
            kinds.iter().any(|kind| name.starts_with(kind))
        };
        assert_eq!(
            folders.iter().filter(of_state).count(),
            2 + manifest.runs.len()
        );
        drop(store);
        let report = verify(disk, VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, [], "crash at {crash}");
    }
    // Both begin a file of the log.
    let log = write_options().log.file_bytes;
    let (least, whole) = (least - log, whole - log);
    assert!(least < whole / 2, "{least} of {whole} bytes at least");
}

/// An explicit compaction includes all commits, so it does not continue from an older state.
#[test]
fn a_compaction_that_is_asked_for_has_all_commits() {
    let faulty = FaultyStorage::new(empty(), FaultPlan::none());
    let store = open(Arc::new(faulty.clone())).expect("sound");
    change(&store, &many(0, 300), &[]).expect("memory");
    store.flush().expect("memory");
    for commits_between in [false, true] {
        change(&store, &many(500, 1 + u32::from(commits_between)), &[]).expect("memory");
        store.flush().expect("memory");
        faulty.set_plan(FaultPlan::fail_at(faulty.operations() + 40));
        store.compact().expect_err("it fails");
        faulty.set_plan(FaultPlan::none());
        let base = store.manifest().segment;
        let is_left = || faulty.exists(&format!("segment-{:06}/FROM", base.0 + 1));
        assert!(is_left().expect("memory"));
        if commits_between {
            change(&store, &many(600, 1), &[]).expect("memory");
        }
        store.compact().expect("no faults");
        assert_eq!(store.manifest().runs.len(), 0);
        assert_eq!(store.manifest().quads, contents(&store).len() as u64);
    }
}
