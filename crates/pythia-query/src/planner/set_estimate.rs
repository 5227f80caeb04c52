//! Estimates of the solutions of sets of elements. An estimate depends on the set, not on the order in which its
//! elements are joined: the search compares the costs of orders, and two of one set must not differ in what they find.
//!
//! Triple patterns with one subject and constant predicates are a star, whose matches the store's characteristic sets
//! count. A constant object keeps its share of the links that the star's subjects have, as if all its subjects were
//! among them. Stars and single patterns are joined as in System R (Selinger et al., SIGMOD 1979): the product of their
//! matches, divided for each variable by all but the least of its numbers of distinct terms. Of links that were sampled,
//! the patterns that restrict an end by a constant keep the share that they keep of the sample. Paths and operands
//! multiply the solutions of the patterns, in the order of the text.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::characteristic::Star;
use pythia_store::{Estimates, Statistics, StoreError};
use rustc_hash::FxHashMap;

use super::element::{Element, FilterHint, PatternGraph, PatternTerm, Triple};
use super::join_method::Joined;
use super::order::NUMBERED_MAX;
use super::sampled_link::{Kept, SampledLink, Samples, sampled_links};

/// The estimate of a set of elements that are joined to the solutions at the start.
#[derive(Clone, Debug)]
pub(super) struct SetEstimate {
    /// Number of solutions without the filters.
    pub(super) unfiltered: f64,
    /// Share of the solutions that passes the filters over bound slots.
    pub(super) share: f64,
    /// Cost of testing a solution with all of these filters, in microseconds.
    pub(super) tests: f64,
    /// Number of distinct terms per slot; 0 if it is not bound in all solutions.
    pub(super) distinct: Vec<f64>,
}

impl SetEstimate {
    /// Returns the number of solutions.
    pub(super) fn rows(&self) -> f64 {
        self.unfiltered * self.share
    }
}

/// The estimates of sets of the first [`NUMBERED_MAX`] elements of a group.
pub(super) struct SetEstimates<'a> {
    elements: &'a [Element],
    filters: &'a [FilterHint],
    /// Statistics of the store, or `None` if the query may not use them.
    statistics: Option<&'a Statistics>,
    /// For each triple pattern with a variable subject and a constant predicate: the patterns of its star.
    stars: Vec<u64>,
    /// The triple patterns.
    triples: u64,
    /// The patterns of stars with a constant object, in all graphs or in one, and their numbers of matches.
    tests: Vec<(f64, usize)>,
    /// Stars by their patterns.
    counted: RefCell<FxHashMap<u64, Option<Arc<Star>>>>,
    /// Empty before [`SetEstimates::sample`].
    sampled: OnceCell<Vec<SampledLink>>,
    sets: RefCell<FxHashMap<u64, Rc<SetEstimate>>>,
}

/// Combines the numbers of distinct terms of the relations that bind a slot.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// Product of all numbers.
    product: f64,
    least: f64,
}

impl<'a> SetEstimates<'a> {
    pub(super) fn new(
        elements: &'a [Element],
        filters: &'a [FilterHint],
        statistics: Option<&'a Statistics>,
    ) -> Self {
        let mut subjects: FxHashMap<usize, u64> = FxHashMap::default();
        let (mut triples, mut tests) = (0, Vec::new());
        for (index, element) in elements.iter().enumerate().take(NUMBERED_MAX) {
            let Element::Triple(triple) = element else {
                continue;
            };
            triples |= 1 << index;
            if let Some((slot, _)) = star_key(element) {
                *subjects.entry(slot).or_default() |= 1 << index;
                if let (PatternTerm::Constant(_), PatternGraph::Filter(_)) =
                    (triple.object, triple.graph)
                {
                    tests.push((triple.count, index));
                }
            }
        }
        let star = |element| star_key(element).map_or(0, |(slot, _)| subjects[&slot]);
        Self {
            stars: elements.iter().take(NUMBERED_MAX).map(star).collect(),
            elements,
            filters,
            statistics,
            triples,
            tests,
            counted: RefCell::default(),
            sampled: OnceCell::new(),
            sets: RefCell::default(),
        }
    }

    /// Takes up to `most` samples of links, once. Returns whether estimates are different after the next
    /// [`SetEstimates::begin`].
    pub(super) fn sample(
        &self,
        estimates: Estimates<'_>,
        samples: &Samples,
        most: usize,
    ) -> Result<bool, StoreError> {
        let (Some(statistics), None) = (self.statistics, self.sampled.get()) else {
            return Ok(false);
        };
        let samples = sampled_links(self.elements, estimates, statistics, (samples, most))?;
        Ok(!self.sampled.get_or_init(|| samples).is_empty())
    }

