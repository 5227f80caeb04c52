//! Compactions that keep ids, that fail late, and that have much to replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};

use super::MaintenanceOptions;
use super::tests::{Named, OPEN, change, change_by, contents, empty, many, open, write_options};
use crate::compact::Extent;
use crate::manifest::AuxiliaryKind;
use crate::optimize::OptimizeOptions;
use crate::store::{Change, Store, optimize};
use crate::verify::{VerifyOptions, verify};

/// Makes a store with auxiliary files, so that compaction writes more than the base.
fn disk() -> MemoryStorage {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, &many(0, 100), &[]).expect("memory");
    store.compact().expect("memory");
    drop(store);
    let change_of = Change {
        add: vec![AuxiliaryKind::Degrees],
        drop: Vec::new(),
    };
    optimize(disk.clone(), &change_of, OptimizeOptions::default()).expect("memory");
    let store = open(disk.clone()).expect("memory");
    change(&store, &many(100, 100), &[]).expect("memory");
    store.flush().expect("memory");
    drop(store);
    disk.copy()
}

/// Remains would take the space that is missing, and keep the log from being cut.
#[test]
fn a_compaction_that_finds_the_disk_full_leaves_nothing_at_any_step() {
    let disk = disk();
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("memory");
    let next = format!("segment-{:06}", store.manifest().segment.0 + 1);
    let before = calm.bytes_appended();
    store.compact().expect("memory");
    let whole = calm.bytes_appended() - before;
    drop(store);
    let late = whole.saturating_sub(6000)..whole;
    for room in (0..whole).step_by(20_000).chain(late.step_by(100)) {
        let disk = Arc::new(disk.copy());
        let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(device.clone())).expect("memory");
        let expected = contents(&store);
        device.set_plan(FaultPlan::disk_of(device.bytes_appended() + room));
        let error = store.compact().expect_err("it is full").to_string();
        assert!(error.contains("no space left"), "{room}: {error}");
        device.set_plan(FaultPlan::none());
        assert!(!disk.exists(&next).expect("memory"), "room for {room}");
        let names = disk.list(&next).unwrap_or_default();
        assert_eq!(names, [""; 0], "room for {room}");
        let writer = store.writer().expect("open for writing");
        assert!(writer.compacting_from.lock().is_none(), "room for {room}");
        assert_eq!(contents(&store), expected);
    }
}

