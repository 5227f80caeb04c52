//! The phases of a load in order, from sources to sorted terms and rows, and the division of memory.

use std::sync::Arc;

use pythia_rdf::{ParseError, ParseOptions, ParseReport, Source, parse_sources};

use super::batch::{Batch, BatchFiles};
use super::interner::Interner;
use super::numbering::{NumberedBatch, TermNumbers, TermSink, number_terms};
use super::orders::{KnownQuads, OrdersPlan, PerOrder, RowSink, write_orders};
use super::progress::LoadProgress;
use super::runs::{RunFile, RunSpace};
use super::{LoadError, LoadOptions};

/// Memory per thread that is not counted elsewhere: chunks of text, buffers, stacks.
const THREAD_BYTES: usize = 14 << 20;
/// Memory of the load as a whole that is not counted elsewhere: writers, page buffers, the program itself.
const PROCESS_BYTES: usize = 80 << 20;
/// Memory of a parse thread's batch, if there is enough: small batches fit into the processor's caches, large ones
/// merge faster.
const BATCH_BYTES: usize = 48 << 20;
/// Minimum share of the data memory for one thread's batch, as a divisor.
const BATCH_PART: usize = 48;
/// Share of the data memory for merging vocabularies, as a divisor.
const MERGE_PART: usize = 8;
/// Bytes of each vocabulary, and of its numbers, in memory during the merge.
const MERGE_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 20;
/// Minimum bytes of text passed to a parse thread at a time.
const CHUNK_BYTES_MIN: usize = 16 << 10;

/// The outcome of the phases.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) parsed: ParseReport,
    /// Distinct quads that were written, and that were known.
    pub(super) quads: u64,
    pub(super) known: u64,
    /// Whether sorted quads were spilled.
    pub(super) spilled: bool,
    /// Distinct terms, inline values included.
    pub(super) terms: u64,
    /// Batches that were sealed while parsing.
    pub(super) batches: usize,
    /// Most bytes in temporary files at a time, and total bytes written to them.
    pub(super) tmp_bytes_peak: u64,
    pub(super) tmp_bytes_written: u64,
}

/// The division of memory, in bytes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    /// Memory for data of the load.
    data: usize,
    /// The part of `data` for all batches being parsed.
    batches: usize,
}

impl Memory {
    fn new(options: &LoadOptions) -> Self {
        let threads = options.threads();
        let fixed = PROCESS_BYTES + THREAD_BYTES * threads;
        // Allocators keep a part of freed memory. If the budget is too small for the fixed part, it is only
        // approximate.
        let data =
            (options.memory_bytes.saturating_sub(fixed) / 8 * 7).max(options.memory_bytes / 4);
        let batch = BATCH_BYTES
            .max(data / BATCH_PART)
            .min(data * 3 / 4 / threads);
        Self {
            data,
            batches: batch * threads,
        }
    }

    fn merge(self) -> usize {
        (self.data / MERGE_PART).min(self.batches)
    }
}

/// Sources that were parsed into batches.
#[derive(Debug)]
pub(super) struct Parsed {
    options: LoadOptions,
    progress: Arc<LoadProgress>,
    memory: Memory,
    space: Arc<RunSpace>,
    report: ParseReport,
    batches: Vec<Batch>,
}

impl Parsed {
    /// Parses the sources.
    pub(super) fn new(
        sources: Vec<Source>,
        options: &LoadOptions,
        progress: &Arc<LoadProgress>,
    ) -> Result<Self, LoadError> {
        let memory = Memory::new(options);
        let in_runs = memory.data - memory.batches;
        let space = RunSpace::new(&options.tmp, in_runs, options.tmp_bytes_max);
        let (report, batches) = parse(sources, options, memory, &space, progress)?;
        // The memory of the batches being parsed is free now.
        space.give_memory(memory.batches - memory.merge());
        Ok(Self {
            options: options.clone(),
            progress: Arc::clone(progress),
            memory,
            space,
            report,
            batches,
        })
    }

    /// Returns an upper bound of the number of distinct terms: the sum over all batches.
    pub(super) fn terms_max(&self) -> u64 {
        let counts = self.batches.iter().map(Batch::term_count);
        counts.map(u64::from).sum()
    }

    /// Passes all distinct terms and quads, sorted, to the sinks.
    pub(super) fn write<S: RowSink>(
        self,
        terms: impl TermSink,
        orders: PerOrder<S>,
    ) -> Result<(Built, PerOrder<S::Sealed>), LoadError> {
        let (mut numbered, ids) = self.number(terms)?;
        if let Some(ids) = ids {
            numbered.take_ids(ids);
        }
        numbered.write(orders, None)
    }

