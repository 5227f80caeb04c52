//! `pythia load`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use oxrdf::NamedNode;
use pythia::{Compression, LoadOptions, LoadProgress, LoadReport, RdfFormat, Source};

use crate::arguments::{bytes, human_bytes, human_count};
use crate::exit::UsageError;

/// Load RDF files into a new or existing store
///
/// Loading into an existing store adds the missing quads in one step, while others read it. Blank
/// nodes in the files are always new.
///
/// Formats, by file name: .nt .nq .ttl .trig .rdf/.owl/.xml .jsonld, each also with .gz, .bz2 or
/// .zst. A syntax error names file, line and column, and nothing is loaded.
#[derive(Args)]
pub(crate) struct Load {
    /// The folder of the store, created if missing
    #[arg(
        short,
        long,
        env = "PYTHIA_LOCATION",
        value_name = "STORE",
        required_unless_present = "parse_only"
    )]
    location: Option<PathBuf>,

    /// Files to load; - is standard input (requires --format)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of all files (nt, nq, ttl, trig, rdf, jsonld) [default: from the file names]
    #[arg(long, value_parser = format)]
    format: Option<RdfFormat>,

    /// Load triples into this graph instead of the default graph
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,

    /// Base IRI for relative IRIs
    #[arg(long, value_name = "IRI")]
    base: Option<String>,

    /// Skip statements with errors, count them and show the first ones
    #[arg(long)]
    lenient: bool,

    #[command(flatten)]
    resources: Resources,

    /// Only parse and check the files, to measure the minimum time of a load
    #[arg(long)]
    parse_only: bool,
}

/// Memory, threads and temporary files of a load.
#[derive(Args)]
pub(crate) struct Resources {
    /// Memory to use (for example 1G) [default: a quarter of the machine's]
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes)]
    memory: Option<usize>,

    /// Folder for temporary files [default: the store's folder]
    #[arg(long, env = "PYTHIA_TMP", value_name = "FOLDER")]
    tmp: Option<PathBuf>,

    /// Threads to use [default: all cores]
    #[arg(long)]
    threads: Option<NonZero<usize>>,

    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

fn format(name: &str) -> Result<RdfFormat, String> {
    pythia_rdf::format::format_from_name(name)
        .ok_or_else(|| "one of nt, nq, ttl, trig, rdf, jsonld".to_owned())
}

impl Load {
    pub(crate) fn run(self) -> Result<()> {
        let sources = self.sources()?;
        let options = LoadOptions {
            lenient: self.lenient,
            ..self.resources.options(self.location.as_deref())
        };
        let started = Instant::now();
        if self.parse_only {
            let progress = Arc::new(LoadProgress::default());
            let report = self.resources.with_display(&progress, || {
                pythia::parse_only(sources, &options, &progress)
            })?;
            let seconds = started.elapsed().as_secs_f64();
            eprintln!(
                "parsed {} quads, {} of text in {seconds:.2} s ({:.0} MB/s, {} quads/s)",
                human_count(report.quads),
                human_bytes(report.bytes),
                report.bytes as f64 / seconds / 1e6,
                human_count((report.quads as f64 / seconds) as u64),
            );
            print_skipped(report.skipped, &report.first_skipped);
            return Ok(());
        }
        let location = self.location.as_deref().expect("clap requires it");
        self.resources.load(location, sources, &options)
    }

