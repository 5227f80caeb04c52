//! The reads of a serializable transaction.
//!
//! A transaction's snapshots carry a recorder ([`Reads`]). A read is recorded as a quad pattern, which also covers
//! what was not found; as the key of a term that the store did not have; or as a question which graphs exist. At the
//! commit, all of it is compared with the quads that others have changed since ([`ReadSet`]; decision 39).
//!
//! Patterns are kept as 64-bit hashes: two with the same hash make a conflict that would not have been necessary, and
//! never hide one. Memory is bounded: what does not fit is recorded more coarsely, patterns by their predicates alone,
//! and finally as a read of everything.

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKey, TermKind};
use rustc_hash::FxHashSet;

use crate::allowance::Allowance;
use crate::delta::{Quad, TermStore, TermView};
use crate::pattern::{GraphFilter, QuadPattern};

#[cfg(test)]
mod tests;

/// The most memory that the reads of a transaction take.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of an entry of a set: a number and a control byte.
const ENTRY_BYTES: usize = 9;
/// Capacity of a set that grows from nothing.
const CAPACITY_MIN: usize = 3;

/// The recorder of a transaction's reads, shared by its snapshots.
pub(crate) struct Reads {
    /// `None` once the transaction commits.
    set: Mutex<Option<ReadSet>>,
}

impl Reads {
    /// Returns a recorder of nothing so far, within this memory.
    pub(crate) fn new(allowance: Option<Box<dyn Allowance>>) -> Self {
        Self {
            set: Mutex::new(Some(ReadSet::new(allowance))),
        }
    }

    /// Returns what was read; later reads are not recorded.
    pub(crate) fn take(&self) -> Option<ReadSet> {
        self.set.lock().take()
    }

    /// Returns the bytes that the reads take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.set.lock().as_ref().map_or(0, ReadSet::memory_bytes)
    }

    fn record(&self, record: impl FnOnce(&mut ReadSet)) {
        if let Some(set) = &mut *self.set.lock() {
            record(set);
        }
    }

    /// Records patterns. A pattern with one of the transaction's own new terms, `private`, can only match quads of
    /// others if they add this term: it is a read of an absent term.
    pub(crate) fn patterns(
        &self,
        private: Option<&TermView>,
        patterns: impl Iterator<Item = QuadPattern>,
    ) {
        let private = private.filter(|terms| !terms.is_empty());
        self.record(|set| {
            for pattern in patterns {
                let own = private.and_then(|terms| Some((terms, own_term(&pattern, terms)?)));
                match own {
                    Some((terms, id)) => terms.keys(&[id], |_, key| set.absent(key)),
                    None => set.pattern(&pattern),
                }
            }
        });
    }

    /// Records terms that the store does not have.
    pub(crate) fn absent<'k>(&self, keys: impl Iterator<Item = TermKey<'k>>) {
        self.record(|set| keys.for_each(|key| set.absent(key)));
    }

    /// Records the question whether a graph has a quad.
    pub(crate) fn graph(&self, graph: TermId) {
        self.record(|set| set.graph(graph));
    }

    /// Records a list of the graphs that have quads.
    pub(crate) fn all_graphs(&self) {
        self.record(ReadSet::all_graphs);
    }

    /// Records a read that depends on every quad.
    pub(crate) fn everything(&self) {
        self.record(ReadSet::everything);
    }
}

/// Returns a term of a pattern that is among these.
fn own_term(pattern: &QuadPattern, terms: &TermView) -> Option<TermId> {
    let graph = match pattern.graph {
        GraphFilter::One(graph) => Some(graph),
        GraphFilter::Any | GraphFilter::Named => None,
    };
    let ids = [pattern.subject, pattern.predicate, pattern.object, graph];
    ids.into_iter().flatten().find(|&id| terms.contains(id))
}

/// The detail in which patterns are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Patterns,
    /// By their predicates; every pattern has one.
    Predicates,
    /// Everything was read.
    None,
}

