//! The benchmark's report as text and as a page of HTML: the paper's figures and our limits, the stores, and the ratios.

use super::Report;
use super::changes::Memory;
use super::compare::{Case, Comparison, Condition, PagesRead, Ratio, WorkTimes};
use super::paper;
use crate::page::Page;
use crate::plot::{Plot, PlotSeries, Style};
use crate::queries::share;
use crate::table::{Table, count, figure, milliseconds, plain_text};

const TITLE: &str = "Range scans and queries beside cached updates (MaSM)";
const IN_PLACE_NOTE: &str = "in place: no part of the product. While the work runs on the unchanged store, another thread reads \
    random pages of a file as large as the orders and writes them back, one after the other, past the kernel's cache, and syncs \
    the file after each ten quads";
/// The kinds of work, with whether they are scans.
const KINDS: [(&str, bool); 2] = [("scans", true), ("queries", false)];

impl Report {
    /// Formats the report as text, without the tables of each comparison.
    pub fn text(&self) -> String {
        plain_text(TITLE, &self.about(), &self.tables())
    }

    /// Renders a self-contained page with a plot, the tables of the text, and a table of each comparison.
    pub fn html(&self) -> String {
        let mut page = Page::new(TITLE, &self.about());
        page.plot(&self.plot().svg());
        let details = self.comparisons.iter().map(Comparison::table);
        let tables = self.tables().into_iter().chain(details);
        tables.for_each(|table| page.table(&table));
        page.html()
    }

