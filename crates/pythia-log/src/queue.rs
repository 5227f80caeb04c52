//! The queue that the threads of a log share under its lock: waiting groups, groups being written, and the durable
//! position. No I/O happens here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pythia_io::AlignedBuffer;

use crate::bulk::Bulk;
use crate::device::{Device, FileInfo, Target};
use crate::format::{FileHeader, GroupHeader, LogPoint, Position, group_bytes};
use crate::keys::Keys;
use crate::{LogError, StoreId};

/// A write that takes more than this multiple of the usual time, the upper quartile of recent writes, is issued to another
/// device too.
const SLOW_MULTIPLE: u32 = 2;
/// Minimum time before a write counts as slow.
const SLOW_MIN: Duration = Duration::from_micros(500);
/// Number of recent writes for the usual time.
const RECENT: usize = 32;
/// Pause of a spare device while too few writes were made to know their usual time.
const SPARE_PAUSE: Duration = Duration::from_millis(5);
/// Pause before looking again for the bytes of a group that is being sealed.
const SOON: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(crate) struct GroupQueue {
    pub(crate) store: StoreId,
    pub(crate) epoch: u64,
    /// The place where the epoch began.
    begin: LogPoint,
    pub(crate) devices: Vec<Device>,
    /// Groups that no thread has taken; the last one may still grow.
    pending: VecDeque<Pending>,
    /// Groups being written, by number.
    in_flight: BTreeMap<u64, Flight>,
    next_group: u64,
    pub(crate) next_position: Position,
    /// The first group and position that are not durable.
    pub(crate) durable: LogPoint,
    pub(crate) failure: Option<LogError>,
    pub(crate) is_closing: bool,
    /// True if the threads of spare devices wait for the next commit, however long that takes.
    pub(crate) spares_sleep: bool,
    pub(crate) keys: Keys,
    /// Files that are full or belong to earlier epochs.
    pub(crate) full: Vec<FileInfo>,
    recent: VecDeque<Duration>,
    /// Number of bulk files made so far.
    pub(crate) bulk_count: u64,
}

/// A group that waits for a device.
#[derive(Debug)]
pub(crate) struct Pending {
    position: Position,
    part: EncodedCommits,
}

/// Encoded commits.
#[derive(Debug, Default)]
pub(crate) struct EncodedCommits {
    pub(crate) payload: Vec<u8>,
    pub(crate) count: u32,
    /// Bulk files that the commits name.
    pub(crate) bulks: Vec<Bulk>,
}

impl EncodedCommits {
    /// Returns whether both fit into a payload of `limit` bytes.
    pub(crate) fn accepts(&self, other: &Self, limit: usize) -> bool {
        self.payload.len() + other.payload.len() <= limit
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.payload.extend_from_slice(&other.payload);
        self.count += other.count;
        self.bulks.extend(other.bulks);
    }
}

#[derive(Debug)]
struct Flight {
    /// Time when the group was last given to a device.
    started: Instant,
    /// The group's bytes, once it is sealed.
    bytes: Option<Arc<AlignedBuffer>>,
    end: Position,
    bulks: Vec<Bulk>,
    /// Devices that the group was given to.
    devices: Vec<usize>,
    is_done: bool,
}

/// A write for the thread that took it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) device: usize,
    pub(crate) group: u64,
    pub(crate) target: Target,
    pub(crate) file_header: FileHeader,
    pub(crate) work: Work,
    pub(crate) started: Instant,
}

#[derive(Debug)]
pub(crate) enum Work {
    /// A new group to seal and write.
    New(GroupHeader, Vec<u8>),
    /// A group to write again, because another device is slow.
    Again(Arc<AlignedBuffer>),
}

impl GroupQueue {
    pub(crate) fn new(store: StoreId, epoch: u64, begin: LogPoint, devices: Vec<Device>) -> Self {
        Self {
            store,
            epoch,
            begin,
            devices,
            pending: VecDeque::new(),
            in_flight: BTreeMap::new(),
            next_group: begin.group,
            next_position: Position(begin.position),
            durable: begin,
            failure: None,
            is_closing: false,
            spares_sleep: false,
            keys: Keys::default(),
            full: Vec::new(),
            recent: VecDeque::new(),
            bulk_count: 0,
        }
    }

    /// Returns whether anything was submitted since the log was opened.
    pub(crate) fn was_used(&self) -> bool {
        self.next_group > self.begin.group || !self.pending.is_empty()
    }

    /// Returns the number that follows those of all groups, waiting ones too.
    pub(crate) fn groups_end(&self) -> u64 {
        self.next_group + self.pending.len() as u64
    }

