//! Energy, from the kernel's power counters if available, or from a recorded trace of the voltage over a shunt, as in
//! uFLIP.
//!
//! Between two samples the device takes `E = (V/R) · (U − V) · Δt`: V over the shunt of R ohm, U the supply's voltage.
//! The idle state is the median of the trace's first part, with the median absolute deviation as its spread; a run is
//! the part in which the power departs from that significantly. Activity after the last transfer is background work.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Standard deviations from which a departure is significant.
const SIGNIFICANT: f64 = 6.0;
/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// Share of the idle power below which a departure is never significant.
const DEPARTURE_MIN: f64 = 0.02;
/// Samples considered together: most of them must depart.
const WINDOW: usize = 9;
/// Seconds below which background work does not count.
const NONE_MAX: f64 = 0.02;
/// Seconds below which background work is small, otherwise extended.
const SMALL_MAX: f64 = 1.0;

/// A recorded trace: seconds and volts over the shunt.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    samples: Vec<(f64, f64)>,
}

/// An error in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct TraceError {
    line: usize,
    column: usize,
    message: String,
}

/// Times that a trace does not have.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the trace has {begin} s to {end} s, but the probe's runs are from {from:.3} s to {to:.3} s: it is of another probe, or \
     --probe-begin is wrong"
)]
pub struct OutsideTrace {
    begin: f64,
    end: f64,
    from: f64,
    to: f64,
}

/// The circuit with which a trace was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Shunt {
    /// Resistance of the shunt.
    pub ohm: f64,
    /// Voltage of the supply.
    pub supply_volt: f64,
    /// Seconds at the beginning of the trace in which the device was idle.
    pub idle_seconds: f64,
}

/// The idle state of a device (uFLIP's Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IdleState {
    /// Median power, watts.
    pub watt: f64,
    /// Its standard deviation, estimated robustly from the median absolute deviation.
    pub deviation_watt: f64,
    /// Mean power, with the regular work of an idle device.
    pub mean_watt: f64,
    /// Standard deviation of all samples.
    pub mean_deviation_watt: f64,
    /// The share of samples that depart from the median significantly: regular work of the idle device.
    pub work_share: f64,
}

impl IdleState {
    fn of(watts: &[f64]) -> Self {
        let count = watts.len() as f64;
        let watt = median(watts.to_vec());
        let distances = watts.iter().map(|w| (w - watt).abs());
        let mean_watt = watts.iter().sum::<f64>() / count;
        let squares: f64 = watts.iter().map(|w| (w - mean_watt).powi(2)).sum();
        let mut state = Self {
            watt,
            deviation_watt: MAD_TO_DEVIATION * median(distances.collect()),
            mean_watt,
            mean_deviation_watt: (squares / count).sqrt(),
            work_share: 0.0,
        };
        let departing = watts.iter().filter(|w| state.departs(**w)).count();
        state.work_share = departing as f64 / count;
        state
    }

    /// Returns whether a power is significantly more than that of the idle state.
    fn departs(&self, watt: f64) -> bool {
        let limit = (SIGNIFICANT * self.deviation_watt).max(DEPARTURE_MIN * self.watt.abs());
        watt - self.watt > limit
    }

    /// Returns whether most samples of a window depart.
    fn is_left(&self, window: &[f64]) -> bool {
        let count = window.iter().filter(|w| self.departs(**w)).count();
        2 * count > window.len()
    }
}

/// The energy in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Energy {
    /// Median power of the idle state, watts.
    pub idle_watt: f64,
    /// Its standard deviation, estimated robustly.
    pub idle_deviation_watt: f64,
    /// Begin and end of the run, in the trace's seconds; `None` if power never departed from the idle state.
    pub run: Option<(f64, f64)>,
    /// Joules of the run.
    pub joule: f64,
    /// Joules of the run beyond those of an idle device.
    pub joule_above_idle: f64,
    /// Seconds from the last transfer to the run's end, if the time of the last transfer is known.
    pub background_seconds: Option<f64>,
}

/// Background work after the last transfer (uFLIP's Table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Background {
    /// Not significant.
    None,
    /// Less than a second, whatever the parameter.
    Small,
    /// Seconds, whatever the parameter.
    Extended,
    /// Longer for greater values of the parameter.
    GrowsWithParameter,
}

