//! Ordering the patterns of a group and choosing how each is joined.
//!
//! Greedy: from what is bound so far, the pattern that costs least, with what it leaves for the
//! later ones, comes next. Cardinalities start from exact counts of each pattern's constants.
//! Costs are in microseconds on warm pages.

use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, Order, QuadPattern, Snapshot};

use super::builder::Builder;
use crate::error::QueryError;
use crate::exec::step::{Access, GraphPosition, PathStep, Position, SlotPattern, StepKind};

/// Visiting one tuple page and decoding a list.
const VISIT: f64 = 0.4;
/// Making one row.
const ROW: f64 = 0.02;
/// Reading one row of a column.
const SCANNED: f64 = 0.006;
/// Reading one row of a column into a hash table.
const HASHED: f64 = 0.05;
/// One hash lookup.
const LOOKUP: f64 = 0.03;
/// Starting a scan.
const SCAN_START: f64 = 2.0;
/// Weight of each row left behind: what a following join will pay for it.
const LEFT_BEHIND: f64 = 0.4;
/// With this many matches a constant object's list is read from the columns, streaming.
const LONG_LIST: u64 = 4096;

/// A term of a pattern before it is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Constant(TermId),
    Slot(usize),
}

/// A triple pattern before it is ordered.
#[derive(Clone, Debug)]
pub(crate) struct Triple {
    pub(crate) subject: Place,
    pub(crate) predicate: Place,
    pub(crate) object: Place,
    pub(crate) graph: GraphPlace,
    /// Exact number of quads its constants match.
    count: f64,
    distinct_subjects: f64,
    distinct_objects: f64,
    distinct_predicates: f64,
}

/// Where a pattern is matched, before it is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphPlace {
    Filter(GraphFilter),
    Slot(usize),
}

/// Something to be joined in the best place.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Triple(Triple),
    /// Its positions say only which slots; new or bound is decided when it is placed.
    Path(PathStep),
}

impl Triple {
    pub(crate) fn new(
        snapshot: &Snapshot,
        subject: Place,
        predicate: Place,
        object: Place,
        graph: GraphPlace,
    ) -> Result<Self, QueryError> {
        let constant = |place: Place| match place {
            Place::Constant(id) => Some(id),
            Place::Slot(_) => None,
        };
        let pattern = QuadPattern {
            subject: constant(subject),
            predicate: constant(predicate),
            object: constant(object),
            graph: match graph {
                GraphPlace::Filter(filter) => filter,
                GraphPlace::Slot(_) => GraphFilter::Named,
            },
        };
        let count = snapshot.count(&pattern)? as f64;
        let statistics = snapshot.statistics();
        let (subjects, objects) = match pattern.predicate {
            Some(predicate) => match statistics.predicate(predicate) {
                Some(p) => (p.subjects as f64, p.objects as f64),
                None => (0.0, 0.0),
            },
            None => (statistics.subjects as f64, statistics.objects as f64),
        };
        Ok(Self {
            subject,
            predicate,
            object,
            graph,
            count,
            distinct_subjects: subjects.min(count).max(1.0),
            distinct_objects: objects.min(count).max(1.0),
            distinct_predicates: (statistics.predicates.len() as f64).min(count).max(1.0),
        })
    }

    fn slots(&self) -> impl Iterator<Item = (usize, f64)> {
        [
            (self.subject, self.distinct_subjects),
            (self.predicate, self.distinct_predicates),
            (self.object, self.distinct_objects),
        ]
        .into_iter()
        .filter_map(|(place, distinct)| match place {
            Place::Slot(slot) => Some((slot, distinct)),
            Place::Constant(_) => None,
        })
    }
}

/// A way to join an element now.
struct Choice {
    access: Option<Access>,
    rows: f64,
    cost: f64,
}

impl Choice {
    fn score(&self) -> f64 {
        self.cost + self.rows * LEFT_BEHIND
    }
}

/// Joins all elements to the pipeline, in the order found best. After each, `placed` may add
/// filters that have become possible.
pub(crate) fn join_elements(
    builder: &mut Builder,
    mut elements: Vec<Element>,
    mut placed: impl FnMut(&mut Builder) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    placed(builder)?;
    while !elements.is_empty() {
        let connected: Vec<bool> = elements.iter().map(|e| is_connected(builder, e)).collect();
        let any = connected.iter().any(|c| *c);
        let (best, choice) = elements
            .iter()
            .enumerate()
            .filter(|(i, _)| !any || connected[*i])
            .map(|(i, element)| (i, choose(builder, element, &elements, i)))
            .min_by(|(_, a), (_, b)| a.score().total_cmp(&b.score()))
            .expect("there are elements left");
        match elements.remove(best) {
            Element::Triple(triple) => push_triple(builder, &triple, choice),
            Element::Path(path) => push_path(builder, path, choice.rows),
        }
        placed(builder)?;
    }
    Ok(())
}

