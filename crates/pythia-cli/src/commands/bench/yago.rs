//! `pythia bench yago`: the experiment of the Pythia paper on YAGO.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use pythia_bench::files::bytes_by_name;
use pythia_bench::yago;

use crate::arguments::{LimitArguments, ReportArguments, StoreArguments, time};
use crate::exit::UsageError;
use crate::output::show_report;

/// The Pythia paper's experiment: six queries on YAGO by 1 to 32 clients, and its Q1, Q2, Q3
///
/// Parameters are drawn at random from the data, such that each query has an answer. Latencies are
/// measured by a caller in this process: parse, plan, run, decode.
///
///   pythia load -l yago.pythia testdata/yago/yago-slice.nt.zst
///   pythia bench yago -l yago.pythia --cold --report yago.html
///   pythia bench yago -l yago.pythia --device flash,pcm
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Yago {
    #[command(flatten)]
    store: StoreArguments,

    #[command(flatten)]
    limits: LimitArguments,

    /// Duration for each number of clients
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    seconds: Duration,

    /// Numbers of clients
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,…",
        default_value = "1,2,4,8,16,32"
    )]
    clients: Vec<usize>,

    /// Also run the mix cold: clear the cache before each number of clients, or before each query
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, default_missing_value = "step", require_equals = true)]
    cold: Option<Cold>,

    /// Also run the mix on modelled devices: the paper's flash and phase change memory, with its 24 cores
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DEVICE,…")]
    device: Vec<Device>,

    /// Runs of each of Q1, Q2, Q3
    #[arg(long, default_value_t = 200)]
    runs: u32,

    /// Seed of the parameters
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    output: ReportArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cold {
    Step,
    Query,
}

#[derive(Clone, Copy, ValueEnum)]
enum Device {
    Flash,
    Pcm,
}

impl From<Device> for yago::Device {
    fn from(device: Device) -> Self {
        match device {
            Device::Flash => Self::Flash,
            Device::Pcm => Self::Pcm,
        }
    }
}

impl Yago {
    pub(super) fn run(self) -> Result<()> {
        let devices: Vec<_> = self.device.iter().copied().map(Into::into).collect();
        let modelled = (!devices.is_empty()).then(|| yago::ModelledOptions {
            devices,
            location: self.store.location.clone(),
            limits: self.limits.options(self.store.cache),
        });
        let options = yago::Options {
            step: self.seconds,
            cold: self.cold.map(|cold| match cold {
                Cold::Step => yago::Cold::Step,
                Cold::Query => yago::Cold::Query,
            }),
            seed: self.seed,
            runs: self.runs,
            clients: self.clients,
            modelled,
        };
        if options.clients.contains(&0) {
            return Err(UsageError("--clients: each number is at least 1".to_owned()).into());
        }
        let database = self.store.open(&self.limits)?;
        let mut report = yago::run(&database, &options, |part| eprintln!("{part}"))?;
        report.store.file_bytes = bytes_by_name(&self.store.location)?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }
}
