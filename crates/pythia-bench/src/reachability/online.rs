//! The latency of point queries beside builds of reachability labels: windows without and with builds take turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pythia::{
    Auxiliary, Database, OptimizeOptions, Options as DatabaseOptions, Pace, WriteOptions,
};
use serde::Serialize;

use super::Options;
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, count, figure};
use crate::timed::bound_rows;

/// Windows of each kind.
const WINDOWS: usize = 8;

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct OnlineReport {
    /// The machine.
    pub machine: Machine,
    /// The predicate of the labels.
    pub predicate: String,
    /// Latency of point queries without a build.
    pub calm: LatencySummary,
    /// The same during builds.
    pub building: LatencySummary,
    /// Builds that ended.
    pub builds: u64,
    /// Duration of a build, on average.
    pub build_seconds: f64,
}

/// Asks point queries about terms with the predicate, one after the other, for `seconds` in all, half of the time
/// beside builds of its labels.
pub fn run_online(options: &Options, seconds: f64) -> Result<OnlineReport> {
    let machine = Machine::now();
    let limits = DatabaseOptions {
        cache_bytes: options.cache_bytes,
        memory_bytes: options.memory_bytes,
        write: Some(WriteOptions::default()),
        ..DatabaseOptions::default()
    };
    let database = Database::open_with(&options.location, limits)?;
    let queries = queries(&database, options)?;
    let window = Duration::from_secs_f64(seconds / (2 * WINDOWS) as f64);
    let (mut calm, mut building) = (Latencies::default(), Latencies::default());
    // Warms up.
    ask(&database, &queries, window, &mut Latencies::default())?;
    let (mut builds, mut build_time) = (0, Duration::ZERO);
    for _ in 0..WINDOWS {
        ask(&database, &queries, window, &mut calm)?;
        let is_over = AtomicBool::new(false);
        let pace = Pace::default().with_rests();
        let built = std::thread::scope(|scope| -> Result<_> {
            let builder = scope.spawn(|| build_until(&database, options, &pace, &is_over));
            let asked = ask(&database, &queries, window, &mut building);
            is_over.store(true, Ordering::Relaxed);
            pace.cancel();
            let built = builder.join().expect("builds do not panic");
            asked.and(built)
        })?;
        builds += built.0;
        build_time += built.1;
    }
    Ok(OnlineReport {
        machine,
        predicate: options.predicate.clone(),
        calm: calm.summary(),
        building: building.summary(),
        builds,
        build_seconds: build_time.as_secs_f64() / builds.max(1) as f64,
    })
}

/// Builds labels one after the other. Returns how many builds ended, and their time.
fn build_until(
    database: &Database,
    options: &Options,
    pace: &Pace,
    is_over: &AtomicBool,
) -> Result<(u64, Duration)> {
    let labels = Auxiliary {
        reachability: vec![options.predicate.clone()],
        ..Auxiliary::default()
    };
    let resources = OptimizeOptions {
        memory_bytes: options.memory_bytes,
        ..OptimizeOptions::default()
    };
    let (mut builds, mut time) = (0, Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let started = Instant::now();
        match database.optimize(&labels, resources, pace) {
            Ok(_) => {
                builds += 1;
                time += started.elapsed();
            }
            Err(_) if pace.is_cancelled() => break,
            Err(error) => return Err(error).context("build labels"),
        }
    }
    Ok((builds, time))
}

fn queries(database: &Database, options: &Options) -> Result<Vec<String>> {
    let predicate = &options.predicate;
    let edges = format!(
        "SELECT ?a {{ ?a <{predicate}> ?b FILTER isIRI(?a) }} ORDER BY RAND() LIMIT {}",
        options.questions
    );
    let edges = bound_rows(database, &edges)?;
    ensure!(!edges.is_empty(), "no edges of {predicate} from IRIs");
    let query = |edge: &Vec<pythia::Term>| format!("SELECT * {{ {} ?p ?o }}", edge[0]);
    Ok(edges.iter().map(query).collect())
}

fn ask(
    database: &Database,
    queries: &[String],
    time: Duration,
    latencies: &mut Latencies,
) -> Result<()> {
    let until = Instant::now() + time;
    for query in queries.iter().cycle() {
        let started = Instant::now();
        if started >= until {
            break;
        }
        bound_rows(database, query)?;
        latencies.record(started.elapsed());
    }
    Ok(())
}

impl OnlineReport {
    /// Formats the report as a table.
    pub fn text(&self) -> String {
        let title = "Point queries beside builds of reachability labels";
        let mut table = Table::new(
            title.to_owned(),
            &["", "p50 us", "p95 us", "p99 us", "queries"],
        );
        for (name, latency) in [("without", &self.calm), ("beside builds", &self.building)] {
            table.row(vec![
                name.to_owned(),
                figure(latency.p50_us),
                figure(latency.p95_us),
                figure(latency.p99_us),
                count(latency.count),
            ]);
        }
        let ratio = |of: fn(&LatencySummary) -> f64| figure(of(&self.building) / of(&self.calm));
        table.row(vec![
            "ratio".to_owned(),
            ratio(|latency| latency.p50_us),
            ratio(|latency| latency.p95_us),
            ratio(|latency| latency.p99_us),
            String::new(),
        ]);
        table.note(format!(
            "{} builds of labels of {}, each {:.2} s",
            count(self.builds),
            self.predicate,
            self.build_seconds
        ));
        format!("{}\n{}", self.machine.describe(), table.text())
    }
}