/// Their changes cancel out, so that a compaction is never due for them.
#[test]
fn terms_of_quads_that_come_and_go_are_dropped() {
    let disk = empty();
    let mut options = write_options();
    options.maintenance.compaction_quads_min = 100;
    let store = Store::open_storage_for_writing(disk.clone(), OPEN, &options).expect("memory");
    change(&store, &many(0, 50), &[]).expect("memory");
    store.compact().expect("memory");
    let dictionary = store
        .manifest()
        .dictionary
        .clone()
        .expect("the newest format");
    let (mut terms_max, mut compacted) = (0, 0);
    for round in 0..40 {
        let quads = many(1000 + round * 500, 500);
        change(&store, &quads, &[]).expect("memory");
        change(&store, &[], &quads).expect("memory");
        store.flush().expect("memory");
        let before = store.manifest().segment;
        store.maintain().expect("memory");
        let manifest = store.manifest();
        compacted += u64::from(manifest.segment != before);
        let runs = manifest.runs.iter();
        terms_max = terms_max.max(runs.map(|run| run.term_count()).sum::<u64>());
    }
    // Half as many as there are in the dictionary, and those of a round.
    assert!(terms_max < 100 + dictionary.terms / 2 + 500, "{terms_max}");
    assert!((2..=40).contains(&compacted), "{compacted} compactions");
    assert_eq!(contents(&store), many(0, 50).into_iter().collect());
    drop(store);
    let report = verify(disk, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}

/// Makes a store with an interrupted compaction and many commits since, opened with too little memory for any change.
fn interrupted(commits: u32, runs_max: usize) -> (Arc<MemoryStorage>, Store) {
    let disk = empty();
    let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
    let store = open(Arc::new(device.clone())).expect("memory");
    change(&store, &many(0, 200), &[]).expect("memory");
    store.flush().expect("memory");
    device.set_plan(FaultPlan::fail_at(device.operations() + 40));
    store.compact().expect_err("it fails");
    device.set_plan(FaultPlan::none());
    for number in 0..commits {
        let of = 1000 + number * 5;
        change(&store, &many(of, 5), &many(number, 1)).expect("memory");
    }
    drop(store);
    let mut options = write_options();
    options.maintenance.memory_bytes = 1;
    options.maintenance.runs_max = runs_max;
    let store = Store::open_storage_for_writing(disk.clone(), OPEN, &options);
    (disk, store.expect("sound"))
}

#[test]
fn what_was_committed_since_an_interrupted_compaction_is_replayed_within_memory() {
    for (runs_max, expected_runs) in [(32, 12..=12), (4, 2..=4)] {
        let (disk, store) = interrupted(12, runs_max);
        let writer = store.writer().expect("open for writing");
        assert!(writer.compacting_from.lock().is_some());
        writer.compact_due().expect("memory");
        let manifest = store.manifest();
        assert_eq!(manifest.segment.0, 2);
        // Changes that did not fit were written to the device commit by commit.
        let runs = manifest.runs.len();
        assert!(expected_runs.contains(&runs), "{runs} runs");
        let expected: BTreeSet<Named> = [many(12, 188), many(1000, 60)]
            .concat()
            .into_iter()
            .collect();
        assert_eq!(contents(&store), expected);
        change(&store, &many(5000, 5), &[]).expect("memory");
        store.flush().expect("memory");
        let expected: BTreeSet<Named> = expected.into_iter().chain(many(5000, 5)).collect();
        drop(store);
        let runs = disk.list("").expect("memory");
        let runs = runs.iter().filter(|name| name.starts_with("run-")).count();
        let store = open(disk.clone()).expect("sound");
        assert_eq!(runs, store.manifest().runs.len(), "none is left over");
        assert_eq!(contents(&store), expected);
        drop(store);
        let report = verify(disk, VerifyOptions::default(), &mut |_| {});
        assert_eq!(report.problems, []);
    }
}

/// Returns a store with some quads in the base, whose terms are partly in its dictionary and partly in a run.
fn with_later_terms() -> (Arc<MemoryStorage>, Store) {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, &many(0, 100), &[]).expect("memory");
    store.compact().expect("memory");
    change(&store, &many(100, 20), &many(0, 10)).expect("memory");
    compact_orders(&store);
    (disk, store)
}

fn compact_orders(store: &Store) {
    let before = store.manifest();
    let writer = store.writer().expect("open for writing");
    writer.compact_due().expect("memory");
    let after = store.manifest();
    assert_ne!(before.segment, after.segment);
    assert_eq!(before.dictionary, after.dictionary, "ids stay the same");
}

