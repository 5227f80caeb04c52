//! Builds running pipelines from the steps of a plan.

use std::sync::Arc;

use pythia_store::{End, Order};

use super::context::QueryContext;
use super::distinct::EarlyDistinct;
use super::early_count::EarlyCount;
use super::expand::Expand;
use super::filter::{Bind, Equal, Filter};
use super::intersect::Intersect;
use super::link::{ByNode, Link, TablePlace};
use super::measured::MeasuredStep;
use super::merge::MergeScan;
use super::merged::Merged;
use super::nested::{Optional, Union};
use super::path::PropertyPath;
use super::probe::Probe;
use super::reachable::Reachable;
use super::row_source::{Fed, Pipeline, RowSource};
use super::scan::{FIRST_ROWS, Graphs, Scan, sorted_slot};
use super::siblings::Siblings;
use super::text_filter::TextFilter;
use super::triple_term::TakeApart;
use super::values::Values;
use crate::plan::slots::Slots;
use crate::plan::step::{Access, SlotPattern, Step, StepKind, TableAfter};

/// Builds a running pipeline of `steps` over `width` slots. Pipelines of the same steps may be siblings.
pub(crate) fn build(
    steps: &[Step],
    width: usize,
    shared: &Arc<QueryContext>,
    siblings: &Arc<Siblings>,
) -> Pipeline {
    Pipeline::new(running(steps, width, shared, siblings), shared)
}

/// Starts the steps of a pipeline.
pub(crate) fn running(
    steps: &[Step],
    width: usize,
    shared: &Arc<QueryContext>,
    siblings: &Arc<Siblings>,
) -> Vec<Box<dyn RowSource>> {
    let running = steps.iter().map(|step| run(step, width, shared, siblings));
    running.collect()
}

/// Starts a step that joins with the matches of a triple pattern.
fn matches(
    step: &Step,
    pattern: &SlotPattern,
    access: &Access,
    source: Fed,
    shared: &Arc<QueryContext>,
    siblings: &Arc<Siblings>,
) -> Box<dyn RowSource> {
    let (live, context) = (Arc::clone(&step.live), Arc::clone(shared));
    let by_node = match access {
        Access::Scan(order) => return Box::new(scan(step, pattern, *order, source, shared)),
        Access::Cached(end, attribute) => {
            let expand = Expand::new(source, *pattern, *end, live, context);
            return Box::new(expand.once(step.once).with_attribute(*attribute));
        }
        Access::Merge(order) => {
            let merge = MergeScan::new(source, *pattern, *order, live, context);
            return Box::new(merge.once(step.once).counting(step.counts));
        }
        Access::Probe => ByNode::Probe(Probe::new(source, *pattern, live, context)),
        Access::Expand(end) => ByNode::Expand(expand(step, pattern, *end, source, shared)),
        Access::Hash(order) => {
            let end = keyed_end(pattern, *order);
            ByNode::Expand(expand(step, pattern, end, source, shared))
        }
    };
    let at_once = match access {
        Access::Hash(order) => Some(TableAfter {
            order: *order,
            nodes: 0,
            column: u64::MAX,
            waits: false,
        }),
        _ => None,
    };
    match (step.table.or(at_once), by_node) {
        (Some(table), by_node) if step.filters.is_empty() => {
            Box::new(link(step, pattern, by_node, &table, shared, siblings))
        }
        (_, ByNode::Expand(expand)) => expand,
        (_, ByNode::Probe(probe)) => Box::new(probe),
    }
}

/// Starts a join that begins node by node, and may change to a table.
fn link(
    step: &Step,
    pattern: &SlotPattern,
    by_node: ByNode,
    after: &TableAfter,
    shared: &Arc<QueryContext>,
    siblings: &Arc<Siblings>,
) -> Link {
    let mut after = *after;
    if step.begins_small {
        after.nodes = after.nodes.max(FIRST_ROWS as u64);
    }
    // A probe returns a solution once.
    let once = step.once || matches!(by_node, ByNode::Probe(_));
    let place = TablePlace {
        siblings: Arc::clone(siblings),
        pattern: *pattern,
        live: Arc::clone(&step.live),
        cost: step.cost,
        context: Arc::clone(shared),
    };
    let is_expected = matches!(step.kind, StepKind::Pattern(_, Access::Hash(_)));
    let link = Link::new(by_node, place, after).expecting_table(is_expected);
    link.once(once).counting(step.counts)
}

/// Starts a step that visits nodes.
fn expand(
    step: &Step,
    pattern: &SlotPattern,
    end: End,
    source: Fed,
    shared: &Arc<QueryContext>,
) -> Box<Expand> {
    let (live, context) = (Arc::clone(&step.live), Arc::clone(shared));
    let expand = Expand::new(source, *pattern, end, live, context);
    let expand = expand.once(step.once).counting(step.counts);
    Box::new(expand.with_filters(&step.filters))
}

/// Returns the end of a pattern by which its matches are sorted in this order.
fn keyed_end(pattern: &SlotPattern, order: Order) -> End {
    match pattern.subject.slot() == sorted_slot(pattern, order) {
        true => End::Subject,
        false => End::Object,
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

/// Starts a step that drops duplicates.
fn distinct(
    step: &Step,
    source: Fed,
    shared: &Arc<QueryContext>,
    siblings: &Siblings,
) -> Box<dyn RowSource> {
    let (live, context) = (Arc::clone(&step.live), Arc::clone(shared));
    let trial = siblings.trials.of_step(step.cost);
    Box::new(EarlyDistinct::new(source, live, trial, context))
}

/// Starts a step of a pipeline.
fn run(
    step: &Step,
    width: usize,
    shared: &Arc<QueryContext>,
    siblings: &Arc<Siblings>,
) -> Box<dyn RowSource> {
    let source = Fed::default();
    let context = Arc::clone(shared);
    let live: Arc<Slots> = Arc::clone(&step.live);
    let running: Box<dyn RowSource> = match &step.kind {
        StepKind::Pattern(pattern, access) => {
            matches(step, pattern, access, source, shared, siblings)
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
            Box::new(Optional::new(source, inner, width, live, context, siblings))
        }
        StepKind::EarlyDistinct => distinct(step, source, shared, siblings),
        StepKind::EarlyCount(slot) => Box::new(EarlyCount::new(source, *slot, live, context)),
        StepKind::Union(branches) => {
            Box::new(Union::new(source, branches, width, live, shared, siblings))
        }
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
