//! The report of the operators as text and as a page of HTML.

use super::Report;
use super::bloom::{self, Filters, Kind};
use super::columns::{Column, LOAD_MEMORY_BYTES};
use super::device::Device;
use super::join::{self, Join, Joins};
use super::paper;
use super::relation::ATTRIBUTES;
use super::scan::{self, MINIPAGE_BYTES, PAPER_MINIPAGE_BYTES, SELECTED, Scan, Scans};
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::table::{Table, count, figure, plain_text};

const TITLE: &str = "Operators for flash: FlashScan, FlashJoin, Buffered Bloom filter";

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        plain_text(TITLE, &self.about(), &self.tables())
    }

    /// Renders a self-contained page with tables and plots.
    pub fn html(&self) -> String {
        let mut page = Page::new(TITLE, &self.about());
        for plot in self.plots() {
            page.plot(&plot.svg());
        }
        self.tables().iter().for_each(|table| page.table(table));
        page.html()
    }

    fn about(&self) -> String {
        let machine = self.machine.describe();
        let cached = self.device.not_direct.as_ref();
        let cached = cached.map_or_else(String::new, |why| format!(" · NOT THE DEVICE: {why}"));
        format!(
            "{machine} · {} · medians of {} rounds{cached}",
            self.backend, self.rounds
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.paper_table()];
        tables.push(device_table(&self.device));
        if let Some(scans) = &self.scan {
            tables.extend([share_table(scans), size_table(scans)]);
        }
        tables.extend(self.columns.as_deref().map(column_table));
        tables.extend(self.join.as_ref().map(join_table));
        if let Some(filters) = &self.bloom {
            tables.extend([filter_table(filters), trade_table(filters)]);
        }
        tables
    }

    /// Compares the papers' figures with those of this run.
    fn paper_table(&self) -> Table {
        let mut table = Table::new(
            "The papers' figures, and those measured here",
            &["claim", "paper", "measured", "measured / paper"],
        );
        if let Some(scans) = &self.scan {
            scan_rows(&mut table, scans);
        }
        if let Some(joins) = &self.join {
            join_rows(&mut table, joins);
        }
        if let Some(filters) = &self.bloom {
            filter_rows(&mut table, filters);
        }
        table
    }

    fn plots(&self) -> Vec<Plot> {
        let scans = self
            .scan
            .iter()
            .flat_map(|scans| [share_plot(scans), size_plot(scans)]);
        scans.chain(self.bloom.iter().map(buffer_plot)).collect()
    }
}

fn times(gain: f64) -> String {
    format!("{}x", figure(gain))
}

fn percent(share: f64) -> String {
    format!("{} %", figure(100.0 * share))
}

fn mebibytes(bytes: usize) -> String {
    figure(bytes as f64 / f64::from(1 << 20))
}

/// Returns a size in KiB, or in bytes if it is smaller.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{} KiB", figure(bytes as f64 / 1024.0)),
    }
}

fn claim(table: &mut Table, claim: &str, paper: String, measured: f64, divisor: f64) {
    table.row(vec![
        claim.to_owned(),
        paper,
        times(measured),
        figure(measured / divisor),
    ]);
}

fn projected(count: usize) -> f64 {
    count as f64 / ATTRIBUTES as f64
}

fn selected(scan: &Scan) -> f64 {
    f64::from(scan.selected) / 1e6
}

fn scan_rows(table: &mut Table, scans: &Scans) {
    let one = scans
        .shares
        .iter()
        .find(|scan| scan.projected == 1 && selected(scan) == 1.0);
    if let Some(scan) = one {
        claim(
            table,
            "FlashScan of 4 % of the attributes, all rows",
            format!("up to {}", times(paper::SCAN_GAIN)),
            scan.gain(scan::Method::Minipages),
            paper::SCAN_GAIN,
        );
    }
    let few = scans
        .shares
        .iter()
        .filter(|scan| scan.selected == SELECTED[0]);
    let gains: Vec<f64> = few
        .map(|scan| scan.gain(scan::Method::PredicateFirst))
        .collect();
    let [low, high] = paper::SCAN_GAIN_OF_FEW_ROWS;
    for (name, measured, paper) in [
        ("least", gains.iter().copied().reduce(f64::min), low),
        ("most", gains.iter().copied().reduce(f64::max), high),
    ] {
        if let Some(measured) = measured {
            let name =
                format!("FlashScan of 0.01 % of the rows, 4 to 100 % of the attributes: {name}");
            claim(table, &name, times(paper), measured, paper);
        }
    }
}

