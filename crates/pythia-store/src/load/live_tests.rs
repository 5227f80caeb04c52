//! A run that is loaded on top of a store has exactly the quads that the store lacks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pythia_io::{BufferPool, FaultPlan, FaultyStorage, Storage};
use pythia_log::{ChangeSet, LogOptions, LogTerm, NO_GRAPH};

use super::live::{RunTarget, change_sets, ends, parse};
use super::store_tests::{expected_quads, load_texts, memory, options, quads_in, source};
use super::tests::statement;
use super::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::delta::device::DeviceRun;
use crate::manifest::{RunId, Unnamed};
use crate::pattern::Order;
use crate::snapshot::Snapshot;
use crate::verify::{VerifyOptions, verify};
use crate::write::{MaintenanceOptions, RUNS_MAX, Replay, WriteOptions};
use crate::{OpenOptions, Store, StoreError};

/// Loads texts on top of a store on a disk with runs, as two more runs: one of new terms, if there are any, and one
/// of quads.
fn load_run(
    [disk, storage]: [&Arc<dyn Storage>; 2],
    runs: &mut Vec<Arc<DeviceRun>>,
    texts: &[String],
    options: &LoadOptions,
) -> Result<LoadReport, LoadError> {
    let sources = texts.iter().map(|text| source(text)).collect();
    let parsed = parse(sources, options, &Arc::new(LoadProgress::default()))?;
    let pool = BufferPool::new(Arc::clone(storage), 8 << 20);
    let snapshot = with_runs(disk, runs);
    let first_terms = ends(&snapshot);
    let target = |snapshot, number| RunTarget {
        pool: &pool,
        id: RunId(number),
        snapshot,
        first_terms,
        replaced: None,
    };
    let number = runs.len() as u64;
    let mut unnamed = Unnamed::new(&**storage);
    for number in [number, number + 1] {
        unnamed.push(RunId(number).folder());
    }
    let mut resolved = parsed.resolve(&target(&snapshot, number))?;
    if let Some((_, terms)) = resolved.new_terms.place_behind(&snapshot) {
        runs.push(terms);
    }
    let snapshot = with_runs(disk, runs);
    let loaded = resolved.write_run(&target(&snapshot, number + 1))?;
    runs.push(loaded.run);
    unnamed.keep();
    Ok(loaded.report)
}

fn with_runs(storage: &Arc<dyn Storage>, runs: &[Arc<DeviceRun>]) -> Snapshot {
    let store = Store::open_storage(Arc::clone(storage), OpenOptions::default()).expect("a store");
    let replay = Replay::new(&store.snapshot(), runs.to_vec(), 0);
    replay.finish().0
}

/// Returns statements of a set, as texts of a few each.
fn texts(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let statements: Vec<String> = numbers.map(statement).collect();
    statements.chunks(700).map(|part| part.concat()).collect()
}

fn check(base: &[String], loads: &[Vec<String>], memory_bytes: usize, threads: usize) {
    let storage = memory();
    load_texts(&storage, base, &options(1 << 30, 1)).expect("loaded");
    let mut all = base.to_vec();
    let mut runs = Vec::new();
    for load in loads {
        let before = expected_quads(&all);
        let options = options(memory_bytes, threads);
        let report = load_run([&storage; 2], &mut runs, load, &options).expect("loaded");
        let run = Arc::clone(runs.last().expect("just pushed"));
        let of_load = expected_quads(load);
        all.extend_from_slice(load);
        let expected = expected_quads(&all);
        assert_eq!(report.quads, (expected.len() - before.len()) as u64);
        assert_eq!(
            report.known_quads,
            of_load.intersection(&before).count() as u64
        );
        assert_eq!(run.entry().changes(), report.quads);
        let mut spans = runs.iter().flat_map(|run| &run.entry().terms);
        assert!(spans.all(|span| span.sorted));
        let snapshot = with_runs(&storage, &runs);
        for order in Order::OF_ALL_GRAPHS {
            assert!(quads_in(&snapshot, order) == expected, "{order:?} differs");
        }
        let new: BTreeSet<String> = expected.difference(&before).cloned().collect();
        assert!(logged(&snapshot, &run, threads) == new);
    }
}

/// Returns the quads that a run adds, in the form of the log.
fn logged(snapshot: &Snapshot, run: &Arc<DeviceRun>, threads: usize) -> BTreeSet<String> {
    let term = |set: &ChangeSet, index: u32| match set.term(index) {
        LogTerm::Inline(id) => snapshot.decode(&[id]).expect("a value")[0].to_string(),
        LogTerm::Key(key) => pythia_rdf::key::decode(key).expect("a key").to_string(),
    };
    let mut quads = BTreeSet::new();
    change_sets(snapshot, run, &[], threads, Ok, |set| {
        for change in set.changes() {
            assert!(change.added);
            let bound = change.quad.iter().filter(|index| **index != NO_GRAPH);
            let terms: Vec<String> = bound.map(|&index| term(&set, index)).collect();
            quads.insert(terms.join(" "));
        }
        Ok(())
    })
    .expect("memory");
    quads
}

