//! A disk that becomes full anywhere in an operation: the store is as before, no file of the operation stays, readers
//! and the open store go on, and the operation succeeds once there is space.

use std::collections::BTreeSet;
use std::sync::Arc;

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_rdf::{TermId, TermKey, TermKind};

use super::tests::{
    Named, OPEN, change, contents, contents_of, empty, load, open, open_spilling, write_options,
};
use super::{MaintenanceOptions, RUNS_MAX, Transaction};
use crate::StoreError;
use crate::compact::Extent;
use crate::store::Store;
use crate::verify::{VerifyOptions, verify};

/// Number of places at which the disk is full, spread over the bytes that an operation writes.
const PLACES: u64 = 24;
/// Places close to the end, where the new state is put in place.
const LATE_PLACES: u64 = 14;
/// Bytes between them.
const LATE_BYTES: u64 = 290;
/// At least as many of these places are too early for an operation. What comes after its last essential write may fail.
const FAILURES_MIN: usize = 12;

type Act = fn(&Store) -> Result<(), StoreError>;

fn quad(number: usize) -> Named {
    let name = |what: &str, number: usize| format!("http://example.org/{what}/{number}");
    let graph = match number % 3 {
        0 => String::new(),
        graph => name("g", graph),
    };
    [
        name("s", number),
        name("p", number % 3),
        name("o", number % 50),
        graph,
    ]
}

fn quads(numbers: std::ops::Range<usize>) -> Vec<Named> {
    numbers.map(quad).collect()
}

/// Makes a store with quads in its base, in two runs on the device, and in the log alone; few of its terms are later
/// than its dictionary.
fn disk() -> MemoryStorage {
    let disk = empty();
    let store = open_spilling(disk.clone(), true).expect("memory");
    change(&store, &quads(0..400), &[]).expect("memory");
    store.compact().expect("memory");
    for run in [quads(400..410), quads(410..420)] {
        change(&store, &run, &quads(30..33)).expect("memory");
        store.flush().expect("memory");
    }
    drop(store);
    // A transaction that does not spill leaves its changes in memory.
    let store = open(disk.clone()).expect("memory");
    change(&store, &quads(420..425), &quads(3..6)).expect("memory");
    drop(store);
    disk.copy()
}

/// Returns the names of all files of a storage, except for files of the log that it made ahead.
fn files(storage: &dyn Storage, folder: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for name in storage.list(folder).expect("memory") {
        let path = match folder {
            "" => name.clone(),
            folder => format!("{folder}/{name}"),
        };
        let is_folder = storage.list(&path).is_ok_and(|names| !names.is_empty());
        match is_folder {
            true => files.extend(self::files(storage, &path)),
            false if path.ends_with(".log") => {}
            false => drop(files.insert(path)),
        }
    }
    files
}

fn id(transaction: &mut Transaction, name: &str) -> Result<TermId, StoreError> {
    if name.is_empty() {
        return Ok(TermId::DEFAULT_GRAPH);
    }
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: name.as_bytes(),
    };
    Ok(transaction.ids(&[key])?[0])
}

/// Returns the name of a graph of [`quad`].
fn graph(number: usize) -> String {
    quad(number)[3].clone()
}

fn copy_graph(transaction: &mut Transaction, from: &str, to: &str) -> Result<(), StoreError> {
    let ids = [id(transaction, from)?, id(transaction, to)?];
    let copied = transaction.copy_graph(ids[0], ids[1], &|| true)?;
    assert!(copied.is_none_or(|quads| quads > 100), "it was not copied");
    Ok(())
}

fn remove_graph(transaction: &mut Transaction, name: &str) -> Result<(), StoreError> {
    let id = id(transaction, name)?;
    transaction.remove_graph(id, &|| true)?;
    Ok(())
}

/// Fails unless the disk is full, and the message says so.
fn assert_full(error: &StoreError, room: u64) {
    let text = error.to_string();
    assert!(
        text.contains("no space left on the device"),
        "{room}: {text}"
    );
}

