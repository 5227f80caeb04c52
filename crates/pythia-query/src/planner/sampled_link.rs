//! Samples of links, one end of which other patterns restrict by a constant.
//!
//! In `?product :producer ?p . ?p :country :DE`, no count says how many of the links the country keeps: all, if the
//! producers are in one country, or none, if only other subjects are there. A sample of the links says it: its ends
//! are looked up (Leis et al., Cardinality Estimation Done Right: Index-Based Join Sampling, CIDR 2017, section 3).
//!
//! Links of one predicate differ by what they start from. In `?product a ?type . ?type a :ProductType`, few of all types
//! are product types, but all of those of things with a producer are. So there is a sample of all links, and one for each
//! other pattern that selects some of the nodes of the near end, whose links start at nodes of a sample of that pattern.

use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;

use pythia_rdf::TermId;
use pythia_store::{
    Component, End, Estimates, GraphFilter, Order, QuadPattern, Statistics, StoreError,
};
use rustc_hash::FxHashMap;

use super::element::{Element, PatternGraph, PatternTerm, Triple};
use super::order::NUMBERED_MAX;
use super::set_estimate::members;

/// Maximum number of links in a sample.
pub(super) const SAMPLE_LINKS: usize = 64;
/// Restrictions with fewer matches than this are read, once; in others, each term of a sample is looked up.
const READ_MATCHES: f64 = 8192.0;
/// Maximum number of samples, and of restrictions' matches, that are kept for a query: at most 4 MB.
const KEPT_MAX: usize = 64;
/// Minimum number of links in a sample of the links of some nodes.
const NEAR_LINKS_MIN: usize = 8;
/// Patterns whose nodes are less than this share of a link's near ends have a sample of their own.
const SELECTED_SHARE: f64 = 0.5;

/// Links of which a sample was looked up.
#[derive(Debug)]
pub(super) struct SampledLink {
    /// The pattern of the links, and the other one of their near end if they start at its nodes.
    elements: u64,
    /// The slot of the far end, which the restrictions bind.
    pub(super) slot: usize,
    /// The elements that restrict the slot by a constant.
    restrictions: u64,
    /// For each link of the sample: the restrictions that its far end matches.
    matched: Vec<u64>,
    /// Number of distinct terms of the slot by the links alone.
    distinct: f64,
}

/// The share of a link's matches that other patterns of a set keep.
pub(super) struct Kept {
    /// The slot that they restrict.
    pub(super) slot: usize,
    pub(super) restrictions: u64,
    pub(super) share: f64,
    /// Number of distinct terms of the slot that are left.
    pub(super) distinct: f64,
}

/// An end of a pattern that matches all links of a predicate between two variables.
#[derive(Clone, Copy)]
struct LinkEnd {
    element: usize,
    count: f64,
    predicate: TermId,
    end: End,
    slot: usize,
    /// Number of distinct terms at this end.
    distinct: f64,
}

/// A pattern that joins a slot to a constant by a predicate.
struct Restriction {
    element: usize,
    count: f64,
    slot: usize,
    end: End,
    predicate: TermId,
    constant: TermId,
    graph: GraphFilter,
}

/// The samples of a query. A group may be planned several times, with the same samples.
#[derive(Default)]
pub(super) struct Samples {
    /// The far ends of links, by their predicate and end, and by those at whose nodes they start.
    ends: Remembered<(Place, Option<Place>), TermId>,
    /// The sorted matches of restrictions.
    matches: Remembered<(Place, TermId, GraphFilter), u64>,
}

/// Lists by keys, of which at most [`KEPT_MAX`] are kept.
struct Remembered<K, T>(RefCell<FxHashMap<K, Rc<[T]>>>);

/// A predicate and an end of its links.
type Place = (TermId, End);

/// Number of links, predicate, and whether the end is their object.
type Rank = (u64, TermId, bool);

impl SampledLink {
    /// Returns what restrictions in a set keep of the links, if the set has both.
    pub(super) fn kept(&self, set: u64, elements: &[Element]) -> Option<Kept> {
        let restrictions = self.restrictions & set;
        if restrictions == 0 || self.elements & !set != 0 {
            return None;
        }
        let is_kept = |matched: &&u64| **matched & restrictions == restrictions;
        let kept = self.matched.iter().filter(is_kept).count() as f64;
        let links = self.matched.len() as f64;
        let counts = members(restrictions).filter_map(|index| match &elements[index] {
            Element::Triple(triple) => Some(triple.count),
            Element::Path(_) | Element::Operand(_) => None,
        });
        let least = counts.fold(f64::MAX, f64::min);
        let share = match kept > 0.0 {
            true => kept / links,
            false => (least / self.distinct).min(1.0 / links),
        };
        Some(Kept {
            slot: self.slot,
            restrictions,
            share,
            distinct: (self.distinct * share).min(least).max(1.0),
        })
    }
}

