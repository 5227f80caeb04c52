//! `pythia bench pages`: ways of rewriting pages on a device.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia_bench::updates::pages;

use super::amplification::Places;
use crate::arguments::{bytes, time};
use crate::output::show;

/// Rewrite random pages of a file in place, appended to a log, and with cold pages packed apart
///
/// The file has no name, and disappears with the command. It does not touch a store.
///
///   pythia bench pages --folder /mnt/nvme --size 8G --seconds 60
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Pages {
    /// Folder on the device
    #[arg(long, default_value = ".", value_name = "DIR")]
    folder: PathBuf,

    /// Size of the file; nine tenths of the free space at most
    #[arg(long, value_parser = bytes, default_value = "1G")]
    size: usize,

    /// Bytes of a page
    #[arg(long, value_parser = bytes, default_value = "4K")]
    page: usize,

    /// Pages, as a percentage of those that the file has room for
    #[arg(long, default_value_t = 75)]
    fill: u64,

    /// Which pages are rewritten: all alike, or most often a fifth or a hundredth of them
    #[arg(long, value_delimiter = ',', default_value = "even,80,99")]
    places: Vec<Places>,

    /// Duration of each of the measurements: three for each of the places
    #[arg(long, default_value = "20s", value_name = "TIME", value_parser = time)]
    seconds: Duration,

    /// Write all figures as JSON; - is standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Pages {
    pub(super) fn run(self) -> Result<()> {
        let options = pages::Options {
            folder: self.folder,
            bytes: self.size as u64,
            page_bytes: self.page,
            fill_percent: self.fill,
            places: self.places.into_iter().map(Into::into).collect(),
            seconds: self.seconds.as_secs_f64(),
        };
        let report = pages::run(&options, |line| eprintln!("{line}"))?;
        let json = serde_json::to_value(&report)?;
        show(self.json.as_deref(), &report.text(), json)
    }
}
