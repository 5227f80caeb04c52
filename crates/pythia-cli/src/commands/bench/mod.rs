//! `pythia bench`: benchmarks of this database.

mod amplification;
mod compact;
mod faults;
mod graph;
mod hops;
mod http;
mod queries;
mod reachability;
mod search;
mod spill;
mod updates;
mod yago;

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::amplification::Amplification;
use self::compact::Compact;
use self::faults::{Damages, Kills, PowerCuts, Syscalls};
use self::graph::Graph;
use self::hops::Hops;
use self::http::Http;
use self::queries::Queries;
use self::reachability::Reachability;
use self::search::Search;
use self::spill::Spill;
use self::updates::Updates;
use self::yago::Yago;
use crate::exit::UsageError;

/// Run benchmarks of this database on this machine
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    Yago(Yago),
    Queries(Queries),
    Reachability(Reachability),
    Spill(Spill),
    Updates(Updates),
    Amplification(Amplification),
    Compact(Compact),
    Kills(Kills),
    PowerCuts(PowerCuts),
    Syscalls(Syscalls),
    Damages(Damages),
    Hops(Hops),
    Graph(Graph),
    Search(Search),
    Http(Http),
}

impl Bench {
    pub(crate) fn run(self) -> Result<()> {
        match self.workload {
            Workload::Yago(command) => command.run(),
            Workload::Queries(command) => command.run(),
            Workload::Reachability(command) => command.run(),
            Workload::Spill(command) => command.run(),
            Workload::Updates(command) => command.run(),
            Workload::Amplification(command) => command.run(),
            Workload::Compact(command) => command.run(),
            Workload::Kills(command) => command.run(),
            Workload::PowerCuts(command) => command.run(),
            Workload::Syscalls(command) => command.run(),
            Workload::Damages(command) => command.run(),
            Workload::Hops(command) => command.run(),
            Workload::Graph(command) => command.run(),
            Workload::Search(command) => command.run(),
            Workload::Http(command) => command.run(),
        }
    }
}

/// The cache of a store with a single triple.
const SMALL_CACHE: usize = 4 << 20;

pub(super) fn seconds(option: &str, value: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(value)
        .map_err(|_| UsageError(format!("{option} is not a valid time")))?)
}

/// Prints the text, or the JSON if its file is standard output; writes the JSON to any other file.
pub(super) fn show(json: Option<&Path>, text: &str, value: Value) -> Result<()> {
    let json_text = || format!("{value:#}\n");
    match json {
        Some(path) if path.as_os_str() == "-" => write!(stdout(), "{}", json_text())?,
        Some(path) => {
            write(path, &json_text())?;
            writeln!(stdout(), "{text}")?;
        }
        None => writeln!(stdout(), "{text}")?,
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