    fn about(&self) -> String {
        let cached = self.not_direct.as_ref();
        let cached = cached.map_or_else(String::new, |why| format!(" · NOT THE DEVICE: {why}"));
        format!(
            "{} · {} · {} quads, {} MiB, pages of {} KiB · caches of {} MiB (cold) and {} MiB (warm) · {} pairs of runs · seed \
             {}{cached}",
            self.machine.describe(),
            self.backend,
            count(self.quads),
            mebibytes(self.base_bytes as f64),
            self.page_bytes >> 10,
            mebibytes(self.cache_bytes[0] as f64),
            mebibytes(self.cache_bytes[1] as f64),
            self.rounds,
            self.seed
        )
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.paper_table()];
        if !self.stores.is_empty() {
            tables.push(self.store_table());
        }
        let measured = |condition| self.comparisons.iter().any(|it| it.condition == condition);
        let conditions = Condition::ALL.into_iter().filter(|it| measured(*it));
        tables.extend(conditions.map(|condition| self.ratio_table(condition)));
        tables
    }

    /// Compares the paper's figures and our limits with those of this run.
    fn paper_table(&self) -> Table {
        let mut table = Table::new(
            "Beside the paper: time with updates, relative to the time without",
            &[
                "figure",
                "paper",
                "medians",
                "median ratio",
                "medians / paper",
                "our limit",
                "kept",
            ],
        );
        for comparison in &self.comparisons {
            for (kind, is_scan) in KINDS {
                if let Some(ratio) = comparison.of_kind(is_scan)
                    && let Some(row) = comparison.paper_row(kind, &ratio)
                {
                    table.row(row);
                }
            }
        }
        table.note(format!(
            "paper: TPC-H, 30 GB on a disk; updates on 1 GB of flash, {} MB of memory, transfers of {} KiB. \"Within 1 %\" is given \
             as {}",
            paper::MEMORY_BYTES >> 20,
            paper::TRANSFER_BYTES >> 10,
            paper::CACHED_MAX,
        ));
        table.note(format!(
            "our limits are for {} % of changed quads: {} with empty caches, {} with the pages in memory",
            paper::LIMIT_PERCENT,
            paper::LIMIT_COLD,
            paper::LIMIT_WARM
        ));
        table.note("medians: sum of the medians of each side, divided; median ratio: of the pairs of rounds");
        table
    }

    fn store_table(&self) -> Table {
        let mut table = Table::new(
            "Stores with changes",
            &[
                "changed",
                "memory",
                "limit KiB",
                "most KiB",
                "changes",
                "M pages",
                "runs",
                "their pages",
                "in one run",
                "filters KiB",
                "runs in memory",
                "changes there",
            ],
        );
        let kibibytes = |bytes: usize| count(bytes.div_ceil(1 << 10) as u64);
        for store in &self.stores {
            table.row(vec![
                format!("{} %", store.percent),
                store.memory.name().to_owned(),
                kibibytes(store.memory_bytes_limit),
                kibibytes(store.memory_bytes_max),
                count(store.changes),
                count(store.root_pages),
                store.device_runs.to_string(),
                count(store.run_pages),
                count(store.cached_pages),
                kibibytes(store.run_memory_bytes),
                store.memory_runs.to_string(),
                count(store.memory_changes),
            ]);
        }
        table.note(
            "M: the square root of the pages of all changes in one run. A scan merges the runs on the device (two segments each, \
             added and removed quads) and those in memory",
        );
        table.note("filters: memory of the open runs, which the limit does not include");
        table.note(format!(
            "the paper's M: {} pages, for {} pages of updates",
            paper::MEMORY_BYTES / paper::TRANSFER_BYTES,
            count(paper::FLASH_BYTES / paper::TRANSFER_BYTES)
        ));
        table
    }

    fn ratio_table(&self, condition: Condition) -> Table {
        let title = match condition {
            Condition::Cold => "Cold: no page in memory before each run; pages from the device",
            Condition::Warm => "Warm: the pages are in memory; pages requested",
        };
        let header = [
            "with",
            "work",
            "without ms",
            "with ms",
            "medians",
            "median ratio",
            "geometric",
            "pages without",
            "pages with",
            "commits/s",
            "empty",
        ];
        let mut table = Table::new(title, &header);
        let chosen = || {
            let comparisons = self.comparisons.iter();
            comparisons.filter(move |it| it.condition == condition)
        };
        for comparison in chosen() {
            for (kind, is_scan) in KINDS {
                let Some(ratio) = comparison.of_kind(is_scan) else {
                    continue;
                };
                let mut row = vec![comparison.case.name(), kind.to_owned()];
                row.extend(ratio.cells(condition));
                row.push(comparison.rate());
                row.push(comparison.empty(is_scan));
                table.row(row);
            }
        }
        chosen()
            .filter_map(Comparison::migrations)
            .for_each(|note| table.note(note));
        if chosen().any(|it| matches!(it.case, Case::InPlace { .. })) {
            table.note(IN_PLACE_NOTE);
        }
        table.note(
            "without: the same store without changes; for migration, the changed store without migration",
        );
        table.note(
            "geometric: mean of the ratios of all scans, or all queries, whatever their length",
        );
        table
    }

    fn plot(&self) -> Plot {
        let memory = self.stores.first().map(|store| store.memory);
        let mut series: Vec<PlotSeries> = Vec::new();
        for (place, condition) in Condition::ALL.into_iter().enumerate() {
            for (kind, is_scan) in KINDS {
                let mut points = Vec::new();
                for comparison in self
                    .comparisons
                    .iter()
                    .filter(|it| it.condition == condition)
                {
                    if let Case::Changed {
                        percent,
                        memory: of,
                    } = comparison.case
                        && Some(of) == memory
                        && let Some(ratio) = comparison.of_kind(is_scan)
                    {
                        points.push((percent, ratio.of_medians()));
                    }
                }
                series.push(PlotSeries {
                    name: format!("{kind}, {}", condition.name()),
                    points,
                    style: if is_scan { Style::Line } else { Style::Dashed },
                    colour: place,
                });
            }
        }
        Plot {
            title: format!(
                "Time with changes in runs, memory {}",
                memory.map_or("", Memory::name)
            ),
            x_label: "percent of the quads changed".to_owned(),
            y_label: "relative to no changes".to_owned(),
            series,
        }
    }
}

fn mebibytes(bytes: f64) -> String {
    figure(bytes / f64::from(1 << 20))
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}")
}

impl Ratio {
    /// Returns the cells from the time without to the pages with.
    fn cells(&self, condition: Condition) -> Vec<String> {
        let pages = |pages: PagesRead| match condition {
            Condition::Cold => count(pages.device),
            Condition::Warm => count(pages.cached + pages.device),
        };
        vec![
            milliseconds(self.median_us[0]),
            milliseconds(self.median_us[1]),
            times(self.of_medians()),
            self.median_of_ratios.map_or_else(String::new, times),
            times(self.geometric_mean),
            pages(self.pages[0]),
            pages(self.pages[1]),
        ]
    }
}

