//! Backups, restores and the change feed, against the states that a store went through.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use oxrdf::{GraphName, Literal, NamedNode, Quad};
use pythia::{
    BackupError, Database, Feed, LogError, Options, Position, RdfFormat, RestoreOptions,
    StoreError, Until, backup_storage, dump, restore_storage, write_patch,
};
use pythia_io::{DirectStorage, FaultPlan, FaultyStorage, MemoryStorage, Storage};
use pythia_log::LogOptions;
use pythia_store::write::MaintenanceOptions;
use pythia_store::write::WriteOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::stored;

type Lines = BTreeSet<String>;

fn options(archive: Option<Arc<dyn Storage>>) -> Options {
    Options {
        write: Some(WriteOptions {
            log: LogOptions {
                file_bytes: 64 << 10,
                retain_bytes: 0,
                archive,
                prepare_ahead: false,
                ..LogOptions::default()
            },
            maintenance: MaintenanceOptions {
                in_background: false,
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        }),
        ..Options::default()
    }
}

fn open(storage: &Arc<dyn Storage>, archive: Option<Arc<dyn Storage>>) -> Database {
    Database::open_storage(Arc::clone(storage), options(archive)).unwrap()
}

fn contents(database: &Database) -> Lines {
    let mut text = Vec::new();
    dump(
        &database.snapshot(),
        database.cores(),
        RdfFormat::NQuads,
        &mut text,
    )
    .unwrap();
    String::from_utf8(text)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn read(storage: &Arc<dyn Storage>) -> Lines {
    contents(&Database::open_storage(Arc::clone(storage), Options::default()).unwrap())
}

fn memory() -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new())
}

fn random_quad(random: &mut StdRng) -> Quad {
    let mut name = |what: &str, count: u32| {
        NamedNode::new_unchecked(format!("http://e/{what}{}", random.random_range(0..count)))
    };
    let (s, p, g) = (name("s", 10), name("p", 3), name("g", 2));
    let text = "x".repeat(random.random_range(0..400));
    let o = Literal::new_simple_literal(format!("{} {text}", random.random_range(0..10)));
    let graph = match random.random_range(0..3) {
        0 => GraphName::DefaultGraph,
        _ => g.into(),
    };
    Quad::new(s, p, o, graph)
}

/// A store being written to, and its states so far: that after commit `n` at `n`.
struct Subject {
    storage: Arc<dyn Storage>,
    archive: Arc<dyn Storage>,
    database: Database,
    states: Vec<Lines>,
    random: StdRng,
}

const BASE: &str = "<http://e/s1> <http://e/p1> <http://e/o> .\n<http://e/s2> <http://e/p1> \"a\" <http://e/g1> .\n";

impl Subject {
    fn new(seed: u64) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(stored(BASE));
        let archive = memory();
        let database = open(&storage, Some(Arc::clone(&archive)));
        let states = vec![contents(&database)];
        Self {
            storage,
            archive,
            database,
            states,
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Commits some changes; now and then the store moves its runs, or writes a new base.
    fn work(&mut self, commits: usize) {
        for _ in 0..commits {
            let mut transaction = self.database.transaction().unwrap();
            let mut state = self.states.last().unwrap().clone();
            for _ in 0..self.random.random_range(1..6) {
                let quad = random_quad(&mut self.random);
                transaction.insert(&quad).unwrap();
                state.insert(format!("{quad} ."));
            }
            let some = state
                .iter()
                .nth(self.random.random_range(0..state.len()))
                .unwrap();
            let quad: Quad = some.trim_end_matches(" .").parse().unwrap();
            transaction.remove(&quad).unwrap();
            state.remove(&format!("{quad} ."));
            let committed = transaction.commit().unwrap();
            if let Some(position) = committed.position {
                assert_eq!(position, Position(self.states.len() as u64));
                self.states.push(state);
            } else {
                assert_eq!(Some(&state), self.states.last(), "nothing was changed");
            }
            match self.random.random_range(0..12) {
                0 => drop(self.database.store().compact().unwrap()),
                1..4 => drop(self.database.store().flush().unwrap()),
                _ => {}
            }
        }
        assert_eq!(&contents(&self.database), self.states.last().unwrap());
    }

    fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }
}

