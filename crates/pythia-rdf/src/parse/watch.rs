//! Readers that watch the text on its way to a parser: its position, and whether it is safe to parse.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memchr::{memchr, memchr_iter, memrchr};
use oxiri::IriRef;

use super::editor::{Columns, Editor, Position};
use crate::base::without_dot_segments;

/// Maximum nesting depth of lists, property lists, graphs and objects.
pub(crate) const BRACKETS_MAX: usize = 4096;

/// Number of bytes read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Watch that inspects a text piece by piece and may refuse it.
pub(crate) trait Watch {
    /// Inspects the next piece, and reports to the editor which parts may change.
    fn pass(&mut self, piece: &[u8], editor: &mut Editor) -> Result<(), Refusal>;
}

/// Refusal of a text that is well-formed so far but would cost too much to parse.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Offset in the piece.
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

pub(crate) fn too_deep(offset: usize, what: &str, limit: usize) -> Refusal {
    Refusal {
        offset,
        message: format!("{what} nest deeper than {limit}"),
    }
}

/// Reader that counts lines and returns the text as edited by the [`Editor`]. It returns an error where a
/// [`Watch`] refuses the text.
pub(crate) struct Watched<R, W> {
    inner: R,
    watch: W,
    editor: Editor,
    position: Arc<Position>,
    piece: Vec<u8>,
    /// Number of bytes of the editor's text that were returned.
    given: usize,
    ended: bool,
}

impl<R, W> Watched<R, W> {
    pub(crate) fn new(inner: R, watch: W, columns: Columns, position: Arc<Position>) -> Self {
        Self {
            inner,
            watch,
            editor: Editor::new(Arc::clone(&position), columns),
            position,
            piece: vec![0; PIECE_BYTES],
            given: 0,
            ended: false,
        }
    }
}

impl<R: Read, W: Watch> Watched<R, W> {
    /// Passes the next piece through the watch. At the end, passes on what is left.
    fn advance(&mut self) -> io::Result<()> {
        self.editor.text.clear();
        self.given = 0;
        let read = self.inner.read(&mut self.piece)?;
        if read == 0 {
            self.editor.end();
            self.ended = true;
            return Ok(());
        }
        let piece = &self.piece[..read];
        let outcome = self.watch.pass(piece, &mut self.editor);
        let seen = outcome
            .as_ref()
            .map_or_else(|refusal| refusal.offset, |()| read);
        let lines = memchr_iter(b'\n', &piece[..seen]).count();
        self.position
            .lines
            .fetch_add(lines as u64, Ordering::Relaxed);
        outcome.map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
        self.editor.end_piece(piece);
        Ok(())
    }
}

impl<R: Read, W: Watch> Watched<R, W> {
    /// Returns the text of the next piece, which may be empty, or `None` at the end.
    pub(crate) fn next_text(&mut self) -> io::Result<Option<&[u8]>> {
        if self.ended {
            return Ok(None);
        }
        self.advance()?;
        self.given = self.editor.text.len();
        Ok(Some(&self.editor.text))
    }

    /// Returns the watch.
    pub(crate) fn watch(&mut self) -> &mut W {
        &mut self.watch
    }
}

impl<R: Read, W: Watch> Read for Watched<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.editor.text.len() && !self.ended {
            self.advance()?;
        }
        let text = &self.editor.text[self.given..];
        let length = text.len().min(buffer.len());
        buffer[..length].copy_from_slice(&text[..length]);
        self.given += length;
        Ok(length)
    }
}

/// Returns a base IRI without the dot segments in its path. Returns `None` if the IRI has no dot segments, or if
/// it is not a valid IRI that `decode` accepts.
pub(crate) fn base_without_dots(
    written: &[u8],
    decode: impl FnOnce(&str) -> Option<Cow<'_, str>>,
) -> Option<String> {
    let iri = decode(std::str::from_utf8(written).ok()?)?;
    let Cow::Owned(plain) = without_dot_segments(&iri) else {
        return None;
    };
    // An IRI that would be refused as written must not be accepted.
    IriRef::parse(&*iri).is_ok().then_some(plain)
}

/// Returns the result of [`base_without_dots`] together with the closing byte. Spaces replace the removed
/// characters, so that no position changes.
pub(crate) fn replacement_of_base(
    written: &[u8],
    closing: u8,
    decode: impl FnOnce(&str) -> Option<Cow<'_, str>>,
) -> Option<Vec<u8>> {
    let plain = base_without_dots(written, decode)?;
    let is_character = |byte: &&u8| **byte as i8 >= -0x40;
    let left_out = written.iter().filter(is_character).count() - plain.chars().count();
    let mut text = plain.into_bytes();
    text.push(closing);
    text.resize(text.len() + left_out, b' ');
    Some(text)
}

/// Reader that counts the bytes read. With `is_bounded`, it also limits how many bytes a parser holds, for parsers
/// that do not limit this themselves.
pub(crate) struct Counted<R> {
    inner: R,
    position: Arc<Position>,
    is_bounded: bool,
}

impl<R> Counted<R> {
    pub(crate) fn new(inner: R, position: Arc<Position>, is_bounded: bool) -> Self {
        Self {
            inner,
            position,
            is_bounded,
        }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position
            .bytes
            .fetch_add(read as u64, Ordering::Relaxed);
        if self.is_bounded {
            self.position
                .add_pending(read as u64)
                .map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
        }
        Ok(read)
    }
}

/// Reader that returns at most one line at a time, but consecutive blank lines at once. The number of lines then
/// shows the position of a parser that does not report it.
pub(crate) struct LineByLine<R> {
    inner: BufReader<R>,
}

impl<R: Read> LineByLine<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(64 << 10, inner),
        }
    }
}

impl<R: Read> Read for LineByLine<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.inner.fill_buf()?;
        let available = &available[..available.len().min(buffer.len())];
        let blank = available
            .iter()
            .position(|byte| !byte.is_ascii_whitespace());
        let blank = &available[..blank.unwrap_or(available.len())];
        let end = memrchr(b'\n', blank).or_else(|| memchr(b'\n', available));
        let read = end.map_or(available.len(), |at| at + 1);
        buffer[..read].copy_from_slice(&available[..read]);
        self.inner.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
