//! Optional indexes that are built while the store is used: their answers are those of a search, whatever is
//! committed, compacted or interrupted before, during and after the build.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_rdf::TermId;

use super::tests::{Named, change, contents, empty, open};
use crate::StoreError;
use crate::manifest::AuxiliaryKind;
use crate::optimize::OptimizeOptions;
use crate::pace::Pace;
use crate::pattern::{End, Expansion, GraphFilter};
use crate::snapshot::{CHANGED_EDGES_MAX, CHANGED_VALUES_MAX, Snapshot};
use crate::store::{Change, Store};
use crate::verify::{VerifyOptions, verify};

/// Edges, and an attribute of nodes.
const LINK: &str = "http://example.org/link";
const GENDER: &str = "http://example.org/gender";

fn node(number: u16) -> String {
    format!("http://example.org/n/{number:04}")
}

fn link(from: u16, to: u16) -> Named {
    [node(from), LINK.to_owned(), node(to), String::new()]
}

fn gender(of: u16, value: u16) -> Named {
    let value = format!("http://example.org/gender/{value}");
    [node(of), GENDER.to_owned(), value, String::new()]
}

fn id(snapshot: &Snapshot, name: &str) -> Option<TermId> {
    let node = oxrdf::NamedNodeRef::new_unchecked(name);
    snapshot.resolve(node.into()).expect("sound")
}

/// Returns whether a quad is a link of the default graph.
fn is_link(quad: &&Named) -> bool {
    quad[1] == LINK && quad[3].is_empty()
}

/// Returns the kinds of all indexes of the edges and the attribute.
fn kinds(store: &Store) -> Result<Vec<AuxiliaryKind>, StoreError> {
    let snapshot = store.snapshot();
    let of = |name| id(&snapshot, name).map_or(0, |id| id.0);
    Ok(vec![
        AuxiliaryKind::Reachability {
            predicate: of(LINK),
        },
        AuxiliaryKind::Attribute {
            predicate: of(GENDER),
            along: vec![of(LINK)],
        },
        AuxiliaryKind::Degrees,
    ])
}

fn build(store: &Store) -> Result<(), StoreError> {
    let add = |store: &Store| {
        Ok(Change {
            add: kinds(store)?,
            drop: Vec::new(),
        })
    };
    let pace = Pace::default().with_rests();
    let built = store.optimize(&add, OptimizeOptions::default(), &pace);
    built.map(drop)
}

/// Returns a store of these quads, all in the base.
fn store_of(quads: &[Named]) -> (Arc<MemoryStorage>, Store) {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, quads, &[]).expect("memory");
    store.compact().expect("memory");
    (disk, store)
}

/// Returns the names that each name reaches by one link or more.
fn closure(quads: &BTreeSet<Named>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut links: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for quad in quads.iter().filter(is_link) {
        links.entry(&quad[0]).or_default().push(&quad[2]);
    }
    let mut closure = BTreeMap::new();
    for &start in links.keys() {
        let mut found = BTreeSet::new();
        let mut stack = vec![start];
        while let Some(name) = stack.pop() {
            let next = links.get(name).into_iter().flatten();
            stack.extend(next.copied().filter(|&next| found.insert(next)));
        }
        closure.insert(start, found);
    }
    closure
}

