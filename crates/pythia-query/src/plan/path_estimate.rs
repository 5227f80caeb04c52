//! How much a path is expected to find, from the number of its first edges.

use pythia_rdf::TermId;
use pythia_store::{QuadPattern, Snapshot, StoreError};

use super::automaton::{Automaton, Edges, Transition};
use crate::exec::step::{PathEstimate, Position};

/// How many times as many nodes as its first step a path is expected to reach.
const GROWTH: f64 = 4.0;

/// The edges that a path can begin with.
#[derive(Default)]
struct FirstEdges {
    /// Distinct nodes they start at.
    starts: f64,
    /// Those of the node the path starts at.
    here: f64,
}

/// How much a path is expected to find between these ends. Reads at most a page for each first edge
/// of an end that is a constant.
pub(super) fn estimate(
    snapshot: &Snapshot,
    forward: &Automaton,
    backward: &Automaton,
    subject: Position,
    object: Position,
) -> Result<PathEstimate, StoreError> {
    let ahead = first_edges(snapshot, forward, subject)?;
    let back = first_edges(snapshot, backward, object)?;
    let empty = f64::from(u8::from(forward.accepts_empty()));
    Ok(PathEstimate {
        objects: (ahead.here * GROWTH).min(back.starts) + empty,
        subjects: (back.here * GROWTH).min(ahead.starts) + empty,
        all_subjects: ahead.starts + empty,
        all_objects: back.starts + empty,
    })
}

fn first_edges(
    snapshot: &Snapshot,
    automaton: &Automaton,
    start: Position,
) -> Result<FirstEdges, StoreError> {
    let mut edges = FirstEdges::default();
    for transition in &automaton.transitions[0] {
        let (all, starts) = counts(snapshot, transition);
        edges.starts += starts;
        edges.here += match start {
            Position::Constant(node) => snapshot.count(&first(transition, node))? as f64,
            _ => all / starts.max(1.0),
        };
    }
    Ok(edges)
}

/// The edges of a transition, and the nodes they start at.
fn counts(snapshot: &Snapshot, transition: &Transition) -> (f64, f64) {
    let statistics = snapshot.statistics();
    let (all, subjects, objects) = match &transition.edges {
        Edges::Predicate(predicate) => (statistics.predicate(*predicate))
            .map_or((0, 0, 0), |p| (p.quads, p.subjects, p.objects)),
        Edges::Except(_) => (statistics.quads, statistics.subjects, statistics.objects),
    };
    match transition.inverse {
        false => (all as f64, subjects as f64),
        true => (all as f64, objects as f64),
    }
}

/// The first edges from a node.
fn first(transition: &Transition, node: TermId) -> QuadPattern {
    let mut pattern = QuadPattern::default();
    if let Edges::Predicate(predicate) = transition.edges {
        pattern.predicate = Some(predicate);
    }
    match transition.inverse {
        false => pattern.subject = Some(node),
        true => pattern.object = Some(node),
    }
    pattern
}
