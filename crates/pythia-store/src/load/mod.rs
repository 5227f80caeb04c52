//! The bulk loader: writes RDF files as a new segment.
//!
//! ```text
//! sources ─ parse ─ intern ─ batches ─ merge vocabularies ─ dictionary
//!           (one interner per thread)        │ numbers
//!                                            └ batch rows ─ sort ─ orders ─ seal ─ manifest
//! ```
//!
//! Each parse thread numbers terms as it meets them (`interner`). When its share of the memory is full, it seals a
//! batch: a sorted vocabulary and rows of ranks in it (`batch`). The vocabularies are merged into the dictionary,
//! which gives every term its number (`numbering`); rows of numbers are packed into integers (`row`), sorted
//! (`sorter`, `radix`) and written in all orders (`orders`). Data between phases is in runs, in memory while the
//! budget allows and then in unnamed temporary files (`runs`).
//!
//! Invariants:
//! - A store changes atomically, at the end; a load that fails or is killed before leaves the store unchanged, and no
//!   temporary file.
//! - The segment depends only on the set of quads: not on the order of the input, the number of threads, or the
//!   memory budget. Numbers are ranks, and ids are numbers.

mod arena;
mod batch;
mod error;
mod interner;
pub(crate) mod live;
mod numbering;
mod orders;
mod pipeline;
mod progress;
mod radix;
mod row;
pub(crate) mod runs;
pub(crate) mod sorter;
mod table;
mod vocabulary;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
pub(crate) mod store_tests;
#[cfg(test)]
mod tests;

pub use error::LoadError;
pub(crate) use error::joined;
pub use progress::{LoadProgress, Phase};

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pythia_io::{DeviceProfile, Storage, system};
use pythia_rdf::{
    CountingSink, ParseReport, Source, SyntaxProblem, TermKey, TermKind, parse_sources,
};

use crate::Order;
use crate::dictionary::{DictionaryDirectory, DictionaryWriter};
use crate::manifest::Manifest;
use crate::segment::BaseWriter;
use crate::segment::{OrderDirectory, OrderWriter, SegmentOptions};
use numbering::TermSink;
use orders::{PerOrder, RowSink};
use pipeline::{Built, Parsed};

/// The memory of a machine that does not report it.
const UNKNOWN_MEMORY_BYTES: usize = 4 << 30;
/// Limit of the threads per core.
const THREADS_PER_CORE_MAX: usize = 4;

/// Options of a load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Limit of the load's memory, in bytes; by default a quarter of the machine's. Below 192 MiB the limit is only
    /// approximate.
    pub memory_bytes: usize,
    /// The folder of temporary files; by default the system's.
    pub tmp: PathBuf,
    /// Limit of the bytes of temporary files; `None` is no limit.
    pub tmp_bytes_max: Option<u64>,
    /// Number of parse and sort threads; by default as many as the machine has.
    pub threads: Option<NonZero<usize>>,
    /// Skip invalid statements and count them, instead of failing at the first.
    pub lenient: bool,
    /// Page sizes of the segment; `None`: the defaults, with the largest tuple pages that cost nothing on the store's
    /// device, as far as known.
    pub segment: Option<SegmentOptions>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            memory_bytes: system::memory_bytes().unwrap_or(UNKNOWN_MEMORY_BYTES) / 4,
            tmp: std::env::temp_dir(),
            tmp_bytes_max: None,
            threads: None,
            lenient: false,
            segment: None,
        }
    }
}

impl LoadOptions {
    pub(crate) fn threads(&self) -> usize {
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        // More threads only cost memory.
        let most = machine * THREADS_PER_CORE_MAX;
        self.threads
            .map_or(machine, |threads| threads.get().min(most))
    }
}

/// The outcome of a load.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// Quads read, including repeated ones.
    pub quads_read: u64,
    /// Distinct quads stored.
    pub quads: u64,
    /// Distinct quads that the store already had.
    pub known_quads: u64,
    /// Quads that were replaced, and are not among those loaded.
    pub removed_quads: u64,
    /// Distinct terms, including inline ones.
    pub terms: u64,
    /// Bytes of text parsed.
    pub text_bytes: u64,
    /// Invalid statements that were skipped.
    pub skipped: u64,
    /// The first of them.
    pub first_skipped: Vec<SyntaxProblem>,
    /// Duration of each phase.
    pub phases: Vec<(&'static str, Duration)>,
    /// Bytes of the segment's files.
    pub store_bytes: u64,
    /// Number of sorted batches that the input was split into.
    pub batches: usize,
    /// Whether the quads were too many to be sorted in memory.
    pub rows_spilled: bool,
    /// Most bytes in temporary files at a time.
    pub tmp_bytes_peak: u64,
    /// Total bytes written to temporary files.
    pub tmp_bytes_written: u64,
}

