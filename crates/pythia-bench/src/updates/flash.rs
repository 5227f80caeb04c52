//! Commits to modelled flash devices (FlashLogging; Bulletin §2.1): to the log alone, and through a store.
//!
//! For each number of devices, six logs are measured in turns: on one disk; on flash with occasional slow writes, which are
//! waited for or issued again to another device; on the same flash with a disk as a spare device, the article's archival
//! disk; on flash without slow writes, the ideal; and on devices without any latency, which show what the processor allows.
//! With one device and no spare there is no other to issue a write to: this is the SSD in place of the disk that the article
//! calls naive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use pythia::{Database, Options as DatabaseOptions};
use pythia_io::{
    DeviceModel, MemoryStorage, ModelClock, ModelledStorage, SlowWrites, Storage, WriteModel,
};
use pythia_log::{Log, LogOptions};
use pythia_store::load::{LoadOptions, load};
use pythia_store::write::{MaintenanceOptions, WriteOptions};
use serde::Serialize;

use super::clients::{Rate, STORE, TURNS, changes_of, commit, commits};
use super::store;
use crate::latency::{Latencies, LatencySummary};
use crate::table::{Table, figure, milliseconds};

/// Bytes of a commit's terms.
const PAYLOAD_BYTES: usize = 100;
/// Memory for the changes of a measured store, which keeps all of them: runs would be written to the modelled device.
const CHANGES_BYTES: usize = 4 << 30;
/// Share of the rate without latency from which the processor bounds the rate of the devices.
const BOUND_SHARE: f64 = 0.7;

/// A disk of 10,000 turns a minute; each write waits for one turn.
const DISK: WriteModel = WriteModel {
    latencies: &[(4096, 6000.0)],
    ..IDEAL
};
/// Flash whose writes take a millisecond.
const IDEAL: WriteModel = WriteModel {
    latencies: &[(4096, 1000.0)],
    ..DeviceModel::FLASH.writes
};

/// Time by which a slow write holds up the commits of the ideal: commits are acknowledged in order, so all wait until the log
/// finds it slow, after twice its usual time, and another device has written the same. The write itself would take one of
/// these three milliseconds.
const HELD_UP: Duration = Duration::from_millis(2);
/// Every 100th write of flash that has slow ones takes 20 times as long.
const SLOW: SlowWrites = SlowWrites {
    every: 100,
    earlier: 0,
    time: Duration::from_millis(20),
};

/// The article's figures, of transactions of TPC-C.
mod article {
    /// Percentage of the ideal.
    pub(super) const IDEAL_PERCENT: f64 = 98.6;
    /// Rate with flash as a multiple of that with a disk.
    pub(super) const DISK_TIMES: f64 = 5.7;
    /// Rate with an SSD in place of the disk, as a multiple.
    pub(super) const NAIVE_TIMES: f64 = 3.0;
    /// Rate with several partitions of the SSD as a multiple of that with the SSD as one device.
    pub(super) const PARALLEL_TIMES: f64 = 1.4;
}

/// The percentage of the ideal to reach.
const MARK_PERCENT: f64 = 98.0;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of flash devices.
    pub devices: Vec<usize>,
    /// Clients.
    pub clients: usize,
    /// Duration of each measurement.
    pub time: Duration,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Clients, each waiting for its commit before it makes the next.
    pub clients: usize,
    /// Results for each number of devices, to the log alone and through a store.
    pub devices: Vec<DevicesResult>,
}

/// The receiver of the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Through {
    /// The log alone; every client has changes of its own ready.
    Log,
    /// Transactions of a store, each of one new quad with two new terms.
    Store,
}

/// A kind of devices, and what the log does about slow writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Way {
    /// One disk.
    Disk,
    /// Flash; slow writes are waited for.
    Waiting,
    /// Flash; slow writes are issued again to another device.
    Reissued,
    /// Flash; slow writes are issued again, to a disk too while all flash is slow.
    Spare,
    /// Flash without slow writes.
    Ideal,
    /// Devices without latency.
    Instant,
}

