//! Energy of the probe's patterns: one trace of the whole probe, cut at the times that the probe has recorded (uFLIP,
//! Bulletin, Figure 4 and Table 4).
//!
//! A run of transfers takes the energy from its first transfer to the end of its background work, at the latest until the
//! next run begins. From the longest background work of a pattern follows the pause after its runs ([`Pauses`]), with which
//! the next probe keeps them apart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::energy::{Background, IdleState, OutsideTrace, Shunt, Trace, background};
use super::uflip::{Micro, Pattern};
use crate::table::{Table, figure};

/// Factor from background work to the pause after it.
const PAUSE_FACTOR: f64 = 1.1;
/// The same if the next run began before the background work had ended: repeated probes find its end.
const PAUSE_FACTOR_CUT: f64 = 2.0;

/// The idle state of the article's devices (Table 3): watts that are advertised, measured, and their
/// deviation.
const PAPER_IDLE: [(&str, f64, f64, f64); 4] = [
    ("Memoright, 32 GB", 1.0, 0.96, 0.3),
    ("MTron, 16 GB", 0.5, 0.99, 0.05),
    ("Intel X25-E, 32 GB", 0.6, 0.54, 0.05),
    ("Intel X25-E, 64 GB", 0.6, 0.57, 0.05),
];

/// The figures of a probe that the analysis needs (`pythia probe --json`).
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedProbe {
    uflip: Vec<RecordedRun>,
}

/// A run of transfers, in the probe's seconds.
#[derive(Clone, Debug, Deserialize)]
struct RecordedRun {
    micro: Micro,
    pattern: String,
    parameter: i64,
    begin_seconds: f64,
    end_seconds: f64,
    /// `None` if the device has refused the transfers.
    latency: Option<RecordedLatency>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedLatency {
    count: u64,
    mean_us: f64,
}

/// The energy of a pattern at one value of one parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternEnergy {
    /// The micro-benchmark.
    pub micro: Micro,
    /// The pattern, or two mixed patterns.
    pub pattern: String,
    /// The parameter's value.
    pub parameter: i64,
    /// Transfers.
    pub transfers: u64,
    /// Mean response time of a transfer.
    pub mean_us: f64,
    /// Joules of the run, with its background work.
    pub joule: f64,
    /// Joules of the run beyond those of an idle device.
    pub joule_above_idle: f64,
    /// Seconds of background work after the last transfer.
    pub background_seconds: f64,
    /// True if the background work lasted until the next run began, or the trace ended, or if that was too soon to tell: the
    /// pause between them, or the end of the trace, was too short.
    pub is_cut: bool,
}

/// Seconds after a run of each pattern until the device is idle again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub struct Pauses {
    sr: f64,
    rr: f64,
    sw: f64,
    rw: f64,
}

/// The analysis of a trace of a probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Each run, in the order of the probe.
    pub runs: Vec<PatternEnergy>,
    /// The pauses that follow from the runs.
    pub pauses: Pauses,
}

impl RecordedProbe {
    /// Reads the figures of a probe.
    pub fn parse(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }
}

