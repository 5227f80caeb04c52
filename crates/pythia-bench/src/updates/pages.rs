//! Rewriting of pages at random: in place, appended to a log, and appended with cold pages packed apart (Bulletin:
//! "Evaluating and repairing write performance on flash devices", Append and Pack).
//!
//! A file has room for more pages than there are. Each step rewrites one page. *In place*, it is one small random write.
//! *Appended*, pages gather in segments of a mebibyte that are written in sequence; when few segments are free, the one
//! written longest ago is read, and its pages that were not rewritten since are appended again. *Packed*, such pages,
//! which have turned out to be cold, are appended to a log of their own, so that a segment holds pages of one kind.
//!
//! Only places are computed; the transfers write random bytes.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pythia_io::probe::stream::{self, Measurements, Transfer};
use pythia_io::probe::{SplitMix, TestFile};
use serde::Serialize;

use super::amplification::Places;
use crate::machine::Machine;
use crate::table::{Table, count, plain_text};

/// Bytes of a segment: one write.
const SEGMENT_BYTES: usize = 1 << 20;
/// Free segments below which segments are cleaned.
const FREE_MIN: usize = 4;
/// Writes of a page, or of a segment, in flight.
const PAGE_DEPTH: usize = 32;
const SEGMENT_DEPTH: usize = 4;
/// Parts of the time for which rates are reported.
const PARTS: usize = 10;
const SEED: u64 = 0xf1a5;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder on the device to measure.
    pub folder: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages, as a percentage of those that the file has room for.
    pub fill_percent: u64,
    /// Which pages are rewritten.
    pub places: Vec<Places>,
    /// Duration of each measurement.
    pub seconds: f64,
}

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Each page at its place.
    InPlace,
    /// All pages at the end of one log.
    Append,
    /// New contents at the end of one log, what is left of cleaned segments at the end of another.
    AppendAndPack,
}

/// Results of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The reason why the figures are those of the kernel's cache, if they are.
    pub not_direct: Option<String>,
    /// Pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages, as a percentage of those that the file has room for.
    pub fill_percent: u64,
    /// Each place and method.
    pub results: Vec<Rewriting>,
}

/// Results of one place and method.
#[derive(Clone, Debug, Serialize)]
pub struct Rewriting {
    /// Which pages are rewritten.
    pub places: Places,
    /// The method.
    pub method: Method,
    /// Rewritten pages per second, in each tenth of the time.
    pub per_second: Vec<f64>,
    /// Pages written for each rewritten one.
    pub written: f64,
    /// Pages read for each rewritten one.
    pub read: f64,
}

impl Rewriting {
    /// Returns the median rate of the second half, when the logs have been cleaned for long.
    pub fn steady(&self) -> f64 {
        let mut later = self.per_second[self.per_second.len() / 2..].to_vec();
        later.sort_unstable_by(f64::total_cmp);
        later.get(later.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Runs the benchmark.
pub fn run(options: &Options, mut progress: impl FnMut(&str)) -> Result<Report> {
    ensure!(
        options.page_bytes.is_power_of_two()
            && (4096..=SEGMENT_BYTES).contains(&options.page_bytes),
        "pages have 4 KiB to 1 MiB, a power of two"
    );
    ensure!(
        (1..=90).contains(&options.fill_percent),
        "pages fill 1 to 90 % of the file: cleaning needs room"
    );
    let file = TestFile::create(Path::new(&options.folder), options.bytes)?;
    let layout = Layout::new(file.bytes(), options.page_bytes, options.fill_percent)?;
    let mut report = Report {
        machine: Machine::now(),
        not_direct: file.not_direct().map(str::to_owned),
        pages: layout.pages,
        page_bytes: options.page_bytes,
        fill_percent: options.fill_percent,
        results: Vec::new(),
    };
    let time = Duration::from_secs_f64(options.seconds);
    for &places in &options.places {
        for method in [Method::InPlace, Method::Append, Method::AppendAndPack] {
            let result = measure(&file, &layout, places, method, time)?;
            progress(&format!(
                "{} {}: {:.0} pages/s",
                places.name(),
                method.name(),
                result.steady()
            ));
            report.results.push(result);
        }
    }
    Ok(report)
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Append => "append",
            Self::AppendAndPack => "append and pack",
        }
    }
}

/// The division of the file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    page_bytes: usize,
    /// Pages of a segment.
    together: usize,
    segments: usize,
    pages: u64,
}

