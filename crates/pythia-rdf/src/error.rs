//! Errors in terms and RDF files, with their place.

use std::fmt;
use std::io;

/// A failure of the receiver of the quads (a full disk, a spent memory budget). It ends the parse.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SinkError(pub Box<dyn std::error::Error + Send + Sync>);

impl SinkError {
    /// Wraps the receiver's own error, which [`Self::downcast`] returns.
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// Returns the receiver's own error, if it is an `E`.
    ///
    /// # Errors
    /// `self`, if it holds another type.
    pub fn downcast<E: std::error::Error + 'static>(self) -> Result<E, Self> {
        match self.0.downcast::<E>() {
            Ok(error) => Ok(*error),
            Err(other) => Err(Self(other)),
        }
    }
}

/// Reason why a sink did not take a term.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TermError {
    /// The term is not a valid RDF term, as `validate` found.
    #[error("{0}")]
    Invalid(String),
    /// The sink itself failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// A dictionary key that [`crate::key::encode`] cannot have written: corrupt data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The kind is not one of the dictionary's.
    #[error("{0:?} is not a kind of dictionary key")]
    Kind(crate::TermKind),
    /// The bytes are not UTF-8.
    #[error("key of kind {kind:?} is not UTF-8 at byte {offset}")]
    Utf8 {
        /// The key's kind.
        kind: crate::TermKind,
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// The bytes do not have the kind's structure.
    #[error("key of kind {kind:?}: {problem} at byte {offset}")]
    Structure {
        /// The key's kind.
        kind: crate::TermKind,
        /// The problem.
        problem: &'static str,
        /// Its offset.
        offset: usize,
    },
}

/// A statement that is not RDF, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxProblem {
    /// The source's name.
    pub source: String,
    /// Line, from 1; 0 if unknown.
    pub line: u64,
    /// Column in characters, from 1; 0 if unknown (RDF/XML).
    pub column: u64,
    /// The error.
    pub message: String,
}

impl fmt::Display for SyntaxProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// Reason why sources could not be parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A statement is not RDF.
    #[error("{0}")]
    Syntax(SyntaxProblem),
    /// A source could not be read, or its compression is broken.
    #[error("{source_name}: {error}{}", place(*.read, *.text))]
    Io {
        /// The source's name.
        source_name: String,
        /// Bytes read from the source before the failure, before decompression.
        read: u64,
        /// Bytes of text obtained from them.
        text: u64,
        /// The failure.
        #[source]
        error: io::Error,
    },
    /// A line or token is longer than the parser keeps in memory.
    #[error(
        "{source_name}:{line}: a line longer than {limit} bytes, from byte {offset} of the text"
    )]
    LineTooLong {
        /// The source's name.
        source_name: String,
        /// The line, from 1.
        line: u64,
        /// Offset of the line's start, in bytes of text.
        offset: u64,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The format of a source is unknown.
    #[error("{source_name}: {message}")]
    Format {
        /// The source's name.
        source_name: String,
        /// The missing information, and how to give it.
        message: String,
    },
    /// The base IRI given for a source is not an IRI.
    #[error("{source_name}: base IRI <{base}>: {message}")]
    Base {
        /// The source's name.
        source_name: String,
        /// The given base.
        base: String,
        /// The error.
        message: String,
    },
    /// The receiver of the quads failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Returns where reading failed; nothing if it failed at the start.
fn place(read: u64, text: u64) -> String {
    match (read, text) {
        (0, _) => String::new(),
        (read, text) if read == text => format!(" (after {read} bytes)"),
        (read, text) => format!(" (after {read} bytes, {text} of text)"),
    }
}

/// Limit on the length of a parser's message, which may quote the text at length, in bytes.
const MESSAGE_BYTES_MAX: usize = 400;

/// Cuts a message that quotes too much.
pub(crate) fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        message.truncate(end);
        message.push('…');
    }
    message
}
