//! `pythia bench operators`: database operators for flash.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use pythia_bench::operators::{self, Part};

use crate::arguments::{ReportArguments, bytes, time};
use crate::exit::UsageError;
use crate::output::show_report;

/// Scans of parts of pages, late joins and a Bloom filter on the device, compared with the usual
/// operators
///
/// - scan: FlashScan reads the minipages of the projected attributes, by share of the attributes
///   and rows and by size of the minipages
/// - columns: reads of one column's part of the column pages of a store, generated for that
/// - join: FlashJoin joins row numbers and fetches attributes late, beside a hybrid hash join
/// - bloom: a Bloom filter on the device with buffered keys, beside filters in memory
///
/// The files are read past the kernel's cache, and their folder is removed at the end (not if the
/// command is killed). They need up to 1 GB. The report has the figures of the papers beside the
/// measured ones.
///
///   pythia bench operators --folder /mnt/nvme --report operators.html
///   pythia bench operators --parts bloom --keys 50000000
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Operators {
    /// Folder on the device, for a temporary folder [default: the system's folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Parts to run
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PART,…",
        default_value = "scan,columns,join,bloom"
    )]
    parts: Vec<PartName>,

    /// Runs of each measurement; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Duration of each of the 25 streams of the device's own reads
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    device_seconds: Duration,

    /// Size of the relation to scan
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "512M")]
    scan_size: usize,

    /// BSBM products in the store whose column pages are read
    #[arg(long, value_name = "N", default_value_t = 28_480, value_parser = clap::value_parser!(u32).range(1..))]
    products: u32,

    /// Rows of each of the relations to join; a row has 100 bytes
    #[arg(long, value_name = "N", default_value_t = 2 << 20, value_parser = clap::value_parser!(u32).range(1..=32 << 20))]
    join_rows: u32,

    /// Memory of a join
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "72M")]
    join_memory: usize,

    /// Keys of the Bloom filters
    #[arg(long, value_name = "N", default_value_t = 50_000_000, value_parser = clap::value_parser!(u32).range(2..))]
    keys: u32,

    /// Size of the Bloom filter on the device, a power of two; those in memory have a half, a
    /// quarter and an eighth of it
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "256M")]
    filter_size: usize,

    #[command(flatten)]
    output: ReportArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum PartName {
    Scan,
    Columns,
    Join,
    Bloom,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Scan => Self::Scan,
            PartName::Columns => Self::Columns,
            PartName::Join => Self::Join,
            PartName::Bloom => Self::Bloom,
        }
    }
}

impl Operators {
    pub(super) fn run(self) -> Result<()> {
        let folder = match &self.folder {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        };
        let folder = folder.context("make a folder for the files to measure")?;
        let options = self.options(folder.path().to_owned())?;
        let report = operators::run(&options, |step| eprintln!("{step}"))?;
        folder.close().context("remove the measured files")?;
        let json = serde_json::to_value(&report)?;
        show_report(&self.output, &report.text(), || report.html(), json)
    }

    fn options(&self, folder: PathBuf) -> Result<operators::Options> {
        if self.device_seconds.is_zero() {
            let message = "--device-seconds: the device is measured for some time";
            return Err(UsageError(message.to_owned()).into());
        }
        Ok(operators::Options {
            folder,
            parts: self.parts.iter().copied().map(Into::into).collect(),
            rounds: self.rounds.into(),
            device_time: self.device_seconds,
            scan_bytes: self.scan_size as u64,
            products: self.products.into(),
            join_rows: self.join_rows as usize,
            join_memory_bytes: self.join_memory,
            bloom: operators::bloom::Options::new(self.keys.into(), self.filter_size)
                .map_err(UsageError)?,
        })
    }
}
