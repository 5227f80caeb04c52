//! State shared by all operators of a running query.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use datafusion_common::DataFusionError;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnv;
use oxrdf::TermRef;
use parking_lot::Mutex;
use pythia_rdf::{TermId, TermKind};
use pythia_store::{Component, End, Order, QuadPattern, Snapshot};

use super::exists_tests::ExistsState;
use super::inside::Inside;
use super::profile::Profile;
use super::subquery::SubqueryPlanner;
use super::templates::Templates;
use crate::error::QueryError;
use crate::explain::{CostId, Explainer};
use crate::expression::{EvaluationContext, FoundTerm, TermReader, TermResolver};
use crate::limits::cores::Cores;
use crate::limits::governor::{Governor, Held};
use crate::plan::choices::Choices;
use crate::plan::counts::Counts;
use crate::plan::dataset::Dataset;
use crate::plan::visible::{Visible, named_graphs};
use crate::service::ServiceHandler;

/// The state of one running query. Operators find it in their task context, so plan nodes hold no state.
pub struct QueryContext {
    /// The snapshot that the query reads.
    pub snapshot: Snapshot,
    /// Term table, clock and base IRI for expressions.
    pub evaluation: EvaluationContext,
    /// Sends requests to other endpoints.
    pub service: Option<Arc<dyn ServiceHandler>>,
    /// The query's dataset.
    pub dataset: Arc<Dataset>,
    /// Plans patterns while the query runs.
    pub planner: Arc<dyn SubqueryPlanner>,
    /// The planner's choices, if the query will be explained.
    pub choices: Option<Arc<Choices>>,
    /// Measured costs of the query's parts, if the query is profiled.
    pub(super) profile: Option<Arc<Profile>>,
    governor: Arc<Governor>,
    /// States of the `EXISTS` tests between batches, by test number: one for each thread that tests.
    exists: Mutex<HashMap<usize, Vec<ExistsState>>>,
    /// The plans of the patterns of `LATERAL`.
    pub(super) templates: Templates,
    /// The plans of `EXISTS` and `GRAPH ?g` for EXPLAIN.
    pub(super) inside: Inside,
    resources: Resources,
}

/// Resources that the queries of an engine share.
#[derive(Clone, Debug)]
pub struct Resources {
    /// DataFusion's environment.
    pub runtime: Arc<RuntimeEnv>,
    /// DataFusion's settings.
    pub config: SessionConfig,
}

/// Records of a query for EXPLAIN.
#[derive(Default)]
pub struct Recorded {
    /// True to measure the query's parts.
    pub costs: bool,
    /// The planner's choices, if they are wanted.
    pub choices: Option<Arc<Choices>>,
}

impl QueryContext {
    /// Makes the context of a query with the limits and the client for endpoints of `evaluation`.
    pub fn new(
        snapshot: Snapshot,
        evaluation: EvaluationContext,
        dataset: Arc<Dataset>,
        planner: Arc<dyn SubqueryPlanner>,
        recorded: Recorded,
        resources: &Resources,
    ) -> Arc<Self> {
        let context = Arc::new(Self {
            snapshot,
            governor: Arc::clone(evaluation.governor()),
            service: evaluation.service().cloned(),
            evaluation,
            dataset,
            planner,
            profile: recorded.costs.then(Arc::default),
            choices: recorded.choices,
            exists: Mutex::default(),
            templates: Templates::default(),
            inside: Inside::default(),
            resources: resources.clone(),
        });
        let weak: Weak<Self> = Arc::downgrade(&context);
        context.evaluation.attach(weak);
        context
    }

    /// Returns a task in which plans of this query run.
    pub fn task(self: &Arc<Self>) -> Arc<TaskContext> {
        let config = self
            .resources
            .config
            .clone()
            .with_extension(Arc::clone(self));
        // A default task would make an environment of its own first.
        Arc::new(TaskContext::new(
            None,
            String::new(),
            config,
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            Arc::clone(&self.resources.runtime),
        ))
    }

    /// Removes all measurements, if the query is profiled.
    pub fn clear_profile(&self) {
        if let Some(profile) = &self.profile {
            profile.clear();
            self.templates.clear_runs();
            self.inside.clear_fed();
        }
    }

