//! `pythia compact`.

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use pythia::{ChangesReport, Compacted, MaintenanceOptions, NextStep, OptimizeOptions};
use serde_json::json;

use crate::arguments::{StoreArguments, bytes, counted, human_bytes, human_count};

/// Write the base and all changes as a new base
///
/// Readers are not disturbed, and an interrupted compaction goes on when the command is run again. A program that has the
/// store open for writing, such as a server, compacts by itself when enough has changed.
#[derive(Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    store: StoreArguments,

    /// Change nothing; show the base, the runs of changes, the log, and what is due
    #[arg(long)]
    status: bool,

    /// With --status: print JSON
    #[arg(long, requires = "status")]
    json: bool,

    /// Memory for compaction, a hard limit (for example 512M)
    #[arg(long, env = "PYTHIA_MEMORY", value_name = "SIZE", value_parser = bytes, default_value = "1G")]
    memory: usize,
}

impl Compact {
    pub(crate) fn run(self) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.status {
            return self.show(&mut out);
        }
        let options = OptimizeOptions {
            memory_bytes: self.memory,
            ..OptimizeOptions::default()
        };
        if !compact(&self.store.location, options, &mut out)? {
            writeln!(out, "nothing to compact: the base has all quads")?;
        }
        Ok(())
    }

    fn show(&self, out: &mut impl Write) -> Result<()> {
        let database = self.store.open_without_queries()?;
        let report = ChangesReport::new(database.store(), &MaintenanceOptions::default())?;
        match self.json {
            true => Ok(writeln!(out, "{:#}", as_json(&report))?),
            false => print(&report, out),
        }
    }
}

/// Compacts a store and says what it has written. Returns false if nothing had changed.
pub(super) fn compact(
    location: &Path,
    options: OptimizeOptions,
    out: &mut impl Write,
) -> Result<bool> {
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(compacted) = pythia::compact(location, options, threads)? else {
        return Ok(false);
    };
    writeln!(
        out,
        "new base: {}, {} in {:.2} s",
        counted(compacted.quads, "quad"),
        human_bytes(compacted.bytes),
        started.elapsed().as_secs_f64()
    )?;
    print_dropped(&compacted, out)?;
    Ok(true)
}

/// Prints the optional indexes that a compaction has dropped.
pub(super) fn print_dropped(compacted: &Compacted, out: &mut impl Write) -> Result<()> {
    for (kind, why) in &compacted.dropped {
        writeln!(out, "dropped: {kind:?}: {why}")?;
    }
    Ok(())
}

fn print(report: &ChangesReport, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "base      {}, {}",
        counted(report.base_quads, "quad"),
        human_bytes(report.base_bytes)
    )?;
    for run in &report.runs {
        writeln!(
            out,
            "run {:<5} level {}, {} added, {} removed, {}, {}",
            run.id,
            run.level,
            human_count(run.added),
            human_count(run.removed),
            counted(run.terms, "new term"),
            human_bytes(run.bytes)
        )?;
    }
    writeln!(
        out,
        "memory    {}, {}, {}",
        counted(report.memory_runs as u64, "run"),
        counted(report.memory_changes, "change"),
        human_bytes(report.memory_bytes as u64)
    )?;
    writeln!(
        out,
        "log       {} only in the log, {}",
        counted(report.log_commits, "commit"),
        human_bytes(report.log_bytes)
    )?;
    let next = match &report.next {
        NextStep::Nothing => "nothing is due".to_owned(),
        NextStep::Flush => "write the runs in memory to the device".to_owned(),
        NextStep::Merge(runs) => format!("merge runs {}", listed(runs)),
        NextStep::Compact => "write a new base".to_owned(),
    };
    writeln!(out, "next      {next}")?;
    Ok(())
}

fn listed(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    numbers.join(", ")
}

fn as_json(report: &ChangesReport) -> serde_json::Value {
    let run = |run: &pythia::RunReport| {
        json!({
            "id": run.id,
            "level": run.level,
            "added": run.added,
            "removed": run.removed,
            "terms": run.terms,
            "bytes": run.bytes,
        })
    };
    let (next, merged) = match &report.next {
        NextStep::Nothing => ("nothing", &[][..]),
        NextStep::Flush => ("flush", &[][..]),
        NextStep::Merge(runs) => ("merge", &runs[..]),
        NextStep::Compact => ("compact", &[][..]),
    };
    json!({
        "base": { "quads": report.base_quads, "bytes": report.base_bytes },
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        "memory": {
            "runs": report.memory_runs,
            "changes": report.memory_changes,
            "bytes": report.memory_bytes,
        },
        "log": { "commits": report.log_commits, "bytes": report.log_bytes },
        "next": { "step": next, "runs": merged },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_every_run_and_what_is_due() {
        let run = pythia::RunReport {
            id: 7,
            level: 1,
            added: 1200,
            removed: 3,
            terms: 40,
            bytes: 5 << 20,
            memory_bytes: 0,
        };
        let report = ChangesReport {
            base_quads: 10,
            base_bytes: 4096,
            runs: vec![run],
            memory_runs: 1,
            memory_changes: 2,
            memory_bytes: 100,
            log_commits: 2,
            log_bytes: 5000,
            next: NextStep::Merge(vec![3, 7]),
        };
        let mut text = Vec::new();
        print(&report, &mut text).expect("memory");
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.contains("run 7     level 1, 1,200 added, 3 removed"),
            "{text}"
        );
        assert!(text.ends_with("next      merge runs 3, 7\n"), "{text}");
        let json = as_json(&report);
        assert_eq!(json["runs"][0]["added"], 1200);
        assert_eq!(json["next"], json!({ "step": "merge", "runs": [3, 7] }));
    }
}
