//! Basic graph patterns: the estimates for each triple pattern before ordering, and the steps written in the
//! order that [`super::order`] finds.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, QuadPattern, Snapshot};

use super::builder::Builder;
use super::cached::push_cached;
use super::equality::Kinds;
use super::group::Placement;
use super::join_method::JoinMethod;
use super::order::{OrderSearch, Start, members_of};
use super::push_down::{Confined, FilterHint};
use super::{Planner, Planning};
use pythia_exec::error::QueryError;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::step::{Access, GraphPosition, PathStep, Position, SlotPattern, StepKind};

/// A term of a pattern before ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternTerm {
    Constant(TermId),
    Slot(usize),
}

/// A triple pattern before ordering.
#[derive(Clone, Debug)]
pub(crate) struct Triple {
    pub(crate) subject: PatternTerm,
    pub(crate) predicate: PatternTerm,
    pub(crate) object: PatternTerm,
    pub(crate) graph: PatternGraph,
    /// Number of quads that match its constants: exact, unless the query sees only some graphs and these are
    /// many.
    pub(crate) count: f64,
    distinct_subjects: f64,
    distinct_objects: f64,
    distinct_predicates: f64,
    object_kinds: Kinds,
    /// Ids to which filters restrict the subject or object, if the pattern is scanned.
    pub(crate) confined: Option<Confined>,
}

/// The graph of a pattern before ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternGraph {
    Filter(GraphFilter),
    Slot(usize),
}

/// A part of a group to be joined.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Triple(Triple),
    /// Its positions name only the slots; whether each is new or bound is decided when the path is placed.
    Path(PathStep),
    Operand(Operand),
}

/// An operand before ordering.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// Place among the operands of its group.
    pub(crate) place: usize,
    /// Slots that each solution binds, with the estimated number of distinct terms.
    pub(crate) slots: Vec<(usize, f64)>,
    pub(crate) inside: Inside,
}

#[derive(Clone, Debug)]
pub(crate) enum Inside {
    /// VALUES with this number of rows.
    Rows(f64),
    /// The branches that may have solutions.
    Branches(Vec<Branch>),
}

/// The parts of a branch that its estimate counts: triple patterns, paths and operands, but nothing that OPTIONAL adds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) elements: Vec<Element>,
    pub(crate) filters: Vec<FilterHint>,
}

impl Branch {
    /// Returns the number of distinct terms that a slot can have.
    pub(crate) fn distinct(&self, slot: usize) -> f64 {
        let mut least = f64::MAX;
        for element in &self.elements {
            element.each_slot(|other, distinct| {
                if other == slot {
                    least = least.min(distinct);
                }
            });
        }
        least
    }
}

impl Element {
    /// Calls `each` with every slot that the element binds, and the number of distinct terms that it can have.
    pub(crate) fn each_slot(&self, mut each: impl FnMut(usize, f64)) {
        match self {
            Self::Triple(triple) => triple
                .slots()
                .for_each(|(slot, distinct)| each(slot, distinct)),
            Self::Path(path) => [path.subject, path.object]
                .into_iter()
                .filter_map(Position::slot)
                .for_each(|slot| each(slot, f64::MAX)),
            Self::Operand(operand) => operand
                .slots
                .iter()
                .for_each(|(slot, distinct)| each(*slot, *distinct)),
        }
    }

    /// Returns whether the element has at most one solution.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Triple(triple) => triple.count <= 1.0,
            Self::Operand(operand) => matches!(operand.inside, Inside::Rows(rows) if rows <= 1.0),
            Self::Path(_) => false,
        }
    }
}

impl Triple {
    pub(crate) fn new(
        counts: Counts<'_>,
        subject: PatternTerm,
        predicate: PatternTerm,
        object: PatternTerm,
        graph: PatternGraph,
    ) -> Result<Self, QueryError> {
        let pattern = constants(subject, predicate, object, graph);
        let count = counts.expected(&pattern)?;
        if count == 0.0 {
            // The pattern is not read then.
            counts.depend_on(&pattern);
        }
        let mut object_kinds = Kinds::ANY;
        let (subjects, objects) = match pattern.predicate {
            Some(predicate) => match counts.predicate(predicate)? {
                Some(p) => {
                    object_kinds = Kinds::of_objects(&p);
                    (p.subjects as f64, p.objects as f64)
                }
                None => (0.0, 0.0),
            },
            None => {
                let (_, subjects, objects) = counts.all();
                (subjects, objects)
            }
        };
        Ok(Self {
            subject,
            predicate,
            object,
            graph,
            count,
            distinct_subjects: subjects.min(count).max(1.0),
            distinct_objects: objects.min(count).max(1.0),
            confined: None,
            object_kinds,
            distinct_predicates: counts.predicates().min(count).max(1.0),
        })
    }

