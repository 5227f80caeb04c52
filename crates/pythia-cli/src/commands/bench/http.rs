//! `pythia bench http`: load tests of a running server.

use std::fs;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::http;

use crate::arguments::time;
use crate::exit::UsageError;
use crate::output::show;

/// Send queries and updates of a file to a running server over HTTP
///
/// The file has one JSON object per line, with "template" and "query" or "update". Each request is
/// a random one of them. Without --rate, each connection sends its next request after the previous
/// answer, which measures the highest rate. With --rate, requests are sent at random times
/// regardless of earlier ones, and latency is measured from the time at which a request was due.
///
///   pythia bench http --url http://127.0.0.1:7878 points.jsonl
///   pythia bench http --url http://127.0.0.1:7878 points.jsonl --rate 5000 --connections 64
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Http {
    /// File of requests
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,

    /// URL of the server, with the path of a dataset if it is not the default one
    #[arg(long, default_value = "http://127.0.0.1:7878")]
    url: String,

    /// Number of concurrent connections
    #[arg(long, default_value_t = 8)]
    connections: usize,

    /// Requests per second, of all connections together
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,

    /// Duration of the test
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = time)]
    seconds: Duration,

    /// Time after which a request without an answer has failed
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = time)]
    patience: Duration,

    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Http {
    pub(super) fn run(self) -> Result<()> {
        let usage = || UsageError("--url is http://ADDRESS:PORT, with a path or none".to_owned());
        let place = self.url.strip_prefix("http://").ok_or_else(usage)?;
        let (authority, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        let mut addresses = authority
            .to_socket_addrs()
            .with_context(|| format!("find {authority}"))?;
        let options = http::Options {
            address: addresses.next().ok_or_else(usage)?,
            dataset: path.trim_end_matches('/').to_owned(),
            connections: self.connections,
            rate: self.rate,
            time: self.seconds,
            patience: self.patience,
            seed: self.seed,
        };
        let text = fs::read_to_string(&self.file)
            .with_context(|| format!("read requests from {}", self.file.display()))?;
        let requests =
            http::read(&text, &options).with_context(|| self.file.display().to_string())?;
        let report = http::run(&requests, &options)?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }
}
