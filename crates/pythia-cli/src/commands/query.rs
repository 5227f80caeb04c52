//! `pythia query`.

use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia::{
    HttpService, PreparedQuery, QueryError, QueryOptions, ResultFormat, Results, write_results,
};

use crate::arguments::{LimitArguments, StoreArguments, human_bytes, human_count};
use crate::table;

/// Answer a SPARQL query
///
/// The query comes from -q, from a file, or from standard input. Property paths walk the graph:
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

    /// A file with the query; standard input if neither this nor -q is given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Format of the results [default: table on a terminal; else tsv, or nt for graphs]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Show the plan instead of the results; `analyze` runs the query and adds what each part took
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    explain: Option<Explain>,

    /// After the results, show times and pages read
    #[arg(long)]
    stats: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Give at most this many results: if there are more, that is an error after the last
    #[arg(long, value_name = "N")]
    max_rows: Option<u64>,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,

    /// Resolve relative IRIs in the query against this one
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
    Xml,
    Csv,
    Tsv,
    Nt,
    Ttl,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Explain {
    /// The plan, with estimates
    Text,
    /// The same as JSON
    Json,
    /// The plan after running the query: rows, time and pages of each part
    Analyze,
    /// The same as JSON
    AnalyzeJson,
}

impl Explain {
    fn runs(self) -> bool {
        matches!(self, Self::Analyze | Self::AnalyzeJson)
    }
}

impl Query {
    pub(crate) fn run(self) -> Result<()> {
        let text = self.text()?;
        let database = self.store.open(&self.limits)?;
        let options = QueryOptions {
            timeout: self
                .timeout
                .map(Duration::try_from_secs_f64)
                .transpose()
                .map_err(|_| crate::exit::UsageError("--timeout is not a time".to_owned()))?,
            profile: self.explain.is_some_and(Explain::runs),
            row_limit: self.max_rows,
            service: Some(Arc::new(HttpService::default())),
            ..QueryOptions::default()
        };
        let before = database.counters();
        let started = Instant::now();
        let parsed = pythia::Query::parse(&text, self.base.as_deref())
            .map_err(|error| point_at(&text, error))?;
        let prepared = database.prepare_parsed(&parsed, &options)?;
        let planned = started.elapsed();
        if let Some(explain) = self.explain {
            return print_plan(&prepared, explain);
        }
        let results = prepared.execute()?;
        let rows = self.write(results)?;
        if self.stats {
            let total = started.elapsed();
            eprintln!(
                "{} results in {:.3} ms ({:.3} ms to plan)",
                human_count(rows),
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

    fn text(&self) -> Result<String> {
        if let Some(text) = &self.query {
            return Ok(text.clone());
        }
        if let Some(file) = &self.file {
            return std::fs::read_to_string(file)
                .with_context(|| format!("read the query from {}", file.display()));
        }
        if io::stdin().is_terminal() {
            eprintln!("type a query, then Ctrl-D:");
        }
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .context("read the query from standard input")?;
        Ok(text)
    }

    fn write(&self, results: Results) -> Result<u64> {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let out = BufWriter::with_capacity(1 << 16, stdout.lock());
        let format = match (self.format, &results) {
            (Some(Format::Table), _) => None,
            (Some(Format::Json), _) => Some(ResultFormat::Json),
            (Some(Format::Xml), _) => Some(ResultFormat::Xml),
            (Some(Format::Csv), _) => Some(ResultFormat::Csv),
            (Some(Format::Tsv), _) => Some(ResultFormat::Tsv),
            (Some(Format::Nt), _) => Some(ResultFormat::NTriples),
            (Some(Format::Ttl), _) => Some(ResultFormat::Turtle),
            (None, Results::Graph(_)) => Some(if terminal {
                ResultFormat::Turtle
            } else {
                ResultFormat::NTriples
            }),
            (None, _) if terminal => None,
            (None, Results::Boolean(_)) => Some(ResultFormat::Csv),
            (None, _) => Some(ResultFormat::Tsv),
        };
        match format {
            Some(format) => Ok(write_results(results, format, out)?.rows),
            None => write_table(results, out),
        }
    }
}

fn print_plan(prepared: &PreparedQuery, explain: Explain) -> Result<()> {
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

/// Writes an aligned table; graphs as Turtle, an ASK's answer as a word.
fn write_table(results: Results, mut out: impl Write) -> Result<u64> {
    match results {
        Results::Solutions(solutions) => table::write(solutions, out),
        Results::Boolean(value) => {
            writeln!(out, "{}", if value { "yes" } else { "no" })?;
            out.flush()?;
            Ok(1)
        }
        graph @ Results::Graph(_) => Ok(write_results(graph, ResultFormat::Turtle, out)?.rows),
    }
}

/// Shows the query's line with a caret under the place of a syntax error.
fn point_at(text: &str, error: QueryError) -> anyhow::Error {
    if let QueryError::Syntax { line, column, .. } = &error
        && let Some(source) = text.lines().nth(line.saturating_sub(1))
    {
        let source: String = source
            .chars()
            .map(|c| if c == '\t' { ' ' } else { c })
            .collect();
        let (from, to) = (column.saturating_sub(60), column + 40);
        let window: String = source.chars().skip(from).take(to - from).collect();
        let caret = " ".repeat(column.saturating_sub(1).saturating_sub(from));
        eprintln!("  {window}\n  {caret}^");
    }
    anyhow::Error::new(error).context("the query cannot be read")
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
