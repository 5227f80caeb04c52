//! What a server tells operators, and how.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, human};

/// What is written to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// One line of text, or one JSON object, per event.
    pub format: LogFormat,
    /// The least that is written. Default: info.
    pub level: Level,
    /// Other levels for parts of the program, by module path.
    pub targets: BTreeMap<String, Level>,
    /// Whether every request is written. Default: no.
    pub access: bool,
    /// Queries and updates that take as long are written with their text and plan. Default 10 s.
    #[serde(with = "human")]
    pub slow_query: Duration,
    /// Whether queries are measured as they run, so that plans of slow ones say what each part took.
    /// Default: no.
    pub measure: bool,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How much is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What may need attention as well.
    Warn,
    /// What happened as well.
    #[default]
    Info,
    /// How it happened as well.
    Debug,
    /// All.
    Trace,
}

/// Traces of requests, sent with OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracingConfig {
    /// Where they go, for example `http://127.0.0.1:4318/v1/traces`. Without it, nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The part of requests that is traced, from 0 to 1, of those that do not say themselves whether
    /// they are (header `traceparent`). Default 1.
    pub sample: f64,
    /// The name that this server has in traces. Default: pythia.
    pub service: String,
    /// Headers to send with them, for example for authentication.
    #[serde(skip_serializing)]
    pub headers: BTreeMap<String, String>,
    /// How long sending may take. Default 10 s.
    #[serde(with = "human")]
    pub timeout: Duration,
}

/// How a server is looked after.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperateConfig {
    /// Who may read `/$/metrics`. Default: this machine, and admins.
    pub metrics: MetricsFor,
    /// Where `/$/backup/{dataset}` puts backups, each dataset's in a folder of its name. Without it,
    /// it refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_folder: Option<PathBuf>,
    /// Whether a changed file of configuration is taken over by itself. Default: yes.
    pub watch: bool,
}

/// Who may read metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsFor {
    /// This machine, and admins.
    #[default]
    Loopback,
    /// Everybody.
    All,
    /// Admins.
    Admins,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: Level::default(),
            targets: BTreeMap::new(),
            access: false,
            slow_query: Duration::from_secs(10),
            measure: false,
        }
    }
}

impl Default for TracingConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            sample: 1.0,
            service: "pythia".to_owned(),
            headers: BTreeMap::new(),
            timeout: Duration::from_secs(10),
        }
    }
}

impl Default for OperateConfig {
    fn default() -> Self {
        Self {
            metrics: MetricsFor::default(),
            backup_folder: None,
            watch: true,
        }
    }
}

impl TracingConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&self.sample) {
            return Err(ConfigError::invalid(
                "tracing.sample is a part of all requests, from 0.0 to 1.0",
            ));
        }
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        let uri: Result<http::Uri, _> = endpoint.parse();
        let known = uri.is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        if !known {
            return Err(ConfigError::invalid(
                "tracing.endpoint must be a URL, for example http://127.0.0.1:4318/v1/traces",
            ));
        }
        for (name, value) in &self.headers {
            let name_is_one = name.parse::<http::HeaderName>().is_ok();
            if !name_is_one || value.parse::<http::HeaderValue>().is_err() {
                // The value may be a secret.
                let message = format!("tracing.headers: {name:?} and its value are no header");
                return Err(ConfigError::invalid(message));
            }
        }
        Ok(())
    }
}
