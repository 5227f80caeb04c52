//! Compactions that fail late, and compactions with much to replay.

use std::collections::BTreeSet;
use std::sync::Arc;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};

use super::tests::{Named, OPEN, change, contents, empty, many, open, write_options};
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
