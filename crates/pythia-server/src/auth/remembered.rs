//! Credentials that were checked recently. Checking a password takes longer than most queries.
//!
//! Only hashes are kept, made with a secret of this process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// Limit on remembered credentials.
const CREDENTIALS_MAX: usize = 4096;
/// Time for which a password is remembered.
pub(super) const TIME: Duration = Duration::from_secs(300);

/// Results of checked credentials, by their keys.
#[derive(Debug)]
pub(super) struct Remembered<T> {
    secret: [u8; 32],
    known: Mutex<HashMap<Key, (T, Instant)>>,
}

/// An authentication scheme, as `Authorization` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Basic,
    Bearer,
}

/// The keyed hash of credentials.
pub(super) type Key = [u8; 32];

impl<T: Clone> Remembered<T> {
    pub(super) fn new() -> Self {
        Self {
            secret: rand::random(),
            known: Mutex::default(),
        }
    }

    /// Returns the key of credentials of a scheme. Credentials of one scheme are not valid for another.
    pub(super) fn key(&self, scheme: Scheme, credentials: &[u8]) -> Key {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update([scheme as u8]);
        hash.update(credentials);
        hash.finalize().into()
    }

    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<T> {
        let known = self.known.lock();
        let (found, until) = known.get(key)?;
        (now < *until).then(|| found.clone())
    }

    pub(super) fn put(&self, key: Key, found: T, until: Instant, now: Instant) {
        let mut known = self.known.lock();
        if known.len() >= CREDENTIALS_MAX {
            known.retain(|_, (_, until)| now < *until);
        }
        if known.len() >= CREDENTIALS_MAX {
            // Active users are soon back.
            known.clear();
        }
        known.insert(key, (found, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_forgotten_in_time_and_bounded() {
        let remembered = Remembered::new();
        let now = Instant::now();
        let key = remembered.key(Scheme::Basic, b"ada:secret");
        assert_ne!(
            key,
            Remembered::<()>::new().key(Scheme::Basic, b"ada:secret")
        );
        assert_ne!(key, remembered.key(Scheme::Bearer, b"ada:secret"));
        remembered.put(key, 1, now + TIME, now);
        assert_eq!(remembered.get(&key, now), Some(1));
        assert_eq!(remembered.get(&key, now + TIME), None);
        for number in 0..2 * CREDENTIALS_MAX {
            let key = remembered.key(Scheme::Basic, &number.to_le_bytes());
            remembered.put(key, 2, now + TIME, now);
        }
        assert!(remembered.known.lock().len() <= CREDENTIALS_MAX);
    }
}
