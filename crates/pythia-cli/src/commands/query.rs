//! `pythia query`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia::{
    HttpService, PreparedQuery, QueryError, QueryOptions, ResultFormat, Results, write_results,
};

use crate::arguments::{LimitArguments, StoreArguments, counted, human_bytes, time};
use crate::table::{self, Prefixes};

/// Run a SPARQL query
///
/// The query is read from -q, from a file, or from standard input. Property paths walk the graph:
///
///   pythia query -l yago.pythia -q 'SELECT ?a { ?a <…/hasChild>+ <…/Nicolas_Sarkozy> }'
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Query {
    #[command(flatten)]
    store: StoreArguments,

    /// The query
    #[arg(short, long, value_name = "SPARQL", conflicts_with = "file")]
    query: Option<String>,

    /// A file with the query; standard input if neither a file nor -q is given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Format of the results [default: from the output file's extension; without a file, table on a
    /// terminal, otherwise tsv, or nt for graphs]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Write the results to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show the plan instead of the results; `analyze` also runs the query and adds the cost of
    /// each part. A word after it that is no form is the query's file
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    explain: Option<Explain>,

    /// Show times and pages read after the results
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Return at most this many results, and fail after the last if there are more
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,

    /// Stop after this time (500ms, 30s, 5m)
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Make the default graph the union of all graphs, unless the query names its dataset
    #[arg(long)]
    union_default_graph: bool,

    /// Base IRI for relative IRIs in the query
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns
    Table,
    /// SPARQL JSON
    Json,
    /// SPARQL XML
    Xml,
    /// Comma-separated values
    Csv,
    /// Tab-separated values: terms in Turtle syntax
    Tsv,
    /// Arrow IPC stream, typed columns
    Arrow,
    /// Parquet, typed columns
    Parquet,
    /// Graphviz, for paths
    Dot,
    /// N-Triples, for graphs
    Nt,
    /// N-Quads, for graphs
    Nq,
    /// Turtle, for graphs
    Ttl,
    /// TriG, for graphs
    Trig,
    /// RDF/XML, for graphs
    Rdfxml,
    /// JSON-LD, for graphs
    Jsonld,
}

