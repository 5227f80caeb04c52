//! Limits of requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ConfigError, human};

/// Limits of requests and connections.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time limit of a query or update. Default 60 s.
    #[serde(with = "human")]
    pub timeout: Duration,
    /// Bytes that one query may hold, of the dataset's memory for queries; `None` is all of it.
    #[serde(
        rename = "query_memory",
        with = "human::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub query_memory_bytes: Option<usize>,
    /// Results that a query may return; `None` is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Size of a query or update, in bytes. Default 16 MiB.
    #[serde(rename = "text_size", with = "human")]
    pub text_bytes: u64,
    /// Size of RDF sent to the graph store, in bytes. Default 64 GiB.
    #[serde(rename = "upload_size", with = "human")]
    pub upload_bytes: u64,
    /// Bytes that request texts may hold in memory together while they are received; one client may hold at most
    /// half of them. Default 64 MiB.
    #[serde(rename = "receive_memory", with = "human")]
    pub receive_bytes: usize,
    /// Length of path and query string, in bytes. Default 64 KiB.
    #[serde(rename = "url_size", with = "human")]
    pub url_bytes: usize,
    /// Time to receive the head of a request. Default 10 s.
    #[serde(with = "human")]
    pub header_time: Duration,
    /// Longest time between two pieces of a request's body, or between two reads of an answer. Default 30 s.
    #[serde(with = "human")]
    pub stall_time: Duration,
    /// Open connections; further ones wait. Default 4096.
    pub connections: usize,
    /// Queries and updates that run at once. Default: 8 per core, at least 16.
    pub running: usize,
    /// Queries and updates of one client that run at once. Default: three quarters of `running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_per_client: Option<usize>,
    /// Requests that wait for their turn. Default 1024.
    pub queued: usize,
    /// Requests of one client that wait for their turn. Default 256.
    pub queued_per_client: usize,
    /// Time that a request may wait for its turn. Default 5 s.
    #[serde(with = "human")]
    pub queue_time: Duration,
    /// Bytes of an answer that are kept in a temporary file while its client reads more slowly than the answer is
    /// computed. Default 256 MiB.
    #[serde(rename = "unread_size", with = "human")]
    pub unread_bytes: u64,
    /// Minimum rate, in bytes per second, at which a client must read while its answer waits for it; 0 is no minimum.
    /// Default 1 KiB.
    #[serde(rename = "answer_rate", with = "human")]
    pub answer_bytes_per_second: u64,
    /// Time that running requests may go on after the server is asked to stop. Default 30 s.
    #[serde(with = "human")]
    pub grace_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            timeout: Duration::from_secs(60),
            query_memory_bytes: None,
            rows: None,
            text_bytes: 16 << 20,
            upload_bytes: 64 << 30,
            receive_bytes: 64 << 20,
            url_bytes: 64 << 10,
            header_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(30),
            connections: 4096,
            running: (8 * cores).max(16),
            running_per_client: None,
            queued: 1024,
            queued_per_client: 256,
            queue_time: Duration::from_secs(5),
            unread_bytes: 256 << 20,
            answer_bytes_per_second: 1 << 10,
            grace_time: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Returns how many queries and updates of one client may run at once.
    pub(crate) fn running_per_client(&self) -> usize {
        let usual = (self.running * 3).div_ceil(4);
        self.running_per_client.unwrap_or(usual).max(1)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("timeout", u64::from(!self.timeout.is_zero())),
            ("text_size", self.text_bytes),
            ("url_size", self.url_bytes as u64),
            ("header_time", u64::from(!self.header_time.is_zero())),
            ("stall_time", u64::from(!self.stall_time.is_zero())),
            ("connections", self.connections as u64),
            ("running", self.running as u64),
        ];
        for (name, value) in counts {
            if value == 0 {
                let message = format!("limits.{name} is 0, so no request could be answered");
                return Err(ConfigError::invalid(message));
            }
        }
        if (self.receive_bytes as u64) < self.text_bytes.saturating_mul(2) {
            return Err(ConfigError::invalid(
                "limits.receive_memory is less than twice limits.text_size; one client may have half of it, \
                 so the largest query would never be received",
            ));
        }
        Ok(())
    }
}
