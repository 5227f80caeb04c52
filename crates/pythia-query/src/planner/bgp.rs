//! Basic graph patterns: the steps of a group's elements, written in the order that [`super::order`] finds.

use std::sync::Arc;

use pythia_store::{ReadCosts, Snapshot};

use super::builder::Builder;
use super::cached::{join_with_path, push_cached};
use super::element::{Element, FilterHint, Kinds, PatternGraph, PatternTerm, Triple};
use super::group::Placement;
use super::join_method::{JoinMethod, Joined};
use super::order::{OrderSearch, Start, members_of};
use super::rejected::described;
use super::set_estimate::members;
use super::{Planner, Planning};
use pythia_exec::plan::choices::Choice;
use pythia_exec::plan::step::{Access, GraphPosition, PathStep, Position, SlotPattern, StepKind};

impl Planner<'_> {
    /// Joins all elements of a group to the pipeline in the best order found. `filters` are the group's filters.
    pub(super) fn join_elements(
        &self,
        builder: &mut Builder,
        elements: &[Element],
        filters: &[FilterHint],
        placement: &mut Placement<'_, '_>,
    ) -> Planning {
        self.placed(builder, placement)?;
        let (snapshot, governor) = (self.snapshot, self.evaluation.governor());
        let mut left: Vec<usize> = (0..elements.len()).collect();
        let mut joined = vec![false; elements.len()];
        let slots = builder.slots.len();
        let search = OrderSearch::new(elements, filters, slots, snapshot, self.counts(), governor);
        while !left.is_empty() {
            let start = Start {
                known: &builder.known,
                unit: builder.is_unit(),
                slots: builder.slots.len(),
                samples: &self.samples,
            };
            let found = search.find(&start, &left)?;
            let mut rejected = match self.choices {
                Some(_) => search.rejected(&start, &left, &found)?.into_iter(),
                None => Vec::new().into_iter(),
            };
            let mut order = Some(found.origin).filter(|_| left.len() > 1);
            for (element, method) in found.order {
                governor.check()?;
                let rejected = rejected.next().unwrap_or_default();
                if joined[element] {
                    continue;
                }
                let rejected = described(builder, elements, &rejected);
                let before = builder.steps.len();
                self.join_element(builder, &search, element, &method, placement)?;
                if let (Some(choices), Some(step)) = (self.choices, builder.steps.get(before)) {
                    let (cost_us, order) = (method.cost.max(0.0), order.take());
                    choices.record(
                        step.cost,
                        Choice {
                            cost_us,
                            order,
                            rejected,
                        },
                    );
                }
                builder.known.sorted = method.sorted;
                joined[element] = true;
                members_of(&method, element).for_each(|member| joined[member] = true);
                for place in self.place_listed(builder, placement)? {
                    let is_its = |element: &Element| matches!(element, Element::Operand(operand) if operand.place == place);
                    let element = elements.iter().position(is_its);
                    joined[element.expect("each operand is an element")] = true;
                }
                let bound = builder.known.certain.len();
                self.placed(builder, placement)?;
                if builder.known.certain.len() > bound {
                    // More is bound now than the search assumed.
                    break;
                }
            }
            left.retain(|&element| !joined[element]);
        }
        Ok(())
    }

    /// Matches the only pattern of a query in the cheapest way. There is nothing to search.
    pub(super) fn join_lone(&self, builder: &mut Builder, triple: &Triple) {
        let reads = self.snapshot.estimates().read_costs();
        let joined = joined(builder, reads);
        let mut methods = Vec::new();
        joined.triple_methods(triple, triple.count, &mut methods);
        let cheapest = methods.iter().min_by(|a, b| a.cost.total_cmp(&b.cost));
        let method = cheapest.expect("each pattern has a method");
        push_triple(builder, (self.snapshot, reads), triple, method);
        builder.known.sorted = method.sorted;
    }

    fn join_element(
        &self,
        builder: &mut Builder,
        search: &OrderSearch<'_>,
        element: usize,
        method: &JoinMethod,
        placement: &mut Placement<'_, '_>,
    ) -> Planning {
        if let Element::Operand(operand) = &search.elements[element] {
            // The other elements name slots of this pipeline: it cannot become the input of a hash join.
            let nested = std::mem::replace(&mut builder.nested, true);
            let joined = self.join_operand(builder, operand.place, placement);
            builder.nested = nested;
            return joined;
        }
        push_element(builder, search, element, method);
        Ok(())
    }
}

/// Joins an element that is no operand, with the other members of its method.
pub(super) fn push_element(
    builder: &mut Builder,
    search: &OrderSearch<'_>,
    element: usize,
    method: &JoinMethod,
) {
    let elements = search.elements;
    let with = members_of(method, element).next();
    let with = with.map(|with| &elements[with]);
    match &elements[element] {
        Element::Triple(edge)
            if let (Some(Access::Cached(..)), Some(Element::Triple(attribute))) =
                (method.access, with) =>
        {
            push_cached(builder, edge, attribute, method);
        }
        _ if method.members != 0 => push_intersection(builder, elements, method),
        Element::Triple(triple) => {
            push_triple(builder, (search.snapshot, search.reads), triple, method);
            join_with_path(builder, search.snapshot);
        }
        Element::Path(path) => push_path(builder, path.clone(), method.rows),
        Element::Operand(_) => unreachable!("operands are joined with their groups"),
    }
}

/// Returns the properties of the solutions so far.
fn joined(builder: &Builder, reads: ReadCosts) -> Joined {
    let (slots, unit) = (builder.slots.len(), builder.is_unit());
    Joined {
        scanned: builder.is_scanned(),
        ..Joined::of(&builder.known, slots, unit, reads)
    }
}