fn join_rows(table: &mut Table, joins: &Joins) {
    for (name, early) in [
        ("hash join over rows", join::Method::WholePages),
        ("hash join over PAX", join::Method::Minipages),
    ] {
        let gains = || joins.joins.iter().map(move |join| join.gain(early));
        let bounds = [
            (
                "least",
                gains().reduce(f64::min),
                "at least ",
                paper::JOIN_GAIN,
            ),
            (
                "most",
                gains().reduce(f64::max),
                "up to ",
                paper::JOIN_GAIN_MAX,
            ),
        ];
        for (bound, measured, word, paper) in bounds {
            if let Some(measured) = measured {
                let name = format!("FlashJoin, {name}: {bound}");
                claim(
                    table,
                    &name,
                    format!("{word}{}", times(paper)),
                    measured,
                    paper,
                );
            }
        }
    }
}

fn filter_rows(table: &mut Table, filters: &Filters) {
    let classic = |bytes| {
        let mut all = filters.all(Kind::Classic);
        all.find(|filter| filter.filter_bytes == bytes)
    };
    let mut all = filters.all(Kind::Buffered);
    let buffered = all.find(|filter| filter.buffer_bytes == Some(paper::BUFFER_BYTES));
    let Some(buffered) = buffered else { return };
    if let Some(classic) = classic(paper::MEMORY_FILTER_BYTES) {
        claim(
            table,
            "Buffered Bloom filter, 32 MiB of buffer, 128 MiB in memory: time in memory / buffered",
            "above 1x".to_owned(),
            classic.seconds() / buffered.seconds(),
            1.0,
        );
    }
    let rate = buffered.false_positive_rate();
    table.row(vec![
        "Buffered Bloom filter: false positives".to_owned(),
        format!("at most {}", percent(paper::FALSE_POSITIVE_RATE)),
        percent(rate),
        figure(rate / paper::FALSE_POSITIVE_RATE),
    ]);
    let Some(small) = classic(paper::SMALL_MEMORY_FILTER_BYTES) else {
        return;
    };
    for buffered in filters.all(Kind::Buffered) {
        if buffered.buffer_bytes == Some(paper::BUFFER_BYTES) {
            let name = format!(
                "false positives of 64 MiB in memory / of 32 MiB of buffer and {} bits a key",
                buffered.hashes
            );
            let factor = small.false_positive_rate() / buffered.false_positive_rate();
            let claimed = format!("at least {}", times(paper::FALSE_POSITIVES_FACTOR));
            claim(table, &name, claimed, factor, paper::FALSE_POSITIVES_FACTOR);
        }
    }
}

fn device_table(device: &Device) -> Table {
    let mut table = Table::new(
        "The device's reads at random places, by size",
        &[
            "bytes",
            "depth",
            "measured reads/s",
            "measured MB/s",
            "computed: gain of a scan of one attribute",
        ],
    );
    for reads in &device.reads {
        table.row(vec![
            size(reads.bytes),
            reads.depth.to_string(),
            figure(reads.per_second),
            figure(reads.per_second * reads.bytes as f64 / 1e6),
            times(reads.gain_of_one),
        ]);
    }
    table.note(format!(
        "In sequence: {} MB/s (256 KiB, 32 in flight). A read of 4 KiB costs as much as {} of a sequential read beyond its own \
         bytes: smaller gaps are read through.",
        figure(device.sequential_bytes / 1e6),
        size(device.bridge_bytes() as usize),
    ));
    table.note(format!(
        "Gain: the sequential time of a page of {ATTRIBUTES} minipages of this size, divided by the time of a read of one of them."
    ));
    table
}

