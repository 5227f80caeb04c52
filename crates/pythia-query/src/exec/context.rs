//! What every operator of a running query shares.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use datafusion_common::DataFusionError;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use oxrdf::{Term, TermRef};
use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, GraphFilter, Order, QuadPattern, Snapshot};

use super::profile::Profile;
use crate::error::QueryError;
use crate::expression::{EvaluationContext, TermResolver};

/// The state of one running query. Operators find it in their task context, so that plan nodes
/// themselves stay descriptions.
pub(crate) struct QueryContext {
    /// The graph as the query sees it.
    pub(crate) snapshot: Snapshot,
    /// Term table, clock and base IRI for expressions.
    pub(crate) evaluation: EvaluationContext,
    /// Set to stop the query.
    pub(crate) cancelled: Arc<AtomicBool>,
    /// When the query must stop.
    pub(crate) deadline: Option<Instant>,
    /// What the query's parts cost, if that is measured.
    pub(crate) profile: Option<Arc<Profile>>,
    memory: Mutex<MemoryReservation>,
}

impl QueryContext {
    /// The context of a query that takes its memory from `pool`.
    pub(crate) fn new(
        snapshot: Snapshot,
        evaluation: EvaluationContext,
        cancelled: Arc<AtomicBool>,
        deadline: Option<Instant>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Self {
        Self {
            snapshot,
            evaluation,
            cancelled,
            deadline,
            profile: None,
            memory: Mutex::new(MemoryConsumer::new("query").register(pool)),
        }
    }

    /// Measures what each part of the plan costs.
    pub(crate) fn with_profile(mut self, measure: bool) -> Self {
        self.profile = measure.then(Arc::default);
        self
    }

    /// An error once the query is cancelled or past its deadline. Operators ask once a batch.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(QueryError::Cancelled);
        }
        if self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
        {
            return Err(QueryError::Timeout);
        }
        Ok(())
    }

    /// Takes memory from the query's budget, held until the query ends.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), QueryError> {
        self.memory.lock().try_grow(bytes).map_err(QueryError::from)
    }

    /// Gives back memory taken with [`Self::reserve`] before the query's end.
    pub(crate) fn release(&self, bytes: usize) {
        self.memory.lock().shrink(bytes);
    }

    /// The ids of all named graphs, sorted. Known without reading unless there are very many.
    pub(crate) fn named_graphs(&self) -> Result<Vec<TermId>, QueryError> {
        let statistics = &self.snapshot.statistics().graphs;
        let mut graphs: Vec<TermId> = statistics.graphs.iter().map(|(graph, _)| *graph).collect();
        if !statistics.is_complete() {
            let pattern = QuadPattern {
                graph: GraphFilter::Named,
                ..QuadPattern::default()
            };
            let mut scan = self
                .snapshot
                .scan(&pattern, Order::Spo, &[Component::Graph])?;
            while let Some(found) = scan.next()? {
                self.check()?;
                graphs.extend(found.columns[0].iter().map(|graph| TermId(*graph)));
                graphs.sort_unstable();
                graphs.dedup();
            }
        }
        graphs.retain(|graph| graph.is_bound());
        Ok(graphs)
    }

    /// The context of the running query.
    pub(crate) fn of(task: &TaskContext) -> Result<Arc<Self>, DataFusionError> {
        task.session_config()
            .get_extension::<Self>()
            .ok_or_else(|| DataFusionError::Internal("task without a query context".to_owned()))
    }
}

/// The store's dictionary, for expressions.
impl TermResolver for Snapshot {
    fn resolve(&self, term: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
        Ok(Self::resolve(self, term)?)
    }

    fn decode(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        Ok(Self::decode(self, ids)?)
    }

    fn sorted_payloads(&self, _: TermKind) -> u64 {
        // All terms are in the base dictionary, whose ids are ranks.
        TermId::PAYLOAD_MAX
    }
}

impl fmt::Debug for QueryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryContext").finish_non_exhaustive()
    }
}
