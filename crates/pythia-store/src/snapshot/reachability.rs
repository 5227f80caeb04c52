//! Reachability under changes: the base's labels, with the edges that were added and removed since they were built.
//!
//! Edges that were added only add paths, and edges that were removed only take paths away. Labels therefore decide,
//! with the added edges, which terms may be connected at all; and a connection is certain unless a removed edge may
//! lie on the path: the source reaches the edge's start, and the edge's end reaches the target. Only such pairs are
//! searched for, through terms that may still lead to the target.

use std::sync::Arc;

use parking_lot::Mutex;
use pythia_rdf::TermId;
use rustc_hash::FxHashSet;

use super::edges::expand_changed;
use crate::StoreError;
use crate::auxiliary::reachability::Reachability;
use crate::delta::Delta;
use crate::pattern::{End, Expansion, GraphFilter};
use crate::segment::Segment;

/// Labels are used with at most this many changed edges.
pub(crate) const CHANGED_EDGES_MAX: u64 = 256;
/// Pairs of a term and a target that are looked up to keep a search small; beyond, it follows all edges.
const LOOKED_UP_MAX: usize = 1 << 14;
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
            changed: changed.filter(|changed| !changed.starts.is_empty()),
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
        let known = changed.look_up(&self.labels, pairs, watch)?;
        let mut found: Vec<bool> = known.iter().map(|&known| known == Known::Yes).collect();
        let unsure = (0..pairs.len()).filter(|&index| known[index] == Known::Unsure);
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
            let reached = changed.search(&self.labels, end, start, targets, watch)?;
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

/// What labels and changed edges tell about a pair without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    Unsure,
}

/// The edges of the predicate as they are in the snapshot.
struct CurrentGraph {
    predicate: TermId,
    base: Arc<Segment>,
    delta: Arc<Delta>,
}

/// The changes of a predicate's edges, and what is known about how they are connected.
pub(super) struct ChangedEdges {
    /// The starts of all changed edges, and their ends.
    starts: Vec<TermId>,
    ends: Vec<TermId>,
    added: EdgeSet,
    /// Per edge, those whose start its end is, or gets to over the base; `None` as long as nobody has asked.
    next: Mutex<Vec<Option<EdgeSet>>>,
    graph: CurrentGraph,
}

impl ChangedEdges {
    /// Reads the changes of a predicate: at most [`CHANGED_EDGES_MAX`].
    pub(super) fn read(
        predicate: TermId,
        base: &Arc<Segment>,
        delta: &Arc<Delta>,
    ) -> Result<Self, StoreError> {
        let edges = delta.changed_edges(predicate)?;
        let mut added = EdgeSet::default();
        for (place, _) in edges.iter().enumerate().filter(|(_, edge)| edge.is_added) {
            added.insert(place);
        }
        Ok(Self {
            starts: edges.iter().map(|edge| edge.subject).collect(),
            ends: edges.iter().map(|edge| edge.object).collect(),
            added,
            next: Mutex::new(vec![None; edges.len()]),
            graph: CurrentGraph {
                predicate,
                base: Arc::clone(base),
                delta: Arc::clone(delta),
            },
        })
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
            let leads_there = |place: usize| {
                let further = next[place].expect("learnt with the sources");
                let further = self.closed(further, &next).shared_with(&self.added);
                before.contains(place) || further.meets(before)
            };
            match after.without(&self.added).places().any(leads_there) {
                true => Known::Unsure,
                false => Known::Yes,
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

    /// Searches the edges as they are now, from `start` on, for targets (distinct). Returns those that were found.
    fn search<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        end: End,
        start: TermId,
        mut targets: Vec<TermId>,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<FxHashSet<TermId>, E> {
        targets.sort_unstable();
        targets.dedup();
        let mut reached = FxHashSet::default();
        let mut seen: FxHashSet<TermId> = FxHashSet::default();
        let mut frontier = vec![start];
        let mut rows = Expansion::new(false, false);
        while !frontier.is_empty() && !targets.is_empty() {
            rows.clear();
            self.graph.expand(end, &frontier, &mut rows)?;
            let mut next: Vec<TermId> = rows.other.iter().map(|&id| TermId(id)).collect();
            next.sort_unstable();
            next.dedup();
            let is_next = |target: &&TermId| next.binary_search(target).is_ok();
            reached.extend(targets.iter().filter(is_next));
            targets.retain(|target| !reached.contains(target));
            next.retain(|&term| seen.insert(term));
            watch(seen.capacity() * 9 + rows.other.capacity() * 20)?;
            frontier = self.leading_on(labels, end, next, &targets, &mut reached, watch)?;
            targets.retain(|target| !reached.contains(target));
        }
        Ok(reached)
    }

    /// Returns those of the terms (sorted) from which a search must go on; adds to `reached` the targets that they
    /// certainly lead to.
    fn leading_on<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        end: End,
        terms: Vec<TermId>,
        targets: &[TermId],
        reached: &mut FxHashSet<TermId>,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<TermId>, E> {
        if terms.len() * targets.len() > LOOKED_UP_MAX {
            return Ok(terms);
        }
        let both = |term: TermId| {
            let targets = targets.iter();
            targets.map(move |&target| oriented(end, (term, target)))
        };
        let pairs: Vec<Pair> = terms.iter().flat_map(|&term| both(term)).collect();
        let known = self.look_up(labels, &pairs, watch)?;
        let mut open = Vec::new();
        for (&term, known) in terms.iter().zip(known.chunks(targets.len().max(1))) {
            for (target, known) in targets.iter().zip(known) {
                if *known == Known::Yes {
                    reached.insert(*target);
                }
            }
            if known.contains(&Known::Unsure) {
                open.push(term);
            }
        }
        Ok(open)
    }
}

impl CurrentGraph {
    /// Appends the edges of terms, which are sorted and distinct.
    fn expand(&self, end: End, terms: &[TermId], out: &mut Expansion) -> Result<(), StoreError> {
        let graph = GraphFilter::One(TermId::DEFAULT_GRAPH);
        let (delta, predicate) = (Some(&*self.delta), Some(self.predicate));
        expand_changed(&self.base, delta, end, terms, predicate, graph, out)
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
