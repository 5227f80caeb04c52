//! Tests with tokens signed here, with keys of each kind.

use std::path::Path;

use jsonwebtoken::{EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use serde_json::json;

use super::*;

/// Encodes bytes in base64url, as JWKs do.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits = 0_u32;
        for place in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(place).copied().unwrap_or(0));
        }
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    text
}

/// A signing key, and its public key as a JWK.
struct Signer {
    algorithm: Algorithm,
    id: &'static str,
    key: EncodingKey,
    jwk: Value,
}

fn es256(id: &'static str) -> Signer {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let point = pair.public_key_raw();
    Signer {
        algorithm: Algorithm::ES256,
        id,
        key: EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).expect("a key"),
        jwk: json!({ "kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "use": "sig",
            "x": base64url(&point[1..33]), "y": base64url(&point[33..]) }),
    }
}

fn ed25519(id: &'static str) -> Signer {
    let pair = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    Signer {
        algorithm: Algorithm::EdDSA,
        id,
        key: EncodingKey::from_ed_pem(pair.serialize_pem().as_bytes()).expect("a key"),
        jwk: json!({ "kty": "OKP", "crv": "Ed25519", "kid": id,
            "x": base64url(pair.public_key_raw()) }),
    }
}

impl Signer {
    fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.id.to_owned());
        encode(&header, claims, &self.key).expect("signed")
    }
}

fn write(path: &Path, signers: &[&Signer]) {
    let keys: Vec<&Value> = signers.iter().map(|signer| &signer.jwk).collect();
    std::fs::write(path, json!({ "keys": keys }).to_string()).expect("written");
}

fn config(path: &Path) -> JwtConfig {
    let text = json!({ "jwks": path, "issuer": ["https://id.example"], "audience": ["pythia"],
        "roles_claim": "realm_access.roles" });
    serde_json::from_value(text).expect("a configuration")
}

fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs() as i64 + seconds
}

fn good() -> Value {
    json!({ "sub": "ada", "iss": "https://id.example", "aud": ["other", "pythia"],
        "exp": in_seconds(60), "realm_access": { "roles": ["reader", "writer"] } })
}

#[test]
fn tokens_are_believed_if_all_of_them_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let (es, ed) = (es256("one"), ed25519("two"));
    write(&path, &[&es, &ed]);
    let signed = Signed::new(&config(&path)).expect("right");
    for signer in [&es, &ed] {
        let claims = signed.check(&signer.sign(&good())).expect("believed");
        assert_eq!(claims.user, "ada");
        assert_eq!(claims.roles, ["reader", "writer"]);
        assert!(claims.expires > SystemTime::now());
    }
    for (claim, value, told) in [
        ("exp", json!(in_seconds(-100)), "has expired"),
        ("exp", Value::Null, "no exp"),
        ("nbf", json!(in_seconds(100)), "not valid yet"),
        (
            "iss",
            json!("https://evil.example"),
            "issuer is not accepted",
        ),
        ("iss", Value::Null, "no exp, no iss"),
        ("aud", json!("other"), "another audience"),
        ("aud", Value::Null, "no aud"),
        ("sub", Value::Null, "names no user"),
    ] {
        let mut claims = good();
        match value {
            Value::Null => drop(claims.as_object_mut().expect("one").remove(claim)),
            value => claims[claim] = value,
        }
        let error = signed.check(&es.sign(&claims)).err().expect(claim);
        assert!(error.contains(told), "{claim}: {error}");
    }
    let stranger = es256("one");
    let error = signed.check(&stranger.sign(&good())).err();
    assert_eq!(error, Some("the token's signature is wrong"));
    let error = signed.check(&es256("three").sign(&good())).err();
    assert_eq!(error, Some("the token is signed with an unknown key"));
}