fn push_triple(
    builder: &mut Builder,
    (snapshot, reads): (&Snapshot, ReadCosts),
    triple: &Triple,
    method: &JoinMethod,
) {
    let access: Access = method.access.expect("triples have an access");
    let table = joined(builder, reads).table_after(triple, access);
    let mut taken: Vec<usize> = Vec::new();
    let mut equal: Vec<(usize, usize)> = Vec::new();
    let mut position = |builder: &mut Builder, place: PatternTerm| match place {
        PatternTerm::Constant(id) => Position::Constant(id),
        PatternTerm::Slot(slot) if builder.known.certain.contains(&slot) => Position::Bound(slot),
        PatternTerm::Slot(slot) if taken.contains(&slot) => {
            let temporary = builder.temporary_slot();
            equal.push((slot, temporary));
            Position::New(temporary)
        }
        PatternTerm::Slot(slot) => {
            taken.push(slot);
            Position::New(slot)
        }
    };
    let subject = position(builder, triple.subject);
    let predicate = position(builder, triple.predicate);
    let object = position(builder, triple.object);
    let graph = match triple.graph {
        PatternGraph::Filter(filter) => GraphPosition::Filter(filter),
        PatternGraph::Slot(slot, filter) => match position(builder, PatternTerm::Slot(slot)) {
            Position::Bound(slot) => GraphPosition::Bound(slot),
            Position::New(slot) => GraphPosition::New(slot, filter),
            Position::Constant(_) => unreachable!("a slot is no constant"),
        },
    };
    let pattern = SlotPattern {
        subject,
        predicate,
        object,
        graph,
    };
    let rows = method.rows;
    let ranges = match access {
        Access::Scan(order) => triple.ranges_in(order).map(|confined| (confined, order)),
        _ => None,
    };
    match ranges {
        Some((confined, order)) => {
            // Ranges without matches, and those of kinds that do not occur, are not read.
            snapshot.depend_on(&triple.constants());
            let ids = Arc::clone(&confined.ids);
            let share = confined.count / triple.count;
            builder.push(StepKind::Ranges(pattern, order, ids), rows * share);
        }
        None => {
            builder.push(StepKind::Pattern(pattern, access), rows);
            let step = builder.steps.last_mut();
            step.expect("it was pushed").table = table;
        }
    }
    bind_triple(builder, triple, rows);
    for (a, b) in equal {
        builder.known.certain.insert(b);
        builder.push(StepKind::Equal(a, b), rows * 0.1);
    }
}

/// Binds the slots of a triple pattern, after which there are `rows` solutions.
fn bind_triple(builder: &mut Builder, triple: &Triple, rows: f64) {
    for (slot, distinct) in triple.slots() {
        let here = builder
            .known
            .distinct
            .get(&slot)
            .copied()
            .unwrap_or(f64::MAX);
        builder.bind(slot, here.min(distinct).min(rows));
    }
    for (place, kinds) in [
        (triple.subject, Kinds::RESOURCES),
        (triple.predicate, Kinds::RESOURCES),
        (triple.object, triple.object_kinds),
    ] {
        if let PatternTerm::Slot(slot) = place {
            builder.bind_kinds(slot, kinds);
        }
    }
    if let PatternGraph::Slot(slot, _) = triple.graph {
        builder.bind(slot, rows);
    }
}

/// Joins several patterns at once on the single slot that all of them bind.
fn push_intersection(builder: &mut Builder, elements: &[Element], method: &JoinMethod) {
    let triples = members(method.members).filter_map(|index| match &elements[index] {
        Element::Triple(triple) => Some(triple),
        Element::Path(_) | Element::Operand(_) => None,
    });
    let mut patterns = Vec::new();
    let mut bound = None;
    for triple in triples {
        let position = |place: PatternTerm| builder.position(place);
        let PatternGraph::Filter(graph) = triple.graph else {
            unreachable!("only patterns whose graph is no variable are intersected");
        };
        let pattern = SlotPattern {
            subject: position(triple.subject),
            predicate: position(triple.predicate),
            object: position(triple.object),
            graph: GraphPosition::Filter(graph),
        };
        if let Position::New(slot) = pattern.subject {
            bound = Some((slot, triple.distinct_subjects));
        } else if let Position::New(slot) = pattern.object {
            bound = Some((slot, triple.distinct_objects));
        }
        patterns.push(pattern);
    }
    let (slot, distinct) = bound.expect("the search intersects patterns with a new end");
    builder.push(StepKind::Intersect(slot, patterns), method.rows);
    builder.bind(slot, distinct.min(method.rows));
}

fn push_path(builder: &mut Builder, mut path: PathStep, rows: f64) {
    let mut equal = None;
    let subject = path.subject;
    for end in [&mut path.subject, &mut path.object] {
        if let Some(slot) = end.slot() {
            *end = if builder.known.certain.contains(&slot) {
                Position::Bound(slot)
            } else {
                Position::New(slot)
            };
        }
    }
    if let (Position::New(s), Position::New(o)) = (path.subject, path.object)
        && s == o
    {
        let temporary = builder.temporary_slot();
        path.object = Position::New(temporary);
        equal = Some((s, temporary));
    }
    let ends = [subject.slot(), path.object.slot()];
    let ends_are_known = ![path.subject, path.object]
        .iter()
        .any(|end| matches!(end, Position::New(_)));
    let step = match &path.labelled {
        Some(labelled) if ends_are_known && path.counted.is_none() => {
            StepKind::Reachable(labelled.step(&path))
        }
        _ => StepKind::Path(path),
    };
    builder.push(step, rows);
    for slot in ends.into_iter().flatten() {
        builder.bind(slot, rows);
    }
    if let Some((a, b)) = equal {
        builder.push(StepKind::Equal(a, b), rows * 0.1);
    }
}