    /// Returns the number of the group with the last commit before a position, which is not durable yet.
    pub(crate) fn group_of(&self, end: Position) -> u64 {
        let mut written = self.in_flight.iter();
        if let Some((&group, _)) = written.find(|(_, flight)| flight.end >= end) {
            return group;
        }
        let reaches = |group: &Pending| group.position.0 + u64::from(group.part.count) >= end.0;
        let place = self.pending.iter().position(reaches);
        self.next_group + place.unwrap_or(self.pending.len()) as u64
    }

    /// Returns whether everything submitted is durable.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.in_flight.is_empty()
    }

    /// Gives commits the next positions. They join the last waiting group if that then has at most `limit` bytes.
    pub(crate) fn append(&mut self, part: EncodedCommits, limit: usize) {
        let position = self.next_position;
        self.next_position.0 += u64::from(part.count);
        let last = self.pending.back_mut();
        match last.filter(|last| last.part.accepts(&part, limit)) {
            Some(last) => last.part.join(part),
            None => self.pending.push_back(Pending { position, part }),
        }
    }

    /// Returns whether some device that is not a spare has room for all waiting groups and `more` groups.
    pub(crate) fn has_room(&self, more: &[usize]) -> bool {
        let waiting = self
            .pending
            .iter()
            .map(|group| group_bytes(group.part.payload.len()));
        let groups = waiting.chain(more.iter().copied());
        self.ordinary()
            .any(|device| device.has_room(groups.clone()))
    }

    /// Returns the devices that are not spares.
    fn ordinary(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| !device.is_spare)
    }

    /// Returns a device that needs a file, if the next group has no room anywhere and no other event will make
    /// room.
    pub(crate) fn starved(&self) -> Option<usize> {
        let bytes = group_bytes(self.pending.front()?.part.payload.len());
        let is_stuck = |device: &Device| {
            let is_idle = device.busy_since.is_none() && !device.is_preparing;
            is_idle && device.lacks(&[bytes])
        };
        let all_are = self.failure.is_none() && self.ordinary().all(is_stuck);
        all_are.then_some(0)
    }

    /// Takes the next waiting group for a free device. A spare device gets none unless all others are slow.
    pub(crate) fn take(&mut self, device: usize) -> Option<Job> {
        if self.devices[device].is_spare && !self.ordinary_are_slow() {
            return None;
        }
        let bytes = group_bytes(self.pending.front()?.part.payload.len());
        let target = self.target(device, bytes)?;
        let Pending { position, part } = self.pending.pop_front()?;
        let group = self.next_group;
        self.next_group += 1;
        let header = GroupHeader {
            epoch: self.epoch,
            group,
            durable_before: self.durable.group - 1,
            position: position.0,
            count: part.count,
            flags: 0,
            stored_bytes: 0,
            payload_bytes: 0,
        };
        let started = Instant::now();
        let flight = Flight {
            started,
            bytes: None,
            end: Position(position.0 + u64::from(part.count)),
            bulks: part.bulks,
            devices: vec![device],
            is_done: false,
        };
        self.in_flight.insert(group, flight);
        let upper = LogPoint {
            group,
            position: position.0,
        };
        Some(Job {
            device,
            group,
            file_header: self.file_header(device, upper, target.nonce),
            target,
            work: Work::New(header, part.payload),
            started,
        })
    }

    /// Takes a group that another device is slow to write, for a free device. A spare device gets none unless all others
    /// are slow.
    pub(crate) fn take_slow(&mut self, device: usize) -> Option<Job> {
        let threshold = self.slow_after()?;
        if self.devices[device].is_spare && !self.ordinary_are_slow() {
            return None;
        }
        let slow = |(_, flight): &(&u64, &Flight)| {
            flight.can_move_to(device)
                && flight.bytes.is_some()
                && flight.started.elapsed() > threshold
        };
        let (&group, flight) = self.in_flight.iter().find(slow)?;
        let bytes = flight.bytes.clone()?;
        let target = self.target(device, bytes.len())?;
        let flight = self.in_flight.get_mut(&group)?;
        flight.devices.push(device);
        flight.started = Instant::now();
        let upper = LogPoint {
            group: self.next_group,
            position: self.next_position.0,
        };
        Some(Job {
            device,
            group,
            file_header: self.file_header(device, upper, target.nonce),
            target,
            work: Work::Again(bytes),
            started: Instant::now(),
        })
    }

    /// Returns how long a free device may sleep before a group counts as slow; `None` means until it is woken.
    pub(crate) fn sleep(&self, device: usize) -> Option<Duration> {
        let threshold = self.slow_after()?;
        let waiting = self.in_flight.values().filter(|f| f.can_move_to(device));
        let longest = waiting.map(|flight| flight.started.elapsed()).max()?;
        Some(threshold.saturating_sub(longest).max(SOON))
    }

    /// Returns whether all devices but the spares have been writing for longer than a write usually takes.
    fn ordinary_are_slow(&self) -> bool {
        let Some(threshold) = self.slow_after() else {
            return false;
        };
        let is_slow = |since: Instant| since.elapsed() > threshold;
        self.ordinary()
            .all(|device| device.busy_since.is_some_and(is_slow))
    }

    /// Returns the pause before a free spare device looks again whether all others are slow.
    pub(crate) fn sleep_of_spare(&self) -> Duration {
        let Some(threshold) = self.slow_after() else {
            return SPARE_PAUSE;
        };
        let since = self.ordinary().map(|device| device.busy_since);
        let busy = since.map(|since| since.map_or(Duration::ZERO, |since| since.elapsed()));
        threshold
            .saturating_sub(busy.min().unwrap_or_default())
            .max(SOON)
    }

    /// Ends the files that spare devices write, so that they can be archived with those of the others.
    pub(crate) fn end_spare_files(&mut self) {
        let spares = self.devices.iter_mut().filter(|device| device.is_spare);
        self.full.extend(spares.filter_map(Device::end_current));
    }

    fn slow_after(&self) -> Option<Duration> {
        if self.devices.len() < 2 || self.recent.len() < RECENT / 4 {
            return None;
        }
        let mut recent: Vec<Duration> = self.recent.iter().copied().collect();
        let (_, usual, _) = recent.select_nth_unstable(self.recent.len() * 3 / 4);
        Some((*usual * SLOW_MULTIPLE).max(SLOW_MIN))
    }

    fn target(&mut self, device: usize, bytes: usize) -> Option<Target> {
        let entry = &mut self.devices[device];
        if self.failure.is_some() || entry.busy_since.is_some() {
            return None;
        }
        let (target, full) = entry.target(bytes)?;
        entry.busy_since = Some(Instant::now());
        self.full.extend(full);
        Some(target)
    }

    fn file_header(&self, device: usize, upper: LogPoint, nonce: u64) -> FileHeader {
        FileHeader {
            store: self.store,
            device: self.devices[device].number,
            epoch: self.epoch,
            begin: self.begin,
            lower: self.durable,
            upper,
            nonce,
        }
    }

    /// Stores a group's sealed bytes.
    pub(crate) fn sealed(&mut self, group: u64, bytes: &Arc<AlignedBuffer>) {
        if let Some(flight) = self.in_flight.get_mut(&group) {
            flight.bytes = Some(Arc::clone(bytes));
        }
    }

    /// Returns the first place that is not durable, as it will be when a group in flight is durable.
    pub(crate) fn durable_with(&self, group: u64) -> LogPoint {
        match self.in_flight.get(&group) {
            Some(flight) if group == self.durable.group => LogPoint {
                group: group + 1,
                position: flight.end.0,
            },
            _ => self.durable,
        }
    }

    /// Records the result of a write. The groups up to the first unwritten one are durable then.
    pub(crate) fn complete(&mut self, job: &Job, written: Result<u64, LogError>) {
        let device = &mut self.devices[job.device];
        device.busy_since = None;
        let bytes = match written {
            Ok(bytes) => bytes,
            Err(error) => {
                let cause = Arc::new(error);
                self.failure.get_or_insert(LogError::Poisoned { cause });
                return;
            }
        };
        if job.target.is_first {
            device.begin_current(&job.file_header);
        }
        // A spare device may be of another kind.
        if !device.is_spare {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(job.started.elapsed());
        }
        match self.in_flight.get_mut(&job.group) {
            Some(flight) => {
                let end = LogPoint {
                    group: job.group + 1,
                    position: flight.end.0,
                };
                device.advance(bytes, end, &flight.bulks);
                flight.is_done = true;
            }
            // Another device wrote the group long ago, and it is durable.
            None => device.advance(bytes, self.durable, &[]),
        }
        while let Some(first) = self.in_flight.first_entry().filter(|f| f.get().is_done) {
            let (group, flight) = first.remove_entry();
            self.durable = LogPoint {
                group: group + 1,
                position: flight.end.0,
            };
        }
    }
}

impl Flight {
    /// Returns whether the group may be given to this device too.
    fn can_move_to(&self, device: usize) -> bool {
        !self.is_done && !self.devices.contains(&device)
    }
}
