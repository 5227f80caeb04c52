//! The threads of a log, which write groups and make files.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use pythia_io::{AlignedBuffer, Storage};

use crate::LogError;
use crate::device::first_file_bytes;
use crate::format::{BLOCK_BYTES, Position};
use crate::group::seal;
use crate::log::LogOptions;
use crate::queue::{GroupQueue, Job, Work};
use crate::record::{Begun, RecordWriter};

/// Limit on the payload of a group that joins several commits.
const PAYLOAD_BYTES_MAX: u64 = 1 << 20;
/// The smallest file that has room for a group.
const FILE_BYTES_MIN: u64 = 32 << 10;
/// Number of events that groups share: a group and every eighth one after it have the same.
const EVENTS: u64 = 8;
/// Pause before another attempt to make a file.
const RETRY: Duration = Duration::from_secs(1);

/// The queue of a log, with the events that its threads wait for.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: LogOptions,
    pub(crate) queue: Mutex<GroupQueue>,
    /// Signals that a group waits to be written.
    pub(crate) work: Condvar,
    /// Signals to spare devices that the log is in use again.
    pub(crate) spares: Condvar,
    /// Signals that a group was written, a file was made, or something failed, to those who wait for any of these.
    done: Condvar,
    /// Signals the same to those who wait for one group: only they wake when it is durable.
    durable: [Condvar; EVENTS as usize],
    /// Signals that a file is needed.
    pub(crate) files: Condvar,
    /// Held during a checkpoint.
    pub(crate) checkpoints: Mutex<()>,
    /// The record of the files that were begun. Locked before the queue.
    pub(crate) record: Mutex<RecordWriter>,
}

type Guard<'a> = MutexGuard<'a, GroupQueue>;

impl Shared {
    pub(crate) fn new(
        mut queue: GroupQueue,
        record: RecordWriter,
        mut options: LogOptions,
    ) -> Self {
        options.file_bytes = options.file_bytes.max(FILE_BYTES_MIN);
        for (number, device) in queue.devices.iter_mut().enumerate().skip(1) {
            device.is_spare = options.spare.contains(&number);
        }
        Self {
            options,
            queue: Mutex::new(queue),
            work: Condvar::new(),
            spares: Condvar::new(),
            done: Condvar::new(),
            durable: Default::default(),
            files: Condvar::new(),
            checkpoints: Mutex::new(()),
            record: Mutex::new(record),
        }
    }