/// A sample that could be taken.
struct Candidate<'r> {
    /// The end whose nodes are looked up.
    far: LinkEnd,
    /// The end of the pattern at whose nodes the links start; `None` for all links.
    other: Option<LinkEnd>,
    /// The restrictions that are looked up.
    asked: Vec<&'r Restriction>,
}

/// Takes up to `most` samples of links with a restricted end, in the order in which estimates prefer them. Leaves out
/// restrictions with too few matches for the size of a sample.
pub(super) fn sampled_links(
    elements: &[Element],
    estimates: Estimates<'_>,
    statistics: &Statistics,
    (samples, most): (&Samples, usize),
) -> Result<Vec<SampledLink>, StoreError> {
    let mut restrictions: Vec<Restriction> = Vec::new();
    let mut links: Vec<[LinkEnd; 2]> = Vec::new();
    for (index, element) in elements.iter().enumerate().take(NUMBERED_MAX) {
        if let Element::Triple(triple) = element {
            restrictions.extend(restriction(index, triple));
            links.extend(link_ends(index, triple, statistics));
        }
    }
    let mut candidates = candidates(&links, &restrictions);
    candidates.sort_by_key(|candidate| (candidate.other.is_some(), candidate.rank()));
    candidates.truncate(most);
    // The links of some nodes say more than all links.
    candidates.sort_by_key(|candidate| (candidate.other.is_none(), candidate.rank()));
    let mut taken = Vec::new();
    for candidate in &candidates {
        taken.extend(candidate.take(estimates, samples)?);
    }
    Ok(taken)
}

fn candidates<'r>(links: &[[LinkEnd; 2]], restrictions: &'r [Restriction]) -> Vec<Candidate<'r>> {
    let mut found = Vec::new();
    for (near, far) in links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]) {
        let asked = restrictions.iter().filter(|other| other.is_shown_by(&far));
        let asked: Vec<&Restriction> = asked.collect();
        if asked.is_empty() {
            continue;
        }
        let others = links.iter().flatten().filter(|other| other.selects(&near));
        for other in others.map(|other| Some(*other)).chain([None]) {
            found.push(Candidate {
                far,
                other,
                asked: asked.clone(),
            });
        }
    }
    found
}

impl Candidate<'_> {
    /// Returns the key that candidates are sorted by. It is the same for each order of the elements.
    fn rank(&self) -> (Option<Rank>, Rank) {
        (self.other.map(|other| other.rank()), self.far.rank())
    }

    /// Takes the sample and looks up its far ends; `None` if there are too few links.
    fn take(
        &self,
        estimates: Estimates<'_>,
        samples: &Samples,
    ) -> Result<Option<SampledLink>, StoreError> {
        let far = &self.far;
        let other = self.other.map_or(0, |other| 1 << other.element);
        let elements = 1 << far.element | other;
        let terms = samples.ends(estimates, far, self.other.as_ref())?;
        if terms.is_empty() || (self.other.is_some() && terms.len() < NEAR_LINKS_MIN) {
            return Ok(None);
        }
        let mut matched = vec![0; terms.len()];
        let mut restrictions = 0;
        for restriction in &self.asked {
            let bit = 1 << restriction.element;
            restrictions |= bit;
            let found = restriction.matches(estimates, samples, &terms)?;
            let found = matched.iter_mut().zip(found).filter(|(_, found)| *found);
            found.for_each(|(matched, _)| *matched |= bit);
        }
        Ok(Some(SampledLink {
            elements,
            slot: far.slot,
            restrictions,
            matched,
            distinct: far.distinct,
        }))
    }
}

impl LinkEnd {
    fn place(&self) -> Place {
        (self.predicate, self.end)
    }

    fn rank(&self) -> Rank {
        (self.count as u64, self.predicate, self.end == End::Object)
    }

    /// Returns whether the nodes of this end may be a small part of those of another pattern's end.
    fn selects(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.element != other.element
            && self.distinct < other.distinct * SELECTED_SHARE
    }
}

impl Restriction {
    /// Returns whether a sample of links can show what it keeps of them. Patterns with one subject are a star, which
    /// characteristic sets count.
    fn is_shown_by(&self, link: &LinkEnd) -> bool {
        self.slot == link.slot
            && !(link.end == End::Subject && self.end == End::Subject)
            && self.count * SAMPLE_LINKS as f64 >= link.distinct
    }