fn share_table(scans: &Scans) -> Table {
    let mut table = Table::new(
        format!(
            "FlashScan: pages of {ATTRIBUTES} minipages of {}",
            size(PAPER_MINIPAGE_BYTES)
        ),
        &[
            "rows",
            "attributes",
            "whole pages ms",
            "minipages ms",
            "predicate first ms",
            "minipages: gain",
            "predicate first: gain",
            "MB read",
        ],
    );
    for scan in &scans.shares {
        table.row(scan_row(
            percent(selected(scan)),
            percent(projected(scan.projected)),
            scan,
        ));
    }
    scan_notes(&mut table, scans);
    table
}

fn size_table(scans: &Scans) -> Table {
    let mut table = Table::new(
        "FlashScan by size of the minipages",
        &[
            "minipage",
            "rows, attributes",
            "whole pages ms",
            "minipages ms",
            "predicate first ms",
            "minipages: gain",
            "predicate first: gain",
            "MB read",
        ],
    );
    for scan in &scans.sizes {
        let what = format!(
            "{}, {}",
            percent(selected(scan)),
            percent(projected(scan.projected))
        );
        table.row(scan_row(size(scan.minipage_bytes), what, scan));
    }
    let one = |gain: f64| {
        let of_one = |bytes: &&usize| {
            let mut sizes = scans.sizes.iter();
            let scan = sizes.find(|scan| scan.minipage_bytes == **bytes && scan.projected == 1);
            scan.is_some_and(|scan| scan.gain(scan::Method::Minipages) >= gain)
        };
        let smallest = MINIPAGE_BYTES.iter().find(of_one);
        smallest.map_or_else(|| "none of these sizes".to_owned(), |bytes| size(*bytes))
    };
    table.note(format!(
        "One attribute of all rows gains from this size of a minipage on: 1.2x {}, 3x {}.",
        one(1.2),
        one(paper::SCAN_GAIN)
    ));
    table
}

fn scan_row(first: String, second: String, scan: &Scan) -> Vec<String> {
    let mut cells = vec![first, second];
    cells.extend(scan.methods.iter().map(|measured| figure(measured.ms)));
    for method in [scan::Method::Minipages, scan::Method::PredicateFirst] {
        cells.push(times(scan.gain(method)));
    }
    let read = scan
        .methods
        .iter()
        .map(|measured| figure(measured.bytes as f64 / 1e6));
    cells.push(read.collect::<Vec<_>>().join(" / "));
    cells
}

fn scan_notes(table: &mut Table, scans: &Scans) {
    table.note(format!(
        "A relation of {} MiB, {ATTRIBUTES} attributes of 4 bytes. All times measured, cold, with the sum of the values that are \
         projected; at most {} MiB of memory.",
        scans.relation_bytes >> 20,
        mebibytes(scans.memory_bytes),
    ));
    table.note(
        "The first attribute decides on a row and is among those projected, so with 4 % the last two methods are the same.",
    );
}

fn column_table(columns: &[Column]) -> Table {
    let mut table = Table::new(
        "The product's column pages: one column's part of each page",
        &[
            "order, column",
            "pages",
            "page",
            "share",
            "whole pages ms",
            "parts ms",
            "gain",
            "blocks read",
            "computed: page for 2x",
        ],
    );
    for column in columns {
        let bytes = column.pages as f64 * column.page_bytes as f64;
        table.row(vec![
            format!("{}, {}", column.order, column.component),
            count(column.pages),
            size(column.page_bytes),
            percent(column.share),
            figure(column.whole_ms),
            figure(column.part_ms),
            times(column.whole_ms / column.part_ms),
            percent(column.part_bytes as f64 / bytes),
            column
                .page_bytes_for_half
                .map_or_else(|| "none".to_owned(), |bytes| size(bytes as usize)),
        ]);
    }
    table.note(format!(
        "Reads only, without decoding, of BSBM data; the load may use {} MiB of memory. The places of the parts are known \
         before, and their checksums are not verified: a page has one checksum.",
        LOAD_MEMORY_BYTES >> 20
    ));
    table.note(
        "Page for 2x: the size of a page from which on a part with this share takes half of the time, by the cost of a read above.",
    );
    table
}

