//! The experiment's report as text and as a page of HTML: the paper's figures, times, operations, and what follows for the
//! product's log.

use super::page::PAGE_BYTES;
use super::paper;
use super::{CommitLogReport, Counts, DeviceSet, Layout, Medium, Phase, Report, StoreReport};
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::table::{Table, count, figure, plain_text};

/// Index of [`DeviceSet::Chips`].
const CHIPS: usize = 0;
/// Chooses a part of the trace.
type PhaseOf = fn(&StoreReport) -> &Phase;

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(&self.title(), &self.machine.describe(), &self.tables())
    }

    /// Renders a self-contained page with plots and tables.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        for (title, phase) in PHASES {
            page.plot(&self.plot(title, phase).svg());
        }
        self.tables().iter().for_each(|table| page.table(table));
        page.html()
    }

    fn title(&self) -> String {
        format!(
            "In-Page Logging, modelled: {} records of 40 to 50 bytes, {:.1} MiB of memory, seed {}",
            count(self.records),
            self.buffer_bytes as f64 / f64::from(1 << 20),
            self.seed
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.paper_table(), self.time_table()];
        tables.extend(PHASES.map(|(title, phase)| self.count_table(title, phase)));
        tables.push(self.log_table());
        tables
    }

    /// Returns the page stores of a kind, by ascending log areas.
    fn page_stores(&self, log: Medium, sector_bytes: usize) -> Vec<&StoreReport> {
        let is_kind = |layout: &Layout| (layout.log, layout.sector_bytes) == (log, sector_bytes);
        let stores = self.stores.iter();
        stores
            .filter(|store| store.layout.as_ref().is_some_and(is_kind))
            .collect()
    }

    fn runs(&self) -> &StoreReport {
        self.stores.last().expect("sorted runs are the last")
    }

    fn paper_table(&self) -> Table {
        let mut table = Table::new(
            "Beside the paper: chips, over all log areas",
            &["figure", "paper", "modelled", "ratio"],
        );
        let flash = self.page_stores(Medium::Flash, paper::SECTOR_BYTES);
        let large = self.page_stores(Medium::Pcram, paper::SECTOR_BYTES);
        let small = self.page_stores(Medium::Pcram, paper::SMALL_SECTOR_BYTES);
        let mut row = |name: &str, paper: f64, found: Option<f64>| {
            let Some(found) = found else { return };
            let cells = [figure(paper), figure(found), figure(found / paper)];
            table.row([name.to_owned()].into_iter().chain(cells).collect());
        };
        let first = flash.first();
        if self.records == paper::RECORDS {
            let bytes = first.map(|store| (store.pages as usize * PAGE_BYTES) as f64 / 1e6);
            row("database, MB", paper::DATABASE_BYTES / 1e6, bytes);
        }
        let log_bytes = first.and_then(|store| log_bytes(&store.insert.counts));
        row(
            "log bytes in a sector of 512 bytes",
            paper::LOG_BYTES,
            log_bytes,
        );
        let saved = ratios(&large, &flash, |store| store.insert.seconds[CHIPS]);
        let [least, most] = [f64::max, f64::min].map(|pick| reduce(&saved, pick).map(percent));
        row(
            "insertion: PCRAM saves of flash only, least %",
            paper::SAVED_PERCENT.0,
            least,
        );
        row(
            "insertion: PCRAM saves of flash only, most %",
            paper::SAVED_PERCENT.1,
            most,
        );
        let further = ratios(&small, &large, |store| store.insert.seconds[CHIPS]);
        let further = reduce(&further, f64::min).map(percent);
        row(
            "insertion: 128 bytes save of 512, most %",
            paper::SAVED_FURTHER_PERCENT,
            further,
        );
        let merges = ratios(&large, &small, |store| store.insert.counts.merges as f64);
        row(
            "merges: 512 bytes / 128, least",
            paper::FEWER_MERGES,
            reduce(&merges, f64::min),
        );
        let same = ratios(&large, &small, |store| store.retrieve.seconds[CHIPS]);
        row(
            "retrieval: 512 bytes / 128, most",
            1.0,
            reduce(&same, f64::max),
        );
        table.note(
            "The paper gives these figures in its text, and no times. Its range of log areas is not stated. \
             \"Up to almost 50 %\", \"more than a factor of two\" and \"almost identical\" are given as 50, 2 and 1.",
        );
        table.note(
            "In the paper, sectors hold more log bytes: its trace came from Berkeley DB, whose log records it does not describe.",
        );
        table
    }

    fn time_table(&self) -> Table {
        let mut header = vec!["log area, store".to_owned()];
        for set in DeviceSet::ALL {
            for (title, _) in PHASES {
                header.extend([format!("{}: {title} s", set.name()), "saved %".to_owned()]);
            }
        }
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new("Device time, modelled", &header);
        for store in &self.stores {
            let mut cells = vec![store_name(store.layout)];
            for set in 0..DeviceSet::ALL.len() {
                for (_, phase) in PHASES {
                    let seconds = phase(store).seconds[set];
                    cells.push(figure(seconds));
                    let flash = self
                        .flash_only(store)
                        .map(|flash| phase(flash).seconds[set]);
                    let saved = flash.map(|flash| figure(percent(seconds / flash)));
                    cells.push(saved.unwrap_or_default());
                }
            }
            table.row(cells);
        }
        table.note("saved: of the time with the log on flash and the same log area.");
        table.note(
            "chips: flash 75 µs to read and 250 µs to write 2 KiB, 213 µs to write 512 bytes, 1.5 ms to erase 128 KiB; PCRAM 206 \
             ns to read and 7.1 µs to write 32 bytes (Table 2 of the paper). SSDs: the flash array and the phase change memory of \
             the Pythia paper, 72 and 36 µs to read, 241 and 386 µs to write 4 KiB. There, a smaller log sector changes a page \
             of 4 KiB, which is read first.",
        );
        table.note("All operations are one after the other; flash and PCRAM are read at the same time. Sorted runs without their log of commits.");
        table
    }

    /// Returns the store with its log on flash and the log area of this one, which is another.
    fn flash_only(&self, store: &StoreReport) -> Option<&StoreReport> {
        let area = store
            .layout
            .filter(|layout| layout.log == Medium::Pcram)?
            .log_area_bytes;
        let stores = self.page_stores(Medium::Flash, paper::SECTOR_BYTES);
        stores.into_iter().find(|flash| {
            flash
                .layout
                .is_some_and(|layout| layout.log_area_bytes == area)
        })
    }

    fn count_table(&self, title: &str, phase: PhaseOf) -> Table {
        let mut table = Table::new(
            format!("Operations of the {title}"),
            &[
                "log area, store",
                "pages read",
                "pages written",
                "sectors read",
                "sectors written",
                "log bytes/sector",
                "merges",
                "erases",
                "MB in the end",
            ],
        );
        for store in &self.stores {
            let counts = &phase(store).counts;
            table.row(vec![
                store_name(store.layout),
                count(counts.pages_read),
                count(counts.pages_written),
                count(counts.sectors_read),
                count(counts.sectors_written),
                log_bytes(counts).map_or_else(String::new, figure),
                count(counts.merges),
                count(counts.erases),
                figure(store.device_bytes as f64 / 1e6),
            ]);
        }
        table
    }

    fn log_table(&self) -> Table {
        let mut table = Table::new(
            "Commits of sorted runs: in groups of records (modelled)",
            &[
                "devices, log",
                "records a write",
                "writes",
                "MB written",
                "log s",
                "log % of insertion",
                "insertion s",
                "fastest page store / this",
            ],
        );
        for log in &self.runs().commit_logs {
            let seconds = log.seconds + self.insert_seconds(self.runs(), log.devices);
            table.row(vec![
                format!("{}, {}", log.devices.name(), log_name(log)),
                count(log.group),
                count(log.writes),
                figure(log.written_bytes as f64 / 1e6),
                figure(log.seconds),
                figure(100.0 * log.seconds / seconds),
                figure(seconds),
                figure(self.fastest_page_store(log.devices) / seconds),
            ]);
        }
        table.note("A page store loses what is in its buffer when power fails, as sorted runs without a log do; its times have no commits.");
        for line in self.conclusions() {
            table.note(line);
        }
        table
    }

    fn insert_seconds(&self, store: &StoreReport, devices: DeviceSet) -> f64 {
        let index = DeviceSet::ALL.iter().position(|set| *set == devices);
        store.insert.seconds[index.expect("all sets are listed")]
    }

    fn fastest_page_store(&self, devices: DeviceSet) -> f64 {
        let stores = self.stores.iter().filter(|store| store.layout.is_some());
        let seconds = stores.map(|store| self.insert_seconds(store, devices));
        seconds.fold(f64::INFINITY, f64::min)
    }

    /// Returns what the figures say about the product's log, for each set of devices.
    fn conclusions(&self) -> Vec<String> {
        let logs = &self.runs().commit_logs;
        let mut lines = Vec::new();
        for set in DeviceSet::ALL {
            let of = |medium, largest: bool| {
                let logs = logs
                    .iter()
                    .filter(|log| (log.devices, log.medium) == (set, medium));
                match largest {
                    true => logs.max_by_key(|log| log.group),
                    false => logs.min_by_key(|log| log.group),
                }
            };
            let (Some(alone), Some(grouped), Some(pcram)) = (
                of(Medium::Flash, false),
                of(Medium::Flash, true),
                of(Medium::Pcram, false),
            ) else {
                continue;
            };
            lines.push(self.conclusion(set, alone, grouped, pcram));
        }
        lines
    }

    fn conclusion(
        &self,
        set: DeviceSet,
        alone: &CommitLogReport,
        grouped: &CommitLogReport,
        pcram: &CommitLogReport,
    ) -> String {
        let runs = self.insert_seconds(self.runs(), set);
        let pages = self.fastest_page_store(set);
        let in_pages = if pages > runs {
            "logs of pages would slow its writes on either device"
        } else {
            "logs of pages would make its writes faster"
        };
        let log_device = if pcram.seconds < grouped.seconds {
            "a byte-addressable log device serves single commits better than groups on flash"
        } else if pcram.seconds < alone.seconds {
            "a byte-addressable log device helps only commits that cannot be grouped"
        } else {
            "a log device that writes whole pages more slowly than flash brings nothing"
        };
        format!(
            "{}: for the product's runs ({} s; the fastest page store {} s), {in_pages}. Commits of {} add {} s with a log on \
             flash and {} s in phase change memory, of {} on flash {} s: {log_device}.",
            set.name(),
            figure(runs),
            figure(pages),
            records(alone.group),
            figure(alone.seconds),
            figure(pcram.seconds),
            records(grouped.group),
            figure(grouped.seconds),
        )
    }

    fn plot(&self, title: &str, phase: PhaseOf) -> Plot {
        let mut kinds: Vec<(Medium, usize)> = Vec::new();
        for layout in self.stores.iter().filter_map(|store| store.layout) {
            if !kinds.contains(&(layout.log, layout.sector_bytes)) {
                kinds.push((layout.log, layout.sector_bytes));
            }
        }
        let kib = |store: &StoreReport| {
            store
                .layout
                .map(|layout| layout.log_area_bytes as f64 / 1024.0)
        };
        let mut series: Vec<PlotSeries> = Vec::new();
        for (colour, (log, sector_bytes)) in kinds.into_iter().enumerate() {
            let stores = self.page_stores(log, sector_bytes);
            let points = stores
                .iter()
                .filter_map(|store| Some((kib(store)?, phase(store).seconds[CHIPS])));
            series.push(PlotSeries {
                name: kind_name(log, sector_bytes),
                points: points.collect(),
                style: Style::Line,
                colour,
            });
        }
        let areas = self.stores.iter().filter_map(kib);
        let runs = areas.map(|kib| (kib, phase(self.runs()).seconds[CHIPS]));
        series.push(PlotSeries {
            name: "sorted runs".to_owned(),
            points: runs.collect(),
            style: Style::Dashed,
            colour: series.len(),
        });
        Plot {
            title: format!("Device time of the {title}, chips, modelled (Figure 2)"),
            x_label: "log area of a block, KiB".to_owned(),
            y_label: "seconds".to_owned(),
            series,
        }
    }
}

