//! `pythia verify`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pythia::{Problem, VerifyOptions};

use crate::arguments::{bytes, counted, human_count};
use crate::exit::DataError;

/// Check a store: all checksums, the structure of every page, and that all orders hold the same
/// quads
///
/// Exit code 3 if anything is wrong. Each problem names its file and page.
#[derive(Args)]
pub(crate) struct Verify {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// Memory for the page cache
    #[arg(long, env = "PYTHIA_CACHE", value_name = "SIZE", value_parser = bytes, default_value = "64M")]
    cache: usize,
}

impl Verify {
    pub(crate) fn run(self) -> Result<()> {
        let started = Instant::now();
        let bar = ProgressBar::no_length();
        let style = "{spinner} verify {wide_bar} {percent}% {elapsed}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        let options = VerifyOptions {
            cache_bytes: self.cache,
            ..VerifyOptions::default()
        };
        let report = pythia::verify(&self.location, options, &mut |progress| {
            bar.set_length(progress.pages_total);
            bar.set_position(progress.pages);
        })?;
        bar.finish_and_clear();
        let mut out = io::stdout().lock();
        for problem in &report.problems {
            writeln!(out, "{problem}")?;
        }
        if report.unlisted_problems > 0 {
            writeln!(out, "… and {} more", human_count(report.unlisted_problems))?;
        }
        if !report.is_sound() {
            let count = report.problems.len() as u64 + report.unlisted_problems;
            let is_of_log = |problem: &Problem| {
                let file = &problem.file;
                file == "LOG" || file == "the log" || file.contains("log/")
            };
            let salvage = match report.problems.iter().any(is_of_log) {
                true => {
                    "; `pythia salvage` shows which commits its log has lost, and can continue without them"
                }
                false => "",
            };
            return Err(DataError(format!(
                "{} has {}: restore it from a backup, or load the data again{salvage}",
                self.location.display(),
                counted(count, "problem"),
            ))
            .into());
        }
        writeln!(
            out,
            "sound: {}, {}, {} verified in {:.2} s",
            counted(report.quads, "quad"),
            counted(report.terms, "term"),
            counted(report.pages, "page"),
            started.elapsed().as_secs_f64(),
        )?;
        Ok(())
    }
}