    /// Returns the pattern of the quads that match its constants.
    fn constants(&self) -> QuadPattern {
        constants(self.subject, self.predicate, self.object, self.graph)
    }

    /// Returns the share of the matches that pass the filters over this one slot, if it was counted.
    pub(crate) fn share_of(&self, slots: &[usize]) -> Option<f64> {
        let confined = self.confined.as_ref()?;
        let end = match confined.end {
            End::Subject => self.subject,
            End::Object => self.object,
        };
        let is_its = matches!((end, slots), (PatternTerm::Slot(slot), [only]) if slot == *only);
        is_its.then(|| (confined.count / self.count).clamp(1e-9, 1.0))
    }

    /// Returns the variables, each with the number of distinct terms that it can have.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, f64)> {
        [
            (self.subject, self.distinct_subjects),
            (self.predicate, self.distinct_predicates),
            (self.object, self.distinct_objects),
        ]
        .into_iter()
        .filter_map(|(place, distinct)| match place {
            PatternTerm::Slot(slot) => Some((slot, distinct)),
            PatternTerm::Constant(_) => None,
        })
    }
}

/// Returns the pattern of the quads that match the constants among these.
fn constants(
    subject: PatternTerm,
    predicate: PatternTerm,
    object: PatternTerm,
    graph: PatternGraph,
) -> QuadPattern {
    let constant = |place: PatternTerm| match place {
        PatternTerm::Constant(id) => Some(id),
        PatternTerm::Slot(_) => None,
    };
    QuadPattern {
        subject: constant(subject),
        predicate: constant(predicate),
        object: constant(object),
        graph: match graph {
            PatternGraph::Filter(filter) => filter,
            PatternGraph::Slot(_) => GraphFilter::Named,
        },
    }
}

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
            };
            for (element, method) in search.best(&start, &left)? {
                governor.check()?;
                self.join_element(builder, elements, element, &method, placement)?;
                builder.known.sorted = method.sorted;
                joined[element] = true;
                members_of(&method, element).for_each(|member| joined[member] = true);
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

    fn join_element(
        &self,
        builder: &mut Builder,
        elements: &[Element],
        element: usize,
        method: &JoinMethod,
        placement: &mut Placement<'_, '_>,
    ) -> Planning {
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
            Element::Triple(triple) => push_triple(builder, self.snapshot, triple, method),
            Element::Path(path) => push_path(builder, path.clone(), method.rows),
            Element::Operand(operand) => {
                // The other elements name slots of this pipeline: it cannot become the input of a hash join.
                let nested = std::mem::replace(&mut builder.nested, true);
                let joined = self.join_operand(builder, operand.place, placement);
                builder.nested = nested;
                joined?;
            }
        }
        Ok(())
    }
}

fn push_triple(builder: &mut Builder, snapshot: &Snapshot, triple: &Triple, method: &JoinMethod) {
    let access: Access = method.access.expect("triples have an access");
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
        PatternGraph::Slot(slot) => match position(builder, PatternTerm::Slot(slot)) {
            Position::Bound(slot) => GraphPosition::Bound(slot),
            Position::New(slot) => GraphPosition::New(slot),
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
    match (&triple.confined, access) {
        (Some(confined), Access::Scan(order)) if confined.is_read_by(order) => {
            // Ranges without matches, and those of kinds that do not occur, are not read.
            snapshot.depend_on(&triple.constants());
            let ids = Arc::clone(&confined.ids);
            let share = confined.count / triple.count;
            builder.push(StepKind::Ranges(pattern, order, ids), rows * share);
        }
        _ => builder.push(StepKind::Pattern(pattern, access), rows),
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
    if let PatternGraph::Slot(slot) = triple.graph {
        builder.bind(slot, rows);
    }
}

/// Joins several patterns at once on the single slot that all of them bind.
fn push_intersection(builder: &mut Builder, elements: &[Element], method: &JoinMethod) {
    let members = (0..elements.len().min(64)).filter(|index| method.members >> index & 1 == 1);
    let triples = members.filter_map(|index| match &elements[index] {
        Element::Triple(triple) => Some(triple),
        Element::Path(_) | Element::Operand(_) => None,
    });
    let mut patterns = Vec::new();
    let mut bound = None;
    for triple in triples {
        let position = |place: PatternTerm| match place {
            PatternTerm::Constant(id) => Position::Constant(id),
            PatternTerm::Slot(slot) if builder.known.certain.contains(&slot) => {
                Position::Bound(slot)
            }
            PatternTerm::Slot(slot) => Position::New(slot),
        };
        let PatternGraph::Filter(graph) = triple.graph else {
            unreachable!("only patterns of one graph are intersected");
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
