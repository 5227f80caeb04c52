//! State that executors and the melder share: the log, in memory and perhaps on a device, and the last states.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pythia_io::Storage;
use pythia_log::meld::{State, to_changes};
use pythia_log::{Changes, Entry, Log, LogError, LogOptions, StoreId, Ticket};

const STORE: StoreId = StoreId([7; 16]);

/// The log and the states.
pub(super) struct Shared {
    log: Mutex<Intentions>,
    appended: Condvar,
    states: Mutex<States>,
    melded: Condvar,
    behind: usize,
    /// The same log on a device, whose content survives.
    durable: Option<Log>,
    /// True if a thread has failed or all is melded, so that nobody waits for more.
    is_closed: AtomicBool,
}

/// An intention's bytes.
pub(super) type Bytes = Arc<[u8]>;

#[derive(Default)]
struct Intentions {
    bytes: Vec<Bytes>,
    /// Of the last intention, on a device.
    ticket: Option<Ticket>,
    /// The number of those that the melder may have.
    durable: usize,
}

/// The states after the last intentions, the newest last.
struct States {
    kept: VecDeque<State>,
    /// Melded intentions.
    melded: usize,
}

impl Shared {
    pub(super) fn new(
        state: State,
        behind: u64,
        device: Option<Arc<dyn Storage>>,
    ) -> Result<Self, LogError> {
        let create = |device| Log::create(vec![device], STORE, LogOptions::default());
        let durable = device.map(create).transpose()?;
        Ok(Self {
            log: Mutex::default(),
            appended: Condvar::new(),
            states: Mutex::new(States {
                kept: VecDeque::from([state]),
                melded: 0,
            }),
            melded: Condvar::new(),
            behind: behind as usize,
            durable,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Returns the state some intentions before the end of the log, once it is melded. `None` if the run has ended.
    pub(super) fn state(&self) -> Option<State> {
        let target = self.log().bytes.len().saturating_sub(self.behind);
        let mut states = self.states.lock().expect("no holder panics");
        while states.melded < target {
            if self.is_closed() {
                return None;
            }
            states = self.melded.wait(states).expect("no holder panics");
        }
        let first = states.melded + 1 - states.kept.len();
        states.kept.get(target.saturating_sub(first)).cloned()
    }

    /// Appends an intention.
    pub(super) fn append(&self, intention: Vec<u8>) -> Result<(), LogError> {
        let changes = self.durable.as_ref().map(|_| to_changes(&intention));
        let mut log = self.log();
        if let (Some(durable), Some(changes)) = (&self.durable, &changes) {
            // Held meanwhile: the order of both logs is the same.
            let changes = Changes::Inline(changes);
            let (time, key) = (0, None);
            log.ticket = Some(durable.submit(&[Entry { time, key, changes }])?);
        }
        log.bytes.push(intention.into());
        if self.durable.is_none() {
            log.durable = log.bytes.len();
        }
        drop(log);
        self.appended.notify_all();
        Ok(())
    }

    /// Makes intentions durable until the run has ended: each time all that were appended meanwhile.
    pub(super) fn sync(&self, durable: &Log) -> Result<(), LogError> {
        loop {
            let mut log = self.log();
            while log.durable == log.bytes.len() {
                if self.is_closed() {
                    return Ok(());
                }
                log = self.appended.wait(log).expect("no holder panics");
            }
            let (ticket, end) = (log.ticket, log.bytes.len());
            drop(log);
            durable.wait(ticket.expect("each intention has one"))?;
            self.log().durable = end;
            self.appended.notify_all();
        }
    }

    /// Returns the durable intentions from an index on, once there is one. Empty if the run has ended.
    pub(super) fn from(&self, index: usize) -> Vec<Bytes> {
        let mut log = self.log();
        while log.durable <= index && !self.is_closed() {
            log = self.appended.wait(log).expect("no holder panics");
        }
        let durable = log.durable;
        log.bytes[index..durable].to_vec()
    }

    /// Lets executors have the states after the next intentions.
    pub(super) fn publish(&self, new: Vec<State>) {
        let mut states = self.states.lock().expect("no holder panics");
        states.melded += new.len();
        states.kept.extend(new);
        let unneeded = states.kept.len().saturating_sub(self.behind + 1);
        let old: Vec<State> = states.kept.drain(..unneeded).collect();
        drop(states);
        self.melded.notify_all();
        // Without the lock: nodes are freed.
        drop(old);
    }

    /// Ends the run, also after a thread has panicked that held a lock.
    pub(super) fn close(&self) {
        // With the locks, so that nobody is between looking and waiting.
        let _log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let _states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_closed.store(true, Ordering::Relaxed);
        self.appended.notify_all();
        self.melded.notify_all();
    }

    /// Returns the log on the device.
    pub(super) fn durable(&self) -> Option<&Log> {
        self.durable.as_ref()
    }

    /// Returns all intentions.
    pub(super) fn into_log(self) -> Result<Vec<Bytes>, LogError> {
        if let Some(durable) = self.durable {
            durable.close()?;
        }
        let log = self.log.into_inner();
        Ok(log.expect("no holder panics").bytes)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn log(&self) -> MutexGuard<'_, Intentions> {
        self.log.lock().expect("no holder panics")
    }
}