impl Layout {
    fn new(bytes: u64, page_bytes: usize, fill_percent: u64) -> Result<Self> {
        let segments = (bytes / SEGMENT_BYTES as u64) as usize;
        let together = SEGMENT_BYTES / page_bytes;
        let pages = (segments * together) as u64 * fill_percent / 100;
        // Two logs are open, and cleaning needs free segments.
        let free = segments.saturating_sub((pages as usize).div_ceil(together));
        ensure!(
            free >= FREE_MIN + 4,
            "a file of {segments} MiB is too small to leave room for cleaning at {fill_percent} %"
        );
        Ok(Self {
            page_bytes,
            together,
            segments,
            pages,
        })
    }
}

/// Chooses the pages to rewrite.
struct Chooser {
    random: SplitMix,
    places: Places,
    pages: u64,
}

impl Chooser {
    fn next(&mut self) -> u64 {
        let (share, of_pages) = self.places.hot();
        let hot = ((self.pages as f64 * of_pages) as u64).clamp(1, self.pages);
        let is_hot = (self.random.below(1 << 20) as f64) < share * f64::from(1 << 20);
        match is_hot || hot == self.pages {
            true => self.random.below(hot),
            false => hot + self.random.below(self.pages - hot),
        }
    }
}

fn measure(
    file: &TestFile,
    layout: &Layout,
    places: Places,
    method: Method,
    time: Duration,
) -> Result<Rewriting> {
    let mut chooser = Chooser {
        random: SplitMix(SEED),
        places,
        pages: layout.pages,
    };
    // New pages that each write brings; reads bring none.
    let mut brought: Vec<u32> = Vec::new();
    let begun = Instant::now();
    let is_over = || begun.elapsed() >= time;
    let run = match method {
        Method::InPlace => stream::run(file.file(), PAGE_DEPTH, layout.page_bytes, &mut || {
            brought.push(1);
            (brought.len() == 1 || !is_over()).then(|| Transfer {
                offset: chooser.next() * layout.page_bytes as u64,
                bytes: layout.page_bytes,
                write: true,
            })
        })?,
        Method::Append | Method::AppendAndPack => {
            let mut logs = Logs::new(*layout, method == Method::AppendAndPack);
            stream::run(file.file(), SEGMENT_DEPTH, SEGMENT_BYTES, &mut || {
                if !brought.is_empty() && is_over() {
                    return None;
                }
                let next = logs.next(&mut chooser);
                brought.push(next.new_pages);
                Some(Transfer {
                    offset: next.segment as u64 * SEGMENT_BYTES as u64,
                    bytes: SEGMENT_BYTES,
                    write: next.write,
                })
            })?
        }
    };
    Ok(Rewriting::new(layout, (places, method), run, &brought))
}

impl Rewriting {
    fn new(
        layout: &Layout,
        (places, method): (Places, Method),
        mut run: Measurements,
        brought: &[u32],
    ) -> Self {
        // In the order of submission, as `brought` is.
        run.samples.sort_by_key(|sample| sample.start);
        let part = run.elapsed.as_secs_f64().max(1e-9) / PARTS as f64;
        let mut per_part = [0u64; PARTS];
        let (mut new_pages, mut written, mut read) = (0, 0, 0);
        for (sample, &pages) in run.samples.iter().zip(brought) {
            let done = (sample.start + sample.latency).as_secs_f64();
            per_part[((done / part) as usize).min(PARTS - 1)] += u64::from(pages);
            new_pages += u64::from(pages);
            match sample.write {
                true => written += sample.bytes as u64,
                false => read += sample.bytes as u64,
            }
        }
        let per_page = |bytes: u64| {
            let pages = bytes as f64 / layout.page_bytes as f64;
            pages / (new_pages as f64).max(1.0)
        };
        Self {
            places,
            method,
            per_second: per_part.iter().map(|&n| n as f64 / part).collect(),
            written: per_page(written),
            read: per_page(read),
        }
    }
}

/// A transfer of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SegmentTransfer {
    segment: usize,
    write: bool,
    /// Rewritten pages in it; its others were there before.
    new_pages: u32,
}

/// A log: the segment that is being filled, and those that were written, the oldest first.
#[derive(Debug, Default)]
struct OpenLog {
    /// Pages of the open segment, those that are new first noticed here.
    open: Vec<u32>,
    new_pages: u32,
    written: VecDeque<usize>,
}

