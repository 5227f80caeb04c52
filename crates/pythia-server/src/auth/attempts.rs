//! Failed authentications by address: slows down password guessing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::network::network_of;

/// Window in which failures are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Limit on addresses that are tracked at once.
const ADDRESSES_MAX: usize = 16_384;

/// Failures within the last minute. An attempt counts as failed until it succeeds, so that many parallel attempts
/// do not slip through.
#[derive(Debug)]
pub(super) struct Attempts {
    failures_max: u32,
    failed: Mutex<HashMap<IpAddr, FailureCount>>,
}

#[derive(Clone, Copy, Debug)]
struct FailureCount {
    since: Instant,
    count: u32,
}

impl Attempts {
    pub(super) fn new(failures_max: u32) -> Self {
        Self {
            failures_max,
            failed: Mutex::default(),
        }
    }

    /// Begins an attempt.
    ///
    /// # Errors
    /// The number of seconds to wait before the next attempt.
    pub(super) fn begin(&self, peer: IpAddr, now: Instant) -> Result<(), u64> {
        let mut failed = self.failed.lock();
        make_room(&mut failed, now);
        let entry = failed.entry(network_of(peer)).or_insert(FailureCount {
            since: now,
            count: 0,
        });
        let age = now.saturating_duration_since(entry.since);
        if age >= WINDOW {
            *entry = FailureCount {
                since: now,
                count: 0,
            };
        } else if entry.count >= self.failures_max {
            return Err((WINDOW - age).as_secs() + 1);
        }
        entry.count += 1;
        Ok(())
    }

    /// Takes an attempt back that was begun and succeeded.
    pub(super) fn succeeded(&self, peer: IpAddr) {
        if let Some(entry) = self.failed.lock().get_mut(&network_of(peer)) {
            entry.count = entry.count.saturating_sub(1);
        }
    }
}

/// Makes room when the table is full: removes expired entries, and if there are none, the oldest entry.
fn make_room(failed: &mut HashMap<IpAddr, FailureCount>, now: Instant) {
    if failed.len() < ADDRESSES_MAX {
        return;
    }
    failed
        .retain(|_, entry| entry.count > 0 && now.saturating_duration_since(entry.since) < WINDOW);
    if failed.len() >= ADDRESSES_MAX {
        let oldest = failed.iter().min_by_key(|(_, entry)| entry.since);
        if let Some(oldest) = oldest.map(|(address, _)| *address) {
            failed.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_limited_for_a_minute_and_by_network() {
        let attempts = Attempts::new(2);
        let now = Instant::now();
        let [a, same, other]: [IpAddr; 3] = ["2001:db8::1", "2001:db8::2", "10.0.0.1"]
            .map(|address| address.parse().expect("an address"));
        assert_eq!(attempts.begin(a, now), Ok(()));
        assert_eq!(attempts.begin(same, now), Ok(()));
        assert_eq!(attempts.begin(a, now), Err(61));
        assert_eq!(attempts.begin(a, now + Duration::from_secs(30)), Err(31));
        assert_eq!(attempts.begin(other, now), Ok(()));
        attempts.succeeded(a);
        assert_eq!(attempts.begin(a, now), Ok(()));
        assert_eq!(attempts.begin(a, now + WINDOW), Ok(()));
    }

    #[test]
    fn the_table_is_bounded() {
        let attempts = Attempts::new(2);
        let now = Instant::now();
        for number in 0..2 * ADDRESSES_MAX as u32 {
            let at = now + Duration::from_micros(u64::from(number));
            assert_eq!(attempts.begin(IpAddr::V4(number.into()), at), Ok(()));
        }
        assert!(attempts.failed.lock().len() <= ADDRESSES_MAX);
    }
}