#[test]
fn a_run_has_what_the_store_lacks() {
    let loads = [texts(3000..7000), texts(0..8000), texts(5000..6000)];
    check(&texts(0..5000), &loads, 1 << 30, 2);
    check(&texts(0..5000), &loads, 1 << 16, 1);
    check(&[String::new()], &loads, 1 << 30, 1);
}

#[test]
fn few_terms_are_looked_up_one_by_one() {
    let line = "<http://example.org/x> <http://example.org/p> \"new\" .\n".to_owned();
    let again = statement(17);
    check(
        &texts(0..9000),
        &[vec![line, again], texts(8990..9010)],
        1 << 30,
        1,
    );
}

#[test]
fn a_load_that_fails_leaves_no_run() {
    let storage = memory();
    load_texts(&storage, &texts(0..500), &options(1 << 30, 1)).expect("loaded");
    let before = storage.list("").expect("memory");
    let load = texts(300..900);
    let options = options(1 << 30, 1);
    let run = |plan| {
        let faulty = FaultyStorage::new(Arc::clone(&storage), plan);
        let written: Arc<dyn Storage> = Arc::new(faulty.clone());
        let outcome = load_run([&storage, &written], &mut Vec::new(), &load, &options);
        (faulty, outcome.map(|_| ()))
    };
    let (calm, outcome) = run(FaultPlan::none());
    outcome.expect("no faults");
    for number in 0..2 {
        storage.remove(&RunId(number).folder()).expect("memory");
    }
    let plans = (1..calm.operations() / 2).map(FaultPlan::fail_at);
    let sizes = (0..calm.bytes_appended())
        .step_by(9_000)
        .map(FaultPlan::disk_of);
    for plan in plans.chain(sizes) {
        let (_, outcome) = run(plan.clone());
        let error = outcome.expect_err("it fails");
        assert!(
            matches!(error, LoadError::Store(_) | LoadError::Io(_)),
            "{plan:?}: {error}"
        );
        assert_eq!(storage.list("").expect("memory"), before, "{plan:?}");
    }
}

fn open_for_writing(storage: Arc<dyn Storage>) -> Result<Store, StoreError> {
    open_with(storage, |_| ())
}

fn open_with(
    storage: Arc<dyn Storage>,
    change: impl Fn(&mut MaintenanceOptions),
) -> Result<Store, StoreError> {
    let open = OpenOptions {
        cache_bytes: 4 << 20,
    };
    let mut write = WriteOptions {
        log: LogOptions {
            file_bytes: 64 << 10,
            prepare_ahead: false,
            ..LogOptions::default()
        },
        ..WriteOptions::default()
    };
    write.maintenance.in_background = false;
    change(&mut write.maintenance);
    Store::open_storage_for_writing(storage, open, &write)
}

/// Opens a store and loads texts on top.
fn load_onto(storage: Arc<dyn Storage>, texts: &[String]) -> Result<(), LoadError> {
    let store = open_for_writing(storage)?;
    let sources = texts.iter().map(|text| source(text)).collect();
    let progress = Arc::new(LoadProgress::default());
    store.load(sources, &options(1 << 30, 1), &progress)?;
    Ok(())
}

