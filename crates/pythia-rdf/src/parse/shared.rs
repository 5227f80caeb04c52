//! State shared by the threads of one parse: the problems found, and the signal to stop.
//!
//! The position of a problem is its source, its task and its line within the task. The tasks of a source are
//! numbered and queued in file order. After a failure, the tasks before it are still parsed. So the reported
//! failure is the first of its source, and its line number is computed from the line counts of the tasks before
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use oxrdf::Quad;

use super::chunks::Chunk;
use super::{ParseOptions, ParseReport, Progress, SourceInfo};
use crate::error::{ParseError, SinkError, SyntaxProblem};

/// Part of a source for a worker.
pub(crate) struct Task {
    pub(crate) source: usize,
    /// Number of the task within its source.
    pub(crate) sequence: usize,
    pub(crate) content: Content,
}

pub(crate) enum Content {
    /// Whole lines.
    Lines(Vec<u8>),
    /// Statements of Turtle or TriG.
    Chunk(Box<Chunk>),
    /// Statements parsed by the reader.
    Quads(Vec<Quad>),
}

/// Position in the input. Places are ordered by file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputPosition {
    pub(crate) source: usize,
    pub(crate) sequence: usize,
    /// Line from 0, within the task for line-based formats, otherwise within the source.
    pub(crate) line: u64,
    /// Column from 1, or 0 if unknown.
    pub(crate) column: u64,
}

impl InputPosition {
    /// Returns the beginning of a task.
    pub(crate) fn of_task(source: usize, sequence: usize) -> Self {
        Self {
            source,
            sequence,
            line: 0,
            column: 0,
        }
    }
}

/// Failure that ends a parse.
pub(crate) struct Failure {
    pub(crate) place: InputPosition,
    pub(crate) cause: Cause,
}

pub(crate) enum Cause {
    Syntax(String),
    Sink(SinkError),
    /// Complete error, except for the line of `LineTooLong`.
    Other(ParseError),
}

#[derive(Default)]
struct Ledger {
    failure: Option<Failure>,
    /// The first problems in file order.
    problems: Vec<(InputPosition, String)>,
    skipped: u64,
    quads: u64,
    bytes: u64,
    /// Number of lines of each finished task, per source.
    lines: Vec<Vec<u64>>,
}

pub(crate) struct Shared<'a> {
    pub(crate) infos: &'a [SourceInfo],
    pub(crate) options: &'a ParseOptions,
    pub(crate) progress: &'a Progress,
    stopped: AtomicBool,
    ledger: Mutex<Ledger>,
    /// Buffers that the workers have finished with, for readers to use again.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl<'a> Shared<'a> {
    pub(crate) fn new(
        infos: &'a [SourceInfo],
        options: &'a ParseOptions,
        progress: &'a Progress,
    ) -> Self {
        Self {
            infos,
            options,
            progress,
            stopped: AtomicBool::new(false),
            ledger: Mutex::new(Ledger {
                lines: infos.iter().map(|_| Vec::new()).collect(),
                ..Ledger::default()
            }),
            buffers: Mutex::new(Vec::new()),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .expect("nothing panics holding the ledger")
    }

    /// Returns whether a failure makes further reading pointless.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns whether a task comes after a failure and need not be done.
    pub(crate) fn is_void(&self, source: usize, sequence: usize) -> bool {
        self.is_stopped()
            && self.ledger().failure.as_ref().is_some_and(|failure| {
                matches!(failure.cause, Cause::Sink(_))
                    || (failure.place.source, failure.place.sequence) < (source, sequence)
            })
    }

    /// Keeps the failure if it is the first in file order. A sink's failure has priority over all others.
    pub(crate) fn fail(&self, failure: Failure) {
        let mut ledger = self.ledger();
        let earlier = match &ledger.failure {
            None => true,
            Some(known) => {
                let rank = |f: &Failure| (!matches!(f.cause, Cause::Sink(_)), f.place);
                rank(&failure) < rank(known)
            }
        };
        if earlier {
            ledger.failure = Some(failure);
        }
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Counts a skipped statement. In strict mode, returns the failure instead.
    pub(crate) fn problem(&self, place: InputPosition, message: String) -> Result<(), Failure> {
        if !self.options.lenient {
            return Err(Failure {
                place,
                cause: Cause::Syntax(message),
            });
        }
        self.progress.skipped.fetch_add(1, Ordering::Relaxed);
        let mut ledger = self.ledger();
        ledger.skipped += 1;
        let at = ledger
            .problems
            .partition_point(|(known, _)| *known <= place);
        if at < ParseOptions::PROBLEMS_KEPT {
            ledger.problems.insert(at, (place, message));
            ledger.problems.truncate(ParseOptions::PROBLEMS_KEPT);
        }
        Ok(())
    }

    /// Records a task as done.
    pub(crate) fn done(&self, source: usize, sequence: usize, quads: u64, bytes: u64, lines: u64) {
        self.progress.quads.fetch_add(quads, Ordering::Relaxed);
        self.progress.text_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut ledger = self.ledger();
        ledger.quads += quads;
        ledger.bytes += bytes;
        let known = &mut ledger.lines[source];
        if known.len() <= sequence {
            known.resize(sequence + 1, 0);
        }
        known[sequence] = lines;
    }

    /// Counts text that belongs to no task.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.progress.text_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ledger().bytes += bytes;
    }

    /// Returns an empty buffer, a used one if possible.
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        let mut buffers = self
            .buffers
            .lock()
            .expect("nothing panics holding the buffers");
        buffers.pop().unwrap_or_default()
    }

    /// Returns a buffer for reuse. The buffers of very long lines are dropped.
    pub(crate) fn return_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= 4 * self.options.chunk_bytes {
            buffer.clear();
            self.buffers
                .lock()
                .expect("nothing panics holding the buffers")
                .push(buffer);
        }
    }

    /// Returns the report, or the failure with its line number.
    pub(crate) fn finish(self) -> Result<ParseReport, ParseError> {
        let Ledger {
            failure,
            problems,
            skipped,
            quads,
            bytes,
            lines,
        } = self
            .ledger
            .into_inner()
            .expect("nothing panics holding the ledger");
        let line_of = |place: InputPosition| {
            let before = lines[place.source].iter().take(place.sequence);
            before.sum::<u64>() + place.line + 1
        };
        let problem = |place: InputPosition, message: String| SyntaxProblem {
            source: self.infos[place.source].name.clone(),
            line: line_of(place),
            column: place.column,
            message,
        };
        if let Some(Failure { place, cause }) = failure {
            return Err(match cause {
                Cause::Syntax(message) => ParseError::Syntax(problem(place, message)),
                Cause::Sink(error) => ParseError::Sink(error),
                Cause::Other(ParseError::LineTooLong {
                    source_name,
                    offset,
                    limit,
                    ..
                }) => ParseError::LineTooLong {
                    source_name,
                    line: line_of(place),
                    offset,
                    limit,
                },
                Cause::Other(error) => error,
            });
        }
        Ok(ParseReport {
            quads,
            bytes,
            skipped,
            first_skipped: problems
                .into_iter()
                .map(|(place, message)| problem(place, message))
                .collect(),
        })
    }
}
