//! `pythia update`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use pythia::{
    Database, HttpService, Isolation, Loader, Options, QueryOptions, UpdateOptions, UpdateReport,
    WriteOptions,
};

use super::query::{point_at, text_of};
use crate::arguments::{LimitArguments, StoreArguments, counted, human_count, time};

/// Change a store with SPARQL Update
///
/// The update is read from -u, from a file, or from standard input. All of its operations are
/// applied, or none:
///
///   pythia update -l yago.pythia -u 'INSERT DATA { <urn:a> <urn:b> "c" }'
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Update {
    #[command(flatten)]
    store: StoreArguments,

    /// The update
    #[arg(short, long, value_name = "SPARQL", conflicts_with = "file")]
    update: Option<String>,

    /// A file with the update; standard input if neither a file nor -u is given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Apply the update at most once: if one with this key was applied before, nothing is changed
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Protection from others that are committed while the update runs: snapshot, or
    /// serializable, which repeats it if they have changed what it read
    #[arg(long, value_name = "LEVEL", default_value_t)]
    isolation: Isolation,

    /// Allow LOAD to read the files of this folder; relative IRIs then refer to files in it
    #[arg(long, value_name = "FOLDER")]
    load_folder: Option<PathBuf>,

    /// Allow LOAD to read over HTTP, from any server
    #[arg(long)]
    load_http: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Stop after this time and change nothing (500ms, 30s, 5m)
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// Make the default graph of WHERE the union of all graphs, unless USING or WITH names a graph.
    /// INSERT and DELETE still change the store's own default graph
    #[arg(long)]
    union_default_graph: bool,

    /// Base IRI for relative IRIs in the update
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
}

impl Update {
    pub(crate) fn run(self) -> Result<()> {
        let text = text_of(self.update.as_deref(), self.file.as_deref(), "an update")?;
        let options = UpdateOptions {
            query: QueryOptions {
                timeout: self.timeout,
                service: Some(Arc::new(HttpService::default())),
                union_default_graph: self.union_default_graph,
                ..QueryOptions::default()
            },
            load: self.loader().map(|loader| Arc::new(loader) as _),
            isolation: self.isolation,
            ..UpdateOptions::default()
        };
        let base = self.base()?;
        let update = pythia::Update::parse(&text, base.as_deref())
            .map_err(|error| point_at(&text, error.into(), "the update cannot be read"))?;
        let mut write = WriteOptions::default();
        // A short-lived command leaves compaction to `pythia compact`, or to a process that keeps
        // the store open.
        write.maintenance.compaction_quads_min = u64::MAX;
        let database = Database::open_with(
            &self.store.location,
            Options {
                write: Some(write),
                ..self.limits.options(self.store.cache)
            },
        )?;
        if let Some(before) = database.store().upgraded_from() {
            let now = database.store().manifest().format;
            eprintln!("upgraded the store from format {before} to format {now}");
        }
        let started = Instant::now();
        let report = database.update_parsed(&update, &options, self.key.as_deref())?;
        self.tell(&report, started.elapsed());
        for warning in &report.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(())
    }

    fn loader(&self) -> Option<Loader> {
        let mut loader = Loader::new();
        if let Some(folder) = &self.load_folder {
            loader = loader.with_folder(folder);
        }
        if self.load_http {
            loader = loader.with_http();
        }
        (self.load_folder.is_some() || self.load_http).then_some(loader)
    }

    /// Returns the base IRI: the given one, or that of the folder to load from.
    fn base(&self) -> Result<Option<String>> {
        let (None, Some(folder)) = (&self.base, &self.load_folder) else {
            return Ok(self.base.clone());
        };
        let folder = folder
            .canonicalize()
            .map_err(|error| crate::exit::UsageError(format!("{}: {error}", folder.display())))?;
        Ok(Some(Loader::iri_of_folder(&folder)))
    }

    fn tell(&self, report: &UpdateReport, took: Duration) {
        if self.json {
            let report = serde_json::json!({
                "position": report.position,
                "added": report.added,
                "removed": report.removed,
                "operations": report.operations,
                "milliseconds": took.as_secs_f64() * 1e3,
            });
            println!("{report}");
            return;
        }
        println!("{}", summary(report, took));
    }
}

/// Says what an update has done.
pub(super) fn summary(report: &UpdateReport, took: Duration) -> String {
    let position = match report.position {
        Some(position) => format!("commit {position}: "),
        None => String::new(),
    };
    format!(
        "{position}{} added, {} removed by {} in {:.3} ms",
        counted(report.added, "quad"),
        human_count(report.removed),
        counted(report.operations, "operation"),
        took.as_secs_f64() * 1e3,
    )
}
