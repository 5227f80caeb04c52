//! Loads into a store while commits change the same quads and add the same terms.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pythia_io::{FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::{ChangeSet, LogTerm, NO_GRAPH, Position};

use super::load::LoadStep;
use super::tests::{
    Named, OPEN, aside, change, change_by, contents, empty, lines, load, open, write_options,
};
use super::{RUNS_MAX, Replaced, Transaction, Writer};
use crate::load::LoadReport;
use crate::load::store_tests::{options, source};
use crate::verify::{VerifyOptions, verify};
use crate::{Store, StoreError};

/// Actions at a step of a load: quads are added and removed, and then runs are written or merged.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) step: LoadStep,
    pub(super) add: Vec<Named>,
    pub(super) remove: Vec<Named>,
    pub(super) moves: Moves,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Moves {
    Nothing,
    Flush,
    /// Merges all runs that may be merged.
    Merge,
}

impl Beside {
    pub(super) fn apply(&self, model: &mut BTreeSet<Named>) {
        for quad in &self.remove {
            model.remove(quad);
        }
        model.extend(self.add.iter().cloned());
    }

    fn act(&self, writer: &Arc<Writer>) -> Result<(), StoreError> {
        change_by(
            Transaction::new(Arc::clone(writer), Default::default()),
            &self.add,
            &self.remove,
        )?;
        // Just before the end, runs are not written or merged any more.
        if self.step == LoadStep::AlmostDone {
            return Ok(());
        }
        match self.moves {
            Moves::Nothing => {}
            Moves::Flush => drop(writer.flush()?),
            Moves::Merge => {
                writer.flush()?;
                let moving = writer.maintenance.lock();
                writer.make_room(RUNS_MAX)?;
                drop(moving);
            }
        }
        Ok(())
    }
}

/// Loads quads while other actions happen, each once; `done` counts the successful actions, and the load.
pub(super) fn load_beside(
    store: &Store,
    quads: &[Named],
    beside: &[Beside],
    done: &Arc<AtomicUsize>,
) -> Result<(), StoreError> {
    replace_beside(store, quads, Replaced::Nothing, beside, done).map(|_| ())
}

