//! Runs of the same work on two sides, in turn, and the ratio of their times.

use std::time::Duration;

use anyhow::Result;
use pythia::Database;
use serde::Serialize;

use super::beside::{Gate, Rate};
use super::changes::Memory;
use super::work::{Outcome, Work};
use crate::contest::median;

/// The state of the caches before each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// No page is in memory, and the cache is small.
    Cold,
    /// Everything that was read before is in memory, if it fits.
    Warm,
}

impl Condition {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cold, Self::Warm];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// The sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// The store without changes, and with changes in runs.
    Changed {
        /// Percentage of changed quads.
        percent: f64,
        /// The memory of changes.
        memory: Memory,
    },
    /// The same, while changes are committed to the second.
    Stream {
        /// Percentage of changed quads before.
        percent: f64,
        /// The memory of changes.
        memory: Memory,
        /// Commits per second, of ten quads each.
        commits_per_second: u32,
    },
    /// The store with changes in runs, without and with a compaction that moves them into a new base.
    Migration {
        /// Percentage of changed quads.
        percent: f64,
        /// The memory of changes.
        memory: Memory,
    },
    /// The store without changes, without and with simulated updates of pages in place on the same device.
    InPlace {
        /// Pages that a changed quad costs.
        pages: u32,
        /// Commits per second, of ten changed quads each.
        commits_per_second: u32,
    },
}

impl Case {
    pub(super) fn name(self) -> String {
        match self {
            Self::Changed { percent, memory } => {
                format!("{percent} % changed, memory {}", memory.name())
            }
            Self::Stream {
                percent,
                memory,
                commits_per_second,
            } => format!(
                "{percent} % changed, memory {}, {commits_per_second} commits/s beside",
                memory.name()
            ),
            Self::Migration { percent, memory } => {
                format!(
                    "{percent} % changed, memory {}, during migration",
                    memory.name()
                )
            }
            Self::InPlace {
                pages,
                commits_per_second,
            } => format!(
                "in place (simulated), {pages} pages a quad, {commits_per_second} commits/s"
            ),
        }
    }
}

/// Times of the same work on two sides.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The state of the caches.
    pub condition: Condition,
    /// The sides.
    pub case: Case,
    /// True if the runs of both sides took turns, so that each of one side has its pair.
    pub is_paired: bool,
    /// Each scan and query.
    pub works: Vec<WorkTimes>,
    /// The commits beside the second side, real or simulated.
    pub beside: Option<Rate>,
    /// Duration of each migration.
    pub migration_seconds: Vec<f64>,
}

/// Times of one scan or query on two sides.
#[derive(Clone, Debug, Serialize)]
pub struct WorkTimes {
    /// Its name.
    pub name: String,
    /// The kind and length of the scan, or the template of the query.
    pub group: String,
    /// True for a scan, false for a query.
    pub is_scan: bool,
    /// Rows of the last run.
    pub rows: [u64; 2],
    /// Pages of the last run. Commits beside it read pages of the same cache.
    pub pages: [PagesRead; 2],
    /// Each run, in microseconds.
    pub times_us: [Vec<f64>; 2],
}

/// Pages that a run requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PagesRead {
    /// From the cache.
    pub cached: u64,
    /// From the device.
    pub device: u64,
}

/// The second side relative to the first, over some scans and queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// The sum of the medians of each side.
    pub(super) median_us: [f64; 2],
    /// The median, over the pairs of rounds, of the ratio of the sums.
    pub(super) median_of_ratios: Option<f64>,
    /// The geometric mean of the ratios of medians, in which short work counts as much as long work.
    pub(super) geometric_mean: f64,
    pub(super) rows: [u64; 2],
    pub(super) pages: [PagesRead; 2],
}

impl Ratio {
    pub(super) fn of_medians(&self) -> f64 {
        self.median_us[1] / self.median_us[0]
    }
}

/// One side of a comparison.
#[derive(Clone, Copy)]
pub(super) struct Side<'s> {
    pub(super) database: &'s Database,
    /// Opened during each run, for work beside it, with the time from one step of this work to the next.
    pub(super) beside: Option<(&'s Gate, Duration)>,
}

impl<'s> Side<'s> {
    pub(super) fn of(database: &'s Database) -> Self {
        Self {
            database,
            beside: None,
        }
    }

    /// Runs work once. Work beside begins earlier, by a share of the time between its steps.
    pub(super) fn run(
        &self,
        work: &Work,
        condition: Condition,
        share: f64,
    ) -> Result<(Outcome, PagesRead)> {
        if condition == Condition::Cold {
            self.database.clear_cache()?;
        }
        if let Some((gate, period)) = self.beside {
            gate.open();
            std::thread::sleep(period.mul_f64(share));
        }
        let before = self.database.counters();
        let outcome = work.run(self.database);
        let read = self.database.counters().since(&before).total();
        if let Some((gate, _)) = self.beside {
            gate.close();
        }
        let pages = PagesRead {
            cached: read.cache_hits,
            device: read.device_pages,
        };
        Ok((outcome?, pages))
    }
}

