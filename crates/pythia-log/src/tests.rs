//! Tests with devices that crash, lie, fill up and are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pythia_io::{
    DeviceModel, FaultPlan, FaultyStorage, MemoryStorage, ModelClock, ModelledStorage, SlowWrites,
    Storage, WriteModel,
};
use pythia_rdf::{TermKey, TermKind};

use crate::catalog::{Catalog, Scan};
use crate::record::RECORD_NAME;
use crate::testing::numbered;
use crate::{
    ChangeSet, Changes, Entry, Log, LogError, LogOptions, LogReader, LogTerm, Position, StoreId,
    Ticket,
};

pub(crate) const STORE: StoreId = StoreId([9; 16]);
pub(crate) type Devices = Vec<Arc<dyn Storage>>;

/// Returns options with small files that are made on demand, so that operations have the same order every time.
pub(crate) fn options() -> LogOptions {
    LogOptions {
        file_bytes: 48 << 10,
        prepare_ahead: false,
        ..LogOptions::default()
    }
}

fn memory(count: usize) -> Devices {
    (0..count)
        .map(|_| Arc::new(MemoryStorage::new()) as _)
        .collect()
}

/// Submits commits whose changes contain their numbers.
pub(crate) fn submit(log: &Log, numbers: std::ops::Range<u64>) -> Result<Ticket, LogError> {
    let sets: Vec<_> = numbers
        .clone()
        .map(|n| numbered(n, (n % 5 * 700) as usize))
        .collect();
    let keys: Vec<_> = numbers.clone().map(|n| format!("key {n}")).collect();
    let entries: Vec<_> = numbers
        .zip(&sets)
        .zip(&keys)
        .map(|((time, set), key)| Entry {
            time,
            key: time.is_multiple_of(2).then_some(key),
            changes: Changes::Inline(set),
        })
        .collect();
    log.submit(&entries)
}

pub(crate) fn commit(log: &Log, numbers: std::ops::Range<u64>) -> Result<(), LogError> {
    let ticket = submit(log, numbers)?;
    log.wait(ticket)
}

/// Reads all commits from a position on and checks that [`submit`] made them. Returns the position after the last.
pub(crate) fn read(
    devices: &Devices,
    archive: Option<Arc<dyn Storage>>,
    from: u64,
) -> Result<u64, LogError> {
    let reader = LogReader::open(devices.clone(), archive, STORE);
    check(reader.commits_from(Position(from))?, from)
}

pub(crate) fn check(
    commits: impl Iterator<Item = Result<crate::Commit, LogError>>,
    from: u64,
) -> Result<u64, LogError> {
    let mut next = from;
    for commit in commits {
        let commit = commit?;
        assert_eq!((commit.position, commit.time), (Position(next), next));
        let key = next.is_multiple_of(2).then(|| format!("key {next}"));
        assert_eq!(commit.key, key);
        let sets = commit.changes().collect::<Result<Vec<_>, _>>()?;
        let expected = numbered(next, (next % 5 * 700) as usize);
        assert_eq!(sets.len(), 1);
        assert!(sets[0].terms().eq(expected.terms()));
        assert_eq!(sets[0].changes(), expected.changes());
        next += 1;
    }
    Ok(next)
}

#[test]
fn commits_come_back_in_order_from_any_position() {
    for count in [1, 3] {
        let devices = memory(count);
        let log = Log::create(devices.clone(), STORE, options()).unwrap();
        for first in (1..100).step_by(3) {
            commit(&log, first..first + 3).unwrap();
            assert_eq!(log.next_position(), Position(first + 3));
        }
        for from in [1, 2, 50, 99, 100] {
            assert_eq!(
                read(&devices, None, from).unwrap(),
                100,
                "live, {count} devices"
            );
        }
        log.close().unwrap();
        for from in 1..=100 {
            assert_eq!(read(&devices, None, from).unwrap(), 100);
        }
        let ahead = read(&devices, None, 101);
        assert!(matches!(ahead, Err(LogError::Ahead { .. })), "{ahead:?}");
    }
}

