//! Counting solutions before later steps multiply them.
//!
//! Equal solutions whose number alone is used are replaced by one solution with that number: the reviews of a product are
//! counted before they are joined with the product's types. The solutions that a step makes of one solution follow each other
//! (those of a union: in each branch). So where an earlier step bound all that is still needed, equal solutions come in runs,
//! which are counted without a table. A step whose matches nobody needs returns each solution once, with their number.

use std::sync::Arc;

use oxrdf::Variable;
use pythia_sparql::scope::draws;
use pythia_store::Order;

use super::Planner;
use super::builder::Planned;
use pythia_exec::error::QueryError;
use pythia_exec::explain::CostId;
use pythia_exec::plan::duplicates::binds;
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::operators::Operator;
use pythia_exec::plan::slots::Slots;
use pythia_exec::plan::step::{Access, Position, Step, StepKind};

/// With fewer expected solutions, there is nothing to save.
const ROWS_MIN: f64 = 1024.0;
/// Least number of equal solutions that are expected in a run: to count them costs about as much as one step.
const RUN_MIN: f64 = 2.0;

impl Planner<'_> {
    /// Counts equal solutions of a plan where that saves work. Returns the variable of a new column that has their numbers;
    /// `None` if they are not counted.
    pub(super) fn count_early(
        &self,
        planned: &mut Planned,
    ) -> Result<Option<Variable>, QueryError> {
        let Operator::Pattern(pattern) = &mut *planned.plan.operator else {
            return Ok(None);
        };
        if pattern.steps.iter().any(draws_lots) {
            return Ok(None);
        }
        let first = self.runs_of_scan(&pattern.steps)?;
        let slot = pattern.slots.len();
        let bound = pattern.input.iter().copied().collect();
        if !insert_counts(&mut pattern.steps, slot, bound, first) {
            return Ok(None);
        }
        let variable = Variable::new_unchecked(format!("_:solutions{slot}"));
        pattern.slots.push(variable.clone());
        pattern.output.push(slot);
        planned.plan.variables.push(variable.clone());
        Ok(Some(variable))
    }

    /// Returns the number of terms by which the first step's matches are sorted, if nothing else of them is needed.
    fn runs_of_scan(&self, steps: &[Step]) -> Result<Option<f64>, QueryError> {
        let Some(step) = steps.first() else {
            return Ok(None);
        };
        let StepKind::Pattern(pattern, Access::Scan(order)) = &step.kind else {
            return Ok(None);
        };
        let Position::Constant(predicate) = pattern.predicate else {
            return Ok(None);
        };
        let sorted = match order {
            Order::Pso => pattern.subject,
            Order::Pos => pattern.object,
            Order::Spo | Order::Ops | Order::Gpso => return Ok(None),
        };
        let mut needed = Slots::default();
        step.each_new(&mut |slot| {
            needed.insert(slot);
        });
        needed.intersect(&step.live);
        if !needed.iter().all(|slot| sorted == Position::New(slot)) {
            return Ok(None);
        }
        let statistics = self.counts().predicate(predicate)?;
        Ok(statistics.map(|predicate| match order {
            Order::Pso => predicate.subjects as f64,
            _ => predicate.objects as f64,
        }))
    }
}

/// Counts equal solutions after each step that multiplies what is needed and is followed by another. The slots in `bound` are
/// those of the input, and `first` is the number of different solutions after the first step, if equal ones come in runs.
/// Returns whether any are counted.
fn insert_counts(steps: &mut Vec<Step>, slot: usize, mut bound: Slots, first: Option<f64>) -> bool {
    let mut counted: Vec<Step> = Vec::with_capacity(steps.len() + 1);
    // What was bound and needed after each earlier step, and the number of runs of solutions equal in it.
    let mut earlier: Vec<(Slots, f64)> = Vec::new();
    let mut share = 1.0;
    let mut is_counted = false;
    let count = steps.len();
    for (index, mut step) in std::mem::take(steps).into_iter().enumerate() {
        step.rows *= share;
        let before = counted.last().map_or(1.0, |step: &Step| step.rows);
        if counts_matches(&step) && step.rows >= ROWS_MIN && before * RUN_MIN <= step.rows {
            step.counts = Some(slot);
            share *= before / step.rows;
            step.rows = before;
            is_counted = true;
        }
        let (live, rows) = (Arc::clone(&step.live), step.rows);
        step.each_new(&mut |slot| {
            bound.insert(slot);
        });
        let mut needed = bound.clone();
        needed.intersect(&live);
        let pieces = pieces(&step);
        earlier.iter_mut().for_each(|(_, runs)| *runs *= pieces);
        let before = earlier.iter().filter(|(slots, _)| needed.is_within(slots));
        let different = before.map(|(_, runs)| *runs).reduce(f64::min);
        let different = different.or(first.filter(|_| index == 0)).unwrap_or(rows);
        if is_counted {
            carry(&mut step, slot);
        }
        counted.push(step);
        earlier.push((needed, rows.min(different)));
        if index + 1 < count && rows >= ROWS_MIN && different * RUN_MIN <= rows {
            is_counted = true;
            share *= different / rows;
            let mut step = Step {
                cost: CostId::next(),
                kind: StepKind::EarlyCount(slot),
                live,
                rows: different,
                once: false,
                counts: None,
                filters: Vec::new(),
                table: None,
                begins_small: false,
            };
            carry(&mut step, slot);
            counted.push(step);
        }
    }
    *steps = counted;
    is_counted
}

/// Returns whether a step can count the matches of a solution, because it binds nothing that is needed.
fn counts_matches(step: &Step) -> bool {
    let StepKind::Pattern(_, access) = &step.kind else {
        return false;
    };
    let counts = matches!(
        access,
        Access::Expand(_) | Access::Merge(_) | Access::Hash(_)
    );
    counts && binds(&step.kind).is_some_and(|bound| bound.is_apart(&step.live))
}

/// Returns the number of places at which a step returns what it makes of one solution.
fn pieces(step: &Step) -> f64 {
    let of_all = |steps: &Vec<Step>| steps.iter().map(pieces).product::<f64>();
    match &step.kind {
        StepKind::Union(branches) => branches.iter().map(of_all).sum(),
        StepKind::Optional(inner) => of_all(inner),
        _ => 1.0,
    }
}

/// Keeps a slot through a step.
fn carry(step: &mut Step, slot: usize) {
    let mut live = (*step.live).clone();
    live.insert(slot);
    step.live = Arc::new(live);
    match &mut step.kind {
        StepKind::Optional(inner) => inner.iter_mut().for_each(|step| carry(step, slot)),
        StepKind::Union(branches) => {
            let inner = branches.iter_mut().flatten();
            inner.for_each(|step| carry(step, slot));
        }
        _ => {}
    }
}

/// Returns whether a step has a different result for each of two equal solutions.
fn draws_lots(step: &Step) -> bool {
    let draws = |expression: &SlotExpression| draws(&expression.source.expression);
    match &step.kind {
        StepKind::Filter(expression) | StepKind::Bind(_, expression) => draws(expression),
        StepKind::Optional(inner) => inner.iter().any(draws_lots),
        StepKind::Union(branches) => branches.iter().flatten().any(draws_lots),
        _ => false,
    }
}