impl WorkTimes {
    pub(super) fn new(work: &Work) -> Self {
        Self {
            name: work.name.clone(),
            group: work.group.clone(),
            is_scan: work.is_scan(),
            rows: [0; 2],
            pages: [PagesRead::default(); 2],
            times_us: [Vec::new(), Vec::new()],
        }
    }

    pub(super) fn record(&mut self, side: usize, (outcome, pages): (Outcome, PagesRead)) {
        self.rows[side] = outcome.rows;
        self.pages[side] = pages;
        self.times_us[side].push(outcome.time.as_secs_f64() * 1e6);
    }
}

/// Runs all work on both sides, round after round. In each round, each scan or query runs on both sides, one right after the
/// other; from round to round the sides change their order. One more round before fills the caches.
pub(super) fn in_turn(
    works: &[Work],
    sides: [Side<'_>; 2],
    condition: Condition,
    rounds: u32,
) -> Result<Vec<WorkTimes>> {
    let mut times: Vec<WorkTimes> = works.iter().map(WorkTimes::new).collect();
    for round in 0..=rounds {
        for (number, (work, times)) in works.iter().zip(&mut times).enumerate() {
            let first = (round as usize + number) % 2;
            for side in [first, 1 - first] {
                // Spread evenly over the time between two steps.
                let share = (f64::from(round) * 0.618).fract();
                let run = sides[side].run(work, condition, share)?;
                if round > 0 {
                    times.record(side, run);
                }
            }
        }
    }
    Ok(times)
}

impl Comparison {
    /// Returns the ratio over chosen scans and queries; `None` if none of them has been run on both sides.
    pub(super) fn ratio(&self, chosen: impl Fn(&WorkTimes) -> bool) -> Option<Ratio> {
        let has_run = |work: &&WorkTimes| work.times_us.iter().all(|times| !times.is_empty());
        let works = self.works.iter().filter(has_run);
        let works: Vec<&WorkTimes> = works.filter(|work| chosen(work)).collect();
        if works.is_empty() {
            return None;
        }
        let mut ratio = Ratio {
            median_us: [0.0; 2],
            median_of_ratios: None,
            geometric_mean: 0.0,
            rows: [0; 2],
            pages: [PagesRead::default(); 2],
        };
        for work in &works {
            let medians = [0, 1].map(|side| median(work.times_us[side].iter().copied()));
            ratio.geometric_mean += (medians[1] / medians[0]).ln() / works.len() as f64;
            for side in [0, 1] {
                ratio.median_us[side] += medians[side];
                ratio.rows[side] += work.rows[side];
                ratio.pages[side].cached += work.pages[side].cached;
                ratio.pages[side].device += work.pages[side].device;
            }
        }
        ratio.geometric_mean = ratio.geometric_mean.exp();
        if self.is_paired {
            let rounds = works[0].times_us[0].len();
            let sum = |side: usize, round: usize| -> f64 {
                works.iter().map(|work| work.times_us[side][round]).sum()
            };
            let ratios = (0..rounds).map(|round| sum(1, round) / sum(0, round));
            ratio.median_of_ratios = Some(median(ratios));
        }
        Some(ratio)
    }

    /// Returns the names of the groups, in the order of the work.
    pub(super) fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for work in &self.works {
            if !groups.contains(&work.group.as_str()) {
                groups.push(&work.group);
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str, times_us: [&[f64]; 2]) -> WorkTimes {
        WorkTimes {
            name: name.to_owned(),
            group: name.to_owned(),
            is_scan: true,
            rows: [1; 2],
            pages: [PagesRead::default(); 2],
            times_us: times_us.map(<[f64]>::to_vec),
        }
    }

    #[test]
    fn ratios_are_of_sums_and_of_pairs() {
        let mut comparison = Comparison {
            condition: Condition::Warm,
            case: Case::Changed {
                percent: 1.0,
                memory: Memory::Root,
            },
            is_paired: true,
            works: vec![
                work("a", [&[10.0, 10.0, 40.0], &[20.0, 20.0, 80.0]]),
                work("b", [&[90.0, 90.0, 60.0], &[90.0, 70.0, 60.0]]),
            ],
            beside: None,
            migration_seconds: Vec::new(),
        };
        let all = comparison.ratio(|_| true).expect("two");
        assert_eq!(all.median_us, [100.0, 90.0]);
        // Of 110, 90 and 140 to 100.
        assert_eq!(all.median_of_ratios, Some(1.1));
        assert!((all.geometric_mean - (2.0_f64 * 70.0 / 90.0).sqrt()).abs() < 1e-9);
        let a = comparison.ratio(|work| work.group == "a").expect("one");
        assert_eq!(a.of_medians(), 2.0);
        assert!(comparison.ratio(|work| !work.is_scan).is_none());
        assert_eq!(comparison.groups(), ["a", "b"]);

        comparison.is_paired = false;
        comparison.works[1].times_us[1].clear();
        let rest = comparison.ratio(|_| true).expect("one has both");
        assert_eq!((rest.of_medians(), rest.median_of_ratios), (2.0, None));
    }
}
