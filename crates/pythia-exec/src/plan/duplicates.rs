//! Removes work that only produces duplicates, for a consumer that ignores them.
//!
//! A step that binds no needed slot is a filter: one match per solution is enough, and such an OPTIONAL does
//! nothing. Where a step was the last to need a slot, solutions that are equal without it are deduplicated
//! before they multiply.

use std::sync::Arc;

use super::operators::{Operator, Sort};
use super::slots::Slots;
use super::step::{Access, GraphPosition, Position, SlotPattern, Step, StepKind};
use super::tree::Plan;
use crate::explain::CostId;

/// With fewer expected solutions, duplicates cost less than their detection.
const ROWS_MIN: f64 = 256.0;
/// Least expected number of solutions of a later step before which even few duplicates are dropped.
const LATER_MIN: f64 = 1024.0;

/// Returns the plan for a consumer that ignores duplicates.
pub fn ignored(mut plan: Plan) -> Plan {
    match &mut *plan.operator {
        Operator::Pattern(pattern) => pattern.steps = without_duplicates(&pattern.steps),
        // Duplicates in the input of these only cause duplicates in their output, in the same order.
        Operator::Project(_) | Operator::Concatenate | Operator::Sort(Sort { limit: None, .. }) => {
            plan.inputs = plan.inputs.into_iter().map(ignored).collect();
        }
        _ => {}
    }
    plan
}

/// Returns the steps of a pipeline for such a consumer. The live slots must be assigned.
pub fn without_duplicates(steps: &[Step]) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    // Slots with a value in the current rows.
    let mut carried = Slots::default();
    for (index, step) in steps.iter().enumerate() {
        let live = Arc::clone(&step.live);
        let bound = binds(&step.kind);
        let binds_nothing_live = bound.as_ref().is_some_and(|bound| bound.is_apart(&live));
        if binds_nothing_live && matches!(step.kind, StepKind::Optional(_)) {
            continue;
        }
        let mut step = step.clone();
        step.once = binds_nothing_live && can_stop_early(&step.kind);
        let mut before = std::mem::take(&mut carried);
        before.add(&bound.unwrap_or_default());
        let drops_a_slot = !before.is_within(&live);
        let (rows, cost) = (step.rows, CostId::next());
        let is_last = index + 1 == steps.len();
        let once = step.once;
        kept.push(step);
        // With `once`, the step does not produce the duplicates in the first place.
        let multiplied = drops_a_slot && !(once && before.len() == live.len());
        let later = steps[index + 1..].iter().map(|step| step.rows);
        let pays = rows >= ROWS_MIN || later.fold(0.0, f64::max) >= LATER_MIN;
        if multiplied && !is_last && pays && !live.is_empty() {
            kept.push(Step {
                cost,
                kind: StepKind::EarlyDistinct,
                live: Arc::clone(&live),
                rows,
                once: false,
                counts: None,
                filters: Vec::new(),
                table: None,
                begins_small: false,
            });
        }
        carried = (*live).clone();
    }
    kept
}

/// Returns the slots that a step binds, or `None` if that is hard to determine.
pub fn binds(kind: &StepKind) -> Option<Slots> {
    let mut bound = Slots::default();
    match kind {
        StepKind::Pattern(pattern, _) | StepKind::Ranges(pattern, ..) => new(pattern, &mut bound),
        StepKind::Path(path) => {
            for position in path.positions() {
                if let Position::New(slot) = position {
                    bound.insert(slot);
                }
            }
        }
        StepKind::Equal(..)
        | StepKind::Reachable(_)
        | StepKind::Filter(_)
        | StepKind::EarlyDistinct => {}
        StepKind::Values { slots, .. } => bound.extend(slots),
        StepKind::Bind(slot, _) | StepKind::Intersect(slot, _) | StepKind::EarlyCount(slot) => {
            bound.insert(*slot);
        }
        StepKind::Optional(inner) => {
            for step in inner {
                bound.add(&binds(&step.kind)?);
            }
        }
        _ => return None,
    }
    Some(bound)
}

fn new(pattern: &SlotPattern, bound: &mut Slots) {
    for position in [pattern.subject, pattern.predicate, pattern.object] {
        if let Position::New(slot) = position {
            bound.insert(slot);
        }
    }
    if let GraphPosition::New(slot, _) = pattern.graph {
        bound.insert(slot);
    }
}

/// Returns whether a step can stop at the first match of a solution.
fn can_stop_early(kind: &StepKind) -> bool {
    match kind {
        StepKind::Pattern(_, access) => {
            matches!(
                access,
                Access::Expand(_) | Access::Cached(..) | Access::Merge(_) | Access::Hash(_)
            )
        }
        kind => matches!(kind, StepKind::Intersect(..)),
    }
}
