//! The table `outbound` of the configuration: addresses that the server may send requests to.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::human;

/// Addresses that SERVICE and LOAD may reach. Default: none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboundConfig {
    /// URLs (`https://query.wikidata.org/sparql`), beginnings of URLs (`https://*.example.org/data/*`), and
    /// addresses or networks (`10.0.0.0/8`).
    pub allow: Vec<String>,
    /// The folder whose files LOAD may read through `file:` IRIs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_folder: Option<PathBuf>,
    /// Maximum time for which an endpoint may be silent. A request also ends with the time limit of its query.
    /// Default 60 s.
    #[serde(with = "human")]
    pub timeout: Duration,
    /// Limit on the size of one response, in bytes. Default 1 GiB.
    #[serde(rename = "response_size", with = "human")]
    pub response_bytes: u64,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            load_folder: None,
            timeout: Duration::from_secs(60),
            response_bytes: 1 << 30,
        }
    }
}
