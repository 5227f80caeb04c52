//! Patterns whose steps are ordered again while they run.
//!
//! The order of joins depends on the numbers of solutions that the planner expects. If a step has far more, the planner orders
//! the steps after it again, from the number that came. The solutions that wait before these steps take the new ones.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::pieces::{Cut, cut};
use super::pipeline::{build, running};
use super::row_source::{Pipeline, Watch};
use super::siblings::Siblings;
use super::subquery::RestOfPattern;
use crate::error::QueryError;
use crate::plan::operators::Pattern;
use crate::plan::step::{Step, StepKind};

/// A number of solutions is a surprise if it is more than this many times the expected one.
const FACTOR: f64 = 10.0;
/// Fewer solutions are none: whatever the order, joining them takes little more time than planning.
const ROWS_MIN: f64 = 8000.0;
/// Maximum number of times that the planner is asked for one pattern.
const PLANNED_MAX: usize = 3;
/// Number of rows whose terms are counted.
const COUNTED_ROWS: usize = 4096;

/// A pattern that starts from the empty solution, and whose steps may change.
pub(super) struct Adaptive {
    pub(super) pattern: Pattern,
    pub(super) siblings: Arc<Siblings>,
    /// The place where its pipeline is cut.
    pub(super) cut: Option<Cut>,
    /// Number of times that the planner was asked.
    planned: usize,
    context: Arc<QueryContext>,
}

impl Adaptive {
    /// Returns the state of a pattern that may change; `None` if nothing in it can be ordered again.
    pub(super) fn of(pattern: &Pattern, context: &Arc<QueryContext>) -> Option<Self> {
        let steps = &pattern.steps;
        let may_change = (0..steps.len()).any(|step| joins_after(steps, step) > 1);
        may_change.then(|| Self {
            pattern: pattern.clone(),
            siblings: Arc::default(),
            cut: cut(&pattern.steps, 0, context),
            planned: 0,
            context: Arc::clone(context),
        })
    }

    /// Starts the steps up to the cut.
    pub(super) fn start(&self) -> Pipeline {
        let width = self.pattern.slots.len();
        let steps = self.before_cut();
        let mut pipeline = build(steps, width, &self.context, &self.siblings);
        pipeline.watch(self.watch(0));
        pipeline.feed(Batch::unit(width));
        pipeline
    }

    /// Lets the planner order the steps after the first ones again, of which the last has far more solutions than expected.
    /// The pipeline goes on with the new steps.
    pub(super) fn change(
        &mut self,
        pipeline: &mut Pipeline,
        done: usize,
        rows: u64,
    ) -> Result<(), QueryError> {
        let solutions = pipeline.surprising().expect("they wait after a surprise");
        let (first, left) = self.pattern.steps.split_at(done);
        let expected = first.last().map_or(1.0, |step| step.rows);
        let rest = RestOfPattern {
            steps: left,
            slots: &self.pattern.slots,
            output: &self.pattern.output,
            expected,
            rows: rows as f64,
            distinct: distinct(solutions, rows as f64),
        };
        let steps = self.context.planner.plan_rest(&rest, &self.context)?;
        self.planned += 1;
        let Some(steps) = steps else {
            if self.planned == PLANNED_MAX {
                pipeline.watch(None);
            }
            return Ok(());
        };
        let is_cut = self.cut.is_some();
        self.pattern.steps.truncate(done);
        self.pattern.steps.extend(steps);
        if let Some(profile) = &self.context.profile {
            profile.note_change(&self.pattern.steps, done, expected, rows);
        }
        if let Some(last) = self.pattern.steps[..done].last_mut() {
            last.rows = rows as f64;
        }
        self.cut = match is_cut {
            true => cut(&self.pattern.steps, done, &self.context),
            false => None,
        };
        let width = self.pattern.slots.len();
        let steps = &self.before_cut()[done..];
        let steps = running(steps, width, &self.context, &self.siblings);
        pipeline.replace(done, steps);
        pipeline.watch(self.watch(done));
        Ok(())
    }

    fn before_cut(&self) -> &[Step] {
        let steps = &self.pattern.steps;
        &steps[..self.cut.map_or(steps.len(), Cut::first)]
    }

    /// Watches the steps up to the cut, after those that have surprised.
    fn watch(&self, known: usize) -> Option<Watch> {
        if self.planned == PLANNED_MAX {
            return None;
        }
        let steps = &self.pattern.steps;
        let most = |step: usize| match step >= known && joins_after(steps, step) > 1 {
            true => (steps[step].rows * FACTOR).max(ROWS_MIN) as u64,
            false => u64::MAX,
        };
        Some(Watch::new((0..self.before_cut().len()).map(most)))
    }
}

/// Returns the number of joins after a step that could be ordered again.
fn joins_after(steps: &[Step], step: usize) -> usize {
    let next = steps[step + 1..].iter();
    let joins = next.map_while(|step| match &step.kind {
        StepKind::Pattern(..) => Some(1),
        StepKind::Intersect(_, patterns) => Some(patterns.len()),
        StepKind::Filter(_) | StepKind::Equal(..) | StepKind::EarlyDistinct => Some(0),
        _ => None,
    });
    joins.sum()
}

/// Estimates the number of distinct terms in each slot of this many solutions, from some of them.
fn distinct(some: &Batch, rows: f64) -> Vec<f64> {
    let estimate = |column: &Vec<u64>| {
        let mut ids = column[..column.len().min(COUNTED_ROWS)].to_vec();
        let counted = ids.len() as f64;
        ids.sort_unstable();
        ids.dedup();
        let found = ids.len() as f64;
        // If few come again, most of the others are new too.
        match found > counted / 2.0 {
            true => found * rows / counted,
            false => found,
        }
    };
    some.columns.iter().map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_terms_are_estimated_from_some_rows() {
        let mut batch = Batch::empty(3);
        batch.rows = 10_000;
        batch.columns[1] = (0..10_000).collect();
        batch.columns[2] = (0..10_000).map(|row| row % 7).collect();
        assert_eq!(distinct(&batch, 20_000.0), [0.0, 20_000.0, 7.0]);
    }
}