impl Profile {
    /// Computes the energy of a probe's runs. `begin` is the time in the trace at which the probe began.
    ///
    /// # Errors
    /// An error if the trace ends before the runs do, or begins after them.
    pub fn new(
        trace: &Trace,
        shunt: &Shunt,
        probe: &RecordedProbe,
        begin: f64,
    ) -> Result<Self, OutsideTrace> {
        let times = probe
            .uflip
            .iter()
            .map(|run| (run.begin_seconds, run.end_seconds));
        if let Some((from, to)) = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            trace.check_covers(begin + from, begin + to)?;
        }
        let idle = trace.idle(shunt);
        let ends = probe
            .uflip
            .iter()
            .skip(1)
            .map(|next| begin + next.begin_seconds);
        let ends = ends.chain([f64::INFINITY]);
        let runs = probe.uflip.iter().zip(ends).filter_map(|(run, next)| {
            let latency = run.latency.as_ref()?;
            let last = begin + run.end_seconds;
            let (until, is_cut) = trace.background_end(shunt, &idle, last, next);
            let joule = trace.joule(shunt, begin + run.begin_seconds, until);
            let seconds = until - begin - run.begin_seconds;
            Some(PatternEnergy {
                micro: run.micro,
                pattern: run.pattern.clone(),
                parameter: run.parameter,
                transfers: latency.count,
                mean_us: latency.mean_us,
                joule,
                joule_above_idle: joule - idle.watt * seconds,
                background_seconds: until - last,
                is_cut,
            })
        });
        let runs: Vec<PatternEnergy> = runs.collect();
        let pauses = Pauses::after(&runs);
        Ok(Self { runs, pauses })
    }

    /// Returns the tables of the report.
    pub fn tables(&self) -> Vec<Table> {
        vec![
            self.granularity_table(),
            self.background_table(),
            self.pause_table(),
        ]
    }

    /// Figure 4: response time and energy of a transfer, by size and pattern.
    fn granularity_table(&self) -> Table {
        let header = [
            "bytes", "SR µs", "RR µs", "SW µs", "RW µs", "SR mJ", "RR mJ", "SW mJ", "RW mJ",
        ];
        let title =
            "Response time and energy above idle of a transfer, measured (the article's Figure 4)";
        let mut table = Table::new(title, &header);
        let runs = || {
            self.runs
                .iter()
                .filter(|run| run.micro == Micro::Granularity)
        };
        let mut sizes: Vec<i64> = runs().map(|run| run.parameter).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let cells = |value: fn(&PatternEnergy) -> f64| {
                Pattern::ALL.map(|pattern| {
                    let mut runs = runs();
                    let run =
                        runs.find(|run| run.parameter == size && run.pattern == pattern.name());
                    run.map_or_else(String::new, |run| figure(value(run)))
                })
            };
            let mut row = vec![size.to_string()];
            row.extend(cells(|run| run.mean_us));
            row.extend(cells(|run| {
                run.joule_above_idle * 1e3 / run.transfers as f64
            }));
            table.row(row);
        }
        table.note("The energy includes background work. The article prints Figure 4 as plots, without numbers.");
        table
    }

    /// Table 4: the category of background work after writes.
    fn background_table(&self) -> Table {
        let title = "Background work after runs with writes, measured (the article's Table 4)";
        let mut table = Table::new(title, &["micro-benchmark", "SW", "RW"]);
        for micro in Micro::ALL {
            let category = |pattern: Pattern| {
                let runs = self.runs.iter();
                let runs = runs.filter(|run| run.micro == micro && run.has(pattern));
                let tails: Vec<(f64, f64)> = runs
                    .map(|run| (run.parameter as f64, run.background_seconds))
                    .collect();
                let found = (!tails.is_empty()).then(|| background(&tails));
                found
                    .as_ref()
                    .map_or_else(String::new, Background::to_string)
            };
            let categories = [Pattern::SW, Pattern::RW].map(category);
            if categories.iter().any(|category| !category.is_empty()) {
                let mut row = vec![micro.title().0.to_owned()];
                row.extend(categories);
                table.row(row);
            }
        }
        table
    }

    fn pause_table(&self) -> Table {
        let mut table = Table::new("Pauses that follow", &["after", "seconds"]);
        for pattern in Pattern::ALL {
            let seconds = self.pauses.seconds(pattern);
            table.row(vec![pattern.name().to_owned(), format!("{seconds:.3}")]);
        }
        let cut = self.runs.iter().filter(|run| run.is_cut).count();
        if cut > 0 {
            table.note(format!(
                "The pause after {cut} of {} runs, or the trace, was too short to find the end of their background work: repeat the \
                 probe with these pauses (--pauses) or a longer one (--pause), and end the trace as long after the probe.",
                self.runs.len()
            ));
        }
        table
    }
}

