//! Builds running pipelines from the steps of a plan.

use std::sync::Arc;

use pythia_store::Order;

use super::context::QueryContext;
use super::distinct::EarlyDistinct;
use super::early_count::EarlyCount;
use super::expand::Expand;
use super::filter::{Bind, Equal, Filter};
use super::hash::{HashScan, Tables};
use super::intersect::Intersect;
use super::measured::MeasuredStep;
use super::merge::MergeScan;
use super::merged::Merged;
use super::nested::{Optional, Union};
use super::path::PropertyPath;
use super::probe::Probe;
use super::reachable::Reachable;
use super::row_source::{Fed, Pipeline, RowSource};
use super::scan::{Graphs, Scan};
use super::text_filter::TextFilter;
use super::triple_term::TakeApart;
use super::values::Values;
use crate::plan::slots::Slots;
use crate::plan::step::{Access, SlotPattern, Step, StepKind};

/// Builds a running pipeline of `steps` over `width` slots. Pipelines of the same steps may have the same tables.
pub(crate) fn build(
    steps: &[Step],
    width: usize,
    shared: &Arc<QueryContext>,
    tables: &Arc<Tables>,
) -> Pipeline {
    let running = steps.iter().map(|step| run(step, width, shared, tables));
    Pipeline::new(running.collect(), shared)
}

/// Starts a step that joins with the matches of a triple pattern.
fn matches(
    step: &Step,
    pattern: &SlotPattern,
    access: &Access,
    source: Fed,
    shared: &Arc<QueryContext>,
    tables: &Tables,
) -> Box<dyn RowSource> {
    let (live, context) = (Arc::clone(&step.live), Arc::clone(shared));
    match access {
        Access::Scan(order) => Box::new(scan(step, pattern, *order, source, shared)),
        Access::Expand(end) => {
            let expand = Expand::new(source, *pattern, *end, live, context);
            let expand = expand.once(step.once).counting(step.counts);
            Box::new(expand.with_filters(&step.filters))
        }
        Access::Cached(end, attribute) => {
            let expand = Expand::new(source, *pattern, *end, live, context);
            Box::new(expand.once(step.once).with_attribute(*attribute))
        }
        Access::Probe => Box::new(Probe::new(source, *pattern, live, context)),
        Access::Merge(order) => {
            let merge = MergeScan::new(source, *pattern, *order, live, context);
            Box::new(merge.once(step.once).counting(step.counts))
        }
        Access::Hash(order) => {
            let table = tables.of_step(step.cost, *pattern, *order, &live, context.governor());
            let hash = HashScan::new(source, table, context);
            let hash = hash.once(step.once).counting(step.counts);
            Box::new(hash.begin_small(step.begins_small))
        }
    }
}

fn scan(
    step: &Step,
    pattern: &SlotPattern,
    order: Order,
    source: Fed,
    shared: &Arc<QueryContext>,
) -> Scan {
    let (live, context) = (Arc::clone(&step.live), Arc::clone(shared));
    Scan::new(source, *pattern, order, live, context).begin_small(step.begins_small)
}

/// Starts a step of a pipeline.
fn run(
    step: &Step,
    width: usize,
    shared: &Arc<QueryContext>,
    tables: &Arc<Tables>,
) -> Box<dyn RowSource> {
    let source = Fed::default();
    let context = Arc::clone(shared);
    let live: Arc<Slots> = Arc::clone(&step.live);
    let running: Box<dyn RowSource> = match &step.kind {
        StepKind::Pattern(pattern, access) => {
            matches(step, pattern, access, source, shared, tables)
        }
        StepKind::Ranges(pattern, order, ranges) => {
            let scan = scan(step, pattern, *order, source, shared);
            Box::new(scan.within(Arc::clone(ranges)))
        }
        StepKind::Intersect(slot, patterns) => {
            let intersect = Intersect::new(source, *slot, patterns, live, context);
            Box::new(intersect.once(step.once))
        }
        StepKind::Equal(a, b) => Box::new(Equal::new(source, *a, *b, live, context)),
        StepKind::Filter(expression) if expression.compiled().looks_at_texts() => {
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
        StepKind::Optional(inner) => {
            Box::new(Optional::new(source, inner, width, live, context, tables))
        }
        StepKind::EarlyDistinct => Box::new(EarlyDistinct::new(source, live, context)),
        StepKind::EarlyCount(slot) => Box::new(EarlyCount::new(source, *slot, live, context)),
        StepKind::Union(branches) => Box::new(Union::new(source, branches, width, context, tables)),
        StepKind::Path(path) => {
            let path = path.clone();
            Box::new(PropertyPath::new(source, path, step.cost, live, context))
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
            cost: step.cost,
            profile: Arc::clone(profile),
        }),
        None => running,
    }
}
