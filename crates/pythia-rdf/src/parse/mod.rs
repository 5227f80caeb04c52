//! Parallel parsing of whole files into sinks.
//!
//! Reader threads turn sources into tasks. For N-Triples and N-Quads, a task is a chunk of whole lines, for Turtle and
//! TriG of whole statements. For the formats that only a sequential parser can read, it is a batch of quads. A bounded
//! queue keeps the readers from getting too far ahead. Worker threads, one per sink, take the tasks and pass terms and
//! quads to their sink.
//!
//! ```text
//! source ─ read, decompress ─┬─ cut at line ends ───────── chunk ──┐  bounded   ┌─ worker ─ lines ───┐
//!                            ├─ cut between statements ─── chunk ──┤   queue    ├─ worker ─ chunks ──┤
//!                            └─ RDF/XML, JSON-LD, … ────── quads ──┘            └─ worker ─ encode ──┴→ sink
//! ```
//!
//! Invariants:
//!
//! - Memory use is limited by the queue, whatever the input is.
//! - The reported error is the first error of its source.
//! - A strict parse succeeds only if oxttl's rules accept every byte of every source.

mod chunks;
mod document;
mod editor;
mod handles;
mod json;
mod lines;
mod plain_turtle;
mod quads;
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
pub use quads::parse_quads;
use shared::{Shared, Task};
pub use sink::{CountingSink, QuadSink};

/// Options for parsing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ParseOptions {
    /// True to skip and count invalid statements. If false, parsing fails at the first one.
    pub lenient: bool,
    /// Number of sources that are read and decompressed at the same time. The number of workers is the number of
    /// sinks.
    pub threads: usize,
    /// Size of the chunks that line-based formats, Turtle and TriG are cut into.
    pub chunk_bytes: usize,
    /// Maximum length of a line of the line-based formats. A longer line is an error.
    pub line_bytes_max: usize,
    /// Maximum number of bytes that the parsers of RDF/XML and JSON-LD may hold before they return a statement.
    /// They use about ten times as much memory. A JSON-LD object is held as a whole unless the format has the
    /// streaming profile.
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
    /// Number of skipped statements that a report describes.
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

/// Counters that grow while sources are parsed, for a progress display on another thread.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read from the sources, before decompression.
    pub bytes_read: AtomicU64,
    /// Bytes of text parsed.
    pub text_bytes: AtomicU64,
    /// Quads handed to sinks.
    pub quads: AtomicU64,
    /// Statements skipped.
    pub skipped: AtomicU64,
}

/// Result of a parse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseReport {
    /// Quads passed to the sinks. Repeated quads are counted each time.
    pub quads: u64,
    /// Bytes of text, after decompression.
    pub bytes: u64,
    /// Statements skipped because they are invalid. Always 0 in strict mode.
    pub skipped: u64,
    /// The first skipped statements, in the order of the sources.
    pub first_skipped: Vec<SyntaxProblem>,
}

/// Stack size of a thread. Parsers of nested formats are recursive, and the allowed nesting is limited so that they fit
/// in this stack.
const STACK_BYTES: usize = 16 << 20;

/// Data about a source that the workers need.
pub(crate) struct SourceInfo {
    pub(crate) name: String,
    pub(crate) format: RdfFormat,
    pub(crate) graph: Option<NamedNode>,
    pub(crate) blank_node_prefix: String,
}

/// Parses all sources with one worker thread per sink.
///
/// Quads reach the sinks in no particular order. Sources with equal scopes share their blank nodes.
///
/// # Errors
/// Returns an error for the first problem of a source (in strict mode), if a source cannot be read, or if a sink
/// fails. The sinks then hold some of the quads.
///
/// # Panics
/// Panics if there is no sink, or if a sink panics.
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
            spawn(scope, move || worker::run(&receiver, sink, shared));
        }
        // Only the workers keep the queue open. If all of them panic, the readers see that it is closed.
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
            spawn(scope, reader);
        }
        drop(sender);
    });
    shared.finish()
}

fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn_scoped(scope, work)
        .expect("the system has a thread left");
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
