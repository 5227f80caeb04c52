//! Files of RDF that a command reads.

mod files;
mod place;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use oxrdf::NamedNode;
use pythia::{RdfFormat, Source};

pub(super) use self::place::show_line;
use crate::arguments::counted;
use crate::exit::UsageError;

/// The files, and how they are read.
#[derive(Args)]
pub(super) struct Input {
    /// Files, folders and patterns ('part-*.nt.gz') to read; - is standard input (requires --format), plain or compressed
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of all files (nt, nq, ttl, trig, rdf, jsonld) [default: from the file names]
    #[arg(long, value_parser = rdf_format)]
    pub(super) format: Option<RdfFormat>,

    /// Put triples into this graph instead of the default graph
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,

    /// Base IRI for relative IRIs
    #[arg(long, value_name = "IRI")]
    base: Option<String>,

    /// Skip statements with errors, count them and show the first ones
    #[arg(long)]
    pub(super) lenient: bool,
}

/// Returns the format with this name.
pub(super) fn rdf_format(name: &str) -> Result<RdfFormat, String> {
    pythia_rdf::format::format_from_name(name)
        .ok_or_else(|| "one of nt, nq, ttl, trig, rdf, jsonld".to_owned())
}

impl Input {
    /// Opens the files.
    pub(super) fn sources(&self) -> Result<Vec<Source>> {
        let graph = match &self.graph {
            Some(iri) => Some(
                NamedNode::new(iri)
                    .map_err(|error| UsageError(format!("--graph is not an IRI: {error}")))?,
            ),
            None => None,
        };
        let files = files::named(&self.files, self.format.is_some())?;
        let several = files.len() > 1;
        let mut sources = Vec::with_capacity(files.len());
        for (number, file) in files.iter().enumerate() {
            let source = if file.as_os_str() == "-" {
                let format = self.format.ok_or_else(|| {
                    UsageError("standard input needs --format, for example --format nt".to_owned())
                })?;
                Source::from_stdin(format)?
            } else {
                Source::from_path(file, self.format, None)?
            };
            let scope = several.then(|| number as u64 + 1);
            sources.push(
                source
                    .with_graph(graph.clone())
                    .with_base(self.base.clone())
                    .with_blank_node_scope(scope),
            );
        }
        Ok(sources)
    }
}

/// Prints the statements that were skipped.
pub(super) fn print_skipped(skipped: u64, first: &[pythia_rdf::SyntaxProblem]) {
    if skipped == 0 {
        return;
    }
    eprintln!("skipped {} with errors:", counted(skipped, "statement"));
    for problem in first {
        eprintln!("  {problem}");
    }
    if skipped > first.len() as u64 {
        eprintln!("  …");
    }
}