/// As [`load_beside`], in place of some quads.
pub(super) fn replace_beside(
    store: &Store,
    quads: &[Named],
    replaced: Replaced<'_>,
    beside: &[Beside],
    done: &Arc<AtomicUsize>,
) -> Result<LoadReport, StoreError> {
    let writer = Arc::clone(store.writer()?);
    let (of_hook, done_by_hook) = (Arc::clone(&writer), Arc::clone(done));
    let left = parking_lot::Mutex::new(beside.to_vec());
    let failed = Arc::new(AtomicBool::new(false));
    let failed_in_hook = Arc::clone(&failed);
    let hook = move |step: LoadStep| {
        // In order; an action that is overdue happens now.
        while let Some(next) = {
            let mut left = left.lock();
            let is_next = left.first().is_some_and(|next| next.step <= step);
            is_next.then(|| left.remove(0))
        } {
            let again = next.step == LoadStep::Resolved;
            let at = Beside { step, ..next };
            // An action that changes nothing may succeed after one that has failed.
            match at.act(&of_hook).is_ok() && !failed_in_hook.load(Ordering::Relaxed) {
                true => drop(done_by_hook.fetch_add(1, Ordering::Relaxed)),
                false => failed_in_hook.store(true, Ordering::Relaxed),
            }
            // Terms are looked up again after each.
            if again && step == LoadStep::Resolved {
                break;
            }
        }
    };
    *writer.load_hook.lock() = Some(Arc::new(hook));
    let loaded = store.load_if(
        vec![source(&lines(quads))],
        replaced,
        &options(1 << 30, 1),
        &Arc::default(),
        &|_| Ok(()),
    );
    *writer.load_hook.lock() = None;
    let report = loaded?;
    // A load of nothing may succeed, too.
    if !failed.load(Ordering::Relaxed) {
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(report)
}

/// Returns a quad of the graph whose number is that of the thousands: 0 is the default graph.
pub(super) fn quad(number: usize) -> Named {
    let name = |what: &str| format!("http://example.org/{what}/{}", number % 1000);
    [name("s"), name("p"), name("o"), graph(number / 1000)]
}

/// Returns the name of a graph.
pub(super) fn graph(number: usize) -> String {
    match number {
        0 => String::new(),
        number => format!("http://example.org/g/{number}"),
    }
}

pub(super) fn quads(numbers: impl IntoIterator<Item = usize>) -> Vec<Named> {
    numbers.into_iter().map(quad).collect()
}

pub(super) fn beside(
    step: LoadStep,
    add: impl IntoIterator<Item = usize>,
    remove: impl IntoIterator<Item = usize>,
    moves: Moves,
) -> Beside {
    Beside {
        step,
        add: quads(add),
        remove: quads(remove),
        moves,
    }
}

/// Makes a store with quads in its base, in a run and in memory.
fn disk() -> Arc<MemoryStorage> {
    let disk = empty();
    let store = open(disk.clone()).expect("memory");
    change(&store, &quads(0..10), &[]).expect("memory");
    store.compact().expect("memory");
    change(&store, &quads(10..20), &quads([9])).expect("memory");
    store.flush().expect("memory");
    change(&store, &quads(20..30), &quads([19])).expect("memory");
    drop(store);
    disk
}

fn on_disk() -> BTreeSet<Named> {
    let numbers = (0..30).filter(|number| ![9, 19].contains(number));
    numbers.map(quad).collect()
}

/// Lists every step of a load, with commits that add and remove loaded quads, existing quads, and others.
fn eventful() -> Vec<Beside> {
    use LoadStep::{AlmostDone, Copied, Placed, Resolved, Written};
    vec![
        beside(Resolved, [31, 90], [1], Moves::Flush),
        beside(Resolved, [32], [90], Moves::Nothing),
        beside(Placed, [33, 91], [2, 12, 29], Moves::Flush),
        beside(Placed, [2, 34], [33, 3], Moves::Merge),
        beside(Written, [35, 33], [4, 34, 22], Moves::Flush),
        beside(Written, [36], [2, 91], Moves::Nothing),
        beside(Copied, [37, 4], [5, 35], Moves::Flush),
        beside(Copied, [38, 92], [37, 13], Moves::Nothing),
        beside(AlmostDone, [39, 13], [6, 36, 38], Moves::Nothing),
        beside(AlmostDone, [38], [23, 92], Moves::Nothing),
    ]
}

/// Returns the loaded quads: old and new ones.
fn loaded() -> Vec<Named> {
    quads((0..8).chain(12..14).chain(21..24).chain(29..45))
}

/// Returns the successive states of a store while it is loaded.
fn states() -> Vec<BTreeSet<Named>> {
    let mut states = vec![on_disk()];
    for beside in eventful() {
        let mut next = states.last().expect("never empty").clone();
        beside.apply(&mut next);
        states.push(next);
    }
    let mut last = states.last().expect("never empty").clone();
    last.extend(loaded());
    states.push(last);
    states
}

/// Applies all commits of the log to a set of quads: each must add only missing quads, and remove only existing ones.
pub(super) fn replayed(
    store: &Store,
    from: Position,
    mut quads: BTreeSet<Named>,
) -> BTreeSet<Named> {
    let name = |set: &ChangeSet, index: u32| match index {
        NO_GRAPH => String::new(),
        index => match set.term(index) {
            LogTerm::Key(key) => String::from_utf8(key.bytes.to_vec()).expect("an IRI"),
            LogTerm::Inline(_) => unreachable!("all terms are IRIs"),
        },
    };
    let writer = store.writer().expect("open for writing");
    for commit in writer.log.reader().commits_from(from).expect("memory") {
        for set in commit.expect("memory").changes() {
            let set = set.expect("memory");
            for change in set.changes() {
                let quad = change.quad.map(|index| name(&set, index));
                let is_change = match change.added {
                    true => quads.insert(quad.clone()),
                    false => quads.remove(&quad),
                };
                assert!(is_change, "{quad:?} is added or removed twice");
            }
        }
    }
    quads
}

pub(super) fn is_sound(disk: &Arc<MemoryStorage>) {
    let report = verify(disk.clone(), VerifyOptions::default(), &mut |_| {});
    assert_eq!(report.problems, []);
}

#[test]
fn a_load_comes_after_the_commits_that_were_made_meanwhile() {
    let disk = disk();
    let store = open(disk.clone()).expect("memory");
    let before = Position(store.position().0 + 1);
    let done = Arc::default();
    load_beside(&store, &loaded(), &eventful(), &done).expect("memory");
    let states = states();
    assert_eq!(
        done.load(Ordering::Relaxed),
        states.len() - 1,
        "all was done"
    );
    let expected = states.last().expect("never empty");
    assert_eq!(contents(&store), *expected);
    assert_eq!(replayed(&store, before, on_disk()), *expected);
    // All runs can be merged, with the load's and without.
    change(&store, &quads([100]), &quads([0])).expect("memory");
    store.flush().expect("memory");
    let writer = store.writer().expect("open for writing");
    let moving = writer.maintenance.lock();
    writer.make_room(RUNS_MAX).expect("memory");
    drop(moving);
    let mut expected = expected.clone();
    beside(LoadStep::Placed, [100], [0], Moves::Nothing).apply(&mut expected);
    assert_eq!(contents(&store), expected);
    assert_eq!(store.manifest().runs.len(), 1);
    store.compact().expect("memory");
    assert_eq!(contents(&store), expected);
    drop(store);
    is_sound(&disk);
    assert_eq!(contents(&open(disk).expect("memory")), expected);
}

#[test]
fn a_load_reports_what_it_has_added_in_the_end() {
    let store = open(disk()).expect("memory");
    let writer = Arc::clone(store.writer().expect("open for writing"));
    let of_hook = Arc::clone(&writer);
    *writer.load_hook.lock() = Some(Arc::new(move |step| {
        let transaction = Transaction::new(Arc::clone(&of_hook), Default::default());
        match step {
            LoadStep::Written => change_by(transaction, &quads([31, 32]), &quads([3])),
            LoadStep::AlmostDone => change_by(transaction, &quads([33]), &[]),
            _ => return,
        }
        .expect("memory");
    }));
    let sources = vec![source(&lines(&loaded()))];
    let report = store
        .load(sources, &options(1 << 30, 1), &Arc::default())
        .expect("memory");
    *writer.load_hook.lock() = None;
    let new = loaded()
        .into_iter()
        .filter(|quad| !on_disk().contains(quad))
        .count() as u64;
    let all = loaded().len() as u64;
    assert_eq!(report.quads, new - 3 + 1);
    assert_eq!(report.known_quads, all - new + 3 - 1);
}

#[test]
fn a_load_of_what_commits_bring_meanwhile_is_no_commit() {
    let disk = disk();
    let store = open(disk.clone()).expect("memory");
    let events = [
        beside(LoadStep::Written, 30..35, [], Moves::Flush),
        beside(LoadStep::AlmostDone, 35..40, [], Moves::Nothing),
    ];
    load_beside(&store, &quads(30..40), &events, &Arc::default()).expect("memory");
    let position = store.position();
    let expected: BTreeSet<Named> = on_disk().into_iter().chain(quads(30..40)).collect();
    assert_eq!(contents(&store), expected);
    load(&store, &quads(30..40)).expect("memory");
    assert_eq!(store.position(), position);
    drop(store);
    is_sound(&disk);
}

#[test]
fn a_load_of_what_commits_remove_meanwhile_brings_it_back() {
    for moves in [Moves::Nothing, Moves::Flush, Moves::Merge] {
        let disk = disk();
        let store = open(disk.clone()).expect("memory");
        let before = Position(store.position().0 + 1);
        let events = [beside(LoadStep::Written, [], 0..9, moves)];
        load_beside(&store, &quads(0..9), &events, &Arc::default()).expect("memory");
        assert_eq!(contents(&store), on_disk());
        assert_eq!(replayed(&store, before, on_disk()), on_disk());
        drop(store);
        is_sound(&disk);
    }
}

/// Even if commits add the same terms again and again, the load ends: finally commits wait.
#[test]
fn a_load_ends_though_commits_bring_its_terms_again_and_again() {
    let disk = disk();
    let store = open(disk.clone()).expect("memory");
    let events: Vec<Beside> = (40..60)
        .map(|number| {
            beside(
                LoadStep::Resolved,
                [number, number + 100],
                [],
                Moves::Nothing,
            )
        })
        .collect();
    load_beside(&store, &quads(40..60), &events, &Arc::default()).expect("memory");
    let numbers = (40..60).chain(140..160);
    let expected: BTreeSet<Named> = on_disk().into_iter().chain(quads(numbers)).collect();
    assert_eq!(contents(&store), expected);
    drop(store);
    is_sound(&disk);
}

#[test]
fn runs_stay_few_while_a_load_is_under_way() {
    let disk = disk();
    let store = open(disk.clone()).expect("memory");
    let mut expected = on_disk();
    let steps = [LoadStep::Resolved, LoadStep::Placed, LoadStep::Written];
    let events: Vec<Beside> = (0..120)
        .map(|number| {
            let step = steps[number / 40];
            beside(
                step,
                [200 + number, 30 + number % 20],
                [number % 8],
                Moves::Flush,
            )
        })
        .collect();
    events.iter().for_each(|event| event.apply(&mut expected));
    expected.extend(loaded());
    load_beside(&store, &loaded(), &events, &Arc::default()).expect("memory");
    assert!(store.manifest().runs.len() <= RUNS_MAX);
    assert_eq!(contents(&store), expected);
    drop(store);
    is_sound(&disk);
}

#[test]
fn a_load_beside_commits_is_whole_or_not_there_after_any_crash() {
    let states = states();
    let act = |disk: Arc<dyn Storage>| {
        let done = Arc::new(AtomicUsize::new(0));
        if let Ok(store) = open(disk) {
            let _ = load_beside(&store, &loaded(), &eventful(), &done);
        }
        done.load(Ordering::Relaxed)
    };
    let calm = FaultyStorage::new(disk(), FaultPlan::none());
    assert_eq!(act(Arc::new(calm.clone())), states.len() - 1);
    for crash in (1..=calm.operations()).step_by(3) {
        let disk = disk();
        let faulty = FaultyStorage::new(disk.clone(), FaultPlan::crash_at(crash, crash));
        let done = act(Arc::new(faulty.clone()));
        faulty.crash().expect("memory");
        let store = open(disk.clone()).expect("a store after a crash");
        let found = contents(&store);
        assert!(
            states[done..].contains(&found),
            "crash at {crash}, {done} were done"
        );
        // The next load succeeds.
        load(&store, &loaded()).expect("memory");
        let expected: BTreeSet<Named> = found.into_iter().chain(loaded()).collect();
        assert_eq!(contents(&store), expected, "after a crash at {crash}");
        drop(store);
        is_sound(&disk);
    }
}

#[test]
fn a_load_beside_commits_that_fails_changes_nothing_and_is_done_again() {
    let calm = FaultyStorage::new(disk(), FaultPlan::none());
    let store = open(Arc::new(calm.clone())).expect("memory");
    let opened = calm.operations();
    load_beside(&store, &loaded(), &eventful(), &Arc::default()).expect("memory");
    drop(store);
    for fault in (opened + 1..=calm.operations()).step_by(3) {
        let disk = disk();
        let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(device.clone())).expect("memory");
        device.set_plan(match fault % 2 {
            0 => FaultPlan::fail_at(fault),
            _ => FaultPlan::misreport_at(fault, fault),
        });
        let _ = load_beside(&store, &loaded(), &eventful(), &Arc::default());
        device.set_plan(FaultPlan::none());
        let mut store = store;
        if load(&store, &loaded()).is_err() {
            // A failed log must be opened again.
            drop(store);
            store = open(disk.clone()).expect("sound");
            load(&store, &loaded()).expect("memory");
        }
        let found = contents(&store);
        assert!(
            found.is_superset(&loaded().into_iter().collect()),
            "a fault at {fault}"
        );
        change(&store, &quads([100]), &[]).expect("memory");
        drop(store);
        is_sound(&disk);
        let after = contents(&open(disk).expect("sound"));
        let expected: BTreeSet<Named> = found.into_iter().chain(quads([100])).collect();
        assert_eq!(after, expected, "a fault at {fault}");
    }
}

