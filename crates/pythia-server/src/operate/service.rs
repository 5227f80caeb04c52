//! A server as a process of its own: what signals, systemd and a changed file of configuration tell it.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::notify;
use crate::state::State;

/// How often the file of configuration is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What tells a server what to do.
pub(crate) struct Attendant {
    state: Arc<State>,
    stop: watch::Sender<bool>,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Attendant {
    /// Takes signals from now on. Within a runtime.
    pub(crate) fn new(state: Arc<State>, stop: watch::Sender<bool>) -> io::Result<Self> {
        Ok(Self {
            state,
            stop,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Attends until a second signal says that it is to end at once. The first one has it end in order.
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

    /// Has the server end; whether it was told to before.
    fn stop_once(&self) -> bool {
        if self.stop.send_replace(true) {
            tracing::warn!("told to stop again: what runs is left");
            return true;
        }
        let grace = self.state.settings().config.limits.grace_time;
        tracing::info!("stopping: what runs may go on for {grace:?}");
        notify::stopping(grace);
        false
    }
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The next tick; never, if there are none.
async fn tick(interval: &mut Option<Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => pending().await,
    }
}

async fn reload(state: &Arc<State>) {
    let state = Arc::clone(state);
    // What came of it is logged there.
    let _ = tokio::task::spawn_blocking(move || state.reload().map(drop)).await;
}

/// Tells when the file of configuration was changed, once whoever writes it is done.
struct FileWatch {
    state: Arc<State>,
    /// As it was when it was last read.
    read: crate::config::FileState,
    /// As it was at the last look.
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
