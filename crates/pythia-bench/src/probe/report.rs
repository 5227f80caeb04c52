//! The probe's report as text and as a page of HTML.

use super::Report;
use super::rates::DepthCurve;
use super::single::Singles;
use super::uflip::{Experiment, Micro};
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::table::{Table, count, figure, plain_text};

/// Single transfers in the Pythia paper (Appendix B): device, mean and deviation in µs of reads and of writes.
const PAPER: [(&str, f64, f64, f64, f64); 2] = [
    ("flash of 2012 (paper)", 72.0, 43.2, 241.0, 50.6),
    ("PCM of 2012 (paper)", 36.0, 1.1, 386.0, 42.5),
];

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(&self.title(), &self.machine.describe(), &self.tables())
    }

    /// Renders a self-contained page with plots and tables.
    pub fn html(&self) -> String {
        let mut page = Page::new(&self.title(), &self.machine.describe());
        for singles in &self.single {
            page.plot(&scatter(singles).svg());
        }
        page.plot(&depth_plot(&self.rates.depths).svg());
        self.tables().iter().for_each(|table| page.table(table));
        page.heading("uFLIP: mean response time");
        for micro in Micro::ALL {
            page.plot(&self.uflip_plot(micro).svg());
        }
        page.table(&self.uflip_table());
        page.html()
    }

    fn title(&self) -> String {
        let identity = self.identity.as_ref();
        let device = identity.map_or_else(String::new, |i| format!(" ({})", i.describe()));
        format!(
            "The device under {}{device}, by a file of {} MiB, in {:.0} s",
            self.folder,
            self.file_bytes >> 20,
            self.seconds
        )
    }

    fn tables(&self) -> Vec<Table> {
        vec![
            self.single_table(),
            self.rate_table(),
            self.depth_table(),
            self.uflip_summary(),
            self.energy_table(),
        ]
    }

    fn single_table(&self) -> Table {
        let mut table = Table::new(
            "Single transfers of 4 KiB at random places, one after the other (µs)",
            &[
                "",
                "count",
                "mean",
                "deviation",
                "p50",
                "p99",
                "max",
                "outliers",
            ],
        );
        for singles in &self.single {
            let latency = singles.latency;
            let name = if singles.write { "writes" } else { "reads" };
            table.row(vec![
                name.to_owned(),
                count(latency.count),
                figure(latency.mean_us),
                figure(singles.deviation_us),
                figure(latency.p50_us),
                figure(latency.p99_us),
                figure(latency.max_us),
                count(singles.outliers as u64),
            ]);
            for (device, read, read_deviation, write, write_deviation) in PAPER {
                let (mean, deviation) = if singles.write {
                    (write, write_deviation)
                } else {
                    (read, read_deviation)
                };
                let cells = ["10,000".to_owned(), figure(mean), figure(deviation)];
                let name = format!("{name}, {device}");
                table.row(std::iter::once(name).chain(cells).collect());
            }
        }
        table.note("O_DIRECT | O_SYNC. outliers: ten times the median and more.");
        if let Some(why) = &self.not_direct {
            table.note(format!(
                "These are figures of the kernel's cache, not of a device: {why}."
            ));
        }
        table
    }

    fn rate_table(&self) -> Table {
        let rates = &self.rates;
        let mut table = Table::new("Rates", &["", "read", "write"]);
        let megabytes = |bytes: f64| format!("{} MB/s", figure(bytes / 1e6));
        table.row(vec![
            "1 MiB in a row, 4 in flight".to_owned(),
            megabytes(rates.sequential_read_bytes),
            megabytes(rates.sequential_write_bytes),
        ]);
        table.row(vec![
            "32 KiB at random places, 32 in flight".to_owned(),
            megabytes(rates.random_read_bytes),
            megabytes(rates.random_write_bytes),
        ]);
        for (name, latency) in [("fdatasync", rates.fdatasync), ("fsync", rates.fsync)] {
            table.row(vec![
                format!("write of 4 KiB and {name}: median, p99"),
                String::new(),
                format!(
                    "{} µs, {} µs",
                    figure(latency.p50_us),
                    figure(latency.p99_us)
                ),
            ]);
        }
        table
    }

    fn depth_table(&self) -> Table {
        let mut table = Table::new(
            "Random reads a second by queue depth",
            &[
                "page",
                "1",
                "2",
                "4",
                "8",
                "16",
                "32",
                "64",
                "128",
                "256",
                "sweet spot",
                "MB/s there",
            ],
        );
        for curve in &self.rates.depths {
            let mut row = vec![format!("{} KiB", curve.page_bytes >> 10)];
            row.extend(curve.steps.iter().map(|step| figure(step.per_second)));
            row.push(curve.sweet_spot.to_string());
            let there = curve.steps.iter().find(|s| s.depth == curve.sweet_spot);
            let rate = there.map_or(0.0, |step| step.per_second * curve.page_bytes as f64);
            row.push(figure(rate / 1e6));
            table.row(row);
        }
        table.note("sweet spot: the smallest depth that gives at least 95 % of the best rate.");
        table
    }

    fn uflip_summary(&self) -> Table {
        let mut table = Table::new(
            "uFLIP: mean response time at the first and the last value of each parameter (µs)",
            &[
                "",
                "pattern",
                "first",
                "last",
                "mean at first",
                "mean at last",
                "ratio",
            ],
        );
        for micro in Micro::ALL {
            for (pattern, experiments) in self.patterns(micro) {
                let measured: Vec<_> = experiments
                    .iter()
                    .filter_map(|e| Some((e.parameter, e.latency?.mean_us)))
                    .collect();
                let (Some(first), Some(last)) = (measured.first(), measured.last()) else {
                    continue;
                };
                table.row(vec![
                    micro.title().0.to_owned(),
                    pattern.to_owned(),
                    first.0.to_string(),
                    last.0.to_string(),
                    figure(first.1),
                    figure(last.1),
                    figure(last.1 / first.1.max(1e-9)),
                ]);
            }
        }
        table
    }

    /// Returns a table of all values of all parameters, for the page.
    fn uflip_table(&self) -> Table {
        let mut table = Table::new(
            "uFLIP: all figures (µs)",
            &[
                "",
                "pattern",
                "parameter",
                "transfers",
                "mean",
                "p50",
                "p99",
                "max",
            ],
        );
        for experiment in &self.uflip {
            let mut row = vec![
                experiment.micro.title().0.to_owned(),
                experiment.pattern.clone(),
                experiment.parameter.to_string(),
            ];
            match experiment.latency {
                Some(latency) => row.extend([
                    count(latency.count),
                    figure(latency.mean_us),
                    figure(latency.p50_us),
                    figure(latency.p99_us),
                    figure(latency.max_us),
                ]),
                None => row.push("refused".to_owned()),
            }
            table.row(row);
        }
        table.note("refused: direct I/O of this device must be aligned to more.");
        table
    }

    fn energy_table(&self) -> Table {
        let mut table = Table::new("Energy of the whole run", &["counter", "joule", "watt"]);
        for reading in &self.counters {
            table.row(vec![
                reading.name.clone(),
                figure(reading.joule),
                figure(reading.joule / self.seconds.max(1e-9)),
            ]);
        }
        if self.counters.is_empty() {
            table.note("no power counters: neither /sys/class/powercap nor a sensor that counts energy. A recorded trace can be given by --energy-trace.");
        }
        table
    }

    /// Returns the experiments of a micro-benchmark by pattern, in their order.
    fn patterns(&self, micro: Micro) -> Vec<(&str, Vec<&Experiment>)> {
        let mut patterns: Vec<(&str, Vec<&Experiment>)> = Vec::new();
        for experiment in self.uflip.iter().filter(|e| e.micro == micro) {
            match patterns.last_mut() {
                Some((pattern, list)) if *pattern == experiment.pattern => list.push(experiment),
                _ => patterns.push((&experiment.pattern, vec![experiment])),
            }
        }
        patterns
    }

    fn uflip_plot(&self, micro: Micro) -> Plot {
        let (name, parameter) = micro.title();
        let series = self.patterns(micro).into_iter().enumerate();
        let series = series.map(|(number, (pattern, experiments))| PlotSeries {
            name: pattern.to_owned(),
            points: experiments
                .iter()
                .filter_map(|e| Some((e.parameter as f64, e.latency?.mean_us)))
                .collect(),
            style: Style::Line,
            colour: number,
        });
        Plot {
            title: name.to_owned(),
            x_label: parameter.to_owned(),
            y_label: "µs".to_owned(),
            series: series.collect(),
        }
    }
}

fn scatter(singles: &Singles) -> Plot {
    let name = if singles.write { "writes" } else { "reads" };
    let points = singles.microseconds.iter().enumerate();
    Plot {
        title: format!("Latency of single {name} of 4 KiB"),
        x_label: "transfer".to_owned(),
        y_label: "µs".to_owned(),
        series: vec![PlotSeries {
            name: format!("each of {} {name}", count(singles.latency.count)),
            points: points
                .map(|(i, us)| (i as f64 + 1.0, f64::from(*us)))
                .collect(),
            style: Style::Points,
            colour: usize::from(singles.write),
        }],
    }
}

fn depth_plot(curves: &[DepthCurve]) -> Plot {
    let series = curves.iter().enumerate().map(|(number, curve)| PlotSeries {
        name: format!("{} KiB", curve.page_bytes >> 10),
        points: curve
            .steps
            .iter()
            .map(|step| (f64::from(step.depth), step.per_second))
            .collect(),
        style: Style::Line,
        colour: number,
    });
    Plot {
        title: "Random reads by queue depth".to_owned(),
        x_label: "reads in flight".to_owned(),
        y_label: "reads/s".to_owned(),
        series: series.collect(),
    }
}