/// Loads the sources into a storage that holds no store or an empty one. The caller holds the store's lock.
///
/// All or nothing: on return the store is durable; on error it is unchanged. Memory stays within
/// [`LoadOptions::memory_bytes`].
///
/// # Errors
/// The first syntax error (unless lenient), an unreadable source, a store that is not empty, a device or a temporary
/// folder that is full or fails.
pub fn load(
    storage: Arc<dyn Storage>,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let write = || write(storage, sources, options, progress);
    // A panic of any thread arrives here; the unfinished segment is removed during unwinding.
    joined(catch_unwind(AssertUnwindSafe(write)), "loading")
}

fn write(
    storage: Arc<dyn Storage>,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let pages = options
        .segment
        .unwrap_or_else(|| page_sizes(&storage.device()));
    let base = BaseWriter::create(Arc::clone(&storage), pages)?;
    let segment = base.segment();
    let orders = PerOrder {
        spo: segment.order(Order::Spo)?,
        ops: segment.order(Order::Ops)?,
        pso: segment.order(Order::Pso)?,
        pos: segment.order(Order::Pos)?,
        gpso: segment.order(Order::Gpso)?,
    };
    let mut terms = Dictionary {
        writer: Some(segment.dictionary(options.threads())?),
        directory: None,
    };
    let parsed = Parsed::new(sources, options, progress)?;
    let (built, orders) = parsed.write(&mut terms, orders)?;
    progress.begin("seal", 0);
    let directory = terms.directory.expect("the pipeline ends the dictionary");
    base.seal(directory, orders.into_list())?;
    let bytes = Manifest::read(&*storage)?.map_or(0, |manifest| manifest.base_bytes());
    Ok(LoadReport::new(built, bytes, progress))
}

impl LoadReport {
    fn new(built: Built, store_bytes: u64, progress: &LoadProgress) -> Self {
        Self {
            quads_read: built.parsed.quads,
            quads: built.quads,
            known_quads: built.known,
            removed_quads: 0,
            terms: built.terms,
            text_bytes: built.parsed.bytes,
            skipped: built.parsed.skipped,
            first_skipped: built.parsed.first_skipped,
            phases: progress.end(),
            store_bytes,
            batches: built.batches,
            rows_spilled: built.spilled,
            tmp_bytes_peak: built.tmp_bytes_peak,
            tmp_bytes_written: built.tmp_bytes_written,
        }
    }
}

/// Returns the page sizes that suit a device.
pub(crate) fn page_sizes(device: &DeviceProfile) -> SegmentOptions {
    SegmentOptions {
        tuple_page_bytes: device.page_bytes_best(),
        ..SegmentOptions::default()
    }
}

/// The segment's dictionary: a writer until its last term, then a directory.
struct Dictionary {
    writer: Option<DictionaryWriter>,
    directory: Option<DictionaryDirectory>,
}

impl TermSink for &mut Dictionary {
    #[inline]
    fn term(&mut self, kind: TermKind, bytes: &[u8]) -> Result<(), LoadError> {
        let writer = self.writer.as_mut().expect("no term comes after the last");
        writer.push(TermKey { kind, bytes })?;
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Vec<u64>>, LoadError> {
        let writer = self.writer.take().expect("there is one last term");
        self.directory = Some(writer.finish()?);
        Ok(None)
    }
}

impl RowSink for OrderWriter {
    type Sealed = OrderDirectory;

    #[inline]
    fn row(&mut self, ids: [u64; 4]) -> Result<(), LoadError> {
        Ok(self.push(ids)?)
    }

    fn seal(self) -> Result<OrderDirectory, LoadError> {
        Ok(self.finish()?)
    }
}

/// Parses and checks the sources as [`load`] does, without storing anything: a baseline for load times.
pub fn parse_only(
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &LoadProgress,
) -> Result<ParseReport, LoadError> {
    let mut sinks: Vec<CountingSink> = (0..options.threads())
        .map(|_| CountingSink::new())
        .collect();
    progress.begin("parse", pipeline::source_bytes(&sources));
    let report = parse_sources(
        sources,
        &pipeline::parse_options(options),
        &mut sinks,
        &progress.parse,
    )?;
    progress.end();
    Ok(report)
}