const WAYS: [Way; 6] = [
    Way::Disk,
    Way::Waiting,
    Way::Reissued,
    Way::Spare,
    Way::Ideal,
    Way::Instant,
];

/// Results for a number of devices, measured in turns.
#[derive(Clone, Debug, Serialize)]
pub struct DevicesResult {
    /// The receiver of the commits.
    pub through: Through,
    /// Flash devices; there is one disk.
    pub devices: usize,
    /// Each way.
    pub ways: BTreeMap<Way, WayResult>,
}

/// Commits in one way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WayResult {
    /// Commits per second, all clients together.
    pub commits_per_second: f64,
    /// Latency from the begin of a commit until it is durable.
    pub latency: LatencySummary,
    /// Writes per second of all modelled devices together.
    pub writes_per_second: f64,
}

/// Measures commits to each number of devices.
pub(super) fn run(options: &Options, progress: &mut impl FnMut(&str)) -> Result<Report> {
    let mut devices = Vec::new();
    for through in [Through::Log, Through::Store] {
        for &count in &options.devices {
            let measured = measure(through, count, options)?;
            progress(&format!(
                "{count} modelled devices, {}: {} commits/s, {:.1} % of the ideal",
                through.name(),
                figure(measured.rate(Way::Reissued)),
                measured.ideal_percent()
            ));
            devices.push(measured);
        }
    }
    Ok(Report {
        clients: options.clients,
        devices,
    })
}

fn measure(through: Through, devices: usize, options: &Options) -> Result<DevicesResult> {
    let target = |way: Way| -> Result<Measured> {
        let mut models = Vec::new();
        Ok(Measured {
            way,
            target: Target::open(through, way, devices, &mut models)?,
            models,
            writes: 0,
            rate: Rate::default(),
            latencies: Latencies::default(),
        })
    };
    let mut measured = WAYS.map(target).into_iter().collect::<Result<Vec<_>>>()?;
    for turn in 0..TURNS as usize {
        // Each way comes at each place of a turn.
        measured.rotate_left(1);
        for one in &mut measured {
            let time = options.time / TURNS;
            let before = one.writes_so_far();
            let latencies = &mut one.latencies;
            let rate = one.target.run(turn, options.clients, time, latencies);
            one.rate.add(rate?);
            one.writes += one.writes_so_far() - before;
        }
    }
    let result = |one: Measured| {
        let commits_per_second = one.rate.per_second();
        let result = WayResult {
            commits_per_second,
            latency: one.latencies.summary(),
            writes_per_second: one.writes as f64 / one.rate.time.as_secs_f64().max(1e-9),
        };
        (one.way, result)
    };
    Ok(DevicesResult {
        through,
        devices,
        ways: measured.into_iter().map(result).collect(),
    })
}

/// A way that is being measured.
struct Measured {
    way: Way,
    target: Target,
    models: Vec<Arc<ModelledStorage>>,
    /// Writes of the devices during the turns.
    writes: u64,
    rate: Rate,
    latencies: Latencies,
}

impl Measured {
    fn writes_so_far(&self) -> u64 {
        let models = self.models.iter();
        models.map(|model| model.statistics().writes).sum()
    }
}

enum Target {
    Log(Log),
    Store(Box<Database>),
}

impl Target {
    /// Makes a log, or a store with its log, on devices of a kind, and adds these to `models`.
    fn open(
        through: Through,
        way: Way,
        devices: usize,
        models: &mut Vec<Arc<ModelledStorage>>,
    ) -> Result<Self> {
        let log = LogOptions {
            reissue: way != Way::Waiting,
            spare: Vec::from_iter((way == Way::Spare).then_some(devices)),
            ..LogOptions::default()
        };
        let own: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        if through == Through::Store {
            let (options, progress) = (LoadOptions::default(), Arc::default());
            load(Arc::clone(&own), Vec::new(), &options, &progress)?;
        }
        let own = way.storage(own, 0.0, models);
        let others = match way {
            Way::Disk => 0,
            _ => devices - 1,
        };
        let others = (1..=others).map(|number| (way, number));
        let others = others.chain((way == Way::Spare).then_some((Way::Disk, 0)));
        let others = others.map(|(way, number)| {
            let share = number as f64 / devices as f64;
            way.storage(Arc::new(MemoryStorage::new()), share, models)
        });
        if through == Through::Log {
            let storages = std::iter::once(own).chain(others).collect();
            return Ok(Self::Log(Log::create(storages, STORE, log)?));
        }
        let write = WriteOptions {
            log_storages: others.collect(),
            log,
            maintenance: MaintenanceOptions {
                memory_bytes: CHANGES_BYTES,
                in_background: false,
                ..MaintenanceOptions::default()
            },
            ..WriteOptions::default()
        };
        let options = DatabaseOptions {
            write: Some(write),
            ..DatabaseOptions::default()
        };
        let database = Database::open_storage(own, options).context("open a modelled store")?;
        Ok(Self::Store(Box::new(database)))
    }

