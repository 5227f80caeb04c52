//! Where parsed quads go: the trait the loader's interner implements, and a sink that only checks and counts.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::error::{SinkError, TermError};
use crate::id::{TermId, TermKind};
use crate::key::TermKey;

/// Receives the terms and quads of one worker thread.
///
/// A term is handed over first and answered with a handle; a quad is four handles. Handles must stay
/// valid until the next [`Self::end_batch`], because the parser remembers those of repeated terms.
/// A statement found wrong half-way leaves terms behind that no quad uses.
pub trait QuadSink {
    /// A handle for a term.
    type Term: Copy;

    /// Takes a dictionary term.
    ///
    /// # Errors
    /// [`TermError::Invalid`] from `validate`, which must be run before a key not seen before is accepted:
    /// nothing else has checked the term's text. [`TermError::Sink`] if the sink fails.
    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<Self::Term, TermError>;

    /// Takes a term held in its id.
    fn inline(&mut self, id: TermId) -> Self::Term;

    /// The handle for the default graph.
    fn default_graph(&mut self) -> Self::Term;

    /// Takes a quad of handles.
    ///
    /// # Errors
    /// If the sink fails; this ends the parse.
    fn quad(
        &mut self,
        subject: Self::Term,
        predicate: Self::Term,
        object: Self::Term,
        graph: Self::Term,
    ) -> Result<(), SinkError>;

    /// A batch (a chunk of lines of a few MB, or some thousand quads) is done: no handle given out before is used again.
    ///
    /// # Errors
    /// If the sink fails; this ends the parse.
    fn end_batch(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A sink that checks every term and counts the quads: parsing without loading.
///
/// It remembers which terms it has checked in a table of fixed size, so a frequent term is checked rarely.
pub struct CountingSink {
    /// Quads taken.
    pub quads: u64,
    checked: Vec<u64>,
}

impl CountingSink {
    const SLOTS: usize = 1 << 15;

    /// An empty count.
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
        // A string needs no more than a check of its UTF-8, which is cheaper than remembering it.
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