/// The pages' places in segments.
#[derive(Debug)]
struct Logs {
    layout: Layout,
    /// By page, its segment; `OPEN` if it is in an open one.
    segment_of: Vec<u32>,
    /// By segment, the pages that were written there; a page counts if it is still there.
    contents: Vec<Vec<u32>>,
    /// By segment, how many of them are still there.
    live: Vec<u32>,
    free: Vec<usize>,
    /// New contents, and what is left of cleaned segments; the same log unless pages are packed.
    logs: [OpenLog; 2],
    packs: bool,
    /// Transfers that are due.
    due: VecDeque<SegmentTransfer>,
}

/// The segment of a page in an open segment.
const OPEN: u32 = u32::MAX;

impl Logs {
    /// Puts all pages into segments, in order.
    fn new(layout: Layout, packs: bool) -> Self {
        let mut logs = Self {
            layout,
            segment_of: vec![OPEN; layout.pages as usize],
            contents: vec![Vec::new(); layout.segments],
            live: vec![0; layout.segments],
            free: (0..layout.segments).rev().collect(),
            logs: Default::default(),
            packs,
            due: VecDeque::new(),
        };
        for page in 0..layout.pages as u32 {
            logs.append(0, page, false);
        }
        // They are there already.
        logs.due.clear();
        logs
    }

    /// Rewrites pages until a transfer is due, and returns it.
    fn next(&mut self, chooser: &mut Chooser) -> SegmentTransfer {
        while self.due.is_empty() {
            let page = chooser.next() as u32;
            let segment = self.segment_of[page as usize];
            if segment == OPEN && self.logs[0].open.contains(&page) {
                // Rewritten in memory.
                self.logs[0].new_pages += 1;
                continue;
            }
            self.leave(page);
            self.append(0, page, true);
            self.clean();
        }
        self.due.pop_front().expect("one is due")
    }

    /// Takes a page from its place.
    fn leave(&mut self, page: u32) {
        match self.segment_of[page as usize] {
            OPEN => self
                .logs
                .iter_mut()
                .for_each(|log| log.open.retain(|&other| other != page)),
            segment => self.live[segment as usize] -= 1,
        }
    }

    /// Appends a page to a log, whose open segment is written once it is full.
    fn append(&mut self, log: usize, page: u32, is_new: bool) {
        self.segment_of[page as usize] = OPEN;
        let open = &mut self.logs[log];
        open.open.push(page);
        open.new_pages += u32::from(is_new);
        if open.open.len() < self.layout.together {
            return;
        }
        let segment = self.free.pop().expect("cleaning leaves some");
        let pages = std::mem::take(&mut open.open);
        let new_pages = std::mem::take(&mut open.new_pages);
        open.written.push_back(segment);
        for &page in &pages {
            self.segment_of[page as usize] = segment as u32;
        }
        self.live[segment] = pages.len() as u32;
        self.contents[segment] = pages;
        self.due.push_back(SegmentTransfer {
            segment,
            write: true,
            new_pages,
        });
    }

    /// Cleans segments until enough are free.
    fn clean(&mut self) {
        while self.free.len() < FREE_MIN {
            let oldest = |log: usize| self.logs[log].written.front().copied();
            let live = |log: usize| oldest(log).map(|segment| self.live[segment]);
            // Of the oldest segments of both logs, the one with less to write again.
            let log = match (live(0), live(1)) {
                (Some(new), Some(packed)) => usize::from(packed < new),
                (new, _) => usize::from(new.is_none()),
            };
            let Some(segment) = self.logs[log].written.pop_front() else {
                return;
            };
            let pages = std::mem::take(&mut self.contents[segment]);
            if self.live[segment] > 0 {
                self.due.push_back(SegmentTransfer {
                    segment,
                    write: false,
                    new_pages: 0,
                });
            }
            self.live[segment] = 0;
            self.free.insert(0, segment);
            for page in pages {
                if self.segment_of[page as usize] == segment as u32 {
                    self.append(usize::from(self.packs), page, false);
                }
            }
        }
    }
}