/// Compares the labels' answers for all pairs of nodes with searches of the quads.
fn check_labels(snapshot: &Snapshot, quads: &BTreeSet<Named>, nodes: &[(TermId, String)]) {
    let predicate = id(snapshot, LINK).expect("there");
    let labels = snapshot.reachability(predicate).expect("sound");
    let labels = labels.expect("built, and few edges changed");
    let closure = closure(quads);
    let both = |from| nodes.iter().map(move |to| (from, to));
    let pairs: Vec<_> = nodes.iter().flat_map(both).collect();
    let ids: Vec<(TermId, TermId)> = pairs.iter().map(|(from, to)| (from.0, to.0)).collect();
    // All at once, and from one or to one node.
    let parts = [ids.len(), nodes.len(), 7].map(|size| {
        let answers = ids.chunks(size.max(1)).map(|pairs| {
            let found = labels.reaches::<StoreError>(pairs, &mut |_| Ok(()));
            found.expect("sound")
        });
        answers.flatten().collect::<Vec<bool>>()
    });
    for (index, (from, to)) in pairs.into_iter().enumerate() {
        let reached = closure.get(&*from.1);
        let expected = reached.is_some_and(|reached| reached.contains(&*to.1));
        for found in &parts {
            assert_eq!(found[index], expected, "{} to {}", from.1, to.1);
        }
    }
}

/// Compares the cached values with the join of links and values.
fn check_values(snapshot: &Snapshot, quads: &BTreeSet<Named>, nodes: &[(TermId, String)]) {
    let attribute = snapshot.attribute(id(snapshot, GENDER).expect("there"));
    let attribute = attribute.expect("sound").expect("built, few changes");
    let predicate = id(snapshot, LINK).expect("there");
    let ids: Vec<TermId> = nodes.iter().map(|node| node.0).collect();
    let values = |of: &str| -> Vec<TermId> {
        let of_node = |quad: &&Named| quad[1] == GENDER && quad[0] == of;
        let values = quads.iter().filter(of_node);
        values.filter_map(|quad| id(snapshot, &quad[2])).collect()
    };
    let one = nodes
        .iter()
        .find_map(|(_, name)| values(name).first().copied());
    let filters = [GraphFilter::Any]
        .into_iter()
        .chain(one.map(GraphFilter::One));
    for (filter, (end, near, far)) in filters
        .flat_map(|filter| [(End::Subject, 0, 2), (End::Object, 2, 0)].map(|ends| (filter, ends)))
    {
        let mut found = Expansion::new(true, true);
        let expanded = attribute.expand(end, &ids, predicate, filter, &mut found);
        expanded.expect("sound");
        let mut expected: Vec<(u32, u64, u64)> = Vec::new();
        for quad in quads.iter().filter(is_link) {
            let place = nodes.iter().position(|node| node.1 == quad[near]);
            let other = id(snapshot, &quad[far]).expect("there");
            let values = values(&quad[far]).into_iter();
            let values = values.filter(|&value| filter.accepts(value));
            let row = |value: TermId| Some((place? as u32, other.0, value.0));
            expected.extend(values.filter_map(row));
        }
        expected.sort_unstable();
        let found: Vec<(u32, u64, u64)> = (0..found.len())
            .map(|row| (found.source[row], found.other[row], found.graph[row]))
            .collect();
        assert_eq!(found, expected, "{end:?}, {filter:?}");
    }
}

fn check_degrees(snapshot: &Snapshot, quads: &BTreeSet<Named>, nodes: &[(TermId, String)]) {
    let ids: Vec<TermId> = nodes.iter().map(|node| node.0).collect();
    for (end, place) in [(End::Subject, 0), (End::Object, 2)] {
        let found = snapshot.degrees(end, &ids).expect("sound");
        for ((_, name), found) in nodes.iter().zip(found) {
            let expected = quads.iter().filter(|quad| quad[place] == *name).count();
            assert_eq!(found, expected as u64, "{name}");
        }
    }
}

/// Compares all answers of indexes with the store's quads.
fn check(store: &Store, names: u16) {
    let (snapshot, quads) = (store.snapshot(), contents(store));
    let named = (0..names).map(node);
    let known = named.filter_map(|name| Some((id(&snapshot, &name)?, name)));
    let mut nodes: Vec<(TermId, String)> = known.collect();
    nodes.sort_unstable();
    check_labels(&snapshot, &quads, &nodes);
    check_values(&snapshot, &quads, &nodes);
    check_degrees(&snapshot, &quads, &nodes);
}