/// A remembered token must not be accepted as a password, nor a password as a token.
#[tokio::test]
async fn credentials_of_one_scheme_are_none_of_another() {
    use crate::auth::Auth;
    use crate::auth::config::{RoleConfig, SecurityConfig, UserConfig};

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let es = es256("one");
    write(&path, &[&es]);
    let security = SecurityConfig {
        roles: vec![RoleConfig {
            name: "writer".to_owned(),
            ..RoleConfig::default()
        }],
        users: vec![UserConfig {
            name: "ada".to_owned(),
            password_hash: crate::hash_password("enchantress").expect("a hash"),
            roles: vec!["writer".to_owned()],
        }],
        jwt: Some(config(&path)),
        ..SecurityConfig::default()
    };
    let auth = Auth::new(&security).expect("right");
    let status = async |scheme: &str, credentials: &str| {
        let mut headers = http::HeaderMap::new();
        let value = format!("{scheme} {credentials}").parse().expect("a header");
        headers.insert(http::header::AUTHORIZATION, value);
        let peer = [192, 0, 2, 1].into();
        let found = auth.identify(&headers, peer).await;
        found.map_or_else(|error| error.status.as_u16(), |_| 200)
    };
    let token = es.sign(&good());
    // `ada:enchantress`
    let password = "YWRhOmVuY2hhbnRyZXNz";
    for _ in 0..2 {
        assert_eq!(status("Bearer", &token).await, 200);
        assert_eq!(status("Basic", password).await, 200);
        assert_eq!(status("Basic", &token).await, 401);
        assert_eq!(status("Bearer", password).await, 401);
    }
}

/// The classic forgeries: no signature, and a public key used as a shared secret.
#[test]
fn forged_algorithms_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let es = es256("one");
    write(&path, &[&es]);
    let signed = Signed::new(&config(&path)).expect("right");
    let part = |value: Value| base64url(value.to_string().as_bytes());
    let unsigned = format!("{}.{}.", part(json!({ "alg": "none" })), part(good()));
    assert!(signed.check(&unsigned).is_err());
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("one".to_owned());
    let secret = EncodingKey::from_secret(es.jwk["x"].as_str().expect("text").as_bytes());
    let forged = encode(&header, &good(), &secret).expect("signed");
    let error = signed.check(&forged).err();
    assert_eq!(
        error,
        Some("the token is signed with an algorithm that is not accepted")
    );
    for garbage in ["", "a.b.c", "....", "ö"] {
        assert!(signed.check(garbage).is_err(), "{garbage}");
    }
}

#[test]
fn a_changed_file_is_read_again_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let (old, new) = (es256("old"), ed25519("new"));
    write(&path, &[&old]);
    let signed = Signed::new(&config(&path)).expect("right");
    let later = || signed.keys.write().looked -= 2 * LOOK_AFTER;
    write(&path, &[&new]);
    assert!(
        signed.check(&old.sign(&good())).is_ok(),
        "not looked at yet"
    );
    later();
    assert!(signed.check(&new.sign(&good())).is_ok());
    assert!(signed.check(&old.sign(&good())).is_err());
    std::fs::write(&path, "{").expect("written");
    later();
    assert!(signed.check(&new.sign(&good())).is_ok());
    std::fs::remove_file(&path).expect("removed");
    later();
    assert!(signed.check(&new.sign(&good())).is_ok());
}

#[test]
fn configurations_that_believe_too_much_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let told = |config: &JwtConfig| Signed::new(config).expect_err("refused");
    assert!(told(&config(&path)).contains("keys.json"));
    let secret = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }] });
    std::fs::write(&path, secret.to_string()).expect("written");
    assert!(told(&config(&path)).contains("no key for RS256"));
    write(&path, &[&es256("one")]);
    let mut anybody = config(&path);
    anybody.audience.clear();
    assert!(told(&anybody).contains("audience"));
    let mut weak = config(&path);
    weak.algorithms = vec!["HS256".to_owned()];
    assert!(told(&weak).contains("HS256 is not one of"));
}
