//! `pythia serve`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use pythia_server::config::{
    Config, ConfigSource, DatasetConfig, Hosts, LogFormat, parse_addresses,
};
use pythia_server::{Server, logging};

use crate::allocator;
use crate::arguments::{bytes, time};
use crate::exit::UsageError;

/// Serve stores over HTTP: SPARQL, graphs, and a web page to explore them
///
///   pythia serve -l yago.pythia
///   pythia serve -l yago=yago.pythia -l notes=notes.pythia --read-only
///   pythia serve --config /etc/pythia/pythia.toml
///
/// If the folder given with -l is new or empty, an empty store is created in it. Settings not given
/// as options come from the environment (PYTHIA_SERVE_LIMITS__TIMEOUT=5s is `timeout` in the table
/// `limits`), then from the file; see docs/server.md. SIGTERM and Ctrl-C stop the server after the
/// running requests, a second one immediately; SIGHUP reloads the configuration.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Serve {
    /// The folder of a store. With a name, it is served at /NAME/query, without one also at /query.
    /// May be repeated
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "[NAME=]STORE")]
    location: Vec<String>,

    /// Configuration file (TOML)
    #[arg(long, env = "PYTHIA_SERVE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address to listen on; may be repeated [default: 127.0.0.1:7878]
    #[arg(short, long, value_name = "ADDRESS:PORT")]
    bind: Vec<String>,

    /// Host name of the server, besides addresses and localhost: db.example.org, *.example.org, or
    /// * for any; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Reject updates
    #[arg(long)]
    read_only: bool,

    /// Make the default graph of queries the union of all graphs, unless a request names its dataset
    #[arg(long)]
    union_default_graph: bool,

    /// Memory for the page cache of each store, a hard limit (for example 64M, 2G) [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    cache: Option<usize>,

    /// Memory for the running queries of each store [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory: Option<usize>,

    /// Threads that compute queries of each store at once [default: the number of cores]
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZero<usize>>,

    /// Memory for one query [default: the memory for all queries]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    query_memory: Option<usize>,

    /// Stop queries and updates after this time (for example 30s, 5m) [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Return at most this many results
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,

    /// Log every request to standard error
    #[arg(long)]
    access_log: bool,

    /// Format of log messages [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<Format>,

    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,

    /// Print the configuration with all defaults and exit
    #[arg(long)]
    print_config: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Plain text lines
    Text,
    /// One JSON object per line
    Json,
}

/// The settings given as flags.
struct ServeFlags {
    datasets: Vec<DatasetConfig>,
    bind: Vec<SocketAddr>,
    hosts: Hosts,
    serve: Serve,
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let (check_only, print_only) = (self.check_config, self.print_config);
        let file = self.config.clone();
        let flags = ServeFlags::new(self)?;
        let source = ConfigSource::new(file, Arc::new(move |config| flags.apply(config)));
        let config = Server::check(&source)?;
        if print_only {
            io::stdout().write_all(config.to_toml().as_bytes())?;
            return Ok(());
        }
        if config.datasets.is_empty() {
            let message = "there is nothing to serve: name a store with -l, or datasets in a file with --config";
            return Err(UsageError(message.to_owned()).into());
        }
        if check_only {
            writeln!(
                io::stdout(),
                "the configuration is valid; it has {}",
                listed(&config)
            )?;
            return Ok(());
        }
        logging::install(&config.log);
        for dataset in &config.datasets {
            allocator::return_beyond(dataset.memory_bytes, dataset.cache_bytes);
        }
        let server = Server::start_from(source)?;
        if config.log.format == LogFormat::Text {
            greet(&config, &server.addresses());
        }
        server.run_as_process()?;
        Ok(())
    }
}

impl ServeFlags {
    fn new(serve: Serve) -> Result<Self> {
        let wrong = |message: String| UsageError(format!("--bind: {message}"));
        let mut bind = Vec::new();
        for text in &serve.bind {
            bind.extend(parse_addresses(text).map_err(wrong)?);
        }
        Ok(Self {
            datasets: datasets(&serve.location),
            bind,
            hosts: Hosts::parse(&serve.host)
                .map_err(|message| UsageError(format!("--host: {message}")))?,
            serve,
        })
    }