    /// Passes all distinct terms, sorted, to the sink. Also returns the ids that the sink gave them, in their order.
    pub(super) fn number(
        self,
        mut terms: impl TermSink,
    ) -> Result<(Numbered, Option<Vec<u64>>), LoadError> {
        let Self {
            options,
            progress,
            memory,
            space,
            report,
            batches,
        } = self;
        let batch_count = batches.len();
        let keys = batches
            .iter()
            .map(|batch| u64::from(batch.term_count()))
            .sum();
        progress.begin("number terms", keys);
        let buffer_bytes = memory.merge() / 2 / batch_count.max(1);
        let buffer_bytes =
            buffer_bytes.clamp(*MERGE_BUFFER_BYTES.start(), *MERGE_BUFFER_BYTES.end());
        let file = space.file("term numbers");
        let (numbers, batches) = number_terms(batches, &mut terms, &file, buffer_bytes, &progress)?;
        drop(file);
        let ids = terms.finish()?;
        space.give_memory(memory.merge());
        space.shrink();
        let numbered = Numbered {
            options,
            progress,
            memory,
            space,
            report,
            batches,
            numbers,
        };
        Ok((numbered, ids))
    }
}

/// Sources whose distinct terms have numbers, and ids.
#[derive(Debug)]
pub(super) struct Numbered {
    options: LoadOptions,
    progress: Arc<LoadProgress>,
    memory: Memory,
    space: Arc<RunSpace>,
    report: ParseReport,
    batches: Vec<NumberedBatch>,
    numbers: TermNumbers,
}

impl Numbered {
    /// Gives the dictionary terms ids other than their ranks, in the order of their keys.
    pub(super) fn take_ids(&mut self, ids: Vec<u64>) {
        self.numbers.take_ids(ids, &mut self.batches);
    }

    /// Returns the number of quads read.
    pub(super) fn quads(&self) -> u64 {
        self.report.quads
    }

    /// Returns the number of distinct terms.
    pub(super) fn terms(&self) -> u64 {
        u64::from(self.numbers.count()).saturating_sub(1)
    }

    /// Returns a temporary file of the load.
    pub(super) fn file(&self, what: &'static str) -> Arc<RunFile> {
        self.space.file(what)
    }

    /// Passes all distinct quads that are not known, sorted, to the sinks.
    pub(super) fn write<S: RowSink>(
        self,
        orders: PerOrder<S>,
        known: Option<KnownQuads<'_>>,
    ) -> Result<(Built, PerOrder<S::Sealed>), LoadError> {
        let terms = self.terms();
        let Self {
            options,
            progress,
            memory,
            space,
            report,
            batches,
            numbers,
        } = self;
        let batch_count = batches.len();
        // Memory not taken by rows and numbers is for sorting, minus the numbers being looked up.
        let largest = batches
            .iter()
            .map(NumberedBatch::term_count)
            .max()
            .unwrap_or(0) as usize;
        let taken = numbers.bytes() + 4 * largest * options.threads();
        let plan = OrdersPlan {
            memory_bytes: space
                .take_memory()
                .saturating_sub(taken)
                .max(memory.data / 4),
            threads: options.threads(),
            space: Arc::clone(&space),
            progress,
        };
        let orders = write_orders(batches, numbers, orders, known, &plan)?;
        let built = Built {
            parsed: report,
            quads: orders.quads,
            known: orders.known,
            spilled: orders.spilled,
            terms,
            batches: batch_count,
            tmp_bytes_peak: space.file_bytes_peak(),
            tmp_bytes_written: space.file_bytes_written(),
        };
        Ok((built, orders.sealed))
    }
}

/// Parses into batches.
fn parse(
    sources: Vec<Source>,
    options: &LoadOptions,
    memory: Memory,
    space: &Arc<RunSpace>,
    progress: &LoadProgress,
) -> Result<(ParseReport, Vec<Batch>), LoadError> {
    let threads = options.threads();
    let files = Arc::new(BatchFiles::new(space));
    let interner = |_| Interner::new(memory.batches / threads, &files);
    let mut interners: Vec<Interner> = (0..threads).map(interner).collect();
    progress.begin("parse", source_bytes(&sources));
    let parsed = parse_sources(
        sources,
        &parse_options(options),
        &mut interners,
        &progress.parse,
    )
    .map_err(own_error)?;
    let batches = interners.into_iter().flat_map(Interner::into_batches);
    Ok((parsed, batches.collect()))
}

/// Returns the parser's options.
pub(super) fn parse_options(options: &LoadOptions) -> ParseOptions {
    let mut parse = ParseOptions::default()
        .with_lenient(options.lenient)
        .with_threads(options.threads());
    // Batches end where chunks do.
    parse.chunk_bytes = (options.memory_bytes / 64).clamp(CHUNK_BYTES_MIN, parse.chunk_bytes);
    parse
}

/// Returns the bytes of all sources, or 0 if one is a stream.
pub(super) fn source_bytes(sources: &[Source]) -> u64 {
    let sizes: Option<Vec<u64>> = sources.iter().map(Source::size_bytes).collect();
    sizes.map_or(0, |sizes| sizes.iter().sum())
}

/// Returns the loader's own error, if that stopped the parser.
fn own_error(error: ParseError) -> LoadError {
    match error {
        ParseError::Sink(error) => match error.downcast::<LoadError>() {
            Ok(error) => error,
            Err(error) => LoadError::Parse(ParseError::Sink(error)),
        },
        error => LoadError::Parse(error),
    }
}
