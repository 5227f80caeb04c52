//! Paths that reachability labels can answer: `p+` and `p*` of one predicate, also inverted, in the
//! default graph, of a predicate that `pythia optimize --reachability` has labelled.

use pythia_rdf::TermId;
use pythia_store::{End, Snapshot};

use super::automaton::Edges;
use crate::error::QueryError;
use crate::exec::reachable::ReachableStep;
use crate::exec::step::{PathGraph, PathStep, Position};

/// How labels answer a path.
#[derive(Clone, Debug)]
pub(crate) struct Labelled {
    predicate: TermId,
    /// Whether the path goes against its edges.
    inverse: bool,
    reflexive: bool,
}

/// Notes in the path how labels answer it, if they can once both its ends are known, and how much
/// they say it finds from an end that is a constant. Reads at most two pages for each of those.
pub(super) fn look_up(path: &mut PathStep, snapshot: &Snapshot) -> Result<(), QueryError> {
    let Some(closure) = path.forward.as_closure() else {
        return Ok(());
    };
    let ([step], PathGraph::One(TermId::DEFAULT_GRAPH)) = (closure.steps, path.graph) else {
        return Ok(());
    };
    let Edges::Predicate(predicate) = step.edges else {
        return Ok(());
    };
    let Some(labels) = snapshot.reachability(predicate) else {
        return Ok(());
    };
    let (from, to) = match step.inverse {
        false => (End::Subject, End::Object),
        true => (End::Object, End::Subject),
    };
    let empty = f64::from(u8::from(closure.reflexive));
    let reached = |position: Position, end: End| match position {
        Position::Constant(term) => labels.reach(term, end),
        Position::Bound(_) | Position::New(_) => Ok(None),
    };
    if let Some(objects) = reached(path.subject, from)? {
        path.estimate.objects = objects as f64 + empty;
    }
    if let Some(subjects) = reached(path.object, to)? {
        path.estimate.subjects = subjects as f64 + empty;
    }
    path.labelled = Some(Labelled {
        predicate,
        inverse: step.inverse,
        reflexive: closure.reflexive,
    });
    Ok(())
}

impl Labelled {
    /// The step between two known ends.
    pub(crate) fn step(&self, path: &PathStep) -> ReachableStep {
        let (from, to) = match self.inverse {
            false => (path.subject, path.object),
            true => (path.object, path.subject),
        };
        ReachableStep {
            from,
            to,
            predicate: self.predicate,
            reflexive: self.reflexive,
            text: path.text.clone(),
        }
    }
}
