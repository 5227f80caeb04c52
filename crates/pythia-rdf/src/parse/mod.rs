//! Parsing of whole files, in parallel, into sinks.
//!
//! Reader threads turn sources into tasks: chunks of whole lines for N-Triples and N-Quads, batches of
//! quads for the formats that only a sequential parser can read. A bounded queue keeps readers from
//! running ahead. Worker threads, one per sink, take tasks and hand terms and quads to their sink.
//!
//! ```text
//! source ─ read, decompress ─┬─ cut at line ends ───── chunk ──┐  bounded   ┌─ worker ─ lines ──┐
//!                            └─ Turtle, RDF/XML, … ─── quads ──┘   queue    └─ worker ─ encode ─┴→ sink
//! ```
//!
//! Invariants: memory is bounded by the queue, whatever the input; the error reported is the first of its
//! source; a strict parse reports no success unless every byte of every source was accepted by oxttl's rules.

mod document;
mod editor;
mod json;
mod lines;
mod reader;
mod shared;
mod sink;
mod tokens;
mod turtle;
mod watch;
mod worker;
mod xml;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use oxrdf::NamedNode;

use crate::error::{ParseError, SyntaxProblem};
use crate::format::{RdfFormat, is_line_based};
use crate::source::Source;
use shared::{Shared, Task};
pub use sink::{CountingSink, QuadSink};

/// How to parse.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParseOptions {
    /// Skip statements that are wrong and count them, instead of failing at the first.
    pub lenient: bool,
    /// How many sources are read and decompressed at the same time. Workers are as many as there are sinks.
    pub threads: usize,
    /// Size of the chunks that line-based formats are cut into.
    pub chunk_bytes: usize,
    /// The longest line (of line-based formats) that is kept in memory; longer ones are an error.
    pub line_bytes_max: usize,
    /// What the parsers of RDF/XML and JSON-LD may hold before they come out with a statement. It takes
    /// ten times that in memory. A JSON-LD object is held as a whole unless the format has the streaming profile.
    pub document_bytes_max: u64,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            lenient: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            chunk_bytes: 2 << 20,
            line_bytes_max: 256 << 20,
            document_bytes_max: 64 << 20,
        }
    }
}

impl ParseOptions {
    /// How many skipped statements a report describes.
    pub const PROBLEMS_KEPT: usize = 10;

    /// Sets [`Self::lenient`].
    #[must_use]
    pub fn with_lenient(mut self, lenient: bool) -> Self {
        self.lenient = lenient;
        self
    }

    /// Sets [`Self::threads`].
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
}

/// Counts that grow while sources are parsed, for a progress display on another thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read from the sources, compressed as they are.
    pub bytes_read: AtomicU64,
    /// Bytes of text parsed.
    pub text_bytes: AtomicU64,
    /// Quads handed to sinks.
    pub quads: AtomicU64,
    /// Statements skipped.
    pub skipped: AtomicU64,
}

/// What was parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseReport {
    /// Quads handed to sinks; repeated quads count each time.
    pub quads: u64,
    /// Bytes of text, decompressed.
    pub bytes: u64,
    /// Statements skipped because they are wrong (only in lenient mode).
    pub skipped: u64,
    /// The first of them, in the order of the sources.
    pub first_skipped: Vec<SyntaxProblem>,
}

/// Parsers of nested formats recurse; what they may nest is bounded to fit in this.
const READER_STACK_BYTES: usize = 16 << 20;

/// What workers need to know of a source.
pub(crate) struct SourceInfo {
    pub(crate) name: String,
    pub(crate) format: RdfFormat,
    pub(crate) graph: Option<NamedNode>,
    pub(crate) blank_node_prefix: String,
}

/// Parses all sources with one worker thread per sink.
///
/// Quads reach the sinks in no particular order. Blank nodes of sources with equal scopes are shared.
///
/// # Errors
/// The first problem of a source (in strict mode), a source that cannot be read, or a sink that fails.
/// The sinks then hold part of the quads.
///
/// # Panics
/// If there is no sink, or a sink panics.
pub fn parse_sources<S: QuadSink + Send>(
    sources: Vec<Source>,
    options: &ParseOptions,
    sinks: &mut [S],
    progress: &Progress,
) -> Result<ParseReport, ParseError> {
    assert!(!sinks.is_empty(), "parsing needs at least one sink");
    let infos: Vec<SourceInfo> = sources
        .iter()
        .map(|source| SourceInfo {
            name: source.name.clone(),
            format: source.format,
            graph: source.graph.clone(),
            blank_node_prefix: source.blank_node_prefix(),
        })
        .collect();
    let shared = Shared::new(&infos, options, progress);
    let readers = options.threads.clamp(1, sources.len().max(1));
    let waiting: Mutex<VecDeque<(usize, Source)>> =
        Mutex::new(sources.into_iter().enumerate().collect());
    let (sender, receiver) = crossbeam_channel::bounded::<Task>(sinks.len() + 1);
    std::thread::scope(|scope| {
        for sink in sinks.iter_mut() {
            let receiver = receiver.clone();
            let shared = &shared;
            scope.spawn(move || worker::run(&receiver, sink, shared));
        }
        // Workers alone keep the queue alive: were they all to panic, readers would see it closed.
        drop(receiver);
        for _ in 0..readers {
            let sender = sender.clone();
            let (shared, waiting) = (&shared, &waiting);
            let reader = move || {
                while !shared.is_stopped() {
                    let next = waiting
                        .lock()
                        .expect("no reader panics holding it")
                        .pop_front();
                    let Some((index, source)) = next else { break };
                    read_source(index, source, shared, &sender);
                }
            };
            std::thread::Builder::new()
                .stack_size(READER_STACK_BYTES)
                .spawn_scoped(scope, reader)
                .expect("the system has a thread left");
        }
        drop(sender);
    });
    shared.finish()
}

fn read_source(
    index: usize,
    source: Source,
    shared: &Shared<'_>,
    sender: &crossbeam_channel::Sender<Task>,
) {
    let outcome = if is_line_based(source.format) {
        reader::cut_into_chunks(index, source, shared, sender)
    } else {
        document::parse(index, source, shared, sender)
    };
    if let Err(failure) = outcome {
        shared.fail(failure);
    }
}