    fn apply(&self, config: &mut Config) {
        let Self { serve, .. } = self;
        for dataset in &self.datasets {
            config.datasets.retain(|other| other.name != dataset.name);
            if config.datasets.iter().any(|other| other.default) {
                config.datasets.push(DatasetConfig {
                    default: false,
                    ..dataset.clone()
                });
            } else {
                config.datasets.push(dataset.clone());
            }
        }
        if !self.bind.is_empty() {
            config.bind.clone_from(&self.bind);
        }
        config.hosts.extend(&self.hosts);
        for dataset in &mut config.datasets {
            dataset.read_only |= serve.read_only;
            dataset.union_default_graph |= serve.union_default_graph;
            dataset.cache_bytes = serve.cache.unwrap_or(dataset.cache_bytes);
            dataset.memory_bytes = serve.memory.unwrap_or(dataset.memory_bytes);
            dataset.threads = serve.threads.or(dataset.threads);
        }
        let limits = &mut config.limits;
        limits.timeout = serve.timeout.unwrap_or(limits.timeout);
        limits.query_memory_bytes = serve.query_memory.or(limits.query_memory_bytes);
        limits.rows = serve.max_rows.or(limits.rows);
        config.log.access |= serve.access_log;
        config.log.format = match serve.log_format {
            Some(Format::Text) => LogFormat::Text,
            Some(Format::Json) => LogFormat::Json,
            None => config.log.format,
        };
    }
}

/// Returns the datasets that `-l` names. The first one without a name is served at the root.
fn datasets(locations: &[String]) -> Vec<DatasetConfig> {
    let mut datasets: Vec<DatasetConfig> = Vec::new();
    for location in locations {
        let named = location
            .split_once('=')
            .filter(|(name, _)| DatasetConfig::is_name(name));
        let dataset = match named {
            Some((name, path)) => DatasetConfig::new(name, path),
            None => DatasetConfig {
                default: !datasets.iter().any(|other| other.default),
                ..DatasetConfig::new(DatasetConfig::name_for(Path::new(location)), location)
            },
        };
        // A folder given here is checked by the user; a folder in a file may be missing because it
        // is not mounted.
        datasets.push(DatasetConfig {
            create: true,
            ..dataset
        });
    }
    datasets
}

/// Lists the datasets.
fn listed(config: &Config) -> String {
    let names: Vec<&str> = config.datasets.iter().map(|d| d.name.as_str()).collect();
    match names[..] {
        [name] => format!("the dataset {name}"),
        _ => format!("the datasets {}", names.join(", ")),
    }
}

fn greet(config: &Config, addresses: &[SocketAddr]) {
    let scheme = match config.tls {
        Some(_) => "https",
        None => "http",
    };
    eprintln!("serving {}", listed(config));
    for address in addresses {
        let base = format!("{scheme}://{address}");
        eprintln!(
            "  open {base}/ in a browser; SPARQL endpoint: {base}/{}",
            endpoint(config)
        );
    }
}

/// Returns a query path that exists.
fn endpoint(config: &Config) -> String {
    let at_root = config.datasets.len() == 1 || config.datasets.iter().any(|d| d.default);
    match config.datasets.first() {
        Some(first) if !at_root => format!("{}/query", first.name),
        _ => "query".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_named_or_get_the_name_of_their_folder() {
        let locations = ["b=/srv/x", "/srv/yago.pythia", "/srv/a=b/c d", "/srv/query"];
        let datasets = datasets(&locations.map(str::to_owned));
        let told: Vec<(&str, &str, bool)> = datasets
            .iter()
            .map(|d| (d.name.as_str(), d.path.to_str().expect("text"), d.default))
            .collect();
        assert_eq!(
            told,
            [
                ("b", "/srv/x", false),
                ("yago", "/srv/yago.pythia", true),
                ("c-d", "/srv/a=b/c d", false),
                ("ds", "/srv/query", false),
            ]
        );
    }
}
