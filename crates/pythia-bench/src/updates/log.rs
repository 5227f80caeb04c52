//! Commits to the log by many clients, compared with the device's rate of durable writes: 4 KiB, one after the other, to
//! a file laid out like the log's.
//!
//! There are two experiments. On the actual device: 1 to 32 clients, commits of several sizes, the log in one folder and
//! in two. On modelled devices (FlashLogging; Bulletin §2.1): a disk, and one to four flash devices with occasional slow
//! writes, with and without issuing these again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia_io::{
    AlignedBuffer, DeviceModel, DirectStorage, MemoryStorage, ModelClock, ModelledStorage,
    SlowWrites, Storage, WriteModel,
};
use pythia_log::{Change, ChangeSet, Changes, Entry, Log, LogOptions, LogTerm, NO_GRAPH, StoreId};
use pythia_rdf::{TermKey, TermKind};
use serde::Serialize;

use crate::latency::{Latencies, LatencySummary};
use crate::machine::Machine;
use crate::table::{Table, figure, plain_text};

const WRITE_BYTES: usize = 4096;
const BASELINE_FILE_BYTES: u64 = 16 << 20;

const STORE: StoreId = StoreId([7; 16]);
/// Alternating parts in which a figure and its baseline are measured.
const TURNS: u32 = 8;

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
    /// True to measure modelled devices too.
    pub modelled: bool,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Results on the actual device.
    pub device: Vec<CommitResult>,
    /// Results on modelled devices.
    pub modelled: Vec<ModelledResult>,
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

/// Results of commits on modelled devices.
#[derive(Clone, Debug, Serialize)]
pub struct ModelledResult {
    /// The devices.
    pub devices: String,
    /// True if slow writes are issued again to another device.
    pub reissue: bool,
    /// Clients.
    pub clients: usize,
    /// Commits per second.
    pub commits_per_second: f64,
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
    let mut modelled = Vec::new();
    if options.modelled {
        let clients = options.clients.iter().copied().max().unwrap_or(1);
        for setup in SETUPS {
            let measured = setup.measure(clients, options.time)?;
            progress(&format!(
                "{}: {} commits/s",
                measured.devices,
                figure(measured.commits_per_second)
            ));
            modelled.push(measured);
        }
    }
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
        rate.add(commits(
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

/// A count within a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    count: u64,
    time: Duration,
}

impl Rate {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.time += other.time;
    }

    pub(super) fn per_second(self) -> f64 {
        self.count as f64 / self.time.as_secs_f64().max(1e-9)
    }
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

/// Measures commits.
fn commits(
    log: &Log,
    payload_bytes: usize,
    clients: usize,
    time: Duration,
    latencies: &mut Latencies,
) -> Result<Rate> {
    let started = Instant::now();
    let before = latencies.count();
    std::thread::scope(|scope| {
        let client = || client(log, payload_bytes, started + time);
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        for thread in threads {
            let of_client = thread.join().expect("clients do not panic");
            latencies.merge(&of_client.context("commit")?);
        }
        anyhow::Ok(())
    })?;
    Ok(Rate {
        count: latencies.count() - before,
        time: started.elapsed(),
    })
}

fn client(log: &Log, payload_bytes: usize, until: Instant) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut changes = ChangeSet::new();
    let iri = "http://example.org/".to_owned() + &"x".repeat(payload_bytes);
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: iri.as_bytes(),
    };
    let term = changes.add_term(LogTerm::Key(key));
    changes.push(Change {
        added: true,
        quad: [term, term, term, NO_GRAPH],
    });
    loop {
        let begun = Instant::now();
        if begun >= until {
            return Ok(latencies);
        }
        let entry = Entry {
            time: 1,
            key: None,
            changes: Changes::Inline(&changes),
        };
        log.wait(log.submit(&[entry])?)?;
        latencies.record(begun.elapsed());
    }
}

