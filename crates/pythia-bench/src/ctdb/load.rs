//! The load of generated people into a new store (Table 1).

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use pythia::{Compression, LoadOptions, RdfFormat, Source};
use pythia_generate::{Part, people};
use serde::Serialize;

/// A measured load. Its time includes the generation of the data, which has no file.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Load {
    /// Triples loaded.
    pub triples: u64,
    /// Bytes of N-Triples.
    pub text_bytes: u64,
    /// Bytes of the store's segment.
    pub store_bytes: u64,
    /// Duration of the load.
    pub seconds: f64,
    /// Triples per second.
    pub triples_per_second: f64,
}

/// Generates people into a new store in a folder, and measures the load. Each core generates a part of the data.
pub fn load(folder: &Path, config: &people::Config, options: &LoadOptions) -> Result<Load> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = options.threads.map_or(cores, usize::from);
    let sources = Part::all(u32::try_from(parts)?)
        .map(|part| {
            let name = format!("generated part {part}");
            let reader = people::reader(config, part);
            Source::from_reader(name, reader, RdfFormat::NTriples, Compression::None)
        })
        .collect::<Result<Vec<Source>, _>>()?;
    let started = Instant::now();
    let report = pythia::load(folder, sources, options, &Default::default())?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Load {
        triples: report.quads_read,
        text_bytes: report.text_bytes,
        store_bytes: report.store_bytes,
        seconds,
        triples_per_second: report.quads_read as f64 / seconds,
    })
}
