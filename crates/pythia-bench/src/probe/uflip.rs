//! uFLIP (Bouganim, Jónsson, Bonnet, CIDR 2009; Bulletin): the four baseline patterns, sequential and random reads and
//! writes (SR, RR, SW, RW), and nine micro-benchmarks, each of which varies one parameter of them.
//!
//! Transfers are of 32 KiB, one after the other, unless the size or the number varies; `O_DIRECT`.

use std::time::{Duration, Instant};

use anyhow::Result;
use pythia_io::probe::stream::{self, Transfer};
use pythia_io::probe::{SplitMix, TestFile};
use serde::{Deserialize, Serialize};

use super::patterns::Pauses;
use super::summary;
use crate::latency::LatencySummary;

/// Size of transfers, unless the size varies.
const IO_BYTES: u64 = 32 << 10;
/// Maximum number of transfers of an experiment (uFLIP's IOCount).
const IO_COUNT: usize = 1024;
/// Pause between two bursts.
const BURST_PAUSE: Duration = Duration::from_millis(100);
/// The smallest alignment of direct I/O.
const SECTOR: u64 = 512;

/// A baseline pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Pattern {
    /// Sequential reads.
    SR,
    /// Random reads.
    RR,
    /// Sequential writes.
    SW,
    /// Random writes.
    RW,
}

impl Pattern {
    /// All four patterns.
    pub const ALL: [Self; 4] = [Self::SR, Self::RR, Self::SW, Self::RW];

    fn is_random(self) -> bool {
        matches!(self, Self::RR | Self::RW)
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::SW | Self::RW)
    }

    /// Returns its abbreviation.
    pub fn name(self) -> &'static str {
        match self {
            Self::SR => "SR",
            Self::RR => "RR",
            Self::SW => "SW",
            Self::RW => "RW",
        }
    }
}

/// A micro-benchmark, named for its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Micro {
    /// Size of a transfer, bytes.
    Granularity,
    /// Bytes by which each transfer is off the alignment of its size.
    Alignment,
    /// Size of the area of the transfers, bytes.
    Locality,
    /// Parts of the file, each with its own sequence, used in turn.
    Partitioning,
    /// Distance from one transfer to the next, in transfers: 0 is always the same place, −1 is backwards.
    Order,
    /// Concurrent processes.
    Parallelism,
    /// Transfers of the first pattern for each one of the second.
    Mix,
    /// Microseconds between two transfers.
    Pause,
    /// Transfers between two pauses of 100 ms.
    Bursts,
}

impl Micro {
    /// All nine micro-benchmarks.
    pub const ALL: [Self; 9] = [
        Self::Granularity,
        Self::Alignment,
        Self::Locality,
        Self::Partitioning,
        Self::Order,
        Self::Parallelism,
        Self::Mix,
        Self::Pause,
        Self::Bursts,
    ];

    /// Returns its name and its parameter.
    pub fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Granularity => ("Granularity", "bytes of a transfer"),
            Self::Alignment => ("Alignment", "bytes out of line"),
            Self::Locality => ("Locality", "bytes of the area"),
            Self::Partitioning => ("Partitioning", "partitions"),
            Self::Order => ("Order", "increment"),
            Self::Parallelism => ("Parallelism", "at once"),
            Self::Mix => ("Mix", "of the first to one of the second"),
            Self::Pause => ("Pause", "µs between transfers"),
            Self::Bursts => ("Bursts", "transfers a burst"),
        }
    }

    /// Returns the parameter's values, for a file of `file_bytes` bytes.
    fn parameters(self, file_bytes: u64) -> Vec<i64> {
        let powers = |first: i64, count: u32| (0..count).map(move |i| first << i);
        match self {
            Self::Granularity => powers(4096, 8).collect(),
            Self::Alignment => std::iter::once(0).chain(powers(512, 6)).collect(),
            Self::Locality => powers(IO_BYTES as i64, 17)
                .filter(|bytes| *bytes as u64 <= file_bytes)
                .step_by(2)
                .collect(),
            Self::Partitioning => powers(1, 9).collect(),
            Self::Order => [-1, 0].into_iter().chain(powers(1, 9)).collect(),
            Self::Parallelism => powers(1, 5).collect(),
            Self::Mix => powers(1, 7).collect(),
            Self::Pause => powers(100, 9).step_by(2).collect(),
            Self::Bursts => powers(10, 7).step_by(2).collect(),
        }
    }

    /// Returns its patterns: one, or a first and a second.
    fn patterns(self) -> Vec<(Pattern, Option<Pattern>)> {
        use Pattern::{RR, RW, SR, SW};
        match self {
            Self::Mix => [(SR, RR), (SR, RW), (SR, SW), (RR, SW), (RR, RW), (SW, RW)]
                .map(|(first, second)| (first, Some(second)))
                .to_vec(),
            // Order and partition have no meaning for random places.
            Self::Order | Self::Partitioning => vec![(SR, None), (SW, None)],
            _ => Pattern::ALL.map(|pattern| (pattern, None)).to_vec(),
        }
    }
}

/// Results of one pattern at one value of one parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// The micro-benchmark.
    pub micro: Micro,
    /// The pattern, or two mixed patterns: `SR`, `SR/RW`.
    pub pattern: String,
    /// The parameter's value.
    pub parameter: i64,
    /// Begin of the first transfer, in seconds since the probe began.
    pub begin_seconds: f64,
    /// End of the last transfer.
    pub end_seconds: f64,
    /// Response times of single transfers; `None` if the device refuses the transfer.
    pub latency: Option<LatencySummary>,
}

