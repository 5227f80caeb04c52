//! `pythia optimize`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use pythia::{Auxiliary, Database, OptimizeOptions, Options};

use crate::arguments::{bytes, human_bytes};

/// Build what answers some questions with fewer reads, or drop it again
///
/// Without any of these options it lists what there is. Nobody else may have the store open
/// meanwhile; if it is interrupted, the store is what it was.
#[derive(Args)]
pub(crate) struct Optimize {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// Label which terms reach which over edges of this predicate, so that paths P+ and P* between
    /// two known ends need no search (may be given more than once)
    #[arg(long, value_name = "IRI")]
    reachability: Vec<String>,

    /// Keep the values of this predicate beside the nodes that have them in the lists of their
    /// neighbours, so that an edge and this attribute of its other end are one read (may be given
    /// more than once)
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

    /// Drop what is named instead of building it, or everything if nothing is
    #[arg(long)]
    drop: bool,

    /// Memory for building, a hard limit (for example 512M)
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,
}

impl Optimize {
    pub(crate) fn run(self) -> Result<()> {
        let named = Auxiliary {
            reachability: self.reachability,
            attributes: self.cache_attribute,
            along: self.along,
        };
        let mut out = io::stdout().lock();
        if self.drop {
            let dropped = pythia::drop_auxiliary(&self.location, &named)?;
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
            let added = pythia::optimize(&self.location, &named, options)?;
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

fn open(location: &Path) -> Result<Database> {
    let options = Options {
        cache_bytes: 16 << 20,
        memory_bytes: 0,
        ..Options::default()
    };
    Ok(Database::open_with(location, options)?)
}

fn list(database: &Database, out: &mut impl Write) -> Result<()> {
    let entries = &database.store().manifest().auxiliary;
    if entries.is_empty() {
        writeln!(
            out,
            "nothing was added to this store; see --help for what can be"
        )?;
    }
    for entry in entries {
        let what = pythia::describe_auxiliary(&entry.kind, &database.snapshot())?;
        writeln!(out, "{what}, {}", human_bytes(entry.bytes()))?;
    }
    Ok(())
}
