//! A snapshot: an unchanging view of a store, for as long as it is held.
//!
//! All reads from above the store go through a [`Snapshot`]: a base segment, with the runs of recent changes merged
//! into its rows.

use std::ops::Range;
use std::sync::Arc;

use oxrdf::GraphNameRef;
use parking_lot::Mutex;
use pythia_io::DeviceProfile;
use pythia_rdf::key::{self, Encoded, KeyParts};
use pythia_rdf::{KeyError, TermId, TermKey, TermKind, inline};
use rustc_hash::FxHashMap;

use crate::StoreError;
use crate::auxiliary::Auxiliaries;
use crate::delta::{ChangeStream, Delta, KindCounts, fill_missing};
use crate::pattern::{Component, End, Expansion, GraphFilter, Order, QuadPattern};
use crate::scan::{self as segment_scan, of_segment};
use crate::segment::Segment;
use crate::statistics::Statistics;
use crate::version::{Slot, SnapshotVersion, Version};

mod attribute;
mod change_set;
mod edges;
mod estimates;
mod graph_rows;
mod graphs;
mod merged;
mod reachability;
mod reads;
mod scan;
mod terms;

pub(crate) use attribute::CHANGED_VALUES_MAX;
pub use attribute::CurrentAttribute;
use attribute::{ChangedValues, KnownValues};
pub(crate) use change_set::change_set;
pub use estimates::Estimates;
pub use graph_rows::GoesOn;
pub(crate) use graph_rows::{GraphRows, WholeGraphRows, WholeGraphs};
use merged::{MergeKey, MergedScan};
pub(crate) use reachability::CHANGED_EDGES_MAX;
pub use reachability::CurrentReachability;
use reachability::{ChangedEdges, KnownEdges};
pub(crate) use reads::{ReadSet, Reads};
pub use scan::QuadScan;

#[cfg(test)]
mod tests;

/// A state of the store. Clones are cheap and see the same quads.
#[derive(Clone)]
pub struct Snapshot {
    base: Arc<Segment>,
    auxiliaries: Arc<Auxiliaries>,
    /// `None` if nothing has changed since the base was written.
    delta: Option<Arc<Delta>>,
    /// The changes of the indexes, read when they are first needed; snapshots of the same quads share them.
    changed_indexes: Arc<ChangedIndexes>,
    version: SnapshotVersion,
    /// The recorder of a serializable transaction's reads.
    reads: Option<Arc<Reads>>,
}

/// The changes of auxiliary files, by their predicates.
#[derive(Default)]
struct ChangedIndexes {
    edges: Mutex<FxHashMap<TermId, Arc<ChangedEdges>>>,
    values: Mutex<FxHashMap<TermId, Arc<ChangedValues>>>,
    /// The results for earlier changes of the same base.
    known_edges: FxHashMap<TermId, Arc<KnownEdges>>,
    known_values: FxHashMap<TermId, Arc<KnownValues>>,
}

impl ChangedIndexes {
    /// Returns what may be of use with other changes of the same base.
    fn for_other_changes(&self) -> Self {
        let mut known = Self {
            known_edges: self.known_edges.clone(),
            known_values: self.known_values.clone(),
            ..Self::default()
        };
        for (&predicate, changed) in &*self.edges.lock() {
            let edges = Arc::clone(changed.known());
            known.known_edges.insert(predicate, edges);
        }
        for (&predicate, changed) in &*self.values.lock() {
            let values = Arc::clone(changed.known());
            known.known_values.insert(predicate, values);
        }
        known
    }
}

/// Returns what is known of a predicate, or reads it.
fn once<T>(
    known: &Mutex<FxHashMap<TermId, Arc<T>>>,
    predicate: TermId,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<Arc<T>, StoreError> {
    if let Some(found) = known.lock().get(&predicate) {
        return Ok(Arc::clone(found));
    }
    let read = Arc::new(read()?);
    known.lock().insert(predicate, Arc::clone(&read));
    Ok(read)
}

/// Expected costs of reading, beyond work on pages in memory: the device's costs times the share of the store that
/// does not fit into the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReadCosts {
    /// Microseconds to read a tuple page as part of a batch.
    pub page_us: f64,
    /// Tuple pages of the subjects: no batch reads more.
    pub tuple_pages: f64,
    /// Microseconds to read a row of the columns as part of a scan.
    pub row_us: f64,
}

