//! The benchmark's report as text and as a page of HTML: Figures 1 to 5 with the paper's numbers.

use super::{Device, Measurement, Report};
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::table::{Table, figure, plain_text};

const DEVICES: [Device; 3] = [Device::ModelledFlash, Device::ModelledPcm, Device::Measured];

/// Latencies in the paper's text: device, queries, µs of a read of 4 KiB.
const PAPER_LATENCIES: [(Device, usize, f64); 4] = [
    (Device::ModelledPcm, 1, 36.0),
    (Device::ModelledPcm, 8, 57.0),
    (Device::ModelledFlash, 1, 72.0),
    (Device::ModelledFlash, 2, 65.0),
];
/// Bandwidths in the paper's text: device, page, queries, bytes a second.
const PAPER_RATES: [(Device, usize, usize, f64); 2] = [
    (Device::ModelledPcm, 4 << 10, 16, 800e6),
    (Device::ModelledFlash, 16 << 10, 32, 700e6),
];
/// The greatest speed-ups of PCM over flash in the paper's text, by µs of processing.
const PAPER_SPEED_UPS: [(u64, f64); 2] = [(0, 2.5), (100, 2.0)];

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut tables = vec![self.paper_table()];
        for device in DEVICES {
            tables.extend(self.device_table(device));
        }
        plain_text(&self.title(), &self.machine.describe(), &tables)
    }

    /// Renders a self-contained page with plots and tables.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        page.table(&self.paper_table());
        for kib in self.pages_kib() {
            page.plot(&self.latency_plot(kib).svg());
        }
        for kib in self.pages_kib() {
            page.plot(&self.bandwidth_plot(kib).svg());
        }
        page.plot(&self.speed_up_plot().svg());
        page.plot(&self.processing_plot().svg());
        page.plot(
            &self
                .page_plot("Figure 4: latency by page size", "µs", |m| m.read.mean_us)
                .svg(),
        );
        let rate = |m: &Measurement| m.bandwidth_bytes / 1e6;
        page.plot(
            &self
                .page_plot("Figure 5: bandwidth by page size", "MB/s", rate)
                .svg(),
        );
        for device in DEVICES {
            self.device_table(device)
                .iter()
                .for_each(|table| page.table(table));
        }
        page.html()
    }

    fn title(&self) -> String {
        let place = match &self.folder {
            Some(folder) => format!(
                "a graph of {} MiB under {folder}, and ",
                self.graph_bytes >> 20
            ),
            None => String::new(),
        };
        format!("Custom graph benchmark: {place}the paper's devices, modelled")
    }

    fn pages_kib(&self) -> Vec<usize> {
        let mut pages: Vec<usize> = self
            .measurements
            .iter()
            .map(|m| m.setting.page_bytes >> 10)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    fn longest(&self) -> usize {
        let lengths = self.measurements.iter().map(|m| m.setting.path_length);
        lengths.max().unwrap_or_default()
    }

    fn least_processing(&self) -> u64 {
        let times = self.measurements.iter().map(|m| m.setting.processing_us);
        times.min().unwrap_or_default()
    }

    fn of(&self, device: Device) -> impl Iterator<Item = &Measurement> {
        self.measurements.iter().filter(move |m| m.device == device)
    }

    /// Returns measurements of a device by number of queries, at the longest path and least processing.
    fn usual(&self, device: Device, page_bytes: usize) -> impl Iterator<Item = &Measurement> {
        let (longest, least) = (self.longest(), self.least_processing());
        self.of(device).filter(move |m| {
            let s = m.setting;
            (s.page_bytes, s.path_length, s.processing_us) == (page_bytes, longest, least)
        })
    }

    fn at(&self, device: Device, page_bytes: usize, clients: usize) -> Option<&Measurement> {
        self.usual(device, page_bytes)
            .find(|m| m.setting.clients == clients)
    }

    /// Returns the speed-ups of the other device over flash, at the same settings.
    fn speed_ups<'m>(
        &'m self,
        device: Device,
        wanted: impl Fn(&Measurement) -> bool + 'm,
    ) -> impl Iterator<Item = (usize, f64)> + 'm {
        let measured = self.of(device).filter(move |m| wanted(m));
        measured.filter_map(move |m| {
            let flash = self
                .of(Device::ModelledFlash)
                .find(|f| f.setting == m.setting)?;
            Some((m.setting.clients, flash.query_us / m.query_us.max(1e-9)))
        })
    }

    fn paper_table(&self) -> Table {
        let mut table = Table::new(
            "Beside the paper",
            &[
                "figure",
                "paper",
                "modelled",
                "ratio",
                "this device, measured",
            ],
        );
        let mut row = |name: String, paper: f64, modelled: f64, measured: Option<f64>| {
            table.row(vec![
                name,
                figure(paper),
                figure(modelled),
                figure(modelled / paper),
                measured.map_or_else(|| "–".to_owned(), figure),
            ]);
        };
        for (device, clients, paper) in PAPER_LATENCIES {
            if let Some(modelled) = self.at(device, 4096, clients) {
                let measured = self.at(Device::Measured, 4096, clients);
                row(
                    format!(
                        "{}: µs of a read of 4 KiB, {clients} queries",
                        short(device)
                    ),
                    paper,
                    modelled.read.mean_us,
                    measured.map(|m| m.read.mean_us),
                );
            }
        }
        for (device, page_bytes, clients, paper) in PAPER_RATES {
            if let Some(modelled) = self.at(device, page_bytes, clients) {
                let measured = self.at(Device::Measured, page_bytes, clients);
                let kib = page_bytes >> 10;
                row(
                    format!(
                        "{}: MB/s, pages of {kib} KiB, {clients} queries",
                        short(device)
                    ),
                    paper / 1e6,
                    modelled.bandwidth_bytes / 1e6,
                    measured.map(|m| m.bandwidth_bytes / 1e6),
                );
            }
        }
        for (processing, paper) in PAPER_SPEED_UPS {
            let best = |device| {
                let all = self.speed_ups(device, move |m| m.setting.processing_us == processing);
                all.map(|(_, speed_up)| speed_up).reduce(f64::max)
            };
            if let Some(modelled) = best(Device::ModelledPcm) {
                row(
                    format!("greatest speed-up over flash, {processing} µs of processing"),
                    paper,
                    modelled,
                    best(Device::Measured),
                );
            }
        }
        table.note("ratio: modelled by paper. The models are set by numbers in the paper's text, so what they add is only what lies between those.");
        table.note("measured speed-up: this device against the modelled flash.");
        if let Some(why) = &self.not_direct {
            table.note(format!(
                "Measured figures are of the kernel's cache: {why}."
            ));
        }
        table
    }

    fn device_table(&self, device: Device) -> Option<Table> {
        let mut table = Table::new(
            device.name(),
            &[
                "page KiB",
                "path",
                "processing µs",
                "queries",
                "mean µs",
                "p50 µs",
                "p99 µs",
                "MB/s",
                "query µs",
            ],
        );
        let mut any = false;
        for m in self.of(device) {
            any = true;
            let s = m.setting;
            table.row(vec![
                (s.page_bytes >> 10).to_string(),
                s.path_length.to_string(),
                s.processing_us.to_string(),
                s.clients.to_string(),
                figure(m.read.mean_us),
                figure(m.read.p50_us),
                figure(m.read.p99_us),
                figure(m.bandwidth_bytes / 1e6),
                figure(m.query_us),
            ]);
        }
        table.note("mean, p50, p99: of a read. query: mean response time, with processing.");
        any.then_some(table)
    }

    fn lines(&self, page_bytes: usize, value: impl Fn(&Measurement) -> f64) -> Vec<PlotSeries> {
        let line = |(colour, device): (usize, Device)| PlotSeries {
            name: device.name().to_owned(),
            points: self
                .usual(device, page_bytes)
                .map(|m| (m.setting.clients as f64, value(m)))
                .collect(),
            style: style(device),
            colour,
        };
        DEVICES.into_iter().enumerate().map(line).collect()
    }

    fn latency_plot(&self, kib: usize) -> Plot {
        let mut series = self.lines(kib << 10, |m| m.read.mean_us);
        if kib == 4 {
            for (colour, device) in DEVICES.into_iter().enumerate().take(2) {
                let told = PAPER_LATENCIES.iter().filter(|(of, ..)| *of == device);
                series.push(PlotSeries {
                    name: format!("{}, paper", short(device)),
                    points: told
                        .map(|(_, clients, us)| (*clients as f64, *us))
                        .collect(),
                    style: Style::Crosses,
                    colour,
                });
            }
        }
        Plot {
            title: format!("Figure 1: latency of a read, pages of {kib} KiB"),
            x_label: "queries at once".to_owned(),
            y_label: "µs".to_owned(),
            series,
        }
    }

    fn bandwidth_plot(&self, kib: usize) -> Plot {
        let mut series = self.lines(kib << 10, |m| m.bandwidth_bytes / 1e6);
        for (device, page_bytes, clients, bytes) in PAPER_RATES {
            if page_bytes == kib << 10 {
                series.push(PlotSeries {
                    name: format!("{}, paper", short(device)),
                    points: vec![(clients as f64, bytes / 1e6)],
                    style: Style::Crosses,
                    colour: usize::from(device == Device::ModelledPcm),
                });
            }
        }
        Plot {
            title: format!("Figure 2: bandwidth, pages of {kib} KiB"),
            x_label: "queries at once".to_owned(),
            y_label: "MB/s".to_owned(),
            series,
        }
    }

    fn speed_up_plot(&self) -> Plot {
        let least = self.least_processing();
        let mut lengths: Vec<usize> = self
            .measurements
            .iter()
            .map(|m| m.setting.path_length)
            .collect();
        lengths.sort_unstable();
        lengths.dedup();
        let line = |(colour, length): (usize, usize)| {
            let wanted = move |m: &Measurement| {
                let s = m.setting;
                (s.page_bytes, s.path_length, s.processing_us) == (4096, length, least)
            };
            PlotSeries {
                name: format!("paths of {length}, modelled"),
                points: float(self.speed_ups(Device::ModelledPcm, wanted)),
                style: Style::Dashed,
                colour,
            }
        };
        let mut series: Vec<PlotSeries> = lengths.into_iter().enumerate().map(line).collect();
        series.push(PlotSeries {
            name: "paper: greatest, at 16".to_owned(),
            points: vec![(16.0, PAPER_SPEED_UPS[0].1)],
            style: Style::Crosses,
            colour: 5,
        });
        Plot {
            title: "Figure 3: speed-up of PCM over flash".to_owned(),
            x_label: "queries at once".to_owned(),
            y_label: "times as fast".to_owned(),
            series,
        }
    }

    fn processing_plot(&self) -> Plot {
        let longest = self.longest();
        let mut times: Vec<u64> = self
            .measurements
            .iter()
            .map(|m| m.setting.processing_us)
            .collect();
        times.sort_unstable();
        times.dedup();
        let mut series = Vec::new();
        for (colour, time) in times.into_iter().enumerate() {
            for (device, name) in [
                (Device::ModelledPcm, "PCM"),
                (Device::Measured, "this device"),
            ] {
                let wanted = move |m: &Measurement| {
                    let s = m.setting;
                    (s.page_bytes, s.path_length, s.processing_us) == (4096, longest, time)
                };
                series.push(PlotSeries {
                    name: format!("{name}, {time} µs"),
                    points: float(self.speed_ups(device, wanted)),
                    style: style(device),
                    colour,
                });
            }
        }
        Plot {
            title: "Speed-up over modelled flash by processing time of a page".to_owned(),
            x_label: "queries at once".to_owned(),
            y_label: "times as fast".to_owned(),
            series,
        }
    }

    fn page_plot(&self, title: &str, unit: &str, value: impl Fn(&Measurement) -> f64) -> Plot {
        let mut series = Vec::new();
        for (colour, device) in DEVICES.into_iter().enumerate() {
            for clients in [4, 16] {
                let points = self.pages_kib().into_iter().filter_map(|kib| {
                    Some((kib as f64, value(self.at(device, kib << 10, clients)?)))
                });
                series.push(PlotSeries {
                    name: format!("{}, {clients} queries", short(device)),
                    points: points.collect(),
                    style: if clients == 4 {
                        Style::Line
                    } else {
                        Style::Dashed
                    },
                    colour,
                });
            }
        }
        Plot {
            title: format!("{title} (measured and modelled)"),
            x_label: "page KiB".to_owned(),
            y_label: unit.to_owned(),
            series,
        }
    }
}

fn float(points: impl Iterator<Item = (usize, f64)>) -> Vec<(f64, f64)> {
    points
        .map(|(clients, value)| (clients as f64, value))
        .collect()
}

fn style(device: Device) -> Style {
    match device {
        Device::Measured => Style::Line,
        Device::ModelledFlash | Device::ModelledPcm => Style::Dashed,
    }
}

fn short(device: Device) -> &'static str {
    match device {
        Device::Measured => "measured",
        Device::ModelledFlash => "flash",
        Device::ModelledPcm => "PCM",
    }
}
