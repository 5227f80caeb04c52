//! Reachability under changes: the base's labels, with the edges that were added and removed since they were built.
//!
//! Edges that were added only add paths, and edges that were removed only take paths away. Labels therefore decide,
//! with the added edges, which terms may be connected at all; and a connection is certain unless a removed edge may
//! lie on the path: the source reaches the edge's start, and the edge's end reaches the target. Only such pairs are
//! searched for, through terms that may still lead to the target.

use std::sync::Arc;

use pythia_rdf::TermId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::edges::expand_changed;
use crate::StoreError;
use crate::auxiliary::reachability::Reachability;
use crate::delta::{ChangedEdge, Delta};
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
    changed: Option<Changed>,
}

impl CurrentReachability {
    pub(super) fn new(labels: &Reachability) -> Self {
        Self {
            labels: labels.clone(),
            changed: None,
        }
    }

    /// Adds changes of the predicate: at most [`CHANGED_EDGES_MAX`].
    pub(super) fn with_changes(
        self,
        base: &Arc<Segment>,
        delta: &Arc<Delta>,
    ) -> Result<Self, StoreError> {
        let edges = delta.changed_edges(self.labels.predicate())?;
        if edges.is_empty() {
            return Ok(self);
        }
        let graph = CurrentGraph {
            predicate: self.labels.predicate(),
            base: Arc::clone(base),
            delta: Arc::clone(delta),
        };
        let changed = Some(Changed::new(&self.labels, &edges, graph)?);
        Ok(Self { changed, ..self })
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

/// The changed edges a term can get to, or that can get to a term, over edges of the base and added ones.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    added: EdgeSet,
    removed: EdgeSet,
}

/// The edges of the predicate as they are in the snapshot.
struct CurrentGraph {
    predicate: TermId,
    base: Arc<Segment>,
    delta: Arc<Delta>,
}

/// The changes of a predicate's edges, and how they are connected.
struct Changed {
    added: Vec<Pair>,
    removed: Vec<Pair>,
    /// Per added edge, the added edges that its end gets to, itself included.
    followed_by: Vec<EdgeSet>,
    /// Per removed edge, the added edges that get to its start over the base.
    before_removed: Vec<EdgeSet>,
    /// Per removed edge, the added edges that its end gets to.
    after_removed: Vec<EdgeSet>,
    graph: CurrentGraph,
}

impl Changed {
    fn new(
        labels: &Reachability,
        edges: &[ChangedEdge],
        graph: CurrentGraph,
    ) -> Result<Self, StoreError> {
        let of = |is_added: bool| {
            let edges = edges.iter().filter(move |edge| edge.is_added == is_added);
            edges.map(|edge| (edge.subject, edge.object)).collect()
        };
        let (added, removed): (Vec<Pair>, Vec<Pair>) = (of(true), of(false));
        let (starts, targets) = (ends(&added, End::Subject), ends(&added, End::Object));
        let calm = &mut |_: usize| Ok::<(), StoreError>(());
        let mut followed_by = near(labels, End::Subject, &targets, &starts, calm)?;
        close(&mut followed_by);
        let removed_starts = ends(&removed, End::Subject);
        let before_removed = near(labels, End::Object, &removed_starts, &targets, calm)?;
        let removed_ends = ends(&removed, End::Object);
        let after_removed = near(labels, End::Subject, &removed_ends, &starts, calm)?;
        let after_removed = after_removed.into_iter();
        let after_removed = after_removed.map(|after| all_after(after, &followed_by));
        let after_removed = after_removed.collect();
        Ok(Self {
            added,
            removed,
            followed_by,
            before_removed,
            after_removed,
            graph,
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
        let after = self.after_sources(labels, pairs.iter().map(|pair| pair.0), watch)?;
        let before = self.before_targets(labels, pairs.iter().map(|pair| pair.1), watch)?;
        let known = pairs.iter().zip(in_base).map(|((from, to), in_base)| {
            let (after, before) = (&after[from], &before[to]);
            if !in_base && !after.added.meets(&before.added) {
                Known::No
            } else if after.removed.meets(&before.removed) {
                Known::Unsure
            } else {
                Known::Yes
            }
        });
        Ok(known.collect())
    }

    /// Returns the changed edges that each source gets to.
    fn after_sources<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        sources: impl Iterator<Item = TermId>,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<FxHashMap<TermId, Near>, E> {
        let sources = distinct(sources);
        let of = |edges: &[Pair]| ends(edges, End::Subject);
        let added = near(labels, End::Subject, &sources, &of(&self.added), watch)?;
        let removed = near(labels, End::Subject, &sources, &of(&self.removed), watch)?;
        let each = added.into_iter().zip(removed).map(|(added, mut removed)| {
            let added = all_after(added, &self.followed_by);
            for (place, before) in self.before_removed.iter().enumerate() {
                if before.meets(&added) {
                    removed.insert(place);
                }
            }
            Near { added, removed }
        });
        Ok(sources.iter().copied().zip(each).collect())
    }

    /// Returns the changed edges that get to each target. Of the added ones only those that need no further one.
    fn before_targets<E: From<StoreError>>(
        &self,
        labels: &Reachability,
        targets: impl Iterator<Item = TermId>,
        watch: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<FxHashMap<TermId, Near>, E> {
        let targets = distinct(targets);
        let of = |edges: &[Pair]| ends(edges, End::Object);
        let added = near(labels, End::Object, &targets, &of(&self.added), watch)?;
        let removed = near(labels, End::Object, &targets, &of(&self.removed), watch)?;
        let each = added.into_iter().zip(removed).map(|(added, mut removed)| {
            for (place, after) in self.after_removed.iter().enumerate() {
                if after.meets(&added) {
                    removed.insert(place);
                }
            }
            Near { added, removed }
        });
        Ok(targets.iter().copied().zip(each).collect())
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

/// Adds to each set what the edges in it are followed by.
fn close(followed_by: &mut [EdgeSet]) {
    for (place, set) in followed_by.iter_mut().enumerate() {
        set.insert(place);
    }
    for through in 0..followed_by.len() {
        let further = followed_by[through];
        for set in followed_by.iter_mut().filter(|set| set.contains(through)) {
            set.unite(&further);
        }
    }
}

/// Returns the edges of a set and all that follow them.
fn all_after(set: EdgeSet, followed_by: &[EdgeSet]) -> EdgeSet {
    let mut all = set;
    for (place, further) in followed_by.iter().enumerate() {
        if set.contains(place) {
            all.unite(further);
        }
    }
    all
}

fn ends(edges: &[Pair], end: End) -> Vec<TermId> {
    edges.iter().map(|&edge| oriented(end, edge).0).collect()
}

fn distinct(terms: impl Iterator<Item = TermId>) -> Vec<TermId> {
    let mut terms: Vec<TermId> = terms.collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}