    /// Returns what describes plans of this query, with the measurements up to now.
    pub(super) fn explainer(&self) -> Explainer<'_> {
        let measured = self.profile.as_ref().map(|profile| profile.parts());
        Explainer::new(&self.evaluation, measured, self.dataset.visible.is_some())
    }

    /// Returns the running query that expressions are part of.
    pub(super) fn of_expressions(evaluation: &EvaluationContext) -> Result<Arc<Self>, QueryError> {
        let query = evaluation
            .query()
            .and_then(|query| query.downcast::<Self>().ok());
        query.ok_or_else(|| QueryError::Execution("EXISTS outside a running query".to_owned()))
    }

    /// Takes the kept state of an `EXISTS` test.
    pub(super) fn take_exists(&self, number: usize) -> ExistsState {
        let kept = self.exists.lock().get_mut(&number).and_then(Vec::pop);
        kept.unwrap_or_default()
    }

    /// Keeps the state of an `EXISTS` test for its next rows.
    pub(super) fn put_exists(&self, number: usize, state: ExistsState) {
        self.exists.lock().entry(number).or_default().push(state);
    }

    /// Drops the state of the tests with this number and higher ones, which belong to a plan that has run.
    pub(crate) fn drop_exists_from(&self, number: usize) {
        self.exists.lock().retain(|made, _| *made < number);
    }

    /// Drops what a plan that has run has made: tests and operators with these numbers and higher ones.
    pub(super) fn drop_from(&self, test: usize, operator: CostId) {
        self.drop_exists_from(test);
        self.inside.drop_tests_from(test);
        self.drop_plans_from(operator);
    }

    /// Drops the plans that operators with this number and higher ones have made.
    pub(super) fn drop_plans_from(&self, operator: CostId) {
        self.templates.drop_from(operator);
        self.inside.drop_graphs_from(operator);
    }

    /// Returns the cores that the query may use.
    pub(crate) fn cores(&self) -> &Arc<Cores> {
        self.governor.cores()
    }

    /// Returns the query's limits.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.governor
    }

    /// Errors once the query is cancelled or past its deadline. Operators check once per batch.
    pub fn check(&self) -> Result<(), QueryError> {
        self.governor.check()
    }

    /// Takes memory from the query's budget, held until the query ends.
    pub fn reserve(&self, bytes: usize) -> Result<(), QueryError> {
        self.governor.reserve(bytes)
    }

    /// Returns the graphs that `GRAPH ?g` ranges over, sorted, and charges them.
    pub fn dataset_graphs(&self, charged: &mut Held) -> Result<Vec<TermId>, QueryError> {
        match &self.dataset.named {
            Some(named) => Ok(named.clone()),
            None => named_graphs(&self.snapshot, charged),
        }
    }

    /// Returns whether `GRAPH ?g` ranges over a graph.
    pub fn is_dataset_graph(&self, graph: TermId) -> Result<bool, QueryError> {
        match &self.dataset.named {
            Some(named) => Ok(named.binary_search(&graph).is_ok()),
            None => Ok(graph != TermId::DEFAULT_GRAPH && self.snapshot.has_graph(graph)?),
        }
    }

    /// Returns the store's statistics, as far as the query may see them.
    pub fn counts(&self) -> Counts<'_> {
        Counts::new(&self.snapshot, self.dataset.visible.as_deref())
    }

    /// Returns the context of the running query.
    pub fn of(task: &TaskContext) -> Result<Arc<Self>, DataFusionError> {
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

    fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
        Ok(self.decode_parts(ids, |index, parts| f(index, FoundTerm::Parts(parts)))?)
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
pub struct VisibleTerms {
    snapshot: Snapshot,
    visible: Arc<Visible>,
    governor: Arc<Governor>,
}

impl VisibleTerms {
    /// Makes the dictionary of a query that sees these graphs.
    pub fn new(snapshot: &Snapshot, visible: &Arc<Visible>, governor: &Arc<Governor>) -> Self {
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

    fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
        self.snapshot.read(ids, f)
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
