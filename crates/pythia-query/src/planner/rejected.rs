//! The alternatives that the search of a join order rejected, for EXPLAIN. They are found by walking the chosen order once
//! more, and only for queries that will be explained.

use std::sync::Arc;

use super::builder::Builder;
use super::cached::cached_pattern;
use super::element::{Element, Inside, PatternGraph, PatternTerm, Triple};
use super::join_method::JoinMethod;
use super::long;
use super::order::{Found, OrderSearch, Start, is_long, members_of};
use pythia_exec::error::QueryError;
use pythia_exec::explain::CostId;
use pythia_exec::plan::choices::{Alternative, Rejected};
use pythia_exec::plan::step::{
    Access, GraphPosition, PathStep, Position, SlotPattern, Step, StepKind,
};

/// Maximum number of alternatives for a step.
const REJECTED_MAX: usize = 3;

impl OrderSearch<'_> {
    /// Returns for each place of an order the cheapest alternatives.
    pub(super) fn rejected(
        &self,
        start: &Start<'_>,
        left: &[usize],
        found: &Found,
    ) -> Result<Vec<Vec<(usize, JoinMethod)>>, QueryError> {
        let mut state = self.start(start, left);
        if is_long(left) {
            let examined = long::examined(self, state)?.into_iter();
            let places = examined.zip(&found.order);
            return Ok(places.map(|(all, chosen)| cheapest(all, chosen)).collect());
        }
        self.begin(&state.joined);
        let mut rejected = Vec::with_capacity(found.order.len());
        let mut methods = Vec::new();
        for chosen in &found.order {
            let mut all = Vec::new();
            for element in self.candidates(&state) {
                self.look()?;
                self.methods(&state, element, &mut methods)?;
                all.extend(methods.iter().map(|method| (element, *method)));
            }
            rejected.push(cheapest(all, chosen));
            self.place(&mut state, chosen.0, &chosen.1)?;
        }
        Ok(rejected)
    }
}

/// Returns the cheapest alternatives to the chosen one: other methods to join its element, and the best method of each
/// other element.
fn cheapest(
    mut all: Vec<(usize, JoinMethod)>,
    chosen: &(usize, JoinMethod),
) -> Vec<(usize, JoinMethod)> {
    let key = |(element, method): &(usize, JoinMethod)| (*element, method.access, method.members);
    all.retain(|other| key(other) != key(chosen));
    // The sort is stable: equal costs stay in the order of the text.
    all.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
    let mut seen = Vec::new();
    all.retain(|(element, _)| {
        let is_first = *element == chosen.0 || !seen.contains(element);
        seen.push(*element);
        is_first
    });
    all.truncate(REJECTED_MAX);
    all
}

/// Describes alternatives for the step after those so far.
pub(super) fn described(
    builder: &Builder,
    elements: &[Element],
    rejected: &[(usize, JoinMethod)],
) -> Vec<Rejected> {
    let describe = |(element, method): &(usize, JoinMethod)| {
        Some(Rejected {
            alternative: alternative(builder, elements, *element, method)?,
            rows: method.rows,
            cost_us: method.cost.max(0.0),
        })
    };
    rejected.iter().filter_map(describe).collect()
}

fn alternative(
    builder: &Builder,
    elements: &[Element],
    element: usize,
    method: &JoinMethod,
) -> Option<Alternative> {
    let kind = match (&elements[element], method.access) {
        (Element::Operand(operand), _) => {
            let slots = operand.slots.iter().map(|(slot, _)| *slot);
            return Some(Alternative::Operand {
                operator: match &operand.inside {
                    Inside::Rows(_) => "Values",
                    Inside::Branches(branches) if branches.len() == 1 => "Group",
                    Inside::Branches(_) => "Union",
                },
                slots: slots.collect(),
            });
        }
        (Element::Path(path), _) => path_kind(builder, path),
        (Element::Triple(edge), Some(access)) => {
            match (access, attribute(elements, element, method)) {
                (Access::Cached(..), Some(attribute)) => {
                    StepKind::Pattern(cached_pattern(builder, edge, attribute), access)
                }
                _ => triple_kind(builder, edge, access),
            }
        }
        (Element::Triple(_), None) => intersection_kind(builder, elements, element, method)?,
    };
    Some(Alternative::Step(Box::new(Step {
        cost: CostId::next(),
        kind,
        live: Arc::default(),
        rows: method.rows,
        once: false,
        counts: None,
        filters: Vec::new(),
        table: None,
        begins_small: false,
    })))
}

/// Returns the attribute that a method joins together with an edge.
fn attribute<'e>(elements: &'e [Element], edge: usize, method: &JoinMethod) -> Option<&'e Triple> {
    match &elements[members_of(method, edge).next()?] {
        Element::Triple(attribute) => Some(attribute),
        Element::Path(_) | Element::Operand(_) => None,
    }
}

fn triple_kind(builder: &Builder, triple: &Triple, access: Access) -> StepKind {
    let pattern = slot_pattern(builder, triple);
    if let Access::Scan(order) = access
        && let Some(confined) = triple.ranges_in(order)
    {
        return StepKind::Ranges(pattern, order, Arc::clone(&confined.ids));
    }
    StepKind::Pattern(pattern, access)
}

fn intersection_kind(
    builder: &Builder,
    elements: &[Element],
    element: usize,
    method: &JoinMethod,
) -> Option<StepKind> {
    let members = std::iter::once(element).chain(members_of(method, element));
    let patterns = members.filter_map(|member| match &elements[member] {
        Element::Triple(triple) => Some(slot_pattern(builder, triple)),
        Element::Path(_) | Element::Operand(_) => None,
    });
    let patterns: Vec<SlotPattern> = patterns.collect();
    let ends = patterns.iter().flat_map(|p| [p.subject, p.object]);
    let mut new = ends.filter_map(|end| match end {
        Position::New(slot) => Some(slot),
        Position::Constant(_) | Position::Bound(_) => None,
    });
    let slot = new.next_back()?;
    Some(StepKind::Intersect(slot, patterns))
}

fn path_kind(builder: &Builder, path: &PathStep) -> StepKind {
    let mut path = path.clone();
    for end in [&mut path.subject, &mut path.object] {
        if let Some(slot) = end.slot() {
            *end = builder.position(PatternTerm::Slot(slot));
        }
    }
    let is_known = |end: Position| !matches!(end, Position::New(_));
    let ends_are_known = is_known(path.subject) && is_known(path.object);
    match &path.labelled {
        Some(labelled) if ends_are_known && path.counted.is_none() => {
            StepKind::Reachable(labelled.step(&path))
        }
        _ => StepKind::Path(path),
    }
}

fn slot_pattern(builder: &Builder, triple: &Triple) -> SlotPattern {
    let graph = match triple.graph {
        PatternGraph::Filter(filter) => GraphPosition::Filter(filter),
        PatternGraph::Slot(slot, filter) => match builder.position(PatternTerm::Slot(slot)) {
            Position::New(slot) => GraphPosition::New(slot, filter),
            _ => GraphPosition::Bound(slot),
        },
    };
    SlotPattern {
        subject: builder.position(triple.subject),
        predicate: builder.position(triple.predicate),
        object: builder.position(triple.object),
        graph,
    }
}
