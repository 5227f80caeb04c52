//! The steps that are left of a running pattern, ordered again: far more solutions came than were expected.
//!
//! Only the joins with triple patterns that come next, and the filters between them, are ordered. The other steps stay where
//! they are.

use pythia_exec::error::QueryError;
use pythia_exec::exec::subquery::RestOfPattern;
use pythia_exec::explain::CostId;
use pythia_exec::plan::choices::Choice;
use pythia_exec::plan::duplicates::without_duplicates;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::slots::Slots;
use pythia_exec::plan::step::{Access, GraphPosition, Position, SlotPattern, Step, StepKind};
use pythia_sparql::scope::draws;

use super::Planner;
use super::bgp::push_element;
use super::builder::{Builder, assign_live};
use super::element::{Element, FilterHint, PatternGraph, PatternTerm, Triple};
use super::order::{NUMBERED_MAX, OrderSearch, Start, members_of};

/// Expected cost of testing a filter, in microseconds.
const TEST: f64 = 0.05;

/// The steps that are ordered again.
#[derive(Default)]
struct Movable {
    /// Number of steps.
    steps: usize,
    elements: Vec<Element>,
    /// For each element, the number of its step's cost.
    costs: Vec<CostId>,
    tests: Vec<Test>,
    /// Slots that the solutions bind before these steps, as far as joins use them.
    bound: Slots,
    /// Slots that the steps bind.
    new: Slots,
}

/// A step that only drops solutions.
struct Test {
    kind: StepKind,
    cost: CostId,
    /// The slots that it needs.
    slots: Vec<usize>,
    /// The share of solutions that was expected to pass.
    share: f64,
}

impl Planner<'_> {
    /// Returns the steps to run instead of those that are left; `None` if no other order is better.
    pub(super) fn rest(&self, rest: &RestOfPattern<'_>) -> Result<Option<Vec<Step>>, QueryError> {
        let mut builder = Builder::new();
        builder.nested = true;
        for variable in rest.slots {
            builder.slot(variable);
        }
        let is_plain = |step: &Step| step.counts.is_none() && !is_fixed(&step.kind);
        if builder.slots.len() != rest.slots.len() || !rest.steps.iter().all(is_plain) {
            return Ok(None);
        }
        let mut movable = self.movable(rest)?;
        let tail = &rest.steps[movable.steps..];
        if !(2..=NUMBERED_MAX).contains(&movable.elements.len()) || tail.iter().any(is_sorted) {
            return Ok(None);
        }
        builder.known.rows = rest.rows;
        for slot in movable.bound.iter() {
            builder.bind(slot, rest.distinct[slot]);
        }
        self.push_ordered(&mut builder, &mut movable)?;
        if builder.slots.len() != rest.slots.len() {
            return Ok(None);
        }
        let ordered = std::mem::take(&mut builder.steps);
        if are_same(&ordered, &rest.steps[..movable.steps]) {
            return Ok(None);
        }
        // Duplicates of the solutions that wait are dropped as before.
        let head = rest.steps.iter().take_while(|step| is_distinct(step));
        let mut steps: Vec<Step> = head.cloned().collect();
        let (first, last) = (steps.len(), steps.len() + ordered.len());
        steps.extend(ordered);
        steps.extend(tail.iter().cloned());
        // This may drop a BIND of the tail: only an OPTIONAL that made duplicates needed its value.
        assign_live(&mut steps, rest.output.iter().copied().collect::<Slots>());
        let ignores_duplicates = |step: &Step| step.once || is_distinct(step);
        if rest.steps.iter().any(ignores_duplicates) {
            let once = without_duplicates(&steps[first..last]);
            steps.splice(first..last, once);
        }
        Ok(Some(steps))
    }

    /// Takes apart the steps that can be ordered: those before the first that cannot.
    fn movable(&self, rest: &RestOfPattern<'_>) -> Result<Movable, QueryError> {
        let mut movable = Movable::default();
        let mut rows = rest.expected;
        for step in rest.steps {
            let mut patterns: &[SlotPattern] = &[];
            match &step.kind {
                StepKind::Pattern(pattern, access) if !matches!(access, Access::Cached(..)) => {
                    patterns = std::slice::from_ref(pattern);
                }
                StepKind::Intersect(_, intersected) => patterns = intersected,
                StepKind::Filter(filter) if !is_drawn(filter) => {
                    let slots = filter.slots.clone();
                    movable.tests.push(Test::of(step, slots, rows));
                }
                StepKind::Equal(a, b) => movable.tests.push(Test::of(step, vec![*a, *b], rows)),
                StepKind::EarlyDistinct => {}
                _ => break,
            }
            let is_fixed = |p: &SlotPattern| !matches!(p.graph, GraphPosition::Filter(_));
            if patterns.iter().any(is_fixed) || step.filters.iter().any(is_drawn) {
                break;
            }
            for pattern in patterns {
                movable.note_slots(pattern);
                movable
                    .elements
                    .push(Element::Triple(self.triple(pattern)?));
                // Each number belongs to one step, and so to one table.
                movable.costs.push(match patterns.len() {
                    1 => step.cost,
                    _ => CostId::next(),
                });
            }
            movable.tests.extend(step.filters.iter().map(|filter| Test {
                kind: StepKind::Filter(filter.clone()),
                cost: CostId::next(),
                slots: filter.slots.clone(),
                share: 1.0,
            }));
            rows = step.rows;
            movable.steps += 1;
        }
        Ok(movable)
    }

    fn triple(&self, pattern: &SlotPattern) -> Result<Triple, QueryError> {
        let term = |position: Position| match position {
            Position::Constant(id) => PatternTerm::Constant(id),
            Position::Bound(slot) | Position::New(slot) => PatternTerm::Slot(slot),
        };
        let terms = [pattern.subject, pattern.predicate, pattern.object].map(term);
        let graph = PatternGraph::Filter(pattern.graph.filter());
        Triple::new(self.counts(), terms, graph, |pattern| {
            self.matches_of(pattern)
        })
    }

    /// Pushes all elements in the best order, and each test as soon as its slots are bound.
    fn push_ordered(&self, builder: &mut Builder, movable: &mut Movable) -> Result<(), QueryError> {
        let Movable {
            elements,
            costs,
            tests,
            new,
            ..
        } = movable;
        for test in &mut *tests {
            test.slots.retain(|slot| new.contains(*slot));
        }
        let hint = |test: &Test| FilterHint {
            slots: test.slots.clone(),
            share: test.share,
            cost: TEST,
        };
        let hints: Vec<FilterHint> = tests.iter().map(hint).collect();
        let governor = self.evaluation.governor();
        let (slots, counts) = (builder.slots.len(), self.counts());
        let search = OrderSearch::new(elements, &hints, slots, self.snapshot, counts, governor);
        let start = Start {
            known: &builder.known,
            unit: false,
            slots,
            samples: &self.samples,
        };
        let left: Vec<usize> = (0..elements.len()).collect();
        let found = search.find(&start, &left)?;
        let mut origin = Some(found.origin);
        push_tests(builder, tests);
        for (element, method) in found.order {
            push_element(builder, &search, element, &method);
            if members_of(&method, element).next().is_none() {
                // It is measured as the step that it was.
                let step = builder.steps.last_mut();
                step.expect("it was pushed").cost = costs[element];
            }
            if let (Some(choices), Some(step)) = (self.choices, builder.steps.last()) {
                let choice = Choice {
                    cost_us: method.cost.max(0.0),
                    order: origin.take(),
                    rejected: Vec::new(),
                };
                choices.record(step.cost, choice);
            }
            builder.known.sorted = method.sorted;
            push_tests(builder, tests);
        }
        Ok(())
    }
}