    /// Returns which of the terms it matches.
    fn matches(
        &self,
        estimates: Estimates<'_>,
        samples: &Samples,
        terms: &[TermId],
    ) -> Result<Vec<bool>, StoreError> {
        if self.count < READ_MATCHES {
            let matches = samples.matches(estimates, self)?;
            let is_there = |term: &TermId| matches.binary_search(&term.0).is_ok();
            return Ok(terms.iter().map(is_there).collect());
        }
        let pair = |&term: &TermId| match self.end {
            End::Subject => (term, self.constant),
            End::Object => (self.constant, term),
        };
        let pairs: Vec<(TermId, TermId)> = terms.iter().map(pair).collect();
        estimates.probe(self.predicate, &pairs, self.graph)
    }
}

impl Samples {
    /// Returns the far ends of a sample of all links, or of those that start at nodes of another pattern.
    fn ends(
        &self,
        estimates: Estimates<'_>,
        far: &LinkEnd,
        other: Option<&LinkEnd>,
    ) -> Result<Rc<[TermId]>, StoreError> {
        let key = (far.place(), other.map(LinkEnd::place));
        self.ends.get_or_make(key, || {
            let Some(other) = other else {
                return estimates.sample(far.predicate, far.end, SAMPLE_LINKS);
            };
            let mut nodes = estimates.sample(other.predicate, other.end, SAMPLE_LINKS)?;
            nodes.dedup();
            estimates.sample_links(far.predicate, far.end.other(), &nodes)
        })
    }

    /// Returns all terms that a restriction matches.
    fn matches(&self, estimates: Estimates<'_>, of: &Restriction) -> Result<Rc<[u64]>, StoreError> {
        let mut pattern = QuadPattern {
            predicate: Some(of.predicate),
            graph: of.graph,
            ..QuadPattern::default()
        };
        let (order, component) = match of.end {
            End::Subject => {
                pattern.object = Some(of.constant);
                (Order::Pos, Component::Subject)
            }
            End::Object => {
                pattern.subject = Some(of.constant);
                (Order::Pso, Component::Object)
            }
        };
        let key = ((of.predicate, of.end), of.constant, of.graph);
        self.matches.get_or_make(key, || {
            let mut matches = Vec::new();
            let mut scan = estimates.scan(&pattern, order, &[component])?;
            while let Some(batch) = scan.next()? {
                matches.extend_from_slice(&batch.columns[0]);
            }
            Ok(matches)
        })
    }
}

impl<K, T> Default for Remembered<K, T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: Eq + Hash, T> Remembered<K, T> {
    fn get_or_make(
        &self,
        key: K,
        make: impl FnOnce() -> Result<Vec<T>, StoreError>,
    ) -> Result<Rc<[T]>, StoreError> {
        if let Some(known) = self.0.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let made: Rc<[T]> = make()?.into();
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Rc::clone(&made));
        Ok(made)
    }
}

/// Returns the restriction that a pattern is, if it is one.
fn restriction(element: usize, triple: &Triple) -> Option<Restriction> {
    let (PatternTerm::Constant(predicate), PatternGraph::Filter(graph)) =
        (triple.predicate, triple.graph)
    else {
        return None;
    };
    let (slot, end, constant) = match (triple.subject, triple.object) {
        (PatternTerm::Slot(slot), PatternTerm::Constant(object)) => (slot, End::Subject, object),
        (PatternTerm::Constant(subject), PatternTerm::Slot(slot)) => (slot, End::Object, subject),
        _ => return None,
    };
    Some(Restriction {
        element,
        count: triple.count,
        slot,
        end,
        predicate,
        constant,
        graph,
    })
}

/// Returns the ends of a pattern, subject and object, if it matches all links of a predicate.
fn link_ends(element: usize, triple: &Triple, statistics: &Statistics) -> Option<[LinkEnd; 2]> {
    let (PatternTerm::Slot(subject), PatternTerm::Constant(predicate), PatternTerm::Slot(object)) =
        (triple.subject, triple.predicate, triple.object)
    else {
        return None;
    };
    let all = statistics.predicate(predicate)?.quads as f64;
    let end = |end, slot, distinct| LinkEnd {
        element,
        count: triple.count,
        predicate,
        end,
        slot,
        distinct,
    };
    (subject != object && triple.count >= all).then(|| {
        [
            end(End::Subject, subject, triple.distinct_subjects),
            end(End::Object, object, triple.distinct_objects),
        ]
    })
}
