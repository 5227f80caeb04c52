//! What systemd is told, if it has started the server: readiness, reloads, the end, and signs of life.

use std::time::Duration;

use sd_notify::NotifyState;

/// Ready to serve, or ready again after a reload.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// About to read the configuration again; [`ready`] says when that is done.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "systemd was not told of the reload"),
    }
}

/// About to end, which may take this long.
pub(crate) fn stopping(grace: Duration) {
    let us = u32::try_from(grace.as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(us),
        NotifyState::Status("finishing what runs"),
    ]);
}

/// A sign of life.
pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// How often to give a sign of life: twice in the time that systemd waits for one.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|timeout| timeout / 2)
}

fn send(states: &[NotifyState<'_>]) {
    // Without a socket there is nobody to tell, and that is no error.
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd could not be told");
    }
}
