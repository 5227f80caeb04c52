//! Tests that checkpoints never remove a file that the log needs to be opened from their position on.

use std::sync::Arc;

use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{TermKey, TermKind};

use crate::device::{Device, FileInfo};
use crate::format::LogPoint;
use crate::group::seal;
use crate::queue::{GroupQueue, Job, Work};
use crate::record::{Record, RecordWriter};
use crate::shared::Shared;
use crate::tests::{Devices, STORE, check, options, submit};
use crate::{ChangeSet, Changes, Entry, Log, LogError, LogOptions, LogTerm, Position, Ticket};

/// Copies the devices with their files.
fn copies(devices: &[Arc<MemoryStorage>]) -> Devices {
    devices
        .iter()
        .map(|device| Arc::new(device.copy()) as Arc<dyn Storage>)
        .collect()
}

/// Runs rounds of commits, and of groups without commits, on several devices in parallel. After each round there
/// is a checkpoint, and the log is opened from its position on as a crash would leave it.
fn checkpoints(count: usize, options: &LogOptions, rounds: u64) {
    let memory: Vec<_> = (0..count).map(|_| Arc::new(MemoryStorage::new())).collect();
    let devices: Devices = memory
        .iter()
        .map(|device| Arc::clone(device) as _)
        .collect();
    let log = Log::create(devices, STORE, options.clone()).unwrap();
    for round in 0..rounds {
        let mut tickets = Vec::new();
        for part in 0..6 {
            let next = log.next_position().0;
            // A transaction without changes waits for the log too.
            let commits = (round + part) % 3;
            tickets.push(submit(&log, next..next + commits).unwrap());
            if (round + part) % 2 == 0 {
                log.wait(tickets.pop().unwrap()).unwrap();
            }
        }
        for ticket in tickets {
            log.wait(ticket).unwrap();
        }
        let next = log.next_position();
        let position = Position(next.0 - round % 2 * (next.0 - 1).min(3));
        log.checkpoint(position).unwrap();
        let opened = Log::open(copies(&memory), STORE, position, options.clone());
        let (_, commits) = opened.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(check(commits, position.0).unwrap(), next.0, "round {round}");
    }
    let left: usize = memory
        .iter()
        .map(|device| device.list("log").unwrap().len())
        .sum();
    assert!(left < 12 * count, "{left} files are left");
}

#[test]
fn a_log_opens_from_every_checkpoint() {
    for file_bytes in [32 << 10, 48 << 10] {
        let options = LogOptions {
            file_bytes,
            retain_bytes: 0,
            ..options()
        };
        for count in [1, 2, 3] {
            checkpoints(count, &options, 120);
        }
    }
}

/// A log on two devices that writes only when and where a test says.
struct ByHand {
    memory: Vec<Arc<MemoryStorage>>,
    shared: Arc<Shared>,
    log: Log,
    options: LogOptions,
}

impl ByHand {
    fn new() -> Self {
        Self::of(2)
    }

    fn of(devices: usize) -> Self {
        let options = LogOptions {
            file_bytes: 32 << 10,
            retain_bytes: 0,
            ..options()
        };
        let memory: Vec<_> = (0..devices)
            .map(|_| Arc::new(MemoryStorage::new()))
            .collect();
        let begin = LogPoint {
            group: 1,
            position: 1,
        };
        let record = Record {
            store: STORE,
            epoch: 1,
            durable: begin,
            newest: Default::default(),
        };
        let record = RecordWriter::create(&*memory[0], record).unwrap();
        let devices = (0..).zip(&memory);
        let devices = devices.map(|(number, storage)| Device::new(number, storage.clone(), 1));
        let queue = GroupQueue::new(STORE, 1, begin, devices.collect());
        let shared = Arc::new(Shared::new(queue, record, options.clone()));
        Self {
            log: Log::by_hand(&shared),
            memory,
            shared,
            options,
        }
    }

    /// Submits commits, and gives their group to a device.
    fn begin(&self, device: usize, commits: u64) -> Job {
        let next = self.log.next_position().0;
        submit(&self.log, next..next + commits).unwrap();
        self.shared
            .queue
            .lock()
            .take(device)
            .expect("there is room")
    }

    fn write(&self, device: usize, commits: u64) {
        self.shared.run(self.begin(device, commits));
    }

    /// Returns the log files of a device.
    fn files(&self, device: usize) -> Vec<String> {
        let names = self.memory[device].list("log").unwrap();
        names
            .into_iter()
            .filter(|name| name.ends_with(".log"))
            .collect()
    }

