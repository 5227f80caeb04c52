//! Running a pattern pipeline: each step pulls batches from the one before it.

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
use super::step::{Access, Step, StepKind};
use super::triple_term::TakeApart;
use super::values::Values;
use crate::error::QueryError;

/// A running step and all before it.
pub(crate) trait RowSource: Send {
    /// Gives the first step a batch to start from. The one before must have been drained.
    fn feed(&mut self, batch: Batch);
    /// The next non-empty batch, or `None` when what was fed is used up.
    fn next(&mut self) -> Result<Option<Batch>, QueryError>;
}

/// The start of a pipeline: hands out the batch it was fed.
#[derive(Default)]
struct Seed(Option<Batch>);

impl RowSource for Seed {
    fn feed(&mut self, batch: Batch) {
        self.0 = Some(batch);
    }

    fn next(&mut self) -> Result<Option<Batch>, QueryError> {
        Ok(self.0.take().filter(|batch| batch.rows > 0))
    }
}

/// A running pipeline of `steps` over `width` slots.
pub(crate) fn build(
    steps: &[Step],
    width: usize,
    shared: &Arc<QueryContext>,
) -> Box<dyn RowSource> {
    let mut source: Box<dyn RowSource> = Box::<Seed>::default();
    for step in steps {
        let context = Arc::clone(shared);
        let live = step.live.clone();
        source = match &step.kind {
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
                Access::Merge(order) => Box::new(
                    MergeScan::new(source, *pattern, *order, live, context).once(step.once),
                ),
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
            StepKind::Optional(inner) => {
                Box::new(Optional::new(source, inner, width, live, context))
            }
            StepKind::Without(inner) => {
                Box::new(Optional::new(source, inner, width, live, context).without_matches())
            }
            StepKind::EarlyDistinct => Box::new(EarlyDistinct::new(source, live, context)),
            StepKind::Union(branches) => Box::new(Union::new(source, branches, width, context)),
            StepKind::Path(path) => {
                let path = path.clone();
                Box::new(PathSearch::new(source, path, step.part, live, context))
            }
            StepKind::Reachable(step) => {
                Box::new(Reachable::new(source, step.clone(), live, context))
            }
            StepKind::Merged(pattern) => Box::new(Merged::new(source, *pattern, live, context)),
            StepKind::TakeApart(term, parts) => {
                Box::new(TakeApart::new(source, *term, *parts, live, context))
            }
            StepKind::Graphs(position) => Box::new(Graphs::new(source, *position, live, context)),
        };
        if let Some(profile) = &shared.profile {
            source = Box::new(MeasuredStep {
                step: source,
                part: step.part,
                profile: Arc::clone(profile),
            });
        }
    }
    source
}
