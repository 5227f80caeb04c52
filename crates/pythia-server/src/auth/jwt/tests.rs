//! Tests with tokens signed here, with keys of each kind.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

use super::*;

/// Encodes bytes in base64url, as JWKs and tokens do.
fn base64url(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Makes a token: header, claims, and their signature.
fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!(
        "{}.{}",
        base64url(header.to_string()),
        base64url(claims.to_string())
    );
    let signature = sign(message.as_bytes());
    format!("{message}.{}", base64url(signature))
}

/// A signing key.
enum Pair {
    Es256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// A signing key, and its public key as a JWK.
struct Signer {
    id: &'static str,
    pair: Pair,
    jwk: Value,
}

fn es256(id: &'static str) -> Signer {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("a key");
    let point = pair.public_key().as_ref();
    Signer {
        id,
        jwk: json!({ "kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "use": "sig",
            "x": base64url(&point[1..33]), "y": base64url(&point[33..]) }),
        pair: Pair::Es256(pair),
    }
}

fn ed25519(id: &'static str) -> Signer {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key");
    Signer {
        id,
        jwk: json!({ "kty": "OKP", "crv": "Ed25519", "kid": id,
            "x": base64url(pair.public_key()) }),
        pair: Pair::Ed25519(pair),
    }
}

impl Signer {
    fn sign(&self, claims: &Value) -> String {
        let algorithm = match &self.pair {
            Pair::Es256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        };
        let header = json!({ "typ": "JWT", "alg": algorithm, "kid": self.id });
        token(&header, claims, |message| match &self.pair {
            Pair::Es256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message);
                signature.expect("signed").as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        })
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
    let signed = SignedTokens::new(&config(&path)).expect("right");
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

/// A public key and a token (valid until 2100) that were made with OpenSSL.
const RSA_MODULUS: &str = "\
    y1G3aFcdjjbg_Hwe5OpqGBcQ0dMzE6L2HheDM1vCnuIChBfsa-di1XrOjGaOwi_3TiYyZenDuoOyqLZwQ-sp5RtjvvxZQwDHCG0z\
    hASqCzzfH4ckV84iKy3l2saawjRU-rlLcJsKBJSsz4HeM43knvbiF3iNyQg_1dcM4C29SlVKxxlSxqHZCfMKKETfNt1Z7ph1xjYp\
    aOY2b17Fj6smNvkZECSD5dDuFMCxluAJQol02VnbGH814QYtKd9Y1HYdGWcREBQh0ikAAlKWiu2y_6GtDx9iivh-JpNBBKbBjbU1\
    _I8A7JPPwo93nrTMrlu5yTVXUWmcfF-EYkgAohtvXQ";
const RSA_TOKEN: &str = "\
    eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhZGEiLCJpc3MiOiJodHRwczovL2lkLmV4YW1\
    wbGUiLCJhdWQiOiJweXRoaWEiLCJleHAiOjQxMDI0NDQ4MDB9.EXQz7h8J_NfdFQYujtyl8u8nLB9Ee2oGnHbruo-JcjqvMmdLHO\
    VSUicr4vJgY1ftubTBqM8sQ9XJdAA7DSfGToFYWpm-Oz69DnE5dSViAxAf4LT6QZXdqffGjcQwaMDByz7i4a9tBRdRMw9-dVkADb\
    GKHxJxWrxYzvCB1y4Cx-FwxTWxTnQ3NxMgill7TsUptjgmyGI87KNOc1pDcfjfSrsrQ6K7IGhov5ymLgKzJZLX9bW0ggZ5-ieTYh\
    t-GDC38YPccQuQosGOAEkRN0KoXe35GxHknm8qhQzjcbpymmvi-IrdkqxpIilDGyo75r-ARofjRQ2TJ2o1_iMBt2BPYg";

#[test]
fn tokens_signed_with_rsa_are_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let check = |modulus: &str, token: &str| {
        let key = json!({ "kty": "RSA", "kid": "rsa", "n": modulus, "e": "AQAB" });
        std::fs::write(&path, json!({ "keys": [key] }).to_string()).expect("written");
        let signed = SignedTokens::new(&config(&path)).expect("right");
        signed.check(token).map(|claims| claims.user)
    };
    assert_eq!(check(RSA_MODULUS, RSA_TOKEN).as_deref(), Ok("ada"));
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(RSA_MODULUS).expect("base64");
    let with_zero = base64url([&[0][..], &bytes].concat());
    assert_eq!(check(&with_zero, RSA_TOKEN).as_deref(), Ok("ada"));
    let wrong = |checked: Result<String, &str>| {
        assert_eq!(checked, Err("the token's signature is wrong"));
    };
    let (message, signature) = RSA_TOKEN.rsplit_once('.').expect("three parts");
    let mut signature = BASE64_URL_SAFE_NO_PAD.decode(signature).expect("base64");
    signature[7] ^= 1;
    let forged = format!("{message}.{}", base64url(&signature));
    wrong(check(RSA_MODULUS, &forged));
    wrong(check(&base64url(&bytes[..128]), RSA_TOKEN));
}

/// A key file with a broken key: it checks no signature and stops nothing.
#[test]
fn keys_of_the_wrong_length_check_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let (mut es, mut ed) = (es256("one"), ed25519("two"));
    es.jwk["x"] = json!("AQAB");
    ed.jwk["x"] = json!("AQAB");
    write(&path, &[&es, &ed]);
    let signed = SignedTokens::new(&config(&path)).expect("right");
    for signer in [&es, &ed] {
        let error = signed.check(&signer.sign(&good())).err();
        assert_eq!(error, Some("the token's signature is wrong"));
    }
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
    let signed = SignedTokens::new(&config(&path)).expect("right");
    let unsigned = token(&json!({ "alg": "none" }), &good(), |_| Vec::new());
    assert!(signed.check(&unsigned).is_err());
    let secret = es.jwk["x"].as_str().expect("text").as_bytes();
    let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let header = json!({ "alg": "HS256", "kid": "one" });
    let forged = token(&header, &good(), |message| {
        hmac::sign(&secret, message).as_ref().to_vec()
    });
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
    let signed = SignedTokens::new(&config(&path)).expect("right");
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
    let told = |config: &JwtConfig| SignedTokens::new(config).expect_err("refused");
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
