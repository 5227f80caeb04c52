//! A pipeline under construction: its slots, its steps so far, and the estimates for the solutions at its
//! end.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use oxrdf::{Term, Variable};
use pythia_sparql::scope::Variables;

use super::element::{Kinds, PatternTerm};
use super::link_filter::filter_links;
use pythia_exec::explain::CostId;
use pythia_exec::plan::duplicates::without_duplicates;
use pythia_exec::plan::operators::Pattern;
use pythia_exec::plan::slots::Slots;
use pythia_exec::plan::step::{Access, GraphPosition, PathGraph, Position, Step, StepKind};
use pythia_exec::plan::{Operator, Plan};

/// An independent plan with the estimates for its solutions.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// Variables bound in every solution.
    pub(crate) certain: Variables,
    /// Estimated number of solutions.
    pub(crate) rows: f64,
}

impl Planned {
    /// Records the estimate in the plan for EXPLAIN.
    pub(crate) fn with_estimate(mut self) -> Self {
        self.plan.estimate(self.rows);
        self
    }

    /// Puts an operator with the same columns above the plan. `operator` returns it with its input.
    pub(crate) fn above(self, operator: impl FnOnce(Plan) -> (Operator, Plan)) -> Self {
        let variables = self.plan.variables.clone();
        let (operator, input) = operator(self.plan);
        Self {
            plan: Plan::new(operator, vec![input], variables),
            certain: self.certain,
            rows: self.rows,
        }
    }

    /// Returns the variables of the solutions, one per column.
    pub(crate) fn variables(&self) -> &[Variable] {
        &self.plan.variables
    }
}

/// Properties of the solutions after the steps so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Slots bound in every solution.
    pub(crate) certain: BTreeSet<usize>,
    /// Slots bound in some solutions.
    pub(crate) maybe: BTreeSet<usize>,
    /// Estimated number of solutions.
    pub(crate) rows: f64,
    /// Estimated number of distinct terms per slot.
    pub(crate) distinct: HashMap<usize, f64>,
    /// Kinds of the terms per slot, where they are known.
    kinds: HashMap<usize, Kinds>,
    /// Slot by which the solutions are sorted.
    pub(crate) sorted: Option<usize>,
}

/// The numbers of variables without a slot of their own.
#[derive(Clone, Copy)]
pub(crate) struct StandIns {
    unified: usize,
    substituted: usize,
}

/// A pipeline under construction.
#[derive(Clone, Default)]
pub(crate) struct Builder {
    pub(crate) slots: Vec<Variable>,
    index: HashMap<Variable, usize>,
    pub(crate) steps: Vec<Step>,
    pub(crate) known: Knowledge,
    input: Option<(Plan, Vec<usize>)>,
    /// True for the inside of an OPTIONAL or UNION, whose input is the outer pipeline.
    pub(crate) nested: bool,
    /// Variables that temporarily share the slot of another variable, with that variable.
    unified: Vec<(Variable, Variable)>,
    /// Variables whose places in triple patterns terms have taken.
    substituted: Vec<(Variable, Term)>,
    /// Variables whose terms were inserted from outside at every leaf (`EXISTS`).
    pub(crate) inserted: Variables,
}

impl Builder {
    /// Creates a pipeline that starts from the empty solution.
    pub(crate) fn new() -> Self {
        Self {
            known: Knowledge {
                rows: 1.0,
                ..Knowledge::default()
            },
            ..Self::default()
        }
    }

    /// Creates a pipeline whose input is about `rows` solutions that bind these variables. Their terms count
    /// as inserted at every leaf.
    pub(crate) fn fed(variables: &[Variable], rows: usize) -> Self {
        let mut builder = Self::new();
        builder.nested = true;
        builder.known.rows = rows as f64;
        for variable in variables {
            let slot = builder.slot(variable);
            builder.bind(slot, rows as f64);
        }
        builder.inserted = variables.iter().cloned().collect();
        builder
    }

