//! Who may do what, as it is configured: the table `security`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::human;

/// Users, tokens and roles. Without any of them everybody may do everything, and the server listens
/// on this machine only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecurityConfig {
    /// Lets a server that everybody may use be reached from other machines. Default: no.
    pub open: bool,
    /// The role of who does not say who they are. Default: none, they may do nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<String>,
    /// People and programs with a password.
    pub users: Vec<UserConfig>,
    /// Programs with a bearer token.
    pub tokens: Vec<TokenConfig>,
    /// What users and tokens may do.
    pub roles: Vec<RoleConfig>,
    /// Whose signed tokens are believed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtConfig>,
    /// How often in a minute somebody at one address may fail to say who they are. Default 20.
    pub failures_per_minute: u32,
}

/// Somebody with a password (`Authorization: Basic`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// The name.
    pub name: String,
    /// What `pythia password` prints.
    pub password_hash: String,
    /// Names of roles.
    pub roles: Vec<String>,
}

/// A token (`Authorization: Bearer`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whose it is, for logs and fairness.
    pub name: String,
    /// What `pythia token` prints beside the token: the hash of it.
    pub sha256: String,
    /// Names of roles.
    pub roles: Vec<String>,
}

/// What somebody may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoleConfig {
    /// The name.
    pub name: String,
    /// Datasets by name, or `*`.
    pub datasets: Vec<String>,
    /// Graphs to read: `default`, IRIs, beginnings of IRIs (`http://example.org/*`), or `*`.
    #[serde(default)]
    pub read: Vec<String>,
    /// Graphs to change; who may change a graph may read it.
    #[serde(default)]
    pub write: Vec<String>,
    /// Whether tasks of operators may be done: compaction, backups, cancelling what others run.
    #[serde(default)]
    pub admin: bool,
    /// Limits of its requests in place of the server's.
    #[serde(default, skip_serializing_if = "RoleLimits::is_empty")]
    pub limits: RoleLimits,
}

/// What requests of a role may take, where that is not what the server's limits say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleLimits {
    /// Time of a query or update.
    #[serde(with = "human::optional", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Bytes a query may hold.
    #[serde(
        rename = "query_memory",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub query_memory_bytes: Option<usize>,
    /// Results a query may give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Requests per second of each user, or of each address of those who are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

impl RoleLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Tokens that somebody else signs (RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// A file with public keys (a JWK set, RFC 7517), read again when it changes.
    pub jwks: PathBuf,
    /// Who must have signed: one of these is the claim `iss`.
    pub issuer: Vec<String>,
    /// Whom it must be for: one of these is in the claim `aud`.
    pub audience: Vec<String>,
    /// Algorithms that are accepted, of RS256, ES256 and EdDSA. Default: all of them.
    #[serde(default = "all_algorithms")]
    pub algorithms: Vec<String>,
    /// The claim with the name. Default: `sub`.
    #[serde(default = "sub")]
    pub user_claim: String,
    /// The claim with names of roles, a list or a text with spaces; with dots it is inside others, as
    /// in `realm_access.roles`. Default: `roles`.
    #[serde(default = "roles")]
    pub roles_claim: String,
    /// Seconds that clocks may differ. Default 30.
    #[serde(default = "leeway", with = "human")]
    pub leeway: Duration,
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            open: false,
            anonymous: None,
            users: Vec::new(),
            tokens: Vec::new(),
            roles: Vec::new(),
            jwt: None,
            failures_per_minute: 20,
        }
    }
}

impl SecurityConfig {
    /// Whether nothing is said of who may do what.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
            && self.tokens.is_empty()
            && self.roles.is_empty()
            && self.jwt.is_none()
            && self.anonymous.is_none()
    }
}

fn all_algorithms() -> Vec<String> {
    ["RS256", "ES256", "EdDSA"].map(str::to_owned).to_vec()
}

fn sub() -> String {
    "sub".to_owned()
}

fn roles() -> String {
    "roles".to_owned()
}

fn leeway() -> Duration {
    Duration::from_secs(30)
}