/// Maintenance of runs during a load.
type Move = fn(&Writer) -> Result<bool, StoreError>;

/// Loads quads, and at a step runs maintenance on a device whose operation `fault`, counted from there, takes effect
/// but reports failure. Returns the operations of the maintenance, and whether it has left two states.
fn load_beside_a_move(step: LoadStep, moving: Move, fault: Option<u64>) -> (u64, bool) {
    let disk = empty();
    let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
    let mut options = write_options();
    options.maintenance.runs_max = 8;
    let store = Store::open_storage_for_writing(Arc::new(device.clone()), OPEN, &options);
    let store = store.expect("memory");
    for number in 0..6 {
        change(&store, &quads([number]), &[]).expect("memory");
        store.flush().expect("memory");
    }
    change(&store, &quads([6]), &[]).expect("memory");
    let writer = Arc::clone(store.writer().expect("open for writing"));
    let seen = Arc::new(parking_lot::Mutex::new(None));
    let (of_hook, seen_by_hook) = (Arc::clone(&writer), Arc::clone(&seen));
    let hook = move |at: LoadStep| {
        if at != step || seen_by_hook.lock().is_some() {
            return;
        }
        // The maximum number of runs, and changes in memory.
        let more = if step == LoadStep::Copied {
            20..24
        } else {
            20..21
        };
        for number in more.clone() {
            let transaction = Transaction::new(Arc::clone(&of_hook), Default::default());
            change_by(transaction, &quads([number]), &[]).expect("memory");
            if number + 1 < more.end {
                of_hook.flush().expect("memory");
            }
        }
        let before = device.operations();
        if let Some(fault) = fault {
            device.set_plan(FaultPlan::misreport_at(before + fault, fault));
        }
        let moved = moving(&of_hook);
        device.set_plan(FaultPlan::none());
        let is_switching = matches!(moved, Err(StoreError::Switching { .. }));
        *seen_by_hook.lock() = Some((device.operations() - before, is_switching));
    };
    *writer.load_hook.lock() = Some(Arc::new(hook));
    load(&store, &quads(10..14)).expect("the device works again");
    *writer.load_hook.lock() = None;
    let last = if step == LoadStep::Copied { 24 } else { 21 };
    let expected: BTreeSet<Named> = quads((0..7).chain(10..14).chain(20..last))
        .into_iter()
        .collect();
    assert_eq!(contents(&store), expected, "{step:?}, fault at {fault:?}");
    drop((writer, store));
    is_sound(&disk);
    assert_eq!(contents(&open(disk).expect("sound")), expected);
    seen.lock().take().expect("the step was reached")
}

