//! The configuration of a server: from a file, the environment and flags.
//!
//! ```text
//! pythia.toml → environment (PYTHIA_SERVE_…) → flags → Config, checked
//! ```
//!
//! [`ConfigSource`] reads all three, and again on reload. Every mistake is an error that names its place; nothing
//! is ignored.

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
pub(crate) use source::FileStamp;
pub use source::{ConfigSource, Overlay};

/// The configuration of a server.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on. Default 127.0.0.1:7878.
    #[serde(with = "bind")]
    pub bind: Vec<SocketAddr>,
    /// Certificate and key. Without them, connections are not encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The datasets to serve.
    #[serde(with = "dataset::by_name")]
    pub datasets: Vec<DatasetConfig>,
    /// Limits of requests.
    pub limits: Limits,
    /// Users, tokens and roles.
    pub security: SecurityConfig,
    /// Addresses that SERVICE and LOAD may reach.
    pub outbound: OutboundConfig,
    /// Host names that the server answers to, besides addresses and `localhost`. Default: none.
    pub hosts: Hosts,
    /// Origins whose pages may read answers; `*` is any origin. Default: none.
    pub cors_origins: Vec<String>,
    /// Proxies whose header `X-Forwarded-For` is trusted.
    pub trusted_proxies: Proxies,
    /// The log of the server's own events.
    pub log: LogConfig,
    /// Export of traces.
    pub tracing: TracingConfig,
    /// Settings for operators.
    pub operate: OperateConfig,
}

/// A certificate chain and its private key, as PEM files.
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
    /// Checks the settings together. Each value by itself was checked when it was read.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.bind.is_empty() {
            return Err(ConfigError::invalid("bind names no address to listen on"));
        }
        dataset::check_all(&self.datasets)?;
        self.limits.check()?;
        self.tracing.check()
    }

    /// Writes the configuration as TOML, defaults included, without secrets.
    pub fn to_toml(&self) -> String {
        print::to_toml(self)
    }
}