/// The parts of the trace, with their names.
const PHASES: [(&str, PhaseOf); 2] = [
    ("insertion", |store| &store.insert),
    ("retrieval", |store| &store.retrieve),
];

/// Returns the name of a store.
pub(super) fn store_name(layout: Option<Layout>) -> String {
    layout.map_or_else(
        || "sorted runs".to_owned(),
        |layout| {
            let kib = layout.log_area_bytes as f64 / 1024.0;
            let kind = kind_name(layout.log, layout.sector_bytes);
            format!("{kib} KiB, {kind}")
        },
    )
}

fn kind_name(log: Medium, sector_bytes: usize) -> String {
    match log {
        Medium::Flash => "flash only".to_owned(),
        Medium::Pcram => format!("PCRAM {sector_bytes} B"),
    }
}

fn log_name(log: &CommitLogReport) -> &'static str {
    match (log.medium, log.devices) {
        (Medium::Flash, _) => "flash",
        (Medium::Pcram, DeviceSet::Chips) => "PCRAM",
        (Medium::Pcram, DeviceSet::Ssds) => "PCM",
    }
}

/// Returns the mean bytes of log records in a written sector.
fn log_bytes(counts: &Counts) -> Option<f64> {
    (counts.sectors_written > 0).then(|| counts.log_bytes as f64 / counts.sectors_written as f64)
}

/// Returns the ratios of two kinds of stores, by log area.
fn ratios(
    above: &[&StoreReport],
    below: &[&StoreReport],
    value: impl Fn(&StoreReport) -> f64,
) -> Vec<f64> {
    let pairs = above.iter().zip(below);
    pairs
        .map(|(above, below)| value(above) / value(below))
        .collect()
}

fn reduce(values: &[f64], pick: fn(f64, f64) -> f64) -> Option<f64> {
    values.iter().copied().reduce(pick)
}

fn records(count: u64) -> String {
    format!("{count} record{}", if count == 1 { "" } else { "s" })
}

/// Returns how many percent less a share of a whole is.
fn percent(share: f64) -> f64 {
    100.0 * (1.0 - share)
}
