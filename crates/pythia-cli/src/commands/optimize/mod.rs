//! `pythia optimize`.

mod server;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use pythia::{Auxiliary, CachedAttribute, Database, OptimizeOptions, Options, StoreError};

use self::server::StoreServer;
use super::compact::compact;
use crate::arguments::{bytes, human_bytes, human_count};
use crate::exit::UsageError;

/// Build, list or drop optional indexes (compacts first if needed)
///
/// Without any of the options that name an index, lists the indexes of the store. If a server of this machine has the
/// store open for writing, it builds or drops them while it serves queries and updates; otherwise nobody else may have the
/// store open. If the command is interrupted, the store stays as it was, but the server goes on.
#[derive(Args)]
pub(crate) struct Optimize {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// Build reachability labels for edges of this predicate, so that paths P+ and P* between two
    /// known ends need no search (may be repeated)
    #[arg(long, value_name = "IRI")]
    reachability: Vec<String>,

    /// Cache the values of this predicate in the lists of neighbours, so that an edge and this
    /// attribute of its other end need one read (may be repeated)
    #[arg(long, value_name = "IRI")]
    cache_attribute: Vec<String>,

    /// With --cache-attribute: only in the lists of these predicates [default: all]
    #[arg(
        long = "for",
        value_name = "IRI",
        value_delimiter = ',',
        requires = "cache_attribute"
    )]
    along: Vec<String>,

    /// Store the degrees of all nodes, many nodes per page, so that ordering by degree reads few pages
    #[arg(long)]
    degrees: bool,

    /// List missing indexes that the queries of a log would use, with the commands to build them
    #[arg(long, requires = "log")]
    advise: bool,

    /// File of queries, one per line or as `{"query": …}`
    #[arg(long, value_name = "FILE", requires = "advise")]
    log: Option<PathBuf>,

    /// With --advise: build all advised indexes
    #[arg(long, requires = "advise", conflicts_with = "drop")]
    apply: bool,

    /// Drop the named indexes instead of building them
    #[arg(long)]
    drop: bool,

    /// With --drop: drop all indexes
    #[arg(long, requires = "drop", conflicts_with_all = ["reachability", "cache_attribute", "degrees"])]
    all: bool,

    /// Memory for building, a hard limit (for example 512M); a server takes its `compaction_memory`
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,
}

impl Optimize {
    pub(crate) fn run(self) -> Result<()> {
        let mut out = io::stdout().lock();
        let mut named = self.named();
        if let Some(log) = &self.log {
            let advised = advise(&self.location, log, &mut out)?;
            if !self.apply {
                return Ok(());
            }
            advised.into_iter().for_each(|advised| named.add(advised));
        }
        if self.drop && !self.all && named.is_empty() {
            let message = "--drop needs the indexes to drop, for example --degrees, or --all";
            return Err(UsageError(message.to_owned()).into());
        }
        let is_change = self.drop || !named.is_empty();
        if is_change && let Some(server) = StoreServer::of(&self.location)? {
            return server.change(&named, self.drop, &mut out);
        }
        if self.drop {
            let dropped = pythia::drop_auxiliary(&self.location, &named).map_err(with_advice)?;
            let database = open(&self.location)?;
            for kind in &dropped {
                let what = pythia::describe_auxiliary(kind, &database.snapshot())?;
                writeln!(out, "dropped: {what}")?;
            }
            return Ok(());
        }
        if !named.is_empty() {
            let options = OptimizeOptions {
                memory_bytes: self.memory,
                ..OptimizeOptions::default()
            };
            // Indexes are about the base.
            compact(&self.location, options, &mut out).map_err(|error| match error.downcast() {
                Ok(error) => with_advice(error),
                Err(error) => error,
            })?;
            let added = pythia::optimize(&self.location, &named, options).map_err(with_advice)?;
            let database = open(&self.location)?;
            for added in added {
                let what = pythia::describe_auxiliary(&added.kind, &database.snapshot())?;
                let size = human_bytes(added.bytes);
                let seconds = added.time.as_secs_f64();
                writeln!(out, "built: {what}, {size} in {seconds:.2} s")?;
            }
            return Ok(());
        }
        list(&open(&self.location)?, &mut out)
    }
}