/// A set of modelled devices.
struct DeviceSetup {
    name: &'static str,
    devices: usize,
    writes: WriteModel,
    reissue: bool,
}

/// A disk of 10,000 turns a minute; each write waits for one turn.
const DISK: WriteModel = WriteModel {
    latencies: &[(4096, 6000.0)],
    ..IDEAL
};
/// Flash whose writes take a millisecond, and every 100th write 20 times as long.
const FLASH: WriteModel = WriteModel {
    slow: Some(SlowWrites {
        every: 100,
        earlier: 0,
        time: Duration::from_millis(20),
    }),
    ..IDEAL
};
const IDEAL: WriteModel = WriteModel {
    latencies: &[(4096, 1000.0)],
    ..DeviceModel::FLASH.writes
};

const SETUPS: [DeviceSetup; 7] = [
    DeviceSetup::new("1 disk", 1, DISK, true),
    DeviceSetup::new("1 flash", 1, FLASH, true),
    DeviceSetup::new("2 flash", 2, FLASH, false),
    DeviceSetup::new("2 flash", 2, FLASH, true),
    DeviceSetup::new("4 flash", 4, FLASH, false),
    DeviceSetup::new("4 flash", 4, FLASH, true),
    DeviceSetup::new("4 flash without slow writes", 4, IDEAL, true),
];

impl DeviceSetup {
    const fn new(name: &'static str, devices: usize, writes: WriteModel, reissue: bool) -> Self {
        Self {
            name,
            devices,
            writes,
            reissue,
        }
    }

    fn measure(&self, clients: usize, time: Duration) -> Result<ModelledResult> {
        let device = |_| -> Arc<dyn Storage> {
            let memory = Arc::new(MemoryStorage::new());
            let model = DeviceModel {
                writes: self.writes,
                ..DeviceModel::FLASH
            };
            Arc::new(ModelledStorage::new(memory, model, ModelClock::Real))
        };
        let devices = (0..self.devices).map(device).collect();
        let options = LogOptions {
            reissue: self.reissue,
            ..LogOptions::default()
        };
        let log = Log::create(devices, STORE, options)?;
        let mut latencies = Latencies::default();
        let rate = commits(&log, 100, clients, time, &mut latencies)?;
        log.close()?;
        Ok(ModelledResult {
            devices: self.name.to_owned(),
            reissue: self.reissue && self.devices > 1,
            clients,
            commits_per_second: rate.per_second(),
            latency: latencies.summary(),
        })
    }
}

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut tables = vec![self.device_table()];
        if !self.modelled.is_empty() {
            tables.push(self.modelled_table());
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

    fn modelled_table(&self) -> Table {
        let header = [
            "devices",
            "slow writes",
            "clients",
            "commits/s",
            "p50 ms",
            "p99 ms",
            "max ms",
        ];
        let mut table = Table::new("on modelled devices", &header);
        for row in &self.modelled {
            let reissued = if row.reissue {
                "issued again"
            } else {
                "waited for"
            };
            let mut cells = vec![
                row.devices.clone(),
                reissued.to_owned(),
                row.clients.to_string(),
                figure(row.commits_per_second),
            ];
            cells.extend(times(&row.latency));
            table.row(cells);
        }
        table.note("disk: 6 ms a write; flash: 1 ms, every 100th 20 ms");
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
            modelled: true,
        };
        let report = run(folder.path(), &options, |_| ()).expect("it runs");
        assert_eq!((report.device.len(), report.modelled.len()), (4, 7));
        for row in &report.device {
            assert!(row.commits_per_second > 0.0 && row.writes_per_second > 0.0);
            assert!(row.latency.count > 0);
        }
        let text = report.text();
        assert!(
            text.contains("commits/s") && text.contains("4 flash"),
            "{text}"
        );
        let left = std::fs::read_dir(folder.path().join("log-0")).expect("it is there");
        assert_eq!(left.count(), 0, "nothing is left behind");
    }
}
