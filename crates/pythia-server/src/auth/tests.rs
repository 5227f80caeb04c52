//! Requests with and without credentials.

use super::config::{RoleConfig, TokenConfig, UserConfig};
use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn role(name: &str, read: &[&str], write: &[&str]) -> RoleConfig {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    RoleConfig {
        name: name.to_owned(),
        datasets: vec!["*".to_owned()],
        read: owned(read),
        write: owned(write),
        ..RoleConfig::default()
    }
}

/// Returns a configuration: Ada, whose password is `enchantress`, may write; robots and guests may read.
fn config(token: &str) -> SecurityConfig {
    SecurityConfig {
        anonymous: Some("guest".to_owned()),
        users: vec![UserConfig {
            name: "ada".to_owned(),
            password_hash: hash_password("enchantress").expect("a hash"),
            roles: vec!["writer".to_owned()],
        }],
        tokens: vec![TokenConfig {
            name: "robot".to_owned(),
            sha256: token.to_owned(),
            roles: vec!["reader".to_owned()],
        }],
        roles: vec![
            role("writer", &[], &["*"]),
            role("reader", &["*"], &[]),
            role("guest", &["default"], &[]),
        ],
        failures_per_minute: 3,
        ..SecurityConfig::default()
    }
}

async fn ask(auth: &Auth, authorization: Option<&str>) -> Result<Identity, HttpError> {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(AUTHORIZATION, value.parse().expect("a header"));
    }
    auth.identify(&headers, PEER).await
}

/// `ada:enchantress`, `ada:wrong` and `eve:enchantress`.
const RIGHT: &str = "Basic YWRhOmVuY2hhbnRyZXNz";
const WRONG: &str = "Basic YWRhOndyb25n";
const STRANGER: &str = "basic ZXZlOmVuY2hhbnRyZXNz";