    /// Commits for a time. The clients of each turn use other terms.
    fn run(
        &self,
        turn: usize,
        clients: usize,
        time: Duration,
        latencies: &mut Latencies,
    ) -> Result<Rate> {
        match self {
            Self::Log(log) => {
                let changes = changes_of(PAYLOAD_BYTES);
                commits(clients, time, latencies, |_| || commit(log, &changes))
            }
            Self::Store(database) => commits(clients, time, latencies, |client| {
                let client = turn * clients + client;
                let mut serial = 0;
                move || store::commit(database, client, &mut serial, 1)
            }),
        }
    }
}

impl Way {
    /// Puts a device of this kind in front of a storage. Its slow writes come earlier by this share of the writes between
    /// two slow ones: the devices of a log pause at different times.
    fn storage(
        self,
        inner: Arc<dyn Storage>,
        earlier: f64,
        models: &mut Vec<Arc<ModelledStorage>>,
    ) -> Arc<dyn Storage> {
        let slow = SlowWrites {
            earlier: (SLOW.every as f64 * earlier) as u64,
            ..SLOW
        };
        let writes = match self {
            Self::Disk => DISK,
            Self::Waiting | Self::Reissued | Self::Spare => WriteModel {
                slow: Some(slow),
                ..IDEAL
            },
            Self::Ideal => IDEAL,
            Self::Instant => return inner,
        };
        let model = DeviceModel {
            writes,
            ..DeviceModel::FLASH
        };
        let modelled = Arc::new(ModelledStorage::new(inner, model, ModelClock::Real));
        models.push(Arc::clone(&modelled));
        modelled
    }
}

impl Through {
    fn name(self) -> &'static str {
        match self {
            Self::Log => "the log alone",
            Self::Store => "through a store",
        }
    }
}

impl DevicesResult {
    /// Returns the commits per second in one way.
    pub fn rate(&self, way: Way) -> f64 {
        self.ways[&way].commits_per_second
    }

    /// Returns the rate with slow writes issued again as a percentage of that without slow writes.
    pub fn ideal_percent(&self) -> f64 {
        100.0 * self.rate(Way::Reissued) / self.rate(Way::Ideal)
    }

    /// Returns the percentage of the ideal that is left if nothing is lost but the time by which slow writes hold up commits.
    fn held_up_percent(&self) -> f64 {
        let slow_per_second = self.ways[&Way::Reissued].writes_per_second / SLOW.every as f64;
        100.0 * (1.0 - slow_per_second * HELD_UP.as_secs_f64()).max(0.0)
    }

    fn disk_times(&self) -> f64 {
        self.rate(Way::Reissued) / self.rate(Way::Disk)
    }

    fn waiting_times(&self) -> f64 {
        self.rate(Way::Reissued) / self.rate(Way::Waiting)
    }

    /// Returns whether the processor bounds the rate, not the devices.
    fn is_bound_by_processor(&self) -> bool {
        self.rate(Way::Ideal) >= BOUND_SHARE * self.rate(Way::Instant)
    }
}

impl Report {
    /// Makes a table of the commits to the log alone, and one of those through a store.
    pub(super) fn tables(&self) -> [Table; 2] {
        [Through::Log, Through::Store].map(|through| self.table(through))
    }

