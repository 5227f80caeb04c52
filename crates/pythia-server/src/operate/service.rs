//! A server as a process: reacts to signals, systemd and a changed configuration file.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::notify;
use crate::state::State;

/// Interval between checks of the configuration file.
const LOOK: Duration = Duration::from_secs(1);

/// Reacts to signals and to changes of the configuration file.
pub(crate) struct Attendant {
    state: Arc<State>,
    stop: watch::Sender<bool>,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Attendant {
    /// Begins to catch signals. Must be called within a runtime.
    pub(crate) fn new(state: Arc<State>, stop: watch::Sender<bool>) -> io::Result<Self> {
        Ok(Self {
            state,
            stop,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Runs until a second signal asks to stop at once. The first one begins an orderly stop.
    pub(crate) async fn attend(mut self) {
        notify::ready("serving");
        let mut alive = notify::watchdog_interval().map(ticks);
        let mut file = FileWatch::new(Arc::clone(&self.state));
        let mut looks = ticks(LOOK);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => if self.stop_once() { return },
                _ = self.interrupt.recv() => if self.stop_once() { return },
                _ = self.hang_up.recv() => reload(&self.state).await,
                _ = looks.tick() => if file.has_changed() { reload(&self.state).await },
                () = tick(&mut alive) => notify::alive(),
            }
        }
    }

    /// Begins an orderly stop. Returns whether one had begun before.
    fn stop_once(&self) -> bool {
        if self.stop.send_replace(true) {
            tracing::warn!("asked to stop again: not waiting for running requests");
            return true;
        }
        let grace = self.state.settings().config.limits.grace_time;
        tracing::info!("stopping: waiting up to {grace:?} for running requests");
        notify::stopping(grace);
        false
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the next tick; forever if `interval` is `None`.
async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => pending().await,
    }
}

async fn reload(state: &Arc<State>) {
    let state = Arc::clone(state);
    // The outcome is logged there.
    let _ = tokio::task::spawn_blocking(move || state.reload().map(drop)).await;
}

/// Detects changes of the configuration file, once its writer is done.
struct FileWatch {
    state: Arc<State>,
    /// The file's state when it was last read.
    read: crate::config::FileState,
    /// The file's state at the last check.
    seen: crate::config::FileState,
}

impl FileWatch {
    fn new(state: Arc<State>) -> Self {
        let now = state.operations.source.file_state();
        Self {
            state,
            read: now,
            seen: now,
        }
    }

    fn has_changed(&mut self) -> bool {
        if !self.state.settings().config.operate.watch {
            return false;
        }
        let now = self.state.operations.source.file_state();
        let settled = now.is_some() && now == self.seen;
        self.seen = now;
        if settled && now != self.read {
            self.read = now;
            return true;
        }
        false
    }
}
