//! Passwords: hashes them with argon2id, and checks them with bounded memory.

use std::collections::HashMap;
use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params};
use tokio::sync::Semaphore;

use super::config::UserConfig;

/// Limit on the memory that checking one password may take, in KiB.
const MEMORY_KIB_MAX: u32 = 256 << 10;
/// Limit on passwords that are checked at once.
const CHECKED_AT_ONCE: usize = 2;
/// Limit on the length of a password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;

/// Returns the hash of a password, as a PHC string for the configuration.
///
/// # Errors
/// If the password is empty or longer than 1024 bytes.
pub fn hash_password(password: &str) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(format!(
            "a password has 1 to {PASSWORD_BYTES_MAX} bytes, not {}",
            password.len()
        ));
    }
    let salt: [u8; 16] = rand::random();
    let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    let hash: PasswordHash = hash.map_err(|error| error.to_string())?;
    Ok(hash.to_string())
}

/// The hashes of users' passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    by_user: HashMap<String, Arc<PasswordHash>>,
    /// Checked for unknown users, so that the time does not tell whether a user exists.
    nobody: Option<Arc<PasswordHash>>,
    checking: Arc<Semaphore>,
}

impl Passwords {
    pub(super) fn new(users: &[UserConfig]) -> Result<Self, String> {
        let mut by_user = HashMap::new();
        let mut nobody = None;
        for user in users {
            if user.name.is_empty() || user.name.contains(':') {
                return Err(format!(
                    "user {:?}: a name must not be empty or contain a colon",
                    user.name
                ));
            }
            let hash = Arc::new(parse(user)?);
            nobody.get_or_insert_with(|| Arc::clone(&hash));
            if by_user.insert(user.name.clone(), hash).is_some() {
                return Err(format!("duplicate user {}", user.name));
            }
        }
        Ok(Self {
            by_user,
            nobody,
            checking: Arc::new(Semaphore::new(CHECKED_AT_ONCE)),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    /// Returns whether this is the user's password. Takes tens of milliseconds of a thread, after waiting for one
    /// of the places.
    pub(super) async fn check(&self, user: &str, password: &str) -> bool {
        let known = self.by_user.get(user);
        let Some(hash) = known.or(self.nobody.as_ref()).map(Arc::clone) else {
            return false;
        };
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let Ok(permit) = Arc::clone(&self.checking).acquire_owned().await else {
            return false;
        };
        let password = password.to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let argon2 = Argon2::default();
            argon2.verify_password(password.as_bytes(), &*hash).is_ok()
        });
        checked.await.unwrap_or(false) && known.is_some()
    }
}

fn parse(user: &UserConfig) -> Result<PasswordHash, String> {
    let wrong = |what: &str| {
        let name = &user.name;
        format!("user {name}: the password_hash {what}; make one with `pythia password`")
    };
    let hash = PasswordHash::new(&user.password_hash).map_err(|_| wrong("is not a PHC string"))?;
    let algorithm = Algorithm::try_from(hash.algorithm.as_str());
    if algorithm != Ok(Algorithm::Argon2id) || hash.hash.is_none() || hash.salt.is_none() {
        return Err(wrong("is not an argon2id hash"));
    }
    match Params::try_from(&hash) {
        Ok(params) if params.m_cost() <= MEMORY_KIB_MAX => Ok(hash),
        Ok(_) => Err(wrong("takes more than 256 MiB to check")),
        Err(_) => Err(wrong("has invalid parameters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, password_hash: &str) -> UserConfig {
        UserConfig {
            name: name.to_owned(),
            password_hash: password_hash.to_owned(),
            roles: Vec::new(),
        }
    }

    #[tokio::test]
    async fn only_the_users_own_password_is_right() {
        let hash = hash_password("correct horse").expect("a hash");
        assert!(hash.starts_with("$argon2id$v=19$m="));
        let passwords = Passwords::new(&[user("ada", &hash)]).expect("right");
        assert!(passwords.check("ada", "correct horse").await);
        assert!(!passwords.check("ada", "correct horsE").await);
        assert!(!passwords.check("bob", "correct horse").await);
        assert!(!passwords.check("ada", &"x".repeat(5000)).await);
        let none = Passwords::new(&[]).expect("right");
        assert!(!none.check("ada", "").await);
    }

    #[test]
    fn hashes_that_cannot_be_checked_are_refused() {
        let huge = "$argon2id$v=19$m=1048576,t=2,p=1$c2FsdHNhbHQ$jwZ6bQxJGUCyRVUtIyPxVDLVFAmZLdbfEDmmsvCqhHY";
        let weak =
            "$argon2i$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$jwZ6bQxJGUCyRVUtIyPxVDLVFAmZLdbfEDmmsvCqhHY";
        for (hash, told) in [
            ("secret", "not a PHC string"),
            (weak, "not an argon2id hash"),
            (huge, "256 MiB"),
        ] {
            let error = Passwords::new(&[user("ada", hash)]).expect_err(hash);
            assert!(
                error.contains(told) && error.contains("user ada"),
                "{error}"
            );
            assert!(!error.contains("jwZ6"), "no hash in messages");
        }
        let hash = hash_password("x").expect("a hash");
        assert!(Passwords::new(&[user("a:b", &hash)]).is_err());
        assert!(Passwords::new(&[user("a", &hash), user("a", &hash)]).is_err());
        assert!(hash_password("").is_err());
    }
}
