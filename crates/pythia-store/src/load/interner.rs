//! One parse worker's end of the loader: takes terms and quads from the parser, numbers them, and seals a
//! [`Batch`] whenever its share of the memory is full.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pythia_rdf::error::{SinkError, TermError};
use pythia_rdf::parse::QuadSink;
use pythia_rdf::{TermId, TermKey};

use super::LoadError;
use super::batch::{Batch, BatchFiles, Rows};
use super::table::TermTable;
use super::temp::TempSpace;
use super::vocabulary::SORT_BYTES_PER_KEY;

/// The most distinct terms of a batch, short of what 32 bits can tell apart: ranks and addresses.
const KEYS_MAX: usize = 1 << 31;
/// The most bytes of keys in a batch, short of what the arena can address.
const ARENA_BYTES_MAX: usize = 24 << 30;

/// What the workers of a load have in common.
#[derive(Debug)]
pub(super) struct InternerPlan {
    /// Bytes of memory each worker may use.
    pub(super) share_bytes: usize,
    /// Where batches are spilled.
    pub(super) space: Arc<TempSpace>,
    /// Whether any worker has spilled.
    pub(super) spilled: AtomicBool,
}

/// A parse worker's terms and quads.
#[derive(Debug)]
pub(super) struct Interner {
    plan: Arc<InternerPlan>,
    table: TermTable,
    rows: Rows,
    files: Option<BatchFiles>,
    batches: Vec<Batch>,
}

impl Interner {
    /// An empty interner.
    pub(super) fn new(plan: &Arc<InternerPlan>) -> Self {
        let mut interner = Self {
            plan: Arc::clone(plan),
            table: TermTable::new(),
            rows: Rows::default(),
            files: None,
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
        let Ok(ordinal) = self.table.intern(kind, &payload, || Ok::<_, Infallible>(()));
        ordinal
    }

    /// Bytes of memory in use, and needed to seal what is there.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.rows.bytes() + self.table.len() * SORT_BYTES_PER_KEY
    }

    #[cold]
    fn spill(&mut self) -> Result<(), LoadError> {
        self.plan.spilled.store(true, Ordering::Relaxed);
        let files = match &self.files {
            Some(files) => files,
            None => self.files.insert(BatchFiles::new(&self.plan.space)?),
        };
        let batch = Batch::spill(&mut self.table, &mut self.rows, files)?;
        self.batches.push(batch);
        self.begin();
        Ok(())
    }

    /// Seals the last batch: in memory if `keep`, else spilled like those before.
    pub(super) fn finish(mut self, keep: bool) -> Result<Vec<Batch>, LoadError> {
        if self.rows.len() > 0 {
            if keep {
                self.batches.push(Batch::keep(self.table, self.rows));
            } else {
                self.spill()?;
            }
        }
        Ok(self.batches)
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
        self.inline_ordinal(id).expect("a batch has room for a term")
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
        if self.bytes() >= self.plan.share_bytes
            || self.table.len() >= KEYS_MAX
            || self.table.arena().bytes() >= ARENA_BYTES_MAX
        {
            self.spill().map_err(SinkError::new)?;
        }
        Ok(())
    }
}
