//! `pythia dump`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use oxrdf::{GraphName, NamedNode};
use pythia::{Cores, GraphRules, QueryOptions, RdfFormat, Snapshot};

use crate::arguments::{StoreArguments, counted};
use crate::exit::UsageError;

/// Write all quads, sorted: the same data always gives the same bytes
///
///   pythia dump -l STORE -o store.trig
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Dump {
    #[command(flatten)]
    store: StoreArguments,

    /// Write only the triples of this graph, without its name; `default` is the default graph
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,

    /// File to write; its extension selects the format. Standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Output format [default: from the file's extension; otherwise nq, or nt with --graph]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "NUMBER")]
    threads: Option<NonZero<usize>>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Nq,
    Trig,
    /// No named graphs
    Nt,
    /// No named graphs
    #[value(name = "ttl")]
    Turtle,
}

impl Format {
    fn rdf_format(self) -> RdfFormat {
        match self {
            Self::Nq => RdfFormat::NQuads,
            Self::Trig => RdfFormat::TriG,
            Self::Nt => RdfFormat::NTriples,
            Self::Turtle => RdfFormat::Turtle,
        }
    }

    /// Returns the format of a file's extension.
    fn of_name(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(OsStr::to_str);
        let format = extension.and_then(|extension| Self::from_str(extension, true).ok());
        format.ok_or_else(|| {
            let message = format!(
                "the extension of {} is not nq, trig, nt or ttl; set the format with --format",
                path.display()
            );
            UsageError(message).into()
        })
    }
}

/// Returns the graph with a name that was given as an option.
fn graph_name(name: &str) -> Result<GraphName> {
    if name == "default" {
        return Ok(GraphName::DefaultGraph);
    }
    let node = NamedNode::new(name)
        .map_err(|error| UsageError(format!("--graph is not an IRI: {error}")))?;
    Ok(node.into())
}

/// Checks that the store has the graph.
fn check_graph(snapshot: &Snapshot, graph: &GraphName) -> Result<()> {
    let GraphName::NamedNode(node) = graph else {
        return Ok(());
    };
    let id = snapshot.resolve(node.as_ref().into())?;
    if id.map(|id| snapshot.has_graph(id)).transpose()? == Some(true) {
        return Ok(());
    }
    Err(UsageError(format!("the store has no graph {node}")).into())
}

impl Dump {
    pub(crate) fn run(self) -> Result<()> {
        let format = match (self.format, &self.output) {
            (Some(format), _) => format,
            (None, Some(path)) => Format::of_name(path)?,
            (None, None) if self.graph.is_some() => Format::Nt,
            (None, None) => Format::Nq,
        };
        let graph = self.graph.as_deref().map(graph_name).transpose()?;
        let format = format.rdf_format();
        let database = self.store.open_without_queries()?;
        let snapshot = database.snapshot();
        // Before creating the file.
        match &graph {
            None => pythia::check_dump(&snapshot, &GraphRules::all(), format)?,
            Some(graph) => check_graph(&snapshot, graph)?,
        }
        let out: Box<dyn Write> = match &self.output {
            Some(path) => {
                Box::new(File::create(path).with_context(|| format!("create {}", path.display()))?)
            }
            None => Box::new(io::stdout().lock()),
        };
        let out = BufWriter::with_capacity(1 << 20, out);
        let cores = Arc::new(Cores::new(self.threads));
        let report = match &graph {
            None => pythia::dump(&snapshot, &cores, format, out)?,
            Some(graph) => {
                let options = QueryOptions::default();
                pythia::dump_graph(&snapshot, &cores, &options, graph.as_ref(), format, out)?
            }
        };
        if self.output.is_some() {
            eprintln!("wrote {}", counted(report.rows, "quad"));
        }
        Ok(())
    }
}