#[tokio::test]
async fn who_asks_is_told_by_password_or_token() {
    let (token, sha256) = new_token();
    let auth = Auth::new(&config(&sha256)).expect("right");
    assert!(!auth.is_open());
    let ada = ask(&auth, Some(RIGHT)).await.expect("known");
    assert_eq!(ada.user.as_deref(), Some("ada"));
    assert!(ada.access("any").write.is_all());
    let robot = ask(&auth, Some(&format!("Bearer {token}")))
        .await
        .expect("known");
    assert_eq!(robot.user.as_deref(), Some("robot"));
    let access = robot.access("any");
    assert!(access.read.is_all() && access.write.is_none() && !access.admin);
    let guest = ask(&auth, None).await.expect("a guest");
    assert_eq!(guest.user, None);
    let access = guest.access("any");
    assert!(access.read.allows_default() && !access.read.allows_all_named());
    assert_eq!(guest.refuse("it").status, StatusCode::UNAUTHORIZED);
    assert_eq!(robot.refuse("it").status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn wrong_credentials_are_answered_alike_and_then_slowed_down() {
    let auth = Auth::new(&config(&new_token().1)).expect("right");
    let wrong = ask(&auth, Some(WRONG)).await.expect_err("wrong");
    let stranger = ask(&auth, Some(STRANGER)).await.expect_err("wrong");
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert_eq!(wrong.message, stranger.message);
    for nonsense in ["Basic", "Basic !", "Digest x", "Negotiate x", ""] {
        let error = ask(&auth, Some(nonsense)).await.expect_err(nonsense);
        assert_eq!(error.status, StatusCode::UNAUTHORIZED, "{nonsense}");
    }
    // Succeeds before the limit is reached, and is remembered beyond it.
    assert!(ask(&auth, Some(RIGHT)).await.is_ok());
    let third = ask(&auth, Some("Bearer guess")).await.expect_err("wrong");
    assert_eq!(third.status, StatusCode::UNAUTHORIZED);
    let slowed = ask(&auth, Some(WRONG)).await.expect_err("slowed down");
    assert_eq!(slowed.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(ask(&auth, Some(RIGHT)).await.is_ok());
    assert!(ask(&auth, None).await.is_ok());
}

#[tokio::test]
async fn without_configuration_everybody_may_do_everything_from_this_machine() {
    let auth = Auth::new(&SecurityConfig::default()).expect("right");
    assert!(auth.is_open());
    let anybody = ask(&auth, Some("Basic x")).await.expect("anybody");
    let access = anybody.access("any");
    assert!(access.admin && access.write.is_all());
    let here: Vec<SocketAddr> = ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]
        .map(|address| address.parse().expect("an address"))
        .to_vec();
    assert_eq!(auth.check_bind(&here), Ok(()));
    let everywhere: SocketAddr = "0.0.0.0:1".parse().expect("an address");
    let refused = auth
        .check_bind(&[here[0], everywhere])
        .expect_err("refused");
    assert!(refused.contains("security.open"), "{refused}");
    let open = SecurityConfig {
        open: true,
        ..SecurityConfig::default()
    };
    let open = Auth::new(&open).expect("right");
    assert_eq!(open.check_bind(&[everywhere]), Ok(()));
    let secured = Auth::new(&config(&new_token().1)).expect("right");
    assert_eq!(secured.check_bind(&[everywhere]), Ok(()));
}

#[tokio::test]
async fn a_page_of_another_origin_changes_nothing_with_a_password_that_a_browser_knows() {
    let (token, sha256) = new_token();
    let auth = Auth::new(&config(&sha256)).expect("right");
    let parts = |origin: &str| {
        let request = http::Request::builder().header("origin", origin);
        let request = request.header("host", "db.example").body(());
        request.expect("a request").into_parts().0
    };
    let (own, other) = (parts("https://db.example"), parts("https://evil.example"));
    let ada = ask(&auth, Some(RIGHT)).await.expect("known");
    assert!(
        ada.clone()
            .asking_by(&own, &[])
            .access("any")
            .write
            .is_all()
    );
    let access = ada
        .clone()
        .asking_by(&other, &["*".to_owned()])
        .access("any");
    assert!(access.write.is_none() && access.read.is_all());
    let named = ["https://evil.example".to_owned()];
    assert!(ada.asking_by(&other, &named).access("any").write.is_all());
    let open = Auth::new(&SecurityConfig::default()).expect("right");
    let anybody = ask(&open, None).await.expect("anybody");
    let access = anybody.asking_by(&other, &[]).access("any");
    assert!(access.write.is_none() && !access.admin);
    let writing = SecurityConfig {
        tokens: vec![TokenConfig {
            roles: vec!["writer".to_owned()],
            ..config(&sha256).tokens.remove(0)
        }],
        ..config(&sha256)
    };
    let auth = Auth::new(&writing).expect("right");
    let robot = ask(&auth, Some(&format!("Bearer {token}")))
        .await
        .expect("known");
    assert!(robot.asking_by(&other, &[]).access("any").write.is_all());
}

#[test]
fn security_is_read_from_toml_and_printed_without_secrets() {
    let text = format!(
        "[security]\nanonymous = 'guest'\n\
         [[security.roles]]\nname = 'guest'\ndatasets = ['*']\nread = ['default']\n\
         [[security.users]]\nname = 'ada'\npassword_hash = '{}'\nroles = ['guest']\n\
         [[security.tokens]]\nname = 'robot'\nsha256 = '{}'\nroles = []\n\
         [outbound]\nallow = ['https://query.example/*', '10.0.0.0/8']\n",
        hash_password("enchantress").expect("a hash"),
        new_token().1,
    );
    let read: crate::Config = toml::from_str(&text).expect("a configuration");
    assert!(Auth::new(&read.security).is_ok());
    assert_eq!(read.outbound.allow.len(), 2);
    let printed = read.to_toml();
    assert!(printed.contains("name = \"ada\""), "{printed}");
    for secret in ["argon2id", &read.security.tokens[0].sha256] {
        assert!(!printed.contains(secret), "{printed}");
    }
    let slip = text.replace("anonymous", "anonymus");
    assert!(toml::from_str::<crate::Config>(&slip).is_err());
    let missing = text.replace("'guest'\ndatasets", "'other'\ndatasets");
    let missing: crate::Config = toml::from_str(&missing).expect("a configuration");
    let wrong = Auth::new(&missing.security).err().expect("wrong");
    assert!(wrong.contains("there is no role guest"), "{wrong}");
}
