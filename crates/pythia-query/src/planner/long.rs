//! Join order of a group with many elements: greedy, with a few candidates at each step.
//!
//! Every element waits in one of two queues, ordered by the factor by which it multiplies the solutions: elements
//! connected to the solutions come before all others. When a slot is bound, the elements that mention it are queued
//! again with their new factor; their earlier entries are skipped. Each step looks at the first few elements, so that
//! ordering `n` elements takes O(`n log n`) steps. Elements are joined one by one, as if variables were independent of
//! each other.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::element::Element;
use super::join_method::JoinMethod;
use super::order::{LEFT_BEHIND, OrderSearch, PartialOrder};
use pythia_exec::error::QueryError;

/// Number of candidates per chosen element.
const CANDIDATES_MAX: usize = 8;

/// Returns the join order of the elements that are not yet placed, each with the method to join it.
pub(super) fn order(
    search: &OrderSearch<'_>,
    state: PartialOrder,
) -> Result<Vec<(usize, JoinMethod)>, QueryError> {
    let count = state.placed.iter().filter(|placed| !**placed).count();
    let mut long = Long::new(search, state)?;
    (0..count).map(|_| long.next()).collect()
}

/// Orders the elements again, and returns what was examined for each place of the order.
pub(super) fn examined(
    search: &OrderSearch<'_>,
    state: PartialOrder,
) -> Result<Vec<Vec<(usize, JoinMethod)>>, QueryError> {
    let count = state.placed.iter().filter(|placed| !**placed).count();
    let mut long = Long::new(search, state)?;
    let mut next = || {
        long.examined = Some(Vec::new());
        long.next()?;
        Ok(long.examined.take().unwrap_or_default())
    };
    (0..count).map(|_| next()).collect()
}

struct Long<'s, 'a> {
    search: &'s OrderSearch<'a>,
    state: PartialOrder,
    /// Slots of each element, without repetition.
    slots: Vec<Vec<usize>>,
    /// Elements that mention each slot.
    elements: Vec<Vec<usize>>,
    /// Elements that share a bound slot with the solutions, have no slot, or have one match.
    near: BinaryHeap<Candidate>,
    /// All other elements.
    far: BinaryHeap<Candidate>,
    /// The elements and methods examined for the next place, if they are wanted.
    examined: Option<Vec<(usize, JoinMethod)>>,
}

/// A queued element.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Factor by which it multiplies the solutions.
    growth: f64,
    element: usize,
    /// Number of its slots that were bound when it was queued.
    bound: usize,
}

impl<'s, 'a> Long<'s, 'a> {
    fn new(search: &'s OrderSearch<'a>, state: PartialOrder) -> Result<Self, QueryError> {
        let slots: Vec<Vec<usize>> = search.elements.iter().map(slots_of).collect();
        let mut elements = vec![Vec::new(); state.joined.distinct.len()];
        for (element, slots) in slots.iter().enumerate() {
            for &slot in slots {
                elements[slot].push(element);
            }
        }
        let mut long = Self {
            search,
            state,
            slots,
            elements,
            near: BinaryHeap::new(),
            far: BinaryHeap::new(),
            examined: None,
        };
        for element in 0..long.slots.len() {
            if !long.state.placed[element] {
                long.queue(element)?;
            }
        }
        Ok(long)
    }

    /// Returns the next element of the order.
    fn next(&mut self) -> Result<(usize, JoinMethod), QueryError> {
        let candidates = match self.take(|long| &mut long.near) {
            near if near.is_empty() => self.take(|long| &mut long.far),
            near => near,
        };
        let mut methods = Vec::new();
        let mut best: Option<(f64, usize, JoinMethod)> = None;
        for candidate in &candidates {
            self.search.look()?;
            let (joined, element) = (&self.state.joined, candidate.element);
            self.search
                .methods_alone(joined, element, None, &mut methods)?;
            if let Some(examined) = &mut self.examined {
                examined.extend(methods.iter().map(|method| (element, *method)));
            }
            for method in &methods {
                let score = method.cost + method.rows * LEFT_BEHIND;
                if best.as_ref().is_none_or(|(least, ..)| score < *least) {
                    best = Some((score, element, *method));
                }
            }
        }
        let (_, chosen, method) = best.expect("there are elements left, each with a method");
        for candidate in candidates {
            if candidate.element != chosen {
                self.queue_of(candidate.element).push(candidate);
            }
        }
        for slot in self.place(chosen, &method) {
            for element in std::mem::take(&mut self.elements[slot]) {
                if !self.state.placed[element] {
                    self.queue(element)?;
                }
            }
        }
        Ok((chosen, method))
    }

    /// Joins an element and applies the filters that become possible. Returns the slots that it binds.
    fn place(&mut self, element: usize, method: &JoinMethod) -> Vec<usize> {
        let joined = &mut self.state.joined;
        let bound = joined.join(&self.search.elements[element], method);
        for filter in self.search.filters {
            let waited = filter.slots.iter().any(|slot| bound.contains(slot));
            if waited && filter.slots.iter().all(|&slot| joined.is_bound(slot)) {
                joined.rows *= filter.share;
            }
        }
        self.state.placed[element] = true;
        bound
    }

    /// Removes the first few valid candidates from a queue.
    fn take(&mut self, queue: impl Fn(&mut Self) -> &mut BinaryHeap<Candidate>) -> Vec<Candidate> {
        let mut taken = Vec::with_capacity(CANDIDATES_MAX);
        while taken.len() < CANDIDATES_MAX {
            let Some(candidate) = queue(self).pop() else {
                break;
            };
            let element = candidate.element;
            if !self.state.placed[element] && candidate.bound == self.bound_slots(element) {
                taken.push(candidate);
            }
        }
        taken
    }

    /// Queues an element by its effect on the current solutions.
    fn queue(&mut self, element: usize) -> Result<(), QueryError> {
        self.search.look()?;
        let joined = &self.state.joined;
        let rows = match &self.search.elements[element] {
            Element::Triple(triple) => joined.rows_after(triple),
            _ => {
                let mut methods = Vec::new();
                self.search
                    .methods_alone(joined, element, None, &mut methods)?;
                methods[0].rows
            }
        };
        let candidate = Candidate {
            growth: rows / joined.rows.max(f64::MIN_POSITIVE),
            element,
            bound: self.bound_slots(element),
        };
        self.queue_of(element).push(candidate);
        Ok(())
    }

    fn queue_of(&mut self, element: usize) -> &mut BinaryHeap<Candidate> {
        // An element with one match multiplies nothing, and may make a filter possible.
        let is_single = self.search.elements[element].is_single();
        if is_single || self.slots[element].is_empty() || self.bound_slots(element) > 0 {
            &mut self.near
        } else {
            &mut self.far
        }
    }

    fn bound_slots(&self, element: usize) -> usize {
        let slots = self.slots[element].iter();
        let bound = slots.filter(|slot| self.state.joined.is_bound(**slot));
        bound.count()
    }
}

/// Returns the slots of an element, without repetition.
fn slots_of(element: &Element) -> Vec<usize> {
    let mut slots = Vec::new();
    element.each_slot(|slot, _| slots.push(slot));
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Greatest first: the candidate that multiplies least, and of those the first in the text.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let growth = other.growth.total_cmp(&self.growth);
        growth.then(other.element.cmp(&self.element))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}
