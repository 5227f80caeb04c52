//! Runs on the device: signed quads in two segments, new terms, and filters that are kept in memory.
//!
//! ```text
//! run-000007/  added/    a segment: quads that were added; its dictionary holds the new terms
//!              removed/  a segment: quads that were removed; its dictionary is empty
//!              directory filters of nodes and of terms, kept in memory
//!              terms.pages  ranks and serial numbers of terms, where these differ
//! ```
//!
//! Rows hold the ids that a snapshot sees: the base's, and those of new terms. A run is written once
//! ([`DeviceRunWriter`]) and read through [`DeviceRun`]: merging with the base's rows needs only the two segments, and
//! the filters show without a read that the run has no rows of a node, or lacks a term. Runs of similar size are
//! merged ([`merge`]).
//!
//! In memory are the directories of the two segments, which grow with the number of their pages, and filters with 12 to
//! 24 bits for each member: a node, a node with a predicate, or a new term. The format is in `docs/format/runs.md`.

use std::sync::Arc;

use pythia_io::bytes::ByteReader;
use pythia_io::{BufferPool, IoError, PagedFile};
use pythia_rdf::{OwnedKey, TermId, TermKey, TermKind};

use crate::StoreError;
use crate::delta::{KindCounts, Quad};
use crate::hashes::hash_of;
use crate::manifest::{ADDED, REMOVED, RunEntry, SegmentEntry};
use crate::pattern::{End, GraphFilter, Order, QuadPattern};
use crate::scan;
use crate::segment::Segment;
use crate::segment::sealed::check_lengths;

mod filter;
pub mod merge;
mod rows;
mod terms;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use rows::{RunRows, SegmentRows};
pub use terms::{RunTermsWriter, TermCursor};
pub use writer::{DeviceRunWriter, EachTerm, RunOrderWriter, WrittenOrder, write_run};

pub use filter::{FilterBuilder, StoredFilter};
pub(crate) use filter::{filter_bytes, members_max};
use terms::RunTerms;
pub(crate) use writer::add_edge;

/// The file of the structures that are kept in memory.
const DIRECTORY_NAME: &str = "directory";
const MAGIC: &[u8; 8] = b"pythiarn";
const VERSION: u32 = 1;

/// A run on the device, open for reading. Immutable.
pub struct DeviceRun {
    entry: RunEntry,
    added: Arc<Segment>,
    removed: Arc<Segment>,
    /// For each end, a filter of the nodes that have rows, and of these nodes with their predicates.
    nodes: [StoredFilter; 2],
    terms: RunTerms,
}

impl DeviceRun {
    /// Opens a run: reads its directories, and checks the length of every file.
    pub fn open(pool: &Arc<BufferPool>, entry: &RunEntry) -> Result<Self, StoreError> {
        let folder = entry.id.folder();
        let names = entry.files.iter().map(|file| file.name.clone());
        check_lengths(&**pool.storage(), &folder, &entry.files, names)?;
        let segment = |name: &str, of: &SegmentEntry| -> Result<Arc<Segment>, StoreError> {
            let folder = format!("{folder}/{name}");
            Ok(Arc::new(Segment::open(pool, &folder, of.quads, &of.files)?))
        };
        let added = segment(ADDED, &entry.added)?;
        let removed = segment(REMOVED, &entry.removed)?;
        let name = format!("{folder}/{DIRECTORY_NAME}");
        let bytes = pool.storage().read_all(&name)?;
        let (_, mut input) = ByteReader::framed(&name, &bytes, MAGIC, VERSION..=VERSION)?;
        let nodes = [
            StoredFilter::read(&mut input)?,
            StoredFilter::read(&mut input)?,
        ];
        let terms = RunTerms::open(pool, &folder, Arc::clone(&added), &entry.terms, &mut input)?;
        input.finish()?;
        Ok(Self {
            entry: entry.clone(),
            added,
            removed,
            nodes,
            terms,
        })
    }

    /// Returns its manifest entry.
    pub fn entry(&self) -> &RunEntry {
        &self.entry
    }

    /// Gives the new terms of each of [`TermKind::DICTIONARY`] the ids from these payloads on. The caller must change
    /// the manifest entry in the same way: the files of the run have no ids.
    pub(crate) fn number_terms(&mut self, first: &KindCounts) {
        for (span, &first) in self.entry.terms.iter_mut().zip(first) {
            span.first = first;
        }
        self.terms.number(&self.entry.terms);
    }

