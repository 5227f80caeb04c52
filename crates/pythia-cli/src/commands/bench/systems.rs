//! Arguments of benchmarks that compare this store with SPARQL endpoints.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia::Database;
use pythia_bench::system::{Endpoint, System};

use crate::arguments::seconds;
use crate::exit::UsageError;

/// The systems to measure.
#[derive(Args)]
pub(super) struct SystemArguments {
    /// A SPARQL endpoint with the data of the store, and its name in the report. Parameters of the
    /// URL, such as ?default-graph-uri=…, are sent with each query
    #[arg(long = "endpoint", value_name = "NAME=URL")]
    endpoints: Vec<String>,

    /// Do not measure the store in process, only endpoints
    #[arg(long, requires = "endpoints")]
    endpoints_only: bool,

    /// Time limit of a query
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    timeout: f64,

    /// Give a system no further turn with the same number of clients after this time, if it has had
    /// one
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

impl SystemArguments {
    /// Returns the time limit of a query.
    pub(super) fn timeout(&self) -> Result<Duration> {
        seconds("--timeout", self.timeout)
    }

    /// Returns the time of a system's turns.
    pub(super) fn budget(&self) -> Result<Option<Duration>> {
        self.seconds.map(|s| seconds("--seconds", s)).transpose()
    }

    /// Returns the systems in the order of the report.
    pub(super) fn systems<'d>(&self, database: &'d Database) -> Result<Vec<System<'d>>> {
        let timeout = self.timeout()?;
        let mut systems = Vec::new();
        if !self.endpoints_only {
            systems.push(System::in_process("pythia", database, timeout));
        }
        for endpoint in &self.endpoints {
            let (name, url) = (endpoint.split_once('='))
                .filter(|(name, _)| !name.contains(':'))
                .ok_or_else(|| UsageError(format!("--endpoint {endpoint}: write NAME=URL")))?;
            let endpoint = Endpoint::parse(url).map_err(|e| UsageError(format!("{e:#}")))?;
            systems.push(System::endpoint(name, endpoint, timeout));
        }
        Ok(systems)
    }
}
