//! Samples of links, one end of which other patterns restrict by a constant.
//!
//! In `?product :producer ?p . ?p :country :DE`, no count says how many of the links the country keeps: all, if the
//! producers are in one country, or none, if only other subjects are there. A sample of the links says it: its ends
//! are looked up (Leis et al., Cardinality Estimation Done Right: Index-Based Join Sampling, CIDR 2017, section 3).
//!
//! Links of one predicate differ by what they start from. In `?product a ?type . ?type a :ProductType`, few of all types
//! are product types, but all of those of things with a producer are. So there is a sample of all links, and one for each
//! other pattern that selects some of the nodes of the near end, whose links start at nodes of a sample of that pattern.

use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, Snapshot, Statistics, StoreError};

use super::element::{Element, PatternGraph, PatternTerm, Triple};
use super::order::NUMBERED_MAX;

/// Maximum number of links in a sample.
pub(super) const SAMPLE_LINKS: usize = 32;
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

/// What decides which of two samples of a slot is used; it does not depend on the order of the elements.
type Rank = (bool, Option<(u64, TermId, bool)>, (u64, TermId, bool));

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
        let members = (0..NUMBERED_MAX).filter(|index| restrictions >> index & 1 == 1);
        let counts = members.filter_map(|index| match &elements[index] {
            Element::Triple(triple) => Some(triple.count),
            Element::Path(_) | Element::Operand(_) => None,
        });
        let least = counts.fold(f64::MAX, f64::min);
        let share = match kept > 0.0 {
            true => kept / links,
            false => (least / self.distinct).min(0.5 / links),
        };
        Some(Kept {
            slot: self.slot,
            restrictions,
            share,
            distinct: (self.distinct * share).min(least).max(1.0),
        })
    }
}

/// Samples the links of a search whose ends are restricted by enough terms that a sample can show it. Those to use first
/// come first.
pub(super) fn sampled_links(
    elements: &[Element],
    snapshot: &Snapshot,
    statistics: &Statistics,
) -> Result<Vec<SampledLink>, StoreError> {
    let mut restrictions: Vec<Restriction> = Vec::new();
    let mut links: Vec<[LinkEnd; 2]> = Vec::new();
    for (index, element) in elements.iter().enumerate().take(NUMBERED_MAX) {
        if let Element::Triple(triple) = element {
            restrictions.extend(restriction(index, triple));
            links.extend(link_ends(index, triple, statistics));
        }
    }
    let mut samples: Vec<(Rank, SampledLink)> = Vec::new();
    for [near, far] in links.iter().flat_map(|&[a, b]| [[a, b], [b, a]]) {
        let asked = restrictions.iter().filter(|other| other.is_shown_by(&far));
        let asked: Vec<&Restriction> = asked.collect();
        if asked.is_empty() {
            continue;
        }
        let all = snapshot.estimates();
        let terms = all.sample(far.predicate, far.end, SAMPLE_LINKS)?;
        let sample = far.look_up(&terms, &asked, snapshot)?;
        samples.extend(sample.map(|sample| ((true, None, far.rank()), sample)));
        for other in links.iter().flatten().filter(|other| other.selects(&near)) {
            let mut nodes = all.sample(other.predicate, other.end, SAMPLE_LINKS)?;
            nodes.dedup();
            let terms = all.sample_links(near.predicate, near.end, &nodes)?;
            if terms.len() < NEAR_LINKS_MIN {
                continue;
            }
            let sample = far.look_up(&terms, &asked, snapshot)?;
            samples.extend(sample.map(|mut sample| {
                sample.elements |= 1 << other.element;
                ((false, Some(other.rank()), far.rank()), sample)
            }));
        }
    }
    samples.sort_by_key(|(rank, _)| *rank);
    Ok(samples.into_iter().map(|(_, sample)| sample).collect())
}

impl LinkEnd {
    fn rank(&self) -> (u64, TermId, bool) {
        let is_object = self.end == End::Object;
        (self.count.to_bits(), self.predicate, is_object)
    }

    /// Returns whether the nodes of this end may be a small part of those of another pattern's end.
    fn selects(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.element != other.element
            && self.distinct < other.distinct * SELECTED_SHARE
    }

    /// Looks up which restrictions the far ends of some links match; `None` if there are no links.
    fn look_up(
        &self,
        terms: &[TermId],
        asked: &[&Restriction],
        snapshot: &Snapshot,
    ) -> Result<Option<SampledLink>, StoreError> {
        let mut matched = vec![0; terms.len()];
        let mut restrictions = 0;
        for restriction in asked {
            let bit = 1 << restriction.element;
            restrictions |= bit;
            let found = restriction.probe(snapshot, terms)?;
            let found = matched.iter_mut().zip(found).filter(|(_, found)| *found);
            found.for_each(|(matched, _)| *matched |= bit);
        }
        Ok((!terms.is_empty()).then_some(SampledLink {
            elements: 1 << self.element,
            slot: self.slot,
            restrictions,
            matched,
            distinct: self.distinct,
        }))
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
    fn probe(&self, snapshot: &Snapshot, terms: &[TermId]) -> Result<Vec<bool>, StoreError> {
        let pair = |&term: &TermId| match self.end {
            End::Subject => (term, self.constant),
            End::Object => (self.constant, term),
        };
        let pairs: Vec<(TermId, TermId)> = terms.iter().map(pair).collect();
        let estimates = snapshot.estimates();
        estimates.probe(self.predicate, &pairs, self.graph)
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