    /// Opens what is on the devices, and reads it from a position on.
    fn read(&self, position: Position) -> Result<u64, LogError> {
        let options = self.options.clone();
        let (_, commits) = Log::open(copies(&self.memory), STORE, position, options)?;
        check(commits, position.0)
    }

    /// Fills the first file of device 0 and begins its second while a group without commits waits for device 1.
    /// The second file then begins with that group, and the first one has the group after it.
    fn with_a_group_behind_the_next_file() -> Self {
        let log = Self::new();
        log.write(0, 1);
        log.write(1, 1);
        for _ in 0..5 {
            log.write(0, 1);
        }
        let slow = log.begin(1, 0);
        log.write(0, 0);
        log.write(0, 1);
        log.shared.run(slow);
        assert_eq!(log.files(0).len(), 2);
        log
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        // No thread writes what is left.
        self.shared.queue.lock().is_closing = true;
    }
}

/// Positions alone are not enough: groups without commits begin and end at the same position.
#[test]
fn a_file_with_a_group_behind_where_another_begins_is_kept() {
    let log = ByHand::with_a_group_behind_the_next_file();
    let next = log.log.next_position();
    log.log.checkpoint(next).unwrap();
    assert_eq!(
        log.files(0).len(),
        2,
        "the first has a group that the second begins before"
    );
    for position in [1, next.0 - 1, next.0] {
        assert_eq!(log.read(Position(position)).unwrap(), next.0);
    }
    // The file is removed once another file begins after it.
    while log.files(0).len() < 3 {
        log.write(0, 1);
    }
    let next = log.log.next_position();
    log.log.checkpoint(next).unwrap();
    assert_eq!(log.files(0).len(), 1, "those before are needed no more");
    assert_eq!(log.read(next).unwrap(), next.0);
}

/// Earlier programs removed such a file.
#[test]
fn a_log_opens_without_groups_that_hold_nothing_from_the_position_on() {
    let log = ByHand::with_a_group_behind_the_next_file();
    log.write(1, 2);
    let next = log.log.next_position();
    let first = format!("log/{}", log.files(0)[0]);
    log.memory[0].remove(&first).unwrap();
    for position in [next.0 - 3, next.0 - 1, next.0] {
        assert_eq!(log.read(Position(position)).unwrap(), next.0);
    }
    for position in [1, next.0 - 4] {
        let error = log.read(Position(position)).unwrap_err();
        assert!(matches!(error, LogError::Lost { .. }), "{error}");
    }
}

/// A file of a replaced epoch has a begin, but opening does not begin there.
#[test]
fn a_file_that_a_later_epoch_has_replaced_lets_no_other_go() {
    for may_start in [false, true] {
        let log = ByHand::with_a_group_behind_the_next_file();
        let next = log.log.next_position();
        let lower = LogPoint {
            group: 100,
            position: next.0,
        };
        let replaced = FileInfo {
            storage: log.memory[1].clone(),
            name: "log/01-0000000000.log".to_owned(),
            device: 1,
            sequence: 0,
            bytes: 0,
            used_bytes: 0,
            lower,
            may_start,
            end: LogPoint {
                group: 0,
                position: u64::MAX,
            },
            bulks: Vec::new(),
            is_archived: false,
        };
        log.shared.queue.lock().full.push(replaced);
        log.log.checkpoint(next).unwrap();
        assert_eq!(log.files(0).len(), if may_start { 1 } else { 2 });
    }
}

/// Submits a commit with bytes that cannot be compressed.
fn submit_bytes(log: &Log, bytes: usize) -> Ticket {
    let mut number = 1_u64;
    let next_byte = || {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number as u8
    };
    let bytes: Vec<u8> = std::iter::repeat_with(next_byte).take(bytes).collect();
    let mut set = ChangeSet::new();
    set.add_term(LogTerm::Key(TermKey {
        kind: TermKind::Iri,
        bytes: &bytes,
    }));
    let entry = Entry {
        time: 1,
        key: None,
        changes: Changes::Inline(&set),
    };
    log.submit(&[entry]).unwrap()
}

/// Only those who wait for a group wake when it is durable, and one of those who wait for a later one.
#[test]
fn a_group_that_nobody_waits_for_is_written_for_those_after_it() {
    let log = ByHand::of(1);
    submit_bytes(&log.log, 5000);
    let job = log.shared.queue.lock().take(0).expect("there is room");
    submit_bytes(&log.log, 5000);
    let last = submit_bytes(&log.log, 5000);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| log.log.wait(last));
        std::thread::sleep(std::time::Duration::from_millis(20));
        log.shared.run(job);
        waits.join().expect("no panic").expect("it is durable");
    });
    let queue = log.shared.queue.lock();
    assert!(queue.is_idle());
    assert_eq!(queue.durable.group, 4);
}