    fn sources(&self) -> Result<Vec<Source>> {
        let graph = match &self.graph {
            Some(iri) => Some(
                NamedNode::new(iri)
                    .map_err(|error| UsageError(format!("--graph is not an IRI: {error}")))?,
            ),
            None => None,
        };
        let several = self.files.len() > 1;
        let mut sources = Vec::with_capacity(self.files.len());
        for (number, file) in self.files.iter().enumerate() {
            let source = if file.as_os_str() == "-" {
                let format = self.format.ok_or_else(|| {
                    UsageError("standard input needs --format, for example --format nt".to_owned())
                })?;
                Source::from_stdin(format, Compression::None)?
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

impl Resources {
    /// Returns the options of a load into a store.
    pub(crate) fn options(&self, location: Option<&Path>) -> LoadOptions {
        let mut options = LoadOptions {
            threads: self.threads,
            ..LoadOptions::default()
        };
        if let Some(memory) = self.memory {
            options.memory_bytes = memory;
        }
        if let Some(tmp) = self.tmp.as_deref().or(location) {
            tmp.clone_into(&mut options.tmp);
        }
        options
    }

    /// Loads into a store, shows the progress and reports what was loaded.
    pub(crate) fn load(
        &self,
        location: &Path,
        sources: Vec<Source>,
        options: &LoadOptions,
    ) -> Result<()> {
        let progress = Arc::new(LoadProgress::default());
        let started = Instant::now();
        let report = self.with_display(&progress, || {
            pythia::load(location, sources, options, &progress)
        })?;
        print_report(&report, started.elapsed());
        Ok(())
    }

    /// Runs the work and shows its progress, if there is a terminal.
    fn with_display<T: Send>(&self, progress: &LoadProgress, work: impl FnOnce() -> T + Send) -> T {
        if self.quiet {
            return work();
        }
        let bar = ProgressBar::no_length();
        let style = "{spinner} {msg} {wide_bar} {percent}% {elapsed}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        std::thread::scope(|scope| {
            let worker = scope.spawn(work);
            let started = Instant::now();
            while !worker.is_finished() {
                show(&bar, progress, started);
                std::thread::sleep(Duration::from_millis(20));
            }
            bar.finish_and_clear();
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn show(bar: &ProgressBar, progress: &LoadProgress, started: Instant) {
    let Some(phase) = progress.phase() else {
        return;
    };
    let seconds = started.elapsed().as_secs_f64().max(0.001);
    let quads = progress.parse.quads.load(Ordering::Relaxed);
    if phase.name == "parse" {
        let done = progress.parse.bytes_read.load(Ordering::Relaxed);
        let left = (phase.total > done && done > 0)
            .then(|| Duration::from_secs_f64(seconds * (phase.total - done) as f64 / done as f64));
        bar.set_length(phase.total.max(done));
        bar.set_position(done);
        bar.set_message(format!(
            "parse  {} quads  {}/s  {}",
            human_count(quads),
            human_count((quads as f64 / seconds) as u64),
            left.map_or_else(String::new, |left| format!("{} left", HumanDuration(left))),
        ));
    } else {
        let done = progress.done.load(Ordering::Relaxed);
        bar.set_length(phase.total.max(1));
        bar.set_position(done.min(phase.total));
        bar.set_message(format!("{}  {} quads", phase.name, human_count(quads)));
    }
}

fn print_skipped(skipped: u64, first: &[pythia_rdf::SyntaxProblem]) {
    if skipped == 0 {
        return;
    }
    eprintln!("skipped {} statements with errors:", human_count(skipped));
    for problem in first {
        eprintln!("  {problem}");
    }
    if skipped > first.len() as u64 {
        eprintln!("  …");
    }
}

fn print_report(report: &LoadReport, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    print_skipped(report.skipped, &report.first_skipped);
    eprintln!(
        "loaded {} quads ({} terms) in {seconds:.2} s, {} quads/s",
        human_count(report.quads),
        human_count(report.terms),
        human_count((report.quads_read as f64 / seconds) as u64),
    );
    if report.known_quads > 0 {
        eprintln!("  {} already existed", human_count(report.known_quads));
    }
    let repeated = report.quads_read - report.quads - report.known_quads;
    if repeated > 0 {
        eprintln!("  {} were duplicates", human_count(repeated));
    }
    let phases: Vec<String> = report
        .phases
        .iter()
        .map(|(name, time)| format!("{name} {:.2} s", time.as_secs_f64()))
        .collect();
    eprintln!("  {}", phases.join(", "));
    if report.tmp_bytes_peak > 0 {
        eprintln!(
            "  temporary files: {} at most",
            human_bytes(report.tmp_bytes_peak)
        );
    }
}
