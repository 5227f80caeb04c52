//! Reads that are not recorded as reads of a transaction: for plans, which must not depend on others for their
//! answers.

use std::ops::Range;

use pythia_io::PagedFile;
use pythia_rdf::TermId;

use super::attribute::CHANGED_VALUES_MAX;
use super::reachability::CHANGED_EDGES_MAX;
use super::{QuadScan, ReadCosts, Snapshot, summed};
use crate::StoreError;
use crate::auxiliary::attribute::Attribute;
use crate::auxiliary::reachability::Reachability;
use crate::pattern::{Component, End, GraphFilter, Order, QuadPattern};
use crate::scan as segment_scan;
use crate::statistics::Statistics;

/// The counts and samples of a snapshot, for choosing between plans with the same answer. What they decide about an answer
/// must be reported with [`Snapshot::depend_on`]: a serializable transaction does not notice it otherwise.
#[derive(Clone, Copy)]
pub struct Estimates<'s> {
    snapshot: &'s Snapshot,
}

impl Snapshot {
    /// Returns the counts of this snapshot; asking for them is not a read of the transaction.
    pub fn estimates(&self) -> Estimates<'_> {
        Estimates { snapshot: self }
    }
}

impl<'s> Estimates<'s> {
    /// As [`Snapshot::statistics`].
    pub fn statistics(self) -> &'s Statistics {
        let base = self.snapshot.base.statistics();
        let changes = self.snapshot.changes();
        changes.map_or(base, |delta| delta.statistics(base))
    }

    /// As [`Snapshot::count`].
    pub fn count(self, pattern: &QuadPattern) -> Result<u64, StoreError> {
        let count = segment_scan::count(&self.snapshot.base, pattern)?;
        match self.snapshot.changes() {
            None => Ok(count),
            Some(delta) => summed(count, delta.count(pattern)?),
        }
    }

    /// As [`Snapshot::count_range`].
    pub fn count_range(
        self,
        predicate: TermId,
        end: End,
        ids: Range<u64>,
        graph: GraphFilter,
    ) -> Result<u64, StoreError> {
        let base = &self.snapshot.base;
        let count = segment_scan::count_range(base, predicate, end, &ids, graph)?;
        match self.snapshot.changes() {
            None => Ok(count),
            Some(delta) => summed(count, delta.count_range(predicate, end, &ids, graph)?),
        }
    }

    /// Returns the subjects (or objects, depending on `end`) of at most `count` rows of a predicate, spread evenly over
    /// its rows in the order of that end; a subject with many rows comes several times. They are those of the base.
    /// Reads at most `count` pages, as one batch.
    pub fn sample(
        self,
        predicate: TermId,
        end: End,
        count: usize,
    ) -> Result<Vec<TermId>, StoreError> {
        segment_scan::sample(&self.snapshot.base, predicate, end, count)
    }

    /// Returns, for each of `nodes` (sorted, distinct) that have edges of a predicate at `end`, the other end of one of
    /// them, in the order of the nodes. The edges are those of the base. Reads at most a page for each node, as one batch.
    pub fn sample_links(
        self,
        predicate: TermId,
        end: End,
        nodes: &[TermId],
    ) -> Result<Vec<TermId>, StoreError> {
        segment_scan::sample_links(&self.snapshot.base, predicate, end, nodes)
    }

    /// As [`Snapshot::scan`].
    pub fn scan(
        self,
        pattern: &QuadPattern,
        order: Order,
        wanted: &[Component],
    ) -> Result<QuadScan, StoreError> {
        self.snapshot.scan_unrecorded(pattern, order, wanted)
    }

    /// As [`Snapshot::probe`].
    pub fn probe(
        self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
    ) -> Result<Vec<bool>, StoreError> {
        self.snapshot.probe_unrecorded(predicate, pairs, graph)
    }

    /// Returns the labels that [`Snapshot::reachability`] uses. They are those of the base.
    pub fn reachability(self, predicate: TermId) -> Option<&'s Reachability> {
        let labels = self.snapshot.auxiliaries.reachability(predicate)?;
        (self.snapshot.changes_of(predicate) <= CHANGED_EDGES_MAX).then_some(labels)
    }

    /// Returns the cached values that [`Snapshot::attribute`] uses. They are those of the base.
    pub fn attribute(self, predicate: TermId) -> Option<&'s Attribute> {
        let attribute = self.snapshot.auxiliaries.attribute(predicate)?;
        (self.snapshot.changes_of(predicate) <= CHANGED_VALUES_MAX).then_some(attribute)
    }

    /// Returns the expected costs of reading from the device: all 0 for a store that fits into the cache.
    pub fn read_costs(self) -> ReadCosts {
        let base = &self.snapshot.base;
        let (spo, pso) = (base.spo.file(), base.pso.file());
        let file_bytes = |file: &PagedFile| file.page_count() as f64 * file.page_bytes() as f64;
        let bytes: f64 = base.paged_files().map(file_bytes).sum();
        let cache = spo.pool().budget_bytes() as f64;
        let cold = (1.0 - cache / bytes.max(1.0)).max(0.0);
        let row_bytes = file_bytes(pso) / (self.statistics().quads as f64).max(1.0);
        let device = self.snapshot.device();
        ReadCosts {
            page_us: cold * device.random_us(spo.page_bytes()),
            tuple_pages: spo.page_count() as f64,
            row_us: cold * device.sequential_us(row_bytes),
        }
    }
}
