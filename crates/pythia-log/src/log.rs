//! The log being written: groups of commits, with one write and one sync each.
//!
//! With one device, the first thread that waits for its commit writes everything submitted so far, for all who
//! wait; no work is handed between threads. With several devices, each has a thread that takes submitted commits
//! as soon as it is free, and groups that another device is slow to write (FlashLogging, Bulletin §2.1). Commits
//! are acknowledged in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use pythia_io::Storage;

use crate::bulk::{Bulk, BulkWriter};
use crate::change::ChangeSet;
use crate::device::Device;
use crate::format::{LogPoint, Position, bulk_name, group_bytes};
use crate::group::{Changes, Entry};
use crate::queue::{EncodedCommits, GroupQueue};
use crate::reader::{Commits, LogReader};
use crate::record::{DEVICES_MAX, Record, RecordWriter};
use crate::recover::{archived_names, recover};
use crate::shared::Shared;
use crate::unnamed::{self, clear_folder};
use crate::{LogError, StoreId};

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Length of log files, allocated ahead, at least 32 KiB. The first files are shorter.
    pub file_bytes: u64,
    /// Bytes of files, with their bulk files, that are kept although the store no longer needs them.
    pub retain_bytes: u64,
    /// The archive: files are copied there before they are removed.
    pub archive: Option<Arc<dyn Storage>>,
    /// Writes a group to a second device too if the first one is slow.
    pub reissue: bool,
    /// Numbers of the spare devices: they get a group only while all others are writing for longer than usual. Device 0 is
    /// never spare.
    pub spare: Vec<usize>,
    /// Makes the next file on a thread before it is needed.
    pub prepare_ahead: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            retain_bytes: 256 << 20,
            archive: None,
            reissue: true,
            spare: Vec::new(),
            prepare_ahead: true,
        }
    }
}

/// A log open for writing. Its methods may be called from many threads.
#[derive(Debug)]
pub struct Log {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Submitted commits, to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Durable once all commits before this position are.
    end: Position,
}

impl Log {
    /// Creates a log whose first commit gets position `first`. Files of an interrupted creation are removed or set
    /// aside.
    ///
    /// # Errors
    /// [`LogError::Exists`] if there is a log that was used, or remains of one; [`LogError::ForeignFile`] if the
    /// archive belongs to another store.
    pub fn create_at(
        devices: Vec<Arc<dyn Storage>>,
        store: StoreId,
        first: Position,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        archived_names(options.archive.as_ref(), store)?;
        check_count(devices.len())?;
        unnamed::check(&devices)?;
        let begin = LogPoint {
            group: 1,
            position: first.0,
        };
        let record = Record {
            store,
            epoch: 1,
            durable: begin,
            newest: BTreeMap::new(),
        };
        // The record comes first, because a file that it names must exist.
        let record = unnamed::begin_record(&*devices[0], record)?;
        for storage in &devices {
            clear_folder(&**storage)?;
        }
        let devices = (0..).zip(devices);
        let devices = devices
            .map(|(number, storage)| Device::new(number, storage, 1))
            .collect();
        let log = Self::start(GroupQueue::new(store, 1, begin, devices), record, options);
        // With a first group, an empty folder later proves that the log was lost.
        log.submit(&[])?;
        log.flush()?;
        Ok(log)
    }

    /// Creates a log with commit 1 as the first.
    pub fn create(
        devices: Vec<Arc<dyn Storage>>,
        store: StoreId,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        Self::create_at(devices, store, Position::FIRST, options)
    }

    /// Opens a log, and returns its commits from a position on. They are durable from then on, even those that
    /// were never acknowledged.
    ///
    /// # Errors
    /// [`LogError::Lost`] if acknowledged commits from there on are missing.
    pub fn open(
        devices: Vec<Arc<dyn Storage>>,
        store: StoreId,
        from: Position,
        options: LogOptions,
    ) -> Result<(Self, Commits), LogError> {
        check_count(devices.len())?;
        let recovered = recover(&devices, store, from, options.archive.as_ref())?;
        let (found, record) = (recovered.found_record.clone(), recovered.record.clone());
        let record = RecordWriter::open(&*devices[0], found, record)?;
        recovered.trim()?;
        let last = |number| recovered.last_sequences.get(&number).copied().unwrap_or(0);
        let entries = (0..)
            .zip(&devices)
            .map(|(number, storage)| Device::new(number, Arc::clone(storage), last(number) + 1));
        let mut queue = GroupQueue::new(store, recovered.epoch, recovered.end, entries.collect());
        queue.keys = recovered.keys;
        queue.full = recovered.files;
        let archive = options.archive.clone();
        let log = Self::start(queue, record, options);
        let commits = LogReader::open(devices, archive, store).replay_from(from)?;
        Ok((log, commits))
    }

