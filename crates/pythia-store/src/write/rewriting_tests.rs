//! New bases that fail late.

use std::sync::Arc;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};

use super::tests::{change, contents, empty, many, open};
use crate::auxiliary::{AuxiliaryKind, Change, OptimizeOptions, optimize};

/// A store with auxiliary files, so that more than the base is written.
fn disk() -> MemoryStorage {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, &many(0, 100), &[]).expect("memory");
    store.rewrite().expect("memory");
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

/// What is left of it would take the space that is missing, and keep the log from being cut.
#[test]
fn a_rewrite_that_finds_the_disk_full_leaves_nothing_at_any_step() {
    let disk = disk();
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("memory");
    let next = format!("segment-{:06}", store.manifest().segment.0 + 1);
    let before = calm.bytes_appended();
    store.rewrite().expect("memory");
    let whole = calm.bytes_appended() - before;
    drop(store);
    let late = whole.saturating_sub(6000)..whole;
    for room in (0..whole).step_by(20_000).chain(late.step_by(100)) {
        let disk = Arc::new(disk.copy());
        let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(device.clone())).expect("memory");
        let expected = contents(&store);
        device.set_plan(FaultPlan::disk_of(device.bytes_appended() + room));
        let error = store.rewrite().expect_err("it is full").to_string();
        assert!(error.contains("no space left"), "{room}: {error}");
        device.set_plan(FaultPlan::none());
        assert!(!disk.exists(&next).expect("memory"), "room for {room}");
        let names = disk.list(&next).unwrap_or_default();
        assert_eq!(names, [""; 0], "room for {room}");
        let writer = store.writer().expect("open for writing");
        assert!(writer.rewriting_from.lock().is_none(), "room for {room}");
        assert_eq!(contents(&store), expected);
    }
}
