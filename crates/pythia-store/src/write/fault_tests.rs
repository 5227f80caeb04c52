//! Every storage operation fails once, in turn, without effect or after it took effect; then another fault or a crash
//! follows while the failed step is repeated.

use std::collections::BTreeSet;
use std::sync::Arc;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};

use super::tests::{Named, change, contents, empty, lines, open, open_spilling};
use crate::load::store_tests::{load_texts, options};
use crate::manifest::{AuxiliaryKind, Manifest};
use crate::optimize::OptimizeOptions;
use crate::store::{Change, optimize};
use crate::verify::{VerifyOptions, verify};
use crate::{Store, StoreError};

fn quad(number: usize) -> Named {
    let name = |what: &str| format!("http://example.org/{what}/{number}");
    [name("s"), name("p"), name("o"), String::new()]
}

/// The first fault.
#[derive(Clone, Copy, Debug)]
struct Fault {
    operation: u64,
    takes_effect: bool,
}

impl Fault {
    /// Lists every operation of a run without faults, and both ways to fail.
    fn all(operations: u64) -> impl Iterator<Item = Self> {
        let ways = |operation| {
            [false, true].map(|takes_effect| Self {
                operation,
                takes_effect,
            })
        };
        (1..=operations).flat_map(ways)
    }

    fn plan(self) -> FaultPlan {
        match self.takes_effect {
            true => FaultPlan::misreport_at(self.operation, self.operation),
            false => FaultPlan::fail_at(self.operation),
        }
    }

    /// Returns the second fault: an error or a crash at one of the next operations, or none.
    fn second(self, device: &FaultyStorage, operations: u64) -> FaultPlan {
        let seed = self.operation * 2 + u64::from(self.takes_effect);
        let place = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = device.operations() + 1 + place % operations;
        let plan = match seed % 4 {
            0 => FaultPlan::fail_at(place),
            1 => FaultPlan::misreport_at(place, seed),
            2 => FaultPlan::crash_at(place, seed),
            _ => FaultPlan::none(),
        };
        FaultPlan { seed, ..plan }
    }
}

/// Returns the quads of the store on a disk, which must be sound.
fn found(disk: &Arc<MemoryStorage>, fault: Fault) -> BTreeSet<Named> {
    let store = match open(disk.clone()) {
        Ok(store) => store,
        Err(error) => panic!("{fault:?}: {error}"),
    };
    let found = contents(&store);
    drop(store);
    let report = verify(disk.clone(), VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, [], "{fault:?}");
    found
}

/// Runs an action on a failing disk, repeats it, and checks the result: the quads must be as before, or `after` if
/// one of the attempts reported success.
fn try_everywhere(
    disk: &MemoryStorage,
    act: impl Fn(Arc<dyn Storage>) -> Result<(), StoreError>,
    [before, after]: [&BTreeSet<Named>; 2],
) {
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    act(Arc::new(calm.clone())).expect("no faults");
    for fault in Fault::all(calm.operations()) {
        let disk = Arc::new(disk.copy());
        let device = FaultyStorage::new(disk.clone(), fault.plan());
        let mut is_done = act(Arc::new(device.clone())).is_ok();
        device.set_plan(fault.second(&device, calm.operations()));
        is_done |= act(Arc::new(device.clone())).is_ok();
        device.crash().expect("memory");
        let found = match disk.exists("MANIFEST").expect("memory") {
            true => found(&disk, fault),
            false => BTreeSet::new(),
        };
        let is_expected = found == *after || (found == *before && !is_done);
        assert!(is_expected, "{fault:?}, done: {is_done}, {found:?}");
        act(disk.clone()).unwrap_or_else(|error| panic!("{fault:?}, at last: {error}"));
        assert_eq!(self::found(&disk, fault), *after, "{fault:?}");
    }
}

fn load(store: &Store, numbers: std::ops::Range<usize>) -> Result<(), StoreError> {
    super::tests::load(store, &numbers.map(quad).collect::<Vec<_>>())
}

/// Makes a store with quads in the log alone, in several runs, and in its base.
fn disk() -> MemoryStorage {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    for number in 0..3 {
        change(&store, &[quad(number)], &[]).expect("memory");
        match number {
            0 => drop(store.compact().expect("memory")),
            1 => drop(store.flush().expect("memory")),
            _ => {}
        }
    }
    drop(store);
    disk.copy()
}

fn quads(numbers: std::ops::Range<usize>) -> BTreeSet<Named> {
    numbers.map(quad).collect()
}

#[test]
fn a_first_load_is_whole_or_not_there_whatever_fails_twice() {
    let act = |storage: Arc<dyn Storage>| -> Result<(), StoreError> {
        // Visible files may still be lost until a writer opens the store.
        if Manifest::read(&*storage)?.is_some_and(|manifest| manifest.quads > 0) {
            return open(storage).map(drop);
        }
        load_texts(&storage, &[lines(&quads(0..3))], &options(1 << 30, 1))?;
        Ok(())
    };
    let nothing = MemoryStorage::new();
    try_everywhere(&nothing, act, [&BTreeSet::new(), &quads(0..3)]);
    try_everywhere(&empty(), act, [&BTreeSet::new(), &quads(0..3)]);
}

