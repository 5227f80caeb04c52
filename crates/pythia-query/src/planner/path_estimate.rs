//! Estimates the number of nodes that a path reaches, from the number of its first edges.

use pythia_store::StoreError;

use pythia_exec::plan::automaton::Automaton;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::step::{PathEstimate, Position};

/// Expected number of nodes that a path reaches, as a multiple of the nodes after its first step.
const GROWTH: f64 = 4.0;

/// The edges that a path can begin with.
#[derive(Default)]
struct FirstEdges {
    /// Distinct nodes at which they start.
    starts: f64,
    /// Edges of the node at which the path starts.
    here: f64,
}

/// Estimates the nodes that a path reaches between these ends. Reads at most one page for each first edge of
/// a constant end.
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
    let (_, subjects, objects) = counts.all();
    Ok(PathEstimate {
        objects: (ahead.here * GROWTH).min(back.starts) + empty,
        subjects: (back.here * GROWTH).min(ahead.starts) + empty,
        all_subjects: ahead.starts + empty,
        all_objects: back.starts + empty,
        nodes: (subjects + objects) * empty,
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
