//! What planning and running may know of the store's numbers.
//!
//! A query that sees all graphs knows the store's own counts. One that does not must not learn from
//! an estimate, nor from the plan that follows from it, what is in the others: it counts the graphs it
//! sees, if they are few, and guesses otherwise.

use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKind};
use pythia_store::statistics::KindSet;
use pythia_store::{
    GraphFilter, PredicateStatistics, QuadPattern, Snapshot, Statistics, StoreError,
};
use rustc_hash::FxHashMap;

use super::visible::Visible;

/// With more graphs than this, patterns are not counted in each of them.
const GRAPHS_COUNTED_MAX: usize = 8;
/// Quads that a graph is guessed to have if there are too many graphs to know.
const GRAPH_QUADS: f64 = 1000.0;
/// How many of a predicate's quads are guessed to have the same subject, and the same object.
const QUADS_PER_SUBJECT: f64 = 1.5;
const QUADS_PER_OBJECT: f64 = 3.0;
/// How many predicates there are guessed to be.
const PREDICATES: f64 = 16.0;
/// How many quads are guessed to have a subject or an object that is a constant.
const QUADS_OF_SUBJECT: f64 = 16.0;
const QUADS_OF_OBJECT: f64 = 64.0;

/// The store's numbers as far as a query may know them.
#[derive(Clone, Copy)]
pub(crate) struct Counts<'a> {
    snapshot: &'a Snapshot,
    visible: Option<&'a Visible>,
}

/// Predicates that were counted before, for one query.
pub(super) type CountedPredicates = Mutex<FxHashMap<TermId, PredicateStatistics>>;

impl<'a> Counts<'a> {
    /// Those of all graphs, or of those that are visible.
    pub(crate) fn new(snapshot: &'a Snapshot, visible: Option<&'a Visible>) -> Self {
        Self { snapshot, visible }
    }

    /// The store's own statistics, if the query sees all of it.
    pub(crate) fn of_store(&self) -> Option<&'a Statistics> {
        match self.visible {
            None => Some(self.snapshot.statistics()),
            Some(_) => None,
        }
    }

    /// How many quads of one graph match; exact. Reads nothing for a graph without quads.
    pub(crate) fn exact(&self, pattern: &QuadPattern) -> Result<u64, StoreError> {
        if let GraphFilter::One(graph) = pattern.graph
            && self.snapshot.statistics().graphs.quads(graph) == Some(0)
        {
            return Ok(0);
        }
        self.snapshot.count(pattern)
    }

    /// Returns whether counts are guessed, as too many graphs are visible to be counted, and others are hidden.
    pub(crate) fn are_guessed(&self) -> bool {
        let graphs = |visible: &Visible| visible.among(GraphFilter::Any).len();
        self.visible
            .is_some_and(|visible| graphs(visible) > GRAPHS_COUNTED_MAX)
    }

    /// How many quads match in those of the pattern's graphs that the query sees. Where this is 0,
    /// there are none.
    pub(crate) fn expected(&self, pattern: &QuadPattern) -> Result<f64, StoreError> {
        let Some(visible) = self.visible else {
            return Ok(self.exact(pattern)? as f64);
        };
        let graphs = visible.among(pattern.graph);
        if graphs.len() > GRAPHS_COUNTED_MAX {
            return Ok(guess(pattern, self.visible_quads(&graphs)));
        }
        let ids = [pattern.subject, pattern.predicate, pattern.object];
        if ids
            .iter()
            .flatten()
            .any(|id| id.kind() == TermKind::Computed)
        {
            // No quad has a term that only the query has.
            return Ok(0.0);
        }
        let counts = graphs
            .into_iter()
            .map(|graph| self.exact(&QuadPattern { graph, ..*pattern }));
        Ok(counts.sum::<Result<u64, _>>()? as f64)
    }

    /// The counts of a predicate; `None` if no quad has it.
    pub(crate) fn predicate(
        &self,
        predicate: TermId,
    ) -> Result<Option<PredicateStatistics>, StoreError> {
        let Some(visible) = self.visible else {
            return Ok(self.snapshot.statistics().predicate(predicate).copied());
        };
        if let Some(known) = visible.counted.lock().get(&predicate) {
            return Ok((known.quads > 0).then_some(*known));
        }
        let quads = self.expected(&QuadPattern {
            predicate: Some(predicate),
            ..QuadPattern::default()
        })?;
        let guessed = guessed_predicate(predicate, quads as u64);
        visible.counted.lock().insert(predicate, guessed);
        Ok((guessed.quads > 0).then_some(guessed))
    }

    /// All quads, their distinct subjects and their distinct objects.
    pub(crate) fn all(&self) -> (f64, f64, f64) {
        if let Some(statistics) = self.of_store() {
            let Statistics {
                quads,
                subjects,
                objects,
                ..
            } = statistics;
            return (*quads as f64, *subjects as f64, *objects as f64);
        }
        let graphs = self.visible.map(|visible| visible.among(GraphFilter::Any));
        let quads = self.visible_quads(&graphs.unwrap_or_default());
        (quads, quads / QUADS_OF_SUBJECT, quads / QUADS_PER_OBJECT)
    }

    /// Distinct predicates.
    pub(crate) fn predicates(&self) -> f64 {
        self.of_store()
            .map_or(PREDICATES, |statistics| statistics.predicates.len() as f64)
    }

    /// Named graphs.
    pub(crate) fn named_graphs(&self) -> f64 {
        match self.visible {
            Some(Visible {
                named: Some(named), ..
            }) => named.len() as f64,
            _ => {
                let graphs = &self.snapshot.statistics().graphs.graphs;
                graphs.iter().filter(|(graph, _)| graph.is_bound()).count() as f64
            }
        }
    }

    fn visible_quads(&self, graphs: &[GraphFilter]) -> f64 {
        let statistics = &self.snapshot.statistics().graphs;
        let of_graph = |filter: &GraphFilter| match filter {
            GraphFilter::One(graph) => statistics.quads(*graph).map_or(GRAPH_QUADS, |n| n as f64),
            GraphFilter::Named | GraphFilter::Any => {
                let listed = statistics.graphs.iter();
                let listed = listed.filter(|(graph, _)| filter.accepts(*graph));
                (listed.map(|(_, quads)| quads).sum::<u64>() + statistics.unlisted_quads) as f64
            }
        };
        graphs.iter().map(of_graph).sum()
    }
}

/// How many of `all` quads a pattern is guessed to match.
fn guess(pattern: &QuadPattern, all: f64) -> f64 {
    let share = match pattern.predicate {
        Some(_) => 1.0 / PREDICATES,
        None => 1.0,
    };
    let found = match (pattern.subject, pattern.object) {
        (None, None) => all * share,
        (Some(_), None) => QUADS_OF_SUBJECT * share * 2.0,
        (None, Some(_)) => QUADS_OF_OBJECT * share * 2.0,
        (Some(_), Some(_)) => 1.0,
    };
    if all < 1.0 {
        0.0
    } else {
        found.clamp(1.0, all)
    }
}

/// What is not counted of a predicate is guessed; its ends may be of all kinds.
fn guessed_predicate(predicate: TermId, quads: u64) -> PredicateStatistics {
    PredicateStatistics {
        predicate,
        quads,
        triples: quads,
        subjects: (quads as f64 / QUADS_PER_SUBJECT).ceil() as u64,
        objects: (quads as f64 / QUADS_PER_OBJECT).ceil() as u64,
        objects_max: quads,
        subjects_max: quads,
        subject_kinds: KindSet(u128::MAX),
        object_kinds: KindSet(u128::MAX),
        distinct_exact: false,
    }
}
