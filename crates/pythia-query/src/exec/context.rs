//! State shared by all operators of a running query.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnv;
use oxrdf::{Term, TermRef};
use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, End, Order, QuadPattern, Snapshot};

use super::exists::ExistsState;
use super::profile::Profile;
use crate::engine::QueryOptions;
use crate::error::QueryError;
use crate::expression::{EvaluationContext, TermResolver};
use crate::governor::Governor;
use crate::plan::counts::Counts;
use crate::plan::dataset::Dataset;
use crate::plan::visible::{Visible, named_graphs};
use crate::service::ServiceHandler;

/// The state of one running query. Operators find it in their task context, so plan nodes hold no state.
pub(crate) struct QueryContext {
    /// The snapshot that the query reads.
    pub(crate) snapshot: Snapshot,
    /// Term table, clock and base IRI for expressions.
    pub(crate) evaluation: EvaluationContext,
    /// Sends requests to other endpoints.
    pub(crate) service: Option<Arc<dyn ServiceHandler>>,
    /// The query's dataset.
    pub(crate) dataset: Arc<Dataset>,
    /// Measured costs of the query's parts, if the query is profiled.
    pub(crate) profile: Option<Arc<Profile>>,
    governor: Arc<Governor>,
    /// State of the `EXISTS` tests between batches, by test number.
    exists: Mutex<HashMap<usize, ExistsState>>,
    runtime: Arc<RuntimeEnv>,
    config: SessionConfig,
}

impl QueryContext {
    /// Makes the context of a query with the limits of `evaluation`.
    pub(crate) fn new(
        snapshot: Snapshot,
        evaluation: EvaluationContext,
        dataset: Arc<Dataset>,
        options: &QueryOptions,
        runtime: &Arc<RuntimeEnv>,
        config: &SessionConfig,
    ) -> Arc<Self> {
        let context = Arc::new(Self {
            snapshot,
            governor: Arc::clone(evaluation.governor()),
            evaluation,
            service: options.service.clone(),
            dataset,
            profile: options.profile.then(Arc::default),
            exists: Mutex::default(),
            runtime: Arc::clone(runtime),
            config: config.clone(),
        });
        context.evaluation.attach(&context);
        context
    }

    /// Returns a task in which plans of this query run.
    pub(crate) fn task(self: &Arc<Self>) -> Arc<TaskContext> {
        let config = self.config.clone().with_extension(Arc::clone(self));
        let task = TaskContext::default().with_session_config(config);
        Arc::new(task.with_runtime(Arc::clone(&self.runtime)))
    }

    /// Takes the kept state of an `EXISTS` test.
    pub(crate) fn take_exists(&self, number: usize) -> ExistsState {
        self.exists.lock().remove(&number).unwrap_or_default()
    }

    /// Keeps the state of an `EXISTS` test for its next rows.
    pub(crate) fn put_exists(&self, number: usize, state: ExistsState) {
        self.exists.lock().insert(number, state);
    }

    /// Drops the tests with this number and higher ones, which belong to a plan that has run.
    pub(crate) fn drop_exists_from(&self, number: usize) {
        self.exists.lock().retain(|made, _| *made < number);
    }

    /// Returns the query's limits.
    pub(crate) fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// Errors once the query is cancelled or past its deadline. Operators check once per batch.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        self.governor.check()
    }

    /// Takes memory from the query's budget, held until the query ends.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), QueryError> {
        self.governor.reserve(bytes)
    }

    /// Returns the graphs that `GRAPH ?g` ranges over, sorted.
    pub(crate) fn dataset_graphs(&self) -> Result<Vec<TermId>, QueryError> {
        match &self.dataset.named {
            Some(named) => Ok(named.clone()),
            None => named_graphs(&self.snapshot, &self.governor),
        }
    }

    /// Returns the store's statistics, as far as the query may see them.
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts::new(&self.snapshot, self.dataset.visible.as_deref())
    }

    /// Returns the context of the running query.
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

    fn resolve_all(&self, terms: &[TermRef<'_>]) -> Result<Vec<Option<TermId>>, QueryError> {
        Ok(Self::resolve_all(self, terms)?)
    }

    fn decode(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        Ok(Self::decode(self, ids)?)
    }

    fn degrees(&self, end: End, ids: &[TermId]) -> Result<Vec<u64>, QueryError> {
        Ok(Self::degrees(self, end, ids)?)
    }

    fn sorted_payloads(&self, kind: TermKind) -> u64 {
        Self::sorted_payloads(self, kind)
    }
}

/// The store's dictionary, for a query that sees only some graphs. Terms of the other graphs are not
/// secret, since a query can make any term. Only degrees depend on quads.
pub(crate) struct VisibleTerms {
    snapshot: Snapshot,
    visible: Arc<Visible>,
    governor: Arc<Governor>,
}

impl VisibleTerms {
    pub(crate) fn new(
        snapshot: &Snapshot,
        visible: &Arc<Visible>,
        governor: &Arc<Governor>,
    ) -> Self {
        Self {
            governor: Arc::clone(governor),
            snapshot: snapshot.clone(),
            visible: Arc::clone(visible),
        }
    }

    /// Counts the visible quads with the term at an end.
    fn degree(&self, end: End, id: TermId) -> Result<u64, QueryError> {
        let mut pattern = QuadPattern::default();
        let order = match end {
            End::Subject => {
                pattern.subject = Some(id);
                Order::Spo
            }
            End::Object => {
                pattern.object = Some(id);
                Order::Ops
            }
        };
        let mut scan = self.snapshot.scan(&pattern, order, &[Component::Graph])?;
        let mut degree = 0;
        while let Some(found) = scan.next()? {
            self.governor.check()?;
            let graphs = found.columns[0].iter();
            degree += graphs
                .filter(|graph| self.visible.accepts(TermId(**graph)))
                .count() as u64;
        }
        Ok(degree)
    }
}

impl TermResolver for VisibleTerms {
    fn resolve(&self, term: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
        Ok(self.snapshot.resolve(term)?)
    }

    fn resolve_all(&self, terms: &[TermRef<'_>]) -> Result<Vec<Option<TermId>>, QueryError> {
        Ok(self.snapshot.resolve_all(terms)?)
    }

    fn decode(&self, ids: &[TermId]) -> Result<Vec<Term>, QueryError> {
        Ok(self.snapshot.decode(ids)?)
    }

    fn degrees(&self, end: End, ids: &[TermId]) -> Result<Vec<u64>, QueryError> {
        ids.iter().map(|id| self.degree(end, *id)).collect()
    }

    fn sorted_payloads(&self, kind: TermKind) -> u64 {
        self.snapshot.sorted_payloads(kind)
    }
}

impl fmt::Debug for QueryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryContext").finish_non_exhaustive()
    }
}
