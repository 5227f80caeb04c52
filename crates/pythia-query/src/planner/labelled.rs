//! Paths that reachability labels can answer: `p+` and `p*`, also inverted, in the default graph, for a
//! predicate labelled by `pythia optimize --reachability`.

use pythia_rdf::TermId;
use pythia_store::{End, Snapshot};

use pythia_exec::error::QueryError;
use pythia_exec::plan::automaton::Edges;
use pythia_exec::plan::step::{Labelled, PathGraph, PathStep, Position};

/// Records in the path that labels can answer it once both ends are known, and the number of nodes that they
/// reach from a constant end. Reads at most two pages for each constant end.
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
    let Some(labels) = snapshot.estimates().reachability(predicate) else {
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
