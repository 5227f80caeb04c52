//! Filters over the links of a node, applied before the links are joined with the solutions.
//!
//! `?person :livesIn ?city . ?city rdfs:label ?name FILTER(LANG(?name) = "en")`: many people live in one city, whose names
//! are many too. The names are read once for each city, and tested once. Tests that ranges of ids answer are left out.

use pythia_exec::expression::id_set::{all_of, always, intersection};
use pythia_exec::plan::expression::SlotExpression;
use pythia_exec::plan::step::{Access, Position, SlotPattern, Step, StepKind};
use pythia_rdf::TermKind;
use pythia_sparql::scope::{draws, has_exists};
use pythia_store::statistics::KindSet;
use pythia_store::{End, Order};
use spargebra::algebra::Expression;

/// Lets the steps that visit the tuples of nodes apply the filters that follow them, where these read only the node and what
/// the step binds.
pub(super) fn filter_links(steps: &mut Vec<Step>) {
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in std::mem::take(steps) {
        match &mut step.kind {
            StepKind::Optional(inner) => filter_links(inner),
            StepKind::Union(branches) => branches.iter_mut().for_each(filter_links),
            _ => {}
        }
        match (&step.kind, kept.last_mut()) {
            (StepKind::Filter(filter), Some(last)) if is_of_ranges(filter, last) => {}
            (StepKind::Filter(filter), Some(last)) if is_of_links(filter, last) => {
                last.filters.push(filter.clone());
                last.rows = step.rows;
            }
            _ => kept.push(step),
        }
    }
    *steps = kept;
}

/// Returns whether a filter tests kinds that all ids have in the ranges that a step reads.
fn is_of_ranges(filter: &SlotExpression, step: &Step) -> bool {
    let (StepKind::Ranges(pattern, order, ranges), [tested]) = (&step.kind, &filter.slots[..])
    else {
        return false;
    };
    let sorted = match order {
        Order::Pso => pattern.subject,
        Order::Pos => pattern.object,
        _ => return false,
    };
    let Expression::FunctionCall(function, arguments) = &filter.source.expression else {
        return false;
    };
    let is_there = |kind: &TermKind| !intersection(ranges, &[all_of(*kind)]).is_empty();
    let mut kinds = KindSet(u128::MAX).iter().filter(is_there);
    matches!(arguments[..], [Expression::Variable(_)])
        && sorted == Position::New(*tested)
        && kinds.all(|kind| always(true, function, KindSet(1 << kind as u32)))
}

/// Returns whether a filter can be applied to the links that a step reads.
fn is_of_links(filter: &SlotExpression, step: &Step) -> bool {
    let StepKind::Pattern(pattern, Access::Expand(end)) = &step.kind else {
        return false;
    };
    let SlotPattern {
        subject,
        predicate,
        object,
        ..
    } = *pattern;
    let (node, other) = match end {
        End::Subject => (subject, object),
        End::Object => (object, subject),
    };
    let expression = &filter.source.expression;
    let is_read = |slot: &usize| {
        node == Position::Bound(*slot) || [predicate, other].contains(&Position::New(*slot))
    };
    // A node that is a variable of the pattern twice is compared afterwards.
    !draws(expression)
        && !has_exists(expression)
        && node != other
        && filter.slots.iter().all(is_read)
}
