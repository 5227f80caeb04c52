//! Arguments of benchmarks that compare this store with SPARQL endpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia::Database;
use pythia_bench::system::{Endpoint, System};

use crate::arguments::time;
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
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(super) timeout: Duration,

    /// Give a system no further turn with the same number of clients after this time, if it has had
    /// one
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) seconds: Option<Duration>,
}

impl SystemArguments {
    /// Returns the systems in the order of the report. `updates` are the URLs for updates of some endpoints.
    pub(super) fn systems<'d>(
        &self,
        database: &'d Database,
        updates: &[String],
    ) -> Result<Vec<System<'d>>> {
        let updates = updates.iter().map(|one| named(one, "--update-endpoint"));
        let mut updates: BTreeMap<&str, &str> = updates.collect::<Result<_>>()?;
        let timeout = self.timeout;
        let mut systems = Vec::new();
        if !self.endpoints_only {
            systems.push(System::in_process("pythia", database, timeout));
        }
        for endpoint in &self.endpoints {
            let (name, url) = named(endpoint, "--endpoint")?;
            let mut endpoint = Endpoint::parse(url).map_err(|e| UsageError(format!("{e:#}")))?;
            if let Some(url) = updates.remove(name) {
                let with_updates = endpoint.with_updates(url);
                endpoint = with_updates.map_err(|e| UsageError(format!("{e:#}")))?;
            }
            systems.push(System::endpoint(name, endpoint, timeout));
        }
        if let Some((name, _)) = updates.first_key_value() {
            let message = format!("--update-endpoint {name}: there is no --endpoint {name}");
            return Err(UsageError(message).into());
        }
        Ok(systems)
    }
}

/// Returns the name and the URL of an argument.
fn named<'a>(argument: &'a str, option: &str) -> Result<(&'a str, &'a str)> {
    let parts = argument.split_once('=');
    let parts = parts.filter(|(name, _)| !name.contains(':'));
    Ok(parts.ok_or_else(|| UsageError(format!("{option} {argument}: write NAME=URL")))?)
}
