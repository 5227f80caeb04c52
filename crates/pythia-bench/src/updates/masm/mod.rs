//! Range scans and queries on a store whose recent changes are in sorted runs (MaSM, "Flash in a DBMS: Where and How?",
//! Bulletin §3, Figure 4): `pythia bench updates --masm`.
//!
//! The same work runs on the store without changes, and on a copy with changes that are in runs and in memory, in turn:
//! - [`work`]: range scans drawn from the store's data, and queries of a file;
//! - [`changes`]: the copy, whose memory for changes follows the paper's rule;
//! - [`compare`]: runs in turn, with empty caches or with the pages in memory, and the ratio of their times;
//! - [`beside`]: commits to the copy, during the runs;
//! - [`migration`]: runs during a compaction;
//! - [`in_place`]: a simulated store that updates pages in place, for the paper's comparison;
//! - [`report`]: the report as text and as a page, with the paper's figures beside ours.

pub mod beside;
pub mod changes;
pub mod compare;
mod in_place;
mod migration;
mod paper;
mod report;
#[cfg(test)]
mod tests;
mod work;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pythia::{Database, Options as DatabaseOptions, StoreReport};
use pythia_io::{BUDGET_BYTES_MIN, DirectStorage};
use serde::Serialize;

use self::beside::{Rate, while_working};
use self::changes::{ChangedStore, Memory};
use self::compare::{Case, Comparison, Condition, Side, in_turn};
use self::in_place::Pages;
use self::migration::Migrations;
use self::work::Work;
use super::store::{commit, copy_store};
use crate::machine::Machine;
use crate::queries::NamedQuery;

/// Quads of a commit beside the runs.
const COMMIT_QUADS: usize = 10;
/// The store is at least this many times as large as the cache of cold runs.
const COLD_PART: u64 = 4;
/// The most changed quads, in percent of the store.
const PERCENT_MAX: f64 = 50.0;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The store without and with changes.
    Changed,
    /// The same while changes are committed to it.
    Stream,
    /// The store with changes, without and during a migration.
    Migration,
    /// The store without changes, without and beside simulated updates in place.
    InPlace,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Changed, Self::Stream, Self::Migration, Self::InPlace];
}

/// Parameters of the benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store, without changes; it is not changed.
    pub store: PathBuf,
    /// The parts to run.
    pub parts: Vec<Part>,
    /// The states of the caches.
    pub conditions: Vec<Condition>,
    /// Queries to run, besides the scans.
    pub queries: Vec<NamedQuery>,
    /// Lengths of the scans, in percent of the quads; none for no scans.
    pub lengths: Vec<f64>,
    /// Scans of each kind and length.
    pub each: usize,
    /// Percentages of the quads that are changed.
    pub percent: Vec<f64>,
    /// The memory of changes. The first is also that of the parts `Stream` and `Migration`.
    pub memory: Vec<Memory>,
    /// Commits per second, of ten quads each, beside the runs of the parts `Stream` and `InPlace`.
    pub commits_per_second: u32,
    /// Pages that a changed quad costs a store that updates in place.
    pub in_place_pages: Vec<u32>,
    /// Pairs of runs of each scan and query.
    pub rounds: u32,
    /// Bytes of pages in memory for warm runs.
    pub cache_bytes: usize,
    /// The same for cold runs; `None` for a quarter of the store.
    pub cold_cache_bytes: Option<usize>,
    /// Seed of all choices.
    pub seed: u64,
}

/// Results of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The way of reading.
    pub backend: String,
    /// The reason why reads of the device come from the kernel's cache, if they do.
    pub not_direct: Option<String>,
    /// Quads of the store.
    pub quads: u64,
    /// Bytes of its base.
    pub base_bytes: u64,
    /// Bytes of a page of the order of subjects.
    pub page_bytes: usize,
    /// Bytes of all orders.
    pub order_bytes: u64,
    /// Pairs of runs of each scan and query.
    pub rounds: u32,
    /// Bytes of pages in memory, for each of [`Condition::ALL`].
    pub cache_bytes: [usize; 2],
    /// Seed of all choices.
    pub seed: u64,
    /// The stores with changes.
    pub stores: Vec<ChangedStore>,
    /// The comparisons.
    pub comparisons: Vec<Comparison>,
}

/// Runs the benchmark in `folder`, which must be on the device to measure.
pub fn run(folder: &Path, options: &Options, progress: impl FnMut(&str)) -> Result<Report> {
    options.check()?;
    let mut experiment = Experiment::prepare(folder, options, progress)?;
    if options.parts.iter().any(|part| *part != Part::InPlace) {
        for &percent in &options.percent {
            experiment.with_changes(percent)?;
        }
    }
    if options.parts.contains(&Part::InPlace) {
        experiment.in_place()?;
    }
    Ok(experiment.report)
}