impl Snapshot {
    pub(crate) fn new(base: Arc<Segment>, auxiliaries: Arc<Auxiliaries>) -> Self {
        Self {
            base,
            auxiliaries,
            delta: None,
            changed_indexes: Arc::default(),
            version: SnapshotVersion::default(),
            reads: None,
        }
    }

    /// Returns a snapshot of the same base with these changes.
    pub(crate) fn with_delta(&self, delta: Delta) -> Self {
        Self {
            delta: Some(Arc::new(delta)),
            changed_indexes: Arc::new(self.changed_indexes.for_other_changes()),
            ..self.clone()
        }
    }

    /// Returns a snapshot of the same quads on another base, which has the quads of some of the changes.
    pub(crate) fn with_base(&self, base: Arc<Segment>, delta: Delta) -> Self {
        Self {
            base,
            delta: Some(Arc::new(delta)),
            changed_indexes: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the same snapshot, whose reads are recorded from here on.
    pub(crate) fn recorded(&self, reads: Arc<Reads>) -> Self {
        Self {
            reads: Some(reads),
            ..self.clone()
        }
    }

    /// Returns the recorder of its reads, if it is a serializable transaction's.
    pub(crate) fn reads(&self) -> Option<&Reads> {
        self.reads.as_deref()
    }

    /// Returns a snapshot of the same quads with these auxiliary files.
    pub(crate) fn with_auxiliaries(&self, auxiliaries: Arc<Auxiliaries>) -> Self {
        Self {
            auxiliaries,
            changed_indexes: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns a snapshot of the same quads that knows its version.
    pub(crate) fn with_version(&self, version: SnapshotVersion) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }

    /// Returns its version, for those who make the next one.
    pub(crate) fn versioned(&self) -> &SnapshotVersion {
        &self.version
    }

    /// Returns the last commit of the snapshot. A transaction's own changes have no version.
    pub fn version(&self) -> Version {
        self.version.last()
    }

    /// Returns the last commit that changed a graph, or a later one. Equal versions of a graph are equal sets of quads.
    pub fn graph_version(&self, graph: GraphNameRef<'_>) -> Version {
        self.version.of(Slot::of(graph))
    }

    /// Returns a number for the assignment of ids: while it is the same, scans of the same quads return them in the
    /// same order.
    pub fn layout(&self) -> u64 {
        self.version.layout()
    }

    /// Returns the auxiliary files of the base.
    pub(crate) fn auxiliaries(&self) -> &Arc<Auxiliaries> {
        &self.auxiliaries
    }

    /// Returns the changes since the base was written.
    pub(crate) fn delta(&self) -> Option<&Arc<Delta>> {
        self.delta.as_ref()
    }

    /// Returns the changes, if there are any.
    fn changes(&self) -> Option<&Delta> {
        self.delta.as_deref().filter(|delta| !delta.is_empty())
    }

    /// Returns whether quads were added to the base or removed from it. Needs no reads.
    pub fn has_changes(&self) -> bool {
        self.changes().is_some()
    }

    /// Returns how many quads of the predicate were added to the base and removed from it. Needs no reads.
    pub fn changes_of(&self, predicate: TermId) -> u64 {
        let changes = self.changes();
        changes.map_or(0, |delta| delta.changes_of(predicate))
    }

    /// Records that an answer depends on which quads match a pattern, if the transaction is serializable. Reads do so by
    /// themselves; only what [`Self::estimates`] decided about an answer needs to be reported.
    pub fn depend_on(&self, pattern: &QuadPattern) {
        self.record(|| std::iter::once(*pattern));
    }

    fn record<P: Iterator<Item = QuadPattern>>(&self, patterns: impl FnOnce() -> P) {
        if let Some(reads) = &self.reads {
            let private = self.delta.as_ref().and_then(|delta| delta.private_terms());
            reads.patterns(private, patterns());
        }
    }

    /// Records a read that depends on everything.
    fn record_all(&self) {
        if let Some(reads) = &self.reads {
            reads.everything();
        }
    }

    /// Records the keys that have no id as reads of absent terms.
    fn record_absent(&self, keys: &[TermKey<'_>], ids: &[Option<TermId>]) {
        if let Some(reads) = &self.reads {
            let missing = keys.iter().zip(ids).filter(|(_, id)| id.is_none());
            reads.absent(missing.map(|(key, _)| *key));
        }
    }

    /// Returns the reachability of a predicate in the default graph by labels, if they exist and few of its edges have
    /// changed since. Reads the changed edges.
    pub fn reachability(
        &self,
        predicate: TermId,
    ) -> Result<Option<CurrentReachability>, StoreError> {
        self.depend_on(&of_predicate(predicate));
        let Some(labels) = self.estimates().reachability(predicate) else {
            return Ok(None);
        };
        let indexes = &*self.changed_indexes;
        let known = indexes.known_edges.get(&predicate);
        let read = |delta| ChangedEdges::read(predicate, &self.base, delta, known);
        let delta = self.delta.as_ref().filter(|delta| delta.touches(predicate));
        let changed = delta.map(|delta| once(&indexes.edges, predicate, || read(delta)));
        Ok(Some(CurrentReachability::new(labels, changed.transpose()?)))
    }

    /// Returns the cached values of a predicate, if they exist and few values have changed since. Reads the changed
    /// values.
    pub fn attribute(&self, predicate: TermId) -> Result<Option<CurrentAttribute>, StoreError> {
        let Some(attribute) = self.estimates().attribute(predicate) else {
            return Ok(None);
        };
        self.record(|| {
            let along = attribute.along().iter().copied();
            along.chain([predicate]).map(of_predicate)
        });
        if attribute.along().is_empty() {
            self.depend_on(&QuadPattern::default());
        }
        let indexes = &*self.changed_indexes;
        let known = indexes.known_values.get(&predicate);
        let read = |delta| ChangedValues::read(predicate, &self.base, delta, known);
        let delta = self.delta.as_ref().filter(|delta| !delta.is_empty());
        let changed = delta.map(|delta| once(&indexes.values, predicate, || read(delta)));
        Ok(Some(CurrentAttribute::new(attribute, changed.transpose()?)))
    }

    /// Returns the base segment, for this crate's reports.
    pub(crate) fn base(&self) -> &Arc<Segment> {
        &self.base
    }

    /// Returns the payload (exclusive) up to which ids of a dictionary kind compare like their terms.
    pub fn sorted_payloads(&self, kind: TermKind) -> u64 {
        self.base.dictionary.count(kind)
    }

    /// Returns the id of a term; `None` if the store does not have it. Reads at most one page, unless the term is
    /// longer than a page.
    pub fn resolve(&self, term: oxrdf::TermRef<'_>) -> Result<Option<TermId>, StoreError> {
        let mut bytes = Vec::new();
        match key::encode(term, &mut bytes) {
            Encoded::Inline(id) => Ok(Some(id)),
            Encoded::Key(kind) => self.resolve_key(TermKey {
                kind,
                bytes: &bytes,
            }),
        }
    }

    /// Returns the ids of several terms, in their order. Reads all pages as one batch.
    pub fn resolve_all(
        &self,
        terms: &[oxrdf::TermRef<'_>],
    ) -> Result<Vec<Option<TermId>>, StoreError> {
        let (mut bytes, mut encoded) = (Vec::new(), Vec::new());
        // The place of each key in `bytes`.
        let mut places = Vec::with_capacity(terms.len());
        let mut ids = vec![None; terms.len()];
        for (term, id) in terms.iter().zip(&mut ids) {
            match key::encode(*term, &mut encoded) {
                Encoded::Inline(inline) => *id = Some(inline),
                Encoded::Key(kind) => {
                    let start = bytes.len();
                    bytes.extend_from_slice(&encoded);
                    places.push((kind, start..bytes.len()));
                }
            }
        }
        let key = |(kind, place): &(_, std::ops::Range<usize>)| TermKey {
            kind: *kind,
            bytes: &bytes[place.clone()],
        };
        let keys: Vec<TermKey<'_>> = places.iter().map(key).collect();
        let mut found = self.resolve_keys(&keys)?.into_iter();
        let of_keys = ids.iter_mut().filter(|id| id.is_none());
        of_keys.for_each(|id| *id = found.next().expect("an answer for each"));
        Ok(ids)
    }

    /// Returns the id of a dictionary term. Reads as [`Self::resolve`].
    pub fn resolve_key(&self, key: TermKey<'_>) -> Result<Option<TermId>, StoreError> {
        let found = match (self.base.dictionary.find(key)?, &self.delta) {
            (None, Some(delta)) => delta.find(key)?,
            (found, _) => found,
        };
        self.record_absent(&[key], &[found]);
        Ok(found)
    }

    /// Returns the number of terms of each dictionary kind in the base.
    pub(crate) fn base_terms(&self) -> KindCounts {
        TermKind::DICTIONARY.map(|kind| self.base.dictionary.count(kind))
    }

    /// Returns the ids of the terms that are on the device; `None` for the others.
    pub(crate) fn resolve_stored(
        &self,
        keys: &[TermKey<'_>],
    ) -> Result<Vec<Option<TermId>>, StoreError> {
        let mut ids = self.base.dictionary.find_batch(keys)?;
        if let Some(delta) = &self.delta {
            delta.find_on_device(keys, &mut ids)?;
        }
        Ok(ids)
    }

    /// Returns the ids of several dictionary terms, in their order. Reads all pages as one batch.
    pub fn resolve_keys(&self, keys: &[TermKey<'_>]) -> Result<Vec<Option<TermId>>, StoreError> {
        let ids = self.resolve_unrecorded(keys)?;
        self.record_absent(keys, &ids);
        Ok(ids)
    }

    /// As [`Self::resolve_keys`], for terms that are about to be inserted: this is not a read.
    pub(crate) fn resolve_unrecorded(
        &self,
        keys: &[TermKey<'_>],
    ) -> Result<Vec<Option<TermId>>, StoreError> {
        let Some(delta) = &self.delta else {
            return self.base.dictionary.find_batch(keys);
        };
        // No term is in two places, and those in memory need no page.
        let mut ids = delta.find_in_memory(keys);
        fill_missing(keys, &mut ids, |rest| self.base.dictionary.find_batch(rest))?;
        delta.find_on_device(keys, &mut ids)?;
        Ok(ids)
    }

    /// Returns the terms of ids, in their order; ids may come in any order and more than once. Reads all pages as one
    /// batch.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for an id that is not in this store.
    pub fn decode(&self, ids: &[TermId]) -> Result<Vec<oxrdf::Term>, StoreError> {
        if ids.is_sorted_by(|a, b| a < b) {
            return self.decode_distinct(ids);
        }
        let mut distinct: Vec<TermId> = ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let terms = self.decode_distinct(&distinct)?;
        let place = |id| distinct.binary_search(id).expect("each id is among them");
        Ok(ids.iter().map(|id| terms[place(id)].clone()).collect())
    }

    fn decode_distinct(&self, ids: &[TermId]) -> Result<Vec<oxrdf::Term>, StoreError> {
        let inline = |id: &TermId| inline::inline_to_literal(*id).map(oxrdf::Term::from);
        let mut terms: Vec<Option<oxrdf::Term>> = ids.iter().map(inline).collect();
        let is_stored = |&place: &usize| ids[place].kind().is_dictionary();
        let places: Vec<usize> = (0..ids.len()).filter(is_stored).collect();
        let stored: Vec<TermId> = places.iter().map(|&place| ids[place]).collect();
        self.decode_parts(&stored, |index, parts| {
            terms[places[index]] = Some(parts.into_term()?);
            Ok(())
        })?;
        let terms = terms.into_iter().zip(ids);
        let found = terms.map(|(term, id)| term.ok_or_else(|| unknown_id(*id)));
        found.collect()
    }

    /// Does the same as [`Self::decode_keys`] with the parts of the keys.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for an id that is not in this store, and for an error of `f`.
    pub fn decode_parts(
        &self,
        ids: &[TermId],
        mut f: impl FnMut(usize, KeyParts<'_>) -> Result<(), KeyError>,
    ) -> Result<(), StoreError> {
        let mut wrong = None;
        self.decode_keys(ids, |index, key| {
            if let Err(error) = key.parts().and_then(|parts| f(index, parts)) {
                wrong = Some((ids[index], error));
            }
        })?;
        match wrong {
            None => Ok(()),
            Some((id, error)) => {
                let message = format!("{id:?}: {error}");
                Err(StoreError::corrupt("dictionary.pages", None, message))
            }
        }
    }

    /// Calls `f` with each id's index in `ids` and its key, in any order. Ids must be of dictionary kinds and may
    /// repeat. Reads all pages as one batch.
    pub fn decode_keys(
        &self,
        ids: &[TermId],
        mut f: impl FnMut(usize, TermKey<'_>),
    ) -> Result<(), StoreError> {
        let mut keys_of_base = |ids: &[TermId], places: Option<&[usize]>| {
            self.base.dictionary.keys(ids, |index, key| {
                f(places.map_or(index, |places| places[index]), key);
                Ok::<_, StoreError>(())
            })
        };
        let Some(delta) = &self.delta else {
            return keys_of_base(ids, None);
        };
        if ids.iter().all(|&id| delta.is_of_base(id)) {
            return keys_of_base(ids, None);
        }
        let is_of_base = |&place: &usize| delta.is_of_base(ids[place]);
        let (old, new): (Vec<usize>, Vec<usize>) = (0..ids.len()).partition(is_of_base);
        let chosen = |places: &[usize]| places.iter().map(|&place| ids[place]).collect::<Vec<_>>();
        keys_of_base(&chosen(&old), Some(&old))?;
        let mut found = 0;
        delta.keys(&chosen(&new), |index, key| {
            found += 1;
            f(new[index], key);
        })?;
        if found < new.len() {
            return Err(unknown_id(ids[new[0]]));
        }
        Ok(())
    }

    /// Returns the quads that match a pattern, sorted by the components of `order` that the pattern leaves free, then
    /// by graph.
    ///
    /// A bound subject or object is looked up in its tuple page, a bound predicate in the columns; with nothing
    /// bound, the file of `order` is read; a graph alone, or a graph and a predicate, in GPSO. Collected and sorted in
    /// memory are a subject alone in order OPS, an object alone in order SPO, and a graph of up to a million quads in an
    /// order that its predicates do not lead. GPSO is the same as PSO here, as a scan of one graph has no other.
    pub fn scan(
        &self,
        pattern: &QuadPattern,
        order: Order,
        wanted: &[Component],
    ) -> Result<QuadScan, StoreError> {
        self.depend_on(pattern);
        self.scan_unrecorded(pattern, order, wanted)
    }

    fn scan_unrecorded(
        &self,
        pattern: &QuadPattern,
        order: Order,
        wanted: &[Component],
    ) -> Result<QuadScan, StoreError> {
        let order = match order {
            Order::Gpso => Order::Pso,
            order => order,
        };
        let merged = |delta| self.merged(delta, pattern, order, None, wanted);
        if let Some(scan) = self.changes().map(merged).transpose()?.flatten() {
            return Ok(scan);
        }
        let scan = of_segment::scan(&self.base, pattern, order, wanted)?;
        Ok(QuadScan::of_base(scan, wanted.len()))
    }

    /// Returns a scan with changes, if any match.
    fn merged(
        &self,
        delta: &Delta,
        pattern: &QuadPattern,
        order: Order,
        ids: Option<Range<u64>>,
        wanted: &[Component],
    ) -> Result<Option<QuadScan>, StoreError> {
        let key = MergeKey::new(pattern, order, wanted);
        let changes = ChangeStream::new(delta, pattern, order, ids.as_ref(), &key.components)?;
        let Some(changes) = changes else {
            return Ok(None);
        };
        let base = match ids {
            Some(ids) => of_segment::scan_range(&self.base, pattern, order, ids, &key.components)?,
            None => of_segment::scan(&self.base, pattern, order, &key.components)?,
        };
        let scan = MergedScan::new(base, changes, key);
        Ok(Some(QuadScan::merged(scan, wanted.len())))
    }

    /// As [`Self::scan`] for a pattern with a predicate and neither subject nor object, in one of the predicate's own
    /// orders, PSO or POS, but only rows whose first free component is in `ids`. Finding the first and the last row
    /// reads at most one page each.
    ///
    /// # Panics
    /// For other patterns and orders.
    pub fn scan_range(
        &self,
        pattern: &QuadPattern,
        order: Order,
        ids: Range<u64>,
        wanted: &[Component],
    ) -> Result<QuadScan, StoreError> {
        self.depend_on(pattern);
        let merged = |delta| self.merged(delta, pattern, order, Some(ids.clone()), wanted);
        if let Some(scan) = self.changes().map(merged).transpose()?.flatten() {
            return Ok(scan);
        }
        let scan = of_segment::scan_range(&self.base, pattern, order, ids, wanted)?;
        Ok(QuadScan::of_base(scan, wanted.len()))
    }

    /// Counts exactly the quads with a predicate whose subject (or object, depending on `end`) is in `ids`. Reads at
    /// most two pages, except for a graph filter where pages hold quads of different graphs.
    pub fn count_range(
        &self,
        predicate: TermId,
        end: End,
        ids: Range<u64>,
        graph: GraphFilter,
    ) -> Result<u64, StoreError> {
        self.depend_on(&QuadPattern {
            graph,
            ..of_predicate(predicate)
        });
        self.estimates().count_range(predicate, end, ids, graph)
    }

    /// Returns two ranges of ids of a dictionary kind that include all terms whose keys start with `prefix`: the
    /// base's matching ids, and the ids of all terms added since. Reads at most two pages, unless keys there are
    /// longer than a page.
    pub fn ids_with_prefix(
        &self,
        kind: TermKind,
        prefix: &[u8],
    ) -> Result<[Range<u64>; 2], StoreError> {
        let ranks = self.base.dictionary.prefix_range(kind, prefix)?;
        let first = TermId::new(kind, 0).0;
        let new = self.delta.as_ref().map(|delta| delta.new_ids(kind));
        let of_base = first + ranks.start..first + ranks.end;
        Ok([of_base, new.unwrap_or_default()])
    }

    /// Returns all quads in SPO order, including external lists: for dumps.
    pub fn quads(&self) -> Result<QuadScan, StoreError> {
        use Component::{Graph, Object, Predicate, Subject};
        let wanted = [Subject, Predicate, Object, Graph];
        self.scan(&QuadPattern::default(), Order::Spo, &wanted)
    }

    /// Counts the pages read so far through the store's pool, by all its users.
    pub fn counters(&self) -> pythia_io::Counters {
        self.base.spo.file().pool().counters()
    }

    /// Returns the speed of the device: its latency, its best queue depth, the cost of a page in a batch and of bytes
    /// in sequence.
    pub fn device(&self) -> &DeviceProfile {
        self.base.spo.file().pool().device()
    }

    /// Returns counts that need no reads: exact, except for distinct terms where quads have changed.
    pub fn statistics(&self) -> &Statistics {
        self.record_all();
        self.estimates().statistics()
    }

    /// Returns whether a graph has a quad.
    pub fn has_graph(&self, graph: TermId) -> Result<bool, StoreError> {
        let pattern = QuadPattern {
            graph: GraphFilter::One(graph),
            ..QuadPattern::default()
        };
        match &self.reads {
            // Its own changes may be the reason.
            Some(_) if self.has_own_changes() => self.depend_on(&pattern),
            Some(reads) => reads.graph(graph),
            None => {}
        }
        Ok(self.estimates().count(&pattern)? > 0)
    }

    /// Returns whether its transaction has changed quads.
    fn has_own_changes(&self) -> bool {
        self.delta
            .as_ref()
            .is_some_and(|delta| delta.has_own_changes())
    }

    /// Appends the edges of `nodes`, which must be sorted and distinct, to `out` in order of node, predicate, other
    /// end and graph. Reads each page once and all pages as one batch; lists of which the tuple pages hold only the
    /// length are fetched from the columns in a second batch.
    pub fn expand(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: Option<TermId>,
        graph: GraphFilter,
        out: &mut Expansion,
    ) -> Result<(), StoreError> {
        self.record(|| {
            nodes
                .iter()
                .map(|&node| end.pattern(node, predicate, graph))
        });
        edges::expand_changed(
            &self.base,
            self.changes(),
            end,
            nodes,
            predicate,
            graph,
            out,
        )
    }

    /// Returns, for each (subject, object), whether the predicate joins them. Pairs may come in any order; all pages
    /// are read as one batch.
    pub fn probe(
        &self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
    ) -> Result<Vec<bool>, StoreError> {
        self.record(|| {
            pairs.iter().map(|&(subject, object)| QuadPattern {
                subject: Some(subject),
                predicate: Some(predicate),
                object: Some(object),
                graph,
            })
        });
        self.probe_unrecorded(predicate, pairs, graph)
    }

    fn probe_unrecorded(
        &self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
    ) -> Result<Vec<bool>, StoreError> {
        let mut found = self.probe_base(predicate, pairs, graph)?;
        let Some(delta) = self.changes().filter(|delta| delta.touches(predicate)) else {
            return Ok(found);
        };
        let changes = delta.probe(predicate, pairs, graph)?;
        for ((found, &pair), change) in found.iter_mut().zip(pairs).zip(changes) {
            match change {
                0 => {}
                1.. => *found = true,
                _ => *found = self.is_left(predicate, pair, graph)?,
            }
        }
        Ok(found)
    }

    /// As [`Self::probe`], on the base alone; terms that it lacks cost nothing.
    fn probe_base(
        &self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
    ) -> Result<Vec<bool>, StoreError> {
        let Some(delta) = &self.delta else {
            return segment_scan::probe(&self.base, predicate, pairs, graph);
        };
        let is_old = |&(subject, object): &(TermId, TermId)| {
            delta.may_be_in_base(subject) && delta.may_be_in_base(object)
        };
        if pairs.iter().all(is_old) {
            return segment_scan::probe(&self.base, predicate, pairs, graph);
        }
        let old: Vec<usize> = (0..pairs.len())
            .filter(|&index| is_old(&pairs[index]))
            .collect();
        let old_pairs: Vec<_> = old.iter().map(|&index| pairs[index]).collect();
        let mut found = vec![false; pairs.len()];
        let answers = segment_scan::probe(&self.base, predicate, &old_pairs, graph)?;
        for (index, answer) in old.into_iter().zip(answers) {
            found[index] = answer;
        }
        Ok(found)
    }

    /// Returns whether the store has each quad (subject, predicate, object and graph, 0 for the default graph). Quads
    /// may come in any order; pages are read in one batch for each predicate and graph. Not recorded: a transaction
    /// asks this of quads that it changes.
    pub(crate) fn contains(&self, quads: &[[u64; 4]]) -> Result<Vec<bool>, StoreError> {
        let mut there = vec![false; quads.len()];
        let mut order: Vec<usize> = (0..quads.len()).collect();
        let list = |index: &usize| (quads[*index][1], quads[*index][3]);
        order.sort_by_key(list);
        for same in order.chunk_by(|a, b| list(a) == list(b)) {
            let (predicate, graph) = list(&same[0]);
            let pairs = same
                .iter()
                .map(|&index| (TermId(quads[index][0]), TermId(quads[index][2])));
            let pairs: Vec<_> = pairs.collect();
            let graph = GraphFilter::One(TermId(graph));
            let found = self.probe_unrecorded(TermId(predicate), &pairs, graph)?;
            for (&index, found) in same.iter().zip(found) {
                there[index] = found;
            }
        }
        Ok(there)
    }

    /// Returns whether a pair that was removed from some graph is still joined in another.
    fn is_left(
        &self,
        predicate: TermId,
        (subject, object): (TermId, TermId),
        graph: GraphFilter,
    ) -> Result<bool, StoreError> {
        let pattern = QuadPattern {
            subject: Some(subject),
            predicate: Some(predicate),
            object: Some(object),
            graph,
        };
        Ok(self.estimates().count(&pattern)? > 0)
    }

    /// Counts the quads in all graphs that have each of `nodes` (sorted, distinct) at `end`. Reads a tuple page for
    /// each node; with `pythia optimize --degrees`, a page for many.
    pub fn degrees(&self, end: End, nodes: &[TermId]) -> Result<Vec<u64>, StoreError> {
        self.record(|| {
            let nodes = nodes.iter();
            nodes.map(|&node| end.pattern(node, None, GraphFilter::Any))
        });
        let mut counts = match self.auxiliaries.degrees() {
            Some(degrees) => degrees.of(end, nodes)?,
            None => {
                let tuples = self.base.tuples(end);
                let counts = nodes.iter().map(|&node| tuples.count(node, None));
                counts.collect::<Result<_, _>>()?
            }
        };
        if let Some(delta) = self.changes() {
            for (count, &node) in counts.iter_mut().zip(nodes) {
                *count = summed(*count, delta.degree(end, node)?)?;
            }
        }
        Ok(counts)
    }

    /// Counts the matching quads exactly. Reads at most two pages, except for a graph filter where pages hold quads
    /// of different graphs, and for a bound subject and object without a predicate.
    pub fn count(&self, pattern: &QuadPattern) -> Result<u64, StoreError> {
        self.depend_on(pattern);
        self.estimates().count(pattern)
    }
}

/// Returns the pattern of all quads with a predicate.
fn of_predicate(predicate: TermId) -> QuadPattern {
    QuadPattern {
        predicate: Some(predicate),
        ..QuadPattern::default()
    }
}

/// Adds the balance of changes to a count of the base.
fn summed(count: u64, change: i64) -> Result<u64, StoreError> {
    let sum = count.checked_add_signed(change);
    sum.ok_or_else(crate::delta::contradiction)
}

fn unknown_id(id: TermId) -> StoreError {
    StoreError::corrupt(
        "dictionary.pages",
        None,
        format!("{id:?} is no term of this store"),
    )
}