    /// Creates a pipeline that starts from the solutions of a plan.
    pub(crate) fn from_planned(planned: Planned) -> Self {
        let planned = planned.with_estimate();
        let mut builder = Self::new();
        let slots = planned
            .variables()
            .iter()
            .map(|v| builder.slot(v))
            .collect();
        for (slot, variable) in builder.slots.iter().enumerate() {
            builder.known.distinct.insert(slot, planned.rows);
            if planned.certain.contains(variable) {
                builder.known.certain.insert(slot);
            } else {
                builder.known.maybe.insert(slot);
            }
        }
        builder.known.rows = planned.rows;
        builder.input = Some((planned.plan, slots));
        builder
    }

    /// Returns whether the pipeline still holds only the empty solution.
    pub(crate) fn is_unit(&self) -> bool {
        self.steps.is_empty() && self.input.is_none() && !self.nested
    }

    /// Returns whether the pattern has the solutions of one scan so far.
    pub(crate) fn is_scanned(&self) -> bool {
        let Some((first, others)) = self.steps.split_first() else {
            return false;
        };
        let is_scan = matches!(
            first.kind,
            StepKind::Pattern(_, Access::Scan(_)) | StepKind::Ranges(..)
        );
        let is_test = |step: &Step| matches!(step.kind, StepKind::Filter(_) | StepKind::Equal(..));
        self.input.is_none() && !self.nested && is_scan && others.iter().all(is_test)
    }

    /// Returns the slot of a variable, and creates it if necessary.
    pub(crate) fn slot(&mut self, variable: &Variable) -> usize {
        if let Some(&slot) = self.index.get(variable) {
            return slot;
        }
        let slot = self.slots.len();
        self.slots.push(variable.clone());
        self.index.insert(variable.clone(), slot);
        slot
    }

    /// Lets a variable without a slot share the slot of `kept`.
    pub(crate) fn unify(&mut self, kept: Variable, other: Variable) {
        let slot = self.slot(&kept);
        self.index.insert(other.clone(), slot);
        self.unified.push((other, kept));
    }

    /// Returns whether the variable occurs in this pipeline.
    pub(crate) fn has_slot(&self, variable: &Variable) -> bool {
        self.index.contains_key(variable)
    }

    /// Returns whether the variable shares the slot of another.
    pub(crate) fn is_unified(&self, variable: &Variable) -> bool {
        self.unified.iter().any(|(other, _)| other == variable)
    }

    /// Returns the variables that now share a slot or have a term in their place, to end those of an inner group alone.
    pub(crate) fn stand_ins(&self) -> StandIns {
        StandIns {
            unified: self.unified.len(),
            substituted: self.substituted.len(),
        }
    }

    /// Ends all sharing since then. Returns the variables that lose their slot, each with the variable whose slot it
    /// shared.
    pub(crate) fn take_unified(&mut self, since: StandIns) -> Vec<(Variable, Variable)> {
        let unified = self.unified.split_off(since.unified);
        for (other, _) in &unified {
            self.index.remove(other);
        }
        unified
    }

    /// Lets a term take the place of a variable without a slot.
    pub(crate) fn substitute(&mut self, variable: Variable, term: Term) {
        self.substituted.push((variable, term));
    }

    /// Returns the term that has taken the place of the variable.
    pub(crate) fn substituted(&self, variable: &Variable) -> Option<&Term> {
        let mut all = self.substituted.iter();
        all.find(|(other, _)| other == variable)
            .map(|(_, term)| term)
    }

    /// Ends all substitution since then.
    pub(crate) fn take_substituted(&mut self, since: StandIns) -> Vec<(Variable, Term)> {
        self.substituted.split_off(since.substituted)
    }

    /// Returns the position of a term in a step after those so far.
    pub(crate) fn position(&self, place: PatternTerm) -> Position {
        match place {
            PatternTerm::Constant(id) => Position::Constant(id),
            PatternTerm::Slot(slot) if self.known.certain.contains(&slot) => Position::Bound(slot),
            PatternTerm::Slot(slot) => Position::New(slot),
        }
    }

    /// Creates a slot without a variable.
    pub(crate) fn temporary_slot(&mut self) -> usize {
        let mut number = self.slots.len();
        loop {
            let variable = Variable::new_unchecked(format!("_:pythia{number}"));
            if !self.index.contains_key(&variable) {
                return self.slot(&variable);
            }
            number += 1;
        }
    }

