//! The single writer of a store, with as many changed quads per transaction.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Compression, Database, Options, RdfFormat, Source};
use pythia_io::{DirectStorage, MemoryStorage, Storage};
use pythia_store::load::{LoadOptions, load};
use pythia_store::write::WriteOptions;
use serde::Serialize;

use crate::updates::store::commit;

/// Rates of commits to a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SingleWriter {
    /// Clients that commit at the same time.
    pub clients: usize,
    /// Quads of each commit.
    pub quads: usize,
    /// True if commits are durable on the device; false if the store and its log are in memory.
    pub durable: bool,
    /// Commits.
    pub commits: u64,
    /// Commits per second.
    pub commits_per_second: f64,
}

/// Measures commits to a new store: in a folder, or in memory, where a sync takes no time.
pub(super) fn measure(
    folder: Option<&Path>,
    clients: usize,
    quads: usize,
    time: Duration,
) -> Result<SingleWriter> {
    let folder = folder.map(|folder| folder.join("store"));
    let storage: Arc<dyn Storage> = match &folder {
        Some(folder) => Arc::new(DirectStorage::open(folder, true)?),
        None => Arc::new(MemoryStorage::new()),
    };
    let text = "<http://example.org/s> <http://example.org/p> <http://example.org/o> .\n";
    let (format, compression) = (RdfFormat::NTriples, Compression::None);
    let source = Source::from_reader("a quad".to_owned(), text.as_bytes(), format, compression)?;
    let options = LoadOptions::default();
    load(
        Arc::clone(&storage),
        vec![source],
        &options,
        &Arc::default(),
    )?;
    let options = Options {
        write: Some(WriteOptions::default()),
        ..Options::default()
    };
    let database = Database::open_storage(storage, options).context("open the store")?;
    let started = Instant::now();
    let commits = commit_until(&database, clients, quads, started + time)?;
    let seconds = started.elapsed().as_secs_f64();
    drop(database);
    if let Some(folder) = &folder {
        std::fs::remove_dir_all(folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(SingleWriter {
        clients,
        quads,
        durable: folder.is_some(),
        commits,
        commits_per_second: commits as f64 / seconds,
    })
}

/// Returns the number of commits of all clients.
fn commit_until(database: &Database, clients: usize, quads: usize, until: Instant) -> Result<u64> {
    let client = |number: usize| -> Result<u64> {
        let (mut serial, mut commits) = (0, 0);
        while Instant::now() < until {
            commit(database, number, &mut serial, quads)?;
            commits += 1;
        }
        Ok(commits)
    };
    std::thread::scope(|scope| {
        let client = &client;
        let start = |number| scope.spawn(move || client(number));
        let threads: Vec<_> = (0..clients).map(start).collect();
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.map_err(|_| anyhow::anyhow!("a client panicked"))?
        });
        joined.sum()
    })
}