fn is_sound(disk: Arc<MemoryStorage>) {
    let report = verify(disk, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}

#[derive(Clone, Debug)]
enum Step {
    /// Quads to add and to remove.
    Change(Vec<Named>, Vec<Named>),
    Flush,
    Build,
    CompactDue,
    Compact,
    Reopen,
}

fn quad() -> impl Strategy<Value = Named> {
    prop_oneof![
        4 => (0..24u16, 0..24u16).prop_map(|(from, to)| link(from, to)),
        2 => (0..24u16, 0..3u16).prop_map(|(of, value)| gender(of, value)),
        1 => (0..24u16, 0..24u16).prop_map(|(from, to)| {
            let [from, link, to, _] = link(from, to);
            [from, link, to, "http://example.org/g".to_owned()]
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let quads = || prop::collection::vec(quad(), 0..5);
    prop_oneof![
        8 => (quads(), quads()).prop_map(|(add, remove)| Step::Change(add, remove)),
        2 => Just(Step::Flush),
        2 => Just(Step::Build),
        1 => Just(Step::CompactDue),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

/// Quads that stay, so that each index can be built.
fn kept() -> [Named; 2] {
    [link(100, 101), gender(101, 1)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn answers_are_those_of_searches_after_each_change(
        first in prop::collection::vec(quad(), 0..60),
        steps in prop::collection::vec(step(), 1..16),
    ) {
        let (disk, mut store) = store_of(&[&kept()[..], &first].concat());
        build(&store).expect("memory");
        check(&store, 24);
        for step in steps {
            match &step {
                Step::Change(add, remove) => drop(change(&store, add, remove).expect("memory")),
                Step::Flush => drop(store.flush().expect("memory")),
                Step::Build => build(&store).expect("memory"),
                Step::CompactDue => {
                    drop(store.writer().expect("open").compact_due().expect("memory"));
                }
                Step::Compact => drop(store.compact().expect("memory")),
                Step::Reopen => {
                    drop(store);
                    store = open(disk.clone()).expect("sound");
                }
            }
            let snapshot = store.snapshot();
            // A compaction drops indexes of predicates that have no quads.
            prop_assert_eq!(snapshot.auxiliaries().all_reachability().len(), 1);
            check(&store, 24);
        }
        drop(store);
        is_sound(disk);
    }
}

#[test]
fn an_index_is_built_while_a_writer_commits() {
    let base: Vec<Named> = (0..2000).map(|n| link(n, n / 2)).collect();
    let (disk, store) = store_of(&[&kept()[..], &base].concat());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let [old, new] = [number, number + 1].map(|n| link(3, 20 + n % 30));
                change(&store, &[new, gender(number % 24, number % 2)], &[old]).expect("memory");
            }
        });
        for _ in 0..5 {
            build(&store).expect("memory");
        }
        stop.store(true, Ordering::Relaxed);
    });
    check(&store, 60);
    drop(store);
    let store = open(disk.clone()).expect("sound");
    check(&store, 60);
    drop(store);
    is_sound(disk);
}

#[test]
fn too_many_changes_are_searched_until_the_base_has_them() {
    let (_, store) = store_of(&[&kept()[..], &[link(1, 2)]].concat());
    build(&store).expect("memory");
    let links: Vec<Named> = (0..CHANGED_EDGES_MAX as u16)
        .map(|n| link(n + 10, n))
        .collect();
    change(&store, &links, &[]).expect("memory");
    check(&store, 12);
    change(&store, &[link(1, 3)], &[]).expect("memory");
    let uses_labels = |store: &Store| {
        let snapshot = store.snapshot();
        let predicate = id(&snapshot, LINK).expect("there");
        snapshot.reachability(predicate).expect("sound").is_some()
    };
    assert!(!uses_labels(&store));
    build(&store).expect("memory");
    assert!(uses_labels(&store), "the build has compacted the orders");
    check(&store, 12);
    let values: Vec<Named> = (0..=CHANGED_VALUES_MAX as u16)
        .map(|n| gender(n, 0))
        .collect();
    change(&store, &values, &[]).expect("memory");
    let snapshot = store.snapshot();
    let predicate = id(&snapshot, GENDER).expect("there");
    assert!(snapshot.attribute(predicate).expect("sound").is_none());
}

#[test]
fn a_predicate_that_only_changes_have_is_compacted_first() {
    let (_, store) = store_of(&[]);
    change(&store, &kept(), &[]).expect("memory");
    build(&store).expect("memory");
    check(&store, 102);
    assert_eq!(store.manifest().auxiliary.len(), 3);
}

/// A change beside a hub: far more edges than are read for the values of one neighbour.
#[test]
fn a_value_that_a_hub_gains_is_joined_without_the_cache() {
    let links: Vec<Named> = (0..70_000u32)
        .map(|n| {
            let from = format!("http://example.org/m/{n}");
            [from, LINK.to_owned(), node(1), String::new()]
        })
        .collect();
    let (_, store) = store_of(&[&kept()[..], &links, &[link(3, 1), link(3, 2)]].concat());
    build(&store).expect("memory");
    change(&store, &[gender(1, 0)], &[]).expect("memory");
    let snapshot = store.snapshot();
    let attribute = snapshot.attribute(id(&snapshot, GENDER).expect("there"));
    let attribute = attribute.expect("sound").expect("built");
    let mut found = Expansion::new(false, true);
    let nodes = [id(&snapshot, &node(3)).expect("there")];
    let predicate = id(&snapshot, LINK).expect("there");
    let expanded = attribute.expand(
        End::Subject,
        &nodes,
        predicate,
        GraphFilter::Any,
        &mut found,
    );
    expanded.expect("sound");
    assert_eq!(found.other, [id(&snapshot, &node(1)).expect("there").0]);
}

/// Returns a store with indexes, on a device whose failure has interrupted a compaction at one of its operations; `None`
/// if it has no state to go on from.
fn interrupted(operation: u64) -> Option<(Arc<MemoryStorage>, Store)> {
    let disk = empty();
    let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
    let store = open(Arc::new(device.clone())).expect("memory");
    change(&store, &kept(), &[]).expect("memory");
    store.compact().expect("memory");
    build(&store).expect("memory");
    change(&store, &[link(1, 2), gender(2, 0)], &[]).expect("memory");
    let writer = store.writer().expect("open for writing");
    device.set_plan(FaultPlan::fail_at(device.operations() + operation));
    let _ = writer.compact_due();
    device.set_plan(FaultPlan::none());
    let is_interrupted = writer.compacting_from.lock().is_some();
    is_interrupted.then_some((disk, store))
}

#[test]
fn an_interrupted_compaction_takes_indexes_that_were_built_since() {
    let all = |store: &Store| {
        Ok(Change {
            add: Vec::new(),
            drop: kinds(store)?,
        })
    };
    let (mut cases, interrupted) = (0, (0..200).step_by(3).filter_map(interrupted));
    for (disk, store) in interrupted {
        let before = store.manifest();
        if cases % 2 == 0 {
            let dropped = store.optimize(&all, OptimizeOptions::default(), &Pace::default());
            dropped.expect("memory");
        }
        build(&store).expect("memory");
        assert_eq!(store.manifest().segment, before.segment);
        check(&store, 3);
        change(&store, &[link(2, 1)], &[]).expect("memory");
        let writer = store.writer().expect("open for writing");
        writer.compact_due().expect("memory");
        assert_ne!(store.manifest().segment, before.segment);
        check(&store, 3);
        drop(store);
        check(&open(disk.clone()).expect("sound"), 3);
        let folders = disk.list("").expect("memory");
        let folders = folders.iter().filter(|name| name.starts_with("auxiliary"));
        assert_eq!(folders.count(), 3, "old ones are gone");
        is_sound(disk);
        cases += 1;
    }
    assert!(cases > 3);
}

/// Returns a disk with a store that has an index of each kind, of another state of the edges.
fn indexed() -> MemoryStorage {
    let (disk, store) = store_of(&[&kept()[..], &[link(1, 2), gender(2, 0)]].concat());
    build(&store).expect("memory");
    change(&store, &[link(2, 3), gender(1, 1)], &[link(1, 2)]).expect("memory");
    store.writer().expect("open").compact_due().expect("memory");
    change(&store, &[link(3, 1)], &[]).expect("memory");
    drop(store);
    disk.copy()
}

#[test]
fn a_build_is_whole_or_not_there_after_a_crash_at_any_operation() {
    let disk = indexed();
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("memory");
    let opened = calm.operations();
    build(&store).expect("memory");
    drop(store);
    for operation in opened + 1..=calm.operations() {
        for takes_effect in [false, true] {
            let disk = Arc::new(disk.copy());
            let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
            let store = open(Arc::new(device.clone())).expect("memory");
            device.set_plan(match takes_effect {
                true => FaultPlan::misreport_at(operation, operation),
                false => FaultPlan::crash_at(operation, operation),
            });
            let built = build(&store);
            if !device.crashed() {
                device.set_plan(FaultPlan::none());
                check(&store, 4);
                change(&store, &[link(1, 3)], &[]).expect("it can be written to");
                check(&store, 4);
            }
            drop((store, built));
            device.crash().expect("memory");
            let store = open(disk.clone()).expect("sound");
            check(&store, 4);
            build(&store).expect("memory");
            check(&store, 4);
            drop(store);
            is_sound(disk);
        }
    }
}

#[test]
fn a_full_disk_leaves_the_store_and_its_indexes() {
    let disk = indexed();
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("memory");
    let before = calm.bytes_appended();
    build(&store).expect("memory");
    let whole = calm.bytes_appended() - before;
    drop(store);
    for room in (0..whole).step_by(500) {
        let disk = Arc::new(disk.copy());
        let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(device.clone())).expect("memory");
        let manifest = store.manifest();
        device.set_plan(FaultPlan::disk_of(device.bytes_appended() + room));
        let error = build(&store).expect_err("it is full").to_string();
        assert!(error.contains("no space left"), "{room}: {error}");
        device.set_plan(FaultPlan::none());
        assert_eq!(store.manifest(), manifest);
        check(&store, 4);
        let folders = disk.list("").expect("memory");
        let folders = folders.iter().filter(|name| name.starts_with("auxiliary"));
        assert_eq!(folders.count(), 3, "room for {room}");
    }
}

#[test]
fn a_cancelled_build_leaves_nothing() {
    let (disk, store) = store_of(&kept());
    let pace = Pace::default();
    pace.cancel();
    let add = |store: &Store| {
        Ok(Change {
            add: kinds(store)?,
            drop: Vec::new(),
        })
    };
    let built = store.optimize(&add, OptimizeOptions::default(), &pace);
    assert!(matches!(built, Err(StoreError::Cancelled)));
    assert!(store.manifest().auxiliary.is_empty());
    let folders = disk.list("").expect("memory");
    assert!(folders.iter().all(|name| !name.starts_with("auxiliary")));
    build(&store).expect("memory");
    let layout = store.snapshot().layout();
    build(&store).expect("memory");
    assert_eq!(store.snapshot().layout(), layout);
    let drop = |store: &Store| {
        Ok(Change {
            add: Vec::new(),
            drop: kinds(store)?,
        })
    };
    let dropped = store.optimize(&drop, OptimizeOptions::default(), &Pace::default());
    dropped.expect("memory");
    assert_ne!(store.snapshot().layout(), layout, "plans may change");
    let error = store.optimize(&drop, OptimizeOptions::default(), &Pace::default());
    assert!(matches!(error, Err(StoreError::NotOptimizable { .. })));
}
