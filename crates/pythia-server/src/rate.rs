//! Rate limits on clients: a token bucket per client, which fills at the allowed rate and holds one second's
//! requests.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use crate::admission::Client;

/// Limit on clients that are tracked at once.
const CLIENTS_MAX: usize = 16_384;

/// The buckets of all clients.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: Mutex<HashMap<Client, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// Takes one request from a client's bucket.
    ///
    /// # Errors
    /// The number of seconds to wait before the next request.
    pub(crate) fn take(&self, client: &Client, per_second: u32, now: Instant) -> Result<(), u64> {
        let most = f64::from(per_second);
        let mut buckets = self.buckets.lock();
        if buckets.len() >= CLIENTS_MAX {
            // The bucket of a client that has sent nothing for a second is full again.
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at).as_secs() < 1);
        }
        if buckets.len() >= CLIENTS_MAX {
            // This many clients at once cannot all be one attacker.
            buckets.clear();
        }
        let full = Bucket {
            left: most,
            at: now,
        };
        let bucket = buckets.entry(client.in_turn()).or_insert(full);
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.left = (bucket.left + passed * most).min(most);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(1);
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_has_its_requests_of_each_second() {
        let rates = Rates::default();
        let client = |text: &str| Client::Address(text.parse().expect("an address"));
        let (one, other) = (client("192.0.2.1"), client("192.0.2.2"));
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(rates.take(&one, 3, now), Ok(()));
        }
        assert_eq!(rates.take(&one, 3, now), Err(1));
        assert_eq!(rates.take(&other, 3, now), Ok(()));
        let later = now + Duration::from_millis(400);
        assert_eq!(rates.take(&one, 3, later), Ok(()));
        assert_eq!(rates.take(&one, 3, later), Err(1));
        // Addresses in one network are one client.
        let (a, b) = (client("2001:db8::1"), client("2001:db8::2"));
        assert_eq!(rates.take(&a, 1, now), Ok(()));
        assert_eq!(rates.take(&b, 1, now), Err(1));
    }

    #[test]
    fn the_table_is_bounded() {
        let rates = Rates::default();
        let now = Instant::now();
        for number in 0..3 * CLIENTS_MAX as u32 {
            let client = Client::Address(std::net::IpAddr::V4(number.into()));
            let at = now + Duration::from_millis(u64::from(number));
            assert_eq!(rates.take(&client, 1, at), Ok(()));
        }
        assert!(rates.buckets.lock().len() <= CLIENTS_MAX);
    }
}
