//! Reads a line-based source and cuts it into chunks of whole lines.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Sender;
use memchr::memrchr;

use super::shared::{Cause, Content, Failure, InputPosition, Shared, Task};
use crate::error::ParseError;
use crate::source::Source;

/// Adds the bytes that a source has read since the last call to the progress.
pub(crate) struct ReadProgress {
    source: Arc<AtomicU64>,
    seen: u64,
}

impl ReadProgress {
    pub(crate) fn new(source: &Source) -> Self {
        Self {
            source: Arc::clone(source.bytes_read()),
            seen: 0,
        }
    }

    pub(crate) fn advance(&mut self, shared: &Shared<'_>) -> u64 {
        let now = self.source.load(Ordering::Relaxed);
        let total = &shared.progress.bytes_read;
        total.fetch_add(now - self.seen, Ordering::Relaxed);
        self.seen = now;
        now
    }
}

/// Sends the lines of `source` as tasks, until the source ends or the parse is stopped.
pub(crate) fn cut_into_chunks(
    index: usize,
    mut source: Source,
    shared: &Shared<'_>,
    sender: &Sender<Task>,
) -> Result<(), Failure> {
    let mut progress = ReadProgress::new(&source);
    let mut sequence = 0;
    let mut text = 0; // bytes sent so far
    let mut buffer = shared.take_buffer();
    let mut wanted = shared.options.chunk_bytes.max(1);
    loop {
        let ended = fill(&mut source.reader, &mut buffer, wanted);
        let read = progress.advance(shared);
        let place = InputPosition::of_task(index, sequence);
        let ended = ended.map_err(|error| {
            let error = ParseError::Io {
                source_name: source.name.clone(),
                read,
                text: text + buffer.len() as u64,
                error,
            };
            failure(place, error)
        })?;
        if shared.is_stopped() {
            return Ok(());
        }
        let all = ended.then_some(buffer.len());
        let Some(cut) = all.or_else(|| last_line_end(&buffer)) else {
            let limit = shared.options.line_bytes_max;
            if buffer.len() >= limit {
                let error = ParseError::LineTooLong {
                    source_name: source.name.clone(),
                    line: 0,
                    offset: text,
                    limit,
                };
                return Err(failure(place, error));
            }
            wanted = (buffer.len() * 2).min(limit);
            continue;
        };
        wanted = shared.options.chunk_bytes.max(1);
        let mut next = shared.take_buffer();
        next.extend_from_slice(&buffer[cut..]);
        buffer.truncate(cut);
        text += cut as u64;
        if cut > 0 {
            let task = Task {
                source: index,
                sequence,
                content: Content::Lines(buffer),
            };
            if sender.send(task).is_err() {
                return Ok(()); // all workers are gone, and a worker's panic gives the reason
            }
            sequence += 1;
        }
        if ended {
            return Ok(());
        }
        buffer = next;
        // A remainder as long as a chunk would otherwise never grow.
        wanted = wanted.max(buffer.len() + wanted / 2);
    }
}

fn failure(place: InputPosition, error: ParseError) -> Failure {
    Failure {
        place,
        cause: Cause::Other(error),
    }
}

/// Fills the buffer up to `wanted` bytes. Returns whether the source has ended.
fn fill(reader: &mut dyn Read, buffer: &mut Vec<u8>, wanted: usize) -> io::Result<bool> {
    let missing = wanted.saturating_sub(buffer.len());
    buffer.reserve_exact(missing);
    let read = reader.take(missing as u64).read_to_end(buffer)?;
    Ok(read < missing)
}

/// Returns the position directly after the last line end. A carriage return at the end may be half of a line end,
/// so it does not count.
fn last_line_end(buffer: &[u8]) -> Option<usize> {
    if let Some(at) = memrchr(b'\n', buffer) {
        return Some(at + 1);
    }
    let before_last = &buffer[..buffer.len().saturating_sub(1)];
    memrchr(b'\r', before_last).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_newlines_or_else_at_carriage_returns() {
        assert_eq!(last_line_end(b"a\nb\nc"), Some(4));
        assert_eq!(last_line_end(b"a\rb\rc"), Some(4));
        assert_eq!(last_line_end(b"a\rb\r"), Some(2));
        assert_eq!(last_line_end(b"abc"), None);
        assert_eq!(last_line_end(b""), None);
    }
}
