//! Whom the server may ask, as it is configured: the table `outbound`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::human;

/// Places that SERVICE and LOAD may reach. Default: none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboundConfig {
    /// URLs (`https://query.wikidata.org/sparql`), beginnings of URLs
    /// (`https://*.example.org/data/*`), and addresses or networks (`10.0.0.0/8`).
    pub allow: Vec<String>,
    /// The folder whose files LOAD may read by `file:` IRIs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_folder: Option<PathBuf>,
    /// How long one that is asked may be silent; a request ends with its query's time limit. Default
    /// 60 s.
    #[serde(with = "human")]
    pub timeout: Duration,
    /// Bytes of one answer. Default 1 GiB.
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