/// Returns the contents of a store after the device has restarted; it must be sound.
fn contents(storage: &Arc<dyn Storage>) -> BTreeSet<String> {
    let store = open_for_writing(Arc::clone(storage)).expect("a store");
    let quads = quads_in(&store.snapshot(), Order::Pos);
    drop(store);
    let report = verify(Arc::clone(storage), VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
    quads
}

/// Makes a disk with a store of texts.
fn disk_with(texts: &[String]) -> Arc<dyn Storage> {
    let disk = memory();
    load_texts(&disk, texts, &options(1 << 30, 1)).expect("loaded");
    disk
}

#[test]
fn a_load_that_crashes_is_seen_whole_or_not_at_all() {
    let (base, load) = (texts(0..300), texts(200..500));
    let before = expected_quads(&base);
    let after = expected_quads(&[base.clone(), load.clone()].concat());
    let calm = FaultyStorage::new(disk_with(&base), FaultPlan::none());
    load_onto(Arc::new(calm.clone()), &load).expect("no faults");
    let (mut lost, mut kept) = (0, 0);
    for crash in 1..=calm.operations() {
        let disk = disk_with(&base);
        let faulty = FaultyStorage::new(Arc::clone(&disk), FaultPlan::crash_at(crash, crash));
        let acknowledged = load_onto(Arc::new(faulty.clone()), &load).is_ok();
        faulty.crash().expect("memory");
        let found = contents(&disk);
        if found == after {
            kept += 1;
        } else {
            assert!(found == before && !acknowledged, "crash at {crash}");
            lost += 1;
        }
        // The next load succeeds.
        load_onto(Arc::clone(&disk), &load).expect("no faults");
        assert!(contents(&disk) == after, "after a crash at {crash}");
    }
    assert!(lost > 20 && kept > 0, "{lost} lost, {kept} kept");
}

#[test]
fn a_load_onto_a_full_disk_changes_nothing() {
    let (base, load) = (texts(0..300), texts(200..500));
    let before = expected_quads(&base);
    let calm = FaultyStorage::new(disk_with(&base), FaultPlan::none());
    load_onto(Arc::new(calm.clone()), &load).expect("no faults");
    for bytes in (0..calm.bytes_appended()).step_by(20_000) {
        let disk = disk_with(&base);
        let faulty = FaultyStorage::new(Arc::clone(&disk), FaultPlan::disk_of(bytes));
        let Err(error) = load_onto(Arc::new(faulty), &load) else {
            // Everything essential was written.
            continue;
        };
        assert!(error.to_string().contains("no space left"), "{error}");
        assert!(contents(&disk) == before, "a disk of {bytes} bytes");
    }
}

/// Commits a new quad; returns false if another commit conflicted.
fn commit(store: &Store, number: u64) -> bool {
    let names = ["s", "p", "o"].map(|what| format!("http://example.org/commit/{what}{number}"));
    let keys = names.each_ref().map(|name| pythia_rdf::TermKey {
        kind: pythia_rdf::TermKind::Iri,
        bytes: name.as_bytes(),
    });
    let mut transaction = store.begin().expect("a writer");
    let ids = transaction.ids(&keys).expect("memory");
    let quad = [ids[0].0, ids[1].0, ids[2].0, 0];
    transaction.insert(&[quad]).expect("memory");
    match transaction.commit() {
        Err(StoreError::Conflict) => false,
        committed => committed.map(|_| true).expect("memory"),
    }
}

/// Loads texts one after the other while another thread commits without a pause. Returns the number of commits, and
/// the most runs at a time.
fn load_beside_commits(store: &Store, loads: &[String]) -> (u64, usize) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let commits = scope.spawn(|| {
            let (mut commits, mut runs) = (0, 0);
            // An endless loop must fail, not hang.
            while !done.load(Ordering::Relaxed) && runs <= RUNS_MAX {
                commits += u64::from(commit(store, commits));
                runs = runs.max(store.manifest().runs.len());
            }
            (commits, runs)
        });
        for text in loads {
            let sources = vec![source(text)];
            let progress = Arc::new(LoadProgress::default());
            let loaded = store.load(sources, &options(1 << 30, 1), &progress);
            loaded.expect("memory");
        }
        done.store(true, Ordering::Relaxed);
        commits.join().expect("no commit panics")
    })
}

#[test]
fn loads_end_whatever_commits_and_runs_stay_few() {
    let disk = disk_with(&texts(0..300));
    let store = open_for_writing(Arc::clone(&disk)).expect("a store");
    let loads: Vec<String> = (0..40)
        .map(|number| texts(1000 + number * 10..1010 + number * 10).concat())
        .collect();
    let (commits, runs) = load_beside_commits(&store, &loads);
    let last = store.manifest().runs.len();
    assert!(runs.max(last) <= RUNS_MAX, "{runs} runs, {last} in the end");
    drop(store);
    let loaded = expected_quads(&[texts(0..300), loads].concat());
    assert_eq!(contents(&disk).len() as u64, loaded.len() as u64 + commits);
}

#[test]
fn a_store_of_too_many_runs_opens_and_gets_fewer() {
    let disk = disk_with(&texts(0..300));
    let before = contents(&disk).len() as u64;
    let store = open_with(Arc::clone(&disk), |maintenance| maintenance.runs_max = 1000);
    let store = store.expect("a store");
    for number in 0..120 {
        assert!(commit(&store, number));
        assert!(store.flush().expect("memory"));
    }
    assert_eq!(store.manifest().runs.len(), 120);
    drop(store);
    let reader = Store::open_storage(Arc::clone(&disk), OpenOptions::default()).expect("a store");
    assert_eq!(reader.snapshot().statistics().quads, before + 120);
    // The next step that adds a run makes room, regardless of who maintains the store.
    let store = open_for_writing(Arc::clone(&disk)).expect("a store");
    assert!(commit(&store, 120));
    assert!(store.flush().expect("memory"));
    assert_eq!(store.manifest().runs.len(), RUNS_MAX);
    store.maintain().expect("memory");
    assert!(store.manifest().runs.len() < RUNS_MAX);
    drop(store);
    assert_eq!(contents(&disk).len() as u64, before + 121);
}
