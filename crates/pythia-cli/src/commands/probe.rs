//! `pythia probe`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use pythia_bench::probe::energy::{self, Energy, Shunt, Trace};
use pythia_bench::probe::patterns::{Pauses, Profile, RecordedProbe, idle_table};
use pythia_bench::probe::{self, Options};
use pythia_io::DirectStorage;
use serde_json::json;

use crate::arguments::{ReportArguments, bytes, time};
use crate::exit::{DataError, UsageError};
use crate::output::{show, show_report};

/// Measure the device of a folder
///
/// Measures latencies, bandwidth, the best queue depth per page size, the cost of durability, and
/// the nine micro-benchmarks of uFLIP, on an unnamed file that is removed with the process. With -l
/// the result is kept in the folder of the store, and sets its queue depths, read-ahead and the
/// planner's costs. The store may also be loaded after the probe, with pages of the best size.
///
///   pythia probe --report probe.html /var/lib/pythia
///   pythia probe -l yago.pythia
///   pythia probe --energy-trace run.csv --io-end 3.2
///   pythia probe --energy-trace all.csv --probe probe.json --probe-begin 1.5 --json energy.json
///   pythia probe --pauses energy.json /var/lib/pythia
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Probe {
    /// The folder
    #[arg(
        value_name = "FOLDER",
        required_unless_present_any = ["location", "energy_trace"],
        conflicts_with = "location"
    )]
    folder: Option<PathBuf>,

    /// Measure the device of this store, and store the result with it
    #[arg(short, long, value_name = "STORE")]
    location: Option<PathBuf>,

    /// Take a few seconds instead of two minutes
    #[arg(long)]
    quick: bool,

    /// Approximate duration, not counting the creation of the test file [default: 120, quick: 6]
    #[arg(long, value_name = "TIME", value_parser = time)]
    seconds: Option<Duration>,

    /// Size of the test file, limited to nine tenths of the free space [default: 1G, quick: 256M]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<usize>,

    /// Pause after each run of uFLIP as long as the background work that an analysis of a trace has
    /// found: the file that --energy-trace with --probe has written with --json
    #[arg(long, value_name = "FILE.json", conflicts_with = "energy_trace")]
    pauses: Option<PathBuf>,

    /// Pause as long after each run of uFLIP, to see in a trace how long background work takes
    #[arg(long, value_name = "TIME", conflicts_with_all = ["pauses", "energy_trace"], value_parser = time)]
    pause: Option<Duration>,

    #[command(flatten)]
    energy: EnergyArguments,

    #[command(flatten)]
    output: ReportArguments,
}

/// Options for recorded traces.
#[derive(Args)]
struct EnergyArguments {
    /// Analyse recorded traces instead: CSV of seconds and volts over a shunt, one file for each
    /// value of the varied parameter
    #[arg(long, value_name = "FILE.csv", value_delimiter = ',', conflicts_with_all = ["folder", "location"])]
    energy_trace: Vec<PathBuf>,

    /// Resistance of the shunt
    #[arg(long, value_name = "OHM", default_value_t = 1.0)]
    shunt_ohm: f64,

    /// Voltage of the supply
    #[arg(long, value_name = "VOLT", default_value_t = 5.0)]
    supply_volt: f64,

    /// Time at the beginning of a trace in which the device was idle
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    idle_seconds: Duration,

    /// Time of the last transfer in each trace; what follows is background work
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = time)]
    io_end: Vec<Duration>,

    /// Find the energy of each pattern in one trace of a whole probe: the figures that the probe has
    /// written with --json, with the times of its runs
    #[arg(long, value_name = "FILE.json", requires = "energy_trace", conflicts_with_all = ["io_end", "parameter"])]
    probe: Option<PathBuf>,

    /// Time in the trace at which that probe began
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        requires = "probe", value_parser = time)]
    probe_begin: Duration,

    /// Value of the parameter in each trace [default: 1,2,3,…]
    #[arg(long, value_name = "VALUE,…", value_delimiter = ',')]
    parameter: Vec<f64>,
}

