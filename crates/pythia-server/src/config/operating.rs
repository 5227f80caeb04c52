//! Settings of logs, traces and metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, human};

/// The log on standard error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// One line of text, or one JSON object, per event.
    pub format: LogFormat,
    /// The lowest level that is written. Default: info.
    pub level: Level,
    /// Levels for parts of the program, by module path.
    pub targets: BTreeMap<String, Level>,
    /// Writes a line for every request. Default: no.
    pub access: bool,
    /// Queries and updates that take at least this long are logged with their text and plan. Default 10 s.
    #[serde(with = "human")]
    pub slow_query: Duration,
    /// Measures queries as they run, so that the logged plans of slow ones show what each operator took. Default:
    /// no.
    pub measure: bool,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

/// A log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Failures and warnings.
    Warn,
    /// Also important events.
    #[default]
    Info,
    /// Also details.
    Debug,
    /// Everything.
    Trace,
}

/// Traces of requests, sent with OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TracingConfig {
    /// The collector, for example `http://127.0.0.1:4318/v1/traces`. Without it, no traces are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The share of requests to trace, from 0 to 1, among those whose header `traceparent` does not decide it.
    /// Default 1.
    pub sample: f64,
    /// The name of this server in traces. Default: pythia.
    pub service: String,
    /// Headers to send with traces, for example for authentication.
    #[serde(skip_serializing)]
    pub headers: BTreeMap<String, String>,
    /// Time limit for sending. Default 10 s.
    #[serde(with = "human")]
    pub timeout: Duration,
}

/// Settings for operators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperateConfig {
    /// Access to `/$/metrics`. Default: this machine and administrators.
    pub metrics: MetricsFor,
    /// Folder for the backups that `/$/backup/{dataset}` makes, each dataset's in a subfolder with its name.
    /// Without it, the path answers 403.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_folder: Option<PathBuf>,
    /// Reloads the configuration file when it changes. Default: yes.
    pub watch: bool,
}

/// The clients that may read metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsFor {
    /// This machine and administrators.
    #[default]
    Loopback,
    /// Every client.
    All,
    /// Administrators.
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
                "tracing.sample must be between 0.0 and 1.0, the share of requests to trace",
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
                let message =
                    format!("tracing.headers: {name:?} and its value are not a valid header");
                return Err(ConfigError::invalid(message));
            }
        }
        Ok(())
    }
}