/// The reads of a transaction.
pub(crate) struct ReadSet {
    detail: Detail,
    /// Hashes of patterns.
    patterns: FxHashSet<u64>,
    /// The shapes of these patterns, a bit each.
    shapes: u32,
    /// The predicates of all patterns that have one.
    predicates: FxHashSet<u64>,
    /// True if some pattern has no predicate.
    has_open_predicate: bool,
    /// Terms that were looked up and not found; `None` if they did not fit.
    absent: Option<Arc<TermStore>>,
    /// Graphs that were asked for.
    graphs: FxHashSet<u64>,
    /// True if it matters which graphs exist.
    has_all_graphs: bool,
    allowance: Option<Box<dyn Allowance>>,
    /// True if more may be reserved than is in use.
    has_grown: bool,
}

impl ReadSet {
    fn new(allowance: Option<Box<dyn Allowance>>) -> Self {
        Self {
            detail: Detail::Patterns,
            patterns: FxHashSet::default(),
            shapes: 0,
            predicates: FxHashSet::default(),
            has_open_predicate: false,
            absent: Some(no_terms()),
            graphs: FxHashSet::default(),
            has_all_graphs: false,
            allowance,
            has_grown: false,
        }
    }

    fn pattern(&mut self, pattern: &QuadPattern) {
        if self.detail == Detail::None {
            return;
        }
        match pattern.predicate {
            Some(predicate) if self.predicates.contains(&predicate.0) => {}
            Some(predicate) => {
                if !self.has_room(growth_bytes(&self.predicates)) {
                    return self.everything();
                }
                self.predicates.insert(predicate.0);
            }
            None => self.has_open_predicate = true,
        }
        if self.detail == Detail::Patterns {
            let shape = Shape::of(pattern);
            let hash = shape.hash(&shape.ids_of(pattern));
            match self.patterns.contains(&hash) || self.has_room(growth_bytes(&self.patterns)) {
                true => {
                    self.patterns.insert(hash);
                    self.shapes |= 1 << shape.0;
                }
                false => self.forget_patterns(),
            }
        }
        if self.detail == Detail::Predicates && self.has_open_predicate {
            self.everything();
        }
        self.settle();
    }

    fn forget_patterns(&mut self) {
        self.detail = Detail::Predicates;
        self.patterns = FxHashSet::default();
        self.shapes = 0;
    }

    fn everything(&mut self) {
        self.detail = Detail::None;
        self.patterns = FxHashSet::default();
        self.predicates = FxHashSet::default();
        self.graphs = FxHashSet::default();
        self.absent = None;
        self.has_grown = true;
        self.settle();
    }

    fn absent(&mut self, key: TermKey<'_>) {
        let Some(absent) = &self.absent else {
            return;
        };
        let absent = Arc::clone(absent);
        match self.has_room(absent.growth_bytes(std::iter::once(key))) {
            true => {
                absent.add(std::iter::once(key));
            }
            false => self.absent = None,
        }
        self.settle();
    }

    fn graph(&mut self, graph: TermId) {
        if self.has_all_graphs || self.detail == Detail::None || self.graphs.contains(&graph.0) {
            return;
        }
        match self.has_room(growth_bytes(&self.graphs)) {
            true => {
                self.graphs.insert(graph.0);
            }
            false => self.all_graphs(),
        }
        self.settle();
    }

    fn all_graphs(&mut self) {
        self.has_all_graphs = true;
        self.graphs = FxHashSet::default();
    }

    /// Reserves this many more bytes. Returns false if there is no memory for them.
    fn has_room(&mut self, more: usize) -> bool {
        if more == 0 {
            return true;
        }
        self.has_grown = true;
        let bytes = self.memory_bytes() + more;
        bytes <= BYTES_MAX
            && match &mut self.allowance {
                Some(allowance) => allowance.set(bytes).is_ok(),
                None => true,
            }
    }

    /// Gives back memory that was needed only to grow, or is no longer needed.
    fn settle(&mut self) {
        if !std::mem::take(&mut self.has_grown) {
            return;
        }
        let bytes = self.memory_bytes();
        if let Some(allowance) = &mut self.allowance {
            // Less than before is always granted.
            let _ = allowance.set(bytes);
        }
    }

    fn memory_bytes(&self) -> usize {
        let sets = [&self.patterns, &self.predicates, &self.graphs];
        let entries: usize = sets.iter().map(|set| set.capacity()).sum();
        let terms = self.absent.as_ref().map_or(0, |terms| terms.memory_bytes());
        entries * ENTRY_BYTES + terms
    }