    /// Returns whether the variable is bound in every solution so far.
    pub(crate) fn is_certain(&self, variable: &Variable) -> bool {
        self.index
            .get(variable)
            .is_some_and(|slot| self.known.certain.contains(slot))
    }

    /// Returns whether the variable may be bound in a solution so far.
    pub(crate) fn is_bound(&self, variable: &Variable) -> bool {
        self.index.get(variable).is_some_and(|slot| {
            self.known.certain.contains(slot) || self.known.maybe.contains(slot)
        })
    }

    /// Returns the variables that may be bound so far.
    pub(crate) fn variables(&self) -> Variables {
        self.known
            .certain
            .iter()
            .chain(&self.known.maybe)
            .map(|slot| self.slots[*slot].clone())
            .collect()
    }

    /// Returns the variables that an operand evaluated alone would not see.
    pub(crate) fn joined_variables(&self) -> Variables {
        &self.variables() - &self.inserted
    }

    /// Adds a step. `rows` is the estimated number of solutions after it.
    pub(crate) fn push(&mut self, kind: StepKind, rows: f64) {
        self.known.rows = rows;
        self.steps.push(Step {
            cost: CostId::next(),
            kind,
            live: Arc::default(),
            rows,
            once: false,
            counts: None,
            filters: Vec::new(),
            table: None,
            begins_small: false,
        });
    }

    /// Marks a slot as bound in every solution from here on.
    pub(crate) fn bind(&mut self, slot: usize, distinct: f64) {
        self.known.certain.insert(slot);
        self.known.maybe.remove(&slot);
        self.known.distinct.insert(slot, distinct.max(1.0));
    }

    /// Records the kinds of a slot's terms.
    pub(crate) fn bind_kinds(&mut self, slot: usize, kinds: Kinds) {
        let known = self.known.kinds.entry(slot).or_insert(kinds);
        if kinds.count() < known.count() {
            *known = kinds;
        }
    }

    /// Returns the kinds that the terms of a bound variable may have.
    pub(crate) fn kinds(&self, variable: &Variable) -> Kinds {
        let slot = self
            .index
            .get(variable)
            .filter(|slot| self.known.certain.contains(slot));
        let kinds = slot.and_then(|slot| self.known.kinds.get(slot));
        kinds.copied().unwrap_or(Kinds::ANY)
    }

    /// Makes the pipeline empty because a part of it has no solutions.
    pub(crate) fn push_nothing(&mut self) {
        let nothing = StepKind::Values {
            slots: Vec::new(),
            keys: Vec::new(),
            rows: Vec::new(),
        };
        self.push(nothing, 0.0);
    }