/// Runs an operation with room for a part of what it writes, from nothing to all but a little. Returns how often it
/// failed.
fn fill_up(disk: &MemoryStorage, act: Act) -> usize {
    let calm = FaultyStorage::new(Arc::new(disk.copy()), FaultPlan::none());
    let store = open_spilling(Arc::new(calm.clone()), true).expect("memory");
    let begun = calm.bytes_appended();
    act(&store).expect("memory");
    let whole = calm.bytes_appended() - begun;
    let after = contents(&store);
    drop(store);
    let late = (0..LATE_PLACES).map(|place| whole.saturating_sub(1 + place * LATE_BYTES));
    let places = (0..PLACES).map(|place| whole * place / PLACES).chain(late);
    places
        .filter(|&room| fails_cleanly(disk, act, room, &after))
        .count()
}

/// Runs an operation with this room, and returns whether it failed. If so, nothing must have changed; in any case the
/// store goes on.
fn fails_cleanly(disk: &MemoryStorage, act: Act, room: u64, after: &BTreeSet<Named>) -> bool {
    let disk = Arc::new(disk.copy());
    let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
    let store = open_spilling(Arc::new(device.clone()), true).expect("memory");
    let reader = Store::open_storage(Arc::new(device.clone()), OPEN).expect("memory");
    let (snapshot, names) = (store.snapshot(), files(&*disk, ""));
    let before = contents(&store);
    device.set_plan(FaultPlan::disk_of(device.bytes_appended() + room));
    let outcome = act(&store);
    match &outcome {
        Ok(()) => assert_eq!(contents(&store), *after, "{room}"),
        Err(error) => {
            assert_full(error, room);
            assert_eq!(contents(&store), before, "{room}");
            // The terms of a load may have got their ids: they stay until the next compaction.
            let named: Vec<String> = store.manifest().folders().collect();
            let is_named = |name: &String| named.iter().any(|folder| name.starts_with(folder));
            let left = files(&*disk, "").into_iter();
            let left = left.filter(|name| !names.contains(name) && !is_named(name));
            assert_eq!(left.collect::<Vec<_>>(), [""; 0], "room for {room}");
        }
    }
    assert_eq!(contents_of(&snapshot), before, "{room}");
    assert_eq!(contents(&reader), before, "{room}");
    drop((snapshot, reader));
    device.set_plan(FaultPlan::none());
    goes_on(disk, store, act, after);
    outcome.is_err()
}