fn join_table(joins: &Joins) -> Table {
    let mut table = Table::new(
        "FlashJoin",
        &[
            "rows that join",
            "attributes of each side",
            "rows",
            "whole pages ms",
            "minipages ms",
            "late ms",
            "whole pages / late",
            "minipages / late",
            "MB read",
            "MB spilled",
            "MiB of memory",
        ],
    );
    for join in &joins.joins {
        table.row(join_row(join));
    }
    table.note(format!(
        "Two relations of {} rows ({} MB each), minipages of {}; a join may use {} MiB of memory. All times measured, cold. All \
         methods have the same result, by number of rows and hash.",
        count(joins.rows as u64),
        figure(joins.relation_bytes as f64 / 1e6),
        size(joins.minipage_bytes),
        mebibytes(joins.memory_bytes),
    ));
    table.note(
        "whole pages, minipages: hybrid hash joins that carry the projected attributes. Late: joins row numbers, then fetches the \
         attributes. The join attribute is not among those counted. Partitions are written to the device and read again.",
    );
    table
}

fn join_row(join: &Join) -> Vec<String> {
    let mut cells = vec![
        format!("{} %", join.joining),
        percent(projected(join.projected)),
        count(join.rows),
    ];
    cells.extend(join.methods.iter().map(|measured| figure(measured.ms)));
    for early in [join::Method::WholePages, join::Method::Minipages] {
        cells.push(times(join.gain(early)));
    }
    let each = |value: fn(&join::Measured) -> f64| {
        let values = join.methods.iter().map(|measured| figure(value(measured)));
        values.collect::<Vec<_>>().join(" / ")
    };
    cells.push(each(|measured| measured.read_bytes as f64 / 1e6));
    cells.push(each(|measured| measured.spilled_bytes as f64 / 1e6));
    cells.push(each(|measured| {
        measured.memory_bytes as f64 / f64::from(1 << 20)
    }));
    cells
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Classic => "in memory, classic",
        Kind::Blocked => "in memory, blocks of 64 bytes",
        Kind::Buffered => "on the device, buffered",
    }
}

fn filter_table(filters: &Filters) -> Table {
    let mut table = Table::new(
        "Bloom filters",
        &[
            "filter",
            "filter MiB",
            "memory MiB",
            "bits a key",
            "build s",
            "probe s",
            "both s",
            "false positives",
            "MB read",
            "MB written",
        ],
    );
    for filter in &filters.filters {
        table.row(vec![
            kind(filter.kind).to_owned(),
            mebibytes(filter.filter_bytes),
            mebibytes(filter.memory_bytes),
            filter.hashes.to_string(),
            figure(filter.build_seconds),
            figure(filter.probe_seconds),
            figure(filter.seconds()),
            percent(filter.false_positive_rate()),
            figure(filter.read_bytes as f64 / 1e6),
            figure(filter.written_bytes as f64 / 1e6),
        ]);
    }
    table.note(format!(
        "{} keys inserted, and as many probes, half of inserted keys, all of which were found, half of others. Pages of {}. All \
         measured, on one thread.",
        count(filters.keys),
        size(filters.page_bytes),
    ));
    table
}

/// Compares each buffered filter with the classic ones in memory that have more false positives.
fn trade_table(filters: &Filters) -> Table {
    let mut table = Table::new(
        "When a buffered filter pays",
        &[
            "buffered: memory MiB, bits a key",
            "classic: memory MiB",
            "classic / buffered time",
            "false positives, classic / buffered",
            "computed: pays if one costs more than, µs",
        ],
    );
    let of = |kind| {
        filters
            .filters
            .iter()
            .filter(move |filter| filter.kind == kind)
    };
    for buffered in of(Kind::Buffered) {
        for classic in of(Kind::Classic) {
            table.row(vec![
                mebibytes(buffered.memory_bytes),
                mebibytes(classic.memory_bytes),
                figure(classic.seconds() / buffered.seconds()),
                figure(classic.false_positive_rate() / buffered.false_positive_rate()),
                break_even(buffered, classic).map_or_else(String::new, figure),
            ]);
        }
    }
    table.note(
        "The last column: the time that the buffered filter takes more, divided by the false positives that it has less. Empty if \
         it does not have less. 0: it is faster as well.",
    );
    table
}

