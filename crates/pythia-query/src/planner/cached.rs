//! Cached attributes: joins the pattern of an edge and the pattern of an attribute of its other node in one
//! step, where `pythia optimize --cache-attribute` stores the attribute beside the edge. A closure of edges is joined
//! with an attribute of its end likewise: the last edge of each path has it.

use pythia_rdf::TermId;
use pythia_store::{End, GraphFilter, Snapshot};

use super::builder::Builder;
use super::element::{Element, PatternGraph, PatternTerm, Triple};
use super::join_method::JoinMethod;
use pythia_exec::plan::automaton::{Edges, Transition};
use pythia_exec::plan::step::{
    Access, EndAttribute, GraphPosition, PathGraph, PathStep, Position, SlotPattern, StepKind,
};

/// Two triple patterns of a group that can be joined in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedPair {
    /// Element of the edge.
    pub(super) edge: usize,
    /// Element of the attribute.
    pub(super) attribute: usize,
    /// End of the edge that must be bound.
    pub(super) end: End,
    /// Slot of the other end, which must be unbound.
    pub(super) neighbour: usize,
    /// Predicate of the attribute.
    pub(super) predicate: TermId,
}

/// Returns all such pairs among the first 64 elements of a group.
pub(super) fn pairs(elements: &[Element], snapshot: &Snapshot) -> Vec<CachedPair> {
    let in_one_graph = |element: &Element| match element {
        Element::Triple(triple) => predicate_in_default_graph(triple),
        Element::Path(_) | Element::Operand(_) => None,
    };
    let numbered = || elements.iter().enumerate().take(64);
    let mut pairs = Vec::new();
    for (attribute, element) in numbered() {
        let (Some(predicate), Element::Triple(of)) = (in_one_graph(element), element) else {
            continue;
        };
        let (Some(cached), PatternTerm::Slot(neighbour)) =
            (snapshot.estimates().attribute(predicate), of.subject)
        else {
            continue;
        };
        for (edge, element) in numbered().filter(|(edge, _)| *edge != attribute) {
            let (Some(along), Element::Triple(triple)) = (in_one_graph(element), element) else {
                continue;
            };
            let end = match (triple.subject, triple.object) {
                (subject, object) if subject == object => continue,
                (_, PatternTerm::Slot(slot)) if slot == neighbour => End::Subject,
                (PatternTerm::Slot(slot), _) if slot == neighbour => End::Object,
                _ => continue,
            };
            if cached.is_along(along) && of.object != of.subject {
                pairs.push(CachedPair {
                    edge,
                    attribute,
                    end,
                    neighbour,
                    predicate,
                });
            }
        }
    }
    pairs
}

/// Returns the predicate of a pattern if it is constant and the pattern is in the default graph.
fn predicate_in_default_graph(triple: &Triple) -> Option<TermId> {
    match (triple.predicate, triple.graph) {
        (
            PatternTerm::Constant(predicate),
            PatternGraph::Filter(GraphFilter::One(TermId::DEFAULT_GRAPH)),
        ) => Some(predicate),
        _ => None,
    }
}

/// Joins both patterns of a pair.
pub(super) fn push_cached(
    builder: &mut Builder,
    edge: &Triple,
    attribute: &Triple,
    method: &JoinMethod,
) {
    let pattern = cached_pattern(builder, edge, attribute);
    let access: Access = method.access.expect("the search says from which end");
    builder.push(StepKind::Pattern(pattern, access), method.rows);
    for (slot, distinct) in edge.slots().chain(attribute.slots()) {
        let here = builder.known.distinct.get(&slot).copied();
        let distinct = here.unwrap_or(f64::MAX).min(distinct).min(method.rows);
        builder.bind(slot, distinct);
    }
}

/// Returns the pattern of both patterns of a pair, after the steps so far.
pub(super) fn cached_pattern(builder: &Builder, edge: &Triple, attribute: &Triple) -> SlotPattern {
    let position = |place: PatternTerm| builder.position(place);
    let value = match position(attribute.object) {
        Position::Constant(id) => GraphPosition::Filter(GraphFilter::One(id)),
        Position::Bound(slot) => GraphPosition::Bound(slot),
        Position::New(slot) => GraphPosition::New(slot, GraphFilter::Named),
    };
    SlotPattern {
        subject: position(edge.subject),
        predicate: position(edge.predicate),
        object: position(edge.object),
        graph: value,
    }
}

/// Joins the last two steps if they are a closure of edges and lookups of an attribute of its end that is cached beside
/// these edges.
pub(super) fn join_with_path(builder: &mut Builder, snapshot: &Snapshot) {
    let [.., before, last] = &mut builder.steps[..] else {
        return;
    };
    let StepKind::Path(path) = &mut before.kind else {
        return;
    };
    let Some(attribute) = attribute_of_end(path, &last.kind, snapshot) else {
        return;
    };
    path.attribute = Some(attribute);
    before.rows = last.rows;
    builder.steps.pop();
}

/// Returns the attribute that a step looks up for the new end of a path, if it is cached beside the edges that lead there.
fn attribute_of_end(path: &PathStep, step: &StepKind, snapshot: &Snapshot) -> Option<EndAttribute> {
    let StepKind::Pattern(pattern, Access::Expand(End::Subject) | Access::Probe) = step else {
        return None;
    };
    let (
        Position::Bound(node),
        Position::Constant(predicate),
        GraphPosition::Filter(GraphFilter::One(TermId::DEFAULT_GRAPH)),
    ) = (pattern.subject, pattern.predicate, pattern.graph)
    else {
        return None;
    };
    let (end, closure) = path.closure_to_new_end()?;
    let cached = snapshot.estimates().attribute(predicate)?;
    let is_along = |step: &Transition| match step.edges {
        Edges::Predicate(predicate) => cached.is_along(predicate),
        Edges::Except(_) => false,
    };
    let is_its_end = end == node && pattern.object != Position::Bound(node);
    let is_plain = path.graph == PathGraph::One(TermId::DEFAULT_GRAPH)
        && path.counted.is_none()
        && path.attribute.is_none()
        // The empty path has no last edge.
        && !closure.reflexive;
    (is_its_end && is_plain && closure.steps.iter().all(is_along)).then_some(EndAttribute {
        predicate,
        value: pattern.object,
    })
}