/// Runs all micro-benchmarks in about `time`, not counting the pauses between them. The probe began at `began`.
pub(super) fn run(
    file: &TestFile,
    time: Duration,
    pauses: &Pauses,
    began: Instant,
) -> Result<Vec<Experiment>> {
    let mut plan = Vec::new();
    for micro in Micro::ALL {
        for patterns in micro.patterns() {
            for parameter in micro.parameters(file.bytes()) {
                plan.push((micro, patterns, parameter));
            }
        }
    }
    let time = time / plan.len() as u32;
    plan.into_iter()
        .map(|(micro, (first, second), parameter)| {
            let mut experiment = Experiment {
                micro,
                pattern: first.name().to_owned(),
                parameter,
                begin_seconds: began.elapsed().as_secs_f64(),
                end_seconds: 0.0,
                latency: None,
            };
            if let Some(second) = second {
                experiment.pattern = format!("{}/{}", first.name(), second.name());
            }
            experiment.latency = measure(file, micro, first, second, parameter, time)?;
            experiment.end_seconds = began.elapsed().as_secs_f64();
            std::thread::sleep(pauses.pause(first, second));
            Ok(experiment)
        })
        .collect()
}

fn measure(
    file: &TestFile,
    micro: Micro,
    first: Pattern,
    second: Option<Pattern>,
    parameter: i64,
    time: Duration,
) -> Result<Option<LatencySummary>> {
    let mut places = Offsets::new(file.bytes(), micro, first, parameter);
    let mut others = second.map(|second| Offsets::new(file.bytes(), micro, second, parameter));
    let begun = Instant::now();
    let mut number = 0;
    let mut source = || {
        let i = number;
        number += 1;
        if i > 0 {
            match micro {
                Micro::Pause => std::thread::sleep(Duration::from_micros(parameter as u64)),
                Micro::Bursts if i % parameter == 0 => std::thread::sleep(BURST_PAUSE.min(time)),
                _ => {}
            }
        }
        // At least one transfer, however slow the device.
        if i as usize >= IO_COUNT || (i > 0 && begun.elapsed() >= time) {
            return None;
        }
        match &mut others {
            Some(others) if i % (parameter + 1) == parameter => Some(others.next()),
            _ => Some(places.next()),
        }
    };
    let depth = match micro {
        Micro::Parallelism => parameter as usize,
        _ => 1,
    };
    let bytes = places_bytes(micro, parameter) as usize;
    match stream::run(file.file(), depth, bytes, &mut source) {
        Ok(run) => Ok(Some(summary(&run))),
        // Direct I/O at odd sectors fails on devices with larger sectors.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn places_bytes(micro: Micro, parameter: i64) -> u64 {
    match micro {
        Micro::Granularity => parameter as u64,
        _ => IO_BYTES,
    }
}

/// The sequence of places of a pattern's transfers.
struct Offsets {
    micro: Micro,
    pattern: Pattern,
    parameter: i64,
    bytes: u64,
    /// Bytes of the area of the transfers.
    area: u64,
    shift: u64,
    count: u64,
    random: SplitMix,
}

impl Offsets {
    fn new(file_bytes: u64, micro: Micro, pattern: Pattern, parameter: i64) -> Self {
        let bytes = places_bytes(micro, parameter);
        let shift = match micro {
            Micro::Alignment => parameter as u64 / SECTOR * SECTOR,
            _ => 0,
        };
        let area = match micro {
            Micro::Locality => parameter as u64,
            _ => file_bytes,
        };
        Self {
            micro,
            pattern,
            parameter,
            bytes,
            area: area.min(file_bytes - shift) / bytes * bytes,
            shift,
            count: 0,
            random: SplitMix(parameter as u64),
        }
    }

    fn next(&mut self) -> Transfer {
        let i = self.count;
        self.count += 1;
        let places = self.area / self.bytes;
        let place = if self.pattern.is_random() {
            self.random.below(places)
        } else {
            match self.micro {
                Micro::Partitioning => {
                    let parts = (self.parameter as u64).min(places);
                    let part = places / parts;
                    i % parts * part + i / parts % part
                }
                Micro::Order => (i as i64 * self.parameter).rem_euclid(places as i64) as u64,
                _ => i % places,
            }
        };
        Transfer {
            offset: self.shift + place * self.bytes,
            bytes: self.bytes as usize,
            write: self.pattern.writes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 64 << 20;

    fn places(micro: Micro, pattern: Pattern, parameter: i64, count: usize) -> Vec<u64> {
        let mut places = Offsets::new(FILE, micro, pattern, parameter);
        (0..count)
            .map(|_| {
                let next = places.next();
                assert!(
                    next.offset + next.bytes as u64 <= FILE,
                    "{micro:?} {next:?}"
                );
                next.offset / SECTOR
            })
            .collect()
    }

    #[test]
    fn patterns_go_where_they_should() {
        use Pattern::{RR, SR, SW};
        assert_eq!(places(Micro::Granularity, SR, 4096, 3), [0, 8, 16]);
        assert_eq!(places(Micro::Alignment, SW, 512, 3), [1, 65, 129]);
        assert_eq!(places(Micro::Order, SR, 0, 3), [0, 0, 0]);
        assert_eq!(
            places(Micro::Order, SR, -1, 2),
            [0, (FILE - IO_BYTES) / 512]
        );
        assert_eq!(places(Micro::Order, SR, 4, 3), [0, 256, 512]);
        let half = FILE / 2 / 512;
        assert_eq!(
            places(Micro::Partitioning, SW, 2, 4),
            [0, half, 64, half + 64]
        );
        let near = places(Micro::Locality, RR, 4 * IO_BYTES as i64, 100);
        assert!(near.iter().all(|sector| *sector < 256));
        for micro in Micro::ALL {
            for (first, _) in micro.patterns() {
                for parameter in micro.parameters(FILE) {
                    places(micro, first, parameter, 3000);
                }
            }
        }
    }
}