fn restored(
    backup: &Arc<dyn Storage>,
    until: Until,
    archive: Option<&Arc<dyn Storage>>,
) -> Result<(Arc<dyn Storage>, Lines), BackupError> {
    let target = memory();
    let archive = archive.cloned();
    restore_storage(backup, &target, &RestoreOptions { until, archive })?;
    let lines = read(&target);
    Ok((target, lines))
}

/// Restores to a position at or after the backup's base; earlier ones are refused.
fn check_position(
    subject: &Subject,
    backup: &Arc<dyn Storage>,
    position: u64,
    archive: bool,
) -> bool {
    let archive = archive.then_some(&subject.archive);
    match restored(backup, Until::Position(Position(position)), archive) {
        Ok((_, lines)) => {
            assert_eq!(
                lines, subject.states[position as usize],
                "position {position}"
            );
            true
        }
        Err(BackupError::TooEarly { first, .. }) => {
            assert!(first.0 > position);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn stores_are_restored_to_any_commit_that_backup_and_archive_have() {
    for seed in 0..6 {
        let mut subject = Subject::new(seed);
        let backup = memory();
        let mut restored_count = 0;
        for round in 0..4 {
            subject.work(10);
            let report = backup_storage(&subject.storage, &backup, round).unwrap();
            assert_eq!(report.last, Some(Position(subject.last())));
            let (_, lines) = restored(&backup, Until::End, None).unwrap();
            assert_eq!(&lines, subject.states.last().unwrap());
            for _ in 0..4 {
                let position = subject.random.random_range(0..=subject.last());
                restored_count += u32::from(check_position(&subject, &backup, position, false));
            }
        }
        let backed_up = subject.last();
        subject.work(12);
        for position in backed_up..=subject.last() {
            // Beyond the backup: the archive has what left the log, the store's own folder the rest.
            let whole = Arc::clone(&subject.storage);
            let (_, lines) = restored(&backup, Until::Position(Position(backed_up)), None).unwrap();
            assert_eq!(lines, subject.states[backed_up as usize]);
            match restored(&backup, Until::Position(Position(position)), Some(&whole)) {
                Ok((_, lines)) => assert_eq!(lines, subject.states[position as usize]),
                Err(BackupError::Store(StoreError::Log(LogError::Missing { .. }))) => {
                    restored_count += u32::from(check_archived(&subject, &backup, position));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(restored_count > 0, "some were within reach");
    }
}

/// The archive has a position, or ends before.
fn check_archived(subject: &Subject, backup: &Arc<dyn Storage>, position: u64) -> bool {
    let until = Until::Position(Position(position));
    match restored(backup, until, Some(&subject.archive)) {
        Ok((_, lines)) => {
            assert_eq!(lines, subject.states[position as usize]);
            true
        }
        Err(BackupError::TooLate { last, .. }) => {
            assert!(last.0 < position);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_restored_store_goes_on_by_itself() {
    let mut subject = Subject::new(1);
    subject.work(5);
    let backup = memory();
    backup_storage(&subject.storage, &backup, 0).unwrap();
    let (target, _) = restored(&backup, Until::Position(Position(subject.last())), None).unwrap();
    let database = open(&target, None);
    let mut transaction = database.transaction().unwrap();
    transaction
        .insert(&random_quad(&mut subject.random))
        .unwrap();
    let committed = transaction.commit().unwrap();
    assert_eq!(committed.position, Some(Position(subject.last() + 1)));
    drop(database);
    // It is another store: its history may differ from the original's.
    let other = backup_storage(&target, &backup, 1);
    assert!(matches!(other, Err(BackupError::OtherStore)), "{other:?}");
    let full = restore_storage(&backup, &target, &RestoreOptions::default());
    assert!(
        matches!(full, Err(BackupError::NotEmpty { .. })),
        "{full:?}"
    );
}

#[test]
fn stores_are_restored_to_a_time() {
    let mut subject = Subject::new(2);
    let backup = memory();
    subject.work(3);
    subject.database.store().flush().unwrap();
    subject.work(4);
    backup_storage(&subject.storage, &backup, 0).unwrap();
    let feed = Feed::of_storage(&subject.storage, Some(Arc::clone(&subject.archive))).unwrap();
    let commits: Vec<_> = feed
        .commits_from(Position(1))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for commit in &commits {
        let wanted = commits
            .iter()
            .filter(|other| other.time <= commit.time)
            .count();
        match restored(&backup, Until::Time(commit.time), None) {
            Ok((_, lines)) => assert_eq!(lines, subject.states[wanted]),
            Err(BackupError::TooEarly { first, .. }) => assert!(wanted < first.0 as usize),
            Err(error) => panic!("{error}"),
        }
    }
    let early = restored(&backup, Until::Time(1), None);
    assert!(matches!(early, Err(BackupError::TooEarly { .. })));
    let late = restored(&backup, Until::Position(Position(100)), None).unwrap_err();
    let end = format!("ends with commit {}", subject.last());
    assert!(late.to_string().contains(&end), "{late}");
}

#[test]
fn times_before_the_first_known_state_are_refused_with_it() {
    // What a load has put there has no time; the first commit has.
    let with_first_commit = |seed| {
        let mut subject = Subject::new(seed);
        subject.work(2);
        let backup = memory();
        backup_storage(&subject.storage, &backup, 0).unwrap();
        // The commits may be in the files already.
        let has_begin = restored(&backup, Until::Position(Position(0)), None).is_ok();
        has_begin.then_some((subject, backup))
    };
    let found = (0..100).find_map(with_first_commit);
    let (subject, backup) = found.expect("a backup that begins before the first commit");
    let feed = Feed::of_storage(&subject.storage, Some(Arc::clone(&subject.archive))).unwrap();
    let first = feed
        .commits_from(Position(1))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    for time in [1, first.time - 1] {
        let error = restored(&backup, Until::Time(time), None).unwrap_err();
        let message = error.to_string();
        assert!(
            matches!(error, BackupError::BeforeFirst { .. }),
            "{message}"
        );
        let named = format!("after commit 1 of {}", pythia::format_time(first.time));
        assert!(message.contains(&named), "{message}");
        assert!(message.contains("--to-position 0"), "{message}");
    }
    let (_, lines) = restored(&backup, Until::Time(first.time), None).unwrap();
    assert_eq!(lines, subject.states[1]);
    let (_, lines) = restored(&backup, Until::Position(Position(0)), None).unwrap();
    assert_eq!(lines, subject.states[0]);
    // Without commits there is but the state of the backup.
    let storage: Arc<dyn Storage> = Arc::new(stored(BASE));
    let (backup, taken) = (memory(), 1_000_000);
    backup_storage(&storage, &backup, taken).unwrap();
    let error = restored(&backup, Until::Time(taken - 1), None).unwrap_err();
    assert!(
        error.to_string().contains(&pythia::format_time(taken)),
        "{error}"
    );
    restored(&backup, Until::Time(taken), None).unwrap();
}

#[test]
fn a_store_without_a_log_is_backed_up_too() {
    let storage: Arc<dyn Storage> = Arc::new(stored(BASE));
    let backup = memory();
    let report = backup_storage(&storage, &backup, 0).unwrap();
    assert_eq!((report.last, report.commits), (None, 0));
    let (target, lines) = restored(&backup, Until::End, None).unwrap();
    assert_eq!(lines, read(&storage));
    let feed = Feed::of_storage(&target, None);
    assert!(matches!(feed, Err(StoreError::NoLog)));
    // And again once it has one.
    let database = open(&storage, None);
    database
        .transaction()
        .unwrap()
        .insert(&random_quad(&mut StdRng::seed_from_u64(1)))
        .unwrap();
    backup_storage(&storage, &backup, 1).unwrap();
    let folder: Arc<dyn Storage> = Arc::new(stored(BASE));
    let wrong = backup_storage(&storage, &folder, 0);
    assert!(
        matches!(wrong, Err(BackupError::NotEmpty { .. })),
        "{wrong:?}"
    );
    let none = restored(&memory(), Until::End, None);
    assert!(matches!(none, Err(BackupError::NoBackup)));
}

#[test]
fn a_crash_while_backing_up_leaves_the_old_backup_or_the_new_one() {
    let calm = FaultyStorage::new(memory(), FaultPlan::none());
    let run = |faulty: &FaultyStorage, plan: &dyn Fn(u64) -> FaultPlan| {
        let mut subject = Subject::new(3);
        let target: Arc<dyn Storage> = Arc::new(faulty.clone());
        subject.work(4);
        backup_storage(&subject.storage, &target, 0).unwrap();
        let first = subject.last();
        subject.work(6);
        let begun = faulty.operations();
        faulty.set_plan(plan(begun));
        let done = backup_storage(&subject.storage, &target, 1).is_ok();
        let operations = faulty.operations() - begun;
        faulty.restart(FaultPlan::none()).unwrap();
        let (_, lines) = restored(&target, Until::End, None).unwrap();
        let state = subject
            .states
            .iter()
            .position(|state| *state == lines)
            .unwrap() as u64;
        assert!(state == subject.last() || (state == first && !done));
        // The next one succeeds, whatever was left.
        subject.work(2);
        backup_storage(&subject.storage, &target, 2).unwrap();
        let (_, lines) = restored(&target, Until::End, None).unwrap();
        assert_eq!(&lines, subject.states.last().unwrap());
        operations
    };
    let operations = run(&calm, &|_| FaultPlan::none());
    for number in 1..=operations {
        let faulty = FaultyStorage::new(memory(), FaultPlan::none());
        run(&faulty, &|begun| {
            FaultPlan::crash_at(begun + number, number)
        });
    }
}

#[test]
fn a_first_backup_that_crashes_is_none() {
    let mut subject = Subject::new(4);
    subject.work(5);
    let calm = FaultyStorage::new(memory(), FaultPlan::none());
    backup_storage(&subject.storage, &(Arc::new(calm.clone()) as _), 0).unwrap();
    for number in 1..=calm.operations() {
        let faulty = FaultyStorage::new(memory(), FaultPlan::crash_at(number, number));
        let target: Arc<dyn Storage> = Arc::new(faulty.clone());
        let done = backup_storage(&subject.storage, &target, 0).is_ok();
        faulty.restart(FaultPlan::none()).unwrap();
        match restored(&target, Until::End, None) {
            Ok((_, lines)) => assert_eq!(&lines, subject.states.last().unwrap()),
            Err(BackupError::NoBackup) => assert!(!done),
            Err(error) => panic!("operation {number}: {error}"),
        }
        backup_storage(&subject.storage, &target, 1).unwrap();
    }
}

/// Plans for every operation of a calm run, which fails without effect or after it took effect; and what goes
/// wrong a while later, when it is done again.
fn faults(operations: u64) -> impl Iterator<Item = (FaultPlan, FaultPlan)> {
    (1..=operations).flat_map(move |number| {
        let later = number.wrapping_mul(0x9e37_79b9) % operations + 1;
        let second = match number % 3 {
            0 => FaultPlan::fail_at(number + later),
            1 => FaultPlan::misreport_at(number + later, number),
            _ => FaultPlan::crash_at(number + later, number),
        };
        let firsts = [
            FaultPlan::fail_at(number),
            FaultPlan::misreport_at(number, number),
        ];
        firsts.map(|first| (first, second.clone()))
    })
}

/// The old backup or the new one is whole, whatever fails while one is made, and again in the next attempt.
#[test]
fn a_backup_is_the_old_one_or_the_new_one_whatever_fails_twice() {
    let mut subject = Subject::new(5);
    let old = MemoryStorage::new();
    subject.work(4);
    backup_storage(&subject.storage, &(Arc::new(old.clone()) as _), 0).unwrap();
    let first = subject.last();
    subject.work(6);
    let last = subject.last();
    let calm = FaultyStorage::new(Arc::new(old.copy()), FaultPlan::none());
    backup_storage(&subject.storage, &(Arc::new(calm.clone()) as _), 1).unwrap();
    for (plan, second) in faults(calm.operations()) {
        let disk: Arc<dyn Storage> = Arc::new(old.copy());
        let faulty = FaultyStorage::new(Arc::clone(&disk), plan.clone());
        let target: Arc<dyn Storage> = Arc::new(faulty.clone());
        let mut done = backup_storage(&subject.storage, &target, 1).is_ok();
        faulty.set_plan(second);
        done |= backup_storage(&subject.storage, &target, 2).is_ok();
        faulty.crash().unwrap();
        let (_, lines) = restored(&disk, Until::End, None).unwrap();
        let state = subject.states.iter().position(|state| *state == lines);
        let is_one = state == Some(last as usize) || (state == Some(first as usize) && !done);
        assert!(is_one, "{plan:?}: {state:?}");
        backup_storage(&subject.storage, &disk, 3).unwrap();
        let (_, lines) = restored(&disk, Until::End, None).unwrap();
        assert_eq!(&lines, subject.states.last().unwrap(), "{plan:?}");
    }
}

/// A restore that fails leaves nothing, or a store that is whole, and the backup as it was.
#[test]
fn a_restore_leaves_nothing_or_a_whole_store_whatever_fails() {
    let mut subject = Subject::new(6);
    let backup = memory();
    subject.work(8);
    backup_storage(&subject.storage, &backup, 0).unwrap();
    let restore = |target: &FaultyStorage| {
        let target: Arc<dyn Storage> = Arc::new(target.clone());
        restore_storage(&backup, &target, &RestoreOptions::default())
    };
    let calm = FaultyStorage::new(memory(), FaultPlan::none());
    restore(&calm).unwrap();
    for (plan, second) in faults(calm.operations()) {
        let disk = memory();
        let faulty = FaultyStorage::new(Arc::clone(&disk), plan.clone());
        let mut outcome = restore(&faulty);
        if outcome.is_err() && disk.list("").unwrap().is_empty() {
            faulty.set_plan(second);
            outcome = restore(&faulty);
        }
        faulty.crash().unwrap();
        match disk.exists("MANIFEST").unwrap() {
            true => assert_eq!(&read(&disk), subject.states.last().unwrap(), "{plan:?}"),
            false => assert!(outcome.is_err(), "{plan:?}"),
        }
        if let Err(BackupError::Store(StoreError::Switching { .. })) = outcome {
            continue;
        }
        let left = disk.list("").unwrap();
        assert!(outcome.is_ok() || faulty.plan().crash_operation.is_some() || left.len() < 2);
    }
}

#[test]
fn damage_to_a_backup_is_found() {
    let mut subject = Subject::new(5);
    subject.work(5);
    subject.database.store().flush().unwrap();
    subject.work(3);
    let memory = memory();
    backup_storage(&subject.storage, &memory, 0).unwrap();
    for name in files(&*memory, "") {
        let bytes = memory.read_all(&name).unwrap();
        // Behind a log's groups there is nothing to be damaged.
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        for offset in (0..=used).step_by(used as usize / 7 + 1) {
            let plan = FaultPlan::flip(&name, offset, 4);
            let faulty: Arc<dyn Storage> = Arc::new(FaultyStorage::new(Arc::clone(&memory), plan));
            let target: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
            match restore_storage(&faulty, &target, &RestoreOptions::default()) {
                Ok(_) => assert_eq!(&read(&target), subject.states.last().unwrap(), "{name}"),
                Err(_) => assert_eq!(target.list("").unwrap(), [] as [String; 0]),
            }
        }
    }
}

fn files(storage: &dyn Storage, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in storage.list(folder).unwrap() {
        let path = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        match storage.list(&path) {
            Ok(_) => found.extend(files(storage, &path)),
            Err(_) => found.push(path),
        }
    }
    found
}

fn load_base(path: &Path) {
    let source = pythia::Source::from_reader(
        "base".to_owned(),
        BASE.as_bytes(),
        RdfFormat::NQuads,
        pythia::Compression::None,
    );
    let load = pythia::LoadOptions::default();
    pythia::load(path, vec![source.unwrap()], &load, &Arc::default()).unwrap();
}

#[test]
fn a_later_backup_copies_only_what_is_new_while_a_writer_works() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store"), folder.path().join("backup"));
    load_base(&path);
    let database = Database::open_with(&path, options(None)).unwrap();
    let mut random = StdRng::seed_from_u64(6);
    let mut commit = || {
        let mut transaction = database.transaction().unwrap();
        transaction.insert(&random_quad(&mut random)).unwrap();
        transaction.commit().unwrap();
    };
    commit();
    let first = pythia::backup(&path, &copy).unwrap();
    assert!(first.copied_files > 0 && first.kept_files == 0 && first.commits == 1);
    commit();
    commit();
    let second = pythia::backup(&path, &copy).unwrap();
    assert_eq!(
        (second.copied_files, second.kept_files),
        (0, first.copied_files)
    );
    assert_eq!((second.commits, second.last), (2, Some(Position(3))));
    database.store().flush().unwrap();
    commit();
    let third = pythia::backup(&path, &copy).unwrap();
    assert!(third.copied_files > 0 && third.kept_files == first.copied_files);
    let target = folder.path().join("restored");
    let report = pythia::restore(&copy, &target, &RestoreOptions::default()).unwrap();
    assert_eq!(report.last, Some(Position(4)));
    assert_eq!(
        contents(&Database::open(&target).unwrap()),
        contents(&database)
    );
    database.store().compact().unwrap();
    let fourth = pythia::backup(&path, &copy).unwrap();
    assert_eq!(fourth.kept_files, 0, "the base is a new one");
    let left = std::fs::read_dir(&copy).unwrap().count();
    assert_eq!(left, 4, "BACKUP, LOCK, files, commits");
}

#[test]
fn backups_beside_a_busy_writer_are_states_that_it_went_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    load_base(&path);
    let database = Database::open_with(&path, options(None)).unwrap();
    let states = Mutex::new(vec![contents(&database)]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = StdRng::seed_from_u64(8);
            for number in 0..u64::MAX {
                let mut transaction = database.transaction().unwrap();
                let quad = Quad::new(
                    NamedNode::new_unchecked(format!("http://e/n{number}")),
                    NamedNode::new_unchecked("http://e/p"),
                    random_quad(&mut random).object,
                    GraphName::DefaultGraph,
                );
                transaction.insert(&quad).unwrap();
                {
                    // Known before it is committed: a backup may be faster than we are.
                    let mut states = states.lock().unwrap();
                    let mut state = states.last().unwrap().clone();
                    state.insert(format!("{quad} ."));
                    states.push(state);
                }
                transaction.commit().unwrap();
                match random.random_range(0..10) {
                    0 => drop(database.store().compact().unwrap()),
                    1..4 => drop(database.store().flush().unwrap()),
                    _ => {}
                }
                if is_done.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        for round in 0..12 {
            let copy = folder.path().join(format!("backup-{}", round % 2));
            let target = folder.path().join(format!("restored-{round}"));
            let report = pythia::backup(&path, &copy).unwrap();
            pythia::restore(&copy, &target, &RestoreOptions::default()).unwrap();
            let restored = contents(&Database::open(&target).unwrap());
            let last = report.last.unwrap().0 as usize;
            assert_eq!(restored, states.lock().unwrap()[last], "round {round}");
        }
        is_done.store(true, Ordering::Release);
    });
}

#[test]
fn the_feed_says_what_was_committed() {
    let mut subject = Subject::new(7);
    subject.work(20);
    let feed = Feed::of_storage(&subject.storage, Some(Arc::clone(&subject.archive))).unwrap();
    let mut state = subject.states[0].clone();
    let mut next = 1;
    for commit in feed.commits_from(Position(1)).unwrap() {
        let commit = commit.unwrap();
        assert_eq!(commit.position, Position(next));
        let mut text = Vec::new();
        write_patch(&commit, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.starts_with(&format!("H position \"{next}\"^^")),
            "{text}"
        );
        for line in text.lines() {
            match line.split_at(2) {
                ("A ", quad) => assert!(state.insert(quad.to_owned()), "{quad}"),
                ("D ", quad) => assert!(state.remove(quad), "{quad}"),
                _ => assert!(["H ", "TX", "TC"].contains(&&line[..2]), "{line}"),
            }
        }
        assert_eq!(state, subject.states[next as usize]);
        next += 1;
    }
    assert_eq!(next, subject.last() + 1);
    assert_eq!(feed.first().unwrap(), Position(1));
    let without = Feed::of_storage(&subject.storage, None).unwrap();
    if without.first().unwrap() > Position(1) {
        let error = without.commits_from(Position(1)).err().unwrap();
        assert!(error.to_string().contains("archive"), "{error}");
    }
}

type Damage = (&'static str, fn(&[u8]) -> Option<Vec<u8>>);

/// Damage to a log file whose last group has commits.
const DAMAGES: [Damage; 6] = [
    ("flip in the header", |bytes| {
        let mut bytes = bytes.to_vec();
        bytes[20] ^= 0x55;
        Some(bytes)
    }),
    ("zero", |bytes| Some(vec![0; bytes.len()])),
    ("cut off in the header", |bytes| Some(bytes[..100].to_vec())),
    ("flip in the last group", |bytes| {
        let mut bytes = bytes.to_vec();
        let last = last_group(&bytes);
        bytes[last + 70] ^= 1;
        Some(bytes)
    }),
    ("zero the last group", |bytes| {
        let mut bytes = bytes.to_vec();
        let last = last_group(&bytes);
        bytes[last..].fill(0);
        Some(bytes)
    }),
    ("remove", |_| None),
];

/// Where the last group with commits begins: maintenance writes groups without any.
fn last_group(bytes: &[u8]) -> usize {
    let has_commits =
        |at: &usize| bytes[*at..].starts_with(b"PyLG") && bytes[*at + 12..*at + 16] != [0; 4];
    let mut blocks = (0..bytes.len()).step_by(4096).rev();
    blocks.find(has_commits).unwrap()
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn log_files(storage: &dyn Storage) -> Vec<String> {
    let names = storage.list("log").unwrap_or_default();
    let names = names.iter().filter(|name| name.ends_with(".log"));
    names.map(|name| format!("log/{name}")).collect()
}

/// Restores with an archive whose newest file is damaged: what may be lost with it is refused by the file's
/// name, what is before is restored.
fn check_damaged(
    subject: &Subject,
    backup: &Arc<dyn Storage>,
    archive: &Arc<dyn Storage>,
    what: &str,
) {
    let newest = log_files(&**archive).pop().unwrap();
    let sound = archive.read_all(&newest).unwrap();
    let (_, whole) = restored(backup, Until::End, Some(archive)).unwrap();
    let last = subject
        .states
        .iter()
        .rposition(|state| *state == whole)
        .unwrap();
    for (name, damage) in DAMAGES {
        let what = format!("{what}, {newest}: {name}");
        match damage(&sound) {
            Some(bytes) => put(&**archive, &newest, &bytes),
            // An archive may well have ended before it.
            None if !archive.exists("LOG").unwrap() => continue,
            None => archive.remove(&newest).unwrap(),
        }
        for until in [
            Until::End,
            Until::Position(Position(last as u64)),
            Until::Time(u64::MAX),
        ] {
            let error = restored(backup, until, Some(archive)).err();
            let Some(BackupError::Archive { problem, next, .. }) = &error else {
                panic!("{what}: {error:?}");
            };
            assert!(problem.contains(&newest), "{what}: {problem}");
            let before = next.0 - 1;
            assert!(before < last as u64, "{what}: {before}");
            let message = error.as_ref().unwrap().to_string();
            assert!(
                message.contains(&format!("--to-position {before}")),
                "{what}: {message}"
            );
            let until = Until::Position(Position(before));
            let (_, lines) = restored(backup, until, Some(archive)).unwrap();
            assert_eq!(lines, subject.states[before as usize], "{what}");
        }
        put(&**archive, &newest, &sound);
    }
    let (_, lines) = restored(backup, Until::End, Some(archive)).unwrap();
    assert_eq!(lines, whole);
}

#[test]
fn a_damaged_store_folder_given_as_archive_is_refused_by_name() {
    let storage: Arc<dyn Storage> = Arc::new(stored(BASE));
    let backup = memory();
    let mut states = vec![read(&storage)];
    for number in 1..=4 {
        let database = open(&storage, None);
        let text = format!("INSERT DATA {{ <http://e/s> <http://e/p> {number} }}");
        database.update(&text).unwrap();
        states.push(contents(&database));
        drop(database);
        if number == 1 {
            backup_storage(&storage, &backup, 0).unwrap();
        }
    }
    let mut subject = Subject::new(0);
    subject.states = states;
    check_damaged(&subject, &backup, &storage, "the store's folder");
}

#[test]
fn a_damaged_archive_is_refused_by_name() {
    let mut checked = 0;
    for seed in 20..24 {
        let mut subject = Subject::new(seed);
        let backup = memory();
        subject.work(1);
        backup_storage(&subject.storage, &backup, 0).unwrap();
        let first_backed_up = subject.last();
        while log_files(&*subject.archive).len() < 3 {
            subject.work(10);
            subject.database.store().flush().unwrap();
        }
        let archive = Arc::clone(&subject.archive);
        match restored(&backup, Until::End, Some(&archive)) {
            Ok((_, lines)) if lines != subject.states[first_backed_up as usize] => {}
            _ => continue,
        }
        checked += 1;
        check_damaged(&subject, &backup, &archive, "the archive");
    }
    assert!(checked > 0);
}

#[test]
fn a_restore_that_fails_leaves_nothing_in_the_folder() {
    let storage: Arc<dyn Storage> = Arc::new(stored(BASE));
    drop(open(&storage, None));
    let folder = tempfile::tempdir().unwrap();
    let (backup, store) = (folder.path().join("backup"), folder.path().join("store"));
    let to: Arc<dyn Storage> = Arc::new(DirectStorage::open(&backup, true).unwrap());
    backup_storage(&storage, &to, 0).unwrap();
    let options = RestoreOptions {
        until: Until::Position(Position(7)),
        archive: None,
    };
    let error = pythia::restore(&backup, &store, &options).unwrap_err();
    assert!(matches!(error, BackupError::TooLate { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
    pythia::restore(&backup, &store, &RestoreOptions::default()).unwrap();
    assert!(store.join("LOCK").exists());
}
