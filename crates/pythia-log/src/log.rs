//! The log being written: groups of commits, one write and one sync each.
//!
//! With one device, whoever waits for its commit first writes all that has been submitted until then,
//! for all who wait: nothing is handed from thread to thread. With several, each has a thread that
//! takes what has been submitted as soon as it is free, and what another is slow to write (FlashLogging,
//! Bulletin §2.1). Commits are acknowledged in their order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use pythia_io::Storage;

use crate::bulk::{Bulk, BulkWriter};
use crate::change::ChangeSet;
use crate::device::Device;
use crate::format::{Place, Position, bulk_name, group_bytes};
use crate::group::{Changes, Entry};
use crate::reader::{Commits, LogReader};
use crate::record::{DEVICES_MAX, Record, RecordWriter};
use crate::recover::{archived_names, recover};
use crate::shared::Shared;
use crate::state::{Part, State};
use crate::unnamed::{self, clear_folder};
use crate::{LogError, StoreId};

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Length of log files, allocated ahead, at least 32 KiB; the first ones are shorter.
    pub file_bytes: u64,
    /// Bytes of files that are kept although nothing needs them any more, with those of the changes put aside that
    /// their commits name.
    pub retain_bytes: u64,
    /// Where files go before they are removed.
    pub archive: Option<Arc<dyn Storage>>,
    /// Whether writes that are slow are issued to another device too, if there is one.
    pub reissue: bool,
    /// Whether a thread makes the next file before it is needed.
    pub prepare_ahead: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            retain_bytes: 256 << 20,
            archive: None,
            reissue: true,
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

/// What was submitted, to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    /// Durable once all before this position is.
    end: Position,
}

impl Log {
    /// Begins a log whose first commit gets a position. What an interrupted creation left goes, or is set aside.
    ///
    /// # Errors
    /// [`LogError::Exists`] if there is a log that was used, or what is left of it; [`LogError::ForeignFile`] if
    /// the archive is another store's.
    pub fn create_at(
        devices: Vec<Arc<dyn Storage>>,
        store: StoreId,
        first: Position,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        archived_names(options.archive.as_ref(), store)?;
        check_count(devices.len())?;
        unnamed::check(&devices)?;
        let begin = Place {
            group: 1,
            position: first.0,
        };
        let record = Record {
            store,
            epoch: 1,
            durable: begin,
            newest: BTreeMap::new(),
        };
        // First: a file that the record names must be there.
        let record = unnamed::begin_record(&*devices[0], record)?;
        for storage in &devices {
            clear_folder(&**storage)?;
        }
        let devices = (0..).zip(devices);
        let devices = devices
            .map(|(number, storage)| Device::new(number, storage, 1))
            .collect();
        let log = Self::start(State::new(store, 1, begin, devices), record, options);
        // From now on an empty folder is a log that was lost.
        log.submit(&[])?;
        log.flush()?;
        Ok(log)
    }

    /// Begins a log with commit 1.
    pub fn create(
        devices: Vec<Arc<dyn Storage>>,
        store: StoreId,
        options: LogOptions,
    ) -> Result<Self, LogError> {
        Self::create_at(devices, store, Position::FIRST, options)
    }

