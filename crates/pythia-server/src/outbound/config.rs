//! Whom the server may ask, as it is configured: the table `outbound`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
    /// Seconds that one that is asked may be silent; a request ends with its query's time limit. Default
    /// 60.
    pub timeout_seconds: u64,
    /// Bytes of one answer. Default 1 GiB.
    pub response_bytes: u64,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            load_folder: None,
            timeout_seconds: 60,
            response_bytes: 1 << 30,
        }
    }
}