impl Options {
    /// Fails if the benchmark cannot be run with these parameters, whatever the store.
    pub fn check(&self) -> Result<()> {
        ensure!(self.rounds > 0, "there is at least one round");
        ensure!(
            !self.queries.is_empty() || !self.lengths.is_empty(),
            "nothing to compare: give lengths of scans, or queries"
        );
        let is_percent = |most: f64| move |percent: &f64| *percent > 0.0 && *percent <= most;
        ensure!(
            self.lengths.iter().all(is_percent(100.0)),
            "the length of a scan is more than 0 and at most 100 % of the quads"
        );
        ensure!(
            self.percent.iter().all(is_percent(PERCENT_MAX)),
            "changed quads are more than 0 and at most {PERCENT_MAX} % of the store"
        );
        let has_stream = self.parts.contains(&Part::Stream) || self.parts.contains(&Part::InPlace);
        ensure!(
            !has_stream || self.commits_per_second > 0,
            "the parts stream and in-place need a rate of commits above 0"
        );
        Ok(())
    }
}

/// A running benchmark.
struct Experiment<'o, P> {
    folder: &'o Path,
    options: &'o Options,
    progress: P,
    works: Vec<Work>,
    /// The pages that are updated in place.
    pages: Pages,
    report: Report,
}

impl<'o, P: FnMut(&str)> Experiment<'o, P> {
    fn prepare(folder: &'o Path, options: &'o Options, mut progress: P) -> Result<Self> {
        let machine = Machine::now();
        progress("draw scans");
        let clean = open_clean(&options.store, options.cache_bytes)?;
        let snapshot = clean.snapshot();
        ensure!(
            !snapshot.has_changes(),
            "{} has changes that are not compacted; run `pythia compact -l STORE` first",
            options.store.display()
        );
        let sizes = StoreReport::new(clean.store());
        let base_bytes = clean.store().manifest().base_bytes();
        let quarter = usize::try_from(base_bytes / COLD_PART)?.max(BUDGET_BYTES_MIN);
        let cold_cache_bytes = options.cold_cache_bytes.unwrap_or(quarter);
        ensure!(
            cold_cache_bytes <= quarter,
            "the cache of cold runs may have at most {quarter} bytes, a quarter of the store"
        );
        let mut works = work::draw(&snapshot, &options.lengths, options.each, options.seed)?;
        works.extend(options.queries.iter().map(Work::of_query));
        let page_bytes = sizes.orders[0].file.page_bytes;
        let order_bytes = sizes.order_bytes();
        // Without updates in place, a small file shows whether the folder is on a device.
        let has_updates = options.parts.contains(&Part::InPlace);
        let file_bytes = if has_updates { order_bytes } else { 0 };
        let pages = Pages::create(folder, file_bytes, page_bytes, options.seed)?;
        let report = Report {
            machine,
            backend: DirectStorage::open(folder, false)?.backend().to_string(),
            not_direct: pages.not_direct().map(str::to_owned),
            quads: sizes.statistics.quads,
            base_bytes,
            page_bytes,
            order_bytes,
            rounds: options.rounds,
            cache_bytes: [cold_cache_bytes, options.cache_bytes],
            seed: options.seed,
            stores: Vec::new(),
            comparisons: Vec::new(),
        };
        Ok(Self {
            folder,
            options,
            progress,
            works,
            pages,
            report,
        })
    }

    /// Compares the store with those that have this percentage of changed quads.
    fn with_changes(&mut self, percent: f64) -> Result<()> {
        let options = self.options;
        let cache_bytes = options.cache_bytes;
        let page_bytes = self.report.page_bytes;
        (self.progress)(&format!("{percent} %: choose changes"));
        let clean = open_clean(&options.store, cache_bytes)?;
        let swaps = changes::swaps(&clean.snapshot(), percent, options.seed)?;
        drop(clean);
        let path = self.folder.join("changed");
        copy_store(&options.store, &path)?;
        let cached_pages = changes::cached_pages(&path, cache_bytes, &swaps, page_bytes)?;
        std::fs::remove_dir_all(&path)?;
        for (place, &memory) in options.memory.iter().enumerate() {
            (self.progress)(&format!(
                "{percent} %: make changes, memory {}",
                memory.name()
            ));
            copy_store(&options.store, &path)?;
            let rule = (memory, cached_pages);
            let made = changes::make(&path, cache_bytes, (percent, &swaps), rule, page_bytes)?;
            for &part in &options.parts {
                if part == Part::Changed || place == 0 {
                    self.compare(part, &path, &made)?;
                }
            }
            self.report.stores.push(made);
            std::fs::remove_dir_all(&path)?;
        }
        Ok(())
    }