impl Probe {
    pub(crate) fn run(self) -> Result<()> {
        if !self.energy.energy_trace.is_empty() {
            return self.energy.run(self.output.json.as_deref());
        }
        let mut options = if self.quick {
            Options::QUICK
        } else {
            Options::FULL
        };
        if let Some(value) = self.seconds {
            options.duration = value;
        }
        if options.duration < Duration::from_millis(100) {
            return Err(UsageError("--seconds is at least 100ms".to_owned()).into());
        }
        if let Some(value) = self.pause {
            options.pauses = Pauses::all(value.as_secs_f64());
        }
        if let Some(path) = &self.pauses {
            let name = path.display();
            let json = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
            options.pauses =
                Pauses::parse(&json).map_err(|error| DataError(format!("{name}: {error}")))?;
        }
        if let Some(size) = self.size {
            options.file_bytes = size as u64;
        }
        let folder = self.folder.as_ref().or(self.location.as_ref());
        let folder = folder.expect("clap requires one");
        if self.location.is_some() {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        let report = probe::run(folder, &options, |part| eprintln!("{part} …"))?;
        if let Some(why) = &report.not_direct {
            eprintln!("warning: the kernel's cache was measured, not the device: {why}");
        }
        if let Some(load) = report.machine.busy() {
            eprintln!(
                "warning: the machine was busy (load average {load:.1}): repeat the probe when it is idle"
            );
        }
        if let Some(store) = &self.location {
            let storage = DirectStorage::open(store, false)?;
            pythia::device::write(&storage, &report.profile()).context("store the result")?;
        }
        let text = format!("{}\n{}", report.text(), report.profile());
        let mut value = serde_json::to_value(&report)?;
        value["profile"] = serde_json::to_value(report.profile())?;
        show_report(&self.output, &text, || report.html(), value)
    }
}

impl EnergyArguments {
    fn run(&self, json: Option<&Path>) -> Result<()> {
        let count = self.energy_trace.len();
        for (name, values) in [
            ("--io-end", self.io_end.len()),
            ("--parameter", self.parameter.len()),
        ] {
            if values != 0 && values != count {
                let message = format!("{name} has {values} values for {count} traces");
                return Err(UsageError(message).into());
            }
        }
        if !(self.shunt_ohm > 0.0 && self.supply_volt > 0.0) {
            let message = "--shunt-ohm and --supply-volt must be above 0";
            return Err(UsageError(message.to_owned()).into());
        }
        if let Some(probe) = &self.probe {
            return self.run_probe(probe, json);
        }
        let mut text = String::new();
        let mut values = Vec::new();
        let (mut tails, mut idle) = (Vec::new(), Vec::new());
        for (index, path) in self.energy_trace.iter().enumerate() {
            let name = path.display();
            let trace = read_trace(path)?;
            idle.push((name.to_string(), trace.idle(&self.shunt())));
            let energy = trace.analyse(
                &self.shunt(),
                self.io_end.get(index).map(Duration::as_secs_f64),
            );
            let parameter = self.parameter.get(index).copied();
            let parameter = parameter.unwrap_or(index as f64 + 1.0);
            tails.extend(energy.background_seconds.map(|tail| (parameter, tail)));
            text += &format!("{name}: {}\n", describe(&energy));
            values.push(json!({ "file": path, "parameter": parameter, "energy": energy }));
        }
        let background = (!tails.is_empty()).then(|| energy::background(&tails));
        match background {
            Some(background) => {
                text += &format!("background work: {background}");
            }
            None => text += "background work: needs --io-end",
        }
        text += &format!("\n\n{}", idle_table(&idle).text().trim_end());
        show(
            json,
            &text,
            json!({ "traces": values, "background": background }),
        )
    }

    /// Finds the energy of each run of a probe.
    fn run_probe(&self, path: &Path, json: Option<&Path>) -> Result<()> {
        let [trace] = &self.energy_trace[..] else {
            let message = "--probe needs one --energy-trace, of the whole probe";
            return Err(UsageError(message.to_owned()).into());
        };
        let name = path.display();
        let figures = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
        let figures = RecordedProbe::parse(&figures)
            .map_err(|error| DataError(format!("{name}: {error}")))?;
        let (file, trace) = (trace.display().to_string(), read_trace(trace)?);
        let profile = Profile::new(
            &trace,
            &self.shunt(),
            &figures,
            self.probe_begin.as_secs_f64(),
        )
        .map_err(|error| DataError(format!("{file}: {error}")))?;
        let idle = [(file, trace.idle(&self.shunt()))];
        let tables = [idle_table(&idle)].into_iter().chain(profile.tables());
        let tables: Vec<String> = tables.map(|table| table.text()).collect();
        let mut value = serde_json::to_value(&profile)?;
        value["idle"] = serde_json::to_value(idle[0].1)?;
        show(json, tables.join("\n").trim_end(), value)
    }

    fn shunt(&self) -> Shunt {
        Shunt {
            ohm: self.shunt_ohm,
            supply_volt: self.supply_volt,
            idle_seconds: self.idle_seconds.as_secs_f64(),
        }
    }
}

fn read_trace(path: &Path) -> Result<Trace> {
    let name = path.display();
    let csv = fs::read_to_string(path).with_context(|| format!("read {name}"))?;
    Ok(Trace::parse(&csv).map_err(|error| DataError(format!("{name}: {error}")))?)
}

fn describe(energy: &Energy) -> String {
    let idle = format!(
        "idle {:.3} W ± {:.3}",
        energy.idle_watt, energy.idle_deviation_watt
    );
    let Some((begin, end)) = energy.run else {
        return format!("{idle}; no run: the power stays at idle");
    };
    let tail = energy.background_seconds.map_or_else(String::new, |tail| {
        format!(", {tail:.3} s of it background work")
    });
    format!(
        "{idle}; run from {begin:.3} s to {end:.3} s{tail}: {:.3} J, {:.3} J above idle",
        energy.joule, energy.joule_above_idle
    )
}