/// A group that is being written takes room before it is written.
#[test]
fn what_is_being_written_takes_room() {
    let log = ByHand::new();
    for device in [0, 1] {
        (0..6).for_each(|_| log.write(device, 1));
    }
    let jobs = [log.begin(0, 1), log.begin(1, 1)];
    let next = log.log.next_position().0;
    submit(&log.log, next..next + 1).unwrap();
    jobs.into_iter().for_each(|job| log.shared.run(job));
    let mut queue = log.shared.queue.lock();
    assert!(
        queue.take(0).or_else(|| queue.take(1)).is_some(),
        "it has room somewhere"
    );
}

/// A group that is also written to a second device, because the first is slow, takes room that was meant for
/// waiting groups.
#[test]
fn a_file_is_made_for_what_waits_once_its_room_is_taken() {
    let log = ByHand::new();
    for (device, blocks) in [(0, 9), (1, 10)] {
        (0..blocks).for_each(|_| log.write(device, 1));
    }
    let take = |device: usize| log.shared.queue.lock().take(device);
    // Three blocks for device 0, which then has two left; device 1 has four.
    submit_bytes(&log.log, 8120);
    let slow = take(0).expect("there is room");
    submit_bytes(&log.log, 5000);
    submit_bytes(&log.log, 5000);
    assert_eq!([log.files(0).len(), log.files(1).len()], [2, 2]);
    // The group is sealed, but not written.
    let Work::New(header, payload) = &slow.work else {
        panic!("it is new");
    };
    let bytes = Arc::new(seal(*header, payload, STORE));
    log.shared.queue.lock().sealed(slow.group, &bytes);
    let again = loop {
        match log.shared.queue.lock().take_slow(1) {
            Some(job) => break job,
            None => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    };
    log.shared.run(again);
    log.shared.run(slow);
    log.shared.run(take(0).expect("there is room"));
    assert!(take(0).is_none() && take(1).is_none(), "there is no room");
    drop(log.shared.advance(log.shared.queue.lock(), None));
    log.shared.run(take(0).expect("a file was made"));
    assert!(log.shared.queue.lock().is_idle());
}

#[test]
fn more_commits_than_a_file_holds_are_refused_at_once() {
    for count in [1, 2] {
        let options = LogOptions {
            file_bytes: 32 << 10,
            ..options()
        };
        let memory: Devices = (0..count)
            .map(|_| Arc::new(MemoryStorage::new()) as _)
            .collect();
        let log = Log::create(memory, STORE, options).unwrap();
        let error = submit(&log, 1..60).unwrap_err();
        assert!(
            error.to_string().contains("submit fewer at once"),
            "{error}"
        );
        log.wait(submit(&log, 1..10).unwrap()).unwrap();
        assert_eq!(log.next_position(), Position(10));
    }
}

/// Bulk files are most of the space of a log with loads and large updates.
#[test]
fn what_is_retained_is_bounded_with_the_changes_put_aside() {
    let memory = Arc::new(MemoryStorage::new());
    let retain_bytes = 1 << 20;
    let options = LogOptions {
        retain_bytes,
        ..options()
    };
    let devices: Devices = vec![memory.clone()];
    let mut log = Log::create(devices.clone(), STORE, options.clone()).unwrap();
    for round in 0..6 {
        for number in 0..60 {
            // Random bytes, which cannot be compressed.
            let mut bytes = vec![0; 100_000];
            rand::fill(&mut bytes[..]);
            let mut set = ChangeSet::new();
            let kind = TermKind::Iri;
            set.add_term(LogTerm::Key(TermKey {
                kind,
                bytes: &bytes,
            }));
            let entry = Entry {
                time: number,
                key: None,
                changes: Changes::Inline(&set),
            };
            log.wait(log.submit(&[entry]).unwrap()).unwrap();
        }
        let next = log.next_position();
        log.checkpoint(next).unwrap();
        let bytes = memory.size_bytes();
        // Log files are removed whole, with all bulk files that their commits name.
        assert!(bytes < 12 << 20, "round {round}: {bytes}");
        if round == 3 {
            drop(log);
            log = Log::open(devices.clone(), STORE, next, options.clone())
                .unwrap()
                .0;
        }
    }
}