impl Optimize {
    /// Returns the indexes that the options name.
    fn named(&self) -> Auxiliary {
        let attributes = self
            .cache_attribute
            .iter()
            .map(|predicate| CachedAttribute {
                predicate: predicate.clone(),
                along: self.along.clone(),
            });
        Auxiliary {
            reachability: self.reachability.clone(),
            attributes: attributes.collect(),
            degrees: self.degrees,
        }
    }
}

/// Adds what to do if another process has the store open.
fn with_advice(error: StoreError) -> anyhow::Error {
    let is_open = matches!(
        error,
        StoreError::Writing { .. } | StoreError::Locked { .. }
    );
    let error = anyhow::Error::from(error);
    match is_open {
        true => error.context(
            "another process has the store open, and is no server that can be asked: close it first, or let it build \
             the index itself (`Database::optimize`)",
        ),
        false => error,
    }
}

/// Prints the indexes that a log of queries would use, as commands, and returns them.
fn advise(location: &Path, log: &Path, out: &mut impl Write) -> Result<Vec<Auxiliary>> {
    let text = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    let queries =
        queries_of(&text).with_context(|| format!("{} is not a query log", log.display()))?;
    let database = open(location)?;
    let texts = queries.iter().map(String::as_str);
    let advice = pythia::advise(&database.snapshot(), texts)?;
    writeln!(
        out,
        "# {} queries, of which {} could not be parsed",
        human_count(advice.queries),
        human_count(advice.unreadable)
    )?;
    if advice.advised.is_empty() {
        writeln!(out, "# no index that they would use is missing")?;
    }
    for advised in &advice.advised {
        let options = options_for(&advised.auxiliary);
        writeln!(
            out,
            "# {} queries would use this, about {}:\npythia optimize -l {} {options}",
            human_count(advised.queries),
            human_bytes(advised.bytes),
            location.display(),
        )?;
    }
    Ok(advice.advised.into_iter().map(|a| a.auxiliary).collect())
}

/// Returns the queries of a log: one per line, as text or as the `query` of a JSON object.
fn queries_of(text: &str) -> Result<Vec<String>> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let query = |(number, line): (usize, &str)| -> Result<String> {
        if !line.trim_start().starts_with('{') {
            return Ok(line.to_owned());
        }
        let value: serde_json::Value = serde_json::from_str(line)
            .map_err(|error| UsageError(format!("line {}: {error}", number + 1)))?;
        let query = value.get("query").and_then(serde_json::Value::as_str);
        let missing = || UsageError(format!("line {}: no \"query\" in it", number + 1));
        Ok(query.ok_or_else(missing)?.to_owned())
    };
    lines.map(query).collect()
}

/// Returns the options that name these indexes.
fn options_for(auxiliary: &Auxiliary) -> String {
    let labels = auxiliary.reachability.iter();
    let labels = labels.map(|iri| format!("--reachability '{iri}'"));
    let attributes = auxiliary.attributes.iter().map(|attribute| {
        let (predicate, along) = (&attribute.predicate, attribute.along.join(","));
        format!("--cache-attribute '{predicate}' --for '{along}'")
    });
    labels.chain(attributes).collect::<Vec<_>>().join(" ")
}

fn open(location: &Path) -> Result<Database> {
    let options = Options {
        cache_bytes: 16 << 20,
        memory_bytes: 0,
        ..Options::default()
    };
    Ok(Database::open_with(location, options)?)
}

fn list(database: &Database, out: &mut impl Write) -> Result<()> {
    let manifest = database.store().manifest();
    let entries = &manifest.auxiliary;
    if entries.is_empty() {
        writeln!(out, "the store has no optional indexes; see --help")?;
    }
    for entry in entries {
        let what = pythia::describe_auxiliary(&entry.kind, &database.snapshot())?;
        writeln!(out, "{what}, {}", human_bytes(entry.bytes()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_query_a_line_or_json() {
        let log = "ASK { ?s ?p ?o }\n\n{\"id\": 1, \"query\": \"ASK {}\"}\n";
        assert_eq!(queries_of(log).unwrap(), ["ASK { ?s ?p ?o }", "ASK {}"]);
        let error = queries_of("ASK {}\n{\"text\": 1}").unwrap_err().to_string();
        assert!(error.contains("line 2: no \"query\""), "{error}");
    }
}