fn is_bound(builder: &Builder, place: Place) -> bool {
    match place {
        Place::Constant(_) => true,
        Place::Slot(slot) => builder.known.certain.contains(&slot),
    }
}

/// Whether the element shares a bound variable with the solutions so far, or has none at all.
fn is_connected(builder: &Builder, element: &Element) -> bool {
    match element {
        Element::Triple(triple) => {
            let mut slots = triple.slots().peekable();
            slots.peek().is_none() || slots.any(|(slot, _)| builder.known.certain.contains(&slot))
        }
        Element::Path(path) => [path.subject, path.object].into_iter().any(|p| {
            p.slot()
                .is_none_or(|slot| builder.known.certain.contains(&slot))
        }),
    }
}

fn choose(builder: &Builder, element: &Element, all: &[Element], own: usize) -> Choice {
    match element {
        Element::Triple(triple) => choose_triple(builder, triple, all, own),
        Element::Path(path) => choose_path(builder, path),
    }
}

fn choose_path(builder: &Builder, path: &PathStep) -> Choice {
    let bound = |p: Position| p.slot().is_none_or(|s| builder.known.certain.contains(&s));
    let rows = builder.known.rows;
    let (rows, cost) = match (bound(path.subject), bound(path.object)) {
        (true, true) => (rows * 0.5, rows * 20.0),
        (false, false) => (rows * 1e6, rows * 1e7),
        _ => (rows * 20.0, rows * 20.0),
    };
    Choice {
        access: None,
        rows,
        cost,
    }
}

fn choose_triple(builder: &Builder, triple: &Triple, all: &[Element], own: usize) -> Choice {
    let known = &builder.known;
    let mut rows = known.rows * triple.count;
    let mut shared = 0;
    for (slot, distinct) in triple.slots() {
        if known.certain.contains(&slot) {
            shared += 1;
            let here = known.distinct.get(&slot).copied().unwrap_or(known.rows);
            rows /= here.max(distinct).max(1.0);
        }
    }
    let subject = is_bound(builder, triple.subject);
    let object = is_bound(builder, triple.object);
    let mut ways: Vec<(Access, f64)> = Vec::new();
    if subject
        && object
        && let (Place::Constant(_), GraphPlace::Filter(_)) = (triple.predicate, triple.graph)
    {
        ways.push((Access::Probe, known.rows * VISIT));
    } else if shared == 0 {
        let order = scan_order(builder, triple, all, own);
        let cost = known.rows * (SCAN_START + triple.count * SCANNED);
        ways.push((Access::Scan(order), cost));
    } else {
        let output = rows * ROW;
        if subject {
            ways.push((Access::Expand(End::Subject), known.rows * VISIT + output));
        }
        if object {
            ways.push((Access::Expand(End::Object), known.rows * VISIT + output));
        }
        if let (Some(order), Some(slot)) = (
            keyed_order(triple, subject, object),
            single_key(triple, subject, object),
        ) {
            if known.sorted == Some(slot) {
                let read = triple.count.min(known.rows * 400.0);
                let cost = SCAN_START + read * SCANNED + known.rows * ROW + output;
                ways.push((Access::Merge(order), cost));
            }
            let cost = SCAN_START + triple.count * HASHED + known.rows * LOOKUP + output;
            ways.push((Access::Hash(order), cost));
        }
        if !subject && !object {
            let order = match triple.object {
                Place::Constant(_) => Order::Ops,
                Place::Slot(_) => Order::Pso,
            };
            ways.push((Access::Scan(order), known.rows * SCAN_START + output));
        }
    }
    let (access, cost) = ways
        .into_iter()
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .expect("every pattern can be joined in some way");
    Choice {
        access: Some(access),
        rows,
        cost,
    }
}

