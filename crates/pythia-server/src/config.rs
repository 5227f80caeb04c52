//! What is served, where, and within what limits.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use pythia::WriteOptions;

/// All that a server is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens. Default 127.0.0.1:7878.
    pub bind: Vec<SocketAddr>,
    /// Certificate and key; without them connections are plain.
    pub tls: Option<Tls>,
    /// What it serves.
    pub datasets: Vec<DatasetConfig>,
    /// Limits of requests.
    pub limits: Limits,
    /// Origins whose pages may read answers; `*` is any. Default: any, as the protocol is public.
    pub cors_origins: Vec<String>,
}

/// A certificate chain and its private key, PEM files.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A store and what its requests may use.
#[derive(Clone, Debug)]
pub struct DatasetConfig {
    /// Its name in paths.
    pub name: String,
    /// The folder of its store.
    pub path: PathBuf,
    /// Serves queries only; the store may then be open for reading elsewhere too.
    pub read_only: bool,
    /// Answers at the root too. If no dataset says so, the first one does.
    pub default: bool,
    /// Bytes of pages kept in memory.
    pub cache_bytes: usize,
    /// Bytes that running queries may hold together.
    pub memory_bytes: usize,
    /// Log, maintenance and the like, for datasets that are written.
    pub write: WriteOptions,
}

/// What requests may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Time of a query or update. Default 60 s.
    pub timeout: Duration,
    /// Bytes a query may hold of those that all may hold; `None` is all of them.
    pub query_memory_bytes: Option<usize>,
    /// Results a query may give; `None` is any number.
    pub rows: Option<u64>,
    /// Bytes of a query or an update. Default 16 MiB.
    pub text_bytes: u64,
    /// Bytes of RDF sent to the graph store. Default 64 GiB.
    pub upload_bytes: u64,
    /// Bytes that texts being received may hold in memory together. Default 256 MiB.
    pub receive_bytes: usize,
    /// Bytes of path and query string. Default 64 KiB.
    pub url_bytes: usize,
    /// Time to send the head of a request. Default 10 s.
    pub header_time: Duration,
    /// Time between two pieces of a request's body, or of an answer that the client takes. Default 30 s.
    pub stall_time: Duration,
    /// Open connections; beyond, new ones wait. Default 4096.
    pub connections: usize,
    /// Queries and updates that run at once. Default: 8 per core, at least 16.
    pub running: usize,
    /// Requests that wait for one of these to end. Default 1024.
    pub queued: usize,
    /// Of these, those of one client. Default 256.
    pub queued_per_client: usize,
    /// How long they wait. Default 5 s.
    pub queue_time: Duration,
    /// How long running requests may go on when the server is told to stop. Default 30 s.
    pub grace_time: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 7878))],
            tls: None,
            datasets: Vec::new(),
            limits: Limits::default(),
            cors_origins: vec!["*".to_owned()],
        }
    }
}

impl DatasetConfig {
    /// The store in a folder, for queries and updates, with the library's limits.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let defaults = pythia::Options::default();
        Self {
            name: name.into(),
            path: path.into(),
            read_only: false,
            default: false,
            cache_bytes: defaults.cache_bytes,
            memory_bytes: defaults.memory_bytes,
            write: WriteOptions::default(),
        }
    }
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
            receive_bytes: 256 << 20,
            url_bytes: 64 << 10,
            header_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(30),
            connections: 4096,
            running: (8 * cores).max(16),
            queued: 1024,
            queued_per_client: 256,
            queue_time: Duration::from_secs(5),
            grace_time: Duration::from_secs(30),
        }
    }
}
