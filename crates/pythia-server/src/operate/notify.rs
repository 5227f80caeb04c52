//! Notifications to systemd, if it started the server: readiness, reloads, stopping, and watchdog pings.

use std::time::Duration;

use sd_notify::NotifyState;

/// Notifies that the server serves, or serves again after a reload.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Notifies that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!(%error, "systemd could not be notified of the reload"),
    }
}

/// Notifies that the server stops, which may take this long.
pub(crate) fn stopping(grace: Duration) {
    let us = u32::try_from(grace.as_micros()).unwrap_or(u32::MAX);
    send(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(us),
        NotifyState::Status("waiting for running requests"),
    ]);
}

/// Sends a watchdog ping.
pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// Returns the interval of watchdog pings: half of systemd's timeout.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|timeout| timeout / 2)
}

fn send(states: &[NotifyState<'_>]) {
    // Without a socket there is no systemd to notify; that is not an error.
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd could not be notified");
    }
}