    /// Returns the number of samples that the estimates use.
    pub(super) fn samples(&self) -> u64 {
        self.sampled.get().map_or(0, |samples| samples.len() as u64)
    }

    /// Begins with these solutions. Estimates of sets that were joined to others are forgotten.
    pub(super) fn begin(&self, start: &Joined) {
        let mut sets = self.sets.borrow_mut();
        sets.clear();
        let start = SetEstimate {
            unfiltered: start.rows,
            share: 1.0,
            tests: 0.0,
            distinct: start.distinct.clone(),
        };
        sets.insert(0, Rc::new(start));
    }

    /// Returns the last element of a set that is not a triple pattern.
    pub(super) fn last_other(&self, set: u64) -> Option<usize> {
        let others = set & !self.triples;
        (others != 0).then(|| others.ilog2() as usize)
    }

    /// Returns the estimate of a set, if it was made.
    pub(super) fn known(&self, set: u64) -> Option<Rc<SetEstimate>> {
        self.sets.borrow().get(&set).cloned()
    }

    /// Estimates a set of triple patterns.
    pub(super) fn of_triples(&self, set: u64) -> Rc<SetEstimate> {
        let start = self.known(0).expect("the search has begun");
        let bound = |distinct: &f64| Bound {
            product: distinct.max(1.0),
            least: *distinct,
        };
        let mut slots: Vec<Bound> = start.distinct.iter().map(bound).collect();
        let kept = self.kept(set);
        let restrictions = kept.iter().fold(0, |all, kept| all | kept.restrictions);
        let shares = kept.iter().map(|kept| kept.share);
        let mut unfiltered = start.unfiltered * shares.product::<f64>();
        for index in members(set) {
            let Element::Triple(triple) = &self.elements[index] else {
                continue;
            };
            let star = self.stars[index] & set;
            unfiltered *= match self.star(star) {
                // The share of the links that it keeps is counted above.
                None if restrictions >> index & 1 == 1 => 1.0,
                None => {
                    triple
                        .slots()
                        .for_each(|(slot, distinct)| slots[slot].join(distinct));
                    triple.count
                }
                // Each star is joined once, at its first pattern.
                Some(counted) if star.trailing_zeros() as usize == index => {
                    self.join_star(star, star & restrictions != 0, &counted, &mut slots)
                }
                Some(_) => 1.0,
            };
            if let PatternGraph::Slot(slot, _) = triple.graph {
                slots[slot].bind();
            }
        }
        for slot in &slots {
            unfiltered /= slot.multiplied();
        }
        for kept in &kept {
            slots[kept.slot].least = slots[kept.slot].least.min(kept.distinct);
        }
        if let Some(test) = self.least_selective_test(set) {
            unfiltered = unfiltered.min(self.of_triples_known(set & !(1 << test)));
        }
        self.insert(
            set,
            unfiltered,
            slots.iter().map(|slot| slot.least).collect(),
        )
    }

    /// Returns the number of solutions of a set of triple patterns, estimated now if it was not before.
    fn of_triples_known(&self, set: u64) -> f64 {
        let known = self.known(set);
        known.unwrap_or_else(|| self.of_triples(set)).unfiltered
    }

    /// Returns the pattern of a set that has the most matches of those that only test the subjects of a star. With it, the
    /// set has no more solutions than without it, though the subjects of its predicate may be fewer, so that each has more
    /// matches, and other constants keep more of theirs.
    fn least_selective_test(&self, set: u64) -> Option<usize> {
        let tests = self.tests.iter().filter(|(_, index)| {
            let is_in = set >> index & 1 == 1;
            is_in && (self.stars[*index] & set).count_ones() > 1
        });
        let most = tests.reduce(|most, test| if test.0 > most.0 { test } else { most });
        most.map(|(_, index)| *index)
    }

    /// Extends the estimate of a set by an element that is no triple pattern, which multiplies its solutions by this
    /// factor.
    pub(super) fn of_other(&self, before: u64, other: usize, factor: f64) -> Rc<SetEstimate> {
        let known = self.known(before).expect("estimated before the factor");
        let mut distinct = known.distinct.clone();
        self.elements[other].each_slot(|slot, here| {
            let before = Some(distinct[slot]).filter(|before| *before > 0.0);
            distinct[slot] = before.map_or(here, |before| before.min(here));
        });
        self.insert(before | 1 << other, known.unfiltered * factor, distinct)
    }