impl fmt::Display for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Small => "small",
            Self::Extended => "extended",
            Self::GrowsWithParameter => "grows with the parameter",
        })
    }
}

impl Trace {
    /// Parses a CSV of two columns, seconds and volts, ascending by time. A first line of names, empty lines and lines
    /// that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut samples: Vec<(f64, f64)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |column: usize, message: String| TraceError {
                line: index + 1,
                column,
                message,
            };
            let is_header = samples.is_empty() && line.starts_with(|c: char| c.is_alphabetic());
            if is_header {
                continue;
            }
            let Some((time, rest)) = line.split_once([',', ';', '\t']) else {
                let message = "two columns expected: seconds, volts".to_owned();
                return Err(error(line.chars().count() + 1, message));
            };
            let second = time.chars().count() + 2;
            let volts = rest.split([',', ';', '\t']).next().unwrap_or_default();
            let number = |text: &str, column: usize, name: &str| {
                let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
                value.ok_or_else(|| error(column, format!("{:?} is no {name}", text.trim())))
            };
            let time = number(time, 1, "time in seconds")?;
            let volts = number(volts, second, "voltage")?;
            if samples.last().is_some_and(|(before, _)| *before >= time) {
                return Err(error(
                    1,
                    format!("time {time} is not after the line before"),
                ));
            }
            samples.push((time, volts));
        }
        if samples.len() < 2 * WINDOW {
            return Err(TraceError {
                line: text.lines().count().max(1),
                column: 1,
                message: format!(
                    "{} samples are too few, at least {} are needed",
                    samples.len(),
                    2 * WINDOW
                ),
            });
        }
        Ok(Self { samples })
    }

    /// Computes the energy of the run in this trace; `last_transfer` is the completion of the last transfer, in the
    /// trace's seconds.
    pub fn analyse(&self, shunt: &Shunt, last_transfer: Option<f64>) -> Energy {
        let watts = shunt.watts(&self.samples);
        let idle = self.idle(shunt);
        let departs = |window: &[f64]| idle.is_left(window);
        let first = watts.windows(WINDOW).position(departs);
        let last = watts.windows(WINDOW).rposition(departs);
        let mut energy = Energy {
            idle_watt: idle.watt,
            idle_deviation_watt: idle.deviation_watt,
            run: None,
            joule: 0.0,
            joule_above_idle: 0.0,
            background_seconds: last_transfer.map(|_| 0.0),
        };
        let (Some(first), Some(last)) = (first, last) else {
            return energy;
        };
        // At the middle of a window, most of it begins, or ceases, to depart.
        let (first, last) = (first + WINDOW / 2, last + WINDOW / 2);
        let (start, end) = (self.samples[first].0, self.samples[last].0);
        energy.run = Some((start, end));
        energy.joule = self.joule(shunt, start, end);
        energy.joule_above_idle = energy.joule - idle.watt * (end - start);
        energy.background_seconds = last_transfer.map(|done| (end - done).max(0.0));
        energy
    }

    /// Returns the idle state, from the first part of the trace.
    pub fn idle(&self, shunt: &Shunt) -> IdleState {
        let end = self.samples[0].0 + shunt.idle_seconds;
        let count = self.samples.partition_point(|(time, _)| *time < end);
        // A trace of only the run has no idle part: its first samples must do.
        let count = count.clamp(WINDOW, self.samples.len());
        IdleState::of(&shunt.watts(&self.samples[..count]))
    }

    /// Returns the joules between two times.
    pub(super) fn joule(&self, shunt: &Shunt, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        let watts = shunt.watts(samples);
        let pairs = samples.windows(2).zip(&watts);
        pairs
            .map(|(pair, watt)| watt * (pair[1].0 - pair[0].0))
            .sum()
    }

    /// Returns the end of the background work that follows the last transfer at a time, and true if it goes on until
    /// the next run begins or the trace ends, or if that follows too soon to tell.
    pub(super) fn background_end(
        &self,
        shunt: &Shunt,
        idle: &IdleState,
        last: f64,
        next: f64,
    ) -> (f64, bool) {
        let samples = self.between(last, next);
        let watts = shunt.watts(samples);
        let works = |window: &[f64]| idle.is_left(window);
        let found = watts.windows(WINDOW).rposition(works);
        let is_to_the_end = found.is_some_and(|found| found + WINDOW == watts.len());
        let is_cut = is_to_the_end || watts.len() < WINDOW;
        let end = next.min(self.samples[self.samples.len() - 1].0);
        match found {
            _ if is_cut => (end, true),
            None => (last, false),
            Some(found) => (samples[found + WINDOW / 2].0, false),
        }
    }

    /// Checks that the trace has all samples between two times.
    pub(super) fn check_covers(&self, from: f64, to: f64) -> Result<(), OutsideTrace> {
        let (begin, end) = (self.samples[0].0, self.samples[self.samples.len() - 1].0);
        match begin <= from && to <= end {
            true => Ok(()),
            false => Err(OutsideTrace {
                begin,
                end,
                from,
                to,
            }),
        }
    }

    fn between(&self, from: f64, to: f64) -> &[(f64, f64)] {
        let first = self.samples.partition_point(|(time, _)| *time < from);
        let end = self.samples.partition_point(|(time, _)| *time <= to);
        &self.samples[first..end.max(first)]
    }
}