    fn table(&self, through: Through) -> Table {
        let header = [
            "flash devices",
            "disk",
            "waiting",
            "issued again",
            "with a spare",
            "ideal",
            "no latency",
            "of ideal",
            "expected",
            "× disk",
            "× waiting",
            "spare ×",
            "p50 ms",
            "p99 ms",
            "spare p99 ms",
        ];
        let title = format!(
            "modelled devices, {}, {} clients: commits/s",
            through.name(),
            self.clients
        );
        let mut table = Table::new(title, &header);
        let rows = self.devices.iter().filter(|row| row.through == through);
        let rows: Vec<&DevicesResult> = rows.collect();
        for row in &rows {
            let mut cells = vec![row.devices.to_string()];
            cells.extend(WAYS.map(|way| figure(row.rate(way))));
            cells.push(format!("{:.1} %", row.ideal_percent()));
            cells.push(match row.devices {
                1 => String::new(),
                _ => format!("{:.1} %", row.held_up_percent()),
            });
            cells.push(format!("{:.2}", row.disk_times()));
            cells.push(format!("{:.2}", row.waiting_times()));
            cells.push(format!(
                "{:.2}",
                row.rate(Way::Spare) / row.rate(Way::Reissued)
            ));
            let latency = |way: Way| row.ways[&way].latency;
            let (flash, spare) = (latency(Way::Reissued), latency(Way::Spare));
            cells.extend([flash.p50_us, flash.p99_us, spare.p99_us].map(milliseconds));
            table.row(cells);
        }
        table.note("modelled: a disk writes 4 KiB in 6 ms, flash in 1 ms and every 100th time in 20 ms, ideal flash always in 1 ms");
        table.note("measured in turns; p50 and p99: slow writes issued again; with a spare: and a disk that writes while all flash is slow");
        table.note("expected: all commits wait 2 ms for each slow write, until it is found slow and written again; so the fewer writes, the more of the ideal");
        table.note("one flash device without a spare has no other to issue a write to, so its first two rates differ by chance");
        notes(&rows).into_iter().for_each(|note| table.note(note));
        table
    }
}

/// A mark in words, and whether results meet it.
type Mark = (String, fn(&DevicesResult) -> bool);

/// Compares the results with the article's, and with the marks.
fn notes(rows: &[&DevicesResult]) -> Vec<String> {
    let several: Vec<&DevicesResult> = rows.iter().copied().filter(|row| row.devices > 1).collect();
    if several.is_empty() {
        return Vec::new();
    }
    let best =
        |value: fn(&DevicesResult) -> f64| several.iter().map(|row| value(row)).fold(0.0, f64::max);
    let mut notes = vec![
        format!(
            "at most {:.1} % of the ideal; article: {} %",
            best(DevicesResult::ideal_percent),
            article::IDEAL_PERCENT
        ),
        format!(
            "at most {:.1} times the disk; article: {}",
            best(DevicesResult::disk_times),
            article::DISK_TIMES
        ),
    ];
    if let Some(naive) = rows.iter().find(|row| row.devices == 1) {
        let one = naive.rate(Way::Waiting);
        let parallel = best(|row| row.rate(Way::Reissued)) / one;
        notes.push(format!(
            "one flash device in place of the disk: {:.1} times; article: {}; several in place of one: {parallel:.1} times more; \
             article: {}",
            one / naive.rate(Way::Disk),
            article::NAIVE_TIMES,
            article::PARALLEL_TIMES
        ));
    }
    let marks: [Mark; 3] = [
        (format!("at least {MARK_PERCENT} % of the ideal"), |row| {
            row.ideal_percent() >= MARK_PERCENT
        }),
        (
            format!("at least {} times the disk", article::DISK_TIMES),
            |row| row.disk_times() >= article::DISK_TIMES,
        ),
        (
            "issuing again is not slower than waiting".to_owned(),
            |row| row.waiting_times() >= 1.0,
        ),
    ];
    for (mark, is_met) in marks {
        let (met, missed): (Vec<_>, Vec<_>) = several.iter().copied().partition(|row| is_met(row));
        notes.push(match (&*met, &*missed) {
            (met, []) => format!("{mark}: with {} devices", numbers(met)),
            ([], missed) => format!("{mark}: not with {} devices", numbers(missed)),
            (met, missed) => {
                let (met, missed) = (numbers(met), numbers(missed));
                format!("{mark}: with {met} devices, not with {missed}")
            }
        });
    }
    let bound = several.iter().copied();
    let bound: Vec<_> = bound.filter(|row| row.is_bound_by_processor()).collect();
    if !bound.is_empty() {
        notes.push(format!(
            "with {} devices the processor is the limit: the ideal is {:.0} % or more of the rate without latency",
            numbers(&bound),
            BOUND_SHARE * 100.0
        ));
    }
    notes
}