impl Report {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let title = format!(
            "Rewriting {} pages of {} bytes, which fill {} % of a file",
            count(self.pages),
            self.page_bytes,
            self.fill_percent
        );
        let header = [
            "pages",
            "method",
            "pages/s",
            "of in place",
            "first tenth",
            "last tenth",
            "written",
            "read",
        ];
        let mut table = Table::new(title, &header);
        let mut in_place = 0.0;
        for result in &self.results {
            let steady = result.steady();
            if result.method == Method::InPlace {
                in_place = steady;
            }
            let rate = |rate: Option<&f64>| count(rate.copied().unwrap_or(0.0).round() as u64);
            table.row(vec![
                result.places.name().to_owned(),
                result.method.name().to_owned(),
                count(steady.round() as u64),
                format!("{:.2}", steady / in_place.max(1e-9)),
                rate(result.per_second.first()),
                rate(result.per_second.last()),
                format!("{:.2}", result.written),
                format!("{:.2}", result.read),
            ]);
        }
        table.note("pages/s: the median of the second half of the time");
        table.note("written, read: pages for each rewritten one");
        if let Some(reason) = &self.not_direct {
            table.note(format!("these are figures of the kernel's cache: {reason}"));
        }
        plain_text("Rewriting of pages", &self.machine.describe(), &[table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Places; 3] = [Places::Even, Places::Eighty, Places::NinetyNine];

    fn logs(fill_percent: u64, places: Places, packs: bool) -> (Logs, Chooser) {
        let layout = Layout::new(64 << 20, 16 << 10, fill_percent).unwrap();
        let chooser = Chooser {
            random: SplitMix(7),
            places,
            pages: layout.pages,
        };
        (Logs::new(layout, packs), chooser)
    }

    /// Fails unless each page is at one place, and segments are free or in one log.
    fn check(logs: &Logs) {
        let mut seen = vec![0; logs.segment_of.len()];
        for (segment, pages) in logs.contents.iter().enumerate() {
            let here = pages
                .iter()
                .filter(|&&page| logs.segment_of[page as usize] == segment as u32);
            let mut live = 0;
            for &page in here {
                seen[page as usize] += 1;
                live += 1;
            }
            assert_eq!(live, logs.live[segment]);
        }
        for &page in logs.logs.iter().flat_map(|log| &log.open) {
            assert_eq!(logs.segment_of[page as usize], OPEN);
            seen[page as usize] += 1;
        }
        assert!(seen.iter().all(|&places| places == 1));
        let written = logs.logs.iter().flat_map(|log| &log.written);
        let mut segments: Vec<usize> = written.chain(&logs.free).copied().collect();
        segments.sort_unstable();
        assert!(segments.into_iter().eq(0..logs.layout.segments));
    }

    /// Returns the pages written for each rewritten one, after the logs have been cleaned for long.
    fn written(places: Places, packs: bool) -> f64 {
        let (mut logs, mut chooser) = logs(75, places, packs);
        let (mut new_pages, mut writes) = (0, 0);
        for step in 0..6_000 {
            let next = logs.next(&mut chooser);
            if step >= 3_000 && next.write {
                new_pages += next.new_pages;
                writes += 1;
            }
        }
        f64::from(writes * logs.layout.together as u32) / f64::from(new_pages)
    }

    #[test]
    fn packing_cold_pages_apart_writes_less() {
        let even = written(Places::Even, false);
        assert!((1.2..4.0).contains(&even), "{even}");
        let [mixed, packed] = [false, true].map(|packs| written(Places::NinetyNine, packs));
        assert!(packed < 0.9 * mixed, "{packed} of {mixed}");
        assert!(packed < 1.5, "{packed}");
    }

    #[test]
    fn a_report_has_all_methods() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            folder: folder.path().to_owned(),
            bytes: 32 << 20,
            page_bytes: 4096,
            fill_percent: 70,
            places: vec![Places::Even, Places::NinetyNine],
            seconds: 0.05,
        };
        let report = run(&options, |_| ()).unwrap();
        assert_eq!(report.results.len(), 6);
        for result in &report.results {
            assert!(result.per_second.iter().sum::<f64>() > 0.0, "{result:?}");
            assert!(result.written > 0.0, "{result:?}");
        }
        assert!(report.text().contains("append and pack"));
        let too_full = Options {
            fill_percent: 95,
            ..options
        };
        assert!(
            run(&too_full, |_| ())
                .unwrap_err()
                .to_string()
                .contains("90 %")
        );
    }

    #[test]
    fn each_page_stays_at_one_place() {
        let mut random = SplitMix(1);
        for _ in 0..20 {
            let places = PLACES[random.below(3) as usize];
            let (mut logs, mut chooser) = logs(1 + random.below(80), places, random.below(2) == 1);
            check(&logs);
            for _ in 0..random.below(600) {
                logs.next(&mut chooser);
            }
            check(&logs);
        }
    }
}
