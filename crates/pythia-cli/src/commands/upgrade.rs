//! `pythia upgrade`.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use pythia::{OptimizeOptions, STORE_FORMATS};

use super::compact::print_dropped;
use crate::arguments::{StoreArguments, bytes, counted, human_bytes};

/// Bring a store to the newest format
///
/// Writes the base again. The store stays as it was until the new base is complete, and readers are not disturbed. An
/// interrupted upgrade goes on when the command is run again. Earlier programs cannot open the store afterwards: keep a
/// backup as long as you may go back to one.
#[derive(Args)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    store: StoreArguments,

    /// Memory for the upgrade, a hard limit (for example 512M)
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,
}

impl Upgrade {
    pub(crate) fn run(self) -> Result<()> {
        let started = Instant::now();
        let options = OptimizeOptions {
            memory_bytes: self.memory,
            ..OptimizeOptions::default()
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let newest = STORE_FORMATS.end();
        let mut out = io::stdout().lock();
        let Some((before, compacted)) = pythia::upgrade(&self.store.location, options, threads)?
        else {
            writeln!(out, "the store has the newest format, {newest}")?;
            return Ok(());
        };
        writeln!(
            out,
            "upgraded from format {before} to {newest}: {}, {} in {:.2} s",
            counted(compacted.quads, "quad"),
            human_bytes(compacted.bytes),
            started.elapsed().as_secs_f64()
        )?;
        print_dropped(&compacted, &mut out)
    }
}
