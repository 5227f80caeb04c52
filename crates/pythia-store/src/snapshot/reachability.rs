//! Reachability under changes: the base's labels, with the edges that were added and removed since they were built.
//!
//! Edges that were added only add paths, and edges that were removed only take paths away. Labels therefore decide,
//! with the added edges, which terms may be connected at all; and a connection is certain unless a removed edge may
//! lie on the path: the source reaches the edge's start, and the edge's end reaches the target. Only such pairs are
//! searched for.
//!
//! A removed edge takes no path away if its ends are still connected in another way. Each question finds that out for a
//! few edges, and all snapshots of the same quads share the result. Where most terms reach each other, questions soon
//! need no search.

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_rdf::TermId;
use rustc_hash::FxHashSet;

use super::edges::expand_changed;
use crate::StoreError;
use crate::auxiliary::reachability::Reachability;
use crate::delta::{ChangedEdge, Delta};
use crate::pattern::{End, Expansion, GraphFilter};
use crate::scan;
use crate::segment::Segment;

/// Labels are used with at most this many changed edges.
pub(crate) const CHANGED_EDGES_MAX: u64 = 256;
/// Searches of pairs for each search of the ends of a removed edge.
const SEARCHES_PER_EDGE: usize = 4;
/// Targets of a source that are searched for one by one, from both ends.
const TARGETS_ALONE_MAX: usize = 16;
/// Terms of a frontier whose edges are counted before they are read.
const COUNTED_MAX: usize = 8;
/// Pairs that are looked up together.
const TOGETHER: usize = 1 << 16;

/// A pair of terms: whether a path leads from the first to the second.
type Pair = (TermId, TermId);

/// The reachability of one predicate in a snapshot, by labels.
pub struct CurrentReachability {
    labels: Reachability,
    changed: Option<Arc<ChangedEdges>>,
}

impl CurrentReachability {
    /// Returns the labels, with the changes since if there are any.
    pub(super) fn new(labels: &Reachability, changed: Option<Arc<ChangedEdges>>) -> Self {
        Self {
            labels: labels.clone(),
            changed: changed.filter(|changed| !changed.known.starts.is_empty()),
        }
    }

