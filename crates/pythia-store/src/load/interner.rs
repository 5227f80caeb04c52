//! The sink of one parse worker: numbers the parser's terms and quads, and seals a [`Batch`] whenever its share of
//! the memory is full.

use std::convert::Infallible;
use std::sync::Arc;

use pythia_rdf::error::{SinkError, TermError};
use pythia_rdf::parse::QuadSink;
use pythia_rdf::{TermId, TermKey};

use super::LoadError;
use super::batch::{Batch, BatchFiles, Rows};
use super::table::TermTable;
use super::vocabulary::{KeySorter, SORT_BYTES_PER_KEY};

/// Limit of the distinct terms of a batch, below the limit of 32-bit ranks and addresses.
const KEYS_MAX: usize = 1 << 31;
/// Limit of the bytes of keys in a batch, below the limit of the arena's addresses.
const ARENA_BYTES_MAX: usize = 24 << 30;

/// A parse worker's terms and quads.
#[derive(Debug)]
pub(super) struct Interner {
    /// Bytes of memory that it may use.
    share_bytes: usize,
    files: Arc<BatchFiles>,
    table: TermTable,
    rows: Rows,
    sorter: KeySorter,
    batches: Vec<Batch>,
}

impl Interner {
    /// Returns an empty interner that takes about `share_bytes` of memory.
    pub(super) fn new(share_bytes: usize, files: &Arc<BatchFiles>) -> Self {
        let mut interner = Self {
            share_bytes,
            files: Arc::clone(files),
            table: TermTable::new(),
            rows: Rows::default(),
            sorter: KeySorter::default(),
            batches: Vec::new(),
        };
        interner.begin();
        interner
    }

    /// Makes the default graph ordinal 0.
    fn begin(&mut self) {
        let ordinal = self.inline_ordinal(TermId::DEFAULT_GRAPH);
        debug_assert_eq!(ordinal, Some(0), "the default graph comes first");
    }

    #[inline]
    fn inline_ordinal(&mut self, id: TermId) -> Option<u32> {
        let [kind, payload @ ..] = id.0.to_be_bytes();
        let Ok(ordinal) = self
            .table
            .intern(kind, &payload, || Ok::<_, Infallible>(()));
        ordinal
    }

    /// Returns the bytes of memory in use, plus those needed to seal the batch.
    fn bytes(&self) -> usize {
        self.table.bytes() + self.rows.bytes() + self.table.len() * SORT_BYTES_PER_KEY
    }

    /// Frees memory kept from the previous batch if the new one exceeds its share with it.
    fn shrink(&mut self) {
        let spare = self.table.arena().spare_bytes() + self.rows.spare_bytes();
        if spare > 0 && self.bytes() + spare > self.share_bytes {
            self.table.arena_mut().shrink();
            self.rows.shrink();
        }
    }

    #[cold]
    fn seal(&mut self) -> Result<(), LoadError> {
        let batch = Batch::seal(
            &mut self.table,
            &mut self.rows,
            &mut self.sorter,
            &self.files,
        )?;
        self.batches.push(batch);
        self.begin();
        Ok(())
    }

    /// Returns the batches of an input that has ended.
    pub(super) fn into_batches(self) -> Vec<Batch> {
        debug_assert_eq!(self.rows.len(), 0, "the end of the input seals the last");
        self.batches
    }
}

fn too_many<T>(ordinal: Option<T>) -> Result<T, SinkError> {
    ordinal.ok_or_else(|| SinkError::new(LoadError::TooManyTerms))
}

impl QuadSink for Interner {
    type Term = u32;

    #[inline]
    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<u32, TermError> {
        let ordinal = self.table.intern(key.kind as u8, key.bytes, validate)?;
        Ok(too_many(ordinal)?)
    }

    #[inline]
    fn inline(&mut self, id: TermId) -> u32 {
        // Batches are sealed long before the table is full.
        self.inline_ordinal(id)
            .expect("a batch has room for a term")
    }

    #[inline]
    fn default_graph(&mut self) -> u32 {
        0
    }

    #[inline]
    fn quad(&mut self, s: u32, p: u32, o: u32, g: u32) -> Result<(), SinkError> {
        self.rows.push([s, p, o], g);
        Ok(())
    }

    fn end_batch(&mut self) -> Result<(), SinkError> {
        if self.bytes() >= self.share_bytes
            || self.table.len() >= KEYS_MAX
            || self.table.arena().bytes() >= ARENA_BYTES_MAX
        {
            self.seal().map_err(SinkError::new)?;
        }
        self.shrink();
        Ok(())
    }

    /// Seals the last batch beside workers that still parse, and frees the memory of batches.
    fn end_input(&mut self) -> Result<(), SinkError> {
        if self.rows.len() > 0 {
            self.seal().map_err(SinkError::new)?;
        }
        self.table = TermTable::new();
        self.rows = Rows::default();
        self.sorter = KeySorter::default();
        self.begin();
        Ok(())
    }
}
