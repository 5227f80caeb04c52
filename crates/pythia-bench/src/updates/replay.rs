//! The replay of a log from modelled devices: opening it for writing, and reading all its commits.
//!
//! The log is written once for each number of devices, spread over them evenly, and then opened on devices of two read
//! bandwidths: the Pythia paper's flash array, and a low-end drive as in FlashLogging (Bulletin §2.1; its bandwidth is our
//! assumption); and without a limit, which shows what the processor allows. The numbers of devices take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use pythia_io::{DeviceModel, MemoryStorage, ModelClock, ModelledStorage, Storage, WriteModel};
use pythia_log::{Change, ChangeSet, Log, LogOptions, LogTerm, NO_GRAPH, Position};
use pythia_rdf::{TermKey, TermKind};
use serde::Serialize;

use super::clients::{STORE, commit};
use crate::table::{Table, figure};

/// Bytes of a commit.
const COMMIT_BYTES: usize = 32 << 10;
/// Repetitions; the fastest counts.
const TURNS: usize = 3;
/// The log is written to devices of this latency, so that its threads take groups in turn.
const WRITES: WriteModel = WriteModel {
    latencies: &[(4096, 300.0)],
    ..DeviceModel::FLASH.writes
};

/// The read bandwidth of a low-end drive, in bytes per second.
const DRIVE_BYTES: u64 = 100_000_000;

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The replays, by bandwidth and number of devices.
    pub replays: Vec<Replay>,
}

/// The replay of a log on some devices.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Replay {
    /// Bytes per second that each device reads; 0 for no limit.
    pub device_bytes: u64,
    /// Devices.
    pub devices: usize,
    /// Bytes of the log's files, all devices together.
    pub file_bytes: u64,
    /// Seconds to open the log for writing: to find its end, its files and its keys.
    pub open_seconds: f64,
    /// Seconds to read all commits then.
    pub read_seconds: f64,
}

impl Replay {
    /// Returns the bytes per second to open the log and read its commits. Opening reads the files once, for the end of the
    /// log and its keys; reading reads them again.
    fn bytes_per_second(&self) -> f64 {
        self.file_bytes as f64 / (self.open_seconds + self.read_seconds)
    }
}

/// Writes logs on each number of devices, and replays them.
pub(super) fn run(
    devices: &[usize],
    bytes: u64,
    progress: &mut impl FnMut(&str),
) -> Result<Report> {
    let commits = bytes.div_ceil(COMMIT_BYTES as u64);
    let logs = devices.iter().map(|&count| write(count, commits));
    let logs = logs.collect::<Result<Vec<_>>>()?;
    let mut replays: Vec<Replay> = Vec::new();
    for device_bytes in [DRIVE_BYTES, DeviceModel::FLASH.bandwidth_bytes, 0] {
        let first = replays.len();
        for turn in 0..TURNS {
            for (number, log) in logs.iter().enumerate() {
                let replay = replay(log, commits, device_bytes)?;
                match replays.get_mut(first + number) {
                    None => replays.push(replay),
                    Some(best) if best.bytes_per_second() < replay.bytes_per_second() => {
                        *best = replay;
                    }
                    Some(_) => {}
                }
                if turn + 1 == TURNS {
                    let best = &replays[first + number];
                    progress(&format!(
                        "replay from {} modelled devices: {} MB/s",
                        best.devices,
                        figure(best.bytes_per_second() / 1e6)
                    ));
                }
            }
        }
    }
    Ok(Report { replays })
}

/// Writes a log of this many commits, spread over devices.
fn write(count: usize, commits: u64) -> Result<Vec<Arc<MemoryStorage>>> {
    let memory: Vec<_> = (0..count).map(|_| Arc::new(MemoryStorage::new())).collect();
    let model = DeviceModel {
        writes: WRITES,
        ..DeviceModel::FLASH
    };
    let modelled = memory.iter().map(|inner| {
        let inner = Arc::clone(inner) as Arc<dyn Storage>;
        Arc::new(ModelledStorage::new(inner, model, ModelClock::Real)) as _
    });
    let log = Log::create(modelled.collect(), STORE, options())?;
    let changes = random_changes();
    let begun = AtomicU64::new(0);
    let client = || -> Result<()> {
        while begun.fetch_add(1, Ordering::Relaxed) < commits {
            commit(&log, &changes)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2 * count).map(|_| scope.spawn(client)).collect();
        let mut results = threads.into_iter().map(|thread| thread.join());
        results.try_for_each(|result| result.expect("clients do not panic"))
    })?;
    log.close()?;
    Ok(memory)
}