    /// Returns the added quads.
    pub fn added(&self) -> &Arc<Segment> {
        &self.added
    }

    /// Returns the removed quads.
    pub fn removed(&self) -> &Arc<Segment> {
        &self.removed
    }

    /// Returns whether the node may have rows, of the predicate if one is given; false is certain.
    pub fn touches(&self, end: End, node: TermId, predicate: Option<TermId>) -> bool {
        self.nodes[end as usize].may_hold(hash_of(node, predicate))
    }

    /// Returns the places of the nodes for which [`Self::touches`] is true.
    pub(crate) fn touched(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: Option<TermId>,
    ) -> Vec<usize> {
        let hash = |place: usize| hash_of(nodes[place], predicate);
        self.nodes[end as usize].places_held(nodes.len(), hash)
    }

    /// Returns whether the run adds (or removes) a quad.
    pub(crate) fn has(
        &self,
        &[subject, predicate, object, graph]: &Quad,
        added: bool,
    ) -> Result<bool, StoreError> {
        let [s, p, o, g] = [subject, predicate, object, graph].map(TermId);
        let touches = |end, node| self.touches(end, node, Some(p));
        if !(touches(End::Subject, s) && touches(End::Object, o)) {
            return Ok(false);
        }
        let pattern = QuadPattern {
            subject: Some(s),
            predicate: Some(p),
            object: Some(o),
            graph: GraphFilter::One(g),
        };
        let segment = if added { &self.added } else { &self.removed };
        Ok(scan::count(segment, &pattern)? > 0)
    }

    /// Returns the numbers of added and of removed quads of a predicate.
    pub fn predicate(&self, predicate: TermId) -> (u64, u64) {
        let quads = |segment: &Segment| {
            let found = segment.statistics().predicate(predicate);
            found.map_or(0, |statistics| statistics.quads)
        };
        (quads(&self.added), quads(&self.removed))
    }

    /// Returns whether the id is one of the run's new terms.
    pub fn has_term(&self, id: TermId) -> bool {
        self.terms.contains(id)
    }

    /// Returns the ids of the keys that are the run's new terms, in order. Other keys cost no page; the pages are
    /// read as one batch.
    pub fn find_batch(&self, keys: &[TermKey<'_>]) -> Result<Vec<Option<TermId>>, StoreError> {
        self.terms.find_batch(keys)
    }

    /// Returns the first `limit` of the run's new terms whose keys start with `prefix`, in order of their keys.
    pub(crate) fn terms_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<(OwnedKey, TermId)>, StoreError> {
        self.terms.with_prefix(kind, prefix, limit)
    }

    /// Calls `f` with the index in `ids` and the key of each of the run's new terms, in any order. Reads all pages as
    /// one batch, after those that map ids.
    pub fn keys<E: From<StoreError> + From<IoError>>(
        &self,
        ids: &[TermId],
        f: impl FnMut(usize, TermKey<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.terms.keys(ids, f)
    }

    /// Returns the pages that map ranks and serial numbers of terms, if there are any.
    pub(crate) fn term_map(&self) -> Option<&PagedFile> {
        self.terms.map()
    }

    /// Returns the name of the file of the structures that are kept in memory.
    pub(crate) fn directory_file(&self) -> String {
        format!("{}/{DIRECTORY_NAME}", self.entry.id.folder())
    }

    /// Returns the new terms with their ids, sorted by their keys.
    pub fn terms(&self) -> Result<TermCursor<'_>, StoreError> {
        self.terms.cursor()
    }

    /// Returns an upper limit on the number of nodes and edges that the rows of an order begin with, if it is sorted by nodes.
    fn nodes_max(&self, order: Order) -> u64 {
        let end = match order {
            Order::Spo => End::Subject,
            Order::Ops => End::Object,
            Order::Pso | Order::Pos | Order::Gpso => return 0,
        };
        self.nodes[end as usize].members_max()
    }

    /// Returns the approximate memory of the open run; pages are in the cache.
    pub fn memory_bytes(&self) -> usize {
        let filters = self.nodes.iter().map(StoredFilter::memory_bytes);
        let segments = [&self.added, &self.removed].map(|segment| segment.memory_bytes());
        filters.chain(segments).sum::<usize>() + self.terms.memory_bytes()
    }
}
