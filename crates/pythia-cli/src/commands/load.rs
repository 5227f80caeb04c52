//! `pythia load`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use pythia::{LoadError, LoadOptions, LoadProgress, LoadReport, Source};

use super::input::{Input, print_skipped, show_line};
use crate::arguments::{bytes, counted, human_bytes, human_count};

/// Load RDF files into a new or existing store
///
/// Loading into an existing store adds the missing quads in one step, while others read it. Blank
/// nodes in the files are always new.
///
/// Formats, by file name: .nt .nq .ttl .trig .rdf/.owl/.xml .jsonld, each also with .gz, .bz2 or
/// .zst. A syntax error names file, line and column, and nothing is loaded. Of a folder, all files with such names are
/// loaded, those of its folders too.
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

    #[command(flatten)]
    input: Input,

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

impl Load {
    pub(crate) fn run(self) -> Result<()> {
        let sources = self.input.sources()?;
        let options = LoadOptions {
            lenient: self.input.lenient,
            ..self.resources.options(self.location.as_deref())
        };
        let started = Instant::now();
        if self.parse_only {
            let progress = Arc::new(LoadProgress::default());
            let report = self.resources.with_display(&progress, || {
                pythia::parse_only(sources, &options, &progress)
            });
            let report = report.inspect_err(show_place)?;
            let seconds = started.elapsed().as_secs_f64();
            eprintln!(
                "parsed {}, {} of text in {seconds:.2} s ({:.0} MB/s, {} quads/s)",
                counted(report.quads, "quad"),
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
        });
        let report = report.inspect_err(show_place)?;
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

/// Prints the line of a syntax error.
fn show_place(error: &LoadError) {
    if let LoadError::Parse(error) = error {
        show_line(error);
    }
}

fn print_report(report: &LoadReport, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    print_skipped(report.skipped, &report.first_skipped);
    eprintln!(
        "loaded {} ({}) in {seconds:.2} s, {} quads/s",
        counted(report.quads, "quad"),
        counted(report.terms, "term"),
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
