//! `pythia convert`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use oxrdf::NamedNode;
use pythia::{Compression, RdfFormat};
use pythia_rdf::format::detect;
use pythia_rdf::{
    Compressor, ParseError, ParseOptions, Progress, RdfWriter, SinkError, parse_quads,
};

use super::input::{Input, print_skipped, rdf_format, show_line};
use crate::arguments::counted;
use crate::exit::UsageError;

/// Write RDF files in another format, without a store
///
/// Statements keep their order, and nothing is held in memory. Several files become one; the blank nodes of each stay its
/// own.
///
///   pythia convert data.ttl.gz -o data.nt.zst
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Convert {
    #[command(flatten)]
    input: Input,

    /// File to write; its name tells format and compression, as in out.nq.zst. Standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Output format (nt, nq, ttl, trig, rdf, jsonld) [default: from the file's name, or nq]
    #[arg(long, value_name = "FORMAT", value_parser = rdf_format)]
    to: Option<RdfFormat>,

    /// Prefix for names in the output, in formats that have them, as ex=http://example.org/ (may be repeated)
    #[arg(long = "prefix", value_name = "NAME=IRI", value_parser = prefix)]
    prefixes: Vec<(String, String)>,
}

fn prefix(text: &str) -> Result<(String, String), String> {
    let wrong = || "write a prefix as NAME=IRI, for example ex=http://example.org/".to_owned();
    let (name, iri) = text.split_once('=').ok_or_else(wrong)?;
    NamedNode::new(iri).map_err(|error| format!("{iri} is not an IRI: {error}"))?;
    Ok((name.to_owned(), iri.to_owned()))
}

impl Convert {
    pub(crate) fn run(self) -> Result<()> {
        let sources = self.input.sources()?;
        let (format, compression) = self.form()?;
        let Some(path) = &self.output else {
            let out = BufWriter::with_capacity(1 << 16, io::stdout());
            return self.convert(sources, format, out).map(drop);
        };
        if sources
            .iter()
            .any(|source| same_file(Path::new(&source.name), path))
        {
            let path = path.display();
            return Err(UsageError(format!("{path} is also read; write another file")).into());
        }
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        let written = Compressor::new(BufWriter::with_capacity(1 << 16, file), compression)
            .map_err(Into::into)
            .and_then(|out| self.convert(sources, format, out))
            .and_then(|(out, quads)| {
                let failed = || format!("write {}", path.display());
                out.finish()
                    .and_then(|mut out| out.flush())
                    .with_context(failed)?;
                Ok(quads)
            });
        match written {
            Ok(quads) => eprintln!("wrote {} to {}", counted(quads, "quad"), path.display()),
            Err(error) => {
                // Half a file would look like a whole one.
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the format and compression of the output.
    fn form(&self) -> Result<(RdfFormat, Compression)> {
        let Some(path) = &self.output else {
            return Ok((self.to.unwrap_or(RdfFormat::NQuads), Compression::None));
        };
        let (by_name, compression) = detect(path);
        let format = self.to.or(by_name).ok_or_else(|| {
            let path = path.display();
            UsageError(format!(
                "the name {path} does not tell a format; set one with --to"
            ))
        })?;
        Ok((format, compression))
    }

    /// Writes the quads of the sources; returns the writer and their number.
    fn convert<W: Write + Send>(
        &self,
        sources: Vec<pythia::Source>,
        format: RdfFormat,
        out: W,
    ) -> Result<(W, u64)> {
        let prefixes = self.prefixes.iter();
        let prefixes: Vec<_> = prefixes
            .map(|(name, iri)| (name.as_str(), iri.as_str()))
            .collect();
        let mut writer = RdfWriter::new(out, format, &prefixes)?;
        let options = ParseOptions::default().with_lenient(self.input.lenient);
        let progress = Progress::default();
        let report = parse_quads(sources, &options, &progress, |quad| {
            if !format.supports_datasets() && !quad.graph_name.is_default_graph() {
                let graph = quad.graph_name;
                return Err(SinkError::new(UsageError(format!(
                    "{format} cannot hold the graph {graph}: write nq or trig"
                ))));
            }
            writer.quad(quad).map_err(SinkError::new)
        });
        let report = report.map_err(|error| {
            show_line(&error);
            own_error(error)
        })?;
        print_skipped(report.skipped, &report.first_skipped);
        let mut out = writer.finish()?;
        out.flush()?;
        Ok((out, report.quads))
    }
}

/// Returns the error of the output itself, if it ended the parse.
fn own_error(error: ParseError) -> anyhow::Error {
    let ParseError::Sink(error) = error else {
        return error.into();
    };
    let error = match error.downcast::<UsageError>() {
        Ok(error) => return error.into(),
        Err(error) => error,
    };
    match error.downcast::<io::Error>() {
        Ok(error) => error.into(),
        Err(error) => error.into(),
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