#[test]
fn a_compaction_that_keeps_ids_writes_no_term_again_and_leaves_no_changes() {
    let (disk, store) = with_later_terms();
    let manifest = store.manifest();
    assert_eq!((manifest.quads, manifest.runs.len()), (110, 1));
    assert_eq!(manifest.runs[0].changes(), 0);
    assert!(manifest.runs[0].term_count() >= 20);
    let expected: BTreeSet<Named> = many(10, 110).into_iter().collect();
    assert_eq!(contents(&store), expected);
    // What is there is found under both old and new terms, in base and changes.
    assert_eq!(
        change(&store, &many(10, 110), &[]).expect("memory").added,
        0
    );
    assert_eq!(change(&store, &many(0, 10), &[]).expect("memory").added, 10);
    assert_eq!(
        change(&store, &[], &many(110, 10)).expect("memory").removed,
        10
    );
    compact_orders(&store);
    let expected: BTreeSet<Named> = many(0, 110).into_iter().collect();
    assert_eq!(contents(&store), expected);
    drop(store);
    let store = open(disk.clone()).expect("sound");
    assert_eq!(contents(&store), expected);
    // Terms that no quad uses any more go with a compaction of the whole.
    store.compact().expect("memory");
    assert_eq!(
        (store.manifest().quads, store.manifest().runs.len()),
        (110, 0)
    );
    assert_eq!(contents(&store), expected);
    drop(store);
    let report = verify(disk, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}

#[test]
fn the_dictionary_is_written_again_once_many_terms_are_later_or_few_quads_are_left() {
    let whole = |store: &Store| MaintenanceOptions::extent_due(&store.manifest()) == Extent::Whole;
    let (_, store) = with_later_terms();
    assert!(!whole(&store));
    change(&store, &many(1000, 10_000), &[]).expect("memory");
    store.flush().expect("memory");
    assert!(whole(&store), "many terms are later");
    store.writer().expect("open").compact_due().expect("memory");
    let manifest = store.manifest();
    assert_eq!((manifest.runs.len(), manifest.quads), (0, 10_110));
    assert!(!whole(&store));
    change(&store, &[], &many(1000, 8000)).expect("memory");
    store.flush().expect("memory");
    assert!(whole(&store), "most quads are gone");
    let before = store.manifest().base_bytes();
    store.writer().expect("open").compact_due().expect("memory");
    assert!(store.manifest().base_bytes() < before / 2);
}

#[test]
fn a_transaction_goes_on_over_a_compaction_that_keeps_ids_only() {
    for extent in [Extent::Orders, Extent::Whole] {
        let (_, store) = with_later_terms();
        let begin = || store.begin().expect("open for writing");
        let (before, conflicting) = (begin(), begin());
        change(&store, &many(500, 5), &[]).expect("memory");
        match extent {
            Extent::Orders => compact_orders(&store),
            Extent::Whole => drop(store.compact().expect("memory")),
        }
        let added = change_by(before, &many(600, 5), &many(20, 5));
        assert_eq!(added.is_ok(), extent == Extent::Orders, "{added:?}");
        let error = change_by(conflicting, &many(500, 1), &[]).expect_err("a conflict");
        assert!(error.is_retryable(), "{error}");
    }
}

#[test]
fn auxiliary_files_of_predicates_that_did_not_change_stay() {
    let disk = Arc::new(disk());
    let store = open(disk.clone()).expect("memory");
    store.compact().expect("memory");
    let predicate = |n: u32| {
        let name = format!("http://example.org/p/{n}");
        let node = oxrdf::NamedNodeRef::new_unchecked(&name);
        store
            .snapshot()
            .resolve(node.into())
            .expect("memory")
            .expect("there")
            .0
    };
    let kinds = [0, 1].map(|n| AuxiliaryKind::Reachability {
        predicate: predicate(n),
    });
    drop(store);
    let add = Change {
        add: kinds.to_vec(),
        drop: Vec::new(),
    };
    optimize(disk.clone(), &add, OptimizeOptions::default()).expect("memory");
    let store = open(disk.clone()).expect("memory");
    let of = |kind: &AuxiliaryKind| {
        let entries = store.manifest().auxiliary.clone();
        entries
            .into_iter()
            .find(|entry| entry.kind == *kind)
            .expect("there")
    };
    let before = kinds.each_ref().map(of);
    // Their predicate is the second.
    change(&store, &many(301, 1), &[]).expect("memory");
    compact_orders(&store);
    let after = kinds.each_ref().map(of);
    assert_eq!(
        (before[0] == after[0], before[1].id == after[1].id),
        (true, false)
    );
    drop(store);
    let report = verify(disk, VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}
