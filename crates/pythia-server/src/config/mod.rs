//! What is served, where, and within what limits: from a file, the environment and flags.
//!
//! ```text
//! pythia.toml → environment (PYTHIA_SERVE_…) → flags → Config, checked
//! ```
//!
//! [`ConfigSource`] reads all of it, again whenever the server is told to. Whatever is wrong is an
//! error that names its place; nothing is ignored.

mod bind;
mod dataset;
mod error;
pub(crate) mod human;
mod limits;
mod operating;
mod print;
mod proxies;
mod source;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::auth::config::{
    JwtConfig, RoleConfig, RoleLimits, SecurityConfig, TokenConfig, UserConfig,
};
pub use crate::hosts::Hosts;
pub use crate::outbound::config::OutboundConfig;
pub use bind::parse as parse_addresses;
pub use dataset::{DatasetConfig, WriteConfig};
pub use error::ConfigError;
pub use human::{parse_bytes, parse_time};
pub use limits::Limits;
pub use operating::{Level, LogConfig, LogFormat, MetricsFor, OperateConfig, TracingConfig};
pub use proxies::Proxies;
pub(crate) use source::FileState;
pub use source::{ConfigSource, Overlay};

/// All that a server is told.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens. Default 127.0.0.1:7878.
    #[serde(with = "bind")]
    pub bind: Vec<SocketAddr>,
    /// Certificate and key; without them connections are plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// What it serves.
    #[serde(with = "dataset::by_name")]
    pub datasets: Vec<DatasetConfig>,
    /// Limits of requests.
    pub limits: Limits,
    /// Who may do what.
    pub security: SecurityConfig,
    /// Whom SERVICE and LOAD may ask.
    pub outbound: OutboundConfig,
    /// Names that it answers to besides addresses and `localhost`. Default: none.
    pub hosts: Hosts,
    /// Origins whose pages may read answers; `*` is any. Default: none.
    pub cors_origins: Vec<String>,
    /// Proxies that are believed when they say whom a request comes from (`X-Forwarded-For`).
    pub trusted_proxies: Proxies,
    /// What it writes about what it does.
    pub log: LogConfig,
    /// Where it sends traces.
    pub tracing: TracingConfig,
    /// How it is looked after.
    pub operate: OperateConfig,
}

/// A certificate chain and its private key, PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 7878))],
            tls: None,
            datasets: Vec::new(),
            limits: Limits::default(),
            security: SecurityConfig::default(),
            outbound: OutboundConfig::default(),
            hosts: Hosts::default(),
            cors_origins: Vec::new(),
            trusted_proxies: Proxies::default(),
            log: LogConfig::default(),
            tracing: TracingConfig::default(),
            operate: OperateConfig::default(),
        }
    }
}

impl Config {
    /// What is wrong with it, each value by itself being right.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.bind.is_empty() {
            return Err(ConfigError::invalid("bind names no address to listen on"));
        }
        dataset::check_all(&self.datasets)?;
        self.limits.check()?;
        self.tracing.check()
    }

    /// As TOML, what is default included. What must stay secret is left out.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }
}
