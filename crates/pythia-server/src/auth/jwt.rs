//! Tokens signed by an identity provider (RFC 7519), checked with keys from a file.

mod verifier;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::RwLock;
use serde_json::{Map, Value};

use super::config::JwtConfig;
use crate::config::FileStamp;

/// Interval between checks whether the file has changed.
const LOOK_AFTER: Duration = Duration::from_secs(2);
/// Limit on the size of a key file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Limit on the keys that are tried for a token without a key id.
const KEYS_TRIED_MAX: usize = 16;

/// Checks signed tokens.
#[derive(Debug)]
pub(super) struct SignedTokens {
    config: JwtConfig,
    algorithms: Vec<Algorithm>,
    keys: RwLock<Keys>,
}

/// The keys of the file when it was last read.
#[derive(Debug)]
struct Keys {
    keys: Vec<Key>,
    stamp: FileStamp,
    looked: Instant,
}

struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?})", self.id)
    }
}

/// The claims of a valid token.
pub(super) struct Claims {
    pub(super) user: String,
    pub(super) roles: Vec<String>,
    /// Expiry time, with the leeway added.
    pub(super) expires: SystemTime,
}

impl SignedTokens {
    pub(super) fn new(config: &JwtConfig) -> Result<Self, String> {
        if config.issuer.is_empty() || config.audience.is_empty() {
            return Err("jwt: set issuer and audience".to_owned());
        }
        verifier::install();
        let algorithms = config.algorithms.iter().map(|name| match name.as_str() {
            "RS256" => Ok(Algorithm::RS256),
            "ES256" => Ok(Algorithm::ES256),
            "EdDSA" => Ok(Algorithm::EdDSA),
            other => Err(format!(
                "jwt: algorithm {other} is not one of RS256, ES256 and EdDSA"
            )),
        });
        let stamp = stamp_of(&config.jwks);
        Ok(Self {
            algorithms: algorithms.collect::<Result<_, _>>()?,
            keys: RwLock::new(Keys {
                keys: read(&config.jwks)?,
                stamp,
                looked: Instant::now(),
            }),
            config: config.clone(),
        })
    }

    /// Returns a token's claims if its signature, times, issuer and audience are valid.
    ///
    /// # Errors
    /// The reason, in words that reveal nothing about keys.
    pub(super) fn check(&self, token: &str) -> Result<Claims, &'static str> {
        let header = decode_header(token).map_err(|_| "the token is malformed")?;
        if !self.algorithms.contains(&header.alg) {
            return Err("the token is signed with an algorithm that is not accepted");
        }
        self.look_again();
        let keys = self.keys.read();
        let fits = |key: &&Key| {
            let named = header.kid.is_none() || key.id == header.kid;
            key.algorithm == header.alg && named
        };
        let mut wrong = "the token is signed with an unknown key";
        for key in keys.keys.iter().filter(fits).take(KEYS_TRIED_MAX) {
            match decode::<Map<String, Value>>(token, &key.key, &self.validation(header.alg)) {
                Ok(decoded) => return self.claims(&decoded.claims),
                Err(error) => wrong = told(&error),
            }
        }
        Err(wrong)
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.config.leeway.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&self.config.issuer);
        validation.set_audience(&self.config.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation
    }

    fn claims(&self, claims: &Map<String, Value>) -> Result<Claims, &'static str> {
        let user = claims.get(&self.config.user_claim).and_then(Value::as_str);
        let user = user.filter(|user| !user.is_empty());
        let expires = claims.get("exp").and_then(Value::as_f64);
        let expires = expires.and_then(|at| Duration::try_from_secs_f64(at).ok());
        let expires = expires.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at));
        let leeway = self.config.leeway;
        Ok(Claims {
            user: user.ok_or("the token names no user")?.to_owned(),
            roles: roles(claims, &self.config.roles_claim),
            expires: expires.ok_or("the token's exp is not a time")? + leeway,
        })
    }

    /// Reads the file again if it has changed. If it cannot be read, the old keys stay in use.
    fn look_again(&self) {
        let now = Instant::now();
        if now.saturating_duration_since(self.keys.read().looked) < LOOK_AFTER {
            return;
        }
        let stamp = stamp_of(&self.config.jwks);
        let mut keys = self.keys.write();
        keys.looked = now;
        if keys.stamp == stamp {
            return;
        }
        keys.stamp = stamp;
        match read(&self.config.jwks) {
            Ok(read) => keys.keys = read,
            Err(error) => tracing::warn!("{error}; the keys read before stay in use"),
        }
    }
}

fn stamp_of(path: &Path) -> FileStamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Reads the public keys of a file that can check signatures.
fn read(path: &Path) -> Result<Vec<Key>, String> {
    let wrong = |what: String| format!("jwt: {}: {what}", path.display());
    let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(wrong("is larger than 1 MiB".to_owned()));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let set: JwkSet =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("not a JWK set: {error}")))?;
    let keys: Vec<Key> = set.keys.iter().filter_map(key).collect();
    match keys.is_empty() {
        true => Err(wrong("has no key for RS256, ES256 or EdDSA".to_owned())),
        false => Ok(keys),
    }
}

/// Returns the key of a JWK if it can check signatures of a supported algorithm. Shared secrets cannot.
fn key(jwk: &Jwk) -> Option<Key> {
    if !matches!(
        jwk.common.public_key_use,
        None | Some(PublicKeyUse::Signature)
    ) {
        return None;
    }
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(_) => (Algorithm::EdDSA, KeyAlgorithm::EdDSA),
        _ => return None,
    };
    if jwk.common.key_algorithm.is_some_and(|said| said != named) {
        return None;
    }
    Some(Key {
        id: jwk.common.key_id.clone(),
        algorithm,
        key: DecodingKey::from_jwk(jwk).ok()?,
    })
}

fn told(error: &jsonwebtoken::errors::Error) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::ExpiredSignature => "the token has expired",
        ErrorKind::ImmatureSignature => "the token is not valid yet",
        ErrorKind::InvalidIssuer => "the token's issuer is not accepted",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "the token has no exp, no iss or no aud",
        ErrorKind::InvalidSignature => "the token's signature is wrong",
        _ => "the token is malformed",
    }
}

/// Returns the names in a claim, which may be nested.
fn roles(claims: &Map<String, Value>, path: &str) -> Vec<String> {
    let found = claims.get(path).or_else(|| {
        let mut names = path.split('.');
        let first = claims.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    });
    match found {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            names.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