/// A switch that failed during a load leaves a pending state: the load puts it in place before it merges runs of the
/// earlier state.
#[test]
fn a_load_settles_a_switch_that_failed_beside_it_before_it_makes_room() {
    for step in [LoadStep::Resolved, LoadStep::Copied] {
        for moving in [Writer::merge_due as Move, Writer::flush] {
            let (operations, _) = load_beside_a_move(step, moving, None);
            // The rename is among the last operations.
            let mut faults = (1..=operations).rev();
            let found = faults.find(|&fault| load_beside_a_move(step, moving, Some(fault)).1);
            assert!(found.is_some(), "{step:?}: no fault left two states");
        }
    }
}

#[test]
fn a_load_that_is_not_committed_leaves_no_copy_in_the_log() {
    let mut failed = 0;
    for (offset, takes_effect) in (1..200).flat_map(|offset| [(offset, false), (offset, true)]) {
        let disk = disk();
        let device = FaultyStorage::new(disk.clone(), FaultPlan::none());
        let store = open(Arc::new(device.clone())).expect("memory");
        let writer = Arc::clone(store.writer().expect("open for writing"));
        let (of_hook, device_of_hook) = (Arc::clone(&writer), device.clone());
        let hook = move |step: LoadStep| {
            if step != LoadStep::AlmostDone {
                return;
            }
            // The load adds the removed quads after all, so its copy grows.
            let transaction = Transaction::new(Arc::clone(&of_hook), Default::default());
            change_by(transaction, &[], &quads([1])).expect("memory");
            let place = device_of_hook.operations() + offset;
            device_of_hook.set_plan(match takes_effect {
                true => FaultPlan::misreport_at(place, offset),
                false => FaultPlan::fail_at(place),
            });
        };
        *writer.load_hook.lock() = Some(Arc::new(hook));
        let loaded = load(&store, &quads((0..3).chain(40..45)));
        *writer.load_hook.lock() = None;
        device.set_plan(FaultPlan::none());
        let goes_on = change(&store, &quads([100]), &[]).is_ok();
        if loaded.is_ok() || !goes_on {
            // From here on the log has the load, or may have it.
            break;
        }
        failed += 1;
        assert_eq!(aside(&disk), 0, "a fault at {offset}, {takes_effect}");
    }
    assert!(failed > 2, "{failed}");
}