#[test]
fn many_threads_commit_at_once() {
    for count in [1, 2] {
        let devices = memory(count);
        let log = Log::create(devices.clone(), STORE, LogOptions::default()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let set = numbered(1, 10);
                        let changes = Changes::Inline(&set);
                        let ticket = log.submit(&[Entry {
                            time: 1,
                            key: None,
                            changes,
                        }]);
                        log.wait(ticket.unwrap()).unwrap();
                    }
                });
            }
        });
        assert_eq!(log.next_position(), Position(801));
        drop(log);
        let reader = LogReader::open(devices, None, STORE);
        let commits: Result<Vec<_>, _> = reader.commits_from(Position(1)).unwrap().collect();
        let positions = commits.unwrap().into_iter().map(|commit| commit.position.0);
        assert!(positions.eq(1..=800));
    }
}

#[test]
fn a_log_goes_on_where_it_ended_and_knows_its_keys() {
    for count in [1, 2] {
        let devices = memory(count);
        drop(Log::create(devices.clone(), STORE, options()).unwrap());
        for epoch in 0..10 {
            let from = Position(1 + epoch * 7);
            let (log, commits) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
            assert_eq!(check(commits, 1).unwrap(), from.0);
            assert_eq!(log.next_position(), from);
            assert_eq!(log.find_key("key 4").is_some(), epoch > 0);
            for number in from.0..from.0 + 7 {
                commit(&log, number..number + 1).unwrap();
            }
            assert_eq!(log.find_key("key 4"), Some(Position(4)));
            assert_eq!(log.find_key("key 5"), None);
        }
        assert!(matches!(
            Log::create(devices.clone(), STORE, options()),
            Err(LogError::Exists { .. })
        ));
        let foreign = Log::open(devices, StoreId([1; 16]), Position(1), options());
        assert!(matches!(foreign, Err(LogError::ForeignFile { .. })));
    }
}

/// Devices that fail together.
struct Machine {
    faulty: Vec<FaultyStorage>,
}

impl Machine {
    fn new(count: usize, plan: &FaultPlan) -> Self {
        let device = |_| FaultyStorage::new(Arc::new(MemoryStorage::new()), plan.clone());
        let faulty = (0..count).map(device).collect();
        Self { faulty }
    }

    fn devices(&self) -> Devices {
        self.faulty
            .iter()
            .map(|device| Arc::new(device.clone()) as _)
            .collect()
    }

    fn power_cut(&self, plan: &FaultPlan) {
        for device in &self.faulty {
            device.crash().unwrap();
        }
        for device in &self.faulty {
            device.restart(plan.clone()).unwrap();
        }
    }
}