    /// Returns whether a change of the quad by another may change what was read, apart from absent terms and the
    /// existence of graphs.
    pub(crate) fn includes(&self, quad: &Quad) -> bool {
        match self.detail {
            Detail::None => true,
            Detail::Predicates => self.predicates.contains(&quad[1]),
            Detail::Patterns => Shape::all_in(self.shapes).any(|shape| {
                let ids = shape.ids_of_match(quad);
                ids.is_some_and(|ids| self.patterns.contains(&shape.hash(&ids)))
            }),
        }
    }

    /// Returns whether it may matter that the graph exists, or does not.
    pub(crate) fn asks_for(&self, graph: u64) -> bool {
        self.has_all_graphs || self.graphs.contains(&graph)
    }

    /// Returns whether it may matter which graphs exist.
    pub(crate) fn asks_for_graphs(&self) -> bool {
        self.has_all_graphs || !self.graphs.is_empty()
    }

    /// Returns the terms that were looked up and not found; `None` if any term may be among them.
    pub(crate) fn absent_terms(&self) -> Option<TermView> {
        self.absent.clone().map(TermView::new)
    }
}

/// Returns a set of no terms.
fn no_terms() -> Arc<TermStore> {
    Arc::new(TermStore::new(&[0; TermKind::DICTIONARY.len()]))
}

/// Returns the bytes that a set takes more while it grows by an element; 0 if it has room.
fn growth_bytes(set: &FxHashSet<u64>) -> usize {
    match set.len() < set.capacity() {
        true => 0,
        false => (2 * set.capacity() + 2).max(CAPACITY_MIN) * ENTRY_BYTES,
    }
}

/// The components that a pattern binds: a bit each for subject, predicate and object; then the kind of its graph filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape(u32);

impl Shape {
    const SUBJECT: u32 = 1;
    const PREDICATE: u32 = 2;
    const OBJECT: u32 = 4;
    const GRAPH_NAMED: u32 = 8;
    const GRAPH_ONE: u32 = 16;
    const COUNT: u32 = 24;

    fn of(pattern: &QuadPattern) -> Self {
        let bit = |id: Option<TermId>, bit: u32| id.map_or(0, |_| bit);
        let graph = match pattern.graph {
            GraphFilter::Any => 0,
            GraphFilter::Named => Self::GRAPH_NAMED,
            GraphFilter::One(_) => Self::GRAPH_ONE,
        };
        Self(
            bit(pattern.subject, Self::SUBJECT)
                | bit(pattern.predicate, Self::PREDICATE)
                | bit(pattern.object, Self::OBJECT)
                | graph,
        )
    }

    /// Returns the shapes whose bits are set.
    fn all_in(shapes: u32) -> impl Iterator<Item = Self> {
        (0..Self::COUNT)
            .filter(move |shape| shapes >> shape & 1 == 1)
            .map(Self)
    }

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// Returns the ids that a pattern of this shape binds, and 0 for the others.
    fn ids_of(self, pattern: &QuadPattern) -> Quad {
        let graph = match pattern.graph {
            GraphFilter::One(graph) => graph.0,
            GraphFilter::Any | GraphFilter::Named => 0,
        };
        let id = |id: Option<TermId>| id.map_or(0, |id| id.0);
        [
            id(pattern.subject),
            id(pattern.predicate),
            id(pattern.object),
            graph,
        ]
    }

    /// Returns the ids of the one pattern of this shape that matches a quad; `None` if none does.
    fn ids_of_match(self, &[s, p, o, g]: &Quad) -> Option<Quad> {
        let id = |bit: u32, id: u64| if self.has(bit) { id } else { 0 };
        let matches = !self.has(Self::GRAPH_NAMED) || g != TermId::DEFAULT_GRAPH.0;
        matches.then(|| {
            [
                id(Self::SUBJECT, s),
                id(Self::PREDICATE, p),
                id(Self::OBJECT, o),
                id(Self::GRAPH_ONE, g),
            ]
        })
    }

    fn hash(self, ids: &Quad) -> u64 {
        let mix = |hash: u64, id: &u64| {
            let mixed = (hash ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 32
        };
        // Shapes differ in all bits, as ids that differ little must not make up for them.
        let shape = (u64::from(self.0) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ids.iter().fold(shape, mix)
    }
}