/// Fails unless a store with enough space takes commits, the operation, and another opening.
fn goes_on(disk: Arc<MemoryStorage>, store: Store, act: Act, after: &BTreeSet<Named>) {
    let later = [
        "http://example.org/later",
        "http://example.org/later",
        "http://example.org/later",
        "http://example.org/g/later",
    ];
    let later = later.map(str::to_owned);
    change(&store, std::slice::from_ref(&later), &[]).expect("there is space");
    act(&store).expect("there is space");
    let mut expected = after.clone();
    expected.insert(later);
    assert_eq!(contents(&store), expected);
    drop(store);
    let report = verify(disk.clone(), VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
    let store = open_spilling(disk, false).expect("sound");
    assert_eq!(contents(&store), expected);
}

#[test]
fn a_compaction_of_the_orders_gives_all_space_back() {
    let disk = disk();
    let manifest = open_spilling(Arc::new(disk.copy()), true)
        .expect("memory")
        .manifest();
    let extent = MaintenanceOptions::extent_due(&manifest);
    assert_eq!(extent, Extent::Orders);
    let act: Act = |store| store.writer().expect("open").compact_due().map(drop);
    assert!(fill_up(&disk, act) >= FAILURES_MIN);
}

#[test]
fn a_whole_compaction_gives_all_space_back() {
    let act: Act = |store| store.compact().map(drop);
    assert!(fill_up(&disk(), act) >= FAILURES_MIN);
}

#[test]
fn runs_that_cannot_be_written_or_merged_stay_where_they_are() {
    let flush: Act = |store| store.flush().map(drop);
    assert!(fill_up(&disk(), flush) >= FAILURES_MIN);
    let merge: Act = |store| {
        let writer = store.writer().expect("open");
        let _alone = writer.maintenance.lock();
        writer.make_room(RUNS_MAX)
    };
    assert!(fill_up(&disk(), merge) >= FAILURES_MIN);
}

#[test]
fn a_large_graph_that_cannot_be_removed_stays_whole() {
    let act: Act = |store| {
        let mut transaction = store.begin()?;
        remove_graph(&mut transaction, &graph(1))?;
        transaction.commit().map(drop)
    };
    assert!(fill_up(&disk(), act) >= FAILURES_MIN);
}

#[test]
fn a_large_graph_that_cannot_be_copied_or_moved_stays_whole() {
    let copy: Act = |store| {
        let mut transaction = store.begin()?;
        copy_graph(&mut transaction, &graph(1), "http://example.org/g/copy")?;
        transaction.commit().map(drop)
    };
    assert!(fill_up(&disk(), copy) >= FAILURES_MIN);
    let move_over: Act = |store| {
        let mut transaction = store.begin()?;
        if contents(store).iter().any(|quad| quad[3] == graph(1)) {
            remove_graph(&mut transaction, &graph(2))?;
            copy_graph(&mut transaction, &graph(1), &graph(2))?;
            remove_graph(&mut transaction, &graph(1))?;
        }
        transaction.commit().map(drop)
    };
    assert!(fill_up(&disk(), move_over) >= FAILURES_MIN);
}

/// Each change moves the earlier ones to the device, and new terms come with them.
#[test]
fn a_transaction_that_cannot_spill_leaves_nothing() {
    let act: Act = |store| {
        let mut transaction = store.begin()?;
        for numbers in [0..6, 300..306, 500..508, 600..608] {
            for names in quads(numbers.clone()) {
                let mut row = [0; 4];
                for (place, name) in names.iter().enumerate() {
                    row[place] = id(&mut transaction, name)?.0;
                }
                match numbers.start < 400 {
                    true => transaction.remove(&[row])?,
                    false => transaction.insert(&[row])?,
                };
            }
        }
        transaction.commit().map(drop)
    };
    assert!(fill_up(&disk(), act) >= FAILURES_MIN);
}

#[test]
fn a_load_into_an_open_store_gives_all_space_back() {
    let act: Act = |store| load(store, &quads(390..700));
    assert!(fill_up(&disk(), act) >= FAILURES_MIN);
}

#[test]
fn a_commit_that_finds_no_space_in_the_log_changes_nothing() {
    // Long enough for a file beside the log.
    let act: Act = |store| change(store, &quads(1000..3000), &quads(0..100)).map(drop);
    assert!(fill_up(&disk(), act) > 0);
}

/// A disk without room for a run: the background task that writes it is known to fail until there is space.
#[test]
fn background_tasks_that_fail_are_known() {
    let device = FaultyStorage::new(empty(), FaultPlan::none());
    let mut options = write_options();
    options.maintenance.memory_bytes = 4000;
    options.maintenance.in_background = true;
    let store = Store::open_storage_for_writing(Arc::new(device.clone()), OPEN, &options);
    let store = store.expect("memory");
    let wait_for = |failing: usize| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while store.failing_tasks().expect("it is open for writing") != failing {
            assert!(std::time::Instant::now() < deadline, "{failing}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    // The first commit begins a file of the log; it is too small to be moved.
    change(&store, &quads(0..1), &[]).expect("memory");
    device.set_plan(FaultPlan::disk_of(device.bytes_appended() + 8000));
    change(&store, &quads(10..50), &[]).expect("the log has room");
    wait_for(1);
    device.set_plan(FaultPlan::none());
    change(&store, &quads(50..51), &[]).expect("there is space");
    wait_for(0);
    assert_eq!(contents(&store).len(), 42);
}