impl Format {
    /// Returns the library's format; `None` for the table.
    fn result_format(self) -> Option<ResultFormat> {
        Some(match self {
            Self::Table => return None,
            Self::Json => ResultFormat::Json,
            Self::Xml => ResultFormat::Xml,
            Self::Csv => ResultFormat::Csv,
            Self::Tsv => ResultFormat::Tsv,
            Self::Arrow => ResultFormat::Arrow,
            Self::Parquet => ResultFormat::Parquet,
            Self::Dot => ResultFormat::Dot,
            Self::Nt => ResultFormat::NTriples,
            Self::Nq => ResultFormat::NQuads,
            Self::Ttl => ResultFormat::Turtle,
            Self::Trig => ResultFormat::TriG,
            Self::Rdfxml => ResultFormat::RdfXml,
            Self::Jsonld => ResultFormat::JsonLd,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Explain {
    /// The plan, with estimates
    Text,
    /// The plan as JSON
    Json,
    /// The plan after running the query: rows, time and pages of each part
    Analyze,
    /// The plan after running the query, as JSON
    AnalyzeJson,
}

/// Joins `--explain` and a form after it to one argument. The form is optional, so clap would take any word there
/// for one, and the name of the query's file too.
pub(crate) fn join_explain(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let is_form = |word: &OsString| {
        let word = word.to_str();
        word.is_some_and(|word| Explain::from_str(word, false).is_ok())
    };
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_query = arguments.get(1).is_some_and(|command| command == "query");
    let option = arguments
        .iter()
        .position(|argument| argument == "--explain");
    if let Some(option) = option.filter(|_| is_query)
        && arguments.get(option + 1).is_some_and(is_form)
    {
        let form = arguments.remove(option + 1);
        arguments[option].push("=");
        arguments[option].push(form);
    }
    arguments
}

impl Explain {
    pub(super) fn runs(self) -> bool {
        matches!(self, Self::Analyze | Self::AnalyzeJson)
    }
}

impl Query {
    pub(crate) fn run(self) -> Result<()> {
        let text = text_of(self.query.as_deref(), self.file.as_deref(), "a query")?;
        let database = self.store.open(&self.limits)?;
        let options = QueryOptions {
            timeout: self.timeout,
            explain: self.explain.is_some(),
            profile: self.explain.is_some_and(Explain::runs),
            row_limit: self.max_rows,
            union_default_graph: self.union_default_graph,
            service: Some(Arc::new(HttpService::default())),
            ..QueryOptions::default()
        };
        let before = database.counters();
        let started = Instant::now();
        let parsed = database
            .parse_query(&text, self.base.as_deref(), &options)
            .map_err(|error| point_at(&text, error, "the query cannot be read"))?;
        let prepared = database.prepare_parsed(&parsed, &options)?;
        let planned = started.elapsed();
        if let Some(explain) = self.explain {
            return print_plan(&prepared, explain);
        }
        let results = prepared.execute()?;
        let rows = self.write(results, &text, started)?;
        for warning in prepared.warnings() {
            eprintln!("warning: {warning}");
        }
        if self.stats {
            let total = started.elapsed();
            eprintln!(
                "{} in {:.3} ms ({:.3} ms to plan)",
                counted(rows, "result"),
                total.as_secs_f64() * 1e3,
                planned.as_secs_f64() * 1e3,
            );
            let spilled = database.usage().spilled_bytes;
            if spilled > 0 {
                eprintln!("  {} written to temporary files", human_bytes(spilled));
            }
            print_counters(&database.counters().since(&before));
        }
        Ok(())
    }

    /// Returns the format to write; `None` for the table.
    fn result_format(&self, results: &Results, terminal: bool) -> Result<Option<ResultFormat>> {
        if let Some(format) = self.format {
            return Ok(format.result_format());
        }
        if let Some(file) = &self.output {
            let format = ResultFormat::of_file(file).ok_or_else(|| {
                crate::exit::UsageError(format!(
                    "the extension of {} is not a known format; set one with --format",
                    file.display()
                ))
            })?;
            return Ok(Some(format));
        }
        Ok(match results {
            Results::Graph(_) if terminal => Some(ResultFormat::Turtle),
            Results::Graph(_) => Some(ResultFormat::NTriples),
            Results::Boolean(_) => None,
            _ if terminal => None,
            _ => Some(ResultFormat::Tsv),
        })
    }

    fn write(&self, results: Results, text: &str, started: Instant) -> Result<u64> {
        let terminal = self.output.is_none() && io::stdout().is_terminal();
        let format = self.result_format(&results, terminal)?;
        if matches!(format, Some(ResultFormat::Arrow | ResultFormat::Parquet)) && terminal {
            let message = "this format is binary; write it to a file with -o";
            return Err(crate::exit::UsageError(message.to_owned()).into());
        }
        let out: Box<dyn Write + Send> = match &self.output {
            Some(path) => {
                Box::new(File::create(path).with_context(|| format!("create {}", path.display()))?)
            }
            None => Box::new(io::stdout()),
        };
        let out = BufWriter::with_capacity(1 << 16, out);
        let rows = match format {
            Some(format) => write_results(results, format, out)?.rows,
            None => write_table(results, text, started, out)?,
        };
        if let Some(path) = &self.output {
            eprintln!("wrote {} to {}", counted(rows, "result"), path.display());
        }
        Ok(rows)
    }
}

pub(super) fn print_plan(prepared: &PreparedQuery, explain: Explain) -> Result<()> {
    if explain.runs() {
        write_results_nowhere(prepared.execute()?)?;
    }
    let mut out = io::stdout().lock();
    match explain {
        Explain::Text | Explain::Analyze => write!(out, "{}", prepared.explain())?,
        Explain::Json | Explain::AnalyzeJson => writeln!(out, "{}", prepared.explain_json())?,
    }
    Ok(())
}

/// Reads results to their end.
fn write_results_nowhere(results: Results) -> Result<()> {
    let format = match results {
        Results::Graph(_) => ResultFormat::NTriples,
        Results::Boolean(_) | Results::Solutions(_) => ResultFormat::Tsv,
    };
    write_results(results, format, io::sink())?;
    Ok(())
}

/// Writes results to standard output, as a table if no format is given.
pub(super) fn show_results(
    results: Results,
    format: Option<Format>,
    text: &str,
    started: Instant,
) -> Result<()> {
    let out = BufWriter::with_capacity(1 << 16, io::stdout());
    match format.and_then(Format::result_format) {
        None => drop(write_table(results, text, started, out)?),
        Some(format) => drop(write_results(results, format, out)?),
    }
    Ok(())
}

/// Writes an aligned table, with the number of rows and the time since the start of the query below it; graphs as Turtle,
/// an ASK's answer as a word.
fn write_table(
    results: Results,
    text: &str,
    started: Instant,
    mut out: impl Write + Send,
) -> Result<u64> {
    match results {
        Results::Solutions(solutions) => {
            let rows = table::write(solutions, &Prefixes::of_query(text), &mut out)?;
            let milliseconds = started.elapsed().as_secs_f64() * 1e3;
            writeln!(out, "\n{} in {milliseconds:.1} ms", counted(rows, "row"))?;
            out.flush()?;
            Ok(rows)
        }
        Results::Boolean(value) => {
            writeln!(out, "{value}")?;
            out.flush()?;
            Ok(1)
        }
        graph @ Results::Graph(_) => Ok(write_results(graph, ResultFormat::Turtle, out)?.rows),
    }
}

/// Returns the given text, or that of a file or of standard input.
pub(super) fn text_of(given: Option<&str>, file: Option<&Path>, what: &str) -> Result<String> {
    if let Some(text) = given {
        return Ok(text.to_owned());
    }
    if let Some(file) = file {
        return std::fs::read_to_string(file)
            .with_context(|| format!("read {what} from {}", file.display()));
    }
    if io::stdin().is_terminal() {
        eprintln!("type {what}, then Ctrl-D:");
    }
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .with_context(|| format!("read {what} from standard input"))?;
    Ok(text)
}

/// Shows the line of a syntax error with a caret at its position.
pub(super) fn point_at(text: &str, error: QueryError, what: &'static str) -> anyhow::Error {
    if let Some(snippet) = error.snippet(text) {
        eprintln!("{snippet}");
    }
    anyhow::Error::new(error).context(what)
}

fn print_counters(counters: &pythia::Counters) {
    for (group, c) in &counters.groups {
        if c.cache_hits + c.device_pages > 0 {
            eprintln!(
                "  {group:<10} {:>8} pages from cache, {:>6} from device in {} batches, depth {:.1} (max {}), {}",
                c.cache_hits,
                c.device_pages,
                c.device_batches,
                c.depth_mean(),
                c.depth_max,
                human_bytes(c.bytes),
            );
        }
    }
}
