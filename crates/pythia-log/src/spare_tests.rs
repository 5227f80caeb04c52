//! Tests of spare devices: the archive's device serves writes while all others are slow.

use std::sync::Arc;
use std::time::Duration;

use pythia_io::{
    DeviceModel, FaultPlan, FaultyStorage, MemoryStorage, ModelClock, ModelledStorage, SlowWrites,
    Storage, WriteModel,
};

use crate::catalog::{Catalog, Scan};
use crate::device::Device;
use crate::format::LogPoint;
use crate::queue::{GroupQueue, Job};
use crate::record::{Record, RecordWriter};
use crate::shared::Shared;
use crate::tests::{Devices, STORE, check, commit, options, read, submit};
use crate::{Log, LogError, LogOptions, LogReader, Position, salvage};

/// The number of the spare device in these tests.
const SPARE: usize = 1;

/// A log on one device and a spare one, which writes only when and where a test says.
struct ByHand {
    faulty: [FaultyStorage; 2],
    shared: Arc<Shared>,
    log: Log,
    acknowledged: u64,
}

impl ByHand {
    /// Creates the log; the two devices fail according to these plans.
    fn new(plans: [FaultPlan; 2]) -> Result<Self, LogError> {
        let faulty = plans.map(|plan| FaultyStorage::new(Arc::new(MemoryStorage::new()), plan));
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
        let record = RecordWriter::create(&faulty[0], record)?;
        let devices = (0..).zip(&faulty);
        let devices =
            devices.map(|(number, device)| Device::new(number, Arc::new(device.clone()), 1));
        let queue = GroupQueue::new(STORE, 1, begin, devices.collect());
        let options = LogOptions {
            spare: vec![SPARE],
            ..options()
        };
        let shared = Arc::new(Shared::new(queue, record, options));
        Ok(Self {
            faulty,
            log: Log::by_hand(&shared),
            shared,
            acknowledged: 0,
        })
    }

    fn submit(&self) -> Result<(), LogError> {
        let next = self.log.next_position().0;
        submit(&self.log, next..next + 1).map(drop)
    }

    fn take(&self, device: usize) -> Option<Job> {
        self.shared.queue.lock().take(device)
    }

