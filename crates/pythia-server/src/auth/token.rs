//! Bearer tokens whose hashes this server knows.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Identity;
use super::config::TokenConfig;
use super::role::Roles;

/// Prefix of Pythia's tokens, by which scanners find leaked ones.
const PREFIX: &str = "pythia_";

/// Returns a new token, and its hash for the configuration.
pub fn new_token() -> (String, String) {
    let random: [u8; 32] = rand::random();
    let token = format!("{PREFIX}{}", hex::encode(random));
    let hash = hex::encode(hash_of(&token));
    (token, hash)
}

/// The configured tokens, by their hashes.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: Vec<([u8; 32], Identity)>,
}

impl Tokens {
    pub(super) fn new(configs: &[TokenConfig], roles: &Roles) -> Result<Self, String> {
        let mut tokens: Vec<([u8; 32], Identity)> = Vec::new();
        for config in configs {
            let whose = format!("token {}", config.name);
            let mut hash = [0; 32];
            hex::decode_to_slice(&config.sha256, &mut hash).map_err(|_| {
                format!("{whose}: sha256 has 64 hexadecimal digits; `pythia token` makes one")
            })?;
            if tokens.iter().any(|(other, _)| *other == hash) {
                return Err(format!("{whose}: another token has the same sha256"));
            }
            let roles = roles.named(&config.roles, &whose)?;
            tokens.push((hash, Identity::named(&config.name, roles)));
        }
        Ok(Self { tokens })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the owner of a token, in constant time.
    pub(super) fn find(&self, token: &str) -> Option<&Identity> {
        let hash = hash_of(token);
        let mut found = None;
        for (known, identity) in &self.tokens {
            if known.ct_eq(&hash).into() {
                found = Some(identity);
            }
        }
        found
    }
}

fn hash_of(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash() {
        let (token, sha256) = new_token();
        let config = TokenConfig {
            name: "robot".to_owned(),
            sha256,
            roles: Vec::new(),
        };
        let tokens = Tokens::new(std::slice::from_ref(&config), &Roles::default()).expect("right");
        let user = |token: &str| tokens.find(token).and_then(|who| who.user.clone());
        assert_eq!(user(&token).as_deref(), Some("robot"));
        assert_eq!(user(&token[1..]), None);
        assert_eq!(user(""), None);
        let twice = [config.clone(), config.clone()];
        assert!(Tokens::new(&twice, &Roles::default()).is_err());
        let wrong = TokenConfig {
            sha256: "abc".to_owned(),
            ..config
        };
        assert!(Tokens::new(&[wrong], &Roles::default()).is_err());
    }
}
