//! `pythia bench updates`: the cost of durable commits, and of changes to scans and queries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::queries::{self, NamedQuery};
use pythia_bench::updates::{load, log, store};

use super::masm::MasmArguments;
use crate::arguments::{bytes, time};
use crate::output::show;

/// Measure commits by many clients, and scans and queries on a store that changes
///
/// Without a store, only the log is measured and compared with the device's own rate of durable
/// writes; then commits to modelled flash devices, to the log alone and through a store in memory,
/// and the replay of a log from such devices. With --store, copies of the store are used: for
/// commits of some quads; with --load, for
/// loads of that many quads, alone and concurrently with commits; with --masm, for range scans and
/// queries with and without changes that are not compacted (MaSM), with commits and a compaction
/// beside them, and beside a simulated store that updates pages in place. Data is written to a
/// temporary folder that is removed afterwards.
///
///   pythia bench updates --folder /mnt/ssd --clients 1,8,32
///   pythia bench updates --store bsbm.pythia --masm --queries bi.jsonl --report masm.html
///   pythia bench updates --store bsbm.pythia --load 1000000 --beside 0,100
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Updates {
    /// Folder to write to, on the device that is to be measured
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Numbers of clients
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    clients: Vec<usize>,

    /// Bytes of each commit
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    payload: Vec<usize>,

    /// Numbers of log folders
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    folders: Vec<usize>,

    /// Numbers of modelled flash devices; 0 for none
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,6,8,10")]
    devices: Vec<usize>,

    /// Size of the log that is replayed from modelled devices
    #[arg(long, value_parser = bytes, default_value = "64M", value_name = "BYTES")]
    replay: usize,

    /// Duration of each measurement
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = time)]
    seconds: Duration,

    /// Use copies of this store, instead of measuring only the log
    #[arg(long, value_name = "STORE")]
    store: Option<PathBuf>,

    #[command(flatten)]
    masm: MasmArguments,

    /// Load this many new quads into copies of the store, instead of the above
    #[arg(long, requires = "store", value_name = "QUADS")]
    load: Option<u64>,

    /// Commits of ten quads per second during each load
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "0,100",
        requires = "load",
        value_name = "RATES"
    )]
    beside: Vec<u32>,

    /// Numbers of quads of each commit
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,1000",
        requires = "store"
    )]
    batch: Vec<usize>,

    /// Memory for the page cache
    #[arg(long, value_parser = bytes, default_value = "256M", requires = "store")]
    cache: usize,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Updates {
    pub(super) fn run(self) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.folder)
            .with_context(|| format!("make a folder in {}", self.folder.display()))?;
        if let (Some(store), Some(quads)) = (&self.store, self.load) {
            let options = load::Options {
                store: store.clone(),
                quads,
                rates: self.beside,
                cache_bytes: self.cache,
            };
            let report = load::run(folder.path(), &options, |line| eprintln!("{line}"))?;
            let json = serde_json::to_value(&report)?;
            return show(self.json.as_deref(), &report.text(), json);
        }
        if let (Some(store), true) = (&self.store, self.masm.masm) {
            let queries = read_queries(self.masm.queries.as_deref())?;
            let (store, cache_bytes) = (store.clone(), self.cache);
            let report = self.masm.run(store, folder.path(), queries, cache_bytes)?;
            let json = serde_json::to_value(&report)?;
            return show(self.json.as_deref(), &report.text(), json);
        }
        if let Some(store) = &self.store {
            let report = self.run_store(store, folder.path())?;
            let json = serde_json::to_value(&report)?;
            return show(self.json.as_deref(), &report.text(), json);
        }
        let options = log::Options {
            clients: self.clients,
            payload_bytes: self.payload,
            folders: self.folders,
            time: self.seconds,
            modelled: self
                .devices
                .into_iter()
                .filter(|count| *count > 0)
                .collect(),
            replay_bytes: self.replay as u64,
        };
        let report = log::run(folder.path(), &options, |line| eprintln!("{line}"))?;
        show(
            self.json.as_deref(),
            &report.text(),
            serde_json::to_value(&report)?,
        )
    }

    fn run_store(&self, path: &Path, folder: &Path) -> Result<store::Report> {
        let pairs = |&clients: &usize| self.batch.iter().map(move |&batch| (clients, batch));
        let options = store::Options {
            store: path.to_owned(),
            commits: self.clients.iter().flat_map(pairs).collect(),
            time: self.seconds,
            cache_bytes: self.cache,
        };
        store::run(folder, &options, |line| eprintln!("{line}"))
    }
}

fn read_queries(file: Option<&Path>) -> Result<Vec<NamedQuery>> {
    let Some(file) = file else {
        return Ok(Vec::new());
    };
    let text = std::fs::read_to_string(file);
    queries::read(&text.with_context(|| format!("read {}", file.display()))?)
}
