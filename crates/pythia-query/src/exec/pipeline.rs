//! Execution of a pattern pipeline: each step takes batches and returns batches for the next.
//!
//! The last step that may have more solutions always runs first, so that few batches are alive at once,
//! regardless of the number of steps. A step frees a batch when it is used up.

use std::sync::Arc;

use super::batch::Batch;
use super::context::QueryContext;
use super::distinct::EarlyDistinct;
use super::expand::Expand;
use super::filter::{Bind, Equal, Filter};
use super::hash::HashScan;
use super::intersect::Intersect;
use super::merge::MergeScan;
use super::merged::Merged;
use super::nested::{Optional, Union};
use super::path::PathSearch;
use super::probe::Probe;
use super::profile::MeasuredStep;
use super::reachable::Reachable;
use super::scan::{Graphs, Scan};
use super::slots::Slots;
use super::step::{Access, Step, StepKind};
use super::text_filter::TextFilter;
use super::triple_term::TakeApart;
use super::values::Values;
use crate::error::QueryError;

/// A running step.
pub(crate) trait RowSource: Send {
    /// Prepares for new input when the pipeline is fed again.
    fn begin(&mut self) {}
    /// Feeds a batch to the step. The previous one must be used up.
    fn feed(&mut self, batch: Batch);
    /// Returns the next non-empty batch, or `None` when the input is used up.
    fn next(&mut self) -> Result<Option<Batch>, QueryError>;
    /// Announces the end of the input. The step then returns the solutions that it has kept.
    fn end(&mut self) {}
}

/// The batch that a step was fed, until the step takes it.
#[derive(Default)]
pub(crate) struct Fed(Option<Batch>);

impl Fed {
    pub(crate) fn put(&mut self, batch: Batch) {
        debug_assert!(self.0.is_none(), "the batch before is used up");
        self.0 = Some(batch);
    }

    pub(crate) fn take(&mut self) -> Option<Batch> {
        self.0.take().filter(|batch| batch.rows > 0)
    }
}

/// Running steps, one after the other.
pub(crate) struct Pipeline {
    /// The pipeline's input, until the first step takes it.
    fed: Fed,
    steps: Vec<Box<dyn RowSource>>,
    /// Number of steps that may have more solutions; those after them are used up.
    active: usize,
    /// Number of steps that have returned everything and will not be fed again.
    ended: usize,
    /// Number of steps whose `end` was called.
    told: usize,
    context: Arc<QueryContext>,
}

impl Pipeline {
    /// Feeds a batch to the pipeline, which must have been drained.
    pub(crate) fn feed(&mut self, batch: Batch) {
        self.steps.iter_mut().for_each(|step| step.begin());
        self.fed.put(batch);
        (self.active, self.ended, self.told) = (0, 0, 0);
    }

    /// Returns the next non-empty batch, or `None` when the input is used up.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        loop {
            let given = if self.active > self.ended {
                self.steps[self.active - 1].next()?
            } else if let Some(batch) = self.fed.take() {
                Some(batch)
            } else if self.told > self.ended {
                self.ended = self.told;
                self.active = self.told;
                continue;
            } else if let Some(step) = self.steps.get_mut(self.ended) {
                step.end();
                self.told = self.ended + 1;
                self.active = self.told;
                continue;
            } else {
                return Ok(None);
            };
            let Some(mut batch) = given else {
                self.active -= 1;
                continue;
            };
            batch.charge(self.context.governor())?;
            match self.steps.get_mut(self.active) {
                None => return Ok(Some(batch)),
                Some(step) => step.feed(batch),
            }
            self.active += 1;
        }
    }
}

/// Builds a running pipeline of `steps` over `width` slots.
pub(crate) fn build(steps: &[Step], width: usize, shared: &Arc<QueryContext>) -> Pipeline {
    let running = steps.iter().map(|step| run(step, width, shared));
    Pipeline {
        fed: Fed::default(),
        steps: running.collect(),
        active: 0,
        ended: 0,
        told: 0,
        context: Arc::clone(shared),
    }
}

/// Starts a step of a pipeline.
fn run(step: &Step, width: usize, shared: &Arc<QueryContext>) -> Box<dyn RowSource> {
    let source = Fed::default();
    let context = Arc::clone(shared);
    let live: Arc<Slots> = Arc::clone(&step.live);
    let running: Box<dyn RowSource> = match &step.kind {
        StepKind::Pattern(pattern, access) => match access {
            Access::Scan(order) => Box::new(Scan::new(source, *pattern, *order, live, context)),
            Access::Expand(end) => {
                Box::new(Expand::new(source, *pattern, *end, live, context).once(step.once))
            }
            Access::Cached(end, attribute) => {
                let expand = Expand::new(source, *pattern, *end, live, context);
                Box::new(expand.once(step.once).with_attribute(*attribute))
            }
            Access::Probe => Box::new(Probe::new(source, *pattern, live, context)),
            Access::Merge(order) => {
                Box::new(MergeScan::new(source, *pattern, *order, live, context).once(step.once))
            }
            Access::Hash(order) => {
                Box::new(HashScan::new(source, *pattern, *order, live, context).once(step.once))
            }
        },
        StepKind::Ranges(pattern, order, ranges) => {
            let scan = Scan::new(source, *pattern, *order, live, context);
            Box::new(scan.within(Arc::clone(ranges)))
        }
        StepKind::Intersect(slot, patterns) => {
            let intersect = Intersect::new(source, *slot, patterns, live, context);
            Box::new(intersect.once(step.once))
        }
        StepKind::Equal(a, b) => Box::new(Equal::new(source, *a, *b, live, context)),
        StepKind::Filter(expression) if expression.compiled.looks_at_texts() => {
            let expression = expression.clone();
            Box::new(TextFilter::new(source, expression, live, context))
        }
        StepKind::Filter(expression) => {
            Box::new(Filter::new(source, expression.clone(), live, context))
        }
        StepKind::Bind(slot, expression) => {
            Box::new(Bind::new(source, *slot, expression.clone(), context))
        }
        StepKind::Values { slots, keys, rows } => Box::new(Values::new(
            source,
            slots.clone(),
            keys,
            rows.clone(),
            live,
            context,
        )),
        StepKind::Optional(inner) => Box::new(Optional::new(source, inner, width, live, context)),
        StepKind::Without(inner) => {
            Box::new(Optional::new(source, inner, width, live, context).without_matches())
        }
        StepKind::EarlyDistinct => Box::new(EarlyDistinct::new(source, live, context)),
        StepKind::Union(branches) => Box::new(Union::new(source, branches, width, context)),
        StepKind::Path(path) => {
            let path = path.clone();
            Box::new(PathSearch::new(source, path, step.part, live, context))
        }
        StepKind::Reachable(step) => Box::new(Reachable::new(source, step.clone(), live, context)),
        StepKind::Merged(pattern) => Box::new(Merged::new(source, *pattern, live, context)),
        StepKind::TakeApart(term, parts) => {
            Box::new(TakeApart::new(source, *term, *parts, live, context))
        }
        StepKind::Graphs(position) => Box::new(Graphs::new(source, *position, live, context)),
    };
    match &shared.profile {
        Some(profile) => Box::new(MeasuredStep {
            step: running,
            part: step.part,
            profile: Arc::clone(profile),
        }),
        None => running,
    }
}