    /// Returns, for each (from, to), whether a path of one or more edges leads there. Pairs may come in any order.
    ///
    /// `watch` is called between batches of a search with the bytes that it holds; its error ends the search.
    pub fn reaches<E: From<StoreError>>(
        &self,
        pairs: &[Pair],
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<bool>, E> {
        let Some(changed) = &self.changed else {
            return self.labels.reaches(pairs, watch);
        };
        let edges = &changed.known;
        let mut known = edges.look_up(&self.labels, pairs, watch)?;
        if changed.find_redundant(&known, watch)? {
            known = edges.look_up(&self.labels, pairs, watch)?;
        }
        let mut found: Vec<bool> = known.iter().map(|&known| known == Known::Yes).collect();
        let unsure = (0..pairs.len()).filter(|&index| matches!(known[index], Known::Unsure(_)));
        let mut unsure: Vec<(Pair, usize)> = unsure.map(|index| (pairs[index], index)).collect();
        // One search finds all targets of a source, or all sources of a target.
        let froms: FxHashSet<TermId> = unsure.iter().map(|((from, _), _)| *from).collect();
        let tos: FxHashSet<TermId> = unsure.iter().map(|((_, to), _)| *to).collect();
        let end = match froms.len() <= tos.len() {
            true => End::Subject,
            false => End::Object,
        };
        let turned = |&(pair, _): &(Pair, usize)| oriented(end, pair);
        unsure.sort_unstable_by_key(turned);
        for same in unsure.chunk_by(|a, b| turned(a).0 == turned(b).0) {
            let start = turned(&same[0]).0;
            let targets = same.iter().map(|one| turned(one).1).collect();
            let reached = changed.graph.reached(end, start, targets, watch)?;
            for one in same {
                found[one.1] = reached.contains(&turned(one).1);
            }
        }
        Ok(found)
    }
}

/// A set of at most [`CHANGED_EDGES_MAX`] changed edges, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EdgeSet([u64; (CHANGED_EDGES_MAX / 64) as usize]);

impl EdgeSet {
    fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn contains(&self, place: usize) -> bool {
        self.0[place / 64] & (1 << (place % 64)) != 0
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    fn shared_with(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn without(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    fn places(self) -> impl Iterator<Item = usize> {
        (0..64 * self.0.len()).filter(move |&place| self.contains(place))
    }

    fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}

/// The answer for a pair that labels and changed edges give without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    /// These removed edges may have been on every path.
    Unsure(EdgeSet),
}

/// The edges of the predicate as they are in the snapshot.
struct CurrentGraph {
    predicate: TermId,
    base: Arc<Segment>,
    delta: Arc<Delta>,
}

/// The changes of a predicate's edges in a snapshot.
pub(super) struct ChangedEdges {
    known: Arc<KnownEdges>,
    graph: CurrentGraph,
}

/// Changed edges, and what is known about how they are connected. It holds for all snapshots with these changes.
pub(super) struct KnownEdges {
    /// The starts of all changed edges, and their ends.
    starts: Vec<TermId>,
    ends: Vec<TermId>,
    added: EdgeSet,
    /// Per edge, those whose start its end is, or gets to over the base; `None` as long as nobody has asked.
    next: Mutex<Vec<Option<EdgeSet>>>,
    redundant: Mutex<Redundant>,
}

/// The removed edges that were looked at.
#[derive(Clone, Copy, Default)]
struct Redundant {
    /// Those whose ends are still connected: nothing is lost by their removal.
    yes: EdgeSet,
    /// Those whose ends are not.
    no: EdgeSet,
}

impl ChangedEdges {
    /// Reads the changes of a predicate: at most [`CHANGED_EDGES_MAX`]. Takes over what was `known` if they are the same.
    pub(super) fn read(
        predicate: TermId,
        base: &Arc<Segment>,
        delta: &Arc<Delta>,
        known: Option<&Arc<KnownEdges>>,
    ) -> Result<Self, StoreError> {
        let edges = KnownEdges::of(&delta.changed_edges(predicate)?);
        let known = known.filter(|known| known.has_same_edges(&edges));
        Ok(Self {
            known: known.map_or_else(|| Arc::new(edges), Arc::clone),
            graph: CurrentGraph {
                predicate,
                base: Arc::clone(base),
                delta: Arc::clone(delta),
            },
        })
    }

    /// Returns what is known, for snapshots with the same changes.
    pub(super) fn known(&self) -> &Arc<KnownEdges> {
        &self.known
    }

    /// Finds out for some of the removed edges that leave pairs unsure whether their ends are still connected. Returns
    /// whether any are.
    fn find_redundant<E: From<StoreError>>(
        &self,
        found: &[Known],
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (mut suspects, mut pairs) = (EdgeSet::default(), 0_usize);
        for found in found {
            if let Known::Unsure(edges) = found {
                suspects.unite(edges);
                pairs += 1;
            }
        }
        let known = &self.known;
        let unknown = suspects.without(&known.redundant.lock().no).places();
        let mut is_any = false;
        for place in unknown.take(pairs.div_ceil(SEARCHES_PER_EDGE)) {
            let (start, end) = (known.starts[place], known.ends[place]);
            let connected = self.graph.connects(start, end, watch)?;
            let mut redundant = known.redundant.lock();
            match connected {
                true => redundant.yes.insert(place),
                false => redundant.no.insert(place),
            }
            is_any |= connected;
        }
        Ok(is_any)
    }
}

impl KnownEdges {
    fn of(edges: &[ChangedEdge]) -> Self {
        let mut added = EdgeSet::default();
        for (place, _) in edges.iter().enumerate().filter(|(_, edge)| edge.is_added) {
            added.insert(place);
        }
        Self {
            starts: edges.iter().map(|edge| edge.subject).collect(),
            ends: edges.iter().map(|edge| edge.object).collect(),
            added,
            next: Mutex::new(vec![None; edges.len()]),
            redundant: Mutex::default(),
        }
    }

    fn has_same_edges(&self, other: &Self) -> bool {
        (&self.starts, &self.ends, self.added) == (&other.starts, &other.ends, other.added)
    }

    /// Looks pairs up without a search of the changed graph.
    fn look_up<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        pairs: &[Pair],
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<Known>, E> {
        let in_base = labels.reaches(pairs, watch)?;
        let sources = distinct(pairs.iter().map(|pair| pair.0));
        let targets = distinct(pairs.iter().map(|pair| pair.1));
        let after = near(labels, End::Subject, &sources, &self.starts, watch)?;
        let before = near(labels, End::Object, &targets, &self.ends, watch)?;
        let all = after.iter().fold(EdgeSet::default(), |mut all, set| {
            all.unite(set);
            all
        });
        let harmless = {
            let mut harmless = self.added;
            harmless.unite(&self.redundant.lock().yes);
            harmless
        };
        // Over which added edges a path may go on, and from which removed ones.
        let next = self.next(labels, all, watch)?;
        let after: Vec<EdgeSet> = after
            .into_iter()
            .map(|set| self.closed(set, &next))
            .collect();
        let known = pairs.iter().zip(in_base).map(|((from, to), in_base)| {
            let after = &after[sources.binary_search(from).expect("one of the sources")];
            let before = &before[targets.binary_search(to).expect("one of the targets")];
            if !in_base && !after.shared_with(&self.added).meets(before) {
                return Known::No;
            }
            let leads_there = |place: &usize| {
                let further = next[*place].expect("learnt with the sources");
                let further = self.closed(further, &next).shared_with(&self.added);
                before.contains(*place) || further.meets(before)
            };
            let mut missed = EdgeSet::default();
            let suspects = after.without(&harmless).places();
            suspects
                .filter(leads_there)
                .for_each(|place| missed.insert(place));
            match missed == EdgeSet::default() {
                true => Known::Yes,
                false => Known::Unsure(missed),
            }
        });
        Ok(known.collect())
    }

    /// Returns the edges of a set, and all edges that may follow them over added ones.
    fn closed(&self, set: EdgeSet, next: &[Option<EdgeSet>]) -> EdgeSet {
        let (mut all, mut followed) = (set, EdgeSet::default());
        loop {
            let open = all.shared_with(&self.added).without(&followed);
            if open == EdgeSet::default() {
                return all;
            }
            for place in open.places() {
                all.unite(&next[place].expect("learnt with the set"));
            }
            followed.unite(&open);
        }
    }

    /// Returns what follows edges, known at least for those of a set and for all that may follow them.
    fn next<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        mut wanted: EdgeSet,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<Option<EdgeSet>>, E> {
        let mut next = self.next.lock().clone();
        let mut seen = EdgeSet::default();
        while wanted != EdgeSet::default() {
            let missing = wanted.places().filter(|&place| next[place].is_none());
            let missing: Vec<usize> = missing.collect();
            let ends: Vec<TermId> = missing.iter().map(|&place| self.ends[place]).collect();
            let found = near(labels, End::Subject, &ends, &self.starts, watch)?;
            for (place, found) in missing.into_iter().zip(found) {
                next[place] = Some(found);
            }
            seen.unite(&wanted);
            let mut further = EdgeSet::default();
            for place in wanted.places() {
                further.unite(&next[place].expect("just found"));
            }
            wanted = further.without(&seen);
        }
        let mut shared = self.next.lock();
        for (shared, next) in shared.iter_mut().zip(&next) {
            *shared = shared.or(*next);
        }
        Ok(next)
    }
}

impl CurrentGraph {
    /// Returns those of the targets (of any number) that a path of one or more edges leads to from `start`.
    fn reached<E: From<StoreError>>(
        &self,
        end: End,
        start: TermId,
        targets: Vec<TermId>,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<FxHashSet<TermId>, E> {
        let mut open = distinct(targets.into_iter());
        let mut reached = FxHashSet::default();
        if open.len() <= TARGETS_ALONE_MAX {
            for target in open {
                let (from, to) = oriented(end, (start, target));
                if self.connects(from, to, watch)? {
                    reached.insert(target);
                }
            }
            return Ok(reached);
        }
        let mut side = Side::new(end, start);
        while !side.frontier.is_empty() && !open.is_empty() {
            side.advance(self, |term| {
                if open.binary_search(&term).is_ok() {
                    reached.insert(term);
                }
            })?;
            open.retain(|target| !reached.contains(target));
            watch(side.bytes())?;
        }
        Ok(reached)
    }

    /// Returns whether a path of one or more edges leads from one term to another: searches from both ends.
    fn connects<E: From<StoreError>>(
        &self,
        from: TermId,
        to: TermId,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut one = Side::new(End::Subject, from);
        let mut other = Side::new(End::Object, to);
        while !one.frontier.is_empty() && !other.frontier.is_empty() {
            if other.edges(self)? < one.edges(self)? {
                std::mem::swap(&mut one, &mut other);
            }
            let mut is_met = false;
            one.advance(self, |term| is_met |= other.seen.contains(&term))?;
            if is_met {
                return Ok(true);
            }
            watch(one.bytes() + other.bytes())?;
        }
        Ok(false)
    }

    /// Appends the edges of terms, which are sorted and distinct.
    fn expand(&self, end: End, terms: &[TermId], out: &mut Expansion) -> Result<(), StoreError> {
        let graph = GraphFilter::One(TermId::DEFAULT_GRAPH);
        let (delta, predicate) = (Some(&*self.delta), Some(self.predicate));
        expand_changed(&self.base, delta, end, terms, predicate, graph, out)
    }
}

/// One side of a search.
struct Side {
    end: End,
    /// The start, and the terms found.
    seen: FxHashSet<TermId>,
    /// Those whose edges were not read yet, sorted.
    frontier: Vec<TermId>,
    rows: Expansion,
}

impl Side {
    fn new(end: End, start: TermId) -> Self {
        Self {
            end,
            seen: FxHashSet::from_iter([start]),
            frontier: vec![start],
            rows: Expansion::new(false, false),
        }
    }

    /// Reads the edges of the frontier; calls `each` with the term at the other end of each, found before or not.
    fn advance(
        &mut self,
        graph: &CurrentGraph,
        mut each: impl FnMut(TermId),
    ) -> Result<(), StoreError> {
        self.rows.clear();
        graph.expand(self.end, &self.frontier, &mut self.rows)?;
        self.frontier.clear();
        for &id in &self.rows.other {
            each(TermId(id));
            if self.seen.insert(TermId(id)) {
                self.frontier.push(TermId(id));
            }
        }
        self.frontier.sort_unstable();
        Ok(())
    }

    /// Returns about how many edges of the base the frontier has.
    fn edges(&self, graph: &CurrentGraph) -> Result<u64, StoreError> {
        if self.frontier.len() > COUNTED_MAX {
            return Ok(self.frontier.len() as u64 * COUNTED_MAX as u64);
        }
        let count = |&term: &TermId| {
            let pattern = self
                .end
                .pattern(term, Some(graph.predicate), GraphFilter::Any);
            scan::count(&graph.base, &pattern)
        };
        self.frontier.iter().map(count).sum()
    }

    fn bytes(&self) -> usize {
        self.seen.capacity() * 9 + self.frontier.capacity() * 8 + self.rows.other.capacity() * 12
    }
}

/// Returns, for each term, the places of those of `others` (at most [`CHANGED_EDGES_MAX`]) that it is, or that edges of
/// the base lead to: from the term to them ([`End::Subject`]), or from them to the term.
fn near<E: From<StoreError>>(
    labels: &Reachability,
    end: End,
    terms: &[TermId],
    others: &[TermId],
    watch: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<Vec<EdgeSet>, E> {
    let mut sets = vec![EdgeSet::default(); terms.len()];
    if others.is_empty() {
        return Ok(sets);
    }
    let together = TOGETHER / others.len();
    for (terms, sets) in terms.chunks(together).zip(sets.chunks_mut(together)) {
        let with_others = |&term: &TermId| {
            others
                .iter()
                .map(move |&other| oriented(end, (term, other)))
        };
        let pairs: Vec<Pair> = terms.iter().flat_map(with_others).collect();
        let found = labels.reaches(&pairs, watch)?;
        for (index, found) in found.into_iter().enumerate() {
            let (term, place) = (index / others.len(), index % others.len());
            if found || terms[term] == others[place] {
                sets[term].insert(place);
            }
        }
    }
    Ok(sets)
}

/// Turns (start, found) of a search from one end into (from, to), and back.
fn oriented(end: End, (one, other): Pair) -> Pair {
    match end {
        End::Subject => (one, other),
        End::Object => (other, one),
    }
}

fn distinct(terms: impl Iterator<Item = TermId>) -> Vec<TermId> {
    let mut terms: Vec<TermId> = terms.collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}