/// Creates or opens the log, and commits until something fails or all is done. `acknowledged` gets the last
/// acknowledged commit.
fn work(machine: &Machine, acknowledged: &mut u64, until: u64) -> Result<(), LogError> {
    let devices = machine.devices();
    let log = if *acknowledged == 0 && read(&devices, None, 1).is_err() {
        Log::create(devices, STORE, options())?
    } else {
        let (log, commits) = Log::open(devices, STORE, Position(1), options())?;
        let end = check(commits, 1)?;
        assert!(end > *acknowledged, "{end} after {acknowledged}");
        // What was read is durable from now on, acknowledged or not.
        *acknowledged = end - 1;
        log
    };
    while *acknowledged < until {
        let mut tickets = Vec::new();
        for _ in 0..machine.faulty.len() {
            let next = log.next_position().0;
            tickets.push((next + 1, submit(&log, next..next + 2)?));
        }
        for (last, ticket) in tickets {
            log.wait(ticket)?;
            *acknowledged = last;
        }
    }
    log.close()
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_operation() {
    for count in [1, 3] {
        let machine = Machine::new(count, &FaultPlan::none());
        work(&machine, &mut 0, 40).unwrap();
        let operations = machine.faulty[0].operations();
        for number in 1..=operations.max(30) {
            for seed in 0..6 {
                let plan = FaultPlan::crash_at(number, seed);
                let machine = Machine::new(count, &plan);
                let mut acknowledged = 0;
                let first = work(&machine, &mut acknowledged, 40);
                let crashed = machine.faulty[0].crashed();
                // With several devices, the number of operations of each varies.
                assert!(
                    crashed || count > 1,
                    "every operation is reached: {first:?}"
                );
                // Crashes again soon after the log was opened.
                machine.power_cut(&FaultPlan::crash_at(3 + number % 17, seed));
                let _ = work(&machine, &mut acknowledged, 50);
                machine.power_cut(&FaultPlan::none());
                work(&machine, &mut acknowledged, 60).unwrap_or_else(|error| {
                    panic!("{count} devices, operation {number}, seed {seed}: {error}")
                });
                assert_eq!(read(&machine.devices(), None, 1).unwrap(), acknowledged + 1);
            }
        }
    }
}

#[test]
fn devices_that_lie_are_found_out_where_what_is_left_shows_it() {
    let mut detected = 0;
    for seed in 0..100 {
        let plan = FaultPlan {
            seed,
            ..FaultPlan::lie_from(20)
        };
        let machine = Machine::new(1, &plan);
        let mut acknowledged = 0;
        work(&machine, &mut acknowledged, 40).unwrap();
        machine.power_cut(&FaultPlan::none());
        match Log::open(machine.devices(), STORE, Position(1), options()) {
            Ok((_log, commits)) => {
                check(commits, 1).unwrap();
            }
            Err(error @ (LogError::Lost { .. } | LogError::Damaged { .. })) => {
                assert!(error.to_string().contains("pythia restore"), "{error}");
                detected += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(detected > 80, "{detected} of 100");
}

#[test]
fn a_flipped_bit_in_what_was_acknowledged_is_refused_with_its_place() {
    let memory = Arc::new(MemoryStorage::new());
    let devices: Devices = vec![memory.clone()];
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    for number in 1..20 {
        commit(&log, number..number + 1).unwrap();
    }
    log.close().unwrap();
    let catalog = Catalog::list(&devices, None, STORE).unwrap();
    for file in &catalog.files {
        for (offset, header) in Scan::read(file).unwrap().groups {
            for byte in [0, 5, 30, 70] {
                let plan = FaultPlan::flip(&file.name, (offset + byte) as u64, 2);
                let faulty: Devices = vec![Arc::new(FaultyStorage::new(memory.clone(), plan))];
                let read = read(&faulty, None, 1);
                if header.count == 0 && byte == 70 {
                    assert_eq!(read.unwrap(), 20, "no payload, no harm");
                } else {
                    let error = read.unwrap_err();
                    let LogError::Lost {
                        position, place, ..
                    } = &error
                    else {
                        panic!("{error}");
                    };
                    assert_eq!(position.0, header.position);
                    assert!(
                        [0, 30].contains(&byte) || place.contains(&file.name),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn slow_writes_are_issued_again_to_another_device() {
    let slow = SlowWrites {
        every: 4,
        earlier: 0,
        time: Duration::from_millis(400),
    };
    let devices: Devices = [Some(slow), None]
        .into_iter()
        .map(|slow| {
            let writes = WriteModel {
                latencies: &[(4096, 200.0)],
                slow,
                ..DeviceModel::PCM.writes
            };
            let model = DeviceModel {
                writes,
                ..DeviceModel::PCM
            };
            let memory = Arc::new(MemoryStorage::new());
            Arc::new(ModelledStorage::new(memory, model, ModelClock::Real)) as _
        })
        .collect();
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    for number in 1..100 {
        commit(&log, number..number + 1).unwrap();
    }
    log.close().unwrap();
    let catalog = Catalog::list(&devices, None, STORE).unwrap();
    let mut groups = Vec::new();
    for file in &catalog.files {
        groups.extend(
            Scan::read(file)
                .unwrap()
                .groups
                .iter()
                .map(|(_, header)| header.group),
        );
    }
    let all = groups.len();
    groups.sort_unstable();
    groups.dedup();
    assert!(groups.len() < all, "some groups are there twice");
    assert_eq!(read(&devices, None, 1).unwrap(), 100);
}

#[test]
fn a_full_disk_refuses_before_anything_is_written_and_does_no_harm() {
    let faulty = FaultyStorage::new(
        Arc::new(MemoryStorage::new()),
        FaultPlan::disk_of(108 << 10),
    );
    let devices: Devices = vec![Arc::new(faulty.clone())];
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    let mut next = 1;
    let error = loop {
        match commit(&log, next..next + 1) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(next > 15, "two files were filled: {next}");
    assert_eq!(log.next_position(), Position(next));
    assert!(commit(&log, next..next + 1).is_err());
    faulty.set_plan(FaultPlan::none());
    commit(&log, next..next + 5).unwrap();
    log.close().unwrap();
    assert_eq!(read(&devices, None, 1).unwrap(), next + 5);
}

/// The bulk file of a refused commit would otherwise take the remaining space.
#[test]
fn changes_put_aside_for_a_commit_that_is_refused_leave_no_file() {
    let memory = Arc::new(MemoryStorage::new());
    let faulty = FaultyStorage::new(memory.clone(), FaultPlan::none());
    let devices: Devices = vec![Arc::new(faulty.clone())];
    let log = Log::create(devices, STORE, options()).unwrap();
    let large = numbered(1, 100_000);
    let mut refused = 0;
    for (offset, takes_effect) in (1..40).flat_map(|offset| [(offset, false), (offset, true)]) {
        let place = faulty.operations() + offset;
        faulty.set_plan(match takes_effect {
            true => FaultPlan::misreport_at(place, offset),
            false => FaultPlan::fail_at(place),
        });
        let submitted = log.submit(&[Entry {
            time: 1,
            key: None,
            changes: Changes::Inline(&large),
        }]);
        faulty.set_plan(FaultPlan::none());
        let Err(error) = submitted else { break };
        assert!(matches!(error, LogError::Io(_)), "{error}");
        refused += 1;
        let names = memory.list("log").unwrap();
        let is_bulk = |name: &String| name.ends_with(".bulk");
        assert!(
            !names.iter().any(is_bulk),
            "{offset}, {takes_effect}: {names:?}"
        );
    }
    assert!(refused >= 8, "{refused}");
}

#[test]
fn a_failed_write_poisons_the_log_until_it_is_opened_again() {
    let faulty = FaultyStorage::new(Arc::new(MemoryStorage::new()), FaultPlan::none());
    let devices: Devices = vec![Arc::new(faulty.clone())];
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    commit(&log, 1..3).unwrap();
    faulty.set_plan(FaultPlan::fail_at(faulty.operations() + 2));
    let error = commit(&log, 3..4).unwrap_err();
    assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    assert!(error.to_string().contains("open the store"), "{error}");
    assert!(matches!(submit(&log, 4..5), Err(LogError::Poisoned { .. })));
    assert!(log.close().is_err());
    let (log, commits) = Log::open(devices, STORE, Position(1), options()).unwrap();
    let end = check(commits, 1).unwrap();
    assert!(end == 3 || end == 4);
    commit(&log, end..end + 1).unwrap();
}

#[test]
fn old_files_go_to_the_archive_and_away() {
    for count in [1, 2] {
        let devices = memory(count);
        let archive: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let options = LogOptions {
            retain_bytes: 100 << 10,
            archive: Some(Arc::clone(&archive)),
            ..options()
        };
        let log = Log::create(devices.clone(), STORE, options.clone()).unwrap();
        for number in 1..100 {
            commit(&log, number..number + 1).unwrap();
        }
        log.checkpoint(Position(60)).unwrap();
        if count == 1 {
            // With several devices, one that had little to do keeps its first file.
            assert_eq!(log.find_key("key 2"), None);
            let missing = read(&devices, None, 1);
            assert!(
                matches!(missing, Err(LogError::Missing { .. })),
                "{missing:?}"
            );
        }
        assert_eq!(log.find_key("key 98"), Some(Position(98)));
        assert_eq!(read(&devices, Some(Arc::clone(&archive)), 1).unwrap(), 100);
        drop(log);
        let other = Log::create(memory(1), StoreId([1; 16]), options.clone());
        assert!(matches!(other, Err(LogError::ForeignFile { .. })));
        let (log, commits) = Log::open(devices.clone(), STORE, Position(60), options).unwrap();
        assert_eq!(check(commits, 60).unwrap(), 100);
        log.checkpoint(Position(100)).unwrap();
        for number in 100..120 {
            commit(&log, number..number + 1).unwrap();
        }
        assert_eq!(read(&devices, Some(archive), 1).unwrap(), 120);
        assert_eq!(read(&devices, None, 100).unwrap(), 120);
    }
}

#[test]
fn without_room_for_old_files_the_log_can_still_be_opened() {
    let devices = memory(1);
    let options = LogOptions {
        retain_bytes: 0,
        ..options()
    };
    let log = Log::create(devices.clone(), STORE, options.clone()).unwrap();
    for number in 1..50 {
        commit(&log, number..number + 1).unwrap();
        log.checkpoint(Position(number + 1)).unwrap();
    }
    drop(log);
    for _ in 0..3 {
        let (log, commits) =
            Log::open(devices.clone(), STORE, Position(50), options.clone()).unwrap();
        assert_eq!(commits.count(), 0);
        assert_eq!(log.next_position(), Position(50));
        log.checkpoint(Position(50)).unwrap();
    }
    let ahead = Log::open(devices, STORE, Position(51), options);
    assert!(matches!(ahead, Err(LogError::Lost { .. })), "{ahead:?}");
}

#[test]
fn files_that_are_done_take_no_more_than_their_groups() {
    let memory = Arc::new(MemoryStorage::new());
    let faulty = FaultyStorage::new(memory.clone(), FaultPlan::none());
    let devices: Devices = vec![Arc::new(faulty.clone())];
    let options = LogOptions {
        prepare_ahead: true,
        ..LogOptions::default()
    };
    drop(Log::create(devices.clone(), STORE, options.clone()).unwrap());
    let mut next = 1;
    for round in 0..6 {
        let (log, commits) =
            Log::open(devices.clone(), STORE, Position(1), options.clone()).unwrap();
        next = check(commits, 1).unwrap();
        commit(&log, next..next + 3).unwrap();
        if round % 2 == 0 {
            drop(log);
            assert!(
                memory.size_bytes() < (6 + round) * 12 * 4096,
                "round {round}"
            );
        } else {
            faulty.restart(FaultPlan::none()).unwrap();
        }
    }
    faulty.restart(FaultPlan::none()).unwrap();
    assert_eq!(read(&devices, None, 1).unwrap(), next + 3);
}

#[test]
fn many_changes_are_put_aside() {
    let devices = memory(2);
    let log = Log::create(devices.clone(), STORE, options()).unwrap();
    let large = numbered(1, 100_000);
    let entry = |set| Entry {
        time: 1,
        key: Some("large"),
        changes: Changes::Inline(set),
    };
    log.wait(log.submit(&[entry(&large)]).unwrap()).unwrap();
    let mut writer = log.begin_bulk().unwrap();
    for number in 0..3 {
        writer.push(&numbered(number, 10)).unwrap();
    }
    let changes = Changes::Bulk(writer.finish().unwrap());
    let ticket = log
        .submit(&[Entry {
            time: 2,
            key: None,
            changes,
        }])
        .unwrap();
    log.wait(ticket).unwrap();
    let unnamed = log.begin_bulk().unwrap();
    unnamed.finish().unwrap();
    let bulks = |devices: &Devices| {
        let names = devices[0].list("log").unwrap();
        names.iter().filter(|name| name.ends_with(".bulk")).count()
    };
    assert_eq!(bulks(&devices), 3);
    drop(log);
    let (_log, commits) = Log::open(devices.clone(), STORE, Position(1), options()).unwrap();
    assert_eq!(bulks(&devices), 2);
    let commits: Vec<_> = commits.collect::<Result<_, _>>().unwrap();
    let sets = |index: usize| {
        commits[index]
            .changes()
            .collect::<Result<Vec<_>, _>>()
            .unwrap()
    };
    assert!(sets(0)[0].terms().eq(large.terms()));
    assert_eq!(sets(1).len(), 3);
}

#[test]
fn readers_beside_a_writer_see_all_that_was_acknowledged_and_no_damage() {
    for count in [1, 3] {
        let devices = memory(count);
        let archive: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let options = LogOptions {
            retain_bytes: 0,
            archive: Some(Arc::clone(&archive)),
            prepare_ahead: true,
            ..options()
        };
        let log = Log::create(devices.clone(), STORE, options).unwrap();
        let acknowledged = AtomicU64::new(0);
        let is_done = AtomicBool::new(false);
        let reader = |seed: u64| {
            let mut number = seed;
            while !is_done.load(Ordering::Acquire) {
                let before = acknowledged.load(Ordering::Acquire);
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let from = 1 + (number >> 33) % (before + 1);
                let end = read(&devices, Some(Arc::clone(&archive)), from).unwrap();
                assert!(end > before, "{end} after {before}");
            }
        };
        std::thread::scope(|scope| {
            let reader = &reader;
            for seed in 0..2 {
                scope.spawn(move || reader(seed));
            }
            for round in 0..150 {
                let first = 1 + round * 4;
                let tickets: Vec<_> = (first..first + 4)
                    .map(|n| submit(&log, n..n + 1).unwrap())
                    .collect();
                for (number, ticket) in (first..).zip(tickets) {
                    log.wait(ticket).unwrap();
                    acknowledged.store(number, Ordering::Release);
                }
                if round % 10 == 9 {
                    log.checkpoint(Position(first)).unwrap();
                }
            }
            is_done.store(true, Ordering::Release);
        });
        log.close().unwrap();
        assert_eq!(read(&devices, Some(archive), 1).unwrap(), 601);
    }
}

#[test]
fn errors_of_the_device_while_opening_are_errors_and_change_nothing() {
    for count in [1, 2] {
        let machine = Machine::new(count, &FaultPlan::none());
        let mut acknowledged = 0;
        work(&machine, &mut acknowledged, 20).unwrap();
        for number in 1.. {
            for device in &machine.faulty {
                device.restart(FaultPlan::fail_at(number)).unwrap();
            }
            match Log::open(machine.devices(), STORE, Position(1), options()) {
                Ok(_) => break,
                Err(LogError::Io(_)) => {}
                Err(other) => panic!("operation {number}: {other}"),
            }
        }
        machine.power_cut(&FaultPlan::none());
        assert_eq!(read(&machine.devices(), None, 1).unwrap(), acknowledged + 1);
    }
}

/// Returns devices in front of others that read at a bandwidth.
fn reading_at(devices: &Devices, bandwidth_bytes: u64) -> Vec<Arc<ModelledStorage>> {
    let model = DeviceModel {
        bandwidth_bytes,
        ..DeviceModel::FLASH
    };
    let device = |inner: &Arc<dyn Storage>| {
        Arc::new(ModelledStorage::new(
            Arc::clone(inner),
            model,
            ModelClock::Real,
        ))
    };
    devices.iter().map(device).collect()
}

/// Writes a log whose files are on all devices alike. Returns the number of its commits.
fn spread(devices: &Devices) -> u64 {
    let writes = WriteModel {
        latencies: &[(4096, 300.0)],
        ..DeviceModel::FLASH.writes
    };
    let model = DeviceModel {
        writes,
        ..DeviceModel::FLASH
    };
    let modelled = devices.iter().map(|inner| {
        let inner = Arc::clone(inner);
        Arc::new(ModelledStorage::new(inner, model, ModelClock::Real)) as _
    });
    let options = LogOptions {
        file_bytes: 128 << 10,
        ..options()
    };
    let log = Log::create(modelled.collect(), STORE, options).unwrap();
    // Random bytes, which cannot be compressed.
    let mut bytes = vec![0; 12_000];
    rand::fill(&mut bytes[..]);
    let mut set = ChangeSet::new();
    set.add_term(LogTerm::Key(TermKey {
        kind: TermKind::Iri,
        bytes: &bytes,
    }));
    std::thread::scope(|scope| {
        for _ in 0..2 * devices.len() {
            scope.spawn(|| {
                for _ in 0..20 {
                    let changes = Changes::Inline(&set);
                    let entry = Entry {
                        time: 1,
                        key: None,
                        changes,
                    };
                    log.wait(log.submit(&[entry]).unwrap()).unwrap();
                }
            });
        }
    });
    log.close().unwrap();
    40 * devices.len() as u64
}

#[test]
fn a_replay_reads_the_devices_at_the_same_time() {
    let devices = memory(4);
    let count = spread(&devices);
    let bytes = |device: &Arc<ModelledStorage>| device.statistics().bytes;
    let modelled = reading_at(&devices, 2_000_000);
    let storages: Devices = modelled
        .iter()
        .map(|device| Arc::clone(device) as _)
        .collect();
    let started = std::time::Instant::now();
    let (log, commits) = Log::open(storages, STORE, Position(1), options()).unwrap();
    assert_eq!(commits.map(Result::unwrap).count() as u64, count);
    let elapsed = started.elapsed().as_secs_f64();
    drop(log);
    let all: u64 = modelled.iter().map(bytes).sum();
    let most = modelled.iter().map(bytes).max().unwrap();
    assert!(most * 2 < all, "the log is spread: {most} of {all} bytes");
    let one_by_one = all as f64 / 2e6;
    assert!(
        elapsed < 0.75 * one_by_one,
        "{elapsed} s; one device after the other takes {one_by_one} s"
    );
}

#[test]
fn a_slow_reader_keeps_one_file_of_each_device_ahead() {
    let devices = memory(3);
    let count = spread(&devices);
    let modelled = reading_at(&devices, 1 << 30);
    let storages: Devices = modelled
        .iter()
        .map(|device| Arc::clone(device) as _)
        .collect();
    let files = Catalog::list(&devices, None, STORE).unwrap().files;
    let reader = LogReader::open(storages, None, STORE);
    let mut commits = reader.commits_from(Position(1)).unwrap();
    commits.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    for (number, device) in (0..).zip(&modelled) {
        let own: Vec<_> = files.iter().filter(|file| file.device == number).collect();
        assert!(own.len() > 2, "there are more files");
        let first: u64 = own.iter().take(2).map(|file| file.bytes).sum();
        // Headers are read, too, and the record of files.
        let record = devices[number as usize].open(RECORD_NAME);
        let record = record.map_or(0, |record| record.len().next_multiple_of(4096));
        let read = device.statistics().bytes;
        let most = first + own.len() as u64 * 4096 + 2 * record;
        assert!(read <= most, "device {number}: {read} of {most} bytes");
    }
    assert_eq!(commits.map(Result::unwrap).count() as u64, count - 1);
}
