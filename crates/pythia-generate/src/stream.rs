//! Writers and readers over a generator of pieces.

use crate::GenerateError;
use std::io::{self, BufRead, Read, Write};

/// Totals of the generated output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Triples, one line each.
    pub triples: u64,
    /// Bytes of N-Triples.
    pub bytes: u64,
}

/// A generator of a data set piece by piece.
pub(crate) trait Pieces {
    /// Appends the next piece (a few kilobytes: one or several entities) to the buffer and returns its number of triples,
    /// or `None` at the end.
    fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64>;
}

/// Bytes gathered before they are passed on: fewer cost calls, more leave the cache.
const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) fn write_pieces(
    pieces: &mut impl Pieces,
    out: &mut impl Write,
) -> Result<Summary, GenerateError> {
    let mut summary = Summary::default();
    let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
    loop {
        let more = fill(pieces, &mut buffer, &mut summary);
        out.write_all(&buffer)?;
        buffer.clear();
        if !more {
            return Ok(summary);
        }
    }
}

/// Fills the buffer. Returns false at the end of the pieces.
fn fill(pieces: &mut impl Pieces, buffer: &mut Vec<u8>, summary: &mut Summary) -> bool {
    let start = buffer.len();
    let mut more = true;
    while more && buffer.len() < BUFFER_BYTES {
        match pieces.next_piece(buffer) {
            Some(triples) => summary.triples += triples,
            None => more = false,
        }
    }
    summary.bytes += (buffer.len() - start) as u64;
    more
}

/// A reader of generated N-Triples, to feed a loader without a file.
#[derive(Debug)]
pub struct TripleReader<G> {
    pieces: G,
    buffer: Vec<u8>,
    position: usize,
    ended: bool,
    summary: Summary,
}

impl<G> TripleReader<G> {
    pub(crate) fn over(pieces: G) -> Self {
        Self {
            pieces,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            position: 0,
            ended: false,
            summary: Summary::default(),
        }
    }

    /// Returns the totals so far; after the reader's end, those of the whole part.
    pub fn summary(&self) -> Summary {
        self.summary
    }
}

impl<G: Pieces> BufRead for TripleReader<G> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.position == self.buffer.len() && !self.ended {
            self.buffer.clear();
            self.position = 0;
            self.ended = !fill(&mut self.pieces, &mut self.buffer, &mut self.summary);
        }
        Ok(&self.buffer[self.position..])
    }

    fn consume(&mut self, amount: usize) {
        self.position = (self.position + amount).min(self.buffer.len());
    }
}

impl<G: Pieces> Read for TripleReader<G> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(target.len());
        target[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(u32);

    impl Pieces for Numbers {
        fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64> {
            self.0 = self.0.checked_sub(1)?;
            out.extend_from_slice(format!("line {}\n", self.0).as_bytes());
            Some(1)
        }
    }

    #[test]
    fn reader_and_writer_give_the_same_bytes() {
        let mut written = Vec::new();
        let summary = write_pieces(&mut Numbers(100_000), &mut written).expect("memory");
        assert_eq!(summary.triples, 100_000);
        assert_eq!(summary.bytes, written.len() as u64);

        let mut reader = TripleReader::over(Numbers(100_000));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("memory");
        assert!(read == written);
        assert_eq!(reader.summary(), summary);
        assert_eq!(reader.read(&mut [0; 8]).expect("memory"), 0);
    }

    #[test]
    fn a_failing_writer_is_reported() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let result = write_pieces(&mut Numbers(10), &mut Full);
        assert!(matches!(result, Err(GenerateError::Write(_))));
    }
}