    fn insert(&self, set: u64, unfiltered: f64, distinct: Vec<f64>) -> Rc<SetEstimate> {
        let start = self.known(0).expect("the search has begun");
        let is_new = |slots: &[usize]| slots.iter().any(|&slot| start.distinct[slot] <= 0.0);
        let is_bound = |slots: &[usize]| slots.iter().all(|&slot| distinct[slot] > 0.0);
        let here = self.filters.iter();
        let here = here.filter(|filter| is_new(&filter.slots) && is_bound(&filter.slots));
        let (mut share, mut tests) = (1.0, 0.0);
        for filter in here {
            share *= filter.share;
            tests += filter.cost;
        }
        let estimate = Rc::new(SetEstimate {
            unfiltered,
            share,
            tests,
            distinct,
        });
        self.sets.borrow_mut().insert(set, Rc::clone(&estimate));
        estimate
    }

    /// Returns the counts of a star, if its subjects are counted.
    fn star(&self, star: u64) -> Option<Arc<Star>> {
        let sets = &self.statistics?.characteristic;
        if star.count_ones() < 2 {
            return None;
        }
        let mut counted = self.counted.borrow_mut();
        let count = || {
            let keys = members(star).filter_map(|index| star_key(&self.elements[index]));
            let predicates: Vec<TermId> = keys.map(|(_, predicate)| predicate).collect();
            sets.star(&predicates)
        };
        counted.entry(star).or_insert_with(count).clone()
    }

    /// Returns the links in a set of which a sample shows the share that other patterns of the set keep, at most one for
    /// each slot.
    fn kept(&self, set: u64) -> Vec<Kept> {
        let mut all: Vec<Kept> = Vec::new();
        for sampled in self.sampled.get().into_iter().flatten() {
            if all.iter().all(|kept| kept.slot != sampled.slot) {
                all.extend(sampled.kept(set, self.elements));
            }
        }
        all
    }

    /// Joins a star to the slots. Returns its number of matches; if its subjects are known to be among those of a link,
    /// the number for each of them.
    fn join_star(&self, star: u64, is_kept: bool, counted: &Star, slots: &mut [Bound]) -> f64 {
        let mut matches = counted.matches;
        let mut subjects = counted.subjects;
        let mut subject = None;
        for (index, links) in members(star).zip(&counted.quads) {
            let Element::Triple(triple) = &self.elements[index] else {
                continue;
            };
            subject = star_key(&self.elements[index]).map(|(slot, _)| slot);
            // A constant object keeps a share of the links, at most one of each subject; a graph keeps a share, too.
            let most = match triple.object {
                PatternTerm::Constant(_) => counted.subjects,
                PatternTerm::Slot(_) => self.links(triple, *links),
            };
            matches *= triple.count.min(most) / self.links(triple, *links);
            match triple.object {
                PatternTerm::Constant(_) => subjects = subjects.min(triple.count),
                PatternTerm::Slot(slot) => slots[slot].join(triple.distinct_objects.min(*links)),
            }
        }
        let subjects = subjects.min(matches);
        match subject {
            Some(_) if is_kept => return matches / subjects.max(1e-9),
            Some(slot) => slots[slot].join(subjects),
            None => {}
        }
        matches
    }

    /// Returns the links among which a pattern of a star has its matches: those of the star's subjects for a constant
    /// object, else all with the predicate.
    fn links(&self, triple: &Triple, of_star: f64) -> f64 {
        let predicate = match (triple.object, triple.predicate) {
            (PatternTerm::Slot(_), PatternTerm::Constant(predicate)) => Some(predicate),
            _ => None,
        };
        let counts = predicate.zip(self.statistics);
        let all = counts.and_then(|(id, statistics)| statistics.predicate(id));
        all.map_or(of_star, |all| all.quads as f64).max(1.0)
    }
}

impl Bound {
    /// Joins a relation with this number of distinct terms.
    fn join(&mut self, distinct: f64) {
        let distinct = distinct.max(1.0);
        self.product *= distinct;
        self.least = match self.least {
            0.0 => distinct,
            least => least.min(distinct),
        };
    }

    /// Binds the slot to an unknown number of terms.
    fn bind(&mut self) {
        if self.least == 0.0 {
            self.least = f64::MAX;
        }
    }

    /// Returns the product of all numbers but the least.
    fn multiplied(&self) -> f64 {
        match self.least {
            0.0 | f64::MAX => 1.0,
            least => self.product / least.max(1.0),
        }
    }
}

/// Returns the elements of a set.
pub(super) fn members(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then_some(set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        next
    })
}

/// Returns the subject's slot and the predicate if the element can be part of a star.
fn star_key(element: &Element) -> Option<(usize, TermId)> {
    match element {
        Element::Triple(triple) => match (triple.subject, triple.predicate) {
            (PatternTerm::Slot(slot), PatternTerm::Constant(predicate)) => Some((slot, predicate)),
            _ => None,
        },
        Element::Path(_) | Element::Operand(_) => None,
    }
}