    /// Runs one part, except for updates in place, on a store with changes.
    fn compare(&mut self, part: Part, path: &Path, made: &ChangedStore) -> Result<()> {
        for &condition in &self.options.conditions {
            match part {
                Part::Changed => self.changed(condition, path, made)?,
                Part::Stream => self.stream(condition, path, made)?,
                Part::Migration => self.migration(condition, path, made)?,
                Part::InPlace => {}
            }
        }
        Ok(())
    }

    fn cache_bytes(&self, condition: Condition) -> usize {
        self.report.cache_bytes[condition as usize]
    }

    fn changed(&mut self, condition: Condition, path: &Path, made: &ChangedStore) -> Result<()> {
        let cache_bytes = self.cache_bytes(condition);
        let clean = open_clean(&self.options.store, cache_bytes)?;
        let changed = changes::open(path, cache_bytes, made.memory_bytes_limit, false)?;
        let sides = [Side::of(&clean), Side::of(&changed)];
        let case = Case::Changed {
            percent: made.percent,
            memory: made.memory,
        };
        let works = in_turn(&self.works, sides, condition, self.options.rounds)?;
        self.add(condition, case, works, None, Vec::new());
        Ok(())
    }

    fn stream(&mut self, condition: Condition, path: &Path, made: &ChangedStore) -> Result<()> {
        let cache_bytes = self.cache_bytes(condition);
        // A copy: the next condition has to find the same changes.
        let copy = self.folder.join("streamed");
        copy_store(path, &copy)?;
        let clean = open_clean(&self.options.store, cache_bytes)?;
        let changed = changes::open(&copy, cache_bytes, made.memory_bytes_limit, false)?;
        let mut serial = 0;
        let step = || -> Result<()> {
            commit(&changed, 0, &mut serial, COMMIT_QUADS)?;
            Ok(changed.store().maintain()?)
        };
        let sides = [&clean, &changed];
        let (works, rate) = beside(&self.works, sides, condition, self.options, step)?;
        let case = Case::Stream {
            percent: made.percent,
            memory: made.memory,
            commits_per_second: self.options.commits_per_second,
        };
        self.add(condition, case, works, Some(rate), Vec::new());
        drop(changed);
        std::fs::remove_dir_all(&copy).context("remove a copy of the store")
    }

    fn migration(&mut self, condition: Condition, path: &Path, made: &ChangedStore) -> Result<()> {
        let migrations = Migrations {
            changed: path,
            copy: &self.folder.join("migrated"),
            cache_bytes: self.cache_bytes(condition),
            memory_bytes: made.memory_bytes_limit,
            rounds: self.options.rounds,
        };
        let (works, seconds) = migrations.run(&self.works, condition)?;
        let case = Case::Migration {
            percent: made.percent,
            memory: made.memory,
        };
        self.add(condition, case, works, None, seconds);
        Ok(())
    }

    fn in_place(&mut self) -> Result<()> {
        let options = self.options;
        for &pages in &options.in_place_pages {
            for &condition in &options.conditions {
                let clean = open_clean(&options.store, self.cache_bytes(condition))?;
                let file = &mut self.pages;
                let step = || file.update(u64::from(pages) * COMMIT_QUADS as u64);
                let sides = [&clean, &clean];
                let (works, rate) = beside(&self.works, sides, condition, options, step)?;
                let case = Case::InPlace {
                    pages,
                    commits_per_second: options.commits_per_second,
                };
                self.add(condition, case, works, Some(rate), Vec::new());
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        condition: Condition,
        case: Case,
        works: Vec<compare::WorkTimes>,
        beside: Option<Rate>,
        migration_seconds: Vec<f64>,
    ) {
        let comparison = Comparison {
            condition,
            case,
            // Runs during a migration have no pairs.
            is_paired: migration_seconds.is_empty(),
            works,
            beside,
            migration_seconds,
        };
        (self.progress)(&comparison.line());
        self.report.comparisons.push(comparison);
    }
}

/// Compares two sides, with steps beside the runs of the second, at the rate of commits.
fn beside(
    works: &[Work],
    [first, second]: [&Database; 2],
    condition: Condition,
    options: &Options,
    step: impl FnMut() -> Result<()> + Send,
) -> Result<(Vec<compare::WorkTimes>, Rate)> {
    let per_second = f64::from(options.commits_per_second);
    while_working(per_second, step, |gate| {
        let second = Side {
            database: second,
            beside: Some((gate, Duration::from_secs_f64(1.0 / per_second))),
        };
        in_turn(works, [Side::of(first), second], condition, options.rounds)
    })
}

fn open_clean(path: &Path, cache_bytes: usize) -> Result<Database> {
    let options = DatabaseOptions {
        cache_bytes,
        ..DatabaseOptions::default()
    };
    Database::open_with(path, options).with_context(|| format!("open {}", path.display()))
}
