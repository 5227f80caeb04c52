//! Cardinalities that planning and execution may use.
//!
//! A query that sees all graphs uses the store's own counts. A query that does not must not learn from an
//! estimate, or from a plan that depends on it, about hidden graphs. It counts quads in its visible graphs if
//! they are few, and guesses otherwise.
//!
//! A serializable transaction does not count what is asked here as read, because a plan may change its mind while the
//! answer stays the same. What decides about an answer is reported with [`Counts::depend_on`].

use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKind};
use pythia_store::statistics::KindSet;
use pythia_store::{
    Estimates, GraphFilter, PredicateStatistics, QuadPattern, Snapshot, Statistics, StoreError,
};
use rustc_hash::FxHashMap;

use super::visible::Visible;

/// Maximum number of visible graphs in which patterns are counted.
const GRAPHS_COUNTED_MAX: usize = 8;
/// Guessed number of quads of a graph if there are too many graphs.
const GRAPH_QUADS: f64 = 1000.0;
/// Guessed number of a predicate's quads with the same subject, and with the same object.
const QUADS_PER_SUBJECT: f64 = 1.5;
const QUADS_PER_OBJECT: f64 = 3.0;
/// Guessed number of predicates.
const PREDICATES: f64 = 16.0;
/// Guessed number of quads with a constant subject, and with a constant object.
const QUADS_OF_SUBJECT: f64 = 16.0;
const QUADS_OF_OBJECT: f64 = 64.0;

/// The store's counts, as far as a query may know them.
#[derive(Clone, Copy)]
pub struct Counts<'a> {
    snapshot: &'a Snapshot,
    visible: Option<&'a Visible>,
}

/// Cache of predicate counts for one query.
pub(super) type CountedPredicates = Mutex<FxHashMap<TermId, PredicateStatistics>>;

impl<'a> Counts<'a> {
    /// Creates counts over all graphs, or over the visible ones.
    pub fn new(snapshot: &'a Snapshot, visible: Option<&'a Visible>) -> Self {
        Self { snapshot, visible }
    }

    fn estimates(&self) -> Estimates<'a> {
        self.snapshot.estimates()
    }

    /// Records that the answer depends on which quads match a pattern, because a count of them became part of it.
    pub fn depend_on(&self, pattern: &QuadPattern) {
        self.snapshot.depend_on(pattern);
    }

    /// Returns the store's own statistics if the query sees the whole store.
    pub fn of_store(&self) -> Option<&'a Statistics> {
        match self.visible {
            None => Some(self.estimates().statistics()),
            Some(_) => None,
        }
    }

    /// Returns whether it is known that no two graphs have the same triple of a predicate, or of any predicate (`None`).
    pub fn has_distinct_triples(&self, predicate: Option<TermId>) -> bool {
        let Some(statistics) = self.of_store() else {
            return false;
        };
        match predicate {
            Some(predicate) => {
                let counts = statistics.predicate(predicate);
                counts.is_none_or(|counts| counts.triples == counts.quads)
                    && self.snapshot.changes_of(predicate) == 0
            }
            None => statistics.triples == statistics.quads && !self.snapshot.has_changes(),
        }
    }

    /// Returns the exact number of matching quads. Reads nothing for a graph without quads.
    pub fn exact(&self, pattern: &QuadPattern) -> Result<u64, StoreError> {
        if let GraphFilter::One(graph) = pattern.graph
            && self.estimates().statistics().graphs.quads(graph) == Some(0)
        {
            return Ok(0);
        }
        self.estimates().count(pattern)
    }

    /// Returns whether counts are guessed, because some graphs are hidden and too many are visible to be
    /// counted.
    pub fn are_guessed(&self) -> bool {
        let graphs = |visible: &Visible| visible.among(GraphFilter::Any).len();
        self.visible
            .is_some_and(|visible| graphs(visible) > GRAPHS_COUNTED_MAX)
    }

    /// Returns the estimated number of matching quads in the visible graphs of the pattern. 0 is exact.
    pub fn expected(&self, pattern: &QuadPattern) -> Result<f64, StoreError> {
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
            // No stored quad has a term that only the query has.
            return Ok(0.0);
        }
        let counts = graphs
            .into_iter()
            .map(|graph| self.exact(&QuadPattern { graph, ..*pattern }));
        Ok(counts.sum::<Result<u64, _>>()? as f64)
    }

    /// Returns a guess at the number of matching quads of the default graph or of all graphs, at least 1, where reading the
    /// exact number would cost as much as reading the quads. It is the exact number for other graphs, and if some are hidden.
    pub fn guessed(&self, pattern: &QuadPattern) -> Result<f64, StoreError> {
        let is_default = pattern.graph == GraphFilter::One(TermId::DEFAULT_GRAPH);
        if self.visible.is_some() || !(is_default || pattern.graph == GraphFilter::Any) {
            return self.expected(pattern);
        }
        let (quads, subjects, objects) = match pattern.predicate {
            Some(predicate) => match self.predicate(predicate)? {
                Some(found) => {
                    let PredicateStatistics {
                        quads,
                        subjects,
                        objects,
                        ..
                    } = found;
                    (quads as f64, subjects as f64, objects as f64)
                }
                None => return Ok(1.0),
            },
            None => self.all(),
        };
        let matching = match (pattern.subject, pattern.object) {
            (Some(_), Some(_)) => 1.0,
            (Some(_), None) => quads / subjects.max(1.0),
            (None, Some(_)) => quads / objects.max(1.0),
            (None, None) => return Ok(self.expected(pattern)?.max(1.0)),
        };
        Ok(matching.max(1.0))
    }

    /// Returns the counts of a predicate, or `None` if no quad has it.
    pub fn predicate(&self, predicate: TermId) -> Result<Option<PredicateStatistics>, StoreError> {
        let Some(visible) = self.visible else {
            return Ok(self.estimates().statistics().predicate(predicate).copied());
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

    /// Returns the number of quads, distinct subjects and distinct objects.
    pub fn all(&self) -> (f64, f64, f64) {
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

    /// Returns the number of distinct predicates.
    pub fn predicates(&self) -> f64 {
        self.of_store()
            .map_or(PREDICATES, |statistics| statistics.predicates.len() as f64)
    }

    /// Returns the number of named graphs.
    pub fn named_graphs(&self) -> f64 {
        match self.visible {
            Some(Visible {
                named: Some(named), ..
            }) => named.len() as f64,
            _ => {
                let graphs = &self.estimates().statistics().graphs.graphs;
                graphs.iter().filter(|(graph, _)| graph.is_bound()).count() as f64
            }
        }
    }

    fn visible_quads(&self, graphs: &[GraphFilter]) -> f64 {
        let statistics = &self.estimates().statistics().graphs;
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

/// Guesses how many of `all` quads match a pattern.
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

/// Guesses the statistics of a predicate from its number of quads. Its ends may be of all kinds.
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
