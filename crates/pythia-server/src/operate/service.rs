//! A server as a process: reacts to signals, systemd and a changed configuration file.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::notify;
use crate::context::ServerContext;

/// Interval between checks of the configuration file.
const LOOK: Duration = Duration::from_secs(1);

/// Reacts to signals and to changes of the configuration file.
pub(crate) struct Attendant {
    context: Arc<ServerContext>,
    stop: watch::Sender<bool>,
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Attendant {
    /// Begins to catch signals. Must be called within a runtime.
    pub(crate) fn new(context: Arc<ServerContext>, stop: watch::Sender<bool>) -> io::Result<Self> {
        Ok(Self {
            context,
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
        let mut file = FileWatch::new(Arc::clone(&self.context));
        let mut looks = ticks(LOOK);
        loop {
            tokio::select! {
                _ = self.terminate.recv() => if self.stop_once() { return },
                _ = self.interrupt.recv() => if self.stop_once() { return },
                _ = self.hang_up.recv() => reload(&self.context).await,
                _ = looks.tick() => if file.has_changed() { reload(&self.context).await },
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
        let grace = self.context.settings().config.limits.grace_time;
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

async fn reload(context: &Arc<ServerContext>) {
    let context = Arc::clone(context);
    // The outcome is logged there.
    let _ = tokio::task::spawn_blocking(move || context.reload().map(drop)).await;
}

/// Detects changes of the configuration file, once its writer is done.
struct FileWatch {
    context: Arc<ServerContext>,
    /// The file's state at the last check.
    seen: crate::config::FileStamp,
}

impl FileWatch {
    fn new(context: Arc<ServerContext>) -> Self {
        let seen = context.operations.source.file_stamp();
        Self { context, seen }
    }

    fn has_changed(&mut self) -> bool {
        if !self.context.settings().config.operate.watch {
            return false;
        }
        let source = &self.context.operations.source;
        let now = source.file_stamp();
        let settled = now.is_some() && now == self.seen;
        self.seen = now;
        settled && now != source.read_stamp()
    }
}
