//! Tests which of some pairs of nodes a path connects. Searches from the side with fewer nodes, or, for few
//! pairs, from both sides at once until the searches meet.

use std::ops::ControlFlow;
use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::GraphFilter;
use rustc_hash::{FxHashMap, FxHashSet};

use super::visits::{Grouping, Visited, Visits};
use super::walk::{Pair, REGROUPED_STARTS_MIN, Wanted, Wave, search};
use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::plan::automaton::Automaton;
use crate::plan::step::PathStep;

/// The most nodes of each side for a search from both sides. Each visit of one search is looked up for
/// all start nodes of the other.
const NODES_MET_MAX: usize = 8;
// Visits of one search can be looked up in the other only if both group them by nodes.
const _: () = assert!(NODES_MET_MAX < REGROUPED_STARTS_MIN);

/// A start and an end.
pub(super) type Ends = (TermId, TermId);

/// Returns the pairs that a path connects, and the number of visits made.
pub(super) fn connected(
    context: &Arc<QueryContext>,
    path: &PathStep,
    graphs: &[GraphFilter],
    pairs: FxHashSet<Ends>,
) -> Result<(FxHashSet<Ends>, u64), QueryError> {
    let subjects = numbered(pairs.iter().map(|(subject, _)| *subject));
    let objects = numbered(pairs.iter().map(|(_, object)| *object));
    if subjects.len().max(objects.len()) <= NODES_MET_MAX {
        return Meeting::new(context, &path.forward, graphs, &pairs).run();
    }
    let from_objects = objects.len() < subjects.len();
    let turn = |(subject, object)| match from_objects {
        true => (object, subject),
        false => (subject, object),
    };
    let (automaton, starts) = match from_objects {
        true => (&path.backward, objects),
        false => (&path.forward, subjects),
    };
    let number: FxHashMap<TermId, u32> = starts.iter().copied().zip(0..).collect();
    let wanted = pairs.into_iter().map(|pair| {
        let (start, other) = turn(pair);
        (number[&start], other)
    });
    let wanted: FxHashSet<Pair> = wanted.collect();
    let wanted = Wanted::Some(wanted);
    let (reached, visits) = search(context, automaton, graphs, &starts, wanted, u64::MAX)?;
    let found = reached.pairs().iter();
    let found = found.map(|(start, other)| turn((starts[*start as usize], *other)));
    Ok((found.collect(), visits))
}

/// Returns the distinct nodes, sorted.
fn numbered(nodes: impl Iterator<Item = TermId>) -> Vec<TermId> {
    let mut nodes: Vec<TermId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Two searches towards each other.
///
/// The search from the ends follows the same automaton's transitions backwards, so the two meet where both
/// have visited a node in the same state.
struct Meeting<'a> {
    context: &'a Arc<QueryContext>,
    automaton: &'a Automaton,
    graphs: &'a [GraphFilter],
    subjects: Vec<TermId>,
    objects: Vec<TermId>,
    /// The pairs not known to be connected yet, by number.
    wanted: FxHashSet<(u32, u32)>,
    found: FxHashSet<Ends>,
}

impl<'a> Meeting<'a> {
    fn new(
        context: &'a Arc<QueryContext>,
        automaton: &'a Automaton,
        graphs: &'a [GraphFilter],
        pairs: &FxHashSet<Ends>,
    ) -> Self {
        let subjects = numbered(pairs.iter().map(|(subject, _)| *subject));
        let objects = numbered(pairs.iter().map(|(_, object)| *object));
        let number = |nodes: &[TermId], node: &TermId| {
            nodes.binary_search(node).expect("it is among them") as u32
        };
        let wanted = pairs
            .iter()
            .map(|(subject, object)| (number(&subjects, subject), number(&objects, object)));
        Self {
            context,
            automaton,
            graphs,
            wanted: wanted.collect(),
            subjects,
            objects,
            found: FxHashSet::default(),
        }
    }

    fn run(mut self) -> Result<(FxHashSet<Ends>, u64), QueryError> {
        let turned = self.automaton.turned_around();
        let transitions = &self.automaton.transitions;
        let starts = self.subjects.len();
        let mut ahead = Wave::new(self.context, transitions, self.graphs, starts);
        let mut back = Wave::new(self.context, &turned, self.graphs, self.objects.len());
        for (number, &node) in self.subjects.iter().enumerate() {
            let start = Grouping::Nodes.one(number as u32, 0, node);
            ahead.begin(start)?;
        }
        let states = self.automaton.accepting.iter().enumerate();
        let accepting: Vec<u32> = states
            .filter(|(_, accepts)| **accepts)
            .map(|(state, _)| state as u32)
            .collect();
        let mut flow = ControlFlow::Continue(());
        for number in 0..self.objects.len() {
            for &state in &accepting {
                let end = Grouping::Nodes.one(number as u32, state, self.objects[number]);
                if flow.is_continue() {
                    let met = &mut |_: &Visited, visits: &[Visits]| {
                        self.met_ahead(ahead.visited(), visits)
                    };
                    flow = back.visit(end, met)?;
                }
            }
        }
        // Once one search is over, it has found all pairs.
        while flow.is_continue() && !ahead.is_over() && !back.is_over() {
            flow = if ahead.links_expected()? <= back.links_expected()? {
                ahead.step(&mut |_, visits| self.met_back(back.visited(), visits))?
            } else {
                back.step(&mut |_, visits| self.met_ahead(ahead.visited(), visits))?
            };
        }
        Ok((self.found, ahead.visits() + back.visits()))
    }

    /// Looks for visits of the search from the starts that the search from the ends has made.
    fn met_back(
        &mut self,
        back: &Visited,
        visits: &[Visits],
    ) -> Result<ControlFlow<()>, QueryError> {
        for &visit in visits {
            for object in 0..self.objects.len() as u32 {
                let there = Visits {
                    start: object,
                    ..visit
                };
                if self.wanted.contains(&(visit.start, object)) && back.contains(&there) {
                    self.meet(visit.start, object);
                }
            }
        }
        self.flow()
    }

    /// Looks for visits of the search from the ends that the search from the starts has made.
    fn met_ahead(
        &mut self,
        ahead: &Visited,
        visits: &[Visits],
    ) -> Result<ControlFlow<()>, QueryError> {
        for &visit in visits {
            for subject in 0..self.subjects.len() as u32 {
                let there = Visits {
                    start: subject,
                    ..visit
                };
                if self.wanted.contains(&(subject, visit.start)) && ahead.contains(&there) {
                    self.meet(subject, visit.start);
                }
            }
        }
        self.flow()
    }

    fn meet(&mut self, subject: u32, object: u32) {
        self.wanted.remove(&(subject, object));
        let ends = (
            self.subjects[subject as usize],
            self.objects[object as usize],
        );
        self.found.insert(ends);
    }

    fn flow(&self) -> Result<ControlFlow<()>, QueryError> {
        match self.wanted.is_empty() {
            true => Ok(ControlFlow::Break(())),
            false => Ok(ControlFlow::Continue(())),
        }
    }
}