impl Movable {
    /// Notes which slots a pattern finds bound, and which it binds. The patterns come in the order in which they were planned.
    fn note_slots(&mut self, pattern: &SlotPattern) {
        for position in [pattern.subject, pattern.predicate, pattern.object] {
            match position {
                Position::Bound(slot) if !self.new.contains(slot) => self.bound.insert(slot),
                Position::New(slot) => self.new.insert(slot),
                Position::Bound(_) | Position::Constant(_) => false,
            };
        }
    }
}

/// Pushes the tests whose slots are bound, and keeps the others.
fn push_tests(builder: &mut Builder, tests: &mut Vec<Test>) {
    for test in std::mem::take(tests) {
        let mut slots = test.slots.iter();
        if !slots.all(|slot| builder.known.certain.contains(slot)) {
            tests.push(test);
            continue;
        }
        let rows = builder.known.rows * test.share;
        builder.push(test.kind, rows);
        builder.steps.last_mut().expect("it was pushed").cost = test.cost;
    }
}

impl Test {
    /// Returns the test of a step, before which this number of solutions was expected.
    fn of(step: &Step, slots: Vec<usize>, rows: f64) -> Self {
        Self {
            kind: step.kind.clone(),
            cost: step.cost,
            slots,
            share: (step.rows / rows.max(1e-9)).clamp(1e-6, 1.0),
        }
    }
}

/// Returns whether the steps join the same patterns in the same order and in the same way.
fn are_same(one: &[Step], other: &[Step]) -> bool {
    fn joins(steps: &[Step]) -> impl Iterator<Item = &Step> {
        let is_join =
            |step: &&Step| matches!(step.kind, StepKind::Pattern(..) | StepKind::Intersect(..));
        steps.iter().filter(is_join)
    }
    let is_same = |(one, other): (&Step, &Step)| match (&one.kind, &other.kind) {
        (StepKind::Pattern(a, access), StepKind::Pattern(b, other)) => (a, access) == (b, other),
        (StepKind::Intersect(_, a), StepKind::Intersect(_, b)) => a == b,
        _ => false,
    };
    joins(one).count() == joins(other).count() && joins(one).zip(joins(other)).all(is_same)
}

fn is_distinct(step: &Step) -> bool {
    matches!(step.kind, StepKind::EarlyDistinct)
}

/// Returns whether a step's place says what it counts.
fn is_fixed(kind: &StepKind) -> bool {
    matches!(kind, StepKind::EarlyCount(_))
}

fn is_drawn(filter: &SlotExpression) -> bool {
    draws(&filter.source.expression)
}

/// Returns whether a step needs solutions that are sorted.
fn is_sorted(step: &Step) -> bool {
    match &step.kind {
        StepKind::Pattern(_, Access::Merge(_)) => true,
        StepKind::Optional(inner) => inner.iter().any(is_sorted),
        StepKind::Union(branches) => branches.iter().flatten().any(is_sorted),
        _ => false,
    }
}