    /// Opens a log and gives the commits from a position on that it has. From then on they are
    /// durable, also those that were never acknowledged.
    ///
    /// # Errors
    /// [`LogError::Lost`] if commits from there on had been acknowledged and are not there.
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
        let mut state = State::new(store, recovered.epoch, recovered.end, entries.collect());
        state.keys = recovered.keys;
        state.full = recovered.files;
        let archive = options.archive.clone();
        let log = Self::start(state, record, options);
        let commits = LogReader::open(devices, archive, store).replay_from(from)?;
        Ok((log, commits))
    }

    pub(crate) fn start(state: State, record: RecordWriter, options: LogOptions) -> Self {
        let device_count = state.devices.len();
        let prepares = options.prepare_ahead;
        let shared = Arc::new(Shared::new(state, record, options));
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

    /// A log without threads, whose groups a test writes.
    #[cfg(test)]
    pub(crate) fn by_hand(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            threads: Vec::new(),
        }
    }

    /// Appends commits, which get the next positions, in order. All become durable together with
    /// what else is submitted meanwhile; [`Self::wait`] tells when.
    ///
    /// # Errors
    /// On a full disk nothing is appended, and the log goes on once there is space. After a failed
    /// write all is refused ([`LogError::Poisoned`]), and so are more commits than a file of the log holds
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

    /// As [`Self::submit`]; gives the names of the files that it has put changes aside in.
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
        let mut state = shared.reserve(&groups)?;
        for (position, entry) in (state.next_position.0..).zip(entries) {
            if let Some(key) = entry.key {
                state.keys.insert(key, Position(position));
            }
        }
        for part in parts {
            state.append(part, shared.payload_bytes_max());
        }
        let end = state.next_position;
        drop(state);
        shared.work.notify_all();
        Ok(Ticket { end })
    }

    /// Waits until what was submitted, and all before it, is durable.
    pub fn wait(&self, ticket: Ticket) -> Result<(), LogError> {
        let shared = &*self.shared;
        let mut state = shared.state.lock();
        loop {
            if state.durable.position >= ticket.end.0 {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = shared.advance(state);
        }
    }

    /// The position that the next commit gets.
    pub fn next_position(&self) -> Position {
        self.shared.state.lock().next_position
    }

    /// The commit that was submitted with this key, if the log still knows.
    pub fn find_key(&self, key: &str) -> Option<Position> {
        self.shared.state.lock().keys.find(key)
    }

    /// Puts changes aside that are too many for the log itself.
    pub fn begin_bulk(&self) -> Result<BulkWriter, LogError> {
        let shared = &*self.shared;
        let (name, store) = {
            let mut state = shared.state.lock();
            state.bulk_count += 1;
            (bulk_name(state.epoch, state.bulk_count), state.store)
        };
        let made = BulkWriter::create(&*shared.bulk_storage(), name.clone(), store);
        // Half a file may be there.
        made.inspect_err(|_| self.discard(&name))
    }

    /// Removes changes put aside that no commit will name. Not worth an error: otherwise the file goes when the
    /// log is next opened.
    pub fn discard_bulk(&self, bulk: BulkWriter) {
        self.discard(&bulk.abandon());
    }

    /// The same of changes whose file is finished, by its name.
    pub fn discard(&self, name: &str) {
        let _ = self.shared.bulk_storage().remove(name);
    }

    /// Nothing needs the commits before a position any more: files with these alone go to the
    /// archive, if there is one, and are removed as far as they exceed what is to be retained.
    pub fn checkpoint(&self, position: Position) -> Result<(), LogError> {
        self.shared.checkpoint(position)
    }

    /// A reader of this log.
    pub fn reader(&self) -> LogReader {
        let state = self.shared.state.lock();
        let devices = state
            .devices
            .iter()
            .map(|device| Arc::clone(&device.storage));
        let archive = self.shared.options.archive.clone();
        LogReader::open(devices.collect(), archive, state.store)
    }

    /// Makes all that was submitted durable and closes the log. Dropping it does the same, but
    /// tells nobody of errors.
    pub fn close(mut self) -> Result<(), LogError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), LogError> {
        let written = if self.shared.state.lock().was_used() {
            self.flush()
        } else {
            Ok(())
        };
        self.shared.state.lock().is_closing = true;
        self.shared.work.notify_all();
        self.shared.files.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let is_trimmed = written.is_ok() && self.record_end().is_ok();
        if is_trimmed {
            let mut state = self.shared.state.lock();
            state.devices.iter_mut().for_each(Device::trim);
        }
        written
    }

    /// Shows whoever opens the log where it ends, and that files may be shorter than they were made. Not worth
    /// an error to the caller: without it less damage can be told.
    fn record_end(&self) -> Result<(), LogError> {
        let mut record = self.shared.record.lock();
        let (durable, was_used) = {
            let state = self.shared.state.lock();
            (state.durable, state.was_used())
        };
        match was_used {
            true => record.end(durable),
            false => Ok(()),
        }
    }

    /// Waits until nothing is left to be written.
    fn flush(&self) -> Result<(), LogError> {
        let mut state = self.shared.state.lock();
        while !state.is_idle() {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = self.shared.advance(state);
        }
        Ok(())
    }

    /// Encodes commits, as many together as a group holds; changes that are too many for a group are
    /// put aside, in files whose names are added to `made`.
    fn encode(&self, entries: &[Entry<'_>], made: &mut Vec<String>) -> Result<Vec<Part>, LogError> {
        let limit = self.shared.payload_bytes_max();
        let mut parts = vec![Part::default()];
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
            let part = Part {
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
        if !self.shared.state.lock().is_closing {
            let _ = self.finish();
        }
    }
}
