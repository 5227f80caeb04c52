//! Readers that watch the text on its way to a parser: where it is, and whether it is safe to parse.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memchr::{memchr, memchr_iter, memrchr};
use oxiri::IriRef;

use super::editor::{Columns, Editor, Position};
use crate::base::without_dot_segments;

/// How deep lists, property lists, graphs and objects may nest.
pub(crate) const BRACKETS_MAX: usize = 4096;

/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Looks at a text piece by piece and may refuse it.
pub(crate) trait Watch {
    /// Goes over the next piece, and tells the editor what does not have to stay as it is.
    fn pass(&mut self, piece: &[u8], editor: &mut Editor) -> Result<(), Refusal>;
}

/// A text is well-formed so far, but would cost too much to parse.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Where in the piece.
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

/// A reader that counts lines, ends with an error where a [`Watch`] refuses its text, and gives what the
/// [`Editor`] leaves of it.
pub(crate) struct Watched<R, W> {
    inner: R,
    watch: W,
    editor: Editor,
    position: Arc<Position>,
    piece: Vec<u8>,
    /// How much of the editor's text was given.
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
    /// Puts the next piece, or what is left at the end, through the watch.
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

/// A base IRI without the dot segments in its path. `None` if it has none as it is written, or is no
/// IRI that `decode` takes.
pub(crate) fn base_without_dots(
    written: &[u8],
    decode: impl FnOnce(&str) -> Option<Cow<'_, str>>,
) -> Option<String> {
    let iri = decode(std::str::from_utf8(written).ok()?)?;
    let Cow::Owned(plain) = without_dot_segments(&iri) else {
        return None;
    };
    // Nothing that is refused as it is written may be accepted.
    IriRef::parse(&*iri).is_ok().then_some(plain)
}

/// A base IRI, as [`base_without_dots`], with the byte that closes it. Spaces stand for what is left
/// out, so that no place changes.
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

/// Counts what is read, and bounds how much of it a parser holds if the parser's own limits do not.
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

/// Hands out at most a line at a time, but blank lines at once, so that the number of
/// lines tells where a parser is that does not say.
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
