//! Worker thread: takes tasks from the queue and passes their terms and quads to its sink.

use crossbeam_channel::Receiver;
use oxrdf::{GraphNameRef, QuadRef, TermRef};

use super::chunks;
use super::handles::Handles;
use super::lines::LineParser;
use super::shared::{Cause, Content, Failure, InputPosition, Shared, Task};
use super::sink::QuadSink;
use crate::error::{SinkError, TermError};
use crate::key::{Encoded, TermKey, encode_scoped};

/// Works until the queue is closed. After a failure, later tasks are only removed from the queue.
pub(crate) fn run<S: QuadSink>(receiver: &Receiver<Task>, sink: &mut S, shared: &Shared<'_>) {
    let mut lines = LineParser::new();
    let mut handles = Handles::default();
    for task in receiver {
        let (source, sequence) = (task.source, task.sequence);
        if shared.is_void(source, sequence) {
            continue;
        }
        let outcome = match task.content {
            Content::Lines(chunk) => {
                let outcome = lines.parse(&chunk, source, sequence, sink, shared);
                shared.return_buffer(chunk);
                outcome
            }
            Content::Chunk(chunk) => {
                chunks::parse(*chunk, source, sequence, &mut handles, sink, shared)
            }
            Content::Quads(quads) => take_quads(&quads, source, sequence, sink, shared),
        };
        let outcome = outcome.and_then(|()| {
            sink.end_batch()
                .map_err(|error| sink_failure(source, sequence, error))
        });
        if let Err(failure) = outcome {
            shared.fail(failure);
        }
    }
    if !shared.is_stopped()
        && let Err(error) = sink.end_input()
    {
        shared.fail(sink_failure(0, 0, error));
    }
}

fn sink_failure(source: usize, sequence: usize, error: SinkError) -> Failure {
    Failure {
        place: InputPosition::of_task(source, sequence),
        cause: Cause::Sink(error),
    }
}

fn take_quads<S: QuadSink>(
    quads: &[oxrdf::Quad],
    source: usize,
    sequence: usize,
    sink: &mut S,
    shared: &Shared<'_>,
) -> Result<(), Failure> {
    let mut encoder = Encoder::default();
    let scope = &shared.infos[source].blank_node_prefix;
    for quad in quads {
        encoder
            .quad(quad.as_ref(), scope, sink)
            .map_err(|error| sink_failure(source, sequence, error))?;
    }
    shared.done(source, sequence, quads.len() as u64, 0, 0);
    Ok(())
}

/// Passes quads whose terms a parser has checked to a sink.
#[derive(Default)]
pub(crate) struct Encoder {
    scratch: Vec<u8>,
}

impl Encoder {
    pub(crate) fn quad<S: QuadSink>(
        &mut self,
        quad: QuadRef<'_>,
        scope: &str,
        sink: &mut S,
    ) -> Result<(), SinkError> {
        let subject = self.term(quad.subject.into(), scope, sink)?;
        let predicate = self.term(quad.predicate.into(), scope, sink)?;
        let object = self.term(quad.object, scope, sink)?;
        let graph = match quad.graph_name {
            GraphNameRef::DefaultGraph => sink.default_graph(),
            GraphNameRef::NamedNode(node) => self.term(node.into(), scope, sink)?,
            GraphNameRef::BlankNode(node) => self.term(node.into(), scope, sink)?,
        };
        sink.quad(subject, predicate, object, graph)
    }

    pub(crate) fn term<S: QuadSink>(
        &mut self,
        term: TermRef<'_>,
        scope: &str,
        sink: &mut S,
    ) -> Result<S::Term, SinkError> {
        match encode_scoped(term, scope, &mut self.scratch) {
            Encoded::Inline(id) => Ok(sink.inline(id)),
            Encoded::Key(kind) => {
                let key = TermKey {
                    kind,
                    bytes: &self.scratch,
                };
                sink.key(key, || Ok(())).map_err(|error| match error {
                    TermError::Sink(error) => error,
                    TermError::Invalid(message) => SinkError::new(message),
                })
            }
        }
    }
}