    /// Takes a group for the spare device once the other is slow: one that the other is writing, or a waiting one. Fails if
    /// it has no file to write to.
    fn take_for_spare(&self, again: bool) -> Result<Job, LogError> {
        for _ in 0..1000 {
            let mut queue = self.shared.queue.lock();
            let job = match again {
                true => queue.take_slow(SPARE),
                false => queue.take(SPARE),
            };
            if let Some(job) = job {
                return Ok(job);
            }
            let has_file = !queue.devices[SPARE].wants_file();
            drop(queue);
            if !has_file && !self.can_make_files() {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Err(LogError::NoDevice)
    }

    /// Returns whether the spare device has not crashed.
    fn can_make_files(&self) -> bool {
        !self.faulty[SPARE].crashed()
    }

    /// Writes a group. Records what is acknowledged then.
    fn run(&mut self, job: Job) -> Result<(), LogError> {
        self.shared.run(job);
        let queue = self.shared.queue.lock();
        self.acknowledged = queue.durable.position - 1;
        queue.failure.clone().map_or(Ok(()), Err)
    }

    /// Makes the first device slow, and lets the spare one write: groups that wait and, each time, the group that the
    /// first one has yet to write.
    fn work(&mut self) -> Result<(), LogError> {
        for _ in 0..10 {
            self.submit()?;
            let job = self.take(0).expect("it is free");
            self.run(job)?;
        }
        for _ in 0..4 {
            self.submit()?;
            let slow = self.take(0).expect("it is free");
            self.submit()?;
            let job = self.take_for_spare(false)?;
            self.run(job)?;
            if let crate::queue::Work::New(header, payload) = &slow.work {
                let bytes = Arc::new(crate::group::seal(*header, payload, STORE));
                self.shared.queue.lock().sealed(slow.group, &bytes);
            }
            let job = self.take_for_spare(true)?;
            self.run(job)?;
            assert_eq!(
                self.acknowledged,
                self.log.next_position().0 - 1,
                "without the slow device"
            );
            self.run(slow)?;
            self.log.checkpoint(Position(1))?;
        }
        Ok(())
    }

    fn devices(&self) -> Devices {
        let devices = self.faulty.iter();
        devices
            .map(|device| Arc::new(device.clone()) as _)
            .collect()
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        // No thread writes what is left.
        self.shared.queue.lock().is_closing = true;
    }
}

fn open(devices: Devices) -> Result<(Log, u64), LogError> {
    let options = LogOptions {
        spare: vec![SPARE],
        ..options()
    };
    let (log, commits) = Log::open(devices, STORE, Position(1), options)?;
    Ok((log, check(commits, 1)?))
}

#[test]
fn a_spare_device_writes_what_waits_and_what_holds_up() {
    let mut hand = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
    hand.work().unwrap();
    assert_eq!(hand.acknowledged, 18);
    assert_eq!(read(&hand.devices(), None, 1).unwrap(), 19);
    // A file of a spare device ends at a checkpoint.
    let names = hand.faulty[SPARE].list("log").unwrap();
    assert_eq!(names.len(), 4, "{names:?}");
    let (log, end) = open(hand.devices()).unwrap();
    assert_eq!(end, 19);
    commit(&log, 19..20).unwrap();
    log.close().unwrap();
    // Programs that do not know spare devices use them like others.
    let (_, commits) = Log::open(hand.devices(), STORE, Position(1), options()).unwrap();
    assert_eq!(check(commits, 1).unwrap(), 20);
}

#[test]
fn a_device_that_is_free_or_fast_leaves_nothing_to_the_spare_one() {
    let hand = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
    hand.submit().unwrap();
    // Too few writes to know how long one takes.
    let job = hand.take(0).unwrap();
    hand.submit().unwrap();
    std::thread::sleep(Duration::from_millis(2));
    assert!(hand.take(SPARE).is_none());
    hand.shared.run(job);
    for _ in 0..10 {
        hand.submit().unwrap();
        std::thread::sleep(Duration::from_millis(1));
        assert!(hand.take(SPARE).is_none(), "the other is free");
        hand.shared.run(hand.take(0).unwrap());
    }
    assert!(hand.faulty[SPARE].list("log").unwrap_or_default().len() < 2);
}

/// Everything that was acknowledged is found after a crash, or an error, at every operation of either device.
#[test]
fn what_a_spare_device_acknowledged_survives_every_fault() {
    let mut sound = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
    sound.work().unwrap();
    for device in [0, SPARE] {
        for number in 1..=sound.faulty[device].operations() {
            for (what, plan) in [
                ("fails", FaultPlan::fail_at(number)),
                ("misreports", FaultPlan::misreport_at(number, number)),
                ("crashes", FaultPlan::crash_at(number, number)),
            ] {
                let what = format!("device {device}, operation {number} {what}");
                let mut plans = [FaultPlan::none(), FaultPlan::none()];
                plans[device] = plan;
                let Ok(mut hand) = ByHand::new(plans) else {
                    continue;
                };
                // A file that a spare device cannot make is tried again.
                let _ = hand.work();
                for faulty in &hand.faulty {
                    faulty.crash().unwrap();
                }
                for faulty in &hand.faulty {
                    faulty.restart(FaultPlan::none()).unwrap();
                }
                if hand.acknowledged == 0 {
                    continue;
                }
                let (log, end) =
                    open(hand.devices()).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(end > hand.acknowledged, "{what}: {end}");
                commit(&log, end..end + 2).unwrap();
                log.close().unwrap();
                assert_eq!(read(&hand.devices(), None, 1).unwrap(), end + 2, "{what}");
            }
        }
    }
}

/// A torn last group of a spare device is the end of the log if it was not acknowledged, and a loss if it was.
#[test]
fn a_torn_tail_of_a_spare_device_is_told_from_a_loss() {
    let (mut torn, mut lost) = (0, 0);
    for seed in 0..20 {
        let mut hand = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
        hand.work().unwrap();
        hand.submit().unwrap();
        let _slow = hand.take(0).unwrap();
        hand.submit().unwrap();
        let job = hand.take_for_spare(false).unwrap();
        let operation = hand.faulty[SPARE].operations() + 1 + u64::from(job.target.is_first);
        hand.faulty[SPARE].set_plan(FaultPlan {
            seed,
            tear_operation: Some(operation),
            ..FaultPlan::none()
        });
        assert!(hand.run(job).is_err());
        for faulty in &hand.faulty {
            faulty.crash().unwrap();
        }
        for faulty in &hand.faulty {
            faulty.restart(FaultPlan::none()).unwrap();
        }
        let (log, end) = open(hand.devices()).unwrap();
        assert_eq!(end, 19, "the group before it was not written");
        torn += 1;
        log.close().unwrap();
        // The same damage to an acknowledged group.
        let catalog = Catalog::list(&hand.devices(), None, STORE).unwrap();
        let mut files = catalog.files.iter();
        let file = files.find(|file| file.device == SPARE as u32).unwrap();
        let (offset, header) = Scan::read(file).unwrap().groups[0];
        let plan = FaultPlan::flip(&file.name, (offset + 70) as u64, 2);
        hand.faulty[SPARE].restart(plan).unwrap();
        if let Err(error) = open(hand.devices()) {
            let LogError::Lost { position, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(position.0, header.position);
            lost += 1;
        }
    }
    assert!(torn == 20 && lost > 0, "{torn} torn, {lost} lost");
}

/// Without the folder of the spare device, and with an empty one in its place, its commits are missed, not lost silently.
#[test]
fn a_missing_spare_device_is_found_out_and_salvage_goes_on() {
    let mut hand = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
    hand.work().unwrap();
    let first = hand.devices().remove(0);
    for devices in [
        vec![Arc::clone(&first)],
        vec![first, Arc::new(MemoryStorage::new()) as Arc<dyn Storage>],
    ] {
        let error = open(devices.clone()).unwrap_err();
        assert!(
            matches!(error, LogError::Damaged { .. } | LogError::Lost { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("01-"), "{error}");
        let found = salvage(&devices, STORE, Position(1), false).unwrap();
        assert!(!found.is_sound());
        assert_eq!((found.next, found.last_known), (Position(12), Position(17)));
    }
    assert_eq!(read(&hand.devices(), None, 1).unwrap(), 19);
}

#[test]
fn files_of_a_spare_device_are_archived_with_those_of_the_others() {
    let archive: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let mut hand = ByHand::new([FaultPlan::none(), FaultPlan::none()]).unwrap();
    hand.work().unwrap();
    let with_archive = LogOptions {
        archive: Some(Arc::clone(&archive)),
        spare: vec![SPARE],
        retain_bytes: 0,
        ..options()
    };
    let (log, commits) = Log::open(hand.devices(), STORE, Position(1), with_archive).unwrap();
    let mut next = check(commits, 1).unwrap();
    while next < 60 {
        commit(&log, next..next + 1).unwrap();
        next += 1;
    }
    log.checkpoint(Position(60)).unwrap();
    let reader = LogReader::open(Vec::new(), Some(Arc::clone(&archive)), STORE);
    let end = check(reader.commits_from(Position(1)).unwrap(), 1).unwrap();
    assert!(end > 40, "the archive alone has {end} commits");
    log.close().unwrap();
    assert_eq!(read(&hand.devices(), Some(archive), 1).unwrap(), 60);
}

/// All devices pause at the same time; commits go on meanwhile if there is a spare one.
#[test]
fn commits_go_on_while_all_other_devices_pause() {
    let mut longest = Vec::new();
    for spare in [vec![], vec![2]] {
        let storage = |slow: Option<SlowWrites>| -> Arc<dyn Storage> {
            let writes = WriteModel {
                latencies: &[(4096, 1000.0)],
                slow,
                ..DeviceModel::FLASH.writes
            };
            let model = DeviceModel {
                writes,
                ..DeviceModel::FLASH
            };
            let memory = Arc::new(MemoryStorage::new());
            Arc::new(ModelledStorage::new(memory, model, ModelClock::Real))
        };
        let slow = SlowWrites {
            every: 25,
            earlier: 0,
            time: Duration::from_millis(500),
        };
        let mut devices: Devices = vec![storage(Some(slow)), storage(Some(slow))];
        if !spare.is_empty() {
            devices.push(storage(None));
        }
        let options = LogOptions {
            spare,
            ..LogOptions::default()
        };
        let log = Log::create(devices.clone(), STORE, options).unwrap();
        let slowest = std::thread::scope(|scope| {
            let client = || {
                let mut slowest = Duration::ZERO;
                for _ in 0..30 {
                    let begun = std::time::Instant::now();
                    log.wait(log.submit(&[entry()]).unwrap()).unwrap();
                    slowest = slowest.max(begun.elapsed());
                }
                slowest
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
            let slowest = threads.into_iter().map(|thread| thread.join().unwrap());
            slowest.max().unwrap()
        });
        longest.push(slowest);
        log.close().unwrap();
        let reader = LogReader::open(devices, None, STORE);
        assert_eq!(reader.commits_from(Position(1)).unwrap().count(), 120);
    }
    assert!(longest[0] > Duration::from_millis(300), "{longest:?}");
    assert!(longest[1] < Duration::from_millis(300), "{longest:?}");
}

fn entry() -> crate::Entry<'static> {
    static CHANGES: std::sync::LazyLock<crate::ChangeSet> =
        std::sync::LazyLock::new(|| crate::testing::numbered(1, 10));
    crate::Entry {
        time: 1,
        key: None,
        changes: crate::Changes::Inline(&CHANGES),
    }
}
