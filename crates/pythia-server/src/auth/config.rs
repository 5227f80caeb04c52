//! The table `security` of the configuration: users, tokens, roles, signed tokens.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::human;

/// Users, tokens and roles. If none are configured, everybody may do everything, and the server listens on this
/// machine only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecurityConfig {
    /// Allows other machines to reach a server without access control. Default: no.
    pub open: bool,
    /// The role of requests without credentials. Default: none; such requests are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<String>,
    /// People and programs with a password.
    pub users: Vec<UserConfig>,
    /// Programs with a bearer token.
    pub tokens: Vec<TokenConfig>,
    /// Permissions and limits that users and tokens refer to.
    pub roles: Vec<RoleConfig>,
    /// Signed tokens (JWT) to accept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtConfig>,
    /// Failed authentications allowed per address and minute. Default 20.
    pub failures_per_minute: u32,
}

/// A user with a password (`Authorization: Basic`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UserConfig {
    /// The name.
    pub name: String,
    /// The hash that `pythia password` prints.
    pub password_hash: String,
    /// Names of roles.
    pub roles: Vec<String>,
}

/// A token (`Authorization: Bearer`).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// The name of the token's owner, for logs and fairness.
    pub name: String,
    /// The SHA-256 hash that `pythia token` prints beside the token.
    pub sha256: String,
    /// Names of roles.
    pub roles: Vec<String>,
}

/// A role: a set of permissions and limits.
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
    /// Graphs to change. A graph that may be changed may also be read.
    #[serde(default)]
    pub write: Vec<String>,
    /// Allows administration: compaction, backups, cancelling requests of others.
    #[serde(default)]
    pub admin: bool,
    /// Limits of requests with this role, in place of the server's.
    #[serde(default, skip_serializing_if = "RoleLimits::is_empty")]
    pub limits: RoleLimits,
}

/// Limits of a role. A limit that is not set is the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleLimits {
    /// Time limit of a query or update.
    #[serde(with = "human::optional", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Bytes a query may hold.
    #[serde(
        rename = "query_memory",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub query_memory_bytes: Option<usize>,
    /// Results a query may return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Requests per second for each user, or for each address if anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

impl RoleLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Tokens signed by an identity provider (RFC 7519).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// A file with public keys (a JWK set, RFC 7517), read again when it changes.
    pub jwks: PathBuf,
    /// Accepted issuers: the claim `iss` must be one of them.
    pub issuer: Vec<String>,
    /// Accepted audiences: the claim `aud` must contain one of them.
    pub audience: Vec<String>,
    /// Accepted algorithms, of RS256, ES256 and EdDSA. Default: all of them.
    #[serde(default = "all_algorithms")]
    pub algorithms: Vec<String>,
    /// The claim with the user's name. Default: `sub`.
    #[serde(default = "sub")]
    pub user_claim: String,
    /// The claim with the names of roles: a list, or a text separated by spaces. Dots address nested claims, as in
    /// `realm_access.roles`. Default: `roles`.
    #[serde(default = "roles")]
    pub roles_claim: String,
    /// Allowed clock difference, in seconds. Default 30.
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
    /// Returns whether no user, token, role, key or anonymous role is configured.
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