impl Shunt {
    fn watts(&self, samples: &[(f64, f64)]) -> Vec<f64> {
        let watt = |(_, volts): &(f64, f64)| volts / self.ohm * (self.supply_volt - volts);
        samples.iter().map(watt).collect()
    }
}

/// Classifies the background work of runs: pairs of a parameter's value and seconds.
pub fn background(runs: &[(f64, f64)]) -> Background {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let seconds: Vec<f64> = sorted.iter().map(|(_, seconds)| *seconds).collect();
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    if longest < NONE_MAX {
        return Background::None;
    }
    if let (Some(first), Some(last)) = (seconds.first(), seconds.last())
        && seconds.len() >= 3
        && seconds.windows(2).all(|pair| pair[1] >= 0.9 * pair[0])
        && *last > 2.0 * first.max(NONE_MAX)
    {
        return Background::GrowsWithParameter;
    }
    match median(seconds) {
        typical if typical < NONE_MAX => Background::None,
        typical if typical < SMALL_MAX => Background::Small,
        _ => Background::Extended,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The kernel's energy counters, with their values when found.
#[derive(Debug)]
pub struct PowerCounters {
    counters: Vec<(String, PathBuf, u64, u64)>,
}

/// A reading of one counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterReading {
    /// The name of the counter.
    pub name: String,
    /// Joules since it was found.
    pub joule: f64,
}

impl PowerCounters {
    /// Finds counters below `sys`, which is `/sys`: those of the processors (powercap) and of sensors that count
    /// microjoules (hwmon). Unreadable counters are left out.
    pub fn find(sys: &Path) -> Self {
        let mut counters = Vec::new();
        for (folder, prefix) in [("class/powercap", "energy_uj"), ("class/hwmon", "energy")] {
            let zones = fs::read_dir(sys.join(folder))
                .into_iter()
                .flatten()
                .flatten();
            for zone in zones {
                let files = fs::read_dir(zone.path()).into_iter().flatten().flatten();
                for file in files {
                    let name = file.file_name().to_string_lossy().into_owned();
                    let counts =
                        name == prefix || (name.starts_with(prefix) && name.ends_with("_input"));
                    if let (true, Some(value)) = (counts, number(&file.path())) {
                        let range = number(&zone.path().join("max_energy_range_uj"));
                        let label = fs::read_to_string(zone.path().join("name"));
                        let label = label.map_or_else(
                            |_| zone.file_name().to_string_lossy().into_owned(),
                            |text| text.trim().to_owned(),
                        );
                        counters.push((label, file.path(), value, range.unwrap_or(u64::MAX)));
                    }
                }
            }
        }
        counters.sort();
        Self { counters }
    }

    /// Returns the energy counted since the counters were found.
    pub fn read(&self) -> Vec<CounterReading> {
        let reading = |(name, path, before, range): &(String, PathBuf, u64, u64)| {
            let now = number(path)?;
            // A counter restarts at 0 when it reaches its range.
            let counted = now.checked_sub(*before).unwrap_or(now + (range - before));
            Some(CounterReading {
                name: name.clone(),
                joule: counted as f64 / 1e6,
            })
        };
        self.counters.iter().filter_map(reading).collect()
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