fn options() -> LogOptions {
    LogOptions {
        prepare_ahead: false,
        ..LogOptions::default()
    }
}

/// Returns changes that cannot be compressed.
fn random_changes() -> ChangeSet {
    let mut bytes = vec![0; COMMIT_BYTES];
    rand::fill(&mut bytes[..]);
    let mut changes = ChangeSet::new();
    let key = TermKey {
        kind: TermKind::Iri,
        bytes: &bytes,
    };
    let term = changes.add_term(LogTerm::Key(key));
    changes.push(Change {
        added: true,
        quad: [term, term, term, NO_GRAPH],
    });
    changes
}

/// Opens a log for writing, and reads its commits.
fn replay(memory: &[Arc<MemoryStorage>], commits: u64, device_bytes: u64) -> Result<Replay> {
    let model = DeviceModel {
        bandwidth_bytes: device_bytes,
        ..DeviceModel::FLASH
    };
    let storage = |inner: &Arc<MemoryStorage>| -> Arc<dyn Storage> {
        let inner = Arc::clone(inner);
        match device_bytes {
            0 => inner,
            _ => Arc::new(ModelledStorage::new(inner, model, ModelClock::Real)),
        }
    };
    let devices = memory.iter().map(storage).collect();
    let started = Instant::now();
    let (log, found) = Log::open(devices, STORE, Position::FIRST, options())?;
    let open_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut count = 0;
    for commit in found {
        for changes in commit?.changes() {
            changes?;
        }
        count += 1;
    }
    let read_seconds = started.elapsed().as_secs_f64();
    log.close()?;
    ensure!(
        count == commits,
        "the log has {count} commits, not {commits}"
    );
    Ok(Replay {
        device_bytes,
        devices: memory.len(),
        file_bytes: memory.iter().map(|device| device.size_bytes()).sum(),
        open_seconds,
        read_seconds,
    })
}

impl Report {
    /// Makes a table of the replays.
    pub(super) fn table(&self) -> Table {
        let header = [
            "MB/s of a device",
            "devices",
            "MiB",
            "open ms",
            "read ms",
            "MB/s",
            "× one device",
        ];
        let mut table = Table::new("replay of a log from modelled devices", &header);
        for replay in &self.replays {
            let same =
                |other: &&Replay| (other.device_bytes, other.devices) == (replay.device_bytes, 1);
            let one = self.replays.iter().find(same);
            let times = one.map(|one| replay.bytes_per_second() / one.bytes_per_second());
            table.row(vec![
                match replay.device_bytes {
                    0 => "no limit".to_owned(),
                    bytes => (bytes / 1_000_000).to_string(),
                },
                replay.devices.to_string(),
                (replay.file_bytes >> 20).to_string(),
                figure(replay.open_seconds * 1e3),
                figure(replay.read_seconds * 1e3),
                figure(replay.bytes_per_second() / 1e6),
                times.map_or_else(String::new, |times| format!("{times:.2}")),
            ]);
        }
        table.note("modelled; the log is opened for writing, then all its commits are read; MB/s: bytes of the log in the time of both");
        table.note("opening reads the files once, reading once more; the devices are read at the same time; best of three turns");
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_devices_are_replayed_faster_than_one() {
        let report = run(&[1, 4], 2 << 20, &mut |_| ()).expect("it runs");
        let rate = |device_bytes, devices| {
            let mut replays = report.replays.iter();
            let found = replays
                .find(|replay| (replay.device_bytes, replay.devices) == (device_bytes, devices));
            found.expect("it was measured").bytes_per_second()
        };
        let (one, four) = (rate(DRIVE_BYTES, 1), rate(DRIVE_BYTES, 4));
        // Each file is read twice.
        assert!(one < DRIVE_BYTES as f64 / 1.9, "{one}");
        assert!(four > 1.2 * one, "{four} and {one}");
        assert!(report.table().text().contains("no limit"));
    }
}