    pub(crate) fn start(queue: GroupQueue, record: RecordWriter, options: LogOptions) -> Self {
        let device_count = queue.devices.len();
        let prepares = options.prepare_ahead;
        let shared = Arc::new(Shared::new(queue, record, options));
        let mut threads = Vec::new();
        let mut spawn = |name: String, run: Box<dyn FnOnce(&Shared) + Send>| {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(name);
            let spawned = thread.spawn(move || run(&shared));
            threads.push(spawned.expect("the system has a thread to spare"));
        };
        if device_count > 1 {
            for device in 0..device_count {
                let run = move |shared: &Shared| shared.run_device(device);
                spawn(format!("log {device}"), Box::new(run));
            }
        }
        if prepares {
            spawn("log files".to_owned(), Box::new(Shared::run_files));
        }
        Self { shared, threads }
    }

    /// Makes a log without threads; a test writes the groups.
    #[cfg(test)]
    pub(crate) fn by_hand(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            threads: Vec::new(),
        }
    }

    /// Appends commits, which get the next positions, in order. They become durable together with everything that
    /// is submitted meanwhile; [`Self::wait`] waits for that.
    ///
    /// # Errors
    /// If the disk is full nothing is appended, and the log goes on once there is space. After a failed write
    /// everything is refused ([`LogError::Poisoned`]). More commits than a log file holds are refused too
    /// ([`LogError::TooManyAtOnce`]).
    pub fn submit(&self, entries: &[Entry<'_>]) -> Result<Ticket, LogError> {
        let mut made = Vec::new();
        let submitted = self.submit_putting_aside(entries, &mut made);
        if submitted.is_err() {
            // No commit names them.
            made.iter().for_each(|name| self.discard(name));
        }
        submitted
    }

    /// Like [`Self::submit`]. Adds the names of the bulk files that it writes to `made`.
    fn submit_putting_aside(
        &self,
        entries: &[Entry<'_>],
        made: &mut Vec<String>,
    ) -> Result<Ticket, LogError> {
        let parts = self.encode(entries, made)?;
        let shared = &*self.shared;
        let groups: Vec<usize> = parts
            .iter()
            .map(|part| group_bytes(part.payload.len()))
            .collect();
        let (bytes, maximum) = (groups.iter().sum(), shared.submitted_bytes_max());
        if bytes > maximum {
            return Err(LogError::TooManyAtOnce { bytes, maximum });
        }
        let mut queue = shared.reserve(&groups)?;
        for (position, entry) in (queue.next_position.0..).zip(entries) {
            if let Some(key) = entry.key {
                queue.keys.insert(key, Position(position));
            }
        }
        for part in parts {
            queue.append(part, shared.payload_bytes_max());
        }
        let end = queue.next_position;
        let wakes_spares = std::mem::take(&mut queue.spares_sleep);
        drop(queue);
        shared.work.notify_all();
        if wakes_spares {
            shared.spares.notify_all();
        }
        Ok(Ticket { end })
    }

    /// Waits until the submitted commits, and all before them, are durable.
    pub fn wait(&self, ticket: Ticket) -> Result<(), LogError> {
        let shared = &*self.shared;
        let mut queue = shared.queue.lock();
        loop {
            if queue.durable.position >= ticket.end.0 {
                return Ok(());
            }
            if let Some(failure) = &queue.failure {
                return Err(failure.clone());
            }
            queue = shared.advance(queue, Some(ticket.end));
        }
    }

    /// Returns the position of the next commit.
    pub fn next_position(&self) -> Position {
        self.shared.queue.lock().next_position
    }

    /// Returns the commit that was submitted with this key, if the log still knows it.
    pub fn find_key(&self, key: &str) -> Option<Position> {
        self.shared.queue.lock().keys.find(key)
    }

    /// Begins a bulk file, for changes that are too many for the log itself.
    pub fn begin_bulk(&self) -> Result<BulkWriter, LogError> {
        let shared = &*self.shared;
        let (name, store) = {
            let mut queue = shared.queue.lock();
            queue.bulk_count += 1;
            (bulk_name(queue.epoch, queue.bulk_count), queue.store)
        };
        let made = BulkWriter::create(&*shared.bulk_storage(), name.clone(), store);
        // An incomplete file may exist.
        made.inspect_err(|_| self.discard(&name))
    }

    /// Removes a bulk file that no commit will name. Ignores errors: opening the log removes it too.
    pub fn discard_bulk(&self, bulk: BulkWriter) {
        self.discard(&bulk.abandon());
    }

    /// Removes a finished bulk file by name, like [`Self::discard_bulk`].
    pub fn discard(&self, name: &str) {
        let _ = self.shared.bulk_storage().remove(name);
    }

    /// Tells the log that commits before a position are no longer needed. Files with only such commits are
    /// archived, if there is an archive, and removed as far as they exceed the bytes to retain.
    pub fn checkpoint(&self, position: Position) -> Result<(), LogError> {
        self.shared.checkpoint(position)
    }

    /// Returns a reader of this log.
    pub fn reader(&self) -> LogReader {
        let queue = self.shared.queue.lock();
        let devices = queue
            .devices
            .iter()
            .map(|device| Arc::clone(&device.storage));
        let archive = self.shared.options.archive.clone();
        LogReader::open(devices.collect(), archive, queue.store)
    }

    /// Makes everything submitted durable and closes the log. Dropping the log does the same, but ignores errors.
    pub fn close(mut self) -> Result<(), LogError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), LogError> {
        let written = if self.shared.queue.lock().was_used() {
            self.flush()
        } else {
            Ok(())
        };
        self.shared.queue.lock().is_closing = true;
        self.shared.work.notify_all();
        self.shared.spares.notify_all();
        self.shared.files.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let is_trimmed = written.is_ok() && self.record_end().is_ok();
        if is_trimmed {
            let mut queue = self.shared.queue.lock();
            queue.devices.iter_mut().for_each(Device::trim);
        }
        written
    }

    /// Records where the log ends, and that files may be shorter than they were allocated. Errors are not worth
    /// reporting: without the record, less damage can be detected later.
    fn record_end(&self) -> Result<(), LogError> {
        let mut record = self.shared.record.lock();
        let (durable, was_used) = {
            let queue = self.shared.queue.lock();
            (queue.durable, queue.was_used())
        };
        match was_used {
            true => record.end(durable),
            false => Ok(()),
        }
    }

    /// Waits until nothing is left to write.
    fn flush(&self) -> Result<(), LogError> {
        let mut queue = self.shared.queue.lock();
        while !queue.is_idle() {
            if let Some(failure) = &queue.failure {
                return Err(failure.clone());
            }
            queue = self.shared.advance(queue, None);
        }
        Ok(())
    }

    /// Encodes commits, as many together as a group holds. Changes that are too many for a group go to bulk files,
    /// whose names are added to `made`.
    fn encode(
        &self,
        entries: &[Entry<'_>],
        made: &mut Vec<String>,
    ) -> Result<Vec<EncodedCommits>, LogError> {
        let limit = self.shared.payload_bytes_max();
        let mut parts = vec![EncodedCommits::default()];
        for entry in entries {
            let mut payload = Vec::new();
            entry.encode(&mut payload)?;
            let mut bulk = match &entry.changes {
                Changes::Bulk(bulk) => Some(bulk.clone()),
                Changes::Inline(_) => None,
            };
            if let Changes::Inline(set) = &entry.changes
                && payload.len() > limit
            {
                let aside = self.put_aside(set, made)?;
                payload.clear();
                let changes = Changes::Bulk(aside.clone());
                Entry { changes, ..*entry }.encode(&mut payload)?;
                bulk = Some(aside);
            }
            let part = EncodedCommits {
                payload,
                count: 1,
                bulks: bulk.into_iter().collect(),
            };
            match parts.last_mut().filter(|last| last.accepts(&part, limit)) {
                Some(last) => last.join(part),
                None => parts.push(part),
            }
        }
        Ok(parts)
    }

    fn put_aside(&self, changes: &ChangeSet, made: &mut Vec<String>) -> Result<Bulk, LogError> {
        let mut writer = self.begin_bulk()?;
        made.push(writer.name().to_owned());
        writer.push(changes)?;
        writer.finish()
    }
}

fn check_count(devices: usize) -> Result<(), LogError> {
    match devices {
        0 => Err(LogError::NoDevice),
        1..=DEVICES_MAX => Ok(()),
        count => Err(LogError::TooManyDevices {
            count,
            maximum: DEVICES_MAX,
        }),
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.shared.queue.lock().is_closing {
            let _ = self.finish();
        }
    }
}
