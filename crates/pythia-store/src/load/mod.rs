//! The bulk loader: writes RDF files as a new segment.
//!
//! ```text
//! sources ─ parse ─ intern ─ batches ─ merge vocabularies ─ dictionary
//!           (one interner per thread)        │ numbers
//!                                            └ batch rows ─ sort ─ SPO, OPS, PSO, POS ─ seal ─ manifest
//! ```
//!
//! Each parse thread numbers terms as it meets them (`interner`). When its share of the memory is full, it seals a
//! batch: a sorted vocabulary and rows of ranks in it (`batch`). The vocabularies are merged into the dictionary,
//! which gives every term its number (`numbering`); rows of numbers are packed into integers (`row`), sorted
//! (`sorter`, `radix`) and written in the four orders (`orders`). Data between phases is in runs, in memory while the
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
mod merge;
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
pub(crate) use merge::LoserTree;
pub use progress::{LoadProgress, Phase};

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pythia_io::{DeviceProfile, DirectStorage, IoError, Storage};
use pythia_rdf::{
    CountingSink, ParseReport, Source, SyntaxProblem, TermKey, TermKind, parse_sources,
};

use crate::dictionary::{DictionaryDirectory, DictionaryWriter};
use crate::manifest::Manifest;
use crate::segment::BaseWriter;
use crate::segment::{OrderDirectory, OrderWriter, SegmentOptions};
use crate::store::{WriteOptions, check_no_log};
use crate::{OpenOptions, Order, Store, StoreLock, device};
use numbering::TermSink;
use orders::{PerOrder, RowSink};
use pipeline::{Built, Parsed};

/// The share of the memory that the page cache takes in a load into a store with quads, as a divisor.
const CACHE_PART: usize = 8;
const CACHE_BYTES_MIN: usize = 16 << 20;
const CACHE_BYTES_MAX: usize = 256 << 20;
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
            memory_bytes: machine_memory_bytes() / 4,
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

/// Returns the machine's memory, or 4 GiB if the system does not report it.
fn machine_memory_bytes() -> usize {
    let kilobytes = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()
        });
    kilobytes.map_or(4 << 30, |kilobytes| kilobytes << 10)
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

/// Loads the sources into the store at `path`, creating it if it is missing.
///
/// A new or empty store is locked during the load. A store with quads is opened for writing, and the quads that it
/// lacks are added atomically, concurrently with readers. Blank nodes in the sources are always new.
///
/// # Errors
/// See [`load`]; also if the folder cannot be created, or the store is in use.
pub fn load_into(
    path: &Path,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let name = path.display().to_string();
    std::fs::create_dir_all(path)
        .map_err(|error| IoError::os("create the folder", &name, None, error))?;
    let storage = DirectStorage::open(path, true)?;
    if has_quads(&storage)? {
        return load_onto(storage, sources, options, progress);
    }
    let _lock = StoreLock::exclusive(&storage)?;
    let known = device::read(&storage).filter(|device| device.identity == storage.identity());
    let segment = options
        .segment
        .unwrap_or_else(|| page_sizes(&known.unwrap_or_default()));
    let options = LoadOptions {
        segment: Some(segment),
        ..options.clone()
    };
    let storage = Arc::new(storage);
    check_no_log(&(Arc::<DirectStorage>::clone(&storage) as _))?;
    let report = load(
        Arc::<DirectStorage>::clone(&storage),
        sources,
        &options,
        progress,
    )?;
    if let Some(manifest) = Manifest::read(&*storage)? {
        // Measures the device, unless that was done before, and keeps the result.
        device::of_store(&storage, &manifest);
    }
    Ok(report)
}

/// Returns whether the store has quads, or was ever opened for writing.
fn has_quads(storage: &DirectStorage) -> Result<bool, LoadError> {
    let manifest = Manifest::read(storage)?;
    Ok(manifest.is_some_and(|manifest| manifest.quads > 0 || manifest.log.is_some()))
}

/// Loads the sources into a store that has quads.
fn load_onto(
    storage: DirectStorage,
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<LoadReport, LoadError> {
    let cache_bytes = (options.memory_bytes / CACHE_PART).clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX);
    let open = OpenOptions { cache_bytes };
    let mut write = WriteOptions::default();
    write.maintenance.in_background = false;
    let store = Store::open_folder_for_writing(Arc::new(storage), open, &write)?;
    let options = LoadOptions {
        memory_bytes: options.memory_bytes.saturating_sub(cache_bytes),
        ..options.clone()
    };
    let apart = |source: Source| source.with_blank_node_scope(Some(rand::random()));
    let sources = sources.into_iter().map(apart).collect();
    store.load(sources, &options, progress)
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
    };
    let mut terms = Dictionary {
        writer: Some(segment.dictionary()?),
        directory: None,
    };
    let parsed = Parsed::new(sources, options, progress)?;
    let (built, PerOrder { spo, ops, pso, pos }) = parsed.write(&mut terms, orders)?;
    progress.begin("seal", 0);
    let directory = terms.directory.expect("the pipeline ends the dictionary");
    base.seal(directory, vec![spo, ops, pso, pos])?;
    let files = Manifest::read(&*storage)?.map_or_else(Vec::new, |manifest| manifest.files);
    let bytes = files.iter().map(|file| file.bytes).sum();
    Ok(LoadReport::new(built, bytes, progress))
}

impl LoadReport {
    fn new(built: Built, store_bytes: u64, progress: &LoadProgress) -> Self {
        Self {
            quads_read: built.parsed.quads,
            quads: built.quads,
            known_quads: built.known,
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

fn page_sizes(device: &DeviceProfile) -> SegmentOptions {
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
