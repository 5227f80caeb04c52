//! Destinations of parsed quads: the trait that the loader's interner implements, and a sink that only checks and
//! counts.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::error::{SinkError, TermError};
use crate::id::{TermId, TermKind};
use crate::key::TermKey;

/// Receives the terms and quads of one worker thread.
///
/// A term is passed first, and the sink returns a handle for it. A quad consists of four handles. Handles must
/// stay valid until the next [`Self::end_batch`], because the parser remembers the handles of repeated terms. If a
/// statement is left to another parser half-way, some of its terms are passed again; if it is invalid, without a quad that
/// uses them.
pub trait QuadSink {
    /// Handle for a term.
    type Term: Copy;

    /// Takes a dictionary term.
    ///
    /// # Errors
    /// [`TermError::Invalid`] comes from `validate`, which must be called before a new key is accepted, because
    /// nothing else has checked the term's text. [`TermError::Sink`] means that the sink failed.
    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<Self::Term, TermError>;

    /// Takes a term that is stored in its id.
    fn inline(&mut self, id: TermId) -> Self::Term;

    /// Returns the handle for the default graph.
    fn default_graph(&mut self) -> Self::Term;

    /// Takes a quad of handles.
    ///
    /// # Errors
    /// Returns an error if the sink fails. This ends the parse.
    fn quad(
        &mut self,
        subject: Self::Term,
        predicate: Self::Term,
        object: Self::Term,
        graph: Self::Term,
    ) -> Result<(), SinkError>;

    /// Ends a batch, which is a chunk of lines of a few MB or some thousand quads. No earlier handle is used
    /// again.
    ///
    /// # Errors
    /// Returns an error if the sink fails. This ends the parse.
    fn end_batch(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Ends the input of this sink, on the thread that called the other functions, unless the parse has failed by
    /// then. Nothing is passed afterwards. The parse may still fail.
    ///
    /// # Errors
    /// Returns an error if the sink fails. The parse then fails.
    fn end_input(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Sink that checks every term and counts the quads, for parsing without loading.
///
/// It remembers checked terms in a table of fixed size, so a frequent term is rarely checked again.
pub struct CountingSink {
    /// Quads taken.
    pub quads: u64,
    checked: Vec<u64>,
}

impl CountingSink {
    const SLOTS: usize = 1 << 15;

    /// Creates a sink with a count of 0.
    pub fn new() -> Self {
        Self {
            quads: 0,
            checked: vec![0; Self::SLOTS],
        }
    }

    fn hash(key: TermKey<'_>) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u8(key.kind as u8);
        hasher.write(key.bytes);
        // Zero marks an empty slot.
        hasher.finish() | 1
    }
}

impl Default for CountingSink {
    fn default() -> Self {
        Self::new()
    }
}

impl QuadSink for CountingSink {
    type Term = ();

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<(), TermError> {
        // A string needs only a check of its UTF-8, which is cheaper than remembering it.
        if key.kind == TermKind::String {
            return validate();
        }
        let hash = Self::hash(key);
        let slot = &mut self.checked[(hash >> 40) as usize % Self::SLOTS];
        if *slot != hash {
            validate()?;
            *slot = hash;
        }
        Ok(())
    }

    fn inline(&mut self, _id: TermId) {}

    fn default_graph(&mut self) {}

    fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), SinkError> {
        self.quads += 1;
        Ok(())
    }
}