    /// Returns the limit on a group's payload: several such groups fit into the smallest file.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        (first_file_bytes(self.options.file_bytes) / 4).min(PAYLOAD_BYTES_MAX) as usize
    }

    /// Returns the limit on groups that are submitted together: they fit into any file.
    pub(crate) fn submitted_bytes_max(&self) -> usize {
        first_file_bytes(self.options.file_bytes) as usize - BLOCK_BYTES
    }

    /// Returns the storage of bulk files.
    pub(crate) fn bulk_storage(&self) -> Arc<dyn Storage> {
        Arc::clone(&self.queue.lock().devices[0].storage)
    }

    /// Waits until there is room for groups of these lengths behind the waiting ones. Makes missing files that no
    /// other thread makes.
    pub(crate) fn reserve(&self, groups: &[usize]) -> Result<Guard<'_>, LogError> {
        let mut queue = self.queue.lock();
        let mut tried = vec![false; queue.devices.len()];
        let mut refused = None;
        loop {
            if let Some(failure) = &queue.failure {
                return Err(failure.clone());
            }
            if self.options.prepare_ahead && queue.has_room(groups) {
                return Ok(queue);
            }
            let lacks = |&number: &usize| {
                let device = &queue.devices[number];
                // Nobody waits for a file of a spare device.
                let is_wanted = !device.is_spare || !self.options.prepare_ahead;
                is_wanted && !tried[number] && device.lacks(groups)
            };
            if let Some(device) = (0..tried.len()).find(lacks) {
                tried[device] = true;
                let (guard, made) = self.prepare(queue, device);
                queue = guard;
                refused = made.err().or(refused);
                continue;
            }
            if queue.has_room(groups) {
                return Ok(queue);
            }
            if queue.devices.iter().any(|device| device.is_preparing) {
                self.done.wait(&mut queue);
                continue;
            }
            if let Some(error) = refused {
                return Err(error);
            }
            // Files fill faster than they are written.
            queue = self.advance(queue, None);
            tried.fill(false);
        }
    }

    /// Makes progress: with one device, writes the next group; otherwise waits, for the group of the commits before `end` if
    /// that is given.
    pub(crate) fn advance<'a>(&'a self, mut queue: Guard<'a>, end: Option<Position>) -> Guard<'a> {
        if queue.devices.len() == 1
            && let Some(job) = queue.take(0)
        {
            drop(queue);
            self.run(job);
            return self.queue.lock();
        }
        // A group that was written a second time, for a slow device, may have taken the room.
        if !self.options.prepare_ahead
            && let Some(device) = queue.starved()
        {
            let (mut queue, made) = self.prepare(queue, device);
            if let Err(error) = made {
                let cause = Arc::new(error);
                queue.failure.get_or_insert(LogError::Poisoned { cause });
                self.wake_all();
            }
            return queue;
        }
        let event = match end {
            Some(end) => self.event(queue.group_of(end)),
            None => &self.done,
        };
        event.wait(&mut queue);
        queue
    }

    fn event(&self, group: u64) -> &Condvar {
        &self.durable[(group % EVENTS) as usize]
    }

    fn wake_all(&self) {
        self.done.notify_all();
        for event in &self.durable {
            event.notify_all();
        }
    }

    /// Wakes those who wait for groups that are durable now. Before, wakes one of those who wait for the groups that are
    /// not, if they write them: it writes the next one.
    fn wake(&self, durable: Range<u64>, waiting: Range<u64>) {
        let _ = waiting
            .take(EVENTS as usize)
            .any(|group| self.event(group).notify_one());
        for group in durable.take(EVENTS as usize) {
            self.event(group).notify_all();
        }
        self.done.notify_all();
    }

    pub(crate) fn run(&self, job: Job) {
        let written = self.write(&job);
        let mut queue = self.queue.lock();
        let first = queue.durable.group;
        queue.complete(&job, written);
        let wants_file = queue.devices[job.device].wants_file_soon();
        let durable = queue.durable.group;
        // Several devices have threads of their own.
        let waiting = match queue.devices.len() > 1 && self.options.prepare_ahead {
            true => durable..durable,
            false => durable..queue.groups_end(),
        };
        let has_failed = queue.failure.is_some();
        drop(queue);
        match has_failed {
            true => self.wake_all(),
            false => self.wake(first..durable, waiting),
        }
        if wants_file {
            self.files.notify_all();
        }
    }

    /// Writes and syncs a group. Returns the number of bytes written.
    fn write(&self, job: &Job) -> Result<u64, LogError> {
        let bytes = match &job.work {
            Work::Again(bytes) => Arc::clone(bytes),
            Work::New(header, payload) => {
                let bytes = Arc::new(seal(*header, payload, job.file_header.store));
                self.queue.lock().sealed(job.group, &bytes);
                bytes
            }
        };
        let target = &job.target;
        if target.is_first {
            let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
            job.file_header.encode(&mut block);
            target.file.write_at(0, &block)?;
        }
        target.file.write_at(target.offset, &bytes)?;
        target.file.sync()?;
        if target.is_first {
            self.record_begun(job)?;
        }
        Ok(bytes.len() as u64)
    }

    /// Records that a file was begun, before anything in it is acknowledged. From then on, a missing header means
    /// damage.
    fn record_begun(&self, job: &Job) -> Result<(), LogError> {
        let mut record = self.record.lock();
        let durable = self.queue.lock().durable_with(job.group);
        let header = &job.file_header;
        let begun = Begun {
            sequence: job.target.sequence,
            epoch: header.epoch,
            nonce: header.nonce,
            bytes: job.target.bytes,
        };
        record.begin(header.device, begun, durable)
    }

    /// Runs the thread of a device, if there are several: writes waiting groups, and groups that other devices are
    /// slow to write.
    pub(crate) fn run_device(&self, device: usize) {
        let reissue = self.options.reissue;
        let mut queue = self.queue.lock();
        if queue.devices[device].is_spare {
            return self.run_spare(device, queue);
        }
        while !queue.is_closing {
            let slow = |queue: &mut GroupQueue| reissue.then(|| queue.take_slow(device)).flatten();
            if let Some(job) = queue.take(device).or_else(|| slow(&mut queue)) {
                drop(queue);
                self.run(job);
                queue = self.queue.lock();
                continue;
            }
            match queue.sleep(device).filter(|_| reissue) {
                Some(time) => {
                    self.work.wait_for(&mut queue, time);
                }
                None => self.work.wait(&mut queue),
            }
        }
    }

    /// Runs the thread of a spare device: while all other devices are slow, writes the group that holds up the others, then
    /// waiting groups. It looks from time to time, so that commits need not wake it.
    fn run_spare<'a>(&'a self, device: usize, mut queue: Guard<'a>) {
        let mut seen = queue.next_position;
        while !queue.is_closing {
            let slow = match self.options.reissue {
                true => queue.take_slow(device),
                false => None,
            };
            if let Some(job) = slow.or_else(|| queue.take(device)) {
                drop(queue);
                self.run(job);
                queue = self.queue.lock();
                continue;
            }
            let is_unused = queue.is_idle() && queue.next_position == seen;
            seen = queue.next_position;
            if is_unused {
                queue.spares_sleep = true;
                self.spares.wait(&mut queue);
            } else {
                let pause = queue.sleep_of_spare();
                self.spares.wait_for(&mut queue, pause);
            }
        }
    }

    /// Runs the thread that makes files before they are needed.
    pub(crate) fn run_files(&self) {
        let mut queue = self.queue.lock();
        while !queue.is_closing {
            let mut devices = queue.devices.iter();
            let Some(device) = devices.position(|device| device.wants_file_soon()) else {
                self.files.wait(&mut queue);
                continue;
            };
            let (guard, made) = self.prepare(queue, device);
            queue = guard;
            // A thread that needs the file tries again and reports the error.
            if made.is_err() && !queue.is_closing {
                self.files.wait_for(&mut queue, RETRY);
            }
        }
    }

    fn prepare<'a>(
        &'a self,
        mut queue: Guard<'a>,
        device: usize,
    ) -> (Guard<'a>, Result<(), LogError>) {
        let entry = &mut queue.devices[device];
        let storage = Arc::clone(&entry.storage);
        let (name, bytes) = entry.begin_file(self.options.file_bytes);
        drop(queue);
        let made = storage.create_log(&name, bytes).map_err(LogError::from);
        let mut queue = self.queue.lock();
        let made = queue.devices[device].end_file(made);
        self.wake_all();
        // A device without room may have been waiting for it.
        self.work.notify_all();
        (queue, made)
    }
}
