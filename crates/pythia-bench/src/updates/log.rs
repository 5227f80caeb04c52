//! Commits to the log by many clients, compared with the device's rate of durable writes: 4 KiB, one after the other, to
//! a file laid out like the log's.
//!
//! There are three experiments. On the actual device: 1 to 32 clients, commits of several sizes, the log in one folder and
//! in two. On modelled devices: commits ([`flash`]), and the replay of a log ([`replay`]).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::{AlignedBuffer, DirectStorage, Storage};
use pythia_log::{Log, LogOptions};
use serde::Serialize;

use super::clients::{Rate, STORE, TURNS, changes_of, commit, commits};
use super::{flash, replay};
use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, figure, plain_text};

const WRITE_BYTES: usize = 4096;
const BASELINE_FILE_BYTES: u64 = 16 << 20;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// Bytes of a commit's terms.
    pub payload_bytes: Vec<usize>,
    /// Numbers of log folders, all on one device.
    pub folders: Vec<usize>,
    /// Duration of each measurement.
    pub time: Duration,
    /// Numbers of modelled devices; empty: none are measured.
    pub modelled: Vec<usize>,
    /// Bytes of the log that is replayed from modelled devices.
    pub replay_bytes: u64,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Results on the actual device.
    pub device: Vec<CommitResult>,
    /// Results on modelled devices.
    pub modelled: Option<Modelled>,
}

/// Results on modelled devices.
#[derive(Clone, Debug, Serialize)]
pub struct Modelled {
    /// Commits.
    pub commits: flash::Report,
    /// Replays.
    pub replays: replay::Report,
}

/// Results of commits by some clients.
#[derive(Clone, Debug, Serialize)]
pub struct CommitResult {
    /// Log folders.
    pub folders: usize,
    /// Bytes of a commit's terms.
    pub payload_bytes: usize,
    /// Clients, each waiting for its commit before it makes the next.
    pub clients: usize,
    /// Commits per second, all clients together.
    pub commits_per_second: f64,
    /// Durable writes of 4 KiB per second, one after the other, measured in turns with the commits.
    pub writes_per_second: f64,
    /// Latency from submitting a commit until it is durable.
    pub latency: LatencySummary,
}

/// Runs all measurements in a folder on the log's device.
pub fn run(folder: &Path, options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    let machine = Machine::now();
    let mut device = Vec::new();
    for &folders in &options.folders {
        for &payload_bytes in &options.payload_bytes {
            for &clients in &options.clients {
                let measured = measure(folder, folders, payload_bytes, clients, options.time)?;
                progress(&format!(
                    "{folders} folders, {payload_bytes} bytes, {clients} clients: {} commits/s",
                    figure(measured.commits_per_second)
                ));
                device.push(measured);
            }
        }
    }
    let modelled = match &*options.modelled {
        [] => None,
        devices => Some(Modelled {
            commits: flash::run(
                &flash::Options {
                    devices: devices.to_vec(),
                    clients: options.clients.iter().copied().max().unwrap_or(1),
                    time: options.time,
                },
                &mut progress,
            )?,
            replays: replay::run(devices, options.replay_bytes, &mut progress)?,
        }),
    };
    Ok(Report {
        machine,
        device,
        modelled,
    })
}