/// The one slot that joins the pattern, if exactly one end is a bound variable, the other is
/// free or constant, and predicate and graph are fixed.
fn single_key(triple: &Triple, subject: bool, object: bool) -> Option<usize> {
    let (Place::Constant(_), GraphPlace::Filter(_)) = (triple.predicate, triple.graph) else {
        return None;
    };
    match (triple.subject, triple.object) {
        (Place::Slot(s), Place::Slot(o)) if s != o && subject != object => {
            Some(if subject { s } else { o })
        }
        (Place::Slot(s), Place::Constant(_)) if subject => Some(s),
        (Place::Constant(_), Place::Slot(o)) if object => Some(o),
        _ => None,
    }
}

/// The order whose rows come sorted by the joining slot.
fn keyed_order(triple: &Triple, subject: bool, object: bool) -> Option<Order> {
    match (triple.subject, triple.object) {
        (Place::Slot(_), Place::Slot(_)) if subject && !object => Some(Order::Pso),
        (Place::Slot(_), Place::Slot(_)) if object && !subject => Some(Order::Pos),
        (Place::Slot(_), Place::Constant(_)) => Some(Order::Pos),
        (Place::Constant(_), Place::Slot(_)) => Some(Order::Pso),
        _ => None,
    }
}

/// The order to read a pattern in that starts (or crosses) the pipeline.
fn scan_order(builder: &Builder, triple: &Triple, all: &[Element], own: usize) -> Order {
    match (triple.subject, triple.predicate, triple.object) {
        (Place::Constant(_), ..) => Order::Spo,
        (_, Place::Constant(_), Place::Constant(_)) if triple.count as u64 > LONG_LIST => {
            Order::Pos
        }
        (_, _, Place::Constant(_)) => Order::Ops,
        (Place::Slot(s), Place::Constant(_), Place::Slot(o)) => {
            let uses = |slot: usize| {
                all.iter()
                    .enumerate()
                    .filter(|(i, e)| *i != own && mentions(e, slot))
                    .count()
            };
            if uses(o) > uses(s) && builder.is_unit() {
                Order::Pos
            } else {
                Order::Pso
            }
        }
        _ => Order::Spo,
    }
}

fn mentions(element: &Element, slot: usize) -> bool {
    match element {
        Element::Triple(triple) => triple.slots().any(|(s, _)| s == slot),
        Element::Path(path) => [path.subject, path.object]
            .into_iter()
            .any(|p| p.slot() == Some(slot)),
    }
}

fn push_triple(builder: &mut Builder, triple: &Triple, choice: Choice) {
    let access = choice.access.expect("triples have an access");
    let mut taken: Vec<usize> = Vec::new();
    let mut equal: Vec<(usize, usize)> = Vec::new();
    let mut position = |builder: &mut Builder, place: Place| match place {
        Place::Constant(id) => Position::Constant(id),
        Place::Slot(slot) if builder.known.certain.contains(&slot) => Position::Bound(slot),
        Place::Slot(slot) if taken.contains(&slot) => {
            let temporary = builder.temporary_slot();
            equal.push((slot, temporary));
            Position::New(temporary)
        }
        Place::Slot(slot) => {
            taken.push(slot);
            Position::New(slot)
        }
    };
    let subject = position(builder, triple.subject);
    let predicate = position(builder, triple.predicate);
    let object = position(builder, triple.object);
    let graph = match triple.graph {
        GraphPlace::Filter(filter) => GraphPosition::Filter(filter),
        GraphPlace::Slot(slot) => match position(builder, Place::Slot(slot)) {
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
    let unit = builder.is_unit();
    let rows = choice.rows;
    builder.push(StepKind::Pattern(pattern, access), rows);
    if let Access::Scan(order) = access {
        builder.known.sorted = unit
            .then(|| crate::exec::scan::sorted_slot(&pattern, order))
            .flatten();
    }
    for (slot, distinct) in triple.slots() {
        let here = builder
            .known
            .distinct
            .get(&slot)
            .copied()
            .unwrap_or(f64::MAX);
        builder.bind(slot, here.min(distinct).min(rows));
    }
    if let GraphPlace::Slot(slot) = triple.graph {
        builder.bind(slot, rows);
    }
    for (a, b) in equal {
        builder.known.certain.insert(b);
        builder.push(StepKind::Equal(a, b), rows * 0.1);
    }
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
    builder.push(StepKind::Path(path), rows);
    builder.known.sorted = None;
    for slot in ends.into_iter().flatten() {
        builder.bind(slot, rows);
    }
    if let Some((a, b)) = equal {
        builder.push(StepKind::Equal(a, b), rows * 0.1);
    }
}