/// Returns the microseconds that a false positive must cost for the buffered filter to be worth its time.
fn break_even(buffered: &bloom::Measured, classic: &bloom::Measured) -> Option<f64> {
    let rates = classic.false_positive_rate() - buffered.false_positive_rate();
    let fewer = rates * buffered.absent as f64;
    // As many, within the accuracy of the measurement.
    let is_less = rates > 0.1 * buffered.false_positive_rate();
    is_less.then(|| ((buffered.seconds() - classic.seconds()) * 1e6 / fewer).max(0.0))
}

fn share_plot(scans: &Scans) -> Plot {
    let mut series = Vec::new();
    let of = |selected: u32, method: scan::Method| {
        let scans = scans
            .shares
            .iter()
            .filter(move |scan| scan.selected == selected);
        scans
            .map(move |scan| (100.0 * projected(scan.projected), scan.of(method).ms))
            .collect()
    };
    series.push(PlotSeries {
        name: "whole pages".to_owned(),
        points: of(SELECTED[2], scan::Method::WholePages),
        style: Style::Dashed,
        colour: 0,
    });
    for (colour, selected) in (1..).zip(SELECTED) {
        series.push(PlotSeries {
            name: format!(
                "FlashScan, {} of the rows",
                percent(f64::from(selected) / 1e6)
            ),
            points: of(selected, scan::Method::PredicateFirst),
            style: Style::Line,
            colour,
        });
    }
    Plot {
        title: "Scans by share of the attributes".to_owned(),
        x_label: "percent of the attributes".to_owned(),
        y_label: "ms".to_owned(),
        series,
    }
}

fn size_plot(scans: &Scans) -> Plot {
    let cases = scans
        .sizes
        .iter()
        .take(scans.sizes.len() / MINIPAGE_BYTES.len());
    let series = cases.enumerate().map(|(colour, case)| PlotSeries {
        name: format!(
            "{} of the attributes, {} of the rows",
            percent(projected(case.projected)),
            percent(selected(case))
        ),
        points: scans
            .sizes
            .iter()
            .filter(|scan| (scan.projected, scan.selected) == (case.projected, case.selected))
            .map(|scan| {
                (
                    scan.minipage_bytes as f64,
                    scan.gain(scan::Method::PredicateFirst),
                )
            })
            .collect(),
        style: Style::Line,
        colour,
    });
    Plot {
        title: "FlashScan's gain by size of the minipages".to_owned(),
        x_label: "bytes of a minipage".to_owned(),
        y_label: "time of whole pages / time".to_owned(),
        series: series.collect(),
    }
}

fn buffer_plot(filters: &Filters) -> Plot {
    let kinds = [Kind::Classic, Kind::Blocked, Kind::Buffered];
    let series = kinds.into_iter().enumerate().map(|(colour, of)| {
        let hashes = filters.all(of).map(|filter| filter.hashes).min();
        let paper = filters
            .all(of)
            .filter(|filter| Some(filter.hashes) == hashes);
        let mut points: Vec<(f64, f64)> = paper
            .map(|filter| {
                (
                    filter.memory_bytes as f64 / f64::from(1 << 20),
                    filter.seconds(),
                )
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        PlotSeries {
            name: kind(of).to_owned(),
            points,
            style: Style::Line,
            colour,
        }
    });
    Plot {
        title: "Bloom filters: build and probe by memory".to_owned(),
        x_label: "MiB of memory".to_owned(),
        y_label: "s".to_owned(),
        series: series.collect(),
    }
}