impl Comparison {
    fn of_kind(&self, is_scan: bool) -> Option<Ratio> {
        self.ratio(|work| work.is_scan == is_scan)
    }

    /// Returns a line about it.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{}, {}", self.case.name(), self.condition.name());
        for (kind, is_scan) in KINDS {
            if let Some(ratio) = self.of_kind(is_scan) {
                line += &format!(", {kind} {}", times(ratio.of_medians()));
            }
        }
        line
    }

    /// Returns the row of the paper's table, if the paper or a limit says something about the case.
    fn paper_row(&self, kind: &str, ratio: &Ratio) -> Option<Vec<String>> {
        let name = format!("{kind}, {}, {}", self.condition.name(), self.case.name());
        let medians = ratio.of_medians();
        let pairs = ratio.median_of_ratios.map_or_else(String::new, times);
        let (paper, relative, limit) = match self.case {
            Case::Changed { percent, .. } | Case::Stream { percent, .. } => {
                if percent != paper::LIMIT_PERCENT {
                    return None;
                }
                let limit = match self.condition {
                    Condition::Cold => paper::LIMIT_COLD,
                    Condition::Warm => paper::LIMIT_WARM,
                };
                let has_limit = matches!(self.case, Case::Changed { .. });
                let paper = format!("at most {}", paper::CACHED_MAX);
                (
                    paper,
                    medians / paper::CACHED_MAX,
                    has_limit.then_some(limit),
                )
            }
            Case::InPlace { .. } => {
                let (least, most) = paper::IN_PLACE;
                (format!("{least} to {most}"), medians / least, None)
            }
            Case::Migration { .. } => return None,
        };
        let kept = limit.map_or("", |limit| if medians <= limit { "yes" } else { "no" });
        Some(vec![
            name,
            paper,
            times(medians),
            pairs,
            times(relative),
            limit.map_or_else(String::new, |limit| limit.to_string()),
            kept.to_owned(),
        ])
    }

    /// Returns the commits per second beside the runs, of those that were wanted.
    fn rate(&self) -> String {
        let text = |rate: super::Rate| {
            format!("{} of {}", figure(rate.per_second), rate.wanted_per_second)
        };
        self.beside.map_or_else(String::new, text)
    }

    /// Returns how many scans or queries found nothing.
    fn empty(&self, is_scan: bool) -> String {
        let works = || self.works.iter().filter(|work| work.is_scan == is_scan);
        let empty = works().filter(|work| work.rows[0] == 0).count();
        share(empty as u64, works().count() as u64)
    }

    fn migrations(&self) -> Option<String> {
        let seconds = &self.migration_seconds;
        let longest = seconds.iter().copied().reduce(f64::max)?;
        let shortest = seconds.iter().copied().fold(longest, f64::min);
        let missing = self.works.iter().filter(|work| work.times_us[1].is_empty());
        Some(format!(
            "{}: {} migrations of {} to {} s; {} scans and queries did not end within one",
            self.case.name(),
            seconds.len(),
            figure(shortest),
            figure(longest),
            missing.count()
        ))
    }

    /// Returns a table of its groups.
    fn table(&self) -> Table {
        let title = format!("{}: {}", self.condition.name(), self.case.name());
        let header = [
            "scans or queries",
            "number",
            "rows",
            "without ms",
            "with ms",
            "medians",
            "median ratio",
            "geometric",
            "pages without",
            "pages with",
            "empty",
        ];
        let mut table = Table::new(title, &header);
        for group in self.groups() {
            let of_group = |work: &WorkTimes| work.group == group;
            let Some(ratio) = self.ratio(of_group) else {
                continue;
            };
            let works = || self.works.iter().filter(|work| of_group(work));
            let mut row = vec![
                group.to_owned(),
                works().count().to_string(),
                count(ratio.rows[0]),
            ];
            row.extend(ratio.cells(self.condition));
            row.push(works().filter(|work| work.rows[0] == 0).count().to_string());
            table.row(row);
        }
        table
    }
}
