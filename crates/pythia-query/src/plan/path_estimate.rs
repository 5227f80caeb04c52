//! How much a path is expected to find, from the number of its first edges.

use pythia_store::StoreError;

use super::automaton::Automaton;
use super::counts::Counts;
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
    counts: Counts<'_>,
    forward: &Automaton,
    backward: &Automaton,
    subject: Position,
    object: Position,
) -> Result<PathEstimate, StoreError> {
    let ahead = first_edges(counts, forward, subject)?;
    let back = first_edges(counts, backward, object)?;
    let empty = f64::from(u8::from(forward.accepts_empty()));
    Ok(PathEstimate {
        objects: (ahead.here * GROWTH).min(back.starts) + empty,
        subjects: (back.here * GROWTH).min(ahead.starts) + empty,
        all_subjects: ahead.starts + empty,
        all_objects: back.starts + empty,
    })
}

fn first_edges(
    counts: Counts<'_>,
    automaton: &Automaton,
    start: Position,
) -> Result<FirstEdges, StoreError> {
    let mut edges = FirstEdges::default();
    for transition in &automaton.transitions[0] {
        let (all, starts) = transition.counts(counts)?;
        edges.starts += starts;
        edges.here += match start {
            Position::Constant(node) => counts.expected(&transition.edges_of(node))?,
            _ => all / starts.max(1.0),
        };
    }
    Ok(edges)
}
