//! `pythia dump`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia::RdfFormat;

use crate::arguments::{StoreArguments, human_count};

/// Write out all quads, sorted: the same data always gives the same bytes
#[derive(Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreArguments,

    /// The file to write; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The format
    #[arg(long, value_enum, default_value = "nq")]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Nq,
    Trig,
}

impl Dump {
    pub(crate) fn run(self) -> Result<()> {
        let database = self.store.open_without_queries()?;
        let format = match self.format {
            Format::Nq => RdfFormat::NQuads,
            Format::Trig => RdfFormat::TriG,
        };
        let out: Box<dyn Write> = match &self.output {
            Some(path) => {
                Box::new(File::create(path).with_context(|| format!("create {}", path.display()))?)
            }
            None => Box::new(io::stdout().lock()),
        };
        let out = BufWriter::with_capacity(1 << 20, out);
        let report = pythia::dump(&database.snapshot(), format, out)?;
        if self.output.is_some() {
            eprintln!("wrote {} quads", human_count(report.rows));
        }
        Ok(())
    }
}