fn measure(
    folder: &Path,
    folders: usize,
    payload_bytes: usize,
    clients: usize,
    time: Duration,
) -> Result<CommitResult> {
    let mut devices: Vec<Arc<dyn Storage>> = Vec::new();
    for number in 0..folders {
        let path = folder.join(format!("log-{number}"));
        devices.push(Arc::new(DirectStorage::open(&path, true)?));
    }
    let options = LogOptions {
        retain_bytes: 64 << 20,
        ..LogOptions::default()
    };
    let log = Log::create(devices.clone(), STORE, options)?;
    // In turns, because the load of the machine varies.
    let mut baseline = Rate::default();
    let mut rate = Rate::default();
    let mut latencies = Latencies::default();
    for _ in 0..TURNS {
        baseline.add(durable_writes(&*devices[0], time / TURNS)?);
        rate.add(log_commits(
            &log,
            payload_bytes,
            clients,
            time / TURNS,
            &mut latencies,
        )?);
        log.checkpoint(log.next_position())?;
    }
    log.close()?;
    for storage in devices {
        storage.remove(pythia_log::FOLDER)?;
        storage.remove(pythia_log::RECORD_NAME)?;
    }
    Ok(CommitResult {
        folders,
        payload_bytes,
        clients,
        commits_per_second: rate.per_second(),
        writes_per_second: baseline.per_second(),
        latency: latencies.summary(),
    })
}

/// Measures durable writes, one after the other, in place, in a preallocated file.
pub(super) fn durable_writes(storage: &dyn Storage, time: Duration) -> Result<Rate> {
    let name = "baseline";
    let file = storage.create_log(name, BASELINE_FILE_BYTES)?;
    let mut bytes = AlignedBuffer::zeroed(WRITE_BYTES);
    bytes.fill(0xa5);
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed() < time {
        let offset = count * WRITE_BYTES as u64 % BASELINE_FILE_BYTES;
        file.write_at(offset, &bytes)?;
        file.sync()?;
        count += 1;
    }
    let time = started.elapsed();
    drop(file);
    storage.remove(name)?;
    Ok(Rate { count, time })
}

/// Measures commits to a log.
fn log_commits(
    log: &Log,
    payload_bytes: usize,
    clients: usize,
    time: Duration,
    latencies: &mut Latencies,
) -> Result<Rate> {
    let changes = changes_of(payload_bytes);
    commits(clients, time, latencies, |_| || commit(log, &changes))
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut tables = vec![self.device_table()];
        if let Some(modelled) = &self.modelled {
            tables.extend(modelled.commits.tables());
            tables.push(modelled.replays.table());
        }
        plain_text("commits to the log", &self.machine.describe(), &tables)
    }

    fn device_table(&self) -> Table {
        let header = [
            "folders",
            "bytes",
            "clients",
            "commits/s",
            "writes/s",
            "ratio",
            "p50 ms",
            "p99 ms",
            "max ms",
        ];
        let mut table = Table::new("on this device", &header);
        for row in &self.device {
            let mut cells = vec![
                row.folders.to_string(),
                row.payload_bytes.to_string(),
                row.clients.to_string(),
                figure(row.commits_per_second),
                figure(row.writes_per_second),
                figure(row.commits_per_second / row.writes_per_second),
            ];
            cells.extend(times(&row.latency));
            table.row(cells);
        }
        table.note("writes/s: durable writes of 4 KiB, one after the other, measured in turns with the commits");
        table
    }
}

fn times(latency: &LatencySummary) -> [String; 3] {
    [latency.p50_us, latency.p99_us, latency.max_us].map(crate::table::milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_measures_all_there_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            clients: vec![1, 4],
            payload_bytes: vec![100],
            folders: vec![1, 2],
            time: Duration::from_millis(20),
            modelled: vec![2],
            replay_bytes: 1 << 20,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert_eq!(report.device.len(), 4);
        let modelled = report.modelled.as_ref().expect("devices are modelled");
        assert_eq!(modelled.commits.devices.len(), 2);
        assert_eq!(modelled.replays.replays.len(), 3);
        for row in &report.device {
            assert!(row.commits_per_second > 0.0 && row.writes_per_second > 0.0);
            assert!(row.latency.count > 0);
        }
        let text = report.text();
        assert!(
            text.contains("commits/s") && text.contains("modelled"),
            "{text}"
        );
        let left = std::fs::read_dir(folder.path().join("log-0")).expect("it is there");
        assert_eq!(left.count(), 0, "nothing is left behind");
    }
}