    /// Plans the inside of an OPTIONAL or UNION branch. `plan` adds steps to this builder; they are removed
    /// again and returned with the properties of their solutions.
    pub(crate) fn inside<E>(
        &mut self,
        plan: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(Vec<Step>, Knowledge), E> {
        let steps = std::mem::take(&mut self.steps);
        let known = self.known.clone();
        let nested = std::mem::replace(&mut self.nested, true);
        self.known.sorted = None;
        let result = plan(self);
        let inner = std::mem::replace(&mut self.steps, steps);
        let inner_known = std::mem::replace(&mut self.known, known);
        self.nested = nested;
        result.map(|()| (inner, inner_known))
    }

    /// Finishes a pipeline with outside input of whose solutions only one slot is used.
    pub(crate) fn finish_fed(mut self, slot: usize) -> (Vec<Step>, Vec<Variable>) {
        filter_links(&mut self.steps);
        assign_live(&mut self.steps, std::iter::once(slot).collect());
        (without_duplicates(&self.steps), self.slots)
    }

    /// Finishes the pipeline as a plan. Its columns are the variables in `needed`, or all named variables.
    pub(crate) fn finish(mut self, needed: Option<&Variables>) -> Planned {
        let output: Vec<usize> = (0..self.slots.len())
            .filter(|slot| self.known.certain.contains(slot) || self.known.maybe.contains(slot))
            .filter(|slot| {
                let variable = &self.slots[*slot];
                needed.map_or(!variable.as_str().starts_with("_:"), |n| {
                    n.contains(variable)
                })
            })
            .collect();
        let variables: Vec<Variable> = output.iter().map(|s| self.slots[*s].clone()).collect();
        let certain = output
            .iter()
            .filter(|slot| self.known.certain.contains(slot))
            .map(|slot| self.slots[*slot].clone())
            .collect();
        filter_links(&mut self.steps);
        assign_live(&mut self.steps, output.iter().copied().collect());
        let rows = self.known.rows;
        let (inputs, input) = match self.input {
            Some((plan, slots)) => (vec![plan], slots),
            None => (Vec::new(), Vec::new()),
        };
        let pattern = Pattern {
            slots: self.slots,
            steps: self.steps,
            input,
            output,
        };
        Planned {
            plan: Plan::new(Operator::Pattern(pattern), inputs, variables),
            certain,
            rows,
        }
    }
}

/// Records for each step the slots that are needed after it, and drops BINDs whose values are not. Returns the slots needed
/// before the first step.
pub(super) fn assign_live(steps: &mut Vec<Step>, mut live: Slots) -> Slots {
    let mut needed = Vec::with_capacity(steps.len());
    for mut step in std::mem::take(steps).into_iter().rev() {
        if matches!(&step.kind, StepKind::Bind(slot, _) if !live.contains(*slot)) {
            continue;
        }
        step.live = Arc::new(live.clone());
        for filter in &step.filters {
            live.extend(&filter.slots);
        }
        need_before(&mut step.kind, &mut live);
        needed.push(step);
    }
    needed.reverse();
    *steps = needed;
    live
}

/// Replaces the slots needed after a step by those needed before it.
fn need_before(kind: &mut StepKind, live: &mut Slots) {
    match kind {
        StepKind::Pattern(pattern, _) | StepKind::Ranges(pattern, ..) => {
            for position in [pattern.subject, pattern.predicate, pattern.object] {
                need(live, position);
            }
            need_graph(live, pattern.graph);
        }
        StepKind::Equal(a, b) => live.extend([*a, *b]),
        StepKind::Filter(expression) => live.extend(&expression.slots),
        StepKind::Bind(slot, expression) => {
            live.remove(*slot);
            live.extend(&expression.slots);
        }
        StepKind::Values { slots, keys, .. } => {
            for slot in slots.iter() {
                live.remove(*slot);
            }
            live.extend(keys.iter());
        }
        StepKind::Optional(inner) => {
            let before = assign_live(inner, live.clone());
            live.add(&before);
        }
        StepKind::EarlyDistinct | StepKind::EarlyCount(_) => {}
        StepKind::Intersect(slot, patterns) => {
            live.remove(*slot);
            let ends = patterns.iter().flat_map(|p| [p.subject, p.object]);
            live.extend(ends.filter_map(|end| match end {
                Position::Bound(bound) => Some(bound),
                Position::Constant(_) | Position::New(_) => None,
            }));
        }
        StepKind::Union(branches) => {
            let after = live.clone();
            for branch in branches {
                live.add(&assign_live(branch, after.clone()));
            }
        }
        StepKind::Path(path) => {
            path.positions().for_each(|position| need(live, position));
            if let PathGraph::Slot(slot) = path.graph {
                live.insert(slot);
            }
        }
        StepKind::Reachable(step) => {
            need(live, step.from);
            need(live, step.to);
        }
        StepKind::Merged(pattern) => {
            let positions = [pattern.subject, pattern.predicate, pattern.object];
            live.extend(positions.iter().filter_map(|position| position.slot()));
            live.extend(pattern.graph.slot());
        }
        StepKind::TakeApart(term, parts) => {
            parts.iter().for_each(|part| need(live, *part));
            live.insert(*term);
        }
        StepKind::Graphs(position) => need(live, *position),
    }
}

fn need(live: &mut Slots, position: Position) {
    match position {
        Position::Constant(_) => {}
        Position::Bound(slot) => {
            live.insert(slot);
        }
        Position::New(slot) => {
            live.remove(slot);
        }
    }
}

fn need_graph(live: &mut Slots, graph: GraphPosition) {
    match graph {
        GraphPosition::Filter(_) => {}
        GraphPosition::Bound(slot) => {
            live.insert(slot);
        }
        GraphPosition::New(slot, _) => {
            live.remove(slot);
        }
    }
}