fn numbers(rows: &[&DevicesResult]) -> String {
    let numbers: Vec<String> = rows.iter().map(|row| row.devices.to_string()).collect();
    numbers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of as many devices, with these rates.
    fn result(devices: usize, rates: [(Way, f64); 6]) -> DevicesResult {
        let way = |(way, commits_per_second)| {
            let latency = LatencySummary::default();
            let result = WayResult {
                commits_per_second,
                latency,
                writes_per_second: 1500.0,
            };
            (way, result)
        };
        DevicesResult {
            through: Through::Log,
            devices,
            ways: rates.into_iter().map(way).collect(),
        }
    }

    fn rates(disk: f64, waiting: f64, reissued: f64, ideal: f64, instant: f64) -> [(Way, f64); 6] {
        [
            (Way::Disk, disk),
            (Way::Waiting, waiting),
            (Way::Reissued, reissued),
            (Way::Spare, reissued),
            (Way::Ideal, ideal),
            (Way::Instant, instant),
        ]
    }

    #[test]
    fn the_notes_say_which_marks_are_met() {
        let results = [
            result(1, rates(100.0, 300.0, 290.0, 400.0, 9000.0)),
            result(2, rates(100.0, 400.0, 495.0, 500.0, 9000.0)),
            result(4, rates(100.0, 500.0, 580.0, 600.0, 9000.0)),
            result(8, rates(100.0, 600.0, 590.0, 600.0, 700.0)),
        ];
        // Of 1,500 writes, 15 are slow and hold up all for 30 ms.
        assert!((results[0].held_up_percent() - 97.0).abs() < 1e-9);
        let notes = notes(&results.iter().collect::<Vec<_>>()).join("\n");
        for expected in [
            "at most 99.0 % of the ideal; article: 98.6 %",
            "at most 5.9 times the disk; article: 5.7",
            "in place of the disk: 3.0 times; article: 3",
            "in place of one: 2.0 times more; article: 1.4",
            "98 % of the ideal: with 2, 8 devices, not with 4",
            "5.7 times the disk: with 4, 8 devices, not with 2",
            "than waiting: with 2, 4 devices, not with 8",
            "with 8 devices the processor is the limit",
        ] {
            assert!(notes.contains(expected), "{expected}: {notes}");
        }
    }

    #[test]
    fn commits_to_modelled_devices_are_measured_in_every_way() {
        let options = Options {
            devices: vec![3],
            clients: 4,
            time: Duration::from_millis(80),
        };
        let report = run(&options, &mut |_| ()).expect("it runs");
        assert_eq!(report.devices.len(), 2);
        for row in &report.devices {
            for way in WAYS {
                assert!(row.rate(way) > 0.0, "{way:?}");
            }
            // A disk takes 6 ms for a write, whatever the processor does.
            let through = row.through.name();
            assert!(row.rate(Way::Disk) < 1000.0, "{through}");
            assert!(row.rate(Way::Reissued) > row.rate(Way::Disk), "{through}");
            let writes = |way: Way| row.ways[&way].writes_per_second;
            assert!(writes(Way::Reissued) > 0.0, "{through}");
            assert_eq!(writes(Way::Instant), 0.0, "{through} has no model");
        }
        let text: String = report.tables().iter().map(Table::text).collect();
        assert!(text.contains("article: 98.6 %"), "{text}");
    }
}
