//! The phases of a load in order, from sources to sorted terms and rows, and how memory is divided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pythia_rdf::{ParseError, ParseOptions, ParseReport, Source, parse_sources};

use super::batch::Batch;
use super::error::joined;
use super::interner::{Interner, InternerPlan};
use super::numbering::{TermSink, number_terms};
use super::orders::{NumberedBatch, Orders, OrdersPlan, PerOrder, RowSink, write_orders};
use super::progress::LoadProgress;
use super::temp::TempSpace;
use super::{LoadError, LoadOptions};

/// Memory of each thread that is not counted where it is used: chunks of text, buffers, stacks.
const THREAD_BYTES: usize = 12 << 20;
/// The same, for the load as a whole: writers, page buffers, the program itself.
const PROCESS_BYTES: usize = 40 << 20;
/// Bytes read at a time from a spilled vocabulary, at most and at least.
const READ_BYTES: std::ops::RangeInclusive<usize> = 1 << 14..=1 << 20;
/// The least text handed to a parse thread at a time.
const CHUNK_BYTES_MIN: usize = 16 << 10;

/// What came out of the phases.
#[derive(Debug)]
pub(super) struct Built<T> {
    pub(super) parsed: ParseReport,
    pub(super) orders: Orders<T>,
    /// Distinct terms, inline values included.
    pub(super) terms: u64,
    /// Batches that were sealed while parsing.
    pub(super) batches: usize,
}

/// The memory that data may take.
fn data_bytes(options: &LoadOptions) -> usize {
    let fixed = PROCESS_BYTES + THREAD_BYTES * options.threads();
    // A budget too small for the fixed part is kept as well as can be.
    options
        .memory_bytes
        .saturating_sub(fixed)
        .max(options.memory_bytes / 4)
}

/// Parses the sources and hands all distinct terms and quads, sorted, to the sinks.
pub(super) fn run<S: RowSink>(
    sources: Vec<Source>,
    options: &LoadOptions,
    space: &Arc<TempSpace>,
    progress: &Arc<LoadProgress>,
    mut terms: impl TermSink,
    orders: PerOrder<S>,
) -> Result<Built<S::Sealed>, LoadError> {
    let (parsed, batches, spilled) = parse(sources, options, space, progress)?;
    let batch_count = batches.len();
    let memory_bytes = data_bytes(options);
    progress.begin("number terms", batches.iter().map(|batch| u64::from(batch.vocabulary.len())).sum());
    let buffer_bytes = (memory_bytes / 2 / batch_count.max(1)).clamp(*READ_BYTES.start(), *READ_BYTES.end());
    let (numbers, batch_numbers) =
        number_terms(&batches, &mut terms, buffer_bytes, spilled.then_some(space))?;
    terms.finish()?;
    let term_count = u64::from(numbers.count()).saturating_sub(1);
    // What sorting cannot have: rows in memory until they are packed, and the numbers of ranks.
    let largest = batches.iter().map(|batch| batch.vocabulary.len() as usize).max().unwrap_or(0);
    let mut taken = numbers.bytes() + 4 * largest * options.threads();
    let mut numbered = Vec::with_capacity(batch_count);
    for (batch, numbers) in batches.into_iter().zip(batch_numbers) {
        taken += batch.rows.bytes();
        numbered.push(NumberedBatch {
            rows: batch.rows,
            row_count: batch.row_count,
            numbers,
        });
    }
    let plan = OrdersPlan {
        memory_bytes: memory_bytes.saturating_sub(taken).max(memory_bytes / 4),
        threads: options.threads(),
        space: Arc::clone(space),
        progress: Arc::clone(progress),
    };
    let orders = write_orders(numbered, numbers, orders, &plan)?;
    Ok(Built {
        parsed,
        orders,
        terms: term_count,
        batches: batch_count,
    })
}

/// Parses into batches; whether they were spilled.
fn parse(
    sources: Vec<Source>,
    options: &LoadOptions,
    space: &Arc<TempSpace>,
    progress: &LoadProgress,
) -> Result<(ParseReport, Vec<Batch>, bool), LoadError> {
    let threads = options.threads();
    let plan = Arc::new(InternerPlan {
        share_bytes: data_bytes(options) / threads,
        space: Arc::clone(space),
        spilled: AtomicBool::new(false),
    });
    let mut interners: Vec<Interner> = (0..threads).map(|_| Interner::new(&plan)).collect();
    progress.begin("parse", source_bytes(&sources));
    let parsed = parse_sources(sources, &parse_options(options), &mut interners, &progress.parse)
        .map_err(own_error)?;
    progress.begin("sort terms", 0);
    // All batches are in memory or none is.
    let keep = !plan.spilled.load(Ordering::Relaxed);
    let mut batches = Vec::new();
    std::thread::scope(|scope| {
        let handles: Vec<_> = interners
            .into_iter()
            .map(|interner| scope.spawn(move || interner.finish(keep)))
            .collect();
        for handle in handles {
            batches.extend(joined(handle.join(), "sorting terms")?);
        }
        Ok::<(), LoadError>(())
    })?;
    Ok((parsed, batches, !keep))
}

/// The parser's options.
pub(super) fn parse_options(options: &LoadOptions) -> ParseOptions {
    let mut parse = ParseOptions::default()
        .with_lenient(options.lenient)
        .with_threads(options.threads());
    // Batches end where chunks do.
    parse.chunk_bytes = (options.memory_bytes / 64).clamp(CHUNK_BYTES_MIN, parse.chunk_bytes);
    parse
}

/// Bytes of all sources, or 0 if one is a stream.
pub(super) fn source_bytes(sources: &[Source]) -> u64 {
    let sizes: Option<Vec<u64>> = sources.iter().map(Source::size_bytes).collect();
    sizes.map_or(0, |sizes| sizes.iter().sum())
}

/// The loader's own error, if the parser was stopped by one.
fn own_error(error: ParseError) -> LoadError {
    match error {
        ParseError::Sink(error) => match error.downcast::<LoadError>() {
            Ok(error) => error,
            Err(error) => LoadError::Parse(ParseError::Sink(error)),
        },
        error => LoadError::Parse(error),
    }
}