#[test]
fn a_load_onto_a_store_is_whole_or_not_there_whatever_fails_twice() {
    let act = |storage| load(&open(storage)?, 3..6);
    try_everywhere(&disk(), act, [&quads(0..3), &quads(0..6)]);
}

#[test]
fn a_commit_is_there_if_it_was_acknowledged_whatever_fails_twice() {
    let act = |storage| {
        let store = open(storage)?;
        change(&store, &[quad(3)], &[])?;
        store.flush()?;
        Ok(())
    };
    try_everywhere(&disk(), act, [&quads(0..3), &quads(0..4)]);
}

/// Each change moves the earlier ones to the device.
#[test]
fn a_large_commit_is_whole_or_not_there_whatever_fails_twice() {
    let act = |storage: Arc<dyn Storage>| {
        let store = open_spilling(storage, true)?;
        change(&store, &[quad(3), quad(4)], &[quad(0)])?;
        store.maintain()?;
        Ok(())
    };
    try_everywhere(&disk(), act, [&quads(0..3), &quads(1..5)]);
}

#[test]
fn compaction_changes_nothing_whatever_fails_twice() {
    let act = |storage| open(storage)?.compact().map(|_| ());
    try_everywhere(&disk(), act, [&quads(0..3), &quads(0..3)]);
}

#[test]
fn optimizing_changes_nothing_whatever_fails_twice() {
    let disk = empty();
    change(&open(disk.clone()).expect("memory"), &[quad(0)], &[]).expect("memory");
    open(disk.clone())
        .expect("memory")
        .compact()
        .expect("memory");
    let act = |storage: Arc<dyn Storage>| {
        let change = Change {
            add: vec![AuxiliaryKind::Degrees],
            drop: Vec::new(),
        };
        optimize(storage, &change, OptimizeOptions::default()).map(|_| ())
    };
    try_everywhere(&disk, act, [&quads(0..1), &quads(0..1)]);
}

/// A step of a long life.
type Step = fn(&Store) -> Result<(), StoreError>;

/// The steps of an open store in order, each with the number of the quad that it adds.
const LIFE: [(Option<usize>, Step); 15] = [
    (Some(0), |store| change(store, &[quad(0)], &[]).map(|_| ())),
    (None, |store| store.flush().map(|_| ())),
    (Some(1), |store| change(store, &[quad(1)], &[]).map(|_| ())),
    (None, |store| store.flush().map(|_| ())),
    (Some(2), |store| load(store, 2..3)),
    (Some(3), |store| change(store, &[quad(3)], &[]).map(|_| ())),
    (None, |store| store.flush().map(|_| ())),
    (None, Store::maintain),
    (Some(4), |store| change(store, &[quad(4)], &[]).map(|_| ())),
    (None, |store| store.compact().map(|_| ())),
    (Some(5), |store| load(store, 5..6)),
    (Some(6), |store| change(store, &[quad(6)], &[]).map(|_| ())),
    (None, |store| store.compact().map(|_| ())),
    (Some(7), |store| change(store, &[quad(7)], &[]).map(|_| ())),
    (None, |store| store.flush().map(|_| ())),
];

/// Runs all steps, repeating each that fails; after the first failure the second fault is armed.
fn live(device: &FaultyStorage, fault: Option<(Fault, u64)>) -> (BTreeSet<Named>, BTreeSet<Named>) {
    let (mut sure, mut tried) = (BTreeSet::new(), BTreeSet::new());
    let mut fault = fault;
    let Ok(store) = open(Arc::new(device.clone())) else {
        return (sure, tried);
    };
    for (adds, step) in LIFE {
        tried.extend(adds.map(quad));
        let mut outcome = step(&store);
        if outcome.is_err()
            && let Some((fault, operations)) = fault.take()
        {
            device.set_plan(fault.second(device, operations));
            outcome = step(&store);
        }
        match outcome {
            Ok(()) => sure.extend(adds.map(quad)),
            Err(_) if !device.crashed() => {
                let plan = device.plan();
                device.set_plan(FaultPlan::none());
                let there = contents(&store);
                assert!(there.is_superset(&sure), "{plan:?}: {there:?}");
                device.set_plan(plan);
            }
            Err(_) => break,
        }
    }
    (sure, tried)
}

#[test]
fn an_open_store_loses_nothing_whatever_fails_twice() {
    let disk = empty();
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let (all, _) = live(&calm, None);
    assert_eq!(all, quads(0..8));
    for fault in Fault::all(calm.operations()) {
        let disk = Arc::new(disk.copy());
        let device = FaultyStorage::new(disk.clone(), fault.plan());
        let (sure, tried) = live(&device, Some((fault, calm.operations())));
        device.crash().expect("memory");
        let found = found(&disk, fault);
        let is_expected = found.is_superset(&sure) && found.is_subset(&tried);
        assert!(
            is_expected,
            "{fault:?}: {sure:?} were acknowledged, {found:?} found"
        );
        let store = open(disk.clone()).expect("sound");
        change(&store, &[quad(8)], &[]).expect("it can be written to");
        if fault.operation.is_multiple_of(8) {
            store.compact().expect("it can be compacted");
        }
    }
}