impl PatternEnergy {
    fn has(&self, pattern: Pattern) -> bool {
        self.pattern.split('/').any(|name| name == pattern.name())
    }

    /// Returns its patterns: one, or two that are mixed.
    fn patterns(&self) -> impl Iterator<Item = Pattern> {
        Pattern::ALL
            .into_iter()
            .filter(move |pattern| self.has(*pattern))
    }

    fn is_mixed(&self) -> bool {
        self.patterns().count() > 1
    }

    fn pause_seconds(&self) -> f64 {
        let factor = match self.is_cut {
            true => PAUSE_FACTOR_CUT,
            false => PAUSE_FACTOR,
        };
        self.background_seconds * factor
    }
}

impl Pauses {
    /// No pauses.
    pub const NONE: Self = Self::all(0.0);

    /// Returns the same pause after each run.
    pub const fn all(seconds: f64) -> Self {
        Self {
            sr: seconds,
            rr: seconds,
            sw: seconds,
            rw: seconds,
        }
    }

    /// Computes the pauses: those after the longest background work of a pattern's own runs. After a run of two mixed
    /// patterns comes the longer pause of both. If that is too short for it, it grows, and the other one does not: reads
    /// would wait for the work that writes have caused.
    fn after(runs: &[PatternEnergy]) -> Self {
        let (mixed, alone): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.is_mixed());
        let mut pauses = Self::NONE;
        for run in alone.into_iter().chain(mixed) {
            let longer = |a: &Pattern, b: &Pattern| {
                let [a, b] = [a, b].map(|pattern| (pauses.seconds(*pattern), pattern.writes()));
                a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
            };
            if let Some(pattern) = run.patterns().max_by(longer) {
                let seconds = pauses.seconds_mut(pattern);
                *seconds = seconds.max(run.pause_seconds());
            }
        }
        pauses
    }

    /// Reads the pauses that an analysis has written (`pythia probe --energy-trace … --json`).
    pub fn parse(json: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Analysis {
            pauses: Pauses,
        }
        Ok(serde_json::from_str::<Analysis>(json)?.pauses)
    }

    fn seconds(&self, pattern: Pattern) -> f64 {
        match pattern {
            Pattern::SR => self.sr,
            Pattern::RR => self.rr,
            Pattern::SW => self.sw,
            Pattern::RW => self.rw,
        }
    }

    fn seconds_mut(&mut self, pattern: Pattern) -> &mut f64 {
        match pattern {
            Pattern::SR => &mut self.sr,
            Pattern::RR => &mut self.rr,
            Pattern::SW => &mut self.sw,
            Pattern::RW => &mut self.rw,
        }
    }

    /// Returns the pause after a run of one or two patterns.
    pub(super) fn pause(&self, first: Pattern, second: Option<Pattern>) -> Duration {
        let other = second.map_or(0.0, |second| self.seconds(second));
        let seconds = self.seconds(first).max(other);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}

/// Returns the table of idle states (Table 3): those of traces, and those of the article's devices.
pub fn idle_table(traces: &[(String, IdleState)]) -> Table {
    let header = [
        "idle",
        "advertised W",
        "mean W",
        "deviation",
        "median W",
        "working %",
    ];
    let mut table = Table::new("Power of the idle state (the article's Table 3)", &header);
    for (name, idle) in traces {
        table.row(vec![
            format!("{name}, measured"),
            String::new(),
            figure(idle.mean_watt),
            figure(idle.mean_deviation_watt),
            figure(idle.watt),
            figure(idle.work_share * 100.0),
        ]);
    }
    for (name, advertised, mean, deviation) in PAPER_IDLE {
        let mut row = vec![format!("{name} (article)")];
        row.extend([advertised, mean, deviation].map(figure));
        table.row(row);
    }
    table.note("Working: the share of the idle time in which the power is far above the median: regular background work.");
    table
}
